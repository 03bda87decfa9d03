//! `dualpi2`: two queues, one for scalable and one for classic congestion controls, coupled by one
//! PI2 controller (RFC 9332; tc-dualpi2(8); De Schepper et al., "PI2: A Linearized AQM for both
//! Classic and Scalable TCP", CoNEXT 2016).
//!
//! * [`config`]: its parameters
//! * [`controller`]: the base probability, in event time
//! * [`signal`]: what it means for one packet, and the step
//! * [`credit`]: which queue is served
//! * [`statistics`]: its counters

use std::collections::VecDeque;

use super::{Backlog, Discipline, Effects, Moving, Queued, Served, Statistics};
use crate::config::{Limit, LinkConfig};
use crate::output::{DropReason, Mark};
use crate::packet::{Ecn, Packet, true_size};
use crate::random::{Component, Stream};
use crate::time::{Duration, Instant};

pub mod config;
pub mod controller;
pub mod credit;
mod moving;
pub mod signal;
pub mod statistics;

pub use config::{Classify, DropAt, Dualpi2Config, Overload, StepThreshold};
use controller::{Controller, Gains};
use credit::Credit;
pub use signal::Lane;
use signal::{Coupling, Signal};
pub use statistics::Dualpi2Statistics;

/// Two queues in order of arrival behind one limit.
///
/// The controller's updates happen at their own times before whatever is done at or after them:
/// a head changes in a call only, so they can be made when the next call comes.
#[derive(Debug)]
pub struct Dualpi2 {
    settings: Settings,
    controller: Controller,
    credit: Credit,
    random: Stream,
    classic: Fifo,
    low: Fifo,
    /// The packet handed out last, while the link serves it: it counts in the limit.
    serving: Backlog,
    /// The latest time given.
    now: Instant,
    counters: Dualpi2Statistics,
}

impl Dualpi2 {
    /// Empty queues, which start at `start` and draw from `seed`. `config` is valid.
    pub fn new(config: &LinkConfig, seed: u64, start: Instant) -> Self {
        let settings = Settings::new(config);
        let counters =
            Dualpi2Statistics { memory_limit: settings.memory, ..Dualpi2Statistics::default() };
        Self {
            controller: Controller::new(&settings.gains, start),
            credit: Credit::new(&settings.config, settings.mtu),
            random: Stream::new(seed, Component::Queue),
            classic: Fifo::default(),
            low: Fifo::default(),
            serving: Backlog::default(),
            now: start,
            counters,
            settings,
        }
    }

    /// When the older of the two heads entered.
    fn oldest(&self) -> Option<Instant> {
        let heads = [self.classic.head_entered(), self.low.head_entered()];
        heads.into_iter().flatten().min()
    }

    fn update(&mut self, now: Instant) {
        let oldest = self.oldest();
        self.controller.advance(&self.settings.gains, now, oldest);
        self.now = now;
    }

    fn waiting(&self) -> Backlog {
        Backlog {
            packets: self.classic.held.packets + self.low.held.packets,
            bytes: self.classic.held.bytes + self.low.held.bytes,
        }
    }

    /// What an entering packet finds: the one in service included.
    fn found(&self) -> Backlog {
        let waiting = self.waiting();
        Backlog {
            packets: waiting.packets + self.serving.packets,
            bytes: waiting.bytes + self.serving.bytes,
        }
    }

    /// Why a packet cannot be taken in.
    fn overfull(&self, packet: &Packet) -> Option<DropReason> {
        let packets = self.found().packets.saturating_add(packet.segments.into());
        if packets > self.settings.limit {
            return Some(DropReason::Limit);
        }
        let memory = self.counters.memory_used.saturating_add(true_size(packet.len));
        (memory > self.settings.memory).then_some(DropReason::MemoryLimit)
    }

    /// What the controller tells a packet of `lane` while `backlog` waits besides it: nothing below
    /// two full packets (RFC 9332, appendix A.1: so that the AQM never empties the queue).
    fn signal(&mut self, lane: Lane, ecn: Ecn, backlog: u64) -> Signal {
        let p = self.controller.probability();
        if p == 0 || backlog < 2 * self.settings.mtu {
            return Signal::Pass;
        }
        let draws = self.random.pair();
        self.settings.coupling.signal(lane, ecn, p, draws)
    }

