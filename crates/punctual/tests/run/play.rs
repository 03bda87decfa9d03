//! Traces that a link with traffic is told to follow, and what clients hand over that is none.
#![expect(clippy::unwrap_used, reason = "these functions are tests, run by a runner of our own")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use punctual::log::{Departure, Direction, Entry, LogReader, Record};
use punctual_linux::clock::monotonic;
use punctual_linux::memfd::{self, SealedMemfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use serde_json::Value;

use crate::control::{Client, end, idle, json, pings, result, words};
use crate::harness::{Ended, Run, Running, punctual, udp_receiver, udp_sender};
use crate::report::number;
use crate::support::Test;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        a_played_trace_sets_the_rate_from_when_it_is_acknowledged_and_replays,
        a_link_that_stops_keeps_the_values_that_it_has,
        what_a_trace_was_played_with_is_shown,
        deliveries_of_a_mahimahi_trace_come_at_its_opportunities,
        no_trace_that_is_played_loses_a_ping,
        a_trace_that_a_link_cannot_follow_is_refused_by_name,
        what_is_no_trace_is_refused_and_no_descriptor_stays_open,
        a_trace_that_takes_long_to_read_keeps_nobody_waiting_and_ends_with_the_run,
        a_trace_whose_client_dies_is_given_up,
        a_run_warns_of_its_traces_once,
        a_trace_that_has_ended_is_named_as_what_keeps_packets,
    ]
    .into()
}

/// Three times the rate is offered all the time.
fn a_played_trace_sets_the_rate_from_when_it_is_acknowledged_and_replays() {
    let run = Run::new("rate=20mbit limit=50ms");
    let trace = run.file("steps.csv");
    fs::write(&trace, "time,rate\n0s,5mbit\n400ms,10mbit\n").unwrap();
    let ended = run
        .peer(&udp_receiver("--idle 500ms"))
        .sh(&format!(
            "( sleep 0.4; \"$P\" play --json --direction up --start now \"$T/steps.csv\" ) & {}; wait",
            udp_sender("--rate 60mbit --duration 2s >&2")
        ))
        .finish();
    let report = ended.report();
    let text = ended.text();
    let answer: Value = serde_json::from_str(text.lines().next().unwrap_or_default()).unwrap();
    assert_eq!(answer["applied"]["up"]["changed"], true, "{text}");
    let changes = report.up.json["changes"].as_array().unwrap();
    let [change] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(change["at_ns"], answer["applied"]["up"]["at_ns"]);
    assert_eq!(change["asked_ns"], answer["asked_ns"]);
    let named = change["values"]["trace"].as_str().unwrap();
    let brief = "steps.csv (punctual, 800ms, mean 7500kbit, crc32 ";
    assert!(named.contains(brief), "{named}");
    assert_eq!(report.up.json["link"]["rate"], "10mbit");
    let at = number(&answer["applied"]["up"]["monotonic_ns"]);
    let mut bits = 0;
    for departure in departures(&ended) {
        let due = departure.due.as_nanos();
        bits += if due > at && due <= at + 800_000_000 { 8 * (1_428 + 14) } else { 0 };
    }
    // 5 Mbit/s for 400 ms and 10 Mbit/s for as long, one packet more or less.
    assert!(6_000_000_u64.abs_diff(bits) <= 2 * 8 * 1_442, "{bits}");
    ended.replays(&report);
}

