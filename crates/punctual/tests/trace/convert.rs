//! `punctual trace convert`.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Directory, PUNCTUAL, command, ended, lines_of, trace};

#[test]
fn any_format_becomes_csv_that_reads_back_the_same() {
    let directory = Directory::new();
    let file = directory.file(
        "q",
        "KEEP,LATENCY,RATE,LOSS,LIMIT\n200000,10000000,30000000,7,0\n100000,10000000,-1,0,0\n",
    );
    let printed = trace(["convert", &file]);
    assert_eq!((printed.status, printed.stderr.as_str()), (0, ""));
    assert_eq!(
        printed.stdout,
        "# punctual trace, version 1\n# span_ns=300000000 repeat=no\ntime_ns,rate_bps,delay_ns,loss\n\
         0,30000000,10000000,0.00000016%\n200000000,unlimited,10000000,0%\n"
    );
    let own = directory.file("own", &printed.stdout);
    assert_eq!(trace(["convert", &own]).stdout, printed.stdout);
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_change_nothing() {
    let directory = Directory::new();
    let unix = directory.file("unix", "1\n1\n2\n");
    let windows = directory.file("windows", "\u{feff}1\r\n1\r\n2");
    let (unix, windows) = (trace(["convert", &unix]), trace(["convert", &windows]));
    assert_eq!(unix.stdout, windows.stdout);
    assert!(unix.stdout.ends_with(
        "# opportunity_bytes=1504 per_packet_bytes=4\ntime_ns,opportunities\n1000000,2\n2000000,1\n"
    ));
}

#[test]
fn the_output_may_be_the_input_and_is_replaced() {
    let directory = Directory::new();
    let file = directory.file("up", "1\n".repeat(1_000));
    let ended = trace(["convert", "--packet", "1500", &file, "-o", &file]);
    assert_eq!((ended.status, ended.stdout.as_str()), (0, ""));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.ends_with("time_ns,opportunities\n1000000,1000\n"), "{text}");
    assert!(text.contains("opportunity_bytes=1500 per_packet_bytes=0"), "{text}");
}

/// Round-trip times of a dish, a tenth of a second apart.
const PING: &str = "timestamp,rtt\n1705744800.0,91.8\n1705744800.1,40.0\n1705744800.2,60.5\n";

/// What a refused merge says, with the directory left out.
fn refused(directory: &Directory, words: &str) -> String {
    let place = directory.path("").to_str().unwrap().to_owned();
    let words = words.split(' ').map(|word| word.replace('@', &place));
    trace(["convert".to_owned()].into_iter().chain(words)).refusal().replace(&place, "")
}

#[test]
fn rates_and_delays_of_two_files_with_other_steps_become_one_timeline() {
    let directory = Directory::new();
    let rates = directory.file("rates", "0 8\n0.15 4\n0.3 0\n");
    let ping = directory.file("ping", PING);
    let words = ["convert", "--unit", "mbit", &rates, "--merge", &ping];
    let ended = trace(words.into_iter().chain(["--rtt", "half"]));
    let head = "# punctual trace, version 1\n# span_ns=450000000 repeat=no\n\
                time_ns,rate_bps,delay_ns,loss\n";
    let half = "0,8000000,45900000,0%\n100000000,,20000000,0%\n150000000,4000000,,\n\
                200000000,,30250000,0%\n300000000,0,,\n";
    assert_eq!((ended.status, ended.stdout), (0, format!("{head}{half}")));
    let ends = "ends after 300ms: its last values hold up to 450ms";
    assert_eq!(ended.stderr, format!("punctual: warning: {ping}: {ends}\n"));
    let whole = trace(words.into_iter().chain(["--rtt", "whole"]));
    assert!(
        whole.stdout.contains("\n0,8000000,91800000,0%\n100000000,,40000000,0%\n"),
        "{}",
        whole.stdout
    );
    // The other way round the span is that of the delays.
    let words = ["convert", &ping, "--merge", &rates, "--merge-unit", "mbit", "--rtt", "half"];
    let ended = trace(words);
    let half = half.replace("300000000,0,,\n", "");
    let head = head.replace("450000000", "300000000");
    assert_eq!((ended.status, ended.stdout.as_str()), (0, format!("{head}{half}").as_str()));
    let cut = "lasts 450ms: what it has after 300ms is left out";
    assert_eq!(ended.stderr, format!("punctual: warning: {rates}: {cut}\n"));
    let own = directory.file("own", &ended.stdout);
    let json = trace(["check", "--json", &own]).json();
    assert_eq!((&json["entries"], &json["delay"]["max_ns"]), (&4.into(), &45_900_000.into()));
}

