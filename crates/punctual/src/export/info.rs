//! `punctual log info`: what a log holds.

use std::fs::File;
use std::io::{BufReader, stdin};

use punctual_measure::units::{count, duration, visible};
use punctual_sched::LinkConfig;
use serde_json::{Value, json};

use super::error::ExportError;
use super::options::InfoOptions;
use super::survey::{Counts, Survey};
use super::watch::Watch;
use crate::failure::Failure;
use crate::log::{Direction, LogReader, ReadError};
use crate::output::print;

pub(super) fn run(options: &InfoOptions) -> Result<u8, Failure> {
    let survey = read(options).map_err(|error| error.of(&options.log))?;
    let text = if options.json { format!("{}\n", object(&survey)) } else { lines(&survey) };
    print(text)?;
    Ok(0)
}

fn read(options: &InfoOptions) -> Result<Survey, ExportError> {
    if options.log.as_os_str() == "-" {
        return Survey::watched(LogReader::new(stdin().lock())?, &mut Watch::none());
    }
    let log = File::open(&options.log)
        .map_err(|error| ReadError::Open { path: options.log.clone(), error })?;
    let mut watch = Watch::new(&log, None);
    watch.begin("reading");
    let log = LogReader::new(BufReader::new(log)).map_err(|error| watch.unread(error))?;
    Survey::watched(log, &mut watch)
}

fn object(survey: &Survey) -> Value {
    let header = &survey.header;
    let direction = |direction: Direction| {
        let counts = survey.of(direction);
        let record = super::header_of(header, direction);
        let unwritten = survey.trailer.as_ref().map(|t| t.direction(direction).all_unwritten());
        json!({
            "link": record.link.0,
            "seed": record.seed,
            "lane_seeds": record.seeds().collect::<Vec<_>>(),
            "complete": survey.is_whole(direction),
            "unwritten_records": unwritten,
            "arrivals": counts.arrivals,
            "segments": counts.segments,
            "bytes": counts.bytes,
            "departures": counts.departures,
            "released": counts.released,
            "dropped": counts.drops,
            "without_fate": counts.held,
            "held_peak": counts.held_peak,
            "changes": counts.changes,
            "first_ns": counts.span.map(|(first, _)| first.as_nanos()),
            "last_ns": counts.span.map(|(_, last)| last.as_nanos()),
        })
    };
    json!({
        "schema": SCHEMA,
        "run": header.run,
        "tool": header.tool,
        "epoch_monotonic_ns": header.epoch.monotonic_ns,
        "epoch_unix_ns": header.epoch.realtime_ns,
        "log_bytes": survey.bytes,
        "complete": survey.lack().is_none(),
        "lack": survey.lack(),
        "directions": { "up": direction(Direction::Up), "down": direction(Direction::Down) },
    })
}

fn lines(survey: &Survey) -> String {
    let header = &survey.header;
    let state =
        survey.lack().map_or_else(|| "complete".to_owned(), |lack| format!("not complete: {lack}"));
    let mut text = format!(
        "run      {}, written by punctual {}\nlog      {} bytes, {state}\n",
        visible(&header.run),
        visible(&header.tool),
        count(survey.bytes),
    );
    for direction in Direction::BOTH {
        let link = match super::header_of(header, direction).config() {
            Ok(link) => told(&link),
            Err(error) => format!("this program does not know it: {error}"),
        };
        let lanes = super::header_of(header, direction).lane_count();
        let link = if lanes > 1 { format!("{link}, in each of {lanes} lanes") } else { link };
        let (name, counted) = (direction.name(), counted(survey.of(direction)));
        text.extend([&*format!("{name:8} {link}\n         {counted}\n")]);
    }
    text
}

/// The parameters that are not as by default.
fn told(link: &LinkConfig) -> String {
    let defaults = LinkConfig::default().all_entries();
    let given = link.all_entries().into_iter().zip(defaults).filter(|(given, by)| given != by);
    let words: Vec<_> = given.map(|((name, value), _)| format!("{name}={value}")).collect();
    if words.is_empty() { "no parameters".to_owned() } else { words.join(" ") }
}

fn counted(counts: &Counts) -> String {
    let drops: u64 = counts.drops.values().sum();
    let reasons: Vec<_> =
        counts.drops.iter().map(|(reason, n)| format!("{reason} {}", count(*n))).collect();
    let reasons =
        if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    let span = counts.span.map_or(0, |(first, last)| last.signed_since(first));
    format!(
        "{} in, {} out, {} dropped{reasons}, {} without a fate, {} change{}, {}",
        count(counts.arrivals),
        count(counts.departures),
        count(drops),
        count(counts.held),
        count(counts.changes),
        if counts.changes == 1 { "" } else { "s" },
        duration(span),
    )
}

const SCHEMA: &str = "punctual.log-info/1";
