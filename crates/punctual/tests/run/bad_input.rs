//! What is asked for wrongly is refused in one line before anything is started.

use crate::harness::{Ended, Run, runtime_directory};
use crate::support::Test;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        a_bad_link_is_refused_in_one_line,
        a_bad_option_is_refused_in_one_line,
        a_bad_file_is_refused_in_one_line,
        an_output_that_is_in_use_is_refused,
        an_output_that_is_an_input_is_refused_and_kept,
        a_run_that_is_refused_leaves_the_results_of_another,
        a_run_that_does_not_start_leaves_the_results_of_another,
        a_message_is_one_line_whatever_it_echoes,
        what_the_machine_refuses_is_told_apart_with_its_remedy,
    ]
    .into()
}

/// Links, and what the message must name.
const LINKS: &[(&str, &[&str])] = &[
    ("dealy=30ms", &["--both", "dealy", "delay"]),
    ("rate", &["--both", "rate=RATE"]),
    ("20mbit", &["20mbit", "NAME=VALUE"]),
    ("rate=20mbits", &["rate", "mbits", "mbit"]),
    ("rate=-1mbit", &["rate", "negative"]),
    ("rate=2tbit", &["rate", "1tbit"]),
    ("rate=99999999999999999999", &["rate", "99999999999999999999"]),
    ("rate=fast", &["rate", "fast", "20mbit"]),
    ("rate=1mbit rate=2mbit", &["rate", "twice"]),
    ("delay=30", &["delay", "unit", "30ms"]),
    ("delay=-3ms", &["delay", "negative"]),
    ("delay=2h", &["delay", "2h"]),
    ("delay=3601s", &["delay", "3600s"]),
    ("jitter=1ms", &["jitter", "delay"]),
    ("loss=101%", &["loss", "100%"]),
    ("loss.at=befor", &["loss.at", "before"]),
    ("limit=1000", &["limit", "1000p"]),
    ("limit=100ms", &["limit", "rate"]),
    ("trace=x", &["trace", "x"]),
    ("trace.loop=yes", &["trace.loop", "trace=FILE"]),
    ("queue=cake", &["queue", "cake", "fq_codel"]),
    ("fq.quantum=3000", &["fq.quantum", "queue=fq"]),
    ("queue=fq fq.quantum=0", &["fq.quantum", "0b"]),
    ("queue=fq limit=200kb", &["limit", "packets"]),
    ("queue=tbf", &["rate", "burst"]),
    ("rate=1mbit queue=jens jens.users=4", &["jens.user", "dscp"]),
    ("queue=dualpi2 dualpi2.coupling_factor=0", &["coupling_factor", "255"]),
    ("queue=lifo", &["lifo", "fifo"]),
    ("reorder=1%", &["reorder", "delay"]),
    ("delay=1ms jitter=1ms distribution=norml", &["distribution", "norml", "normal"]),
    ("peakrate=20mbit", &["peakrate", "burst"]),
    ("rate=20mbit burst=10kb peakrate=1mbit", &["peakrate", "rate"]),
    ("loss=1% gso=keep", &["gso", "loss"]),
    ("latency=50ms queue=tbf", &["latency", "limit=50ms"]),
    ("queue=fq_codel ecn=off", &["ecn", "fq_codel.ecn=off"]),
    ("fq_codel limit 10240p flows 1024", &["queue=fq_codel limit=10240p fq_codel.flows=1024"]),
    ("queue=fq_codel ecn=on", &["ecn", "loss", "fq_codel.ecn=on"]),
    ("queue=fq_codel limit=1000", &["limit", "10240p"]),
    ("target=5ms queue=codel", &["target", "codel.target"]),
    ("delay 100ms", &["delay=100ms"]),
    ("slot=distribution,normal,10ms,1ms", &["slot=normal,10ms,1ms"]),
    ("impair=netem loss=1% loss.at=before", &["loss.at", "netem"]),
];

