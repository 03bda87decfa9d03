//! Changes to a link that carries traffic, by `punctual set` and by its socket, from inside and from
//! outside.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use punctual_linux::memfd::SealedMemfd;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{
    Ended, PORT, RESULT, Run, Running, is_root, punctual, runtime_directory, udp_receiver,
};
use crate::report::{Report, number};
use crate::support::Test;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        a_change_holds_from_when_it_is_acknowledged_and_replays,
        no_change_loses_a_ping,
        one_parameter_changes_and_the_same_again_is_no_change,
        what_is_refused_changes_nothing_and_is_told_with_its_place,
        a_link_is_shown_and_listed_as_it_is,
        lines_from_standard_input_are_answered_one_by_one,
        a_thousand_changes_a_second_replay,
        two_hundred_clients_are_served_or_told,
        clients_and_traces_without_a_descriptor_for_them_are_told,
        clients_that_misbehave_change_nothing,
        a_second_run_of_the_same_name_is_refused_and_the_first_goes_on,
        a_killed_run_is_told_as_gone_and_not_listed,
        a_stopped_run_is_told_as_silent,
        root_is_told_of_the_runs_of_others,
        a_run_with_a_long_directory_is_reached,
        a_run_is_reached_from_inside_whatever_the_environment,
    ]
    .into()
}

/// Five seconds of traffic at three times the rate, which falls to a quarter in between.
fn a_change_holds_from_when_it_is_acknowledged_and_replays() {
    let sender = "\"$P\" traffic udp-send \"$PUNCTUAL_PEER:5001\" --rate 60mbit --duration 1s >&2";
    let receiver = "\"$P\" traffic udp-receive 0.0.0.0:5001 --idle 500ms";
    let ended = Run::new("rate=20mbit limit=50ms")
        .peer(&format!("{receiver} > \"$T/1\"; {receiver} > \"$T/2\"; echo > \"$T/peer\""))
        .sh(&format!(
            "{sender}; until [ -s \"$T/1\" ]; do sleep 0.01; done; sleep 0.1; \
             \"$P\" set --json up.rate=5mbit up.limit=100ms; {sender}; cat \"$T/peer\" \"$T/1\" \"$T/2\""
        ))
        .finish();
    let report = ended.report();
    let text = ended.text();
    let lines: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let [answer, before, after] = &lines[..] else { panic!("{text}") };
    assert_eq!(answer["applied"]["up"]["changed"], true);
    for (received, bps) in [(before, 20_000_000), (after, 5_000_000)] {
        let rate = number(&received["frame_bps"]);
        assert!(rate.abs_diff(bps) * 200 < bps, "{rate} of {bps}");
    }
    let changes = report.up.json["changes"].as_array().expect("changes are a list");
    let [change] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(change["at_ns"], answer["applied"]["up"]["at_ns"]);
    assert_eq!(change["asked_ns"], answer["asked_ns"]);
    // In the midst of a backlog the event time may lie before the asking; not by much.
    let (asked, at) = (number(&change["asked_ns"]), number(&change["at_ns"]));
    assert!(at + 50_000_000 > asked && at < asked + 500_000_000, "{change}");
    assert_eq!(change["values"]["rate"], "5mbit");
    assert_eq!(report.up.json["link"]["rate"], "5mbit");
    assert_eq!(report.down.json["changes"], Value::Array(Vec::new()));
    ended.replays(&report);
}

