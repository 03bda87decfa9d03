//! `punctual trace check`: what a file is, what it holds, what to beware of.

use std::fmt::Write as _;

use punctual_measure::units::{plural, rate};
use punctual_sched::Duration;
use punctual_sched::trace::{Course, Timeline};
use serde_json::{Value, json};

use super::options::CheckOptions;
use super::outages::{LISTED, Outage, Outages};
use super::{Format, Read, Summary};
use crate::failure::Failure;
use crate::output::{print, shown};

/// Reads the file and prints what it amounts to.
pub(super) fn run(options: &CheckOptions) -> Result<u8, Failure> {
    let name = shown(&options.input.file);
    let read = match options.input.read(&options.input.hints(options.fluid)) {
        Ok(read) => read,
        Err(failure) if options.json => {
            let error = json!({ "schema": SCHEMA, "file": name, "error": failure.to_string() });
            print(format!("{error}\n"))?;
            return Err(failure);
        }
        Err(failure) => return Err(failure),
    };
    let summary = Summary::of(&read.timeline);
    let warnings = told_by(&read, &summary);
    let text = if options.json {
        format!("{}\n", as_json(&name, &read, &summary, &warnings))
    } else {
        as_text(&name, &read, &summary, &warnings)
    };
    print(text)?;
    Ok(0)
}

/// What to beware of in a trace that was read.
pub(crate) fn warnings(read: &Read) -> Vec<String> {
    told_by(read, &Summary::of(&read.timeline))
}

/// What the reader said, and what the figures say.
fn told_by(read: &Read, summary: &Summary) -> Vec<String> {
    let mut warnings = read.warnings.clone();
    if read.format.is_achieved() {
        warnings.push(
            "holds throughput that a transport achieved, not capacity: what the link could carry \
             may have been more"
                .to_owned(),
        );
    }
    if is_recorded(read.format) && summary.entries > 1 {
        let entries = u64::try_from(summary.entries).unwrap_or(u64::MAX);
        let step = Duration::from_nanos(summary.span.as_nanos() / entries);
        if step >= COARSE {
            let every = seconds(to_micros(step));
            let warning =
                format!("one value every {every}: coarser than any transport's control loop");
            warnings.push(warning);
        }
    }
    let long = summary.outage.filter(|outage| outage.time >= LONG);
    let start = summary.dead_start;
    if start >= LISTED && long.is_none_or(|outage| outage.time != start) {
        let start = seconds(start);
        warnings.push(format!("nothing passes in the first {start}: what begins at once waits"));
    }
    if let Some(outage) = long {
        let (time, at) = (seconds(outage.time), seconds(outage.at));
        warnings.push(format!("nothing passes for {time} from {at} on: applications time out"));
    }
    warnings
}

/// The steps of others were meant as they are.
fn is_recorded(format: Format) -> bool {
    use Format::{Mahimahi, MahimahiLog, MahimahiRate, NetemTrace, Punctual};
    !matches!(format, Mahimahi | MahimahiLog | MahimahiRate | NetemTrace | Punctual)
}

fn as_text(name: &str, read: &Read, summary: &Summary, warnings: &[String]) -> String {
    let mut text = String::new();
    let mut line = |what: &str, value: String| {
        // A string takes all that is written.
        let _ = writeln!(text, "{what:<8} {value}");
    };
    line("file", name.to_owned());
    line("format", format!("{}: {}", read.format, read.format.describe()));
    let then =
        if read.loops_by_nature { "then begins anew" } else { "then ends, unless told to repeat" };
    line("span", format!("{}, {then}", seconds(summary.span)));
    line("entries", entries(&read.timeline, summary));
    if let Some(mean) = mean(summary) {
        line("mean", mean);
    }
    if let Some(peak) = summary.peak_bps {
        let over = summary.peak_over.map_or_else(String::new, |over| format!(" over {over}"));
        line("peak", format!("{}{over}", rate(peak)));
    }
    for (what, value) in outages(summary) {
        line(what, value);
    }
    if let Some(step) = summary.smallest_step {
        line("step", format!("{step}, the smallest"));
    }
    if let Some([least, mean, greatest]) = summary.delay {
        let [least, mean, greatest] = [least, to_micros(mean), greatest].map(millis);
        line("delay", format!("{mean} on average, {least} to {greatest}"));
    }
    if let Some([mean, greatest]) = summary.loss {
        line("loss", format!("{mean} on average, up to {greatest}"));
    }
    for warning in warnings {
        line("warning", warning.clone());
    }
    text
}

fn mean(summary: &Summary) -> Option<String> {
    let finite = summary.mean_bps.map(rate);
    if summary.unlimited == Duration::ZERO {
        return finite;
    }
    let unlimited = format!("unlimited for {}", seconds(summary.unlimited));
    Some(finite.map_or_else(|| unlimited.clone(), |mean| format!("{unlimited}, else {mean}")))
}

