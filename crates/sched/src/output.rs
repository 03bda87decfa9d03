//! What comes out of a link: departures and drops.

use crate::packet::Packet;
use crate::time::{Duration, Instant};

/// One packet's fate, from [`Link::poll`](crate::Link::poll).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The packet leaves the link at `due`, which may already be past.
    Depart {
        /// The descriptor as it arrived.
        packet: Packet,
        /// When it leaves. Never before its arrival; never decreasing from one departure to the
        /// next.
        due: Instant,
        /// Congestion mark.
        mark: Mark,
        /// Where its time went.
        stages: Stages,
    },
    /// The packet is dropped.
    Drop {
        /// The descriptor as it arrived.
        packet: Packet,
        /// Why.
        reason: DropReason,
        /// When it was decided.
        at: Instant,
    },
}

/// What became of a packet's ECN field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// Untouched.
    #[default]
    None = 0,
    /// Congestion was to be marked, but the packet cannot carry a mark.
    Decided = 1,
    /// Congestion experienced is written.
    Ce = 2,
}

/// A departed packet's time on the link; the four sum to `due - arrival`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Behind the sender's access rate (`nic`), before the queue.
    pub pacing: Duration,
    /// Waiting for the packets ahead of it.
    pub queue: Duration,
    /// In service: from its turn to its last bit.
    pub serialisation: Duration,
    /// In the delay line, jitter and the wait that keeps order included.
    pub propagation: Duration,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// Random loss (`loss`).
    Loss = 0,
    /// The queue was at its `limit`.
    Limit = 1,
    /// Held packets had used up the link's memory: the emulator's own loss.
    HoldFull = 2,
}

impl DropReason {
    /// Every reason, in the order of [`DropReason::index`].
    pub const ALL: [Self; 3] = [Self::Loss, Self::Limit, Self::HoldFull];

    /// A dense index for tables of counters.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The word in reports and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Limit => "limit",
            Self::HoldFull => "hold_full",
        }
    }
}

/// When a link wants to be advanced next, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// No output can come before this time.
    pub at: Instant,
    /// What is waited for.
    pub cause: Cause,
}

/// What a deadline waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A packet in the delay line is due.
    Propagation,
    /// The packet in service is serialised (and its delay, if any, has passed).
    Service,
    /// The sender's access rate lets a packet through.
    Nic,
}

/// Counters of one direction, in wire segments and bytes at the IP layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Arrived.
    pub packets_in: u64,
    /// Departed.
    pub packets_out: u64,
    /// Dropped, by [`DropReason::index`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Still held: counted by the stages that hold them, so that
    /// `packets_in = packets_out + dropped + queued` can fail where a packet was forgotten.
    pub queued: u64,
    /// Departed with [`Mark::Ce`].
    pub marked: u64,
    /// Bytes arrived.
    pub bytes_in: u64,
    /// Bytes departed.
    pub bytes_out: u64,
    /// Bytes dropped.
    pub bytes_dropped: u64,
    /// The queue's backlog now, in packets, the one in service included.
    pub backlog_packets: u64,
    /// The same in bytes as the rate counts them.
    pub backlog_bytes: u64,
    /// The greatest backlog in bytes.
    pub backlog_peak_bytes: u64,
    /// Memory held now, in bytes of true size.
    pub held_bytes: u64,
    /// The greatest memory held.
    pub held_peak_bytes: u64,
}
