//! fq_codel below tbf.

use punctual_sched::queue::{Discipline as _, Queue};
use punctual_sched::{DropReason, Instant, LinkConfig};

use crate::compare::{TOLERANCE, exactly};
use crate::device::{Tbf, below_tbf};
use crate::file::Vector;

#[test]
fn fq_codel_decides_as_the_kernel_does() {
    for (name, words) in [
        ("fq_codel", ""),
        ("fq_codel-noecn", "fq_codel.ecn=off fq_codel.quantum=300b"),
        ("fq_codel-ce", "fq_codel.ce_threshold=3ms"),
        ("fq_codel-limit", "limit=60p"),
    ] {
        let mut vector = Vector::read(name);
        // The kernel hashes with a secret key; no two of these flows shared a bucket.
        for row in &mut vector.rows {
            row.flow <<= 24;
        }
        let words = format!("queue=fq_codel fq_codel.arithmetic=linux {words}");
        let config = LinkConfig::parse(&words, name).unwrap();
        let mut queue = Queue::new(&config, 1, Instant::ZERO).unwrap();
        let run = below_tbf(&mut queue, Tbf::new(10_000_000, 3_028), &vector.rows);
        exactly(&vector, &run, TOLERANCE);
        assert_eq!(vector.counter("dropped"), run.dropped.len() as u64, "{name}");
        let full = run.dropped.iter().filter(|(_, reason)| *reason == DropReason::Limit).count();
        assert_eq!(vector.counter("drop_overlimit"), full as u64, "{name}");
        let ours = queue.statistics().to_string();
        let ours: Vec<_> = ours.lines().collect();
        assert_eq!(ours, vector.after[vector.after.len() - 2..], "{name}");
    }
}
