//! `distribution`: how jitter spreads around a mean.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use super::list::BadValue;
use super::tables::{NORMAL, PARETO, PARETO_NORMAL};
use crate::checksum::Crc32;
use crate::words;

/// How a value spreads around its mean.
///
/// `uniform`, `normal`, `pareto`, `paretonormal`, or a table of the user's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Every value within the spread to both sides is as likely.
    #[default]
    Uniform,
    /// The spread is one standard deviation; the extremes are -4 and +3.52 of them.
    Normal,
    /// A long tail upwards (shape 3): most values lie below the mean, by up to 0.67 of the spread,
    /// the greatest is 4 above it.
    Pareto,
    /// A quarter normal, three quarters pareto.
    ParetoNormal,
    /// A table of the user's own.
    Table(Table),
}

/// Values to draw from, all as likely: 8192 stands for the whole spread above the mean.
///
/// 1 to 16384 values. Written as `table:` and four hexadecimal digits for each value (16 bits,
/// two's complement), which is exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table(Arc<[i16]>);

impl Distribution {
    /// The words for those that come with the program, in the order of help.
    pub const WORDS: [&str; 4] = ["uniform", "normal", "pareto", "paretonormal"];

    /// The values to draw from, `None` when uniform.
    pub fn entries(&self) -> Option<&[i16]> {
        match self {
            Self::Uniform => None,
            Self::Normal => Some(&NORMAL),
            Self::Pareto => Some(&PARETO),
            Self::ParetoNormal => Some(&PARETO_NORMAL),
            Self::Table(table) => Some(&table.0),
        }
    }

    /// For people: as displayed, but a table by its size and the CRC-32 (IEEE 802.3) of its values
    /// as big-endian 16-bit integers: `table(4096 entries, crc32 1a2b3c4d)`.
    pub fn brief(&self) -> String {
        let Self::Table(Table(entries)) = self else { return self.to_string() };
        let mut crc = Crc32::new();
        entries.iter().for_each(|entry| crc.bytes(&entry.to_be_bytes()));
        let crc = crc.finish();
        format!("table({} entries, crc32 {crc:08x})", entries.len())
    }
}

impl Table {
    /// The most values that a table has.
    pub const MAX: usize = 16_384;

    /// A table of these values, 1 to [`Table::MAX`] of them.
    pub fn new(entries: &[i16]) -> Result<Self, BadValue> {
        match entries.len() {
            0 => Err(BadValue("a table needs at least one value".to_owned())),
            1..=Self::MAX => Ok(Self(entries.into())),
            n => Err(BadValue(format!("{n} values are too many, a table has at most 16384"))),
        }
    }
}

impl FromStr for Distribution {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        if let Some(digits) = text.strip_prefix(PREFIX) {
            return digits.parse().map(Self::Table);
        }
        Ok(match text {
            "uniform" => Self::Uniform,
            "normal" => Self::Normal,
            "pareto" => Self::Pareto,
            "paretonormal" => Self::ParetoNormal,
            _ => {
                let hint = words::hint(text, Self::WORDS);
                return Err(BadValue(format!("unknown distribution \"{text}\", {hint}")));
            }
        })
    }
}

impl FromStr for Table {
    type Err = BadValue;

    fn from_str(digits: &str) -> Result<Self, BadValue> {
        let malformed =
            || BadValue("a table in text is four hexadecimal digits for each value".to_owned());
        if !digits.len().is_multiple_of(4) || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(malformed());
        }
        let value = |four: &[u8]| {
            let four = core::str::from_utf8(four).ok()?;
            u16::from_str_radix(four, 16).ok().map(u16::cast_signed)
        };
        let entries: Option<Vec<_>> = digits.as_bytes().chunks(4).map(value).collect();
        Self::new(&entries.ok_or_else(malformed)?)
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Normal => f.write_str("normal"),
            Self::Pareto => f.write_str("pareto"),
            Self::ParetoNormal => f.write_str("paretonormal"),
            Self::Table(Table(entries)) => {
                f.write_str(PREFIX)?;
                entries.iter().try_for_each(|entry| write!(f, "{:04x}", entry.cast_unsigned()))
            }
        }
    }
}

/// Before the digits of a table.
const PREFIX: &str = "table:";
