//! The report in at most ten entries of at most 100 columns, for people; what takes more goes on
//! below itself.

use super::{Delays, Direction, Host, Report, Run};
use crate::distribution::Distribution;
use crate::lateness::Lateness;
use crate::units::{
    count, cut, duration, duration_or_dash, pair, percent, rate, share, visible, wrap,
};
use crate::verdict::{PAUSE, Verdict};

/// The report as text: what ran, the verdict, packets, delays by stage and lateness of each
/// direction, then as many reasons and notes as fit, and the host. At most ten entries: the command
/// is cut where it is long, what has figures goes on in the next line, indented. Each line ends with
/// a newline.
pub fn text(report: &Report) -> String {
    // Beside the packets of two directions: a heading, two lines of delay, two of lateness.
    let figures = figure_lines(report);
    let room = MAX_LINES - 2 - figures.len();
    let mut lines = vec![verdict_line(report, room)];
    lines.extend(explanations(report).into_iter().take(room));
    lines.extend(figures);
    // Names and commands come from outside: what they hold must neither break a line nor reach
    // the terminal.
    let run = cut(visible(&run_line(&report.run)).trim_end(), MAX_COLUMNS) + "\n";
    let wrapped = lines.iter().map(|line| wrap(visible(line).trim_end(), MAX_COLUMNS, LABEL));
    std::iter::once(run).chain(wrapped).collect()
}

/// The queues that have counters of their own, each as `tc -s -d qdisc show` prints a qdisc; empty
/// when there are none. Each line ends with a newline.
pub fn queues(report: &Report) -> String {
    let directions = report.directions.named().into_iter();
    let own = directions.filter(|(_, direction)| !direction.queue.counters.is_empty());
    let lines = own.flat_map(|(name, direction)| {
        let first =
            format!("{name}: {}\n", direction.queue.text.first().map_or("", String::as_str));
        let others = direction.queue.text.iter().skip(1).map(|line| format!("{line}\n"));
        std::iter::once(first).chain(others)
    });
    lines.collect()
}

fn run_line(run: &Run) -> String {
    let exit =
        run.exit_status.map_or_else(|| "still running".into(), |code| format!("exit {code}"));
    let cpu = run.cpu_ppm().map_or_else(String::new, |ppm| format!(", cpu {}", percent(ppm)));
    let (name, time, precision) = (&run.name, duration(run.duration_ns), &run.precision);
    format!("punctual {name}: {time}, {exit}, {precision}{cpu}: {}", run.command.join(" "))
}

/// Names each reason, and each note for which `room` leaves no line of its own. What does not fit
/// gives way: first what the resolution is, then the notes from the last on.
fn verdict_line(report: &Report, room: usize) -> String {
    let verdict = &report.verdict;
    let notes = verdict.notes.iter().skip(room.saturating_sub(verdict.reasons.len()));
    let notes: Vec<_> = notes.map(|note| note.word.word()).collect();
    let whole = verdict_words(verdict, " (p99.9 of lateness)", &notes);
    let shorter = (0..=notes.len()).rev().map(|n| verdict_words(verdict, "", &notes[..n]));
    let fits = |line: &String| line.chars().count() <= MAX_COLUMNS;
    let bare = || verdict_words(verdict, "", &[]);
    std::iter::once(whole).chain(shorter).find(fits).unwrap_or_else(bare)
}

fn verdict_words(verdict: &Verdict, scale: &str, notes: &[&str]) -> String {
    let resolution = match verdict.resolution_ns {
        Some(ns) => format!("good down to {}{scale}", duration(ns)),
        None => "nothing departed".into(),
    };
    let reasons: Vec<_> = verdict.reasons.iter().map(|reason| reason.word.word()).collect();
    let judged = if verdict.ok { "ok" } else { "NOT OK" };
    let list = |lead: &str, words: &[&str]| {
        if words.is_empty() { String::new() } else { format!("{lead}{}", words.join(", ")) }
    };
    let (reasons, notes) = (list(": ", &reasons), list("; also ", notes));
    labelled("verdict", &format!("{judged}, {resolution}{reasons}{notes}"))
}

/// In order of interest: reasons, notes, the host.
fn explanations(report: &Report) -> Vec<String> {
    let reasons = report.verdict.reasons.iter().map(|r| labelled("because", &r.text));
    let notes = report.verdict.notes.iter().map(|n| labelled("note", &n.text));
    reasons.chain(notes).chain([host_line(&report.host)]).collect()
}

fn host_line(host: &Host) -> String {
    let mut facts: Vec<String> = Vec::new();
    facts.extend(host.kernel.as_ref().map(|kernel| format!("Linux {kernel}")));
    facts.extend(host.cpus.map(|cpus| format!("{cpus} cpus")));
    facts.extend(host.clocksource.clone());
    facts.extend(host.granted.policy.as_ref().map(|policy| format!("policy {policy}")));
    facts.extend(host.granted.slice_ns.map(|ns| format!("slice {}", duration(ns))));
    facts
        .extend(host.granted.cpu_dma_latency_ns.map(|ns| format!("idle held at {}", duration(ns))));
    facts.extend(host.lacks.first().map(|lack| format!("lacks {lack}")));
    labelled("host", &facts.join(", "))
}

