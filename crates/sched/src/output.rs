//! What comes out of a link: departures and drops.

use crate::impair::ImpairmentCounts;
use crate::packet::Packet;
use crate::queue::Statistics;
use crate::time::{Duration, Instant};

/// One packet's fate, from [`Link::poll`](crate::Link::poll).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The packet leaves the link at `due`, which may already be past.
    Depart {
        /// The descriptor as it arrived.
        packet: Packet,
        /// 0 for the packet itself, 1 and up for its duplicates.
        copy: u8,
        /// A bit that is flipped, under checksums that were finished before.
        corrupt: Option<BitFlip>,
        /// When it leaves. Never before its arrival; never decreasing from one departure to the
        /// next unless `reorder` asks for it.
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
        /// 0 for the packet itself, 1 and up for its duplicates.
        copy: u8,
        /// Why.
        reason: DropReason,
        /// When it was decided.
        at: Instant,
    },
}

/// The bit of a packet that is flipped, counted from the first bit of its IP header (most
/// significant bit of the first byte) and taken modulo the packet's length in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitFlip(pub u32);

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
    /// Behind the sender's access rate (`nic`), before the queue, and held by the queue for the
    /// flow's own rate or transmit time.
    pub pacing: Duration,
    /// Waiting for the packets ahead of it.
    pub queue: Duration,
    /// In service: from its turn to its last bit.
    pub serialisation: Duration,
    /// In the delay line, jitter and the wait that keeps order included; and latency that a
    /// discipline adds itself.
    pub propagation: Duration,
}

/// Why a packet was dropped. The numbers are those of logs: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// Random loss (`loss`).
    Loss = 0,
    /// The queue was at its `limit`.
    Limit = 1,
    /// Held packets had used up the link's memory: the emulator's own loss.
    HoldFull = 2,
    /// The packet's priority band was at its limit (fq).
    BandLimit = 3,
    /// The packet's flow was at its limit (`fq.flow_limit`).
    FlowLimit = 4,
    /// The packet's transmit time lies beyond the horizon (fq).
    Horizon = 5,
    /// An AQM signals congestion by a drop.
    Congested = 6,
    /// An L4S step would mark, but the packet is not ECN-capable (dualpi2).
    StepNotEct = 7,
    /// The queue was at its memory limit.
    MemoryLimit = 8,
    /// The packet had grown too old (jens).
    Age = 9,
    /// The packet is larger than the token bucket can ever pay for (tbf).
    TooBig = 10,
}

impl DropReason {
    /// Every reason, in the order of [`DropReason::index`].
    pub const ALL: [Self; 11] = [
        Self::Loss,
        Self::Limit,
        Self::HoldFull,
        Self::BandLimit,
        Self::FlowLimit,
        Self::Horizon,
        Self::Congested,
        Self::StepNotEct,
        Self::MemoryLimit,
        Self::Age,
        Self::TooBig,
    ];

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
            Self::BandLimit => "band_limit",
            Self::FlowLimit => "flow_limit",
            Self::Horizon => "horizon",
            Self::Congested => "congested",
            Self::StepNotEct => "step_not_ect",
            Self::MemoryLimit => "memory_limit",
            Self::Age => "age",
            Self::TooBig => "too_big",
        }
    }
}

/// When a link wants to be advanced next, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// No packet can depart before this time.
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
    /// The queue discipline lets a packet go: its pacing time, tokens, slot.
    Queue,
    /// The trace has an opportunity for a packet, or sets values on which one depends.
    Trace,
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
    /// Duplicates made.
    pub duplicated: u64,
    /// Still held: counted by the stages that hold them, so that
    /// `packets_in + duplicated = packets_out + dropped + queued` can fail where a packet was
    /// forgotten.
    pub queued: u64,
    /// Departed with [`Mark::Ce`].
    pub marked: u64,
    /// Departed with a flipped bit.
    pub corrupted: u64,
    /// Left the delay line, or netem, after a packet that had entered it later (RFC 4737), because
    /// impairments reorder; that disciplines serve flows in turn does not count.
    pub reordered: u64,
    /// How often each impairment struck.
    pub impairments: ImpairmentCounts,
    /// Bytes arrived.
    pub bytes_in: u64,
    /// Bytes of the duplicates made.
    pub bytes_duplicated: u64,
    /// Bytes departed.
    pub bytes_out: u64,
    /// Bytes dropped.
    pub bytes_dropped: u64,
    /// Handed out by the queue and served, duplicates that it made included: what entered it is this,
    /// what it dropped, and the backlog.
    pub served_packets: u64,
    /// The same in bytes as the rate counts them.
    pub served_bytes: u64,
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
    /// Opportunities of traces with single deliveries at which packets passed, or parts of them.
    pub opportunities_used: u64,
    /// Those at which none did: nothing waited, or nothing that the queue let go.
    pub opportunities_wasted: u64,
    /// The queue discipline's own counters.
    pub discipline: Statistics,
}

impl Snapshot {
    /// Adds the counters of a link that stands beside this one. Peaks add up as if they had been at
    /// one time, which is the most that they can have been together; a discipline's own counters
    /// are left as they are, since links with a discipline of their own do not stand side by side.
    pub fn add(&mut self, other: &Self) {
        // Without `..`, so that a new counter cannot be forgotten here.
        let Self {
            packets_in,
            packets_out,
            dropped,
            duplicated,
            queued,
            marked,
            corrupted,
            reordered,
            impairments,
            bytes_in,
            bytes_duplicated,
            bytes_out,
            bytes_dropped,
            served_packets,
            served_bytes,
            backlog_packets,
            backlog_bytes,
            backlog_peak_bytes,
            held_bytes,
            held_peak_bytes,
            opportunities_used,
            opportunities_wasted,
            discipline: _,
        } = other;
        self.packets_in += packets_in;
        self.packets_out += packets_out;
        self.dropped.iter_mut().zip(dropped).for_each(|(sum, more)| *sum += more);
        self.duplicated += duplicated;
        self.queued += queued;
        self.marked += marked;
        self.corrupted += corrupted;
        self.reordered += reordered;
        self.impairments.add(impairments);
        self.bytes_in += bytes_in;
        self.bytes_duplicated += bytes_duplicated;
        self.bytes_out += bytes_out;
        self.bytes_dropped += bytes_dropped;
        self.served_packets += served_packets;
        self.served_bytes += served_bytes;
        self.backlog_packets += backlog_packets;
        self.backlog_bytes += backlog_bytes;
        self.backlog_peak_bytes += backlog_peak_bytes;
        self.held_bytes += held_bytes;
        self.held_peak_bytes += held_peak_bytes;
        self.opportunities_used += opportunities_used;
        self.opportunities_wasted += opportunities_wasted;
    }
}
