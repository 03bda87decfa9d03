//! Sequences of operations on a link, read from bytes, and what must hold after each of them. The
//! same bytes mean the same sequence under a fuzzer and in a property test.
#![allow(dead_code, reason = "each harness uses its part of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_sched::config::{Limit, QueueKind};
use punctual_sched::impair::Reorder;
use punctual_sched::trace::{
    Course, Delivery, Opportunity, Schedule, Step, Timeline, Trace, TraceStart,
};
use punctual_sched::{
    Change, ConfigBuilder, Deadline, DropReason, Duration, Ecn, Instant, Link, LinkConfig, Mark,
    Output, Packet, Probability, Rate, TransmitTime,
};

#[path = "changes.rs"]
mod changes;

/// A configuration, and what it promises besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// Its words.
    pub(crate) words: &'static str,
    /// Which packets leave in the order in which they came.
    pub(crate) order: Order,
    /// How many queues there are that hold up to `limit` each.
    pub(crate) bands: u64,
    /// The trace that it follows.
    pub(crate) trace: Option<fn() -> Trace>,
}

/// A promise of order, for departures; a copy may leave beside its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// All of them, as `fifo` does.
    All,
    /// Those of one flow, of one kind (see [`Model::class`]).
    Flow,
    /// None: something reorders on purpose.
    None,
}

const fn case(order: Order, words: &'static str) -> Case {
    Case { words, order, bands: 1, trace: None }
}

const fn traced(order: Order, words: &'static str, trace: fn() -> Trace) -> Case {
    Case { words, order, bands: 1, trace: Some(trace) }
}

/// With three bands, each of which has its limit.
const fn fq(words: &'static str) -> Case {
    Case { words, order: Order::Flow, bands: 3, trace: None }
}

/// Every discipline and stage, with limits that are reached.
pub(crate) const CASES: &[Case] = &[
    case(Order::All, ""),
    case(Order::All, "rate=10mbit"),
    case(Order::All, "rate=10mbit limit=20p"),
    case(Order::All, "rate=10mbit limit=30kb burst=10kb peakrate=20mbit nic=100mbit"),
    case(Order::All, "rate=10mbit overhead=-100 framing=0 delay=5ms jitter=5ms loss=10%"),
    case(Order::All, "rate=1bit limit=5p loss=50% loss.at=before hold=100kb"),
    case(Order::All, "rate=10mbit delay=1ms duplicate=30% corrupt=30% ecn=on loss=20%"),
    case(Order::All, "rate=10mbit loss=gemodel,10%,30%,70%,10% duplicate=10%,50%"),
    case(Order::All, "rate=10mbit loss=state,10%,30%,10%,50%,5%"),
    case(Order::All, "rate=10mbit delay=10ms slot=1ms,5ms,packets=3"),
    case(Order::None, "rate=10mbit delay=5ms reorder=25%,50%,gap=3"),
    case(Order::None, "rate=10mbit delay=5ms jitter=5ms distribution=pareto reorder=jitter"),
    case(Order::None, "rate=10mbit delay=5ms jitter=5ms loss=5% duplicate=20% impair=netem"),
    case(Order::None, "rate=10mbit delay=5ms slot=1ms,5ms reorder=25% corrupt=5% impair=netem"),
    fq("rate=10mbit queue=fq limit=20p fq.flow_limit=5p fq.buckets=4"),
    fq("rate=10mbit queue=fq fq.maxrate=1mbit fq.ce_threshold=1ms nic=20mbit"),
    fq("queue=fq fq.horizon=1ms fq.horizon_mode=cap fq.wake=slack delay=1ms"),
    case(Order::All, "rate=10mbit queue=codel limit=20p codel.ecn=on"),
    case(Order::All, "rate=1mbit queue=codel codel.arithmetic=linux codel.ce_threshold=1ms"),
    case(Order::Flow, "rate=10mbit queue=fq_codel limit=20p fq_codel.flows=4"),
    case(Order::Flow, "rate=1mbit queue=fq_codel fq_codel.memory_limit=40kb loss=5%"),
    case(Order::Flow, "rate=10mbit queue=dualpi2 limit=20p"),
    case(Order::Flow, "rate=100kbit queue=dualpi2 delay=1ms loss=5%"),
    case(Order::Flow, "rate=10mbit queue=jens limit=20p"),
    case(Order::Flow, "rate=1mbit queue=jens jens.qosmode=1 jens.extralatency=3ms loss=5%"),
    case(Order::All, "rate=10mbit queue=tbf burst=3kb limit=30kb"),
    case(Order::All, "rate=10mbit queue=tbf burst=3kb peakrate=20mbit tbf.mtu=2kb limit=10kb"),
    case(Order::All, "rate=1mbit queue=tbf burst=20kb limit=30kb tbf.linklayer=atm duplicate=9%"),
    traced(Order::All, "limit=20p", steps),
    traced(Order::All, "limit=30kb burst=10kb peakrate=20mbit nic=100mbit", steps),
    traced(Order::Flow, "limit=20p queue=fq_codel duplicate=20%", steps),
    traced(Order::All, "queue=tbf burst=3kb limit=30kb delay=1ms", tbf_steps),
    traced(Order::All, "limit=20p delay=1ms loss=5%", opportunities),
    Case { trace: Some(opportunities), ..fq("queue=fq fq.maxrate=1mbit limit=20p") },
    traced(Order::Flow, "queue=dualpi2 limit=20p ecn=on loss=5%", opportunities),
    traced(Order::All, "queue=codel limit=20p codel.ecn=on", few_opportunities),
];

