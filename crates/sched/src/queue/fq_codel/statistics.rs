//! The counters of fq_codel.

use core::fmt;

/// Counters of fq_codel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FqCodelStatistics {
    /// Bytes of the largest packet judged.
    pub maxpacket: u64,
    /// Packets dropped for want of room, of `limit` or of memory.
    pub drop_overlimit: u64,
    /// Times that a flow became a new one.
    pub new_flow_count: u64,
    /// Packets marked by the controllers.
    pub ecn_mark: u64,
    /// Packets marked because they had waited for longer than ce_threshold.
    pub ce_mark: u64,
    /// Memory that packets hold, in bytes of true size.
    pub memory_used: u64,
    /// Packets dropped for want of memory.
    pub drop_overmemory: u64,
    /// Flows listed as new.
    pub new_flows_len: u64,
    /// Flows listed as old.
    pub old_flows_len: u64,
}

impl FqCodelStatistics {
    /// Under the names that `tc -s -j qdisc` gives them.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("maxpacket", self.maxpacket),
            ("drop_overlimit", self.drop_overlimit),
            ("new_flow_count", self.new_flow_count),
            ("ecn_mark", self.ecn_mark),
            ("ce_mark", self.ce_mark),
            ("memory_used", self.memory_used),
            ("drop_overmemory", self.drop_overmemory),
            ("new_flows_len", self.new_flows_len),
            ("old_flows_len", self.old_flows_len),
        ]
    }
}

/// The lines that `tc -s qdisc` prints, which leave out some counters that are 0.
impl fmt::Display for FqCodelStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "maxpacket {} drop_overlimit {} new_flow_count {} ecn_mark {}",
            self.maxpacket, self.drop_overlimit, self.new_flow_count, self.ecn_mark
        )?;
        for (name, value) in [
            ("ce_mark", self.ce_mark),
            ("memory_used", self.memory_used),
            ("drop_overmemory", self.drop_overmemory),
        ] {
            if value > 0 {
                write!(f, " {name} {value}")?;
            }
        }
        write!(f, "\nnew_flows_len {} old_flows_len {}", self.new_flows_len, self.old_flows_len)
    }
}
