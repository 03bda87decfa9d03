//! What speaks against the account, in words.

use std::fmt;

use crate::units::plural;

/// One thing that speaks against the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// Numbers of probes differ between two neighbouring stages.
    Count {
        /// Between which.
        stage: Stage,
        /// Probes that are missing behind it, or appear behind it from nowhere.
        probes: u64,
        /// The lowest number among them.
        first_seq: u64,
    },
    /// The median of a difference is out of bounds.
    Median {
        /// Which.
        difference: Difference,
        /// The median in ns.
        p50_ns: i64,
        /// What was allowed, either way, in ns.
        bound_ns: u64,
    },
}

/// One reason for which the witness cannot tell whether the account is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untold {
    /// There is nothing to compare times by.
    NoSamples {
        /// Which difference has none.
        difference: Difference,
    },
    /// Observers lost probes themselves.
    ObserversLost {
        /// How many.
        probes: u64,
    },
}

/// Two neighbouring stages on the way of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The sender and the capture before the gate.
    SenderToGate,
    /// The capture before the gate and the driver's arrivals.
    GateToAccount,
    /// The driver's departures and the capture after the gate.
    AccountToGate,
    /// The capture after the gate and the receiver.
    GateToReceiver,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SenderToGate => "between the sender and the capture before the gate",
            Self::GateToAccount => "between the capture before the gate and the driver's arrivals",
            Self::AccountToGate => "between the driver's departures and the capture after the gate",
            Self::GateToReceiver => "between the capture after the gate and the receiver",
        })
    }
}

/// A difference between two stamps of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// [`Findings::arrival_error`](super::Findings::arrival_error).
    Arrival,
    /// [`Findings::release_error`](super::Findings::release_error).
    Departure,
    /// [`Findings::path_beyond_account`](super::Findings::path_beyond_account).
    Path,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Arrival => "capture before the gate minus driver's arrival",
            Self::Departure => "capture after the gate minus driver's release",
            Self::Path => "sender to receiver minus the delay in the account",
        })
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { stage, probes, first_seq } => {
                let (probes, differ) =
                    (plural(*probes, "probe"), if *probes == 1 { "differs" } else { "differ" });
                write!(f, "{probes} {differ} {stage}, the first is number {first_seq}")
            }
            Self::Median { difference, p50_ns, bound_ns } => write!(
                f,
                "{difference}: {p50_ns} ns at the median, at most {bound_ns} ns either way expected"
            ),
        }
    }
}

impl fmt::Display for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSamples { difference } => write!(f, "{difference}: not one probe has both"),
            Self::ObserversLost { probes } => {
                write!(
                    f,
                    "the observers lost {} for want of buffer: no proof either way",
                    plural(*probes, "probe")
                )
            }
        }
    }
}
