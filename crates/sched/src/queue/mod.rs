//! Queue disciplines: who leaves next, and who is told to slow down.
//!
//! Each discipline is a state machine that is called as Linux calls a qdisc, except that every
//! call carries its own instant of event time. They share one trait, [`Discipline`], and one
//! closed enum, [`Queue`].

use crate::config::{ConfigError, LinkConfig, QueueKind};
use crate::impair::Impair;
use crate::netem::Netem;
use crate::output::{BitFlip, DropReason, Mark};
use crate::packet::Packet;
use crate::time::{Duration, Instant};

mod backlog;
pub mod codel;
pub mod dualpi2;
pub mod fifo;
pub mod fq;
pub mod fq_codel;
pub mod jens;
mod moving;
mod show;
mod statistics;
pub mod tbf;

pub use backlog::Backlog;
use backlog::Held;
pub use codel::Codel;
pub use dualpi2::{Dualpi2, Dualpi2Config};
pub use fifo::{Fifo, QueueLimit};
pub use fq::{Fq, FqConfig, FqStatistics};
pub use fq_codel::FqCodel;
pub use jens::Jens;
pub(crate) use moving::Moving;
pub use show::show;
pub use statistics::Statistics;
pub use tbf::Tbf;

/// What a queue discipline does.
///
/// # Contract
///
/// * Times never run backwards over all calls and may repeat.
/// * [`enqueue`](Self::enqueue) is called at `queued.entered`. After it, and whenever the device
///   below is free, [`dequeue`](Self::dequeue) is called until it returns `None`.
/// * When it returned `None`, [`wake`](Self::wake) says when to call it again although nothing has
///   arrived: a time after the one given, or `None`.
/// * The packet handed out last counts as queued, in limits and in whether the queue is empty, until
///   [`served`](Self::served) or the next `dequeue`; not in a flow's own backlog and not in
///   [`backlog`](Self::backlog). So a limit bounds the whole wait, and a discipline decides as below
///   Linux' tbf, which holds that packet until its tokens suffice.
/// * Every packet taken in comes out of `dequeue` once or goes to [`Effects::drop`] once;
///   duplicates are announced to [`Effects::duplicate`] before they are queued.
pub trait Discipline {
    /// Takes a packet in, or drops it or others.
    fn enqueue(&mut self, queued: Queued, effects: &mut Effects);

    /// Puts the packet that leaves the queue at `now`, if one may, into `served`, which stays
    /// as it was where the answer is false. In place, because a packet that is returned is moved
    /// once more.
    fn dequeue_into(&mut self, served: &mut Served, now: Instant, effects: &mut Effects) -> bool;

    /// The same, returned.
    fn dequeue(&mut self, now: Instant, effects: &mut Effects) -> Option<Served> {
        let mut served = Served::untouched(Queued::NONE);
        self.dequeue_into(&mut served, now, effects).then_some(served)
    }

    /// When to call [`dequeue`](Self::dequeue) again; valid right after it returned `None`.
    fn wake(&self) -> Option<Instant>;

    /// When the delay of the last packet is over that this holds for one; `None` where none has one.
    /// Waiting for others is no delay.
    fn latest_due(&self) -> Option<Instant> {
        None
    }

    /// The packet dequeued last has left the device below, which does not ask for the next one yet.
    /// One that does says so by asking: a link never calls this.
    fn served(&mut self) {}

    /// What is queued now.
    fn backlog(&self) -> Backlog;

    /// New parameters from `now` on; `config` is valid and of the same kind.
    fn configure(&mut self, config: &LinkConfig, now: Instant, effects: &mut Effects);

    /// The discipline's own counters.
    fn statistics(&self) -> Statistics;

    /// The same at `now`, which is not before the latest time given: for what changes although
    /// nothing is called.
    fn statistics_at(&self, _now: Instant) -> Statistics {
        self.statistics()
    }

    /// Loads what the enqueues of a batch will read, so that its misses overlap. The value means
    /// nothing.
    fn touch<'a>(&self, _packets: impl Iterator<Item = &'a Packet> + Clone) -> u64 {
        0
    }
}

/// A packet that enters a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The descriptor.
    pub packet: Packet,
    /// When it entered the queue.
    pub entered: Instant,
    /// Bytes as the rate counts them: framing and overhead included, at least 1.
    pub bytes: u64,
}

/// A packet that a queue hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The descriptor as it was queued.
    pub queued: Queued,
    /// 0 for the packet itself, 1 and up for its duplicates.
    pub copy: u8,
    /// Congestion mark. [`Mark::Ce`] only on ECN-capable packets.
    pub mark: Mark,
    /// A bit that is to be flipped.
    pub corrupt: Option<BitFlip>,
    /// How much of its wait was for the flow's own rate or transmit time.
    pub pacing: Duration,
    /// How much of its wait was latency that the discipline adds, as a path does.
    pub latency: Duration,
}

impl Queued {
    /// What stands where there is none yet.
    pub(crate) const NONE: Self =
        Self { packet: Packet::on_path(0, Instant::ZERO, 0, 0), entered: Instant::ZERO, bytes: 0 };
}

impl Served {
    /// Handed out as it came.
    pub fn untouched(queued: Queued) -> Self {
        Self {
            queued,
            copy: 0,
            mark: Mark::None,
            corrupt: None,
            pacing: Duration::ZERO,
            latency: Duration::ZERO,
        }
    }

