//! Reordering at work.

use super::counts::Share;
use super::events::Events;
use super::{Correlated, Reorder};
use crate::random::Stream;

/// Decides which packets skip the delay line.
#[derive(Debug)]
pub(crate) struct Overtaking {
    reorder: Reorder,
    events: Events,
    /// Packets since the last that skipped.
    since: u32,
    share: Share,
}

impl Overtaking {
    pub(crate) fn new(reorder: Reorder, random: Stream) -> Self {
        Self { reorder, events: Events::new(random), since: 0, share: Share::default() }
    }

    /// What goes for the packets to come. The count to the next that may skip goes on.
    pub(crate) fn set(&mut self, reorder: Reorder) {
        if reorder != self.reorder {
            self.events.forget();
            self.reorder = reorder;
        }
    }

    /// Whether a packet may leave before one that entered earlier.
    pub(crate) fn possible(&self) -> bool {
        self.reorder != Reorder::None
    }

    /// Whether packets may leave as their delays fall.
    pub(crate) fn by_jitter(&self) -> bool {
        self.reorder == Reorder::Jitter
    }

    /// Whether some packets skip the delay.
    pub(crate) fn by_skipping(&self) -> bool {
        matches!(self.reorder, Reorder::Skip { .. })
    }

    /// Whether the next packet skips the delay.
    pub(crate) fn skips(&mut self) -> bool {
        let Reorder::Skip { probability, correlation, gap } = self.reorder else { return false };
        if self.since.saturating_add(1) < gap {
            self.since += 1;
            return false;
        }
        let skips = self.events.happens(Correlated { probability, correlation });
        self.since = if skips { 0 } else { self.since.saturating_add(1) };
        self.share.count(skips);
        skips
    }

    /// Of the packets that might have skipped, those that did.
    pub(crate) fn share(&self) -> Share {
        self.share
    }
}
