//! `fq_codel`: flows in turn, each with a CoDel controller (RFC 8290).

use super::codel::{Head, Law, Verdict};
use super::{Backlog, Discipline, Effects, Held, Moving, Queued, Served, Statistics};
use crate::config::LinkConfig;
use crate::output::{DropReason, Mark};
use crate::packet::{Ecn, Packet, true_size};
use crate::time::Instant;

mod backlogs;
mod config;
mod flows;
mod packets;
mod statistics;
#[cfg(test)]
mod tests;

use backlogs::Backlogs;
pub use config::{FqCodelConfig, Selector};
use flows::{Flows, Turn};
use packets::Packets;
pub use statistics::FqCodelStatistics;

/// Flows by hash, served by deficit round robin with new flows first, one controller each.
#[derive(Debug)]
pub struct FqCodel {
    packets: Packets,
    flows: Flows,
    backlogs: Backlogs,
    law: Law,
    selector: Selector,
    quantum: i32,
    /// Packets that it holds at most.
    limit: u64,
    /// Bytes of true size that it holds at most, and that it holds.
    memory_limit: u64,
    memory: u64,
    drop_batch: u32,
    held: Held,
    counters: FqCodelStatistics,
}

impl FqCodel {
    /// An empty queue. `config` is valid.
    pub fn new(config: &LinkConfig) -> Self {
        let flows = config.fq_codel.flows;
        let mut queue = Self {
            packets: Packets::default(),
            flows: Flows::new(flows),
            backlogs: Backlogs::new(flows as usize),
            law: config.fq_codel.codel.law(config),
            selector: Selector::default(),
            quantum: 0,
            limit: 0,
            memory_limit: 0,
            memory: 0,
            drop_batch: 0,
            held: Held::default(),
            counters: FqCodelStatistics::default(),
        };
        queue.set(config);
        queue
    }

    /// Takes over all parameters but the number of flows.
    fn set(&mut self, link: &LinkConfig) {
        let config = &link.fq_codel;
        self.law = config.codel.law(link);
        self.selector = config.selector;
        self.quantum = i32::try_from(config.resolved_quantum(link)).unwrap_or(i32::MAX);
        self.limit = link.resolved_limit().packets;
        self.memory_limit = config.memory_limit.into();
        self.drop_batch = config.drop_batch;
    }

    /// Drops from the head of the flow with the most bytes: half of them, but no more than a
    /// batch. Its controller counts the drops as signals, though they do not slow its clock.
    #[inline(never)]
    fn make_room(&mut self, effects: &mut Effects) {
        let out_of_memory = self.memory > self.memory_limit;
        let reason = if out_of_memory { DropReason::MemoryLimit } else { DropReason::Limit };
        let (flow, bytes) = self.backlogs.fattest();
        let flow = u32::try_from(flow).expect("at most 65536 flows");
        let (mut dropped, mut gone) = (0, 0);
        while let Some(queued) = self.take(flow) {
            gone += queued.bytes;
            dropped += 1;
            effects.drop(&queued.packet, reason);
            let segments = u64::from(queued.packet.segments);
            self.counters.drop_overlimit += segments;
            self.counters.drop_overmemory += if out_of_memory { segments } else { 0 };
            if dropped == self.drop_batch || gone >= bytes / 2 {
                break;
            }
        }
        self.flows.get_mut(flow).control.add(dropped);
    }

    /// The packet that leaves a flow, if its controller lets one.
    #[inline]
    fn serve(
        &mut self,
        served: &mut Served,
        turn: Turn,
        now: Instant,
        effects: &mut Effects,
    ) -> bool {
        while let Some(queued) = self.take(turn.flow) {
            let head = Head {
                entered: queued.entered,
                now,
                // Of all flows, as in Linux: a thin flow behind fat ones is judged, too.
                backlog: self.held.waiting.bytes,
                markable: queued.packet.ecn.is_capable(),
            };
            self.counters.maxpacket = self.counters.maxpacket.max(queued.bytes);
            let flow = self.flows.get_mut(turn.flow);
            let verdict = flow.control.judge(&self.law, &head);
            if verdict != Verdict::Drop {
                let charge = i32::try_from(queued.bytes).unwrap_or(MAX_CHARGE).min(MAX_CHARGE);
                flow.deficit -= charge;
                self.leave(served, &queued, verdict, now);
                return true;
            }
            effects.drop(&queued.packet, DropReason::Congested);
        }
        self.flows.get_mut(turn.flow).control.empty(&self.law);
        false
    }

