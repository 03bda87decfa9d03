//! The delay line: propagation delay and jitter, reordering, slots.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::config::LinkConfig;
use crate::impair::{Gate, Overtaking, Share, Spread};
use crate::output::{BitFlip, Mark, Stages};
use crate::packet::Packet;
use crate::random::{Component, Stream};
use crate::time::Instant;

/// A packet on its way, with its time so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Travelling {
    pub(crate) packet: Packet,
    pub(crate) copy: u8,
    pub(crate) mark: Mark,
    pub(crate) corrupt: Option<BitFlip>,
    pub(crate) due: Instant,
    pub(crate) stages: Stages,
}

/// Packets between the bottleneck and their departure. Each takes `delay`, spread by `jitter`; a
/// packet that would overtake waits for the one before it, unless `reorder` lets it pass. Where
/// there are slots, a packet whose delay has passed waits for one.
#[derive(Debug)]
pub(crate) struct DelayLine {
    spread: Spread,
    overtaking: Overtaking,
    gate: Option<Gate>,
    /// Bytes that count for each wire packet besides its length: framing and overhead.
    extra: i64,
    /// Each due no earlier than the one before.
    in_order: VecDeque<Held>,
    /// Due before one that had entered earlier.
    early: BinaryHeap<Reverse<Held>>,
    /// Wire packets held.
    segments: u64,
    /// Of those that keep their order, the latest due time.
    last_due: Instant,
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
        let key = |held: &Self| (held.travelling.due, held.number);
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
            extra: config.added_bytes(),
            in_order: VecDeque::new(),
            early: BinaryHeap::new(),
            segments: 0,
            last_due: Instant::ZERO,
            entered: 0,
            furthest: 0,
            reordered: 0,
        };
        line.set(config);
        line
    }

    /// New delay and jitter, for packets that enter from now on.
    pub(crate) fn set(&mut self, config: &LinkConfig) {
        self.spread.set(config.delay, config.jitter, config.jitter_correlation);
    }

    /// A packet enters at `now`. One that leaves at once is given back: what is furthest along the
    /// link is decided first, so nothing that is due can be on the line before it.
    pub(crate) fn enter(&mut self, mut travelling: Travelling, now: Instant) -> Option<Travelling> {
        travelling.due = self.draw_due(now);
        travelling.stages.propagation = travelling.stages.propagation + travelling.due.since(now);
        self.entered += 1;
        let held = Held { number: self.entered, travelling };
        if travelling.due <= now && self.gate.is_none() {
            self.count_order(&held);
            return Some(travelling);
        }
        self.segments += u64::from(travelling.packet.segments);
        if self.in_order.back().is_some_and(|last| last.travelling.due > travelling.due) {
            self.early.push(Reverse(held));
        } else {
            self.in_order.push_back(held);
        }
        None
    }

    /// When the next packet leaves.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let due = self.head()?.travelling.due;
        Some(self.gate.as_ref().map_or(due, |gate| gate.passes(due)))
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

    /// Takes the next packet off, at the time of [`DelayLine::next_due`].
    pub(crate) fn leave(&mut self) -> Option<Travelling> {
        let at = self.next_due()?;
        let Held { travelling, number } = self.pop()?;
        let mut travelling = travelling;
        let segments = u64::from(travelling.packet.segments);
        self.segments -= segments;
        if let Some(gate) = &mut self.gate {
            gate.pass(at, segments, travelling.packet.counted_bytes(self.extra));
            travelling.stages.propagation =
                travelling.stages.propagation + at.since(travelling.due);
            travelling.due = at;
        }
        self.count_order(&Held { number, travelling });
        Some(travelling)
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

    /// Slots in which packets left.
    pub(crate) fn slots(&self) -> u64 {
        self.gate.as_ref().map_or(0, Gate::slots)
    }

    fn draw_due(&mut self, now: Instant) -> Instant {
        if self.overtaking.skips() {
            return now;
        }
        let due = now + self.spread.draw();
        if self.overtaking.by_jitter() {
            return due;
        }
        self.last_due = self.last_due.max(due);
        self.last_due
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
            _ => self.in_order.pop_front(),
        }
    }

    fn count_order(&mut self, held: &Held) {
        if held.number < self.furthest {
            self.reordered += u64::from(held.travelling.packet.segments);
        } else {
            self.furthest = held.number;
        }
    }
}
