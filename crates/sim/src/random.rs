//! Seeded draws in integer arithmetic: the same on every machine.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Independent streams of one seed.
#[derive(Clone, Debug)]
pub(crate) struct Streams(Xoshiro256PlusPlus);

impl Streams {
    pub(crate) fn new(seed: u64) -> Self {
        // A link seeded alike must not see the senders' numbers.
        Self(Xoshiro256PlusPlus::seed_from_u64(!seed))
    }

    /// The next stream, 2^128 draws apart from the one before.
    pub(crate) fn stream(&mut self) -> Stream {
        let stream = Stream(self.0.clone());
        self.0.jump();
        stream
    }
}

/// One component's draws.
#[derive(Clone, Debug)]
pub(crate) struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// Uniform over all 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..=max`.
    pub(crate) fn up_to(&mut self, max: u64) -> u64 {
        let product = u128::from(self.bits()) * (u128::from(max) + 1);
        u64::try_from(product >> 64).expect("the high half of a 64 x 65 bit product is <= max")
    }

    /// Exponentially distributed with mean 1, in units of 2^-32: `-ln(u)` for a uniform `u`.
    pub(crate) fn exponential(&mut self) -> u64 {
        // -ln(u) = ln 2 * -log2(u), with u = bits / 2^64 and never 0.
        let minus_log2 = (64 << 32) - log2(self.bits().max(1));
        let product = u128::from(minus_log2) * u128::from(LN_2);
        u64::try_from(product >> 32).expect("at most 64 ln 2 in units of 2^-32")
    }
}

/// ln 2 in units of 2^-32.
const LN_2: u64 = 2_977_044_472;

/// The binary logarithm of `value` > 0 in units of 2^-32, rounded down: one bit of the fraction
/// per squaring of the mantissa.
fn log2(value: u64) -> u64 {
    let whole = u64::from(value.ilog2());
    let mut mantissa = u128::from(value) << (63 - value.ilog2());
    let mut log = whole;
    for _ in 0..32 {
        mantissa = (mantissa * mantissa) >> 63;
        let carry = mantissa >> 64;
        mantissa >>= carry;
        log = log << 1 | u64::from(carry != 0);
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_exact_rounded_down() {
        for (value, log) in [(1, 0), (2, 1 << 32), (1 << 63, 63 << 32), (3, 6_807_362_105)] {
            assert_eq!(log2(value), log, "{value}");
        }
    }

    #[test]
    fn exponential_draws_have_the_mean_and_the_median_of_the_distribution() {
        let mut stream = Streams::new(1).stream();
        let mut draws: Vec<u64> = (0..100_001).map(|_| stream.exponential()).collect();
        draws.sort_unstable();
        let mean: u64 = draws.iter().sum::<u64>() / 100_001;
        // Mean 1, median ln 2; standard errors 0.3 %, bounds three of them.
        let near = |value: u64, expected: u64| value.abs_diff(expected) < expected / 100;
        assert!(near(mean, 1 << 32), "{mean}");
        assert!(near(draws[50_000], LN_2), "{}", draws[50_000]);
    }

    #[test]
    fn streams_of_a_seed_differ_and_repeat() {
        let mut streams = Streams::new(7);
        let (mut a, mut b) = (streams.stream(), streams.stream());
        let mut again = Streams::new(7).stream();
        assert_ne!(a.clone().bits(), b.bits());
        assert_eq!(a.bits(), again.bits());
    }
}
