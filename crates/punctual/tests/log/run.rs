//! Logs of runs in virtual time.

use std::collections::VecDeque;

use punctual::log::{
    Arrival, BlockWriter, Direction, DirectionEnd, DirectionHeader, EndRecord, Epoch, Header,
    LogSender, Record,
};
use punctual_sched::packet::priority_of;
use punctual_sched::{Change, Duration, Ecn, Instant, Link, LinkConfig, Output, Packet};

/// A run: two links, arrivals of random spacing, changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
    /// Milliseconds after the start, words of a change; for both directions.
    pub(crate) changes: &'static [(u64, &'static str)],
    /// Mean spacing of arrivals in nanoseconds.
    pub(crate) gap_ns: u64,
    /// Arrivals in each direction.
    pub(crate) packets: u64,
    /// From the last arrival to the end of the run.
    pub(crate) tail: Duration,
}

const SECOND: Duration = Duration::from_secs(1);

/// At least one of each thing that a link does.
pub(crate) const SCENARIOS: [Scenario; 13] = [
    scenario("wire", "", "", &[], 10_000),
    scenario("rate", "rate=20mbit", "rate=100mbit", &[], 500_000),
    scenario("overload", "rate=10mbit limit=20p", "rate=5mbit limit=30k", &[], 600_000),
    scenario("delay", "delay=30ms", "rate=20mbit delay=5ms", &[], 450_000),
    scenario("jitter", "delay=10ms jitter=4ms", "rate=20mbit delay=3ms jitter=3ms", &[], 450_000),
    scenario("loss", "loss=5%", "rate=20mbit loss=10% delay=1ms", &[], 450_000),
    scenario("loss before", "rate=9mbit loss=20% loss.at=before", "loss=100%", &[], 600_000),
    scenario(
        "burst",
        "rate=10mbit burst=20k",
        "rate=10mbit burst=9k peakrate=40mbit",
        &[],
        700_000,
    ),
    scenario("nic", "rate=10mbit nic=100mbit", "nic=30mbit delay=2ms", &[], 450_000),
    scenario("framing", "rate=10mbit framing=38 overhead=-4", "rate=64kbit", &[], 700_000),
    scenario(
        "changes",
        "rate=20mbit delay=10ms",
        "rate=10mbit limit=50p",
        &[
            (100, "rate=1mbit"),
            (200, "rate=0"),
            (300, "rate=30mbit"),
            (400, "delay=40ms jitter=5ms"),
            (400, "loss=10%"),
            (500, "limit=5p"),
            (600, "rate=2mbit loss=0% delay=1ms jitter=0ms"),
        ],
        450_000,
    ),
    Scenario {
        tail: Duration::from_micros(300),
        ..scenario("cut in mid-flight", "rate=5mbit delay=30ms", "delay=1s", &[], 450_000)
    },
    scenario(
        "impairments",
        "rate=30mbit delay=10ms jitter=4ms,30% distribution=pareto reorder=jitter duplicate=5%,20% \
         corrupt=5% loss=gemodel,1%,10%,70%,0.1% ecn=on",
        "delay=5ms reorder=10%,20%,gap=3 slot=1ms,2ms,packets=4 loss=state,3%,30%,50%,50%,1%",
        &[(200, "loss=5%,50%"), (400, "loss=state,1%,20%"), (600, "loss=0%")],
        450_000,
    ),
];

pub(crate) const fn scenario(
    name: &'static str,
    up: &'static str,
    down: &'static str,
    changes: &'static [(u64, &'static str)],
    gap_ns: u64,
) -> Scenario {
    Scenario { name, up, down, changes, gap_ns, packets: 2_000, tail: SECOND }
}

impl Scenario {
    /// The log that the run writes.
    pub(crate) fn log(&self) -> Vec<u8> {
        let mut log = Vec::new();
        let mut writer = BlockWriter::start(&mut log, &self.header()).unwrap();
        let ends = self.drive(&mut |direction, record| writer.record(direction, &record));
        let summary = writer.finish(&ends).unwrap();
        assert!(summary.complete, "{summary:?}");
        assert_eq!(summary.bytes, log.len() as u64);
        log
    }

    pub(crate) fn header(&self) -> Header {
        let [up, down] = self.configs();
        Header::new(
            self.name,
            Epoch::default(),
            DirectionHeader::new(&up, 7, START),
            DirectionHeader::new(&down, 8, START),
        )
    }

    /// Runs both directions, taking turns.
    pub(crate) fn drive(&self, log: &mut dyn FnMut(Direction, Record)) -> [DirectionEnd; 2] {
        let [up, down] = self.configs();
        let mut drivers = [
            Driver::new(Direction::Up, &up, 7, self.changes),
            Driver::new(Direction::Down, &down, 8, self.changes),
        ];
        for _ in 0..self.packets {
            for driver in &mut drivers {
                driver.step(self.gap_ns, log);
            }
        }
        drivers.map(|driver| driver.finish(self.tail, log))
    }

    pub(crate) fn links(&self) -> [Link; 2] {
        let [up, down] = self.configs();
        [Link::new(&up, 7, START).unwrap(), Link::new(&down, 8, START).unwrap()]
    }

    fn configs(&self) -> [LinkConfig; 2] {
        [self.up, self.down].map(|text| LinkConfig::parse(text, "test").unwrap())
    }
}

