//! Frames: what a file consists of after its magic. Header, blocks and trailer are frames.

use super::{Direction, LaneId};

/// The first twelve bytes of a log: a word and the version of the format, 32 bits little-endian.
pub(super) const MAGIC: [u8; 8] = *b"PUNCTLOG";

/// The version written, and the only one read.
pub(super) const VERSION: u32 = 1;

/// The most that a frame may carry: a reader need never hold more.
pub(super) const MAX_PAYLOAD: u32 = 1 << 20;

/// Bytes of a [`FrameHead`].
pub(super) const HEAD: usize = 16;

/// What stands before each payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) kind: Kind,
    /// Records in a block, entries in a course, 1 in a follow; 0 otherwise.
    pub(super) count: u32,
    /// Bytes of the payload.
    pub(super) len: u32,
    /// CRC-32 (IEEE 802.3) of the head's first twelve bytes and the payload.
    pub(super) crc: u32,
}

/// The kinds of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Header,
    Block(LaneId),
    /// A part of a trace.
    Course(Direction),
    /// The trace is whole, and followed.
    Follow(Direction),
    Trailer,
}

/// The kinds that are of one direction; blocks are of one lane of it.
fn of_direction(kind: u8, direction: Direction, index: u8) -> Option<Kind> {
    match (kind, index) {
        (b'B', _) => Some(Kind::Block(LaneId { direction, index })),
        (b'C', 0) => Some(Kind::Course(direction)),
        (b'F', 0) => Some(Kind::Follow(direction)),
        _ => None,
    }
}

impl FrameHead {
    /// The head of a frame with this payload; `None` when the payload is too long.
    pub(super) fn new(kind: Kind, count: u32, payload: &[u8]) -> Option<Self> {
        let len = u32::try_from(payload.len()).ok().filter(|&len| len <= MAX_PAYLOAD)?;
        let head = Self { kind, count, len, crc: 0 };
        Some(Self { crc: head.checksum(payload), ..head })
    }

    pub(super) fn to_bytes(self) -> [u8; HEAD] {
        let (kind, direction, lane) = match self.kind {
            Kind::Header => (b'H', 0, 0),
            Kind::Block(LaneId { direction, index }) => (b'B', direction as u8, index),
            Kind::Course(direction) => (b'C', direction as u8, 0),
            Kind::Follow(direction) => (b'F', direction as u8, 0),
            Kind::Trailer => (b'T', 0, 0),
        };
        let mut bytes = [kind, direction, lane, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes[4..8].copy_from_slice(&self.count.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_le_bytes());
        bytes[12..].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    /// `None` when no such frame is ever written.
    pub(super) fn from_bytes(bytes: [u8; HEAD]) -> Option<Self> {
        let [kind, direction, lane, 0, numbers @ ..] = bytes else { return None };
        let kind = match (kind, direction, lane) {
            (b'H', 0, 0) => Kind::Header,
            (b'T', 0, 0) => Kind::Trailer,
            (kind, 0, lane) => of_direction(kind, Direction::Up, lane)?,
            (kind, 1, lane) => of_direction(kind, Direction::Down, lane)?,
            _ => return None,
        };
        let [c0, c1, c2, c3, l0, l1, l2, l3, crc @ ..] = numbers;
        let count = u32::from_le_bytes([c0, c1, c2, c3]);
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        (len <= MAX_PAYLOAD).then(|| Self { kind, count, len, crc: u32::from_le_bytes(crc) })
    }

    pub(super) fn checksum(&self, payload: &[u8]) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(&self.to_bytes()[..12]);
        crc.update(payload);
        crc.finalize()
    }
}