fn a_link_that_stops_keeps_the_values_that_it_has() {
    let running = idle("delay=1ms");
    let name = running.name().to_owned();
    let file = write(&running, "delays.csv", "time,delay\n0s,20ms\n1ms,30ms\n7200s,40ms\n");
    let play = |rest: &[&str]| punctual(words(&[&["play", &name], rest].concat()));
    let played = play(&[&file, "--start=now", "--loop"]);
    assert_eq!(played.status, 0, "{}", played.stderr);
    let told = played.text();
    let parts: Vec<_> = told.trim_end().split(", ").collect();
    assert_eq!(parts.len(), 2, "{told}");
    for (part, way) in parts.iter().zip(["up", "down"]) {
        let begins = part.starts_with(&format!("{way} follows {file} from "));
        assert!(begins && part.ends_with(" s on"), "{told}");
    }
    let shown = json(&punctual(words(&["show", &name, "--json"])));
    let trace = &shown["directions"]["down"]["trace"];
    assert_eq!((&trace["state"], &trace["repeats"]), (&"running".into(), &true.into()), "{trace}");
    assert_eq!((number(&trace["rounds"]), number(&trace["span_ns"]) > 2 * HOUR), (0, true));
    assert!(number(&trace["at_ns"]) > 0);
    assert_eq!(shown["directions"]["down"]["opportunities"], Value::Null);
    let text = punctual(words(&["show", &name, "up"])).text();
    let line = text.lines().find(|line| line.starts_with(" trace ")).expect("it is shown");
    assert!(line.contains("delays.csv (punctual, ") && line.ends_with(" in round 1"), "{line}");
    let stopped = play(&["--direction", "up", "--stop"]);
    assert_eq!(stopped.status, 0, "{}", stopped.stderr);
    assert!(stopped.text().starts_with("up follows none from "), "{}", stopped.text());
    let again = play(&["--stop"]).text();
    assert!(again.starts_with("up followed none, down follows none from "), "{again}");
    let report = end(running);
    for direction in [&report.up, &report.down] {
        let changes = direction.json["changes"].as_array().unwrap();
        assert_eq!(changes.len(), 2, "{changes:?}");
        assert_eq!(changes[1]["values"]["trace"], "none");
        assert_eq!(direction.json["link"]["delay"], "30ms");
        assert_eq!(direction.json["link"]["trace"], "none");
    }
}

fn what_a_trace_was_played_with_is_shown() {
    let running = idle("delay=1ms");
    let name = running.name().to_owned();
    let pairs = write(&running, "pairs", "0 65.0\n1 5\n2 7\n");
    let cell = write(&running, "cell", "1\n2\n2\n5\n");
    let parameters = |file: &str, rest: &str| {
        let rest: Vec<_> = rest.split(' ').collect();
        let played = punctual(words(&[&["play", &name, file], &*rest].concat()));
        assert_eq!(played.status, 0, "{}", played.stderr);
        let shown = json(&punctual(words(&["show", &name, "--json"])));
        let link = shown["directions"]["up"]["link"].as_object().unwrap().clone();
        let of_trace = link.into_iter().filter_map(|(key, value)| {
            Some((key.strip_prefix("trace.")?.to_owned(), value.as_str()?.to_owned()))
        });
        of_trace.collect::<Vec<_>>()
    };
    for (file, options, expected) in [
        (
            &pairs,
            "--unit kbyte --start now --loop=no --offset 1s --scale 0.5",
            [
                ("direction", "auto"),
                ("format", "pairs"),
                ("loop", "no"),
                ("mode", "exact"),
                ("offset", "1s"),
                ("packet", "1504"),
                ("scale", "0.5"),
                ("start", "now"),
                ("unit", "kbyte"),
            ],
        ),
        (
            &cell,
            "--mode fluid --packet 1500 --format mahimahi",
            [
                ("direction", "auto"),
                ("format", "mahimahi"),
                ("loop", "auto"),
                ("mode", "fluid"),
                ("offset", "0ms"),
                ("packet", "1500"),
                ("scale", "1"),
                ("start", "first"),
                ("unit", "auto"),
            ],
        ),
    ] {
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(parameters(file, options), expected, "{options}");
    }
    end(running);
}

