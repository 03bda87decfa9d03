//! Points and spans of time: whole nanoseconds in 64 bits.

use core::fmt;
use core::ops::{Add, Sub};

/// A point in time: nanoseconds since an epoch that the driver names.
///
/// Range 0 to 2^64 - 1 ns (584 years). Times given to a [`Link`](crate::Link) never run backwards
/// and may repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The epoch itself.
    pub const ZERO: Self = Self(0);

    /// The point `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The span from `earlier` to this point, zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// Signed nanoseconds from `other` to this point, saturating at the range of `i64`.
    #[must_use]
    pub fn signed_since(self, other: Self) -> i64 {
        let difference = i128::from(self.0) - i128::from(other.0);
        i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at the end of the range: a departure 584 years away is never reached.
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// Saturates at the epoch.
    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

/// A span of time in whole nanoseconds, 0 to 2^64 - 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A span of `micros` microseconds, saturating.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A span of `millis` milliseconds, saturating.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A span of `secs` seconds, saturating.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// The span in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The difference, zero when `other` is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Duration {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Duration {
    /// Whole units, the largest that divides the span, as `tc` takes them back: `30ms`, `1500us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0ms"),
            n if n.is_multiple_of(1_000_000_000) => write!(f, "{}s", n / 1_000_000_000),
            n if n.is_multiple_of(1_000_000) => write!(f, "{}ms", n / 1_000_000),
            n if n.is_multiple_of(1_000) => write!(f, "{}us", n / 1_000),
            n => write!(f, "{n}ns"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_print_in_the_largest_unit_that_divides_them() {
        for (nanos, text) in [
            (0, "0ms"),
            (30_000_000, "30ms"),
            (1_500_000, "1500us"),
            (7, "7ns"),
            (2_000_000_000, "2s"),
        ] {
            assert_eq!(Duration::from_nanos(nanos).to_string(), text);
        }
    }

    #[test]
    fn differences_keep_their_sign_and_saturate() {
        let (early, late) = (Instant::from_nanos(5), Instant::from_nanos(u64::MAX));
        assert_eq!(early.signed_since(late), i64::MIN);
        assert_eq!(late.signed_since(early), i64::MAX);
        assert_eq!(early.signed_since(Instant::from_nanos(8)), -3);
    }
}