#[test]
fn what_becomes_of_round_trip_times_must_be_said_where_they_are_merged() {
    let directory = Directory::new();
    directory.file("ping", PING);
    directory.file("rates", "# span=1s\ntime,rate\n0s,8mbit\n");
    directory.file("delays", "# span=1s\ntime,delay\n0s,8ms\n");
    let rtt = "ping: holds round-trip times, expected to be told what one direction has of them; \
               say --rtt half or --rtt whole";
    assert_eq!(refused(&directory, "@rates --merge @ping"), rtt);
    assert_eq!(refused(&directory, "@ping --merge @rates"), rtt);
    let none = "--rtt: there are no round-trip times";
    assert_eq!(refused(&directory, "@rates --merge @delays --rtt half"), none);
    assert_eq!(refused(&directory, "@rates --rtt whole"), none);
    // One-way delays need no word, and a file alone is halved with a warning.
    let file = |name: &str| directory.path(name).to_str().unwrap().to_owned();
    let ended = trace(["convert", &file("rates"), "--merge", &file("delays")]);
    assert!(ended.stdout.ends_with("time_ns,rate_bps,delay_ns\n0,8000000,8000000\n"));
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    let alone = trace(["convert", &file("ping")]);
    assert!(alone.stderr.contains("round-trip times are halved"), "{}", alone.stderr);
    let told = trace(["convert", &file("ping"), "--rtt", "half"]);
    assert_eq!((told.stdout, told.stderr.as_str()), (alone.stdout, ""));
}

#[test]
fn a_merge_that_is_ambiguous_is_refused_by_name() {
    let directory = Directory::new();
    directory.file("ping", PING);
    directory.file("bare", PING.strip_prefix("timestamp,rtt\n").unwrap());
    directory.file("rates", "# span=1s\ntime,rate\n0s,8mbit\n");
    directory.file("lossy", "# span=1s\ntime,rate,loss\n0s,8mbit,1%\n");
    directory.file("losses", "# span=1s\ntime,loss\n0s,1%\n");
    directory.file("up", "1\n5\n");
    directory.file("pairs", "0 1\n1 1\n");
    let both = |names: &str, what: &str| {
        format!("{names}: both set the {what}, expected it in one of them")
    };
    for (words, expected) in [
        ("@rates --merge @up", both("rates and up", "rate")),
        ("@ping --merge @ping --rtt half", both("ping and ping", "delay")),
        ("@ping --merge @lossy --rtt half", both("ping and lossy", "loss")),
        (
            "@up --merge @losses",
            "up and losses: single deliveries cannot stand beside steps, expected rates; say --fluid"
                .to_owned(),
        ),
        ("- --merge -", "--merge: stdin can be only one of the two files".to_owned()),
    ] {
        assert_eq!(refused(&directory, words), expected, "{words}");
    }
    let format = refused(&directory, "@rates --merge @bare");
    assert!(format.ends_with("; say --merge-format"), "{format}");
    let unit = refused(&directory, "@losses --merge @pairs");
    assert!(unit.ends_with("; say --merge-unit"), "{unit}");
    let alone = refused(&directory, "@losses --merge-unit mbit");
    assert!(alone.contains("--merge"), "{alone}");
}

