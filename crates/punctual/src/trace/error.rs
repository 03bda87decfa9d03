//! What is wrong with a trace, in one line.

use std::fmt;
use std::io;

use super::format::Format;

/// A trace that cannot be read: `FILE:LINE: what, expected what`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    file: String,
    problem: Problem,
}

impl TraceError {
    /// The line that is wrong, counted from 1; `None` where it is the whole file.
    pub fn line(&self) -> Option<u64> {
        self.problem.line
    }

    /// The option that would decide what the file leaves open.
    pub fn missing(&self) -> Option<Missing> {
        self.problem.missing
    }
}

/// What a file leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Several formats fit, or none.
    Format,
    /// Its rates have no unit.
    Unit,
    /// It holds both directions.
    Direction,
}

impl Missing {
    /// The option's name: `format`, `unit`, `direction`.
    pub fn option(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Unit => "unit",
            Self::Direction => "direction",
        }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.problem.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.problem.what)
    }
}

impl std::error::Error for TraceError {}

/// The same, before the file's name is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    line: Option<u64>,
    what: String,
    missing: Option<Missing>,
}

impl Problem {
    /// Something about the whole file.
    pub(super) fn whole(what: impl Into<String>) -> Self {
        Self { line: None, what: what.into(), missing: None }
    }

    /// Something about one line, counted from 1.
    pub(super) fn at(line: u64, what: impl Into<String>) -> Self {
        Self { line: Some(line), what: what.into(), missing: None }
    }

    /// Something that an option would decide.
    pub(super) fn open(missing: Missing, what: impl Into<String>) -> Self {
        Self { line: None, what: what.into(), missing: Some(missing) }
    }

    /// The same of a file that was taken for this format: where no line of it is named, nothing else
    /// says so.
    pub(super) fn read_as(mut self, format: Format) -> Self {
        if self.line.is_none() && self.missing.is_none() {
            self.what = format!("{} (read as {format})", self.what);
        }
        self
    }

    /// A file that cannot be opened or read.
    pub(super) fn input(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::IsADirectory => Self::whole("is a directory, expected a trace file"),
            _ => Self::whole(format!("cannot be read: {error}")),
        }
    }

    /// JSON that cannot be read as what it should be.
    pub(super) fn json(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
        match error.line() {
            0 => Self::whole(what),
            line => Self::at(u64::try_from(line).unwrap_or(u64::MAX), what),
        }
    }

    pub(super) fn in_file(self, file: &str) -> TraceError {
        TraceError { file: file.to_owned(), problem: self }
    }
}

/// The number of the line in which `before` ends, counted from 1.
pub(super) fn line_after(before: &[u8]) -> u64 {
    u64::try_from(before.split(|byte| *byte == b'\n').count()).unwrap_or(u64::MAX)
}

/// Text from a file as it may stand in a message: one line, not too long.
pub(super) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(MOST_QUOTED).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    format!("{shown:?}")
}

/// Characters of a file that a message repeats.
const MOST_QUOTED: usize = 40;
