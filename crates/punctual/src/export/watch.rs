//! What goes on beside a long reading: progress on a terminal, signals that ask for the end.

use std::fs::File;
use std::io::{IsTerminal, Write, stderr};

use punctual_linux::clock::monotonic;
use punctual_linux::process::SignalFd;
use punctual_sched::Instant;

use super::error::ExportError;
use crate::log::{CutOff, ReadError};

/// Told of each record read.
#[derive(Debug)]
pub(super) struct Watch {
    /// For a look at its lock.
    log: Option<File>,
    signals: Option<SignalFd>,
    progress: Option<Progress>,
    records: u32,
}

/// A line on standard error, from a second on.
#[derive(Debug)]
struct Progress {
    what: &'static str,
    /// Bytes of the log.
    total: u64,
    next: Instant,
    shown: bool,
}

impl Watch {
    /// No progress, no signals, and no file that has a lock.
    pub(super) const fn none() -> Self {
        Self { log: None, signals: None, progress: None, records: 0 }
    }

    /// Of a log. One of `signals` ends the reading, so that what was begun can be removed; without
    /// they end the process.
    pub(super) fn new(log: &File, signals: Option<SignalFd>) -> Self {
        let total = log.metadata().map_or(0, |log| log.len());
        let next = monotonic() + FIRST;
        let progress = Progress { what: "", total, next, shown: false };
        let progress = stderr().is_terminal().then_some(progress);
        Self { log: log.try_clone().ok(), signals, progress, records: 0 }
    }

    /// The log is read again, for another purpose.
    pub(super) fn begin(&mut self, what: &'static str) {
        if let Some(progress) = &mut self.progress {
            progress.what = what;
        }
    }

    /// Why a log ends after `read` bytes without a trailer.
    pub(super) fn cut_off(&self, read: u64) -> CutOff {
        self.log.as_ref().map_or(CutOff::Untold, |log| CutOff::of(log, read))
    }

    /// Why it cannot be read.
    pub(super) fn unread(&self, error: ReadError) -> ReadError {
        match &self.log {
            Some(log) => CutOff::of_unread(log, error),
            None => error,
        }
    }

    /// A record was read, `bytes` of the log so far.
    pub(super) fn read(&mut self, bytes: u64) -> Result<(), ExportError> {
        self.records = self.records.wrapping_add(1);
        if !self.records.is_multiple_of(EVERY) {
            return Ok(());
        }
        if let Some(progress) = &mut self.progress {
            progress.show(bytes);
        }
        let Some(signals) = &self.signals else { return Ok(()) };
        match signals.next() {
            Ok(Some(received)) => Err(ExportError::Interrupted(received.signal)),
            Ok(None) => Ok(()),
            Err(error) => Err(std::io::Error::from(error).into()),
        }
    }
}

impl Progress {
    fn show(&mut self, bytes: u64) {
        let now = monotonic();
        if now < self.next {
            return;
        }
        self.next = now + AGAIN;
        self.shown = true;
        let percent = u128::from(bytes) * 100 / u128::from(self.total.max(1));
        print(&format!("\r\x1b[K{} {} %", self.what, percent.min(100)));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            print("\r\x1b[K");
        }
    }
}

fn print(text: &str) {
    // A terminal that is gone cannot be told anything.
    let _ = stderr().write_all(text.as_bytes());
}

/// Records between two looks at the clock and at signals: half a millisecond at 100 ns a record.
const EVERY: u32 = 4096;
/// What is over sooner needs no progress.
const FIRST: punctual_sched::Duration = punctual_sched::Duration::from_secs(1);
const AGAIN: punctual_sched::Duration = punctual_sched::Duration::from_millis(200);
