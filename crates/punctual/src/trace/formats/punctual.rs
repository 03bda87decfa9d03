//! The program's own CSV.

use std::str::FromStr;

use punctual_measure::units::plural;
use punctual_sched::trace::{Opportunity, Step};
use punctual_sched::units::UnitError;
use punctual_sched::{Duration, Probability, Rate};

use super::super::build::{Opportunities, Parsed, Sorted};
use super::super::error::{Problem, quoted};
use super::super::lines::{Line, Lines};

/// Comments with `NAME=VALUE`, a header, lines; see docs/traces.md.
pub(in super::super) fn read(mut lines: Lines<'_>) -> Result<Parsed, Problem> {
    let mut given = Given::default();
    let columns = loop {
        let Some(line) = lines.full()? else {
            return Err(Problem::whole("holds no header, expected for example time_ns,rate_bps"));
        };
        match line.text.strip_prefix('#') {
            Some(comment) => given.read(&line, comment)?,
            None => break header(&line)?,
        }
    };
    let parsed = if columns.contains(&Column::Opportunities) {
        deliveries(lines, &columns, &mut given)?
    } else {
        steps(lines, &columns, &mut given)?
    };
    Ok(Parsed { loops: given.repeat, ..parsed })
}

/// Whether a header's names are of this format.
pub(in super::super) fn is_header(names: &[&str]) -> bool {
    let known = names.iter().all(|name| COLUMNS.iter().any(|(known, _)| known == name));
    known && names.iter().any(|name| ["time_ns", "time"].contains(name))
}

/// What the comments say.
#[derive(Debug, Default)]
struct Given {
    span: Option<Duration>,
    bytes: Option<u32>,
    per_packet: Option<u32>,
    repeat: bool,
}

impl Given {
    /// Words that are not known are prose.
    fn read(&mut self, line: &Line<'_>, comment: &str) -> Result<(), Problem> {
        for (name, value) in comment.split_whitespace().filter_map(|word| word.split_once('=')) {
            match name {
                "span_ns" => self.span = Some(line.time(value, 1, "nanoseconds")?),
                "span" => self.span = Some(word(line, value)?),
                "opportunity_bytes" if value == "0" => {
                    return Err(line.wrong("opportunities of 0 bytes carry nothing"));
                }
                "opportunity_bytes" => self.bytes = Some(count(line, value)?),
                "per_packet_bytes" => self.per_packet = Some(count(line, value)?),
                "repeat" if value == "yes" || value == "no" => self.repeat = value == "yes",
                "repeat" => return Err(line.wrong(format!("repeat={value}, expected yes or no"))),
                _ => {}
            }
        }
        Ok(())
    }

    /// The span that was given, or until the end of the last entry.
    fn span(&self, last: Duration, natural: Duration) -> Result<Duration, Problem> {
        let span = self.span.unwrap_or(natural);
        if self.span.is_none() && span == Duration::ZERO {
            let what = "all entries are at 0, so that nothing says how long it lasts, expected a later one or a line \"# span=10s\"";
            return Err(Problem::whole(what));
        }
        if span == Duration::ZERO || span < last {
            let what = format!("the span {span} is over before the last entry at {last}");
            return Err(Problem::whole(what));
        }
        Ok(span)
    }
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    TimeNs,
    Time,
    RateBps,
    Rate,
    DelayNs,
    Delay,
    Loss,
    Opportunities,
}

const COLUMNS: [(&str, Column); 8] = [
    ("time_ns", Column::TimeNs),
    ("time", Column::Time),
    ("rate_bps", Column::RateBps),
    ("rate", Column::Rate),
    ("delay_ns", Column::DelayNs),
    ("delay", Column::Delay),
    ("loss", Column::Loss),
    ("opportunities", Column::Opportunities),
];

fn header(line: &Line<'_>) -> Result<Vec<Column>, Problem> {
    let mut columns = Vec::new();
    for name in line.commas() {
        let column = COLUMNS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let known = || COLUMNS.map(|(name, _)| name).join(", ");
        let unknown =
            || line.wrong(format!("unknown column {}, expected {}", quoted(name), known()));
        let (_, column) = column.ok_or_else(unknown)?;
        if columns.contains(column) {
            return Err(line.wrong(format!("column {name} stands twice")));
        }
        columns.push(*column);
    }
    if !columns.contains(&Column::TimeNs) && !columns.contains(&Column::Time) {
        return Err(line.wrong("no column for the time, expected time_ns or time"));
    }
    Ok(columns)
}

