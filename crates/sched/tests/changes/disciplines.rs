//! Parameters of each queue: what a change of one does to what is queued and to what comes. 1000
//! bytes take a millisecond at 8 Mbit/s without framing.

use crate::run::{Run, at, with};
use punctual_sched::queue::Statistics;
use punctual_sched::{DropReason, Ecn, Mark, Packet, TransmitTime};

fn flow(flow: u32) -> impl FnOnce(Packet) -> Packet {
    move |packet| Packet { flow, ..packet }
}

/// `count` packets alike.
fn arrive(run: &mut Run, us: u64, count: u64, made: impl Fn(Packet) -> Packet) {
    (0..count).for_each(|_| run.arrive(us, &made));
}

fn marked(run: &Run) -> Vec<u64> {
    let marks = run.marks().into_iter().filter(|(_, mark)| *mark != Mark::None);
    marks.map(|(handle, _)| handle).collect()
}

fn dropped(run: &Run) -> Vec<u64> {
    run.drops().into_iter().map(|(handle, _)| handle).collect()
}

fn counter(run: &Run, name: &str) -> u64 {
    let counters = run.link.snapshot().discipline.counters();
    counters.iter().find(|(known, _)| *known == name).unwrap().1
}

fn ecn(ecn: Ecn) -> impl Fn(Packet) -> Packet {
    move |packet| Packet { ecn, ..packet }
}

#[test]
fn codel_judges_by_its_new_target_from_the_next_packet_on() {
    let mut run = Run::new("rate=8mbit framing=0 queue=codel codel.interval=5ms codel.target=90ms");
    run.send(0, 40, 1_000).change(10_500, "codel.target=1ms").until(30_000);
    // Bad since the packet served at 11 ms, and for an interval at 16 ms.
    assert_eq!(dropped(&run)[0], 16);
}

#[test]
fn an_interval_of_codel_that_has_begun_keeps_its_length() {
    let mut run = Run::new("rate=8mbit framing=0 queue=codel codel.interval=10ms codel.target=1ms");
    run.send(0, 60, 1_000).change(5_500, "codel.interval=2ms").until(30_000);
    // Bad since 1 ms; drops at 11 ms and then 2 ms later.
    assert_eq!(dropped(&run)[..2], [11, 14]);
}

#[test]
fn codel_marks_or_drops_as_it_is_told_from_the_next_signal_on() {
    for (before, words, mark) in [("off", "codel.ecn=on", true), ("on", "codel.ecn=off", false)] {
        let mut run = Run::new(&format!(
            "rate=8mbit framing=0 queue=codel codel.interval=5ms codel.target=1ms \
             codel.ecn={before}"
        ));
        arrive(&mut run, 0, 20, ecn(Ecn::Ect0));
        run.change(500, words).until(7_500);
        let fate = (marked(&run).contains(&6), dropped(&run).contains(&6));
        assert_eq!(fate, (mark, !mark), "{words}");
    }
    let mut run = Run::new("rate=8mbit framing=0 queue=codel");
    arrive(&mut run, 0, 6, ecn(Ecn::Ect0));
    run.change(1_500, "codel.ce_threshold=3ms").end();
    assert_eq!(marked(&run), [4, 5], "what waited for more than 3 ms");
}

#[test]
fn flows_of_fq_codel_get_the_new_quantum_in_their_next_turn() {
    let order = |words: &str| {
        let mut run = Run::new("rate=8mbit framing=0 queue=fq_codel fq_codel.quantum=1000b");
        for hash in [0, u32::MAX] {
            (0..4).for_each(|_| run.arrive(0, flow(hash)));
        }
        if !words.is_empty() {
            run.change(500, words);
        }
        run.end();
        run.handles()
    };
    assert_eq!(order(""), [0, 4, 1, 5, 2, 6, 3, 7]);
    // The first turn of the second flow is given when it comes.
    assert_eq!(order("fq_codel.quantum=2000b"), [0, 4, 1, 2, 5, 6, 3, 7]);
}

