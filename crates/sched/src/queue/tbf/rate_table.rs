//! How long bytes take at a rate, as Linux computes it.

use core::num::NonZero;

/// A rate as a multiplication and a shift, so that no packet costs a division.
///
/// `time(len)` is `(L * mult) >> shift` nanoseconds, where `L` is `len` with `overhead` added,
/// raised to `mpu`, and on ATM grown to whole cells. `mult` has 32 significant bits, so a time is
/// short by less than one part in 2^31, never long: what tbf, htb and other rate-controlled
/// disciplines of Linux do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateTable {
    mult: u32,
    shift: u32,
    overhead: u32,
    mpu: u32,
    link_layer: LinkLayer,
}

/// What a packet becomes on the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkLayer {
    /// As many bytes as it has.
    #[default]
    Ethernet,
    /// Cells of 53 bytes that carry 48 each (AAL5 without its trailer, which is `overhead`).
    Atm,
}

impl RateTable {
    /// The table for `rate` bytes per second, with no overhead, no least size, on Ethernet.
    pub fn new(rate: NonZero<u64>) -> Self {
        let (mut factor, mut shift) = (NANOS_PER_SECOND, 0);
        while factor / rate <= MULT_HALF && factor < FACTOR_HALF {
            factor *= 2;
            shift += 1;
        }
        // More than 32 bits never appear: a second is less than 2^32 ns, and at the last step
        // the quotient was below 2^31.
        let mult = u32::try_from(factor / rate).unwrap_or(u32::MAX);
        Self { mult, shift, overhead: 0, mpu: 0, link_layer: LinkLayer::default() }
    }

    /// Every packet counts `overhead` bytes more.
    #[must_use]
    pub const fn with_overhead(self, overhead: u32) -> Self {
        Self { overhead, ..self }
    }

    /// No packet counts as less than `mpu` bytes, overhead included.
    #[must_use]
    pub const fn with_mpu(self, mpu: u32) -> Self {
        Self { mpu, ..self }
    }

    /// Packets are carried by `link_layer`.
    #[must_use]
    pub const fn with_link_layer(self, link_layer: LinkLayer) -> Self {
        Self { link_layer, ..self }
    }

    /// Nanoseconds that a packet of `len` bytes takes, at most 2^63 - 1.
    #[inline]
    pub fn time(&self, len: u64) -> i64 {
        let bytes = self.line_bytes(len);
        // Both factors have 32 bits at most for any packet that there is.
        if u32::try_from(bytes).is_ok() {
            return i64::try_from((bytes * u64::from(self.mult)) >> self.shift).unwrap_or(i64::MAX);
        }
        let nanos = (u128::from(bytes) * u128::from(self.mult)) >> self.shift;
        i64::try_from(nanos).unwrap_or(i64::MAX)
    }

    /// Multiplier and shift.
    pub const fn factors(&self) -> (u32, u32) {
        (self.mult, self.shift)
    }

    /// Bytes on the line.
    #[inline]
    fn line_bytes(&self, len: u64) -> u64 {
        let bytes = len.saturating_add(u64::from(self.overhead)).max(u64::from(self.mpu));
        match self.link_layer {
            LinkLayer::Ethernet => bytes,
            LinkLayer::Atm => bytes.div_ceil(CELL_PAYLOAD).saturating_mul(CELL),
        }
    }
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Doubled until the multiplier has its bit 31 set ...
const MULT_HALF: u64 = (1 << 31) - 1;
/// ... or the dividend its bit 63.
const FACTOR_HALF: u64 = 1 << 63;
/// ITU-T I.361: bytes of an ATM cell, and of its payload.
const CELL: u64 = 53;
const CELL_PAYLOAD: u64 = 48;

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rate: u64) -> RateTable {
        RateTable::new(NonZero::new(rate).unwrap())
    }

    #[test]
    fn multipliers_and_shifts_are_those_of_linux() {
        for (rate, mult, shift, time) in [
            (125_000, 4_194_304_000, 19, 12_112_000),
            (25_000_000, 2_684_354_560, 26, 60_560),
            (62_500_000, 2_147_483_648, 27, 24_224),
            (12_500_000_000, 1_374_389_534, 34, 121),
        ] {
            assert_eq!(table(rate).factors(), (mult, shift), "{rate}");
            assert_eq!(table(rate).time(1_514), time, "{rate}");
        }
    }

    #[test]
    fn the_slowest_and_the_fastest_rate_have_a_table() {
        assert_eq!(table(1).time(1), 1_000_000_000);
        assert_eq!(table(1).time(u64::MAX), i64::MAX);
        // 1 tbit/s: 8 ps a byte, cut off.
        assert_eq!(table(125_000_000_000).time(1_500), 11);
        assert_eq!(table(u64::MAX).time(1_500), 0);
    }

    #[test]
    fn overhead_comes_before_the_least_size_and_that_before_cells() {
        let kilobyte = table(1_000_000);
        assert_eq!(kilobyte.with_overhead(24).with_mpu(84).time(40), 84_000);
        assert_eq!(kilobyte.with_overhead(24).with_mpu(84).time(61), 85_000);
        let atm = kilobyte.with_link_layer(LinkLayer::Atm);
        assert_eq!(atm.time(48), 53_000);
        assert_eq!(atm.time(49), 106_000);
        assert_eq!(atm.with_overhead(10).time(2_000), 2_226_000);
    }

    #[test]
    fn times_are_short_by_less_than_two_to_the_minus_31_of_themselves_and_a_nanosecond() {
        for rate in [1, 7, 1_000, 124_999, 1_234_567, 99_999_999, 4_294_967_296] {
            for len in [1_u64, 64, 1_514, 65_535, 1 << 32] {
                let exact = u128::from(len) * 1_000_000_000 / u128::from(rate);
                let time = u128::from(table(rate).time(len).unsigned_abs());
                assert!(time <= exact, "{rate} {len}");
                assert!(exact - time <= 1 + (exact >> 31), "{rate} {len}: {time} for {exact}");
            }
        }
    }
}
