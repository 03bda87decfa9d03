//! Packets of flows: a list in order of time to send for those that come in that order, which is
//! all but some that carry a transmit time; a heap for the rest.

use super::slab::{NONE, Node, Slab};
use crate::queue::Queued;
use crate::time::Instant;

/// The packets of all flows.
#[derive(Debug)]
pub(super) struct Packets {
    slab: Slab<Held>,
    /// Counts packets, so that of equal times the earlier packet stays first.
    arrivals: u64,
}

/// A packet in a flow: two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Held {
    pub(super) queued: Queued,
    /// Not before: the transmit time, else when it came.
    pub(super) send: Instant,
    arrival: u64,
    /// The next packet of the list; in the heap, the next child of the same parent.
    next: u32,
    /// In the heap: the first of those that it precedes.
    child: u32,
    /// The band that it is counted in.
    pub(super) band: u8,
}

const _: () = assert!(size_of::<Held>() == 128);

impl Node for Held {
    const FREE: Self = Self {
        queued: Queued::NONE,
        send: Instant::ZERO,
        arrival: 0,
        next: NONE,
        child: NONE,
        band: 0,
    };

    fn link(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// One flow's packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketQueue {
    first: u32,
    last: u32,
    /// The first packet of the heap (a pairing heap: Fredman, Sedgewick, Sleator, Tarjan 1986).
    heap: u32,
    /// All packets.
    pub(super) len: u32,
    /// Those whose sender named a transmit time. The others' time to send is past.
    pub(super) timed: u32,
}

impl PacketQueue {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE, heap: NONE, len: 0, timed: 0 };
}

impl Packets {
    pub(super) const fn new() -> Self {
        Self { slab: Slab::new(), arrivals: 0 }
    }

    /// Queues a packet that may leave at `send`, behind those of the same time.
    #[expect(clippy::inline_always, reason = "measured: a packet is copied once less")]
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        queue: &mut PacketQueue,
        queued: Queued,
        send: Instant,
        band: u8,
    ) {
        let (index, arrival) = (self.slab.take(), self.arrivals);
        self.arrivals += 1;
        // In place: what is built first and then moved is copied twice.
        let held = &mut self.slab[index];
        held.queued = queued;
        (held.send, held.arrival, held.band) = (send, arrival, band);
        (held.next, held.child) = (NONE, NONE);
        queue.len += 1;
        queue.timed += u32::from(queued.packet.transmit.is_some());
        if queue.first == NONE {
            queue.first = index;
        } else if send >= self.slab[queue.last].send {
            self.slab[queue.last].next = index;
        } else {
            queue.heap = self.merge(queue.heap, index);
            return;
        }
        queue.last = index;
    }

    /// The number of the packet that leaves next; of equal times the one in the list.
    #[inline]
    pub(super) fn next(&self, queue: &PacketQueue) -> Option<u32> {
        let PacketQueue { first, heap, .. } = *queue;
        let next =
            if heap != NONE && (first == NONE || self.slab[heap].send < self.slab[first].send) {
                heap
            } else {
                first
            };
        (next != NONE).then_some(next)
    }

    /// A packet by its number.
    #[inline]
    pub(super) fn get(&self, index: u32) -> &Held {
        &self.slab[index]
    }

    /// Takes out the packet that [`Self::next`] names. It can be read until the next one comes.
    #[inline]
    pub(super) fn remove(&mut self, queue: &mut PacketQueue, index: u32) -> &Held {
        let held = &self.slab[index];
        queue.len -= 1;
        queue.timed -= u32::from(held.queued.packet.transmit.is_some());
        if index == queue.heap {
            queue.heap = self.merge_children(held.child);
        } else {
            queue.first = held.next;
        }
        self.slab.give(index)
    }

    /// Takes out all packets, each with its number in the order in which they came.
    pub(super) fn empty(&mut self, queue: &mut PacketQueue, all: &mut Vec<(u64, Queued)>) {
        while let Some(next) = self.next(queue) {
            let held = self.remove(queue, next);
            all.push((held.arrival, held.queued));
        }
    }

    /// Loads what [`Self::next`] and [`Self::get`] read.
    #[inline]
    pub(super) fn touch(&self, queue: &PacketQueue) -> u64 {
        match queue.first {
            NONE => 0,
            first => self.slab[first].send.as_nanos() ^ self.slab[first].queued.packet.handle,
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.slab.memory()
    }

    /// Merges two heaps.
    fn merge(&mut self, a: u32, b: u32) -> u32 {
        if a == NONE || b == NONE {
            return a.min(b);
        }
        let key = |held: &Held| (held.send, held.arrival);
        let (parent, child) = if key(&self.slab[a]) < key(&self.slab[b]) { (a, b) } else { (b, a) };
        self.slab[child].next = self.slab[parent].child;
        self.slab[parent].child = child;
        parent
    }

    /// Merges the children of a heap's first packet: in pairs, then all pairs, from the last.
    fn merge_children(&mut self, mut child: u32) -> u32 {
        let mut pairs = NONE;
        while child != NONE {
            let second = self.slab[child].next;
            let rest = if second == NONE { NONE } else { self.slab[second].next };
            let pair = self.merge(child, second);
            self.slab[pair].next = pairs;
            pairs = pair;
            child = rest;
        }
        let mut heap = NONE;
        while pairs != NONE {
            let rest = self.slab[pairs].next;
            heap = self.merge(heap, pairs);
            pairs = rest;
        }
        heap
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Packet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_leave_in_order_of_time_and_of_equal_times_as_they_came(
            steps in prop::collection::vec(prop::option::weighted(0.6, 0_u64..20), 0..200),
        ) {
            let (mut packets, mut queue) = (Packets::new(), PacketQueue::EMPTY);
            // The rules as two plain lists: in order of coming, and sorted by time.
            let [mut list, mut sorted] = [(); 2].map(|()| Vec::<(u64, u64)>::new());
            for (number, step) in (0..).zip(steps) {
                let Some(send) = step else {
                    let from_sorted = match (sorted.first(), list.first()) {
                        (Some(sorted), Some(list)) => sorted.0 < list.0,
                        (sorted, _) => sorted.is_some(),
                    };
                    let from = if from_sorted { &mut sorted } else { &mut list };
                    let expected = (!from.is_empty()).then(|| from.remove(0).1);
                    let next = packets.next(&queue);
                    let handle = next.map(|index| packets.get(index).queued.packet.handle);
                    prop_assert_eq!(handle, expected);
                    if let Some(index) = next {
                        packets.remove(&mut queue, index);
                    }
                    continue;
                };
                let packet = Packet::on_path(number, Instant::ZERO, 1, 0);
                let queued = Queued { packet, entered: Instant::ZERO, bytes: 1 };
                packets.push(&mut queue, queued, Instant::from_nanos(send), 0);
                if list.last().is_none_or(|last| send >= last.0) {
                    list.push((send, number));
                } else {
                    let place = sorted.partition_point(|(other, _)| *other <= send);
                    sorted.insert(place, (send, number));
                }
                prop_assert_eq!(queue.len as usize, list.len() + sorted.len());
            }
        }
    }
}
