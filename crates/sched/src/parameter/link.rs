//! Parameters of the link itself.

use super::{
    GSO, Live, Parameter, QUEUES, hint, integer, limited, narrow, or, pairs, read, trace, unless,
    word, written,
};
use crate::config::{LinkConfig, QueueKind};
use crate::time::Duration;
use crate::units::{Bytes, Rate, UnitError};

pub(super) const ROWS: &[Parameter] = &[
    Parameter {
        name: "rate",
        takes: "RATE",
        default: "unlimited",
        help: "bottleneck rate; 0 pauses the link",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.rate = v),
        get: |c| c.rate.to_string(),
    },
    Parameter {
        name: "framing",
        takes: "BYTES",
        default: "14",
        help: "bytes added to each packet before the rate counts it (14: Ethernet header)",
        live: Live::Yes,
        set: |c, v| narrow(v).map(|v| c.framing = v),
        get: |c| c.framing.to_string(),
    },
    Parameter {
        name: "overhead",
        takes: "BYTES",
        default: "0",
        help: "more bytes per packet, on top of framing; may be negative",
        live: Live::Yes,
        set: |c, v| integer(v).map(|v| c.overhead = v),
        get: |c| c.overhead.to_string(),
    },
    Parameter {
        name: "burst",
        takes: "BYTES|none",
        default: "none",
        help: "bytes that may leave at once after idling; none serialises every packet",
        live: Live::Yes,
        set: |c, v| unless("none", v, narrow).map(|v| c.burst = v),
        get: |c| or("none", c.burst.map(|burst| Bytes(burst.into()))),
    },
    Parameter {
        name: "peakrate",
        takes: "RATE",
        default: "unlimited",
        help: "rate at which saved-up burst may leave",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.peakrate = limited(v)),
        get: |c| c.peakrate.unwrap_or(Rate::UNLIMITED).to_string(),
    },
    Parameter {
        name: "nic",
        takes: "RATE",
        default: "unlimited",
        help: "the sender's access rate, passed before the queue; waits there are bounded by hold",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.nic = limited(v)),
        get: |c| c.nic.unwrap_or(Rate::UNLIMITED).to_string(),
    },
    Parameter {
        name: "delay",
        takes: "TIME",
        default: "0ms",
        help: "propagation delay",
        live: Live::Yes,
        set: |c, v| delay(v).map(|v| c.delay = v),
        get: |c| c.delay.to_string(),
    },
    Parameter {
        name: "queue",
        takes: "fifo|tbf|fq|codel|fq_codel|dualpi2|jens",
        default: "fifo",
        help: "queue discipline",
        live: Live::Yes,
        set: |c, v| hint::discipline(v, c.limit).map(|v| c.queue = v),
        get: |c| written(c.queue, QUEUES),
    },
    Parameter {
        name: "limit",
        takes: "PACKETS|BYTES|TIME|auto",
        default: "auto",
        help: "what the queue holds, framing counted: 1000p, 200kb, 100ms; auto: 100ms and at least 16 \
               packets with fifo and tbf, 1000p with codel, 10240p with fq_codel and jens, 10000p \
               with fq and dualpi2",
        live: Live::Yes,
        set: |c, v| set_limit(c, v),
        get: |c| or("auto", c.limit),
    },
    trace::FILE_ROW,
    Parameter {
        name: "gso",
        takes: "split|keep|auto",
        default: "auto",
        help: "cut bursts into wire packets first (split), or let a burst be one packet (keep)",
        live: Live::No("bursts are cut from the first packet on or not at all"),
        set: |c, v| word(v, GSO).map(|v| c.gso = v),
        get: |c| written(c.gso, GSO),
    },
    Parameter {
        name: "hold",
        takes: "BYTES",
        default: "256mb",
        help: "memory for packets held from arrival to departure",
        live: Live::No("it is sized by the memory that there was then"),
        set: |c, v| read(v).map(|Bytes(v)| c.hold_limit = v),
        get: |c| Bytes(c.hold_limit).to_string(),
    },
];

fn delay(text: &str) -> Result<Duration, String> {
    let listed = || {
        let (delay, jitter) = text.split_once(',')?;
        let meant = pairs::with_jitter(delay, jitter);
        pairs::readable(&meant).then(|| format!("\"{text}\" is more than one time, write {meant}"))
    };
    read(text).map_err(|problem| listed().unwrap_or(problem))
}

/// A number without a unit, or with none that there is, is told the units that the queue counts
/// in, as far as it has been chosen.
fn set_limit(config: &mut LinkConfig, text: &str) -> Result<(), String> {
    config.limit = match text {
        "auto" => None,
        _ => Some(text.parse().map_err(|error| match error {
            UnitError::MissingUnit { text, .. } => {
                UnitError::MissingUnit { text, example: limits(config.queue) }.to_string()
            }
            UnitError::UnknownUnit { text, unit, hint } if hint.starts_with("expected") => {
                let hint = format!("expected for example {}", limits(config.queue));
                UnitError::UnknownUnit { text, unit, hint }.to_string()
            }
            error => error.to_string(),
        })?),
    };
    Ok(())
}

/// Limits that a queue takes.
fn limits(queue: QueueKind) -> &'static str {
    match queue {
        QueueKind::Fifo => "1000p, 200kb or 100ms",
        QueueKind::Tbf => "200kb or 100ms",
        QueueKind::Fq | QueueKind::Dualpi2 => "10000p",
        QueueKind::Codel => "1000p",
        QueueKind::FqCodel | QueueKind::Jens => "10240p",
    }
}