fn a_bad_link_is_refused_in_one_line() {
    for (link, named) in LINKS {
        refused(Run::new(link), named);
    }
    refused(Run::new("").options(["--up", "rate=x"]), &["--up", "rate"]);
    refused(Run::new("").options(["--down", "dealy=1ms"]), &["--down", "dealy"]);
    refused(
        Run::new("delay=30ms jitter=20ms").options(["--down", "delay=10ms"]),
        &["--both: jitter", "10ms", "--down: delay=10ms"],
    );
}

/// Options, and what the message must name.
const OPTIONS: &[(&[&str], &[&str])] = &[
    (&["--net", "lab", "--up", "corrupt=5%", "--witness"], &["--witness", "corrupt"]),
    (&["--net", "lab", "--up", "delay=9ms jitter=1ms distribution=/dev/zero"], &["regular file"]),
    (&[], &["--net lab"]),
    (&["--both", "dealy=1ms"], &["--both", "delay"]),
    (&["--net", "lap"], &["--net", "lap", "lab"]),
    (&["--nett", "lab"], &["--nett", "--net"]),
    (&["--net"], &["--net", "lab"]),
    (&["--net", "lab", "--peer-port", "5001"], &["--peer-port", "--peer"]),
    (&["--net", "lab", "--peer", "true", "--peer-port", "0"], &["--peer-port", "0"]),
    (&["--net", "lab", "--peer", "true", "--peer-port", "65536"], &["--peer-port", "65536"]),
    (&["--net", "lab", "--duration", "5"], &["--duration", "5", "unit"]),
    (&["--net", "lab", "--duration", "-5s"], &["--duration", "-5s"]),
    (&["--net", "lab", "--late", "soon"], &["--late", "soon"]),
    (&["--net", "lab", "--seed", "0y1"], &["--seed", "0y1", "hexadecimal"]),
    (&["--net", "lab", "--seed", "-1"], &["--seed", "-1"]),
    (&["--net", "lab", "--seed", "18446744073709551616"], &["--seed", "18446744073709551616"]),
    (&["--net", "lab", "--threads", "3"], &["--threads", "3"]),
    (&["--net", "lab", "--precision", "strickt"], &["--precision", "strict"]),
    (&["--net", "lab", "--cc", "punctual-none"], &["--cc", "punctual-none"]),
    (&["--net", "lab", "--cc", ""], &["--cc", "cubic"]),
    (&["--net", "lab", "--config", "/dev/zero"], &["--config", "/dev/zero", "1 MB"]),
    (&["--net", "lab", "--both", "", "--both", ""], &["--both"]),
    (&["--net", "lab", "stray"], &["stray", "put -- before the command"]),
    (&["--net", "lab", "--both", "delay=1ms", "rate=1mbit"], &["--both 'delay=1ms rate=1mbit'"]),
    (&["--net", "lab", "--delay", "10ms"], &["--delay", "--both delay=10ms"]),
];

fn a_bad_option_is_refused_in_one_line() {
    for (options, named) in OPTIONS {
        refused(Run::bare().options(options.iter().copied()), named);
    }
    let long = "x".repeat(65);
    for name in ["", "a/b", "..", "a b", &long] {
        refused(Run::new("").named(name), &["name"]);
    }
    for name in ["up", "down", "both"] {
        refused(Run::new("").named(name), &["--name", name, "direction", "another name"]);
    }
    let nowhere = ["--report", "/nonexistent/report.json"];
    refused(Run::new("").plain().options(nowhere), &["--report", "/nonexistent/report.json"]);
    let nowhere = ["--log", "/nonexistent/log"];
    refused(Run::new("").plain().options(nowhere), &["--log", "/nonexistent/log"]);
    refused(Run::new("").plain().options(["--log", "-"]), &["--log", "stdout", "./-"]);
    let same = ["--report", "/tmp/x", "--log", "/tmp/x"];
    refused(Run::new("").plain().options(same), &["--report", "--log"]);
    refused(Run::new("").env("PUNCTUAL_FAULT", "shift=soon"), &["PUNCTUAL_FAULT", "shift=soon"]);
}

