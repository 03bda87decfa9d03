//! What commands print as their result, where standard output does not take it.

use std::fs::OpenOptions;
use std::process::{Command, Stdio};

use clap::CommandFactory;

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

/// `punctual: log export:` stood beside `punctual log export:` and `punctual verify:`.
#[test]
fn whatever_is_said_begins_with_the_programs_name() {
    let leaves = leaves(&punctual::cli::Cli::command(), "");
    let options = leaves.iter().map(|leaf| format!("{leaf} --no-such-option"));
    let saying: Vec<_> = SAYING.iter().copied().map(str::to_owned).chain(options).collect();
    for leaf in &leaves {
        let first = leaf.split(' ').next().unwrap();
        assert!(SAYING.iter().any(|words| words.starts_with(first)), "{first}: add a line of it");
    }
    for words in &saying {
        let said = command(words).env("PUNCTUAL_FAULT", "refuse=userns-limit").output().unwrap();
        let said = String::from_utf8(said.stderr).unwrap();
        let lines: Vec<_> = said.lines().map(|line| line.strip_prefix("punctual: ")).collect();
        assert!(!lines.is_empty() && lines.iter().all(Option::is_some), "{words}: {said}");
        // Which command it was stands in the line that asked.
        let of_command =
            |line: &str| leaves.iter().any(|leaf| line.starts_with(&format!("{leaf}: ")));
        assert!(!lines.iter().flatten().any(|line| of_command(line)), "{words}: {said}");
    }
}

/// For each command lines that fail, or warn.
const SAYING: &[&str] = &[
    "run --both rate=x",
    "verify /nowhere",
    "verify /dev/null",
    "log export /nowhere -o /dev/null --format csv",
    "log export /dev/null -o /dev/null --format csv",
    "log export - -o x.xls",
    "log export x -o - --format csv --user 1",
    "log info /nowhere",
    "log info /dev/null",
    "log info -",
    "demo",
    "set up.rate=x",
    "play /nowhere",
    "show no-such-run",
    "list --all",
    "trace check /dev/null",
    "trace check -",
    "trace convert /dev/null",
    "trace make square --low 1mbit --high 2mbit --period 7s",
    "trace make square --low 2mbit --high 1mbit --period 7s --duty 101%",
    "clean --no-such-option",
    "man nothing",
    "completions nothing",
    "traffic udp-send nowhere",
];

/// The commands that have none below them.
fn leaves(command: &clap::Command, path: &str) -> Vec<String> {
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    let named = |below: &clap::Command| format!("{path} {}", below.get_name()).trim().to_owned();
    let below: Vec<_> = below.flat_map(|below| leaves(below, &named(below))).collect();
    if below.is_empty() { vec![path.to_owned()] } else { below }
}

fn command(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(words.split(' ')).stdin(Stdio::null()).stderr(Stdio::piped());
    command
}
