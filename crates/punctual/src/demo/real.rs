//! The demonstration on real packets.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use punctual_measure::report::Report;
use punctual_measure::units;
use serde_json::{Value, json};

use super::{LINK, Shown};
use crate::cli::{Net, RunOptions};
use crate::failure::Failure;
use crate::log::LogReader;
use crate::run;
use crate::verify;

/// Runs round trips over an idle link, then twice what the link carries; a sender and a receiver
/// of our own on both ends, so that no other program is needed.
pub(super) fn show() -> Result<Shown, Failure> {
    let directory = Directory::new()?;
    let log = directory.0.join("log");
    eprintln!("punctual demo: real packets through {LINK}, both ways; this takes about 13 s");
    let finished = run::run_quietly(&options(&directory.0, log.clone())?)?;
    let round_trips = result(&directory.0, "rtt")?;
    let received = result(&directory.0, "received")?;
    let outcome =
        LogReader::open(&log).and_then(verify::verify).context("cannot replay the log")?;
    let report = &finished.report;
    let as_claimed = finished.status == 0 && outcome.code() == 0 && received["received"] != 0;
    Ok(Shown {
        text: text(report, &round_trips, &received, &outcome.to_string()),
        json: json!({
            "mode": "real",
            "link": LINK,
            "round_trips": round_trips,
            "received": received,
            "replay": outcome.to_json(),
            "report": report,
        }),
        as_claimed,
    })
}

fn options(directory: &Path, log: PathBuf) -> Result<RunOptions> {
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let program = quoted(&program);
    let file = |name: &str| quoted(&directory.join(name));
    let peer = format!(
        "{program} traffic echo [::]:{ECHO} & {program} traffic udp-receive [::]:{SINK} \
         --link-rate 20mbit --count {COUNT} --idle 500ms >{}",
        file("received")
    );
    let command = format!(
        "{program} traffic rtt $PUNCTUAL_PEER:{ECHO} --count 200 --interval 15ms >{} && \
         {program} traffic udp-send $PUNCTUAL_PEER:{SINK} --rate 40mbit --duration 6s >/dev/null && \
         sleep 2",
        file("rtt")
    );
    Ok(RunOptions {
        net: Some(Net::Lab),
        both: Some(LINK.to_owned()),
        peer: Some(peer),
        peer_port: Some(SINK),
        log: Some(log),
        quiet: true,
        command: vec!["/bin/sh".into(), "-c".into(), command.into()],
        ..RunOptions::default()
    })
}

fn text(report: &Report, round_trips: &Value, received: &Value, replay: &str) -> String {
    let up = &report.directions.up;
    let nanos = |value: &Value| value.as_i64().map_or_else(|| "-".to_owned(), units::duration);
    let bps = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), units::rate);
    let late = &up.lateness.distribution;
    let rows = [
        (
            "rate, Ethernet framing counted",
            bps(up.rate.frame_bps),
            bps(received["frame_bps"].as_u64()),
        ),
        (
            "packets out, received",
            up.packets.departed.to_string(),
            received["received"].to_string(),
        ),
        (
            "dropped by the queue, missing",
            up.packets.dropped_total().to_string(),
            received["missing"].to_string(),
        ),
        ("median error of spacing", "-".to_owned(), nanos(&received["spacing"]["error"]["p50_ns"])),
        (
            "median round trip, link idle",
            "-".to_owned(),
            nanos(&round_trips["round_trip"]["p50_ns"]),
        ),
    ];
    let mut text = format!(
        "real packets: {LINK} both ways, through three network namespaces on Linux {}\n\n\
         {:34}{:>18}{:>24}\n",
        report.host.kernel.as_deref().unwrap_or("?"),
        "",
        "the report says",
        "the receiver's kernel"
    );
    for (what, ours, theirs) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{what:34}{ours:>18}{theirs:>24}");
    }
    let lateness = |ns: Option<i64>| ns.map_or_else(|| "-".to_owned(), units::duration);
    let _ = write!(
        text,
        "\nlateness   p50 {}, p99 {}, p99.9 {}\nverdict    {}\nreplay     {replay}\n",
        lateness(late.p50_ns),
        lateness(late.p99_ns),
        lateness(late.p999_ns),
        verdict(report),
    );
    text
}

fn verdict(report: &Report) -> String {
    let verdict = &report.verdict;
    let resolution = verdict.resolution_ns.map_or_else(|| "-".to_owned(), units::duration);
    let mut text = if verdict.ok {
        format!("ok, good down to {resolution}")
    } else {
        format!("not ok, good down to {resolution}")
    };
    for reason in &verdict.reasons {
        let _ = write!(text, "; {}", reason.text);
    }
    text
}

/// The JSON that one of our own programs has left.
fn result(directory: &Path, name: &str) -> Result<Value> {
    let path = directory.join(name);
    let text = fs::read_to_string(&path)
        .with_context(|| format!("the demonstration's {name} left no result"))?;
    serde_json::from_str(&text)
        .with_context(|| format!("the demonstration's {name} left no whole result: {text:?}"))
}

/// A path as one word for `sh`.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}

/// A directory of the demonstration's own, removed on drop.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("punctual-demo-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What stays behind is a few kilobytes in the temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

const ECHO: u16 = 7007;
const SINK: u16 = 7008;
/// More than 6 s at 20 Mbit/s carry: the receiver ends when nothing comes any more.
const COUNT: u32 = 1_000_000;
