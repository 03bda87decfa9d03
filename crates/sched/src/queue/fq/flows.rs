//! All flows: found by key, made when first seen, forgotten when idle.

use core::ops::{Index, IndexMut};

use super::flow::{Flow, State};
use super::slab::Slab;
use super::table::{Key, Table};
use crate::time::Instant;

/// The flows.
#[derive(Debug)]
pub(super) struct Flows {
    pub(super) nodes: Slab<Flow>,
    table: Table,
    /// Flows without packets.
    pub(super) inactive: u32,
    /// Flows forgotten.
    pub(super) collected: u64,
    /// Flows that found no room.
    pub(super) refused: u64,
    /// The flow that is looked at next for being idle.
    hand: u32,
    /// Flows that new flows would have met in `buckets` search trees, times `buckets`.
    met: u64,
    /// The most flows.
    max: u32,
}

impl Flows {
    /// No flows, and never more than `max`.
    pub(super) fn new(seed: u64, max: u32) -> Self {
        let (nodes, table) = (Slab::new(), Table::new(seed));
        Self { nodes, table, inactive: 0, collected: 0, refused: 0, hand: 0, met: 0, max }
    }

    pub(super) fn len(&self) -> u32 {
        self.nodes.used()
    }

    /// The flow of `key`.
    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<u32> {
        self.table.find(key)
    }

    /// A new flow of `key`; `None` when there are as many as there may be.
    pub(super) fn create(&mut self, key: Key, credit: i32, now: Instant) -> Option<u32> {
        if self.len() >= self.max {
            self.refused += 1;
            return None;
        }
        let flow = self.nodes.take();
        self.nodes[flow] = Flow::new(key, credit, now);
        self.table.insert(key, flow);
        self.inactive += 1;
        Some(flow)
    }

    /// How many flows a new one has to look at before it is made.
    ///
    /// Linux forgets the idle flows that a search meets in one of `buckets` trees: about one for
    /// each `buckets` flows that there are. As many are looked at here, at most [`SWEEP`]: with
    /// these, flows that come once and never again fill at most a third more memory than those of
    /// three seconds.
    pub(super) fn sweep(&mut self, buckets: u32) -> u64 {
        self.met += u64::from(self.len());
        let steps = (self.met / u64::from(buckets)).min(SWEEP);
        self.met %= u64::from(buckets);
        steps
    }

    /// The next flow to look at.
    pub(super) fn next_in_sweep(&mut self) -> u32 {
        let flow = self.hand;
        self.hand = if flow + 1 < self.nodes.end() { flow + 1 } else { 0 };
        flow
    }

    /// Forgets a flow that is in no list.
    pub(super) fn forget(&mut self, flow: u32) {
        self.table.remove(self.nodes[flow].key());
        self.nodes[flow].state = State::Free;
        self.nodes.give(flow);
        self.inactive -= 1;
        self.collected += 1;
    }

    /// Loads what enqueues to the flows of `keys` read: first the table's buckets, which depend on
    /// nothing, then the flows that these name.
    pub(super) fn touch(&self, keys: impl Iterator<Item = Key> + Clone) -> u64 {
        let buckets = keys.clone().fold(0, |sum, key| sum ^ self.table.touch(key));
        let flow = |key| self.table.find(key).map_or(0, |flow| u64::from(self.nodes[flow].band));
        keys.fold(u64::from(buckets), |sum, key| sum ^ flow(key))
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.nodes.memory() + self.table.memory()
    }
}

impl Index<u32> for Flows {
    type Output = Flow;

    #[inline]
    fn index(&self, flow: u32) -> &Flow {
        &self.nodes[flow]
    }
}

impl IndexMut<u32> for Flows {
    #[inline]
    fn index_mut(&mut self, flow: u32) -> &mut Flow {
        &mut self.nodes[flow]
    }
}

/// Flows that a new flow looks at, at most: neighbours in memory.
const SWEEP: u64 = 4;
