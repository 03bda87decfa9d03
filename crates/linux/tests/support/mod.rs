//! A test runner for tests that need a process of their own kind: they run on the main thread, one
//! after the other, after a preparation that the machine may refuse.
//!
//! Understands what `cargo test` and `cargo nextest` pass (`--list`, `--exact`, `--ignored`,
//! `--skip`, name filters) and prints as libtest does.

pub(crate) mod signals;

use std::panic::catch_unwind;
use std::process::ExitCode;

/// A test that fails by panicking.
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) run: fn(),
}

/// Makes a [`Test`] of each function, named as it is.
#[macro_export]
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        [$($crate::support::Test { name: stringify!($name), run: $name }),*]
    };
}

/// Runs the tests that the command line selects. If `prepare` fails, each is reported as ignored,
/// with the reason.
pub(crate) fn run(tests: &[Test], prepare: impl FnOnce() -> Result<(), String>) -> ExitCode {
    let arguments = Arguments::parse();
    let selected: Vec<&Test> = tests.iter().filter(|test| arguments.select(test.name)).collect();
    if arguments.list {
        for test in selected {
            println!("{}: test", test.name);
        }
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", selected.len());
    signals::ignore_none();
    let refusal = if selected.is_empty() { None } else { prepare().err() };
    let mut failed = Vec::new();
    for test in &selected {
        if let Some(reason) = &refusal {
            println!("test {} ... ignored, {reason}", test.name);
        } else if catch_unwind(test.run).is_ok() {
            println!("test {} ... ok", test.name);
        } else {
            println!("test {} ... FAILED", test.name);
            failed.push(test.name);
        }
    }
    let ignored = if refusal.is_some() { selected.len() } else { 0 };
    summarise(
        &failed,
        selected.len() - ignored - failed.len(),
        ignored,
        tests.len() - selected.len(),
    )
}

fn summarise(failed: &[&str], passed: usize, ignored: usize, filtered: usize) -> ExitCode {
    if !failed.is_empty() {
        println!("\nfailures:\n    {}", failed.join("\n    "));
    }
    let result = if failed.is_empty() { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {result}. {passed} passed; {} failed; {ignored} ignored; 0 measured; \
         {filtered} filtered out\n",
        failed.len()
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(101) }
}

#[derive(Default)]
struct Arguments {
    list: bool,
    exact: bool,
    only_ignored: bool,
    filters: Vec<String>,
    skipped: Vec<String>,
}

impl Arguments {
    /// Options of libtest that change nothing here are accepted, with their values.
    fn parse() -> Self {
        let mut parsed = Self::default();
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => parsed.list = true,
                "--exact" => parsed.exact = true,
                "--ignored" => parsed.only_ignored = true,
                "--skip" => parsed.skipped.extend(arguments.next()),
                "--format" | "--test-threads" | "--color" | "--logfile" | "-Z" => {
                    arguments.next();
                }
                option if option.starts_with('-') => {}
                filter => parsed.filters.push(filter.to_owned()),
            }
        }
        parsed
    }

    fn select(&self, name: &str) -> bool {
        let matches = |filter: &String| {
            if self.exact { name == filter } else { name.contains(filter.as_str()) }
        };
        // Whether a test will be ignored is known only when it is run.
        !self.only_ignored
            && (self.filters.is_empty() || self.filters.iter().any(matches))
            && !self.skipped.iter().any(matches)
    }
}
