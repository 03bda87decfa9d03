//! What a direction's log consists of.

use punctual_sched::packet::priority_of;
use punctual_sched::trace::Trace;
use punctual_sched::{BitFlip, Change, DropReason, Duration, Ecn, Instant, Mark, Output, Packet};

/// One record of one direction, in the order in which it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A packet was handed to the link.
    Arrival(Arrival),
    /// Parameters changed.
    Change {
        /// The instant of event time at which they did.
        at: Instant,
        /// What changed.
        change: Change,
    },
    /// The link follows another trace from now on, or none any more.
    Follow {
        /// The instant of event time from which on it does.
        at: Instant,
        /// What it follows.
        trace: Option<Box<Trace>>,
    },
    /// A packet left.
    Departure(Departure),
    /// A packet was dropped.
    Drop(Dropped),
}

/// A packet as the link saw it. Arrivals are numbered from 1 in each direction; this number is
/// the packet's name in fates and its handle in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The time given to the link.
    pub at: Instant,
    /// Bytes at the IP layer, all segments together. At least 1.
    pub len: u32,
    /// Wire packets. At least 1.
    pub segments: u16,
    /// Hash of the flow.
    pub flow: u32,
    /// Firewall mark.
    pub mark: u32,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// ECN field.
    pub ecn: Ecn,
}

/// A departure as the link decided it.
///
/// `due` and `delay` are both kept although they determine each other for a given arrival: behind
/// a queue `due` does not depend on a packet's own arrival, and an altered arrival would not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The arrival's number.
    pub sequence: u64,
    /// 0 for the packet itself, 1 and up for its duplicates.
    pub copy: u8,
    /// The bit that was flipped.
    pub corrupt: Option<BitFlip>,
    /// When it was to leave.
    pub due: Instant,
    /// From arrival to `due`.
    pub delay: Duration,
    /// Waiting for packets ahead.
    pub queue: Duration,
    /// In service.
    pub serialisation: Duration,
    /// Behind the sender's access rate. What is left of `delay` is propagation.
    pub pacing: Duration,
    /// Congestion mark.
    pub mark: Mark,
    /// Release minus `due` in nanoseconds, `None` when it was never released. The only value of
    /// a log that wall time decided, hence the only one that a replay does not compare.
    pub lateness_ns: Option<i64>,
}

/// A drop as the link decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The arrival's number.
    pub sequence: u64,
    /// 0 for the packet itself, 1 and up for its duplicates.
    pub copy: u8,
    /// Why.
    pub reason: DropReason,
    /// When.
    pub at: Instant,
    /// From arrival to `at`.
    pub delay: Duration,
}

impl Arrival {
    /// The descriptor for a replay, with `sequence` as its handle.
    pub fn packet(&self, sequence: u64) -> Packet {
        let Self { at, len, segments, flow, mark, dscp, ecn } = *self;
        let priority = priority_of(dscp);
        let packet = Packet::on_path(sequence, at, len, flow);
        Packet { segments, mark, dscp, ecn, priority, ..packet }
    }
}

impl From<&Packet> for Arrival {
    fn from(packet: &Packet) -> Self {
        // A path knows no more of a packet; what a sender could add is not in a log.
        let Packet { arrival, len, segments, flow, mark, dscp, ecn, .. } = *packet;
        Self { at: arrival, len, segments, flow, mark, dscp, ecn }
    }
}

impl Departure {
    /// What is left of the delay: the delay line.
    pub fn propagation(&self) -> Duration {
        self.delay.saturating_sub(self.queue + self.serialisation + self.pacing)
    }
}

impl Record {
    /// The record of a fate of packet number `sequence`, released at `released`, if it was.
    pub fn fate(sequence: u64, output: &Output, released: Option<Instant>) -> Self {
        match *output {
            Output::Depart { packet, copy, corrupt, due, mark, stages } => {
                Self::Departure(Departure {
                    sequence,
                    copy,
                    corrupt,
                    due,
                    delay: elapsed(packet.arrival, due),
                    queue: stages.queue,
                    serialisation: stages.serialisation,
                    pacing: stages.pacing,
                    mark,
                    lateness_ns: released.map(|released| released.signed_since(due)),
                })
            }
            Output::Drop { packet, copy, reason, at } => {
                let delay = elapsed(packet.arrival, at);
                Self::Drop(Dropped { sequence, copy, reason, at, delay })
            }
        }
    }
}

/// Modulo 2^64, so that even a fate before its arrival, which cannot be, would show.
fn elapsed(from: Instant, to: Instant) -> Duration {
    Duration::from_nanos(to.as_nanos().wrapping_sub(from.as_nanos()))
}
