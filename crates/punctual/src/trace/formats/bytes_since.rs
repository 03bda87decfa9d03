//! Logs of a download: bytes and milliseconds since the line before.
//!
//! Six columns: wall clock, milliseconds since some start, latitude, longitude, bytes, milliseconds.

use punctual_sched::trace::Step;
use punctual_sched::{Duration, Rate};

use super::super::build::{Held, Parsed};
use super::super::columns;
use super::super::error::Problem;
use super::super::lines::{Line, Lines};

/// HSDPA from Norway: wall clock in seconds.
pub(in super::super) fn hsdpa(lines: Lines<'_>) -> Result<Parsed, Problem> {
    read(lines)
}

/// 4G from Ghent: wall clock in milliseconds.
pub(in super::super) fn ghent(lines: Lines<'_>) -> Result<Parsed, Problem> {
    read(lines)
}

/// Bytes over milliseconds is the rate of the time that ends at the line. The intervals follow each
/// other as they are; the milliseconds since the start only say that lines are in order.
fn read(mut lines: Lines<'_>) -> Result<Parsed, Problem> {
    let mut held = Held::default();
    let mut stamps: Option<(Duration, Duration)> = None;
    let mut first = Duration::ZERO;
    while let Some(line) = lines.data()? {
        let [_, since_start, _, _, bytes, time] = columns::words(&line, COLUMNS)?;
        let stamp = line.time(since_start, MILLI, "milliseconds since the start")?;
        let bytes = line.scaled(bytes, 1, "bytes since the line before")?;
        let time = line.time(time, MILLI, "milliseconds since the line before")?;
        let (begin, last) = stamps.unwrap_or((stamp, stamp));
        if stamp < last {
            let by = last.saturating_sub(stamp);
            return Err(line.wrong(format!("goes back in time by {by}, expected times in order")));
        }
        if stamps.is_none() {
            first = time;
        }
        stamps = Some((begin, stamp));
        if time == Duration::ZERO && bytes == 0 {
            continue;
        }
        let step = Step { rate: Some(rate(&line, bytes, time)?), ..Step::default() };
        held.push(step, time).map_err(|what| line.wrong(what))?;
    }
    let (begin, last) = stamps.unwrap_or_default();
    let stamped = last.saturating_sub(begin) + first;
    let gaps = apart(stamped, held.end());
    let warning = format!("its intervals add up to {}, its times to {stamped}", held.end());
    Ok(held.finish()?.warn_if(gaps, warning))
}

fn rate(line: &Line<'_>, bytes: u64, time: Duration) -> Result<Rate, Problem> {
    if time == Duration::ZERO {
        return Err(line.wrong(format!("{bytes} bytes in 0 ms, expected a time above 0")));
    }
    // Below 2^64 * 8 * 10^9 < 2^97.
    let bps = u128::from(bytes) * 8_000_000_000 / u128::from(time.as_nanos());
    let text = format!("{bytes} bytes in {time}");
    line.known_rate(u64::try_from(bps).unwrap_or(u64::MAX), &text, "bytes and milliseconds")
}

/// More than a hundredth apart.
fn apart(a: Duration, b: Duration) -> bool {
    let (a, b) = (a.as_nanos(), b.as_nanos());
    a.abs_diff(b) > a.max(b) / 100
}

const MILLI: u64 = 1_000_000;
const COLUMNS: &str = "time, ms since the start, latitude, longitude, bytes, ms";
