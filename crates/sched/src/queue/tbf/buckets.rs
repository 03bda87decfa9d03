//! The two token buckets of tbf, as time.

use core::num::NonZero;

use super::config::bytes_per_second;
use super::{RateTable, Refill};
use crate::config::LinkConfig;
use crate::time::{Duration, Instant};
use crate::units::Rate;

/// What `rate` and `peakrate` have saved up.
///
/// Tokens are nanoseconds: those in which the rate would have carried what the bucket holds. The
/// bucket is not filled but credited when somebody asks, with the time since it paid last.
#[derive(Debug)]
pub(super) struct Buckets {
    rate: Bucket,
    peak: Option<Bucket>,
    /// When the buckets paid last: what they hold is as of then.
    paid_at: Instant,
    /// The rate is 0: time earns nothing.
    paused: bool,
}

impl Buckets {
    /// Full at `start`.
    pub(super) fn new(config: &LinkConfig, start: Instant) -> Self {
        let rate = Bucket::for_rate(config);
        let peak = Bucket::for_peakrate(config);
        Self { rate, peak, paid_at: start, paused: config.rate == Rate::PAUSE }
    }

    /// Takes what `bytes` cost. Else nothing is taken, and the answer is how long to wait; `None`
    /// while the rate is 0.
    #[inline]
    pub(super) fn pay(&mut self, bytes: u64, now: Instant) -> Result<(), Option<Duration>> {
        if self.paused {
            return Err(None);
        }
        let (rate, peak) = self.after(bytes, now);
        let least = rate.min(peak);
        if least < 0 {
            return Err(Some(Duration::from_nanos(least.unsigned_abs())));
        }
        self.rate.tokens = rate;
        if let Some(bucket) = &mut self.peak {
            bucket.tokens = peak;
        }
        self.paid_at = now;
        Ok(())
    }

    /// How long `bytes` have to wait from `now` on; `None` while the rate is 0.
    pub(super) fn missing(&self, bytes: u64, now: Instant) -> Option<Duration> {
        if self.paused {
            return None;
        }
        let (rate, peak) = self.after(bytes, now);
        Some(Duration::from_nanos(rate.min(peak).min(0).unsigned_abs()))
    }

    /// New rates and depths from `now` on.
    pub(super) fn configure(&mut self, config: &LinkConfig, now: Instant) {
        let earned = if self.paused { 0 } else { self.earned(now) };
        self.rate.tokens = self.rate.credited(earned);
        if let Some(peak) = &mut self.peak {
            peak.tokens = peak.credited(earned);
        }
        self.paid_at = now;
        self.paused = config.rate == Rate::PAUSE;
        let keep = config.tbf.refill == Refill::Keep;
        // Of a paused bucket the last rate is what its tokens are counted in.
        if !self.paused {
            let bucket = Bucket::for_rate(config);
            self.rate = if keep { bucket.holding(&self.rate) } else { bucket };
        }
        self.peak = match (Bucket::for_peakrate(config), &self.peak) {
            (Some(bucket), Some(old)) if keep => Some(bucket.holding(old)),
            (new, _) => new,
        };
    }

    /// What both buckets would hold after paying for `bytes` at `now`, negative for what is
    /// missing; 0 for a bucket that there is not.
    #[inline]
    fn after(&self, bytes: u64, now: Instant) -> (i64, i64) {
        let earned = self.earned(now);
        let peak = self.peak.as_ref().map_or(0, |peak| peak.after(earned, bytes));
        (self.rate.after(earned, bytes), peak)
    }

    /// Nanoseconds since the last payment, no more than fill the bucket of `rate`, as under Linux.
    /// A live change may raise `rate` to `peakrate` and above: then what fills its bucket may never
    /// pay for a packet at `peakrate`, and the greater of the two depths counts.
    #[inline]
    fn earned(&self, now: Instant) -> i64 {
        let since = i64::try_from(now.since(self.paid_at).as_nanos()).unwrap_or(i64::MAX);
        let depth = match &self.peak {
            Some(peak) if peak.bytes_per_second <= self.rate.bytes_per_second => {
                self.rate.depth.max(peak.depth)
            }
            _ => self.rate.depth,
        };
        since.min(depth)
    }
}

/// One token bucket.
#[derive(Debug)]
struct Bucket {
    table: RateTable,
    /// Bytes per second.
    bytes_per_second: u64,
    /// Nanoseconds that fill it.
    depth: i64,
    /// Nanoseconds that it holds.
    tokens: i64,
}

impl Bucket {
    /// A full bucket for `rate`; while that is 0 it counts in bytes of one second each.
    fn for_rate(config: &LinkConfig) -> Self {
        let rate = bytes_per_second(config.rate).unwrap_or(NonZero::<u64>::MIN);
        Self::full(config, rate, config.burst.unwrap_or(0))
    }

    fn for_peakrate(config: &LinkConfig) -> Option<Self> {
        Some(Self::full(config, bytes_per_second(config.peakrate?)?, config.tbf.mtu?))
    }

    fn full(config: &LinkConfig, rate: NonZero<u64>, bytes: u32) -> Self {
        let table = config.tbf.table(rate, config.overhead);
        let depth = table.time(u64::from(bytes));
        Self { table, bytes_per_second: rate.get(), depth, tokens: depth }
    }

    /// This bucket with the bytes that `old` holds, rounded down to a nanosecond, up to its depth.
    fn holding(self, old: &Self) -> Self {
        let tokens = i128::from(old.tokens) * i128::from(old.bytes_per_second)
            / i128::from(self.bytes_per_second);
        Self { tokens: i64::try_from(tokens).unwrap_or(i64::MAX).min(self.depth), ..self }
    }

    #[inline]
    fn credited(&self, earned: i64) -> i64 {
        earned.saturating_add(self.tokens).min(self.depth)
    }

    #[inline]
    fn after(&self, earned: i64, bytes: u64) -> i64 {
        self.credited(earned).saturating_sub(self.table.time(bytes))
    }
}