pub(crate) const START: Instant = Instant::from_nanos(5_000_000);

/// What the driver of a real run does with one direction, with random lateness.
struct Driver {
    direction: Direction,
    link: Link,
    random: Random,
    now: Instant,
    arrivals: u64,
    changes: VecDeque<(Instant, Change)>,
    /// Decided, not yet released.
    due: VecDeque<Output>,
}

impl Driver {
    fn new(direction: Direction, config: &LinkConfig, seed: u64, changes: &[(u64, &str)]) -> Self {
        let changes = changes.iter().map(|(at, words)| {
            (START + Duration::from_millis(*at), Change::from_words(words, "test").unwrap())
        });
        Self {
            direction,
            link: Link::new(config, seed, START).unwrap(),
            random: Random(seed),
            now: START,
            arrivals: 0,
            changes: changes.collect(),
            due: VecDeque::new(),
        }
    }

    /// Time passes, a packet arrives.
    fn step(&mut self, gap_ns: u64, log: &mut dyn FnMut(Direction, Record)) {
        let gap = if self.random.below(8) == 0 { 0 } else { self.random.below(16 * gap_ns / 7) };
        let at = self.now + Duration::from_nanos(gap);
        if self.random.below(2) == 0 {
            let on_the_way = self.now + Duration::from_nanos(self.random.below(gap + 1));
            self.advance(on_the_way, log);
        }
        while let Some((when, change)) = self.changes.pop_front_if(|(when, _)| *when <= at) {
            let when = when.max(self.now);
            self.now = when;
            // Some scenarios name what not every link takes, or has already.
            if self.link.change(&change, when) == Ok(true) {
                log(self.direction, Record::Change { at: when, change });
            }
            self.drain(log);
        }
        self.now = at;
        self.arrivals += 1;
        let packet = self.packet();
        log(self.direction, Record::Arrival(Arrival::from(&packet)));
        self.link.arrive(packet);
        self.drain(log);
    }

    fn finish(mut self, tail: Duration, log: &mut dyn FnMut(Direction, Record)) -> DirectionEnd {
        self.advance(self.now + tail, log);
        for output in std::mem::take(&mut self.due) {
            log(self.direction, Record::fate(handle(&output), &output, None));
        }
        let end = EndRecord::new(self.now, &self.link.snapshot());
        DirectionEnd { end: Some(end), unwritten: 0 }
    }

    fn advance(&mut self, to: Instant, log: &mut dyn FnMut(Direction, Record)) {
        self.now = to;
        self.link.advance(to);
        self.drain(log);
    }

    /// Logs drops at once and departures some time after they were decided.
    fn drain(&mut self, log: &mut dyn FnMut(Direction, Record)) {
        while let Some(output) = self.link.poll() {
            if matches!(output, Output::Drop { .. }) {
                log(self.direction, Record::fate(handle(&output), &output, None));
            } else {
                self.due.push_back(output);
            }
        }
        while self.random.below(3) > 0
            && let Some(output) = self.due.pop_front()
        {
            let released = self.now + Duration::from_nanos(self.random.below(60_000));
            log(self.direction, Record::fate(handle(&output), &output, Some(released)));
        }
    }

    fn packet(&mut self) -> Packet {
        let ack = self.random.below(4) == 0;
        let (len, flow) = if ack { (52, 0x1234_5678) } else { (1500, 0x9abc_def0) };
        let dscp = if ack { 0 } else { 46 };
        let packet = Packet::on_path(self.arrivals, self.now, len, flow);
        Packet { dscp, priority: priority_of(dscp), ecn: Ecn::Ect0, ..packet }
    }
}

fn handle(output: &Output) -> u64 {
    match output {
        Output::Depart { packet, .. } | Output::Drop { packet, .. } => packet.handle,
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound.max(1)
    }
}

/// The senders of directions with one lane each.
pub(crate) fn single(senders: [Vec<LogSender>; 2]) -> [LogSender; 2] {
    senders.map(|mut lanes| {
        assert_eq!(lanes.len(), 1);
        lanes.remove(0)
    })
}

/// Runs `scenario` with the records going through senders; `told` gets what they were told.
pub(crate) fn send(
    scenario: &Scenario,
    mut senders: [LogSender; 2],
    told: &mut Vec<(Direction, Record)>,
) {
    let mut snapshots = [None, None];
    let mut links = scenario.links();
    scenario.drive(&mut |direction, record| {
        let (sender, link) = (&mut senders[direction.index()], &mut links[direction.index()]);
        match &record {
            Record::Arrival(arrival) => {
                let number = sender.arrival(&arrival.packet(0));
                link.arrive(arrival.packet(number));
                snapshots[direction.index()] = Some(arrival.at);
            }
            Record::Change { at, change } => {
                sender.change(*at, change);
                link.change(change, *at).unwrap();
            }
            // Told below, straight from a link.
            Record::Departure(_) | Record::Drop(_) | Record::Follow { .. } => return,
        }
        told.push((direction, record));
        while let Some(output) = link.poll() {
            sender.fate(handle(&output), &output, None);
            told.push((direction, Record::fate(handle(&output), &output, None)));
        }
    });
    for ((sender, mut link), last) in senders.into_iter().zip(links).zip(snapshots) {
        let end = last.unwrap();
        link.advance(end);
        assert_eq!(link.poll(), None);
        sender.finish(end, &link.snapshot());
    }
}