/// Rates, delays and losses that begin anew every 10 ms, an outage and an unlimited rate among them.
fn steps() -> Trace {
    let step = |at, bps, delay: Option<u64>, loss| Step {
        at: Duration::from_micros(at),
        rate: Rate::from_bps(bps),
        delay: delay.map(Duration::from_micros),
        loss: Option::map(loss, Probability::from_raw),
    };
    let steps = vec![
        step(0, 10_000_000, Some(500), None),
        step(1, 9_999_999, None, Some(1 << 30)),
        step(2_000, 1_000, None, None),
        step(3_000, 0, Some(3_000), None),
        step(7_000, u64::MAX, None, Some(0)),
        step(7_001, 100_000_000, Some(100), None),
    ];
    trace(Course::Steps(steps), 10)
}

/// Rates at which tbf can serve.
fn tbf_steps() -> Trace {
    let step = |at, bps| Step {
        at: Duration::from_micros(at),
        rate: Rate::from_bps(bps),
        ..Step::default()
    };
    trace(Course::Steps(vec![step(0, 1_000), step(1_000, 20_000_000), step(3_000, 0)]), 7)
}

fn opportunities() -> Trace {
    delivering(&[(0, 1), (1_000, 3), (1_001, 1), (7_000, 40), (10_000, 1)])
}

fn few_opportunities() -> Trace {
    let trace = delivering(&[(9_000, 1)]);
    Trace { start: TraceStart::AtOnce, offset: Duration::from_millis(77), ..trace }
}

fn delivering(at: &[(u64, u32)]) -> Trace {
    let delivery = |&(at, count)| Delivery { at: Duration::from_micros(at), count };
    let at = at.iter().map(delivery).collect();
    trace(Course::Deliveries { at, opportunity: Opportunity::MAHIMAHI }, 10)
}

fn trace(course: Course, span_ms: u64) -> Trace {
    let timeline = Timeline { course, span: Duration::from_millis(span_ms) };
    let schedule = Schedule::new(timeline).expect("the traces are valid");
    Trace { repeat: true, ..Trace::new(Arc::new(schedule)) }
}

/// Runs the operations that `bytes` hold on a link of `case`.
///
/// # Panics
///
/// Where a promise of the link is broken.
pub(crate) fn run(case: &Case, bytes: &[u8]) {
    let mut words = ConfigBuilder::default();
    words.words(case.words, "case").expect("the cases are valid");
    if let Some(trace) = case.trace {
        words.follow(trace());
    }
    let config = words.finish().expect("the cases are valid");
    let mut model = Model::new(&config, *case);
    let mut bytes = Bytes(bytes);
    while let Some(operation) = bytes.next() {
        model.operate(operation, &mut bytes);
        model.check();
    }
    model.end();
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// Zero where no more bytes are left.
    fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// A number of any magnitude below 2^(8 + `most`), small ones as likely as large ones.
    fn magnitude(&mut self, most: u8) -> u64 {
        u64::from(self.byte()) << (self.byte() % (most + 1))
    }
}

