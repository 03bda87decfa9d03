//! Whose turn it is.

use super::Band;
use super::config::{BANDS, Settings};
use super::flow::{Flow, FlowList, State};
use super::pacing::Gap;
use super::packets::{Held, Packets};
use super::slab::{NONE, Slab};
use super::{Fq, Served, Throttled};
use crate::output::Mark;
use crate::time::Instant;
use crate::units::Rate;

impl<T: Throttled> Fq<T> {
    /// Takes out the packet that leaves at `now`, if one may; it still counts in `len`.
    #[inline]
    pub(super) fn take(&mut self, served: &mut Served, now: Instant) -> bool {
        self.now = now;
        if self.len == 0 {
            self.hindered = false;
            return false;
        }
        if self.internal.len > 0 {
            return self.send_internal(served);
        }
        if let Some(first) = self.next_delayed
            && first <= now
        {
            self.unthrottle(first, now);
        }
        self.serve(served, now)
    }

    #[inline(never)]
    fn send_internal(&mut self, served: &mut Served) -> bool {
        let Some(index) = self.packets.next(&self.internal) else { return false };
        let queued = &self.packets.remove(&mut self.internal, index).queued;
        self.backlog.remove(queued);
        served.set_untouched(queued);
        true
    }

    /// Lets the flows go on whose time has come, `first` the earliest of them.
    #[inline(never)]
    fn unthrottle(&mut self, first: Instant, now: Instant) {
        self.latency.sample(now.since(first));
        let mut next = Some(first);
        while next.is_some_and(|next| next <= now) {
            // Loads the flows that come next, and their packets, all together.
            let (flows, packets) = (&self.flows.nodes, &self.packets);
            let load = |flow| _ = core::hint::black_box(packets.touch(&flows[flow].packets));
            let Some(flow) = self.throttled.pop(now, load) else { break };
            self.append_old(flow);
            next = self.throttled.first();
        }
        self.next_delayed = next;
    }

    /// Deficit round robin over bands and in each over flows (Shreedhar and Varghese, SIGCOMM
    /// 1995).
    #[inline]
    fn serve(&mut self, served: &mut Served, now: Instant) -> bool {
        // Bands in a row that had credit and no flow; flows in a row that had no credit.
        let (mut idle_bands, mut debtors) = (0, 0);
        loop {
            let band = &mut self.bands[self.turn];
            let index = band.first();
            if index == NONE {
                if idle_bands == 0 && self.is_waiting() {
                    return false;
                }
                let Some(idle) = self.next_band(idle_bands) else { return false };
                idle_bands = idle;
                continue;
            }
            idle_bands = 0;
            let flow = &mut self.flows.nodes[index];
            if flow.credit <= 0 && !band.refill_only(flow, self.turn, self.settings.quantum) {
                debtors = self.refill(index, debtors + 1);
                continue;
            }
            debtors = 0;
            match gate(flow, &self.packets, now) {
                Some(gate) if gate > now => {
                    band.pop(flow);
                    (flow.time_next_packet, flow.state) = (gate, State::Throttled);
                    self.throttle(index, gate, now);
                }
                Some(gate) => return self.send(served, (index, gate), now),
                // A new flow becomes an old one, so that it cannot come back as new at once.
                None if band.pop(flow) => self.append_old(index),
                None => (flow.state, flow.age) = (State::Detached, now),
            }
        }
    }

    /// Whether no flow is in any list. Then the turn goes once around all bands, unless one is so
    /// deep in debt that it goes on.
    #[inline]
    fn is_waiting(&mut self) -> bool {
        let [a, b, c] = &self.bands;
        if !a.is_empty() || !b.is_empty() || !c.is_empty() {
            return false;
        }
        self.rested || self.rest()
    }

    #[inline(never)]
    fn rest(&mut self) -> bool {
        let all_wait = self.bands.iter().all(|band| band.credit > -band.weight);
        if all_wait {
            self.bands.iter_mut().for_each(|band| _ = band.refill());
            self.rested = self.bands.iter().all(|band| band.credit == band.weight);
        }
        all_wait
    }

    /// Gives the turn to the next band with credit, after `idle_bands` without flows; how many those
    /// are then, `None` when all are.
    #[inline(never)]
    fn next_band(&mut self, mut idle_bands: usize) -> Option<usize> {
        while idle_bands < BANDS {
            self.turn = (self.turn + 1) % BANDS;
            if self.bands[self.turn].refill() {
                return Some(idle_bands + 1);
            }
            idle_bands = 0;
            self.skip_band_turns();
        }
        None
    }

    /// Gives all bands as many turns at once as leave all of them in debt, after packets of many
    /// times their weights.
    fn skip_band_turns(&mut self) {
        let turns = self.bands.iter().map(|band| -band.credit / band.weight).min().unwrap_or(0);
        if turns > 0 {
            self.bands.iter_mut().for_each(|band| band.credit += turns * band.weight);
        }
    }

