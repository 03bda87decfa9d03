//! How the flows of a direction were divided among threads.

use serde::{Deserialize, Serialize};

/// The lanes of a direction. A flow stays on one; each lane has a link of its own with the same
/// parameters, and the direction's figures are those of all lanes together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lanes {
    /// How many `--threads` asked for.
    pub asked: u64,
    /// Why there is one where more were asked for: the parameter that flows share, or what is
    /// missing. Null otherwise.
    pub single_because: Option<String>,
    /// Each.
    pub each: Vec<Lane>,
}

/// One lane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// Its thread, one of `run.threads`.
    pub thread: String,
    /// Arrivals, wire segments.
    pub packets_in: u64,
    /// Departures.
    pub packets_out: u64,
    /// Drops for all reasons.
    pub packets_dropped: u64,
    /// Still held at the end.
    pub packets_queued: u64,
    /// Lost before the link saw them, because the socket's receive buffer was full.
    pub receive_buffer_lost: u64,
    /// 99 % of its departures were at most this late; null without any.
    pub lateness_p99_ns: Option<i64>,
}
