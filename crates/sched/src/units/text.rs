//! Decimal numbers with a unit, read exactly: no float anywhere.

use crate::words;

/// Why a text is no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Nothing there.
    #[error("nothing given, expected a {noun} such as {example}")]
    Empty {
        /// What was expected.
        noun: &'static str,
        /// One that would be accepted.
        example: &'static str,
    },
    /// It does not begin with digits.
    #[error("\"{text}\" is no {noun}, {hint}")]
    NotANumber {
        /// What was read.
        text: String,
        /// What was expected.
        noun: &'static str,
        /// The word that was meant, or an example.
        hint: String,
    },
    /// Below zero.
    #[error("\"{text}\" is negative, expected a {noun} such as {example}")]
    Negative {
        /// What was read.
        text: String,
        /// What was expected.
        noun: &'static str,
        /// One that would be accepted.
        example: &'static str,
    },
    /// A bare number where `tc`'s commands disagree about its meaning.
    #[error("\"{text}\" has no unit, expected for example {example}")]
    MissingUnit {
        /// What was read.
        text: String,
        /// One that would be accepted.
        example: &'static str,
    },
    /// The number is followed by a unit that is none.
    #[error("unknown unit \"{unit}\" in \"{text}\", {hint}")]
    UnknownUnit {
        /// What was read.
        text: String,
        /// The part after the digits.
        unit: String,
        /// The unit that was meant, or all of them.
        hint: String,
    },
    /// More than the greatest value.
    #[error("\"{text}\" is more than {max}")]
    TooLarge {
        /// What was read.
        text: String,
        /// The greatest value.
        max: String,
    },
    /// Packets come whole.
    #[error("\"{text}\" is no whole number of packets")]
    NotWhole {
        /// What was read.
        text: String,
    },
    /// A fraction of the smallest step that weighs.
    #[error("\"{text}\" is no whole number of {step}, the smallest {noun}")]
    Fraction {
        /// What was read.
        text: String,
        /// What was expected.
        noun: &'static str,
        /// The smallest step.
        step: &'static str,
    },
    /// Not zero, but less than the smallest step.
    #[error("\"{text}\" is less than {step}, the smallest {noun}")]
    TooSmall {
        /// What was read.
        text: String,
        /// What was expected.
        noun: &'static str,
        /// The smallest step.
        step: &'static str,
    },
}

/// A kind of value: its units and bounds.
pub(super) struct Kind {
    /// `rate`, `size`: for messages.
    pub(super) noun: &'static str,
    /// A valid text, for messages.
    pub(super) example: &'static str,
    /// Units, lower case, with their size in steps. Read without regard to case, as `tc` does.
    pub(super) units: &'static [(&'static str, u64)],
    /// What a bare number counts, in steps. `None` = a unit is needed.
    pub(super) bare: Option<u64>,
    /// The smallest step, for messages.
    pub(super) step: &'static str,
    /// The greatest value in steps, and how it is written.
    pub(super) max: (u64, &'static str),
    /// Words that stand for values, for suggestions.
    pub(super) words: &'static [&'static str],
}