#[test]
fn fq_codel_goes_by_its_new_target_interval_threshold_and_selector() {
    let start = "rate=8mbit framing=0 queue=fq_codel";
    let mut run = Run::new(&format!("{start} fq_codel.target=90ms fq_codel.interval=5ms"));
    run.send(0, 40, 1_000).change(10_500, "fq_codel.target=1ms").until(30_000);
    assert_eq!(dropped(&run)[0], 16);
    let mut run = Run::new(&format!("{start} fq_codel.target=1ms fq_codel.interval=5ms"));
    run.send(0, 40, 1_000).change(500, "fq_codel.interval=9ms").until(30_000);
    assert_eq!(dropped(&run)[0], 10);
    for (selector, expected) in [("0x00/0x00", vec![2, 3, 4, 5]), ("0x01/0x03", vec![2, 4])] {
        let mut run = Run::new(&format!("{start} fq_codel.ecn=off"));
        for _ in 0..3 {
            run.arrive(0, with(Ecn::Ect1));
            run.arrive(0, with(Ecn::Ect0));
        }
        let words = format!("fq_codel.ce_threshold=1ms fq_codel.ce_threshold_selector={selector}");
        run.change(1_500, &words).end();
        assert_eq!(marked(&run), expected, "{selector}");
    }
    let mut run = Run::new(&format!("{start} fq_codel.target=1ms fq_codel.interval=5ms"));
    arrive(&mut run, 0, 20, ecn(Ecn::Ect0));
    run.change(500, "fq_codel.ecn=off").until(7_500);
    assert_eq!((marked(&run), dropped(&run)), (vec![], vec![6]));
}

#[test]
fn memory_and_batch_of_fq_codel_are_limits_like_any() {
    // A packet of 1000 bytes costs 2304 of memory.
    let mut run = Run::new("rate=8mbit framing=0 queue=fq_codel");
    run.send(0, 9, 1_000).change(500, "fq_codel.drop_batch=1");
    run.change(500, "fq_codel.memory_limit=12000b");
    // 8 wait and 5 fit: one drop at a time, from the head.
    assert_eq!(run.drops(), [1, 2, 3].map(|handle| (handle, DropReason::MemoryLimit)));
    run.send(600, 1, 1_000);
    assert_eq!(dropped(&run), [1, 2, 3, 4]);
}

#[test]
fn the_controller_of_dualpi2_goes_on_with_new_gains_at_its_next_update() {
    let mut run = Run::new("rate=8mbit framing=0 queue=dualpi2 limit=1000p");
    run.change(0, "rate=0").send(0, 200, 1_000).until(16_000);
    let first = counter(&run, "prob");
    // 1 ms above the target, and 16 ms of growth: gains of 44 and 879 / 2^6.
    assert_eq!(first, (1_000_000 * 44 + 16_000_000 * 879) / 64);
    run.change(20_000, "dualpi2.target=22ms dualpi2.alpha=0.32 dualpi2.beta=6.4").until(32_000);
    // 10 ms above, and 16 ms more: 0.32 is 82 / 256, 6.4 is 1638 / 256.
    let gain = |raw: u64| raw * u64::from(u32::MAX) / 4 / 1_000_000_000;
    let (alpha, beta) = (gain(82), gain(1_638));
    let second = first + (10_000_000 * alpha + 16_000_000 * beta) / 64;
    assert_eq!(counter(&run, "prob"), second);
    // The update that is planned keeps its time, and the next ones are 4 ms apart.
    run.change(33_000, "dualpi2.tupdate=4ms").until(47_999);
    assert_eq!(counter(&run, "prob"), second);
    run.until(48_000);
    let third = second + (26_000_000 * alpha + 16_000_000 * beta) / 64;
    assert_eq!(counter(&run, "prob"), third);
    run.until(52_000);
    assert_eq!(counter(&run, "prob"), third + (30_000_000 * alpha + 4_000_000 * beta) / 64);
}

