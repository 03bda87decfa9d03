//! Parameters of fq_codel; `limit` is the link's.

use super::codel::{ARITHMETICS, ON_OFF};
use super::{Live, Parameter, narrow, or, read, unless, word, written};
use crate::units::Bytes;

pub(super) const ROWS: &[Parameter] = &[
    Parameter {
        name: "fq_codel.flows",
        takes: "NUMBER",
        default: "1024",
        help: "hash buckets, 1 to 65536",
        live: Live::WithQueue("packets of one flow would wait in two"),
        set: |c, v| number(v).map(|v| c.fq_codel.flows = v),
        get: |c| c.fq_codel.flows.to_string(),
    },
    Parameter {
        name: "fq_codel.quantum",
        takes: "BYTES|auto",
        default: "auto",
        help: "bytes that a flow sends in its turn; auto: a packet of 1500 with framing and overhead",
        live: Live::Yes,
        set: |c, v| unless("auto", v, narrow).map(|v| c.fq_codel.quantum = v),
        get: |c| or("auto", c.fq_codel.quantum.map(|v| Bytes(v.into()))),
    },
    Parameter {
        name: "fq_codel.target",
        takes: "TIME",
        default: "5ms",
        help: "wait that is no sign of a standing queue",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.fq_codel.codel.target = v),
        get: |c| c.fq_codel.codel.target.to_string(),
    },
    Parameter {
        name: "fq_codel.ce_threshold",
        takes: "TIME|none",
        default: "none",
        help: "mark every packet that waited longer",
        live: Live::Yes,
        set: |c, v| unless("none", v, read).map(|v| c.fq_codel.codel.ce_threshold = v),
        get: |c| or("none", c.fq_codel.codel.ce_threshold),
    },
    Parameter {
        name: "fq_codel.ce_threshold_selector",
        takes: "VALUE/MASK",
        default: "0x00/0x00",
        help: "only packets with these bits in the DS field (DSCP and ECN) are for ce_threshold",
        live: Live::Yes,
        set: |c, v| v.parse().map(|v| c.fq_codel.selector = v),
        get: |c| c.fq_codel.selector.to_string(),
    },
    Parameter {
        name: "fq_codel.interval",
        takes: "TIME",
        default: "100ms",
        help: "how long packets wait for longer than target before congestion is signalled",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.fq_codel.codel.interval = v),
        get: |c| c.fq_codel.codel.interval.to_string(),
    },
    Parameter {
        name: "fq_codel.memory_limit",
        takes: "BYTES",
        default: "32mb",
        help: "memory that queued packets may hold, counted as the kernel would",
        live: Live::Yes,
        set: |c, v| narrow(v).map(|v| c.fq_codel.memory_limit = v),
        get: |c| Bytes(c.fq_codel.memory_limit.into()).to_string(),
    },
    Parameter {
        name: "fq_codel.ecn",
        takes: "on|off",
        default: "on",
        help: "mark packets that can be marked instead of dropping them",
        live: Live::Yes,
        set: |c, v| word(v, ON_OFF).map(|v| c.fq_codel.codel.ecn = v),
        get: |c| written(c.fq_codel.codel.ecn, ON_OFF),
    },
    Parameter {
        name: "fq_codel.drop_batch",
        takes: "NUMBER",
        default: "64",
        help: "packets dropped at once from the fattest flow when there is no room",
        live: Live::Yes,
        set: |c, v| number(v).map(|v| c.fq_codel.drop_batch = v),
        get: |c| c.fq_codel.drop_batch.to_string(),
    },
    Parameter {
        name: "fq_codel.arithmetic",
        takes: "rfc|linux",
        default: "rfc",
        help: "exact as RFC 8289, or the rounded one of Linux",
        live: Live::WithQueue("its controllers have counted time in it"),
        set: |c, v| word(v, ARITHMETICS).map(|v| c.fq_codel.codel.arithmetic = v),
        get: |c| written(c.fq_codel.codel.arithmetic, ARITHMETICS),
    },
];

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("\"{text}\" is no whole number such as 1024"))
}
