//! The first line of a queue's text against what `tc` printed of the kernel's.

use std::collections::BTreeSet;

use punctual_sched::queue::show;
use punctual_sched::{Instant, Link, LinkConfig};

use crate::file::Vector;

/// Each recording but those of `jens`, for which `tc` has no words, and its configuration.
const RECORDINGS: &[(&str, &str)] = &[
    ("codel", "queue=codel"),
    ("codel-ce", "queue=codel codel.ce_threshold=2ms"),
    ("codel-ecn", "queue=codel codel.ecn=on"),
    ("codel-fast", "queue=codel codel.target=2ms codel.interval=30ms"),
    ("dualpi2-classic", "queue=dualpi2"),
    ("dualpi2-l4s", "queue=dualpi2"),
    ("dualpi2-step", "queue=dualpi2"),
    ("dualpi2-step-packets", "queue=dualpi2 dualpi2.step_thresh=5p"),
    ("fq-bulk", "queue=fq"),
    ("fq-ce", "queue=fq fq.ce_threshold=3ms"),
    ("fq-flowlimit", "queue=fq fq.maxrate=1mbit fq.flow_limit=50p"),
    ("fq-initial", "queue=fq fq.maxrate=20mbit fq.initial_quantum=3028b"),
    ("fq-lowthreshold", "queue=fq fq.maxrate=500kbit fq.low_rate_threshold=100kbit"),
    ("fq-maxrate", "queue=fq fq.maxrate=10mbit"),
    ("fq-maxrate-low", "queue=fq fq.maxrate=400kbit"),
    ("fq-maxrate3", "queue=fq fq.maxrate=10mbit"),
    ("fq-newflow", "queue=fq"),
    ("fq-plain", "queue=fq"),
    ("fq-prio", "queue=fq"),
    ("fq-prio-mix", "queue=fq"),
    ("fq-quantum", "queue=fq fq.maxrate=20mbit fq.quantum=1514b fq.initial_quantum=1514b"),
    ("fq-smallquantum", "queue=fq fq.quantum=400b fq.initial_quantum=800b"),
    ("fq-weights", "queue=fq fq.weights=65536,131072,65536"),
    ("fq_codel", "queue=fq_codel"),
    ("fq_codel-ce", "queue=fq_codel fq_codel.ce_threshold=3ms"),
    ("fq_codel-limit", "queue=fq_codel limit=60p"),
    ("fq_codel-noecn", "queue=fq_codel fq_codel.ecn=off fq_codel.quantum=300b"),
    (
        "netem-all",
        "impair=netem delay=5ms jitter=1ms loss=3% duplicate=2% reorder=10% rate=20mbit \
         netem.seed=42",
    ),
    ("netem-delay", "impair=netem delay=10ms netem.seed=15783040792022339926"),
    ("netem-delayrate", "impair=netem delay=5ms rate=10mbit netem.seed=12750935445512550907"),
    ("netem-duplicate", "impair=netem duplicate=10% netem.seed=42"),
    ("netem-gemodel", "impair=netem loss=gemodel,2%,20%,70%,0.5% netem.seed=42"),
    ("netem-jitter", "impair=netem delay=10ms jitter=2ms netem.seed=42"),
    ("netem-jitter-corr", "impair=netem delay=10ms jitter=2ms,50% netem.seed=42"),
    ("netem-limit", "impair=netem delay=20ms netem.limit=100p netem.seed=16874490785772045973"),
    ("netem-loss", "impair=netem loss=10% netem.seed=42"),
    ("netem-loss-corr", "impair=netem loss=20%,25% netem.seed=42"),
    ("netem-normal", "impair=netem delay=10ms jitter=2ms distribution=normal netem.seed=42"),
    ("netem-pareto", "impair=netem delay=10ms jitter=2ms distribution=pareto netem.seed=42"),
    ("netem-rate", "impair=netem rate=10mbit netem.seed=13634519345790706046"),
    (
        "netem-ratecell",
        "impair=netem rate=1mbit netem.packet_overhead=20 netem.cell_size=48 \
         netem.cell_overhead=5 netem.seed=14222825963436200905",
    ),
    ("netem-reorder", "impair=netem delay=10ms reorder=25% netem.seed=42"),
    (
        "netem-reorder-gap",
        "impair=netem delay=10ms reorder=100%,gap=5 netem.seed=4809120817242999468",
    ),
    ("netem-state", "impair=netem loss=state,3%,30%,50%,50%,1% netem.seed=42"),
    ("tbf-atm", "queue=tbf rate=2mbit burst=2000b limit=40000b overhead=10 tbf.linklayer=atm"),
    ("tbf-burst", "queue=tbf rate=200mbit burst=20480b limit=204800b"),
    ("tbf-idle", "queue=tbf rate=1mbit burst=4000b limit=100000b"),
    ("tbf-limit", "queue=tbf rate=10mbit burst=3000b limit=30000b"),
    ("tbf-overhead", "queue=tbf rate=2mbit burst=2000b limit=40000b overhead=24 tbf.mpu=84b"),
    ("tbf-peak", "queue=tbf rate=10mbit burst=10000b limit=200000b peakrate=20mbit tbf.mtu=1514b"),
    ("tbf-small", "queue=tbf rate=1mbit burst=1600b limit=20000b"),
];

