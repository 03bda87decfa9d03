//! Intel LPP network traces, version 1.

use punctual_sched::trace::Step;
use punctual_sched::{Duration, Rate};
use serde::Deserialize;
use serde::de::Error as _;

use super::super::Hints;
use super::super::build::{Parsed, Stamped};
use super::super::date::Date;
use super::super::error::Problem;
use super::super::format::Format;
use super::super::lines::Lines;
use super::direction;
use crate::log::Direction;

#[derive(Deserialize)]
struct File {
    version: u64,
    entries: Vec<Entry>,
}

/// What is not read: places, networks, notes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(rename = "entryNo")]
    number: u64,
    #[serde(deserialize_with = "date")]
    date_time: u64,
    dl_bw: Option<u64>,
    dl_latency: Option<u64>,
    ul_bw: Option<u64>,
    ul_latency: Option<u64>,
}

/// Bandwidth in kbit/s, latency to the first bytes in us: a round trip, half of it each way unless told. At
/// least two entries, numbers and times ascending.
pub(in super::super) fn read(lines: Lines<'_>, hints: &Hints) -> Result<Parsed, Problem> {
    let text = lines.rest()?;
    let file: File = serde_json::from_str(&text).map_err(|error| Problem::json(&error))?;
    if file.version != 1 {
        return Err(Problem::whole(format!("is version {}, expected 1", file.version)));
    }
    if file.entries.len() < 2 {
        let entries = if file.entries.len() == 1 { "1 entry" } else { "no entries" };
        let what = format!("{entries}, expected at least two");
        return Err(Problem::whole(what));
    }
    let direction = direction(Format::Ntrace, hints)?;
    let mut stamped = Stamped::default();
    let mut last = None;
    let mut delayed = false;
    for entry in &file.entries {
        let in_entry = |what: &str| Problem::whole(format!("entry {}: {what}", entry.number));
        if last.is_some_and(|(number, at)| number >= entry.number || at >= entry.date_time) {
            return Err(in_entry(
                "not after the one before it, expected ascending numbers and times",
            ));
        }
        last = Some((entry.number, entry.date_time));
        let step = step(entry, direction, hints).map_err(in_entry)?;
        delayed |= step.delay.is_some();
        stamped.push(step).map_err(|what| in_entry(&what))?;
    }
    let warning = match hints.rtt {
        None => "latencies are to the first bytes and are halved",
        Some(_) => "latencies are to the first bytes",
    };
    Ok(stamped.finish()?.warn_if(delayed, warning))
}

fn step(entry: &Entry, direction: Direction, hints: &Hints) -> Result<Step, &'static str> {
    let (rate, latency) = match direction {
        Direction::Up => (entry.ul_bw, entry.ul_latency),
        Direction::Down => (entry.dl_bw, entry.dl_latency),
    };
    let rate = rate.map(|kbit| {
        Rate::from_bps(kbit.saturating_mul(1_000))
            .filter(|rate| *rate != Rate::UNLIMITED)
            .ok_or("more than 1tbit")
    });
    let delay = latency.map(|micros| {
        let nanos = micros.checked_mul(hints.of_rtt(1_000));
        nanos.map(Duration::from_nanos).ok_or("a latency of more than 584 years")
    });
    let at = Duration::from_nanos(entry.date_time);
    Ok(Step { at, rate: rate.transpose()?, delay: delay.transpose()?, loss: None })
}

fn date<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    let date = Date::parse(&text).map(|date| date.nanos);
    date.ok_or_else(|| D::Error::custom(format!("{text:?} is no date, expected ISO 8601")))
}
