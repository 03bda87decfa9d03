//! Captures as tshark shows them.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod made;
#[path = "../../../linux/tests/support/mod.rs"]
#[macro_use]
mod support;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output};

use punctual::export::Format;

use crate::made::{EPOCH_UNIX_NS, export_of, one_of_each};

fn main() -> ExitCode {
    let tests = tests![
        it_shows_every_frame_with_its_stamp_its_place_and_its_fate,
        it_finds_nothing_malformed,
        it_filters_by_what_the_page_says,
    ];
    support::run(&tests, installed)
}

fn installed() -> Result<(), String> {
    let told = Command::new("tshark").arg("--version").output();
    match told {
        Ok(told) if told.status.success() => Ok(()),
        Ok(told) => Err(format!("tshark does not run: {}", told.status)),
        Err(error) => Err(format!("tshark cannot be run: {error}; install the package tshark")),
    }
}

/// The capture of one of everything, removed at the end.
struct Capture(PathBuf);

impl Capture {
    fn new() -> Self {
        let name = format!("punctual-tshark-{}.pcapng", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, export_of(&one_of_each(), Format::Pcapng)).unwrap();
        Self(path)
    }

    fn read(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tshark");
        // Nobody's own preferences.
        command.env("HOME", std::env::temp_dir()).env("XDG_CONFIG_HOME", std::env::temp_dir());
        command.arg("-n").arg("-r").arg(&self.0).args(arguments).output().unwrap()
    }

    /// The fields of each frame that the filter lets through, by tabs.
    fn fields(&self, filter: &str, fields: &[&str]) -> Vec<String> {
        let mut arguments = vec!["-Y", filter, "-T", "fields"];
        for field in fields {
            arguments.extend(["-e", field]);
        }
        let told = self.read(&arguments);
        let errors = String::from_utf8(told.stderr).unwrap();
        assert!(told.status.success(), "{errors}");
        String::from_utf8(told.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn it_shows_every_frame_with_its_stamp_its_place_and_its_fate() {
    let capture = Capture::new();
    let all = capture.fields("frame", &["frame.number"]);
    // 18 arrivals, 5 releases, 13 drops and a change.
    assert_eq!(all.len(), 37);
    let fields = [
        "frame.interface_name",
        "frame.time_epoch",
        "frame.len",
        "frame.cap_len",
        "ip.src",
        "ip.dst",
        "ip.dsfield.dscp",
        "ip.dsfield.ecn",
    ];
    let seconds = EPOCH_UNIX_NS / 1_000_000_000;
    let (begin, end) = ("70000\t20\t198.18.255.254\t198.19.253.252\t46\t", seconds);
    assert_eq!(
        capture.fields("frame.packet_id == 13", &fields),
        [format!("up in\t{end}.000013000\t{begin}2"), format!("up out\t{end}.000017130\t{begin}3"),]
    );
    let comments =
        capture.fields("frame.packet_id == 9", &["frame.interface_name", "frame.comment"]);
    let comment = "packet=9 fate=memory_limit age_ns=500 flow=01020304";
    assert_eq!(comments, [format!("up in\t{comment}"), format!("up drop\t{comment}")]);
}

fn it_finds_nothing_malformed() {
    let capture = Capture::new();
    let told = capture.read(&["-V"]);
    let text = String::from_utf8(told.stdout).unwrap();
    let errors = String::from_utf8(told.stderr).unwrap();
    assert!(told.status.success(), "{errors}");
    for word in ["Malformed", "malformed", "Expert Info (Error", "incorrect", "corrupt or"] {
        assert!(!text.contains(word) && !errors.contains(word), "{word}: {text}");
    }
    let checked = capture.fields("ip.checksum.status == \"Bad\"", &["frame.number"]);
    assert!(checked.is_empty(), "{checked:?}");
}

fn it_filters_by_what_the_page_says() {
    let capture = Capture::new();
    let filter = "frame.interface_name == \"up drop\" && frame.comment contains \"fate=limit\"";
    assert_eq!(capture.fields(filter, &["frame.packet_id"]), ["2"]);
    let told = capture.read(&["-Y", "systemd_journal", "-T", "fields", "-e", "_ws.col.Info"]);
    let text = String::from_utf8(told.stdout).unwrap();
    assert_eq!(text, "change down rate=5mbit loss=gemodel,1%,10%,100%,0%\n");
}