    /// Becomes `queued`, handed out as it came. In place: what is built first and then moved is
    /// written in other pieces than it is read in soon after, and then a processor waits.
    #[inline]
    pub(crate) fn set_untouched(&mut self, queued: &Queued) {
        self.queued = *queued;
        self.copy = 0;
        self.mark = Mark::None;
        self.corrupt = None;
        self.pacing = Duration::ZERO;
        self.latency = Duration::ZERO;
    }
}

/// What a call of a discipline did besides.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    drops: Vec<Dropped>,
    /// One entry for each duplicate made.
    duplicates: Vec<Packet>,
}

/// A packet that a discipline gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The descriptor.
    pub packet: Packet,
    /// 0 for the packet itself, 1 and up for its duplicates.
    pub copy: u8,
    /// Why.
    pub reason: DropReason,
}

impl Effects {
    /// A packet is dropped.
    pub fn drop(&mut self, packet: &Packet, reason: DropReason) {
        self.drop_copy(packet, 0, reason);
    }

    /// A packet or a duplicate is dropped.
    pub fn drop_copy(&mut self, packet: &Packet, copy: u8, reason: DropReason) {
        self.drops.push(Dropped { packet: *packet, copy, reason });
    }

    /// A packet was duplicated: one more is held.
    pub fn duplicate(&mut self, packet: &Packet) {
        self.duplicates.push(*packet);
    }

    /// The drops since the last call, in order.
    pub fn take_drops(&mut self) -> impl Iterator<Item = Dropped> + '_ {
        self.drops.drain(..)
    }

    /// The packets duplicated since the last call, one for each duplicate.
    pub fn take_duplicates(&mut self) -> impl Iterator<Item = Packet> + '_ {
        self.duplicates.drain(..)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.drops.is_empty() && self.duplicates.is_empty()
    }
}

/// The queue of a link: one of the disciplines.
#[derive(Debug)]
pub enum Queue {
    /// `fifo`.
    Fifo(Fifo),
    /// `jens`.
    Jens(Box<Jens>),
    /// `impair=netem`, which takes the place of a queue.
    Netem(Box<Netem>),
    /// `dualpi2`.
    Dualpi2(Box<Dualpi2>),
    /// `tbf`.
    Tbf(Box<Tbf>),
    /// `codel`.
    Codel(Box<Codel>),
    /// `fq_codel`.
    FqCodel(Box<FqCodel>),
    /// `fq`.
    Fq(Box<Fq>),
}

/// Calls the same method of whichever discipline it is. One line per discipline.
macro_rules! each {
    ($queue:expr, $discipline:ident => $call:expr) => {
        match $queue {
            Queue::Fifo($discipline) => $call,
            Queue::Jens($discipline) => $call,
            Queue::Netem($discipline) => $call,
            Queue::Dualpi2($discipline) => $call,
            Queue::Tbf($discipline) => $call,
            Queue::Codel($discipline) => $call,
            Queue::FqCodel($discipline) => $call,
            Queue::Fq($discipline) => $call,
        }
    };
}
use each;

impl Queue {
    /// An empty queue of `config.queue`, or netem in its place, which starts at `start` and draws
    /// from `seed`.
    pub fn new(config: &LinkConfig, seed: u64, start: Instant) -> Result<Self, ConfigError> {
        config.validate()?;
        if config.impair == Impair::Netem {
            let netem = Netem::new(&config.into(), seed, start)?;
            return Ok(Self::Netem(Box::new(netem)));
        }
        Ok(match config.queue {
            QueueKind::Fifo => Self::Fifo(Fifo::new(config.resolved_limit())),
            QueueKind::Dualpi2 => Self::Dualpi2(Box::new(Dualpi2::new(config, seed, start))),
            QueueKind::Codel => Self::Codel(Box::new(Codel::new(config))),
            QueueKind::FqCodel => Self::FqCodel(Box::new(FqCodel::new(config))),
            QueueKind::Tbf => Self::Tbf(Box::new(Tbf::new(config, start))),
            QueueKind::Fq => Self::Fq(Box::new(Fq::new(config, seed, start))),
            QueueKind::Jens => Self::Jens(Box::new(Jens::new(config, seed, start)?)),
        })
    }
}

impl Discipline for Queue {
    #[inline]
    fn enqueue(&mut self, queued: Queued, effects: &mut Effects) {
        each!(self, discipline => discipline.enqueue(queued, effects));
    }

    #[inline]
    fn dequeue_into(&mut self, served: &mut Served, now: Instant, effects: &mut Effects) -> bool {
        each!(self, discipline => discipline.dequeue_into(served, now, effects))
    }

    #[inline]
    fn wake(&self) -> Option<Instant> {
        each!(self, discipline => discipline.wake())
    }

    fn latest_due(&self) -> Option<Instant> {
        each!(self, discipline => discipline.latest_due())
    }

    fn served(&mut self) {
        each!(self, discipline => discipline.served());
    }

    fn backlog(&self) -> Backlog {
        each!(self, discipline => discipline.backlog())
    }

    fn configure(&mut self, config: &LinkConfig, now: Instant, effects: &mut Effects) {
        each!(self, discipline => discipline.configure(config, now, effects));
    }

    fn statistics(&self) -> Statistics {
        each!(self, discipline => discipline.statistics())
    }

    fn statistics_at(&self, now: Instant) -> Statistics {
        each!(self, discipline => discipline.statistics_at(now))
    }

    fn touch<'a>(&self, packets: impl Iterator<Item = &'a Packet> + Clone) -> u64 {
        each!(self, discipline => discipline.touch(packets))
    }
}
