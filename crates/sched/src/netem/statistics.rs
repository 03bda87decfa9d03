//! What netem has decided.

use core::fmt;

/// Counters of a netem since its start. Packets count as they were enqueued, a burst as one,
/// unless it says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetemStatistics {
    /// Packets on which loss was decided, duplicates included.
    pub offered: u64,
    /// Lost by the loss model. A packet that was lost and duplicated is sent once and counts in
    /// neither.
    pub lost: u64,
    /// Marked by the loss model instead of lost (`ecn`).
    pub marked: u64,
    /// Dropped at `netem.limit`.
    pub limit_drops: u64,
    /// Duplicates made.
    pub duplicated: u64,
    /// With a flipped bit.
    pub corrupted: u64,
    /// Put to the time queue with a send time that lay ahead.
    pub delayed: u64,
    /// Sent at once, before all others.
    pub reordered: u64,
    /// Left after a packet that had been enqueued later (RFC 4737, section 3), by whatever cause.
    pub overtaken: u64,
    /// Latency asked for the packets sent, the waits for a rate and for slots left out, in ns.
    pub latency_ns: u64,
    /// Time that the packets sent were held, in ns.
    pub held_ns: u64,
    /// Seed of the decisions: the one asked for, else the one derived. No counter.
    pub seed: u64,
}

impl NetemStatistics {
    /// `dropped` of `tc -s qdisc`: marked packets count in it, though they are sent.
    pub const fn tc_dropped(&self) -> u64 {
        self.lost + self.marked + self.limit_drops
    }

    /// Every counter with its name, in the order of `tc`'s text, then those that only we have.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("drops", self.tc_dropped()),
            ("requeues", self.reordered),
            ("delayed", self.delayed),
            ("dropped", self.lost),
            ("corrupted", self.corrupted),
            ("duplicated", self.duplicated),
            ("reordered", self.reordered),
            ("ecn_marked", self.marked),
            ("offered", self.offered),
            ("limit_drops", self.limit_drops),
            ("overtaken", self.overtaken),
            ("latency_ns", self.latency_ns),
            ("held_ns", self.held_ns),
        ]
    }
}

/// The line that `tc -s qdisc` adds. Its `dropped` is what the loss model took.
impl fmt::Display for NetemStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { delayed, lost, corrupted, duplicated, reordered, marked, .. } = self;
        write!(
            f,
            "delayed {delayed} dropped {lost} corrupted {corrupted} duplicated {duplicated} \
             reordered {reordered} ecn_marked {marked}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_tc() {
        let statistics = NetemStatistics {
            lost: 11,
            marked: 2,
            limit_drops: 3,
            duplicated: 6,
            corrupted: 1,
            delayed: 350,
            reordered: 45,
            ..NetemStatistics::default()
        };
        assert_eq!(
            statistics.to_string(),
            "delayed 350 dropped 11 corrupted 1 duplicated 6 reordered 45 ecn_marked 2"
        );
        let drops =
            statistics.counters().iter().find(|(name, _)| *name == "drops").map(|&(_, n)| n);
        assert_eq!(drops, Some(16));
    }
}
