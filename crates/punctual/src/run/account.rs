//! The account of one direction: what the report and the log say of each packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_linux::control::{Figures, Ignored};
use punctual_linux::driver::{Account, Arrived, Released, Source};
use punctual_measure::{Histogram, LatenessRecorder, difference_ns, report};
use punctual_sched::classify::Classified;
use punctual_sched::{Change, Duration, Instant, Link, LinkConfig, Output, Packet, Snapshot};

use super::changes::Changes;
use super::figures::LaneFigures;
use super::flows::{Classes, FlowTable};
use super::summary::tolerance_ns;
use crate::log::LogSender;
use crate::witness::ProbeLedger;

/// Collects what happens in one direction, or on a lane of it; told by the driver, on its thread.
#[derive(Debug)]
pub(super) struct DirectionAccount {
    log: Option<LogSender>,
    /// Packets handed to the link.
    arrivals: u64,
    delays: Delays,
    lateness: LatenessRecorder,
    rate: RateMeter,
    flows: FlowTable,
    classes: Classes,
    changes: Changes,
    /// `--late`.
    late: Option<Duration>,
    live: Arc<Live>,
    stats: Option<LaneFigures>,
    probes: Option<ProbeLedger>,
}

/// Figures that the live line reads while the driver runs.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// Departed, wire packets.
    pub packets: AtomicU64,
    /// Departed, IP bytes.
    pub bytes: AtomicU64,
    /// Dropped, wire packets.
    pub dropped: AtomicU64,
    /// Held, wire packets.
    pub queued: AtomicU64,
    /// Looks at the queue so far; stored last.
    pub turns: AtomicU64,
}

impl Live {
    /// Whether the queue was looked at after it had been `before` times, and nothing is held.
    pub(super) fn is_empty_since(&self, before: u64) -> bool {
        // One look may have begun before; the second one has seen all that had arrived by then.
        let looked = self.turns.load(Ordering::Acquire) >= before + 2;
        looked && self.queued.load(Ordering::Relaxed) == 0
    }
}

#[derive(Debug, Default)]
struct Delays {
    total: Histogram,
    queue: Histogram,
    serialisation: Histogram,
    pacing: Histogram,
    propagation: Histogram,
    ingest: Histogram,
}

impl Delays {
    fn merge(&mut self, other: &Self) {
        let Self { total, queue, serialisation, pacing, propagation, ingest } = other;
        self.total.merge(total);
        self.queue.merge(queue);
        self.serialisation.merge(serialisation);
        self.pacing.merge(pacing);
        self.propagation.merge(propagation);
        self.ingest.merge(ingest);
    }
}

impl DirectionAccount {
    /// An account of `link`, of a run that began at `start`; departures later than `late` are late,
    /// or as the link implies.
    pub(super) fn new(
        link: &LinkConfig,
        late: Option<Duration>,
        live: Arc<Live>,
        start: Instant,
    ) -> Self {
        Self {
            log: None,
            arrivals: 0,
            delays: Delays::default(),
            lateness: LatenessRecorder::new(tolerance_ns(link, late)),
            rate: RateMeter { frame_extra: frame_extra(link), ..RateMeter::default() },
            flows: FlowTable::default(),
            classes: Classes::new(link),
            changes: Changes::new(start, link),
            late,
            live,
            stats: None,
            probes: None,
        }
    }

    /// Writes a log as well.
    pub(super) fn log_to(&mut self, log: LogSender) {
        self.log = Some(log);
    }

    /// Shows figures to other programs as well.
    pub(super) fn show_by(&mut self, stats: LaneFigures) {
        self.stats = Some(stats);
    }

    /// Keeps a ledger of probes, for the witness.
    pub(super) fn keep_ledger(&mut self, ledger: ProbeLedger) {
        self.probes = Some(ledger);
    }

    /// The ledger of probes, if one was kept.
    pub(super) fn ledger(&self) -> Option<&ProbeLedger> {
        self.probes.as_ref()
    }

