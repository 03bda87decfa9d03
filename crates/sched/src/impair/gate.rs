//! Slots at work.

use super::spread::Spread;
use super::{Distribution, Slot, SlotGap};
use crate::random::Stream;
use crate::time::{Duration, Instant};
use crate::units::Probability;

/// Lets packets through in slots.
///
/// A slot is an instant. It opens when a packet is due and the gap drawn at the last slot has
/// passed; every packet that is due then leaves in it, in order, until its packets or bytes are
/// used up. So after a pause the first packet leaves at once, as on a medium that is free, and
/// nothing is drawn while nothing is sent.
#[derive(Debug)]
pub(crate) struct Gate {
    gap: Gap,
    limits: (u32, u32),
    opened: Option<Instant>,
    next: Instant,
    packets_left: u64,
    bytes_left: u64,
    /// Slots opened.
    slots: u64,
}

#[derive(Debug)]
enum Gap {
    Uniform { min: Duration, width: Duration, random: Stream },
    Spread(Spread),
}

impl Gate {
    pub(crate) fn new(slot: &Slot, random: Stream) -> Self {
        Self {
            gap: Gap::new(&slot.gap, random),
            limits: (slot.packets, slot.bytes),
            opened: None,
            next: Instant::ZERO,
            packets_left: 0,
            bytes_left: 0,
            slots: 0,
        }
    }

    /// Other slots from `now` on. Where the `gaps` differ the next slot is drawn anew, from the last
    /// one on, but does not open before `now`.
    pub(crate) fn set(self, slot: &Slot, gaps: bool, now: Instant) -> Self {
        let limits = (slot.packets, slot.bytes);
        if !gaps {
            return Self { limits, ..self };
        }
        let mut gap = Gap::new(&slot.gap, self.gap.into_random());
        let next = self.opened.map_or(self.next, |opened| (opened + gap.draw()).max(now));
        Self { gap, limits, next, ..self }
    }

    /// When a packet that is the next one and due at `due` passes. A slot that is open and not used
    /// up serves only who is due by then: whoever enters later is due later.
    pub(crate) fn passes(&self, due: Instant) -> Instant {
        match self.opened {
            Some(opened) if self.open() && due <= opened => opened,
            _ => due.max(self.next),
        }
    }

    /// A packet of `bytes` passes at `at`, as [`Gate::passes`] said.
    pub(crate) fn pass(&mut self, at: Instant, segments: u64, bytes: u64) {
        if !self.open() || self.opened != Some(at) {
            self.opened = Some(at);
            self.next = at + self.gap.draw();
            let credit = |limit: u32| if limit == 0 { u64::MAX } else { u64::from(limit) };
            (self.packets_left, self.bytes_left) = (credit(self.limits.0), credit(self.limits.1));
            self.slots += 1;
        }
        self.packets_left = self.packets_left.saturating_sub(segments);
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
    }

    /// Slots opened so far.
    pub(crate) fn slots(&self) -> u64 {
        self.slots
    }

    /// Whether the last slot is not used up.
    fn open(&self) -> bool {
        self.packets_left > 0 && self.bytes_left > 0
    }
}

impl Gap {
    fn new(gap: &SlotGap, random: Stream) -> Self {
        match *gap {
            SlotGap::Uniform { min, max } => {
                Self::Uniform { min, width: max.saturating_sub(min), random }
            }
            SlotGap::Spread { ref distribution, delay, jitter } => {
                let distribution: Distribution = distribution.clone();
                let mut spread = Spread::new(distribution, random);
                spread.set(delay, jitter, Probability::ZERO);
                Self::Spread(spread)
            }
        }
    }

    fn into_random(self) -> Stream {
        match self {
            Self::Uniform { random, .. } => random,
            Self::Spread(spread) => spread.into_random(),
        }
    }

    fn draw(&mut self) -> Duration {
        match self {
            Self::Uniform { min, width: Duration::ZERO, .. } => *min,
            Self::Uniform { min, width, random } => {
                *min + Duration::from_nanos(random.up_to(width.as_nanos()))
            }
            Self::Spread(spread) => spread.draw(),
        }
    }
}
