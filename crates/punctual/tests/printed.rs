//! What commands print as their result, where standard output does not take it.

use std::fs::OpenOptions;
use std::process::{Command, Stdio};

/// Words, and the exit status where the result is taken.
const COMMANDS: [(&str, i32); 8] = [
    ("list", 0),
    ("list --json", 0),
    ("clean", 0),
    ("verify --json /dev/null", 2),
    ("trace check --json /dev/null", 2),
    ("man", 0),
    ("completions bash", 0),
    ("--help", 0),
];

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    for (words, status) in COMMANDS.into_iter().chain([("--version", 0)]) {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = command(words).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(status), "{words}: {said}");
        assert!(!said.contains("stdout"), "{words}: {said}");
    }
}

#[test]
fn a_full_disk_is_the_programs_failure_and_is_told() {
    for words in ["list --json", "clean", "man", "completions bash", "--help", "--version"] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = command(words).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(125), "{words}: {said}");
        assert_eq!(said, "punctual: cannot write to stdout: the disk is full\n", "{words}");
    }
}

/// Nothing at all was printed, as if nothing had been asked.
#[test]
fn a_list_without_a_run_says_so() {
    let runtime = std::env::temp_dir().join(format!("punctual-list-{}", std::process::id()));
    std::fs::create_dir(&runtime).unwrap();
    // As a user that has no run anywhere.
    let list = |words: &[&str]| {
        let mut list = Command::new("unshare");
        list.args(["--user", "--map-user=64999", "--map-group=64999"]);
        list.arg(env!("CARGO_BIN_EXE_punctual")).arg("list").args(words);
        list.env("XDG_RUNTIME_DIR", &runtime).env_remove("PUNCTUAL_SOCKET").output().unwrap()
    };
    let [text, json] = [list(&[]), list(&["--json"])];
    std::fs::remove_dir_all(&runtime).unwrap();
    let said = String::from_utf8_lossy(&text.stderr);
    assert!(said.starts_with("punctual: no run is there") && said.lines().count() == 1, "{said}");
    assert_eq!((text.status.code(), &*text.stdout), (Some(0), &b""[..]));
    assert_eq!((json.status.code(), &*json.stderr), (Some(0), &b""[..]));
    assert_eq!(json.stdout, b"{\"runs\":[]}\n");
}

fn command(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(words.split(' ')).stdin(Stdio::null()).stderr(Stdio::piped());
    command
}
