//! Rates as whole nanoseconds per byte.

use crate::time::Duration;
use crate::units::Rate;

/// A rate as the module keeps it: whole nanoseconds per byte, at least 1. So no rate is above
/// 8 Gbit/s, and one that does not divide 8 * 10^9 is rounded up: 15 Mbit/s becomes 15.009.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Nanoseconds per byte of the real rate.
    per_byte: u64,
    /// The virtual rate is this many times slower.
    factor: u64,
}

impl Pace {
    /// As the control file computes it: `floor(8e9 / bit/s)`, divided by the virtual queue's
    /// `factor` and rounded up. `None` for pause and unlimited.
    pub fn new(rate: Rate, factor: u32) -> Option<Self> {
        rate.finite_bps().map(|bps| Self::shared(BITS_PER_NANO / bps, factor))
    }

    /// As a rate typed in `tc` arrives: `floor(1e9 / floor(bit/s / 8))`. `None` for pause,
    /// unlimited, and below 8 bit/s, where the module divides by zero. Equal to [`Pace::new`]
    /// for whole bytes per second.
    pub fn from_tc(rate: Rate, factor: u32) -> Option<Self> {
        let per_byte = BYTES_PER_NANO.checked_div(rate.finite_bps()? / 8)?;
        Some(Self::shared(per_byte, factor))
    }

    fn shared(per_byte: u64, factor: u32) -> Self {
        let factor = u64::from(factor.max(1));
        Self { per_byte: per_byte.max(1).div_ceil(factor), factor }
    }

    /// Nanoseconds per byte of the real rate.
    pub const fn nanos_per_byte(self) -> u64 {
        self.per_byte
    }

    /// How long `bytes` take at the real rate; saturates.
    pub const fn time(self, bytes: u64) -> Duration {
        Duration::from_nanos(self.per_byte.saturating_mul(bytes))
    }

    /// How long `bytes` take at the virtual rate; saturates.
    pub const fn virtual_time(self, bytes: u64) -> Duration {
        Duration::from_nanos(self.virtual_per_byte().saturating_mul(bytes))
    }

    /// The real rate in bit/s as records tell it, at least 1.
    pub const fn real_bps(self) -> u64 {
        at_least_one(BITS_PER_NANO / self.per_byte)
    }

    /// The virtual rate in bit/s as records tell it, at least 1.
    pub const fn virtual_bps(self) -> u64 {
        at_least_one(BITS_PER_NANO / self.virtual_per_byte())
    }

    /// The virtual rate in bytes/s as `tc qdisc show` tells it, at least 1.
    pub const fn tc_bytes_per_second(self) -> u64 {
        at_least_one(BYTES_PER_NANO / self.virtual_per_byte())
    }

    const fn virtual_per_byte(self) -> u64 {
        self.per_byte * self.factor
    }
}

const fn at_least_one(rate: u64) -> u64 {
    if rate == 0 { 1 } else { rate }
}

/// Bits per second at which a bit takes a nanosecond, times 8: at 1 ns per byte.
const BITS_PER_NANO: u64 = 8_000_000_000;
/// Bytes per second at 1 ns per byte.
const BYTES_PER_NANO: u64 = 1_000_000_000;
