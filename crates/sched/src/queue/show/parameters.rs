//! What `tc -d qdisc show` tells of each discipline's parameters: its words, its order, its figures
//! and what it leaves out. What `tc` has no word for comes last, when it is not the default.

use super::figures::{list, micros, nanos, rate, size};
use super::{dualpi2, netem, tbf};
use crate::config::{Limit, LinkConfig};
use crate::output::Snapshot;
use crate::parameter::TABLES;
use crate::queue::Statistics;
use crate::queue::codel::{Arithmetic, CodelConfig};
use crate::queue::fq::{HorizonMode, MaxRateZero, Wake};
use crate::queue::fq_codel::Selector;
use crate::units::Rate;

/// The words after `root`, what is derived as it is in force.
pub(super) fn parameters(config: &LinkConfig, snapshot: &Snapshot) -> String {
    let words = match &snapshot.discipline {
        Statistics::Fifo => vec![limit(config)],
        Statistics::Tbf(_) => tbf::parameters(config),
        Statistics::Fq(_) => fq(config),
        Statistics::Codel(_) => codel(config),
        Statistics::FqCodel(_) => fq_codel(config),
        Statistics::Dualpi2(counters) => dualpi2::parameters(config, counters.memory_limit),
        Statistics::Netem(counters) => netem::parameters(config, counters.seed),
        Statistics::Jens(_) => jens(config),
    };
    let said: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    if said.is_empty() { String::new() } else { format!(" {}", said.join(" ")) }
}

/// A word, or an empty one.
pub(super) fn when(said: bool, word: impl Into<String>) -> String {
    if said { word.into() } else { String::new() }
}

/// Empty for a queue without a bound.
pub(super) fn limit(config: &LinkConfig) -> String {
    match config.with_limit_resolved().limit {
        Some(Limit::Packets(packets)) => format!("limit {packets}p"),
        Some(Limit::Bytes(bytes)) => format!("limit {}", size(bytes)),
        // Resolved, a time is bytes.
        Some(Limit::Time(_)) | None => String::new(),
    }
}

fn fq(config: &LinkConfig) -> Vec<String> {
    let fq = &config.fq;
    let horizon_mode = match fq.horizon_mode {
        HorizonMode::Drop => "horizon_drop",
        HorizonMode::Cap => "horizon_cap",
    };
    let initial_quantum = fq.resolved_initial_quantum(config.framing);
    vec![
        limit(config),
        format!("flow_limit {}p", fq.flow_limit),
        format!("buckets {}", fq.buckets),
        format!("orphan_mask {}", fq.orphan_mask),
        when(!fq.pacing, "nopacing"),
        format!("bands 3 priomap {}", list(&fq.priomap)),
        format!("weights {}", list(&fq.weights)),
        format!("quantum {}", size(fq.resolved_quantum(config.framing).into())),
        format!("initial_quantum {}", size(initial_quantum.into())),
        when(fq.max_rate != Rate::UNLIMITED, format!("maxrate {}", rate(fq.max_rate))),
        format!("low_rate_threshold {}", rate(fq.low_rate_threshold)),
        format!("refill_delay {}", micros(fq.refill_delay)),
        fq.ce_threshold.map_or_else(String::new, |t| format!("ce_threshold {}", micros(t))),
        format!("timer_slack {}", nanos(fq.timer_slack.as_nanos())),
        format!("horizon {} {horizon_mode}", micros(fq.horizon)),
        when(fq.wake == Wake::Slack, "wake slack"),
        when(fq.max_rate_zero == MaxRateZero::Second, "maxrate_zero second"),
    ]
}

fn codel(config: &LinkConfig) -> Vec<String> {
    let codel = &config.codel;
    vec![
        limit(config),
        format!("target {}", micros(codel.target)),
        ce_threshold(codel),
        format!("interval {}", micros(codel.interval)),
        when(codel.ecn, "ecn"),
        arithmetic(codel),
    ]
}

fn fq_codel(config: &LinkConfig) -> Vec<String> {
    let (fq_codel, codel) = (&config.fq_codel, &config.fq_codel.codel);
    let Selector { value, mask } = fq_codel.selector;
    vec![
        limit(config),
        format!("flows {}", fq_codel.flows),
        format!("quantum {}", fq_codel.resolved_quantum(config)),
        format!("target {}", micros(codel.target)),
        ce_threshold(codel),
        when(mask != 0, format!("ce_threshold_selector {value:#x}/{mask:#x}")),
        format!("interval {}", micros(codel.interval)),
        format!("memory_limit {}", size(fq_codel.memory_limit.into())),
        when(codel.ecn, "ecn"),
        format!("drop_batch {}", fq_codel.drop_batch),
        arithmetic(codel),
    ]
}

fn ce_threshold(codel: &CodelConfig) -> String {
    codel.ce_threshold.map_or_else(String::new, |t| format!("ce_threshold {}", micros(t)))
}

fn arithmetic(codel: &CodelConfig) -> String {
    when(codel.arithmetic == Arithmetic::Linux, "arithmetic linux")
}

/// `tc` has no words for it: ours.
fn jens(config: &LinkConfig) -> Vec<String> {
    let own = TABLES.iter().filter(|table| table.name == "jens").flat_map(|table| table.rows);
    let own: Vec<_> = own.map(|row| row.name).collect();
    let entries = config.entries().into_iter().filter(|(name, _)| own.contains(name));
    let words =
        entries.map(|(name, value)| format!("{} {value}", name.trim_start_matches("jens.")));
    [limit(config), format!("rate {}", rate(config.rate))].into_iter().chain(words).collect()
}
