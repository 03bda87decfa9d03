//! netem's parameters as `tc` shows them: it has no word for the distribution of a delay.

use super::figures::{nanos, percent, rate};
use super::parameters::when;
use crate::config::LinkConfig;
use crate::impair::{Correlated, Loss, Reorder, Slot, SlotGap};
use crate::time::Duration;
use crate::units::{Probability, Rate};

pub(super) fn parameters(config: &LinkConfig, seed: u64) -> Vec<String> {
    let (reorder, gap) = match config.reorder {
        Reorder::Skip { probability, correlation, gap } => {
            (Correlated { probability, correlation }, gap)
        }
        Reorder::None | Reorder::Jitter => (Correlated::NEVER, 0),
    };
    let netem = &config.netem;
    vec![
        format!("limit {}", netem.limit),
        delay(config),
        loss(config.loss),
        event("duplicate", config.duplicate),
        event("reorder", reorder),
        event("corrupt", config.corrupt),
        when(config.rate != Rate::UNLIMITED, format!("rate {}", rate(config.rate))),
        when(netem.packet_overhead != 0, format!("packetoverhead {}", netem.packet_overhead)),
        when(netem.cell_size != 0, format!("cellsize {}", netem.cell_size)),
        when(netem.cell_overhead != 0, format!("celloverhead {}", netem.cell_overhead)),
        config.slot.as_ref().map_or_else(String::new, slot),
        when(config.ecn, "ecn"),
        format!("seed {seed}"),
        when(gap > 0, format!("gap {gap}")),
    ]
}

fn delay(config: &LinkConfig) -> String {
    if config.delay == Duration::ZERO {
        return String::new();
    }
    let jitter = when(config.jitter > Duration::ZERO, format!("  {}", time(config.jitter)));
    format!("delay {}{jitter}{}", time(config.delay), correlation(config.jitter_correlation))
}

fn loss(loss: Loss) -> String {
    match loss {
        Loss::None => String::new(),
        Loss::Random { probability, correlation } => {
            event("loss", Correlated { probability, correlation })
        }
        Loss::GilbertElliott { p, r, one_minus_h, one_minus_k } => {
            let [p, r, h, k] = [p, r, one_minus_h, one_minus_k].map(percent);
            format!("loss gemodel p {p} r {r} 1-h {h} 1-k {k}")
        }
        Loss::FourState { p13, p31, p32, p23, p14 } => {
            let [p13, p31, p32, p23, p14] = [p13, p31, p32, p23, p14].map(percent);
            format!("loss state p13 {p13} p31 {p31} p32 {p32} p23 {p23} p14 {p14}")
        }
    }
}

fn event(name: &str, event: Correlated) -> String {
    let share = format!("{name} {}{}", percent(event.probability), correlation(event.correlation));
    when(event.probability != Probability::ZERO, share)
}

fn correlation(share: Probability) -> String {
    when(share != Probability::ZERO, format!(" {}", percent(share)))
}

fn slot(slot: &Slot) -> String {
    let gap = match &slot.gap {
        SlotGap::Uniform { min, max } => format!("{} {}", time(*min), time(*max)),
        SlotGap::Spread { delay, jitter, .. } => {
            format!("distribution {} {}", time(*delay), time(*jitter))
        }
    };
    let packets = when(slot.packets > 0, format!(" packets {}", slot.packets));
    let bytes = when(slot.bytes > 0, format!(" bytes {}", slot.bytes));
    format!("slot {gap}{packets}{bytes}")
}

fn time(time: Duration) -> String {
    nanos(time.as_nanos())
}