#[test]
fn round_trips_of_dualpi2_set_what_follows_from_them() {
    let mut run = Run::new("rate=8mbit queue=dualpi2");
    run.change(0, "dualpi2.max_rtt=60ms dualpi2.typical_rtt=12ms");
    let config = run.link.config().dualpi2;
    assert_eq!((config.target.as_nanos(), config.tupdate.as_nanos()), (12_000_000, 12_000_000));
    assert_eq!(run.try_change(0, "dualpi2.target=1ms"), Ok(false), "none of its own, then");
}

#[test]
fn the_step_of_dualpi2_is_that_of_the_moment_of_leaving_and_its_exemption_of_entering() {
    let start = "rate=8mbit framing=0 queue=dualpi2 dualpi2.step_thresh=";
    let mut run = Run::new(&format!("{start}1s"));
    arrive(&mut run, 0, 6, ecn(Ecn::Ect1));
    run.change(1_500, "dualpi2.step_thresh=3ms").end();
    assert_eq!(marked(&run), [4, 5]);
    let mut run = Run::new(&format!("{start}1ms"));
    arrive(&mut run, 0, 3, ecn(Ecn::Ect1));
    run.change(0, "dualpi2.min_qlen_step=9p");
    arrive(&mut run, 0, 3, ecn(Ecn::Ect1));
    run.end();
    assert_eq!(marked(&run), [2], "those after it are exempt, and 1 waited for just 1 ms");
    let mut run = Run::new(&format!("{start}1s"));
    arrive(&mut run, 0, 6, ecn(Ecn::Ect1));
    run.change(500, "dualpi2.step_thresh=2p").end();
    assert_eq!(marked(&run), [1, 2], "those that leave more than two behind");
}

#[test]
fn shares_and_coupling_of_dualpi2_hold_for_the_next_packet_served() {
    let start = "rate=8mbit framing=0 queue=dualpi2 dualpi2.step_thresh=1s";
    let order = |words: &str| {
        let mut run = Run::new(start);
        arrive(&mut run, 0, 4, ecn(Ecn::NotEct));
        arrive(&mut run, 0, 4, ecn(Ecn::Ect1));
        run.change(500, words).end();
        run.handles()
    };
    assert_eq!(order("dualpi2.classic_protection=1%"), [0, 4, 5, 6, 7, 1, 2, 3]);
    // The credit stays: it takes two packets until it is the classic queue's turn.
    assert_eq!(order("dualpi2.classic_protection=100%"), [0, 4, 5, 1, 2, 3, 6, 7]);
    // With a factor of 255 a probability of 0.4 % marks everything in L.
    let mut run = Run::new(&format!("{start} limit=1000p"));
    arrive(&mut run, 0, 99, ecn(Ecn::Ect1));
    run.until(20_500);
    let before = marked(&run).len();
    run.change(20_500, "dualpi2.coupling_factor=255 dualpi2.overload=overflow").until(30_500);
    // The one in service was judged before.
    assert_eq!((marked(&run).len() - before, run.drops()), (9, vec![]), "{before} before");
}

#[test]
fn where_dualpi2_decides_is_where_a_packet_passes_next() {
    let mut run = Run::new(
        "rate=8mbit framing=0 queue=dualpi2 dualpi2.step_thresh=1s limit=1000p \
         dualpi2.coupling_factor=255",
    );
    arrive(&mut run, 0, 60, ecn(Ecn::Ect1));
    // By now the probability marks all of L; those that wait have passed the place before.
    run.until(20_500);
    let before = marked(&run).len();
    run.change(20_500, "dualpi2.drop=enqueue");
    run.arrive(21_000, with(Ecn::Ect1));
    run.end();
    // The one in service was marked when it left the queue.
    assert_eq!(marked(&run)[before..], [20, 60]);
}

#[test]
fn another_classification_of_dualpi2_moves_what_waits_and_keeps_the_order() {
    let mut run = Run::new("rate=8mbit framing=0 queue=dualpi2 dualpi2.step_thresh=1s");
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::NotEct, Ecn::Ect0, Ecn::NotEct] {
        run.arrive(0, with(ecn));
    }
    run.change(500, "dualpi2.classify=any_ect");
    run.arrive(600, with(Ecn::Ect0));
    run.end();
    assert_eq!(run.handles(), [0, 1, 3, 5, 2, 4]);
}

