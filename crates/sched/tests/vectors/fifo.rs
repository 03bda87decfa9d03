//! The runner of what is below tbf, proven on tbf's own queue of bytes.

use punctual_sched::queue::Queue;
use punctual_sched::{Instant, LinkConfig};

use crate::compare::{TOLERANCE, exactly};
use crate::device::{Tbf, below_tbf, root};
use crate::file::Vector;

#[test]
fn a_fifo_below_the_bucket_is_tbf() {
    for (name, limit, tbf) in [
        ("tbf-burst", "limit=204800b", Tbf::new(200_000_000, 20_480)),
        ("tbf-limit", "limit=30000b", Tbf::new(10_000_000, 3_000)),
        ("tbf-idle", "limit=100000b", Tbf::new(1_000_000, 4_000)),
    ] {
        let vector = Vector::read(name);
        let config = LinkConfig::parse(limit, name).unwrap();
        let mut queue = Queue::new(&config, 1, Instant::ZERO).unwrap();
        let run = below_tbf(&mut queue, tbf, &vector.rows);
        exactly(&vector, &run, TOLERANCE);
        assert_eq!(vector.counter("dropped"), run.dropped.len() as u64, "{name}");
    }
}

#[test]
fn an_unloaded_device_takes_packets_as_they_come() {
    let vector = Vector::read("fq-plain");
    let mut queue = Queue::new(&LinkConfig::default(), 1, Instant::ZERO).unwrap();
    let run = root(&mut queue, &vector.rows);
    exactly(&vector, &run, TOLERANCE);
}