/// The link and what is known of it from outside.
struct Model {
    case: Case,
    /// What is left of the case's promise of order after the changes so far.
    order: Order,
    /// Whether some queue has put packets of one flow apart by their ECN field.
    by_ecn: bool,
    /// Numbers of flows that have sent a packet with a time or a rate of its own.
    timed: BTreeSet<u32>,
    /// Under `fq`, now or before: bits of a flow's number by which it is told from others.
    told_by: Option<u32>,
    link: Link,
    /// The latest time given, in nanoseconds.
    now: u64,
    /// Packets that came so far: the next handle.
    came: u64,
    /// Fates that are still to come, by handle.
    open: BTreeMap<u64, u32>,
    /// The last handle that departed, by class.
    departed: BTreeMap<(u32, (u8, u8)), u64>,
    last_due: u64,
    /// What the link said after the last mutation.
    deadline: Option<Deadline>,
    /// Wire packets that the queue may hold, as long as packets are single.
    limit: Option<u64>,
    singles: bool,
}

impl Model {
    fn new(config: &LinkConfig, case: Case) -> Self {
        let mut link = Link::new(config, 1, Instant::ZERO).expect("the cases are valid");
        link.follow_copies();
        Self {
            case,
            order: case.order,
            by_ecn: matches!(config.queue, QueueKind::Dualpi2 | QueueKind::Jens),
            timed: BTreeSet::new(),
            told_by: (config.queue == QueueKind::Fq).then_some(config.fq.orphan_mask),
            link,
            now: 0,
            came: 0,
            open: BTreeMap::new(),
            departed: BTreeMap::new(),
            last_due: 0,
            deadline: None,
            limit: match config.limit {
                Some(Limit::Packets(packets)) => Some(packets.into()),
                _ => None,
            },
            singles: true,
        }
    }

    fn operate(&mut self, operation: u8, bytes: &mut Bytes<'_>) {
        match operation % 16 {
            0..=6 => {
                let packet = self.packet(bytes);
                self.arrive(&[packet]);
            }
            7 => {
                let packet = self.wild_packet(bytes);
                self.arrive(&[packet]);
            }
            8 | 9 => {
                let count = bytes.byte() % 70;
                let packets: Vec<_> = (0..count).map(|_| self.packet(bytes)).collect();
                self.arrive(&packets);
            }
            // Up to an hour, which is 2^41.7 ns.
            10 => self.advance(self.now.saturating_add(bytes.magnitude(34))),
            11 | 12 => self.advance_to_deadline(),
            // Back: taken as the latest time given.
            13 => self.advance(self.now.saturating_sub(bytes.magnitude(34))),
            14 => self.change(bytes),
            _ => self.step_through(u32::from(bytes.byte())),
        }
    }

    /// An ordinary packet, soon after the last.
    fn packet(&mut self, bytes: &mut Bytes<'_>) -> Packet {
        let kind = bytes.byte();
        self.now = self.now.saturating_add(bytes.magnitude(16));
        let len = [60, 400, 1_000, 1_500][usize::from(kind >> 2 & 3)];
        let flow = u32::from(kind >> 4).wrapping_mul(0x9e37_79b9);
        let mut packet = Packet::on_path(self.came, Instant::from_nanos(self.now), len, flow);
        packet.ecn = Ecn::from_tos(kind);
        packet.priority = kind >> 4;
        self.came += 1;
        packet
    }

    /// Everything that a descriptor can say.
    fn wild_packet(&mut self, bytes: &mut Bytes<'_>) -> Packet {
        let mut packet = self.packet(bytes);
        packet.len = (bytes.word() >> (bytes.byte() % 32)).max(1);
        packet.segments = u16::try_from(bytes.magnitude(8)).unwrap_or(u16::MAX).max(1);
        self.singles &= packet.segments == 1;
        packet.flow = bytes.word();
        packet.mark = bytes.word();
        packet.dscp = bytes.byte() & 63;
        packet.priority = bytes.byte();
        packet.socket = bytes.byte() & 1 == 1;
        packet.pacing_rate = Rate::from_bps(bytes.magnitude(40)).unwrap_or(Rate::UNLIMITED);
        let transmit = self.now.saturating_add(bytes.magnitude(40)).saturating_sub(1 << 30);
        packet.transmit = TransmitTime::new(Instant::from_nanos(transmit));
        packet
    }

    fn arrive(&mut self, packets: &[Packet]) {
        for packet in packets {
            self.open.insert(packet.handle, 1);
            if packet.transmit.is_some() || packet.pacing_rate != Rate::UNLIMITED {
                self.timed.insert(packet.flow);
            }
        }
        self.deadline = None;
        match packets {
            [packet] => self.link.arrive(*packet),
            batch => self.link.arrive_batch(batch),
        }
        self.drain();
    }

    fn advance(&mut self, to: u64) {
        self.now = self.now.max(to);
        self.link.advance(Instant::from_nanos(to));
        self.drain();
    }

