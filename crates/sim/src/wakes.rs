//! How late the driver wakes up.

use core::fmt;

use punctual_sched::{Duration, Probability};

use crate::random::Stream;

/// The lateness of a wake-up: from the deadline or the arrival that causes it to the moment the
/// driver looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wakes {
    /// Never late.
    #[default]
    Punctual,
    /// Always late by this much.
    Constant(Duration),
    /// Uniform from zero to this much.
    Uniform(Duration),
    /// Mostly late by `usual`, now and then by `stall`: a preempted thread.
    Stall {
        /// Lateness of the ordinary wake-up.
        usual: Duration,
        /// Lateness of the rare one.
        stall: Duration,
        /// Share of the rare ones.
        share: Probability,
    },
}

impl Wakes {
    pub(crate) fn draw(self, random: &mut Stream) -> Duration {
        match self {
            Self::Punctual => Duration::ZERO,
            Self::Constant(late) => late,
            Self::Uniform(max) => Duration::from_nanos(random.up_to(max.as_nanos())),
            Self::Stall { usual, stall, share } => {
                let rare = random.bits() >> 32 < u64::from(share.as_raw());
                if rare { stall } else { usual }
            }
        }
    }
}

impl fmt::Display for Wakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Punctual => f.write_str("punctual"),
            Self::Constant(late) => write!(f, "late by {late}"),
            Self::Uniform(max) => write!(f, "late by up to {max}"),
            Self::Stall { usual, stall, share } => {
                write!(f, "late by {usual}, {share} by {stall}")
            }
        }
    }
}
