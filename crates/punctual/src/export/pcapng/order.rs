//! Frames in the order of their times, in bounded memory.

use std::collections::BTreeMap;

use super::super::row::{Fate, Row};
use super::Point;
use crate::log::Direction;

/// Waits with each frame until none with an earlier time can come, and with an arrival until the
/// fate of its packet is known, so that it can be told with it.
///
/// Holds at most [`Order::MAX`] frames. Beyond that the oldest goes: an arrival without its fate, or
/// a frame whose time came before that of one already given, which no log of a run makes happen.
#[derive(Debug)]
pub(super) struct Order {
    frames: BTreeMap<Key, Frame>,
    /// Where the arrivals are whose fate is not known yet.
    waiting: BTreeMap<(u8, u64), Key>,
    /// How much earlier than the latest time a frame may still come.
    disorder_ns: u64,
    latest_ns: u64,
    count: u64,
    peak: usize,
}

/// A time, and the frames before it in the log.
type Key = (u64, u64);

/// What happened at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A packet was somewhere. `known`: its fate is.
    Packet { point: Point, row: Row, known: bool },
    /// Parameters changed.
    Change { direction: Direction, at_ns: u64, text: String },
}

impl Order {
    /// 60 MB. A run of 100,000 packets/s in each direction has half a second of it.
    pub(super) const MAX: usize = 1 << 18;

    pub(super) fn new(disorder_ns: u64) -> Self {
        Self {
            frames: BTreeMap::new(),
            waiting: BTreeMap::new(),
            disorder_ns,
            latest_ns: 0,
            count: 0,
            peak: 0,
        }
    }

    /// A packet arrived, its fate unknown.
    pub(super) fn arrived(&mut self, row: Row) {
        let at_ns = row.arrival.at.as_nanos();
        let key = self.push(at_ns, Frame::Packet { point: Point::In, row, known: false });
        self.waiting.insert((row.direction as u8, row.packet), key);
    }

    /// A fate; a packet's own is told with its arrival too.
    pub(super) fn fate(&mut self, row: Row) {
        let waited = if row.copy == 0 {
            self.waiting.remove(&(row.direction as u8, row.packet))
        } else {
            None
        };
        if let Some(frame) = waited.and_then(|key| self.frames.get_mut(&key)) {
            *frame = Frame::Packet { point: Point::In, row, known: true };
        }
        let leaves = match &row.fate {
            Fate::Out(_) => row.released().map(|at| (at, Point::Out)),
            Fate::Dropped(drop) => Some((drop.at, Point::Drop)),
            Fate::Held | Fate::Unknown => None,
        };
        if let Some((at, point)) = leaves {
            self.push(at.as_nanos(), Frame::Packet { point, row, known: true });
        }
    }

    /// Parameters changed.
    pub(super) fn changed(&mut self, direction: Direction, at_ns: u64, text: String) {
        self.push(at_ns, Frame::Change { direction, at_ns, text });
    }

    /// The next frame that can go; with `all` every one that is left.
    pub(super) fn pop(&mut self, all: bool) -> Option<Frame> {
        let (&key, frame) = self.frames.first_key_value()?;
        let settled = key.0.saturating_add(self.disorder_ns) <= self.latest_ns
            && !matches!(frame, Frame::Packet { known: false, .. });
        if !all && !settled && self.frames.len() <= Self::MAX {
            return None;
        }
        let frame = self.frames.remove(&key)?;
        if let Frame::Packet { row, known: false, .. } = &frame {
            self.waiting.remove(&(row.direction as u8, row.packet));
        }
        Some(frame)
    }

    /// The most frames held at one time.
    pub(super) fn peak(&self) -> usize {
        self.peak
    }

    fn push(&mut self, at_ns: u64, frame: Frame) -> Key {
        self.count += 1;
        let key = (at_ns, self.count);
        self.frames.insert(key, frame);
        self.latest_ns = self.latest_ns.max(at_ns);
        self.peak = self.peak.max(self.frames.len());
        key
    }
}
