//! The figures that stand for a set of durations in every report.

use crate::histogram;
use crate::percentile::{self, Percentile};
use serde::{Deserialize, Serialize};

/// A distribution of durations in ns; every figure is null when there was no sample.
///
/// From a [`crate::Histogram`] the percentiles are at most 0.1 % above the sample they stand for;
/// from samples they are exact. Count, minimum, maximum and mean are always exact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many samples.
    pub n: u64,
    /// The smallest; negative where stamps or clocks disagree, never clamped.
    pub min_ns: Option<i64>,
    /// Half of the samples are at or below.
    pub p50_ns: Option<i64>,
    /// 90 % are at or below.
    pub p90_ns: Option<i64>,
    /// 99 % are at or below.
    pub p99_ns: Option<i64>,
    /// 99.9 % are at or below.
    pub p999_ns: Option<i64>,
    /// The largest.
    pub max_ns: Option<i64>,
    /// The arithmetic mean, rounded to the nearest.
    pub mean_ns: Option<i64>,
    /// Percentiles that so few samples cannot tell from the maximum (`n * (1 - p) < 1`); their
    /// value is then the maximum. Empty when n = 0, where the figures are null already.
    pub unresolved: Vec<Percentile>,
}

impl Distribution {
    /// The exact figures of `samples` in ns, which it sorts.
    pub fn from_samples(samples: &mut [i64]) -> Self {
        samples.sort_unstable();
        let n = samples.len() as u64;
        let sum = samples.iter().map(|&sample| i128::from(sample)).sum();
        let (min, max) = (samples.first().copied(), samples.last().copied());
        let at = |p: Percentile| percentile::of_sorted(samples, p.ppm());
        let [p50, p90, p99, p999] = Percentile::ALL.map(at);
        let percentiles = p50.zip(p90).zip(p99.zip(p999));
        let percentiles = percentiles.map(|((p50, p90), (p99, p999))| [p50, p90, p99, p999]);
        Self::new(n, [min, max, histogram::mean(sum, n)], percentiles)
    }

    /// From figures already computed: `[min, max, mean]` and the four percentiles.
    pub(crate) fn new(
        n: u64,
        [min_ns, max_ns, mean_ns]: [Option<i64>; 3],
        percentiles: Option<[i64; 4]>,
    ) -> Self {
        let at = |percentile: usize| percentiles.map(|figures| figures[percentile]);
        let unresolved = Percentile::ALL.into_iter();
        let unresolved = unresolved.filter(|p| n > 0 && !percentile::is_resolved(p.ppm(), n));
        Self {
            n,
            min_ns,
            p50_ns: at(0),
            p90_ns: at(1),
            p99_ns: at(2),
            p999_ns: at(3),
            max_ns,
            mean_ns,
            unresolved: unresolved.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_in_any_order_give_exact_figures() {
        let mut samples: Vec<i64> = (1..=1000).rev().map(|i| i * 1_000_003).collect();
        let d = Distribution::from_samples(&mut samples);
        assert_eq!((d.n, d.min_ns, d.max_ns), (1000, Some(1_000_003), Some(1_000_003_000)));
        assert_eq!((d.p50_ns, d.p90_ns), (Some(500 * 1_000_003), Some(900 * 1_000_003)));
        assert_eq!((d.p99_ns, d.p999_ns), (Some(990 * 1_000_003), Some(999 * 1_000_003)));
        assert_eq!(d.mean_ns, Some(500_501_502));
        assert!(d.unresolved.is_empty());
    }

    #[test]
    fn a_hundred_samples_resolve_p99_but_not_p999() {
        let d = Distribution::from_samples(&mut (1..=100).collect::<Vec<i64>>());
        assert_eq!((d.p99_ns, d.p999_ns), (Some(99), Some(100)));
        assert_eq!(d.unresolved, [Percentile::P999]);
    }

    #[test]
    fn no_samples_are_null_and_not_zero() {
        let d = Distribution::from_samples(&mut []);
        assert_eq!(d, Distribution::default());
        let json = serde_json::to_string(&d).unwrap();
        assert_eq!(
            json,
            r#"{"n":0,"min_ns":null,"p50_ns":null,"p90_ns":null,"p99_ns":null,"p999_ns":null,"max_ns":null,"mean_ns":null,"unresolved":[]}"#
        );
    }
}
