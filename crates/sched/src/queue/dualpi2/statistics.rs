//! The counters of `dualpi2`.

use core::fmt;

use crate::time::Duration;

/// What `tc -s qdisc` shows of a `dualpi2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dualpi2Statistics {
    /// The base probability in 2^32 - 1.
    pub probability: u32,
    /// How long the head of the classic queue has waited.
    pub delay_c: Duration,
    /// How long the head of the L queue has waited.
    pub delay_l: Duration,
    /// Packets that entered the classic queue.
    pub packets_in_c: u64,
    /// Packets that entered the L queue.
    pub packets_in_l: u64,
    /// The greatest number of packets that an entering one found.
    pub maxq: u64,
    /// Marks made. A packet that both the coupled probability and the step mark counts twice.
    pub ecn_mark: u64,
    /// Marks made by the step.
    pub step_marks: u64,
    /// Packets refused at `limit` or `memlimit`.
    pub overlimits: u64,
    /// The scheduler's credit in percent of bytes; positive = the classic queue's turn.
    pub credit: i64,
    /// Memory of the waiting packets, in bytes of true size.
    pub memory_used: u64,
    /// The greatest memory used.
    pub max_memory_used: u64,
    /// What it may reach.
    pub memory_limit: u64,
}

impl Dualpi2Statistics {
    /// Every counter under its name in the text of `tc -s qdisc`; `prob` counts 2^-32 where `tc`
    /// prints a fraction. `credit` is missing: it has a sign.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("prob", self.probability.into()),
            ("delay_c", micros(self.delay_c)),
            ("delay_l", micros(self.delay_l)),
            ("pkts_in_c", self.packets_in_c),
            ("pkts_in_l", self.packets_in_l),
            ("maxq", self.maxq),
            ("ecn_mark", self.ecn_mark),
            ("step_mark", self.step_marks),
            ("memory_used", self.memory_used),
            ("max_memory_used", self.max_memory_used),
            ("memory_limit", self.memory_limit),
            ("overlimits", self.overlimits),
        ]
    }
}

impl fmt::Display for Dualpi2Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millionths = rounded_millionths(self.probability);
        let (whole, rest) = (millionths / 1_000_000, millionths % 1_000_000);
        let (delay_c, delay_l) = (micros(self.delay_c), micros(self.delay_l));
        writeln!(f, "prob {whole}.{rest:06} delay_c {delay_c}us delay_l {delay_l}us")?;
        let (c, l, maxq) = (self.packets_in_c, self.packets_in_l, self.maxq);
        writeln!(f, "pkts_in_c {c} pkts_in_l {l} maxq {maxq}")?;
        writeln!(f, "ecn_mark {} step_mark {}", self.ecn_mark, self.step_marks)?;
        let turn = if self.credit > 0 { "C-queue" } else { "L-queue" };
        writeln!(f, "credit {} ({turn})", self.credit)?;
        let (used, max, limit) = (self.memory_used, self.max_memory_used, self.memory_limit);
        write!(f, "memory_used {used} (max {max}) of memory limit {limit}")
    }
}

fn micros(span: Duration) -> u64 {
    span.as_nanos() / 1_000
}

fn rounded_millionths(probability: u32) -> u64 {
    let one = u64::from(u32::MAX);
    (u64::from(probability) * 1_000_000 + one / 2) / one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_tc() {
        let statistics = Dualpi2Statistics {
            probability: u32::MAX / 3,
            delay_c: Duration::from_nanos(15_000_999),
            delay_l: Duration::from_micros(7),
            packets_in_c: 700,
            packets_in_l: 12,
            maxq: 112,
            ecn_mark: 9,
            step_marks: 4,
            overlimits: 2,
            credit: 30_280,
            memory_used: 2_304,
            max_memory_used: 258_048,
            memory_limit: 30_280_000,
        };
        let text = "prob 0.333333 delay_c 15000us delay_l 7us\n\
                    pkts_in_c 700 pkts_in_l 12 maxq 112\n\
                    ecn_mark 9 step_mark 4\n\
                    credit 30280 (C-queue)\n\
                    memory_used 2304 (max 258048) of memory limit 30280000";
        assert_eq!(statistics.to_string(), text);
        assert_eq!(statistics.counters().len(), 12);
    }
}
