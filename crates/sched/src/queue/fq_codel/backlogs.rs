//! Which flow has the most bytes queued.

/// Bytes of each flow, and the greatest among them found without looking at all.
///
/// A tree of maxima over blocks of 64, put right only when somebody asks: a change costs a store
/// and a bit, a question as many blocks as have changed since the last one. So under an attack
/// that makes every packet ask, a packet costs a few blocks on each of at most three levels,
/// however many flows there are.
#[derive(Debug)]
pub(super) struct Backlogs {
    /// The flows, then the maxima of each 64 of what is below; the last level has at most 64.
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    values: Vec<u64>,
    /// One bit for each block of 64 values that has changed since its maximum was taken.
    changed: Vec<u64>,
}

impl Backlogs {
    /// Nothing queued in any of `flows` flows.
    pub(super) fn new(flows: usize) -> Self {
        let mut levels = vec![Level::new(flows)];
        while let Some(last) = levels.last()
            && last.values.len() > BLOCK
        {
            let blocks = last.values.len().div_ceil(BLOCK);
            levels.push(Level::new(blocks));
        }
        Self { levels }
    }

    #[inline]
    pub(super) fn add(&mut self, flow: usize, bytes: u64) {
        let value = self.levels[0].values[flow] + bytes;
        self.levels[0].set(flow, value);
    }

    #[inline]
    pub(super) fn remove(&mut self, flow: usize, bytes: u64) {
        let value = self.levels[0].values[flow] - bytes;
        self.levels[0].set(flow, value);
    }

    /// The flow with the most bytes, of several the one with the lowest number, and its bytes.
    pub(super) fn fattest(&mut self) -> (usize, u64) {
        for upper in 1..self.levels.len() {
            let (below, above) = self.levels.split_at_mut(upper);
            below[upper - 1].repair(&mut above[0]);
        }
        let mut found = 0;
        for level in self.levels.iter().rev() {
            found = level.first_max(found);
        }
        (found, self.levels[0].values[found])
    }
}

impl Level {
    fn new(len: usize) -> Self {
        let blocks = len.div_ceil(BLOCK);
        Self { values: vec![0; len], changed: vec![0; blocks.div_ceil(BLOCK)] }
    }

    #[inline]
    fn set(&mut self, index: usize, value: u64) {
        self.values[index] = value;
        let block = index / BLOCK;
        self.changed[block / BLOCK] |= 1 << (block % BLOCK);
    }

    /// Takes the maxima of all blocks that have changed.
    fn repair(&mut self, above: &mut Self) {
        for word in 0..self.changed.len() {
            let mut changed = core::mem::take(&mut self.changed[word]);
            while changed != 0 {
                let block = word * BLOCK + changed.trailing_zeros() as usize;
                changed &= changed - 1;
                let max = self.block(block).iter().copied().max().unwrap_or(0);
                if above.values[block] != max {
                    above.set(block, max);
                }
            }
        }
    }

    /// The first place of the greatest value of a block.
    fn first_max(&self, block: usize) -> usize {
        let mut best = 0;
        let values = self.block(block);
        for (place, value) in values.iter().enumerate() {
            if *value > values[best] {
                best = place;
            }
        }
        block * BLOCK + best
    }

    fn block(&self, block: usize) -> &[u64] {
        let start = block * BLOCK;
        &self.values[start..self.values.len().min(start + BLOCK)]
    }
}

const BLOCK: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_fattest_is_what_looking_at_all_finds(
            flows in prop_oneof![1_usize..200, 4_000_usize..4_200, Just(65_536_usize)],
            steps in prop::collection::vec((any::<usize>(), 1..50_u64, any::<bool>(), 0..4_u8), 1..200),
        ) {
            let mut backlogs = Backlogs::new(flows);
            let mut plain = vec![0_u64; flows];
            for (flow, bytes, take, ask) in steps {
                let flow = flow % flows;
                if take {
                    let bytes = bytes.min(plain[flow]);
                    plain[flow] -= bytes;
                    backlogs.remove(flow, bytes);
                } else {
                    plain[flow] += bytes;
                    backlogs.add(flow, bytes);
                }
                if ask == 0 {
                    let most = *plain.iter().max().unwrap();
                    let first = plain.iter().position(|bytes| *bytes == most).unwrap();
                    prop_assert_eq!(backlogs.fattest(), (first, most));
                }
            }
        }
    }
}
