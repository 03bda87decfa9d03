//! The header: all that a replay needs besides the records.

use punctual_sched::config::{Gso, Limit, LossAt, QueueKind};
use punctual_sched::units::Probability;
use punctual_sched::{ConfigError, Duration, Instant, LinkConfig, Rate};
use serde::{Deserialize, Serialize};

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
}

/// A [`LinkConfig`] as plain integers: exact, and independent of the text that people write.
///
/// Unknown fields are refused: a replay that ignored a parameter would be another link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkRecord {
    /// 0 = pause, 2^64 - 1 = unlimited.
    pub rate_bps: u64,
    /// Added to each wire packet.
    pub framing_bytes: u32,
    /// Added on top; may be negative.
    pub overhead_bytes: i32,
    /// `null` = pure serialisation.
    pub burst_bytes: Option<u32>,
    /// `null` = none.
    pub peakrate_bps: Option<u64>,
    /// `null` = none.
    pub nic_bps: Option<u64>,
    /// Propagation delay.
    pub delay_ns: u64,
    /// Half the width of its spread.
    pub jitter_ns: u64,
    /// Threshold on 32 random bits.
    pub loss_raw: u32,
    /// `before` or `after` the queue.
    pub loss_at: String,
    /// The discipline.
    pub queue: String,
    /// `null` = the default for the rate.
    pub limit: Option<LimitRecord>,
    /// `split`, `keep` or `auto`.
    pub gso: String,
    /// Memory that packets may hold.
    pub hold_bytes: u64,
}

/// A [`Limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitRecord {
    /// Wire packets.
    Packets(u32),
    /// Bytes as the rate counts them.
    Bytes(u64),
    /// Nanoseconds at the configured rate.
    TimeNs(u64),
}

impl Header {
    /// Name and version of the header's layout.
    pub const SCHEMA: &str = "punctual.log/1";

    /// The header of a log that this program writes.
    pub fn new(run: &str, epoch: Epoch, up: DirectionHeader, down: DirectionHeader) -> Self {
        let tool = env!("CARGO_PKG_VERSION").to_owned();
        Self { schema: Self::SCHEMA.to_owned(), tool, run: run.to_owned(), epoch, up, down }
    }
}

impl DirectionHeader {
    /// Of a link made by `Link::new(config, seed, start)`.
    pub fn new(config: &LinkConfig, seed: u64, start: Instant) -> Self {
        Self { seed, start_ns: start.as_nanos(), link: config.into() }
    }
}

impl From<&LinkConfig> for LinkRecord {
    fn from(config: &LinkConfig) -> Self {
        // Without `..`, so that a new parameter cannot be forgotten here.
        let LinkConfig {
            rate,
            framing,
            overhead,
            burst,
            peakrate,
            nic,
            delay,
            jitter,
            loss,
            loss_at,
            queue,
            limit,
            gso,
            hold_limit,
        } = config;
        Self {
            rate_bps: rate.as_bps(),
            framing_bytes: *framing,
            overhead_bytes: *overhead,
            burst_bytes: *burst,
            peakrate_bps: peakrate.map(Rate::as_bps),
            nic_bps: nic.map(Rate::as_bps),
            delay_ns: delay.as_nanos(),
            jitter_ns: jitter.as_nanos(),
            loss_raw: loss.as_raw(),
            loss_at: word(&LOSS_AT, *loss_at).to_owned(),
            queue: word(&QUEUE, *queue).to_owned(),
            limit: limit.map(Into::into),
            gso: word(&GSO, *gso).to_owned(),
            hold_bytes: *hold_limit,
        }
    }
}

impl TryFrom<&LinkRecord> for LinkConfig {
    type Error = ConfigError;

    fn try_from(record: &LinkRecord) -> Result<Self, ConfigError> {
        Ok(Self {
            rate: rate("rate_bps", record.rate_bps)?,
            framing: record.framing_bytes,
            overhead: record.overhead_bytes,
            burst: record.burst_bytes,
            peakrate: record.peakrate_bps.map(|bps| rate("peakrate_bps", bps)).transpose()?,
            nic: record.nic_bps.map(|bps| rate("nic_bps", bps)).transpose()?,
            delay: Duration::from_nanos(record.delay_ns),
            jitter: Duration::from_nanos(record.jitter_ns),
            loss: Probability::from_raw(record.loss_raw),
            loss_at: value("loss_at", &LOSS_AT, &record.loss_at)?,
            queue: value("queue", &QUEUE, &record.queue)?,
            limit: record.limit.map(Into::into),
            gso: value("gso", &GSO, &record.gso)?,
            hold_limit: record.hold_bytes,
        })
    }
}

impl From<Limit> for LimitRecord {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Packets(packets) => Self::Packets(packets),
            Limit::Bytes(bytes) => Self::Bytes(bytes),
            Limit::Time(span) => Self::TimeNs(span.as_nanos()),
        }
    }
}

impl From<LimitRecord> for Limit {
    fn from(record: LimitRecord) -> Self {
        match record {
            LimitRecord::Packets(packets) => Self::Packets(packets),
            LimitRecord::Bytes(bytes) => Self::Bytes(bytes),
            LimitRecord::TimeNs(nanos) => Self::Time(Duration::from_nanos(nanos)),
        }
    }
}

fn rate(place: &str, bps: u64) -> Result<Rate, ConfigError> {
    Rate::from_bps(bps).ok_or_else(|| {
        ConfigError::new(place, format!("{bps} is not 0 to 1000000000000 or 2^64 - 1"))
    })
}

fn word<T: Copy + PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    let found = words.iter().find(|(_, known)| *known == value);
    found.map_or("unknown", |(word, _)| word)
}

fn value<T: Copy>(place: &str, words: &[(&str, T)], word: &str) -> Result<T, ConfigError> {
    let found = words.iter().find(|(known, _)| *known == word);
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| ConfigError::new(place, format!("`{word}` is not known to this version")))
}

const LOSS_AT: [(&str, LossAt); 2] = [("before", LossAt::Before), ("after", LossAt::After)];
const QUEUE: [(&str, QueueKind); 1] = [("fifo", QueueKind::Fifo)];
const GSO: [(&str, Gso); 3] = [("split", Gso::Split), ("keep", Gso::Keep), ("auto", Gso::Auto)];
