//! What a packet costs in `fq`, enqueued and dequeued, beside three yardsticks that do the same
//! job in turn with it: `fq` itself with its throttled flows in a `BTreeMap`; a ring buffer, which
//! is the least that any queue costs; and a `BTreeMap` of packets by time, which is what a scheduler
//! costs that sorts and knows no flows.
//!
//! `cargo bench -p punctual-sched --bench fq -- [ROUNDS] [WORKLOAD]`. Medians of the rounds and of
//! their ratios. For instruction counts, which hardly scatter:
//! `valgrind --tool=callgrind --toggle-collect='*one_by_one*' target/release/deps/fq-HASH 1 paced-1k`

use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;
use std::time::Instant as Stopwatch;

use punctual_sched::queue::fq::{Throttled, Tree, Wheel};
use punctual_sched::queue::{Discipline, Effects, Fq, Queued, Served};
use punctual_sched::{Instant, LinkConfig, Packet, TransmitTime};

fn main() {
    // Cargo hands `--bench` on.
    let words: Vec<_> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let rounds = words.first().and_then(|word| word.parse().ok()).unwrap_or(ROUNDS);
    let wanted = words.get(1);
    println!("{rounds} rounds of {PACKETS} packets each, medians; ns per packet in and out;");
    println!("tree: the same fq with throttled flows in a BTreeMap; sort: packets in a BTreeMap");
    println!(
        "{:<12} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>9} {:>9} {:>7} {:>7}",
        "workload",
        "fq",
        "batch",
        "tree",
        "ring",
        "sort",
        "",
        "fq/tree",
        "batch/tr",
        "B/pkt",
        "B/flow"
    );
    for workload in WORKLOADS.iter().filter(|w| wanted.is_none_or(|wanted| w.name == wanted)) {
        measure(workload, rounds);
    }
}

/// Flows and how they send: in turn, each a microsecond after the one before.
struct Workload {
    name: &'static str,
    flows: u32,
    /// Whether flows have that rate, so that each packet is waited for, or none.
    paced: bool,
}

fn measure(workload: &Workload, rounds: usize) {
    let mut fq = FqBench::<Wheel>::new(workload);
    let mut tree = FqBench::<Tree>::new(workload);
    let held = u64::from(workload.flows / 2 + 1);
    let mut ring: VecDeque<Packet> = (0..held).map(|number| packet(number, 0)).collect();
    let mut sorted: BTreeMap<_, _> =
        (0..held).map(|number| ((number, number), packet(number, 0))).collect();
    let mut figures = [const { Vec::new() }; 5];
    let mut ratios = [const { Vec::new() }; 2];
    // One round more, to warm up.
    for round in 0..=rounds {
        let times = [
            time(|| fq.one_by_one()),
            time(|| tree.one_by_one()),
            time(|| fq.in_batches()),
            time(|| ring_one_by_one(&mut ring)),
            time(|| sort_one_by_one(&mut sorted)),
        ];
        if round > 0 {
            figures.iter_mut().zip(times).for_each(|(all, time)| all.push(time));
            ratios[0].push(times[0] / times[1]);
            ratios[1].push(times[2] / times[1]);
        }
    }
    let [fq_time, tree_time, batch, ring, sort] = figures.map(median);
    let [to_tree, batch_to_tree] = ratios.map(median);
    let (packets, flows) = fq.bytes_each(workload);
    println!(
        "{:<12} {fq_time:>6.0} {batch:>6.0} {tree_time:>6.0} {ring:>6.1} {sort:>6.0} {:>6} {to_tree:>9.2} \
         {batch_to_tree:>9.2} {packets:>7.0} {flows:>7.0}",
        workload.name, ""
    );
}

/// An `fq` in a steady state: a flow's next packet comes half a turn of all flows after its last one
/// left, so that nothing of the flow is cached when it comes, nor when it leaves.
struct FqBench<T> {
    fq: Fq<T>,
    served: Served,
    effects: Effects,
    now: u64,
    number: u64,
    paced: bool,
    /// Flows in the order in which they have left.
    sent: VecDeque<u32>,
}

impl<T: Throttled> FqBench<T> {
    fn new(workload: &Workload) -> Self {
        let flows = workload.flows;
        let rate = FRAME * 8 * 1_000_000 / u64::from(flows);
        let pacing = if workload.paced {
            format!("fq.maxrate={rate} fq.low_rate_threshold=1tbit")
        } else {
            // A rate, so that packets have flows, of which none is waited for.
            "fq.maxrate=1tbit fq.pacing=off".to_owned()
        };
        let text =
            format!("queue=fq limit=100000000p fq.quantum=1514 fq.initial_quantum=1514 {pacing}");
        let config = LinkConfig::parse(&text, "bench").expect("the workloads are valid");
        let fq = Fq::new(&config, 1, Instant::ZERO);
        let mut bench = Self {
            fq,
            served: Served::untouched(queued(packet(0, 0), 0)),
            effects: Effects::default(),
            now: 0,
            number: 0,
            paced: workload.paced,
            sent: VecDeque::new(),
        };
        bench.fill(flows, workload.paced);
        bench
    }

