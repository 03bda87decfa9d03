//! What a link says of the trace that it follows: opportunities used and wasted, where it is, what
//! it was asked for.

use std::sync::Arc;

use proptest::prelude::*;
use punctual_sched::trace::{
    Course, Delivery, Opportunity, Position, Schedule, Step, Timeline, Trace, TraceOptions,
    TraceStart,
};
use punctual_sched::{ConfigBuilder, Duration, Instant, Link, LinkConfig, Packet, Rate};

const MS: u64 = 1_000_000;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn packet(handle: u64, nanos: u64, len: u32) -> Packet {
    Packet::on_path(handle, at(nanos), len, 1)
}

/// `count` opportunities at each time in ms, again and again.
fn deliveries(times: &[(u64, u32)]) -> Trace {
    let delivery = |&(ms, count): &(u64, u32)| Delivery { at: Duration::from_millis(ms), count };
    let at: Vec<_> = times.iter().map(delivery).collect();
    let span = at.last().expect("not empty").at;
    let course = Course::Deliveries { at, opportunity: Opportunity::MAHIMAHI };
    let schedule = Schedule::new(Timeline { course, span }).expect("in order");
    let start = TraceStart::AtOnce;
    Trace { repeat: true, start, ..Trace::new(Arc::new(schedule)) }
}

fn delays(ms: &[u64]) -> Trace {
    let step = |(index, &ms): (usize, &u64)| Step {
        at: Duration::from_secs(index as u64),
        delay: Some(Duration::from_millis(ms)),
        ..Step::default()
    };
    let steps: Vec<_> = ms.iter().enumerate().map(step).collect();
    let span = Duration::from_secs(steps.len() as u64);
    let timeline = Timeline { course: Course::Steps(steps), span };
    Trace::new(Arc::new(Schedule::new(timeline).expect("in order")))
}

fn config_of(words: &str, trace: Trace) -> LinkConfig {
    let mut builder = ConfigBuilder::default();
    builder.words(words, "--up").expect("words");
    builder.follow(trace);
    builder.finish().expect("valid")
}

fn link_of(words: &str, trace: Trace) -> Link {
    Link::new(&config_of(words, trace), 1, Instant::ZERO).expect("valid")
}

fn counted(link: &Link) -> (u64, u64) {
    let snapshot = link.snapshot();
    (snapshot.opportunities_used, snapshot.opportunities_wasted)
}

#[test]
fn every_opportunity_is_used_or_wasted() {
    let mut link = link_of("limit=1000p", deliveries(&[(5, 3), (10, 1)]));
    assert_eq!(counted(&link), (0, 0));
    link.advance(at(4 * MS));
    assert_eq!(counted(&link), (0, 0));
    // At their own instant, although nothing is done for them.
    link.advance(at(5 * MS));
    assert_eq!(counted(&link), (0, 3));
    link.arrive(packet(0, 6 * MS, 1_500));
    link.arrive(packet(1, 7 * MS, 60));
    link.advance(at(10 * MS));
    assert_eq!(counted(&link), (1, 3));
    // 64 bytes use one of three.
    link.advance(at(15 * MS));
    assert_eq!(counted(&link), (2, 5));
    // A packet that goes on with the next one uses both.
    link.arrive(packet(2, 16 * MS, 2_000));
    link.advance(at(24 * MS));
    assert_eq!(counted(&link), (3, 5));
    link.advance(at(25 * MS));
    assert_eq!(counted(&link), (4, 7));
    // A day of them is no work.
    link.advance(at(86_400_000 * MS));
    assert_eq!(counted(&link), (4, 8_640_000 * 4 - 4));
}

#[test]
fn opportunities_are_counted_over_all_traces_that_were_followed() {
    let mut link = link_of("limit=1000p", deliveries(&[(1, 1)]));
    link.follow(None, at(10 * MS)).unwrap();
    assert_eq!(counted(&link), (0, 10));
    link.advance(at(20 * MS));
    assert_eq!(counted(&link), (0, 10));
    let first = Trace { start: TraceStart::FirstPacket, ..deliveries(&[(2, 2)]) };
    link.follow(Some(first), at(20 * MS)).unwrap();
    link.advance(at(30 * MS));
    assert_eq!(counted(&link), (0, 10));
    link.arrive(packet(0, 30 * MS, 1_500));
    link.advance(at(34 * MS));
    assert_eq!(counted(&link), (1, 13));
    let steps = delays(&[1]);
    link.follow(Some(steps), at(34 * MS)).unwrap();
    link.advance(at(90 * MS));
    assert_eq!(counted(&link), (1, 13));
}

#[test]
fn where_a_link_is_in_its_trace_is_known() {
    let mut link = link_of("", delays(&[10, 20]));
    let waits = Position { begun: None, rounds: 0, within: Duration::ZERO, ended: false };
    link.advance(at(500 * MS));
    assert_eq!(link.trace_position(), Some(waits));
    link.arrive(packet(0, 700 * MS, 100));
    link.advance(at(2_000 * MS));
    let begun = Some(at(700 * MS));
    let within = Duration::from_millis(1_300);
    assert_eq!(link.trace_position(), Some(Position { begun, within, ..waits }));
    link.advance(at(2_700 * MS));
    let ended = Position { begun, within: Duration::from_secs(2), rounds: 0, ended: true };
    assert_eq!(link.trace_position(), Some(ended));
    let again = Trace {
        repeat: true,
        start: TraceStart::AtOnce,
        offset: Duration::from_millis(5_500),
        ..delays(&[10, 20])
    };
    link.follow(Some(again), at(3_000 * MS)).unwrap();
    link.advance(at(6_600 * MS));
    let begun = Some(at(3_000 * MS));
    let within = Duration::from_millis(1_100);
    let position = Position { begun, rounds: 2, within, ended: false };
    assert_eq!(link.trace_position(), Some(position));
    link.follow(None, at(6_600 * MS)).unwrap();
    assert_eq!(link.trace_position(), None);
}