    /// Counts a mark and returns what it does to the packet.
    fn mark(&mut self, ecn: Ecn) -> Mark {
        if !ecn.is_capable() {
            return Mark::Decided;
        }
        self.counters.ecn_mark += 1;
        Mark::Ce
    }

    fn push(&mut self, lane: Lane, queued: Queued, mark: Mark) {
        self.counters.maxq = self.counters.maxq.max(self.found().packets);
        let memory = self.counters.memory_used.saturating_add(true_size(queued.packet.len));
        self.counters.memory_used = memory;
        self.counters.max_memory_used = self.counters.max_memory_used.max(memory);
        let segments = u64::from(queued.packet.segments);
        match lane {
            Lane::Classic => self.counters.packets_in_c += segments,
            Lane::Low => self.counters.packets_in_l += segments,
        }
        let step = self.low.held.packets >= u64::from(self.settings.config.min_qlen_step);
        self.fifo(lane).push(Waiting { queued, mark, step: step && lane == Lane::Low });
    }

    fn pop(&mut self, lane: Lane) -> Option<Waiting> {
        let waiting = self.fifo(lane).pop()?;
        self.counters.memory_used -= true_size(waiting.queued.packet.len);
        Some(waiting)
    }

    fn fifo(&mut self, lane: Lane) -> &mut Fifo {
        match lane {
            Lane::Classic => &mut self.classic,
            Lane::Low => &mut self.low,
        }
    }

    /// The mark with which a packet just taken from `lane` leaves, or why it is dropped.
    fn judge(&mut self, lane: Lane, waiting: &Waiting, now: Instant) -> Result<Mark, DropReason> {
        let ecn = waiting.queued.packet.ecn;
        let mut mark = waiting.mark;
        if self.settings.config.drop == DropAt::Dequeue {
            match self.signal(lane, ecn, self.waiting().bytes) {
                Signal::Pass => {}
                Signal::Mark => mark = self.mark(ecn),
                Signal::Drop => return Err(DropReason::Congested),
            }
        }
        let sojourn = now.since(waiting.queued.entered);
        let threshold = self.settings.config.step_thresh;
        match threshold.signal(ecn, sojourn, self.low.held.packets) {
            Signal::Mark if waiting.step => {
                self.counters.step_marks += 1;
                mark = self.mark(ecn);
            }
            Signal::Drop if waiting.step => return Err(DropReason::StepNotEct),
            _ => {}
        }
        Ok(mark)
    }
}

impl Discipline for Dualpi2 {
    fn enqueue(&mut self, queued: Queued, effects: &mut Effects) {
        self.update(queued.entered);
        let Queued { packet, .. } = queued;
        if let Some(reason) = self.overfull(&packet) {
            self.counters.overlimits += u64::from(packet.segments);
            effects.drop(&packet, reason);
            return;
        }
        let lane = self.settings.config.classify.lane(packet.ecn);
        let mut mark = Mark::None;
        if self.settings.config.drop == DropAt::Enqueue {
            match self.signal(lane, packet.ecn, self.found().bytes) {
                Signal::Pass => {}
                Signal::Mark => mark = self.mark(packet.ecn),
                Signal::Drop => {
                    effects.drop(&packet, DropReason::Congested);
                    return;
                }
            }
        }
        self.push(lane, queued, mark);
    }

    fn dequeue_into(&mut self, served: &mut Served, now: Instant, effects: &mut Effects) -> bool {
        self.served();
        self.update(now);
        loop {
            let (classic_waits, low_waits) = (!self.classic.is_empty(), !self.low.is_empty());
            let Some(lane) = self.credit.turn(classic_waits, low_waits) else {
                self.credit.reset();
                return false;
            };
            let Some(waiting) = self.pop(lane) else { return false };
            let Waiting { queued, .. } = waiting;
            match self.judge(lane, &waiting, now) {
                Err(reason) => effects.drop(&queued.packet, reason),
                Ok(mark) => {
                    if classic_waits && low_waits {
                        self.credit.pay(lane, queued.bytes);
                    }
                    self.serving.add(&queued);
                    served.set_untouched(&queued);
                    served.mark = mark;
                    return true;
                }
            }
        }
    }

