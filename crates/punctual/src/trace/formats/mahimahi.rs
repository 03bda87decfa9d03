//! Mahimahi: packet delivery traces, its rate input, its logs.

use punctual_sched::Duration;
use punctual_sched::trace::{Opportunity, Step};

use super::super::Hints;
use super::super::build::{Held, Opportunities, Parsed};
use super::super::error::{Problem, quoted};
use super::super::lines::{Line, Lines};

/// Packet delivery, mm-link(1): a whole number of ms a line, none before the one above, the last
/// above 0, no blank lines. One opportunity a line; repeats are several at once. It begins anew
/// after the last time.
pub(in super::super) fn deliveries(mut lines: Lines<'_>, hints: &Hints) -> Result<Parsed, Problem> {
    let mut opportunities = Opportunities::default();
    while let Some(line) = lines.any()? {
        let at = millis(&line)?;
        opportunities.push(at, 1).map_err(|what| line.wrong(what + RATES))?;
    }
    let last = opportunities.last().ok_or_else(|| Problem::whole(EMPTY))?;
    if last == Duration::ZERO {
        let what = "the last time is 0 ms, expected one above 0: the trace begins anew there";
        return Err(Problem::at(lines.count(), what));
    }
    let lines = lines.count();
    let packet = hints.packet.unwrap_or(Opportunity::MAHIMAHI);
    let same = opportunities.instants() == 1 && lines > 1;
    let warning = "all lines are the same number; if that is a rate, the format is mahimahi-rate";
    Ok(opportunities.finish(last, packet).looping().warn_if(same, warning))
}

fn millis(line: &Line<'_>) -> Result<Duration, Problem> {
    // Most lines of most traces.
    if let Ok(millis) = line.text.parse::<u64>()
        && let Some(nanos) = millis.checked_mul(MILLI)
    {
        return Ok(Duration::from_nanos(nanos));
    }
    if line.text.is_empty() {
        return Err(line.wrong(format!("is blank, expected {WHAT}")));
    }
    if line.text.split_whitespace().nth(1).is_some() {
        let what = quoted(line.text);
        return Err(line.wrong(format!("{what} is no number, expected {WHAT}{PAIRS}")));
    }
    if line.text.contains('.') && line.scaled(line.text, 1, WHAT).is_ok() {
        return Err(
            line.wrong(format!("{} is not whole, expected {WHAT}{RATES}", quoted(line.text)))
        );
    }
    line.time(line.text, MILLI, WHAT)
}

/// Rate input: kbit per ms, which is Mbit/s, one line for each ms.
pub(in super::super) fn rates(mut lines: Lines<'_>) -> Result<Parsed, Problem> {
    let mut held = Held::default();
    while let Some(line) = lines.any()? {
        let what = "kbit per ms in each line";
        let rate = line.rate(line.text, 1_000_000, what)?;
        let step = Step { rate: Some(rate), ..Step::default() };
        held.push(step, Duration::from_nanos(MILLI)).map_err(|what| line.wrong(what))?;
    }
    held.finish().map(Parsed::looping)
}

/// A log as mm-link writes it: its lines `MS # BYTES` are the opportunities that the link had,
/// counted from the base timestamp in the header.
pub(in super::super) fn log(mut lines: Lines<'_>, hints: &Hints) -> Result<Parsed, Problem> {
    let mut opportunities = Opportunities::default();
    let mut base = None;
    while let Some(line) = lines.full()? {
        if let Some(comment) = line.text.strip_prefix('#') {
            let given = comment.trim().strip_prefix("base timestamp:");
            base =
                given.map_or(Ok(base), |given| line.time(given.trim(), MILLI, WHAT).map(Some))?;
            continue;
        }
        let mut words = line.text.split_whitespace();
        let at = line.time(words.next().unwrap_or_default(), MILLI, WHAT)?;
        match words.next() {
            Some("#") => {
                let at = at.saturating_sub(*base.get_or_insert(at));
                opportunities.push(at, 1).map_err(|what| line.wrong(what))?;
            }
            Some("+" | "-" | "d") => {}
            _ => return Err(line.wrong("is no line of a log, expected MS and one of # + - d")),
        }
    }
    let last = opportunities.last().filter(|last| *last > Duration::ZERO);
    let none = "holds no delivery opportunities over time, expected lines such as 142 # 1504";
    let last = last.ok_or_else(|| Problem::whole(none))?;
    Ok(opportunities.finish(last, hints.packet.unwrap_or(Opportunity::MAHIMAHI)))
}

const MILLI: u64 = 1_000_000;
const WHAT: &str = "a time in ms";
const EMPTY: &str = "is empty, expected a time in ms in each line";
/// What two numbers in a line may be.
const PAIRS: &str = "; two columns are pairs (seconds and throughput)";
/// What a column of numbers that is no packet delivery trace may be.
const RATES: &str = "; a column of rates is mahimahi-rate (kbit per ms) or fcc-rates (bytes/s)";
