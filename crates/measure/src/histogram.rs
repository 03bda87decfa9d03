//! A histogram of signed durations: one increment per record, no allocation, no clamping.
//!
//! Log-linear: values below 2048 ns have a counter each, every doubling above has 1024 counters,
//! so a percentile is at most 1/1024 (0.1 %) above the sample it stands for. The count, the
//! minimum, the maximum and the mean are exact, and no percentile exceeds the maximum.
//! Negative values have counters of their own, mirrored; the whole range of `i64` is covered.

use crate::distribution::Distribution;
use crate::percentile;

/// Counts of durations in ns. About 0.9 MB of address space, of which only touched pages take
/// memory; recording is one array increment and four comparisons or additions.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Counters of values >= 0, by [`index`].
    positive: Vec<u64>,
    /// Counters of values < 0, by [`index`] of the magnitude.
    negative: Vec<u64>,
    n: u64,
    /// Exact: 2^64 samples of 2^63 ns fit.
    sum_ns: i128,
    min_ns: i64,
    max_ns: i64,
}

impl Histogram {
    /// An empty histogram; the only place that allocates.
    pub fn new() -> Self {
        Self {
            positive: vec![0; COUNTERS],
            negative: vec![0; COUNTERS],
            n: 0,
            sum_ns: 0,
            min_ns: i64::MAX,
            max_ns: i64::MIN,
        }
    }

    /// Counts one duration in ns.
    pub fn record(&mut self, value_ns: i64) {
        self.record_n(value_ns, 1);
    }

