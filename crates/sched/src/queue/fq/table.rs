//! Finding flows by key: linear hashing (Litwin 1980) with a cache line for each bucket.

use super::slab::{NONE, Node, Slab};

/// Which flow a packet belongs to: a socket, or a hash of headers. The two never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) word: u32,
    /// Whether it is a hash of headers.
    pub(super) hashed: bool,
}

impl Key {
    /// Of a socket, which has its flow for itself.
    pub(super) fn of_socket(socket: u32) -> Self {
        Self { word: socket, hashed: false }
    }

    /// Of headers: those whose hashes agree under `mask` share a flow.
    pub(super) fn of_headers(hash: u32, mask: u32) -> Self {
        Self { word: hash & mask, hashed: true }
    }

    /// The number, and [`HASHED`] or 0.
    fn split(self) -> (u32, u32) {
        (self.word, if self.hashed { HASHED } else { 0 })
    }
}

/// Flows by key. It grows by one bucket at a time: splitting that bucket moves a handful of
/// entries, so that no packet waits for a table to be copied. It never shrinks.
#[derive(Debug)]
pub(super) struct Table {
    /// The buckets that hashes address.
    home: Slab<Bucket>,
    /// What does not fit there.
    spill: Slab<Bucket>,
    /// Hashes address buckets by the bits of `mask`, those below `split`, which have been split in
    /// this round, by one bit more.
    mask: u32,
    split: u32,
    len: u32,
    seed: u64,
}

impl Table {
    /// An empty table. `seed` decides which keys share a bucket, so that nobody outside can choose
    /// keys that do; it changes no answer.
    pub(super) fn new(seed: u64) -> Self {
        let mut home = Slab::new();
        home.take();
        Self { home, spill: Slab::new(), mask: 0, split: 0, len: 0, seed }
    }

    /// The flow of `key`.
    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<u32> {
        let (word, kind) = key.split();
        let bucket = &self.home[self.address(word, kind)];
        match bucket.find(word, kind) {
            Some((_, flow)) => Some(flow),
            None if bucket.next() == NONE => None,
            None => self.find_spilled(bucket.next(), word, kind),
        }
    }

    /// Loads what [`Self::find`] reads first.
    #[inline]
    pub(super) fn touch(&self, key: Key) -> u32 {
        let (word, kind) = key.split();
        self.home[self.address(word, kind)].len
    }

    #[inline(never)]
    fn find_spilled(&self, mut at: u32, word: u32, kind: u32) -> Option<u32> {
        while at != NONE {
            let bucket = self.bucket(at);
            if let Some((_, flow)) = bucket.find(word, kind) {
                return Some(flow);
            }
            at = bucket.next();
        }
        None
    }

    /// Adds a flow whose key is not in the table.
    pub(super) fn insert(&mut self, key: Key, flow: u32) {
        let (word, kind) = key.split();
        self.append(word, flow | kind);
        self.len += 1;
        if self.len > self.home.used() * LOAD {
            self.split_next();
        }
    }

    /// Forgets `key`.
    pub(super) fn remove(&mut self, key: Key) {
        let Some((at, entry)) = self.position(key) else { return };
        let (mut before, mut last) = (NONE, at);
        while self.bucket(last).next() != NONE {
            (before, last) = (last, self.bucket(last).next());
        }
        // The chain's last entry takes the place. All buckets but the last are full.
        let bucket = self.bucket_mut(last);
        bucket.len -= 1;
        let (end, left) = (bucket.len as usize, bucket.len);
        let (word, flow) = (bucket.keys[end], bucket.flows[end]);
        let hole = self.bucket_mut(at);
        (hole.keys[entry], hole.flows[entry]) = (word, flow);
        if left == 0 && last >= SPILLED {
            let before = if before == NONE { self.before(last, word, flow) } else { before };
            self.bucket_mut(before).set_next(NONE);
            self.spill.give(last - SPILLED);
        }
        self.len -= 1;
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.home.memory() + self.spill.memory()
    }

    fn position(&self, key: Key) -> Option<(u32, usize)> {
        let (word, kind) = key.split();
        let mut at = self.address(word, kind);
        while at != NONE {
            let bucket = self.bucket(at);
            if let Some((entry, _)) = bucket.find(word, kind) {
                return Some((at, entry));
            }
            at = bucket.next();
        }
        None
    }

    /// The bucket before `last` in the chain of an entry.
    fn before(&self, last: u32, word: u32, flow: u32) -> u32 {
        let mut at = self.address(word, flow & HASHED);
        while self.bucket(at).next() != last {
            at = self.bucket(at).next();
        }
        at
    }

    fn append(&mut self, word: u32, flow: u32) {
        let mut at = self.address(word, flow & HASHED);
        while self.bucket(at).next() != NONE {
            at = self.bucket(at).next();
        }
        if self.bucket(at).len as usize == ENTRIES {
            let index = self.spill.take();
            self.spill[index] = Bucket::FREE;
            self.bucket_mut(at).set_next(SPILLED + index);
            at = SPILLED + index;
        }
        let bucket = self.bucket_mut(at);
        let end = bucket.len as usize;
        (bucket.keys[end], bucket.flows[end]) = (word, flow);
        bucket.len += 1;
    }

