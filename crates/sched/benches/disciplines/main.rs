//! What a packet costs in the scheduler's core: enqueued and dequeued in each discipline, and through
//! a whole link with it, at one flow to a million, one by one and in batches; and through a link
//! without a queue or with a delay line. Beside it, in turn with it, two yardsticks: a ring buffer, which is the least that any
//! queue costs, and a `BTreeMap` in which every flow's packets stand at its own pace, which is what a
//! scheduler costs that sorts.
//!
//! `cargo bench -p punctual-sched --bench disciplines -- [ROUNDS] [WORD]`: so many rounds, of the
//! workloads whose name contains the word (`fq`, `1000000`, `paced`). Single figures scatter on a
//! shared machine; the medians of the rounds and of their ratios are what counts. Bytes for a packet
//! and a flow: `cargo test -p punctual-sched --test allocation -- --nocapture held`; instructions:
//! the bench of that name.

use std::hint::black_box;
use std::time::Instant as Stopwatch;

use punctual_sched::Rate;

#[path = "../../tests/support/workload.rs"]
mod workload;

mod yardstick;

use workload::{DISCIPLINES, QueueRig, Rig, Traffic};
use yardstick::{RingOfPackets, Sorted};

fn main() {
    // Cargo hands `--bench` on.
    let words: Vec<_> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let rounds = words.first().and_then(|word| word.parse().ok());
    let wanted = words.iter().find(|word| word.parse::<usize>().is_err() || rounds.is_none());
    let rounds = rounds.unwrap_or(ROUNDS);
    println!("{rounds} rounds of {PACKETS} packets each, medians; ns per packet in and out");
    println!(
        "{:<22} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>9} {:>9}",
        "workload", "held", "queue", "link", "batch", "ring", "btree", "queue/rng", "queue/bt"
    );
    let wanted = wanted.map_or("", String::as_str);
    for workload in workloads().filter(|workload| workload.name.contains(wanted)) {
        measure(&workload, rounds);
    }
}

/// A link in a steady state: each packet that comes pushes one out.
struct Workload {
    name: String,
    words: String,
    held: u32,
    traffic: Traffic,
}

fn workloads() -> impl Iterator<Item = Workload> {
    let disciplines = DISCIPLINES.iter().flat_map(|discipline| {
        let (word, rate) = match discipline.name {
            "jens" => ("8gbit", JENS),
            _ => ("100gbit", FAST),
        };
        FLOWS.iter().map(move |&flows| Workload {
            name: format!("{} {flows}", discipline.name),
            words: discipline.link(&format!("{word} hold=100gb"), discipline.roomy),
            held: flows.max(100),
            traffic: Traffic::full(flows, rate),
        })
    });
    // Every packet is waited for: each flow has its share of the rate and no more.
    let paced = FLOWS.iter().map(|&flows| Workload {
        name: format!("fq {flows} paced"),
        words: DISCIPLINES[1].link("unlimited hold=100gb", DISCIPLINES[1].roomy),
        held: (flows / 2).max(100),
        traffic: Traffic { pacing: share(flows), ..Traffic::full(flows, FAST) },
    });
    let stages =
        [("wire", "", 0), ("delay 100", "delay=12us", 0), ("delay 10000", "delay=1200us", 0)];
    let stages = stages.map(|(name, words, held)| Workload {
        name: name.to_owned(),
        words: words.to_owned(),
        held,
        traffic: Traffic::full(1, FAST),
    });
    stages.into_iter().chain(disciplines).chain(paced)
}

fn share(flows: u32) -> Rate {
    let bps = FAST.as_bps() / u64::from(flows);
    Rate::from_bps(bps).expect("a share of 100 Gbit/s among a million")
}

fn measure(workload: &Workload, rounds: usize) {
    let mut rigs =
        [Rig::new(&workload.words, workload.traffic), Rig::new(&workload.words, workload.traffic)];
    for rig in &mut rigs {
        rig.fill(workload.held.into());
        // Until what can grow has grown, and delay lines are full.
        (0..WARM_UP).for_each(|_| rig.step(|_| ()));
    }
    let [single, batch] = &mut rigs;
    let mut queue = QueueRig::new(&workload.words, workload.traffic, workload.held.into());
    let mut ring = RingOfPackets::new(workload.traffic, workload.held);
    let mut sorted = Sorted::new(workload.traffic, workload.held);
    let mut figures = [const { Vec::new() }; 5];
    let mut ratios = [const { Vec::new() }; 2];
    for _ in 0..rounds {
        let times = [
            time(|| queue_alone(&mut queue)),
            time(|| one_by_one(single)),
            time(|| in_batches(batch)),
            time(|| ring.packets(PACKETS)),
            time(|| sorted.packets(PACKETS)),
        ];
        figures.iter_mut().zip(times).for_each(|(all, time)| all.push(time));
        ratios[0].push(times[0] / times[3]);
        ratios[1].push(times[0] / times[4]);
    }
    let [queue, single, batch, ring, sorted] = figures.map(median);
    let [to_ring, to_sorted] = ratios.map(median);
    println!(
        "{:<22} {:>8} {queue:>7.1} {single:>7.1} {batch:>7.1} {ring:>7.1} {sorted:>7.1} {to_ring:>9.2} {to_sorted:>9.2}",
        workload.name, workload.held
    );
}

#[inline(never)]
fn queue_alone(rig: &mut QueueRig) {
    let before = rig.out;
    for _ in 0..PACKETS {
        rig.step(|served| {
            black_box(served);
        });
    }
    // A queue that lets nothing go would be fast.
    assert!(rig.out - before >= u64::from(PACKETS) * 3 / 4, "{} came out", rig.out - before);
}

#[inline(never)]
fn one_by_one(rig: &mut Rig) {
    for _ in 0..PACKETS {
        rig.step(|output| {
            black_box(output);
        });
    }
}

#[inline(never)]
fn in_batches(rig: &mut Rig) {
    for _ in 0..PACKETS as usize / workload::BATCH {
        rig.step_batch(|output| {
            black_box(output);
        });
    }
}

/// Nanoseconds per packet.
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
/// About a millisecond a round: shorter than a time slice, so that most rounds are whole even where
/// others want the processor too. Whole batches.
const PACKETS: u32 = 160 * 64;
const WARM_UP: u32 = 20_000;
const FLOWS: [u32; 4] = [1, 1_000, 64_000, 1_000_000];

/// A byte each nanosecond, the fastest that jens can count.
const JENS: Rate = match Rate::from_bps(8_000_000_000) {
    Some(rate) => rate,
    None => Rate::UNLIMITED,
};

/// Fast enough that a million packets wait for less than an AQM looks at.
const FAST: Rate = match Rate::from_bps(100_000_000_000) {
    Some(rate) => rate,
    None => Rate::UNLIMITED,
};
