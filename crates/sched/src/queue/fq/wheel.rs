//! Flows that wait for their time.
//!
//! A hierarchy of timing wheels with bitmaps (Varghese and Lauck, SOSP 1987; as schedulers of
//! packets: Carousel, SIGCOMM 2017; Eiffel, NSDI 2019), which other wheels pay for with early or
//! late timers. This one is exact to the nanosecond: the flows of the slot that is due next are
//! sorted, which mostly they are already, so that what a flow costs grows with the number of its
//! neighbours within eight microseconds and not with that of all flows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::slab::{NONE, Node, Slab};
use super::throttled::Throttled;
use crate::time::Instant;

/// Flows that wait, in timing wheels.
#[derive(Debug)]
pub struct Wheel {
    /// The slot, counted from time 0, whose flows are in `near` and `late`, together with all
    /// earlier ones. Never later than the latest `now`.
    cursor: u64,
    /// Time, order of coming, flow: sorted. The first `taken` are gone.
    near: Vec<u128>,
    taken: usize,
    /// The same, of those that came when `near` had later ones.
    late: BinaryHeap<Reverse<u128>>,
    /// Order of coming of the next entry of `near` or `late`.
    order: u32,
    levels: Vec<Level>,
    /// Bit `n`: `levels[n]` holds something.
    occupied: u32,
    entries: Slab<Entries>,
    len: u32,
}

impl Default for Wheel {
    fn default() -> Self {
        Self {
            cursor: 0,
            near: Vec::new(),
            taken: 0,
            late: BinaryHeap::new(),
            order: 0,
            levels: vec![Level::EMPTY; LEVELS],
            occupied: 0,
            entries: Slab::new(),
            len: 0,
        }
    }
}

impl Throttled for Wheel {
    #[inline]
    fn count(&self) -> u32 {
        self.len
    }

    #[inline(never)]
    fn insert(&mut self, flow: u32, time: Instant, now: Instant) {
        if self.len == 0 {
            self.cursor = slot_of(now.as_nanos());
        }
        self.len += 1;
        self.place(flow, time.as_nanos());
    }

    #[inline]
    fn first(&self) -> Option<Instant> {
        let time = match self.near.get(self.taken) {
            Some(key) if self.late.is_empty() => time_of(*key),
            _ => self.earliest()?,
        };
        Some(Instant::from_nanos(time))
    }

    #[inline]
    fn pop(&mut self, now: Instant, load: impl FnMut(u32)) -> Option<u32> {
        if self.taken == self.near.len() && self.late.is_empty() {
            if !self.fill_near(now.as_nanos()) {
                return None;
            }
            self.near.iter().map(|key| flow_of(*key)).for_each(load);
        }
        if !self.late.is_empty() {
            return self.pop_late(now);
        }
        let key = self.near.get(self.taken)?;
        if time_of(*key) > now.as_nanos() {
            return None;
        }
        self.taken += 1;
        self.len -= 1;
        Some(flow_of(*key))
    }

    fn memory(&self) -> usize {
        let near = (self.near.capacity() + self.late.capacity()) * size_of::<u128>();
        near + self.levels.len() * size_of::<Level>() + self.entries.memory()
    }
}

impl Wheel {
    /// Takes out the first of `near` and `late` if it is due.
    #[inline(never)]
    fn pop_late(&mut self, now: Instant) -> Option<u32> {
        let key = self.nearest().filter(|key| time_of(*key) <= now.as_nanos())?;
        if self.near.get(self.taken) == Some(&key) {
            self.taken += 1;
        } else {
            self.late.pop();
        }
        self.len -= 1;
        Some(flow_of(key))
    }

    /// The first of `near` and `late`.
    fn nearest(&self) -> Option<u128> {
        let near = self.near.get(self.taken).copied();
        let late = self.late.peek().map(|Reverse(key)| *key);
        near.min(late).or(near).or(late)
    }

    /// The earliest time of all.
    #[inline(never)]
    fn earliest(&self) -> Option<u64> {
        if let Some(key) = self.nearest() {
            return Some(time_of(key));
        }
        let (level, slot) = self.first_slot()?;
        Some(self.levels[level].slots[slot].earliest)
    }

    #[inline]
    fn place(&mut self, flow: u32, time: u64) {
        let slot = slot_of(time);
        if slot <= self.cursor {
            self.place_near(flow, time);
            return;
        }
        // The level is that of the highest bits in which the slot differs from the cursor: above,
        // both are the same, so that every flow of a level is earlier than those of the next one.
        let level = (slot ^ self.cursor).ilog2() / SLOT_BITS;
        self.occupied |= 1 << level;
        let number = slot_in(slot, level);
        let level = &mut self.levels[level as usize];
        level.push(&mut self.entries, number, flow, time);
    }

