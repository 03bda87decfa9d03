//! A link that follows a trace, in virtual time: exact times of steps and opportunities.

use std::sync::Arc;

use punctual_sched::trace::{
    Course, Delivery, Opportunity, Schedule, Step, Timeline, TimelineError, Trace, TraceOptions,
    TraceStart,
};
use punctual_sched::{
    Cause, Change, ConfigBuilder, Duration, Instant, Link, LinkConfig, Output, Packet, Probability,
    Rate,
};

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).expect("in range")
}

fn span(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

/// A Mahimahi file: times in ms, which repeat at the last.
fn mahimahi(lines: &[u64]) -> Trace {
    deliveries(lines, Opportunity::MAHIMAHI)
}

fn deliveries(lines: &[u64], opportunity: Opportunity) -> Trace {
    Trace {
        repeat: true,
        ..Trace::new(Arc::new(Schedule::new(timeline(lines, opportunity)).expect("in order")))
    }
}

fn timeline(lines: &[u64], opportunity: Opportunity) -> Timeline {
    let mut all: Vec<Delivery> = Vec::new();
    for &ms in lines {
        let at = Duration::from_millis(ms);
        match all.last_mut() {
            Some(last) if last.at == at => last.count += 1,
            _ => all.push(Delivery { at, count: 1 }),
        }
    }
    let span = all.last().expect("not empty").at;
    Timeline { course: Course::Deliveries { at: all, opportunity }, span }
}

fn rates(steps: &[(u64, u64)], nanos: u64) -> Trace {
    let step = |&(at, bps): &(u64, u64)| Step {
        at: span(at),
        rate: Some(Rate::from_bps(bps).expect("in range")),
        ..Step::default()
    };
    steps_of(steps.iter().map(step).collect(), nanos)
}

fn steps_of(steps: Vec<Step>, nanos: u64) -> Trace {
    let timeline = Timeline { course: Course::Steps(steps), span: span(nanos) };
    Trace {
        start: TraceStart::AtOnce,
        ..Trace::new(Arc::new(Schedule::new(timeline).expect("in order")))
    }
}

fn link_of(words: &str, trace: Trace) -> Link {
    Link::new(&config_of(words, trace).expect("valid"), 1, Instant::ZERO).expect("valid")
}

fn config_of(words: &str, trace: Trace) -> Result<LinkConfig, String> {
    let mut builder = ConfigBuilder::default();
    builder.words(words, "--up").map_err(|error| error.to_string())?;
    builder.follow(trace);
    builder.finish().map_err(|error| error.to_string())
}

fn packet(handle: u64, nanos: u64, len: u32) -> Packet {
    Packet::on_path(handle, at(nanos), len, 1)
}

fn drain(link: &mut Link) -> Vec<(u64, u64)> {
    core::iter::from_fn(|| link.poll())
        .map(|output| match output {
            Output::Depart { packet, due, .. } => (packet.handle, due.as_nanos()),
            Output::Drop { packet, reason, at, .. } => panic!("{packet:?} {reason:?} {at:?}"),
        })
        .collect()
}

/// Every departure, in ms.
fn run_to(link: &mut Link, nanos: u64) -> Vec<(u64, u64)> {
    link.advance(at(nanos));
    drain(link)
}

#[test]
fn a_mahimahi_trace_delivers_packet_by_packet_at_its_opportunities() {
    let mut link = link_of("limit=1000p", mahimahi(&[7, 8, 8, 8, 8, 8, 14]));
    for handle in 0..16 {
        link.arrive(packet(handle, 0, 1_500));
    }
    let all: Vec<_> = run_to(&mut link, 100 * MS).iter().map(|(_, due)| due / MS).collect();
    assert_eq!(all, [7, 8, 8, 8, 8, 8, 14, 21, 22, 22, 22, 22, 22, 28, 35, 36]);
}

#[test]
fn small_packets_share_an_opportunity_and_large_ones_go_on_with_the_next() {
    // 60 bytes count 64: 23 and a half fit.
    let mut link = link_of("limit=1000p", mahimahi(&[1]));
    for handle in 0..48 {
        link.arrive(packet(handle, 0, 60));
    }
    let all = run_to(&mut link, 10 * MS);
    let at_ms = |ms: u64| all.iter().filter(|(_, due)| *due == ms * MS).count();
    // The one that straddles two leaves with the second.
    assert_eq!([at_ms(1), at_ms(2), at_ms(3)], [23, 24, 1]);
    // By the manual 25 of 60 bytes fill 1500.
    let mut link = link_of("limit=1000p", deliveries(&[1], Opportunity::IP));
    for handle in 0..26 {
        link.arrive(packet(handle, 0, 60));
    }
    let all = run_to(&mut link, 10 * MS);
    assert_eq!(all.iter().filter(|(_, due)| *due == MS).count(), 25);
    // 4,000 bytes count 4,004: the third opportunity completes them and has 508 left.
    let mut link = link_of("limit=1000p", mahimahi(&[1]));
    link.arrive(packet(0, 0, 4_000));
    link.arrive(packet(1, 0, 504));
    link.arrive(packet(2, 0, 100));
    assert_eq!(run_to(&mut link, 10 * MS), [(0, 3 * MS), (1, 3 * MS), (2, 4 * MS)]);
}

/// The times of 700-byte packets through a file that is one line `1`: by the code 704 of 1,504
/// bytes, by the manual 700 of 1,500.
#[test]
fn packets_straddle_opportunities_at_the_times_that_each_count_gives() {
    for (opportunity, len, expected) in [
        (Opportunity::MAHIMAHI, 700_u64, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]),
        (Opportunity::IP, 700, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]),
        // 1,004 end at 1, 2, 3, 3, 4, 5, 5 opportunities of 1,504; 1,000 at 1, 2, 2 of 1,500.
        (Opportunity::MAHIMAHI, 1_000, [1, 2, 3, 3, 4, 5, 5, 6, 7, 7]),
        (Opportunity::IP, 1_000, [1, 2, 2, 3, 4, 4, 5, 6, 6, 7]),
    ] {
        let mut link = link_of("limit=1000p", deliveries(&[1], opportunity));
        for handle in 0..10 {
            link.arrive(packet(handle, 0, u32::try_from(len).unwrap()));
        }
        let all: Vec<_> = run_to(&mut link, 20 * MS).iter().map(|(_, due)| due / MS).collect();
        assert_eq!(all, expected, "{opportunity:?} {len}");
        let counted = |n: u64| n * (len + u64::from(opportunity.per_packet));
        let formula: Vec<_> =
            (1..=10).map(|n| counted(n).div_ceil(u64::from(opportunity.bytes))).collect();
        assert_eq!(all, formula, "{opportunity:?} {len}");
    }
}

