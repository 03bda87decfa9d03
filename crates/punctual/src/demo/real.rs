//! The demonstration on real packets.

use std::fmt::Write;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, anyhow};
use punctual_linux::process::SignalFd;
use punctual_linux::wait::any_readable;
use punctual_measure::report::Report;
use punctual_measure::units;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::{Value, json};

use super::{LINK, Shown};
use crate::failure::Failure;
use crate::log::LogReader;
use crate::runtime::{RunDirectory, base_directory};
use crate::verify;

/// Runs round trips over an idle link, and then twice what the link carries; a sender and a
/// receiver of our own on both ends, so that no other program is needed.
pub(super) fn show() -> Result<Shown, Failure> {
    // Until all is removed again; a signal that comes meanwhile is the end of it.
    let signals = SignalFd::new()?;
    let directory = RunDirectory::scratch(&base_directory())?;
    crate::tell(format_args!("real packets through {LINK}, both ways; this takes about 12 s"));
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let at = Place { directory: directory.path(), signals: &signals, program: quoted(&program) };
    let idle = at.idle(&program)?;
    let full = at.saturated(&program)?;
    let round_trips = at.result("rtt")?;
    let received = at.result("received")?;
    let outcomes = [at.replay("idle")?, at.replay("full")?];
    at.interrupted()?;
    let as_claimed = outcomes.iter().all(|outcome| outcome.code() == 0);
    let [first, second] = outcomes.each_ref().map(ToString::to_string);
    Ok(Shown {
        text: text([&idle, &full], &round_trips, &received, [&first, &second]),
        json: json!({
            "mode": "real",
            "link": LINK,
            "round_trips": round_trips,
            "received": received,
            "replays": outcomes.each_ref().map(verify::Outcome::to_json),
            "reports": [idle, full],
        }),
        as_claimed: as_claimed && received["received"] != 0,
    })
}

/// Where the demonstration's files are, and the program as a word for `sh`.
struct Place<'a> {
    directory: &'a Path,
    signals: &'a SignalFd,
    program: String,
}

impl Place<'_> {
    fn idle(&self, program: &Path) -> Result<Report, Failure> {
        let ours = &self.program;
        let peer = format!("exec {ours} traffic echo [::]:{PORT}");
        let command = format!(
            "exec {ours} traffic rtt $PUNCTUAL_PEER:{PORT} --count 200 --interval 15ms >{}",
            quoted(&self.directory.join("rtt"))
        );
        self.run(program, "idle", &peer, &command)
    }

    fn saturated(&self, program: &Path) -> Result<Report, Failure> {
        let ours = &self.program;
        let peer = format!(
            "exec {ours} traffic udp-receive 0.0.0.0:{PORT} --link-rate 20mbit --idle 500ms >{}",
            quoted(&self.directory.join("received"))
        );
        // The receiver ends when nothing has come for half a second; the run must last longer.
        let command = format!(
            "{ours} traffic udp-send $PUNCTUAL_PEER:{PORT} --rate 40mbit --duration 6s >&2 && sleep 2"
        );
        self.run(program, "full", &peer, &command)
    }

    /// Runs the link as anybody would, and reads its report.
    fn run(
        &self,
        program: &Path,
        name: &str,
        peer: &str,
        command: &str,
    ) -> Result<Report, Failure> {
        let file = |kind: &str| self.directory.join(format!("{name}.{kind}"));
        let said = File::create(file("said")).context("cannot create the run's messages")?;
        let mut run = Command::new(program)
            .args(["run", "--net", "lab", "--both", LINK, "--peer", peer, "--quiet"])
            .args(["--peer-port", &PORT.to_string(), "--report"])
            .arg(file("json"))
            .arg("--log")
            .arg(file("log"))
            .args(["--", "sh", "-c", command])
            // Under sudo the command would be its caller, to whom our directory is closed.
            .env_remove("SUDO_UID")
            .env_remove("SUDO_GID")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .context("cannot start the demonstration's run")?;
        let status = self.end_of(&mut run)?;
        let said = fs::read(file("said")).context("cannot read the run's messages")?;
        let said = String::from_utf8_lossy(&said);
        if let Some((_, reason)) = said.split_once(Failure::REFUSED) {
            return Err(Failure::Refused(reason.trim().to_owned()));
        }
        if !status.success() {
            return Err(anyhow!("the demonstration's run failed, {status}: {said}").into());
        }
        let report = fs::read(file("json")).context("cannot read the run's report")?;
        Ok(serde_json::from_slice(&report).context("cannot understand the run's report")?)
    }

    /// Waits for the end of the run. A signal that asks for ours is handed on, and is told when the
    /// run has ended.
    fn end_of(&self, run: &mut Child) -> Result<ExitStatus, Failure> {
        let pid = Pid::from_child(run);
        let ended = pidfd_open(pid, PidfdFlags::empty())?;
        let mut stopped = Ok(());
        loop {
            if let Some(status) = run.try_wait()? {
                return stopped.map(|()| status);
            }
            let mut fds = [
                PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
            ];
            any_readable(&mut fds, None)?;
            while let Some(received) = self.signals.next()? {
                stopped = Err(Failure::Interrupted(received.signal));
                // The run has the terminal's signals itself.
                if !received.from_terminal {
                    // It may have ended.
                    let _ = kill_process(pid, Signal::TERM);
                }
            }
        }
    }

    /// Whether a signal came while no run was waited for.
    fn interrupted(&self) -> Result<(), Failure> {
        let received = self.signals.next()?;
        received.map_or(Ok(()), |received| Err(Failure::Interrupted(received.signal)))
    }

    fn replay(&self, name: &str) -> Result<verify::Outcome> {
        let log = LogReader::open(&self.directory.join(format!("{name}.log")));
        log.and_then(verify::verify).context("cannot replay the log")
    }

    /// The JSON that one of our own programs has left.
    fn result(&self, name: &str) -> Result<Value> {
        let text = fs::read_to_string(self.directory.join(name))
            .with_context(|| format!("the demonstration's {name} left no result"))?;
        serde_json::from_str(&text)
            .with_context(|| format!("the demonstration's {name} left no whole result: {text:?}"))
    }
}

