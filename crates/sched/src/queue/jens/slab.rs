//! Where packets are kept: one table, and lists through it.

use crate::queue::Queued;
use crate::time::{Duration, Instant};

/// A packet in a FIFO.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) queued: Queued,
    /// The extra latency in force when it was enqueued.
    pub(super) latency: Duration,
    next: u32,
}

const _: () = assert!(size_of::<Node>() <= 128, "a held packet costs at most 128 bytes");

impl Node {
    pub(super) fn new(queued: Queued, latency: Duration) -> Self {
        Self { queued, latency, next: NONE }
    }

    /// When it becomes visible to the queue.
    pub(super) fn arrival(&self) -> Instant {
        self.queued.entered + self.latency
    }
}

/// Nodes in use and freed ones. Allocates only when more are held than ever before.
#[derive(Debug)]
pub(super) struct Slab {
    nodes: Vec<Node>,
    free: u32,
}

impl Slab {
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new(), free: NONE }
    }

    fn put(&mut self, node: Node) -> u32 {
        let Some(freed) = self.nodes.get_mut(self.free as usize) else {
            self.nodes.push(node);
            return u32::try_from(self.nodes.len() - 1).expect("4 billion nodes are 400 GB");
        };
        let place = self.free;
        self.free = freed.next;
        *freed = node;
        place
    }

    fn take(&mut self, place: u32) -> Option<Node> {
        let slot = self.nodes.get_mut(place as usize)?;
        let node = *slot;
        slot.next = self.free;
        self.free = place;
        Some(node)
    }
}

/// A list of nodes, in order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fifo {
    head: u32,
    tail: u32,
}

impl Fifo {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE };

    pub(super) fn head(self, slab: &Slab) -> Option<&Node> {
        slab.nodes.get(self.head as usize)
    }

    pub(super) fn push(&mut self, node: Node, slab: &mut Slab) {
        let place = slab.put(node);
        match slab.nodes.get_mut(self.tail as usize) {
            Some(tail) => tail.next = place,
            None => self.head = place,
        }
        self.tail = place;
    }

    pub(super) fn pop(&mut self, slab: &mut Slab) -> Option<Node> {
        let node = slab.take(self.head)?;
        self.head = node.next;
        if self.head == NONE {
            self.tail = NONE;
        }
        Some(node)
    }
}

/// No node: beyond every table.
const NONE: u32 = u32::MAX;
