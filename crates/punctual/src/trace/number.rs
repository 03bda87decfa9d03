//! Decimal numbers as they stand in files, without a float.

/// A number: `mantissa * 10^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    mantissa: u128,
    exponent: i32,
}

/// Why a number cannot be what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// Below zero.
    Negative,
    /// More than 2^64 - 1 of the units counted in.
    TooLarge,
}

impl Decimal {
    /// Reads `12`, `-1`, `0.25`, `.5`, `1e-05`. `None` for anything else, NaN and infinities
    /// included. Keeps 25 significant digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (digits, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], exponent(&text[at + 1..])?),
            None => (text, 0),
        };
        let mut number = Self { negative, mantissa: 0, exponent };
        let (mut any, mut point) = (false, false);
        for byte in digits.bytes() {
            match byte {
                b'0'..=b'9' => number.push(byte - b'0', point),
                b'.' if !point => point = true,
                _ => return None,
            }
            any |= byte != b'.';
        }
        any.then_some(number)
    }

    /// What it is as a percentage.
    pub(super) fn hundredth(self) -> Self {
        Self { exponent: self.exponent.saturating_sub(2), ..self }
    }

    fn push(&mut self, digit: u8, fraction: bool) {
        let kept = self.mantissa < MOST / 10;
        if kept {
            self.mantissa = self.mantissa * 10 + u128::from(digit);
        }
        match (kept, fraction) {
            (true, true) => self.exponent = self.exponent.saturating_sub(1),
            (false, false) => self.exponent = self.exponent.saturating_add(1),
            _ => {}
        }
    }

    /// The number times `factor`, up to 10^13 for any number, to the nearest whole, halves up.
    pub(super) fn scaled(self, factor: u64) -> Result<u64, Unfit> {
        if self.negative && self.mantissa != 0 {
            return Err(Unfit::Negative);
        }
        let Some(product) = self.mantissa.checked_mul(factor.into()) else {
            return Err(Unfit::TooLarge);
        };
        let power = 10_u128.checked_pow(self.exponent.unsigned_abs());
        let value = match (self.exponent >= 0, power) {
            _ if product == 0 => Some(0),
            (true, power) => power.and_then(|power| product.checked_mul(power)),
            (false, Some(power)) => {
                Some(product / power + u128::from(product % power >= power.div_ceil(2)))
            }
            // Less than 2^128 / 10^39, which is less than a half.
            (false, None) => Some(0),
        };
        value.and_then(|value| u64::try_from(value).ok()).ok_or(Unfit::TooLarge)
    }
}

/// What follows the `e`.
fn exponent(text: &str) -> Option<i32> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Beyond any range it is as good as infinite.
    let value = digits.parse().unwrap_or(FAR).min(FAR);
    Some(if text.starts_with('-') { -value } else { value })
}

/// One more than the greatest mantissa, which leaves room for factors up to 10^13.
const MOST: u128 = 10_u128.pow(25);
/// An exponent that stands for all greater ones.
const FAR: i32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(text: &str, factor: u64) -> Result<u64, Unfit> {
        Decimal::parse(text).unwrap().scaled(factor)
    }

    #[test]
    fn numbers_are_scaled_to_the_nearest_whole() {
        for (text, factor, value) in [
            ("12", 1_000, 12_000),
            ("0.25", 8, 2),
            (".5", 1, 1),
            ("0.4999999", 1, 0),
            ("1.5e3", 1, 1_500),
            ("1E-05", 1_000_000, 10),
            ("1705744800626565141", 1, 1_705_744_800_626_565_141),
            ("51.0386528885778", 1_000_000_000, 51_038_652_889),
            ("-0", 1, 0),
            ("+7.", 1, 7),
            ("0e999999999999", 1, 0),
            ("1e-999999999999", 1, 0),
            ("00000000000000000000000000000000000000001", 1, 1),
        ] {
            assert_eq!(scaled(text, factor), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_told_apart_from_what_is_no_number() {
        assert_eq!(scaled("-0.1", 1), Err(Unfit::Negative));
        for text in ["1e40", "18446744073709551616", "1e999999999999", "99999999999999999999999"] {
            assert_eq!(scaled(text, 1), Err(Unfit::TooLarge), "{text}");
        }
        for text in ["", "-", ".", "NaN", "inf", "1.2.3", "1e", "1e+", "0x10", "1_000", "--1", "１"]
        {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }
}
