//! `reorder`: which packets may overtake those before them.

use core::fmt;
use core::str::FromStr;

use super::list::{BadValue, List};
use crate::units::Probability;

/// Whether and how packets leave in another order than they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reorder {
    /// Order is kept: `none` or `0%`.
    #[default]
    None,
    /// Each packet leaves after the delay drawn for it, whatever that does to order: `jitter`.
    Jitter,
    /// Some packets skip the delay: `25%`, `25%,50%`, `25%,gap=5`.
    Skip {
        /// The share of the packets that may skip.
        probability: Probability,
        /// How much a packet's fate resembles that of the one before.
        correlation: Probability,
        /// After one that skipped, the next that may is the `gap`-th. At least 1: any may.
        gap: u32,
    },
}

impl FromStr for Reorder {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text {
            "none" => return Ok(Self::None),
            "jitter" => return Ok(Self::Jitter),
            _ => {}
        }
        if text.parse() == Ok(Probability::ZERO) {
            return Ok(Self::None);
        }
        let mut list = List::new(text, "none, jitter or PERCENT[,CORRELATION][,gap=N]");
        let probability = list.required()?;
        let (mut correlation, mut gap) = (None, None);
        while let Some(part) = list.part() {
            match part.strip_prefix("gap=") {
                Some(number) if gap.is_none() => gap = Some(whole(number)?),
                None if correlation.is_none() && gap.is_none() => {
                    correlation = Some(super::list::read(part)?);
                }
                _ => return Err(list.wrong("has too many values")),
            }
        }
        let (correlation, gap) = (correlation.unwrap_or_default(), gap.unwrap_or(1));
        Ok(Self::Skip { probability, correlation, gap })
    }
}

fn whole(number: &str) -> Result<u32, BadValue> {
    number
        .parse()
        .map_err(|_| BadValue(format!("gap: \"{number}\" is no number of packets such as 5")))
}

impl fmt::Display for Reorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Skip { probability, correlation, gap } = *self else {
            return f.write_str(if *self == Self::None { "none" } else { "jitter" });
        };
        probability.fmt(f)?;
        if correlation != Probability::ZERO {
            write!(f, ",{correlation}")?;
        }
        if gap == 1 { Ok(()) } else { write!(f, ",gap={gap}") }
    }
}
