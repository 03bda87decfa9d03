//! The delay line: propagation delay and jitter, reordering, slots.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::config::LinkConfig;
use crate::exit::Departure;
use crate::impair::{Deviations, Gate, Overtaking, Share, Slot, Spread};
use crate::packet::Packet;
use crate::random::{Component, Stream};
use crate::ring::Ring;
use crate::time::Instant;

/// A packet on its way, with its time so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Travelling {
    pub(crate) packet: Packet,
    pub(crate) departure: Departure,
}

/// Packets between the bottleneck and their departure. Each takes `delay`, spread by `jitter`; a
/// packet that would overtake waits for the one before it, unless `reorder` lets it pass. Where
/// there are slots, a packet whose delay has passed waits for one.
#[derive(Debug)]
pub(crate) struct DelayLine {
    spread: Spread,
    overtaking: Overtaking,
    gate: Option<Gate>,
    /// The slots that there were before, which may come back.
    shut: Option<Gate>,
    seed: u64,
    /// Bytes that count for each wire packet besides its length: framing and overhead.
    extra: i64,
    /// Each due no earlier than the one before.
    in_order: Ring<Held>,
    /// Due before one that had entered earlier.
    early: BinaryHeap<Reverse<Held>>,
    /// Wire packets held.
    segments: u64,
    /// Of those that keep their order, the latest due time.
    last_due: Instant,
    /// What the jitter did.
    deviations: Deviations,
    entered: u64,
    /// The latest to enter of all that have left.
    furthest: u64,
    reordered: u64,
}

/// A packet on the line, numbered in order of entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    number: u64,
    travelling: Travelling,
}

const _: () = assert!(size_of::<Held>() <= 128, "a held packet costs at most 128 bytes");

impl Ord for Held {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |held: &Self| (held.travelling.departure.due, held.number);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl DelayLine {
    pub(crate) fn new(config: &LinkConfig, seed: u64) -> Self {
        let stream = |component| Stream::new(seed, component);
        let mut line = Self {
            spread: Spread::new(config.distribution.clone(), stream(Component::Jitter)),
            overtaking: Overtaking::new(config.reorder, stream(Component::Reorder)),
            gate: config.slot.as_ref().map(|slot| Gate::new(slot, stream(Component::Slot))),
            shut: None,
            seed,
            extra: config.added_bytes(),
            in_order: Ring::new(),
            early: BinaryHeap::new(),
            segments: 0,
            last_due: Instant::ZERO,
            deviations: Deviations::default(),
            entered: 0,
            furthest: 0,
            reordered: 0,
        };
        line.set_delay(config);
        line
    }

    /// New delay and jitter, for packets that enter from now on.
    pub(crate) fn set_delay(&mut self, config: &LinkConfig) {
        self.spread.set(config.delay, config.jitter, config.jitter_correlation);
    }

    /// New parameters, `before` those until now: for packets that enter from now on, but slots for
    /// those that are on the line as well. Where there are none any more, what waited for one
    /// leaves at once, to `depart`.
    pub(crate) fn configure(
        &mut self,
        (before, config): (&LinkConfig, &LinkConfig),
        now: Instant,
        depart: impl FnMut(&Packet, Departure),
    ) {
        self.set_delay(config);
        self.spread.set_distribution(&config.distribution);
        self.extra = config.added_bytes();
        if config.reorder != before.reorder {
            self.overtaking.set(config.reorder);
            // Who keeps the order from now on stays behind all that are on the line.
            let last = self.in_order.back().map(|held| held.travelling.departure.due);
            self.last_due = last.map_or(self.last_due, |last| last.max(self.last_due));
        }
        if config.slot != before.slot {
            self.set_slots(config.slot.as_ref(), before.slot.as_ref(), now, depart);
        }
    }

    fn set_slots(
        &mut self,
        slot: Option<&Slot>,
        before: Option<&Slot>,
        now: Instant,
        depart: impl FnMut(&Packet, Departure),
    ) {
        let gate = self.gate.take().or_else(|| self.shut.take());
        let Some(slot) = slot else {
            self.shut = gate;
            return self.leave_slots(now, depart);
        };
        let gaps = before.is_none_or(|before| before.gap != slot.gap);
        self.gate = Some(match gate {
            Some(gate) => gate.set(slot, gaps, now),
            None => Gate::new(slot, Stream::new(self.seed, Component::Slot)),
        });
    }

    /// Lets go at `now` what was due before and waited for a slot.
    fn leave_slots(&mut self, now: Instant, mut depart: impl FnMut(&Packet, Departure)) {
        while self.head().is_some_and(|held| held.travelling.departure.due <= now)
            && let Some(Held { travelling: Travelling { packet, mut departure }, number }) =
                self.pop()
        {
            let waited = now.since(departure.due);
            departure.stages.propagation = departure.stages.propagation + waited;
            departure.due = now;
            self.segments -= u64::from(packet.segments);
            self.count_order(number, packet.segments);
            depart(&packet, departure);
        }
    }

    /// Whether a packet that enters at `now` and is due at `due` leaves at once: what is furthest
    /// along the link is decided first, so nothing that is due can be on the line before it.
    #[inline]
    pub(crate) fn enter(&mut self, packet: &Packet, due: Instant, now: Instant) -> bool {
        self.entered += 1;
        let at_once = due <= now && self.gate.is_none();
        if at_once {
            self.count_order(self.entered, packet.segments);
        }
        at_once
    }

