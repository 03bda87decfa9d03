//! What a link does over time: one canonical timeline, whatever file or generator it came from.
//!
//! * [`Timeline`]: what happens when, as readers of files make it
//! * [`Schedule`]: a timeline that was checked, as links follow it
//! * [`Trace`]: a schedule and how it is followed
//! * [`TraceOptions`]: a link's `trace` parameters

use std::sync::Arc;

use crate::time::Duration;
use crate::units::{Probability, Rate};

mod cursor;
mod figures;
mod follower;
mod options;
mod rates;
mod scale;
mod schedule;
mod tally;
mod track;

pub use follower::Position;
pub(crate) use follower::{Delivered, Follower, Passed};
pub use options::{TraceMode, TraceOptions, TracePacket};
pub(crate) use schedule::{Bounds, Values};
pub use schedule::{Schedule, ScheduleBuilder, TimelineError};

/// A timeline that a link follows, as it is carried out: what happens when, from when on, and what
/// comes after the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// What happens, and for how long. Shared: a trace of hours is read once.
    pub schedule: Arc<Schedule>,
    /// When it begins.
    pub start: TraceStart,
    /// Begins anew at its end, at [`Timeline::span`]; else the last values stay, and after the last
    /// delivery nothing is delivered any more.
    pub repeat: bool,
    /// Where in the timeline it begins; taken modulo the span.
    pub offset: Duration,
    /// Bytes that each packet counts beside its IP length, in place of `framing` and `overhead`:
    /// those of the opportunities, also where these have become rates.
    pub per_packet: Option<u32>,
}

impl Trace {
    /// Follows `schedule` from its beginning with the first packet, once.
    pub fn new(schedule: Arc<Schedule>) -> Self {
        let per_packet = schedule.opportunity().map(|opportunity| opportunity.per_packet);
        let (start, offset) = (TraceStart::default(), Duration::ZERO);
        Self { schedule, start, repeat: false, offset, per_packet }
    }
}

/// When a link begins to follow its trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceStart {
    /// With the first packet that arrives, so that the time a program takes to start does not
    /// matter (default). Until then the values of the first step are in force.
    #[default]
    FirstPacket,
    /// When the link comes to life, or when it is told to follow the trace.
    AtOnce,
}

/// What happens over time, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// What happens.
    pub course: Course,
    /// How long it lasts: where it repeats, the end of one round is the beginning of the next.
    /// Above 0, and not before the last entry.
    pub span: Duration,
}

/// The two kinds of timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Course {
    /// Values that hold until they are replaced.
    Steps(Vec<Step>),
    /// Single deliveries, as Mahimahi's: at each the link may pass so many bytes, and what is not
    /// used is wasted.
    Deliveries {
        /// In order of time, each time once.
        at: Vec<Delivery>,
        /// What one opportunity carries.
        opportunity: Opportunity,
    },
}

/// New values from `at` on; what is `None` stays as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// When, from the beginning of the timeline. Not before the step before; may be equal, then
    /// the later one wins.
    pub at: Duration,
    /// New `rate`; [`Rate::PAUSE`] is an outage.
    pub rate: Option<Rate>,
    /// New `delay`.
    pub delay: Option<Duration>,
    /// New random loss.
    pub loss: Option<Probability>,
}

/// `count` opportunities at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When, from the beginning of the timeline.
    pub at: Duration,
    /// How many, at least one.
    pub count: u32,
}

/// What one opportunity carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opportunity {
    /// Bytes in all.
    pub bytes: u32,
    /// Bytes that each packet counts beside its IP length, in place of `framing` and `overhead`.
    pub per_packet: u32,
}

impl Opportunity {
    /// As Mahimahi's code counts: 1,504 bytes, 4 of them for each packet's TUN header.
    pub const MAHIMAHI: Self = Self { bytes: 1_504, per_packet: 4 };
    /// As its manual says: 1,500 bytes at the IP layer.
    pub const IP: Self = Self { bytes: 1_500, per_packet: 0 };
}
