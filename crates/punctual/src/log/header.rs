//! The header: all that a replay needs besides the records.

use std::collections::BTreeMap;

use punctual_sched::trace::Trace;
use punctual_sched::{ConfigError, Instant, LinkConfig};
use serde::{Deserialize, Serialize};

use super::{Direction, LaneId};

/// The first frame of a log, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`Header::SCHEMA`].
    pub schema: String,
    /// Version of the program that wrote it.
    pub tool: String,
    /// Name of the run.
    pub run: String,
    /// What link time 0 was on the clocks.
    pub epoch: Epoch,
    /// From the command to its peer.
    pub up: DirectionHeader,
    /// From the peer to the command.
    pub down: DirectionHeader,
}

/// Link time 0 on the clocks of the run's host; for people and other captures, not for a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME` in nanoseconds since 1970.
    pub realtime_ns: u64,
}

/// What a direction's link was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectionHeader {
    /// Of the link's random numbers.
    pub seed: u64,
    /// Link time at which it came to life.
    pub start_ns: u64,
    /// Its parameters.
    pub link: LinkRecord,
    /// Seeds of more lanes beside the first, whose seed is above: links with the same parameters,
    /// among which flows are divided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<u64>,
    /// Whether it followed a trace from then on, whose frames then follow the header.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub follows: bool,
    /// The trace.
    #[serde(skip)]
    pub trace: Option<Trace>,
}

/// A [`LinkConfig`] by its parameters' names, each value as it is written; values print exactly.
///
/// Unknown names are refused: a replay that ignored a parameter would be another link. Those that
/// are missing have their defaults, which are how links behaved before they existed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkRecord(pub BTreeMap<String, String>);

impl Header {
    /// Name and version of the header's layout.
    pub const SCHEMA: &str = "punctual.log/1";

    /// Of one direction.
    pub fn direction(&self, direction: Direction) -> &DirectionHeader {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    pub(super) fn direction_mut(&mut self, direction: Direction) -> &mut DirectionHeader {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    /// All lanes, those of up first.
    pub fn lane_ids(&self) -> impl Iterator<Item = LaneId> {
        Direction::BOTH.into_iter().flat_map(|way| self.direction(way).lane_ids(way))
    }

    /// Something for each lane, by direction and the lane's index.
    pub(crate) fn for_lanes<T>(&self, mut make: impl FnMut(LaneId) -> T) -> [Vec<T>; 2] {
        Direction::BOTH.map(|way| self.direction(way).lane_ids(way).map(&mut make).collect())
    }

    /// What is wrong with the lanes that it names.
    pub(super) fn lanes_problem(&self) -> Option<String> {
        Direction::BOTH.into_iter().find_map(|direction| {
            let header = self.direction(direction);
            let (name, lanes) = (direction.name(), header.lane_count());
            if lanes > usize::from(LaneId::MOST) {
                return Some(format!(
                    "direction {name} has {lanes} lanes, {} at most",
                    LaneId::MOST
                ));
            }
            let several = header.follows && lanes > 1;
            several.then(|| format!("direction {name} has lanes, and a trace for all of them"))
        })
    }

    /// The header of a log that this program writes.
    pub fn new(run: &str, epoch: Epoch, up: DirectionHeader, down: DirectionHeader) -> Self {
        let tool = env!("CARGO_PKG_VERSION").to_owned();
        Self { schema: Self::SCHEMA.to_owned(), tool, run: run.to_owned(), epoch, up, down }
    }
}

impl DirectionHeader {
    /// Of a link made by `Link::new(config, seed, start)`.
    pub fn new(config: &LinkConfig, seed: u64, start: Instant) -> Self {
        let (start_ns, trace) = (start.as_nanos(), config.trace.clone());
        let (lanes, follows) = (Vec::new(), trace.is_some());
        Self { seed, start_ns, link: config.into(), lanes, follows, trace }
    }

    /// Seeds of all lanes; a direction has at least one.
    pub fn seeds(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.seed).chain(self.lanes.iter().copied())
    }

    /// How many there are.
    pub fn lane_count(&self) -> usize {
        1 + self.lanes.len()
    }

    /// Its lanes in order, as those of `direction`; at most [`LaneId::MOST`] are named.
    pub fn lane_ids(&self, direction: Direction) -> impl Iterator<Item = LaneId> + use<> {
        let last = u8::try_from(self.lanes.len()).unwrap_or(u8::MAX).min(LaneId::MOST - 1);
        (0..=last).map(move |index| LaneId { direction, index })
    }

    /// The configuration of its link.
    pub fn config(&self) -> Result<LinkConfig, ConfigError> {
        self.link.config(self.trace.clone())
    }
}

impl From<&LinkConfig> for LinkRecord {
    fn from(config: &LinkConfig) -> Self {
        let all = config.all_entries().into_iter();
        Self(all.map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

impl TryFrom<&LinkRecord> for LinkConfig {
    type Error = ConfigError;

    /// Of a link that follows no trace.
    fn try_from(record: &LinkRecord) -> Result<Self, ConfigError> {
        record.config(None)
    }
}

impl LinkRecord {
    fn config(&self, trace: Option<Trace>) -> Result<LinkConfig, ConfigError> {
        let entries = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        LinkConfig::from_entries(entries, trace)
    }
}