#[test]
fn an_opportunity_that_finds_nothing_is_wasted() {
    let trace = Trace { start: TraceStart::AtOnce, ..mahimahi(&[5, 5, 5, 10]) };
    let mut link = link_of("limit=1000p", trace);
    // At the opportunity's own instant is too late, as in Mahimahi.
    link.arrive(packet(0, 5 * MS, 1_500));
    link.arrive(packet(1, 6 * MS, 1_500));
    assert_eq!(
        link.next_event().map(|deadline| (deadline.at, deadline.cause)),
        Some((at(10 * MS), Cause::Trace))
    );
    link.arrive(packet(2, 10 * MS, 1_500));
    assert_eq!(drain(&mut link), [(0, 10 * MS)]);
    assert_eq!(run_to(&mut link, 14 * MS), []);
    assert_eq!(run_to(&mut link, 15 * MS), [(1, 15 * MS), (2, 15 * MS)]);
    assert_eq!(link.next_event(), None);
    // So is what is left of one when the queue runs empty: 1,400 bytes of it would have let both of
    // the next two pass at 2 ms.
    let mut small = link_of("limit=1000p", mahimahi(&[1]));
    small.arrive(packet(0, 0, 100));
    assert_eq!(run_to(&mut small, MS), [(0, MS)]);
    small.arrive(packet(1, MS + 1, 1_400));
    small.arrive(packet(2, MS + 1, 1_400));
    assert_eq!(run_to(&mut small, 9 * MS), [(1, 2 * MS), (2, 3 * MS)]);
    // An hour of them is no work, and the next comes when it would have.
    link.arrive(packet(3, 3_600_000 * MS + 7 * MS, 1_500));
    assert_eq!(run_to(&mut link, 3_600_100 * MS), [(3, 3_600_010 * MS)]);
}

