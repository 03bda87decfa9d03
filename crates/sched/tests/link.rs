//! A link's promises, as scenarios and as properties over random inputs.
#![expect(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use proptest::prelude::*;
use punctual_sched::config::{Limit, LossAt};
use punctual_sched::impair::{Correlated, Distribution, Loss, Reorder, Slot, SlotGap};
use punctual_sched::units::Probability;
use punctual_sched::{
    Cause, Change, DropReason, Duration, Ecn, Instant, Link, LinkConfig, Mark, Output, Packet,
    Rate, TransmitTime,
};

fn packet(handle: u64, arrival: u64, len: u32) -> Packet {
    Packet::on_path(handle, Instant::from_nanos(arrival), len, 7)
}

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

fn drain(link: &mut Link) -> Vec<Output> {
    core::iter::from_fn(|| link.poll()).collect()
}

/// Runs the link until nothing more happens.
fn run_out(link: &mut Link) -> Vec<Output> {
    let mut outputs = drain(link);
    while let Some(deadline) = link.next_event() {
        link.advance(deadline.at);
        outputs.extend(drain(link));
    }
    outputs
}

fn dues(outputs: &[Output]) -> Vec<u64> {
    outputs
        .iter()
        .filter_map(|output| match output {
            Output::Depart { due, .. } => Some(due.as_nanos()),
            Output::Drop { .. } => None,
        })
        .collect()
}

#[test]
fn a_perfect_wire_lets_every_packet_leave_as_it_arrives() {
    let mut link = Link::new(&LinkConfig::default(), 1, Instant::ZERO).unwrap();
    for (handle, arrival) in [(0, 10), (1, 10), (2, 500)] {
        link.arrive(packet(handle, arrival, 100));
    }
    assert_eq!(dues(&run_out(&mut link)), [10, 10, 500]);
}

#[test]
fn a_packet_leaves_when_its_last_bit_is_serialised_and_its_delay_has_passed() {
    let config = LinkConfig {
        rate: rate(8_000_000),
        framing: 0,
        delay: Duration::from_millis(30),
        ..LinkConfig::default()
    };
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    link.arrive(packet(0, 0, 1000));
    link.arrive(packet(1, 0, 1000));
    link.arrive(packet(2, 5_000_000, 1000));
    assert_eq!(dues(&run_out(&mut link)), [31_000_000, 32_000_000, 36_000_000]);
}

#[test]
fn framing_counts_once_for_each_wire_packet_of_a_burst() {
    let config = LinkConfig { rate: rate(8_000_000), ..LinkConfig::default() };
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    link.arrive(Packet { segments: 3, ..packet(0, 0, 3000) });
    assert_eq!(dues(&run_out(&mut link)), [3_042_000]);
    assert_eq!(link.snapshot().packets_out, 3);
}

#[test]
fn a_burst_of_ten_thousand_packets_into_an_idle_link_has_a_fate_for_each() {
    let config = LinkConfig {
        rate: rate(100_000_000),
        limit: Some(Limit::Packets(1000)),
        ..LinkConfig::default()
    };
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    for handle in 0..10_000 {
        link.arrive(packet(handle, 0, 1500));
    }
    let outputs = run_out(&mut link);
    assert_eq!(outputs.len(), 10_000);
    assert_eq!(dues(&outputs).len(), 1000);
    let snapshot = link.snapshot();
    assert_eq!(snapshot.dropped[DropReason::Limit.index()], 9000);
    assert_eq!((snapshot.queued, snapshot.held_bytes), (0, 0));
}

#[test]
fn a_limit_in_time_bounds_the_wait_and_a_change_of_rate_does_not_derive_it_anew() {
    let config = LinkConfig {
        rate: rate(8_000_000),
        framing: 0,
        limit: Some(Limit::Time(Duration::from_millis(10))),
        ..LinkConfig::default()
    };
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    for handle in 0..20 {
        link.arrive(packet(handle, 0, 1000));
    }
    assert_eq!(link.snapshot().backlog_bytes, 10_000);
    let faster = Change { rate: Some(rate(80_000_000)), ..Change::default() };
    link.change(&faster, Instant::ZERO).unwrap();
    link.arrive(packet(20, 0, 1000));
    assert_eq!(link.snapshot().backlog_bytes, 10_000);
    let paused = Change { rate: Some(Rate::PAUSE), ..Change::default() };
    link.change(&paused, Instant::ZERO).unwrap();
    assert_eq!(link.next_event(), None);
}

