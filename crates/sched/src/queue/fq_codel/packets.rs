//! The packets of all flows in one table.

use super::super::Queued;

/// Packets in lists that share one table: nothing is allocated for a packet once the table has
/// grown to the most that were ever held.
#[derive(Debug, Default)]
pub(super) struct Packets {
    nodes: Vec<Node>,
    free: List,
}

#[derive(Debug)]
struct Node {
    queued: Queued,
    /// The packet behind this one, or the next free node.
    next: u32,
}

const _: () = assert!(size_of::<Node>() <= 128, "what is held for a packet");

/// Some packets of the table in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE };

    /// Something to load ahead of a [`Packets::push`].
    #[inline]
    pub(super) const fn tail(self) -> u32 {
        self.tail
    }
}

impl Default for List {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Packets {
    /// Appends to `list`. `false` when the table is full: 2^32 - 1 packets.
    #[inline]
    pub(super) fn push(&mut self, list: &mut List, queued: Queued) -> bool {
        let Some(node) = self.place(queued) else { return false };
        if list.head == NONE {
            list.head = node;
        } else {
            self.nodes[list.tail as usize].next = node;
        }
        list.tail = node;
        true
    }

    /// Takes the first packet of `list`.
    #[inline]
    pub(super) fn pop(&mut self, list: &mut List) -> Option<Queued> {
        if list.head == NONE {
            return None;
        }
        let head = list.head;
        let node = &mut self.nodes[head as usize];
        list.head = node.next;
        node.next = self.free.head;
        self.free.head = head;
        Some(node.queued)
    }

    #[inline]
    fn place(&mut self, queued: Queued) -> Option<u32> {
        let free = self.free.head;
        if free != NONE {
            let node = &mut self.nodes[free as usize];
            self.free.head = node.next;
            *node = Node { queued, next: NONE };
            return Some(free);
        }
        let number = u32::try_from(self.nodes.len()).ok().filter(|number| *number != NONE)?;
        self.nodes.push(Node { queued, next: NONE });
        Some(number)
    }
}

const NONE: u32 = u32::MAX;
