//! ERRANT: what its emulation did over time.

use punctual_sched::trace::Step;

use super::super::Hints;
use super::super::build::{Parsed, Stamped};
use super::super::columns::Columns;
use super::super::error::Problem;
use super::super::format::Format;
use super::super::lines::Lines;
use super::stamp::Stamps;
use super::{direction, one_way};
use crate::log::Direction;

/// time,operator,country,technology,quality,download,upload,rtt: kbit/s and ms. Its scenarios
/// (operator,country,rat,quality,duration,period) name models and hold no values.
pub(in super::super) fn read(mut lines: Lines<'_>, hints: &Hints) -> Result<Parsed, Problem> {
    let rate = match direction(Format::Errant, hints)? {
        Direction::Up => "upload",
        Direction::Down => "download",
    };
    let columns = Columns::find(&mut lines, ["time", rate, "rtt"])?;
    let (mut stamped, mut stamps) = (Stamped::default(), Stamps::default());
    while let Some(line) = lines.data()? {
        let [at, rate, rtt] = columns.of(&line)?;
        let step = Step {
            at: stamps.read(&line, at)?,
            rate: Some(line.rate(rate, 1_000, "a rate in kbit/s")?),
            delay: Some(one_way(&line, rtt, hints)?),
            loss: None,
        };
        stamped.push(step).map_err(|what| line.wrong(what))?;
    }
    Ok(stamped.finish()?.warn_of_rtt(hints))
}
