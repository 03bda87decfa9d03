//! What came of a scenario.

use core::fmt;

use punctual_sched::queue::QueueLimit;
use punctual_sched::{
    Bytes, DropReason, Duration, Instant, LinkConfig, Mark, Output, Rate, Snapshot,
};

use crate::distribution::Distribution;
use crate::scenario::Scenario;

/// One packet's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// What the link decided.
    pub output: Output,
    /// Index of the sender.
    pub source: usize,
    /// The packet's number at its sender, from 0.
    pub number: u64,
    /// When it took effect: the release of a departure, the wake-up that found a drop.
    pub known: Instant,
}

impl Fate {
    /// How long after its due time a packet was released. Zero for a drop.
    pub fn lateness(&self) -> Duration {
        match self.output {
            Output::Depart { due, .. } => self.known.since(due),
            Output::Drop { .. } => Duration::ZERO,
        }
    }
}

/// What came of a scenario. Prints as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// One per source, in their order.
    pub flows: Vec<FlowOutcome>,
    /// The link's counters at the end.
    pub link: Snapshot,
    /// From due time to release, of every departure.
    pub lateness: Distribution,
    /// How often the driver woke up.
    pub wakes: u64,
    /// The first lines of the table: what was run.
    heading: String,
}

/// What came of one source's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowOutcome {
    /// The source in words.
    pub name: String,
    /// Packets sent.
    pub sent: u64,
    /// Packets departed.
    pub delivered: u64,
    /// Packets dropped, by [`DropReason::index`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Packets departed with a congestion mark of the link.
    pub marked: u64,
    /// Bytes departed, at the IP layer.
    pub bytes: u64,
    /// Bits per second at the IP layer after the first departure, from due time to due time. 0
    /// when fewer than two packets departed.
    pub throughput_bps: u64,
    /// From arrival to due time.
    pub sojourn: Distribution,
}

impl Outcome {
    /// Jain's fairness index of the flows' bytes, in units of 10^-6: 10^6 when all are equal,
    /// 10^6 / n when one has everything.
    pub fn fairness_ppm(&self) -> u64 {
        let sum: u128 = self.flows.iter().map(|flow| u128::from(flow.bytes)).sum();
        let squares: u128 = self.flows.iter().map(|flow| u128::from(flow.bytes).pow(2)).sum();
        let scaled = 1_000_000 * sum * sum;
        let ppm = scaled.checked_div(squares * self.flows.len() as u128).unwrap_or(1_000_000);
        u64::try_from(ppm).unwrap_or(u64::MAX)
    }

    /// Drops of all flows for this reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.flows.iter().map(|flow| flow.dropped[reason.index()]).sum()
    }

    /// The reasons that every link has, and those that occurred.
    fn shown_reasons(&self) -> Vec<DropReason> {
        let always = [DropReason::Loss, DropReason::Limit, DropReason::HoldFull];
        let shown = |reason: &DropReason| always.contains(reason) || self.dropped(*reason) > 0;
        DropReason::ALL.into_iter().filter(shown).collect()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.heading)?;
        write!(f, "{:24} {:>8} {:>9} {:>8}", "flow", "sent", "delivered", "Mbit/s")?;
        let reasons = self.shown_reasons();
        for reason in &reasons {
            write!(f, " {:>9}", reason.name())?;
        }
        let marking = self.flows.iter().any(|flow| flow.marked > 0);
        if marking {
            write!(f, " {:>9}", "marked")?;
        }
        writeln!(f, " | sojourn ms {:>9} {:>9} {:>9}", "p50", "p99", "max")?;
        for flow in &self.flows {
            flow.write_row(&reasons, marking, f)?;
        }
        let fairness = self.fairness_ppm();
        writeln!(f, "fairness {}.{:06}", fairness / 1_000_000, fairness % 1_000_000)?;
        let late = |percent| Thousandths(self.lateness.percentile(percent).as_nanos());
        writeln!(f, "lateness us: p50 {}, p99 {}, max {}", late(50), late(99), late(100))?;
        let peak = self.link.backlog_peak_bytes;
        writeln!(f, "peak backlog {peak} bytes, peak memory {} bytes", self.link.held_peak_bytes)
    }
}

impl FlowOutcome {
    fn write_row(
        &self,
        reasons: &[DropReason],
        marking: bool,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let rate = Thousandths(self.throughput_bps / 1_000);
        write!(f, "{:24} {:>8} {:>9} {rate:>8}", self.name, self.sent, self.delivered)?;
        for reason in reasons {
            write!(f, " {:>9}", self.dropped[reason.index()])?;
        }
        if marking {
            write!(f, " {:>9}", self.marked)?;
        }
        let wait = |percent| Thousandths(self.sojourn.percentile(percent).as_nanos() / 1_000);
        writeln!(f, " | {:10} {:>9} {:>9} {:>9}", "", wait(50), wait(99), wait(100))
    }
}

