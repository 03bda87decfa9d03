//! Lateness: how far each departure was from its due time.

use crate::distribution::Distribution;
use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// Lateness of departures as reported, in ns. `early + lt_50us + lt_1ms + lt_4ms + ge_4ms = n`.
///
/// The lateness of a packet is the time at which the call that released it had returned, minus
/// its due time: an upper bound, so that a large batch cannot hide itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// The distribution, early departures included with their negative sign.
    #[serde(flatten)]
    pub distribution: Distribution,
    /// Before the due time: must be 0.
    pub early: u64,
    /// 0 to below 50 us.
    pub lt_50us: u64,
    /// 50 us to below 1 ms.
    pub lt_1ms: u64,
    /// 1 ms to below 4 ms, a tick of a kernel with HZ=250.
    pub lt_4ms: u64,
    /// 4 ms and more.
    pub ge_4ms: u64,
    /// Above 2 ms, the worst that users of shapers accept.
    pub above_2ms: u64,
    /// The average the kernel's fq keeps of its watchdog: `u += (s - u) / 8`. Held scaled by 8
    /// and started at the first sample, so that a constant is its own average (fq itself
    /// truncates: 10700 for ever gives 10696); early departures are left out, as in fq. It
    /// describes the last 23 departures, not the run. Null without any.
    pub ewma_ns: Option<i64>,
    /// Departures later than the tolerance in force when they left.
    pub late: u64,
    /// The tolerance in force at the end.
    pub tolerance_ns: i64,
    /// The least that was in force for a departure; that at the end where there was none.
    #[serde(default)]
    pub tolerance_min_ns: i64,
    /// The greatest.
    #[serde(default)]
    pub tolerance_max_ns: i64,
}

/// Collects [`Lateness`], one call per departure, without allocating.
#[derive(Clone, Debug)]
pub struct LatenessRecorder {
    histogram: Histogram,
    /// early, < 50 us, < 1 ms, < 4 ms, the rest.
    buckets: [u64; 5],
    above_2ms: u64,
    ewma: Ewma,
    late: u64,
    tolerance_ns: i64,
    /// The least and the greatest that departures had before this one, and how many had them.
    earlier: Option<(i64, i64)>,
    before: u64,
}

impl LatenessRecorder {
    /// Departures later than `tolerance_ns` count as late ([`crate::verdict::tolerance_ns`]).
    pub fn new(tolerance_ns: i64) -> Self {
        Self {
            histogram: Histogram::new(),
            buckets: [0; 5],
            above_2ms: 0,
            ewma: Ewma::default(),
            late: 0,
            tolerance_ns,
            earlier: None,
            before: 0,
        }
    }

    /// A live change of delay or AQM threshold: holds for departures from now on.
    pub fn set_tolerance(&mut self, tolerance_ns: i64) {
        if tolerance_ns == self.tolerance_ns {
            return;
        }
        self.earlier = self.tolerances();
        self.before = self.histogram.n();
        self.tolerance_ns = tolerance_ns;
    }

    /// The least and the greatest that held for a departure.
    fn tolerances(&self) -> Option<(i64, i64)> {
        let now =
            (self.histogram.n() > self.before).then_some((self.tolerance_ns, self.tolerance_ns));
        widest(self.earlier, now)
    }

    /// Counts one departure, `lateness_ns` after its due time (negative: before it).
    pub fn record(&mut self, lateness_ns: i64) {
        self.histogram.record(lateness_ns);
        self.buckets[bucket(lateness_ns)] += 1;
        self.above_2ms += u64::from(lateness_ns > 2 * MS);
        self.late += u64::from(lateness_ns > self.tolerance_ns);
        if lateness_ns >= 0 {
            self.ewma.add(lateness_ns);
        }
    }

    /// Adds what was recorded elsewhere beside this. The average, which is of the last departures,
    /// becomes the greater of both; the tolerance stays this one's.
    pub fn merge(&mut self, other: &Self) {
        self.earlier = widest(self.tolerances(), other.tolerances());
        self.histogram.merge(&other.histogram);
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, more)| *sum += more);
        self.above_2ms += other.above_2ms;
        self.late += other.late;
        self.ewma.scaled = self.ewma.scaled.max(other.ewma.scaled);
        self.before = self.histogram.n();
    }

    /// The counts, to merge both directions for the resolution of a run.
    pub fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// Departures so far: early, below 50 us, below 1 ms, below 4 ms, and the rest.
    pub fn buckets(&self) -> [u64; 5] {
        self.buckets
    }

    /// The figures of the report.
    pub fn lateness(&self) -> Lateness {
        let [early, lt_50us, lt_1ms, lt_4ms, ge_4ms] = self.buckets;
        let now = self.tolerance_ns;
        let (tolerance_min_ns, tolerance_max_ns) = self.tolerances().unwrap_or((now, now));
        Lateness {
            distribution: self.histogram.distribution(),
            early,
            lt_50us,
            lt_1ms,
            lt_4ms,
            ge_4ms,
            above_2ms: self.above_2ms,
            ewma_ns: self.ewma.value(),
            late: self.late,
            tolerance_ns: self.tolerance_ns,
            tolerance_min_ns,
            tolerance_max_ns,
        }
    }
}

/// From the least of both to the greatest of both.
fn widest(one: Option<(i64, i64)>, other: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (one, other) {
        (Some((min, max)), Some((lower, higher))) => Some((min.min(lower), max.max(higher))),
        (one, other) => one.or(other),
    }
}

