//! Steps mean what live changes at their times mean: a link that follows a trace, against one that
//! is changed by hand at each step.

use std::sync::Arc;

use proptest::prelude::*;
use punctual_sched::config::Limit;
use punctual_sched::impair::Loss;
use punctual_sched::trace::{
    Course, Delivery, Opportunity, Schedule, Step, Timeline, Trace, TraceStart,
};
use punctual_sched::{
    Change, Duration, Instant, Link, LinkConfig, Output, Packet, Probability, Rate,
};

/// What happens, in order of time.
#[derive(Clone, Debug)]
enum Event {
    Packet(u32),
    /// The traced link alone is told that time has come.
    Look,
    Rate(u64),
    Delay(u64),
}

#[derive(Clone, Debug)]
struct Plan {
    words: &'static str,
    steps: Vec<Step>,
    span: Duration,
    repeat: bool,
    start: TraceStart,
    offset: u64,
    events: Vec<(u64, Event)>,
}

const WORDS: &[&str] = &[
    "limit=20p",
    "limit=20p burst=3kb rate=1mbit",
    "limit=20p burst=5kb rate=1mbit peakrate=20mbit",
    "limit=20p nic=20mbit",
    "limit=20p loss.at=before",
    "jitter=1ms delay=1ms limit=20p",
    "queue=fq fq.maxrate=5mbit limit=50p",
    "queue=codel limit=50p",
    "queue=dualpi2 limit=50p",
    "queue=jens limit=50p rate=1mbit",
    "queue=tbf burst=3kb limit=30kb rate=1mbit",
    "queue=tbf burst=3kb limit=30kb rate=1mbit peakrate=2mbit tbf.mtu=2kb",
    "impair=netem netem.limit=50p",
];

fn times() -> impl Strategy<Value = u64> {
    prop_oneof![0..3_u64, 0..50_000_u64, 0..5_000_000_u64]
}

