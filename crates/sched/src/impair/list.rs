//! Values of one parameter as a comma list.

use core::fmt::Display;
use core::str::{FromStr, Split};

/// A text that is no value: what it said and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadValue(pub(super) String);

/// Reads `1%,25%` part by part.
pub(super) struct List<'a> {
    text: &'a str,
    parts: Split<'a, char>,
    takes: &'static str,
}

impl<'a> List<'a> {
    /// `takes` is the whole syntax, for messages.
    pub(super) fn new(text: &'a str, takes: &'static str) -> Self {
        Self { text, parts: text.split(','), takes }
    }

    /// The next part as it stands.
    pub(super) fn part(&mut self) -> Option<&'a str> {
        self.parts.next()
    }

    /// The next part, which has to be there.
    pub(super) fn required<T: FromStr<Err: Display>>(&mut self) -> Result<T, BadValue> {
        self.optional()?.ok_or_else(|| self.wrong("lacks a value"))
    }

    /// The next part, if there is one.
    pub(super) fn optional<T: FromStr<Err: Display>>(&mut self) -> Result<Option<T>, BadValue> {
        self.part().map(read).transpose()
    }

    /// Refuses parts that nobody read.
    pub(super) fn end(mut self) -> Result<(), BadValue> {
        match self.part() {
            None => Ok(()),
            Some(_) => Err(self.wrong("has too many values")),
        }
    }

    /// What is wrong with the whole.
    pub(super) fn wrong(&self, problem: &str) -> BadValue {
        BadValue(format!("\"{}\" {problem}, expected {}", self.text, self.takes))
    }
}

/// Reads one value.
pub(super) fn read<T: FromStr<Err: Display>>(text: &str) -> Result<T, BadValue> {
    text.parse().map_err(|error: T::Err| BadValue(error.to_string()))
}