    /// Ends the log: the link was advanced to `end` and then had these counters.
    pub(super) fn finish_log(&mut self, end: Instant, snapshot: &Snapshot) {
        if let Some(log) = self.log.take() {
            log.finish(end, snapshot);
        }
    }

    /// Lateness of every departure.
    pub(super) fn lateness(&self) -> &LatenessRecorder {
        &self.lateness
    }

    /// Adds what another lane of the direction collected.
    pub(super) fn merge(&mut self, other: &Self) {
        self.arrivals += other.arrivals;
        self.delays.merge(&other.delays);
        self.lateness.merge(&other.lateness);
        self.rate.merge(&other.rate);
        self.flows.merge(&other.flows);
        self.classes.merge(&other.classes);
        self.changes.merge(&other.changes);
    }

    /// What the report says of delays, lateness, rate, flows and changes; the rest is empty.
    pub(super) fn report(&self) -> report::Direction {
        let Delays { total, queue, serialisation, pacing, propagation, ingest } = &self.delays;
        let (flows, flows_rest) = self.flows.report();
        let mut direction = report::Direction {
            delay: report::Delays {
                total: total.distribution(),
                queue: queue.distribution(),
                serialisation: serialisation.distribution(),
                pacing: pacing.distribution(),
                propagation: propagation.distribution(),
                ingest: ingest.distribution(),
            },
            lateness: self.lateness.lateness(),
            rate: self.rate.rate(),
            flows,
            flows_rest,
            ..report::Direction::default()
        };
        direction.queue.delays = self.classes.report();
        self.changes.fill(&mut direction);
        direction
    }

    /// A packet's number on this lane, from the half of it that its handle carries.
    fn number_of(&self, packet: &Packet) -> u64 {
        let low = packet.handle >> 32;
        let behind = (self.arrivals & 0xffff_ffff).wrapping_sub(low) & 0xffff_ffff;
        self.arrivals - behind
    }

    fn show(&mut self, link: &Link, snapshot: &Snapshot) {
        let Some(stats) = &mut self.stats else { return };
        stats.write(&Figures {
            at: link.now(),
            config: link.config(),
            snapshot,
            lateness: self.lateness.buckets(),
            changes: self.changes.count(),
            changed_at: self.changes.last(),
            ignored: self.changes.ignored(),
        });
    }

    fn fate(&mut self, output: &Output, released: Option<Instant>) {
        let (Output::Depart { packet, .. } | Output::Drop { packet, .. }) = output;
        let number = self.number_of(packet);
        if let Some(log) = &mut self.log {
            log.fate(number, output, released);
        }
    }
}

impl Account for DirectionAccount {
    fn tag(&mut self, head: &[u8], classified: &Classified) -> Option<u64> {
        self.probes.as_mut().and_then(|probes| probes.tag(head, classified))
    }

    fn arrived(&mut self, arrived: &Arrived) {
        self.arrivals += 1;
        let packet = &arrived.packet;
        if let Some(log) = &mut self.log {
            log.arrival(packet);
        }
        if let Some(probes) = &mut self.probes {
            probes.arrived(arrived);
        }
        self.delays.ingest.record(arrived.read.signed_since(packet.arrival));
        self.flows.arrived(packet, &arrived.classified.key);
    }

    fn dropped(&mut self, output: &Output) {
        self.fate(output, None);
        if let Some(probes) = &mut self.probes {
            probes.dropped(output);
        }
        if let Output::Drop { packet, reason, .. } = output {
            self.flows.dropped(packet, *reason);
        }
    }

    fn released(&mut self, released: &Released<'_>) {
        self.fate(released.output, Some(released.returned));
        if let Some(probes) = &mut self.probes {
            probes.released(released);
        }
        self.lateness.record(released.returned.signed_since(released.due));
        let Output::Depart { packet, due, stages, .. } = released.output else { return };
        let delays = &mut self.delays;
        let total = released.returned.signed_since(packet.arrival);
        delays.total.record(total);
        self.flows.released(packet, total);
        self.classes.released(packet, difference_ns(stages.queue.as_nanos(), 0));
        for (histogram, stage) in [
            (&mut delays.queue, stages.queue),
            (&mut delays.serialisation, stages.serialisation),
            (&mut delays.pacing, stages.pacing),
            (&mut delays.propagation, stages.propagation),
        ] {
            histogram.record(difference_ns(stage.as_nanos(), 0));
        }
        self.rate.departed(packet, *due);
    }

