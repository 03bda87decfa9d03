//! Shared memory by which other programs change a running link and watch it: two sealed memfds of
//! fixed layout, `control` and `stats`. No locks, no system calls, any language: see
//! `docs/control-block.md`.
//!
//! The control block says what is asked for, the statistics block what is in force. Everything that
//! is read from the control block is untrusted.

mod block;
pub mod layout;
mod sealed;
mod seqlock;
mod stats;
mod watch;

pub use self::block::{ControlBlock, SetError, SetValue};
pub use self::stats::{Figures, StatsBlock, StatsWriter};
pub(crate) use self::watch::Found;
pub use self::watch::{Ignored, Reason, Watch};

/// The two directions of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// From the command to the peer.
    Up,
    /// From the peer to the command.
    Down,
}

impl Side {
    /// Both, up first.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    fn index(self) -> usize {
        match self {
            Self::Up => 0,
            Self::Down => 1,
        }
    }
}

/// What the sequence lock is built from.
mod atomic {
    pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};
}
