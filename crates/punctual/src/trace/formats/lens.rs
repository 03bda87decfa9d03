//! LENS: delays to and from Starlink dishes.

use punctual_sched::Probability;
use punctual_sched::trace::Step;

use super::super::Hints;
use super::super::build::{Parsed, Stamped};
use super::super::columns;
use super::super::error::Problem;
use super::super::format::Format;
use super::super::lines::Lines;
use super::{direction, one_way};
use crate::log::Direction;

/// irtt: `NANOSECONDS,RTT,UPLINK,DOWNLINK` in ms. -1 is a probe lost in that direction; then the
/// other columns say nothing. A loss lasts until the next probe.
pub(in super::super) fn irtt(mut lines: Lines<'_>, hints: &Hints) -> Result<Parsed, Problem> {
    let direction = direction(Format::LensIrtt, hints)?;
    let mut stamped = Stamped::default();
    while let Some(line) = lines.data()? {
        if is_header(line.number, line.text) {
            continue;
        }
        let [at, _, up, down] = columns::exactly(&line, "timestamp,rtt,uplink,downlink")?;
        let at = line.time(at, 1, "a time in nanoseconds")?;
        let (own, other) = match direction {
            Direction::Up => (up, down),
            Direction::Down => (down, up),
        };
        let mut step = Step { at, ..Step::default() };
        if is_lost(own) {
            step.loss = Some(Probability::ONE);
        } else if !is_lost(other) {
            step.loss = Some(Probability::ZERO);
            step.delay = Some(line.time(own, 1_000_000, "a one-way delay in ms, or -1")?);
        }
        stamped.push(step).map_err(|what| line.wrong(what))?;
    }
    Ok(stamped.finish()?.warn("one-way delays are as good as the two clocks were"))
}

/// ping: `SECONDS,RTT` in ms, half of it each way unless told; -1 is a lost probe.
pub(in super::super) fn ping(mut lines: Lines<'_>, hints: &Hints) -> Result<Parsed, Problem> {
    let mut stamped = Stamped::default();
    while let Some(line) = lines.data()? {
        if is_header(line.number, line.text) {
            continue;
        }
        let [at, rtt] = columns::exactly(&line, "timestamp,rtt")?;
        let at = line.time(at, 1_000_000_000, "a time in seconds")?;
        let mut step = Step { at, loss: Some(Probability::ONE), ..Step::default() };
        if !is_lost(rtt) {
            step.loss = Some(Probability::ZERO);
            step.delay = Some(one_way(&line, rtt, hints)?);
        }
        stamped.push(step).map_err(|what| line.wrong(what))?;
    }
    Ok(stamped.finish()?.warn_of_rtt(hints))
}

fn is_header(number: u64, text: &str) -> bool {
    number == 1 && text.to_ascii_lowercase().starts_with("timestamp")
}

fn is_lost(field: &str) -> bool {
    field.parse::<f64>().is_ok_and(|value| (value + 1.0).abs() < f64::EPSILON)
}