    /// A flow without credit, one of `debtors` in a row, waits for its next turn; how many those are
    /// then.
    #[inline(never)]
    fn refill(&mut self, index: u32, debtors: u32) -> u32 {
        let flow = &mut self.flows.nodes[index];
        flow.credit = flow.credit.saturating_add(self.settings.quantum);
        self.bands[self.turn].pop(flow);
        self.append_old(index);
        let band = &self.bands[self.turn];
        if debtors <= band.old.len() || band.new.len() > 0 {
            return debtors;
        }
        skip_turns(&band.old, &mut self.flows.nodes, self.settings.quantum);
        0
    }

    /// The flow takes its place behind the old ones of the band of its latest packet.
    #[inline]
    fn append_old(&mut self, index: u32) {
        let band = self.flows[index].band;
        let list = &mut self.bands[usize::from(band)].old;
        list.push(&mut self.flows.nodes, index, State::Old(band));
    }

    #[inline]
    fn throttle(&mut self, index: u32, gate: Instant, now: Instant) {
        self.counters.throttled += 1;
        self.next_delayed = Some(self.next_delayed.map_or(gate, |first| first.min(gate)));
        self.throttled.insert(index, gate, now);
    }

    /// Takes out the next packet of a flow, which might have left at `gate`.
    #[inline]
    fn send(&mut self, served: &mut Served, (index, gate): (u32, Instant), now: Instant) -> bool {
        let flow = &mut self.flows.nodes[index];
        let Some(next) = self.packets.next(&flow.packets) else { return false };
        let held = self.packets.remove(&mut flow.packets, next);
        if flow.packets.len == 0 {
            flow.age = now;
            self.flows.inactive += 1;
        }
        let bytes = narrow(held.queued.bytes);
        // So that a debt can be negated.
        flow.credit = flow.credit.saturating_sub_unsigned(bytes).max(-i32::MAX);
        self.bands[usize::from(held.band)].packets -= 1;
        self.bands[self.turn].credit -= i64::from(bytes);
        self.rested = false;
        if self.settings.pacing {
            self.counters.pkts_too_long += u64::from(pace(flow, held, &self.settings, now));
        }
        let mark = self.settings.mark(held, gate, now);
        self.counters.ce_mark += u64::from(mark != Mark::None);
        self.backlog.remove(&held.queued);
        served.set_untouched(&held.queued);
        (served.mark, served.pacing) = (mark, gate.since(held.queued.entered));
        true
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

/// When the flow's next packet may leave. A time that has come may be given as any time that has
/// come; `None` when it has no packets.
#[inline]
fn gate(flow: &Flow, packets: &Packets, now: Instant) -> Option<Instant> {
    if flow.packets.len == 0 {
        return None;
    }
    if flow.packets.timed == 0 && flow.time_next_packet > now {
        // Its packets' own times are past: no need to look at one.
        return Some(flow.time_next_packet);
    }
    let next = packets.next(&flow.packets)?;
    Some(packets.get(next).send.max(flow.time_next_packet))
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

    /// The flow whose turn it is, or [`NONE`].
    #[inline]
    fn first(&self) -> u32 {
        match self.new.first() {
            _ if self.credit <= 0 => NONE,
            NONE => self.old.first(),
            new => new,
        }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.new.len() + self.old.len() == 0
    }

    /// Takes out the flow whose turn it is; whether it was a new one.
    #[inline]
    fn pop(&mut self, flow: &Flow) -> bool {
        let is_new = self.new.len() > 0;
        let list = if is_new { &mut self.new } else { &mut self.old };
        list.pop(flow);
        is_new
    }

    /// Gives a flow that alone is in this band, which is number `turn`, its next turn at once;
    /// false when there are others or that does not suffice.
    #[inline]
    fn refill_only(&self, flow: &mut Flow, turn: usize, quantum: i32) -> bool {
        let credit = flow.credit.saturating_add(quantum);
        let is_only = self.new.len() == 0 && self.old.len() == 1 && usize::from(flow.band) == turn;
        if is_only && credit > 0 {
            flow.credit = credit;
        }
        is_only && credit > 0
    }

    /// A new turn; false when it is in debt all the same.
    #[inline]
    fn refill(&mut self) -> bool {
        self.credit = (self.credit + self.weight).min(self.weight);
        self.credit > 0
    }
}

/// Gives all flows of a list as many turns at once as leave all of them in debt, after packets of
/// many times the quantum.
#[inline(never)]
fn skip_turns(list: &FlowList, flows: &mut Slab<Flow>, quantum: i32) {
    let turns = list.iter(flows).map(|flow| turns_in_debt(flows[flow].credit, quantum)).min();
    let Some(turns) = turns.filter(|turns| *turns > 0) else { return };
    let mut next = list.first();
    while next != NONE {
        let flow = &mut flows[next];
        flow.credit += turns * quantum;
        next = flow.next();
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
