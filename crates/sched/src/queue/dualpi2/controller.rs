//! PI2's controller: a probability that follows the queueing delay (RFC 9332, appendix A.1).

use crate::time::{Duration, Instant};
use crate::units::Gain;

use super::config::{Dualpi2Config, Overload};

/// What the controller steers by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gains {
    target: Duration,
    tupdate: Duration,
    /// Steps of the probability by 2^6, per nanosecond of delay and update.
    alpha: u64,
    beta: u64,
    /// The greatest probability.
    ceiling: u32,
}

impl Gains {
    /// The gains of a valid configuration.
    pub fn new(config: &Dualpi2Config) -> Self {
        Self {
            target: config.target,
            tupdate: config.tupdate,
            alpha: per_nanosecond(config.alpha),
            beta: per_nanosecond(config.beta),
            ceiling: match config.overload {
                Overload::Drop => u32::MAX,
                Overload::Overflow => u32::MAX / u32::from(config.coupling_factor.max(1)),
            },
        }
    }
}

/// A gain per second as Linux scales it: times (2^32 - 1) / 10^9, times 2^6, rounded down. The
/// default `alpha` becomes 44, the default `beta` 879.
fn per_nanosecond(gain: Gain) -> u64 {
    // The gain counts 2^8 steps per unit: 2^6 of them remain.
    (u64::from(gain.as_raw()) * u64::from(u32::MAX)) / 4 / 1_000_000_000
}

/// The base probability and when it changes next.
///
/// # Contract
///
/// Updates happen at their own times, `tupdate` apart from the start on, whenever we get round to
/// them. So [`advance`](Self::advance) is called before the head of either queue changes: between
/// two calls the delay grows with time or stays 0, and what many updates do to the probability is
/// a sum. A jump of centuries costs as much as two updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller {
    /// In 2^32 - 1.
    probability: u32,
    /// Delay at the last update, ns.
    last_delay: u64,
    /// `None` beyond the end of time.
    next: Option<Instant>,
}

impl Controller {
    /// At rest; the first update is `gains.tupdate` after `start`.
    pub fn new(gains: &Gains, start: Instant) -> Self {
        Self { probability: 0, last_delay: 0, next: after(start, gains.tupdate) }
    }

    /// The base probability in 2^32 - 1.
    pub const fn probability(&self) -> u32 {
        self.probability
    }

    /// There is a `delay` that no update has seen, and which it is not to take for growth.
    pub(super) fn find(&mut self, delay: Duration) {
        self.last_delay = delay.as_nanos();
    }

    /// Makes every update due up to `now`. `oldest` is when the older of the two heads entered;
    /// it has been so since the last call.
    #[inline]
    pub fn advance(&mut self, gains: &Gains, now: Instant, oldest: Option<Instant>) {
        if let Some(first) = self.next
            && first <= now
        {
            self.update_until(gains, first, now, oldest);
        }
    }

    fn update_until(
        &mut self,
        gains: &Gains,
        first: Instant,
        now: Instant,
        oldest: Option<Instant>,
    ) {
        let delay = oldest.map_or(0, |entered| first.since(entered).as_nanos());
        self.update(gains, delay);
        let tupdate = gains.tupdate.as_nanos().max(1);
        let more = now.since(first).as_nanos() / tupdate;
        match oldest {
            _ if more == 0 => {}
            None => self.update_while_empty(gains, more),
            Some(_) => self.update_while_growing(gains, more),
        }
        let last = first + Duration::from_nanos(more * tupdate);
        self.next = after(last, gains.tupdate);
    }

    /// One update.
    fn update(&mut self, gains: &Gains, delay: u64) {
        let (delay_now, last) = (i128::from(delay), i128::from(self.last_delay));
        let error = delay_now - i128::from(gains.target.as_nanos());
        let growth = delay_now - last;
        let delta = error * i128::from(gains.alpha) + growth * i128::from(gains.beta);
        let step = delta.unsigned_abs() / SCALE;
        if delta < 0 {
            self.lower(step);
        } else {
            self.raise(step, gains.ceiling);
        }
        self.probability = self.probability.min(gains.ceiling);
        self.last_delay = delay;
    }

    /// `count` updates after one that found the queues empty, which they still are.
    fn update_while_empty(&mut self, gains: &Gains, count: u64) {
        let step = u128::from(gains.target.as_nanos()) * u128::from(gains.alpha) / SCALE;
        self.lower(step.saturating_mul(count.into()));
    }

    /// `count` updates after one that found the present head. At the i-th of them
    /// the change is `offset + slope * i`: first it lowers, then it raises the probability.
    fn update_while_growing(&mut self, gains: &Gains, count: u64) {
        let tupdate = gains.tupdate.as_nanos();
        let error = i128::from(self.last_delay) - i128::from(gains.target.as_nanos());
        let offset = error * i128::from(gains.alpha) + i128::from(tupdate) * i128::from(gains.beta);
        let slope = u128::from(tupdate) * u128::from(gains.alpha);
        let lowering = match offset {
            0.. => 0,
            _ => count.min(u64::try_from((offset.unsigned_abs() - 1) / slope).unwrap_or(u64::MAX)),
        };
        if lowering > 0 {
            let least = offset.unsigned_abs() - slope * u128::from(lowering);
            self.lower(sum_of_steps(least, slope, lowering));
        }
        // A slope is at least 1,000 (1 us and the smallest gain): so many steps saturate.
        let raising = (count - lowering).min(1 << 17);
        if raising > 0 {
            let reached = slope.saturating_mul(u128::from(lowering) + 1);
            let least = reached.saturating_add_signed(offset);
            self.raise(sum_of_steps(least, slope, raising), gains.ceiling);
        }
        self.last_delay = self.last_delay.saturating_add(count * tupdate);
    }

    fn lower(&mut self, by: u128) {
        let by = u32::try_from(by).unwrap_or(u32::MAX);
        self.probability = self.probability.saturating_sub(by);
    }

    fn raise(&mut self, by: u128, ceiling: u32) {
        let by = u32::try_from(by).unwrap_or(u32::MAX);
        self.probability = self.probability.saturating_add(by).min(ceiling);
    }
}

/// The sum of `(least + slope * j) / 64`, each rounded down, for j from 0 to `count` - 1.
///
/// What 64 divides adds up as a series; of the rest, terms 64 apart differ by a whole number.
fn sum_of_steps(least: u128, slope: u128, count: u64) -> u128 {
    let count = u128::from(count);
    let pairs = count * (count - 1) / 2;
    let whole = (least / SCALE) * count + (slope / SCALE) * pairs;
    let (least, slope) = (least % SCALE, slope % SCALE);
    let rest = (0..SCALE.min(count)).map(|first| {
        let terms = (count - 1 - first) / SCALE + 1;
        (least + slope * first) / SCALE * terms + slope * (terms * (terms - 1) / 2)
    });
    whole + rest.sum::<u128>()
}

fn after(at: Instant, span: Duration) -> Option<Instant> {
    at.as_nanos().checked_add(span.as_nanos()).map(Instant::from_nanos)
}

/// Gains count 2^6 steps of the probability.
const SCALE: u128 = 64;