#[test]
fn what_a_part_of_an_opportunity_has_passed_is_kept() {
    let mut link = link_of("limit=1000p", mahimahi(&[1, 100]));
    link.arrive(packet(0, 0, 2_000));
    assert_eq!(run_to(&mut link, 99 * MS), []);
    let snapshot = link.snapshot();
    assert_eq!((snapshot.queued, snapshot.backlog_packets, snapshot.backlog_bytes), (1, 1, 2_004));
    // 500 bytes of it are left, so a small packet goes with it.
    link.arrive(packet(1, 99 * MS, 900));
    assert_eq!(run_to(&mut link, 200 * MS), [(0, 100 * MS), (1, 100 * MS)]);
}

#[test]
fn a_first_line_of_0_coincides_with_the_last_of_the_round_before() {
    let mut link = link_of("limit=1000p", mahimahi(&[0, 10]));
    for handle in 0..5 {
        link.arrive(packet(handle, 0, 1_500));
    }
    let all = run_to(&mut link, 100 * MS);
    assert_eq!(all, [(0, 10 * MS), (1, 10 * MS), (2, 20 * MS), (3, 20 * MS), (4, 30 * MS)]);
}

#[test]
fn a_packet_trace_begins_with_the_first_packet_or_at_once_and_at_its_offset() {
    for (start, offset, expected) in [
        (TraceStart::FirstPacket, 0, 1_013),
        (TraceStart::AtOnce, 0, 1_010),
        (TraceStart::FirstPacket, 4, 1_009),
        // At the offset itself it is as late as at any other instant.
        (TraceStart::FirstPacket, 10, 1_013),
        (TraceStart::FirstPacket, 13, 1_010),
        (TraceStart::AtOnce, 4, 1_006),
        (TraceStart::AtOnce, u64::MAX / MS, 1_011),
    ] {
        let trace = Trace { start, offset: Duration::from_millis(offset), ..mahimahi(&[10]) };
        let mut link = link_of("limit=1000p", trace);
        link.arrive(packet(0, 1_003 * MS, 100));
        assert_eq!(run_to(&mut link, 2_000 * MS), [(0, expected * MS)], "{start:?} {offset}");
    }
}

#[test]
fn a_packet_trace_that_ends_delivers_nothing_any_more() {
    let trace = Trace { repeat: false, ..mahimahi(&[1, 2]) };
    let mut link = link_of("limit=2p", trace);
    for handle in 0..4 {
        link.arrive(packet(handle, 0, 1_500));
    }
    link.advance(at(3_600_000 * MS));
    assert_eq!(link.next_event(), None);
    let snapshot = link.snapshot();
    assert_eq!((snapshot.packets_out, snapshot.queued), (2, 0));
    link.arrive(packet(9, 3_600_001 * MS, 100));
    assert_eq!((link.next_event(), link.snapshot().queued), (None, 1));
}