    /// Counts `times` equal durations in ns (the segments of one burst).
    pub fn record_n(&mut self, value_ns: i64, times: u64) {
        if times == 0 {
            return;
        }
        let side = if value_ns < 0 { &mut self.negative } else { &mut self.positive };
        side[index(value_ns.unsigned_abs())] += times;
        self.n += times;
        self.sum_ns += i128::from(value_ns) * i128::from(times);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// Adds all of `other`'s counts: the same as having recorded its samples here.
    pub fn merge(&mut self, other: &Self) {
        add(&mut self.positive, &other.positive);
        add(&mut self.negative, &other.negative);
        self.n += other.n;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many durations were recorded.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The smallest duration in ns, exact.
    pub fn min_ns(&self) -> Option<i64> {
        (self.n > 0).then_some(self.min_ns)
    }

    /// The largest duration in ns, exact.
    pub fn max_ns(&self) -> Option<i64> {
        (self.n > 0).then_some(self.max_ns)
    }

    /// The arithmetic mean in ns, rounded to the nearest, halves up.
    pub fn mean_ns(&self) -> Option<i64> {
        mean(self.sum_ns, self.n)
    }

    /// The percentile `ppm` by nearest rank in ns: never below the sample at that rank, at most
    /// 0.1 % above it, never above the maximum.
    pub fn percentile_ns(&self, ppm: u64) -> Option<i64> {
        self.percentiles_ns([ppm]).map(|[value]| value)
    }

    /// Several percentiles, ascending, in one pass over the counters.
    fn percentiles_ns<const N: usize>(&self, ppm: [u64; N]) -> Option<[i64; N]> {
        let mut values = [self.max_ns()?; N];
        let mut next = 0;
        let mut seen = 0;
        for (count, highest) in self.ascending() {
            seen += count;
            while next < N && percentile::rank(ppm[next], self.n).is_some_and(|r| r <= seen) {
                values[next] = highest.clamp(self.min_ns, self.max_ns);
                next += 1;
            }
            if next == N {
                break;
            }
        }
        Some(values)
    }

    /// The occupied counters from the smallest value to the largest: (count, highest value).
    fn ascending(&self) -> impl Iterator<Item = (u64, i64)> {
        // The highest value of a negative counter is its smallest magnitude.
        let negative = self.negative.iter().enumerate().rev();
        let negative = negative.map(|(i, &count)| (count, -signed(lowest(i))));
        let positive = self.positive.iter().enumerate();
        let positive = positive.map(|(i, &count)| (count, signed(lowest(i + 1) - 1)));
        negative.chain(positive).filter(|&(count, _)| count > 0)
    }

    /// The figures of the report.
    pub fn distribution(&self) -> Distribution {
        let ppm = percentile::Percentile::ALL.map(percentile::Percentile::ppm);
        Distribution::new(
            self.n,
            [self.min_ns(), self.max_ns(), self.mean_ns()],
            self.percentiles_ns(ppm),
        )
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// Adds counters pairwise; leaves pages alone that would only get zeros.
fn add(mine: &mut [u64], theirs: &[u64]) {
    for (mine, theirs) in mine.iter_mut().zip(theirs).filter(|(_, theirs)| **theirs > 0) {
        *mine += theirs;
    }
}

/// `sum / n`, rounded to the nearest, halves up; `None` for n = 0.
pub(crate) fn mean(sum: i128, n: u64) -> Option<i64> {
    let n = i128::from(n);
    if n == 0 {
        return None;
    }
    let rounded = (2 * sum + n).div_euclid(2 * n);
    Some(i64::try_from(rounded).expect("a mean lies between the smallest and the largest i64"))
}

/// The counter of magnitude `value`, up to 2^63.
fn index(value: u64) -> usize {
    let shift = (u64::BITS - LINEAR_BITS).saturating_sub(value.leading_zeros());
    let within = usize::try_from(value >> shift).expect("at most 11 bits are left");
    shift as usize * PER_DOUBLING + within
}

/// The smallest magnitude of counter `index`: the inverse of [`index`].
fn lowest(index: usize) -> u64 {
    let shift = (index / PER_DOUBLING).saturating_sub(1);
    ((index - shift * PER_DOUBLING) as u64) << shift
}

/// A magnitude as a signed value; 2^63 occurs for `i64::MIN` alone.
fn signed(magnitude: u64) -> i64 {
    i64::try_from(magnitude).unwrap_or(i64::MAX)
}

/// Values below 2^11 = 2048 are exact; `shift` is 0 up to there.
const LINEAR_BITS: u32 = 11;

/// Counters of each doubling: three significant digits need 1000.
const PER_DOUBLING: usize = 1 << (LINEAR_BITS - 1);

/// Up to and including magnitude 2^63, that of `i64::MIN`.
const COUNTERS: usize = (u64::BITS - LINEAR_BITS) as usize * PER_DOUBLING + PER_DOUBLING + 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::percentile::Percentile;
    use proptest::prelude::*;

    fn filled(values: &[i64]) -> Histogram {
        let mut histogram = Histogram::new();
        for &value in values {
            histogram.record(value);
        }
        histogram
    }

    #[test]
    fn counters_tile_the_range_without_gap_or_overlap() {
        for i in 0..COUNTERS - 1 {
            assert_eq!(index(lowest(i)), i);
            assert_eq!(index(lowest(i + 1) - 1), i);
        }
        assert_eq!(index(1 << 63), COUNTERS - 1);
    }

    #[test]
    fn the_ends_of_the_range_are_counted_and_exact() {
        let histogram = filled(&[i64::MIN, 0, i64::MAX]);
        assert_eq!(histogram.min_ns(), Some(i64::MIN));
        assert_eq!(histogram.max_ns(), Some(i64::MAX));
        assert_eq!(histogram.percentile_ns(1_000_000), Some(i64::MAX));
        assert_eq!(histogram.mean_ns(), Some(0));
        let lowest = histogram.percentile_ns(1).expect("three samples");
        assert!(lowest < i64::MIN / 1024 * 1023);
    }

    #[test]
    fn nothing_recorded_is_null_everywhere() {
        let empty = Histogram::new();
        assert_eq!(empty.distribution(), Distribution::default());
        assert_eq!((empty.min_ns(), empty.max_ns(), empty.mean_ns()), (None, None, None));
        assert_eq!(empty.percentile_ns(500_000), None);
    }

    #[test]
    fn one_sample_is_all_its_figures() {
        let d = filled(&[7_123_457]).distribution();
        let figures = [d.min_ns, d.p50_ns, d.p90_ns, d.p99_ns, d.p999_ns, d.max_ns, d.mean_ns];
        assert_eq!(figures, [Some(7_123_457); 7]);
        assert_eq!(d.unresolved, Percentile::ALL);
    }

    #[test]
    fn opposite_errors_cancel_in_the_mean_and_keep_their_signs() {
        let histogram = filled(&[100, -100]);
        assert_eq!(histogram.mean_ns(), Some(0));
        assert_eq!((histogram.min_ns(), histogram.max_ns()), (Some(-100), Some(100)));
        assert_eq!(histogram.percentile_ns(500_000), Some(-100));
    }

    #[test]
    fn a_mean_is_rounded_to_the_nearest() {
        assert_eq!(
            [mean(7, 2), mean(-7, 2), mean(10, 3), mean(-10, 3)].map(Option::unwrap),
            [4, -3, 3, -3]
        );
    }

    #[test]
    fn many_equal_samples_are_one_call() {
        let mut bulk = Histogram::new();
        bulk.record_n(5_000_000, 44);
        bulk.record_n(-9, 0);
        assert_eq!(bulk.distribution(), filled(&[5_000_000; 44]).distribution());
    }

    fn durations() -> impl Strategy<Value = Vec<i64>> {
        let one = prop_oneof![-50_000i64..50_000, -5_000_000_000i64..5_000_000_000, any::<i64>()];
        proptest::collection::vec(one, 1..400)
    }

    proptest! {
        #[test]
        fn a_percentile_is_within_a_thousandth_above_the_sample(mut values in durations()) {
            let histogram = filled(&values);
            values.sort_unstable();
            for ppm in [1, 10_000, 500_000, 900_000, 990_000, 999_000, 1_000_000] {
                let exact = i128::from(percentile::of_sorted(&values, ppm).unwrap());
                let ours = i128::from(histogram.percentile_ns(ppm).unwrap());
                prop_assert!(ours >= exact && (ours - exact) * 1024 <= exact.abs());
            }
            prop_assert_eq!(histogram.max_ns(), values.last().copied());
            prop_assert_eq!(histogram.min_ns(), values.first().copied());
        }

        #[test]
        fn merging_equals_recording_everything_in_one(a in durations(), b in durations()) {
            let mut merged = filled(&a);
            merged.merge(&filled(&b));
            let both: Vec<i64> = a.into_iter().chain(b).collect();
            prop_assert_eq!(merged.distribution(), filled(&both).distribution());
        }

        #[test]
        fn the_reference_implementation_has_the_same_percentiles(
            values in proptest::collection::vec(0i64..4_000_000_000, 1..300)
        ) {
            let mut reference = hdrhistogram::Histogram::<u64>::new(3).unwrap();
            for &value in &values {
                reference.record(value.unsigned_abs()).unwrap();
            }
            let histogram = filled(&values);
            for percentile in Percentile::ALL {
                let rank = percentile::rank(percentile.ppm(), histogram.n()).unwrap();
                let mut seen = 0;
                let theirs = reference.iter_recorded().find(|step| {
                    seen += step.count_at_value();
                    seen >= rank
                });
                let theirs = signed(theirs.unwrap().value_iterated_to());
                let theirs = theirs.clamp(histogram.min_ns().unwrap(), histogram.max_ns().unwrap());
                prop_assert_eq!(histogram.percentile_ns(percentile.ppm()), Some(theirs));
            }
        }
    }
}
