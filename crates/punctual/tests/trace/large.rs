//! Ten million lines.

use std::fmt::Write;

use crate::Directory;

const LINES: u64 = 10_000_000;

#[test]
fn ten_million_lines_are_read_in_bounded_memory() {
    let directory = Directory::new();
    // 25 a millisecond: 300 Mbit/s for 400 s.
    let mut text = String::with_capacity(70_000_000);
    for line in 0..LINES {
        // A string takes all that is written.
        let _ = writeln!(text, "{}", 1 + line / 25);
    }
    let file = directory.file("up", text);
    // 400,000 times of 16 bytes, buffers, the program itself.
    let json = limited(&file, 64);
    assert_eq!(
        (&json["opportunity"]["count"], &json["entries"]),
        (&LINES.into(), &(LINES / 25).into())
    );
}

#[test]
fn ten_million_times_are_read_in_16_bytes_each() {
    let directory = Directory::new();
    let mut text = String::with_capacity(90_000_000);
    for line in 0..LINES {
        let _ = writeln!(text, "{}", 1 + line);
    }
    let file = directory.file("up", text);
    // While it grows, the old half of the room may stand beside the new.
    let json = limited(&file, 16 * 16 + 16 * 16 / 2 + 64);
    assert_eq!(json["entries"], LINES);
}

/// `check` with no more than so many MiB of address space beside what an empty check takes.
fn limited(file: &str, mebibytes: u64) -> serde_json::Value {
    let script =
        format!("ulimit -v {}; exec \"$0\" trace check --json \"$1\"", (mebibytes + 32) * 1_024);
    let mut command = std::process::Command::new("sh");
    let ended = crate::ended(command.args(["-c", &script, crate::PUNCTUAL, file]));
    ended.json()
}