#[test]
fn memory_of_dualpi2_is_a_limit_like_any_but_what_is_derived_drops_nothing() {
    let mut run = Run::new("rate=8mbit framing=0 queue=dualpi2 limit=20p");
    run.send(0, 11, 1_000).change(500, "dualpi2.memlimit=20000b");
    assert_eq!(run.drops(), [1, 2].map(|handle| (handle, DropReason::MemoryLimit)), "8 fit");
    // Derived, 2 x 20 full packets; with tiny ones, less than what waits.
    run.change(600, "dualpi2.memlimit=auto").change(700, "overhead=-1490");
    assert_eq!(run.drops().len(), 2);
}

#[test]
fn fq_holds_new_limits_against_what_comes() {
    let mut run = Run::new("rate=8mbit framing=0 queue=fq");
    run.send(0, 20, 1_000).change(0, "fq.flow_limit=5p").send(0, 1, 1_000);
    assert_eq!(run.drops(), [(20, DropReason::FlowLimit)]);
    run.change(0, "fq.flow_limit=50p").send(0, 1, 1_000).end();
    assert_eq!(run.dues().len(), 21);
}

#[test]
fn flows_of_fq_get_new_quanta_in_their_next_turn() {
    let order = |words: &str| {
        let mut run = Run::new(
            "rate=8mbit framing=0 queue=fq fq.quantum=1000 fq.initial_quantum=1000b \
             fq.orphan_mask=0xffffffff fq.maxrate=8gbit",
        );
        run.send(0, 1, 1_000);
        for number in [1, 2] {
            (0..4).for_each(|_| run.arrive(0, flow(number)));
        }
        if !words.is_empty() {
            run.change(500, words);
        }
        (0..2).for_each(|_| run.arrive(600, flow(3)));
        run.end();
        run.handles()
    };
    assert_eq!(order(""), [0, 1, 5, 9, 2, 6, 10, 3, 7, 4, 8]);
    assert_eq!(order("fq.quantum=2000"), [0, 1, 5, 9, 2, 3, 6, 7, 10, 4, 8]);
    let initial = order("fq.initial_quantum=2000b");
    assert_eq!(initial, [0, 1, 5, 9, 10, 2, 6, 3, 7, 4, 8], "for new flows");
}

#[test]
fn bands_of_fq_sort_what_comes_and_weights_hold_in_the_next_turn() {
    // Priority 6 of DSCP 4 is band 0, priority 0 is band 1. As under Linux a flow's first packet
    // puts it into the list of band 0.
    let with = |flow, dscp| move |packet| Packet { len: 16_384, flow, dscp, ..packet };
    let order = |words: &str| {
        let mut run =
            Run::new("rate=8mbit framing=0 queue=fq fq.maxrate=8gbit fq.weights=16384,16384,16384");
        for flow in [1, 2, 3] {
            run.arrive(0, with(flow, if flow == 1 { 0 } else { 4 }));
        }
        arrive(&mut run, 0, 3, with(7, 0));
        run.end();
        arrive(&mut run, 500_000, 5, with(1, 0));
        arrive(&mut run, 500_000, 5, with(2, 4));
        if !words.is_empty() {
            run.change(500_500, words);
        }
        arrive(&mut run, 500_600, 2, with(3, 4));
        run.end();
        run.handles()[6..].to_vec()
    };
    // The bands take turns packet by packet: 11 to 17 are of band 0.
    assert_eq!(order(""), [6, 11, 7, 16, 8, 12, 9, 17, 10, 13, 14, 15]);
    let three = order("fq.weights=49152,16384,16384");
    assert_eq!(three, [6, 11, 16, 12, 7, 17, 13, 14, 8, 15, 9, 10]);
    // 17 waits among the flows of band 1.
    let one_band = order("fq.priomap=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1");
    assert_eq!(one_band, [6, 11, 7, 16, 8, 12, 17, 13, 9, 14, 10, 15]);
}

