//! A link's `trace` parameters.

use std::sync::Arc;

use super::{Opportunity, Schedule, Timeline, TimelineError, Trace, TraceStart};
use crate::time::Duration;
use crate::units::Factor;

/// A link's `trace` parameters as they were written. What the file holds is put beside them, as
/// [`LinkConfig::trace`](crate::LinkConfig), by whoever reads files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceOptions {
    /// `trace`: the file. `None` = none.
    pub file: Option<Arc<str>>,
    /// `trace.start`: when it begins.
    pub start: TraceStart,
    /// `trace.loop`: whether it repeats. `None` = as the format means it.
    pub repeat: Option<bool>,
    /// `trace.scale`: factor of the rates.
    pub scale: Factor,
    /// `trace.offset`: where in the timeline it begins.
    pub offset: Duration,
    /// `trace.mode`: single deliveries as they are, or as rates.
    pub mode: TraceMode,
    /// `trace.packet`: what one opportunity of a packet delivery trace carries.
    pub packet: TracePacket,
    /// `trace.format`: for the reader. `None` = it is recognised.
    pub format: Option<Arc<str>>,
    /// `trace.unit`: for the reader.
    pub unit: Option<Arc<str>>,
    /// `trace.direction`: for the reader of a file that holds both.
    pub direction: Option<Arc<str>>,
}

/// What becomes of single deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceMode {
    /// Packet by packet at the opportunities (default).
    #[default]
    Exact,
    /// Rates that carry as much.
    Fluid,
}

/// What one opportunity of a packet delivery trace carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TracePacket {
    /// `1504`: [`Opportunity::MAHIMAHI`] (default).
    #[default]
    Mahimahi,
    /// `1500`: [`Opportunity::IP`].
    Ip,
}

impl TraceOptions {
    /// The trace to follow, made of what the reader found: `repeats` is what the format means, and
    /// `opportunity` what one carries where the file holds deliveries, also where the timeline has
    /// become [`TraceMode::Fluid`].
    pub fn resolve(
        &self,
        timeline: Timeline,
        repeats: bool,
        opportunity: Option<Opportunity>,
    ) -> Result<Trace, TimelineError> {
        let schedule = Schedule::new(timeline.scaled(self.scale)?)?;
        Ok(Trace {
            schedule: Arc::new(schedule),
            start: self.start,
            repeat: self.repeat.unwrap_or(repeats),
            offset: self.offset,
            per_packet: opportunity.map(|opportunity| opportunity.per_packet),
        })
    }

    /// What one opportunity carries, for the reader.
    pub fn opportunity(&self) -> Opportunity {
        match self.packet {
            TracePacket::Mahimahi => Opportunity::MAHIMAHI,
            TracePacket::Ip => Opportunity::IP,
        }
    }
}
