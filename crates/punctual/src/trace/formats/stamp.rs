//! When a line was recorded: seconds, or a date.

use punctual_sched::Duration;

use super::super::date::Date;
use super::super::error::{Problem, quoted};
use super::super::lines::Line;

/// Reads the times of one file, which must all be in the same zone.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    zone: Option<String>,
}

impl Stamps {
    /// Seconds with a fraction, or a date; on one axis for all lines of a file.
    pub(super) fn read(&mut self, line: &Line<'_>, text: &str) -> Result<Duration, Problem> {
        let Some(date) = Date::parse(text) else {
            return line.time(text, 1_000_000_000, "a date with time, or seconds");
        };
        let zone = self.zone.get_or_insert_with(|| date.zone.to_owned());
        if zone != date.zone {
            let what = format!("zone {}, expected {} as before", quoted(date.zone), quoted(zone));
            return Err(line.wrong(what));
        }
        Ok(Duration::from_nanos(date.nanos))
    }
}