    fn advance_to_deadline(&mut self) {
        if let Some(deadline) = self.link.next_event() {
            self.advance(deadline.at.as_nanos());
        }
    }

    fn change(&mut self, bytes: &mut Bytes<'_>) {
        let mut change = Change::default();
        let what = bytes.byte();
        if what & 1 != 0 {
            let rates = [0, 1, 1_000, 10_000_000, 1_000_000_000, 1_000_000_000_000];
            let rate = rates.get(usize::from(bytes.byte() % 8));
            change.rate = Some(rate.and_then(|&bps| Rate::from_bps(bps)).unwrap_or(Rate::PAUSE));
        }
        if what & 2 != 0 {
            change.delay = Some(Duration::from_nanos(bytes.magnitude(32)));
        }
        if what & 4 != 0 {
            change.limit = Some(Limit::Packets(u32::from(bytes.byte())));
        }
        if let Some(trace) = self.case.trace
            && what & 0x60 == 0x60
        {
            // Stops following, or begins anew; refused where a change has brought what does not fit.
            let trace = (what & 0x80 != 0).then(trace);
            self.deadline = None;
            let _ = self.link.follow(trace, Instant::from_nanos(self.now));
            self.drain();
        }
        for _ in 0..what >> 3 & 3 {
            let which = usize::from(bytes.byte());
            changes::add(&mut change, changes::CHANGES[which % changes::CHANGES.len()]);
        }
        self.apply(&change);
    }

    fn apply(&mut self, change: &Change) {
        self.advance(self.now);
        self.deadline = None;
        let before = self.link.config().clone();
        let refused = self.link.change(change, Instant::from_nanos(self.now)).is_err();
        let after = self.link.config();
        if refused || *after == before {
            assert_eq!(*after, before, "nothing was to change");
            assert_eq!(self.link.poll(), None, "nothing was to happen");
            return;
        }
        assert!(!after.changes(change) || change.names().any(|name| name == "jens.handover"));
        self.promise_after(&before, change);
        let may_drop = change.names().any(|name| MAY_DROP.contains(&name));
        // What leaves at once may be lost at random, or find no memory for its copy.
        let dropped = self.drain();
        let by_chance =
            |reason: &DropReason| matches!(reason, DropReason::Loss | DropReason::HoldFull);
        assert!(may_drop || dropped.iter().all(by_chance), "{change:?} drops {dropped:?}");
    }

    /// What order and limit are from a change on.
    fn promise_after(&mut self, before: &LinkConfig, change: &Change) {
        let after = self.link.config();
        if after.queue != before.queue && self.order == Order::All {
            self.order = Order::Flow;
        }
        self.by_ecn |= matches!(after.queue, QueueKind::Dualpi2 | QueueKind::Jens);
        if after.queue == QueueKind::Fq {
            self.told_by = Some(self.told_by.unwrap_or(u32::MAX) & after.fq.orphan_mask);
        }
        if after.reorder != Reorder::None {
            self.order = Order::None;
        }
        self.limit = match after.limit {
            // Packets of another discipline may be more than its limit.
            _ if after.queue != before.queue => None,
            Some(Limit::Packets(packets)) if change.names().any(|name| name == "limit") => {
                // Under fq packets of flows that wait stay, as under Linux.
                let least = if after.queue == QueueKind::Fq { self.limit } else { Some(0) };
                least.map(|least| least.max(packets.into()))
            }
            Some(Limit::Packets(_)) => self.limit,
            _ => None,
        };
    }

    /// At most so many deadlines.
    fn step_through(&mut self, steps: u32) {
        for _ in 0..steps {
            self.advance_to_deadline();
            self.check();
        }
    }

    /// Takes what came out, and checks each fate.
    fn drain(&mut self) -> Vec<DropReason> {
        let mut dropped = Vec::new();
        let promised = self.deadline.map_or(0, |deadline| deadline.at.as_nanos());
        while let Some(handle) = self.link.poll_duplicate() {
            *self.open.get_mut(&handle).expect("what is duplicated is open") += 1;
        }
        while let Some(output) = self.link.poll() {
            match output {
                Output::Depart { packet, due, mark, stages, .. } => {
                    let due = due.as_nanos();
                    assert!(due >= promised, "{due} comes before {promised}, {packet:?}");
                    assert!(due >= packet.arrival.as_nanos(), "{due}: before it came, {packet:?}");
                    let stages = [stages.pacing, stages.queue, stages.serialisation];
                    let sum = stages.iter().fold(Duration::ZERO, |sum, &stage| sum + stage);
                    assert!(sum.as_nanos() <= due - packet.arrival.as_nanos(), "{stages:?}");
                    assert!(mark != Mark::Ce || packet.ecn.is_capable(), "{packet:?} is marked");
                    assert!(due >= self.last_due, "{due} after {}", self.last_due);
                    self.last_due = due;
                    self.check_order(&packet);
                    self.close(packet.handle);
                }
                Output::Drop { packet, at, reason, .. } => {
                    dropped.push(reason);
                    assert!(at.as_nanos() <= self.now, "{at:?} has not come, {packet:?}");
                    self.close(packet.handle);
                }
            }
        }
        self.deadline = self.link.next_event();
        dropped
    }