    /// Holds the packet that entered last and does not leave at once.
    #[expect(clippy::inline_always, reason = "measured: a packet is copied once less")]
    #[inline(always)]
    pub(crate) fn hold(&mut self, packet: &Packet, departure: Departure) {
        self.segments += u64::from(packet.segments);
        if self.in_order.back().is_some_and(|last| last.travelling.departure.due > departure.due) {
            self.hold_early(packet, departure);
            return;
        }
        let travelling = Travelling { packet: *packet, departure };
        self.in_order.push_back(Held { number: self.entered, travelling });
    }

    #[inline(never)]
    fn hold_early(&mut self, packet: &Packet, departure: Departure) {
        let travelling = Travelling { packet: *packet, departure };
        self.early.push(Reverse(Held { number: self.entered, travelling }));
    }

    /// When the next packet leaves.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let due = self.head()?.travelling.departure.due;
        Some(self.gate.as_ref().map_or(due, |gate| gate.passes(due)))
    }

    /// When the last of those on the line is due, a wait for a slot apart.
    pub(crate) fn latest_due(&self) -> Option<Instant> {
        // What is early was due before one that was the last of these, and has left before it.
        Some(self.in_order.back()?.travelling.departure.due)
    }

    /// The earliest time at which a packet that enters at `now` could leave.
    pub(crate) fn earliest(&self, now: Instant) -> Instant {
        let spread = now + self.spread.least();
        let due = match &self.overtaking {
            overtaking if overtaking.by_skipping() => now,
            overtaking if overtaking.by_jitter() => spread,
            _ => spread.max(self.last_due),
        };
        self.gate.as_ref().map_or(due, |gate| gate.passes(due))
    }

    /// Whether a packet that enters may leave before those that are on the line.
    pub(crate) fn overtakes(&self) -> bool {
        self.overtaking.possible()
    }

    /// Hands the next packet to `depart` and takes it off, at the time of
    /// [`DelayLine::next_due`].
    #[inline]
    pub(crate) fn leave(&mut self, depart: impl FnOnce(&Packet, Departure)) -> bool {
        if self.gate.is_some() || !self.early.is_empty() {
            return self.leave_early(depart);
        }
        let Some(Held { number, travelling }) = self.in_order.front() else { return false };
        let (number, segments) = (*number, travelling.packet.segments);
        depart(&travelling.packet, travelling.departure);
        self.in_order.pop_front();
        self.segments -= u64::from(segments);
        self.count_order(number, segments);
        true
    }

    /// The same where there is a gate, or a packet that overtakes.
    #[inline(never)]
    fn leave_early(&mut self, depart: impl FnOnce(&Packet, Departure)) -> bool {
        let Some(at) = self.next_due() else { return false };
        let Some(Held { travelling: Travelling { packet, mut departure }, number }) = self.pop()
        else {
            return false;
        };
        let segments = u64::from(packet.segments);
        self.segments -= segments;
        if let Some(gate) = &mut self.gate {
            gate.pass(at, segments, packet.counted_bytes(self.extra));
            departure.stages.propagation = departure.stages.propagation + at.since(departure.due);
            departure.due = at;
        }
        self.count_order(number, packet.segments);
        depart(&packet, departure);
        true
    }

    /// Wire packets held.
    pub(crate) fn segments(&self) -> u64 {
        self.segments
    }

    /// Wire packets that left after one that had entered later (RFC 4737, section 3).
    pub(crate) fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Of the packets that might have skipped the delay, those that did.
    pub(crate) fn skipped(&self) -> Share {
        self.overtaking.share()
    }

    /// How far the jitter spread the delay.
    pub(crate) fn deviations(&self) -> Deviations {
        self.deviations
    }

    /// Slots in which packets left.
    pub(crate) fn slots(&self) -> u64 {
        self.gate.as_ref().or(self.shut.as_ref()).map_or(0, Gate::slots)
    }

    /// When a packet that enters at `now` is due.
    #[inline]
    pub(crate) fn draw_due(&mut self, now: Instant) -> Instant {
        if self.overtaking.skips() {
            return now;
        }
        let drawn = now + self.spread.draw();
        let due = if self.overtaking.by_jitter() {
            drawn
        } else {
            self.last_due = self.last_due.max(drawn);
            self.last_due
        };
        if self.spread.is_spread() {
            self.deviations.count(due.since(now), self.spread.mean());
        }
        due
    }

    fn head(&self) -> Option<&Held> {
        match (self.in_order.front(), self.early.peek()) {
            (Some(first), Some(Reverse(early))) => Some(first.min(early)),
            (first, None) => first,
            (None, Some(Reverse(early))) => Some(early),
        }
    }

    fn pop(&mut self) -> Option<Held> {
        match (self.in_order.front(), self.early.peek()) {
            (first, Some(Reverse(early))) if first.is_none_or(|first| early < first) => {
                self.early.pop().map(|Reverse(early)| early)
            }
            (first, _) => {
                let first = first.copied();
                self.in_order.pop_front();
                first
            }
        }
    }

    #[inline]
    fn count_order(&mut self, number: u64, segments: u16) {
        if number < self.furthest {
            self.reordered += u64::from(segments);
        } else {
            self.furthest = number;
        }
    }
}
