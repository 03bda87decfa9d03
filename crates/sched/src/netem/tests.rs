use proptest::prelude::*;

use super::*;
use crate::impair::{Distribution, Table};
use crate::packet::{Ecn, Packet};
use crate::queue::Dropped;

/// A netem on a device that takes every packet at once.
struct Device {
    netem: Netem,
    now: Instant,
    left: Vec<(Instant, Served)>,
    dropped: Vec<Dropped>,
    duplicated: u64,
}

impl Device {
    fn new(config: &NetemConfig) -> Self {
        Self::seeded(config, 1)
    }

    fn seeded(config: &NetemConfig, seed: u64) -> Self {
        let netem = Netem::new(config, seed, Instant::ZERO).expect("a valid configuration");
        Self { netem, now: Instant::ZERO, left: vec![], dropped: vec![], duplicated: 0 }
    }

    /// Packets of 1000 bytes with the handles `handles`, all at `at`.
    fn arrive(&mut self, at: u64, handles: core::ops::Range<u64>) {
        for handle in handles {
            self.send(Packet::on_path(handle, Instant::from_nanos(at), 986, 1));
        }
    }

    fn send(&mut self, packet: Packet) {
        self.advance(packet.arrival);
        self.now = self.now.max(packet.arrival);
        let bytes = u64::from(packet.len) + 14;
        let mut effects = Effects::default();
        self.netem.enqueue(Queued { packet, entered: self.now, bytes }, &mut effects);
        self.dropped.extend(effects.take_drops());
        self.duplicated +=
            effects.take_duplicates().map(|packet| u64::from(packet.segments)).sum::<u64>();
        self.drain();
    }

    /// Runs every departure up to `to`.
    fn advance(&mut self, to: Instant) {
        while let Some(wake) = self.netem.wake()
            && wake <= to
        {
            assert!(wake > self.now, "asked again at {wake:?}");
            self.now = wake;
            self.drain();
        }
    }

    fn drain(&mut self) {
        while let Some(served) = self.netem.dequeue(self.now, &mut Effects::default()) {
            self.left.push((self.now, served));
        }
    }

    fn run_out(mut self) -> Self {
        self.advance(Instant::from_nanos(u64::MAX));
        self
    }

    fn handles(&self) -> Vec<u64> {
        self.left.iter().map(|(_, served)| served.queued.packet.handle).collect()
    }

    fn times(&self) -> Vec<u64> {
        self.left.iter().map(|(at, _)| at.as_nanos()).collect()
    }
}

fn always() -> NetemChance {
    NetemChance { probability: u32::MAX, correlation: 0 }
}

fn half() -> NetemChance {
    NetemChance { probability: 1 << 31, correlation: 0 }
}

fn delayed(millis: u64) -> NetemConfig {
    NetemConfig { latency: Duration::from_millis(millis), seed: Some(42), ..NetemConfig::default() }
}

const MILLI: u64 = 1_000_000;

#[test]
fn without_parameters_every_packet_leaves_at_once() {
    let mut device = Device::new(&NetemConfig::default());
    device.arrive(5, 0..3);
    assert_eq!((device.handles(), device.times()), (vec![0, 1, 2], vec![5, 5, 5]));
}

#[test]
fn the_limit_counts_packets_held_and_a_burst_as_one() {
    let mut device = Device::new(&NetemConfig { limit: 2, ..delayed(10) });
    for handle in 0..3 {
        let packet = Packet::on_path(handle, Instant::ZERO, 3000, 1);
        device.send(Packet { segments: 3, ..packet });
    }
    assert_eq!(device.netem.backlog().packets, 6);
    assert_eq!(device.dropped.len(), 1);
    assert_eq!(device.dropped[0].reason, DropReason::Limit);
    let device = device.run_out();
    assert_eq!(device.handles(), [0, 1]);
    assert_eq!(device.netem.backlog(), Backlog::default());
    assert_eq!(device.netem.counters.limit_drops, 1);
}

