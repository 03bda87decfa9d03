//! CSV of satellite paths: at,delay,stddev,min_link_cap,max_link_cap,queue_capacity,hops,...

use punctual_sched::trace::Step;

use super::super::build::{Parsed, Stamped};
use super::super::columns::Columns;
use super::super::error::Problem;
use super::super::lines::Lines;

/// Times and delays in microseconds; the rate is that of the path's slowest hop.
pub(in super::super) fn read(mut lines: Lines<'_>) -> Result<Parsed, Problem> {
    let names = ["at", "delay", "stddev", "min_link_cap", "dropratio"];
    let columns = Columns::find(&mut lines, names)?;
    let mut stamped = Stamped::default();
    let mut jitter = false;
    while let Some(line) = lines.data()? {
        let [at, delay, deviation, rate, loss] = columns.of(&line)?;
        let step = Step {
            at: line.time(at, 1_000, "a time in microseconds")?,
            rate: Some(line.rate(rate, 1, "a rate in bit/s")?),
            delay: Some(line.time(delay, 1_000, "a delay in microseconds")?),
            loss: Some(line.share(loss, 1, "a share from 0 to 1")?),
        };
        jitter |= line.scaled(deviation, 1_000, "microseconds")? > 0;
        stamped.push(step).map_err(|what| line.wrong(what))?;
    }
    Ok(stamped.finish()?.warn_if(jitter, "stddev is not carried; give the link a jitter"))
}