fn bps(words: &str) -> impl Strategy<Value = u64> + use<> {
    let own = words.contains("tbf") || words.contains("jens");
    let most = if own { 7_000_000_000 } else { u64::MAX };
    let least = if words.contains("netem") { 8 } else { 0 };
    prop_oneof![
        Just(least),
        Just(most),
        8..100_000_u64,
        1_000_000..30_000_000_u64,
        Just(12_112_000),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    prop::sample::select(WORDS).prop_flat_map(|words| {
        let step = (
            times(),
            prop::option::weighted(0.8, bps(words)),
            prop::option::weighted(0.3, 1_000_000..20_000_000_u64),
            prop::option::weighted(0.1, 0..u32::MAX),
        );
        let event = prop_oneof![
            6 => prop_oneof![Just(60_u32), Just(1_500), 20..3_000_u32].prop_map(Event::Packet),
            2 => Just(Event::Look),
            1 => bps(words).prop_map(Event::Rate),
            1 => (1_000_000..20_000_000_u64).prop_map(Event::Delay),
        ];
        let steps = prop::collection::vec(step, 1..12);
        let events = prop::collection::vec((times(), event), 1..80);
        (steps, times(), any::<bool>(), any::<bool>(), times(), events).prop_map(
            move |(steps, rest, repeat, at_once, offset, events)| {
                let mut at = 0;
                let steps: Vec<_> = steps
                    .into_iter()
                    .map(|(after, bps, delay, loss)| {
                        at += after;
                        Step {
                            at: Duration::from_nanos(at),
                            rate: bps.and_then(Rate::from_bps),
                            delay: delay.map(Duration::from_nanos),
                            loss: loss.map(Probability::from_raw),
                        }
                    })
                    .collect();
                let mut now = 0;
                let events = events
                    .into_iter()
                    .map(|(after, event)| {
                        now += after;
                        (now, event)
                    })
                    .collect();
                let start = if at_once { TraceStart::AtOnce } else { TraceStart::FirstPacket };
                // Few enough rounds for the other link.
                let span = Duration::from_nanos(at + rest + 300_000);
                Plan { words, steps, span, repeat, start, offset, events }
            },
        )
    })
}

/// The steps of a plan that change a link by hand from `begin` on, at each of their times.
struct ByHand {
    /// Time of the first round's beginning less the offset, which may be before 0.
    origin: i128,
    round: i128,
    index: usize,
}

impl ByHand {
    fn next(&self, plan: &Plan) -> Option<i128> {
        let span = i128::from(plan.span.as_nanos());
        let step = plan.steps.get(self.index)?;
        Some(self.origin + self.round * span + i128::from(step.at.as_nanos()))
    }

    fn step(&mut self, plan: &Plan) -> Step {
        let step = plan.steps[self.index];
        self.index += 1;
        if self.index == plan.steps.len() && plan.repeat {
            (self.round, self.index) = (self.round + 1, 0);
        }
        step
    }
}

fn change(step: &Step) -> Change {
    Change {
        rate: step.rate,
        delay: step.delay,
        loss: step.loss.map(Loss::random),
        ..Change::default()
    }
}

fn drain(link: &mut Link) -> Vec<Output> {
    core::iter::from_fn(|| link.poll()).collect()
}

fn config(plan: &Plan) -> LinkConfig {
    let mut config = LinkConfig::default();
    for word in plan.words.split_whitespace() {
        let (name, value) = word.split_once('=').expect("NAME=VALUE");
        config.set(name, value).expect("valid words");
    }
    config
}

fn followed(plan: &Plan) -> Option<Vec<Output>> {
    let timeline = Timeline { course: Course::Steps(plan.steps.clone()), span: plan.span };
    let schedule = Arc::new(Schedule::new(timeline).ok()?);
    let (start, offset) = (plan.start, Duration::from_nanos(plan.offset));
    let trace = Trace { start, offset, repeat: plan.repeat, ..Trace::new(schedule) };
    let config = LinkConfig { trace: Some(trace), ..config(plan) };
    let mut link = Link::new(&config, 7, Instant::ZERO).ok()?;
    let mut outputs = Vec::new();
    for (handle, (now, event)) in plan.events.iter().enumerate() {
        let now = Instant::from_nanos(*now);
        match event {
            Event::Packet(len) => link.arrive(Packet::on_path(handle as u64, now, *len, 1)),
            Event::Look => link.advance(now),
            Event::Rate(bps) => {
                let change = Change { rate: Rate::from_bps(*bps), ..Change::default() };
                link.change(&change, now).expect("a valid change");
            }
            Event::Delay(nanos) => {
                let delay = Some(Duration::from_nanos(*nanos));
                link.change(&Change { delay, ..Change::default() }, now).expect("a valid change");
            }
        }
        outputs.extend(drain(&mut link));
    }
    let end = plan.events.last().expect("at least one").0 + 20_000_000;
    // As a driver does, from deadline to deadline: none of them is too late.
    while let Some(deadline) = link.next_event()
        && deadline.at.as_nanos() <= end
    {
        link.advance(deadline.at);
        for output in drain(&mut link) {
            if let Output::Depart { due, .. } = output {
                assert!(due >= deadline.at, "{due:?} is before {deadline:?}");
            }
            outputs.push(output);
        }
    }
    link.advance(Instant::from_nanos(end));
    // Drops are no departures, and may come before the next of these.
    let rest = drain(&mut link);
    let departs = rest.iter().find(|output| matches!(output, Output::Depart { .. }));
    assert_eq!(departs, None, "it was not told of");
    outputs.extend(rest);
    Some(outputs)
}

/// Of steps at one instant the later wins, value by value; what sets nothing is none.
fn merged(plan: &Plan) -> Plan {
    let mut steps: Vec<Step> = Vec::new();
    for step in &plan.steps {
        match steps.last_mut() {
            Some(last) if last.at == step.at => {
                last.rate = step.rate.or(last.rate);
                last.delay = step.delay.or(last.delay);
                last.loss = step.loss.or(last.loss);
            }
            _ => steps.push(*step),
        }
    }
    steps.retain(|step| *step != Step { at: step.at, ..Step::default() });
    Plan { steps, ..plan.clone() }
}

fn by_hand(plan: &Plan) -> Vec<Output> {
    let plan = &merged(plan);
    let offset = plan.offset % plan.span.as_nanos();
    let begins = plan.steps[0].at.as_nanos().max(offset);
    let mut config = config(plan);
    for step in plan.steps.iter().take_while(|step| step.at.as_nanos() <= begins) {
        config = config.changed(&change(step));
    }
    let mut link = Link::new(&config, 7, Instant::ZERO).expect("a valid link");
    let begin = |now: u64| {
        let origin = i128::from(now) - i128::from(offset);
        let index = plan.steps.iter().filter(|step| step.at.as_nanos() <= offset).count();
        let is_over = index == plan.steps.len() && plan.repeat;
        let (round, index) = if is_over { (1, 0) } else { (0, index) };
        ByHand { origin, round, index }
    };
    let mut hand = (plan.start == TraceStart::AtOnce).then(|| begin(0));
    let mut outputs = Vec::new();
    let mut step_to = |link: &mut Link, hand: &mut Option<ByHand>, to: u64| {
        while let Some(hand) = hand
            && let Some(at) = hand.next(plan)
            && at <= i128::from(to)
        {
            let now = Instant::from_nanos(u64::try_from(at).expect("not before 0"));
            link.change(&change(&hand.step(plan)), now).expect("a valid change");
        }
        outputs.extend(drain(link));
    };
    for (handle, (now, event)) in plan.events.iter().enumerate() {
        step_to(&mut link, &mut hand, *now);
        let time = Instant::from_nanos(*now);
        match event {
            Event::Packet(len) => {
                hand.get_or_insert_with(|| begin(*now));
                step_to(&mut link, &mut hand, *now);
                link.arrive(Packet::on_path(handle as u64, time, *len, 1));
            }
            Event::Look => {}
            Event::Rate(bps) => {
                let change = Change { rate: Rate::from_bps(*bps), ..Change::default() };
                link.change(&change, time).expect("a valid change");
            }
            Event::Delay(nanos) => {
                let delay = Some(Duration::from_nanos(*nanos));
                link.change(&Change { delay, ..Change::default() }, time).expect("a valid change");
            }
        }
    }
    let end = plan.events.last().expect("at least one").0 + 20_000_000;
    step_to(&mut link, &mut hand, end);
    link.advance(Instant::from_nanos(end));
    outputs.extend(drain(&mut link));
    outputs
}

/// Departures and drops, each in their order: which of the two is seen first depends on when one
/// looks.
fn parted(outputs: Vec<Output>) -> (Vec<Output>, Vec<Output>) {
    outputs.into_iter().partition(|output| matches!(output, Output::Depart { .. }))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_trace_means_what_changes_by_hand_at_its_steps_mean(plan in plan()) {
        let Some(followed) = followed(&plan) else { return Ok(()) };
        let ((departed, dropped), (by_hand, lost)) = (parted(followed), parted(by_hand(&plan)));
        for (followed, by_hand) in [(departed, by_hand), (dropped, lost)] {
            for pair in followed.iter().zip(&by_hand) {
                prop_assert_eq!(pair.0, pair.1);
            }
            prop_assert_eq!(followed.len(), by_hand.len());
        }
    }
}

/// Opportunities at a time in us, and how many.
fn opportunities() -> impl Strategy<Value = Trace> {
    let delivery = (1..3_000_u64, 1..4_u32);
    let at = prop::collection::vec(delivery, 1..12);
    (at, 0..1_000_u64, any::<bool>(), any::<bool>(), any::<bool>(), 0..20_000_u64).prop_map(
        |(gaps, rest, repeat, at_once, ip, offset)| {
            let mut end = 0;
            let mut at = Vec::new();
            for (gap, count) in gaps {
                end += gap;
                at.push(Delivery { at: Duration::from_micros(end), count });
            }
            let opportunity = if ip { Opportunity::IP } else { Opportunity::MAHIMAHI };
            let span = Duration::from_micros(end + rest);
            let course = Course::Deliveries { at, opportunity };
            let schedule = Arc::new(Schedule::new(Timeline { course, span }).expect("in order"));
            let start = if at_once { TraceStart::AtOnce } else { TraceStart::FirstPacket };
            let offset = Duration::from_micros(offset);
            Trace { start, repeat, offset, ..Trace::new(schedule) }
        },
    )
}

/// Bytes of the opportunities after `from`, up to `to`, of a trace that began at `begin`.
fn offered(trace: &Trace, begin: u64, from: u64, to: u64) -> u64 {
    let (span, opportunity) = (trace.schedule.span().as_nanos(), trace.schedule.opportunity());
    let offset = trace.offset.as_nanos() % span;
    let (from, to) = (from.max(begin) - begin + offset, to - begin + offset);
    let rounds = if trace.repeat { to / span } else { 0 };
    let mut bytes = 0;
    for round in 0..=rounds {
        for delivery in trace.schedule.deliveries() {
            let at = round * span + delivery.at.as_nanos();
            if from < at && at <= to {
                bytes += u64::from(delivery.count)
                    * u64::from(opportunity.expect("of deliveries").bytes);
            }
        }
    }
    bytes
}

/// Mahimahi's rule, packet by packet and opportunity by opportunity: when each packet departs.
fn as_mahimahi(trace: &Trace, begin: u64, packets: &[(u64, u32)], end: u64) -> Vec<u64> {
    let span = trace.schedule.span().as_nanos();
    let offset = trace.offset.as_nanos() % span;
    let opportunity = trace.schedule.opportunity().expect("of deliveries");
    let mut waiting = packets.iter().copied().peekable();
    let (mut left, mut departures) = (0, Vec::new());
    let rounds = if trace.repeat { (end + offset) / span } else { 0 };
    for round in 0..=rounds {
        for delivery in trace.schedule.deliveries() {
            let Some(at) = (round * span + delivery.at.as_nanos() + begin).checked_sub(offset)
            else {
                continue;
            };
            if at <= begin || at > end {
                continue;
            }
            for _ in 0..delivery.count {
                let mut bytes = opportunity.bytes;
                while bytes > 0 {
                    if left == 0 {
                        let Some(&(_, len)) = waiting.peek().filter(|(came, _)| *came < at) else {
                            break;
                        };
                        left = len + opportunity.per_packet;
                    }
                    let passes = bytes.min(left);
                    (bytes, left) = (bytes - passes, left - passes);
                    if left == 0 {
                        departures.push(at);
                        waiting.next();
                    }
                }
            }
        }
    }
    departures
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn packets_leave_at_opportunities_as_under_mahimahi(
        trace in opportunities(),
        packets in prop::collection::vec((times(), 1..6_000_u32), 1..60),
        looks in prop::collection::vec(times(), 0..40),
    ) {
        let mut now = 0;
        let arrivals: Vec<_> = packets
            .into_iter()
            .map(|(after, len)| {
                now += after;
                (now, len)
            })
            .collect();
        let limit = Some(Limit::Packets(1_000));
        let config = LinkConfig { trace: Some(trace.clone()), limit, ..LinkConfig::default() };
        let mut link = Link::new(&config, 7, Instant::ZERO).expect("a valid link");
        let mut outputs = Vec::new();
        let mut looks = looks.into_iter();
        for (handle, (at, len)) in arrivals.iter().enumerate() {
            // Whoever looks in between changes nothing.
            if let Some(look) = looks.next() {
                link.advance(Instant::from_nanos(at.saturating_sub(look)));
            }
            link.arrive(Packet::on_path(handle as u64, Instant::from_nanos(*at), *len, 1));
            outputs.extend(drain(&mut link));
        }
        let end = now + 50_000_000;
        while let Some(deadline) = link.next_event().filter(|next| next.at.as_nanos() <= end) {
            link.advance(deadline.at);
            outputs.extend(drain(&mut link));
        }
        let dues: Vec<_> = outputs
            .iter()
            .map(|output| match output {
                Output::Depart { due, .. } => due.as_nanos(),
                Output::Drop { .. } => unreachable!("nothing is dropped without a limit"),
            })
            .collect();
        let begin = match trace.start {
            TraceStart::AtOnce => 0,
            TraceStart::FirstPacket => arrivals[0].0,
        };
        prop_assert_eq!(&dues, &as_mahimahi(&trace, begin, &arrivals, end));
        // No window carries more than its opportunities and what is left of the one packet
        // that others had begun to carry.
        let per_packet = u64::from(trace.per_packet.expect("of deliveries"));
        for (first, from) in dues.iter().enumerate() {
            let before = u64::from(arrivals[first].1) + per_packet;
            let mut bytes = 0;
            for (to, (_, len)) in dues.iter().zip(&arrivals).skip(first) {
                bytes += u64::from(*len) + per_packet;
                let offered = offered(&trace, begin, from - 1, *to);
                prop_assert!(bytes <= offered + before, "{bytes} in {from} to {to}");
            }
        }
    }
}