#[test]
fn an_outage_of_78_seconds_is_slept_through() {
    let outage = 78_319 * MS;
    let mut link = link_of(
        "limit=1000p",
        rates(&[(0, 12_112_000), (MS, 0), (MS + outage, 12_112_000)], 2 * outage),
    );
    // A packet takes 1 ms; the outage begins with the second.
    link.arrive(packet(0, 0, 1_500));
    link.arrive(packet(1, 0, 1_500));
    let resumed = MS + outage + MS;
    assert_eq!(run_to(&mut link, MS), [(0, MS)]);
    let deadline = link.next_event().unwrap();
    assert_eq!((deadline.at, deadline.cause), (at(resumed), Cause::Service));
    assert_eq!(run_to(&mut link, resumed - 1), []);
    assert_eq!(run_to(&mut link, resumed), [(1, resumed)]);
    // The same as packet delivery.
    let trace = mahimahi(&[1, 78_320]);
    let mut link = link_of("limit=1000p", trace);
    link.arrive(packet(0, 0, 1_500));
    link.arrive(packet(1, 0, 1_500));
    link.advance(at(MS));
    drain(&mut link);
    let deadline = link.next_event().unwrap();
    assert_eq!((deadline.at, deadline.cause), (at(78_320 * MS), Cause::Trace));
}

#[test]
fn the_rest_of_the_packet_in_service_is_rescaled_at_every_step() {
    // 1,000 bytes with nothing added: 8,000 bits.
    let trace =
        rates(&[(0, 8_000_000), (MS / 2, 16_000_000), (600 * US, 0), (5 * MS, 8_000)], 10_000 * MS);
    let mut link = link_of("framing=0 limit=1000p", trace);
    link.arrive(packet(0, 0, 1_000));
    // 4,000 bits in 500 us, 1,600 in 100 us, none, the last 2,400 at 8 kbit/s in 300 ms.
    let deadline = link.next_event().unwrap();
    assert_eq!((deadline.at, deadline.cause), (at(305 * MS), Cause::Service));
    assert_eq!(run_to(&mut link, 1_000 * MS), [(0, 305 * MS)]);
}

#[test]
fn what_is_decided_at_the_instant_of_a_step_is_decided_before_it_and_what_arrives_then_after() {
    let step = |nanos, delay| Step {
        at: span(nanos),
        rate: Some(rate(8_000_000)),
        delay: Some(span(delay)),
        loss: None,
    };
    let trace = || steps_of(vec![step(0, 10 * MS), step(MS, 20 * MS)], 100 * MS);
    let mut link = link_of("framing=0 limit=1000p", trace());
    link.arrive(packet(0, 0, 1_000));
    assert_eq!(run_to(&mut link, 50 * MS), [(0, 11 * MS)], "its service ends as the step comes");
    let unlimited = |nanos, delay| Step { rate: Some(Rate::UNLIMITED), ..step(nanos, delay) };
    let trace = steps_of(vec![unlimited(0, 10 * MS), unlimited(MS, 20 * MS)], 100 * MS);
    let mut link = link_of("", trace);
    link.arrive(packet(0, MS, 1_000));
    assert_eq!(run_to(&mut link, 50 * MS), [(0, 21 * MS)], "it arrives as the step comes");
}

#[test]
fn delays_that_shrink_and_grow_reorder_nothing_and_open_no_gap() {
    let delay = |ms, delay| Step {
        at: Duration::from_millis(ms),
        delay: Some(Duration::from_millis(delay)),
        ..Step::default()
    };
    let trace = steps_of(vec![delay(0, 100), delay(50, 10), delay(200, 100)], 1_000 * MS);
    let mut link = link_of("", trace);
    for handle in 0..400 {
        link.arrive(packet(handle, handle * MS, 100));
    }
    let all = run_to(&mut link, 2_000 * MS);
    assert_eq!(all.len(), 400);
    assert!(all.is_sorted());
    let due = |handle: usize| all[handle].1 / MS;
    // Those of 50 to 138 wait for the last before the step, no longer.
    assert_eq!(
        [due(49), due(50), due(138), due(139), due(140), due(199), due(200)],
        [149, 149, 149, 149, 150, 209, 300]
    );
}

#[test]
fn a_trace_begins_with_the_first_packet_and_its_first_values_are_in_force_before() {
    for (start, first) in [(TraceStart::FirstPacket, 3_001), (TraceStart::AtOnce, 3_002)] {
        let trace =
            Trace { start, ..rates(&[(0, 8_000_000), (1_000 * MS, 4_000_000)], 5_000 * MS) };
        let mut link = link_of("framing=0", trace);
        link.advance(at(2_000 * MS));
        link.arrive(packet(0, 3_000 * MS, 1_000));
        link.arrive(packet(1, 4_000 * MS, 1_000));
        assert_eq!(run_to(&mut link, 9_000 * MS), [(0, first * MS), (1, 4_002 * MS)], "{start:?}");
    }
}

