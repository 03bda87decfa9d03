//! CellReplay: base delays over time, of its light traces.

use punctual_measure::units::plural;
use punctual_sched::trace::Step;

use super::super::build::{Parsed, Stamped};
use super::super::error::Problem;
use super::super::lines::Lines;

/// `MS BASE_DELAY_MS OFFSET OFFSET ...`: the delay of a light load at that time. The offsets at
/// which a light load's packets came are not carried: beside deliveries of its own (the heavy
/// trace, which is Mahimahi's format) a link has no second set.
pub(in super::super) fn read(mut lines: Lines<'_>) -> Result<Parsed, Problem> {
    let mut stamped = Stamped::default();
    let mut count = 0;
    while let Some(line) = lines.data()? {
        let mut words = line.text.split_whitespace();
        let (Some(at), Some(delay)) = (words.next(), words.next()) else {
            return Err(line.wrong("1 column, expected a time and a delay in ms, then offsets"));
        };
        let at = line.time(at, 1_000_000, "a time in ms")?;
        let delay = Some(line.time(delay, 1_000_000, "a base delay in ms")?);
        for offset in words {
            line.scaled(offset, 1, "an offset in ms")?;
        }
        count += 1;
        stamped.push(Step { at, delay, ..Step::default() }).map_err(|what| line.wrong(what))?;
    }
    if count < LEAST {
        return Err(Problem::whole(format!(
            "{}, expected at least {LEAST}",
            plural(count.into(), "line")
        )));
    }
    Ok(stamped.finish()?.warn("only base delays are carried, not the light load's deliveries"))
}

/// Lines that its own reader asks for.
const LEAST: u32 = 3;