#[test]
fn a_duplicate_leaves_before_its_original_and_does_not_duplicate_again() {
    let mut device = Device::new(&NetemConfig { duplicate: always(), ..delayed(10) });
    device.arrive(0, 0..2);
    let device = device.run_out();
    let copies: Vec<_> = device.left.iter().map(|(_, served)| served.copy).collect();
    assert_eq!((device.handles(), copies), (vec![0, 0, 1, 1], vec![1, 0, 1, 0]));
    assert_eq!((device.duplicated, device.netem.counters.duplicated), (2, 2));
}

#[test]
fn a_packet_both_lost_and_duplicated_is_sent_once() {
    let config = NetemConfig {
        duplicate: always(),
        loss: NetemLoss::Random(always()),
        ..NetemConfig::default()
    };
    let mut device = Device::new(&config);
    device.arrive(0, 0..5);
    assert_eq!(device.handles(), [0, 1, 2, 3, 4]);
    assert_eq!((device.duplicated, device.dropped.len()), (0, 0));
    assert!(device.left.iter().all(|(_, served)| served.copy == 0));
}

#[test]
fn a_duplicate_meets_loss_and_delay_of_its_own() {
    let config = NetemConfig {
        duplicate: always(),
        loss: NetemLoss::Random(half()),
        jitter: 5_000_000,
        ..delayed(10)
    };
    let mut device = Device::new(&config);
    device.arrive(0, 0..400);
    let device = device.run_out();
    let lost_copies = device.dropped.iter().filter(|dropped| dropped.copy == 1).count();
    assert!((60..140).contains(&lost_copies), "{lost_copies} of about 200 duplicates");
    let counters = device.netem.counters;
    assert_eq!(counters.lost, device.dropped.len() as u64);
    assert_eq!(400 + counters.duplicated, device.left.len() as u64 + counters.lost);
}

#[test]
fn a_full_queue_drops_the_packet_and_its_duplicate() {
    let mut device = Device::new(&NetemConfig { limit: 1, duplicate: always(), ..delayed(10) });
    device.arrive(0, 0..2);
    // The limit is looked at before the duplicate goes in, so one more is held.
    assert_eq!(device.netem.backlog().packets, 2);
    let dropped: Vec<_> = device.dropped.iter().map(|d| (d.packet.handle, d.copy)).collect();
    assert_eq!(dropped, [(1, 0), (1, 1)]);
    assert_eq!(device.duplicated, 2);
}

#[test]
fn ecn_marks_what_can_be_marked_and_loses_the_rest() {
    let loss = NetemLoss::Random(always());
    let mut device = Device::new(&NetemConfig { loss, ecn: true, ..NetemConfig::default() });
    for (handle, ecn) in [(0, Ecn::NotEct), (1, Ecn::Ect0), (2, Ecn::Ect1), (3, Ecn::Ce)] {
        device.send(Packet { ecn, ..Packet::on_path(handle, Instant::ZERO, 986, 1) });
    }
    assert_eq!(device.handles(), [1, 2, 3]);
    assert!(device.left.iter().all(|(_, served)| served.mark == Mark::Ce));
    let counters = device.netem.counters;
    assert_eq!((counters.lost, counters.marked, counters.tc_dropped()), (1, 3, 4));
}

#[test]
fn the_duplicate_of_a_marked_packet_is_marked() {
    let loss = NetemLoss::GilbertElliott { p: 0, r: 0, h: 0, one_minus_k: 1 << 31 };
    let config = NetemConfig {
        loss,
        ecn: true,
        duplicate: always(),
        seed: Some(42),
        ..NetemConfig::default()
    };
    let mut device = Device::new(&config);
    for handle in 0..100 {
        let packet = Packet::on_path(handle, Instant::ZERO, 986, 1);
        device.send(Packet { ecn: Ecn::Ect0, ..packet });
    }
    for pair in device.left.chunks(2) {
        let [copy, original] = [pair[0].1, pair[1].1];
        assert!(original.mark == Mark::None || copy.mark == Mark::Ce, "{original:?}");
    }
    assert_eq!((device.left.len(), device.dropped.len()), (200, 0));
}

