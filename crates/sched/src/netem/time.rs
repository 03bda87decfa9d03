//! Points in time that may lie before the epoch, where a negative delay leads.

use crate::time::Instant;

/// A send time, in ns since [`SendTime::EPOCH`] before the epoch.
///
/// A delay drawn below zero makes a packet due at once, yet it is sorted by its time in the past,
/// even if that is before the epoch. Saturates: the last [`SendTime::EPOCH`] of the range of
/// [`Instant`] are one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SendTime(u64);

impl SendTime {
    /// 17 s: more than the furthest way back, 4 sigma of 2^31 - 1 ns each.
    const EPOCH: u64 = 1 << 34;

    pub(crate) fn at(now: Instant) -> Self {
        Self(now.as_nanos().saturating_add(Self::EPOCH))
    }

    /// `delay` ns later, or earlier when it is negative.
    pub(crate) fn after(self, delay: i64) -> Self {
        Self(self.0.saturating_add_signed(delay))
    }

    /// Signed ns from `earlier` to this point.
    pub(crate) fn since(self, earlier: Self) -> i64 {
        Instant::from_nanos(self.0).signed_since(Instant::from_nanos(earlier.0))
    }

    /// The point as an instant, the epoch when it is before.
    pub(crate) fn instant(self) -> Instant {
        Instant::from_nanos(self.0.saturating_sub(Self::EPOCH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_before_the_epoch_keep_their_order() {
        let zero = SendTime::at(Instant::ZERO);
        let (early, earlier) = (zero.after(-1), zero.after(-2));
        assert!(earlier < early && early < zero);
        assert_eq!(earlier.instant(), Instant::ZERO);
        assert_eq!(earlier.since(zero), -2);
    }

    #[test]
    fn the_ends_of_the_range_saturate() {
        let end = SendTime::at(Instant::from_nanos(u64::MAX));
        assert_eq!(end.after(i64::MAX), end);
        let furthest = SendTime::at(Instant::ZERO).after(i64::MIN);
        assert_eq!(furthest.instant(), Instant::ZERO);
    }
}