fn a_bad_file_is_refused_in_one_line() {
    for (text, named) in [
        ("[side]\nrate = 1\n", &["side", "[both], [up] or [down]"][..]),
        ("[up]\ndelay = 30\n", &["up.delay", "unit"]),
        ("[up]\nrate = 1.5\n", &["up.rate", "whole number"]),
        ("[up\n", &["line 1", "]"]),
        ("[up]\nrate = \"1mbit\"\nrate = \"2mbit\"\n", &["rate", "line 3"]),
        ("[up]\nloss = 1\nloss.at = \"before\"\n", &["line", "quote \"loss.at\""]),
        ("rate = \"1mbit\"\n", &["rate", "[both], [up] or [down]"]),
    ] {
        let run = Run::new("");
        let path = run.file("link.toml");
        std::fs::write(&path, text).expect("the run's directory is ours");
        let path = path.to_str().expect("it is made of ASCII").to_owned();
        refused(run.options(["--config", &path]), &[named, &["link.toml"]].concat());
    }
    refused(Run::new("").options(["--config", "/nonexistent.toml"]), &["/nonexistent.toml"]);
}

fn an_output_that_is_in_use_is_refused() {
    let first = Run::new("");
    let taken = ["report.json", "log", "peer"].map(|name| first.file(name));
    let [report, log, fifo] = taken.each_ref().map(|path| path.to_str().expect("ASCII"));
    let other = first.file("./other");
    let dotted = format!("{}/./other", first.file("").display());
    let other = other.to_str().expect("ASCII").to_owned();
    refused(Run::new("").plain().options(["--report", &other, "--log", &dotted]), &["--report"]);
    for option in ["--report", "--log"] {
        refused(Run::new("").plain().options([option, fifo]), &[option, fifo]);
    }
    let mut first = first.sh("echo ready; cat").start();
    first.stdout.says("ready");
    refused(Run::new("").plain().options(["--log", log]), &["--log", log, "another run"]);
    refused(Run::new("").plain().options(["--report", report]), &["--report", "another run"]);
    first.close_stdin();
    first.wait().report();
}

fn an_output_that_is_an_input_is_refused_and_kept() {
    let trace = "1\n2\n3\n";
    let cases: [(&str, &str, &[&str], &[&str]); 10] = [
        (
            "c.toml",
            "[up]\ndelay = \"9ms\"\n",
            &["--config", "c.toml", "--log", "c.toml"],
            &["--config"],
        ),
        ("in.tr", trace, &["--up", "trace=in.tr", "--report", "in.tr"], &["--up: trace"]),
        ("in.tr", trace, &["--down", "trace=in.tr", "--log", "./in.tr"], &["--down: trace"]),
        ("in.tr", trace, &["--both", "trace=hard", "--log", "in.tr"], &["--both: trace"]),
        ("in.tr", trace, &["--up", "trace=in.tr", "--report", "soft"], &["--up: trace"]),
        ("in.tr", trace, &["--up", "trace=soft", "--log", "hard"], &["--up: trace"]),
        ("in.tr", trace, &["--up", "trace=- trace.format=mahimahi", "--log", "in.tr"], &["stdin"]),
        (
            "in.tr",
            "[up]\ntrace = \"t\"\n",
            &["--config", "in.tr", "--log", "t"],
            &["--config: ", "up: trace"],
        ),
        (
            "tab.dist",
            "1 2\n",
            &["--up", "delay=9ms jitter=1ms distribution=hard", "--log", "tab.dist"],
            &["--up: distribution"],
        ),
        (
            "tab.dist",
            "1 2\n",
            &["--down", "slot=tab.dist,1ms,1ms", "--report", "soft"],
            &["--down: slot"],
        ),
    ];
    for (name, text, options, named) in cases {
        let run = Run::bare().plain();
        let file = run.file(name);
        std::fs::write(&file, text).expect("the directory is ours");
        std::fs::hard_link(&file, run.file("hard")).expect("so are links in it");
        std::os::unix::fs::symlink(name, run.file("soft")).expect("likewise");
        std::fs::write(run.file("t"), trace).expect("likewise");
        let output = options.iter().find(|option| ["--log", "--report"].contains(option));
        let named = [named, &[output.expect("each has one")]].concat();
        let script = format!("cd \"$T\"; exec <{name}");
        let ended = refused(
            run.under(&script, "").options(["--net", "lab"]).options(options.iter().copied()),
            &named,
        );
        assert_eq!(
            std::fs::read_to_string(ended.file(name)).expect("it was there"),
            text,
            "{options:?}"
        );
    }
}

