//! The command: its streams, its surroundings, its exit status; and where results go.

use rustix::process::{Signal, getgid, getuid};

use crate::harness::{PUNCTUAL, Run, runtime_directory};
use crate::replay::stopped_for_three_seconds;
use crate::report::{Report, number};
use crate::support::Test;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        the_exit_status_is_the_commands,
        a_command_that_cannot_run_is_told_as_a_shell_does,
        any_bytes_pass_from_stdin_to_stdout,
        stdout_is_the_commands_alone,
        a_report_to_stdout_is_json,
        the_command_finds_the_peer_in_its_environment,
        the_command_is_the_caller,
        without_a_command_the_shell_runs,
        a_duration_ends_the_command,
        a_program_wrapped_in_a_shell_has_time_to_end,
        what_ignores_the_request_to_end_is_killed,
        signals_are_handed_to_the_command,
        signals_of_an_agreement_are_handed_on_and_are_no_request_to_end,
        a_terminal_that_goes_away_ends_the_run_that_leads_its_session,
        an_init_that_was_stopped_makes_no_run_immortal,
        an_init_that_was_killed_ends_the_run_with_a_report,
        the_third_request_to_stop_is_not_refused,
        a_signal_before_the_command_ends_the_run,
        fail_unless_ok_exits_with_three,
        a_seed_may_be_hexadecimal,
        a_log_is_verified_from_stdin,
        a_peer_that_ends_early_is_in_the_report,
        a_peer_that_never_listens_is_named,
        a_name_is_taken_once,
        what_the_end_waits_for_is_told_and_a_signal_ends_it,
        what_is_on_its_way_arrives_although_the_delay_was_lowered,
    ]
    .into()
}

fn what_the_end_waits_for_is_told_and_a_signal_ends_it() {
    let sender = "\"$P\" traffic udp-send \"$PUNCTUAL_PEER:5001\" --rate 1mbit --duration 100ms";
    let running = Run::new("delay=3600s").loud().sh(sender).start();
    running.stderr.says("waiting up to ");
    running.signal(Signal::INT);
    let ended = running.wait();
    let report = ended.report();
    assert!(number(&report.up.json["packets"]["queued"]) > 0);
    let told =
        ended.stderr.lines().find(|line| line.contains("waiting up to ")).expect("it is told");
    assert!(told.ends_with("now; a signal (Ctrl-C) ends that"), "{told}");
}

/// What has a delay that is no more in force when the command ends arrives all the same.
fn what_is_on_its_way_arrives_although_the_delay_was_lowered() {
    let sender = "\"$P\" traffic udp-send \"$PUNCTUAL_PEER:5001\" --packets 200 --count 20";
    for link in ["delay=3s", "delay=3s impair=netem"] {
        let script = format!("{sender}; \"$P\" set up.delay=1ms >&2");
        let ended = Run::new("").options(["--up", link]).sh(&script).finish();
        let up = ended.report().up;
        assert_eq!(up.json["link"]["delay"], "1ms", "{link}");
        assert_eq!((up.departed, up.figure("packets.queued")), (20, 0), "{link}");
    }
}

fn the_exit_status_is_the_commands() {
    for status in [0, 1, 3, 42, 125, 255] {
        let ended = Run::new("").sh(&format!("exit {status}")).finish();
        assert_eq!(ended.report_after(status).run()["exit_status"], status);
    }
    for (signal, status) in [("KILL", 137), ("TERM", 143), ("SEGV", 139)] {
        let ended = Run::new("").sh(&format!("kill -{signal} $$")).finish();
        assert_eq!(ended.report_after(status).run()["exit_status"], status);
    }
}

fn a_command_that_cannot_run_is_told_as_a_shell_does() {
    for (command, status) in [("punctual-no-such-program", 127), ("/", 126), ("/etc/passwd", 126)] {
        // A directory of the path that may not be searched would be "permission denied".
        let ended = Run::new("").env("PATH", "/usr/bin:/bin").command([command]).finish();
        ended.report_after(status);
        assert!(ended.stderr.contains(command), "it is not told: {:?}", ended.stderr);
    }
    let line = Run::new("").command(["echo it's one"]).finish();
    line.report_after(127);
    assert!(line.stderr.contains(r"-- sh -c 'echo it'\''s one'"), "{}", line.stderr);
}

