//! What a lane tells of what it does.

use punctual_sched::classify::Classified;
use punctual_sched::{Change, Duration, Instant, Link, LinkConfig, Output, Packet};

use super::stamp::StampCounts;
use crate::control::Ignored;

/// Where a lane tells what happened, in the order in which it happened: the log, the statistics.
pub trait Account {
    /// Looks at a packet's first bytes as it is read; what it returns comes back in
    /// [`Arrived::tag`]. For probes that are to be followed by name.
    fn tag(&mut self, _head: &[u8], _classified: &Classified) -> Option<u64> {
        None
    }

    /// A packet was handed to the link.
    fn arrived(&mut self, arrived: &Arrived);

    /// The link dropped a packet, and the kernel was told.
    fn dropped(&mut self, output: &Output);

    /// A packet was released, and the call that did so has returned.
    fn released(&mut self, released: &Released<'_>);

    /// The link's parameters changed at `at`, in the order of arrivals; asked for at `asked`, where
    /// that is known.
    fn changed(&mut self, _at: Instant, _asked: Option<Instant>, _: &Change, _: Source) {}

    /// The link follows another trace since `at`, or none any more, as `link` says; asked for at
    /// `asked`.
    fn followed(&mut self, _at: Instant, _asked: Instant, _link: &LinkConfig) {}

    /// Something that stood in the control block was not done, at event time `at`.
    fn ignored(&mut self, _at: Instant, _: &Ignored) {}

    /// One turn of the loop is over; `link` is as it was left.
    fn turned(&mut self, _link: &Link) {}
}

/// Where a change came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A [`Remote`](super::Remote).
    Remote,
    /// The rate word of the control block.
    Word,
    /// A set of values in the control block.
    Set,
}

/// A packet as it is handed to the link.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// As the link sees it. The handle's low half is the kernel's packet id, its high half the
    /// low half of the packet's number on this lane, counted from 1.
    pub packet: Packet,
    /// What its headers say.
    pub classified: Classified,
    /// When it was read, at or after its arrival but for clock errors.
    pub read: Instant,
    /// What [`Account::tag`] said.
    pub tag: Option<u64>,
}

/// A departure that has happened.
#[derive(Clone, Copy, Debug)]
pub struct Released<'a> {
    /// The link's decision.
    pub output: &'a Output,
    /// When it was due.
    pub due: Instant,
    /// When the call that released it began, a verdict or the sending of a copy: a lower bound of
    /// the time of release.
    pub called: Instant,
    /// When that call had returned: an upper bound of the time of release.
    pub returned: Instant,
}

/// What the kernel did beside our decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Packets lost before they reached us: no room in the socket's receive buffer.
    pub receive_buffer: u64,
    /// Packets released whose verdict found nothing: the kernel had flushed them.
    pub flushed: u64,
    /// Messages that could not be understood.
    pub malformed: u64,
    /// Packets that had been handed to us and were not read when the lane was closed.
    pub unread: u64,
    /// Bursts of UDP that crossed uncut: how many packets they are is a guess.
    pub uncut_udp_bursts: u64,
    /// Packets whose bytes could not be kept for corruption and duplicates: they depart as they
    /// came.
    pub unkept: u64,
    /// Copies released that did not leave: no bytes, no room, larger than the MTU.
    pub unsent: u64,
    /// The longest time between two looks at the queue.
    pub longest_gap: Duration,
    /// Arrival stamps.
    pub stamps: StampCounts,
}
