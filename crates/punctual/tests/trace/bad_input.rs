//! Files that are none, and files that are wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::{Directory, trace};

#[test]
fn each_bad_file_has_its_answer_with_the_line() {
    let directory = Directory::new();
    let numbers = "; a column of rates is mahimahi-rate (kbit per ms) or fcc-rates (bytes/s)";
    for (text, answer) in [
        ("", ": is empty, expected a trace".to_owned()),
        ("\n\n", ": holds blank lines only, expected a trace".to_owned()),
        ("5\n3\n", format!(":2: goes back in time by 2ms, expected times in order{numbers}")),
        ("5\n-3\n", ":2: \"-3\" is negative, expected a time in ms".to_owned()),
        ("5\n\n7\n", ":2: is blank, expected a time in ms".to_owned()),
        ("5\nNaN\n", ":2: \"NaN\" is no number, expected a time in ms".to_owned()),
        ("5\n1e30\n", ":2: \"1e30\" is too large, expected a time in ms".to_owned()),
        (
            "0\n",
            ":1: the last time is 0 ms, expected one above 0: the trace begins anew there"
                .to_owned(),
        ),
    ] {
        let file = directory.file("file", text);
        assert_eq!(trace(["check", &file]).refusal(), format!("{file}{answer}"), "{text:?}");
    }
    let one = directory.file("one", "7\n");
    assert_eq!(trace(["check", "--json", &one]).json()["span_ns"], 7_000_000);
}

#[test]
fn binary_garbage_is_no_text() {
    let directory = Directory::new();
    let bytes: Vec<u8> =
        (0..100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let file = directory.file("garbage", bytes);
    let ended = trace(["check", &file]);
    assert!(ended.refusal().ends_with("holds bytes that are no text, expected a trace in text"));
}

#[test]
fn directories_and_devices_are_refused_at_once() {
    let directory = Directory::new();
    let path = directory.path("").to_str().unwrap().to_owned();
    let ended = trace(["check", &path]);
    assert_eq!(ended.refusal(), format!("{path}: is a directory, expected a trace file"));
    let zero = trace(["check", "/dev/zero"]);
    assert_eq!(
        zero.refusal(),
        "/dev/zero:1: holds bytes that are no text, expected a trace in text"
    );
    let missing = directory.path("missing").to_str().unwrap().to_owned();
    let ended = trace(["check", &missing]);
    assert_eq!(
        ended.refusal(),
        format!("{missing}: cannot be read: No such file or directory (os error 2)")
    );
}

#[test]
fn an_unreadable_file_is_refused_with_the_reason() {
    let directory = Directory::new();
    let file = directory.file("secret", "7\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&file).is_ok() {
        // Root reads everything.
        return;
    }
    let ended = trace(["check", &file]);
    assert_eq!(ended.refusal(), format!("{file}: cannot be read: Permission denied (os error 13)"));
}

#[test]
fn with_json_the_error_is_json_too() {
    let directory = Directory::new();
    let file = directory.file("file", "5\n-3\n");
    let ended = trace(["check", "--json", &file]);
    let json: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let error = format!("{file}:2: \"-3\" is negative, expected a time in ms");
    assert_eq!((ended.status, &json["error"]), (2, &error.as_str().into()));
    assert_eq!(ended.stderr, format!("punctual: {error}\n"));
}

#[test]
fn bad_options_are_bad_usage() {
    let directory = Directory::new();
    let file = directory.file("file", "5\n");
    for (options, part) in [
        ("--format mahimai", "invalid value 'mahimai'"),
        ("--unit mbps", "invalid value 'mbps'"),
        ("--unit mbit", "a unit was given, but mahimahi has its own"),
        ("--direction left", "expected up or down"),
        ("--packet 1400", "expected 1504 or 1500"),
        ("--fluid=10", "has no unit"),
        ("--fluid=0ms", "expected a window above 0"),
    ] {
        let ended = trace(["check", &file].into_iter().chain(options.split(' ')));
        assert_eq!(ended.status, 2, "{options}");
        assert!(ended.stderr.contains(part), "{options}: {}", ended.stderr);
    }
}

#[test]
fn hostile_configurations_end_soon() {
    let directory = Directory::new();
    for text in [
        r#"{"RepeatedBwPatternConfig":{"pattern":[{"StaticBwConfig":{}}],"count":18446744073709551615}}"#,
        r#"{"NormalizedBwConfig":{"duration":"200000days","step":"1ns"}}"#,
        r#"{"SawtoothBwConfig":{"duration":"200000days","step":"1ns","top":"0bps"}}"#,
    ] {
        let file = directory.file("file", text);
        let mut child = crate::command();
        let child =
            child.args(["check", &file]).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let ended = waited(child, Duration::from_mins(1));
        assert!(ended.contains("entries") || ended.contains("584 years"), "{ended}");
    }
}

/// What it wrote to standard error; it must end in this time.
fn waited(child: std::process::Child, most: Duration) -> String {
    let id = child.id();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(child.wait_with_output().unwrap()));
    let output = receive.recv_timeout(most).unwrap_or_else(|_| {
        let pid = rustix::process::Pid::from_raw(id.cast_signed()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        panic!("still running after {most:?}")
    });
    String::from_utf8(output.stderr).unwrap()
}