fn any_bytes_pass_from_stdin_to_stdout() {
    let bytes: Vec<u8> =
        (0..1 << 20).map(|n: u32| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    let ended = Run::new("").stdin(bytes.clone()).command(["cat"]).finish();
    ended.report();
    assert!(ended.stdout == bytes, "{} of {} bytes", ended.stdout.len(), bytes.len());
}

fn stdout_is_the_commands_alone() {
    let peer = ["--peer", "echo from the peer"];
    let loud = Run::new("").options(peer).loud().sh("echo out; echo err >&2").finish();
    assert_eq!(loud.stdout, b"out\n");
    assert!(loud.stderr.contains("err\n") && loud.stderr.contains("from the peer"));
    assert!(loud.stderr.contains("verdict"), "{}", loud.stderr);
    let quiet = Run::new("").sh("echo out; echo err >&2").finish();
    assert_eq!((&*quiet.stdout, &*quiet.stderr), (&b"out\n"[..], "err\n"));
}

fn a_report_to_stdout_is_json() {
    let ended = Run::new("rate=1mbit").plain().options(["--report", "-"]).sh("true").finish();
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let report = Report::parse(&ended.stdout);
    assert_eq!(report.up.json["link"]["rate"], "1mbit");
    assert_eq!(ended.stderr, "");
}

fn the_command_finds_the_peer_in_its_environment() {
    let run = Run::new("");
    let name = run.name().to_owned();
    let script = "echo $PUNCTUAL_NAME; echo $PUNCTUAL_PEER; echo $PUNCTUAL_PEER6";
    let ended = run.options(["--peer", &format!("({script}) | cat > \"$T/peer\"")]);
    let ended = ended.sh(&format!("{script}; cat \"$T/peer\"")).finish();
    ended.report();
    let text = ended.text();
    let lines: Vec<&str> = text.lines().collect();
    let [seen, peer, peer6, ..] = lines[..] else { panic!("{text}") };
    assert_eq!(seen, name);
    assert!(peer.parse::<std::net::Ipv4Addr>().is_ok(), "{peer}");
    assert!(peer6.is_empty() || peer6.parse::<std::net::Ipv6Addr>().is_ok(), "{peer6}");
    assert_eq!(lines[..3], lines[3..], "the peer finds the same");
}

fn the_command_is_the_caller() {
    let script = "id -u; id -g; pwd";
    let ended = Run::new("")
        .options(["--peer", &format!("({script}) | cat > \"$T/peer\"")])
        .sh(&format!("{script}; cat \"$T/peer\""))
        .finish();
    ended.report();
    let here = std::env::current_dir().expect("there is one");
    let expected = format!("{}\n{}\n{}\n", getuid().as_raw(), getgid().as_raw(), here.display());
    assert_eq!(ended.text(), expected.repeat(2));
}

fn without_a_command_the_shell_runs() {
    let ended = Run::new("").env("SHELL", "/bin/sh").stdin(b"echo the shell; exit 9\n".to_vec());
    let ended = ended.finish();
    ended.report_after(9);
    assert_eq!(ended.stdout, b"the shell\n");
}

fn a_seed_may_be_hexadecimal() {
    let ended = Run::new("").options(["--seed", "0x10"]).sh("true").finish();
    assert_eq!(ended.report().run()["seed"], 16);
}

fn a_log_is_verified_from_stdin() {
    let ended = Run::new("delay=1ms").sh("\"$SELF\" role=ping $PUNCTUAL_PEER 2").finish();
    ended.report();
    let log = std::fs::File::open(ended.file("log")).expect("it was written");
    let verify = std::process::Command::new(PUNCTUAL).args(["verify", "-"]).stdin(log).output();
    let verify = verify.expect("punctual can be run");
    assert!(verify.status.success() && verify.stdout.starts_with(b"identical: "), "{verify:?}");
}

fn a_duration_ends_the_command() {
    let ended = Run::new("").options(["--duration", "300ms"]).command(["sleep", "60"]).finish();
    let report = ended.report_after(143);
    let took = report.run()["duration_ns"].as_u64();
    assert!(took.is_some_and(|ns| (300_000_000..2_000_000_000).contains(&ns)), "{took:?}");
    let stubborn = Run::new("").options(["--duration", "300ms"]);
    stubborn.sh("trap '' TERM; exec sleep 60").finish().report_after(137);
}

/// `sh` dies of the signal at once, and the program that it waits for cleans up.
fn a_program_wrapped_in_a_shell_has_time_to_end() {
    let slow = "trap 'sleep 0.7; echo cleaned up > \"$T/$1\"; exit 0' TERM; : > \"$T/$1-ready\"; \
                while :; do sleep 0.05; done";
    let run = Run::new("").options(["--duration", "500ms"]);
    std::fs::write(run.file("slow"), slow).expect("the directory is ours");
    let wrapped = |name: &str| format!("sh \"$T/slow\" {name}; true");
    let ready = "until [ -e \"$T/peer-ready\" ]; do sleep 0.02; done";
    let run = run.options(["--peer", &wrapped("peer")]);
    let ended = run.sh(&format!("{ready}; {}", wrapped("command"))).finish();
    let report = ended.report_after(143);
    assert_eq!(report.run()["peer"]["exit_status"], 143);
    for name in ["command", "peer"] {
        assert!(ended.file(name).exists(), "the {name} had no time");
    }
    let took = report.run()["duration_ns"].as_u64();
    assert!(took.is_some_and(|ns| ns < 4_000_000_000), "waited when nothing was left: {took:?}");
}

fn what_ignores_the_request_to_end_is_killed() {
    let stubborn = "(trap '' TERM; : > \"$T/ready\"; while :; do sleep 0.1; done) & \
                    until [ -e \"$T/ready\" ]; do sleep 0.02; done";
    let ended = Run::new("").sh(stubborn).finish();
    let took = ended.report().run()["duration_ns"].as_u64();
    assert!(took.is_some_and(|ns| (2_000_000_000..4_000_000_000).contains(&ns)), "{took:?}");
}

fn signals_are_handed_to_the_command() {
    for (signal, name) in [(Signal::INT, "INT"), (Signal::TERM, "TERM"), (Signal::HUP, "HUP")] {
        let script = format!(
            "trap 'echo got {name}; exit 7' {name}; echo ready; while :; do sleep 0.05; done"
        );
        let running = Run::new("").sh(&script).start();
        running.stdout.says("ready");
        running.signal(signal);
        let ended = running.wait();
        ended.report_after(7);
        assert_eq!(ended.stdout, format!("ready\ngot {name}\n").as_bytes());
    }
}

fn signals_of_an_agreement_are_handed_on_and_are_no_request_to_end() {
    let script = "n=0; trap 'n=$((n+1)); echo got $n' USR1 USR2 ALRM; \
                  trap 'echo bye $n; exit 7' TERM; echo got 0; while :; do sleep 0.05; done";
    let running = Run::new("").sh(script).start();
    for (got, signal) in
        [("0", Signal::USR1), ("1", Signal::USR2), ("2", Signal::ALARM), ("3", Signal::USR1)]
    {
        running.stdout.says(&format!("got {got}\n"));
        running.signal(signal);
    }
    running.stdout.says("got 4\n");
    running.signal(Signal::TERM);
    let ended = running.wait();
    ended.report_after(7);
    assert!(ended.text().ends_with("bye 4\n"), "{}", ended.text());
}

/// As `ssh -t host punctual run ...`: the kernel tells the session's leader alone.
fn a_terminal_that_goes_away_ends_the_run_that_leads_its_session() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal can be had");
    rustix::io::fcntl_setfd(&terminal, rustix::io::FdFlags::CLOEXEC).expect("it is ours");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("it is ours");
    let name = ptsname(&terminal, Vec::new()).expect("it has a name");
    let name = name.to_str().expect("it is ASCII");
    let script = "trap 'echo hung up; exit 7' HUP; echo ready; while :; do sleep 0.05; done";
    let under = format!("exec setsid -c \"$P\" \"$@\" <{name}");
    let running = Run::new("").under(&under, "").sh(script).start();
    running.stdout.says("ready");
    drop(terminal);
    let ended = running.wait();
    ended.report_after(7);
    assert_eq!(ended.text(), "ready\nhung up\n");
}

