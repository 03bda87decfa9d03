//! A run that is changed and watched through shared memory, from outside.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use punctual_linux::clock::monotonic;
use punctual_linux::control::layout::STATS;
use punctual_linux::control::{ControlBlock, SetValue, Side, StatsBlock};
use punctual_linux::wait::sleep_until;
use punctual_sched::Duration;
use rustix::process::Signal;

use crate::harness::{Run, Running, is_root, runtime_directory, udp_receiver, udp_sender};
use crate::report::number;
use crate::support::Test;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        the_examples_change_a_rate_and_throughput_follows,
        the_examples_take_every_rate_and_say_when_the_run_is_gone,
        stores_during_pings_lose_none,
        a_set_of_one_value_leaves_the_others_and_twice_is_once,
        what_is_ignored_is_named_in_the_report,
        the_files_lead_to_memory_that_only_its_user_opens_and_go_with_the_run,
        a_killed_run_leaves_files_that_lead_nowhere_and_hinder_nobody,
    ]
    .into()
}

fn the_examples_change_a_rate_and_throughput_follows() {
    let running = Run::new("rate=1mbit limit=20p")
        .peer(&udp_receiver("--idle 1s"))
        .sh(&format!("echo go; {}", udp_sender("--rate 30mbit --duration 3s")))
        .start();
    running.stdout.says("go");
    let (control, stats) = blocks(&running);
    let examples = Examples::prepare(running.directory());
    let mut expected = Vec::new();
    for (example, mbit) in examples.changing_rates().into_iter().zip([12, 3, 16, 8]) {
        let rate = mbit * 1_000_000;
        let place = [control.to_str().expect("a name of ours"), "up"];
        succeeded(&examples.output(example, &place, &rate.to_string()));
        // What was in service at the old rate.
        pause(20);
        assert_eq!(ControlBlock::open(&control).expect("a block").rate(Side::Up), rate);
        let shown = throughput(&stats, Duration::from_millis(300));
        assert!(shown.abs_diff(rate) * 50 < rate, "{example}: {shown} instead of {rate} bit/s");
        expected.push(format!("{mbit}mbit"));
    }
    if let Some(output) = examples.watch(&stats) {
        let text = succeeded(&output);
        assert!(text.contains("rate=8000000"), "{text}");
    }
    running.signal(Signal::TERM);
    let ended = running.wait();
    let report = ended.report_after(143);
    let changes = report.up.json["changes"].as_array().expect("a list");
    let rates: Vec<_> = changes.iter().map(|change| change["values"]["rate"].clone()).collect();
    assert_eq!(rates, expected);
    assert!(changes.iter().all(|change| change["asked_ns"].is_null()));
    assert_eq!(report.up.json["link"]["rate"], "8mbit", "in force at the end");
    assert_eq!(report.down.json["changes"].as_array().map(Vec::len), Some(0));
    ended.replays(&report);
}

/// A shell that counts to 2^63 refused the number for no bottleneck; a run that is gone was a
/// traceback.
fn the_examples_take_every_rate_and_say_when_the_run_is_gone() {
    let mut running = Run::new("rate=1mbit").sh("echo go; cat").start();
    running.stdout.says("go");
    let (control, stats) = blocks(&running);
    let examples = Examples::prepare(running.directory());
    // What was stored last, as one rate or in a set: an idle link is not looked at.
    let stored = |example| {
        let at = if example == "set_values" { 256 + 144 } else { 256 };
        let block = fs::read(&control).expect("a block");
        u64::from_le_bytes(block[at..at + 8].try_into().expect("a word"))
    };
    let place = [control.to_str().expect("a name of ours"), "up"];
    for example in examples.changing_rates() {
        for (word, rate) in [
            ("unlimited", u64::MAX),
            ("0", 0),
            ("18446744073709551615", u64::MAX),
            ("1000000000000", 1_000_000_000_000),
        ] {
            succeeded(&examples.output(example, &place, word));
            assert_eq!(stored(example), rate, "{example} {word}");
        }
        for word in ["", "-1", "1mbit", "18446744073709551616"] {
            let refused = examples.output(example, &place, word);
            assert!(!refused.status.success(), "{example} {word}");
            let told = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(told.starts_with("usage: ") && told.lines().count() == 1, "{example}: {told}");
        }
        assert_eq!(stored(example), 1_000_000_000_000, "{example}");
    }
    running.close_stdin();
    // Keeps the directory in which they are built.
    let ended = running.wait();
    ended.report();
    let gone = |name: &str, output: Output| {
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let begins = told.starts_with(&format!("{name}: ")) && told.contains("its run is gone");
        assert!(begins && told.lines().count() == 1, "{name}: {told}");
        assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b""[..]), "{name}");
    };
    for example in examples.changing_rates() {
        gone(example, examples.output(example, &place, "5"));
    }
    if let Some(output) = examples.watch(&stats) {
        gone("watch.py", output);
    }
}

