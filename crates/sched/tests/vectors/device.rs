//! Calling a discipline as Linux does: on a device without a rate, and below tbf.

use std::collections::VecDeque;

use punctual_sched::output::Mark;
use punctual_sched::queue::{Discipline, Effects, Queue, Served};
use punctual_sched::{DropReason, Instant};

use crate::file::Row;

/// What became of the packets of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// In order of departure.
    pub(crate) left: Vec<Left>,
    /// Ids of dropped packets and duplicates, in order.
    pub(crate) dropped: Vec<(u64, DropReason)>,
}

/// A departure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) id: u64,
    pub(crate) at: u64,
    pub(crate) ce: bool,
}

/// Sends `rows` through the root qdisc `queue` of a device that takes everything at once.
pub(crate) fn root(queue: &mut Queue, rows: &[Row]) -> Run {
    run(&mut Root(queue), rows)
}

/// The same with tbf between queue and device: peek is a dequeue whose packet tbf holds.
pub(crate) fn below_tbf(queue: &mut Queue, tbf: Tbf, rows: &[Row]) -> Run {
    run(&mut BelowTbf { child: queue, tbf, held: None, watchdog: None }, rows)
}

trait Qdisc {
    fn queue(&mut self) -> &mut Queue;
    fn dequeue(&mut self, now: Instant, effects: &mut Effects) -> Option<Served>;
    fn watchdog(&self) -> Option<Instant>;
}

fn run(qdisc: &mut impl Qdisc, rows: &[Row]) -> Run {
    let mut run = Run::default();
    let mut effects = Effects::default();
    let mut arrivals: VecDeque<&Row> = rows.iter().collect();
    let mut watchdog: Option<Instant> = None;
    loop {
        let arrival = arrivals.front().map(|row| Instant::from_nanos(row.sent));
        let now = match (arrival, watchdog) {
            (Some(arrival), Some(wake)) if wake <= arrival => wake,
            (Some(arrival), _) => {
                let row = arrivals.pop_front().unwrap();
                qdisc.queue().enqueue(row.queued(), &mut effects);
                arrival
            }
            (None, Some(wake)) => wake,
            (None, None) => return run,
        };
        while let Some(served) = qdisc.dequeue(now, &mut effects) {
            let (id, ce) = (served.queued.packet.handle, served.mark == Mark::Ce);
            run.left.push(Left { id, at: now.as_nanos(), ce });
        }
        let dropped = effects.take_drops().map(|dropped| (dropped.packet.handle, dropped.reason));
        run.dropped.extend(dropped);
        watchdog = qdisc.watchdog();
        assert!(watchdog.is_none_or(|wake| wake > now), "asked again at {now:?}");
    }
}

struct Root<'a>(&'a mut Queue);

impl Qdisc for Root<'_> {
    fn queue(&mut self) -> &mut Queue {
        self.0
    }

    fn dequeue(&mut self, now: Instant, effects: &mut Effects) -> Option<Served> {
        let served = self.0.dequeue(now, effects);
        if served.is_some() {
            self.0.served();
        }
        served
    }

    fn watchdog(&self) -> Option<Instant> {
        self.0.wake()
    }
}

/// A token bucket as tbf's, counted in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tbf {
    /// Nanoseconds per byte.
    per_byte: u64,
    buffer: i64,
    tokens: i64,
    updated: Instant,
}

impl Tbf {
    /// A full bucket of `burst` bytes at a rate of which one byte takes a whole number of
    /// nanoseconds.
    pub(crate) fn new(bps: u64, burst: u64) -> Self {
        assert_eq!(8_000_000_000 % bps, 0);
        let per_byte = 8_000_000_000 / bps;
        let buffer = i64::try_from(burst * per_byte).unwrap();
        Self { per_byte, buffer, tokens: buffer, updated: Instant::ZERO }
    }

    /// The tokens that are left after a packet of `bytes` at `now`; negative when they are short.
    fn left(&self, bytes: u64, now: Instant) -> i64 {
        let since = i64::try_from(now.since(self.updated).as_nanos()).unwrap();
        let cost = i64::try_from(bytes * self.per_byte).unwrap();
        (since.min(self.buffer) + self.tokens).min(self.buffer) - cost
    }
}

struct BelowTbf<'a> {
    child: &'a mut Queue,
    tbf: Tbf,
    held: Option<Served>,
    watchdog: Option<Instant>,
}

impl Qdisc for BelowTbf<'_> {
    fn queue(&mut self) -> &mut Queue {
        self.child
    }

    fn dequeue(&mut self, now: Instant, effects: &mut Effects) -> Option<Served> {
        if self.held.is_none() {
            self.held = self.child.dequeue(now, effects);
        }
        let Some(held) = self.held else {
            self.watchdog = self.child.wake();
            return None;
        };
        let left = self.tbf.left(held.queued.bytes, now);
        if left < 0 {
            self.watchdog = Some(Instant::from_nanos(now.as_nanos() + left.unsigned_abs()));
            return None;
        }
        self.tbf.tokens = left;
        self.tbf.updated = now;
        self.child.served();
        self.held.take()
    }

    fn watchdog(&self) -> Option<Instant> {
        self.watchdog
    }
}