fn an_init_that_was_stopped_makes_no_run_immortal() {
    let stopped = |options: &[&str]| {
        let script = "echo ready; exec sleep 1000";
        let running = Run::new("").options(options.iter().copied()).sh(script).start();
        running.stdout.says("ready");
        running.signal_init(Signal::STOP);
        running
    };
    let running = stopped(&[]);
    for _ in 0..3 {
        running.signal(Signal::TERM);
        running.goes_on_for(std::time::Duration::from_millis(100));
    }
    let ended = running.wait();
    ended.report_after(137);
    assert!(ended.stderr.contains("the run's init does not answer"), "{}", ended.stderr);
    // 300 ms, 2 s to SIGKILL, a second to that of the init.
    stopped(&["--duration", "300ms"]).wait().report_after(137);
}

fn an_init_that_was_killed_ends_the_run_with_a_report() {
    let script = "\"$P\" traffic udp-send \"$PUNCTUAL_PEER:5001\" --rate 1mbit --duration 100ms >&2; \
                  echo ready; exec sleep 1000";
    let running = Run::new("delay=1ms").sh(script).start();
    running.stdout.says("ready");
    running.signal_init(Signal::KILL);
    let ended = running.wait();
    let report = ended.report_after(137);
    assert!(ended.stderr.contains("the run's init was killed"), "{}", ended.stderr);
    ended.replays(&report);
}

