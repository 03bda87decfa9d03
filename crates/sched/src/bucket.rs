//! Serialisation and token buckets in exact arithmetic.

use crate::time::{Duration, Instant};
use crate::units::Rate;

/// A server of bits: a token bucket whose depth may be zero, which is pure serialisation.
///
/// Tokens are counted in *nanobits*: a rate of `r` bit/s earns exactly `r` of them per
/// nanosecond. So no division rounds, the part of a nanosecond that a departure leaves over is
/// carried to the next one, and a change of rate loses nothing. Departures are rounded up to
/// the next whole nanosecond: never early, and on average exact.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    rate: Rate,
    depth: i128,
    /// The most that is left over when a packet leaves. Less than a nanosecond's worth is the
    /// carried remainder; more than the depth is what another, slower bucket made this one wait
    /// for, and is lost.
    most: i128,
    tokens: i128,
    /// The time up to which tokens are counted.
    at: Instant,
}

/// What a serialiser hands over when another takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    /// Tokens in nanobits.
    pub(crate) tokens: i128,
    /// What the next packet has paid already, in nanobits.
    pub(crate) paid: i128,
    /// Until then, which may lie ahead, the line is taken by what has left.
    pub(crate) from: Instant,
}

pub(crate) const NANOBITS_PER_BYTE: i128 = 8_000_000_000;

impl Bucket {
    /// A full bucket of `depth` bytes at `start`.
    pub(crate) fn new(rate: Rate, depth: u32, start: Instant) -> Self {
        let depth = i128::from(depth) * NANOBITS_PER_BYTE;
        Self { rate, depth, most: Self::most(rate, depth), tokens: depth, at: start }
    }

    pub(crate) fn is_unlimited(&self) -> bool {
        self.rate == Rate::UNLIMITED
    }

    /// Service of the next packet begins at `now`; idle time fills the bucket up to its depth.
    pub(crate) fn begin(&mut self, now: Instant) {
        if now > self.at {
            self.tokens = (self.tokens + self.earned(now)).min(self.depth);
            self.at = now;
        }
    }

    /// When the packet of `bytes` in service is through; `None` while the rate is 0 and tokens
    /// are short.
    pub(crate) fn ready(&self, bytes: u64) -> Option<Instant> {
        let missing = i128::from(bytes) * NANOBITS_PER_BYTE - self.tokens;
        if missing <= 0 || self.rate == Rate::UNLIMITED {
            return Some(self.at);
        }
        let rate = self.rate.as_bps();
        if rate == 0 {
            return None;
        }
        Some(self.at + Duration::from_nanos(ceil_div(missing, rate)))
    }

    /// The packet of `bytes` in service leaves at `now`, which is [`Bucket::ready`] or later.
    pub(crate) fn finish(&mut self, bytes: u64, now: Instant) {
        if self.rate == Rate::UNLIMITED {
            self.at = now;
            return;
        }
        let earned = self.tokens.saturating_add(self.earned(now));
        let left = earned - i128::from(bytes) * NANOBITS_PER_BYTE;
        self.tokens = left.min(self.most);
        self.at = now;
    }

    /// A new rate from `now` on. Tokens are kept, never refilled. While a packet is in service
    /// there is no bound to them: what is over when it leaves is lost then, as without a change.
    pub(crate) fn set_rate(&mut self, rate: Rate, serving: bool, now: Instant) {
        if now > self.at {
            self.earn(self.earned(now), serving);
            self.at = now;
        }
        self.rate = rate;
        self.most = Self::most(rate, self.depth);
    }

    /// The same, and a new depth in bytes: tokens above it are lost. More room is empty at first.
    pub(crate) fn configure(&mut self, rate: Rate, depth: u32, serving: Option<u64>, now: Instant) {
        self.set_rate(rate, serving.is_some(), now);
        let depth = i128::from(depth) * NANOBITS_PER_BYTE;
        if depth != self.depth {
            let held = serving.map_or(0, |bytes| i128::from(bytes) * NANOBITS_PER_BYTE);
            (self.depth, self.most) = (depth, Self::most(rate, depth));
            self.tokens = self.tokens.min(depth.max(held));
        }
    }

    /// Takes over what another serialiser had saved up, up to its own depth.
    pub(crate) fn take_over(&mut self, saved: Saved) {
        // What the next packet has paid may be more than that.
        self.tokens = saved.tokens.min(self.depth).saturating_add(saved.paid);
        self.at = saved.from;
    }

    /// What it has saved up, while nothing is in service.
    pub(crate) fn saved(&self, now: Instant) -> Saved {
        let tokens = (self.tokens + self.earned(now)).min(self.depth);
        Saved { tokens, paid: 0, from: self.at.max(now) }
    }

    /// Rates were followed: the one set so far up to `first`, then others that carried so many
    /// nanobits up to `now`, where it is `rate`. The same as if each had been set at its time.
    pub(crate) fn follow(
        &mut self,
        first: Instant,
        carried: u128,
        rate: Rate,
        serving: bool,
        now: Instant,
    ) {
        self.set_rate(rate, serving, first);
        if now > self.at {
            self.earn(i128::try_from(carried).unwrap_or(i128::MAX), serving);
            self.at = now;
        }
    }

    fn earn(&mut self, nanobits: i128, serving: bool) {
        let tokens = self.tokens.saturating_add(nanobits);
        self.tokens = if serving { tokens } else { tokens.min(self.depth) };
    }

