//! Starlink and cellular measured side by side: time,throughput,speed,latitude,...

use punctual_sched::trace::Step;

use super::super::build::{Parsed, Stamped};
use super::super::columns::Columns;
use super::super::error::Problem;
use super::super::lines::Lines;
use super::stamp::Stamps;

/// Throughput in Mbit/s at dates with a zone.
pub(in super::super) fn read(mut lines: Lines<'_>) -> Result<Parsed, Problem> {
    let columns = Columns::find(&mut lines, ["time", "throughput"])?;
    let (mut stamped, mut stamps) = (Stamped::default(), Stamps::default());
    while let Some(line) = lines.data()? {
        let [at, rate] = columns.of(&line)?;
        let rate = (!rate.is_empty()).then(|| line.rate(rate, 1_000_000, "a rate in Mbit/s"));
        let step = Step { at: stamps.read(&line, at)?, rate: rate.transpose()?, ..Step::default() };
        stamped.push(step).map_err(|what| line.wrong(what))?;
    }
    stamped.finish()
}
