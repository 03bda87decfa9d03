//! How long a flow waits after a packet, and how late flows were woken.

use crate::time::{Duration, Instant};
use crate::units::Rate;

/// The time that `bytes` take at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// At most a second.
    pub(super) span: Duration,
    /// What rounding down left, times the rate.
    pub(super) remainder: u64,
    /// It would have been more than a second.
    pub(super) too_long: bool,
}

impl Gap {
    /// Of `bytes` at `rate`, with the `remainder` of the gap before: so a flow's rate is exact over
    /// any number of packets. A rate of 0 counts as a byte a second, as Linux does.
    pub(super) fn new(bytes: u64, rate: Rate, remainder: u64) -> Self {
        let rate = if rate == Rate::PAUSE { 8 } else { rate.as_bps() };
        let remainder = remainder.min(rate - 1);
        let nanobits = bytes.checked_mul(NANOBITS).and_then(|n| n.checked_add(remainder));
        let (nanos, remainder) = match nanobits {
            Some(nanobits) => (nanobits / rate, nanobits % rate),
            None => wide(bytes, rate, remainder),
        };
        if nanos > SECOND {
            return Self { span: Duration::from_nanos(SECOND), remainder: 0, too_long: true };
        }
        Self { span: Duration::from_nanos(nanos), remainder, too_long: false }
    }

    /// When the next packet may leave after one that left at `now`. A flow that was served after
    /// `time`, its own time, gets the difference back, but at most half of the gap. That a time in
    /// the future halves the gap is what Linux' unsigned arithmetic does.
    pub(super) fn after(&self, time: Instant, now: Instant) -> Instant {
        if time == Instant::ZERO {
            return now + self.span;
        }
        let half = Duration::from_nanos(self.span.as_nanos() / 2);
        let late = if now >= time { now.since(time) } else { half };
        now + self.span.saturating_sub(late.min(half))
    }
}

/// The same where 64 bits are too few.
fn wide(bytes: u64, rate: u64, remainder: u64) -> (u64, u64) {
    let nanobits = u128::from(bytes) * u128::from(NANOBITS) + u128::from(remainder);
    let rate = u128::from(rate);
    // More than a second anyway.
    let nanos = u64::try_from(nanobits / rate).unwrap_or(u64::MAX);
    (nanos, u64::try_from(nanobits % rate).unwrap_or(0))
}

/// How late throttled flows were looked at: an average of weight 1/8, one sample for each time at
/// which some were (the `latency` of tc-fq(8), in nanoseconds).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latency(u64);

impl Latency {
    /// One more sample. Both shifts round down, so that samples below 8 ns count as 0.
    pub(super) fn sample(&mut self, late: Duration) {
        if late > Duration::ZERO {
            self.0 = self.0 - (self.0 >> 3) + (late.as_nanos() >> 3);
        }
    }

    /// The average, at most 2^32 - 1.
    pub(super) fn nanos(self) -> u64 {
        self.0.min(u32::MAX.into())
    }
}

/// Bits of a byte times nanoseconds of a second.
const NANOBITS: u64 = 8_000_000_000;
const SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bps: u64) -> Rate {
        Rate::from_bps(bps).unwrap()
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn lateness_is_given_back_up_to_half_of_the_gap() {
        let gap = Gap::new(3_028, rate(100_000_000), 0);
        assert_eq!(gap.span.as_nanos(), 242_240);
        let time = 5_000_000_000;
        for (late, left) in
            [(0, 242_240), (50_000, 192_240), (200_000, 121_120), (1_000_000_000, 121_120)]
        {
            assert_eq!(gap.after(at(time), at(time + late)), at(time + late + left), "{late}");
        }
        assert_eq!(gap.after(at(time), at(time - 1)), at(time - 1 + 121_120), "in the future");
        assert_eq!(gap.after(Instant::ZERO, at(time)), at(time + 242_240), "never paced");
    }

    #[test]
    fn no_gap_is_longer_than_a_second() {
        for (bytes, bps, expected) in [
            (1_514, 0, (SECOND, 0, true)),
            (1, 0, (SECOND, 0, false)),
            (125, 1_000, (SECOND, 0, false)),
            (126, 1_000, (SECOND, 0, true)),
            (u64::from(u32::MAX), Rate::MAX.as_bps(), (34_359_738, 360_000_000_000, false)),
            (u64::MAX, 1, (SECOND, 0, true)),
        ] {
            let Gap { span, remainder, too_long } = Gap::new(bytes, rate(bps), 0);
            assert_eq!((span.as_nanos(), remainder, too_long), expected, "{bytes} at {bps}");
        }
    }

    #[test]
    fn remainders_are_carried_so_that_a_million_gaps_are_exact() {
        let (bps, mut now, mut remainder) = (9_999_999_937, Instant::ZERO, 0);
        for _ in 0..1_000_000 {
            let gap = Gap::new(3_028, rate(bps), remainder);
            (now, remainder) = (now + gap.span, gap.remainder);
        }
        assert_eq!(u128::from(now.as_nanos()), 3_028 * 8_000_000_000 * 1_000_000 / u128::from(bps));
    }

    #[test]
    fn the_average_moves_by_an_eighth_and_settles_just_above_what_it_sees() {
        let after = |start: u64, late: u64, times: usize| -> Vec<u64> {
            let mut latency = Latency(start);
            let sample = |_| {
                latency.sample(Duration::from_nanos(late));
                latency.nanos()
            };
            (0..times).map(sample).collect()
        };
        assert_eq!(after(0, 1_000, 4), [125, 235, 331, 415]);
        assert_eq!(after(0, 1_000, 200)[199], 1_000);
        let expected = [6_250, 11_719, 16_505, 20_692, 24_356, 27_562, 30_367, 32_822];
        assert_eq!(after(0, 50_000, 8), expected);
        assert_eq!(after(0, 7, 100)[99], 0);
        assert_eq!(after(100_000, 1_000, 200)[199], 1_007);
        assert_eq!(after(0, u64::MAX, 100)[99], u64::from(u32::MAX));
    }
}