    #[inline(never)]
    fn place_near(&mut self, flow: u32, time: u64) {
        if self.nearest().is_none() {
            self.clear_near();
        }
        let key = key(time, self.order, flow);
        self.order = self.order.saturating_add(1);
        if self.near.len() < NEAR && self.near.last().is_none_or(|last| *last < key) {
            self.near.push(key);
        } else {
            self.late.push(Reverse(key));
        }
    }

    #[inline]
    fn clear_near(&mut self) {
        self.near.clear();
        (self.taken, self.order) = (0, 0);
    }

    /// Moves the cursor to the earliest time in the wheels, if that is not after `now`, and the
    /// flows of its slot to where they belong then: those nearest to `near`. Nothing is near.
    #[inline(never)]
    fn fill_near(&mut self, now: u64) -> bool {
        let Some((level, slot)) = self.first_slot() else { return false };
        let earliest = self.levels[level].slots[slot].earliest;
        if earliest > now {
            return false;
        }
        self.cursor = slot_of(earliest);
        self.clear_near();
        let taken = self.levels[level].take(slot);
        if self.levels[level].words == 0 {
            self.occupied &= !(1 << level);
        }
        if level == 0 {
            self.sort_near(taken);
        } else {
            self.move_down(taken);
        }
        true
    }

    /// All of a slot of the first wheel, which all are near.
    fn sort_near(&mut self, mut taken: u32) {
        while taken != NONE {
            let Entries { len, next, all } = &self.entries[taken];
            for (time, flow) in all.iter().take(*len as usize) {
                self.near.push(key(*time, self.order, *flow));
                self.order = self.order.saturating_add(1);
            }
            let next = *next;
            self.entries.give(taken);
            taken = next;
        }
        if !self.near.is_sorted() {
            self.near.sort_unstable();
        }
    }

    /// All of a slot of another wheel, which go to the wheels below.
    fn move_down(&mut self, mut taken: u32) {
        while taken != NONE {
            let Entries { len, next, .. } = self.entries[taken];
            for entry in 0..len as usize % (ENTRIES + 1) {
                let (time, flow) = self.entries[taken].all[entry];
                self.place(flow, time);
            }
            self.entries.give(taken);
            taken = next;
        }
    }

    /// Level and number of the earliest slot that holds something.
    #[inline]
    fn first_slot(&self) -> Option<(usize, usize)> {
        if self.occupied == 0 {
            return None;
        }
        let level = self.occupied.trailing_zeros() as usize;
        Some((level, self.levels[level].first()))
    }
}

/// A wheel. A slot of the first one is [`WIDTH_BITS`] wide; one of any other is as wide as the
/// whole wheel below.
#[derive(Clone, Debug)]
struct Level {
    /// Bit `n`: `bits[n]` is not 0.
    words: u32,
    /// Which slots hold something.
    bits: [u64; SLOTS / 64],
    slots: [Slot; SLOTS],
}

/// The flows that wait for a time in the same part of a wheel, as they came in.
#[derive(Clone, Copy, Debug)]
struct Slot {
    earliest: u64,
    first: u32,
    last: u32,
}

impl Slot {
    const EMPTY: Self = Self { earliest: u64::MAX, first: NONE, last: NONE };
}

impl Level {
    const EMPTY: Self = Self { words: 0, bits: [0; SLOTS / 64], slots: [Slot::EMPTY; SLOTS] };

    #[inline]
    fn first(&self) -> usize {
        let word = self.words.trailing_zeros() as usize;
        word * 64 + self.bits[word].trailing_zeros() as usize
    }

    #[inline]
    fn push(&mut self, entries: &mut Slab<Entries>, number: usize, flow: u32, time: u64) {
        let slot = &mut self.slots[number];
        slot.earliest = slot.earliest.min(time);
        if slot.first != NONE && entries[slot.last].append(time, flow) {
            return;
        }
        let last = entries.take();
        entries[last].begin(time, flow);
        if slot.first == NONE {
            self.words |= 1 << (number / 64);
            self.bits[number / 64] |= 1 << (number % 64);
            slot.first = last;
        } else {
            entries[slot.last].next = last;
        }
        slot.last = last;
    }

    /// Empties a slot; its entries are the caller's.
    fn take(&mut self, number: usize) -> u32 {
        self.bits[number / 64] &= !(1 << (number % 64));
        if self.bits[number / 64] == 0 {
            self.words &= !(1 << (number / 64));
        }
        core::mem::replace(&mut self.slots[number], Slot::EMPTY).first
    }
}

