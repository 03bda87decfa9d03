//! The stable words of verdicts.

use super::Finding;
use serde::{Deserialize, Serialize};

/// What spoiled a run; in JSON in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The driver did not look at its queue for longer than 2 s while packets came.
    Stalled,
    /// The driver had more to do than one processor does.
    Overloaded,
    /// The driver waited for a processor for more than 1 % of the run while departures were late.
    Starved,
    /// The hypervisor ran others while departures were late.
    Steal,
    /// The real-time clock was stepped and arrival stamps had to be replaced.
    ClockStep,
    /// Packets lost because the NFQUEUE socket's receive buffer was full.
    ReceiveBuffer,
    /// Packets lost because the NFQUEUE was full.
    NfqueueFull,
    /// Packets lost because a message of the kernel's was not understood.
    Malformed,
    /// Packets lost because the gate took them for larger than the MTU.
    GateTooBig,
    /// Packets lost because the delay line's memory was full.
    HoldFull,
    /// Packets past due lost because they could not be released in time.
    OverdueFull,
    /// Packets released by us and thrown away by the kernel.
    FlushedByKernel,
    /// Duplicates or flipped bits did not get onto the wire.
    CopiesFailed,
    /// Packets dropped at our own network devices.
    DeviceDrops,
    /// More than 1 % of departures were later than the tolerance.
    Late,
    /// The report's own counts do not add up.
    Unbalanced,
    /// The independent witness disagrees.
    Witness,
}

impl Reason {
    /// The word as in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stalled => "stalled",
            Self::Overloaded => "overloaded",
            Self::Starved => "starved",
            Self::Steal => "steal",
            Self::ClockStep => "clock_step",
            Self::ReceiveBuffer => "receive_buffer",
            Self::NfqueueFull => "nfqueue_full",
            Self::Malformed => "malformed",
            Self::GateTooBig => "gate_too_big",
            Self::HoldFull => "hold_full",
            Self::OverdueFull => "overdue_full",
            Self::FlushedByKernel => "flushed_by_kernel",
            Self::CopiesFailed => "copies_failed",
            Self::DeviceDrops => "device_drops",
            Self::Late => "late",
            Self::Unbalanced => "unbalanced",
            Self::Witness => "witness",
        }
    }

    pub(super) fn because(self, text: impl Into<String>) -> Finding<Self> {
        Finding { word: self, text: text.into() }
    }
}

/// What a reader should know although it spoiled nothing; in JSON in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// No packet reached the link.
    NoPackets,
    /// Packets came, none left.
    NoDepartures,
    /// Too few departures for a 99.9th percentile.
    FewPackets,
    /// The hypervisor ran others, but departures were on time.
    Steal,
    /// The real-time clock was stepped, but no packet was touched.
    ClockStep,
    /// Arrival stamps were replaced although no step of the clock was seen.
    StampsReplaced,
    /// The log lost records.
    LogIncomplete,
    /// The peer ended before the command.
    PeerEndedEarly,
    /// Packets were still held when the run ended.
    CutOff,
    /// The independent witness agrees.
    WitnessAgrees,
    /// The independent witness saw too little to tell.
    WitnessCannotTell,
    /// Bursts of UDP crossed uncut, so that packets are an estimate.
    UdpBursts,
    /// Something in the control block was no value, or no link can have it.
    IgnoredStores,
    /// A discipline or a limit in a direction without a rate, where nothing ever waits.
    IdleQueue,
}

impl Note {
    /// The word as in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoPackets => "no_packets",
            Self::NoDepartures => "no_departures",
            Self::FewPackets => "few_packets",
            Self::Steal => "steal",
            Self::ClockStep => "clock_step",
            Self::StampsReplaced => "stamps_replaced",
            Self::LogIncomplete => "log_incomplete",
            Self::PeerEndedEarly => "peer_ended_early",
            Self::CutOff => "cut_off",
            Self::WitnessAgrees => "witness_agrees",
            Self::WitnessCannotTell => "witness_cannot_tell",
            Self::UdpBursts => "udp_bursts",
            Self::IgnoredStores => "ignored_stores",
            Self::IdleQueue => "idle_queue",
        }
    }

    pub(super) fn because(self, text: impl Into<String>) -> Finding<Self> {
        Finding { word: self, text: text.into() }
    }
}