    fn close(&mut self, handle: u64) {
        let open = self.open.get_mut(&handle).expect("a fate of a packet that is open");
        *open -= 1;
        if *open == 0 {
            self.open.remove(&handle);
        }
    }

    fn check_order(&mut self, packet: &Packet) {
        let class = match self.order {
            Order::All => (0, (0, 0)),
            Order::Flow => (packet.flow, self.class(packet)),
            Order::None => return,
        };
        // Its own time puts a packet out of its turn, and what is not timed passes by the fast path
        // what waits in its flow, as under Linux.
        let is_timed = |bits| self.timed.iter().any(|flow| (flow ^ packet.flow) & bits == 0);
        if self.order == Order::Flow && self.told_by.is_some_and(is_timed) {
            return;
        }
        let last = self.departed.entry(class).or_insert(packet.handle);
        assert!(packet.handle >= *last, "{} departs after {last}", packet.handle);
        *last = packet.handle;
    }

    /// Packets of one flow that a discipline may put into different queues: by ECN field (dualpi2,
    /// jens) and priority (fq).
    fn class(&self, packet: &Packet) -> (u8, u8) {
        (packet.priority, if self.by_ecn { packet.ecn as u8 } else { 0 })
    }

    /// What holds after each operation.
    fn check(&self) {
        let snapshot = self.link.snapshot();
        let dropped: u64 = snapshot.dropped.iter().sum();
        assert_eq!(
            snapshot.packets_in + snapshot.duplicated,
            snapshot.packets_out + dropped + snapshot.queued,
            "{snapshot:?}"
        );
        assert_eq!(self.open.is_empty(), snapshot.queued == 0, "{snapshot:?}");
        assert!(snapshot.queued > 0 || snapshot.held_bytes == 0, "{snapshot:?}");
        assert!(snapshot.backlog_packets <= snapshot.queued, "{snapshot:?}");
        if self.singles {
            let open: u64 = self.open.values().copied().map(u64::from).sum();
            assert_eq!(open, snapshot.queued);
            // One more may be in service, and eight on the fast path of fq, which has no limit.
            let fast = if self.told_by.is_some() { 8 } else { 0 };
            let most = self.limit.map_or(u64::MAX, |limit| limit * self.case.bands + fast + 1);
            assert!(snapshot.backlog_packets <= most, "{} of {most}", snapshot.backlog_packets);
        }
        if let Some(deadline) = self.link.next_event() {
            assert!(snapshot.queued > 0, "nothing is held, but {deadline:?}");
        }
    }

    /// Everything leaves in a bounded number of steps, once there is a rate.
    fn end(&mut self) {
        let rate = Rate::from_bps(1_000_000_000);
        self.deadline = None;
        if self.case.trace.is_some() {
            self.link.follow(None, Instant::from_nanos(self.now)).expect("nothing can be followed");
        }
        let change = Change { rate, ..Change::default() };
        self.link.change(&change, Instant::from_nanos(self.now)).expect("a rate can be had");
        self.drain();
        // An uncut burst may be paid for one wire packet at a time.
        let held = self.link.snapshot().queued;
        let most = 100 + 20 * held;
        let mut steps = 0;
        while self.link.next_event().is_some() {
            self.advance_to_deadline();
            self.check();
            steps += 1;
            assert!(
                steps <= most,
                "{steps} steps for {held} packets: {:?}",
                self.link.next_event()
            );
        }
        assert_eq!(self.link.snapshot().queued, 0, "{:?}", self.link.snapshot());
        assert!(self.open.is_empty());
    }
}

/// Parameters by whose change something may be dropped: limits, and an access rate whose packets
/// enter the queue at once when it is taken away.
const MAY_DROP: [&str; 4] = ["limit", "fq_codel.memory_limit", "dualpi2.memlimit", "nic"];
