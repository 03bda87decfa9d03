//! Flows and the lists in which they take turns.

use super::packets::PacketQueue;
use super::slab::{NONE, Node, Slab};
use super::table::Key;
use crate::time::Instant;

/// One flow: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Flow {
    pub(super) packets: PacketQueue,
    /// Bytes that it may still send in this turn.
    pub(super) credit: i32,
    /// Its next packet leaves no earlier. 0 = it was never paced.
    pub(super) time_next_packet: Instant,
    /// The part of a nanosecond by which `time_next_packet` was rounded down, times the rate.
    pub(super) remainder: u64,
    /// When it sent its last packet or, if later, was detached.
    pub(super) age: Instant,
    /// Its key: the number, and whether that is a hash.
    word: u32,
    next: u32,
    /// The flow before this one in its list, unless this is the first.
    previous: u32,
    hashed: bool,
    /// The band of its latest packet.
    pub(super) band: u8,
    pub(super) state: State,
}

const _: () = assert!(size_of::<Flow>() == 64);

/// Where a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nowhere: the node is free.
    Free,
    /// In the table only: no packets, and its turn is over.
    Detached,
    /// In this band's list of new flows. It may be out of packets already.
    New(u8),
    /// In this band's list of old flows, likewise.
    Old(u8),
    /// Among those that wait for their time.
    Throttled,
}

impl Flow {
    pub(super) fn new(key: Key, credit: i32, age: Instant) -> Self {
        let Key { word, hashed } = key;
        Self { word, hashed, credit, age, state: State::Detached, ..Self::FREE }
    }

    pub(super) fn key(&self) -> Key {
        Key { word: self.word, hashed: self.hashed }
    }

    /// The flow after this one in its list, or [`NONE`].
    pub(super) fn next(&self) -> u32 {
        self.next
    }
}

impl Node for Flow {
    const FREE: Self = Self {
        packets: PacketQueue::EMPTY,
        credit: 0,
        time_next_packet: Instant::ZERO,
        remainder: 0,
        age: Instant::ZERO,
        word: 0,
        hashed: false,
        next: NONE,
        previous: NONE,
        band: 0,
        state: State::Free,
    };

    fn link(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// Flows in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowList {
    first: u32,
    last: u32,
    len: u32,
}

impl FlowList {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE, len: 0 };

    /// The first flow, or [`NONE`].
    #[inline]
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Appends a flow, whose state says where it is then.
    #[inline]
    pub(super) fn push(&mut self, flows: &mut Slab<Flow>, flow: u32, state: State) {
        let node = &mut flows[flow];
        let last = core::mem::replace(&mut self.last, flow);
        (node.next, node.previous, node.state) = (NONE, last, state);
        self.len += 1;
        if last == NONE {
            self.first = flow;
        } else {
            flows[last].next = flow;
        }
    }

    /// Takes out the first flow, which is `first`. The next one is not touched: it may not be
    /// cached.
    #[inline]
    pub(super) fn pop(&mut self, first: &Flow) {
        self.first = first.next;
        if self.first == NONE {
            self.last = NONE;
        }
        self.len -= 1;
    }

    /// Takes out a flow that is in this list.
    pub(super) fn remove(&mut self, flows: &mut Slab<Flow>, flow: u32) {
        if self.first == flow {
            self.pop(&flows[flow]);
            return;
        }
        let Flow { next, previous, .. } = flows[flow];
        flows[previous].next = next;
        match next {
            NONE => self.last = previous,
            next => flows[next].previous = previous,
        }
        self.len -= 1;
    }

    /// Every flow in it, in order.
    pub(super) fn iter<'a>(&self, flows: &'a Slab<Flow>) -> impl Iterator<Item = u32> + use<'a> {
        let some = |flow: u32| (flow != NONE).then_some(flow);
        core::iter::successors(some(self.first), move |flow| some(flows[*flow].next))
    }
}