/// Exit status 2, one line that names all of `named`, and no trace of a run.
fn refused(run: Run, named: &[&str]) -> Ended {
    let ended = run.sh("touch \"$T/started\"; echo started").finish();
    let Ended { status, stdout, stderr, name, .. } = &ended;
    assert_eq!((*status, stdout.len()), (2, 0), "{named:?}: {stderr}");
    assert_eq!(stderr.trim_end().lines().count(), 1, "{named:?}: {stderr}");
    assert!(stderr.starts_with("punctual: "), "{stderr}");
    for word in named {
        assert!(stderr.contains(word), "{word} is not named: {stderr}");
    }
    assert!(!ended.file("started").exists(), "the command ran: {stderr}");
    let directory = runtime_directory(name);
    assert!(name.is_empty() || name.contains('.') || !directory.exists(), "{stderr}");
    ended
}

/// Injected refusals of a run with a queue that marks, and what the message and its remedy must
/// name.
const REFUSALS: &[(&str, &str, &str)] = &[
    ("userns-apparmor", "AppArmor", "profile"),
    ("userns-seccomp", "seccomp", "seccomp"),
    ("userns-limit", "user.max_user_namespaces", "sysctl user.max_user_namespaces="),
    ("userns-sysctl", "kernel.unprivileged_userns_clone", "unprivileged_userns_clone=1"),
    ("proc-missing", "/proc is not mounted", "mount -t proc"),
    ("proc-sys-readonly", "/proc/sys is read-only", "remount,rw"),
    ("nfqueue-missing", "NFQUEUE", "modprobe nfnetlink_queue"),
    ("ce-mark-missing", "cannot write CE", "a queue that does not mark"),
];

fn what_the_machine_refuses_is_told_apart_with_its_remedy() {
    let mut messages = std::collections::BTreeSet::new();
    for (refusal, lack, remedy) in REFUSALS {
        let run = Run::new("rate=1mbit queue=dualpi2");
        let run = run.env("PUNCTUAL_FAULT", format!("refuse={refusal}"));
        let ended = run.sh("touch \"$T/started\"").finish();
        assert_eq!(ended.status, 125, "{refusal}: {}", ended.stderr);
        assert!(ended.stderr.contains(lack) && ended.stderr.contains(remedy), "{}", ended.stderr);
        assert!(!ended.file("started").exists() && !runtime_directory(&ended.name).exists());
        assert!(messages.insert(ended.stderr.clone()), "told like another: {}", ended.stderr);
    }
}

fn a_run_that_is_refused_leaves_the_results_of_another() {
    let first = Run::new("");
    let name = first.name().to_owned();
    let mut first = first.sh("echo ready; cat").start();
    first.stdout.says("ready");
    let refused: [(&[&str], &str, &str); 3] = [
        (&["--cc", "nonsense"], "", ""),
        (&[], "PUNCTUAL_FAULT", "refuse=nfqueue-missing"),
        (&["--name", &name], "", ""),
    ];
    for (options, variable, fault) in refused {
        let mut run = Run::new("").plain().options(options.iter().copied()).sh("true");
        if !variable.is_empty() {
            run = run.env(variable, fault);
        }
        let [report, log] = ["report", "log"].map(|file| run.file(file));
        std::fs::write(&report, "of another\n").expect("the directory is ours");
        let paths = [&report, &log].map(|path| path.to_str().expect("ASCII").to_owned());
        let ended = run.options(["--report", &paths[0], "--log", &paths[1]]).finish();
        assert!([2, 125].contains(&ended.status), "{options:?}: {}", ended.stderr);
        let kept = std::fs::read_to_string(&report).expect("it was there");
        assert_eq!(kept, "of another\n", "{options:?}");
        assert!(!log.exists(), "{options:?}");
    }
    first.close_stdin();
    first.wait().report();
}

