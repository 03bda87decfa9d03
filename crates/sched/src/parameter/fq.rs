//! Parameters of `queue=fq`, in the order of `tc -d qdisc show`.

use core::fmt::Display;
use core::str::FromStr;

use super::{Live, Parameter, narrow, or, read, unless, word, written};
use crate::queue::fq::{FqConfig, HorizonMode, MaxRateZero, Wake};
use crate::units::Bytes;

pub(super) const ROWS: &[Parameter] = &[
    Parameter {
        name: "fq.flow_limit",
        takes: "PACKETS",
        default: "100p",
        help: "packets that one flow may have queued",
        live: Live::Yes,
        set: |c, v| flow_limit(v).map(|v| c.fq.flow_limit = v),
        get: |c| format!("{}p", c.fq.flow_limit),
    },
    Parameter {
        name: "fq.buckets",
        takes: "NUMBER",
        default: "1024",
        help: "the more flows there are for each, the sooner idle ones are forgotten; a power of two",
        live: Live::Yes,
        set: |c, v| buckets(v).map(|v| c.fq.buckets = v),
        get: |c| c.fq.buckets.to_string(),
    },
    Parameter {
        name: "fq.orphan_mask",
        takes: "NUMBER",
        default: "1023",
        help: "packets without a socket share a flow when their hashes agree in these bits",
        live: Live::WithQueue("packets of one flow would wait in two"),
        set: |c, v| number(v).map(|v| c.fq.orphan_mask = v),
        get: |c| c.fq.orphan_mask.to_string(),
    },
    Parameter {
        name: "fq.priomap",
        takes: "BAND,BAND,...",
        default: "1,2,2,2,1,2,0,0,1,1,1,1,1,1,1,1",
        help: "the band, 0 to 2, of packets of each priority from 0 to 15",
        live: Live::Yes,
        set: |c, v| list(v, "bands").map(|v| c.fq.priomap = v),
        get: |c| comma_list(&c.fq.priomap),
    },
    Parameter {
        name: "fq.weights",
        takes: "BYTES,BYTES,BYTES",
        default: "589824,196608,65536",
        help: "bytes that each band may send in its turn",
        live: Live::Yes,
        set: |c, v| list(v, "bytes").map(|v| c.fq.weights = v),
        get: |c| comma_list(&c.fq.weights),
    },
    Parameter {
        name: "fq.quantum",
        takes: "BYTES|auto",
        default: "auto",
        help: "bytes that a flow may send in its turn; auto: two packets of 1500, with framing",
        live: Live::Yes,
        set: |c, v| unless("auto", v, narrow).map(|v| c.fq.quantum = v),
        get: |c| or("auto", c.fq.quantum.map(|v| Bytes(v.into()))),
    },
    Parameter {
        name: "fq.initial_quantum",
        takes: "BYTES|auto",
        default: "auto",
        help: "bytes that a flow may send in its first turn; auto: ten packets of 1500",
        live: Live::Yes,
        set: |c, v| unless("auto", v, narrow).map(|v| c.fq.initial_quantum = v),
        get: |c| or("auto", c.fq.initial_quantum.map(|v| Bytes(v.into()))),
    },
    Parameter {
        name: "fq.pacing",
        takes: "on|off",
        default: "on",
        help: "hold flows back to the rates of their sockets and to maxrate",
        live: Live::Yes,
        set: |c, v| word(v, ON_OFF).map(|v| c.fq.pacing = v),
        get: |c| written(c.fq.pacing, ON_OFF),
    },
    Parameter {
        name: "fq.maxrate",
        takes: "RATE",
        default: "unlimited",
        help: "no flow is faster",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.fq.max_rate = v),
        get: |c| c.fq.max_rate.to_string(),
    },
    Parameter {
        name: "fq.maxrate_zero",
        takes: "refuse|second",
        default: "refuse",
        help: "what a maxrate of 0 is: an error, or as in Linux one packet a second for each flow",
        live: Live::Yes,
        set: |c, v| word(v, ZERO).map(|v| c.fq.max_rate_zero = v),
        get: |c| written(c.fq.max_rate_zero, ZERO),
    },
    Parameter {
        name: "fq.low_rate_threshold",
        takes: "RATE",
        default: "550kbit",
        help: "flows up to this rate are paced packet by packet, faster ones quantum by quantum",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.fq.low_rate_threshold = v),
        get: |c| c.fq.low_rate_threshold.to_string(),
    },
    Parameter {
        name: "fq.refill_delay",
        takes: "TIME",
        default: "40ms",
        help: "a flow that comes back after more than this gets a new quantum",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.fq.refill_delay = v),
        get: |c| c.fq.refill_delay.to_string(),
    },
    Parameter {
        name: "fq.ce_threshold",
        takes: "TIME|off",
        default: "off",
        help: "mark packets that leave more than this after their flow could send them",
        live: Live::Yes,
        set: |c, v| unless("off", v, read).map(|v| c.fq.ce_threshold = v),
        get: |c| or("off", c.fq.ce_threshold),
    },
    Parameter {
        name: "fq.timer_slack",
        takes: "TIME",
        default: "10us",
        help: "with wake=slack: how long after its time a flow is looked at",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.fq.timer_slack = v),
        get: |c| c.fq.timer_slack.to_string(),
    },
    Parameter {
        name: "fq.wake",
        takes: "due|slack",
        default: "due",
        help: "look at a flow at its time, or as Linux timer_slack later or with the next arrival",
        live: Live::Yes,
        set: |c, v| word(v, WAKE).map(|v| c.fq.wake = v),
        get: |c| written(c.fq.wake, WAKE),
    },
    Parameter {
        name: "fq.horizon",
        takes: "TIME",
        default: "10s",
        help: "how far ahead a packet's transmit time may lie",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.fq.horizon = v),
        get: |c| c.fq.horizon.to_string(),
    },
    Parameter {
        name: "fq.horizon_mode",
        takes: "drop|cap",
        default: "drop",
        help: "drop packets beyond the horizon, or send them at it",
        live: Live::Yes,
        set: |c, v| word(v, HORIZON).map(|v| c.fq.horizon_mode = v),
        get: |c| written(c.fq.horizon_mode, HORIZON),
    },
];

