//! The bytes of held packets whose departure may need them.

use std::collections::BTreeMap;

/// The bytes of packets that the kernel holds, by the kernel's id, from arrival until the last
/// copy of the packet has had its fate.
///
/// Bounded: when it is full, packets go on without their bytes, and are counted.
#[derive(Debug)]
pub struct PayloadStore {
    packets: BTreeMap<u32, Stored>,
    /// Buffers of packets that have gone, for those to come.
    spare: Vec<Vec<u8>>,
    bytes: usize,
    limit: usize,
    unkept: u64,
}

/// What is known of a packet.
#[derive(Debug)]
pub struct Stored {
    /// From the IP header on; empty if they could not be kept.
    pub bytes: Vec<u8>,
    /// Ethertype: 0x0800 is IPv4, 0x86dd IPv6.
    pub protocol: u16,
    /// The kernel waits for a verdict on it.
    pub held: bool,
    /// Copies that have had no fate yet, the packet itself included.
    left: u32,
}

impl PayloadStore {
    /// Keeps at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { packets: BTreeMap::new(), spare: Vec::new(), bytes: 0, limit, unkept: 0 }
    }

    /// A packet has come; `None` in place of its bytes if they did not come whole.
    pub fn keep(&mut self, id: u32, protocol: u16, bytes: Option<&[u8]>) {
        let mut kept = self.spare.pop().unwrap_or_default();
        let room = self.limit.saturating_sub(self.bytes);
        match bytes {
            Some(bytes) if bytes.len() <= room => kept.extend_from_slice(bytes),
            _ => self.unkept += 1,
        }
        self.bytes += kept.len();
        let stored = Stored { bytes: kept, protocol, held: true, left: 1 };
        if let Some(stale) = self.packets.insert(id, stored) {
            // Ids come again after 2^32 packets, and then the old one is long gone.
            self.recycle(stale);
        }
    }

    /// One more copy of a packet is on the link.
    pub fn duplicated(&mut self, id: u32) {
        if let Some(stored) = self.packets.get_mut(&id) {
            stored.left += 1;
        }
    }

    /// One copy of a packet has its fate. `decide` is given the packet and whether this was its
    /// last copy, after which it is forgotten; `None` if it is not known.
    pub fn settle<T>(&mut self, id: u32, decide: impl FnOnce(&mut Stored, bool) -> T) -> Option<T> {
        let stored = self.packets.get_mut(&id)?;
        stored.left = stored.left.saturating_sub(1);
        let last = stored.left == 0;
        let decision = decide(stored, last);
        if last && let Some(gone) = self.packets.remove(&id) {
            self.recycle(gone);
        }
        Some(decision)
    }

    /// Packets known.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// No packet is known.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Bytes kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Packets whose bytes could not be kept: the store was full, or they did not come whole.
    pub fn unkept(&self) -> u64 {
        self.unkept
    }

    fn recycle(&mut self, gone: Stored) {
        let mut buffer = gone.bytes;
        self.bytes -= buffer.len();
        if self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

/// Buffers kept for reuse: a turn's share of packets, 1.5 MB.
const SPARE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(store: &mut PayloadStore, id: u32) -> Option<(usize, bool)> {
        store.settle(id, |stored, last| (stored.bytes.len(), last))
    }

    #[test]
    fn a_packet_is_kept_until_its_last_copy_has_had_its_fate() {
        let mut store = PayloadStore::new(10_000);
        store.keep(7, 0x0800, Some(&[1; 100]));
        store.duplicated(7);
        store.duplicated(7);
        assert_eq!(settle(&mut store, 7), Some((100, false)));
        assert_eq!(settle(&mut store, 7), Some((100, false)));
        assert_eq!((store.len(), store.bytes()), (1, 100));
        assert_eq!(settle(&mut store, 7), Some((100, true)));
        assert_eq!((store.len(), store.bytes()), (0, 0));
        assert_eq!(settle(&mut store, 7), None);
    }

    #[test]
    fn what_does_not_fit_goes_on_without_bytes_and_is_counted() {
        let mut store = PayloadStore::new(150);
        store.keep(1, 0x0800, Some(&[1; 100]));
        store.keep(2, 0x0800, Some(&[2; 51]));
        store.keep(3, 0x0800, None);
        assert_eq!((store.unkept(), store.bytes(), store.len()), (2, 100, 3));
        assert_eq!(settle(&mut store, 2), Some((0, true)));
        assert_eq!(settle(&mut store, 1), Some((100, true)));
        store.keep(4, 0x0800, Some(&[4; 150]));
        assert_eq!((store.unkept(), store.bytes()), (2, 150));
    }

    #[test]
    fn buffers_are_used_again_and_hold_nothing_of_the_packet_before() {
        let mut store = PayloadStore::new(10_000);
        for id in 0..3_000 {
            store.keep(id, 0x0800, Some(&[0xaa; 3]));
        }
        for id in 0..3_000 {
            settle(&mut store, id);
        }
        assert_eq!((store.spare.len(), store.bytes()), (SPARE, 0));
        store.keep(1, 0x0800, Some(&[0x55]));
        assert_eq!(store.settle(1, |stored, _| stored.bytes.clone()), Some(vec![0x55]));
    }
}