#[test]
fn a_trace_that_ends_keeps_its_last_values_and_one_that_repeats_applies_its_steps_again() {
    for (repeat, expected) in [(false, 110), (true, 101)] {
        let trace = Trace { repeat, ..rates(&[(0, 8_000_000), (10 * MS, 800_000)], 100 * MS) };
        let mut link = link_of("framing=0", trace);
        link.arrive(packet(0, 100 * MS, 1_000));
        assert_eq!(run_to(&mut link, 900 * MS), [(0, expected * MS)], "{repeat}");
    }
    // In the midst of a service: 2 ms at 4 Mbit/s are one at 8.
    let trace = Trace { repeat: true, ..rates(&[(0, 8_000_000), (10 * MS, 4_000_000)], 20 * MS) };
    let mut link = link_of("framing=0", trace);
    link.arrive(packet(0, 19 * MS, 1_000));
    assert_eq!(run_to(&mut link, 900 * MS), [(0, 20 * MS + MS / 2)]);
}

#[test]
fn an_offset_is_taken_modulo_the_span() {
    for offset in [15, 35, 1_015] {
        let trace = rates(&[(0, 8_000_000), (10 * MS, 4_000_000)], 20 * MS);
        let trace = Trace { repeat: true, offset: Duration::from_millis(offset), ..trace };
        let mut link = link_of("framing=0", trace);
        for handle in 0..4 {
            link.arrive(packet(handle, 0, 1_000));
        }
        // Two at 4 Mbit/s, one half and half, one at 8.
        let all: Vec<_> = run_to(&mut link, 100 * MS).iter().map(|(_, due)| due / US).collect();
        assert_eq!(all, [2_000, 4_000, 5_500, 6_500], "{offset}");
    }
}

#[test]
fn a_rate_given_by_hand_lasts_until_the_next_step() {
    let mut link = link_of("framing=0", rates(&[(0, 8_000_000), (10 * MS, 4_000_000)], 20 * MS));
    link.arrive(packet(0, 0, 8_000));
    let by_hand = Change { rate: Some(rate(1_000_000)), ..Change::default() };
    link.change(&by_hand, at(2 * MS)).unwrap();
    // 16,000 bits in 2 ms, 8,000 in 8 ms, 40,000 in 10 ms.
    assert_eq!(link.next_event().unwrap().at, at(20 * MS));
    assert_eq!(run_to(&mut link, 100 * MS), [(0, 20 * MS)]);
    // A link paused by hand wakes up by itself when a step comes.
    let mut link = link_of("framing=0", rates(&[(0, 8_000_000), (10 * MS, 4_000_000)], 20 * MS));
    link.change(&Change { rate: Some(Rate::PAUSE), ..Change::default() }, at(0)).unwrap();
    link.arrive(packet(0, 0, 1_000));
    assert_eq!(link.next_event().unwrap().at, at(12 * MS));
}

#[test]
fn an_hour_of_microsecond_steps_costs_an_idle_link_nothing() {
    let steps: Vec<_> = (0..1_000).map(|us| (us * US, 1_000_000 + us)).collect();
    let trace = Trace { repeat: true, ..rates(&steps, MS) };
    let mut link = link_of("framing=0 burst=1kb", trace);
    let hour = 3_600_000 * MS;
    // 3.6e12 steps: one after the other they would take hours.
    for handle in 0..1_000 {
        let now = handle * hour;
        assert_eq!(link.next_event(), None, "nothing is held");
        link.arrive(packet(handle, now, 1_000));
        assert_eq!(run_to(&mut link, now), [(handle, now)], "the bucket is full");
        link.arrive(packet(handle, now, 1_000));
        let deadline = link.next_event().unwrap();
        assert_eq!(run_to(&mut link, now + 100 * MS), [(handle, deadline.at.as_nanos())]);
    }
    // Nor do they cost a packet that waits for a year at a bit a second.
    let trace = Trace { repeat: true, ..rates(&[(0, 1), (US, 0)], 2 * US) };
    let mut link = link_of("framing=0 limit=10p", trace);
    link.arrive(packet(0, 0, 1_000_000));
    assert_eq!(run_to(&mut link, u64::MAX), [(0, 15_999_999_999_999_000)]);
}