    fn changed(&mut self, at: Instant, asked: Option<Instant>, change: &Change, _: Source) {
        if let Some(log) = &mut self.log {
            log.change(at, change);
        }
        self.changes.push(at, asked, change);
    }

    fn followed(&mut self, at: Instant, asked: Instant, link: &LinkConfig) {
        if let Some(log) = &mut self.log {
            log.follow(at, link.trace.as_ref());
        }
        self.changes.push_trace(at, asked, link);
    }

    fn ignored(&mut self, at: Instant, ignored: &Ignored) {
        self.changes.ignore(at, ignored);
    }

    fn turned(&mut self, link: &Link) {
        if self.changes.take_news() {
            self.lateness.set_tolerance(tolerance_ns(link.config(), self.late));
            self.classes.follow(link.config());
            self.rate.frame_extra = frame_extra(link.config());
        }
        let snapshot = link.snapshot();
        self.show(link, &snapshot);
        self.live.packets.store(snapshot.packets_out, Ordering::Relaxed);
        self.live.bytes.store(snapshot.bytes_out, Ordering::Relaxed);
        self.live.dropped.store(snapshot.dropped.iter().sum(), Ordering::Relaxed);
        self.live.queued.store(snapshot.queued, Ordering::Relaxed);
        self.live.turns.fetch_add(1, Ordering::Release);
    }
}

/// Bytes that the link counts for each packet beside its IP length.
fn frame_extra(link: &LinkConfig) -> i64 {
    let of_trace = link.trace.as_ref().and_then(|trace| trace.per_packet);
    of_trace.map_or_else(|| i64::from(link.framing) + i64::from(link.overhead), i64::from)
}

/// Bits after the first departure over the time from the first to the last, by due times.
#[derive(Debug, Default)]
struct RateMeter {
    frame_extra: i64,
    first: Option<First>,
    last: Instant,
    frame_bytes: u64,
    ip_bytes: u64,
}

/// The first departure, whose bits do not count.
#[derive(Clone, Copy, Debug)]
struct First {
    due: Instant,
    frame_bytes: u64,
    ip_bytes: u64,
}

impl RateMeter {
    fn departed(&mut self, packet: &Packet, due: Instant) {
        let extra = self.frame_extra * i64::from(packet.segments);
        let ip_bytes = u64::from(packet.len);
        let frame_bytes = ip_bytes.saturating_add_signed(extra);
        if self.first.is_none() {
            self.first = Some(First { due, frame_bytes, ip_bytes });
        } else {
            self.ip_bytes += ip_bytes;
            self.frame_bytes += frame_bytes;
        }
        self.last = due;
    }

    fn merge(&mut self, other: &Self) {
        let Some(theirs) = other.first else { return };
        self.ip_bytes += other.ip_bytes;
        self.frame_bytes += other.frame_bytes;
        self.last = self.last.max(other.last);
        let ours = self.first.unwrap_or(theirs);
        let (first, second) = if theirs.due < ours.due { (theirs, ours) } else { (ours, theirs) };
        // Of all lanes' first departures one is the first.
        if self.first.is_some() {
            self.ip_bytes += second.ip_bytes;
            self.frame_bytes += second.frame_bytes;
        }
        self.first = Some(first);
    }

    fn rate(&self) -> report::Rate {
        let span = self.first.map_or(0, |first| self.last.since(first.due).as_nanos());
        let per_second = |bytes: u64| {
            let bits = u128::from(bytes) * 8 * 1_000_000_000;
            u64::try_from(bits.checked_div(u128::from(span))?).ok()
        };
        report::Rate { frame_bps: per_second(self.frame_bytes), ip_bps: per_second(self.ip_bytes) }
    }
}
