//! `punctual trace` from outside: the built program on files, pipes and what is neither.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod bad_input;
mod check;
mod convert;
mod large;
mod make;
#[path = "../../../linux/tests/support/signals.rs"]
mod signals;

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// What `punctual trace` left.
struct Ended {
    status: i32,
    stdout: String,
    stderr: String,
}

impl Ended {
    /// What it printed, as JSON; it succeeded and said nothing else.
    fn json(&self) -> serde_json::Value {
        assert_eq!((self.status, self.stderr.as_str()), (0, ""));
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// The one line with which it refused.
    fn refusal(&self) -> &str {
        assert_eq!((self.status, self.stdout.as_str()), (2, ""), "{}", self.stderr);
        let line = self.stderr.strip_suffix('\n').unwrap();
        assert!(!line.contains('\n'), "{line}");
        line.strip_prefix("punctual: ").unwrap()
    }
}

/// Runs `punctual trace` with these arguments.
fn trace<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Ended {
    ended(command().args(words))
}

/// The same for one line of words without blanks.
fn line(words: &str) -> Ended {
    trace(words.split(' '))
}

/// A packet delivery trace.
fn lines_of(times: impl IntoIterator<Item = u64>) -> String {
    times.into_iter().flat_map(|ms| [ms.to_string(), "\n".to_owned()]).collect()
}

fn command() -> Command {
    let mut command = Command::new(PUNCTUAL);
    command.arg("trace").stdin(Stdio::null());
    command
}

fn ended(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let status = output.status.code().unwrap();
    Ended { status, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("punctual-trace-{}-{count}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file of the directory, as an argument.
    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const PUNCTUAL: &str = env!("CARGO_BIN_EXE_punctual");
