//! What a packet costs in the scheduler's core: through a [`Link`] and out again, beside two
//! yardsticks measured in turn with it: a ring buffer, which is the least that any queue costs, and
//! a `BTreeMap` ordered by due time, which is what a scheduler costs that sorts.
//!
//! `cargo bench -p punctual-sched --bench link -- [ROUNDS] [WORKLOAD]`. Single figures scatter on a
//! shared machine; the medians of the rounds and of their ratios are what counts. For instruction
//! counts, which hardly scatter, run one workload with few rounds under callgrind:
//! `valgrind --tool=callgrind --toggle-collect='*packet_by_packet*' target/release/deps/link-HASH 1 fifo`

use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;
use std::time::Instant as Stopwatch;

use punctual_sched::{DropReason, Duration, Instant, Link, LinkConfig, Output, Packet, Rate};

fn main() {
    // Cargo hands `--bench` on.
    let words: Vec<_> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let rounds = words.first().and_then(|word| word.parse().ok()).unwrap_or(ROUNDS);
    let wanted = words.get(1);
    println!("{rounds} rounds of {PACKETS} packets each, medians; ns per packet in and out");
    println!(
        "{:<12} {:>6} {:>8} {:>8} {:>8} {:>11} {:>11}",
        "workload", "held", "link", "ring", "btree", "link/ring", "link/btree"
    );
    for workload in WORKLOADS.iter().filter(|w| wanted.is_none_or(|wanted| w.name == wanted)) {
        measure(workload, rounds);
    }
}

/// A link and the steady state in which it is measured.
struct Workload {
    name: &'static str,
    /// Bit/s; [`Rate::UNLIMITED`] for none.
    rate: Rate,
    /// Packets in the queue.
    queued: u64,
    /// Packets in the delay line.
    travelling: u64,
}

impl Workload {
    fn held(&self) -> u64 {
        self.queued + self.travelling
    }

    /// Packets follow each other as fast as the rate carries them, else once a microsecond.
    fn spacing(&self) -> u64 {
        if self.rate == Rate::UNLIMITED { 1_000 } else { FRAME * 8 }
    }

    fn link(&self) -> Link {
        let config = LinkConfig {
            rate: self.rate,
            delay: Duration::from_nanos(self.travelling * self.spacing()),
            ..LinkConfig::default()
        };
        Link::new(&config, 1, Instant::ZERO).expect("the workloads are valid")
    }
}

fn measure(workload: &Workload, rounds: usize) {
    let mut link = LinkBench::new(workload);
    let mut ring = VecDeque::new();
    let mut tree = BTreeMap::new();
    for number in 0..workload.held() {
        ring.push_back(packet(number, number));
        tree.insert((number, number), packet(number, number));
    }
    let mut figures = [const { Vec::new() }; 3];
    let mut ratios = [const { Vec::new() }; 2];
    // One round more, to warm up.
    for round in 0..=rounds {
        let times = [
            time(|| link.packet_by_packet()),
            time(|| ring_packet_by_packet(&mut ring)),
            time(|| tree_packet_by_packet(&mut tree)),
        ];
        if round > 0 {
            figures.iter_mut().zip(times).for_each(|(all, time)| all.push(time));
            ratios[0].push(times[0] / times[1]);
            ratios[1].push(times[0] / times[2]);
        }
    }
    let [link, ring, tree] = figures.map(median);
    let [to_ring, to_tree] = ratios.map(median);
    println!(
        "{:<12} {:>6} {link:>8.1} {ring:>8.1} {tree:>8.1} {to_ring:>11.2} {to_tree:>11.2}",
        workload.name,
        workload.held()
    );
}

/// A link in a steady state: each packet that comes pushes one out.
struct LinkBench {
    link: Link,
    number: u64,
    now: u64,
    spacing: u64,
}

impl LinkBench {
    fn new(workload: &Workload) -> Self {
        let mut link = workload.link();
        (0..workload.queued).for_each(|number| link.arrive(packet(number, 0)));
        let mut bench = Self { link, number: workload.queued, now: 0, spacing: workload.spacing() };
        // Until the delay line is full as well.
        for _ in 0..=workload.travelling {
            bench.step();
        }
        assert_eq!(
            bench.link.snapshot().dropped,
            [0; DropReason::ALL.len()],
            "a steady state drops nothing"
        );
        bench
    }

    /// As the driver does for each packet that it reads and releases.
    #[inline]
    fn step(&mut self) -> Option<Output> {
        self.now += self.spacing;
        self.link.arrive(packet(self.number, self.now));
        self.number += 1;
        self.link.advance(Instant::from_nanos(self.now));
        black_box(self.link.next_event());
        self.link.poll()
    }

    #[inline(never)]
    fn packet_by_packet(&mut self) {
        for _ in 0..PACKETS {
            let output = self.step();
            assert!(matches!(black_box(&output), Some(Output::Depart { .. })));
        }
    }
}

#[inline(never)]
fn ring_packet_by_packet(ring: &mut VecDeque<Packet>) {
    for number in 0..u64::from(PACKETS) {
        ring.push_back(packet(black_box(number), number));
        black_box(&ring.pop_front());
    }
}

#[inline(never)]
fn tree_packet_by_packet(tree: &mut BTreeMap<(u64, u64), Packet>) {
    let last = tree.last_key_value().map_or(0, |((due, _), _)| *due);
    for number in last + 1..=last + u64::from(PACKETS) {
        tree.insert((number, number), packet(black_box(number), number));
        black_box(&tree.pop_first());
    }
}

fn packet(number: u64, arrival: u64) -> Packet {
    Packet::on_path(number, Instant::from_nanos(arrival), 1_500, 0)
}

#[expect(clippy::disallowed_methods, reason = "a stopwatch around code that sees no clock")]
fn time(work: impl FnOnce()) -> f64 {
    let start = Stopwatch::now();
    work();
    start.elapsed().as_secs_f64() * 1e9 / f64::from(PACKETS)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

const ROUNDS: usize = 301;
/// Less than a millisecond a round: shorter than a time slice, so that most rounds are whole even
/// where others want the processor too.
const PACKETS: u32 = 10_000;
/// A packet of 1500 bytes as the rate counts it.
const FRAME: u64 = 1_514;

const GIGABIT: Rate = match Rate::from_bps(1_000_000_000) {
    Some(rate) => rate,
    None => Rate::PAUSE,
};

const WORKLOADS: [Workload; 6] = [
    Workload { name: "pass", rate: Rate::UNLIMITED, queued: 0, travelling: 0 },
    Workload { name: "fifo", rate: GIGABIT, queued: 100, travelling: 0 },
    Workload { name: "fifo-deep", rate: GIGABIT, queued: 8_000, travelling: 0 },
    Workload { name: "delay", rate: Rate::UNLIMITED, queued: 0, travelling: 100 },
    Workload { name: "delay-long", rate: Rate::UNLIMITED, queued: 0, travelling: 10_000 },
    Workload { name: "both", rate: GIGABIT, queued: 100, travelling: 1_000 },
];