/// Some flows of a slot with their times: four cache lines, so that moving the flows of a slot down
/// reads neither the flows themselves nor one line after another.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Entries {
    len: u32,
    next: u32,
    all: [(u64, u32); ENTRIES],
}

const _: () = assert!(size_of::<Entries>() == 256);

impl Entries {
    /// The first one.
    #[inline]
    fn begin(&mut self, time: u64, flow: u32) {
        (self.len, self.next) = (1, NONE);
        self.all[0] = (time, flow);
    }

    /// One more; false where there is no room.
    #[inline]
    fn append(&mut self, time: u64, flow: u32) -> bool {
        let Some(entry) = self.all.get_mut(self.len as usize) else { return false };
        *entry = (time, flow);
        self.len += 1;
        true
    }
}

impl Node for Entries {
    const FREE: Self = Self { len: 0, next: NONE, all: [(0, 0); ENTRIES] };

    fn link(&mut self) -> &mut u32 {
        &mut self.next
    }
}

fn slot_of(time: u64) -> u64 {
    time >> WIDTH_BITS
}

/// The number of a slot in its level's wheel.
#[expect(clippy::cast_possible_truncation, reason = "the rest has 10 bits")]
fn slot_in(slot: u64, level: u32) -> usize {
    (slot >> (SLOT_BITS * level)) as usize % SLOTS
}

/// Sorts by time, then order of coming.
fn key(time: u64, order: u32, flow: u32) -> u128 {
    u128::from(time) << 64 | u128::from(order) << 32 | u128::from(flow)
}

fn time_of(key: u128) -> u64 {
    (key >> 64) as u64
}

#[expect(clippy::cast_possible_truncation, reason = "the lowest quarter of a key")]
fn flow_of(key: u128) -> u32 {
    key as u32
}

/// A slot of the first wheel is 8.192 us wide: at a packet a microsecond some eight flows are
/// sorted, and loaded, at a time.
const WIDTH_BITS: u32 = 13;
/// A wheel spans 1,024 times its slot: 8.4 ms, 8.6 s, 147 min, 104 days, ...
const SLOT_BITS: u32 = 10;
const SLOTS: usize = 1 << SLOT_BITS;
/// As many as 64 bits of time need.
const LEVELS: usize = (64 - WIDTH_BITS).div_ceil(SLOT_BITS) as usize;
const ENTRIES: usize = 15;
/// Flows, those gone included, that come while flows are near and are sorted by coming last; it
/// bounds how many of those gone are kept.
const NEAR: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::fq::throttled::Tree;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Insert this far from now.
        Insert(u64),
        /// Let time pass, then take out what is due.
        Pass(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let span = || (any::<u64>(), 0_u32..64).prop_map(|(span, shift)| span >> shift);
        let near = || (0_u64..20).prop_map(|span| span * 500);
        let step = prop_oneof![
            3 => near().prop_map(Step::Insert),
            3 => span().prop_map(Step::Insert),
            1 => near().prop_map(Step::Pass),
            1 => span().prop_map(Step::Pass),
        ];
        prop::collection::vec(step, 0..300)
    }

    proptest! {
        #[test]
        fn flows_come_out_by_time_and_of_equal_times_as_they_came_in(steps in steps()) {
            let (mut wheel, mut tree, mut now) = (Wheel::default(), Tree::default(), 0_u64);
            for (number, step) in (0..).zip(steps) {
                match step {
                    Step::Insert(span) => {
                        let time = at(now.saturating_add(span));
                        wheel.insert(number, time, at(now));
                        tree.insert(number, time, at(now));
                    }
                    Step::Pass(span) => {
                        now = now.saturating_add(span);
                        while let Some(flow) = tree.pop(at(now), drop) {
                            prop_assert_eq!(wheel.pop(at(now), drop), Some(flow));
                        }
                        prop_assert_eq!(wheel.pop(at(now), drop), None);
                    }
                }
                prop_assert_eq!((wheel.first(), wheel.count()), (tree.first(), tree.count()));
            }
        }
    }

    #[test]
    fn flows_of_one_instant_keep_their_order_over_every_level() {
        let mut wheel = Wheel::default();
        let due = 3_600_000_000_123;
        for number in 0..1_000 {
            wheel.insert(number, at(due), at(0));
        }
        for (number, before) in (1_000..).zip([1_000_000_000, 3_000_000, 4_000, 1]) {
            wheel.insert(9_999, at(due - before), at(due - before));
            assert_eq!(wheel.pop(at(due - before), drop), Some(9_999), "{before} ns before");
            wheel.insert(number, at(due), at(due - before));
        }
        let order: Vec<_> = core::iter::from_fn(|| wheel.pop(at(due), drop)).collect();
        assert_eq!(order, (0..1_004).collect::<Vec<_>>());
    }
}