#[test]
fn deliveries_become_rates_beside_delays_that_begin_anew() {
    let directory = Directory::new();
    let lines = lines_of(1..=30);
    let (up, path) =
        (directory.file("up", lines), "time_ns,delay_ns\n0,5000000\n8000000,6000000\n");
    let path = directory.file("path", format!("# span_ns=16000000 repeat=yes\n{path}"));
    let ended = trace(["convert", "--fluid", &up, "--merge", &path]);
    assert_eq!(
        ended.stdout,
        "# punctual trace, version 1\n# span_ns=30000000 repeat=yes\ntime_ns,rate_bps,delay_ns\n\
         0,12032000,5000000\n8000000,,6000000\n16000000,,5000000\n24000000,,6000000\n"
    );
    assert_eq!(
        ended.stderr,
        format!("punctual: warning: {path}: ends after 16ms and begins anew, up to 30ms\n")
    );
}

#[test]
fn warnings_go_to_standard_error() {
    let directory = Directory::new();
    let file = directory.file("q", "200000,10000000,30000000,7,100\n");
    let ended = trace(["convert", &file]);
    let expected = format!(
        "punctual: warning: {file}: not carried: LIMIT; give the link what it shall have of them\n"
    );
    assert_eq!((ended.status, ended.stderr), (0, expected));
}

#[test]
fn a_reader_that_goes_early_is_no_failure() {
    let directory = Directory::new();
    let lines = lines_of(1..100_000);
    let file = directory.file("up", lines);
    let mut child = command()
        .args(["convert", &file])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
        (Some(0), "")
    );
}

#[test]
fn a_file_that_cannot_be_written_is_the_programs_failure() {
    let directory = Directory::new();
    let file = directory.file("up", "1\n2\n");
    let missing = directory.path("no").join("out");
    let ended = trace(["convert", &file, "-o", missing.to_str().unwrap()]);
    assert_eq!(ended.status, 125);
    assert!(ended.stderr.starts_with("punctual: cannot create "), "{}", ended.stderr);
    let ended = trace(["convert", &file, "-o", "/dev/full"]);
    assert_eq!(ended.status, 125);
    assert!(ended.stderr.starts_with("punctual: cannot write /dev/full"), "{}", ended.stderr);
}

#[test]
fn what_a_run_is_writing_is_not_replaced() {
    let directory = Directory::new();
    let (trace_file, live) = (directory.file("up", "1\n2\n"), directory.file("live", "a run's"));
    let locked = fs::File::open(&live).unwrap();
    locked.try_lock().unwrap();
    for words in [
        ["convert", &trace_file, "-o", &live].as_slice(),
        &["make", "constant", "--rate", "1mbit", "--duration", "1s", "-o", &live],
    ] {
        let ended = trace(words);
        assert_eq!(ended.status, 125, "{}", ended.stderr);
        assert!(ended.stderr.contains("live: a run is writing it"), "{}", ended.stderr);
    }
    assert_eq!(fs::read(&live).unwrap(), b"a run's");
}

#[test]
fn a_file_is_replaced_when_its_successor_is_whole_and_not_before() {
    let directory = Directory::new();
    let file = directory.file("up", lines_of(1..100_000));
    let before = fs::read(&file).unwrap();
    for words in ["convert $1 -o $1", "make sine --low 1mbit --high 9mbit --period 9s -o $1"] {
        let script = format!("ulimit -f 1; exec {PUNCTUAL} trace {words}");
        let ended =
            ended(Command::new("sh").stdin(Stdio::null()).args(["-c", &script, "sh", &file]));
        assert_eq!(ended.status, 125, "{words}");
        assert!(ended.stderr.contains("up: it would be larger than the limit"), "{}", ended.stderr);
        assert!(fs::read(&file).unwrap() == before, "{words}");
        assert_eq!(fs::read_dir(directory.path("")).unwrap().count(), 1, "{words}");
    }
}

#[test]
fn who_is_stopped_while_writing_leaves_the_old_file_and_nothing_beside_it() {
    crate::signals::ignore_none();
    let directory = Directory::new();
    let file = directory.file("old", "precious");
    let kind = "walk --low 1mbit --high 9mbit --by 1mbit --step 100us --duration 200s -o";
    let mut child = command()
        .arg("make")
        .args(kind.split(' '))
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let names = || fs::read_dir(directory.path("")).unwrap().count();
    while names() < 2 && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    assert_eq!((fs::read(&file).unwrap().as_slice(), names()), (&b"precious"[..], 1));
}
