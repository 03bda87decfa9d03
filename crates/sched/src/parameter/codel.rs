//! Parameters of codel; `limit` is the link's.

use super::{Live, Parameter, or, read, unless, word, written};
use crate::queue::codel::Arithmetic;

pub(super) const ROWS: &[Parameter] = &[
    Parameter {
        name: "codel.target",
        takes: "TIME",
        default: "5ms",
        help: "wait that is no sign of a standing queue",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.codel.target = v),
        get: |c| c.codel.target.to_string(),
    },
    Parameter {
        name: "codel.ce_threshold",
        takes: "TIME|none",
        default: "none",
        help: "mark every packet that waited longer",
        live: Live::Yes,
        set: |c, v| unless("none", v, read).map(|v| c.codel.ce_threshold = v),
        get: |c| or("none", c.codel.ce_threshold),
    },
    Parameter {
        name: "codel.interval",
        takes: "TIME",
        default: "100ms",
        help: "how long packets wait for longer than target before congestion is signalled",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.codel.interval = v),
        get: |c| c.codel.interval.to_string(),
    },
    Parameter {
        name: "codel.ecn",
        takes: "on|off",
        default: "off",
        help: "mark packets that can be marked instead of dropping them",
        live: Live::Yes,
        set: |c, v| word(v, ON_OFF).map(|v| c.codel.ecn = v),
        get: |c| written(c.codel.ecn, ON_OFF),
    },
    Parameter {
        name: "codel.arithmetic",
        takes: "rfc|linux",
        default: "rfc",
        help: "exact as RFC 8289, or the rounded one of Linux",
        live: Live::WithQueue("its controller has counted time in it"),
        set: |c, v| word(v, ARITHMETICS).map(|v| c.codel.arithmetic = v),
        get: |c| written(c.codel.arithmetic, ARITHMETICS),
    },
];

pub(super) const ON_OFF: &[(&str, bool)] = &[("on", true), ("off", false)];
pub(super) const ARITHMETICS: &[(&str, Arithmetic)] =
    &[("rfc", Arithmetic::Rfc), ("linux", Arithmetic::Linux)];
