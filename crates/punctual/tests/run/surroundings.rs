//! What the program is started in: its limits, its signals, its streams, other runs.

use std::ffi::OsStr;
use std::time::Duration;

use rustix::process::Signal;

use serde_json::Value;

use crate::harness::{Ended, Run, is_root, runtime_directory, started, udp_receiver, udp_sender};
use crate::report::Report;
use crate::support::Test;
use crate::support::signals::ignored;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        signals_until_the_end_leave_report_and_status_whole,
        a_signal_ignored_at_the_start_stays_ignored,
        output_that_cannot_be_written_changes_no_result,
        a_limit_of_file_sizes_is_a_full_disk,
        a_log_in_a_fifo_waits_for_its_reader,
        a_fifo_that_is_not_read_tells_why_the_log_ends,
        a_log_that_another_program_takes_away_is_noted,
        a_log_that_is_read_while_the_run_goes_on_says_so,
        a_report_that_finds_no_room_is_none,
        a_report_whose_place_is_taken_is_kept_beside,
        a_file_into_which_the_commands_output_goes_is_no_output_of_the_run,
        a_run_that_finds_no_room_for_its_lock_names_it,
        a_witness_of_a_link_that_lets_little_through_contradicts_nothing,
        forty_starts_at_one_time_all_run,
        root_of_a_user_namespace_can_run,
        a_run_inside_an_ordinary_users_run_stands_beside_it,
        sudo_and_its_caller_do_not_lock_each_other_out,
        a_demo_that_is_stopped_leaves_nothing,
    ]
    .into()
}

fn signals_until_the_end_leave_report_and_status_whole() {
    for interval in [1, 5] {
        let script = "trap 'exit 7' TERM; echo ready; while :; do :; done";
        let running = Run::new("delay=20ms").sh(script).start();
        running.stdout.says("ready");
        let exit = running.signal_to_the_end(Signal::TERM, Duration::from_millis(interval));
        let ended = running.ended(exit);
        let json = std::fs::read(ended.file("report.json")).expect("it was made at the start");
        let report = Report::parse(&json);
        // A shell that is slow to be scheduled meets its third request, and is killed.
        let status = report.run()["exit_status"].as_i64();
        assert!(matches!(status, Some(7 | 137)), "{status:?}");
        assert_eq!(exit.code().map(i64::from), status, "{exit}");
    }
}

/// `nohup punctual run ...`: the terminal that goes away is not the end of the run.
fn a_signal_ignored_at_the_start_stays_ignored() {
    let run = Run::new("").under("trap '' HUP", "");
    let release = run.file("go");
    let peer = "echo up; until [ -e \"$T/go\" ]; do sleep 0.01; done; exec \"$P\" traffic udp-receive 0.0.0.0:5001";
    let running = run.peer(peer).sh("kill -HUP $$; exit 4").start();
    running.stderr.says("up");
    running.signal(Signal::HUP);
    std::fs::write(release, "go\n").expect("the directory is ours");
    running.wait().report_after(4);
}

fn output_that_cannot_be_written_changes_no_result() {
    let full = Run::new("").loud().under("", "2>/dev/full").sh("exit 5").finish();
    full.report_after(5);
    let closed = Run::new("").loud().under("", "2>&1 | :").sh("exit 5").finish();
    let json = std::fs::read(closed.file("report.json")).expect("it was made at the start");
    assert_eq!(Report::parse(&json).run()["exit_status"], 5);
    let refused = Run::new("rate=x").under("", "2>/dev/full").finish();
    assert_eq!(refused.status, 2);
    let lost = Run::new("").plain().options(["--report", "-"]).under("", ">/dev/full");
    let lost = lost.sh("exit 5").finish();
    assert_eq!(lost.status, 125);
    assert!(lost.stderr.contains("--report: cannot write"), "{}", lost.stderr);
}