/// 0 to 50 ms of loss at each reload (LibreQoS#395).
fn stores_during_pings_lose_none() {
    let running = Run::new("rate=20mbit delay=2ms")
        .peer("exec \"$P\" traffic echo 0.0.0.0:5001")
        .sh("echo go; \"$P\" traffic rtt \"$PUNCTUAL_PEER:5001\" --count 1500 --interval 1ms")
        .start();
    running.stdout.says("go");
    let block = ControlBlock::open(&blocks(&running).0).expect("the run's block");
    for change in 0..100_u64 {
        let side = Side::BOTH[usize::from(change % 4 > 1)];
        if change % 2 == 0 {
            block.store_rate(side, 19_000_000 + change);
        } else {
            let delay = 2_000_000 + change % 5 * 200_000;
            let values = [(SetValue::Delay, delay), (SetValue::LimitPackets, 100 + change)];
            block.set(side, &values).expect("nobody else writes");
        }
        pause(10);
    }
    let ended = running.wait();
    let report = ended.report();
    let result: serde_json::Value =
        serde_json::from_str(ended.text().trim_start_matches("go\n")).expect("a result");
    assert_eq!(result["answered"], 1500, "{result}");
    let changes = |json: &serde_json::Value| json["changes"].as_array().map_or(0, Vec::len);
    assert_eq!(changes(&report.up.json) + changes(&report.down.json), 100);
    for direction in [&report.up, &report.down] {
        assert_eq!(direction.all_dropped() + direction.lost_before + direction.flushed, 0);
    }
    ended.replays(&report);
}

/// Setting one parameter resets the others (docker-tc#1); the same again: "File exists"
/// (pumba#168).
fn a_set_of_one_value_leaves_the_others_and_twice_is_once() {
    let link = "rate=20mbit delay=2ms loss=1% queue=fq_codel fq_codel.target=7ms limit=300p";
    let running = Run::new(link)
        .option("--seed=5")
        .peer(&udp_receiver("--idle 500ms"))
        .sh(&format!("echo go; {}", udp_sender("--packets 2000 --duration 1500ms --size 200")))
        .start();
    running.stdout.says("go");
    let (control, stats) = blocks(&running);
    let block = ControlBlock::open(&control).expect("the run's block");
    let stats = StatsBlock::open(&stats).expect("the run's figures");
    pause(200);
    let before = read(&stats, "packets_out");
    for _ in 0..5 {
        block.set(Side::Up, &[(SetValue::Delay, 9_000_000)]).expect("nobody else writes");
        block.store_rate(Side::Up, 20_000_000);
        pause(20);
    }
    assert_eq!(read(&stats, "delay_ns"), 9_000_000);
    assert_eq!((read(&stats, "changes"), read(&stats, "ignored")), (1, 0));
    assert!(read(&stats, "packets_out") >= before, "counters go on");
    let ended = running.wait();
    let report = ended.report();
    let link = &report.up.json["link"];
    for (name, value) in [
        ("rate", "20mbit"),
        ("delay", "9ms"),
        ("loss", "1%"),
        ("queue", "fq_codel"),
        ("fq_codel.target", "7ms"),
        ("limit", "300p"),
    ] {
        assert_eq!(link[name], value, "{name}");
    }
    let unchanged = report.down.json["link"].as_object().expect("a table");
    for (name, value) in unchanged.iter().filter(|(name, _)| *name != "delay") {
        assert_eq!(&link[name], value, "{name}");
    }
    assert_eq!(report.up.json["changes"].as_array().map(Vec::len), Some(1));
    ended.replays(&report);
}

fn what_is_ignored_is_named_in_the_report() {
    let running = Run::new("rate=20mbit")
        .sh("echo go; until [ -e \"$T/go\" ]; do sleep 0.01; done; \
             \"$SELF\" role=ping $PUNCTUAL_PEER 1")
        .start();
    running.stdout.says("go");
    let block = ControlBlock::open(&blocks(&running).0).expect("the run's block");
    block.store_rate(Side::Up, u64::MAX - 7);
    block.set(Side::Down, &[(SetValue::Jitter, 5)]).expect("nobody else writes");
    fs::write(running.directory().join("go"), "").expect("a directory of ours");
    let ended = running.wait();
    let report = ended.report();
    let ignored = &report.up.json["ignored"];
    assert_eq!(number(&ignored["count"]), 1, "{ignored}");
    let first = &ignored["first"][0];
    assert_eq!((number(&first["value"]), &first["place"]), (u64::MAX - 7, &"word".into()));
    assert_eq!((&first["parameter"], &first["reason"]), (&"rate".into(), &"out of range".into()));
    let down = &report.down.json["ignored"]["first"][0];
    assert_eq!((&down["parameter"], &down["place"]), (&"jitter".into(), &"set".into()));
    let notes = report.json["verdict"]["notes"].to_string();
    assert!(notes.contains("ignored_stores"), "{notes}");
    assert_eq!(report.up.json["link"]["rate"], "20mbit");
    ended.replays(&report);
}