fn a_trace_that_has_ended_is_named_as_what_keeps_packets() {
    let run = Run::new("rate=100mbit");
    fs::write(run.file("once.up"), "5\n9\n").unwrap();
    let ended = run
        .peer(&udp_receiver("--idle 300ms"))
        .sh(&format!(
            "\"$P\" play --direction up --loop=no \"$T/once.up\" >&2; {}",
            udp_sender("--rate 12mbit --size 1472 --duration 200ms")
        ))
        .finish();
    let report = ended.report();
    assert_eq!(report.up.json["trace"]["state"], "ended");
    assert_eq!(report.up.json["trace"]["course"], "deliveries");
    assert!(number(&report.up.json["packets"]["queued"]) > 0);
    let notes = report.json["verdict"]["notes"].as_array().unwrap();
    let cut_off = notes.iter().find(|note| note["word"] == "cut_off").expect("it is told");
    let text = cut_off["text"].as_str().unwrap();
    assert!(text.ends_with("when the run ended: the trace of up has ended"), "{text}");
    ended.replays(&report);
}

/// A full packet takes an opportunity each; more is offered than they carry.
fn deliveries_of_a_mahimahi_trace_come_at_its_opportunities() {
    let run = Run::new("delay=2ms");
    fs::write(run.file("cell.up"), "3\n5\n5\n6\n9\n13\n14\n20\n").unwrap();
    let ended = run
        .peer(&udp_receiver("--idle 500ms"))
        .sh(&format!(
            "sleep 0.2; \"$P\" play --direction up --start now \"$T/cell.up\" >&2; {}; sleep 0.1",
            udp_sender("--rate 12mbit --size 1472 --duration 1s")
        ))
        .finish();
    let report = ended.report();
    let at = number(&report.up.json["changes"][0]["at_ns"]);
    let log = LogReader::open(&ended.file("log")).unwrap();
    let begun = log.header().up.start_ns + at;
    let full: Vec<_> =
        departures(&ended).into_iter().filter(|d| d.due.as_nanos() > begun).collect();
    assert!(full.len() > 300, "{} are too few", full.len());
    let mut per_instant = std::collections::BTreeMap::<u64, u32>::new();
    for departure in &full {
        // Their delay of 2 ms is behind the opportunity.
        let since = departure.due.as_nanos() - 2_000_000 - begun;
        assert_eq!(since % 1_000_000, 0, "{since}");
        *per_instant.entry(since / 1_000_000).or_default() += 1;
    }
    let allowed = |ms: u64| match ms % 20 {
        0 | 3 | 6 | 9 | 13 | 14 => 1,
        5 => 2,
        _ => 0,
    };
    for (&ms, &count) in &per_instant {
        assert!(count <= allowed(ms), "{count} at {ms}");
    }
    // In real time as well: half of them are nearer to their own opportunity than to any other.
    let late = full.iter().filter_map(|d| d.lateness_ns).filter(|late| *late >= 500_000).count();
    assert!(late * 2 < full.len(), "{late} of {}", full.len());
    let opportunities = &report.up.json["opportunities"];
    let (used, wasted) = (number(&opportunities["used"]), number(&opportunities["wasted"]));
    assert_eq!(used, full.len() as u64);
    assert!(wasted > 0);
    assert_eq!(report.down.json["opportunities"], Value::Null);
    ended.replays(&report);
}

/// Some with hundreds of thousands of steps, which take their time to be read.
fn no_trace_that_is_played_loses_a_ping() {
    let running = pings("rate=20mbit delay=2ms", 1_500).start();
    running.stdout.says("ready");
    let name = running.name().to_owned();
    let step = |n: u32| format!("{n}000,{}\n", 20_000_000 + n);
    let steps = (0..300_000).map(step).collect::<Vec<_>>().concat();
    let many = write(&running, "many.csv", &format!("time_ns,rate_bps\n{steps}"));
    let slow =
        write(&running, "slow.csv", "time,rate,delay\n0s,5mbit,1ms\n3ms,50mbit,9ms\n6ms,,2ms\n");
    let cell = write(&running, "cell", "1\n2\n2\n5\n");
    let every: &[&[&str]] = &[
        &["play", &name, &many, "--loop"],
        &["play", &name, &slow, "--loop", "--start=now"],
        &["play", &name, &cell],
        &["play", &name, &cell, "--mode=fluid", "--scale=2", "--offset=3ms"],
        &["play", &name, "--stop"],
    ];
    for words in every.iter().cycle().take(15) {
        let played = punctual(self::words(words));
        assert_eq!(played.status, 0, "{words:?}: {}", played.stderr);
        running.goes_on_for(Duration::from_millis(40));
    }
    let ended = running.wait();
    let report = ended.report();
    assert_eq!(number(&result(&ended)["answered"]), 1_500);
    for direction in [&report.up, &report.down] {
        assert_eq!((direction.all_dropped(), direction.lost_before), (0, 0));
        assert_eq!(number(&direction.json["packets"]["reordered"]), 0);
        assert_eq!(direction.json["changes"].as_array().map(Vec::len), Some(15));
    }
    ended.replays(&report);
}

