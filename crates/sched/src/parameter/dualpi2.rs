//! Parameters of `queue=dualpi2`.

use super::{Live, Parameter, narrow, or, packets, read, unless, word, written};
use crate::config::{Limit, LinkConfig};
use crate::queue::dualpi2::{Classify, DropAt, Dualpi2Config, Overload, StepThreshold};
use crate::units::Bytes;

pub(super) const ROWS: &[Parameter] = &[
    Parameter {
        name: "dualpi2.target",
        takes: "TIME",
        default: "15ms",
        help: "queueing delay of the classic queue to hold",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| steer(c, |d| d.target = v)),
        get: |c| c.dualpi2.target.to_string(),
    },
    Parameter {
        name: "dualpi2.tupdate",
        takes: "TIME",
        default: "16ms",
        help: "from one update of the probability to the next",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| steer(c, |d| d.tupdate = v)),
        get: |c| c.dualpi2.tupdate.to_string(),
    },
    Parameter {
        name: "dualpi2.alpha",
        takes: "GAIN",
        default: "0.16",
        help: "integral gain per second, kept in steps of 1/256",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| steer(c, |d| d.alpha = v)),
        get: |c| c.dualpi2.alpha.to_string(),
    },
    Parameter {
        name: "dualpi2.beta",
        takes: "GAIN",
        default: "3.2",
        help: "proportional gain per second, kept in steps of 1/256",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| steer(c, |d| d.beta = v)),
        get: |c| c.dualpi2.beta.to_string(),
    },
    Parameter {
        name: "dualpi2.max_rtt",
        takes: "TIME|none",
        default: "none",
        help: "longest round trip; target, tupdate, alpha and beta follow from it",
        live: Live::Yes,
        set: |c, v| unless("none", v, read).map(|v| steer(c, |d| d.max_rtt = v)),
        get: |c| or("none", c.dualpi2.max_rtt),
    },
    Parameter {
        name: "dualpi2.typical_rtt",
        takes: "TIME|none",
        default: "none",
        help: "usual round trip; without max_rtt a sixth of it",
        live: Live::Yes,
        set: |c, v| unless("none", v, read).map(|v| steer(c, |d| d.typical_rtt = v)),
        get: |c| or("none", c.dualpi2.typical_rtt),
    },
    Parameter {
        name: "dualpi2.step_thresh",
        takes: "TIME|PACKETS",
        default: "1ms",
        help: "L packets are marked when they waited longer, or leave more behind: 1ms, 5p",
        live: Live::Yes,
        set: |c, v| step_threshold(v).map(|v| c.dualpi2.step_thresh = v),
        get: |c| match c.dualpi2.step_thresh {
            StepThreshold::Time(time) => time.to_string(),
            StepThreshold::Packets(packets) => format!("{packets}p"),
        },
    },
    Parameter {
        name: "dualpi2.min_qlen_step",
        takes: "PACKETS",
        default: "0p",
        help: "packets in the L queue below which a new one is exempt from the step",
        live: Live::Yes,
        set: |c, v| least_queue(v).map(|v| c.dualpi2.min_qlen_step = v),
        get: |c| format!("{}p", c.dualpi2.min_qlen_step),
    },
    Parameter {
        name: "dualpi2.coupling_factor",
        takes: "1..255",
        default: "2",
        help: "marking probability of L4S traffic over the base probability",
        live: Live::Yes,
        set: |c, v| factor(v).map(|v| c.dualpi2.coupling_factor = v),
        get: |c| c.dualpi2.coupling_factor.to_string(),
    },
    Parameter {
        name: "dualpi2.overload",
        takes: "drop|overflow",
        default: "drop",
        help: "beyond full marking, drop in both queues, or let them fill up to limit",
        live: Live::Yes,
        set: |c, v| word(v, OVERLOAD).map(|v| c.dualpi2.overload = v),
        get: |c| written(c.dualpi2.overload, OVERLOAD),
    },
    Parameter {
        name: "dualpi2.drop",
        takes: "dequeue|enqueue",
        default: "dequeue",
        help: "where the controller drops and marks; the step is always at dequeue",
        live: Live::Yes,
        set: |c, v| word(v, DROP).map(|v| c.dualpi2.drop = v),
        get: |c| written(c.dualpi2.drop, DROP),
    },
    Parameter {
        name: "dualpi2.classic_protection",
        takes: "PERCENT",
        default: "10%",
        help: "the classic queue's share of service while both wait, whole percent",
        live: Live::Yes,
        set: |c, v| whole_percent(v).map(|v| c.dualpi2.classic_protection = v),
        get: |c| format!("{}%", c.dualpi2.classic_protection),
    },
    Parameter {
        name: "dualpi2.classify",
        takes: "l4s_ect|any_ect",
        default: "l4s_ect",
        help: "what the L queue takes: ECT(1) and CE, or every ECN-capable packet",
        live: Live::Yes,
        set: |c, v| word(v, CLASSIFY).map(|v| c.dualpi2.classify = v),
        get: |c| written(c.dualpi2.classify, CLASSIFY),
    },
    Parameter {
        name: "dualpi2.memlimit",
        takes: "BYTES|auto",
        default: "auto",
        help: "memory of queued packets; auto: twice a full packet for each of limit",
        live: Live::Yes,
        set: |c, v| unless("auto", v, narrow).map(|v| c.dualpi2.memlimit = v),
        get: |c| or("auto", c.dualpi2.memlimit.map(|bytes| Bytes(bytes.into()))),
    },
];

/// Sets one of the values that steer the controller. Where a round trip is given the four that
/// follow from it stay so, in whatever order they are named, as with `tc`.
fn steer(config: &mut LinkConfig, set: impl FnOnce(&mut Dualpi2Config)) {
    set(&mut config.dualpi2);
    config.dualpi2.derive();
}

fn step_threshold(text: &str) -> Result<StepThreshold, String> {
    match read(text) {
        Ok(Limit::Time(time)) => Ok(StepThreshold::Time(time)),
        Ok(Limit::Packets(packets)) => Ok(StepThreshold::Packets(packets)),
        Ok(Limit::Bytes(_)) | Err(_) => {
            Err(format!("\"{text}\" is no time or packets, expected for example 1ms or 5p"))
        }
    }
}

fn least_queue(text: &str) -> Result<u32, String> {
    packets(text)
        .ok_or_else(|| format!("\"{text}\" is no number of packets, expected for example 5p"))
}

fn factor(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| format!("\"{text}\" is no whole number, expected 1 to 255"))
}

/// A share in whole percent, with or without the sign.
fn whole_percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    number.parse().map_err(|_| format!("\"{text}\" is no whole percent, expected 0% to 100%"))
}

const OVERLOAD: &[(&str, Overload)] = &[("drop", Overload::Drop), ("overflow", Overload::Overflow)];
const DROP: &[(&str, DropAt)] = &[("dequeue", DropAt::Dequeue), ("enqueue", DropAt::Enqueue)];
const CLASSIFY: &[(&str, Classify)] =
    &[("l4s_ect", Classify::L4sEct), ("any_ect", Classify::AnyEct)];