fn figure_lines(report: &Report) -> Vec<String> {
    let directions = report.directions.named();
    let busy = || directions.iter().filter(|(_, direction)| direction.packets.departed > 0);
    let mut lines: Vec<_> = directions.iter().map(|(name, d)| packets_line(name, d)).collect();
    if busy().next().is_some() {
        lines.push(delay_heading());
    }
    lines.extend(busy().map(|(name, direction)| delay_line(name, &direction.delay)));
    lines.extend(busy().map(|(name, direction)| lateness_line(name, &direction.lateness)));
    lines
}

/// The rate, and the link's own where it has one for all of the run: `19.08 Mbit/s of 20mbit`.
fn carried(direction: &Direction) -> String {
    let asked = direction.link.get("rate").filter(|asked| *asked != "unlimited");
    let changes = direction.rate_changes;
    match (direction.rate.frame_bps, asked) {
        (Some(bps), _) if changes == 1 => format!("{} with 1 rate change", rate(bps)),
        (Some(bps), _) if changes > 0 => {
            format!("{} with {} rate changes", rate(bps), count(changes))
        }
        (Some(bps), _) if direction.trace.as_ref().is_some_and(|trace| trace.paces) => {
            format!("{} along its trace", rate(bps))
        }
        (None, Some(asked)) if asked == PAUSE => "paused".into(),
        (Some(bps), Some(asked)) => format!("{} of {asked}", rate(bps)),
        (Some(bps), None) => rate(bps),
        // One departure or none has no rate.
        (None, _) => "rate unknown".into(),
    }
}

fn packets_line(name: &str, direction: &Direction) -> String {
    let packets = &direction.packets;
    let (lost, unread) = (direction.lost_before.total(), direction.lost_before.unread_at_end);
    if packets.arrived + lost + unread == 0 {
        return labelled(name, "no packets");
    }
    let mut facts = vec![carried(direction)];
    let counted = |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", count(n)));
    facts.extend(counted(lost, "lost before"));
    facts.extend(counted(direction.flushed_by_kernel, "flushed"));
    facts.extend(counted(direction.copies_failed, "copies failed"));
    facts.push(format!("{} in", count(packets.arrived)));
    facts.push(format!("{} out", count(packets.departed)));
    facts.push(dropped(direction));
    facts.extend(counted(packets.marked, "marked"));
    facts.extend(counted(packets.duplicated, "duplicated"));
    facts.extend(counted(packets.corrupted, "corrupted"));
    facts.extend(counted(packets.reordered, "reordered"));
    facts.extend(counted(packets.queued, "queued"));
    facts.extend(counted(unread, "unread"));
    labelled(name, &facts.join(", "))
}

/// `23 dropped (limit 20, loss 3)`, the commonest reasons first.
fn dropped(direction: &Direction) -> String {
    let packets = &direction.packets;
    let mut reasons: Vec<_> = packets.dropped.iter().filter(|(_, n)| **n > 0).collect();
    reasons.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    let named = reasons.iter().map(|(reason, n)| format!("{reason} {}", count(**n)));
    let named: Vec<_> = named.collect();
    let total = count(packets.dropped_total());
    if named.is_empty() {
        return format!("{total} dropped");
    }
    format!("{total} dropped ({})", named.join(", "))
}

fn delay_heading() -> String {
    let stages = stages(&Delays::default()).map(|(stage, _)| format!("{stage:>COLUMN$}"));
    labelled("p50/p99", &stages.concat())
}

fn delay_line(name: &str, delays: &Delays) -> String {
    let figures = stages(delays).map(|(_, d)| format!("{:>COLUMN$}", pair(d.p50_ns, d.p99_ns)));
    labelled(&format!("delay {name}"), &figures.concat())
}

fn stages(delays: &Delays) -> [(&'static str, &Distribution); 6] {
    [
        ("total", &delays.total),
        ("queue", &delays.queue),
        ("serialisation", &delays.serialisation),
        ("pacing", &delays.pacing),
        ("propagation", &delays.propagation),
        ("ingest", &delays.ingest),
    ]
}

fn lateness_line(name: &str, lateness: &Lateness) -> String {
    let d = &lateness.distribution;
    let figures = [("p50", d.p50_ns), ("p99", d.p99_ns), ("p99.9", d.p999_ns), ("max", d.max_ns)];
    let figures = figures.map(|(name, ns)| format!("{name} {:<7}", duration_or_dash(ns)));
    let rest = format!("{} {}", figures.join(" "), exceedances(lateness).join(" "));
    labelled(&format!("late {name}"), &rest)
}

/// Shares of departures at least so late; a limit that the next higher one implies is left out.
fn exceedances(lateness: &Lateness) -> Vec<String> {
    let over_4ms = lateness.ge_4ms;
    let over_1ms = over_4ms + lateness.lt_4ms;
    let over_50us = over_1ms + lateness.lt_1ms;
    let limits = [(over_50us, over_1ms, "50us"), (over_1ms, over_4ms, "1ms"), (over_4ms, 0, "4ms")];
    let early = (lateness.early > 0).then(|| format!("{} EARLY", count(lateness.early)));
    let telling = limits.iter().filter(|(n, higher, _)| n > higher);
    let shares =
        telling.map(|(n, _, limit)| format!(">{limit} {}", share(*n, lateness.distribution.n)));
    early.into_iter().chain(shares).collect()
}

fn labelled(label: &str, rest: &str) -> String {
    format!("{label:<LABEL$}{rest}")
}

const MAX_LINES: usize = 10;
const MAX_COLUMNS: usize = 100;

/// Width of the labels: `delay down` and a space.
const LABEL: usize = 11;

/// Width of a stage: `0.045/50.0 ms` and a space; six of them and a label fill 95 columns.
const COLUMN: usize = 14;
