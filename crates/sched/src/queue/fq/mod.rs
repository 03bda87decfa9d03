//! `fq`: fair queueing with pacing for each flow, as Linux' fq (tc-fq(8)).

mod config;
mod flow;
mod flows;
mod pacing;
mod packets;
mod serve;
mod slab;
mod statistics;
mod table;
mod throttled;
mod wheel;

use self::config::{BANDS, Settings};
use self::flow::{FlowList, State};
use self::flows::Flows;
use self::pacing::Latency;
use self::packets::{PacketQueue, Packets};
use self::table::Key;
use super::{Backlog, Discipline, Effects, Moving, Queued, Served, Statistics};
use crate::config::LinkConfig;
use crate::output::DropReason;
use crate::packet::Packet;
use crate::time::{Duration, Instant};
use crate::units::Rate;

pub use config::{FqConfig, HorizonMode, MaxRateZero, Wake};
pub use statistics::FqStatistics;
pub use throttled::{Throttled, Tree};
pub use wheel::Wheel;

/// Flows take turns by deficit round robin, new ones first, in three bands of priority that share
/// by weight; each flow may have a rate of its own, each packet a time before which it must not
/// leave.
///
/// # Contract
///
/// * Packets with [`Packet::socket`] belong to the flow of that socket, others to the flow of their
///   headers' hash under `orphan_mask`. Order within a flow is kept, except that transmit times
///   reorder.
/// * A throttled flow is looked at when its time has come, exactly then with [`Wake::Due`].
/// * Times saturate at the ends of their range, credits at those of 32 bits.
/// * Memory: 128 bytes a packet, 64 and a table entry a flow. Flows idle for more than three
///   seconds are forgotten when new ones come, the sooner the more flows there are for each of
///   `buckets`; there are never more than 2^22. Packets of one more flow leave first, unpaced, as
///   under Linux when it finds no memory.
#[derive(Debug)]
pub struct Fq<T = Wheel> {
    settings: Settings,
    flows: Flows,
    packets: Packets,
    bands: [Band; BANDS],
    /// The band whose turn it is.
    turn: usize,
    /// Every band has all the credit that it can have.
    rested: bool,
    throttled: T,
    /// The earliest time in `throttled`.
    next_delayed: Option<Instant>,
    /// Packets that nothing holds back: they leave first.
    internal: PacketQueue,
    /// Until the queue is empty none is unhindered: since a change others of its flow may wait.
    hindered: bool,
    /// Packets waiting, and the one handed out last, which has not been served yet.
    len: u64,
    serving: bool,
    backlog: Backlog,
    counters: FqStatistics,
    latency: Latency,
    now: Instant,
}

/// Flows of one priority.
#[derive(Debug)]
struct Band {
    new: FlowList,
    old: FlowList,
    /// Bytes that it may still send in its turn; below 0 by more than a packet only after one
    /// larger than its weight.
    credit: i64,
    weight: i64,
    /// Packets of this band.
    packets: u64,
}

impl<T: Throttled> Fq<T> {
    /// An empty queue on a link with `config`. `seed` decides where flows are found in memory and
    /// nothing else.
    pub fn new(config: &LinkConfig, seed: u64, start: Instant) -> Self {
        Self::with_flows(config, Flows::new(seed, MAX_FLOWS), start)
    }

    fn with_flows(config: &LinkConfig, flows: Flows, start: Instant) -> Self {
        let settings = Settings::new(config);
        Self {
            flows,
            packets: Packets::new(),
            bands: settings.weights.map(Band::new),
            turn: 0,
            rested: false,
            throttled: T::default(),
            next_delayed: None,
            internal: PacketQueue::EMPTY,
            hindered: false,
            len: 0,
            serving: false,
            backlog: Backlog::default(),
            counters: FqStatistics::default(),
            latency: Latency::default(),
            now: start,
            settings,
        }
    }

    /// Bytes of memory for packets and for flows.
    pub fn memory(&self) -> (usize, usize) {
        (self.packets.memory(), self.flows.memory() + self.throttled.memory())
    }

    /// When a packet may leave; `None` beyond the horizon.
    #[inline]
    fn time_to_send(&mut self, packet: &Packet, now: Instant) -> Option<Instant> {
        let Some(transmit) = packet.transmit else { return Some(now) };
        let horizon = now + self.settings.horizon;
        if transmit.at() <= horizon {
            return Some(transmit.at());
        }
        match self.settings.horizon_mode {
            HorizonMode::Drop => {
                self.counters.horizon_drops += 1;
                None
            }
            HorizonMode::Cap => {
                self.counters.horizon_caps += 1;
                Some(horizon)
            }
        }
    }