/// The longest outage, that at the beginning, and where there are several long ones these.
fn outages(summary: &Summary) -> Vec<(&'static str, String)> {
    let place = |outage: Outage| format!("{} at {}", seconds(outage.time), seconds(outage.at));
    let longest =
        summary.outage.map_or_else(|| "none".to_owned(), |outage| place(outage) + ", the longest");
    let mut lines = vec![("outage", longest)];
    if summary.dead_start >= DEAD {
        let start = seconds(summary.dead_start);
        lines.push(("start", format!("{start}, before which nothing passes")));
    }
    let Outages { count, time, .. } = summary.outages;
    if count > 1 {
        let (time, most) = (seconds(time), MOST_SHOWN);
        let which = if count > most { format!("; the {most} longest") } else { String::new() };
        lines.push(("outages", format!("{count} of 1 s and more, {time} in all{which}:")));
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        lines.extend(summary.outages.first(most).into_iter().map(|outage| ("", place(outage))));
    }
    lines
}

fn outages_as_json(outages: &Outages) -> Value {
    let each = |outage: &Outage| json!({ "at_ns": outage.at.as_nanos(), "time_ns": outage.time.as_nanos() });
    json!({
        "least_ns": LISTED.as_nanos(),
        "count": outages.count,
        "time_ns": outages.time.as_nanos(),
        "longest": outages.longest.iter().map(each).collect::<Vec<_>>(),
    })
}

fn entries(timeline: &Timeline, summary: &Summary) -> String {
    match &timeline.course {
        Course::Steps(steps) => plural(steps.len() as u64, "step"),
        Course::Deliveries { opportunity, .. } => {
            let times = summary.entries;
            format!(
                "{} opportunit{} at {times} time{}, {} bytes each, {} per packet",
                summary.opportunities,
                if summary.opportunities == 1 { "y" } else { "ies" },
                if times == 1 { "" } else { "s" },
                opportunity.bytes,
                opportunity.per_packet
            )
        }
    }
}

fn as_json(name: &str, read: &Read, summary: &Summary, warnings: &[String]) -> Value {
    let nanos = |time: Option<Duration>| time.map(Duration::as_nanos);
    let opportunity = match &read.timeline.course {
        Course::Steps(_) => None,
        Course::Deliveries { opportunity, .. } => Some(json!({
            "bytes": opportunity.bytes, "per_packet_bytes": opportunity.per_packet,
            "count": summary.opportunities,
        })),
    };
    json!({
        "schema": SCHEMA,
        "file": name,
        "format": read.format.name(),
        "achieved": read.format.is_achieved(),
        "course": if opportunity.is_some() { "deliveries" } else { "steps" },
        "entries": summary.entries,
        "opportunity": opportunity,
        "span_ns": summary.span.as_nanos(),
        "repeats": read.loops_by_nature,
        "mean_bps": summary.mean_bps,
        "unlimited_ns": summary.unlimited.as_nanos(),
        "peak_bps": summary.peak_bps,
        "peak_over_ns": nanos(summary.peak_over),
        "outage_ns": nanos(summary.outage.map(|outage| outage.time)),
        "outage_at_ns": nanos(summary.outage.map(|outage| outage.at)),
        "dead_start_ns": summary.dead_start.as_nanos(),
        "outages": outages_as_json(&summary.outages),
        "smallest_step_ns": nanos(summary.smallest_step),
        "delay": summary.delay.map(|[least, mean, greatest]| json!({
            "min_ns": least.as_nanos(), "mean_ns": mean.as_nanos(), "max_ns": greatest.as_nanos(),
        })),
        "loss": summary.loss.map(|[mean, greatest]| json!({
            "mean": mean.to_string(), "max": greatest.to_string(),
        })),
        "warnings": warnings,
    })
}

/// Seconds with three decimals, more where the time has them; below a millisecond as links write
/// times.
fn seconds(time: Duration) -> String {
    if (1..1_000_000).contains(&time.as_nanos()) {
        return time.to_string();
    }
    format!("{} s", exact(time.as_nanos(), 1_000_000_000))
}

/// Milliseconds with three decimals, more where the time has them.
fn millis(time: Duration) -> String {
    format!("{} ms", exact(time.as_nanos(), 1_000_000))
}

/// `value / unit`, a power of ten from 1,000 on, to the last digit that is not 0, the third at least.
fn exact(value: u64, unit: u64) -> String {
    let width = usize::try_from(unit.ilog10()).unwrap_or(0);
    let digits = format!("{:0width$}", value % unit);
    let kept = digits.trim_end_matches('0').len().max(3);
    format!("{}.{}", value / unit, &digits[..kept])
}

/// A mean, whose digits have no end, to the nearest microsecond.
fn to_micros(mean: Duration) -> Duration {
    Duration::from_micros(mean.as_nanos() / 1_000 + u64::from(mean.as_nanos() % 1_000 >= 500))
}

const SCHEMA: &str = "punctual.trace/1";
/// Logs of about a second a line.
const COARSE: Duration = Duration::from_millis(900);
/// A start that is later than a trace's own grain.
const DEAD: Duration = Duration::from_millis(100);
/// Outages that are printed one by one.
const MOST_SHOWN: u64 = 10;
/// Applications and their users give up; TCP's retransmissions are 10 s and more apart.
const LONG: Duration = Duration::from_secs(10);
