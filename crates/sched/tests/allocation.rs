//! What the scheduler asks of the allocator: nothing for a packet once its tables have grown, and
//! at most 128 bytes for one that it holds.

use punctual_count_alloc::{CountingAllocator, Counts, counted};
use punctual_sched::config::{Limit, QueueKind};
use punctual_sched::impair::{Impair, Loss};
use punctual_sched::{Change, Duration, Instant, Link, LinkConfig, Probability, Rate};

#[path = "support/workload.rs"]
mod workload;

use workload::{DISCIPLINES, GIGABIT, Rig, STAGES, Traffic};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn no_discipline_allocates_for_a_packet() {
    for discipline in DISCIPLINES {
        for (flows, load) in [(1, 50), (1, 100), (1, 150), (1_000, 50), (1_000, 100), (1_000, 150)]
        {
            let words = discipline.link("1gbit", discipline.words);
            let what = format!("{}, {flows} flows, load {load} %", discipline.name);
            allocates_nothing(&what, &words, flows, load);
        }
    }
}

#[test]
fn no_stage_allocates_for_a_packet() {
    for (name, words) in STAGES {
        for load in [50, 150] {
            allocates_nothing(&format!("{name}, load {load} %"), words, 100, load);
        }
    }
}

#[test]
fn a_live_change_of_rate_allocates_nothing_for_the_packets_after_it() {
    for discipline in DISCIPLINES {
        let words = discipline.link("1gbit", discipline.words);
        let mut rig = Rig::new(&words, traffic(100, 150));
        for bps in [300_000_000, 1_000_000_000] {
            change(&mut rig, &Change { rate: Rate::from_bps(bps), ..Default::default() });
            run(&mut rig, WARM_UP);
        }
        change(&mut rig, &Change { rate: Rate::from_bps(950_000_000), ..Default::default() });
        let ((), counts) = counted(|| run(&mut rig, MEASURED));
        assert_eq!(counts, Counts::default(), "{}", discipline.name);
    }
}

#[test]
fn a_change_of_rate_delay_loss_or_limit_allocates_nothing() {
    for discipline in DISCIPLINES {
        let words = discipline.link("1gbit", discipline.words);
        let mut rig = Rig::new(&words, traffic(100, 150));
        run(&mut rig, WARM_UP);
        let loss = |raw| Some(Loss::random(Probability::from_raw(raw)));
        let changes: Vec<_> = (0..100_u32)
            .map(|number| Change {
                rate: Rate::from_bps(1_000_000_000 + u64::from(number)),
                delay: Some(Duration::from_nanos(number.into())),
                loss: loss(number),
                // netem has a limit of its own, tbf one in bytes.
                limit: match rig.link.config() {
                    config if config.impair == Impair::Netem => None,
                    config if config.queue == QueueKind::Tbf => Some(Limit::Bytes(99_000)),
                    _ => Some(Limit::Packets(900 + number % 2)),
                },
                ..Change::default()
            })
            .collect();
        // Drops of the first lower limit, and their room.
        change(&mut rig, &changes[0]);
        while rig.link.poll().is_some() {}
        let ((), counts) = counted(|| {
            for change in &changes[1..] {
                assert!(self::change(&mut rig, change), "{}", discipline.name);
                while rig.link.poll().is_some() {}
            }
        });
        assert_eq!(counts, Counts::default(), "{}", discipline.name);
    }
}

#[test]
fn a_held_packet_costs_at_most_128_bytes() {
    println!("bytes      per packet  after growth  per flow");
    for discipline in DISCIPLINES {
        let words = discipline.link("8kbit hold=1000gb", discipline.roomy);
        let packets = bytes_held(&words, PACKETS, 1);
        // What as many again cost: tables of a fixed size have been had before.
        let packet = (bytes_held(&words, PACKETS * 2, 1) - packets) / f64::from(PACKETS);
        // One more waits than tables hold that have not doubled; another is in service.
        let grown = bytes_held(&words, PACKETS + 2, 1) / f64::from(PACKETS);
        let flow = (bytes_held(&words, PACKETS, FLOWS) - packets) / f64::from(FLOWS);
        println!("{:<10} {packet:>10.1} {grown:>13.1} {flow:>9.1}", discipline.name);
        // Blocks of a thousand packets take a word each besides, to be found by.
        assert!(packet < 128.1, "{}: {packet} bytes for a held packet", discipline.name);
    }
    let travelling = bytes_held("delay=1s hold=1000gb", PACKETS, 1) / f64::from(PACKETS);
    println!("{:<10} {travelling:>10.1}", "delay line");
    assert!(travelling <= 128.0, "{travelling} bytes for a packet in the delay line");
}

fn allocates_nothing(what: &str, words: &str, flows: u32, load: u64) {
    let mut rig = Rig::new(words, traffic(flows, load));
    if words.contains("delay=") {
        change(&mut rig, &Change { delay: Some(Duration::from_millis(15)), ..Change::default() });
    }
    // More than is measured, so that no table is left to grow by a rare accident.
    rig.traffic.load *= 3;
    run(&mut rig, WARM_UP);
    rig.traffic.load = load;
    if words.contains("delay=") {
        change(&mut rig, &Change { delay: Some(Duration::from_millis(5)), ..Change::default() });
    }
    run(&mut rig, WARM_UP);
    let ((), counts) = counted(|| run(&mut rig, MEASURED));
    assert_eq!(counts, Counts::default(), "{what}");
}

/// Whether anything differs.
fn change(rig: &mut Rig, change: &Change) -> bool {
    rig.link.change(change, Instant::from_nanos(rig.traffic.now)).expect("a valid change")
}

fn traffic(flows: u32, load: u64) -> Traffic {
    Traffic { load, mixed: true, ..Traffic::full(flows, GIGABIT) }
}

/// Half of the packets come one by one, half in batches.
fn run(rig: &mut Rig, packets: u32) {
    let mut fates = 0;
    for _ in 0..packets / 2 {
        rig.step(|_| fates += 1);
    }
    for _ in 0..packets as usize / 2 / workload::BATCH {
        rig.step_batch(|_| fates += 1);
    }
    assert!(fates > packets / 4, "packets go through");
}

/// Bytes that a link holds for `packets` more packets than none.
fn bytes_held(words: &str, packets: u32, flows: u32) -> f64 {
    let config = LinkConfig::parse(words, "link").expect("valid");
    let (link, empty) = counted(|| Link::new(&config, 1, Instant::ZERO).expect("valid"));
    drop(link);
    let (rig, filled) = counted(|| {
        let mut rig = Rig::new(words, Traffic::full(flows, GIGABIT));
        rig.fill(packets.into());
        // Those that saved-up tokens let go at once.
        while rig.link.poll().is_some() {}
        rig
    });
    let queued = rig.link.snapshot().queued;
    assert!(queued + 20 > u64::from(packets), "{words}: {queued} of {packets} are held");
    let bytes = filled.held_bytes - empty.held_bytes;
    f64::from(i32::try_from(bytes).expect("less than 2 GB"))
}

/// A power of two, which tables that double hold without slack.
const PACKETS: u32 = 1 << 18;
const FLOWS: u32 = 1 << 16;
/// Until every queue has been at its limit.
const WARM_UP: u32 = 100_000;
const MEASURED: u32 = 50_000;