fn text(
    [idle, full]: [&Report; 2],
    round_trips: &Value,
    received: &Value,
    replays: [&str; 2],
) -> String {
    let mut text = format!(
        "real packets: {LINK} both ways, through three network namespaces on Linux {}\n\n\
         {:34}{:>18}{:>24}\n",
        full.host.kernel.as_deref().unwrap_or("?"),
        "",
        "the report says",
        "the endpoints saw"
    );
    for (what, ours, theirs) in rows([idle, full], round_trips, received) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{what:34}{ours:>18}{theirs:>24}");
    }
    let lateness = |ns: Option<i64>| ns.map_or_else(|| "-".to_owned(), units::duration);
    for (phase, report, replay) in [("idle", idle, replays[0]), ("full", full, replays[1])] {
        let late = &report.directions.up.lateness.distribution;
        let _ = write!(
            text,
            "\n{phase}: lateness up p50 {}, p99 {}, p99.9 {}\n      verdict {}\n      replay {replay}\n",
            lateness(late.p50_ns),
            lateness(late.p99_ns),
            lateness(late.p999_ns),
            verdict(report),
        );
    }
    text
}

/// What the report says beside what the endpoints saw, row by row.
fn rows(
    [idle, full]: [&Report; 2],
    round_trips: &Value,
    received: &Value,
) -> [(&'static str, String, String); 5] {
    let up = &full.directions.up;
    let nanos = |value: &Value| value.as_i64().map_or_else(|| "-".to_owned(), units::duration);
    let bps = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), rate);
    let trip = [&idle.directions.up, &idle.directions.down]
        .map(|way| way.delay.total.p50_ns.unwrap_or(0))
        .iter()
        .sum();
    [
        (
            "median round trip, link idle",
            units::duration(trip),
            nanos(&round_trips["round_trip"]["p50_ns"]),
        ),
        ("offered 40 Mbit/s, carried", bps(up.rate.frame_bps), bps(received["frame_bps"].as_u64())),
        (
            "packets out, received",
            up.packets.departed.to_string(),
            received["received"].to_string(),
        ),
        (
            "dropped, missing in between",
            up.packets.dropped_total().to_string(),
            received["missing"].to_string(),
        ),
        (
            "spacing error p50, p90",
            "-".to_owned(),
            format!(
                "{}, {}",
                nanos(&received["spacing"]["error"]["p50_ns"]),
                nanos(&received["spacing"]["error"]["p90_ns"])
            ),
        ),
    ]
}

/// With seven digits: the rate is right to a few parts in a million.
fn rate(bps: u64) -> String {
    format!("{}.{:05} Mbit/s", bps / 1_000_000, bps % 1_000_000 / 10)
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

/// A path as one word for `sh`.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}

const PORT: u16 = 7007;
