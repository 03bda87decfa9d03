//! The run log: what a run was given and what it decided, compact and replayable.
//!
//! `docs/log.md` describes the bytes. One way in for each user:
//!
//! * a run: [`LogWriter`] and its two [`LogSender`]s, a thread behind a ring per direction
//! * a reader of logs: [`LogReader`], one [`Entry`] after the other in bounded memory
//! * a tool that makes or alters logs: [`BlockWriter`], the writer without the thread

mod blocks;
mod bytes;
mod codec;
mod course;
mod cut_off;
mod error;
mod file;
mod frame;
mod header;
mod pipe;
mod reader;
mod record;
mod trailer;
mod values;
mod writer;

pub use blocks::{BlockWriter, DirectionEnd, LogSummary, Sink};
pub use bytes::Bytes;
pub use codec::{DecodeError, Decoder, Encoder};
pub use cut_off::CutOff;
pub use error::{Damage, ReadError};
pub(crate) use file::LogFile;
pub use header::{DirectionHeader, Epoch, Header, LinkRecord};
pub(crate) use pipe::Pipe;
pub use reader::{Ending, Entry, LogReader};
pub use record::{Arrival, Departure, Dropped, Record};
pub(crate) use trailer::not_written;
pub use trailer::{DirectionTrailer, EndRecord, SnapshotRecord, Trailer};
pub(crate) use writer::open;
pub use writer::{LogError, LogSender, LogWriter};

/// A direction of the link. The two are independent links: only within one does order mean
/// anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Direction {
    /// From the command to its peer.
    Up = 0,
    /// From the peer to the command.
    Down = 1,
}

/// One lane of a direction: one of the links among which its flows are divided. Most directions
/// have a single one, and then a lane is a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneId {
    /// The direction.
    pub direction: Direction,
    /// Which of its lanes, from 0.
    pub index: u8,
}

impl LaneId {
    /// The most lanes that a direction can have.
    pub const MOST: u8 = 64;

    /// The index, as that of a list.
    pub(crate) fn at(self) -> usize {
        usize::from(self.index)
    }
}

/// The first, which is the only one of most directions.
impl From<Direction> for LaneId {
    fn from(direction: Direction) -> Self {
        Self { direction, index: 0 }
    }
}

impl Direction {
    /// Both, in the order of [`Direction::index`].
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    /// 0 for up, 1 for down.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The word in reports: `up` or `down`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}
