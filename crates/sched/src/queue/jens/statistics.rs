//! The counters of `jens`.

use core::fmt;

/// Counters over all users, in packets but for `overlimits` and `handovers`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JensStatistics {
    /// Enqueues that found the queue at its limit. Each dropped at least one packet.
    pub overlimits: u64,
    /// Dropped because of the limit, or because it was lowered.
    pub limit_drops: u64,
    /// Dropped because they were too old.
    pub age_drops: u64,
    /// Left with congestion decided, ECN-capable or not.
    pub marked: u64,
    /// Those of them that were not ECN-capable.
    pub not_capable: u64,
    /// Handovers begun, each counted once for all users.
    pub handovers: u64,
}

impl JensStatistics {
    /// Every counter under its name. `tc` knows the first; the module shows the others in its
    /// records only, if at all.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = vec![("overlimits", self.overlimits)];
        counters.extend(self.own());
        counters
    }

    fn own(&self) -> [(&'static str, u64); 5] {
        [
            ("limit_drops", self.limit_drops),
            ("age_drops", self.age_drops),
            ("marked", self.marked),
            ("not_ecn_capable", self.not_capable),
            ("handovers", self.handovers),
        ]
    }
}

/// One line with the counters that the module does not have: `tc` prints no line of its own for it.
impl fmt::Display for JensStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.own().into_iter().enumerate() {
            write!(f, "{}{name} {value}", if index > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}