/// A number of thousandths, with three decimals.
struct Thousandths(u64);

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{:03}", self.0 / 1_000, self.0 % 1_000))
    }
}

/// Collects fates.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) wakes: u64,
    flows: Vec<FlowSink>,
    lateness: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct FlowSink {
    delivered: u64,
    dropped: [u64; DropReason::ALL.len()],
    marked: u64,
    bytes: u64,
    first: Option<(Instant, u32)>,
    last: Instant,
    sojourn: Vec<u64>,
}

impl Sink {
    pub(crate) fn new(flows: usize) -> Self {
        Self { wakes: 0, flows: vec![FlowSink::default(); flows], lateness: Vec::new() }
    }

    pub(crate) fn take(&mut self, fate: &Fate) {
        let flow = &mut self.flows[fate.source];
        match fate.output {
            Output::Depart { packet, due, mark, .. } => {
                flow.delivered += 1;
                flow.marked += u64::from(mark == Mark::Ce);
                flow.bytes += u64::from(packet.len);
                flow.first.get_or_insert((due, packet.len));
                flow.last = due;
                flow.sojourn.push(due.since(packet.arrival).as_nanos());
                self.lateness.push(fate.lateness().as_nanos());
            }
            Output::Drop { reason, .. } => flow.dropped[reason.index()] += 1,
        }
    }

    pub(crate) fn finish(self, scenario: &Scenario, sent: Vec<u64>, link: &Snapshot) -> Outcome {
        let flows = self.flows.into_iter().zip(&scenario.sources).zip(sent);
        Outcome {
            flows: flows
                .map(|((flow, source), sent)| flow.finish(source.to_string(), sent))
                .collect(),
            link: *link,
            lateness: Distribution::new(self.lateness),
            wakes: self.wakes,
            heading: heading(scenario),
        }
    }
}

impl FlowSink {
    fn finish(self, name: String, sent: u64) -> FlowOutcome {
        FlowOutcome {
            throughput_bps: self.throughput_bps(),
            name,
            sent,
            delivered: self.delivered,
            dropped: self.dropped,
            marked: self.marked,
            bytes: self.bytes,
            sojourn: Distribution::new(self.sojourn),
        }
    }

    fn throughput_bps(&self) -> u64 {
        let Some((first, len)) = self.first else { return 0 };
        let bits = u128::from(self.bytes - u64::from(len)) * 8;
        let nanos = u128::from(self.last.since(first).as_nanos());
        let bps = (bits * 1_000_000_000).checked_div(nanos).unwrap_or(0);
        u64::try_from(bps).unwrap_or(u64::MAX)
    }
}

/// The link in words: parameters that are not defaults, and what follows from them.
fn heading(scenario: &Scenario) -> String {
    let (config, defaults) = (&scenario.link, LinkConfig::default().entries());
    let entries = config.entries().into_iter().zip(defaults);
    let chosen = entries.filter(|((_, value), (_, default))| value != default);
    let words: Vec<_> = chosen.map(|((name, value), _)| format!("{name}={value}")).collect();
    let link = words.join(" ");
    format!(
        "link: {link}\nin force: {}\nwakes: {}, {}, seed {}\n",
        in_force(config),
        scenario.wakes,
        scenario.duration,
        scenario.seed
    )
}

/// What follows from the parameters: the queue's limit, the time that a burst saves up.
fn in_force(config: &LinkConfig) -> String {
    let limit = config.resolved_limit();
    let bound =
        |count: u64, unit: &str| (count != u64::MAX).then(|| format!("limit {count} {unit}"));
    let bounds = [bound(limit.packets, "packets"), bound(limit.bytes, "bytes")];
    let burst = config.burst.map(|burst| describe_burst(burst, config.rate));
    let mut words: Vec<_> = bounds.into_iter().flatten().chain(burst).collect();
    if limit == QueueLimit::NONE {
        words.insert(0, "no limit".to_owned());
    }
    words.join(", ")
}

/// A burst and the time it saves up: what the rate carries in that time.
fn describe_burst(burst: u32, rate: Rate) -> String {
    let time = rate.finite_bps().map(|bps| {
        let nanos = u128::from(burst) * 8 * 1_000_000_000 / u128::from(bps);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    });
    let burst = Bytes(u64::from(burst));
    time.map_or_else(|| format!("burst {burst}"), |time| format!("burst {burst} = {time}"))
}
