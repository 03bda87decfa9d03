//! What an independent witness saw of the same packets.

use crate::distribution::Distribution;
use crate::spacing::Spacing;
use serde::{Deserialize, Serialize};

/// Numbered UDP packets with the sender's stamp, kernel stamps at the receiver, captures on both
/// sides of the gate: nothing of it passes through the scheduler's own accounting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// Packets sent.
    pub sent: u64,
    /// Received, duplicates not counted.
    pub received: u64,
    /// Received again.
    pub duplicated: u64,
    /// Received after one with a higher number (RFC 4737).
    pub reordered: u64,
    /// Sent, not received, and not among the packets the report calls dropped, queued or lost.
    pub lost_unexplained: u64,
    /// Capture before the gate minus the arrival in the report.
    pub arrival_error: Distribution,
    /// Capture behind the gate minus the due time in the report.
    pub departure_error: Distribution,
    /// Receiver's kernel stamp minus the sender's stamp.
    pub one_way_delay: Distribution,
    /// The same over the bare path, taken alternately.
    pub bare_one_way_delay: Option<Distribution>,
    /// Spacing at the receiver, where the link was saturated.
    pub spacing: Option<Spacing>,
    /// What speaks against the report, in words.
    pub disagreements: Vec<String>,
    /// Why the witness cannot tell, in words; nothing of it speaks against the report.
    #[serde(default)]
    pub untold: Vec<String>,
    /// Whether the witness agrees with the report. False without disagreements: it cannot tell.
    pub ok: bool,
}