fn a_limit_of_file_sizes_is_a_full_disk() {
    // Blocks of 512 bytes: the report fits, the log does not.
    let ended = Run::new("")
        .under("ulimit -f 100", "")
        .peer(&udp_receiver("--idle 300ms"))
        .sh(&format!(
            "{}; grep SigIgn /proc/self/status >&2; exit 6",
            udp_sender("--packets 20000 --duration 500ms --size 64")
        ))
        .finish();
    let report = ended.report_after(6);
    let lost = report.run()["log"]["lost_records"].as_u64();
    assert!(lost.is_some_and(|lost| lost > 0), "{:#}", report.run());
    assert_eq!(report.run()["log"]["cause"], "files may not be larger (ulimit -f)");
    let notes = &report.json["verdict"]["notes"];
    assert!(!notes.to_string().contains("faster disk"), "{notes}");
    // The command has the signal as it was: bit 24 of what it ignores is clear.
    let ignored = ignored(&ended.stderr);
    assert_eq!(ignored & 1 << 24, 0, "SIGXFSZ is ignored by the command: {ignored:x}");
}

/// A run whose log, some 200 kB, goes to a fifo that `reader` has as its input, in a directory
/// where it finds `log`.
fn into_fifo(reader: &str) -> Ended {
    // A reader that waits for a writer counts as one: time to come that far.
    let script = format!("cd \"$T\"; mkfifo fifo; ({reader}) <fifo >log 2>&1 & sleep 0.3");
    Run::new("rate=1gbit")
        .plain()
        .under(&script, "")
        .options(["--report", "report.json", "--log", "fifo"])
        .peer(&udp_receiver("--idle 300ms"))
        .sh(&udp_sender("--packets 20000 --duration 500ms --size 64"))
        .finish()
}

