//! Gains of a controller.

use core::fmt;
use core::str::FromStr;

use super::text::{Kind, UnitError};

/// A controller's gain per second, in steps of 1/256 as `tc` sends it: 1/256 to 2^23 - 1.
///
/// Written as a decimal, `0.16`, with or without `hz`; rounded to the nearest step, so that
/// tc-dualpi2(8)'s words for its defaults, 0.16 and 3.2, are its defaults. Prints with the fewest
/// digits that read back as the same gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gain(u32);

impl Gain {
    /// The greatest gain, 2^23 - 1 per second.
    pub const MAX: Self = Self(WHOLE_MAX * STEPS);

    /// From steps of 1/256 per second; `None` at 0 and above [`Gain::MAX`].
    pub const fn from_raw(raw: u32) -> Option<Self> {
        if raw == 0 || raw > Self::MAX.0 { None } else { Some(Self(raw)) }
    }

    /// Steps of 1/256 per second.
    pub const fn as_raw(self) -> u32 {
        self.0
    }
}

impl FromStr for Gain {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = GAIN.split(text)?;
        if !unit.is_empty() && !GAIN.has_unit(unit) {
            GAIN.parse(text)?;
        }
        let too_large = || UnitError::TooLarge { text: text.into(), max: WHOLE_MAX.to_string() };
        let steps = number.scaled(STEPS.into(), 1).ok_or_else(too_large)?;
        match u32::try_from(steps) {
            Ok(0) => Err(GAIN.too_small(text)),
            Ok(raw) => Self::from_raw(raw).ok_or_else(too_large),
            Err(_) => Err(too_large()),
        }
    }
}

impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Three digits tell 256 steps apart.
        for digits in 0..3 {
            let text = decimal(self.0, digits);
            if text.parse() == Ok(*self) {
                return f.write_str(&text);
            }
        }
        f.write_str(&decimal(self.0, 3))
    }
}

/// `raw / 256` rounded to `digits` decimals.
fn decimal(raw: u32, digits: u32) -> String {
    let (one, steps) = (10_u64.pow(digits), u64::from(STEPS));
    let scaled = (u64::from(raw) * one + steps / 2) / steps;
    match digits {
        0 => scaled.to_string(),
        _ => format!("{}.{:0width$}", scaled / one, scaled % one, width = digits as usize),
    }
}

/// Steps per unit, iproute2's `ALPHA_BETA_SCALE`.
const STEPS: u32 = 256;
/// The greatest gain that Linux takes, in whole numbers: 31 bits of steps.
const WHOLE_MAX: u32 = (1 << 23) - 1;

const GAIN: Kind = Kind {
    noun: "gain",
    example: "0.16",
    units: &[("hz", 256)],
    bare: Some(256),
    step: "1/256",
    max: (Gain::MAX.0 as u64, "8388607"),
    words: &[],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_read_to_the_nearest_256th_and_print_the_shortest_way_back() {
        for (text, raw, shortest) in [
            ("0.16", 41, "0.16"),
            ("3.2", 819, "3.2"),
            ("0.160156250", 41, "0.16"),
            ("0.15625Hz", 40, "0.156"),
            ("8388607", Gain::MAX.as_raw(), "8388607"),
            ("0.002", 1, "0.004"),
        ] {
            let gain: Gain = text.parse().unwrap();
            assert_eq!((gain.as_raw(), gain.to_string().as_str()), (raw, shortest), "{text}");
            assert_eq!(gain.to_string().parse(), Ok(gain));
        }
        for raw in 1..2_000 {
            let gain = Gain::from_raw(raw).unwrap();
            assert_eq!(gain.to_string().parse(), Ok(gain), "{gain}");
        }
    }

    #[test]
    fn what_is_no_gain_is_refused() {
        for (text, message) in [
            ("0", "\"0\" is less than 1/256, the smallest gain"),
            ("0.001", "\"0.001\" is less than 1/256, the smallest gain"),
            ("8388608", "\"8388608\" is more than 8388607"),
            ("99999999999999999999", "\"99999999999999999999\" is more than 8388607"),
            ("-1", "\"-1\" is negative, expected a gain such as 0.16"),
            ("fast", "\"fast\" is no gain, expected for example 0.16"),
            ("1ms", "unknown unit \"ms\" in \"1ms\", expected one of hz"),
        ] {
            assert_eq!(text.parse::<Gain>().unwrap_err().to_string(), message);
        }
    }
}