fn flow_limit(text: &str) -> Result<u32, String> {
    super::packets(text).ok_or_else(|| {
        format!("\"{text}\" is no number of packets from 1p to {}p, such as 100p", u32::MAX)
    })
}

/// Rounded up to a power of two, as tc does.
fn buckets(text: &str) -> Result<u32, String> {
    let buckets = number(text)?;
    let known = 1..=FqConfig::MAX_BUCKETS;
    buckets.checked_next_power_of_two().filter(|_| known.contains(&buckets)).ok_or_else(|| {
        format!("\"{text}\" is no number of buckets from 1 to {}", FqConfig::MAX_BUCKETS)
    })
}

/// Decimal or, after `0x`, hexadecimal.
fn number(text: &str) -> Result<u32, String> {
    let read = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.map_err(|_| format!("\"{text}\" is no whole number from 0 to {}", u32::MAX))
}

/// Exactly `N` numbers.
fn list<T: FromStr, const N: usize>(text: &str, of: &str) -> Result<[T; N], String> {
    let numbers: Result<Vec<T>, _> = text.split(',').map(str::parse).collect();
    let numbers = numbers.ok().and_then(|numbers| numbers.try_into().ok());
    numbers.ok_or_else(|| format!("\"{text}\" is no list of {N} {of}"))
}

fn comma_list(numbers: &[impl Display]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

const ON_OFF: &[(&str, bool)] = &[("on", true), ("off", false)];
const WAKE: &[(&str, Wake)] = &[("due", Wake::Due), ("slack", Wake::Slack)];
const HORIZON: &[(&str, HorizonMode)] = &[("drop", HorizonMode::Drop), ("cap", HorizonMode::Cap)];
const ZERO: &[(&str, MaxRateZero)] =
    &[("refuse", MaxRateZero::Refuse), ("second", MaxRateZero::Second)];