    /// The flow of a packet; `None` when it goes without one.
    #[inline]
    fn classify(&mut self, packet: &Packet, send: Instant, now: Instant) -> Option<u32> {
        if self.is_unhindered(packet, send, now) {
            self.counters.fastpath_packets += 1;
            return None;
        }
        let key = self.key(packet);
        if let Some(flow) = self.flows.find(key) {
            return Some(flow);
        }
        self.create(key, now)
    }

    #[inline(never)]
    fn create(&mut self, key: Key, now: Instant) -> Option<u32> {
        for _ in 0..self.flows.sweep(self.settings.buckets) {
            let flow = self.flows.next_in_sweep();
            self.forget_if_idle(flow, now);
        }
        self.flows.create(key, self.settings.initial_quantum, now)
    }

    /// Forgets a flow that has sent nothing for long. Linux does so only when its turn has ended,
    /// which may be never where only new flows have packets.
    fn forget_if_idle(&mut self, index: u32, now: Instant) {
        let flow = self.flows[index];
        if flow.packets.len > 0 || now.since(flow.age) <= IDLE {
            return;
        }
        let nodes = &mut self.flows.nodes;
        match flow.state {
            State::New(band) => self.bands[usize::from(band)].new.remove(nodes, index),
            State::Old(band) => self.bands[usize::from(band)].old.remove(nodes, index),
            State::Detached => {}
            State::Free | State::Throttled => return,
        }
        self.flows.forget(index);
    }

    /// Whether the packet may leave at once without changing what others get.
    #[inline]
    fn is_unhindered(&self, packet: &Packet, send: Instant, now: Instant) -> bool {
        let all_wait = || {
            !self.hindered
                && self.flows.len() == self.flows.inactive + self.throttled.count()
                && self.internal.len < FASTPATH_PACKETS
                && self.next_delayed.is_none_or(|at| at > now)
        };
        packet.pacing_rate == Rate::UNLIMITED
            && self.settings.max_rate == Rate::UNLIMITED
            && send <= now
            && (self.len == 0 || all_wait())
    }

    #[inline]
    fn key(&self, packet: &Packet) -> Key {
        if packet.socket {
            Key::of_socket(packet.flow)
        } else {
            Key::of_headers(packet.flow, self.settings.orphan_mask)
        }
    }

    /// Makes the flow ready for one more packet of `band`; false when it is at its limit.
    #[inline]
    fn join_limited(&mut self, index: u32, band: u8, now: Instant) -> bool {
        if self.flows.nodes[index].packets.len >= self.settings.flow_limit {
            self.counters.flows_plimit += 1;
            return false;
        }
        self.join(index, band, now);
        true
    }

    /// The same whatever its limit.
    #[inline]
    fn join(&mut self, index: u32, band: u8, now: Instant) {
        let flow = &mut self.flows.nodes[index];
        if flow.packets.len == 0 {
            self.flows.inactive -= 1;
        }
        // Its list is that of the band of its packet before, as under Linux.
        let before = core::mem::replace(&mut flow.band, band);
        if flow.state == State::Detached {
            // A flow in debt stays so: Linux compares as if debts were large credits.
            if now.since(flow.age) > self.settings.refill_delay && flow.credit >= 0 {
                flow.credit = flow.credit.max(self.settings.quantum);
            }
            self.bands[usize::from(before)].new.push(
                &mut self.flows.nodes,
                index,
                State::New(before),
            );
        }
        self.bands[usize::from(band)].packets += 1;
    }
}

impl<T: Throttled> Discipline for Fq<T> {
    fn enqueue(&mut self, queued: Queued, effects: &mut Effects) {
        let (packet, now) = (&queued.packet, queued.entered);
        self.now = now;
        let band = self.settings.priomap[usize::from(packet.priority & 15)];
        if self.bands[usize::from(band)].packets >= self.settings.limit {
            self.counters.band_drops[usize::from(band)] += 1;
            effects.drop(packet, DropReason::BandLimit);
            return;
        }
        let Some(send) = self.time_to_send(packet, now) else {
            effects.drop(packet, DropReason::Horizon);
            return;
        };
        let queue = match self.classify(packet, send, now) {
            None => &mut self.internal,
            Some(flow) if self.join_limited(flow, band, now) => &mut self.flows.nodes[flow].packets,
            Some(_) => {
                effects.drop(packet, DropReason::FlowLimit);
                return;
            }
        };
        self.backlog.add(&queued);
        self.len += 1;
        self.packets.push(queue, queued, send, band);
    }

