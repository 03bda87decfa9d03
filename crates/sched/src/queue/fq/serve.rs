//! Whose turn it is.

use super::Band;
use super::config::{BANDS, Settings};
use super::flow::{Flow, FlowList, State};
use super::pacing::Gap;
use super::packets::Held;
use super::slab::Slab;
use super::{Fq, Served, Throttled};
use crate::output::Mark;
use crate::time::Instant;
use crate::units::Rate;

impl<T: Throttled> Fq<T> {
    /// Takes out the packet that leaves at `now`, if one may.
    pub(super) fn take(&mut self, now: Instant) -> Option<Served> {
        self.now = now;
        if self.len == 0 {
            return None;
        }
        let served = if let Some(index) = self.packets.next(&self.internal) {
            let queued = self.packets.get(index).queued;
            self.packets.remove(&mut self.internal, index);
            Some(Served::untouched(queued))
        } else {
            self.unthrottle(now);
            self.serve(now)
        };
        if let Some(served) = &served {
            self.backlog.remove(&served.queued);
            self.len -= 1;
        }
        served
    }

    /// Lets the flows go on whose time has come.
    fn unthrottle(&mut self, now: Instant) {
        let Some(first) = self.next_delayed.filter(|first| *first <= now) else { return };
        self.latency.sample(now.since(first));
        loop {
            // Loads the flows that come next, and their packets, all together.
            let (flows, packets) = (&self.flows, &self.packets);
            let mut loaded = 0;
            self.throttled.approach(now, |flow| loaded ^= packets.touch(&flows[flow].packets));
            core::hint::black_box(loaded);
            let Some(flow) = self.throttled.pop(now) else { break };
            self.append_old(flow);
        }
        self.next_delayed = self.throttled.first();
    }

    /// Deficit round robin over bands and in each over flows (Shreedhar and Varghese, SIGCOMM
    /// 1995).
    fn serve(&mut self, now: Instant) -> Option<Served> {
        // Bands in a row that had credit and no flow; flows in a row that had no credit.
        let (mut idle_bands, mut debtors) = (0, 0);
        loop {
            let Some(index) = self.bands[self.turn].first() else {
                if idle_bands == 0 && self.is_waiting() {
                    return None;
                }
                self.next_band(&mut idle_bands)?;
                continue;
            };
            idle_bands = 0;
            let flow = &self.flows[index];
            if flow.credit <= 0 {
                debtors += 1;
                self.refill(index, &mut debtors);
                continue;
            }
            debtors = 0;
            match self.gate(flow, now) {
                None => self.retire(index, now),
                Some(gate) if gate > now => self.throttle(index, gate, now),
                Some(gate) => return self.send(index, gate, now),
            }
        }
    }

    /// Whether no flow is in any list. Then the turn goes once around all bands, unless one is so
    /// deep in debt that it goes on.
    fn is_waiting(&mut self) -> bool {
        let waits =
            |band: &Band| band.new.len() + band.old.len() == 0 && band.credit > -band.weight;
        let all_wait = self.bands.iter().all(waits);
        if all_wait {
            self.bands.iter_mut().for_each(|band| _ = band.refill());
        }
        all_wait
    }

    /// Gives the turn to the next band with credit; `None` when none has flows.
    fn next_band(&mut self, idle_bands: &mut usize) -> Option<()> {
        loop {
            *idle_bands += 1;
            if *idle_bands > BANDS {
                return None;
            }
            self.turn = (self.turn + 1) % BANDS;
            if self.bands[self.turn].refill() {
                return Some(());
            }
            *idle_bands = 0;
            self.skip_band_turns();
        }
    }

    /// Gives all bands as many turns at once as leave all of them in debt, after packets of many
    /// times their weights.
    fn skip_band_turns(&mut self) {
        let turns = self.bands.iter().map(|band| -band.credit / band.weight).min().unwrap_or(0);
        if turns > 0 {
            self.bands.iter_mut().for_each(|band| band.credit += turns * band.weight);
        }
    }

    /// A flow without credit waits for its next turn.
    fn refill(&mut self, index: u32, debtors: &mut u32) {
        self.bands[self.turn].pop(&mut self.flows.nodes);
        let flow = &mut self.flows[index];
        flow.credit = flow.credit.saturating_add(self.settings.quantum);
        self.append_old(index);
        let band = &self.bands[self.turn];
        if *debtors > band.old.len() && band.new.first().is_none() {
            skip_turns(&band.old, &mut self.flows.nodes, self.settings.quantum);
            *debtors = 0;
        }
    }

    /// When the flow's next packet may leave. A time that has come may be given as any time that
    /// has come; `None` when it has no packets.
    #[inline]
    fn gate(&self, flow: &Flow, now: Instant) -> Option<Instant> {
        if flow.packets.timed == 0 && flow.time_next_packet > now && flow.packets.len > 0 {
            // Its packets' own times are past: no need to look at one.
            return Some(flow.time_next_packet);
        }
        let next = self.packets.next(&flow.packets)?;
        Some(self.packets.get(next).send.max(flow.time_next_packet))
    }

