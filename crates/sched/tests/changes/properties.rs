//! Random changes of random parameters at random times.

use proptest::prelude::*;
use punctual_sched::config::QueueKind;
use punctual_sched::impair::Impair;
use punctual_sched::{Change, Ecn, Instant, Link, LinkConfig, Output, Packet, Rate};

use crate::changes::{CHANGES, REORDERING, add};

const MILLI: u64 = 1_000_000;

#[derive(Clone, Debug)]
enum Step {
    Arrive { gap: u64, len: u32, segments: u16, flow: u32, ecn: u8 },
    Change { gap: u64, change: Change },
}

impl Step {
    fn gap(&self) -> u64 {
        let (Self::Arrive { gap, .. } | Self::Change { gap, .. }) = self;
        *gap
    }

    fn shorten(&mut self, by: u64) {
        let (Self::Arrive { gap, .. } | Self::Change { gap, .. }) = self;
        *gap -= by;
    }
}

/// Of the first `words` of all.
fn any_change(words: usize) -> impl Strategy<Value = Change> {
    proptest::collection::vec(0..words, 1..4).prop_map(|which| {
        let mut change = Change::default();
        for which in which {
            add(&mut change, CHANGES[which]);
        }
        change
    })
}

fn any_steps(words: usize) -> impl Strategy<Value = Vec<Step>> {
    let gap = || prop_oneof![Just(0), 0_u64..3 * MILLI, 0_u64..100 * MILLI];
    let step = prop_oneof![
        6 => (gap(), 1_u32..5_000, 1_u16..4, 0_u32..4, 0_u8..4)
            .prop_map(|(gap, len, segments, flow, ecn)| {
                let flow = flow.wrapping_mul(0x9e37_79b9);
                Step::Arrive { gap, len, segments, flow, ecn }
            }),
        1 => (gap(), any_change(words)).prop_map(|(gap, change)| Step::Change { gap, change }),
    ];
    proptest::collection::vec(step, 1..150)
}

fn any_link() -> impl Strategy<Value = LinkConfig> {
    let words = prop_oneof![
        Just("rate=10mbit"),
        Just("rate=10mbit burst=9kb peakrate=40mbit delay=5ms"),
        Just("rate=5mbit nic=20mbit delay=5ms jitter=3ms duplicate=10% loss=5%"),
        Just("rate=10mbit delay=5ms slot=2ms,packets=3 corrupt=10%"),
        Just("rate=10mbit queue=tbf burst=9kb"),
        Just("rate=10mbit queue=jens"),
        Just("rate=10mbit queue=fq fq.maxrate=3mbit"),
        Just("rate=5mbit queue=codel"),
        Just("rate=5mbit queue=fq_codel"),
        Just("rate=5mbit queue=dualpi2"),
        Just("rate=5mbit delay=10ms jitter=5ms loss=5% impair=netem"),
    ];
    words.prop_map(|words| LinkConfig::parse(words, "link").unwrap())
}

fn drain(link: &mut Link) -> impl Iterator<Item = Output> {
    core::iter::from_fn(|| link.poll())
}

/// Plays the steps; before each one advances in pieces as `split` says.
fn play(config: &LinkConfig, steps: &[Step], split: &[u64]) -> (Vec<Output>, Link) {
    let mut link = Link::new(config, 42, Instant::ZERO).unwrap();
    let (mut outputs, mut now, mut pieces) = (Vec::new(), 0, split.iter().cycle());
    for (number, step) in steps.iter().enumerate() {
        if !split.is_empty() && step.gap() > 0 {
            let mut ahead: Vec<_> =
                (0..number % 4).map(|_| pieces.next().unwrap() % step.gap()).collect();
            ahead.sort_unstable();
            for ahead in ahead {
                link.advance(Instant::from_nanos(now + ahead));
                outputs.extend(drain(&mut link));
            }
        }
        now += step.gap();
        let at = Instant::from_nanos(now);
        match step {
            &Step::Arrive { len, segments, flow, ecn, .. } => {
                let ecn = Ecn::from_tos(ecn);
                let packet = Packet::on_path(number as u64, at, len, flow);
                link.arrive(Packet { segments, ecn, ..packet });
            }
            Step::Change { change, .. } => {
                let _ = link.change(change, at);
            }
        }
        outputs.extend(drain(&mut link));
    }
    let resume = Change { rate: Rate::from_bps(100_000_000), ..Change::default() };
    link.change(&resume, Instant::from_nanos(now)).unwrap();
    outputs.extend(drain(&mut link));
    while let Some(deadline) = link.next_event() {
        link.advance(deadline.at);
        outputs.extend(drain(&mut link));
    }
    (outputs, link)
}