#[test]
fn a_scale_multiplies_rates_and_opportunities() {
    let options =
        |scale: &str| TraceOptions { scale: scale.parse().unwrap(), ..TraceOptions::default() };
    let scaled = |scale, lines: &[u64]| {
        let trace = options(scale).resolve(timeline(lines, Opportunity::MAHIMAHI), true, None);
        trace
            .unwrap()
            .schedule
            .deliveries()
            .iter()
            .map(|d| (d.at.as_nanos() / MS, d.count))
            .collect::<Vec<_>>()
    };
    assert_eq!(scaled("1.5", &[1, 2, 3, 4, 4]), [(1, 1), (2, 2), (3, 1), (4, 3)]);
    assert_eq!(scaled("0.4", &[1, 2, 3, 4, 4]), [(3, 1), (4, 1)]);
    let none = options("0.1").resolve(timeline(&[1, 2], Opportunity::MAHIMAHI), true, None);
    assert_eq!(none, Err(TimelineError::Empty));
    let step = |nanos, bps| Step { at: span(nanos), rate: Rate::from_bps(bps), ..Step::default() };
    let steps = vec![step(0, 1_000_001), step(1, 0), step(2, u64::MAX)];
    let course = Course::Steps(steps);
    let trace = options("2.5").resolve(Timeline { course, span: span(9) }, false, None).unwrap();
    let rates: Vec<_> = trace.schedule.steps().map(|step| step.rate.unwrap().as_bps()).collect();
    assert_eq!(rates, [2_500_002, 0, u64::MAX]);
}

#[test]
fn a_limit_in_time_is_what_the_mean_rate_carries() {
    let limit = |words: &str, trace| {
        config_of(words, trace).unwrap().with_limit_resolved().limit.unwrap().to_string()
    };
    // 12 and 0 Mbit/s by turns: 6 Mbit/s are 75,000 bytes in 100 ms.
    let trace = || rates(&[(0, 12_000_000), (100 * MS, 0)], 200 * MS);
    assert_eq!(limit("limit=100ms", trace()), "75000b");
    assert_eq!(limit("", trace()), "75000b");
    // 12.032 Mbit/s of opportunities; at least 16 full packets by default.
    assert_eq!(limit("limit=10ms", mahimahi(&[1])), "15040b");
    assert_eq!(limit("", mahimahi(&[100])), "24064b");
    let free = config_of("limit=100ms", rates(&[(0, u64::MAX)], MS)).unwrap_err();
    assert!(free.ends_with("but the rate is unlimited"), "{free}");
}

