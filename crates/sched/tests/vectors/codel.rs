//! codel below tbf.

use punctual_sched::queue::{Discipline as _, Queue};
use punctual_sched::{DropReason, Instant, LinkConfig};

use crate::compare::{TOLERANCE, exactly};
use crate::device::{Tbf, below_tbf};
use crate::file::Vector;

#[test]
fn codel_decides_as_the_kernel_does() {
    for (name, words) in [
        ("codel", ""),
        ("codel-fast", "codel.target=2ms codel.interval=30ms"),
        ("codel-ecn", "codel.ecn=on"),
        ("codel-ce", "codel.ce_threshold=2ms"),
    ] {
        let vector = Vector::read(name);
        let words = format!("queue=codel codel.arithmetic=linux {words}");
        let config = LinkConfig::parse(&words, name).unwrap();
        let mut queue = Queue::new(&config, 1, Instant::ZERO).unwrap();
        let run = below_tbf(&mut queue, Tbf::new(10_000_000, 3_028), &vector.rows);
        exactly(&vector, &run, TOLERANCE);
        assert!(run.dropped.iter().all(|(_, reason)| *reason == DropReason::Congested), "{name}");
        assert_eq!(vector.counter("dropped"), run.dropped.len() as u64, "{name}");
        let ours = queue.statistics().to_string();
        let ours: Vec<_> = ours.lines().collect();
        assert_eq!(ours, vector.after[vector.after.len() - 2..], "{name}");
    }
}