#[test]
fn fq_paces_what_it_sends_from_then_on_and_a_flow_that_waits_keeps_its_time() {
    for (words, expected) in [
        ("fq.pacing=off", [100, 1_100, 1_200, 1_300]),
        ("fq.maxrate=4mbit", [100, 1_100, 3_100, 5_100]),
        ("fq.maxrate=0 fq.maxrate_zero=second", [100, 1_100, 1_001_100, 2_001_100]),
    ] {
        let mut run = Run::new(
            "rate=80mbit framing=0 queue=fq fq.maxrate=8mbit fq.quantum=1000 \
             fq.initial_quantum=1000b",
        );
        run.send(0, 4, 1_000).change(500, words).end();
        assert_eq!(run.dues(), expected, "{words}");
    }
}

#[test]
fn the_threshold_of_low_rates_holds_for_the_next_packet() {
    let times = |words: &str| {
        let mut run = Run::new("rate=80mbit framing=0 queue=fq fq.maxrate=8mbit fq.quantum=3000");
        run.send(0, 1, 1_000).change(0, words).send(0, 3, 1_000).end();
        run.dues()
    };
    assert_eq!(times("fq.low_rate_threshold=500kbit"), [100, 200, 300, 400]);
    assert_eq!(times("fq.low_rate_threshold=9mbit"), [100, 200, 1_200, 2_200]);
}

#[test]
fn a_flow_of_fq_that_comes_back_gets_a_quantum_after_the_delay_of_then() {
    let first_turn = |words: &str| {
        let mut run = Run::new(
            "rate=80mbit framing=0 queue=fq fq.quantum=3000 fq.initial_quantum=3000b \
             fq.orphan_mask=0xffffffff fq.maxrate=8gbit",
        );
        // Flows 1 and 2 spend 1000 of their 3000 bytes, and their turns end.
        run.send(0, 1, 1_000);
        for number in [1, 2] {
            run.arrive(0, flow(number));
        }
        run.end().send(1_000, 3, 1_000).end();
        run.change(5_000, words).send(10_000, 1, 1_000);
        for number in [1, 2] {
            (0..9).for_each(|_| run.arrive(10_000, flow(number)));
        }
        run.end();
        run.handles()[7..].iter().take_while(|handle| **handle < 16).count()
    };
    assert_eq!((first_turn("fq.refill_delay=41ms"), first_turn("fq.refill_delay=1ms")), (2, 3));
}

#[test]
fn fq_marks_and_wakes_and_looks_ahead_as_it_is_told_from_then_on() {
    let mut run = Run::new("rate=8mbit framing=0 queue=fq fq.maxrate=8gbit");
    arrive(&mut run, 0, 6, ecn(Ecn::Ect0));
    run.change(1_500, "fq.ce_threshold=3ms").end();
    assert_eq!(marked(&run), [4, 5]);
    let later = |us| move |packet| Packet { transmit: TransmitTime::new(at(us)), ..packet };
    let mut run = Run::new("queue=fq");
    run.arrive(0, later(5_000));
    run.change(1_000, "fq.wake=slack fq.timer_slack=1ms").end();
    assert_eq!(run.dues(), [6_000], "also a flow that waits already");
    run.change(10_000, "fq.horizon=2ms");
    run.arrive(10_000, later(13_000));
    run.change(10_000, "fq.horizon_mode=cap");
    run.arrive(10_000, later(13_000));
    run.change(10_000, "fq.wake=due").end();
    assert_eq!(run.drops(), [(1, DropReason::Horizon)]);
    assert_eq!(run.dues(), [6_000, 12_000]);
}

#[test]
fn fewer_buckets_of_fq_forget_idle_flows_at_once() {
    let mut run = Run::new("queue=fq fq.orphan_mask=0xffffffff fq.maxrate=8gbit");
    (0..5).for_each(|number| run.arrive(0, flow(number)));
    run.end();
    assert_eq!(counter(&run, "flows"), 5);
    run.change(1_000_000, "fq.buckets=1");
    assert_eq!(counter(&run, "flows"), 5, "not idle for long enough");
    run.change(4_000_000, "fq.buckets=2");
    assert_eq!(counter(&run, "flows"), 0);
}