    /// The packet with what was decided and what the ce_threshold says besides.
    #[inline]
    fn leave(&mut self, served: &mut Served, queued: &Queued, verdict: Verdict, now: Instant) {
        let marked = verdict == Verdict::Mark;
        let late = self.law.above_ce_threshold(self.law.sojourn(queued.entered, now))
            && queued.packet.ecn.is_capable()
            && self.selector.selects(ds_field(&queued.packet, marked));
        self.counters.ecn_mark += u64::from(marked);
        self.counters.ce_mark += u64::from(late);
        self.held.hand_out(queued);
        served.set_untouched(queued);
        served.mark = if late || marked { Mark::Ce } else { Mark::None };
    }

    /// Takes a packet in; false where the table is full.
    #[inline]
    fn take_in(&mut self, queued: Queued) -> bool {
        let flow = self.flows.of(queued.packet.flow);
        if !self.packets.push(&mut self.flows.get_mut(flow).packets, queued) {
            return false;
        }
        self.backlogs.add(flow as usize, queued.bytes);
        self.held.waiting.add(&queued);
        self.memory += true_size(queued.packet.len);
        self.counters.new_flow_count += u64::from(self.flows.begin(flow, self.quantum));
        true
    }

    /// Takes the first packet of a flow.
    #[inline]
    fn take(&mut self, flow: u32) -> Option<Queued> {
        let queued = self.packets.pop(&mut self.flows.get_mut(flow).packets)?;
        self.backlogs.remove(flow as usize, queued.bytes);
        self.held.waiting.remove(&queued);
        self.memory -= true_size(queued.packet.len);
        Some(queued)
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.held.all().packets > self.limit || self.memory > self.memory_limit
    }
}

impl Discipline for FqCodel {
    fn enqueue(&mut self, queued: Queued, effects: &mut Effects) {
        if !self.take_in(queued) {
            effects.drop(&queued.packet, DropReason::MemoryLimit);
        } else if self.is_over() {
            self.make_room(effects);
        }
    }

    fn dequeue_into(&mut self, served: &mut Served, now: Instant, effects: &mut Effects) -> bool {
        self.served();
        while let Some(turn) = self.flows.turn() {
            if self.flows.get(turn.flow).deficit <= 0 {
                self.flows.refill(turn, self.quantum);
                continue;
            }
            if self.serve(served, turn, now, effects) {
                return true;
            }
            self.flows.end(turn);
        }
        false
    }

    fn wake(&self) -> Option<Instant> {
        None
    }

    fn served(&mut self) {
        self.held.served();
    }

    fn backlog(&self) -> Backlog {
        self.held.waiting
    }

    /// The number of flows stays. Lower limits drop as an overflow does.
    fn configure(&mut self, config: &LinkConfig, now: Instant, effects: &mut Effects) {
        let (limit, memory_limit) = (self.limit, self.memory_limit);
        self.set(config);
        if self.limit < limit || self.memory_limit < memory_limit {
            self.shrink(now, effects);
        }
    }

    fn statistics(&self) -> Statistics {
        let (new, old) = self.flows.lengths();
        Statistics::FqCodel(FqCodelStatistics {
            memory_used: self.memory,
            new_flows_len: new.into(),
            old_flows_len: old.into(),
            ..self.counters
        })
    }

    fn touch<'a>(&self, packets: impl Iterator<Item = &'a Packet> + Clone) -> u64 {
        let tail = |packet: &Packet| self.flows.get(self.flows.of(packet.flow)).packets.tail();
        packets.fold(0, |sum, packet| sum ^ u64::from(tail(packet)))
    }
}

impl Moving for FqCodel {
    fn adopt(&mut self, queued: Queued, _now: Instant) {
        // A table of 2^32 packets is not filled by those that another one held.
        let taken = self.take_in(queued);
        debug_assert!(taken, "there is room");
    }

    fn adopt_served(&mut self, queued: &Queued) {
        self.held.hand_out(queued);
    }

    fn surrender(&mut self, packets: &mut Vec<Queued>) {
        for flow in 0..self.flows.count() {
            packets.extend(core::iter::from_fn(|| self.take(flow)));
        }
    }

    fn shrink(&mut self, _now: Instant, effects: &mut Effects) {
        while self.is_over() && self.backlog().packets > 0 {
            self.make_room(effects);
        }
    }
}

/// The DS field with which a packet leaves.
const fn ds_field(packet: &Packet, marked: bool) -> u8 {
    let ecn = if marked { Ecn::Ce } else { packet.ecn };
    packet.dscp << 2 | ecn as u8
}

/// Bytes that one packet can cost of its flow's turns: more than any packet on a wire has with
/// framing and overhead. So no flow waits for more than 1024 turns.
const MAX_CHARGE: i32 = 1 << 18;
