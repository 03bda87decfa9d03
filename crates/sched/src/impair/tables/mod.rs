//! The distributions that come with the program: 4096 values each, 8192 to one spread, equal to
//! the tables that are installed with `tc`.

mod normal;

pub(crate) use normal::NORMAL;

/// Entry k is the inverse distribution function of a Pareto variable of shape 3 at k / 4096, less
/// its mean, in units of 3/4: `((1 - k/4096)^(-1/3) - 3/2) * 4/3 * 8192`, rounded to the nearest
/// and to at most 32767.
pub(crate) static PARETO: [i16; 4096] = pareto();

/// A quarter of [`NORMAL`] (its first entry before it is bounded) and three quarters of
/// [`PARETO`], rounded towards zero.
pub(crate) static PARETO_NORMAL: [i16; 4096] = pareto_normal();

#[expect(
    clippy::cast_possible_truncation,
    reason = "values are bounded by the types' ranges; conversions of traits are not const"
)]
const fn pareto() -> [i16; 4096] {
    let mut table = [0; 4096];
    // The value before rounding is below v + 1/2 when 4096 / n < ((6v + 3) / 65536 + 3/2)^3.
    let (mut k, mut value) = (0, -5_462_i64);
    while k < 4096 {
        let n = 4096 - k as i128;
        while value < i16::MAX as i64 {
            let root = (6 * value + 3 + 98_304) as i128;
            if 4096 << 48 < n * root * root * root {
                break;
            }
            value += 1;
        }
        table[k] = value as i16;
        k += 1;
    }
    table
}

#[expect(clippy::cast_possible_truncation, reason = "the mean of two 16-bit values has 16 bits")]
const fn pareto_normal() -> [i16; 4096] {
    let mut table = [0; 4096];
    let mut k = 0;
    while k < 4096 {
        let normal = if k == 0 { FIRST_NORMAL } else { NORMAL[k] as i32 };
        table[k] = ((normal + 3 * PARETO[k] as i32) / 4) as i16;
        k += 1;
    }
    table
}

/// 8192 x -4.0088: the first entry of the normal table, which 16 bits cannot hold.
const FIRST_NORMAL: i32 = -32_840;

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "whole numbers of at most 16 bits"
)]
mod tests {
    use super::*;

    /// Mean and standard deviation in spreads.
    fn moments(table: &[i16; 4096]) -> (f64, f64) {
        let values = || table.iter().map(|&value| f64::from(value) / 8192.0);
        let mean = values().sum::<f64>() / 4096.0;
        (mean, (values().map(|x| (x - mean).powi(2)).sum::<f64>() / 4096.0).sqrt())
    }

    fn assert_close(found: (f64, f64), expected: (f64, f64), by: f64) {
        assert!((found.0 - expected.0).abs() < by, "mean {} {}", found.0, expected.0);
        assert!((found.1 - expected.1).abs() < by, "deviation {} {}", found.1, expected.1);
    }

    /// The normal distribution function by its power series around 0 (Abramowitz and Stegun
    /// 26.2.11), exact to 1e-15 where |x| < 4.5.
    fn phi(x: f64) -> f64 {
        let (mut term, mut sum, mut n) = (x, x, 3.0);
        while term.abs() > 1e-18 {
            term *= x * x / n;
            sum += term;
            n += 2.0;
        }
        0.5 + sum * (-x * x / 2.0).exp() / (2.0 * core::f64::consts::PI).sqrt()
    }

    #[test]
    fn the_normal_table_follows_from_the_normal_distribution() {
        let mut table = [0_i16; 4096];
        for step in 0..=180_000 {
            let x = -4.5 + f64::from(step) / 20_000.0;
            let cell = (16_384.0 * phi(x)).round();
            let k = cell / 4.0;
            if k.fract() == 0.0 && (0.0..4096.0).contains(&k) {
                table[k as usize] = (8192.0 * x).round() as i16;
            }
        }
        assert_eq!(table, NORMAL);
    }

    #[test]
    fn the_pareto_table_follows_from_the_pareto_distribution() {
        for (k, &value) in PARETO.iter().enumerate() {
            let share = 1.0 - k as f64 / 4096.0;
            let exact = (share.powf(-1.0 / 3.0) - 1.5) * 4.0 / 3.0 * 8192.0;
            assert_eq!(value, exact.round() as i16, "entry {k}");
        }
    }

    #[test]
    fn ends_and_moments_are_those_that_are_published() {
        assert_eq!(NORMAL[..4], [-32_768, -28_307, -26_871, -25_967]);
        assert_eq!(NORMAL[4093..], [26_164, 27_159, 28_858]);
        assert_eq!((&PARETO[..3], PARETO[2048]), ([-5461, -5460, -5460].as_slice(), -2622));
        assert_eq!(PARETO[4095], 32_767);
        assert_eq!((PARETO_NORMAL[0], PARETO_NORMAL[4095]), (-12_305, 31_789));
        assert_close(moments(&NORMAL), (0.0, 1.0), 0.002);
        assert_close(moments(&PARETO), (-0.033, 0.82), 0.005);
        assert_close(moments(&PARETO_NORMAL), (-0.025, 0.834), 0.005);
    }
}
