//! Packets by send time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::time::SendTime;
use crate::output::{BitFlip, Mark};
use crate::queue::Queued;

/// A packet with what has been decided about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) queued: Queued,
    pub(crate) send: SendTime,
    /// How much of its wait is latency, in ns.
    pub(crate) latency: u64,
    pub(crate) corrupt: Option<BitFlip>,
    /// The next in its list.
    next: u32,
    pub(crate) copy: u8,
    pub(crate) mark: Mark,
}

impl Held {
    pub(crate) fn new(queued: Queued, copy: u8, mark: Mark, corrupt: Option<BitFlip>) -> Self {
        let send = SendTime::at(queued.entered);
        Self { queued, send, latency: 0, corrupt, next: NONE, copy, mark }
    }
}

const _: () = assert!(
    size_of::<Held>() + size_of::<Key>() <= 128,
    "a held packet costs at most 128 bytes, its place in the tree included"
);

/// Three places for packets. *Immediate* ones leave before all others, the last one first. Of the
/// rest, those that are sent no earlier than all in the *list* are appended to it, the others
/// are sorted into the *tree*.
///
/// Nothing is allocated once as many packets have been held as ever will be.
#[derive(Debug, Default)]
pub(crate) struct HeldPackets {
    slab: Slab,
    immediate: List,
    list: List,
    tree: BinaryHeap<Reverse<Key>>,
    /// The latest send time in the tree, which stays in it until it is empty.
    tree_last: Option<SendTime>,
    inserted: u64,
}

/// Order in the tree: by send time, then as inserted.
type Key = (SendTime, u64, u32);

impl HeldPackets {
    /// Packets held.
    pub(crate) fn len(&self) -> usize {
        self.slab.used
    }

    /// Puts a packet before all others.
    pub(crate) fn push_immediate(&mut self, held: Held) {
        let node = self.slab.insert(held);
        self.immediate.push_front(node, &mut self.slab);
    }

    /// Sorts a packet in by its send time.
    pub(crate) fn push(&mut self, held: Held) {
        let node = self.slab.insert(held);
        if self.list.last(&self.slab).is_none_or(|last| held.send >= last) {
            self.list.push_back(node, &mut self.slab);
            return;
        }
        self.tree.push(Reverse((held.send, self.inserted, node)));
        self.tree_last = self.tree_last.max(Some(held.send));
        self.inserted += 1;
    }

    /// Takes the immediate packet that leaves next.
    pub(crate) fn pop_immediate(&mut self) -> Option<Held> {
        self.immediate.pop_front(&mut self.slab)
    }

    /// The earliest send time of those that are not immediate.
    pub(crate) fn first(&self) -> Option<SendTime> {
        let list = self.list.first(&self.slab);
        let tree = self.tree.peek().map(|Reverse((send, ..))| *send);
        [list, tree].into_iter().flatten().min()
    }

    /// Takes the packet of that time; of two, the list's.
    pub(crate) fn pop(&mut self) -> Option<Held> {
        let list = self.list.first(&self.slab);
        let tree = self.tree.peek().map(|Reverse((send, ..))| *send);
        match (list, tree) {
            (Some(list), Some(tree)) if list <= tree => self.list.pop_front(&mut self.slab),
            (_, Some(_)) => self.pop_tree(),
            (_, None) => self.list.pop_front(&mut self.slab),
        }
    }

    /// The latest send time of the packet that was first to be sent at once and of all that are
    /// not immediate.
    pub(crate) fn last(&self) -> Option<SendTime> {
        let (immediate, list) = (self.immediate.last(&self.slab), self.list.last(&self.slab));
        immediate.max(list).max(self.tree_last)
    }

    fn pop_tree(&mut self) -> Option<Held> {
        let Reverse((_, _, node)) = self.tree.pop()?;
        if self.tree.is_empty() {
            self.tree_last = None;
        }
        Some(self.slab.remove(node))
    }
}

/// Packets in one allocation, with a free list through the places not in use.
#[derive(Debug)]
struct Slab {
    nodes: Vec<Held>,
    free: u32,
    used: usize,
}

impl Default for Slab {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: NONE, used: 0 }
    }
}

impl Slab {
    fn insert(&mut self, held: Held) -> u32 {
        self.used += 1;
        if self.free != NONE {
            let node = self.free;
            self.free = self.at(node).next;
            *self.at_mut(node) = held;
            return node;
        }
        let node =
            u32::try_from(self.nodes.len()).expect("no more packets than a u32 limit and one");
        self.nodes.push(held);
        node
    }

    fn remove(&mut self, node: u32) -> Held {
        let held = *self.at(node);
        self.at_mut(node).next = self.free;
        self.free = node;
        self.used -= 1;
        held
    }

    fn at(&self, node: u32) -> &Held {
        &self.nodes[node as usize]
    }

    fn at_mut(&mut self, node: u32) -> &mut Held {
        &mut self.nodes[node as usize]
    }
}