fn a_trace_that_a_link_cannot_follow_is_refused_by_name() {
    let running = Run::new("rate=20mbit")
        .options(["--up", "queue=tbf burst=10kb limit=100kb", "--down", "delay=30ms jitter=20ms"])
        .sh("echo ready; read -r _ || :")
        .start();
    running.stdout.says("ready");
    let name = running.name().to_owned();
    let cell = write(&running, "cell", "1\n2\n2\n5\n");
    let steps = write(&running, "steps.csv", "time,delay\n0s,10ms\n1s,20ms\n");
    let pairs = write(&running, "pairs", "0 65.0\n1 5\n");
    let none = running.directory().join("none").display().to_string();
    for (rest, status, told) in [
        (&[&*cell][..], 1, "up.queue: serves at a rate of its own"),
        (&[&steps], 1, "down.jitter: 20ms is more than the trace's least delay of 10ms"),
        (&[&pairs], 2, "say --unit"),
        (&[&none], 2, "none: cannot be read"),
        (&[&cell, "--scale=0"], 2, "punctual: --scale: \"0\" is less than"),
        (&[&cell, "--direction=down", "--scale=0.1"], 1, "follow.trace: it is empty"),
        (&[&cell, "--format=ucc"], 2, "cell"),
        (&["--stop", &cell], 2, "--stop: follows no trace"),
    ] {
        let refused = punctual(words(&[&["play", &name], rest].concat()));
        assert_eq!(refused.status, status, "{rest:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(told), "{rest:?}: {}", refused.stderr);
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
        assert!(refused.stdout.is_empty());
    }
    for (rest, told) in [
        (&[&*cell, &name][..], format!("; the run comes first: punctual play {name} {cell}\n")),
        (&["--loop", "maybe", &cell], "=yes|no|auto\n".to_owned()),
        (&["--loop", "maybe", &name, &cell], "behind = only: --loop=yes|no|auto\n".to_owned()),
        (
            &[&name, &cell, "--scale", "-1"],
            "-1\" is negative, expected a factor such as".to_owned(),
        ),
    ] {
        let refused = punctual(words(&[&["play"], rest].concat()));
        assert_eq!(refused.status, 2, "{rest:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(&told), "{rest:?}: {}", refused.stderr);
    }
    let alone = punctual(words(&["play", &name]));
    let told = format!("punctual: {name} is a run, and what is it to play?");
    assert!(alone.status == 2 && alone.stderr.starts_with(&told), "{}", alone.stderr);
    let set = punctual(words(&["set", &name, &format!("up.trace={cell}")]));
    assert_eq!(set.status, 1);
    assert!(set.stderr.contains("up.trace: ") && set.stderr.contains("punctual play"));
    let report = end(running);
    for direction in [&report.up, &report.down] {
        assert_eq!(direction.json["changes"], Value::Array(Vec::new()));
        assert_eq!(direction.json["link"]["trace"], "none");
    }
}

fn what_is_no_trace_is_refused_and_no_descriptor_stays_open() {
    let running = idle("delay=1ms");
    let mut client = Client::of(running.name());
    let shown = client.ask(r#"{"show":{}}"#);
    let open = || descriptors(number(&shown["run"]["pid"]));
    let before = open();
    let steps = || sealed("time_ns,rate_bps\n0,5000000\n");
    let [reader, writer] = {
        let (reader, writer) = std::io::pipe().unwrap();
        [OwnedFd::from(reader), writer.into()]
    };
    let unsealed = memfd_create("t", MemfdFlags::ALLOW_SEALING).unwrap();
    let cases: Vec<(Vec<OwnedFd>, &str)> = vec![
        (vec![], "no descriptor came with it, expected one"),
        (vec![steps(), steps()], "more than one descriptor came with it"),
        (vec![steps(), steps(), steps(), steps()], "more than one descriptor came with it"),
        (vec![reader], "is no memfd"),
        (vec![writer], "is no memfd"),
        (vec![File::open("/dev/zero").unwrap().into()], "is no memfd"),
        (vec![client.stream().as_fd().try_clone_to_owned().unwrap()], "is no memfd"),
        (vec![unsealed], "the memfd is not sealed"),
        (vec![hole(600 << 20)], "the memfd holds 629145600 bytes, expected at most 536870912"),
        (vec![hole(1 << 20)], "memfd:1: holds bytes that are no text"),
        (vec![sealed("")], "memfd: "),
        (vec![sealed("\u{1}\u{2}garbage\n\n")], "memfd:1: "),
        (vec![sealed("7\n8\n8\n")], "memfd:1: "),
        (vec![sealed("time_ns,rate_bps\n5,1\n4,1\n")], "memfd:3: goes back in time"),
        (vec![sealed("time_ns,rate_bps\n5,18446744073709551616\n")], "memfd:2: "),
        (vec![sealed("# span=1s\ntime_ns,rate_bps\n0,1\n")], ""),
    ];
    let request = r#"{"follow":{"direction":"up","trace":"t","trace.start":"now"}}"#;
    for (fds, told) in cases {
        let answer = client.ask_with(request, &fds);
        if told.is_empty() {
            assert_eq!(answer["ok"], true, "{answer}");
            continue;
        }
        assert_eq!(answer["error"]["place"], "follow.trace", "{answer}");
        let problem = answer["error"]["problem"].as_str().unwrap();
        assert!(problem.contains(told), "{told}: {problem}");
        assert!(problem.len() < 200 && !problem.contains('\n'), "{problem}");
    }
    for request in [r#"{"show":{}}"#, r#"{"set":{"up.delay":"2ms"}}"#, "garbage"] {
        assert_eq!(client.ask_with(request, &[steps()])["ok"], false, "{request}");
    }
    // With nobody to take them. A round lets one client in, or reads one of them.
    let mut gone = Client::of(running.name());
    let many = 100;
    for _ in 0..many {
        memfd::send(gone.stream(), b"x", steps()).unwrap();
    }
    drop(gone);
    // The last look at it is over when one more was answered.
    for _ in 0..many + 3 {
        assert_eq!(client.ask(r#"{"show":{}}"#)["ok"], true);
    }
    let left = open();
    assert!(left <= before, "{left} after {before}");
    let report = end(running);
    assert_eq!(report.up.json["changes"].as_array().map(Vec::len), Some(1));
    assert_eq!(report.up.json["link"]["rate"], "1bit");
    assert_eq!(report.up.json["link"]["delay"], "1ms");
}

/// Neither other clients nor the end of the run.
fn a_trace_that_takes_long_to_read_keeps_nobody_waiting_and_ends_with_the_run() {
    let running = idle("rate=20mbit");
    let mut reading = Client::of(running.name());
    reading.send_with(FOLLOW, &[endless()]);
    reading.send_with(r#"{"set":{"up.delay":"1ms"}}"#, &[]);
    let mut queued = Client::of(running.name());
    queued.send_with(FOLLOW, &[sealed("time_ns,rate_bps\n0,5000000\n")]);
    let mut other = Client::of(running.name());
    for _ in 0..20 {
        assert_eq!(other.ask(r#"{"show":{}}"#)["ok"], true);
        assert_eq!(other.ask(r#"{"set":{"up.loss":"1%"}}"#)["ok"], true);
    }
    for client in [&mut reading, &mut queued] {
        client.stream().set_nonblocking(true).unwrap();
        let heard = client.stream().read(&mut [0]).unwrap_err();
        assert_eq!(heard.kind(), std::io::ErrorKind::WouldBlock, "it is still being read");
    }
    let begun = monotonic();
    let report = end(running);
    let took = monotonic().since(begun);
    assert!(took.as_nanos() < 4_000_000_000, "it ended after {took:?}");
    assert_eq!(report.up.json["changes"].as_array().map(Vec::len), Some(1));
    assert_eq!(report.up.json["link"]["delay"], "0ms");
}

fn a_trace_whose_client_dies_is_given_up() {
    let running = idle("rate=20mbit");
    let mut other = Client::of(running.name());
    let pid = number(&other.ask(r#"{"show":{}}"#)["run"]["pid"]);
    let before = descriptors(pid);
    let trace = endless();
    for _ in 0..8 {
        Client::of(running.name()).send_with(FOLLOW, &[trace.try_clone().unwrap()]);
    }
    let begun = monotonic();
    let steps = sealed("# span=1s\ntime_ns,rate_bps\n0,5000000\n");
    let mut last = Client::of(running.name());
    assert_eq!(last.ask_with(FOLLOW, &[steps])["ok"], true);
    // Each of those before it would take seconds.
    let took = monotonic().since(begun);
    assert!(took.as_nanos() < 8_000_000_000, "it was followed after {took:?}");
    assert_eq!(descriptors(pid), before + 1);
    let report = end(running);
    assert_eq!(report.up.json["changes"].as_array().map(Vec::len), Some(1));
}

fn a_run_warns_of_its_traces_once() {
    let log =
        "0 0 59.8 10.7 120000 1000\n1 1000 59.8 10.7 248069 1000\n2 2000 59.8 10.7 240000 1000\n";
    let run = Run::bare();
    let file = run.file("bus.log");
    fs::write(&file, log).unwrap();
    let link = format!("trace={} trace.format=hsdpa", file.display());
    let options = ["--net", "lab", "--both", &link];
    let ended = run.options(options).loud().sh("true").finish();
    ended.report();
    for told in ["bus.log: holds throughput that a transport achieved", "one value every 1.000 s"] {
        assert_eq!(ended.stderr.matches(told).count(), 1, "{told}: {}", ended.stderr);
    }
    let warned = ended.stderr.lines().filter(|line| line.contains("punctual: warning: "));
    assert_eq!(warned.count(), 2, "{}", ended.stderr);
}

/// What `up` let go, in order.
fn departures(ended: &Ended) -> Vec<Departure> {
    let mut reader = LogReader::open(&ended.file("log")).unwrap();
    let mut departures = Vec::new();
    loop {
        match reader.read().unwrap() {
            Entry::Record(lane, Record::Departure(departure))
                if lane.direction == Direction::Up =>
            {
                departures.push(departure);
            }
            Entry::Record(..) => {}
            Entry::End(_) => return departures,
        }
    }
}

fn write(running: &Running, name: &str, text: &str) -> String {
    let path = running.directory().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn descriptors(pid: u64) -> usize {
    fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")).unwrap().count()
}

fn sealed(text: &str) -> OwnedFd {
    SealedMemfd::write("t", |out| out.write_all(text.as_bytes())).unwrap()
}

/// Lines without entries, which take seconds to be read.
fn endless() -> OwnedFd {
    let lines = vec![b'\n'; 1 << 20];
    let write = |out: &mut dyn Write| (0..128).try_for_each(|_| out.write_all(&lines));
    SealedMemfd::write("t", write).unwrap()
}

/// So many zeroes, which take no memory.
fn hole(bytes: u64) -> OwnedFd {
    let fd = memfd_create("t", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, bytes).unwrap();
    fcntl_add_seals(&fd, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK).unwrap();
    fd
}

const FOLLOW: &str = r#"{"follow":{"direction":"up","trace":"t","trace.start":"now"}}"#;
const HOUR: u64 = 3_600_000_000_000;
