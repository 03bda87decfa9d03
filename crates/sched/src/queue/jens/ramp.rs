//! Whether a packet is to be marked.

use crate::random::Stream;
use crate::time::Duration;

/// A marking probability that rises linearly with the queue delay, from 0 at `free` to 1 at
/// `full`; a step at `full` where `full` is not above `free`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ramp {
    pub(super) free: Duration,
    pub(super) full: Duration,
}

/// What a queue delay means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chance {
    Never,
    Always,
    /// `above` in `range`, both of 32 bits and `above < range`.
    Share {
        above: u64,
        range: u64,
    },
}

impl Ramp {
    /// Draws only where chance decides.
    pub(super) fn marks(self, delay: Duration, random: &mut Stream) -> bool {
        match self.chance(delay) {
            Chance::Never => false,
            Chance::Always => true,
            Chance::Share { above, range } => random.up_to(range - 1) < above,
        }
    }

    pub(super) fn chance(self, delay: Duration) -> Chance {
        if delay >= self.full {
            return Chance::Always;
        }
        if delay <= self.free {
            return Chance::Never;
        }
        let mut range = self.full.saturating_sub(self.free).as_nanos();
        let mut above = delay.saturating_sub(self.free).as_nanos();
        // As the module does, which draws 32 bits: both are halved until the range fits.
        while range > u64::from(u32::MAX) {
            (range, above) = (range / 2, above / 2);
        }
        Chance::Share { above, range }
    }
}
