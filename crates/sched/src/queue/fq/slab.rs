//! Nodes by number, in blocks that never move.

use core::ops::{Index, IndexMut};

/// No node: the end of a list.
pub(super) const NONE: u32 = u32::MAX;

/// What a [`Slab`] stores: it can lend the link of its list to the list of free nodes.
pub(super) trait Node: Copy {
    /// A node that nobody uses.
    const FREE: Self;

    /// The node after this one in the list of free nodes.
    fn link(&mut self) -> &mut u32;
}

/// Nodes by number. It grows by a block at a time and moves nothing, so that growth costs each
/// packet the same; a node given back is the next one taken, while it is still cached.
#[derive(Debug)]
pub(super) struct Slab<T> {
    blocks: Vec<Box<[T; BLOCK]>>,
    free: u32,
    /// Nodes that have ever been taken: the numbers in use are below.
    touched: u32,
    used: u32,
}

impl<T: Node> Slab<T> {
    pub(super) const fn new() -> Self {
        Self { blocks: Vec::new(), free: NONE, touched: 0, used: 0 }
    }

    /// A node, to be initialised by the caller. There are at most 2^32 - 1.
    #[inline]
    pub(super) fn take(&mut self) -> u32 {
        self.used += 1;
        if self.free != NONE {
            let index = self.free;
            self.free = *self[index].link();
            return index;
        }
        let index = self.touched;
        if index as usize == self.blocks.len() * BLOCK {
            self.grow();
        }
        self.touched += 1;
        index
    }

    /// One block more, made on the heap and never on the stack.
    #[cold]
    fn grow(&mut self) {
        let block = vec![T::FREE; BLOCK].into_boxed_slice();
        let Ok(block) = block.try_into() else { unreachable!("it has {BLOCK} nodes") };
        self.blocks.push(block);
    }

    /// Gives a node back. It can be read until the next one is taken, except for its link.
    #[inline]
    pub(super) fn give(&mut self, index: u32) -> &T {
        let free = core::mem::replace(&mut self.free, index);
        self.used -= 1;
        let node = &mut self[index];
        *node.link() = free;
        node
    }

    /// Every node's number is below this one.
    pub(super) fn end(&self) -> u32 {
        self.touched
    }

    /// Nodes in use.
    pub(super) fn used(&self) -> u32 {
        self.used
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.blocks.len() * size_of::<[T; BLOCK]>()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.blocks[index as usize / BLOCK][index as usize % BLOCK]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.blocks[index as usize / BLOCK][index as usize % BLOCK]
    }
}

/// Nodes of a block: 64 KB of flows, set up in some ten microseconds.
const BLOCK: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct Number(u32);

    impl Node for Number {
        const FREE: Self = Self(NONE);

        fn link(&mut self) -> &mut u32 {
            &mut self.0
        }
    }

    #[test]
    fn nodes_keep_their_numbers_over_growth_and_are_taken_again() {
        let mut slab = Slab::<Number>::new();
        for number in 0..5_000 {
            let index = slab.take();
            slab[index].0 = number;
        }
        assert!((0..5_000).all(|number| slab[number].0 == number));
        slab.give(17);
        slab.give(4_000);
        assert_eq!((slab.take(), slab.take(), slab.take()), (4_000, 17, 5_000));
        assert_eq!((slab.used(), slab.end()), (5_001, 5_001));
    }
}
