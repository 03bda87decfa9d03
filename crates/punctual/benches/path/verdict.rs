//! Verdicts: quiet runs must be ok, runs starved on purpose must not be.

use std::collections::BTreeMap;
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use punctual_linux::clock::monotonic;
use punctual_linux::wait::sleep_until;
use punctual_sched::Duration;

use crate::stage::{Load, Outcome, PORT, Stage, Way, traffic};

/// The first argument that makes this program a hog.
pub(crate) const HOG: &str = "__hog";

pub(crate) fn measure(stage: &Stage, runs: u32) -> Result<()> {
    // What was granted decides: real-time policy for root, polling for an ordinary user.
    let precision = if stage.user() { "strict" } else { "balanced" };
    let mut quiet = Tally::default();
    for _ in 0..runs {
        quiet.count(&run(stage, precision)?);
    }
    quiet.print(&format!("verdict: {runs} quiet runs, {precision}, 4 of 5 Mbit/s, 10 ms, 3 s"));
    let mut starved = Tally::default();
    for _ in 0..runs {
        let Some(_hogs) = Hogs::start(stage)? else {
            println!(
                "\nverdict: SKIPPED, no chrt (package util-linux) to start real-time hogs with"
            );
            return Ok(());
        };
        starved.count(&run(stage, precision)?);
    }
    starved.print(&format!("verdict: {runs} starved runs, {precision}, the same load"));
    Ok(())
}

fn run(stage: &Stage, precision: &str) -> Result<Outcome> {
    let load = Load {
        peer: format!("udp-receive 0.0.0.0:{PORT} --idle 1s"),
        command: traffic(&format!("udp-send $PUNCTUAL_PEER:{PORT} --rate 4mbit --duration 3s")),
        until_peer_ends: true,
    };
    stage.run(&Way::Link { precision, both: "rate=5mbit delay=10ms" }, &load)
}

/// Verdicts and the words of their reasons.
#[derive(Default)]
struct Tally {
    ok: u32,
    not_ok: u32,
    reasons: BTreeMap<String, u32>,
}

impl Tally {
    fn count(&mut self, outcome: &Outcome) {
        let verdict = &outcome.report["verdict"];
        let ok = verdict["ok"] == true;
        *(if ok { &mut self.ok } else { &mut self.not_ok }) += 1;
        for reason in verdict["reasons"].as_array().into_iter().flatten() {
            let word = reason["word"].as_str().map_or_else(|| reason.to_string(), str::to_owned);
            *self.reasons.entry(word).or_default() += 1;
        }
        print!("{}", if ok { '.' } else { 'x' });
        // Progress only.
        let _ = std::io::Write::flush(&mut std::io::stdout());
    }

    fn print(&self, title: &str) {
        println!("\n{title}\n  ok {}, not ok {}, reasons {:?}", self.ok, self.not_ok, self.reasons);
    }
}

/// Hogs on every processor; ended on drop.
struct Hogs(Vec<Child>);

impl Hogs {
    /// As root at a real-time priority above ours, idle for a moment now and then so that the
    /// machine lives; as an ordinary user several to a processor, which compete by number. `None`
    /// where `chrt` is missing.
    fn start(stage: &Stage) -> Result<Option<Self>> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let mut hogs = Self(Vec::new());
        let number = if stage.user() { processors * HOGS_OF_USER } else { processors };
        for number in 0..number {
            let mut command = if stage.user() {
                stage.own()
            } else {
                let mut chrt = Command::new("chrt");
                chrt.args(["-f", PRIORITY, "taskset", "-c", &number.to_string()]);
                chrt.arg(stage.own_path());
                chrt
            };
            let idle = if stage.user() { "0" } else { "10" };
            let command = command.args([HOG, "50", idle]).stdin(Stdio::null());
            match command.spawn() {
                Ok(child) => hogs.0.push(child),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error).context("cannot start a hog"),
            }
        }
        Ok(Some(hogs))
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            // Ended already: nothing to end.
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// Busy and idle by turns for so many milliseconds each; ends by itself after a minute.
pub(crate) fn hog() -> ExitCode {
    let words: Vec<u64> = std::env::args().skip(2).filter_map(|word| word.parse().ok()).collect();
    let &[busy, idle] = words.as_slice() else { return ExitCode::FAILURE };
    let end = monotonic() + Duration::from_secs(60);
    while monotonic() < end {
        let until = monotonic() + Duration::from_millis(busy);
        while monotonic() < until {
            std::hint::spin_loop();
        }
        if idle > 0 {
            sleep_until(monotonic() + Duration::from_millis(idle));
        }
    }
    ExitCode::SUCCESS
}

/// Above the 49 that the link's thread takes.
const PRIORITY: &str = "60";
const HOGS_OF_USER: usize = 4;