fn a_run_that_does_not_start_leaves_the_results_of_another() {
    let peer = ["--peer", "exit 3", "--peer-port", "1234"];
    let trace = (1..9_000).map(|ms| ms.to_string()).collect::<Vec<_>>().join("\n") + "\n";
    let cases: [(&str, &[&str], &str); 3] = [
        // The peer ends, which takes all that an earlier run has left.
        ("log", &peer, "the peer ended"),
        // The log has no room for its beginning, which is whole or not there.
        ("/dev/full", &[], "cannot write the log"),
        ("log", &["--up", "trace=in.tr"], "cannot write the log"),
    ];
    for (log, options, told) in cases {
        for old in ["", "kept\n", &"of another\n".repeat(10_000)] {
            let run = Run::new("").plain().options(options.iter().copied());
            let files = ["report.json", "log"].map(|name| run.file(name));
            for file in &files {
                std::fs::write(file, old).expect("the directory is ours");
            }
            std::fs::write(run.file("in.tr"), &trace).expect("likewise");
            // Less than the log's beginning takes with the trace.
            let run = run.under("cd \"$T\"; ulimit -f 16", "").sh("touch started");
            let ended = run.options(["--report", "report.json", "--log", log]).finish();
            assert_eq!(ended.status, 125, "{options:?}: {}", ended.stderr);
            assert!(ended.stderr.contains(told), "{told}: {}", ended.stderr);
            assert!(!ended.file("started").exists(), "{options:?}");
            for file in &files {
                let kept = std::fs::read_to_string(file).expect("it was there");
                assert!(kept == old, "{}: {} bytes", file.display(), kept.len());
            }
        }
        let run = Run::new("").plain().options(options.iter().copied());
        std::fs::write(run.file("in.tr"), &trace).expect("the directory is ours");
        let run = run.under("cd \"$T\"; ulimit -f 16", "").sh("true");
        let ended = run.options(["--report", "report.json", "--log", log]).finish();
        assert_eq!(ended.status, 125, "{options:?}: {}", ended.stderr);
        assert!(!ended.file("report.json").exists() && !ended.file("log").exists());
    }
}

fn a_message_is_one_line_whatever_it_echoes() {
    let long = "x".repeat(100_000);
    let hostile = ["rate=\u{1b}[2J", &format!("rate={long}"), &format!("{long}=1")];
    for link in hostile {
        let ended = Run::new(link).command(["true"]).finish();
        is_short(&ended);
    }
    for options in [["--cc", "a\u{1b}[2J"], ["--config", "/nowhere/\u{1b}[2J\n"]] {
        is_short(&Run::new("").options(options).command(["true"]).finish());
    }
    let run = Run::new("");
    let file = run.file("file.toml");
    for text in [
        "[up]\nrate=\"a\\n\\u001b[2J\"\n",
        "[up]\n\"a\\nb\"=1\n",
        "[\"u\\np\"]\nrate=1\n",
        &format!("[up]\nrate=\"{}\"\n", "a ".repeat(100_000)),
        &format!("[up]\nrate={long}\n"),
    ] {
        std::fs::write(&file, text).expect("the directory is ours");
        let path = file.to_str().expect("ASCII");
        is_short(&Run::new("").options(["--config", path]).command(["true"]).finish());
    }
}

fn is_short(ended: &Ended) {
    let text = &ended.stderr;
    assert_eq!(ended.status, 2, "{text}");
    assert!(text.ends_with('\n') && text.trim_end().chars().all(|c| !c.is_control()), "{text:?}");
    assert!(text.len() < 2_000, "{} bytes", text.len());
}