#[test]
fn tbf_counts_what_waits_by_its_new_table() {
    let start = "rate=8mbit framing=0 queue=tbf burst=2000b limit=100kb";
    for (words, expected) in [
        ("tbf.mpu=1500b", [0, 0, 1_500]),
        ("overhead=200", [0, 0, 1_200]),
        // 21 cells of 53 bytes.
        ("tbf.linklayer=atm", [0, 0, 1_113]),
        ("tbf.refill=linux", [0, 0, 500]),
    ] {
        let mut run = Run::new(start);
        run.send(0, 3, 1_000).change(500, words).end();
        assert_eq!(run.dues(), expected, "{words}");
    }
    let mut run = Run::new(start);
    run.change(0, "peakrate=16mbit tbf.mtu=1000b").send(0, 3, 1_000).end();
    // The new bucket is empty: half a millisecond fills it. Tokens for two were there.
    assert_eq!(run.dues(), [500, 1_000, 1_500]);
    let peaked = "rate=8mbit framing=0 queue=tbf burst=3000b peakrate=16mbit tbf.mtu=3000b";
    let mut run = Run::new(peaked);
    run.change(0, "tbf.mtu=1000b").send(0, 3, 1_000).end();
    assert_eq!(run.dues(), [0, 500, 1_000], "no deeper than it is");
}

#[test]
fn jens_marks_by_its_new_ramp_from_the_next_packet_on() {
    let mut run = Run::new("rate=8mbit framing=0 queue=jens jens.markfree=90ms jens.markfull=90ms");
    arrive(&mut run, 0, 8, ecn(Ecn::Ect1));
    run.change(2_500, "jens.markfree=5ms jens.markfull=5ms").end();
    assert_eq!(marked(&run), [5, 6, 7]);
}

#[test]
fn extra_latency_of_jens_is_frozen_when_a_packet_arrives() {
    let mut run = Run::new("rate=8mbit framing=0 queue=jens jens.extralatency=5ms");
    run.send(0, 1, 1_000).change(1_000, "jens.extralatency=1ms").send(1_000, 1, 1_000);
    run.change(1_000, "jens.extralatency=20ms").send(1_000, 1, 1_000).end();
    assert_eq!(run.left(), [(0, 5_000), (1, 6_000), (2, 21_000)], "and none overtakes");
}

#[test]
fn another_mode_of_jens_moves_what_waits_and_keeps_the_order() {
    let mut run = Run::new("rate=8mbit framing=0 queue=jens");
    for ecn in [Ecn::NotEct, Ecn::NotEct, Ecn::Ect1, Ecn::NotEct, Ecn::Ect1] {
        run.arrive(0, with(ecn));
    }
    run.change(500, "jens.qosmode=2");
    run.arrive(600, with(Ecn::Ect1));
    run.end();
    assert_eq!(run.handles(), [0, 2, 4, 5, 1, 3]);
    let mut run = Run::new("rate=8mbit framing=0 queue=jens jens.qosmode=2");
    for (us, ecn) in [(0, Ecn::NotEct), (1, Ecn::NotEct), (2, Ecn::Ect1)] {
        run.arrive(us, with(ecn));
    }
    run.change(500, "jens.qosmode=1").end();
    assert_eq!(run.handles(), [0, 1, 2]);
}

#[test]
fn a_rate_of_jens_is_for_the_next_packet_and_the_gate_in_force_stays() {
    let mut run = Run::new("rate=8mbit framing=0 queue=jens");
    run.send(0, 3, 1_000).change(500, "rate=16mbit").end();
    assert_eq!(run.dues(), [0, 1_000, 1_500]);
}

