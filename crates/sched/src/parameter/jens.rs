//! Parameters of `jens`.

use super::{Live, Parameter, read, word, written};
use crate::queue::jens::{AgeBase, Handover, JensConfig, QosMode, UserBy};
use crate::time::Duration;

pub(super) const ROWS: &[Parameter] = &[
    Parameter {
        name: "jens.markfree",
        takes: "TIME",
        default: "4ms",
        help: "up to this queue delay nothing is marked",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.jens.mark_free = v),
        get: |c| c.jens.mark_free.to_string(),
    },
    Parameter {
        name: "jens.markfull",
        takes: "TIME",
        default: "14ms",
        help: "from this queue delay on everything is marked; not above markfree: a step",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.jens.mark_full = v),
        get: |c| c.jens.mark_full.to_string(),
    },
    Parameter {
        name: "jens.extralatency",
        takes: "TIME",
        default: "0ms",
        help: "how long a packet stays invisible to the queue, fixed when it arrives",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.jens.extra_latency = v),
        get: |c| c.jens.extra_latency.to_string(),
    },
    Parameter {
        name: "jens.qosmode",
        takes: "0|1|2",
        default: "0",
        help: "FIFO by type of service (0), one for all (1), by ECT(1) and CE (2)",
        live: Live::Yes,
        set: |c, v| word(v, QOS_MODES).map(|v| c.jens.qos_mode = v),
        get: |c| written(c.jens.qos_mode, QOS_MODES),
    },
    Parameter {
        name: "jens.users",
        takes: "COUNT",
        default: "1",
        help: "users with FIFOs, gate and marks of their own, at most 256",
        live: Live::WithQueue("packets of one flow would wait at two users"),
        set: |c, v| count(v).map(|v| c.jens.users = v),
        get: |c| c.jens.users.to_string(),
    },
    Parameter {
        name: "jens.user",
        takes: "mark|source|destination|sport|dport|dscp",
        default: "mark",
        help: "what a packet's user is read from, modulo their number (a mark beyond means 0)",
        live: Live::WithQueue("packets of one flow would wait at two users"),
        set: |c, v| word(v, USERS_BY).map(|v| c.jens.user_by = v),
        get: |c| written(c.jens.user_by, USERS_BY),
    },
    Parameter {
        name: "jens.vq",
        takes: "FACTOR",
        default: "1",
        help: "serve this many times faster than rate, by which marks go (virtual queue)",
        live: Live::Yes,
        set: |c, v| count(v).map(|v| c.jens.virtual_factor = v),
        get: |c| c.jens.virtual_factor.to_string(),
    },
    Parameter {
        name: "jens.agebase",
        takes: "now|virtual",
        default: "now",
        help: "age of packets against the clock, or the end of the virtual queue if later",
        live: Live::Yes,
        set: |c, v| word(v, AGE_BASES).map(|v| c.jens.age_base = v),
        get: |c| written(c.jens.age_base, AGE_BASES),
    },
    Parameter {
        name: "jens.handover",
        takes: "DURATION|AT,DURATION,...|none",
        default: "none",
        help: "serve nothing for DURATION: from now, or from AT after the link's start",
        live: Live::Yes,
        set: |c, v| set_handover(&mut c.jens, v),
        get: |c| handover(&c.jens),
    },
    Parameter {
        name: "jens.subbufs",
        takes: "COUNT",
        default: "0",
        help: "16 KiB sub-buffers of records kept for each user; 0 records nothing",
        live: Live::WithQueue("records are in rings of this size"),
        set: |c, v| count(v).map(|v| c.jens.sub_buffers = v),
        get: |c| c.jens.sub_buffers.to_string(),
    },
];

/// One time is a handover now; pairs are a plan. `none` forgets both.
fn set_handover(config: &mut JensConfig, text: &str) -> Result<(), String> {
    if text == NONE {
        config.handovers.clear();
        config.handover_now = None;
        return Ok(());
    }
    if !text.contains(',') {
        config.handover_now = Some(read(text)?);
        return Ok(());
    }
    let times = text.split(',').map(read).collect::<Result<Vec<Duration>, _>>()?;
    let (pairs, []) = times.as_chunks() else {
        return Err(format!("\"{text}\" has a time without a duration, expected AT,DURATION,..."));
    };
    config.handovers = pairs.iter().map(|&[at, duration]| Handover { at, duration }).collect();
    Ok(())
}

fn handover(config: &JensConfig) -> String {
    let now = config.handover_now;
    if let (Some(duration), []) = (now, &*config.handovers) {
        return duration.to_string();
    }
    // Beside a plan, one from the start on is one at 0.
    let now = now.map(|duration| Handover { at: Duration::ZERO, duration });
    let all = now.iter().chain(&config.handovers);
    let pairs: Vec<_> = all.map(|planned| format!("{},{}", planned.at, planned.duration)).collect();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

fn count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("\"{text}\" is no whole number such as 4"))
}

const NONE: &str = "none";
const QOS_MODES: &[(&str, QosMode)] =
    &[("0", QosMode::TypeOfService), ("1", QosMode::None), ("2", QosMode::Ecn)];
const USERS_BY: &[(&str, UserBy)] = &[
    ("mark", UserBy::Mark),
    ("source", UserBy::Source),
    ("destination", UserBy::Destination),
    ("sport", UserBy::SourcePort),
    ("dport", UserBy::DestinationPort),
    ("dscp", UserBy::Dscp),
];
const AGE_BASES: &[(&str, AgeBase)] = &[("now", AgeBase::Now), ("virtual", AgeBase::Virtual)];
