//! Random events that tend to repeat: the parameters of `duplicate` and `corrupt`.

use core::fmt;
use core::str::FromStr;

use super::list::{BadValue, List};
use crate::units::Probability;

/// An event that happens to a share of packets: `1%`, or `1%,25%` with a correlation between one
/// packet and the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Correlated {
    /// The share of packets.
    pub probability: Probability,
    /// How much a packet's fate resembles that of the one before: 0 not at all, 100 % always.
    pub correlation: Probability,
}

impl Correlated {
    /// Never.
    pub const NEVER: Self = Self { probability: Probability::ZERO, correlation: Probability::ZERO };

    /// Independent events.
    pub const fn independent(probability: Probability) -> Self {
        Self { probability, correlation: Probability::ZERO }
    }
}

impl FromStr for Correlated {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let mut list = List::new(text, "PERCENT[,CORRELATION]");
        let (probability, correlation) = (list.required()?, list.optional()?.unwrap_or_default());
        list.end()?;
        Ok(Self { probability, correlation })
    }
}

impl fmt::Display for Correlated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.probability.fmt(f)?;
        match self.correlation {
            Probability::ZERO => Ok(()),
            correlation => write!(f, ",{correlation}"),
        }
    }
}
