//! A sequence lock over words in shared memory: several values that are read as one.
//!
//! The generation is even while the values stand and odd while they are being written. Readers
//! never wait and never take values of two writers: they try again later instead. The protocol is
//! that of Boehm, "Can seqlocks get along with programming language memory models?" (MSPC 2012),
//! section 4; `tests/seqlock.rs` checks this file in every order that the memory model permits.
//!
//! All words are little endian.

use super::atomic::{AtomicU64, Ordering, fence};

/// The lock: its generation and the words that it guards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seqlock<'a> {
    generation: &'a AtomicU64,
    words: &'a [AtomicU64],
}

/// The right to write, between two even generations.
///
/// Dropped without [`publish`](Self::publish) it leaves the generation odd, as a writer does that
/// dies: the values are not read until somebody takes over.
#[derive(Debug)]
pub(crate) struct Writing<'a> {
    lock: Seqlock<'a>,
    /// Odd.
    generation: u64,
}

impl<'a> Seqlock<'a> {
    pub(crate) fn new(generation: &'a AtomicU64, words: &'a [AtomicU64]) -> Self {
        Self { generation, words }
    }

    /// The generation now.
    pub(crate) fn generation(&self) -> u64 {
        u64::from_le(self.generation.load(Ordering::Relaxed))
    }

    /// Reads the first `N` values; `None` while they are being written, or were meanwhile. Loads
    /// only, and relaxed ones, so that the memory may be mapped read-only.
    pub(crate) fn read<const N: usize>(&self) -> Option<(u64, [u64; N])> {
        let before = self.generation();
        if before % 2 == 1 {
            return None;
        }
        // What the publisher wrote before this generation is seen by the loads below.
        fence(Ordering::Acquire);
        let mut values = [0; N];
        for (value, word) in values.iter_mut().zip(self.words) {
            *value = u64::from_le(word.load(Ordering::Relaxed));
        }
        // A load that saw a later writer's value makes its odd generation seen.
        fence(Ordering::Acquire);
        (self.generation() == before).then_some((before, values))
    }

    /// Begins to write; the generation if it is odd, or has been moved by somebody else.
    pub(crate) fn begin(&self) -> Result<Writing<'a>, u64> {
        let found = self.generation();
        if found % 2 == 1 { Err(found) } else { self.claim(found, found.wrapping_add(1)) }
    }

    /// Takes over from a writer that has left the odd generation `stuck` behind and is dead.
    pub(crate) fn take_over(&self, stuck: u64) -> Result<Writing<'a>, u64> {
        self.claim(stuck, stuck.wrapping_add(2))
    }

    fn claim(&self, from: u64, to: u64) -> Result<Writing<'a>, u64> {
        self.generation
            // Acquire: what the writer before stored comes before what this one will.
            .compare_exchange(from.to_le(), to.to_le(), Ordering::Acquire, Ordering::Relaxed)
            .map_err(u64::from_le)?;
        // A reader that sees a value written from here on sees the odd generation too.
        fence(Ordering::Release);
        Ok(Writing { lock: *self, generation: to })
    }
}

impl Writing<'_> {
    /// Writes one value.
    pub(crate) fn store(&self, index: usize, value: u64) {
        self.lock.words[index].store(value.to_le(), Ordering::Relaxed);
    }

    /// Lets the values be read; false when somebody has taken over.
    pub(crate) fn publish(self) -> bool {
        let (odd, even) = (self.generation, self.generation.wrapping_add(1));
        self.lock
            .generation
            .compare_exchange(odd.to_le(), even.to_le(), Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }
}