#[test]
fn a_link_that_was_made_to_follow_a_file_can_stop_and_follow_another() {
    let mut link = link_of("trace=here.csv", delays(&[10, 20]));
    let trace = |link: &Link| {
        let entries = link.config().entries();
        entries.into_iter().find(|(name, _)| *name == "trace").map(|(_, value)| value)
    };
    assert!(trace(&link).unwrap().starts_with("here.csv (2s"), "{:?}", trace(&link));
    link.arrive(packet(0, 0, 100));
    link.advance(at(1_500 * MS));
    link.follow(None, at(1_500 * MS)).unwrap();
    assert_eq!(trace(&link).unwrap(), "none");
    // What the last step has set stays.
    assert_eq!(link.config().delay, Duration::from_millis(20));
    let options = TraceOptions { file: Some("there".into()), ..TraceOptions::default() };
    link.follow_as(Some((options, delays(&[30]))), at(1_600 * MS)).unwrap();
    assert!(trace(&link).unwrap().starts_with("there (1s"), "{:?}", trace(&link));
    assert_eq!(link.in_force().delay, Duration::from_millis(30));
}

#[test]
fn what_a_link_cannot_follow_leaves_it_as_it_was() {
    for (words, trace, problem) in [
        ("rate=8mbit burst=2kb queue=tbf limit=9kb", deliveries(&[(1, 1)]), "queue: "),
        ("rate=8mbit queue=jens", deliveries(&[(1, 1)]), "queue: "),
        ("delay=1ms impair=netem", deliveries(&[(1, 1)]), "impair: "),
        ("rate=8mbit burst=9kb", deliveries(&[(1, 1)]), "burst: "),
        ("rate=8mbit nic=9mbit", deliveries(&[(1, 1)]), "nic: "),
        ("delay=30ms jitter=20ms", delays(&[30, 10]), "jitter: "),
    ] {
        let config = LinkConfig::parse(words, "--up").expect(words);
        let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
        let before = link.config().clone();
        let refused = link.follow(Some(trace), at(MS)).unwrap_err().to_string();
        assert!(refused.starts_with(problem), "{words}: {refused}");
        assert_eq!(link.config(), &before, "{words}");
        assert_eq!((link.trace_position(), link.now()), (None, Instant::ZERO), "{words}");
    }
}

#[test]
fn the_delays_of_a_trace_are_those_of_its_link() {
    let config = config_of("jitter=2ms", delays(&[30, 7, 90]));
    assert_eq!(config.least_delay(), Duration::from_millis(7));
    assert_eq!(config.greatest_delay(), Duration::from_millis(90));
    assert_eq!(config.greatest_latency(), Duration::from_millis(92));
    let config = config_of("delay=5ms", deliveries(&[(1, 1)]));
    assert_eq!((config.least_delay(), config.greatest_delay()), (config.delay, config.delay));
}

proptest! {
    /// However packets come and the time is given.
    #[test]
    fn used_and_wasted_are_all_that_came(
        gaps in prop::collection::vec((1_u64..9, 1_u32..4), 1..90),
        offset in 0_u64..500,
        calls in prop::collection::vec((0_u64..40 * MS, prop::option::of(40_u32..4_000)), 0..60),
    ) {
        let mut time = 0;
        let mut times = Vec::new();
        for (gap, count) in gaps {
            time += gap;
            times.push((time, count));
        }
        let trace = Trace { offset: Duration::from_millis(offset), ..deliveries(&times) };
        let mut link = link_of("limit=9p", trace);
        let mut now = 0;
        for (number, (gap, len)) in calls.into_iter().enumerate() {
            now += gap;
            match len {
                Some(len) => link.arrive(packet(number as u64, now, len)),
                None => link.advance(at(now)),
            }
            while link.poll().is_some() {}
            let (span, start) = (time * MS, offset % time * MS);
            let through = |to: u64| {
                let round: u64 = times.iter().map(|&(_, count)| u64::from(count)).sum();
                let within = times.iter().filter(|(ms, _)| ms * MS <= to % span);
                to / span * round + within.map(|&(_, count)| u64::from(count)).sum::<u64>()
            };
            let came = through(start + now) - through(start);
            let (used, wasted) = counted(&link);
            prop_assert_eq!(used + wasted, came);
            let bytes = link.snapshot().served_bytes;
            prop_assert!(used * 1_504 >= bytes, "{} of {}", bytes, used);
        }
    }
}

/// A rate that a link has while it follows none.
#[test]
fn a_link_with_a_rate_has_it_again_after_deliveries() {
    let mut link =
        Link::new(&LinkConfig::parse("rate=8mbit limit=99p", "--up").unwrap(), 1, Instant::ZERO)
            .unwrap();
    link.follow(Some(deliveries(&[(1, 1)])), at(0)).unwrap();
    link.advance(at(5 * MS));
    link.follow(None, at(5 * MS)).unwrap();
    assert_eq!(link.rate(), Rate::from_bps(8_000_000).unwrap());
    assert_eq!(counted(&link), (0, 5));
}
