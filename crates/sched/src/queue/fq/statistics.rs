//! The counters of `fq`, as `tc -s qdisc` prints them.

use core::fmt;

use crate::queue::show::figures::nanos;

/// Counters and present state of `fq`. Packets are counted as descriptors, an uncut burst as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FqStatistics {
    /// Flows known.
    pub flows: u64,
    /// Of these, flows without packets.
    pub inactive_flows: u64,
    /// Of these, flows that wait for their time.
    pub throttled_flows: u64,
    /// Packets queued in each band.
    pub band_packets: [u64; 3],
    /// Nanoseconds from the discipline's latest time to its next wake-up; 0 = none.
    pub next_packet_delay: u64,
    /// Flows forgotten because they were idle for more than three seconds.
    pub gc_flows: u64,
    /// Packets that left without a flow, because nothing was in their way.
    pub fastpath_packets: u64,
    /// How many times a flow began to wait for its time.
    pub throttled: u64,
    /// How late throttled flows were looked at, in nanoseconds: an average of weight 1/8.
    pub latency: u64,
    /// Packets beyond `ce_threshold`, whether a mark could be written or not.
    pub ce_mark: u64,
    /// Packets dropped at `flow_limit`.
    pub flows_plimit: u64,
    /// Gaps cut to a second.
    pub pkts_too_long: u64,
    /// Flows that had no room: their packets went without one.
    pub allocation_errors: u64,
    /// Packets dropped beyond the horizon.
    pub horizon_drops: u64,
    /// Packets brought forward to the horizon.
    pub horizon_caps: u64,
    /// Packets dropped at each band's `limit`.
    pub band_drops: [u64; 3],
}

impl FqStatistics {
    /// Every counter, by the names of `tc -s -j qdisc`; but its two `throttled` are told apart, and
    /// what it leaves out when it is 0 is here.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let [band0, band1, band2] = self.band_packets;
        let [drops0, drops1, drops2] = self.band_drops;
        vec![
            ("flows", self.flows),
            ("inactive", self.inactive_flows),
            ("throttled_flows", self.throttled_flows),
            ("band0_pkts", band0),
            ("band1_pkts", band1),
            ("band2_pkts", band2),
            ("next_packet_delay", self.next_packet_delay),
            ("gc", self.gc_flows),
            // Of no use since there are bands.
            ("highprio", 0),
            ("fastpath", self.fastpath_packets),
            ("throttled", self.throttled),
            ("latency", self.latency),
            ("ce_mark", self.ce_mark),
            ("flows_plimit", self.flows_plimit),
            ("pkts_too_long", self.pkts_too_long),
            ("alloc_errors", self.allocation_errors),
            ("horizon_drops", self.horizon_drops),
            ("horizon_caps", self.horizon_caps),
            ("band0_drops", drops0),
            ("band1_drops", drops1),
            ("band2_drops", drops2),
        ]
    }
}

/// Three lines, the last one only when something in it is not 0.
impl fmt::Display for FqStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "flows {} (inactive {} throttled {})",
            self.flows, self.inactive_flows, self.throttled_flows
        )?;
        for (band, packets) in self.band_packets.iter().enumerate() {
            write!(f, " band{band}_pkts {packets}")?;
        }
        if self.next_packet_delay > 0 {
            write!(f, " next_packet_delay {}", nanos(self.next_packet_delay))?;
        }
        write!(f, "\ngc {} highprio 0", self.gc_flows)?;
        write_nonzero(f, &[("fastpath", self.fastpath_packets)])?;
        write!(f, " throttled {}", self.throttled)?;
        if self.latency > 0 {
            write!(f, " latency {}", nanos(self.latency))?;
        }
        write_nonzero(f, &[("ce_mark", self.ce_mark), ("flows_plimit", self.flows_plimit)])?;
        self.write_rare(f)
    }
}

impl FqStatistics {
    fn write_rare(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [drops0, drops1, drops2] = self.band_drops;
        let rare = [
            ("pkts_too_long", self.pkts_too_long),
            ("alloc_errors", self.allocation_errors),
            ("horizon_drops", self.horizon_drops),
            ("horizon_caps", self.horizon_caps),
            ("band0_drops", drops0),
            ("band1_drops", drops1),
            ("band2_drops", drops2),
        ];
        if rare.iter().any(|(_, value)| *value > 0) {
            f.write_str("\n")?;
            let mut between = "";
            for (name, value) in rare.iter().filter(|(_, value)| *value > 0) {
                write!(f, "{between}{name} {value}")?;
                between = " ";
            }
        }
        Ok(())
    }
}

fn write_nonzero(f: &mut fmt::Formatter<'_>, counters: &[(&str, u64)]) -> fmt::Result {
    let mut nonzero = counters.iter().filter(|(_, value)| *value > 0);
    nonzero.try_for_each(|(name, value)| write!(f, " {name} {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_tc_and_rare_counters_show_when_they_count() {
        let mut statistics = FqStatistics { flows: 2, inactive_flows: 2, ..Default::default() };
        statistics.throttled = 30;
        statistics.latency = 9_814;
        statistics.flows_plimit = 90;
        let expected = "flows 2 (inactive 2 throttled 0) band0_pkts 0 band1_pkts 0 band2_pkts 0\n\
                        gc 0 highprio 0 throttled 30 latency 9.81us flows_plimit 90";
        assert_eq!(statistics.to_string(), expected);
        statistics.fastpath_packets = 4;
        statistics.next_packet_delay = 1_500;
        statistics.horizon_caps = 7;
        statistics.band_drops = [0, 3, 0];
        let expected = "flows 2 (inactive 2 throttled 0) band0_pkts 0 band1_pkts 0 band2_pkts 0 \
                        next_packet_delay 1.5us\n\
                        gc 0 highprio 0 fastpath 4 throttled 30 latency 9.81us flows_plimit 90\n\
                        horizon_caps 7 band1_drops 3";
        assert_eq!(statistics.to_string(), expected);
    }
}
