//! The trailer: how the run ended and whether the log holds all of it.

use std::collections::BTreeMap;

use punctual_sched::{DropReason, Instant, Snapshot};
use serde::{Deserialize, Serialize};

use super::{Direction, LaneId};

/// The last frame of a log, as JSON. A log without one belongs to a run that goes on, or was killed,
/// or whose disk had no room left even for this, or whose pipe had no reader for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trailer {
    /// Whether every record of the run is in the log and both directions were ended.
    pub complete: bool,
    /// Why writing to the file ended early, as the end of a sentence: `the disk was full`.
    pub error: Option<String>,
    /// From the command to its peer.
    pub up: DirectionTrailer,
    /// From the peer to the command.
    pub down: DirectionTrailer,
}

/// The end of one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionTrailer {
    /// Records in the log.
    pub records: u64,
    /// Records that came after the last one in the log and were only counted.
    pub unwritten: u64,
    /// `null` when the run broke off before it ended the direction.
    pub end: Option<EndRecord>,
    /// The same of more lanes beside the first, which is told above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<Self>,
}

/// A direction's link when it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndRecord {
    /// The last time given to the link, by `advance`.
    pub end_ns: u64,
    /// Its counters at that time.
    pub snapshot: SnapshotRecord,
}

/// A [`Snapshot`] by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of `Snapshot`")]
pub struct SnapshotRecord {
    pub packets_in: u64,
    pub packets_out: u64,
    pub dropped: BTreeMap<String, u64>,
    pub duplicated: u64,
    pub queued: u64,
    pub marked: u64,
    pub corrupted: u64,
    pub reordered: u64,
    /// How often each impairment struck.
    pub impairments: BTreeMap<String, u64>,
    pub bytes_in: u64,
    pub bytes_duplicated: u64,
    pub bytes_out: u64,
    pub bytes_dropped: u64,
    pub backlog_packets: u64,
    pub backlog_bytes: u64,
    pub backlog_peak_bytes: u64,
    pub held_bytes: u64,
    pub held_peak_bytes: u64,
    /// Logs of versions that did not count them have none.
    #[serde(default)]
    pub opportunities_used: u64,
    #[serde(default)]
    pub opportunities_wasted: u64,
    /// The queue discipline's own, by the names that `tc` gives them.
    pub discipline: BTreeMap<String, u64>,
}

impl Trailer {
    /// Whether it says of itself that it cannot be: complete and not, or an end at a time of no
    /// clock.
    pub fn contradicts_itself(&self) -> bool {
        let lanes = || [&self.up, &self.down].into_iter().flat_map(DirectionTrailer::each);
        let lacks = |lane: &DirectionTrailer| lane.unwritten > 0 || lane.end.is_none();
        let ends = lanes().filter_map(|lane| lane.end.as_ref());
        let beyond = ends.map(|end| end.end_ns).any(|end| end > LATEST_NS);
        let nested = [&self.up, &self.down].into_iter().flat_map(|way| &way.lanes);
        let nested = nested.into_iter().any(|lane| !lane.lanes.is_empty());
        beyond || nested || self.complete && (self.error.is_some() || lanes().any(lacks))
    }

    /// Of one lane; `None` where the direction has no such lane.
    pub fn lane(&self, lane: LaneId) -> Option<&DirectionTrailer> {
        self.direction(lane.direction).each().nth(lane.at())
    }

    /// Of one direction.
    pub fn direction(&self, direction: Direction) -> &DirectionTrailer {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

impl DirectionTrailer {
    /// Of each lane, the first of which is this.
    pub fn each(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.lanes)
    }

    /// Records of all lanes that were only counted.
    pub fn all_unwritten(&self) -> u64 {
        self.each().fold(0, |sum, lane| sum.saturating_add(lane.unwritten))
    }
}

/// `1 record was not written`
pub(crate) fn not_written(records: u64) -> String {
    match records {
        1 => "1 record was not written".to_owned(),
        _ => format!("{records} records were not written"),
    }
}

impl EndRecord {
    /// Of a link that was last advanced to `end`.
    pub fn new(end: Instant, snapshot: &Snapshot) -> Self {
        Self { end_ns: end.as_nanos(), snapshot: snapshot.into() }
    }
}

impl SnapshotRecord {
    /// Every counter with its name, in the order of the struct.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let dropped = self.dropped.iter().map(|(reason, n)| (format!("dropped.{reason}"), *n));
        let struck = self.impairments.iter().map(|(name, n)| (format!("impairments.{name}"), *n));
        let own = self.discipline.iter().map(|(name, n)| (format!("discipline.{name}"), *n));
        [("packets_in", self.packets_in), ("packets_out", self.packets_out)]
            .map(named)
            .into_iter()
            .chain(dropped)
            .chain(
                [
                    ("duplicated", self.duplicated),
                    ("queued", self.queued),
                    ("marked", self.marked),
                    ("corrupted", self.corrupted),
                    ("reordered", self.reordered),
                    ("bytes_in", self.bytes_in),
                    ("bytes_duplicated", self.bytes_duplicated),
                    ("bytes_out", self.bytes_out),
                    ("bytes_dropped", self.bytes_dropped),
                    ("backlog_packets", self.backlog_packets),
                    ("backlog_bytes", self.backlog_bytes),
                    ("backlog_peak_bytes", self.backlog_peak_bytes),
                    ("held_bytes", self.held_bytes),
                    ("held_peak_bytes", self.held_peak_bytes),
                    ("opportunities_used", self.opportunities_used),
                    ("opportunities_wasted", self.opportunities_wasted),
                ]
                .map(named),
            )
            .chain(struck)
            .chain(own)
            .collect()
    }
}

/// 2^63 - 1 ns, 292 years: as far as the kernel's clocks go.
const LATEST_NS: u64 = i64::MAX as u64;

fn named((name, value): (&str, u64)) -> (String, u64) {
    (name.to_owned(), value)
}

impl From<&Snapshot> for SnapshotRecord {
    fn from(snapshot: &Snapshot) -> Self {
        // Without `..`, so that a new counter cannot be forgotten here.
        let Snapshot {
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
            // Follow from the others.
            served_packets: _,
            served_bytes: _,
            backlog_packets,
            backlog_bytes,
            backlog_peak_bytes,
            held_bytes,
            held_peak_bytes,
            opportunities_used,
            opportunities_wasted,
            discipline,
        } = *snapshot;
        let own = discipline.counters().into_iter().map(named);
        let by_name = |reason: DropReason| (reason.name().to_owned(), dropped[reason.index()]);
        Self {
            packets_in,
            packets_out,
            dropped: DropReason::ALL.into_iter().map(by_name).collect(),
            duplicated,
            queued,
            marked,
            corrupted,
            reordered,
            impairments: impairments.counters().map(named).into(),
            bytes_in,
            bytes_duplicated,
            bytes_out,
            bytes_dropped,
            backlog_packets,
            backlog_bytes,
            backlog_peak_bytes,
            held_bytes,
            held_peak_bytes,
            opportunities_used,
            opportunities_wasted,
            discipline: own.collect(),
        }
    }
}
