//! A link with `impair=netem`: its promises, as scenarios and over random inputs.
#![expect(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use proptest::prelude::*;
use punctual_sched::config::LossAt;
use punctual_sched::queue::show;
use punctual_sched::{Change, Duration, Instant, Link, LinkConfig, Output, Packet};

fn link(words: &str, seed: u64) -> Link {
    let config = LinkConfig::parse(&format!("impair=netem {words}"), "test").unwrap();
    Link::new(&config, seed, Instant::ZERO).unwrap()
}

fn packet(handle: u64, at: u64, len: u32) -> Packet {
    Packet::on_path(handle, Instant::from_nanos(at), len, 7)
}

fn outputs(link: &mut Link) -> Vec<Output> {
    core::iter::from_fn(|| link.poll()).collect()
}

fn dues(outputs: &[Output]) -> Vec<u64> {
    let departures = outputs.iter().filter_map(|output| match output {
        Output::Depart { due, .. } => Some(due.as_nanos()),
        Output::Drop { .. } => None,
    });
    departures.collect()
}

const MILLI: u64 = 1_000_000;

#[test]
fn the_link_has_no_second_serialiser_and_no_second_delay() {
    let mut link = link("rate=8mbit delay=5ms loss=0% framing=0", 1);
    for handle in 0..3 {
        link.arrive(packet(handle, 0, 1000));
    }
    link.advance(Instant::from_nanos(1_000 * MILLI));
    let outputs = outputs(&mut link);
    assert_eq!(dues(&outputs), [6 * MILLI, 7 * MILLI, 8 * MILLI]);
    let Output::Depart { stages, .. } = outputs[0] else { panic!("a departure") };
    assert_eq!(stages.propagation, Duration::from_millis(5));
    assert_eq!(stages.queue, Duration::from_millis(1), "its own serialisation");
    let Output::Depart { stages, .. } = outputs[2] else { panic!("a departure") };
    assert_eq!((stages.propagation, stages.queue), (Duration::ZERO, Duration::from_millis(8)));
}

#[test]
fn a_packet_is_lost_once_with_loss_before_or_after_the_queue() {
    for loss_at in [LossAt::Before, LossAt::After] {
        let config = LinkConfig::parse("impair=netem loss=50%", "test").unwrap();
        let mut link = Link::new(&LinkConfig { loss_at, ..config }, 1, Instant::ZERO).unwrap();
        for handle in 0..1000 {
            link.arrive(packet(handle, handle, 100));
        }
        let lost: u64 = link.snapshot().dropped.iter().sum();
        assert!((430..570).contains(&lost), "{lost} of 1000, not about half");
    }
}

#[test]
fn netem_is_shown_with_its_own_limit() {
    let config = LinkConfig::parse("impair=netem delay=1ms netem.seed=42", "test").unwrap();
    let text = show(&config, &link("delay=1ms netem.seed=42", 1).snapshot());
    let expected = "qdisc netem root limit 1000 delay 1ms seed 42";
    assert_eq!(text.lines().next(), Some(expected));
}

#[test]
fn packets_pass_the_senders_access_rate_before_they_are_judged() {
    let mut link = link("nic=8mbit delay=5ms framing=0", 1);
    link.arrive(packet(0, 0, 1000));
    link.arrive(packet(1, 0, 1000));
    link.advance(Instant::from_nanos(1_000 * MILLI));
    assert_eq!(dues(&outputs(&mut link)), [6 * MILLI, 7 * MILLI]);
}

#[test]
fn a_live_change_of_delay_keeps_the_times_of_packets_on_their_way() {
    let mut link = link("delay=50ms", 1);
    link.arrive(packet(0, 0, 1000));
    let change = Change::from_words("delay=10ms", "test").unwrap();
    link.change(&change, Instant::from_nanos(MILLI)).unwrap();
    link.arrive(packet(1, MILLI, 1000));
    link.advance(Instant::from_nanos(1_000 * MILLI));
    assert_eq!(dues(&outputs(&mut link)), [11 * MILLI, 50 * MILLI]);
    assert_eq!(link.snapshot().reordered, 1);
}

const LINKS: &[&str] = &[
    "delay=5ms jitter=9ms loss=20%,30% duplicate=30% corrupt=10% reorder=10%,50%,gap=3",
    "delay=5ms rate=8mbit netem.limit=5p duplicate=50%,20% ecn=on loss=gemodel,10%,30%",
    "delay=1ms jitter=2ms,40% distribution=paretonormal slot=1ms,3ms,packets=2,bytes=3kb",
    "slot=normal,2ms,3ms loss=state,10%,30%,20%,50%,5% nic=20mbit duplicate=10%",
];

fn accounted(link: &Link) -> bool {
    let snapshot = link.snapshot();
    let known = snapshot.packets_out + snapshot.dropped.iter().sum::<u64>() + snapshot.queued;
    snapshot.packets_in + snapshot.duplicated == known
}

proptest! {
    #[test]
    fn every_packet_is_accounted_for_and_how_calls_are_split_makes_no_difference(
        words in proptest::sample::select(LINKS),
        seed in any::<u64>(),
        arrivals in proptest::collection::vec((0..2 * MILLI, 1..1500_u32, any::<bool>()), 1..150),
    ) {
        let (mut whole, mut split) = (link(words, seed), link(words, seed));
        let (mut fates, mut at) = ([vec![], vec![]], 0);
        for (handle, (gap, len, halfway)) in (0..).zip(arrivals) {
            if halfway {
                split.advance(Instant::from_nanos(at + gap / 2));
            }
            at += gap;
            for link in [&mut whole, &mut split] {
                if handle % 40 == 39 {
                    let change = Change::from_words("delay=3ms loss=5%", "test").unwrap();
                    link.change(&change, Instant::from_nanos(at)).unwrap();
                }
                link.arrive(packet(handle, at, len));
                prop_assert!(accounted(link), "{:?}", link.snapshot());
            }
        }
        while let Some(deadline) = split.next_event() {
            split.advance(deadline.at);
        }
        whole.advance(Instant::from_nanos(u64::MAX));
        for (link, fates) in [&mut whole, &mut split].into_iter().zip(&mut fates) {
            fates.extend(outputs(link));
            prop_assert_eq!((link.snapshot().queued, link.snapshot().held_bytes), (0, 0));
            prop_assert!(accounted(link));
        }
        prop_assert_eq!(&fates[0], &fates[1]);
        for fate in &fates[0] {
            let Output::Depart { packet, due, stages, .. } = fate else { continue };
            let parts = [stages.pacing, stages.queue, stages.serialisation, stages.propagation];
            let sum = parts.into_iter().fold(Duration::ZERO, |sum, part| sum + part);
            prop_assert_eq!(*due, packet.arrival + sum);
        }
    }
}
