//! The trace that a link follows.

use serde::{Deserialize, Serialize};

/// A trace that is followed, and where in it the link is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowedTrace {
    /// Its file, format, span, mean rate and checksum.
    pub text: String,
    /// `steps` or `deliveries`.
    pub course: String,
    /// Whether it decides the rate, or delays and losses only.
    pub paces: bool,
    /// How long a round lasts.
    pub span_ns: u64,
    /// It begins anew at its end.
    pub repeats: bool,
    /// Whether it has begun, and ended.
    pub state: TraceState,
    /// Rounds that are over.
    pub rounds: u64,
    /// Where in the round, from its beginning.
    pub at_ns: u64,
}

impl FollowedTrace {
    /// Nothing passes any more: single deliveries have come to their end.
    pub fn is_spent(&self) -> bool {
        self.state == TraceState::Ended && self.course == "deliveries"
    }
}

/// Whether a trace has begun, and ended; in JSON in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceState {
    /// For the first packet.
    Waiting,
    /// It is followed.
    Running,
    /// It does not repeat, and its end has come.
    Ended,
}
