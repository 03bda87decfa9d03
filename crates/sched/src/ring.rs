//! A ring buffer of plain values.

/// First in, first out, like `VecDeque`, for values that are copied anyway: its slots always hold
/// something, so an entry is written and read in place, where a `VecDeque` moves it through the
/// stack. Doubles when it is full and never shrinks.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T> {
    /// None, or a power of two.
    slots: Vec<T>,
    /// Entries ever taken: the first entry's index, before the mask.
    head: usize,
    len: usize,
}

impl<T: Copy> Ring<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), head: 0, len: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn push_back(&mut self, value: T) {
        if self.len == self.slots.len() {
            self.grow(value);
        }
        let index = self.index(self.len);
        self.slots[index] = value;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        if self.is_empty() { None } else { Some(&self.slots[self.index(0)]) }
    }

    /// The last entry.
    pub(crate) fn back(&self) -> Option<&T> {
        self.len.checked_sub(1).map(|last| &self.slots[self.index(last)])
    }

    /// Takes the first entry off, if there is one.
    #[inline]
    pub(crate) fn pop_front(&mut self) {
        if !self.is_empty() {
            self.head = self.head.wrapping_add(1);
            self.len -= 1;
        }
    }

    /// Takes the last entry off, if there is one.
    pub(crate) fn pop_back(&mut self) {
        self.len = self.len.saturating_sub(1);
    }

    /// Takes entries off, the first one first, as far as the iterator is driven.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        core::iter::from_fn(|| {
            let first = self.front().copied();
            self.pop_front();
            first
        })
    }

    #[inline]
    fn index(&self, place: usize) -> usize {
        self.head.wrapping_add(place) & (self.slots.len().wrapping_sub(1))
    }

    /// Twice the slots, the first entry in the first of them; `filler` in those without an entry.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, filler: T) {
        let first = self.index(0);
        let size = (self.slots.len() * 2).max(Self::LEAST);
        self.slots.rotate_left(first);
        self.slots.reserve_exact(size - self.slots.len());
        self.slots.resize(size, filler);
        self.head = 0;
    }

    const LEAST: usize = 4;
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_ring_does_what_a_deque_does(operations in proptest::collection::vec(0_u8..8, 0..300)) {
            let mut ring = Ring::new();
            let mut deque = VecDeque::new();
            for (number, operation) in operations.into_iter().enumerate() {
                match operation {
                    0..=3 => { ring.push_back(number); deque.push_back(number); }
                    4..=5 => { ring.pop_front(); deque.pop_front(); }
                    6 => {
                        let two = deque.len().min(2);
                        let drained: Vec<_> = ring.drain().take(two).collect();
                        prop_assert_eq!(drained, deque.drain(..two).collect::<Vec<_>>());
                    }
                    _ => { ring.pop_back(); deque.pop_back(); }
                }
                prop_assert_eq!(ring.len, deque.len());
                prop_assert_eq!((ring.front(), ring.back()), (deque.front(), deque.back()));
            }
        }
    }
}
