//! dualpi2's parameters as `tc` shows them.

use super::figures::{gain, micros};
use super::parameters::limit;
use crate::config::{Gso, LinkConfig};
use crate::queue::dualpi2::{Classify, DropAt, Overload, StepThreshold};
use crate::units::Gain;

pub(super) fn parameters(config: &LinkConfig, memory_limit: u64) -> Vec<String> {
    let dualpi2 = &config.dualpi2;
    let threshold = match dualpi2.step_thresh {
        StepThreshold::Time(time) => micros(time),
        StepThreshold::Packets(packets) => format!("{packets}p"),
    };
    let overload = match dualpi2.overload {
        Overload::Drop => "drop_on_overload",
        Overload::Overflow => "overflow",
    };
    let drop = match dualpi2.drop {
        DropAt::Dequeue => "drop_dequeue",
        DropAt::Enqueue => "drop_enqueue",
    };
    let classify = match dualpi2.classify {
        Classify::L4sEct => "l4s_ect",
        Classify::AnyEct => "any_ect",
    };
    vec![
        limit(config),
        format!("memlimit {memory_limit}B"),
        format!("target {}", micros(dualpi2.target)),
        format!("tupdate {}", micros(dualpi2.tupdate)),
        format!("alpha {}", gain(told(dualpi2.alpha))),
        format!("beta {}", gain(told(dualpi2.beta))),
        format!("step_thresh {threshold}"),
        format!("min_qlen_step {}p", dualpi2.min_qlen_step),
        format!("coupling_factor {}", dualpi2.coupling_factor),
        format!("{overload} {drop}"),
        format!("classic_protection {}%", dualpi2.classic_protection),
        classify.into(),
        if config.gso == Gso::Keep { "no_split_gso" } else { "split_gso" }.into(),
    ]
}

/// A gain as the kernel tells it, in steps of 1/256: it keeps gains in 2^-6 steps of the probability
/// per nanosecond and turns them back, both rounded down. 0.16, which is 41 steps, comes back as 40.
fn told(gain: Gain) -> u64 {
    let kept = u64::from(gain.as_raw()) * u64::from(u32::MAX) / 4 / NANOS_PER_SECOND;
    let steps = u128::from(kept) * u128::from(NANOS_PER_SECOND) * 4 / u128::from(u32::MAX);
    u64::try_from(steps).unwrap_or(u64::MAX)
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