#[test]
fn corruption_flips_one_bit_anywhere_in_the_packet() {
    let mut device = Device::new(&NetemConfig { corrupt: always(), ..NetemConfig::default() });
    for handle in 0..1000 {
        device.send(Packet::on_path(handle, Instant::ZERO, 2, 1));
    }
    let mut seen = [0; 16];
    for (_, served) in &device.left {
        let BitFlip(bit) = served.corrupt.expect("a flipped bit");
        seen[bit as usize] += 1;
    }
    assert!(seen.iter().all(|&count| (30..100).contains(&count)), "{seen:?}");
    assert_eq!(device.netem.counters.corrupted, 1000);
}

#[test]
fn which_bit_is_flipped_does_not_depend_on_the_seed_of_the_decisions() {
    let config = |seed| NetemConfig { corrupt: half(), seed: Some(seed), ..NetemConfig::default() };
    let run = |netem_seed, seed| {
        let mut device = Device::seeded(&config(netem_seed), seed);
        device.arrive(0, 0..100);
        let flips: Vec<_> = device.left.iter().map(|(_, served)| served.corrupt).collect();
        flips
    };
    let which = |flips: &[Option<BitFlip>]| flips.iter().map(Option::is_some).collect::<Vec<_>>();
    let bits = |flips: &[Option<BitFlip>]| flips.iter().flatten().copied().collect::<Vec<_>>();
    let (a, b) = (run(42, 1), run(42, 2));
    assert_eq!(which(&a), which(&b), "the same packets");
    assert_ne!(bits(&a), bits(&b), "other bits");
    let c = run(43, 1);
    assert_ne!(which(&a), which(&c));
    let shared = bits(&a).len().min(bits(&c).len());
    assert_eq!(bits(&a)[..shared], bits(&c)[..shared], "the same bits in their order");
}

#[test]
fn every_fifth_packet_overtakes_with_a_gap_of_five() {
    let mut device = Device::new(&NetemConfig { reorder: always(), gap: 5, ..delayed(10) });
    for handle in 0..10 {
        device.arrive(handle, handle..handle + 1);
    }
    let device = device.run_out();
    assert_eq!(device.handles(), [4, 9, 0, 1, 2, 3, 5, 6, 7, 8]);
    assert_eq!(device.netem.counters.reordered, 2);
    assert_eq!(device.netem.counters.delayed, 8);
    assert_eq!(device.netem.counters.overtaken, 8);
}

#[test]
fn of_two_packets_that_overtake_together_the_later_one_leaves_first() {
    let config = NetemConfig { reorder: always(), gap: 1, duplicate: always(), ..delayed(10) };
    let mut device = Device::new(&config);
    device.arrive(0, 0..1);
    let copies: Vec<_> = device.left.iter().map(|(_, served)| served.copy).collect();
    assert_eq!(copies, [0, 1], "the duplicate went in first");
}

#[test]
fn jitter_reorders_packets_unless_a_rate_keeps_their_order() {
    let order = |rate| {
        let mut device = Device::new(&NetemConfig { jitter: 5_000_000, rate, ..delayed(10) });
        for handle in 0..100 {
            device.arrive(handle * MILLI, handle..handle + 1);
        }
        device.run_out().handles().is_sorted()
    };
    assert!(!order(0));
    assert!(order(12_500_000));
}

#[test]
fn jitter_below_half_the_spacing_keeps_order() {
    let mut device = Device::new(&NetemConfig { jitter: 499_999, ..delayed(10) });
    for handle in 0..1000 {
        device.arrive(handle * MILLI, handle..handle + 1);
    }
    assert!(device.run_out().handles().is_sorted());
}

#[test]
fn a_negative_delay_is_no_delay_but_sorts_before_what_is_due() {
    let config = NetemConfig { jitter: 5_000_000, ..delayed(1) };
    let mut device = Device::new(&config);
    for handle in 0..200 {
        device.arrive(handle * MILLI / 10, handle..handle + 1);
    }
    let device = device.run_out();
    let waits = device.left.iter().map(|(at, served)| at.since(served.queued.entered));
    let at_once = waits.clone().filter(|wait| *wait == Duration::ZERO).count();
    assert!((60..100).contains(&at_once), "{at_once}, not about 40 %");
    assert!(waits.max().expect("packets left") < Duration::from_millis(6));
    assert_eq!(device.netem.counters.delayed + at_once as u64, 200);
}