impl Kind {
    /// Reads `text` as steps, rounded down as `tc` does, where that changes less than a thousandth of
    /// a value that is not written in steps: a script's `0.30000000000000004mbit` is meant so, `1.5bit`
    /// and `1.5b` are mistakes.
    pub(super) fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let (number, unit) = self.split(text)?;
        let factor = self.factor(text, unit)?;
        let too_large = || UnitError::TooLarge { text: words::brief(text), max: self.max.1.into() };
        let (steps, remainder) = number.times(factor).ok_or_else(too_large)?;
        let steps = u64::try_from(steps).ok().filter(|&n| n <= self.max.0).ok_or_else(too_large)?;
        if steps == 0 && remainder {
            return Err(self.too_small(text));
        }
        if remainder && (factor == 1 || steps < COARSE) {
            let (noun, step) = (self.noun, self.step);
            return Err(UnitError::Fraction { text: words::brief(text), noun, step });
        }
        Ok(steps)
    }

    /// Parts `text` into a number and what follows it.
    pub(super) fn split<'a>(&self, text: &'a str) -> Result<(Decimal, &'a str), UnitError> {
        let (noun, example) = (self.noun, self.example);
        if text.is_empty() {
            return Err(UnitError::Empty { noun, example });
        }
        if text.starts_with('-') {
            return Err(UnitError::Negative { text: words::brief(text), noun, example });
        }
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        match Decimal::parse(digits) {
            Some(number) => Ok((number, unit)),
            None => {
                Err(UnitError::NotANumber { text: words::brief(text), noun, hint: self.hint(text) })
            }
        }
    }

    fn hint(&self, text: &str) -> String {
        match words::nearest(text, self.words.iter().copied()) {
            Some(word) => format!("did you mean \"{word}\"?"),
            None => format!("expected for example {}", self.example),
        }
    }

    fn factor(&self, text: &str, unit: &str) -> Result<u64, UnitError> {
        if unit.is_empty() {
            let missing =
                || UnitError::MissingUnit { text: words::brief(text), example: self.example };
            return self.bare.ok_or_else(missing);
        }
        let known = self.units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        known.map(|&(_, factor)| factor).ok_or_else(|| UnitError::UnknownUnit {
            text: words::brief(text),
            unit: words::brief(unit),
            hint: match self.units {
                [] => "expected none".to_owned(),
                units => words::hint(unit, units.iter().map(|&(name, _)| name)),
            },
        })
    }

    pub(super) fn too_small(&self, text: &str) -> UnitError {
        UnitError::TooSmall { text: words::brief(text), noun: self.noun, step: self.step }
    }

    pub(super) fn has_unit(&self, unit: &str) -> bool {
        self.units.iter().any(|(name, _)| name.eq_ignore_ascii_case(unit))
    }
}

/// Below so many steps a fraction of one is more than a thousandth.
const COARSE: u64 = 1_000;

/// A decimal number as it was written: `mantissa / 10^scale`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decimal {
    mantissa: u128,
    scale: u32,
    /// Digits that were not kept are not all zero.
    more: bool,
}

impl Decimal {
    /// Digits kept after the point. More change no value here by more than a rounding: the finest
    /// ratio of a unit to its step is 10^12 (`tbit` to `bit`).
    const SCALE: u32 = 15;
    /// Digits kept before the point: more than 2^64 has.
    const WHOLE: usize = 20;

    /// Reads digits with at most one point. `None` when there is no digit or a second point. A
    /// whole part beyond [`Decimal::WHOLE`] digits saturates, far above every bound.
    fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let whole = whole.trim_start_matches('0');
        if whole.len() > Self::WHOLE {
            return Some(Self { mantissa: u128::MAX, scale: 0, more: false });
        }
        let mut number = Self { mantissa: 0, scale: 0, more: false };
        for digit in whole.bytes() {
            number.mantissa = number.mantissa * 10 + u128::from(digit - b'0');
        }
        for digit in fraction.bytes() {
            if number.scale < Self::SCALE {
                number.mantissa = number.mantissa * 10 + u128::from(digit - b'0');
                number.scale += 1;
            } else {
                number.more |= digit != b'0';
            }
        }
        Some(number)
    }

    /// The number times `factor`, rounded down, and whether something was rounded off. `None` on
    /// overflow.
    fn times(self, factor: u64) -> Option<(u128, bool)> {
        let (divisor, product) = (self.divisor(), self.mantissa.checked_mul(factor.into())?);
        Some((product / divisor, self.more || !product.is_multiple_of(divisor)))
    }

    /// The number times `factor / divisor`, rounded to the nearest, halves to even (C's `rint`).
    pub(super) fn scaled(self, factor: u64, divisor: u64) -> Option<u128> {
        let divisor = self.divisor() * u128::from(divisor);
        let product = self.mantissa.checked_mul(factor.into())?;
        let (whole, twice) = (product / divisor, product % divisor * 2);
        let up = twice > divisor || (twice == divisor && (self.more || whole % 2 == 1));
        Some(whole + u128::from(up))
    }

    /// Whether it is more than `whole`.
    pub(super) fn is_above(self, whole: u128) -> bool {
        self.times(1).is_none_or(|(number, rest)| number > whole || (number == whole && rest))
    }

    pub(super) fn is_zero(self) -> bool {
        self.mantissa == 0 && !self.more
    }

    /// The whole number, if it is one.
    pub(super) fn whole(self) -> Option<u128> {
        self.times(1).and_then(|(whole, rest)| (!rest).then_some(whole))
    }

    fn divisor(self) -> u128 {
        10_u128.pow(self.scale)
    }
}
