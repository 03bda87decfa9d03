//! Rates, sizes, times and shares: types, and `tc`'s way to write them.
//!
//! Numbers are decimals (`2.5mbit`), units are read without regard to case. Values are read
//! exactly and rounded down to the type's step, as `tc` does, where that changes less than a
//! thousandth: else a fraction of a step is an error. A value prints in the largest unit that divides it and reads
//! back as the same value.

use core::fmt;
use core::str::FromStr;

use crate::config::Limit;
use crate::time::Duration;

mod factor;
mod gain;
mod text;

pub use factor::Factor;
pub use gain::Gain;
use text::Kind;
pub use text::UnitError;

/// A rate in bits per second: 0 (pause), 1 to 10^12, or unlimited.
///
/// Written as in `tc`: `20mbit`, `1.5gbit`, `64kibit` (1024), `2mbps` (BYTES per second); a bare
/// number counts bits per second. Or `unlimited`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Nothing leaves.
    pub const PAUSE: Self = Self(0);
    /// No bottleneck. The value is 2^64 - 1.
    pub const UNLIMITED: Self = Self(u64::MAX);
    /// The highest finite rate, 10^12 bit/s.
    pub const MAX: Self = Self(1_000_000_000_000);

    /// `bits` per second; `None` when it is neither 0, nor up to [`Rate::MAX`], nor 2^64 - 1.
    pub const fn from_bps(bits: u64) -> Option<Self> {
        if bits <= Self::MAX.0 || bits == u64::MAX { Some(Self(bits)) } else { None }
    }

    /// Bits per second; 2^64 - 1 when unlimited.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Bits per second when the rate carries something and has a bound: neither pause nor
    /// unlimited.
    pub const fn finite_bps(self) -> Option<u64> {
        if self.0 == 0 || self.0 == u64::MAX { None } else { Some(self.0) }
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text.eq_ignore_ascii_case(UNLIMITED) {
            return Ok(Self::UNLIMITED);
        }
        RATE.parse(text).map(Self)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::UNLIMITED {
            return f.write_str(UNLIMITED);
        }
        let units = [(TERA, "tbit"), (GIGA, "gbit"), (MEGA, "mbit"), (KILO, "kbit"), (1, "bit")];
        write_largest(f, self.0, &units)
    }
}

/// A size in bytes, 0 to 2^64 - 1.
///
/// Written as in `tc`: `1514`, `20kb` or `20k` (1024), `1mb`, `1gb`, `8kbit` (1024 bits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        SIZE.parse(text).map(Self)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_largest(f, self.0, &[(GIBI, "gb"), (MEBI, "mb"), (KIBI, "kb"), (1, "b")])
    }
}

impl FromStr for Duration {
    type Err = UnitError;

    /// `30ms`, `1.5s`, `200usec`, `7ns`. A unit is needed: a bare `100` is 100 ns to one `tc`
    /// command and 100 us to another.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        TIME.parse(text).map(Self::from_nanos)
    }
}

impl FromStr for Limit {
    type Err = UnitError;

    /// `1000p`, `200k` or `100ms`; packets also as `pkt`, `pkts`, `packet` or `packets`. A unit is
    /// needed: `tc` counts packets in one queue and bytes in
    /// the next.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = LIMIT.split(text)?;
        if PACKET_UNITS.iter().any(|name| name.eq_ignore_ascii_case(unit)) {
            let too_large = || UnitError::TooLarge { text: text.into(), max: "4294967295p".into() };
            let not_whole = || UnitError::NotWhole { text: text.into() };
            let whole = number.whole().ok_or_else(not_whole)?;
            return u32::try_from(whole).map(Self::Packets).map_err(|_| too_large());
        }
        if TIME.has_unit(unit) {
            return text.parse().map(Self::Time);
        }
        LIMIT.parse(text).map(Self::Bytes)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets}p"),
            Self::Bytes(bytes) => Bytes(*bytes).fmt(f),
            Self::Time(time) => time.fmt(f),
        }
    }
}

/// A probability as a threshold on 32 random bits, as `tc` stores it: `rint(p * (2^32 - 1))`.
///
/// 0 never happens, 2^32 - 1 always does. Written in percent, with or without the sign: `1%`,
/// `0.5`. Prints with the fewest digits that read back as the same threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probability(u32);

impl Probability {
    /// Never.
    pub const ZERO: Self = Self(0);
    /// Always.
    pub const ONE: Self = Self(u32::MAX);

    /// 100 % less this.
    #[must_use]
    pub const fn complement(self) -> Self {
        Self(u32::MAX - self.0)
    }

    /// From the stored threshold.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// The stored threshold.
    pub const fn as_raw(self) -> u32 {
        self.0
    }
}

impl FromStr for Probability {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = PERCENT.split(text)?;
        if !unit.is_empty() && unit != "%" {
            PERCENT.parse(text)?;
        }
        let too_large = || UnitError::TooLarge { text: text.into(), max: "100%".into() };
        if number.is_above(100) {
            return Err(too_large());
        }
        let raw = number.scaled(u64::from(u32::MAX), 100).ok_or_else(too_large)?;
        let raw = u32::try_from(raw).map_err(|_| too_large())?;
        if raw == 0 && !number.is_zero() {
            return Err(PERCENT.too_small(text));
        }
        Ok(Self(raw))
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Eight digits always suffice: thresholds are 2.3e-8 percent apart.
        for digits in 0..=8 {
            let text = percent(self.0, digits);
            if text.parse() == Ok(*self) {
                return f.write_str(&text);
            }
        }
        f.write_str(&percent(self.0, 9))
    }
}