#[test]
fn every_parameter_that_can_change_is_among_the_words() {
    let words = CHANGES.join(" ");
    let named: std::collections::BTreeSet<_> =
        words.split_whitespace().filter_map(|word| Some(word.split_once('=')?.0)).collect();
    for row in punctual_sched::parameters() {
        let expected = !matches!(row.live, punctual_sched::Live::No(_));
        assert_eq!(named.contains(row.name), expected, "{}", row.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn however_time_is_split_the_outcome_is_the_same(
        config in any_link(),
        steps in any_steps(CHANGES.len()),
        split in proptest::collection::vec(any::<u64>(), 1..20),
    ) {
        let (whole, _) = play(&config, &steps, &[]);
        let (pieces, _) = play(&config, &steps, &split);
        prop_assert_eq!(whole, pieces);
    }

    #[test]
    fn every_packet_and_every_copy_has_one_fate_and_its_stages_sum_to_its_delay(
        config in any_link(),
        steps in any_steps(CHANGES.len()),
    ) {
        let (outputs, link) = play(&config, &steps, &[]);
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
        for output in &outputs {
            let Output::Depart { packet, due, stages, .. } = output else { continue };
            let sum = stages.pacing + stages.queue + stages.serialisation + stages.propagation;
            prop_assert_eq!(sum, due.since(packet.arrival), "{:?}", packet);
        }
    }

    #[test]
    fn without_reorder_packets_of_one_kind_and_flow_leave_in_order(
        config in any_link(),
        steps in any_steps(CHANGES.len() - REORDERING),
    ) {
        prop_assume!(config.impair == Impair::Own);
        let (outputs, link) = play(&config, &steps, &[]);
        let mut last = std::collections::BTreeMap::new();
        for output in &outputs {
            let Output::Depart { packet, copy, .. } = output else { continue };
            let this = (packet.handle, *copy);
            let before = last.insert((packet.flow, packet.ecn as u8), this);
            prop_assert!(before < Some(this), "{:?} after {:?}", this, before);
        }
        prop_assert_eq!(link.snapshot().reordered, 0);
    }

    #[test]
    fn what_a_change_names_that_is_in_force_already_does_nothing(
        config in any_link(),
        steps in any_steps(CHANGES.len()),
    ) {
        let mut whole = Link::new(&config, 42, Instant::ZERO).unwrap();
        let mut less = Link::new(&config, 42, Instant::ZERO).unwrap();
        let mut now = 0;
        for (number, step) in steps.iter().enumerate() {
            now += step.gap();
            let at = Instant::from_nanos(now);
            match step {
                &Step::Arrive { len, flow, .. } => {
                    for link in [&mut whole, &mut less] {
                        link.arrive(Packet::on_path(number as u64, at, len, flow));
                    }
                }
                Step::Change { change, .. } => {
                    if whole.changes(change) {
                        let news = less.news(change, at);
                        prop_assert_ne!(&news, &Change::default());
                        match whole.change(change, at) {
                            Ok(changed) => prop_assert_eq!(less.change(&news, at), Ok(changed)),
                            Err(_) => whole.advance(at),
                        }
                    }
                }
            }
            prop_assert_eq!(drain(&mut whole).collect::<Vec<_>>(), drain(&mut less).collect::<Vec<_>>());
            prop_assert_eq!(whole.config(), less.config());
        }
        prop_assert_eq!(whole.snapshot(), less.snapshot());
    }

    #[test]
    fn a_limit_that_nothing_reaches_can_change_at_any_time_and_nothing_follows(
        config in any_link(),
        arrivals in any_steps(1),
        at in proptest::collection::vec((0_usize..150, 0_u64..3 * MILLI), 1..40),
    ) {
        let limits = match (config.impair, config.queue) {
            (Impair::Netem, _) => ["netem.limit=900p", "netem.limit=800p"],
            (_, QueueKind::Tbf) => ["limit=9mb", "limit=8mb"],
            _ => ["limit=900p", "limit=800p"],
        };
        let limits = limits.map(|limit| Change::from_words(limit, "set").unwrap());
        let config = config.changed(&limits[0]);
        let mut steps: Vec<_> =
            arrivals.into_iter().filter(|step| matches!(step, Step::Arrive { .. })).collect();
        prop_assume!(!steps.is_empty());
        let (plain, _) = play(&config, &steps, &[]);
        for (n, (place, gap)) in at.into_iter().enumerate() {
            let change = limits[(n + 1) % 2].clone();
            // What comes after it comes when it did; the last change of all stays the last.
            let place = place % steps.len();
            let gap = gap.min(steps[place].gap());
            steps[place].shorten(gap);
            steps.insert(place, Step::Change { gap, change });
        }
        let (told, _) = play(&config, &steps, &[]);
        let fates = |outputs: Vec<Output>| -> Vec<_> {
            outputs.into_iter().map(|mut output| {
                let (Output::Depart { packet, .. } | Output::Drop { packet, .. }) = &mut output;
                packet.handle = 0;
                output
            }).collect()
        };
        prop_assert_eq!(fates(plain), fates(told));
    }

    #[test]
    fn a_change_that_is_refused_leaves_everything_as_it_was(
        config in any_link(),
        steps in any_steps(CHANGES.len()),
    ) {
        let refused = |link: &mut Link, at| {
            let bad = [("delay", "7200s"), ("jitter", "9999s"), ("limit", "0p"), ("burst", "0b")];
            for (name, value) in bad {
                let mut change = Change::from_words("rate=3mbit loss=100%", "set").unwrap();
                change.set(name, value).unwrap();
                assert!(link.change(&change, at).is_err(), "{name}={value}");
            }
        };
        let mut plain = Link::new(&config, 42, Instant::ZERO).unwrap();
        let mut told = Link::new(&config, 42, Instant::ZERO).unwrap();
        let mut now = 0;
        for (number, step) in steps.iter().enumerate() {
            now += step.gap();
            let at = Instant::from_nanos(now);
            refused(&mut told, at);
            for link in [&mut plain, &mut told] {
                match step {
                    &Step::Arrive { len, flow, .. } => {
                        link.arrive(Packet::on_path(number as u64, at, len, flow));
                    }
                    Step::Change { change, .. } => {
                        let _ = link.change(change, at);
                    }
                }
            }
            prop_assert_eq!(drain(&mut plain).collect::<Vec<_>>(), drain(&mut told).collect::<Vec<_>>());
            prop_assert_eq!(plain.config(), told.config());
        }
        prop_assert_eq!(plain.snapshot(), told.snapshot());
    }
}
