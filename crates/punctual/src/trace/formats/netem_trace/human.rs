//! Bandwidths and times: words as `12Mbps` and `1s 500ms`, or numbers in a table.

use std::fmt;

use punctual_sched::{Duration, Rate};
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::super::super::number::Decimal;

/// Bits per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bandwidth(pub(super) u64);

impl Bandwidth {
    /// What the crate takes where nothing is given.
    pub(super) const DEFAULT: Self = Self(12_000_000);

    /// As a rate of a link.
    pub(super) fn rate(self) -> Result<Rate, String> {
        let rate = Rate::from_bps(self.0).filter(|rate| *rate != Rate::UNLIMITED);
        rate.ok_or_else(|| format!("{} bit/s, expected at most 1tbit", self.0))
    }
}

/// A span of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) Duration);

impl<'de> Deserialize<'de> for Bandwidth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Words(&BANDWIDTH)).map(Self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Words(&TIME)).map(|nanos| Self(Duration::from_nanos(nanos)))
    }
}

/// A kind of value: the units of its words, and its table's two keys with what one is in them.
struct Kind {
    what: &'static str,
    units: &'static [(&'static str, u64)],
    keys: [(&'static str, u64); 2],
}

impl Kind {
    /// Numbers with units, added up.
    fn parse(&self, text: &str) -> Option<u64> {
        let mut rest = text.trim();
        let mut sum: Option<u64> = None;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let number = Decimal::parse(&rest[..digits])?;
            rest = rest[digits..].trim_start();
            let end = rest.find(|c: char| c.is_ascii_digit() || c.is_whitespace());
            let (unit, after) = rest.split_at(end.unwrap_or(rest.len()));
            let (_, factor) = self.units.iter().find(|(name, _)| *name == unit)?;
            sum = Some(sum.unwrap_or(0).checked_add(number.scaled(*factor).ok()?)?);
            rest = after.trim_start();
        }
        sum
    }
}

struct Words(&'static Kind);

impl<'de> Visitor<'de> for Words {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.what)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        let wrong = || E::invalid_value(de::Unexpected::Str(text), &self);
        self.0.parse(text).ok_or_else(wrong)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u64, A::Error> {
        let mut sum: u64 = 0;
        while let Some((key, value)) = map.next_entry::<String, u64>()? {
            let known = self.0.keys.iter().find(|(name, _)| *name == key);
            let (_, factor) = known.ok_or_else(|| {
                de::Error::custom(format!("unknown key {key:?}, expected {}", self.0.what))
            })?;
            let added = value.checked_mul(*factor).and_then(|value| sum.checked_add(value));
            sum = added.ok_or_else(|| de::Error::custom(format!("{value} {key} is too large")))?;
        }
        Ok(sum)
    }
}

const BANDWIDTH: Kind = Kind {
    what: "a bandwidth such as 12Mbps",
    units: &[
        ("bps", 1),
        ("bit/s", 1),
        ("b/s", 1),
        ("kbps", KILO),
        ("Kbps", KILO),
        ("kbit/s", KILO),
        ("kb/s", KILO),
        ("Mbps", MEGA),
        ("Mbit/s", MEGA),
        ("Mb/s", MEGA),
        ("Gbps", GIGA),
        ("Gbit/s", GIGA),
        ("Gb/s", GIGA),
        ("Tbps", TERA),
        ("Tbit/s", TERA),
        ("Tb/s", TERA),
    ],
    keys: [("gbps", GIGA), ("bps", 1)],
};

const TIME: Kind = Kind {
    what: "a time such as 100ms",
    units: &[
        ("nsec", 1),
        ("ns", 1),
        ("usec", KILO),
        ("us", KILO),
        ("\u{b5}s", KILO),
        ("msec", MEGA),
        ("ms", MEGA),
        ("seconds", GIGA),
        ("second", GIGA),
        ("sec", GIGA),
        ("secs", GIGA),
        ("s", GIGA),
        ("minutes", 60 * GIGA),
        ("minute", 60 * GIGA),
        ("min", 60 * GIGA),
        ("mins", 60 * GIGA),
        ("m", 60 * GIGA),
        ("hours", 3_600 * GIGA),
        ("hour", 3_600 * GIGA),
        ("hrs", 3_600 * GIGA),
        ("hr", 3_600 * GIGA),
        ("h", 3_600 * GIGA),
        ("days", 86_400 * GIGA),
        ("day", 86_400 * GIGA),
        ("d", 86_400 * GIGA),
    ],
    keys: [("secs", GIGA), ("nanos", 1)],
};

const KILO: u64 = 1_000;
const MEGA: u64 = 1_000 * KILO;
const GIGA: u64 = 1_000 * MEGA;
const TERA: u64 = 1_000 * GIGA;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_added_up() {
        for (text, bps) in [
            ("12Mbps", 12_000_000),
            ("9Tbps 420Gbps", 9_420_000_000_000),
            ("150.024kbps", 150_024),
            ("5 b/s", 5),
            ("1Gbps500Mbps", 1_500_000_000),
        ] {
            assert_eq!(BANDWIDTH.parse(text), Some(bps), "{text}");
        }
        assert_eq!(TIME.parse("1s 500ms"), Some(1_500_000_000));
        assert_eq!(TIME.parse("2h 37min"), Some(9_420_000_000_000));
        for text in ["", "12", "12mbps", "12MBps", "-1Mbps", "1e3Mbps", "99999999Tbps", "NaNMbps"] {
            assert_eq!(BANDWIDTH.parse(text), None, "{text}");
        }
    }
}
