//! From what a file holds to what a link follows.

use punctual_sched::trace::{Course, Trace, TraceMode, TraceOptions};

use super::{Read, WINDOW, fluid};

/// The trace that a link with these parameters makes of a file.
pub(crate) fn resolve(options: &TraceOptions, found: Read) -> Result<Trace, String> {
    let opportunity = match found.timeline.course {
        Course::Deliveries { opportunity, .. } => Some(opportunity),
        Course::Steps(_) => None,
    };
    let timeline = match options.mode {
        TraceMode::Exact => found.timeline,
        TraceMode::Fluid => fluid(&found.timeline, WINDOW),
    };
    let trace = options.resolve(timeline, found.loops_by_nature, opportunity);
    trace.map_err(|error| error.to_string())
}