    /// Nanobits that are still to be earned for a packet of `bytes` at [`Bucket::at`].
    pub(crate) fn missing(&self, bytes: u64) -> u128 {
        let missing = i128::from(bytes) * NANOBITS_PER_BYTE - self.tokens;
        u128::try_from(missing).unwrap_or(0)
    }

    /// The time up to which tokens are counted.
    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    /// Gains what `bytes` cost, beyond the depth too.
    pub(crate) fn gain(&mut self, bytes: u64) {
        self.tokens = self.tokens.saturating_add(i128::from(bytes) * NANOBITS_PER_BYTE);
    }

    /// Gives back so many bytes of what a packet in service has gained.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.tokens = self.tokens.saturating_sub(i128::from(bytes) * NANOBITS_PER_BYTE);
    }

    fn most(rate: Rate, depth: i128) -> i128 {
        depth.max(i128::from(rate.as_bps()) - 1)
    }

    /// Nanobits earned since `self.at`.
    fn earned(&self, now: Instant) -> i128 {
        if self.rate == Rate::UNLIMITED {
            return 0;
        }
        i128::from(self.rate.as_bps()) * i128::from(now.since(self.at).as_nanos())
    }
}

/// `ceil(dividend / divisor)` for a positive dividend, saturating at 2^64 - 1. The 64-bit branch
/// serves every packet of normal size: a 128-bit division costs several times as much.
fn ceil_div(dividend: i128, divisor: u64) -> u64 {
    match u64::try_from(dividend) {
        Ok(dividend) => dividend.div_ceil(divisor),
        Err(_) => u64::try_from((dividend + i128::from(divisor) - 1) / i128::from(divisor))
            .unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn rate(bps: u64) -> Rate {
        Rate::from_bps(bps).unwrap()
    }

    /// Serves packets of `bytes` back to back and returns each departure.
    fn departures(bucket: &mut Bucket, bytes: u64, count: usize) -> Vec<u64> {
        let mut now = bucket.at;
        let mut all = Vec::new();
        for _ in 0..count {
            bucket.begin(now);
            now = bucket.ready(bytes).unwrap();
            bucket.finish(bytes, now);
            all.push(now.as_nanos());
        }
        all
    }

    #[test]
    fn the_part_of_a_nanosecond_is_carried_and_no_departure_is_early() {
        // 8 bits at 3 bit/s: 2.666.. s each.
        let mut bucket = Bucket::new(rate(3), 0, at(0));
        assert_eq!(departures(&mut bucket, 1, 3), [2_666_666_667, 5_333_333_334, 8_000_000_000]);
    }

    #[test]
    fn a_million_packets_at_an_odd_rate_end_at_the_exact_time() {
        let mut bucket = Bucket::new(rate(19_999_999), 0, at(0));
        let last = *departures(&mut bucket, 1514, 1_000_000).last().unwrap();
        let exact = (1514_u128 * 8 * 1_000_000 * 1_000_000_000).div_ceil(19_999_999);
        assert_eq!(u128::from(last), exact);
    }

    #[test]
    fn idle_time_fills_up_to_the_depth_and_no_further() {
        let mut bucket = Bucket::new(rate(8_000_000), 3000, at(0));
        // Full: two packets of 1500 leave at once, the third takes 1500 us.
        assert_eq!(departures(&mut bucket, 1500, 3), [0, 0, 1_500_000]);
        bucket.begin(at(1_000_000_000));
        assert_eq!(bucket.ready(3000), Some(at(1_000_000_000)));
        assert_eq!(bucket.ready(3001), Some(at(1_000_001_000)));
    }

    #[test]
    fn a_change_of_rate_rescales_the_rest_of_the_packet_in_service() {
        let mut bucket = Bucket::new(rate(8_000), 0, at(0));
        bucket.begin(at(0));
        assert_eq!(bucket.ready(1000), Some(at(1_000_000_000)));
        bucket.set_rate(rate(16_000), true, at(500_000_000));
        assert_eq!(bucket.ready(1000), Some(at(750_000_000)));
        bucket.set_rate(Rate::PAUSE, true, at(600_000_000));
        assert_eq!(bucket.ready(1000), None);
        bucket.set_rate(rate(8_000), true, at(5_000_000_000));
        assert_eq!(bucket.ready(1000), Some(at(5_300_000_000)));
    }

    #[test]
    fn a_change_of_rate_never_refills_the_bucket() {
        let mut bucket = Bucket::new(rate(8_000), 1000, at(0));
        bucket.begin(at(0));
        bucket.finish(1000, at(0));
        for change in 1..=50 {
            bucket.set_rate(rate(8_000 + change), false, at(change));
        }
        bucket.begin(at(50));
        assert!(bucket.ready(1000).unwrap() > at(900_000_000));
    }

    #[test]
    fn the_largest_values_neither_overflow_nor_panic() {
        let mut bucket = Bucket::new(rate(1), u32::MAX, at(0));
        bucket.begin(at(u64::MAX));
        bucket.finish(u64::from(u32::MAX), at(u64::MAX));
        assert_eq!(bucket.ready(u64::MAX), Some(at(u64::MAX)));
        let mut fast = Bucket::new(Rate::MAX, u32::MAX, at(0));
        fast.begin(at(u64::MAX));
        assert_eq!(fast.ready(1), Some(at(u64::MAX)));
    }
}
