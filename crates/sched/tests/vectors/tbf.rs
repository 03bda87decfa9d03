//! tbf as the root qdisc.

use punctual_sched::queue::{Discipline as _, Queue};
use punctual_sched::{Instant, LinkConfig};

use crate::compare::{TOLERANCE, exactly};
use crate::device::root;
use crate::file::Vector;

#[test]
fn tbf_decides_as_the_kernel_does() {
    for (name, words) in [
        ("tbf-burst", "rate=200mbit burst=20480b limit=204800b"),
        ("tbf-small", "rate=1mbit burst=1600b limit=20000b"),
        ("tbf-limit", "rate=10mbit burst=3000b limit=30000b"),
        ("tbf-idle", "rate=1mbit burst=4000b limit=100000b"),
        ("tbf-overhead", "rate=2mbit burst=2000b limit=40000b overhead=24 tbf.mpu=84b"),
        ("tbf-atm", "rate=2mbit burst=2000b limit=40000b overhead=10 tbf.linklayer=atm"),
    ] {
        compare(name, words, TOLERANCE);
    }
}

/// The bucket of the peakrate holds one packet, so whatever a wake-up is late is lost to it: here up
/// to 256 ns for each of the first dozen packets.
#[test]
fn with_a_peakrate_tbf_stays_within_three_microseconds_of_the_kernel() {
    let words = "rate=10mbit burst=10000b limit=200000b peakrate=20mbit tbf.mtu=1514b";
    compare("tbf-peak", words, 3_000);
}

fn compare(name: &'static str, words: &str, tolerance: u64) {
    let vector = Vector::read(name);
    let config = LinkConfig::parse(&format!("queue=tbf {words}"), name).unwrap();
    let mut queue = Queue::new(&config, 1, Instant::ZERO).unwrap();
    let run = root(&mut queue, &vector.rows);
    exactly(&vector, &run, tolerance);
    assert_eq!(vector.counter("dropped"), run.dropped.len() as u64, "{name}");
    let overlimits = [("overlimits", vector.counter("overlimits"))];
    assert_eq!(queue.statistics().counters(), overlimits, "{name}");
}
