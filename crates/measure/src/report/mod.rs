//! The report of a run: schema `punctual.report/1`.
//!
//! Integers only, the unit in the key, null where there is nothing to say, keys in the order of
//! the fields here. Keys may be added to version 1; none changes its meaning or goes.

mod direction;
mod host;
mod ignored;
mod impairments;
mod lanes;
mod run;
mod text;
mod trace;
mod witness;

pub use direction::{
    Bytes, Change, Delays, Device, Direction, Flow, FlowRest, LostBefore, MAX_CHANGES,
    Opportunities, Packets, Queue, Rate, RuleCounter, Stamps, Wakes, keep_top_flows,
};
pub use host::{Granted, Host};
pub use ignored::{IgnoredStore, IgnoredStores, MAX_IGNORED};
pub use impairments::{Impairments, Jitter, Share};
pub use lanes::{Lane, Lanes};
pub(crate) use run::share_ppm;
pub use run::{Log, Peer, Run, Thread};
pub use text::{queues, text};
pub use trace::{FollowedTrace, TraceState};
pub use witness::Witness;

use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};

/// The value of [`Report::schema`].
pub const SCHEMA: &str = "punctual.report/1";

/// Everything a run says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// What wrote the report.
    pub tool: Tool,
    /// The machine it ran on.
    pub host: Host,
    /// What was run, and what that cost.
    pub run: Run,
    /// Whether the run can be believed, and down to where.
    pub verdict: Verdict,
    /// The two directions of the link.
    pub directions: Directions,
    /// Independent measurements of the same packets; null unless asked for.
    pub witness: Option<Witness>,
}

/// The program that wrote a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// `punctual`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Both directions, seen from the command that was run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directions {
    /// From the command to the peer.
    pub up: Direction,
    /// From the peer to the command.
    pub down: Direction,
}

impl Directions {
    /// Both, with their names.
    pub fn named(&self) -> [(&'static str, &Direction); 2] {
        [("up", &self.up), ("down", &self.down)]
    }
}