/// 0 to 50 ms of loss at each reload (LibreQoS#395).
fn no_change_loses_a_ping() {
    let running = pings("rate=20mbit delay=2ms", 1_500).start();
    running.stdout.says("ready");
    let mut client = Client::of(&running_name(&running));
    let changes = [
        r#""both.rate":"1mbit""#,
        r#""both.delay":"5ms""#,
        r#""both.rate":"unlimited""#,
        r#""both.jitter":"1ms""#,
        r#""up.queue":"fq_codel","down.queue":"codel","both.limit":"500p""#,
        r#""both.delay":"1ms","both.jitter":"0ms""#,
        r#""both.rate":"100mbit","both.queue":"fq""#,
        r#""both.limit":"900p""#,
        r#""both.queue":"fifo","both.limit":"100p""#,
        r#""both.rate":"20mbit","both.delay":"2ms","both.limit":"200kb""#,
    ];
    for number in 0..100 {
        let change = changes[number % changes.len()];
        let answer = client.ask(&format!("{{\"set\":{{{change}}}}}"));
        assert_eq!(answer["ok"], true, "{change}: {answer}");
        running.goes_on_for(Duration::from_millis(10));
    }
    let ended = running.wait();
    let report = ended.report();
    let result = result(&ended);
    assert_eq!(number(&result["answered"]), 1_500, "{result}");
    for direction in [&report.up, &report.down] {
        assert_eq!((direction.all_dropped(), direction.lost_before), (0, 0));
        assert_eq!(number(&direction.json["packets"]["reordered"]), 0);
        assert!(direction.json["changes"].as_array().is_some_and(|changes| changes.len() >= 90));
    }
    ended.replays(&report);
}

/// Setting one parameter resets the others (docker-tc#1); the second time is an error (pumba#168).
fn one_parameter_changes_and_the_same_again_is_no_change() {
    let running = idle("rate=20mbit delay=30ms loss=1% queue=fq_codel fq_codel.target=7ms");
    let name = running_name(&running);
    let shown = || json(&punctual(words(&["show", &name, "--json"])));
    let before = shown();
    let set =
        |words: &[&str]| json(&punctual(self::words(&[&["set", &name, "--json"], words].concat())));
    let first = set(&["both.delay=5ms"]);
    let again = set(&["both.delay=5ms"]);
    let after = shown();
    for direction in ["up", "down"] {
        assert_eq!(first["applied"][direction]["changed"], true);
        assert_eq!(again["applied"][direction]["changed"], false);
        let mut expected = before["directions"][direction]["link"].clone();
        expected["delay"] = "5ms".into();
        assert_eq!(after["directions"][direction]["link"], expected);
    }
    let report = end(running);
    for direction in [&report.up, &report.down] {
        assert_eq!(direction.json["changes"].as_array().map(Vec::len), Some(1));
    }
}