/// Packets of a slab in a row.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl List {
    fn first(self, slab: &Slab) -> Option<SendTime> {
        (self.head != NONE).then(|| slab.at(self.head).send)
    }

    fn last(self, slab: &Slab) -> Option<SendTime> {
        (self.head != NONE).then(|| slab.at(self.tail).send)
    }

    fn push_front(&mut self, node: u32, slab: &mut Slab) {
        slab.at_mut(node).next = self.head;
        if self.head == NONE {
            self.tail = node;
        }
        self.head = node;
    }

    fn push_back(&mut self, node: u32, slab: &mut Slab) {
        slab.at_mut(node).next = NONE;
        if self.head == NONE {
            self.head = node;
        } else {
            slab.at_mut(self.tail).next = node;
        }
        self.tail = node;
    }

    fn pop_front(&mut self, slab: &mut Slab) -> Option<Held> {
        if self.head == NONE {
            return None;
        }
        let held = slab.remove(self.head);
        self.head = held.next;
        Some(held)
    }
}

/// No node.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Packet;
    use crate::time::Instant;

    fn held(handle: u64, send: u64) -> Held {
        let packet = Packet::on_path(handle, Instant::ZERO, 100, 1);
        let queued = Queued { packet, entered: Instant::ZERO, bytes: 114 };
        let send = SendTime::at(Instant::from_nanos(send));
        Held { send, ..Held::new(queued, 0, Mark::None, None) }
    }

    fn handles(packets: &mut HeldPackets) -> Vec<u64> {
        core::iter::from_fn(|| packets.pop_immediate().or_else(|| packets.pop()))
            .map(|held| held.queued.packet.handle)
            .collect()
    }

    fn nanos(time: Option<SendTime>) -> Option<u64> {
        time.map(|time| time.instant().as_nanos())
    }

    #[test]
    fn packets_leave_by_send_time_and_equal_ones_as_they_came() {
        let mut packets = HeldPackets::default();
        for (handle, send) in [(0, 50), (1, 20), (2, 50), (3, 20), (4, 10), (5, 60), (6, 20)] {
            packets.push(held(handle, send));
        }
        assert_eq!(nanos(packets.first()), Some(10));
        assert_eq!(handles(&mut packets), [4, 1, 3, 6, 0, 2, 5]);
        assert_eq!(packets.len(), 0);
    }

    #[test]
    fn of_a_list_and_a_tree_that_are_due_together_the_list_leaves_first() {
        let mut packets = HeldPackets::default();
        packets.push(held(0, 10));
        packets.push(held(1, 5));
        packets.push(held(2, 7));
        assert_eq!(packets.pop().expect("the tree's first").queued.packet.handle, 1);
        // The list still ends at 10, so 7 goes to the tree, behind the other 7.
        packets.push(held(3, 7));
        packets.push(held(4, 10));
        assert_eq!(handles(&mut packets), [2, 3, 0, 4]);
        // An empty list takes any packet, so a later one overtakes the tree's of equal time.
        packets.push(held(5, 30));
        packets.push(held(6, 40));
        packets.push(held(7, 35));
        packets.push(held(8, 38));
        let first: Vec<u64> =
            (0..3).map(|_| packets.pop().expect("held").queued.packet.handle).collect();
        assert_eq!(first, [5, 7, 8]);
    }

    #[test]
    fn an_empty_list_takes_a_packet_due_with_the_trees_first_and_lets_it_leave_before() {
        let mut packets = HeldPackets::default();
        packets.push(held(0, 1));
        packets.push(held(1, 0));
        packets.list = List::default();
        packets.push(held(2, 0));
        assert_eq!(packets.pop().expect("held").queued.packet.handle, 2);
    }

    #[test]
    fn immediate_packets_leave_before_all_others_the_last_one_first() {
        let mut packets = HeldPackets::default();
        packets.push(held(0, 5));
        packets.push_immediate(held(1, 9));
        packets.push_immediate(held(2, 8));
        assert_eq!(nanos(packets.last()), Some(9), "the first of the immediate ones counts");
        assert_eq!(handles(&mut packets), [2, 1, 0]);
    }

    #[test]
    fn the_latest_send_time_is_that_of_any_place() {
        let mut packets = HeldPackets::default();
        assert_eq!(packets.last(), None);
        packets.push(held(0, 50));
        packets.push(held(1, 30));
        packets.push(held(2, 40));
        assert_eq!(nanos(packets.last()), Some(50));
        for _ in 0..2 {
            packets.pop();
        }
        packets.pop();
        assert_eq!(packets.last(), None);
    }

    #[test]
    fn places_are_used_again() {
        let mut packets = HeldPackets::default();
        for round in 0..100 {
            for handle in 0..10 {
                packets.push(held(handle, round * 100 + (handle * 7) % 10));
            }
            assert_eq!(packets.len(), 10);
            handles(&mut packets);
        }
        assert_eq!(packets.slab.nodes.len(), 10);
        assert!(packets.tree.capacity() <= 16);
    }
}