    /// A packet that waits can always leave.
    fn wake(&self) -> Option<Instant> {
        None
    }

    fn served(&mut self) {
        self.serving = Backlog::default();
    }

    fn backlog(&self) -> Backlog {
        self.waiting()
    }

    /// Probability and credit stay, and the next update's time. A lower limit drops from the
    /// heads, classic packets first.
    fn configure(&mut self, config: &LinkConfig, now: Instant, effects: &mut Effects) {
        self.update(now);
        let before = core::mem::replace(&mut self.settings, Settings::new(config));
        self.credit.configure(&self.settings.config, self.settings.mtu);
        self.counters.memory_limit = self.settings.memory;
        if self.settings.config.classify != before.config.classify {
            self.sort_anew();
        }
        // Memory that is derived may shrink with the framing: that is no lower limit.
        let memory = self.settings.config.memlimit != before.config.memlimit
            && self.settings.memory < before.memory;
        if self.settings.limit < before.limit || memory {
            self.shrink(now, effects);
        }
    }

    fn statistics(&self) -> Statistics {
        self.statistics_at(self.now)
    }

    /// With the updates due up to `now`.
    fn statistics_at(&self, now: Instant) -> Statistics {
        let mut controller = self.controller;
        controller.advance(&self.settings.gains, now, self.oldest());
        let age = |fifo: &Fifo| fifo.head_entered().map_or(Duration::ZERO, |at| now.since(at));
        Statistics::Dualpi2(Dualpi2Statistics {
            probability: controller.probability(),
            delay_c: age(&self.classic),
            delay_l: age(&self.low),
            credit: self.credit.value(),
            ..self.counters
        })
    }
}

impl Classify {
    /// Which queue takes a packet.
    pub const fn lane(self, ecn: Ecn) -> Lane {
        let low = match self {
            Self::L4sEct => matches!(ecn, Ecn::Ect1 | Ecn::Ce),
            Self::AnyEct => ecn.is_capable(),
        };
        if low { Lane::Low } else { Lane::Classic }
    }
}

/// The configuration, resolved.
#[derive(Clone, Copy, Debug)]
struct Settings {
    config: Dualpi2Config,
    gains: Gains,
    coupling: Coupling,
    /// Packets.
    limit: u64,
    /// Bytes of true size.
    memory: u64,
    /// A full packet as the rate counts it.
    mtu: u64,
}

impl Settings {
    fn new(link: &LinkConfig) -> Self {
        let config = link.dualpi2;
        let limit = match link.limit {
            Some(Limit::Packets(packets)) => packets,
            _ => Dualpi2Config::LIMIT,
        };
        let mtu = link.full_packet();
        let derived = (u64::from(limit).saturating_mul(2 * mtu)).min(u32::MAX.into());
        Self {
            gains: Gains::new(&config),
            coupling: Coupling::new(&config),
            limit: limit.into(),
            memory: config.memlimit.map_or(derived, u64::from),
            mtu,
            config,
        }
    }
}

/// A queue in order of arrival.
#[derive(Debug, Default)]
struct Fifo {
    packets: VecDeque<Waiting>,
    held: Backlog,
}

impl Fifo {
    fn push(&mut self, waiting: Waiting) {
        self.held.add(&waiting.queued);
        self.packets.push_back(waiting);
    }

    fn pop(&mut self) -> Option<Waiting> {
        let head = self.packets.pop_front()?;
        self.held.remove(&head.queued);
        Some(head)
    }

    fn drain(&mut self) -> impl Iterator<Item = Waiting> {
        self.held = Backlog::default();
        self.packets.drain(..)
    }

    fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    fn head_entered(&self) -> Option<Instant> {
        self.packets.front().map(|head| head.queued.entered)
    }
}

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    queued: Queued,
    /// From enqueue.
    mark: Mark,
    /// Whether the step applies to it.
    step: bool,
}

#[cfg(test)]
mod tests;
