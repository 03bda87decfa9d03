//! One direction of a link.

use crate::config::{Change, ConfigError, LinkConfig};
use crate::output::{Deadline, Output, Snapshot};
use crate::packet::Packet;
use crate::time::Instant;

/// One direction of a link.
#[derive(Debug)]
pub struct Link {}

#[expect(unused_variables, clippy::unused_self, reason = "replaced by the implementation")]
impl Link {
    /// A link at rest at `start`.
    pub fn new(config: &LinkConfig, seed: u64, start: Instant) -> Result<Self, ConfigError> {
        Ok(Self {})
    }

    /// A packet arrives at `packet.arrival`.
    pub fn arrive(&mut self, packet: Packet) {}

    /// Takes every decision with time <= `to`.
    pub fn advance(&mut self, to: Instant) {}

    /// The next fate.
    pub fn poll(&mut self) -> Option<Output> {
        None
    }

    /// When, and why.
    pub fn next_event(&self) -> Option<Deadline> {
        None
    }

    /// Changes parameters at `at`.
    pub fn change(&mut self, change: &Change, at: Instant) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Counters.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }
}