/// `raw / (2^32 - 1)` in percent, rounded to `digits` decimals.
fn percent(raw: u32, digits: u32) -> String {
    let (one, whole) = (10_u64.pow(digits), u64::from(u32::MAX));
    // At most 100 * 10^9 * 2^32: in 128 bits.
    let scaled =
        (u128::from(raw) * 100 * u128::from(one) + u128::from(whole / 2)) / u128::from(whole);
    let (integer, fraction) = (scaled / u128::from(one), scaled % u128::from(one));
    match digits {
        0 => format!("{integer}%"),
        _ => format!("{integer}.{fraction:0width$}%", width = digits as usize),
    }
}

fn write_largest(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    units: &[(u64, &'static str)],
) -> fmt::Result {
    let fits = |factor: u64| factor == 1 || (value != 0 && value.is_multiple_of(factor));
    let (factor, name) = units.iter().find(|&&(factor, _)| fits(factor)).unwrap_or(&(1, ""));
    write!(f, "{}{name}", value / factor)
}

/// The word for no bottleneck.
const UNLIMITED: &str = "unlimited";

const KILO: u64 = 1_000;
const MEGA: u64 = 1_000 * KILO;
const GIGA: u64 = 1_000 * MEGA;
const TERA: u64 = 1_000 * GIGA;
const KIBI: u64 = 1 << 10;
const MEBI: u64 = 1 << 20;
const GIBI: u64 = 1 << 30;
const TEBI: u64 = 1 << 40;

// tc(8), "RATES": `bit` and its multiples count bits, `bps` and its multiples BYTES per second.
const RATE: Kind = Kind {
    noun: "rate",
    example: "20mbit",
    units: &[
        ("bit", 1),
        ("kbit", KILO),
        ("mbit", MEGA),
        ("gbit", GIGA),
        ("tbit", TERA),
        ("kibit", KIBI),
        ("mibit", MEBI),
        ("gibit", GIBI),
        ("tibit", TEBI),
        ("bps", 8),
        ("kbps", 8 * KILO),
        ("mbps", 8 * MEGA),
        ("gbps", 8 * GIGA),
        ("tbps", 8 * TERA),
        ("kibps", 8 * KIBI),
        ("mibps", 8 * MEBI),
        ("gibps", 8 * GIBI),
        ("tibps", 8 * TEBI),
    ],
    bare: Some(1),
    step: "1bit",
    max: (Rate::MAX.0, "1tbit"),
    words: &[UNLIMITED],
};

// tc(8), "SIZES": all multiples count 1024, `kbit` included.
const SIZE: Kind = Kind {
    noun: "size",
    example: "20kb",
    units: &[
        ("b", 1),
        ("k", KIBI),
        ("kb", KIBI),
        ("m", MEBI),
        ("mb", MEBI),
        ("g", GIBI),
        ("gb", GIBI),
        ("kbit", KIBI / 8),
        ("mbit", MEBI / 8),
        ("gbit", GIBI / 8),
    ],
    bare: Some(1),
    step: "1b",
    max: (u64::MAX, "18446744073709551615b"),
    words: &[],
};

// tc(8), "TIMES", without its bare numbers.
const TIME: Kind = Kind {
    noun: "time",
    example: "30ms",
    units: &[
        ("s", GIGA),
        ("sec", GIGA),
        ("secs", GIGA),
        ("ms", MEGA),
        ("msec", MEGA),
        ("msecs", MEGA),
        ("us", KILO),
        ("usec", KILO),
        ("usecs", KILO),
        ("ns", 1),
        ("nsec", 1),
        ("nsecs", 1),
    ],
    bare: None,
    step: "1ns",
    max: (u64::MAX, "18446744073709551615ns"),
    words: &[],
};

const PACKET_UNITS: &[&str] = &["p", "pkt", "pkts", "packet", "packets"];

// The units of `SIZE`, and for suggestions those of packets and times, which are read elsewhere.
const LIMIT: Kind = Kind {
    noun: "limit",
    example: "1000p, 200kb or 100ms",
    units: &[
        ("p", 1),
        ("pkt", 1),
        ("pkts", 1),
        ("packet", 1),
        ("packets", 1),
        ("b", 1),
        ("k", KIBI),
        ("kb", KIBI),
        ("m", MEBI),
        ("mb", MEBI),
        ("g", GIBI),
        ("gb", GIBI),
        ("kbit", KIBI / 8),
        ("mbit", MEBI / 8),
        ("gbit", GIBI / 8),
        ("s", GIGA),
        ("ms", MEGA),
        ("us", KILO),
        ("ns", 1),
    ],
    bare: None,
    step: "one packet or 1b",
    max: (u64::MAX, "18446744073709551615b"),
    words: &[],
};

const PERCENT: Kind = Kind {
    noun: "share",
    example: "1%",
    units: &[("%", 1)],
    bare: Some(1),
    step: "1 in 2^32",
    max: (100, "100%"),
    words: &[],
};

#[cfg(test)]
mod tests;
