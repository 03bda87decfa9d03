//! How often impairments struck, and how far they spread the delay.

use crate::time::Duration;

/// What the impairments did, in packets (a burst that was kept is one).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImpairmentCounts {
    /// `loss`: lost, or marked instead.
    pub loss: Share,
    /// Of these, marked instead of lost (`ecn`).
    pub loss_marked: u64,
    /// `duplicate`.
    pub duplicate: Share,
    /// `corrupt`.
    pub corrupt: Share,
    /// `reorder`: skipped the delay, of those that the gap let.
    pub reorder: Share,
    /// `jitter`: how far it spread the delay.
    pub jitter: Deviations,
    /// `slot`: slots in which packets left.
    pub slots: u64,
}

impl ImpairmentCounts {
    /// Every counter with its name, for logs; not `jitter`, which every fate tells.
    pub const fn counters(&self) -> [(&'static str, u64); 10] {
        [
            ("loss.opportunities", self.loss.opportunities),
            ("loss.events", self.loss.events),
            ("loss.marked", self.loss_marked),
            ("duplicate.opportunities", self.duplicate.opportunities),
            ("duplicate.events", self.duplicate.events),
            ("corrupt.opportunities", self.corrupt.opportunities),
            ("corrupt.events", self.corrupt.events),
            ("reorder.opportunities", self.reorder.opportunities),
            ("reorder.events", self.reorder.events),
            ("slots", self.slots),
        ]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let Self { loss, loss_marked, duplicate, corrupt, reorder, jitter, slots } = other;
        self.loss.add(*loss);
        self.loss_marked += loss_marked;
        self.duplicate.add(*duplicate);
        self.corrupt.add(*corrupt);
        self.reorder.add(*reorder);
        self.jitter.add(jitter);
        self.slots += slots;
    }
}

/// Of the packets that an event could have struck, those that it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Packets that a draw decided on; none while the impairment is not asked for.
    pub opportunities: u64,
    /// Packets struck.
    pub events: u64,
}

impl Share {
    pub(crate) fn count(&mut self, event: bool) {
        self.opportunities += 1;
        self.events += u64::from(event);
    }

    fn add(&mut self, other: Self) {
        self.opportunities += other.opportunities;
        self.events += other.events;
    }
}

/// How far packets' delays are from the `delay` that was in force as each was drawn, in ns: what the
/// jitter did, and the wait that keeps order, but no wait for a slot. Packets that were drawn while
/// `jitter` was zero do not count, nor do those that skipped the delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deviations {
    /// Packets drawn; a burst that was kept is one.
    pub packets: u64,
    /// The least and the greatest.
    range: Option<(i64, i64)>,
    sum: i128,
}

impl Deviations {
    pub(crate) fn count(&mut self, took: Duration, delay: Duration) {
        let deviation = i128::from(took.as_nanos()) - i128::from(delay.as_nanos());
        let nanos = saturated(deviation);
        self.packets += 1;
        self.sum += deviation;
        self.range =
            Some(self.range.map_or((nanos, nanos), |(least, greatest)| {
                (least.min(nanos), greatest.max(nanos))
            }));
    }

    fn add(&mut self, other: &Self) {
        let &Self { packets, range, sum } = other;
        self.packets += packets;
        self.sum += sum;
        self.range = match (self.range, range) {
            (Some(ours), Some(theirs)) => Some((ours.0.min(theirs.0), ours.1.max(theirs.1))),
            (ours, theirs) => ours.or(theirs),
        };
    }

    /// The least; none without a packet.
    pub fn least_ns(&self) -> Option<i64> {
        Some(self.range?.0)
    }

    /// The mean, rounded down.
    pub fn mean_ns(&self) -> Option<i64> {
        let packets = i128::from(self.packets);
        (packets > 0).then(|| saturated(self.sum.div_euclid(packets)))
    }

    /// The greatest.
    pub fn greatest_ns(&self) -> Option<i64> {
        Some(self.range?.1)
    }
}

fn saturated(nanos: i128) -> i64 {
    let bound = if nanos < 0 { i64::MIN } else { i64::MAX };
    i64::try_from(nanos).unwrap_or(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_add_up_and_their_mean_is_rounded_down() {
        let of = |took: &[u64]| {
            let mut deviations = Deviations::default();
            for &nanos in took {
                deviations.count(Duration::from_nanos(nanos), Duration::from_nanos(10));
            }
            deviations
        };
        let mut sum = of(&[]);
        assert_eq!((sum.least_ns(), sum.mean_ns(), sum.greatest_ns()), (None, None, None));
        sum.add(&of(&[9, 10]));
        assert_eq!(
            (sum.least_ns(), sum.mean_ns(), sum.greatest_ns()),
            (Some(-1), Some(-1), Some(0))
        );
        sum.add(&of(&[]));
        sum.add(&of(&[17, 14]));
        assert_eq!(
            (sum.least_ns(), sum.mean_ns(), sum.greatest_ns()),
            (Some(-1), Some(2), Some(7))
        );
        assert_eq!((sum.packets, of(&[9, 10, 17, 14])), (4, sum));
        sum.add(&of(&[u64::MAX, u64::MAX]));
        assert_eq!(
            (sum.mean_ns(), sum.greatest_ns()),
            (Some(6_148_914_691_236_517_203), Some(i64::MAX))
        );
    }
}