fn the_third_request_to_stop_is_not_refused() {
    let script = "n=0; trap 'n=$((n+1)); echo refused $n' TERM; echo refused 0; \
                  while :; do sleep 0.05; done";
    let running = Run::new("").sh(script).start();
    for refused in ["refused 0", "refused 1", "refused 2"] {
        running.stdout.says(refused);
        running.signal(Signal::TERM);
    }
    running.wait().report_after(137);
}

fn a_signal_before_the_command_ends_the_run() {
    let run = Run::new("").options(["--peer", "echo up; sleep 60", "--peer-port", "7"]);
    let running = run.sh("echo never").start();
    running.stderr.says("up");
    running.signal(Signal::TERM);
    let ended = running.wait();
    assert_eq!((ended.status, &*ended.stdout), (143, &b""[..]), "{}", ended.stderr);
    assert!(!runtime_directory(&ended.name).exists());
}

fn fail_unless_ok_exits_with_three() {
    let starved = stopped_for_three_seconds(&["--fail-unless-ok"]);
    assert!(!starved.report_after(3).ok());
    let quiet = Run::new("").option("--fail-unless-ok");
    assert!(quiet.command(["true"]).finish().report().ok());
    // The command's own failure comes first.
    Run::new("").option("--fail-unless-ok").sh("exit 4").finish().report_after(4);
}

fn a_peer_that_ends_early_is_in_the_report() {
    let run = Run::new("").options(["--peer", "echo over > \"$T/peer\"; exit 3"]);
    let ended = run.sh("cat \"$T/peer\"; exec sleep 0.3").finish();
    let report = ended.report();
    let peer = &report.run()["peer"];
    assert_eq!((&peer["exit_status"], &peer["ended_early"]), (&3.into(), &true.into()));
    let notes = &report.json["verdict"]["notes"];
    assert!(notes.to_string().contains("peer_ended_early"), "{notes}");
}

fn a_peer_that_never_listens_is_named() {
    let ended = Run::new("").options(["--peer", "exit 6", "--peer-port", "77"]).sh("echo never");
    let ended = ended.finish();
    assert_eq!((ended.status, &*ended.stdout), (125, &b""[..]));
    assert!(
        ended.stderr.contains("port 77") && ended.stderr.contains("status 6"),
        "{}",
        ended.stderr
    );
    assert!(!runtime_directory(&ended.name).exists());
}

fn a_name_is_taken_once() {
    let first = Run::new("");
    let name = first.name().to_owned();
    let mut first = first.sh("echo ready; cat").start();
    first.stdout.says("ready");
    let second = Run::new("").named(&name).sh("echo never").finish();
    assert_eq!((second.status, &*second.stdout), (125, &b""[..]));
    assert!(second.stderr.contains(&format!("\"{name}\"")), "{}", second.stderr);
    first.close_stdin();
    first.wait().report();
    Run::new("").named(&name).command(["true"]).finish().report();
}