#[test]
fn a_lower_limit_drops_from_the_tail_and_nothing_else_is_lost_by_a_change() {
    let config = LinkConfig { rate: rate(8_000_000), ..LinkConfig::default() };
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    for handle in 0..10 {
        link.arrive(packet(handle, 0, 1000));
    }
    let change = Change { limit: Some(Limit::Packets(4)), ..Change::default() };
    link.change(&change, Instant::from_nanos(5)).unwrap();
    let handles: Vec<_> = drain(&mut link)
        .iter()
        .map(|output| match output {
            Output::Drop { packet, reason: DropReason::Limit, at, .. } => {
                (packet.handle, at.as_nanos())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(handles, [(9, 5), (8, 5), (7, 5), (6, 5), (5, 5), (4, 5)]);
    assert_eq!(dues(&run_out(&mut link)).len(), 4);
}

#[test]
fn a_rejected_change_leaves_everything_as_it_was() {
    let config = LinkConfig { delay: Duration::from_millis(10), ..LinkConfig::default() };
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    link.arrive(packet(0, 0, 100));
    let bad = Change {
        delay: Some(Duration::from_millis(1)),
        jitter: Some(Duration::from_millis(20)),
        ..Change::default()
    };
    assert!(link.change(&bad, Instant::from_nanos(7)).is_err());
    link.arrive(packet(1, 7, 100));
    assert_eq!(dues(&run_out(&mut link)), [10_000_000, 10_000_007]);
}

#[test]
fn a_shorter_delay_lets_no_packet_overtake() {
    let config = LinkConfig { delay: Duration::from_millis(50), ..LinkConfig::default() };
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    link.arrive(packet(0, 0, 100));
    let shorter = Change { delay: Some(Duration::from_millis(5)), ..Change::default() };
    link.change(&shorter, Instant::from_nanos(1_000_000)).unwrap();
    link.arrive(packet(1, 2_000_000, 100));
    link.arrive(packet(2, 60_000_000, 100));
    assert_eq!(dues(&run_out(&mut link)), [50_000_000, 50_000_000, 65_000_000]);
}

#[test]
fn memory_for_held_packets_is_bounded_and_its_drops_have_their_own_name() {
    let config = LinkConfig {
        delay: Duration::from_secs(1),
        hold_limit: 10 * 2304,
        ..LinkConfig::default()
    };
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    for handle in 0..15 {
        link.arrive(packet(handle, 0, 1500));
    }
    assert_eq!(link.snapshot().dropped[DropReason::HoldFull.index()], 5);
    link.advance(Instant::from_nanos(1_000_000_000));
    link.arrive(packet(15, 1_000_000_000, 1500));
    assert_eq!(link.snapshot().dropped[DropReason::HoldFull.index()], 5);
}

#[test]
fn the_access_rate_spreads_a_burst_before_the_queue_sees_it() {
    let config = LinkConfig {
        rate: rate(8_000_000),
        nic: Some(rate(16_000_000)),
        framing: 0,
        limit: Some(Limit::Packets(2)),
        ..LinkConfig::default()
    };
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    for handle in 0..3 {
        link.arrive(packet(handle, 0, 1000));
    }
    // They reach the queue at 0.5, 1.0 and 1.5 ms; the first leaves at 1.5 ms, before the third.
    assert_eq!(dues(&run_out(&mut link)), [1_500_000, 2_500_000, 3_500_000]);
}

#[test]
fn loss_before_the_queue_uses_no_capacity_and_loss_after_it_does() {
    for (loss_at, least) in [(LossAt::Before, 200), (LossAt::After, 990)] {
        let config = LinkConfig {
            rate: rate(8_000_000),
            framing: 0,
            loss: Loss::random(Probability::from_raw(u32::MAX / 10 * 8)),
            loss_at,
            limit: Some(Limit::Packets(10_000)),
            ..LinkConfig::default()
        };
        let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
        for handle in 0..1000 {
            link.arrive(packet(handle, 0, 1000));
        }
        let last = dues(&run_out(&mut link)).pop().unwrap() / 1_000_000;
        assert!(last.abs_diff(least) <= 40, "{loss_at:?}: the last left at {last} ms");
    }
}

#[test]
fn jitter_stays_within_its_bounds_and_shows_all_of_them() {
    let config = LinkConfig {
        delay: Duration::from_millis(20),
        jitter: Duration::from_millis(5),
        ..LinkConfig::default()
    };
    let mut link = Link::new(&config, 9, Instant::ZERO).unwrap();
    for handle in 0..2000 {
        link.arrive(packet(handle, handle * 20_000_000, 100));
    }
    let delays: Vec<_> = dues(&run_out(&mut link))
        .iter()
        .enumerate()
        .map(|(number, due)| due - number as u64 * 20_000_000)
        .collect();
    assert!(delays.iter().all(|delay| (15_000_000..=25_000_000).contains(delay)));
    assert!(delays.iter().any(|delay| *delay < 15_100_000));
    assert!(delays.iter().any(|delay| *delay > 24_900_000));
}

#[derive(Clone, Debug)]
enum Step {
    Arrive { gap: u64, len: u32, segments: u16 },
    Change { gap: u64, change: Change },
}

fn any_change() -> impl Strategy<Value = Change> {
    let rates = prop_oneof![
        Just(Rate::PAUSE),
        Just(Rate::UNLIMITED),
        (1_000_u64..200_000_000).prop_map(rate)
    ];
    (
        proptest::option::of(rates),
        proptest::option::of(5_000_000_u64..30_000_000),
        proptest::option::of((1_u32..50).prop_map(Limit::Packets)),
        proptest::option::of(any::<u32>()),
    )
        .prop_map(|(rate, delay, limit, loss)| Change {
            rate,
            delay: delay.map(Duration::from_nanos),
            jitter: None,
            loss: loss.map(Probability::from_raw).map(Loss::random),
            limit,
            ..Change::default()
        })
}

fn any_step() -> impl Strategy<Value = Step> {
    let gap = prop_oneof![Just(0), 0_u64..3_000_000, 0_u64..100_000_000];
    prop_oneof![
        9 => (gap.clone(), 1_u32..70_000, 1_u16..4)
            .prop_map(|(gap, len, segments)| Step::Arrive { gap, len, segments }),
        1 => (gap, any_change()).prop_map(|(gap, change)| Step::Change { gap, change }),
    ]
}

fn any_config() -> impl Strategy<Value = LinkConfig> {
    (
        prop_oneof![Just(Rate::UNLIMITED), (10_000_u64..1_000_000_000).prop_map(rate)],
        proptest::option::of(1_u32..100_000),
        any::<bool>(),
        proptest::option::of((1_000_000_u64..2_000_000_000).prop_map(rate)),
        5_000_000_u64..50_000_000,
        0_u64..5_000_000,
        prop_oneof![Just(0_u32), any::<u32>()],
        any::<bool>(),
        proptest::option::of(1_u32..100),
        prop_oneof![Just(256_000_000_u64), 5_000_u64..500_000],
    )
        .prop_map(|(rate, burst, peak, nic, delay, jitter, loss, before, limit, hold)| {
            let burst = burst.filter(|_| rate != Rate::UNLIMITED);
            let peakrate = burst.filter(|_| peak).and_then(|_| Rate::from_bps(rate.as_bps() * 2));
            LinkConfig {
                rate,
                burst,
                peakrate,
                nic,
                delay: Duration::from_nanos(delay),
                jitter: Duration::from_nanos(jitter),
                loss: Loss::random(Probability::from_raw(loss)),
                loss_at: if before { LossAt::Before } else { LossAt::After },
                limit: limit.map(Limit::Packets),
                hold_limit: hold,
                ..LinkConfig::default()
            }
        })
}

prop_compose! {
    fn any_share()(probability in any::<u32>(), correlation in prop_oneof![Just(0), 0..u32::MAX])
        -> Correlated {
        let share = Probability::from_raw;
        Correlated { probability: share(probability), correlation: share(correlation) }
    }
}

fn any_loss() -> impl Strategy<Value = Loss> {
    let random = any_share().prop_map(|Correlated { probability, correlation }| Loss::Random {
        probability,
        correlation,
    });
    let share = || any::<u32>().prop_map(Probability::from_raw);
    let half = || (0..=u32::MAX / 2).prop_map(Probability::from_raw);
    prop_oneof![
        random,
        (share(), share(), share(), share()).prop_map(|(p, r, one_minus_h, one_minus_k)| {
            Loss::GilbertElliott { p, r, one_minus_h, one_minus_k }
        }),
        (half(), half(), half(), share(), half())
            .prop_map(|(p13, p31, p32, p23, p14)| { Loss::FourState { p13, p31, p32, p23, p14 } }),
    ]
}

fn any_slot() -> impl Strategy<Value = Slot> {
    let span = || (1_u64..3_000_000).prop_map(Duration::from_nanos);
    let gap = prop_oneof![
        (span(), span()).prop_map(|(min, more)| SlotGap::Uniform { min, max: min + more }),
        (any_distribution(), span(), span()).prop_map(|(distribution, delay, jitter)| {
            SlotGap::Spread { distribution, delay, jitter }
        }),
    ];
    (gap, 0_u32..4, prop_oneof![Just(0), 1_u32..10_000]).prop_map(|(gap, packets, bytes)| Slot {
        gap,
        packets,
        bytes,
    })
}

fn any_distribution() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        Just(Distribution::Uniform),
        Just(Distribution::Normal),
        Just(Distribution::Pareto),
        Just(Distribution::ParetoNormal),
    ]
}

fn any_reorder() -> impl Strategy<Value = Reorder> {
    prop_oneof![
        Just(Reorder::None),
        Just(Reorder::Jitter),
        (any_share(), 1_u32..6).prop_map(|(share, gap)| Reorder::Skip {
            probability: Probability::from_raw(share.probability.as_raw().max(1)),
            correlation: share.correlation,
            gap,
        }),
    ]
}

prop_compose! {
    /// Every impairment, each of them often absent.
    fn any_impaired()(
        config in any_config(),
        loss in proptest::option::of(any_loss()),
        (duplicate, corrupt) in (proptest::option::of(any_share()), proptest::option::of(any_share())),
        reorder in any_reorder(),
        slot in proptest::option::of(any_slot()),
        distribution in any_distribution(),
        (jitter, ecn) in (prop_oneof![Just(0), 0..u32::MAX], any::<bool>()),
    ) -> LinkConfig {
        LinkConfig {
            loss: loss.unwrap_or(config.loss),
            duplicate: duplicate.unwrap_or_default(),
            corrupt: corrupt.unwrap_or_default(),
            reorder,
            slot,
            distribution,
            jitter_correlation: Probability::from_raw(jitter),
            ecn: ecn && config.loss_at == LossAt::After,
            ..config
        }
    }
}

/// Plays the steps; before each one, and after the last, advances in pieces as `split` says.
fn play(config: &LinkConfig, steps: &[Step], split: &[u64]) -> (Vec<Output>, Link) {
    let mut link = Link::new(config, 42, Instant::ZERO).unwrap();
    let mut outputs = Vec::new();
    let mut now = 0;
    let mut pieces = split.iter().cycle();
    let mut arrived = 0;
    for (number, step) in steps.iter().enumerate() {
        let (Step::Arrive { gap, .. } | Step::Change { gap, .. }) = step;
        if !split.is_empty() && *gap > 0 {
            let mut advances: Vec<_> =
                (0..number % 4).map(|_| pieces.next().unwrap() % gap).collect();
            advances.sort_unstable();
            for ahead in advances {
                link.advance(Instant::from_nanos(now + ahead));
                outputs.extend(drain(&mut link));
            }
            link.advance(Instant::from_nanos(now + gap));
            outputs.extend(drain(&mut link));
        }
        now += gap;
        match step {
            Step::Arrive { len, segments, .. } => {
                arrived += u64::from(*segments);
                let ecn = Ecn::from_tos(u8::try_from(number % 4).unwrap());
                let packet = packet(number as u64, now, *len);
                link.arrive(Packet { segments: *segments, ecn, ..packet });
            }
            Step::Change { change, .. } => {
                let _ = link.change(change, Instant::from_nanos(now));
            }
        }
        outputs.extend(drain(&mut link));
        assert!(balanced(&link));
        let duplicated = link.snapshot().duplicated;
        assert_eq!(link.snapshot().queued, arrived + duplicated - fates(&outputs));
    }
    let resume = Change { rate: Some(rate(1_000_000)), ..Change::default() };
    link.change(&resume, Instant::from_nanos(now)).unwrap();
    outputs.extend(run_out(&mut link));
    (outputs, link)
}

/// Wire packets whose fate is known.
fn fates(outputs: &[Output]) -> u64 {
    let segments = |output: &Output| match output {
        Output::Depart { packet, .. } | Output::Drop { packet, .. } => u64::from(packet.segments),
    };
    outputs.iter().map(segments).sum()
}

fn balanced(link: &Link) -> bool {
    let s = link.snapshot();
    let bytes = s.queued > 0 || s.bytes_in + s.bytes_duplicated == s.bytes_out + s.bytes_dropped;
    bytes && s.packets_in + s.duplicated == s.packets_out + s.queued + s.dropped.iter().sum::<u64>()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_split_into_advances_gives_the_same_outcome(
        config in any_impaired(),
        steps in proptest::collection::vec(any_step(), 1..150),
        split in proptest::collection::vec(any::<u64>(), 1..20),
    ) {
        let (whole, _) = play(&config, &steps, &[]);
        let (pieces, _) = play(&config, &steps, &split);
        prop_assert_eq!(whole, pieces);
    }

    #[test]
    fn every_packet_and_every_copy_has_one_fate_and_none_is_early(
        config in any_impaired(),
        steps in proptest::collection::vec(any_step(), 1..150),
    ) {
        let (outputs, link) = play(&config, &steps, &[]);
        prop_assert!(balanced(&link));
        let snapshot = link.snapshot();
        prop_assert_eq!((snapshot.queued, snapshot.held_bytes, snapshot.backlog_bytes), (0, 0, 0));
        let mut fates: Vec<_> = outputs
            .iter()
            .map(|output| match output {
                Output::Depart { packet, copy, .. } | Output::Drop { packet, copy, .. } => {
                    (packet.handle, *copy)
                }
            })
            .collect();
        fates.sort_unstable();
        let count = fates.len();
        fates.dedup();
        prop_assert_eq!(fates.len(), count, "no packet or copy has two fates");
        let originals = fates.iter().filter(|(_, copy)| *copy == 0).count();
        let arrivals = steps.iter().filter(|step| matches!(step, Step::Arrive { .. })).count();
        prop_assert_eq!(originals, arrivals);
        let mut last = 0;
        for output in &outputs {
            let Output::Depart { packet, due, mark, stages, .. } = output else { continue };
            prop_assert!(*due >= packet.arrival && due.as_nanos() >= last);
            prop_assert!(*mark != Mark::Ce || packet.ecn.is_capable());
            last = due.as_nanos();
            let sum = stages.pacing + stages.queue + stages.serialisation + stages.propagation;
            prop_assert_eq!(sum, due.since(packet.arrival));
        }
    }

    #[test]
    fn nothing_leaves_before_the_next_event_and_each_event_comes(
        config in any_impaired(),
        steps in proptest::collection::vec(any_step(), 1..80),
    ) {
        let mut link = Link::new(&config, 7, Instant::ZERO).unwrap();
        let mut now = 0;
        for (number, step) in steps.iter().enumerate() {
            let (Step::Arrive { gap, .. } | Step::Change { gap, .. }) = step;
            let then = now + gap;
            let ahead = |link: &Link| link.next_event().filter(|next| next.at.as_nanos() < then);
            while let Some(deadline) = ahead(&link) {
                let just_before = deadline.at - Duration::from_nanos(1);
                let mut out = Vec::new();
                if (now..deadline.at.as_nanos()).contains(&just_before.as_nanos()) {
                    link.advance(just_before);
                    out = drain(&mut link);
                    prop_assert!(dues(&out).is_empty(), "left before {:?}", deadline);
                }
                link.advance(deadline.at);
                out.extend(drain(&mut link));
                prop_assert!(!out.is_empty() || link.next_event() != Some(deadline), "no progress");
                now = now.max(deadline.at.as_nanos());
            }
            now = then;
            match step {
                Step::Arrive { len, segments, .. } => {
                    let packet = packet(number as u64, now, *len);
                    link.arrive(Packet { segments: *segments, ..packet });
                }
                Step::Change { change, .. } => {
                    let _ = link.change(change, Instant::from_nanos(now));
                }
            }
            drain(&mut link);
        }
    }

    #[test]
    fn without_reorder_packets_and_copies_leave_in_order(
        config in any_impaired(),
        steps in proptest::collection::vec(any_step(), 1..150),
    ) {
        let config = LinkConfig { reorder: Reorder::None, ..config };
        let (outputs, link) = play(&config, &steps, &[]);
        let mut last = None;
        for output in &outputs {
            let Output::Depart { packet, copy, .. } = output else { continue };
            prop_assert!(Some((packet.handle, *copy)) > last);
            last = Some((packet.handle, *copy));
        }
        prop_assert_eq!(link.snapshot().reordered, 0);
    }

    #[test]
    fn a_saturated_link_carries_its_rate_to_the_nanosecond(
        bps in 1_000_u64..10_000_000_000,
        lens in proptest::collection::vec(20_u32..1500, 1..300),
    ) {
        let config = LinkConfig {
            rate: rate(bps),
            framing: 0,
            limit: Some(Limit::Packets(1000)),
            ..LinkConfig::default()
        };
        let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
        for (number, len) in lens.iter().enumerate() {
            link.arrive(packet(number as u64, 0, *len));
        }
        let mut bits = 0_u128;
        for (due, len) in dues(&run_out(&mut link)).iter().zip(&lens) {
            bits += u128::from(*len) * 8;
            prop_assert_eq!(u128::from(*due), (bits * 1_000_000_000).div_ceil(u128::from(bps)));
        }
    }
}

#[test]
fn a_deadline_heeds_what_the_nic_lets_through_before_a_paced_packet_may_go() {
    let config = LinkConfig::parse("nic=10mbit queue=fq", "up").unwrap();
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    let transmit = TransmitTime::new(Instant::from_nanos(100_000_000));
    link.arrive(Packet { transmit, ..packet(0, 0, 1500) });
    link.advance(Instant::from_nanos(10_000_000));
    assert_eq!(link.next_event().unwrap().cause, Cause::Queue);
    link.arrive(Packet { flow: 8, ..packet(1, 10_000_000, 1500) });
    let deadline = link.next_event().unwrap();
    assert_eq!((deadline.cause, deadline.at.as_nanos()), (Cause::Nic, 11_211_200));
    drain(&mut link);
    link.advance(deadline.at);
    assert_eq!(dues(&drain(&mut link)), [11_211_200]);
}

#[test]
fn tbf_lets_packets_go_at_peakrate_when_a_change_raises_the_rate_above_it() {
    let words = "rate=10mbit queue=tbf burst=3kb peakrate=20mbit tbf.mtu=2kb limit=10kb";
    let mut link = Link::new(&LinkConfig::parse(words, "up").unwrap(), 1, Instant::ZERO).unwrap();
    (0..3).for_each(|handle| link.arrive(packet(handle, 0, 1500)));
    let change = Change { rate: Some(rate(1_000_000_000)), ..Change::default() };
    link.change(&change, Instant::ZERO).unwrap();
    let outputs = run_out(&mut link);
    let spans: Vec<_> = dues(&outputs).windows(2).map(|pair| pair[1] - pair[0]).collect();
    // 1514 bytes at 20 Mbit/s each, the first of them less what is left of 2048.
    assert_eq!(spans, [392_000, 605_600]);
}
