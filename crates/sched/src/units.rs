//! Rates, sizes and shares as types.

/// A rate in bits per second: 0 (pause), 1 to 10^12, or unlimited.
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
}

/// A probability as a threshold on 32 random bits, as `tc` stores it: `rint(p * (2^32 - 1))`.
///
/// 0 never happens, 2^32 - 1 always does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probability(u32);

impl Probability {
    /// Never.
    pub const ZERO: Self = Self(0);

    /// From the stored threshold.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// The stored threshold.
    pub const fn as_raw(self) -> u32 {
        self.0
    }
}