#[test]
fn what_contradicts_a_trace_is_refused_by_name() {
    let with_rates = || rates(&[(0, 8_000_000)], MS);
    let slow = || rates(&[(0, 8_000_000), (1, 7)], MS);
    let free = || rates(&[(0, 8_000_000), (1, u64::MAX)], MS);
    let delays = |from, to| {
        let step =
            |nanos, delay| Step { at: span(nanos), delay: Some(span(delay)), ..Step::default() };
        steps_of(vec![step(0, from), step(1, to)], MS)
    };
    let losses = || steps_of(vec![Step { loss: Some(Probability::ONE), ..Step::default() }], MS);
    for (words, trace, message) in [
        (
            "queue=tbf rate=1mbit burst=3kb",
            mahimahi(&[1]),
            "--up: queue: serves at a rate of its own, but packets leave at the trace's opportunities",
        ),
        ("queue=jens rate=1mbit", mahimahi(&[1]), "--up: queue: serves at"),
        ("impair=netem", mahimahi(&[1]), "--up: impair: serves at"),
        ("nic=1mbit", mahimahi(&[1]), "--up: nic: "),
        ("burst=3kb", mahimahi(&[1]), "--up: burst: saves up a rate"),
        ("rate=1mbit", mahimahi(&[1]), "--up: rate: the trace sets it, expected none"),
        ("gso=keep", mahimahi(&[1]), "--up: gso: keep would pass whole bursts"),
        ("framing=0", mahimahi(&[1]), "--up: framing: opportunities count 4 bytes for each packet"),
        ("overhead=4", mahimahi(&[1]), "--up: overhead: opportunities count"),
        ("rate=1mbit", with_rates(), "--up: rate: the trace sets it, expected none"),
        ("delay=1ms", delays(5, 6), "--up: delay: the trace sets it"),
        ("loss=1%", losses(), "--up: loss: the trace sets it"),
        ("gso=keep", losses(), "--up: gso: keep would lose whole bursts"),
        (
            "jitter=6ns",
            delays(6, 5),
            "--up: jitter: 6ns is more than the trace's least delay of 5ns",
        ),
        ("", delays(0, 3_600_001 * MS), "trace: it delays by up to 3600001ms, more than 3600s"),
        ("queue=tbf burst=3kb", slow(), "trace: it sets rates of less than a byte per second"),
        ("queue=tbf burst=3kb", free(), "trace: it sets unlimited rates, but tbf serves at a rate"),
        ("queue=jens", free(), "trace: it sets unlimited rates, but jens serves at a rate"),
        ("impair=netem", rates(&[(0, 0)], MS), "trace: it sets rates of 0bit"),
    ] {
        let error = config_of(words, trace).unwrap_err();
        assert!(error.starts_with(message), "{words}: {error}");
    }
    // What a trace sets need not be given for those that need it.
    for (words, trace) in [
        ("queue=tbf burst=3kb limit=20kb", with_rates()),
        ("queue=jens", with_rates()),
        ("burst=3kb peakrate=1mbit", with_rates()),
        ("rate=1mbit delay=5ms", losses()),
        ("rate=1mbit loss=1%", delays(5, 6)),
    ] {
        config_of(words, trace).expect(words);
    }
    let unread = LinkConfig::parse("trace=here.down", "--up").unwrap_err().to_string();
    assert_eq!(unread, "--up: trace: \"here.down\" has not been read");
    let alone = LinkConfig::parse("trace.scale=2", "--up").unwrap_err().to_string();
    assert_eq!(alone, "--up: trace.scale: needs trace=FILE");
    let mut link = link_of("", mahimahi(&[1]));
    let rate = Change { rate: Some(Rate::PAUSE), ..Change::default() };
    let refused = link.change(&rate, at(0)).unwrap_err().to_string();
    assert_eq!(refused, "rate: packets leave at the trace's opportunities, expected none with it");
}

#[test]
fn a_timeline_out_of_order_is_no_schedule() {
    let deliveries = |at: &[(u64, u32)], nanos, bytes| {
        let at = at.iter().map(|&(at, count)| Delivery { at: span(at), count }).collect();
        let opportunity = Opportunity { bytes, per_packet: 0 };
        Schedule::new(Timeline {
            course: Course::Deliveries { at, opportunity },
            span: span(nanos),
        })
    };
    let steps = |at: &[u64], nanos| {
        let step = |&at: &u64| Step { at: span(at), rate: Some(Rate::PAUSE), ..Step::default() };
        let course = Course::Steps(at.iter().map(step).collect());
        Schedule::new(Timeline { course, span: span(nanos) })
    };
    assert_eq!(deliveries(&[], 1, 1), Err(TimelineError::Empty));
    assert_eq!(deliveries(&[(1, 1)], 0, 1), Err(TimelineError::NoSpan));
    assert_eq!(deliveries(&[(1, 1), (1, 1)], 9, 1), Err(TimelineError::Unordered(2)));
    assert_eq!(deliveries(&[(1, 1), (10, 1)], 9, 1), Err(TimelineError::Beyond(2)));
    assert_eq!(deliveries(&[(1, 0)], 9, 1), Err(TimelineError::NoOpportunity(1)));
    assert_eq!(deliveries(&[(1, 1)], 9, 0), Err(TimelineError::NoBytes));
    assert_eq!(steps(&[2, 1], 9), Err(TimelineError::Unordered(2)));
    assert_eq!(steps(&[10], 9), Err(TimelineError::Beyond(1)));
    assert!(steps(&[1, 1, 9], 9).is_ok());
    let empty = Course::Steps(vec![Step::default()]);
    assert_eq!(Schedule::new(Timeline { course: empty, span: span(1) }), Err(TimelineError::Empty));
}