/// The bucket of a lateness: each sample falls into exactly one.
fn bucket(lateness_ns: i64) -> usize {
    match lateness_ns {
        ..0 => 0,
        0..50_000 => 1,
        50_000..1_000_000 => 2,
        1_000_000..4_000_000 => 3,
        4_000_000.. => 4,
    }
}

/// An exponential average of weight 1/8.
#[derive(Clone, Debug, Default)]
struct Ewma {
    /// Eight times the average: the eighth that a plain integer would truncate is kept.
    scaled: Option<i128>,
}

impl Ewma {
    fn add(&mut self, sample: i64) {
        let sample = i128::from(sample);
        self.scaled = Some(self.scaled.map_or(8 * sample, |u| u + sample - u / 8));
    }

    fn value(&self) -> Option<i64> {
        self.scaled.map(|u| i64::try_from(u / 8).unwrap_or(i64::MAX))
    }
}

const MS: i64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(samples: &[i64]) -> Lateness {
        let mut recorder = LatenessRecorder::new(MS);
        for &sample in samples {
            recorder.record(sample);
        }
        recorder.lateness()
    }

    #[test]
    fn a_constant_is_its_own_average() {
        for constant in [0, 7, 15, 10_700, i64::MAX] {
            assert_eq!(recorded(&[constant; 3]).ewma_ns, Some(constant));
        }
    }

    #[test]
    fn recorders_side_by_side_add_up_to_one() {
        let [mut all, mut some, mut others] = [(); 3].map(|()| LatenessRecorder::new(MS));
        for (n, sample) in [-5, 10, 60_000, 3 * MS, 10 * MS, 7].into_iter().enumerate() {
            all.record(sample);
            if n % 2 == 0 { some.record(sample) } else { others.record(sample) }
        }
        let ewma = [&some, &others].map(|half| half.lateness().ewma_ns).into_iter().max().unwrap();
        some.merge(&others);
        assert_eq!(some.lateness(), Lateness { ewma_ns: ewma, ..all.lateness() });
    }

    #[test]
    fn the_average_reaches_a_new_constant_from_either_side() {
        for (from, to) in [(0, 10_700), (1_000_000, 7)] {
            let mut samples = vec![from];
            samples.extend([to; 300]);
            assert_eq!(recorded(&samples).ewma_ns, Some(to));
        }
    }

    #[test]
    fn an_early_departure_is_counted_apart_and_left_out_of_the_average() {
        let lateness = recorded(&[7, 7, -5, 7]);
        assert_eq!((lateness.ewma_ns, lateness.early, lateness.lt_50us), (Some(7), 1, 3));
        assert_eq!(lateness.distribution.min_ns, Some(-5));
        assert_eq!(recorded(&[-5]).ewma_ns, None);
    }

    #[test]
    fn bucket_edges_belong_to_the_later_bucket() {
        let edges = [-1, 0, 49_999, 50_000, 999_999, MS, 4 * MS - 1, 4 * MS, i64::MAX];
        let l = recorded(&edges);
        assert_eq!([l.early, l.lt_50us, l.lt_1ms, l.lt_4ms, l.ge_4ms], [1, 2, 2, 2, 2]);
        assert_eq!(recorded(&[2 * MS, 2 * MS + 1]).above_2ms, 1);
    }

    #[test]
    fn the_buckets_of_two_hundred_thousand_departures_sum_to_their_number() {
        let mut recorder = LatenessRecorder::new(MS);
        (0..200_000i64).for_each(|i| recorder.record((i * 7_919) % 9_000_000 - 1_000));
        let l = recorder.lateness();
        assert_eq!(l.early + l.lt_50us + l.lt_1ms + l.lt_4ms + l.ge_4ms, 200_000);
        assert_eq!(l.distribution.n, 200_000);
    }

    #[test]
    fn a_new_tolerance_holds_for_what_leaves_afterwards() {
        let mut recorder = LatenessRecorder::new(MS);
        recorder.record(MS);
        recorder.record(MS + 1);
        recorder.set_tolerance(2 * MS);
        recorder.record(MS + 1);
        let lateness = recorder.lateness();
        assert_eq!((lateness.late, lateness.tolerance_ns), (1, 2 * MS));
    }

    #[test]
    fn the_tolerances_that_departures_had_are_told() {
        let bounds = |recorder: &LatenessRecorder| {
            let lateness = recorder.lateness();
            (lateness.tolerance_min_ns, lateness.tolerance_max_ns)
        };
        let mut recorder = LatenessRecorder::new(5 * MS);
        assert_eq!(bounds(&recorder), (5 * MS, 5 * MS));
        recorder.set_tolerance(MS);
        recorder.set_tolerance(MS);
        assert_eq!(bounds(&recorder), (MS, MS), "none left under the first");
        recorder.record(0);
        recorder.set_tolerance(2 * MS);
        assert_eq!(bounds(&recorder), (MS, MS), "none left under the last");
        recorder.record(0);
        recorder.set_tolerance(MS);
        assert_eq!(bounds(&recorder), (MS, 2 * MS));
        let mut other = LatenessRecorder::new(3 * MS);
        other.record(0);
        recorder.merge(&other);
        assert_eq!(bounds(&recorder), (MS, 3 * MS));
        recorder.set_tolerance(4 * MS);
        assert_eq!(bounds(&recorder), (MS, 3 * MS));
    }

    #[test]
    fn the_figures_stand_side_by_side_in_json() {
        let json = serde_json::to_value(recorded(&[7])).unwrap();
        assert_eq!((&json["p50_ns"], &json["lt_50us"]), (&7.into(), &1.into()));
        assert_eq!(serde_json::from_value::<Lateness>(json).unwrap(), recorded(&[7]));
    }
}