fn what_is_refused_changes_nothing_and_is_told_with_its_place() {
    let running = idle("rate=20mbit delay=30ms");
    let name = running_name(&running);
    for (words, status, told) in [
        (&["up.rate=1mbit", "down.hold=1mb"][..], 1, ": down.hold: is fixed when the run starts"),
        (&["up.rate=1mbit", "down.jitter=50ms"], 1, ": down.jitter: 50ms is more than the delay"),
        (&["up.rate=1mbit", "down.corrupt=1%"], 1, ": down.corrupt: the bytes of packets are not"),
        (&["both.fq.quantum=3000"], 1, ": both.fq.quantum: needs queue=fq"),
        (&["up.rate=1mbit", "down.dealy=1ms"], 2, "punctual: down.dealy: unknown parameter"),
        (&["up.rate=1mbit", "up.rate=2mbit"], 2, "punctual: up.rate: given twice"),
        (&["rate=1mbit"], 2, "punctual: rate: names no direction"),
        (&["up.delay=3"], 2, "punctual: up.delay: "),
        (&[], 2, "punctual: nothing to set"),
    ] {
        let refused = punctual(self::words(&[&["set", &name][..], words].concat()));
        assert_eq!(refused.status, status, "{words:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(told), "{words:?}: {}", refused.stderr);
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
        assert!(refused.stdout.is_empty());
    }
    let missing = punctual(words(&["set", "no-such-run", "up.rate=1mbit"]));
    assert_eq!(missing.status, 1);
    let told = format!("no run \"no-such-run\" is there; running: {name}");
    assert!(missing.stderr.contains(&told) || is_root(), "{}", missing.stderr);
    let report = end(running);
    assert_eq!(report.up.json["changes"], Value::Array(Vec::new()));
    assert_eq!(report.up.json["link"]["rate"], "20mbit");
}

fn a_link_is_shown_and_listed_as_it_is() {
    let running = idle("rate=20mbit queue=fq_codel");
    let name = running_name(&running);
    let text = punctual(words(&["show", &name]));
    assert_eq!(text.status, 0, "{}", text.stderr);
    let lines = text.text();
    assert!(lines.starts_with(&format!("{name}: pid ")), "{lines}");
    for line in ["up: qdisc fq_codel root limit 10240p", "down: qdisc", " Sent 0 bytes 0 pkt"] {
        assert!(lines.lines().any(|shown| shown.starts_with(line)), "{line}: {lines}");
    }
    assert!(lines.contains(" link rate=20mbit framing=14"), "{lines}");
    let one = json(&punctual(words(&["show", &name, "down", "--json"])));
    assert_eq!(one["directions"].as_object().map(serde_json::Map::len), Some(1));
    assert_eq!(one["directions"]["down"]["queue"]["kind"], "fq_codel");
    let listed = json(&punctual(words(&["list", "--json"])));
    let runs = listed["runs"].as_array().expect("runs are a list");
    let found = runs.iter().find(|run| run["name"] == name.as_str()).expect("it is listed");
    assert_eq!(found["links"]["up"]["rate"], "20mbit");
    assert_eq!(found["command"][0], "sh");
    assert!(number(&found["elapsed_ns"]) > 0 && number(&found["started_unix_ns"]) > 0);
    let text = punctual(words(&["list"])).text();
    assert!(text.contains("  up   rate=20mbit queue=fq_codel limit=10240p\n"), "{text}");
    end(running);
    let text = punctual(words(&["list"])).text();
    assert!(!text.contains(&name), "{text}");
}

fn lines_from_standard_input_are_answered_one_by_one() {
    let lines = "# a comment\n\nup.rate=5mbit\n  up.rate=5mbit down.delay=1ms \nup.rate=x\n\
                 up.rate=7mbit\n";
    let script = format!("printf '{}' | \"$P\" set -", lines.replace('\n', "\\n"));
    let ended =
        Run::new("rate=20mbit").sh(&format!("{script}; echo $?; {script} --force; echo $?"));
    let ended = ended.finish();
    let report = ended.report();
    let text = ended.text();
    let shown: Vec<_> =
        text.lines().map(|line| line.split(" at ").next().unwrap_or(line)).collect();
    let at = |line: usize| text.lines().nth(line).unwrap_or_default().ends_with(" s");
    assert!(at(0) && at(1), "{text}");
    let expected = [
        "up changed",
        "up as it was, down changed",
        "2",
        "up as it was",
        "up as it was, down as it was",
        "up changed",
        "2",
    ];
    assert_eq!(shown, expected, "{text}{}", ended.stderr);
    assert_eq!(ended.stderr.matches("punctual: line 5: up.rate: ").count(), 2, "{}", ended.stderr);
    assert_eq!(report.up.json["link"]["rate"], "7mbit");
}

fn a_thousand_changes_a_second_replay() {
    let ended = Run::new("rate=20mbit")
        .peer(&udp_receiver("--idle 500ms"))
        .sh(&format!(
            "\"$P\" traffic udp-send \"$PUNCTUAL_PEER:{PORT}\" --rate 15mbit --duration 2s >&2 & \
             for i in $(seq 1000); do echo up.rate=19mbit; echo up.rate=21mbit; done | \
             \"$P\" set - | grep -c 'up changed'; wait; {RESULT}"
        ))
        .finish();
    let report = ended.report();
    assert!(ended.text().starts_with("2000\n"), "{}{}", ended.text(), ended.stderr);
    let changes = report.up.json["changes"].as_array().expect("changes are a list");
    assert_eq!(changes.len(), 2_000);
    assert!(changes.windows(2).all(|pair| number(&pair[0]["at_ns"]) <= number(&pair[1]["at_ns"])));
    assert_eq!(report.up.departed + report.up.flushed, report.up.arrived);
    ended.replays(&report);
}

fn two_hundred_clients_are_served_or_told() {
    let running = pings("delay=1ms", 1_000).start();
    running.stdout.says("ready");
    let name = running_name(&running);
    let mut clients: Vec<_> = (0..200).map(|_| Client::of(&name)).collect();
    let mut told = 0;
    for client in &mut clients {
        let answer = client.ask(r#"{"set":{"up.delay":"2ms"}}"#);
        if answer["ok"] == false {
            assert_eq!(answer["error"]["problem"], "64 clients are connected already");
            told += 1;
        }
    }
    assert_eq!(told, 136);
    drop(clients);
    // At one time, each a process with its connection for a moment.
    thread::scope(|scope| {
        for number in 0..20 {
            let name = &name;
            scope.spawn(move || {
                let rate = format!("up.rate={}mbit", 10 + number);
                let set = punctual(words(&["set", name, &rate]));
                assert_eq!(set.status, 0, "{}", set.stderr);
            });
        }
    });
    let ended = running.wait();
    let report = ended.report();
    assert_eq!(number(&result(&ended)["answered"]), 1_000);
    assert_eq!(report.up.json["changes"].as_array().map(Vec::len), Some(21));
    ended.replays(&report);
}

/// The limit of open files leaves room for a few.
fn clients_and_traces_without_a_descriptor_for_them_are_told() {
    let script = "echo ready; read -r _ || :";
    let running = Run::new("delay=1ms").under("ulimit -n 40", "").sh(script).start();
    running.stdout.says("ready");
    let name = running_name(&running);
    let show = r#"{"show":{}}"#;
    let mut clients: Vec<_> = (0..64).map(|_| Client::of(&name)).collect();
    let (mut served, mut told) = (Vec::new(), 0);
    for mut client in clients.drain(..) {
        let answer = client.ask(show);
        if answer["ok"] == true {
            served.push(client);
            continue;
        }
        let problem = answer["error"]["problem"].as_str().expect("it is told");
        assert!(problem.contains("no descriptor for one more client"), "{problem}");
        told += 1;
    }
    assert!(served.len() > 2 && told > 20, "{} and {told}", served.len());
    let mut last = served.pop().expect("there are some");
    let trace = SealedMemfd::write("t", |out| out.write_all(b"time_ns,rate_bps\n0,1\n"));
    let trace = trace.expect("a memfd");
    let answer = last.ask_with(r#"{"follow":{"direction":"up","trace":"t"}}"#, &[trace]);
    let problem = answer["error"]["problem"].as_str().expect("it is told");
    assert!(problem.contains("for which the run has no room"), "{problem}");
    assert_eq!(served[0].ask(show)["ok"], true);
    drop((served, last));
    let report = end(running);
    assert_eq!(report.up.json["changes"], Value::Array(Vec::new()));
}

fn clients_that_misbehave_change_nothing() {
    let running = idle("rate=20mbit");
    let name = running_name(&running);
    let mut good = Client::of(&name);
    for line in [
        &b"{\"set\":{\"up.rate\":\"1mbit\"}}"[..],
        b"{\"set\":{\"up.rate\":\"1mb",
        b"\xff\xfe\x00\x01",
        &b"[".repeat(100_000),
        &b"x".repeat(1 << 20),
    ] {
        let mut hostile = Client::of(&name);
        // It may be cut off in the midst of it.
        let _ = hostile.0.get_mut().write_all(line);
        drop(hostile);
        assert_eq!(good.ask(r#"{"show":{"direction":"up"}}"#)["ok"], true);
    }
    // Killed in the midst of a line.
    let mut child = Command::new(std::env::current_exe().expect("this test is a file"))
        .args([OsStr::new("role=half-line"), runtime_directory(&name).join("socket").as_os_str()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test can be started");
    child.stdout.as_mut().expect("it is piped").read_exact(&mut [0; 4]).expect("it says `sent`");
    child.kill().expect("it is there");
    child.wait().expect("it was killed");
    let answer = good.ask(r#"{"id":1,"set":{"up.rate":"3mbit"}}"#);
    assert_eq!((&answer["ok"], &answer["id"]), (&true.into(), &1.into()));
    let report = end(running);
    assert_eq!(report.up.json["changes"].as_array().map(Vec::len), Some(1), "{:#}", report.up.json);
    assert_eq!(report.up.json["link"]["rate"], "3mbit");
}

fn a_second_run_of_the_same_name_is_refused_and_the_first_goes_on() {
    let running = idle("rate=20mbit");
    let name = running_name(&running);
    let second = Run::new("rate=1mbit").named(&name).sh("echo started").finish();
    assert_eq!((second.status, &*second.stdout), (125, &b""[..]), "{}", second.stderr);
    assert!(second.stderr.contains("is running"), "{}", second.stderr);
    let set = punctual(words(&["set", &name, "up.rate=5mbit"]));
    assert_eq!(set.status, 0, "{}", set.stderr);
    assert_eq!(end(running).up.json["link"]["rate"], "5mbit");
}

fn a_killed_run_is_told_as_gone_and_not_listed() {
    let running = idle("rate=20mbit");
    let name = running_name(&running);
    let mut client = Client::of(&name);
    assert_eq!(client.ask(r#"{"set":{"up.rate":"1mbit"}}"#)["ok"], true);
    running.signal(Signal::KILL);
    running.wait();
    for words in [&["set", &name, "up.rate=1mbit"][..], &["show", &name]] {
        let gone = punctual(self::words(words));
        assert_eq!(gone.status, 1, "{}", gone.stderr);
        assert!(gone.stderr.contains(&format!("the run \"{name}\" is gone")), "{}", gone.stderr);
    }
    assert!(!punctual(words(&["list"])).text().contains(&name));
    assert_eq!(client.0.read_line(&mut String::new()).unwrap_or(0), 0, "the connection has ended");
    punctual(words(&["clean"]));
    let gone = punctual(words(&["set", &name, "up.rate=1mbit"]));
    assert!(gone.stderr.contains("is there"), "{}", gone.stderr);
}

fn a_stopped_run_is_told_as_silent() {
    let running = idle("rate=20mbit");
    let name = running_name(&running);
    let trace = running.directory().join("trace");
    std::fs::write(&trace, "1\n2\n").expect("its directory is there");
    let trace = trace.display().to_string();
    running.signal(Signal::STOP);
    let (listed, played) = thread::scope(|scope| {
        let played = scope.spawn(|| punctual(words(&["play", &name, &trace])));
        let listed = json(&punctual(words(&["list", "--json"])));
        (listed, played.join().expect("it does not hang"))
    });
    let told = "it does not say within 12 s that it follows the trace of ";
    assert!(played.status == 1 && played.stderr.contains(told), "{}", played.stderr);
    let runs = listed["runs"].as_array().expect("runs are a list");
    let found = runs.iter().find(|run| run["name"] == name.as_str()).expect("it is listed");
    let problem = found["problem"].as_str().expect("a text");
    assert!(problem.contains("does not answer") && number(&found["pid"]) > 0, "{found}");
    running.signal(Signal::CONT);
    let set = punctual(words(&["set", &name, "up.rate=1mbit"]));
    assert_eq!(set.status, 0, "{}", set.stderr);
    let report = end(running);
    let changes = report.up.json["changes"].as_array().map(Vec::len);
    assert_eq!(changes, Some(1), "nobody waits for the trace any more");
}

fn root_is_told_of_the_runs_of_others() {
    if !is_root() {
        return;
    }
    // What a run of theirs has that they are known by.
    let (uid, name) = (65_533, format!("of-another-{}", std::process::id()));
    let base = Path::new("/tmp").join(format!("punctual-{uid}"));
    for directory in [&base, &base.join(&name)] {
        let made = DirBuilder::new().mode(0o700).recursive(true).create(directory);
        made.and_then(|()| chown(directory, Some(uid), Some(uid))).expect("root may");
    }
    let listening = UnixListener::bind(base.join(&name).join("socket")).expect("a short path");
    let way = format!("{name} of user {uid} (sudo -u '#{uid}' punctual ...)");
    for (words, status) in [
        (&["show", &name][..], 1),
        (&["set", &name, "up.rate=1mbit"], 1),
        (&["play", &name, "--stop"], 1),
        (&["list"], 0),
    ] {
        let told = punctual(self::words(words));
        assert_eq!(told.status, status, "{words:?}: {}", told.stderr);
        assert!(told.stderr.contains(&way), "{words:?}: {}", told.stderr);
        assert_eq!(told.stderr.lines().count(), 1, "{}", told.stderr);
    }
    let listed = json(&punctual(words(&["list", "--json"])));
    assert!(!listed.to_string().contains(&name), "{listed}");
    drop(listening);
    let gone = punctual(words(&["show", &name])).stderr;
    assert!(!gone.contains("of user"), "{gone}");
    std::fs::remove_dir_all(base.join(&name)).expect("it is ours");
}

fn a_run_with_a_long_directory_is_reached() {
    if is_root() {
        // Root's runs are in /run/punctual, whatever the environment.
        return;
    }
    let run = Run::new("rate=20mbit");
    let long = run.file(&"x".repeat(200));
    std::fs::create_dir(&long).expect("a name may have 255 bytes");
    let run = run.env("XDG_RUNTIME_DIR", &long);
    let ended =
        run.sh("\"$P\" set up.rate=1mbit && \"$P\" set \"$PUNCTUAL_NAME\" up.rate=2mbit").finish();
    assert_eq!(ended.report().up.json["link"]["rate"], "2mbit", "{}", ended.stderr);
}

fn a_run_is_reached_from_inside_whatever_the_environment() {
    let script = "env -u XDG_RUNTIME_DIR \"$P\" set up.rate=1mbit && \
                  env -u XDG_RUNTIME_DIR -u PUNCTUAL_NAME \"$P\" set \"$0\" up.rate=2mbit; \
                  env -u PUNCTUAL_SOCKET \"$P\" set \"$0\" up.delay=3ms; stat -c %a \"$PUNCTUAL_SOCKET\"";
    let run = Run::new("rate=20mbit");
    let name = run.name().to_owned();
    let ended = run.command(["sh", "-c", script, &name]).finish();
    let report = ended.report();
    assert_eq!(report.up.json["link"]["delay"], "3ms", "{}", ended.stderr);
    assert!(ended.text().ends_with("600\n"), "{}", ended.text());
}

/// 1 ms pings, once `ready` was said.
pub(crate) fn pings(link: &str, count: u32) -> Run {
    Run::new(link).peer(&format!("exec \"$P\" traffic echo 0.0.0.0:{PORT}")).sh(&format!(
        "echo ready; exec \"$P\" traffic rtt \"$PUNCTUAL_PEER:{PORT}\" --count {count} --interval 1ms"
    ))
}

/// What the command printed last.
pub(crate) fn result(ended: &Ended) -> Value {
    let text = ended.text();
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A run without traffic that goes on until [`end`].
pub(crate) fn idle(link: &str) -> Running {
    let running = Run::new(link).sh("echo ready; read -r _ || :").start();
    running.stdout.says("ready");
    running
}

pub(crate) fn end(mut running: Running) -> Report {
    running.close_stdin();
    running.wait().report()
}

fn running_name(running: &Running) -> String {
    running.name().to_owned()
}

pub(crate) fn words<'a>(words: &'a [&'a str]) -> impl Iterator<Item = &'a OsStr> {
    words.iter().map(OsStr::new)
}

pub(crate) fn json(ended: &Ended) -> Value {
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    serde_json::from_slice(&ended.stdout).expect("one JSON object")
}

/// A client of a run's socket.
pub(crate) struct Client(BufReader<UnixStream>);

impl Client {
    pub(crate) fn of(name: &str) -> Self {
        let stream = UnixStream::connect(runtime_directory(name).join("socket"));
        let stream = stream.expect("the run listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("more than nothing");
        Self(BufReader::new(stream))
    }

    pub(crate) fn stream(&mut self) -> &mut UnixStream {
        self.0.get_mut()
    }

    pub(crate) fn ask(&mut self, request: &str) -> Value {
        // One that was turned away reads why all the same.
        let _ = self.0.get_mut().write_all(format!("{request}\n").as_bytes());
        self.answer()
    }

    /// With descriptors, all in the request's own message.
    pub(crate) fn ask_with(&mut self, request: &str, fds: &[OwnedFd]) -> Value {
        self.send_with(request, fds);
        self.answer()
    }

    pub(crate) fn send_with(&mut self, request: &str, fds: &[OwnedFd]) {
        let line = format!("{request}\n");
        let fds: Vec<_> = fds.iter().map(OwnedFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(&fds)));
        let bytes = [IoSlice::new(line.as_bytes())];
        sendmsg(self.0.get_ref(), &bytes, &mut control, SendFlags::empty()).expect("it is sent");
    }

    pub(crate) fn answer(&mut self) -> Value {
        let mut answer = String::new();
        self.0.read_line(&mut answer).expect("an answer comes");
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }
}