    /// A flow without packets: a new one becomes an old one, so that it cannot come back as new at
    /// once; an old one has had its turn.
    fn retire(&mut self, index: u32, now: Instant) {
        let was_new = self.bands[self.turn].pop(&mut self.flows.nodes);
        if was_new {
            self.append_old(index);
        } else {
            let flow = &mut self.flows[index];
            (flow.state, flow.age) = (State::Detached, now);
        }
    }

    /// The flow takes its place behind the old ones of the band of its latest packet.
    fn append_old(&mut self, index: u32) {
        let band = self.flows[index].band;
        let list = &mut self.bands[usize::from(band)].old;
        list.push(&mut self.flows.nodes, index, State::Old(band));
    }

    fn throttle(&mut self, index: u32, gate: Instant, now: Instant) {
        self.bands[self.turn].pop(&mut self.flows.nodes);
        let flow = &mut self.flows[index];
        flow.time_next_packet = gate;
        flow.state = State::Throttled;
        self.throttled.insert(index, gate, now);
        self.counters.throttled += 1;
        self.next_delayed = Some(self.next_delayed.map_or(gate, |first| first.min(gate)));
    }

    /// Takes out the next packet of a flow, which might have left at `gate`.
    fn send(&mut self, index: u32, gate: Instant, now: Instant) -> Option<Served> {
        let flow = &mut self.flows.nodes[index];
        let next = self.packets.next(&flow.packets)?;
        let held = self.packets.get(next);
        let bytes = narrow(held.queued.bytes);
        // So that a debt can be negated.
        flow.credit = flow.credit.saturating_sub_unsigned(bytes).max(-i32::MAX);
        self.bands[usize::from(held.band)].packets -= 1;
        self.bands[self.turn].credit -= i64::from(bytes);
        if self.settings.pacing {
            self.counters.pkts_too_long += u64::from(pace(flow, held, &self.settings, now));
        }
        let mut served = Served::untouched(held.queued);
        served.pacing = gate.since(held.queued.entered);
        served.mark = self.settings.mark(held, gate, now);
        self.counters.ce_mark += u64::from(served.mark != Mark::None);
        self.packets.remove(&mut flow.packets, next);
        if flow.packets.len == 0 {
            flow.age = now;
            self.flows.inactive += 1;
        }
        Some(served)
    }
}

impl Settings {
    fn mark(&self, held: &Held, gate: Instant, now: Instant) -> Mark {
        let Some(threshold) = self.ce_threshold else { return Mark::None };
        match held.queued.packet.ecn.is_capable() {
            _ if now.since(gate) <= threshold => Mark::None,
            true => Mark::Ce,
            false => Mark::Decided,
        }
    }
}

/// Decides when a flow may go on after a packet; whether that had to be cut to a second.
fn pace(flow: &mut Flow, held: &Held, settings: &Settings, now: Instant) -> bool {
    let (mut rate, mut bytes) = (settings.max_rate, held.queued.bytes);
    if held.queued.packet.transmit.is_none() {
        rate = rate.min(held.queued.packet.pacing_rate);
        if rate <= settings.low_rate_threshold {
            flow.credit = 0;
        } else if flow.credit > 0 {
            return false;
        } else {
            bytes = bytes.max(settings.quantum.unsigned_abs().into());
        }
    }
    if rate == Rate::UNLIMITED {
        return false;
    }
    let gap = Gap::new(bytes, rate, flow.remainder);
    flow.time_next_packet = gap.after(flow.time_next_packet, now);
    flow.remainder = gap.remainder;
    gap.too_long
}

impl Band {
    pub(super) fn new(weight: u32) -> Self {
        let (new, old) = (FlowList::EMPTY, FlowList::EMPTY);
        Self { new, old, credit: 0, weight: weight.into(), packets: 0 }
    }

    /// The flow whose turn it is.
    #[inline]
    fn first(&self) -> Option<u32> {
        if self.credit <= 0 {
            return None;
        }
        self.new.first().or_else(|| self.old.first())
    }

    /// Takes out the flow whose turn it is; whether it was a new one.
    fn pop(&mut self, flows: &mut Slab<Flow>) -> bool {
        let is_new = self.new.first().is_some();
        let list = if is_new { &mut self.new } else { &mut self.old };
        if let Some(flow) = list.first() {
            list.remove(flows, flow);
        }
        is_new
    }

    /// A new turn; false when it is in debt all the same.
    fn refill(&mut self) -> bool {
        self.credit = (self.credit + self.weight).min(self.weight);
        self.credit > 0
    }
}

/// Gives all flows of a list as many turns at once as leave all of them in debt, after packets of
/// many times the quantum.
fn skip_turns(list: &FlowList, flows: &mut Slab<Flow>, quantum: i32) {
    let turns = list.iter(flows).map(|flow| turns_in_debt(flows[flow].credit, quantum)).min();
    let Some(turns) = turns.filter(|turns| *turns > 0) else { return };
    let mut next = list.first();
    while let Some(flow) = next {
        flows[flow].credit += turns * quantum;
        next = flows[flow].next();
    }
}

/// How many times `quantum` can be added to a credit that stays 0 or less.
fn turns_in_debt(credit: i32, quantum: i32) -> i32 {
    if credit > 0 { 0 } else { -credit / quantum }
}

/// Bytes as credits count them.
fn narrow(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
