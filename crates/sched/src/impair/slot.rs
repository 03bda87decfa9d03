//! `slot`: a path that lets packets leave in slots only, as half-duplex media do.

use core::fmt;
use core::str::FromStr;

use super::distribution::Distribution;
use super::list::{BadValue, List, read};
use crate::time::Duration;
use crate::units::Bytes;

/// How far apart slots are and how much may leave in one.
///
/// `800us`, `800us,1ms,packets=4,bytes=6kb`, `normal,1ms,100us,packets=4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The time from one slot to the next.
    pub gap: SlotGap,
    /// Packets per slot; 0 = any number.
    pub packets: u32,
    /// Bytes per slot; 0 = any number. The packet that uses up the last one still leaves.
    pub bytes: u32,
}

/// The time from one slot to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotGap {
    /// `MIN[,MAX]`: uniform between the two.
    Uniform {
        /// The shortest.
        min: Duration,
        /// The longest; `min` unless given.
        max: Duration,
    },
    /// `DISTRIBUTION,DELAY,JITTER`: spread around a mean.
    Spread {
        /// How.
        distribution: Distribution,
        /// The mean.
        delay: Duration,
        /// The spread, see [`Distribution`].
        jitter: Duration,
    },
}

impl FromStr for Slot {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        if let Some(spread) = text.strip_prefix("distribution,") {
            return Err(BadValue(format!(
                "\"distribution\" is no distribution, write slot={spread}"
            )));
        }
        let mut list = List::new(text, TAKES);
        let first = list.part().unwrap_or_default();
        let mut rest = list.part();
        let gap = if first.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-') {
            let min = read(first)?;
            let max = rest.filter(|part| !part.contains('='));
            if max.is_some() {
                rest = list.part();
            }
            SlotGap::Uniform { min, max: max.map_or(Ok(min), read)? }
        } else {
            let distribution = read(first)?;
            let delay = rest.ok_or_else(|| list.wrong("lacks a value")).and_then(read)?;
            let jitter = list.required()?;
            rest = list.part();
            SlotGap::Spread { distribution, delay, jitter }
        };
        let (mut packets, mut bytes) = (None, None);
        while let Some(part) = rest {
            match part.split_once('=') {
                Some(("packets", n)) if packets.is_none() => packets = Some(whole(n)?),
                Some(("bytes", n)) if bytes.is_none() => bytes = Some(size(n)?),
                _ => return Err(list.wrong(&format!("has \"{part}\" out of place"))),
            }
            rest = list.part();
        }
        let (packets, bytes) = (packets.unwrap_or(0), bytes.unwrap_or(0));
        Ok(Self { gap, packets, bytes })
    }
}

fn whole(number: &str) -> Result<u32, BadValue> {
    number
        .parse()
        .map_err(|_| BadValue(format!("packets: \"{number}\" is no number of packets such as 4")))
}

fn size(text: &str) -> Result<u32, BadValue> {
    let Bytes(bytes) = read(text)?;
    u32::try_from(bytes)
        .map_err(|_| BadValue(format!("bytes: \"{text}\" is more than {}b", u32::MAX)))
}

impl Slot {
    /// As [`Slot`] is displayed, but with a table by its name ([`Distribution::brief`]).
    pub fn brief(&self) -> String {
        format!("{}{}", self.gap_text(Distribution::brief), self.bounds())
    }

    fn gap_text(&self, distribution_text: impl Fn(&Distribution) -> String) -> String {
        match &self.gap {
            SlotGap::Uniform { min, max } if min == max => min.to_string(),
            SlotGap::Uniform { min, max } => format!("{min},{max}"),
            SlotGap::Spread { distribution, delay, jitter } => {
                format!("{},{delay},{jitter}", distribution_text(distribution))
            }
        }
    }

    fn bounds(&self) -> String {
        let packets = (self.packets > 0).then(|| format!(",packets={}", self.packets));
        let bytes = (self.bytes > 0).then(|| format!(",bytes={}", Bytes(self.bytes.into())));
        packets.unwrap_or_default() + &bytes.unwrap_or_default()
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.gap_text(Distribution::to_string))?;
        f.write_str(&self.bounds())
    }
}

/// What the parameter takes.
const TAKES: &str = "MIN[,MAX][,packets=N][,bytes=N], \
                     DISTRIBUTION,DELAY,JITTER[,packets=N][,bytes=N] or none";
