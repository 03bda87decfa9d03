//! Exact percentiles of all samples.

use punctual_sched::Duration;

/// Samples of a span of time, all kept: 8 bytes each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    sorted: Vec<u64>,
}

impl Distribution {
    /// Of these samples, in any order.
    pub(crate) fn new(mut samples: Vec<u64>) -> Self {
        samples.sort_unstable();
        Self { sorted: samples }
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// The smallest sample, zero when there is none.
    pub fn min(&self) -> Duration {
        Duration::from_nanos(self.sorted.first().copied().unwrap_or(0))
    }

    /// The greatest sample, zero when there is none.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.sorted.last().copied().unwrap_or(0))
    }

    /// The smallest sample that at least `percent` of 100 of all do not exceed (nearest rank).
    /// Zero when there is none.
    pub fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.sorted.len() * percent).div_ceil(100).max(1);
        Duration::from_nanos(self.sorted.get(rank - 1).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_of_the_nearest_rank() {
        let some = Distribution::new((1..=200).rev().collect());
        for (percent, nanos) in [(0, 1), (1, 2), (50, 100), (99, 198), (100, 200)] {
            assert_eq!(some.percentile(percent), Duration::from_nanos(nanos));
        }
        let none = Distribution::default();
        assert_eq!(
            (none.percentile(99), none.max(), none.len()),
            (Duration::ZERO, Duration::ZERO, 0)
        );
    }
}