fn first_line(words: &str) -> String {
    let config = LinkConfig::parse(words, "test").unwrap();
    let link = Link::new(&config, 1, Instant::ZERO).unwrap();
    show(&config, &link.snapshot()).lines().next().unwrap().to_owned()
}

/// The line of the qdisc that was recorded without its handle, where it hangs, and the horizon for
/// network cards that hold packets themselves.
fn tcs_line(vector: &Vector) -> String {
    let line = vector.after.iter().rfind(|line| line.starts_with("qdisc ")).unwrap();
    let words: Vec<_> = line.split(' ').collect();
    let [qdisc, kind, _handle, place, which, rest @ ..] = &words[..] else {
        panic!("no qdisc: {line}")
    };
    // `root refcnt 2` or `parent 1:1`.
    let rest = if (*place, *which) == ("root", "refcnt") { &rest[1..] } else { rest };
    let line = [&[*qdisc, *kind, "root"], rest].concat().join(" ");
    line.trim_end_matches(" offload_horizon 0us").to_owned()
}

#[test]
fn a_queues_first_line_is_the_one_of_tc() {
    for &(name, words) in RECORDINGS {
        assert_eq!(first_line(words), tcs_line(&Vector::read(name)), "{name}");
    }
}

#[test]
fn no_recording_is_left_out() {
    let listed: BTreeSet<_> = RECORDINGS.iter().map(|(name, _)| format!("{name}.txt")).collect();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/data");
    let files = std::fs::read_dir(data).unwrap().map(|file| file.unwrap().file_name());
    let files = files.map(|name| name.into_string().unwrap());
    let recorded: BTreeSet<_> = files.filter(|name| name.strip_suffix(".txt").is_some()).collect();
    assert_eq!(listed, recorded);
}

#[test]
fn what_tc_has_no_word_for_is_told_last_and_only_when_it_is_not_the_default() {
    for (words, end) in [
        ("queue=codel codel.arithmetic=linux", "interval 100ms arithmetic linux"),
        ("queue=fq_codel fq_codel.arithmetic=linux", "drop_batch 64 arithmetic linux"),
        (
            "queue=fq fq.wake=slack fq.maxrate=0 fq.maxrate_zero=second",
            "horizon_drop wake slack maxrate_zero second",
        ),
        (
            "queue=tbf rate=10mbit burst=10kb limit=50ms tbf.refill=linux",
            "rate 10Mbit burst 10Kb/1 mpu 0b lat 50ms linklayer ethernet refill linux",
        ),
    ] {
        let line = first_line(words);
        assert!(line.ends_with(end), "{line}");
    }
}

#[test]
fn every_parameter_that_tc_shows_is_told() {
    for (words, expected) in [
        ("rate=8mbit limit=20kb", "fifo root limit 20Kb"),
        ("", "fifo root"),
        (
            "impair=netem delay=5ms jitter=1ms loss=3%,1% duplicate=2%,5% reorder=10%,7%,gap=3 \
             corrupt=1%,2% rate=20mbit slot=1ms,2ms,packets=3,bytes=4000 ecn=on netem.seed=42",
            "netem root limit 1000 delay 5ms  1ms loss 3% 1% duplicate 2% 5% reorder 10% 7% \
             corrupt 1% 2% rate 20Mbit slot 1ms 2ms packets 3 bytes 4000 ecn seed 42 gap 3",
        ),
        (
            "queue=fq_codel fq_codel.ce_threshold=1ms fq_codel.ce_threshold_selector=0x01/0x03",
            "fq_codel root limit 10240p flows 1024 quantum 1514 target 5ms ce_threshold 1ms \
             ce_threshold_selector 0x1/0x3 interval 100ms memory_limit 32Mb ecn drop_batch 64",
        ),
        (
            "queue=dualpi2 dualpi2.overload=overflow dualpi2.drop=enqueue \
             dualpi2.classify=any_ect dualpi2.memlimit=1mb limit=100p",
            "dualpi2 root limit 100p memlimit 1048576B target 15ms tupdate 16ms alpha 0.156250 \
             beta 3.195312 step_thresh 1ms min_qlen_step 0p coupling_factor 2 overflow \
             drop_enqueue classic_protection 10% any_ect split_gso",
        ),
        (
            "queue=fq fq.pacing=off fq.horizon_mode=cap",
            "fq root limit 10000p flow_limit 100p buckets 1024 orphan_mask 1023 nopacing bands 3 \
             priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1 weights 589824 196608 65536 quantum 3028b \
             initial_quantum 15140b low_rate_threshold 550Kbit refill_delay 40ms timer_slack 10us \
             horizon 10s horizon_cap",
        ),
    ] {
        assert_eq!(first_line(words), format!("qdisc {expected}"), "{words}");
    }
}

#[test]
fn a_seed_that_nobody_gave_is_told() {
    let line = first_line("impair=netem delay=1ms");
    let seed = line.strip_prefix("qdisc netem root limit 1000 delay 1ms seed ").unwrap();
    assert_ne!(seed.parse::<u64>().unwrap(), 0);
    assert_eq!(line, first_line("impair=netem delay=1ms"));
}
