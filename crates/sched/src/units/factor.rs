//! Factors.

use core::fmt;
use core::str::FromStr;

use super::Rate;
use super::text::{Kind, UnitError};

/// A factor from a millionth to a million, in steps of a millionth.
///
/// Written as a decimal: `1.5`. Prints with the fewest digits that read back as the same factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor(u64);

impl Factor {
    /// Changes nothing.
    pub const ONE: Self = Self(STEPS);

    /// A rate times this, rounded down, at least 1 bit/s where it was above 0 and at most
    /// [`Rate::MAX`]. Unlimited stays unlimited.
    #[must_use]
    pub fn of_rate(self, rate: Rate) -> Rate {
        let Some(bps) = rate.finite_bps() else { return rate };
        let scaled = self.of(bps).clamp(1, Rate::MAX.as_bps().into());
        u64::try_from(scaled).ok().and_then(Rate::from_bps).unwrap_or(Rate::MAX)
    }

    /// A number times this, rounded down.
    pub(crate) fn of(self, number: u64) -> u128 {
        u128::from(number) * u128::from(self.0) / u128::from(STEPS)
    }
}

impl Default for Factor {
    fn default() -> Self {
        Self::ONE
    }
}

impl FromStr for Factor {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match FACTOR.parse(text)? {
            0 => Err(FACTOR.too_small(text)),
            steps => Ok(Self(steps)),
        }
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, millionths) = (self.0 / STEPS, self.0 % STEPS);
        if millionths == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{millionths:06}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

/// Steps of a factor of one.
const STEPS: u64 = 1_000_000;

const FACTOR: Kind = Kind {
    noun: "factor",
    example: "1.5",
    units: &[],
    bare: Some(STEPS),
    step: "0.000001",
    max: (STEPS * STEPS, "1000000"),
    words: &[],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_print_the_shortest_way_back() {
        for text in ["1", "1.5", "0.000001", "1000000", "0.1", "999999.999999"] {
            let factor: Factor = text.parse().unwrap();
            assert_eq!(factor.to_string(), text);
        }
        assert_eq!("1.50".parse::<Factor>().unwrap().to_string(), "1.5");
        for (text, message) in [
            ("1e9", "unknown unit \"e9\" in \"1e9\", expected none"),
            ("0", "\"0\" is less than 0.000001, the smallest factor"),
            ("0.0000001", "\"0.0000001\" is less than 0.000001, the smallest factor"),
            ("1000001", "\"1000001\" is more than 1000000"),
            ("-1", "\"-1\" is negative, expected a factor such as 1.5"),
            ("x", "\"x\" is no factor, expected for example 1.5"),
        ] {
            assert_eq!(text.parse::<Factor>().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_rate_keeps_its_meaning() {
        let rate = |bps| Rate::from_bps(bps).unwrap();
        let half: Factor = "0.5".parse().unwrap();
        assert_eq!(half.of_rate(rate(3)), rate(1));
        assert_eq!(half.of_rate(rate(1)), rate(1));
        assert_eq!(half.of_rate(Rate::PAUSE), Rate::PAUSE);
        assert_eq!(half.of_rate(Rate::UNLIMITED), Rate::UNLIMITED);
        let most: Factor = "1000000".parse().unwrap();
        assert_eq!(most.of_rate(Rate::MAX), Rate::MAX);
    }
}
