//! Live changes, parameter by parameter.

use std::io::{self, Write};

use punctual_sched::trace::TraceOptions;
use punctual_sched::{Instant, LinkConfig};

use super::csv::quoted;
use crate::log::{Direction, Header, Record};

/// Parameters that have other values from a time on.
pub(super) type News = Vec<(&'static str, String)>;

/// What changed with a record, and when.
pub(super) fn news(record: &Record) -> Option<(Instant, News)> {
    match record {
        Record::Change { at, change } => Some((*at, change.entries())),
        Record::Follow { at, trace } => {
            let trace = trace.as_deref().map(|trace| (TraceOptions::default(), trace.clone()));
            let link = LinkConfig::default().following(trace);
            Some((*at, vec![("trace", link.trace_brief())]))
        }
        Record::Arrival(_) | Record::Departure(_) | Record::Drop(_) => None,
    }
}

/// Changes as CSV: a line for each parameter.
#[derive(Debug)]
pub(super) struct ChangesCsv<W> {
    out: W,
    epoch_unix_ns: u64,
}

impl<W: Write> ChangesCsv<W> {
    pub(super) fn start(mut out: W, header: &Header) -> io::Result<Self> {
        writeln!(out, "at_ns,at_unix_ns,direction,parameter,value")?;
        Ok(Self { out, epoch_unix_ns: header.epoch.realtime_ns })
    }

    pub(super) fn change(
        &mut self,
        direction: Direction,
        at: Instant,
        news: &News,
    ) -> io::Result<()> {
        let (at, direction) = (at.as_nanos(), direction.name());
        let unix = self.epoch_unix_ns.saturating_add(at);
        for (parameter, value) in news {
            writeln!(self.out, "{at},{unix},{direction},{parameter},{}", quoted(value))?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}