fn a_log_in_a_fifo_waits_for_its_reader() {
    let ended = into_fifo("sleep 1.5; cat");
    let report = ended.report();
    assert_eq!(report.run()["log"]["cause"], Value::Null, "{:#}", report.run());
    assert_eq!(report.run()["log"]["lost_records"], 0, "{:#}", report.run());
    // It may still be reading what is in the pipe.
    let size = || std::fs::metadata(ended.file("log")).expect("it was made").len();
    let bytes = report.run()["log"]["bytes"].as_u64().expect("it is a number");
    for _ in 0..100 {
        if size() < bytes {
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }
    assert!(size() == bytes && bytes > 1 << 16, "{} of {bytes}", size());
    ended.replays(&report);
}

fn a_fifo_that_is_not_read_tells_why_the_log_ends() {
    for (reader, cause) in
        [("head -c 9000", "the reader was gone"), ("sleep 15", "the reader did not read on")]
    {
        let ended = into_fifo(reader);
        let report = ended.report();
        assert_eq!(report.run()["log"]["cause"], cause, "{:#}", report.run());
        let notes = report.json["verdict"]["notes"].to_string();
        assert!(notes.contains("log_incomplete") && notes.contains(cause), "{notes}");
        // Quiet as it is.
        let warning = ended.stderr.strip_prefix("punctual: warning: --log: ").unwrap_or_default();
        assert!(warning.contains(cause) && warning.lines().count() == 1, "{}", ended.stderr);
    }
}

fn a_log_that_another_program_takes_away_is_noted() {
    let send = "\"$P\" traffic udp-send \"$PUNCTUAL_PEER:5001\" --packets 500 --duration 300ms";
    for (script, cause, left) in [
        (format!("{send}; rm \"$T/log\""), "the file was removed", None),
        (format!("rm \"$T/log\"; {send}; : >\"$T/log\""), "the file was removed", Some(0)),
        (format!("{send}; : >\"$T/log\"; {send}"), "the file was truncated", Some(0)),
        (format!("{send}; sleep 0.3; : >\"$T/log\""), "the file was truncated", Some(0)),
        (format!("{send}; echo >>\"$T/log\"; {send}"), "another program wrote", None),
    ] {
        let ended = Run::new("rate=1gbit").sh(&script).finish();
        let report = ended.report();
        let log = &report.run()["log"];
        assert!(log["cause"].to_string().contains(cause), "{script}: {log}");
        // Each packet's arrival and fate.
        let lost = log["lost_records"].as_u64().expect("it is a number");
        assert!(report.up.arrived > 0 && lost >= 2 * report.up.arrived, "{script}: {log}");
        let notes = report.json["verdict"]["notes"].to_string();
        assert!(notes.contains("log_incomplete") && notes.contains(cause), "{notes}");
        let length = std::fs::metadata(ended.file("log")).ok().map(|found| found.len());
        assert!(left.is_none() || length == left, "{script}: {length:?}");
    }
}

fn a_log_that_is_read_while_the_run_goes_on_says_so() {
    let script = "\"$P\" traffic udp-send \"$PUNCTUAL_PEER:5001\" --packets 500 --duration 300ms; \
                  \"$P\" verify \"$T/log\"; \"$P\" log info \"$T/log\"; exit 3";
    let ended = Run::new("rate=1gbit").sh(script).finish();
    ended.report_after(3);
    let said = ended.text();
    let told = said.matches("the run is still writing the log").count();
    assert_eq!((told, said.contains("the run was killed")), (3, false), "{said}");
}

fn forty_starts_at_one_time_all_run() {
    let start = |_| Run::new("").plain().command(["true"]).start();
    let runs: Vec<_> = (0..40).map(start).collect();
    for run in runs {
        let ended = run.wait();
        assert_eq!((ended.status, &*ended.stderr), (0, ""));
    }
}

/// `unshare -Ur punctual run ...`: uid 0, and nothing in `/run` is its own.
fn root_of_a_user_namespace_can_run() {
    let run = Run::new("").under_program(&["unshare", "--user", "--map-root-user"]);
    let ended = run.sh("id -u; exit 6").finish();
    ended.report_after(6);
    assert_eq!(ended.text(), "0\n");
}

/// Seen from inside a run, the run's own user namespace is that of another root, as everybody's is.
fn a_run_inside_an_ordinary_users_run_stands_beside_it() {
    let script = "unset XDG_RUNTIME_DIR; export O=\"${PUNCTUAL_SOCKET%/*/*}\"; \
                  \"$P\" clean >&2 && \"$P\" run --net lab --quiet -- \
                  sh -c '[ \"${PUNCTUAL_SOCKET%/*/*}\" = \"$O\" ] && echo beside'";
    let user = ["unshare", "--user", "--map-user=1000", "--map-group=1000"];
    let ended = Run::new("").under_program(&user).sh(script).finish();
    assert_eq!(ended.text(), "beside\n", "{}", ended.stderr);
}

/// Under `sudo` the process is root's, and so is the directory that it makes.
fn sudo_and_its_caller_do_not_lock_each_other_out() {
    if !is_root() {
        return;
    }
    let owner = "stat -c %u \"${0%/*}\"; exit 6";
    let run = Run::new("").env("SUDO_UID", "1").env("SUDO_GID", "1");
    let directory = runtime_directory(run.name());
    let ended = run.command(["sh", "-c", owner, directory.to_str().expect("ASCII")]).finish();
    assert_eq!(ended.report_after(6).run()["exit_status"], 6);
    assert_eq!(ended.text(), "0\n", "{}", ended.stderr);
}

fn a_report_that_finds_no_room_is_none() {
    // Blocks of 512 bytes: the control block fits, the report does not.
    let run = Run::new("").plain().under("ulimit -f 16", "");
    let file = run.file("report.json");
    let path = file.to_str().expect("ASCII").to_owned();
    let ended = run.options(["--report", &path]).sh("exit 0").finish();
    assert_eq!(ended.status, 125, "{}", ended.stderr);
    assert!(ended.stderr.contains("--report: cannot write"), "{}", ended.stderr);
    assert!(!file.exists(), "{:?}", std::fs::read_to_string(&file));
    let left: Vec<_> = std::fs::read_dir(file.parent().expect("it has one"))
        .expect("it is there")
        .map(|entry| entry.expect("it can be read").file_name())
        .filter(|name| name.to_string_lossy().contains("report"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

fn a_report_whose_place_is_taken_is_kept_beside() {
    let script = "rm \"$T/report.json\"; echo precious >\"$T/report.json\"; exit 3";
    let ended = Run::new("").sh(script).finish();
    assert_eq!(ended.status, 125, "{}", ended.stderr);
    let (_, kept) = ended.stderr.trim_end().rsplit_once("is in ").expect("it says where");
    assert!(ended.stderr.contains("another file has taken its place"), "{}", ended.stderr);
    let report = Report::parse(&std::fs::read(kept).expect("it is there"));
    assert_eq!(report.run()["exit_status"], 3);
    let taken = std::fs::read_to_string(ended.file("report.json")).expect("it is there");
    assert_eq!(taken, "precious\n");
    let removed = Run::new("").sh("rm \"$T/report.json\"; exit 3").finish();
    removed.report_after(3);
}

fn a_file_into_which_the_commands_output_goes_is_no_output_of_the_run() {
    for (stream, name) in [(">>", "standard output"), ("2>>", "standard error")] {
        for output in ["log", "report.json"] {
            let run = Run::new("").under("", &format!("{stream} \"$T/{output}\""));
            std::fs::write(run.file(output), "precious\n").expect("the directory is ours");
            let ended = run.sh("echo lost; echo lost >&2").finish();
            assert_eq!(ended.status, 2, "{}", ended.stderr);
            let said = std::fs::read_to_string(ended.file(output)).expect("it is there");
            assert!(said.starts_with("precious\n") && !said.contains("lost"), "{said}");
            let told = format!("{output} is {name} of this run too: name another file");
            assert!((said + &ended.stderr).contains(&told), "{}", ended.stderr);
        }
    }
}

fn a_run_that_finds_no_room_for_its_lock_names_it() {
    let run = Run::new("").plain().option("--name").option("no-room").under("ulimit -f 0", "");
    let ended = run.sh("exit 0").finish();
    assert_eq!(ended.status, 125, "{}", ended.stderr);
    let directory = runtime_directory("no-room");
    let expected = format!(
        "punctual: cannot write {}: it would be larger than the limit for files (ulimit -f)\n",
        directory.join("lock").display()
    );
    assert_eq!(ended.stderr, expected);
    assert!(!directory.exists());
}

/// Probes that are lost, still queued or late at the end are what the link does.
fn a_witness_of_a_link_that_lets_little_through_contradicts_nothing() {
    let links = ["rate=10kbit", "rate=0", "rate=1bit", "loss=100%", "hold=1", "delay=1ms"];
    let runs: Vec<_> = links
        .into_iter()
        .map(|link| (link, Run::new(link).option("--witness").command(["sleep", "1"]).start()))
        .collect();
    for (link, run) in runs {
        let report = run.wait().report();
        let section = &report.json["witness"];
        // Medians of times are this machine's affair.
        let against = section["disagreements"].to_string();
        assert!(!against.contains("probes differ"), "{link}: {section:#}");
        assert_eq!(section["lost_unexplained"], 0, "{link}: {section:#}");
        if ["rate=0", "rate=1bit", "loss=100%", "hold=1"].contains(&link) {
            assert_eq!(section["untold"].as_array().map(Vec::len), Some(2), "{link}: {section:#}");
        }
    }
}

fn a_demo_that_is_stopped_leaves_nothing() {
    for signal in [Signal::TERM, Signal::HUP] {
        let demo = started([OsStr::new("demo")]);
        demo.stderr.says("real packets through");
        let files = loop {
            match demo.files() {
                Some(files) if files.join("rtt").exists() => break files,
                _ => demo.goes_on_for(Duration::from_millis(5)),
            }
        };
        demo.signal(signal);
        let ended = demo.wait();
        assert_eq!(ended.status, 128 + signal.as_raw(), "{}", ended.stderr);
        assert!(ended.stderr.contains("stopped by signal"), "{}", ended.stderr);
        assert!(!files.exists(), "{}", files.display());
    }
}