    /// Splits the next bucket in turn: half of its entries go to a new one.
    fn split_next(&mut self) {
        let mut at = self.split;
        let index = self.home.take();
        self.home[index] = Bucket::FREE;
        self.split += 1;
        if self.split > self.mask {
            (self.mask, self.split) = (self.mask << 1 | 1, 0);
        }
        let mut bucket = core::mem::replace(&mut self.home[at], Bucket::FREE);
        loop {
            for entry in 0..bucket.len as usize {
                self.append(bucket.keys[entry], bucket.flows[entry]);
            }
            at = bucket.next();
            if at == NONE {
                return;
            }
            bucket = self.spill[at - SPILLED];
            self.spill.give(at - SPILLED);
        }
    }

    #[inline]
    fn address(&self, word: u32, kind: u32) -> u32 {
        let hash = hash(u64::from(word) << 1 | u64::from(kind >> 31), self.seed);
        let address = hash & self.mask;
        if address < self.split { hash & (self.mask << 1 | 1) } else { address }
    }

    #[inline]
    fn bucket(&self, at: u32) -> &Bucket {
        if at < SPILLED { &self.home[at] } else { &self.spill[at - SPILLED] }
    }

    fn bucket_mut(&mut self, at: u32) -> &mut Bucket {
        if at < SPILLED { &mut self.home[at] } else { &mut self.spill[at - SPILLED] }
    }
}

/// Seven flows: a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    /// Keys; in the last place, so that eight words are compared at once, the next bucket.
    keys: [u32; ENTRIES + 1],
    /// Flow numbers, with [`HASHED`].
    flows: [u32; ENTRIES],
    len: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    /// The place of a key and its flow.
    #[inline]
    fn find(&self, word: u32, kind: u32) -> Option<(usize, u32)> {
        let mut same = self.same(word);
        while same != 0 {
            let entry = same.trailing_zeros() as usize;
            let flow = *self.flows.get(entry)? ^ kind;
            if flow < HASHED {
                return Some((entry, flow));
            }
            same &= same - 1;
        }
        None
    }

    /// A bit for each entry with the number `word`. No branch depends on a single entry: which one
    /// it is cannot be foreseen.
    #[inline]
    fn same(&self, word: u32) -> u32 {
        let same = |entry: usize| u32::from(self.keys[entry] == word) << entry;
        (0..=ENTRIES).fold(0, |all, entry| all | same(entry)) & !(u32::MAX << self.len)
    }

    #[inline]
    fn next(&self) -> u32 {
        self.keys[ENTRIES]
    }

    fn set_next(&mut self, next: u32) {
        self.keys[ENTRIES] = next;
    }
}

impl Node for Bucket {
    const FREE: Self = {
        let mut keys = [0; ENTRIES + 1];
        keys[ENTRIES] = NONE;
        Self { keys, flows: [0; ENTRIES], len: 0 }
    };

    fn link(&mut self) -> &mut u32 {
        &mut self.keys[ENTRIES]
    }
}

/// Spreads keys over all bits (the finaliser of MurmurHash3, Appleby 2011).
#[inline]
fn hash(key: u64, seed: u64) -> u32 {
    let mut hash = key ^ seed;
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (hash >> 32) as u32
}

const ENTRIES: usize = 7;
/// Entries for each bucket at which the table grows: one bucket in twenty spills.
const LOAD: u32 = 4;
/// Of a flow number: its key is a hash of headers. The caller's numbers are below.
const HASHED: u32 = 1 << 31;
/// Of a bucket number: it is one of `spill`.
const SPILLED: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_table_answers_as_a_map_does(
            seed in any::<u64>(),
            steps in prop::collection::vec((any::<bool>(), 0_u32..300, any::<bool>()), 0..2000),
        ) {
            let (mut table, mut map) = (Table::new(seed), BTreeMap::new());
            for (number, (add, word, socket)) in (0..).zip(steps) {
                let key =
                    if socket { Key::of_socket(word) } else { Key::of_headers(word, u32::MAX) };
                prop_assert_eq!(table.find(key), map.get(&(word, socket)).copied());
                if map.remove(&(word, socket)).is_some() {
                    table.remove(key);
                } else if add {
                    map.insert((word, socket), number);
                    table.insert(key, number);
                }
            }
            prop_assert_eq!(table.len as usize, map.len());
        }
    }

    #[test]
    fn a_million_flows_are_found_and_few_buckets_spill() {
        let mut table = Table::new(7);
        for flow in 0..1_000_000 {
            table.insert(Key::of_headers(flow, u32::MAX), flow);
        }
        for flow in (0..1_000_000).step_by(97) {
            assert_eq!(table.find(Key::of_headers(flow, u32::MAX)), Some(flow));
            assert_eq!(table.find(Key::of_socket(flow)), None);
        }
        assert_eq!(table.home.used(), 250_000);
        assert!(table.spill.used() < 25_000, "{}", table.spill.used());
        for flow in 0..1_000_000 {
            table.remove(Key::of_headers(flow, u32::MAX));
        }
        assert_eq!((table.len, table.spill.used()), (0, 0));
    }
}