#[test]
fn a_handover_of_jens_is_not_begun_again_by_a_later_change() {
    for later in ["rate=16mbit", "rate=16mbit overhead=0", "limit=50p", "jens.markfree=3ms"] {
        let mut run = Run::new("rate=8mbit framing=0 queue=jens");
        run.change(0, "jens.handover=30ms")
            .send(1_000, 1, 1_000)
            .change(2_000, later)
            .until(50_000);
        run.change(50_000, "rate=4mbit").send(50_000, 1, 1_000).end();
        assert_eq!(run.dues(), [30_000, 50_000], "{later}");
        let Statistics::Jens(jens) = run.link.snapshot().discipline else { panic!() };
        assert_eq!(jens.handovers, 1, "{later}");
    }
}

#[test]
fn the_end_of_a_handover_of_jens_is_told_while_a_packet_waits_for_it() {
    for link in ["jens.handover=30ms", "jens.handover=0ms,30ms"] {
        let mut run = Run::new(&format!("rate=8mbit framing=0 queue=jens {link}"));
        let due = |run: &Run| run.link.latest_due().map(|due| due.as_nanos() / 1_000);
        assert_eq!(due(&run), None);
        run.send(0, 2, 1_000).change(1_000, "jens.handover=5ms").change(1_000, "rate=9mbit");
        assert_eq!(due(&run), Some(30_000));
        run.change(2_000, "jens.handover=90ms");
        assert_eq!(due(&run), Some(92_000));
        run.end();
        assert_eq!((run.dues().len(), due(&run)), (2, None));
    }
}

#[test]
fn a_virtual_queue_of_jens_begins_with_the_next_packet() {
    let mut run = Run::new("rate=8mbit framing=0 queue=jens jens.markfree=1s jens.markfull=1s");
    run.send(0, 5, 1_000);
    run.change(500, "jens.vq=4 jens.markfree=2ms jens.markfull=2ms").end();
    // Served four times as fast from 1 ms on, where the virtual queue begins: 1, 2, 3, 4 ms.
    assert_eq!(run.dues(), [0, 1_000, 1_250, 1_500, 1_750]);
    assert_eq!(marked(&run), [2, 3, 4]);
    let refused = run.try_change(2_000, "jens.vq=1 jens.agebase=virtual");
    assert_eq!(refused, Err("jens.agebase: virtual needs jens.vq above 1".into()));
}

#[test]
fn ages_of_jens_go_by_the_base_of_then() {
    for (base, dropped) in [("now", 0), ("virtual", 1)] {
        let mut run = Run::new("rate=1mbit framing=0 queue=jens jens.vq=100");
        run.send(190_000, 50, 1_514).change(191_200, "rate=0");
        if base == "virtual" {
            run.change(192_000, "jens.agebase=virtual");
        }
        run.until(201_000);
        // Ten packets have taken 121 ms of the virtual queue by the check at 200 ms.
        assert_eq!(run.drops().len(), dropped, "{base}");
    }
}

#[test]
fn a_handover_of_jens_begins_at_the_change_and_a_plan_replaces_the_one_in_force() {
    let mut run = Run::new("rate=8mbit framing=0 queue=jens jens.handover=2ms,9ms");
    run.send(0, 2, 1_000).change(500, "jens.handover=3ms").until(1_900);
    run.change(1_900, "jens.handover=1ms,50ms,7ms,5ms").send(3_600, 9, 1_000).end();
    // The handover at 1 ms is past and does not begin; that at 7 ms does, after what left at 6.5.
    assert_eq!(run.dues()[..7], [0, 3_500, 4_500, 5_500, 6_500, 12_000, 13_000]);
    let mut run = Run::new("rate=8mbit framing=0 queue=jens jens.handover=2ms,9ms");
    run.change(1_000, "jens.handover=none").send(2_500, 1, 1_000).end();
    assert_eq!(run.dues(), [2_500]);
}

#[test]
fn no_packet_of_fq_overtakes_those_of_its_flow_that_still_wait_for_an_old_maxrate() {
    let mut run = Run::new(
        "rate=80mbit framing=0 queue=fq fq.maxrate=8mbit fq.quantum=1000 \
         fq.initial_quantum=1000b",
    );
    run.send(0, 2, 1_000).change(500, "fq.maxrate=unlimited").send(500, 1, 1_000).end();
    assert_eq!(run.left(), [(0, 100), (1, 1_100), (2, 1_200)]);
}
