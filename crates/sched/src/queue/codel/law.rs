//! CoDel's constants and its arithmetic: exact as RFC 8289, or as Linux does it.

use crate::time::{Duration, Instant};

/// How CoDel counts time and spaces its signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// RFC 8289: nanoseconds, signals `interval / sqrt(count)` apart, rounded down; the first one
    /// as soon as an interval has passed.
    #[default]
    Rfc,
    /// Linux: units of 1024 ns in 32 bits that wrap, a reciprocal square root of 16 bits that
    /// takes one Newton step for each signal, the first one strictly after an interval.
    Linux,
}

/// What a CoDel controller goes by; the same for all flows of a queue.
///
/// Times are in the arithmetic's own unit: nanoseconds, or units of 1024 ns in 32 bits.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    arithmetic: Arithmetic,
    target: u64,
    interval: u64,
    ce_threshold: Option<u64>,
    ecn: bool,
    mtu: u64,
}

impl Law {
    /// Signals when packets have waited for `target` or more throughout `interval`, with more than
    /// `mtu` bytes queued behind them. With `ecn` packets that can be marked are
    /// not dropped.
    pub fn new(
        arithmetic: Arithmetic,
        target: Duration,
        interval: Duration,
        ecn: bool,
        mtu: u64,
    ) -> Self {
        let unit = |time| span(arithmetic, time);
        let (target, interval) = (unit(target), unit(interval));
        Self { arithmetic, target, interval, ce_threshold: None, ecn, mtu }
    }

    /// Marks every packet that waited longer than `threshold`, besides.
    #[must_use]
    pub fn with_ce_threshold(self, threshold: Option<Duration>) -> Self {
        let ce_threshold = threshold.map(|threshold| span(self.arithmetic, threshold));
        Self { ce_threshold, ..self }
    }

    /// Whether congestion is marked rather than dropped where it can be.
    pub const fn ecn(&self) -> bool {
        self.ecn
    }

    /// The arithmetic in use.
    pub const fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// How long a packet waited.
    #[inline]
    pub fn sojourn(&self, entered: Instant, now: Instant) -> u64 {
        match self.arithmetic {
            Arithmetic::Rfc => now.since(entered).as_nanos(),
            Arithmetic::Linux => wrap(self.time(now).wrapping_sub(self.time(entered))),
        }
    }

    /// Whether a packet that waited for `sojourn`, with `backlog` bytes behind it, is no sign of
    /// a standing queue.
    #[inline]
    pub const fn is_good(&self, sojourn: u64, backlog: u64) -> bool {
        self.ahead(sojourn, self.target) < 0 || backlog <= self.mtu
    }

    /// Whether a packet waited longer than the ce_threshold.
    #[inline]
    pub fn above_ce_threshold(&self, sojourn: u64) -> bool {
        self.ce_threshold.is_some_and(|threshold| self.ahead(sojourn, threshold) > 0)
    }

    /// Microseconds of a span, rounded down.
    pub const fn micros(&self, span: u64) -> u64 {
        match self.arithmetic {
            Arithmetic::Rfc => span / 1_000,
            Arithmetic::Linux => (span << UNIT_SHIFT) / 1_000,
        }
    }

    /// The point `now`.
    #[inline]
    pub(super) const fn time(&self, now: Instant) -> u64 {
        match self.arithmetic {
            Arithmetic::Rfc => now.as_nanos(),
            Arithmetic::Linux => wrap(now.as_nanos() >> UNIT_SHIFT),
        }
    }

    /// One interval after `now`.
    #[inline]
    pub(super) const fn an_interval_after(&self, now: u64) -> u64 {
        self.later(now, self.interval)
    }

    /// When the signal after the one at `last` is due, the `count`th of its episode.
    pub(super) fn next_signal(&self, last: u64, count: u32, root: Root) -> u64 {
        let spacing = match self.arithmetic {
            Arithmetic::Rfc => over_square_root(self.interval, count),
            Arithmetic::Linux => (self.interval * (u64::from(root.0) << 16)) >> 32,
        };
        self.later(last, spacing)
    }

    /// Whether a signal due at `at` is due at `now`.
    #[inline]
    pub(super) const fn reached(&self, at: u64, now: u64) -> bool {
        self.ahead(now, at) >= 0
    }

    /// Whether the queue has been bad for an interval, which ends at `end`.
    #[inline]
    pub(super) const fn interval_over(&self, end: u64, now: u64) -> bool {
        let ahead = self.ahead(now, end);
        ahead > 0 || (ahead == 0 && matches!(self.arithmetic, Arithmetic::Rfc))
    }

    /// Whether the last episode, whose next signal would have been at `due`, is so recent that
    /// the new one goes on where it ended: 16 intervals (RFC 8289, section 5).
    pub(super) const fn is_recent(&self, due: u64, now: u64) -> bool {
        let most = self.interval.saturating_mul(16);
        match self.arithmetic {
            Arithmetic::Rfc => now.saturating_sub(due) < most,
            Arithmetic::Linux => signed(now.wrapping_sub(due).wrapping_sub(most)) < 0,
        }
    }

    /// Whether an empty queue ends a bad interval: RFC 8289 says so, the kernel goes on counting.
    pub(super) const fn forgets_when_empty(&self) -> bool {
        matches!(self.arithmetic, Arithmetic::Rfc)
    }

    /// From `now` to `at`, 0 when that is past.
    pub(super) fn until(&self, at: u64, now: u64) -> u64 {
        u64::try_from(self.ahead(at, now)).unwrap_or(0)
    }