fn steps(mut lines: Lines<'_>, columns: &[Column], given: &mut Given) -> Result<Parsed, Problem> {
    let mut sorted = Sorted::default();
    while let Some(line) = lines.full()? {
        if let Some(comment) = line.text.strip_prefix('#') {
            given.read(&line, comment)?;
            continue;
        }
        let mut step = Step::default();
        for (column, field) in fields(&line, columns)? {
            match column {
                _ if field.is_empty() => {}
                Column::TimeNs => step.at = line.time(field, 1, "nanoseconds")?,
                Column::Time => step.at = word(&line, field)?,
                Column::RateBps => step.rate = Some(rate(&line, field)?),
                Column::Rate => step.rate = Some(word(&line, field)?),
                Column::DelayNs => step.delay = Some(line.time(field, 1, "nanoseconds")?),
                Column::Delay => step.delay = Some(word(&line, field)?),
                Column::Loss => step.loss = Some(word::<Probability>(&line, field)?),
                Column::Opportunities => {}
            }
        }
        sorted.push(step).map_err(|what| line.wrong(what))?;
    }
    if sorted.is_blank() {
        return Err(Problem::whole("holds no value, expected one in some line"));
    }
    let (last, natural) = sorted.ends().ok_or_else(|| Problem::whole(NO_ENTRIES))?;
    Ok(sorted.finish(given.span(last, natural)?))
}

fn deliveries(
    mut lines: Lines<'_>,
    columns: &[Column],
    given: &mut Given,
) -> Result<Parsed, Problem> {
    if let Some((name, _)) = COLUMNS[2..7].iter().find(|(_, column)| columns.contains(column)) {
        return Err(Problem::whole(format!("column {name} cannot stand beside opportunities")));
    }
    let mut opportunities = Opportunities::default();
    while let Some(line) = lines.full()? {
        if let Some(comment) = line.text.strip_prefix('#') {
            given.read(&line, comment)?;
            continue;
        }
        let (mut at, mut number) = (Duration::ZERO, 0);
        for (column, field) in fields(&line, columns)? {
            match column {
                Column::TimeNs => at = line.time(field, 1, "nanoseconds")?,
                Column::Time => at = word(&line, field)?,
                _ => number = count(&line, field)?,
            }
        }
        if number == 0 {
            return Err(line.wrong("0 opportunities, expected at least 1"));
        }
        opportunities.push(at, number).map_err(|what| line.wrong(what))?;
    }
    let last = opportunities.last().ok_or_else(|| Problem::whole(NO_ENTRIES))?;
    let opportunity = Opportunity {
        bytes: given.bytes.unwrap_or(Opportunity::MAHIMAHI.bytes),
        per_packet: given.per_packet.unwrap_or(match given.bytes {
            Some(_) => 0,
            None => Opportunity::MAHIMAHI.per_packet,
        }),
    };
    Ok(opportunities.finish(given.span(last, last)?, opportunity))
}

fn fields<'a>(
    line: &Line<'a>,
    columns: &[Column],
) -> Result<impl Iterator<Item = (Column, &'a str)>, Problem> {
    let count = line.commas().count();
    if count != columns.len() {
        let (has, expected) = (plural(count as u64, "column"), columns.len());
        return Err(line.wrong(format!("{has}, expected {expected} as in the header")));
    }
    Ok(columns.iter().copied().zip(line.commas()))
}

/// A word of the program: `20mbit`, `30ms`, `1%`.
fn word<T: FromStr<Err = UnitError>>(line: &Line<'_>, text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error: UnitError| line.wrong(error.to_string()))
}

fn rate(line: &Line<'_>, text: &str) -> Result<Rate, Problem> {
    if text == UNLIMITED { Ok(Rate::UNLIMITED) } else { line.rate(text, 1, "bits per second") }
}

fn count(line: &Line<'_>, text: &str) -> Result<u32, Problem> {
    let count = line.scaled(text, 1, "a count up to 4294967295")?;
    let too_large = || line.wrong(format!("{count} is too large, expected up to 4294967295"));
    u32::try_from(count).map_err(|_| too_large())
}

const NO_ENTRIES: &str = "holds no entries, expected lines after the header";
pub(in super::super) const UNLIMITED: &str = "unlimited";
