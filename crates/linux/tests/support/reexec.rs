//! A runner for tests that need a single-threaded process: each runs in a process of its own,
//! this program again with `--exact-child NAME`. It prints what libtest prints.

#[path = "signals.rs"]
mod signals;

use std::error::Error;
use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::MemfdFlags;
use rustix::process::{PidfdFlags, pidfd_open};

/// A test: the sentence it proves, and its body.
pub(crate) type Test = (&'static str, fn() -> TestResult);
/// What a test returns.
pub(crate) type TestResult = Result<(), Box<dyn Error>>;

/// Runs those of `tests` whose name contains the first argument that is no option. Where the
/// kernel refuses what they need, `missing` says why, and all are reported as ignored.
pub(crate) fn run(tests: &[Test], missing: impl FnOnce() -> Option<String>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [option, name] = &arguments[..]
        && option == "--exact-child"
    {
        return child(tests, name);
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with("--"));
    let chosen: Vec<_> =
        tests.iter().filter(|test| filter.is_none_or(|f| test.0.contains(f.as_str()))).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        for test in chosen {
            println!("{}: test", test.0);
        }
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", chosen.len());
    signals::ignore_none();
    let missing = missing();
    let mut failures = Vec::new();
    for test in &chosen {
        let outcome = missing.as_ref().map_or_else(|| in_own_process(test.0), |_| Ok(()));
        match (&missing, &outcome) {
            (Some(reason), _) => println!("test {} ... ignored, {reason}", test.0),
            (None, Ok(())) => println!("test {} ... ok", test.0),
            (None, Err(_)) => println!("test {} ... FAILED", test.0),
        }
        failures.extend(outcome.err().map(|output| format!("---- {} ----\n{output}\n", test.0)));
    }
    for failure in &failures {
        println!("\n{failure}");
    }
    let ignored = if missing.is_some() { chosen.len() } else { 0 };
    let (passed, failed) = (chosen.len() - ignored - failures.len(), failures.len());
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; {} filtered out\n",
        tests.len() - chosen.len()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(101) }
}

fn child(tests: &[Test], name: &str) -> ExitCode {
    let Some(test) = tests.iter().find(|test| test.0 == name) else {
        return ExitCode::from(2);
    };
    test.1().map_or_else(
        |error| {
            eprintln!("{error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

/// Runs one test; the error is what it printed. Nothing waits for more than a minute.
fn in_own_process(name: &str) -> Result<(), String> {
    let output = || -> Result<(bool, String), Box<dyn Error>> {
        let mut output = File::from(rustix::fs::memfd_create("output", MemfdFlags::CLOEXEC)?);
        let mut child = Command::new("/proc/self/exe")
            .args(["--exact-child", name])
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            .spawn()?;
        let pid = rustix::process::Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
        let ended = rustix::event::poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&minute))?;
        if ended == 0 {
            child.kill()?;
        }
        let status = child.wait()?;
        let mut text = if ended == 0 { "killed after a minute\n" } else { "" }.to_owned();
        output.rewind()?;
        output.read_to_string(&mut text)?;
        Ok((status.success(), format!("{status}\n{text}")))
    };
    match output() {
        Ok((true, _)) => Ok(()),
        Ok((false, text)) => Err(text),
        Err(error) => Err(error.to_string()),
    }
}