fn the_files_lead_to_memory_that_only_its_user_opens_and_go_with_the_run() {
    let mut running = Run::new("rate=20mbit").sh("echo go; cat").start();
    running.stdout.says("go");
    let (control, stats) = blocks(&running);
    for path in [&control, &stats] {
        let target = fs::read_link(path).expect("a symbolic link");
        assert!(target.starts_with("/proc"), "{}", target.display());
        let metadata = fs::metadata(path).expect("it leads somewhere");
        assert_eq!((metadata.len(), metadata.mode() & 0o777), (4096, 0o600));
    }
    let write = |path: &Path| fs::OpenOptions::new().read(true).write(true).open(path);
    assert!(write(&control).expect("ours").set_len(0).is_err(), "it cannot be truncated");
    if is_root() {
        let mut other = Command::new("setpriv");
        other.args(["--reuid=65534", "--regid=65534", "--clear-groups", "cat"]).arg(&stats);
        let refused = other.output().expect("setpriv is there");
        assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
    }
    let block = ControlBlock::open(&control).expect("the run's block");
    assert_eq!((block.rate(Side::Up), block.rate(Side::Down)), (20_000_000, 20_000_000));
    running.close_stdin();
    running.wait().report();
    assert!(!control.exists() && fs::symlink_metadata(&control).is_err());
    // A mapping outlives the run.
    block.store_rate(Side::Up, 5);
    assert_eq!(block.rate(Side::Up), 5);
}

fn a_killed_run_leaves_files_that_lead_nowhere_and_hinder_nobody() {
    let run = Run::new("rate=20mbit").sh("echo go; sleep 60");
    let name = run.name().to_owned();
    let running = run.start();
    running.stdout.says("go");
    let (control, _) = blocks(&running);
    running.signal(Signal::KILL);
    let exit = running.signal_to_the_end(Signal::KILL, std::time::Duration::from_millis(50));
    assert!(!exit.success());
    assert!(fs::File::open(&control).is_err(), "the memory is gone");
    let again = Run::new("rate=5mbit").named(&name).sh("echo go; cat").start();
    again.stdout.says("go");
    let block = ControlBlock::open(&control).expect("the new run's block");
    assert_eq!(block.rate(Side::Up), 5_000_000);
    again.wait().report();
}

/// `control` and `stats` of a run.
fn blocks(running: &Running) -> (PathBuf, PathBuf) {
    let directory = runtime_directory(running.name());
    (directory.join("control"), directory.join("stats"))
}

fn read(stats: &StatsBlock, name: &str) -> u64 {
    let word = STATS.iter().position(|field| field.name == name).expect("a word") - 1;
    loop {
        if let Some(values) = stats.read(Side::Up) {
            return values[word];
        }
    }
}

/// Bits on the wire per second, by event time.
fn throughput(stats: &Path, span: Duration) -> u64 {
    let stats = StatsBlock::open(stats).expect("the run's figures");
    let word = |name| STATS.iter().position(|field| field.name == name).expect("a word") - 1;
    let look = || loop {
        if let Some(values) = stats.read(Side::Up) {
            break ["at_ns", "bytes_out", "packets_out"].map(|name| values[word(name)]);
        }
    };
    let [from, bytes, packets] = look();
    sleep_until(monotonic() + span);
    let [to, more_bytes, more_packets] = look();
    let framed = (more_bytes - bytes) + 14 * (more_packets - packets);
    framed * 8 * 1_000_000_000 / (to - from)
}

fn pause(milliseconds: u64) {
    sleep_until(monotonic() + Duration::from_millis(milliseconds));
}

/// The programs of `docs/control-block/examples`.
struct Examples {
    source: PathBuf,
    built: PathBuf,
    python: bool,
}

impl Examples {
    fn prepare(directory: &Path) -> Self {
        let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/control-block");
        let source = documents.join("examples");
        for name in ["set_rate", "set_values"] {
            let mut cc = Command::new("cc");
            cc.args(["-Wall", "-Wextra", "-Werror", "-I"]).arg(&documents).arg("-o");
            let file = source.join(name).with_extension("c");
            succeeded(&cc.arg(directory.join(name)).arg(file).output().expect("cc is there"));
        }
        let python = Command::new("python3").arg("--version").output();
        let python = python.is_ok_and(|output| output.status.success());
        if !python {
            eprintln!("left out, no python3: set_rate.py, watch.py");
        }
        Self { source, built: directory.to_owned(), python }
    }

    fn changing_rates(&self) -> Vec<&'static str> {
        let all = ["set_rate", "set_rate.sh", "set_values", "set_rate.py"];
        all.into_iter().filter(|name| self.python || *name != "set_rate.py").collect()
    }

    fn output(&self, name: &str, place: &[&str], rate: &str) -> Output {
        let mut command = match name.rsplit_once('.') {
            Some((_, "py")) => Command::new("python3"),
            Some(_) => Command::new("sh"),
            None => Command::new(self.built.join(name)),
        };
        if name.contains('.') {
            command.arg(self.source.join(name));
        }
        command.args(place).arg(rate);
        if name == "set_values" {
            command.arg("0");
        }
        command.output().expect("it can be started")
    }

    /// What `watch.py` leaves, where there is a Python.
    fn watch(&self, stats: &Path) -> Option<Output> {
        let mut watch = Command::new("python3");
        watch.arg(self.source.join("watch.py")).arg(stats).arg("up");
        self.python.then(|| watch.output().expect("it can be started"))
    }
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
