//! The live line on a terminal.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _, stderr, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_linux::clock::monotonic;
use punctual_sched::Instant;

use super::account::Live;
use super::lanes::ByLane;

/// One line on standard error that shows what passes, five times a second at most.
///
/// Only while standard error is a terminal and standard output is not: where the command writes
/// to the terminal itself, the line would be written over what it prints.
#[derive(Debug)]
pub(super) struct LiveLine {
    directions: ByLane<Arc<Live>>,
    last: Instant,
    last_bytes: [u64; 2],
    shown: bool,
    enabled: bool,
}

impl LiveLine {
    /// A line for up and down; never shown when `quiet`.
    pub(super) fn new(directions: ByLane<Arc<Live>>, quiet: bool) -> Self {
        let enabled = !quiet && stderr().is_terminal() && !stdout().is_terminal();
        Self { directions, last: monotonic(), last_bytes: [0; 2], shown: false, enabled }
    }

    /// Shows the figures now.
    pub(super) fn show(&mut self) {
        let now = monotonic();
        let span = now.since(self.last).as_nanos();
        if !self.enabled || span < 150_000_000 {
            return;
        }
        self.last = now;
        let mut line = String::from("\r\x1b[K");
        let names = ["up", "down"];
        for ((name, lanes), last) in names.iter().zip(&self.directions).zip(&mut self.last_bytes) {
            let sum = |figure: fn(&Live) -> &AtomicU64| {
                lanes.iter().map(|lane| figure(lane).load(Ordering::Relaxed)).sum::<u64>()
            };
            let bytes = sum(|live| &live.bytes);
            let bits = u128::from(bytes - *last) * 8 * 1_000_000_000 / u128::from(span);
            *last = bytes;
            let (packets, dropped, queued) =
                (sum(|live| &live.packets), sum(|live| &live.dropped), sum(|live| &live.queued));
            let mbit = bits / 10_000;
            // Writing to a string cannot fail.
            let _ = write!(
                line,
                "{name} {}.{:02} Mbit/s, {packets} out, {dropped} dropped, {queued} held   ",
                mbit / 100,
                mbit % 100
            );
        }
        print(&line);
        self.shown = true;
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        if self.shown {
            print("\r\x1b[K");
            self.shown = false;
        }
    }
}

fn print(text: &str) {
    // A terminal that is gone cannot be told anything.
    let _ = stderr().write_all(text.as_bytes());
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        self.clear();
    }
}
