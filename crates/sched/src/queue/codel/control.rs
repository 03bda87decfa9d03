//! CoDel's controller (RFC 8289, section 5), apart from any queue.

use core::num::NonZero;

use super::law::{Law, Root};
use crate::time::Instant;

/// The state of one controller: of a queue, or of one flow.
///
/// It is shown every packet that is taken from the head of the queue and says what becomes of it.
/// After [`Verdict::Drop`] it is shown the next one at the same instant, or told that there is
/// none.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    count: u32,
    /// The count with which the current episode of signals began.
    last_count: u32,
    root: Root,
    /// Whether signals are being sent: an episode.
    dropping: bool,
    /// What the packet shown next follows.
    step: Step,
    /// When the queue will have been bad for an interval; `None` while it is good.
    first_above: Option<NonZero<u64>>,
    /// When the next signal of the episode is due.
    next_signal: u64,
}

/// A packet at the head of the queue.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// When it entered the queue.
    pub entered: Instant,
    /// Now.
    pub now: Instant,
    /// Bytes left in the queue without it.
    pub backlog: u64,
    /// Whether congestion can be marked on it.
    pub markable: bool,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves.
    Pass,
    /// It leaves with a mark.
    Mark,
    /// It is dropped.
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing at this instant.
    Head,
    /// A drop within an episode.
    Signal,
    /// The drop that began an episode.
    Beginning,
}

impl Control {
    /// A controller that has seen nothing.
    pub const fn new() -> Self {
        Self {
            count: 0,
            last_count: 0,
            root: Root::ONE,
            dropping: false,
            step: Step::Head,
            first_above: None,
            next_signal: 0,
        }
    }

    /// What becomes of `head`.
    #[inline]
    pub fn judge(&mut self, law: &Law, head: &Head) -> Verdict {
        let now = law.time(head.now);
        let bad = self.is_bad(law, head, now);
        match core::mem::replace(&mut self.step, Step::Head) {
            Step::Beginning => Verdict::Pass,
            Step::Head if !self.dropping && !bad => Verdict::Pass,
            Step::Head if !self.dropping => self.begin(law, head, now),
            _ if !bad => {
                self.dropping = false;
                Verdict::Pass
            }
            step => {
                if step == Step::Signal {
                    self.next_signal = law.next_signal(self.next_signal, self.count, self.root);
                }
                self.go_on(law, head, now)
            }
        }
    }

    /// There is no packet to show.
    #[inline]
    pub fn empty(&mut self, law: &Law) {
        match core::mem::replace(&mut self.step, Step::Head) {
            // The kernel looks at its queue once more after a drop, but not before.
            Step::Head if !law.forgets_when_empty() => self.dropping = false,
            Step::Beginning => self.first_above = None,
            Step::Head | Step::Signal => {
                self.first_above = None;
                self.dropping = false;
            }
        }
    }

    /// Signals that something else sent: `packets` were dropped because there was no room.
    pub fn add(&mut self, packets: u32) {
        self.count = self.count.saturating_add(packets);
    }

    /// Signals sent in this episode and those just before it.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// [`Control::count`] at the beginning of this episode.
    pub const fn last_count(&self) -> u32 {
        self.last_count
    }

    /// Whether signals are being sent, and how long after `now` the next one is due, in the law's
    /// unit, 0 when it is overdue.
    pub fn next_signal(&self, law: &Law, now: Instant) -> Option<u64> {
        self.dropping.then(|| law.until(self.next_signal, law.time(now)))
    }

    /// Whether the queue has been bad for an interval.
    #[inline]
    fn is_bad(&mut self, law: &Law, head: &Head, now: u64) -> bool {
        if law.is_good(law.sojourn(head.entered, head.now), head.backlog) {
            self.first_above = None;
            return false;
        }
        if let Some(end) = self.first_above {
            return law.interval_over(end.get(), now);
        }
        self.first_above = NonZero::new(law.an_interval_after(now));
        false
    }

    /// The first signal of an episode, which goes on where the last one ended if that was recent.
    fn begin(&mut self, law: &Law, head: &Head, now: u64) -> Verdict {
        let signals = self.count.saturating_sub(self.last_count);
        // Before the first episode there is nothing to go on from, though drops for want of room
        // may have been added.
        let again = self.last_count > 0 && law.is_recent(self.next_signal, now);
        if signals > 1 && again {
            self.count = signals;
            self.root = self.root.step(self.count);
        } else {
            self.count = 1;
            self.root = Root::ONE;
        }
        self.dropping = true;
        self.last_count = self.count;
        self.next_signal = law.next_signal(now, self.count, self.root);
        if law.ecn() && head.markable {
            return Verdict::Mark;
        }
        self.step = Step::Beginning;
        Verdict::Drop
    }

    /// Another signal if one is due.
    fn go_on(&mut self, law: &Law, head: &Head, now: u64) -> Verdict {
        if !law.reached(self.next_signal, now) {
            return Verdict::Pass;
        }
        self.count = self.count.saturating_add(1);
        self.root = self.root.step(self.count);
        if law.ecn() && head.markable {
            self.next_signal = law.next_signal(self.next_signal, self.count, self.root);
            return Verdict::Mark;
        }
        self.step = Step::Signal;
        Verdict::Drop
    }
}

impl Default for Control {
    fn default() -> Self {
        Self::new()
    }
}