    /// `a - b`, saturating or in 32 bits that wrap.
    #[inline]
    const fn ahead(&self, a: u64, b: u64) -> i64 {
        match self.arithmetic {
            Arithmetic::Rfc if a >= b => positive(a - b),
            Arithmetic::Rfc => -positive(b - a),
            Arithmetic::Linux => signed(a.wrapping_sub(b)),
        }
    }

    #[inline]
    const fn later(&self, time: u64, span: u64) -> u64 {
        match self.arithmetic {
            Arithmetic::Rfc => time.saturating_add(span),
            Arithmetic::Linux => wrap(time.wrapping_add(span)),
        }
    }
}

/// An approximation of `1 / sqrt(count)` with 16 bits after the point, for [`Arithmetic::Linux`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Root(u16);

impl Root {
    /// For a count of 1: just below 1.
    pub(super) const ONE: Self = Self(u16::MAX);

    /// One step of Newton's method towards `1 / sqrt(count)`.
    ///
    /// A root of a much smaller count is too far away to converge, and what the kernel computes
    /// then has wrapped: so it does here.
    #[must_use]
    pub(super) fn step(self, count: u32) -> Self {
        let inverse = u64::from(self.0) << 16;
        let square = (inverse * inverse) >> 32;
        let value = (3_u64 << 32).wrapping_sub(u64::from(count) * square) >> 2;
        let bytes = (value.wrapping_mul(inverse) >> 31 >> 16).to_le_bytes();
        Self(u16::from_le_bytes([bytes[0], bytes[1]]))
    }
}

/// `floor(interval / sqrt(count))`, exactly: the root of `interval^2 / count`.
fn over_square_root(interval: u64, count: u32) -> u64 {
    let count = count.max(1);
    if let Some(square) = interval.checked_mul(interval) {
        return (square / u64::from(count)).isqrt();
    }
    let square = u128::from(interval) * u128::from(interval);
    u64::try_from((square / u128::from(count)).isqrt()).unwrap_or(interval)
}

/// A configured span. Linux is told whole microseconds, in 32 bits.
fn span(arithmetic: Arithmetic, time: Duration) -> u64 {
    match arithmetic {
        Arithmetic::Rfc => time.as_nanos(),
        Arithmetic::Linux => wrap((time.as_nanos() / 1_000).saturating_mul(1_000) >> UNIT_SHIFT),
    }
}

/// The low 32 bits.
#[inline]
const fn wrap(value: u64) -> u64 {
    value & u32::MAX as u64
}

/// The low 32 bits as a signed number.
#[inline]
const fn signed(value: u64) -> i64 {
    let low = wrap(value).cast_signed();
    if low >= 1 << 31 { low - (1 << 32) } else { low }
}

#[inline]
const fn positive(value: u64) -> i64 {
    if value > i64::MAX as u64 { i64::MAX } else { value.cast_signed() }
}

/// A unit of Linux' arithmetic is 2^10 ns.
const UNIT_SHIFT: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn law(arithmetic: Arithmetic) -> Law {
        let (target, interval) = (Duration::from_millis(5), Duration::from_millis(100));
        Law::new(arithmetic, target, interval, false, 1_514)
    }

    #[test]
    fn the_kernel_counts_five_milliseconds_as_4882_units() {
        let law = law(Arithmetic::Linux);
        assert_eq!((law.target, law.interval), (4_882, 97_656));
        assert_eq!((law.micros(law.target), law.micros(law.interval)), (4_999, 99_999));
    }

    #[test]
    fn the_reciprocal_root_takes_the_steps_of_the_kernel() {
        let law = law(Arithmetic::Linux);
        let mut root = Root::ONE;
        assert_eq!(law.next_signal(0, 1, root), 97_654);
        for (count, value, spacing) in [
            (2, 32_769, 48_829),
            (3, 36_864, 54_931),
            (4, 31_968, 47_635),
            (5, 28_935, 43_116),
            (6, 26_481, 39_459),
            (7, 24_588, 36_638),
            (8, 23_037, 34_327),
        ] {
            root = root.step(count);
            assert_eq!((root.0, law.next_signal(0, count, root)), (value, spacing), "{count}");
        }
    }

    #[test]
    fn a_root_that_is_far_off_wraps_as_in_the_kernel_and_does_not_panic() {
        for count in [5, 64, 1_000, u32::MAX] {
            let _ = Root::ONE.step(count).step(count);
        }
        // 3 - 5 below zero, in 64 bits.
        assert_ne!(Root::ONE.step(5), Root::ONE.step(2).step(3).step(4).step(5));
    }

    #[test]
    fn the_exact_spacing_is_the_whole_part_of_the_quotient() {
        for (count, nanos) in
            [(1, 100_000_000), (2, 70_710_678), (3, 57_735_026), (100, 10_000_000)]
        {
            assert_eq!(law(Arithmetic::Rfc).next_signal(0, count, Root::ONE), nanos, "{count}");
        }
        assert_eq!(over_square_root(u64::MAX, 1), u64::MAX);
        assert_eq!(over_square_root(u64::MAX, u32::MAX), 281_474_976_743_423);
    }

    #[test]
    fn units_of_the_kernel_wrap_and_compare_around_the_wrap() {
        let law = law(Arithmetic::Linux);
        let (before, after) =
            (Instant::from_nanos((1 << 42) - 1_024), Instant::from_nanos((1 << 42) + 2_048));
        assert_eq!(law.sojourn(before, after), 3);
        assert!(law.reached(law.time(before), law.time(after)));
        assert!(!law.reached(law.time(after), law.time(before)));
        assert_eq!(law.until(law.time(after), law.time(before)), 3);
    }
}
