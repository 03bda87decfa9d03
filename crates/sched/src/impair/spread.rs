//! Values spread around a mean.

use super::Distribution;
use crate::random::{Stream, scaled};
use crate::time::Duration;
use crate::units::Probability;

/// Draws times around a mean. A time below zero is zero.
///
/// Correlation is that of [`Events`](super::events::Events): with probability rho a draw repeats
/// the one before, which keeps the distribution as it is whatever it is.
#[derive(Debug)]
pub(crate) struct Spread {
    mean: Duration,
    jitter: Duration,
    distribution: Distribution,
    /// The least value of the distribution's table.
    least: i16,
    correlation: Probability,
    random: Stream,
    /// The random bits of the last draw: they name a place in the distribution, which stays the
    /// same when mean or jitter change.
    last: Option<u64>,
}

impl Spread {
    pub(crate) fn new(distribution: Distribution, random: Stream) -> Self {
        Self {
            mean: Duration::ZERO,
            jitter: Duration::ZERO,
            least: least(&distribution),
            distribution,
            correlation: Probability::ZERO,
            random,
            last: None,
        }
    }

    /// New values for the draws to come.
    pub(crate) fn set(&mut self, mean: Duration, jitter: Duration, correlation: Probability) {
        (self.mean, self.jitter, self.correlation) = (mean, jitter, correlation);
    }

    /// Another distribution for the draws to come, which are drawn from the same stream.
    pub(crate) fn set_distribution(&mut self, distribution: &Distribution) {
        if *distribution != self.distribution {
            self.distribution = distribution.clone();
            self.least = least(distribution);
        }
    }

    /// The stream that it draws from.
    pub(crate) fn into_random(self) -> Stream {
        self.random
    }

    /// One time. Draws nothing while there is no jitter.
    pub(crate) fn draw(&mut self) -> Duration {
        if !self.is_spread() {
            return self.mean;
        }
        let repeats = self.random.happens(self.correlation);
        let bits = self.last.filter(|_| repeats).unwrap_or_else(|| self.random.bits());
        self.last = Some(bits);
        match self.distribution.entries() {
            None => {
                let width = self.jitter.as_nanos().saturating_mul(2);
                self.mean.saturating_sub(self.jitter) + Duration::from_nanos(scaled(bits, width))
            }
            Some(entries) => {
                let last = u64::try_from(entries.len() - 1).unwrap_or(u64::MAX);
                let entry = usize::try_from(scaled(bits, last)).unwrap_or(0);
                self.at(entries[entry])
            }
        }
    }

    /// Whether there is any jitter.
    #[inline]
    pub(crate) fn is_spread(&self) -> bool {
        self.jitter != Duration::ZERO
    }

    /// The time without jitter.
    pub(crate) fn mean(&self) -> Duration {
        self.mean
    }

    /// The shortest time that a draw can give.
    pub(crate) fn least(&self) -> Duration {
        match self.distribution {
            Distribution::Uniform => self.mean.saturating_sub(self.jitter),
            _ => self.at(self.least),
        }
    }

    /// The time for a table's value: mean + jitter * value / 8192, rounded down.
    fn at(&self, value: i16) -> Duration {
        let deviation = i128::from(self.jitter.as_nanos()) * i128::from(value);
        let nanos = i128::from(self.mean.as_nanos()) + deviation.div_euclid(8_192);
        Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }
}

/// The least value of a distribution's table.
fn least(distribution: &Distribution) -> i16 {
    distribution.entries().and_then(|entries| entries.iter().min().copied()).unwrap_or(0)
}
