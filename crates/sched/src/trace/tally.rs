//! How many opportunities a timeline has up to any time, found by a search.

use super::Delivery;
use super::cursor::Place;
use crate::time::Duration;

/// Sums of opportunities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    /// Opportunities before each [`BLOCK`]th delivery.
    sums: Vec<u64>,
    total: u64,
}

impl Tally {
    pub(super) fn new(deliveries: &[Delivery]) -> Self {
        let mut sums = Vec::with_capacity(deliveries.len().div_ceil(BLOCK));
        let mut total = 0;
        for block in deliveries.chunks(BLOCK) {
            sums.push(total);
            // 2^25 deliveries of fewer than 2^32 opportunities each.
            total += count(block);
        }
        Self { sums, total }
    }

    /// Opportunities of a whole round.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Opportunities from the beginning of the first round up to `place`, those at it included.
    pub(super) fn through(&self, deliveries: &[Delivery], place: Place) -> u128 {
        place.round * u128::from(self.total) + u128::from(self.within(deliveries, place.within))
    }

    fn within(&self, deliveries: &[Delivery], within: Duration) -> u64 {
        let index = deliveries.partition_point(|delivery| delivery.at <= within);
        let block = index / BLOCK;
        let before = self.sums.get(block).copied().unwrap_or(self.total);
        before + count(&deliveries[block * BLOCK..index])
    }
}

fn count(deliveries: &[Delivery]) -> u64 {
    deliveries.iter().map(|delivery| u64::from(delivery.count)).sum()
}

/// Deliveries from one kept sum to the next.
const BLOCK: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_counting_one_by_one() {
        for length in [1, 63, 64, 65, 128, 200] {
            let nanos = |index: u64| Duration::from_nanos(index * 3);
            let delivery = |index| Delivery { at: nanos(index), count: 1 + (index % 5) as u32 };
            let deliveries: Vec<_> = (0..length).map(delivery).collect();
            let tally = Tally::new(&deliveries);
            assert_eq!(tally.total(), count(&deliveries));
            for at in 0..length * 3 + 2 {
                let within = Duration::from_nanos(at);
                let passed = deliveries.iter().filter(|delivery| delivery.at <= within);
                let expected: u64 = passed.map(|delivery| u64::from(delivery.count)).sum();
                let place = Place { round: 2, within };
                let through = tally.through(&deliveries, place);
                assert_eq!(through, u128::from(2 * tally.total() + expected), "{length}: {at}");
            }
        }
    }
}
