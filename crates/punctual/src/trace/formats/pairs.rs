//! Seconds and throughput, as simulators of video streaming read them.

use punctual_sched::trace::Step;

use super::super::Hints;
use super::super::build::{Parsed, Stamped};
use super::super::error::{Missing, Problem};
use super::super::lines::Lines;

/// `SECONDS RATE` a line, between blanks or a comma; the rate holds until the next line. Nothing
/// in such a file says what the rate counts, and sets differ: it must be told.
pub(in super::super) fn read(mut lines: Lines<'_>, hints: &Hints) -> Result<Parsed, Problem> {
    let unit = hints.unit.ok_or_else(|| {
        let what = "is time-throughput pairs, which do not say their unit, \
                    expected one of bit, kbit, mbit, byte, kbyte, mbyte (per second)";
        Problem::open(Missing::Unit, what)
    })?;
    let mut stamped = Stamped::default();
    while let Some(line) = lines.data()? {
        let mut words = line.text.split([',', ' ', '\t']).filter(|word| !word.is_empty());
        let (Some(at), Some(rate), None) = (words.next(), words.next(), words.next()) else {
            return Err(line.wrong(
                "expected two numbers: a time in seconds and a rate; one column of times in ms is \
                 mahimahi",
            ));
        };
        let at = line.time(at, 1_000_000_000, "a time in seconds")?;
        let rate = line.rate(rate, unit.bits(), "a rate")?;
        let step = Step { at, rate: Some(rate), ..Step::default() };
        stamped.push(step).map_err(|what| line.wrong(what))?;
    }
    stamped.finish()
}