#[test]
fn the_times_before_the_epoch_are_sorted_too() {
    let mut device = Device::new(&NetemConfig::default());
    device.netem.held.push(Held::new(queued(7), 0, Mark::None, None));
    for (handle, back) in [(0, 1), (1, 3), (2, 2)] {
        let mut held = Held::new(queued(handle), 0, Mark::None, None);
        held.send = held.send.after(-back);
        device.netem.held.push(held);
    }
    device.netem.backlog.packets += 4;
    device.netem.backlog.bytes += 4000;
    device.drain();
    assert_eq!(device.handles(), [1, 2, 0, 7]);
}

fn queued(handle: u64) -> Queued {
    let packet = Packet::on_path(handle, Instant::ZERO, 986, 1);
    Queued { packet, entered: Instant::ZERO, bytes: 1000 }
}

#[test]
fn latency_is_told_apart_from_the_wait_for_the_rate() {
    let mut device = Device::new(&NetemConfig { rate: 1_000_000, ..delayed(5) });
    device.arrive(0, 0..8);
    let device = device.run_out();
    let times: Vec<_> = (6..14).map(|milli| milli * MILLI).collect();
    assert_eq!(device.times(), times, "one latency, then a packet each millisecond");
    let latencies: Vec<_> = device.left.iter().map(|(_, s)| s.latency.as_nanos()).collect();
    assert_eq!(latencies[..3], [5 * MILLI, 0, 0]);
    assert_eq!(device.netem.counters.latency_ns, 5 * MILLI);
    assert_eq!(device.netem.counters.held_ns, times.iter().sum::<u64>());
}

fn slots(least: u64, most: u64, packets: u32) -> NetemSlot {
    let spacing = SlotSpacing::Uniform(Duration::from_millis(least), Duration::from_millis(most));
    NetemSlot { spacing, packets, bytes: 0 }
}

#[test]
fn a_slot_lets_its_packets_through_and_the_next_opens_later() {
    let mut device =
        Device::new(&NetemConfig { slot: Some(slots(10, 10, 2)), ..NetemConfig::default() });
    device.arrive(0, 0..5);
    let device = device.run_out();
    assert_eq!(device.times(), [0, 0, 10 * MILLI, 10 * MILLI, 20 * MILLI]);
}

#[test]
fn a_packet_with_a_delay_waits_a_slot_beyond_its_send_time() {
    let mut device = Device::new(&NetemConfig { slot: Some(slots(4, 4, 0)), ..delayed(10) });
    device.arrive(0, 0..1);
    // Drawn at 0 for 4 ms; looked at again at the send time, when that slot is over.
    assert_eq!(device.netem.wake(), Some(Instant::from_nanos(10 * MILLI)));
    let device = device.run_out();
    assert_eq!(device.times(), [14 * MILLI]);
}

#[test]
fn packets_that_overtake_do_not_wait_for_slots() {
    let config =
        NetemConfig { slot: Some(slots(10, 10, 1)), reorder: always(), gap: 1, ..delayed(10) };
    let mut device = Device::new(&config);
    device.arrive(0, 0..5);
    assert_eq!(device.times(), [0; 5]);
}

#[test]
fn a_change_keeps_the_times_of_packets_and_what_it_does_not_name() {
    let config = NetemConfig { reorder: always(), gap: 5, ..delayed(10) };
    let mut device = Device::new(&config);
    device.arrive(0, 0..3);
    let slower = NetemConfig { latency: Duration::from_millis(50), limit: 1, ..config };
    device.netem.set(&slower, Instant::ZERO);
    assert_eq!(device.netem.backlog().packets, 3, "a lower limit drops nothing that is held");
    device.netem.set(&NetemConfig { limit: 1000, ..slower }, Instant::ZERO);
    device.arrive(1, 3..5);
    let device = device.run_out();
    let expected = [(1, 4), (10 * MILLI, 0), (10 * MILLI, 1), (10 * MILLI, 2), (50 * MILLI + 1, 3)];
    let left: Vec<_> = device.times().into_iter().zip(device.handles()).collect();
    assert_eq!(left, expected, "the count to the next overtaking goes on");
}

