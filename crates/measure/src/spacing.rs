//! Spacing and rate of a train of packets, by the receiver's stamps.

use crate::distribution::Distribution;
use serde::{Deserialize, Serialize};

/// One packet as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The receiver's stamp in ns, on any one clock.
    pub stamp_ns: i64,
    /// What the rate counts of it: the IP packet plus the link's framing, in bytes.
    pub frame_bytes: u64,
}

/// Spacing of a saturated link's packets against its rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spacing {
    /// How far each gap was from the serialisation time of the packet that ends it, without sign.
    pub error: Distribution,
    /// Bits after the first packet divided by the time from the first stamp to the last, rounded
    /// to the nearest; null with fewer than two packets or no time between them.
    pub rate_bps: Option<u64>,
}

/// The spacing of `train`, in the order received, against a link of `rate_bps`. The packets must
/// be back to back: on a link that idles, a gap is no error. A rate of 0 has no ideal gap and
/// gives no error samples.
pub fn of(train: &[Received], rate_bps: u64) -> Spacing {
    let gaps = train.windows(2).filter_map(|pair| gap_error_ns(pair[0], pair[1], rate_bps));
    let mut errors: Vec<i64> = gaps.collect();
    Spacing { error: Distribution::from_samples(&mut errors), rate_bps: train_rate_bps(train) }
}

/// The rate of a transmission: bits after the first packet over the time from the first to the
/// last, in bit/s, rounded to the nearest. `None` where no time passed or it ran backwards.
pub fn rate_after_first_bps(bytes_after_first: u64, first_ns: i64, last_ns: i64) -> Option<u64> {
    let time = u128::try_from(i128::from(last_ns) - i128::from(first_ns)).ok()?;
    let scaled = u128::from(bytes_after_first) * 8 * NS_PER_S;
    let rounded = (scaled + time / 2).checked_div(time)?;
    u64::try_from(rounded).ok()
}

fn train_rate_bps(train: &[Received]) -> Option<u64> {
    let (first, rest) = train.split_first()?;
    let bytes = rest.iter().map(|packet| packet.frame_bytes).sum();
    rate_after_first_bps(bytes, first.stamp_ns, rest.last()?.stamp_ns)
}

fn gap_error_ns(before: Received, after: Received, rate_bps: u64) -> Option<i64> {
    let bits = u128::from(after.frame_bytes) * 8;
    let rate = u128::from(rate_bps);
    let ideal = (bits * NS_PER_S + rate / 2).checked_div(rate)?;
    let gap = i128::from(after.stamp_ns) - i128::from(before.stamp_ns);
    let error = (gap - i128::try_from(ideal).ok()?).abs();
    Some(i64::try_from(error).unwrap_or(i64::MAX))
}

const NS_PER_S: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn train(packets: &[(i64, u64)]) -> Vec<Received> {
        packets.iter().map(|&(stamp_ns, frame_bytes)| Received { stamp_ns, frame_bytes }).collect()
    }

    #[test]
    fn a_perfect_train_has_no_error_and_the_exact_rate() {
        // 1250 bytes at 20 Mbit/s take 500 us.
        let perfect: Vec<_> = (0..=2000).map(|i| (7 + i * 500_000, 1250)).collect();
        let spacing = of(&train(&perfect), 20_000_000);
        assert_eq!((spacing.error.n, spacing.error.max_ns), (2000, Some(0)));
        assert_eq!(spacing.rate_bps, Some(20_000_000));
    }

    #[test]
    fn the_packet_that_ends_a_gap_determines_its_length() {
        let mixed = train(&[(0, 9999), (500_000, 1250), (540_000, 100), (1_040_003, 1250)]);
        let spacing = of(&mixed, 20_000_000);
        assert_eq!((spacing.error.max_ns, spacing.error.p50_ns), (Some(3), Some(0)));
    }

    #[test]
    fn a_bunched_pair_is_two_errors_of_the_same_size() {
        let spacing = of(&train(&[(0, 1250), (200_000, 1250), (1_000_000, 1250)]), 20_000_000);
        assert_eq!((spacing.error.min_ns, spacing.error.max_ns), (Some(300_000), Some(300_000)));
        assert_eq!(spacing.rate_bps, Some(20_000_000));
    }

    #[test]
    fn stamps_out_of_order_are_kept_as_an_error() {
        let spacing = of(&train(&[(0, 125), (-1_000, 125)]), 1_000_000_000);
        assert_eq!((spacing.error.max_ns, spacing.rate_bps), (Some(2_000), None));
    }

    #[test]
    fn too_few_packets_have_neither_gap_nor_rate() {
        for few in [vec![], train(&[(5, 1250)])] {
            assert_eq!(of(&few, 20_000_000), Spacing::default());
        }
        assert_eq!(of(&train(&[(0, 1), (1, 1)]), 0).error.n, 0);
        assert_eq!(rate_after_first_bps(1_000, 5, 5), None);
    }
}
