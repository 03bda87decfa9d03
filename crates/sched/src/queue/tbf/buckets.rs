//! The two token buckets of tbf, as time.

use core::num::NonZero;

use super::config::bytes_per_second;
use super::{RateTable, Refill};
use crate::bucket::Saved;
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
    refill: Refill,
}

impl Buckets {
    /// Full at `start`.
    pub(super) fn new(config: &LinkConfig, start: Instant) -> Self {
        let rate = Bucket::for_rate(config);
        let peak = Bucket::for_peakrate(config);
        let paused = config.rate == Rate::PAUSE;
        Self { rate, peak, paid_at: start, paused, refill: config.tbf.refill }
    }

    /// Takes what `bytes` cost. Else nothing is taken, and the answer is how long to wait; `None`
    /// while the rate is 0.
    #[inline]
    pub(super) fn pay(&mut self, bytes: u64, now: Instant) -> Result<(), Option<Duration>> {
        if self.paused {
            return Err(None);
        }
        self.settle(self.after(bytes, now), now)
    }

    /// The same for more bytes than the buckets hold: while they are waited for, the buckets are
    /// deep enough.
    #[cold]
    pub(super) fn pay_large(&mut self, bytes: u64, now: Instant) -> Result<(), Option<Duration>> {
        if self.paused {
            return Err(None);
        }
        self.settle(self.after_large(bytes, now), now)
    }

    /// How long `bytes` have to wait from `now` on; `None` while the rate is 0.
    pub(super) fn missing(&self, bytes: u64, now: Instant) -> Option<Duration> {
        (!self.paused).then(|| missing(self.after(bytes, now)))
    }

    /// The same for more bytes than the buckets hold.
    pub(super) fn missing_large(&self, bytes: u64, now: Instant) -> Option<Duration> {
        (!self.paused).then(|| missing(self.after_large(bytes, now)))
    }

    /// New rates and depths from `now` on.
    ///
    /// `large` bytes at the head are more than the buckets hold, and have earned a part of it.
    pub(super) fn configure(&mut self, config: &LinkConfig, large: Option<u64>, now: Instant) {
        let earned = self.earned_for(large, now);
        self.rate.tokens = self.rate.credited_for(earned, large);
        if let Some(peak) = &mut self.peak {
            peak.tokens = peak.credited_for(earned, large);
        }
        self.paid_at = now.max(self.paid_at);
        self.paused = config.rate == Rate::PAUSE;
        self.refill = config.tbf.refill;
        let keep = self.refill == Refill::Keep;
        // Of a paused bucket the last rate is what its tokens are counted in.
        if !self.paused {
            let bucket = Bucket::for_rate(config);
            self.rate = if keep { bucket.holding(&self.rate, large) } else { bucket };
        }
        self.peak = match (Bucket::for_peakrate(config), &self.peak) {
            (Some(bucket), Some(old)) if keep => Some(bucket.holding(old, large)),
            // There was none that could have saved up anything.
            (Some(bucket), None) if keep => Some(Bucket { tokens: 0, ..bucket }),
            (new, _) => new,
        };
    }

    /// What the bucket of `rate` holds, with what `large` bytes at the head have earned above that.
    pub(super) fn saved(&self, large: Option<u64>, now: Instant) -> Saved {
        let tokens = self.rate.credited_for(self.earned_for(large, now), large);
        let tokens = i128::from(tokens) * i128::from(self.rate.bytes_per_second) * 8;
        Saved { tokens, paid: 0, from: now.max(self.paid_at) }
    }

    /// Holds what another serialiser had saved up, rounded down to a nanosecond, unless a change
    /// fills the buckets.
    pub(super) fn take_over(&mut self, saved: Saved) {
        self.paid_at = saved.from;
        if self.refill == Refill::Linux {
            return;
        }
        let tokens = saved.tokens / (i128::from(self.rate.bytes_per_second) * 8);
        self.rate.tokens = i64::try_from(tokens).unwrap_or(i64::MAX).min(self.rate.depth);
        if let Some(peak) = &mut self.peak {
            peak.tokens = 0;
        }
    }

    /// What both buckets would hold after paying for `bytes` at `now`, negative for what is
    /// missing; 0 for a bucket that there is not.
    #[inline]
    fn after(&self, bytes: u64, now: Instant) -> (i64, i64) {
        let earned = self.earned(now);
        let peak = self.peak.as_ref().map_or(0, |peak| peak.after(earned, bytes));
        (self.rate.after(earned, bytes), peak)
    }

    /// The same for more bytes than the buckets hold.
    fn after_large(&self, bytes: u64, now: Instant) -> (i64, i64) {
        let after = |bucket: &Bucket| {
            let earned = self.since_paid(now);
            bucket.credited_for(earned, Some(bytes)).saturating_sub(bucket.table.time(bytes))
        };
        (after(&self.rate), self.peak.as_ref().map_or(0, after))
    }

    /// Takes what is paid, `after` which the buckets hold so much.
    #[inline]
    fn settle(&mut self, after: (i64, i64), now: Instant) -> Result<(), Option<Duration>> {
        let (rate, peak) = after;
        if rate.min(peak) < 0 {
            return Err(Some(missing(after)));
        }
        self.rate.tokens = rate;
        if let Some(bucket) = &mut self.peak {
            bucket.tokens = peak;
        }
        self.paid_at = now;
        Ok(())
    }

    /// Nanoseconds earned so far; without `large` bytes at the head no more than fill the bucket.
    fn earned_for(&self, large: Option<u64>, now: Instant) -> i64 {
        match large {
            _ if self.paused => 0,
            None => self.earned(now).max(0),
            Some(_) => self.since_paid(now).max(0),
        }
    }

    /// Nanoseconds since the last payment, negative while what left a queue before this one takes
    /// the line.
    #[inline]
    fn since_paid(&self, now: Instant) -> i64 {
        let nanos = |span: Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        if now >= self.paid_at {
            nanos(now.since(self.paid_at))
        } else {
            -nanos(self.paid_at.since(now))
        }
    }

    /// Nanoseconds since the last payment, no more than fill the bucket of `rate`, as under Linux.
    /// A live change may raise `rate` to `peakrate` and above: then what fills its bucket may never
    /// pay for a packet at `peakrate`, and the greater of the two depths counts.
    #[inline]
    fn earned(&self, now: Instant) -> i64 {
        let since = self.since_paid(now);
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
    fn holding(self, old: &Self, large: Option<u64>) -> Self {
        let tokens = i128::from(old.tokens) * i128::from(old.bytes_per_second)
            / i128::from(self.bytes_per_second);
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        Self { tokens: tokens.min(self.depth_for(large)), ..self }
    }

    /// Its depth, or what `large` bytes at the head cost.
    fn depth_for(&self, large: Option<u64>) -> i64 {
        large.map_or(self.depth, |bytes| self.table.time(bytes).max(self.depth))
    }

    fn credited_for(&self, earned: i64, large: Option<u64>) -> i64 {
        earned.saturating_add(self.tokens).min(self.depth_for(large))
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

/// How long what is missing `after` a payment takes.
fn missing(after: (i64, i64)) -> Duration {
    let (rate, peak) = after;
    Duration::from_nanos(rate.min(peak).min(0).unsigned_abs())
}