#[test]
fn a_change_goes_on_with_the_same_random_numbers() {
    let config = NetemConfig {
        loss: NetemLoss::Random(NetemChance { probability: 1 << 30, correlation: 1 << 29 }),
        seed: Some(42),
        ..NetemConfig::default()
    };
    let run = |changes: bool| {
        let mut device = Device::new(&config);
        for handle in 0..200 {
            device.arrive(handle, handle..handle + 1);
            if changes {
                device.netem.set(&NetemConfig { limit: 500, ..config.clone() }, device.now);
            }
        }
        device.handles()
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn a_change_of_slots_opens_one_at_once() {
    let config = NetemConfig { slot: Some(slots(10, 10, 1)), ..NetemConfig::default() };
    let mut device = Device::new(&config);
    device.arrive(0, 0..2);
    assert_eq!(device.left.len(), 1);
    device
        .netem
        .set(&NetemConfig { slot: Some(slots(20, 20, 1)), ..config.clone() }, Instant::ZERO);
    device.drain();
    assert_eq!(device.left.len(), 2);
    device.netem.set(&NetemConfig { slot: None, ..config }, Instant::ZERO);
    device.arrive(1, 2..5);
    assert_eq!(device.left.len(), 5);
}

#[test]
fn equal_seeds_give_equal_fates_and_a_seed_left_out_follows_the_links() {
    let config =
        |seed| NetemConfig { loss: NetemLoss::Random(half()), seed, ..NetemConfig::default() };
    let run = |netem_seed, seed| {
        let mut device = Device::seeded(&config(netem_seed), seed);
        device.arrive(0, 0..100);
        device.handles()
    };
    assert_eq!(run(Some(42), 1), run(Some(42), 2));
    assert_ne!(run(Some(42), 1), run(Some(43), 1));
    assert_eq!(run(None, 1), run(None, 1));
    assert_ne!(run(None, 1), run(None, 2));
}

#[test]
fn the_memory_of_a_correlation_is_out_of_the_seeds_reach() {
    let correlation = u32::MAX / 100 * 99;
    let loss = NetemLoss::Random(NetemChance { probability: 1 << 31, correlation });
    let config = NetemConfig { loss, seed: Some(42), ..NetemConfig::default() };
    let run = |seed| {
        let mut device = Device::seeded(&config, seed);
        device.arrive(0, 0..1000);
        device.handles()
    };
    assert_ne!(run(1), run(2));
    assert_eq!(run(1), run(1));
}

fn chance() -> impl Strategy<Value = NetemChance> {
    let probability = prop_oneof![Just(0), any::<u32>(), Just(u32::MAX)];
    let correlation = prop_oneof![Just(0), any::<u32>()];
    (probability, correlation)
        .prop_map(|(probability, correlation)| NetemChance { probability, correlation })
}

fn loss() -> impl Strategy<Value = NetemLoss> {
    prop_oneof![
        chance().prop_map(NetemLoss::Random),
        (any::<[u32; 3]>(), 0..1_u32 << 31).prop_map(|([p13, p31, p23], rest)| {
            NetemLoss::FourState { p13: p13 / 2, p31: p31 / 2, p32: rest, p23, p14: rest }
        }),
        any::<[u32; 4]>().prop_map(|[p, r, h, one_minus_k]| {
            NetemLoss::GilbertElliott { p, r, h, one_minus_k }
        }),
    ]
}

fn slot() -> impl Strategy<Value = Option<NetemSlot>> {
    let span = || (0..20 * MILLI).prop_map(Duration::from_nanos);
    let uniform = (span(), span()).prop_map(|(a, b)| SlotSpacing::Uniform(a.min(b), a.max(b)));
    let table = (span(), 1..9_000_000_u32).prop_map(|(delay, jitter)| SlotSpacing::Spread {
        delay,
        jitter,
        distribution: table(),
    });
    let slot = (prop_oneof![uniform, table], 0..5_u32, 0..5000_u32);
    proptest::option::of(slot.prop_map(|(spacing, packets, bytes)| NetemSlot {
        spacing,
        packets,
        bytes,
    }))
}

prop_compose! {
    fn config()(
        limit in 1..60_u32,
        latency in (1..30 * MILLI).prop_map(Duration::from_nanos),
        jitter in prop_oneof![Just(0), 1..40_000_000_u32, Just(NetemConfig::MAX_JITTER)],
        tabled in any::<bool>(),
        loss in loss(),
        [duplicate, corrupt, reorder] in [chance(), chance(), chance()],
        gap in 0..6_u32,
        rate in prop_oneof![Just(0), 1..u64::MAX],
        packet_overhead in -2000..2000_i32,
        cell_size in 0..100_u32,
        cell_overhead in -200..50_i32,
        slot in slot(),
    ) -> NetemConfig {
        NetemConfig {
            limit, latency, jitter, loss, duplicate, corrupt, reorder, rate, slot,
            distribution: if tabled { table() } else { Distribution::Uniform },
            gap: if reorder.probability > 0 { gap } else { 0 },
            packet_overhead, cell_size, cell_overhead,
            ..NetemConfig::default()
        }
    }
}

/// Some table, with values on both sides.
fn table() -> Distribution {
    let table = Table::new(&[i16::MIN, -8192, -1, 0, 1, 4096, 8192, i16::MAX]);
    Distribution::Table(table.expect("eight values"))
}

proptest! {
    #[test]
    fn every_packet_and_duplicate_has_one_fate_and_none_leaves_before_it_came(
        first in config(),
        second in config(),
        start in prop_oneof![Just(0), any::<u64>()],
        arrivals in proptest::collection::vec((0..3 * MILLI, 1..3000_u32), 1..200),
        seed in any::<u64>(),
    ) {
        let mut device = Device::seeded(&first, seed);
        let (count, mut at) = (arrivals.len(), start);
        for (handle, (gap, len)) in arrivals.into_iter().enumerate() {
            at = at.saturating_add(gap);
            device.send(Packet::on_path(handle as u64, Instant::from_nanos(at), len, 1));
            let most = first.limit.max(second.limit) as usize + 1;
            prop_assert!(device.netem.held.len() <= most, "memory is bounded");
            if handle == count / 2 {
                device.netem.set(&second, device.now);
                device.drain();
            }
        }
        let held = device.netem.held.len();
        prop_assert_eq!(device.netem.backlog().packets, held as u64);
        let offered = count + usize::try_from(device.duplicated).expect("few");
        prop_assert_eq!(offered, device.left.len() + device.dropped.len() + held);

        let device = device.run_out();
        prop_assert_eq!(offered, device.left.len() + device.dropped.len());
        prop_assert_eq!(device.netem.backlog(), Backlog::default());
        let mut fates: Vec<_> =
            device.left.iter().map(|(_, s)| (s.queued.packet.handle, s.copy)).collect();
        fates.extend(device.dropped.iter().map(|d| (d.packet.handle, d.copy)));
        fates.sort_unstable();
        prop_assert!(fates.windows(2).all(|pair| pair[0] != pair[1]), "one fate each");
        for (at, served) in &device.left {
            prop_assert!(*at >= served.queued.entered);
            prop_assert!(served.latency <= at.since(served.queued.entered));
        }
        prop_assert!(device.left.is_sorted_by_key(|(at, _)| *at));
    }

    #[test]
    fn a_rate_is_never_exceeded_and_keeps_order(
        gaps in proptest::collection::vec(0..2 * MILLI, 2..200),
        jitter in 0..20_000_000_u32,
    ) {
        let config = NetemConfig { rate: 1_000_000, jitter, ..delayed(20) };
        let mut device = Device::new(&config);
        let mut at = 0;
        for (handle, gap) in (0..).zip(gaps) {
            at += gap;
            device.arrive(at, handle..handle + 1);
        }
        let device = device.run_out();
        prop_assert!(device.handles().is_sorted());
        for pair in device.times().windows(2) {
            prop_assert!(pair[1] - pair[0] >= MILLI, "1000 bytes take a millisecond");
        }
    }
}
