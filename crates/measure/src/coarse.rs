//! A small histogram of durations, for thousands of them at once.
//!
//! Log-linear as [`crate::Histogram`], but from 1.024 us up to 17 minutes in steps of at most 1/32, in
//! 3 KB.

/// Counts of durations in ns, negative ones as 0. A percentile is at most 1/32 (3.2 %) or 1.024 us
/// above the sample it stands for, and none above the maximum.
#[derive(Clone, Debug)]
pub struct CoarseHistogram {
    counts: Box<[u32; COUNTERS]>,
    n: u64,
    max_ns: i64,
}

impl CoarseHistogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self { counts: Box::new([0; COUNTERS]), n: 0, max_ns: 0 }
    }

    /// Counts one duration in ns.
    pub fn record(&mut self, value_ns: i64) {
        let value_ns = value_ns.max(0);
        let count = &mut self.counts[index(value_ns.unsigned_abs() >> UNIT_BITS)];
        *count = count.saturating_add(1);
        self.n += 1;
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// The percentile `ppm` by nearest rank in ns; `None` when nothing was recorded.
    pub fn percentile_ns(&self, ppm: u64) -> Option<i64> {
        let rank = crate::percentile::rank(ppm, self.n)?;
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank && at + 1 < COUNTERS {
                let highest = (lowest(at + 1) << UNIT_BITS) - 1;
                return Some(i64::try_from(highest).unwrap_or(i64::MAX).min(self.max_ns));
            }
        }
        Some(self.max_ns)
    }
}

impl Default for CoarseHistogram {
    fn default() -> Self {
        Self::new()
    }
}

/// The counter of `units`; the last one takes all that is longer.
fn index(units: u64) -> usize {
    let shift = (u64::BITS - LINEAR_BITS).saturating_sub(units.leading_zeros());
    let within = usize::try_from(units >> shift).unwrap_or(COUNTERS);
    (shift as usize * PER_DOUBLING + within).min(COUNTERS - 1)
}

/// The smallest number of units of counter `index`: the inverse of [`index`].
fn lowest(index: usize) -> u64 {
    let shift = (index / PER_DOUBLING).saturating_sub(1);
    ((index - shift * PER_DOUBLING) as u64) << shift
}

/// A unit is 1.024 us: finer than any path through a kernel.
const UNIT_BITS: u32 = 10;
/// Values below 2^6 units have a counter each.
const LINEAR_BITS: u32 = 6;
const PER_DOUBLING: usize = 1 << (LINEAR_BITS - 1);
/// Up to 2^30 units, 17 minutes.
const COUNTERS: usize = (30 - LINEAR_BITS as usize) * PER_DOUBLING + 2 * PER_DOUBLING;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counters_tile_the_range_without_gap_or_overlap() {
        for i in 0..COUNTERS - 1 {
            assert_eq!(index(lowest(i)), i);
            assert_eq!(index(lowest(i + 1) - 1), i);
        }
        assert_eq!(lowest(COUNTERS), 1 << 30);
        assert_eq!(size_of::<[u32; COUNTERS]>(), 3_328);
    }

    #[test]
    fn nothing_recorded_is_null_and_the_longest_is_exact() {
        let mut histogram = CoarseHistogram::new();
        assert_eq!(histogram.percentile_ns(500_000), None);
        histogram.record(i64::MIN);
        histogram.record(i64::MAX);
        assert_eq!(histogram.percentile_ns(1_000_000), Some(i64::MAX));
        assert_eq!(histogram.percentile_ns(500_000), Some(1_023));
    }

    proptest! {
        #[test]
        fn a_percentile_is_within_a_32nd_above_the_sample(
            mut values in proptest::collection::vec(0i64..1_000_000_000_000, 1..400)
        ) {
            let mut histogram = CoarseHistogram::new();
            for value in &values {
                histogram.record(*value);
            }
            values.sort_unstable();
            for ppm in [10_000, 500_000, 990_000, 1_000_000] {
                let exact = crate::percentile::of_sorted(&values, ppm).unwrap();
                let ours = histogram.percentile_ns(ppm).unwrap();
                prop_assert!(ours >= exact && ours - exact <= 1_024 + exact / 32);
            }
        }
    }
}