#[test]
fn a_link_is_told_to_follow_another_trace_or_none_in_mid_service() {
    let config = LinkConfig::parse("rate=8mbit framing=0 limit=1000p", "--up").unwrap();
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    for handle in 0..4 {
        link.arrive(packet(handle, 0, 1_000));
    }
    // Half of the first has been sent; 500 bytes of it are left to the opportunity at 2 ms, which
    // has 1,004 left for the second, which was queued as 1,000.
    let now = Trace { start: TraceStart::AtOnce, ..mahimahi(&[1, 2]) };
    let now = Trace { offset: Duration::from_millis(1), ..now };
    link.follow(Some(now), at(MS / 2)).unwrap();
    assert_eq!(run_to(&mut link, 2 * MS), [(0, MS + MS / 2), (1, MS + MS / 2)]);
    // The third has 4 bytes behind it; steps take over, and then the link's own rate.
    let steps = rates(&[(0, 996_000 * 8)], MS);
    link.follow(Some(steps), at(2 * MS)).unwrap();
    assert_eq!(link.next_event().unwrap().at, at(3 * MS));
    link.follow(None, at(2 * MS + MS / 2)).unwrap();
    assert_eq!(link.next_event().unwrap().at, at(3 * MS));
    assert_eq!(run_to(&mut link, 3 * MS), [(2, 3 * MS)]);
    let unfit = link.follow(
        Some(steps_of(vec![Step { delay: Some(span(u64::MAX)), ..Step::default() }], MS)),
        at(3 * MS),
    );
    assert!(unfit.is_err());
    assert_eq!(run_to(&mut link, 9 * MS).len(), 1);
    assert_eq!(link.snapshot().queued, 0);
}

#[test]
fn what_is_in_force_is_known_although_nothing_depended_on_it() {
    let mut link = link_of("", rates(&[(0, 8_000_000), (10 * MS, 4_000_000)], 20 * MS));
    link.advance(at(15 * MS));
    assert_eq!((link.rate(), link.in_force().rate), (rate(4_000_000), rate(4_000_000)));
    let to = |bps| Change { rate: Some(rate(bps)), ..Change::default() };
    assert!(link.changes(&to(8_000_000)) && !link.changes(&to(4_000_000)));
    assert_eq!(link.change(&to(4_000_000), at(16 * MS)), Ok(false));
    assert_eq!(link.change(&to(8_000_000), at(16 * MS)), Ok(true));
    assert_eq!((link.rate(), link.config().rate), (rate(8_000_000), rate(8_000_000)));
}

#[test]
fn a_default_limit_that_comes_with_a_later_bound_drops_nothing() {
    // No rate binds on the mean, so nothing limits what waits for the first step.
    let mut link = link_of("framing=0", rates(&[(0, 0), (MS, u64::MAX)], 2 * MS));
    for handle in 0..1_000 {
        link.arrive(packet(handle, 0, 1_000));
    }
    let peak = Change::from_words("burst=3kb peakrate=8mbit", "set").expect("valid");
    assert_eq!(link.change(&peak, at(US)), Ok(true));
    // Its 100 ms at 8 Mbit/s; a full packet more than that finds no room.
    assert_eq!(link.config().resolved_limit().bytes, 100_000);
    assert_eq!(run_to(&mut link, 2_000 * MS).len(), 1_000);
}
