//! Live changes, parameter by parameter.

use std::io::{self, Write};

use punctual_sched::{Change, Instant};

use super::csv::quoted;
use crate::log::{Direction, Header};

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
        change: &Change,
    ) -> io::Result<()> {
        let (at, direction) = (at.as_nanos(), direction.name());
        let unix = self.epoch_unix_ns.saturating_add(at);
        for (parameter, value) in change.entries() {
            writeln!(self.out, "{at},{unix},{direction},{parameter},{}", quoted(&value))?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}
