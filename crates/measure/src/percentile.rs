//! Percentiles by nearest rank: the smallest sample `x` with `F(x) >= p` (RFC 2330, 11.3).
//!
//! `p` is in parts per million and everything is integer arithmetic: with floats
//! `ceil(p / 100 * n)` is wrong for 141 pairs with n <= 1000, for example p = 7 %, n = 100.

use serde::{Deserialize, Serialize};

/// One million: the denominator of a share given in ppm.
pub const PPM: u64 = 1_000_000;

/// The percentiles every distribution reports; in JSON by their names (`p50` ... `p999`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Percentile {
    /// 50 %: by nearest rank, so the lower of the two middles for an even count.
    P50,
    /// 90 %.
    P90,
    /// 99 %.
    P99,
    /// 99.9 %.
    P999,
}

impl Percentile {
    /// All of them, ascending.
    pub const ALL: [Self; 4] = [Self::P50, Self::P90, Self::P99, Self::P999];

    /// The share of samples at or below it, in ppm.
    pub const fn ppm(self) -> u64 {
        match self {
            Self::P50 => 500_000,
            Self::P90 => 900_000,
            Self::P99 => 990_000,
            Self::P999 => 999_000,
        }
    }
}

/// The 1-based rank of percentile `ppm` among `n` sorted samples: `ceil(ppm * n / 10^6)`, at least
/// 1. `None` without samples. A `ppm` above [`PPM`] counts as [`PPM`], the maximum.
pub fn rank(ppm: u64, n: u64) -> Option<u64> {
    if n == 0 {
        return None;
    }
    let exact = (u128::from(ppm.min(PPM)) * u128::from(n)).div_ceil(u128::from(PPM));
    Some(u64::try_from(exact).unwrap_or(n).max(1))
}

/// Whether `n` samples can tell percentile `ppm` from the maximum: `n * (1 - p) >= 1`.
pub fn is_resolved(ppm: u64, n: u64) -> bool {
    u128::from(n) * u128::from(PPM.saturating_sub(ppm)) >= u128::from(PPM)
}

/// The percentile `ppm` of samples in ascending order, exact. `None` without samples.
pub fn of_sorted(sorted: &[i64], ppm: u64) -> Option<i64> {
    let rank = usize::try_from(rank(ppm, sorted.len() as u64)?).ok()?;
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest k with k/n >= p/100, by counting up: no division, no rounding.
    fn rank_by_counting(percent: u64, n: u64) -> u64 {
        (1..=n).find(|k| k * 100 >= percent * n).expect("k = n satisfies it")
    }

    #[test]
    fn every_rank_up_to_a_thousand_samples_is_the_exact_ceiling() {
        for percent in 1..=100 {
            for n in 1..=1000 {
                let ours = rank(percent * 10_000, n);
                assert_eq!(ours, Some(rank_by_counting(percent, n)), "p{percent} of {n}");
            }
        }
    }

    #[test]
    fn published_cases_of_the_float_error_are_right() {
        assert_eq!(rank(70_000, 100), Some(7));
        assert_eq!(rank(280_000, 25), Some(7));
        assert_eq!(rank(990_000, 100), Some(99));
        assert_eq!(rank(990_000, u64::MAX), Some(18_262_276_632_972_456_099));
    }

    #[test]
    fn one_sample_is_every_percentile() {
        for ppm in [0, 1, 500_000, 999_999, PPM, PPM + 1] {
            assert_eq!(of_sorted(&[7], ppm), Some(7));
        }
        assert_eq!(of_sorted(&[], 500_000), None);
    }

    #[test]
    fn ten_samples_have_p50_p90_and_the_maximum() {
        let ten: Vec<i64> = (1..=10).collect();
        let figures = Percentile::ALL.map(|p| of_sorted(&ten, p.ppm()));
        assert_eq!(figures, [Some(5), Some(9), Some(10), Some(10)]);
        let resolved = Percentile::ALL.map(|p| is_resolved(p.ppm(), 10));
        assert_eq!(resolved, [true, true, false, false]);
    }
}
