//! `fq`, at the root and below tbf.

use punctual_sched::queue::{Discipline, Queue, Statistics};
use punctual_sched::{Instant, LinkConfig};

use crate::compare::{TOLERANCE, exactly};
use crate::device::{Run, Tbf, below_tbf, root};
use crate::file::Vector;

#[test]
fn at_the_root_fq_decides_as_the_kernel() {
    for (name, parameters) in [
        ("fq-plain", ""),
        ("fq-maxrate", "fq.maxrate=10mbit"),
        ("fq-maxrate3", "fq.maxrate=10mbit"),
        ("fq-maxrate-low", "fq.maxrate=400kbit"),
        ("fq-lowthreshold", "fq.maxrate=500kbit fq.low_rate_threshold=100kbit"),
        ("fq-flowlimit", "fq.maxrate=1mbit fq.flow_limit=50"),
        ("fq-initial", "fq.maxrate=20mbit fq.initial_quantum=3028"),
        ("fq-quantum", "fq.maxrate=20mbit fq.quantum=1514 fq.initial_quantum=1514"),
    ] {
        compare(name, parameters, root);
    }
}

#[test]
fn below_tbf_fq_decides_as_the_kernel() {
    for (name, parameters) in [
        ("fq-bulk", ""),
        ("fq-newflow", ""),
        ("fq-prio", ""),
        ("fq-prio-mix", ""),
        ("fq-weights", "fq.weights=65536,131072,65536"),
        ("fq-smallquantum", "fq.quantum=400 fq.initial_quantum=800"),
        ("fq-ce", "fq.ce_threshold=3ms"),
    ] {
        compare(name, parameters, |queue, rows| {
            below_tbf(queue, Tbf::new(10_000_000, 3_028), rows)
        });
    }
}

/// Fates, marks, order and what `tc -s qdisc` printed.
fn compare(
    name: &'static str,
    parameters: &str,
    run: impl FnOnce(&mut Queue, &[crate::file::Row]) -> Run,
) {
    let vector = Vector::read(name);
    let text = format!("queue=fq fq.wake=slack {parameters}");
    let config = LinkConfig::parse(&text, name).unwrap();
    let mut queue = Queue::new(&config, 1, Instant::ZERO).unwrap();
    let run = run(&mut queue, &vector.rows);
    exactly(&vector, &run, TOLERANCE);
    assert_eq!(vector.counter("dropped"), run.dropped.len() as u64, "{name}");
    let Statistics::Fq(statistics) = queue.statistics() else { panic!("not fq") };
    let ours = statistics.to_string();
    let theirs = vector.after[vector.after.len() - 2..].join("\n");
    let (ours, theirs) = (words(&ours), words(&theirs));
    assert_eq!(ours.0, theirs.0, "{name}");
    // An average of differences between a time of ours and an arrival, which is known to 256 ns.
    assert!((ours.1 - theirs.1).abs() <= 0.256, "{name}: latency {} and {}", ours.1, theirs.1);
}

/// What tc printed but for `latency`, which is given apart in microseconds.
fn words(text: &str) -> (Vec<&str>, f64) {
    let mut words: Vec<_> = text.split_whitespace().collect();
    let Some(place) = words.iter().position(|word| *word == "latency") else {
        return (words, 0.0);
    };
    let latency = words.remove(place + 1);
    words.remove(place);
    (words, latency.strip_suffix("us").unwrap().parse().unwrap())
}
