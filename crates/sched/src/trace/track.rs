//! Values of one kind over time.

use super::cursor::Timed;
use crate::time::Duration;

/// Values that hold until they are replaced, in order of time, each time once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Track<T> {
    entries: Vec<Entry<T>>,
}

/// A new value from `at` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<T> {
    pub(super) at: Duration,
    pub(super) value: T,
}

impl<T> Timed for Entry<T> {
    fn at(&self) -> Duration {
        self.at
    }
}

impl<T: Copy> Track<T> {
    pub(super) fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// A value that comes at `at`, which is not before the last. At the same time the later one
    /// wins.
    pub(super) fn push(&mut self, at: Duration, value: T) {
        match self.entries.last_mut() {
            Some(last) if last.at == at => last.value = value,
            _ => self.entries.push(Entry { at, value }),
        }
    }

    pub(super) fn entries(&self) -> &[Entry<T>] {
        &self.entries
    }

    /// How many entries come up to `at`, those at it included.
    pub(super) fn count_through(&self, at: Duration) -> usize {
        self.entries.partition_point(|entry| entry.at <= at)
    }

    /// The value that entries up to `at` have left, none where none has come.
    pub(super) fn value_at(&self, at: Duration) -> Option<T> {
        let last = self.count_through(at).checked_sub(1)?;
        Some(self.entries[last].value)
    }

    /// Gives back what growing has reserved.
    pub(super) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }
}
