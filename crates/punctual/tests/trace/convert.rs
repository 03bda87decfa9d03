//! `punctual trace convert`.

use std::fs;
use std::process::Stdio;

use crate::{Directory, command, trace};

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

#[test]
fn warnings_go_to_standard_error() {
    let directory = Directory::new();
    let file = directory.file("q", "200000,10000000,30000000,7,100\n");
    let ended = trace(["convert", &file]);
    let expected =
        format!("punctual: {file}: not carried: LIMIT; give the link what it shall have of them\n");
    assert_eq!((ended.status, ended.stderr), (0, expected));
}

#[test]
fn a_reader_that_goes_early_is_no_failure() {
    let directory = Directory::new();
    let lines: String = (1..100_000).flat_map(|n| [n.to_string(), "\n".to_owned()]).collect();
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