    #[inline]
    fn dequeue_into(&mut self, served: &mut Served, now: Instant, _: &mut Effects) -> bool {
        self.served();
        self.serving = self.take(served, now);
        self.serving
    }

    fn wake(&self) -> Option<Instant> {
        self.next_delayed.map(|at| at + self.settings.wake_slack)
    }

    fn served(&mut self) {
        self.len -= u64::from(core::mem::take(&mut self.serving));
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Acts on packets and turns from now on; credits and times of flows stay. A lower limit drops
    /// what is over it, another number of buckets forgets idle flows.
    fn configure(&mut self, config: &LinkConfig, now: Instant, effects: &mut Effects) {
        let before = core::mem::replace(&mut self.settings, Settings::new(config));
        self.now = now;
        for (band, weight) in self.bands.iter_mut().zip(self.settings.weights) {
            band.weight = weight.into();
        }
        self.rested = false;
        self.hindered |= self.settings.max_rate != before.max_rate;
        if self.settings.buckets != before.buckets {
            (0..self.flows.nodes.end()).for_each(|flow| self.forget_if_idle(flow, now));
        }
        if self.settings.limit < before.limit {
            self.shrink(now, effects);
        }
    }

    fn statistics(&self) -> Statistics {
        let delay = self.wake().map_or(0, |wake| wake.since(self.now).as_nanos());
        Statistics::Fq(FqStatistics {
            flows: self.flows.len().into(),
            inactive_flows: self.flows.inactive.into(),
            throttled_flows: self.throttled.count().into(),
            band_packets: [0, 1, 2].map(|band: usize| self.bands[band].packets),
            next_packet_delay: delay,
            gc_flows: self.flows.collected,
            allocation_errors: self.flows.refused,
            latency: self.latency.nanos(),
            ..self.counters
        })
    }

    fn touch<'a>(&self, packets: impl Iterator<Item = &'a Packet> + Clone) -> u64 {
        self.flows.touch(packets.map(|packet| self.key(packet)))
    }
}

impl<T: Throttled> Moving for Fq<T> {
    /// A transmit time beyond the horizon is cut to it: it was not asked for of this queue.
    fn adopt(&mut self, queued: Queued, now: Instant) {
        self.now = now;
        let packet = &queued.packet;
        let band = self.settings.priomap[usize::from(packet.priority & 15)];
        let horizon = now + self.settings.horizon;
        let send = packet.transmit.map_or(queued.entered, |asked| asked.at().min(horizon));
        let queue = match self.classify(packet, send, now) {
            None => &mut self.internal,
            Some(flow) => {
                self.join(flow, band, now);
                &mut self.flows.nodes[flow].packets
            }
        };
        self.backlog.add(&queued);
        self.len += 1;
        self.packets.push(queue, queued, send, band);
    }

    fn adopt_served(&mut self, _queued: &Queued) {
        self.len += 1;
        self.serving = true;
    }

    fn surrender(&mut self, packets: &mut Vec<Queued>) {
        let mut all = Vec::new();
        self.packets.empty(&mut self.internal, &mut all);
        for flow in 0..self.flows.nodes.end() {
            self.packets.empty(&mut self.flows.nodes[flow].packets, &mut all);
        }
        self.backlog = Backlog::default();
        all.sort_by_key(|&(arrival, _)| arrival);
        packets.extend(all.into_iter().map(|(_, queued)| queued));
    }

    /// Drops, in the order of departure, what is more than the limit. As under Linux, packets of
    /// throttled flows stay.
    fn shrink(&mut self, now: Instant, effects: &mut Effects) {
        let serving = core::mem::take(&mut self.serving);
        while self.len > self.settings.limit
            && let Some(served) = self.dequeue(now, effects)
        {
            self.served();
            effects.drop(&served.queued.packet, DropReason::Limit);
        }
        self.serving = serving;
    }
}

/// Flows idle for longer may be forgotten.
const IDLE: Duration = Duration::from_secs(3);
/// Packets that may wait at the fast path while flows wait for their time.
const FASTPATH_PACKETS: u32 = 8;
/// A bound of memory: 256 MB of flows.
const MAX_FLOWS: u32 = 1 << 22;

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
