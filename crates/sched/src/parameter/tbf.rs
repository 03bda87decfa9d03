//! Parameters of tbf; `rate`, `burst`, `peakrate`, `overhead` and `limit` are the link's.

use super::{Live, Parameter, narrow, or, unless, word, written};
use crate::queue::tbf::{LinkLayer, Refill};
use crate::units::Bytes;

pub(super) const ROWS: &[Parameter] = &[
    Parameter {
        name: "tbf.mtu",
        takes: "BYTES|none",
        default: "none",
        help: "depth of the bucket that peakrate fills, at least the largest packet",
        live: Live::Yes,
        set: |c, v| unless("none", v, narrow).map(|v| c.tbf.mtu = v),
        get: |c| or("none", c.tbf.mtu.map(|mtu| Bytes(mtu.into()))),
    },
    Parameter {
        name: "tbf.mpu",
        takes: "BYTES",
        default: "0b",
        help: "bytes as which a smaller packet counts, overhead included",
        live: Live::Yes,
        set: |c, v| narrow(v).map(|v| c.tbf.mpu = v),
        get: |c| Bytes(c.tbf.mpu.into()).to_string(),
    },
    Parameter {
        name: "tbf.linklayer",
        takes: "ethernet|atm|adsl",
        default: "ethernet",
        help: "what the line makes of a packet; atm and adsl: whole cells, 53 bytes for 48",
        live: Live::Yes,
        set: |c, v| word(v, LINK_LAYERS).map(|v| c.tbf.link_layer = v),
        get: |c| written(c.tbf.link_layer, LINK_LAYERS),
    },
    Parameter {
        name: "tbf.refill",
        takes: "keep|linux",
        default: "keep",
        help: "a live change keeps the tokens, or hands out a full burst as Linux does",
        live: Live::Yes,
        set: |c, v| word(v, REFILLS).map(|v| c.tbf.refill = v),
        get: |c| written(c.tbf.refill, REFILLS),
    },
];

const LINK_LAYERS: &[(&str, LinkLayer)] =
    &[("ethernet", LinkLayer::Ethernet), ("atm", LinkLayer::Atm), ("adsl", LinkLayer::Atm)];
const REFILLS: &[(&str, Refill)] = &[("keep", Refill::Keep), ("linux", Refill::Linux)];