    /// A packet for each flow, each to leave at its own microsecond, in an order that has nothing to
    /// do with that of the flows in memory; then half of them do.
    fn fill(&mut self, flows: u32, paced: bool) {
        let mut order: Vec<_> = (1..=u64::from(flows)).collect();
        let mut random = 1_u64;
        for place in (1..order.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let other = usize::try_from(random >> 33).expect("31 bits") % (place + 1);
            order.swap(place, other);
        }
        for (flow, turn) in (0..flows).zip(order) {
            let transmit = TransmitTime::new(Instant::from_nanos(turn * 1_000));
            self.enqueue(Packet { transmit, ..packet(0, flow) });
            black_box(self.fq.dequeue_into(&mut self.served, Instant::ZERO, &mut self.effects));
        }
        let half = flows.div_ceil(2) as usize;
        let leave = if paced { half } else { flows as usize };
        while self.sent.len() < leave {
            self.tick();
        }
        while self.sent.len() > half {
            let packet = self.next();
            self.enqueue(packet);
        }
    }

    fn enqueue(&mut self, packet: Packet) {
        self.fq.enqueue(queued(packet, self.now), &mut self.effects);
    }

    /// Takes out what may leave now; one packet where no rate but that of a link below would hold
    /// the others.
    #[inline]
    fn drain(&mut self) {
        loop {
            let now = Instant::from_nanos(self.now);
            if !self.fq.dequeue_into(&mut self.served, now, &mut self.effects) {
                return;
            }
            // By reference: a copy would be this bench's cost.
            self.sent.push_back(black_box(&self.served).queued.packet.flow);
            if !self.paced {
                return;
            }
        }
    }

    /// A microsecond passes: what the discipline asked for is done at its time.
    #[inline]
    fn tick(&mut self) {
        let until = self.now + 1_000;
        while let Some(wake) = self.fq.wake().filter(|wake| wake.as_nanos() <= until) {
            self.now = wake.as_nanos();
            self.drain();
        }
        self.now = until;
    }

    /// The flow that is the next to send.
    fn next(&mut self) -> Packet {
        self.number += 1;
        let flow = self.sent.pop_front().unwrap_or_default();
        Packet { arrival: Instant::from_nanos(self.now), ..packet(self.number, flow) }
    }

    #[inline(never)]
    fn one_by_one(&mut self) {
        for _ in 0..PACKETS {
            let packet = self.next();
            self.enqueue(packet);
            self.drain();
            self.tick();
        }
    }

    /// As [`punctual_sched::Link::arrive_batch`] does.
    #[inline(never)]
    fn in_batches(&mut self) {
        let mut batch = [packet(0, 0); BATCH];
        for _ in 0..PACKETS as usize / BATCH {
            batch.fill_with(|| self.next());
            black_box(self.fq.touch(batch.iter()));
            for packet in batch {
                self.enqueue(packet);
                self.drain();
            }
            for _ in 0..BATCH {
                self.tick();
            }
        }
    }

    /// Memory for each packet held and for each flow, in bytes.
    fn bytes_each(&self, workload: &Workload) -> (f64, f64) {
        let (packets, flows) = self.fq.memory();
        // The most held at once: one for each flow, when it began.
        let each = |bytes: usize| {
            let kilobytes = u32::try_from(bytes / 1024).expect("some hundred megabytes");
            f64::from(kilobytes) * 1024.0 / f64::from(workload.flows)
        };
        (each(packets), each(flows))
    }
}

#[inline(never)]
fn ring_one_by_one(ring: &mut VecDeque<Packet>) {
    for number in 0..u64::from(PACKETS) {
        ring.push_back(packet(black_box(number), 0));
        black_box(&ring.pop_front());
    }
}

#[inline(never)]
fn sort_one_by_one(sorted: &mut BTreeMap<(u64, u64), Packet>) {
    let last = sorted.last_key_value().map_or(0, |((due, _), _)| *due);
    for number in last + 1..=last + u64::from(PACKETS) {
        sorted.insert((number, number), packet(black_box(number), 0));
        black_box(&sorted.pop_first());
    }
}

/// As it enters a queue.
#[inline]
fn queued(packet: Packet, now: u64) -> Queued {
    Queued { packet, entered: Instant::from_nanos(now), bytes: FRAME }
}

/// A packet of 1500 bytes of a flow whose hash is its number, spread.
fn packet(number: u64, flow: u32) -> Packet {
    Packet { socket: true, ..Packet::on_path(number, Instant::ZERO, 1_500, flow) }
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

const ROUNDS: usize = 51;
const PACKETS: u32 = 16_384;
const BATCH: usize = 64;
/// A packet of 1500 bytes as the rate counts it.
const FRAME: u64 = 1_514;

const WORKLOADS: [Workload; 8] = [
    Workload { name: "paced-1", flows: 1, paced: true },
    Workload { name: "paced-1k", flows: 1_000, paced: true },
    Workload { name: "paced-64k", flows: 64_000, paced: true },
    Workload { name: "paced-1m", flows: 1_000_000, paced: true },
    Workload { name: "unpaced-1", flows: 1, paced: false },
    Workload { name: "unpaced-1k", flows: 1_000, paced: false },
    Workload { name: "unpaced-64k", flows: 64_000, paced: false },
    Workload { name: "unpaced-1m", flows: 1_000_000, paced: false },
];
