//! Flows that wait for their time: what is asked of them, and the plain answer.

use core::fmt::Debug;
use std::collections::btree_map::{BTreeMap, OccupiedEntry};

use crate::time::Instant;

/// Flow numbers with their times. They come out by time, those of equal times as they came in.
///
/// # Contract
///
/// The times `now` never run backwards.
pub trait Throttled: Debug + Default {
    /// How many wait.
    fn count(&self) -> u32;

    /// Adds a flow that waits until `time`, after all that wait until the same time.
    fn insert(&mut self, flow: u32, time: Instant, now: Instant);

    /// The earliest time that is waited for.
    fn first(&self) -> Option<Instant>;

    /// Takes out the first flow if its time is `now` or past. Now and then it names to `load` some
    /// that come out next, this one included, so that the caller can load them together.
    fn pop(&mut self, now: Instant, load: impl FnMut(u32)) -> Option<u32>;

    /// Bytes of memory.
    fn memory(&self) -> usize;
}

/// Flows in a search tree, as Linux keeps them: the yardstick for [`Wheel`](super::Wheel) in tests
/// and benches.
#[derive(Debug, Default)]
pub struct Tree {
    flows: BTreeMap<(Instant, u64), u32>,
    order: u64,
}

impl Throttled for Tree {
    fn count(&self) -> u32 {
        u32::try_from(self.flows.len()).unwrap_or(u32::MAX)
    }

    fn insert(&mut self, flow: u32, time: Instant, _now: Instant) {
        self.flows.insert((time, self.order), flow);
        self.order += 1;
    }

    fn first(&self) -> Option<Instant> {
        self.flows.first_key_value().map(|((time, _), _)| *time)
    }

    fn pop(&mut self, now: Instant, _load: impl FnMut(u32)) -> Option<u32> {
        self.flows.first_entry().filter(|entry| entry.key().0 <= now).map(OccupiedEntry::remove)
    }

    fn memory(&self) -> usize {
        // Nodes are at least half full.
        2 * self.flows.len() * size_of::<((Instant, u64), u32)>()
    }
}
