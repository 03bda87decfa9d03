//! The module's records of 64 bytes.

use core::net::IpAddr;

use crate::classify::FlowKey;
use crate::packet::Ecn;
use crate::time::{Duration, Instant};

/// One record, in the words of the discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A packet left or was dropped.
    Sojourn(Sojourn),
    /// What is queued, and the rates.
    QueueSize(QueueSize),
}

/// A packet that left or was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sojourn {
    /// When it left, or when it was dropped.
    pub at: Instant,
    /// The driver's name for the packet, by which it finds addresses and ports.
    pub handle: u64,
    /// The congestion field on arrival.
    pub ecn: Ecn,
    /// Congestion was to be marked, whether or not the packet could carry a mark.
    pub mark: bool,
    /// The packet was dropped.
    pub dropped: bool,
    /// Its FIFO, 0 to 2.
    pub band: u8,
    /// How long it was in the queue once visible, in units of 1024 ns: see [`Sojourn::units`];
    /// or [`Sojourn::RESIZED`] or [`Sojourn::EARLY`].
    pub sojourn: u32,
    /// How far the virtual queue is ahead of the real one, in units of 1024 ns, 24 bits.
    pub ahead: u32,
    /// From its enqueue to this record, extra latency included, in units of 1024 ns rounded up.
    pub delay: u32,
    /// Bytes as the rate counts them, at most 30 bits.
    pub bytes: u32,
}

/// What is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSize {
    /// When.
    pub at: Instant,
    /// A handover begins.
    pub handover: bool,
    /// Packets queued, at most 2^16 - 1.
    pub packets: u16,
    /// Bytes queued, at most 2^32 - 1.
    pub bytes: u32,
    /// The rate that the virtual queue goes by, in bit/s; 0 while paused.
    pub virtual_bps: u64,
    /// The rate that packets leave at, in bit/s; 0 while paused.
    pub real_bps: u64,
}

impl Sojourn {
    /// Dropped because the queue was made smaller.
    pub const RESIZED: u32 = u32::MAX;
    /// Dropped before it had become visible.
    pub const EARLY: u32 = u32::MAX - 1;
    const MAX: u64 = u32::MAX as u64 - 2;
    const MAX_AHEAD: u64 = (1 << 24) - 1;
    const MAX_BYTES: u64 = (1 << 30) - 1;

    /// A time in the queue as records hold it: in units of 1024 ns, rounded down, at least 1.
    pub fn units(time: Duration) -> u32 {
        capped((time.as_nanos() / UNIT).max(1), Self::MAX)
    }

    /// A delay as records hold it: in units of 1024 ns, rounded up.
    pub fn units_up(time: Duration) -> u32 {
        capped(time.as_nanos().div_ceil(UNIT), Self::MAX)
    }

    /// How far the virtual queue is ahead as records hold it: in units of 1024 ns, at least 1
    /// where it is.
    pub fn units_ahead(time: Duration) -> u32 {
        let least = u64::from(time > Duration::ZERO);
        capped((time.as_nanos() / UNIT).max(least), Self::MAX_AHEAD)
    }

    /// A size as records hold it.
    pub fn size(bytes: u64) -> u32 {
        capped(bytes, Self::MAX_BYTES)
    }

    fn encode(&self, ends: Option<&FlowKey>) -> Layout {
        let mut layout = Layout { ts: self.at.as_nanos(), kind: KIND_SOJOURN, ..Layout::default() };
        let ends = ends.copied().unwrap_or_default();
        layout.nexthdr = NO_NEXT_HEADER;
        if let Some((source, destination)) = ends.addresses {
            layout.version = if source.is_ipv4() { 4 } else { 6 };
            layout.nexthdr = ends.protocol;
            layout.x = octets(source);
            layout.y = octets(destination);
            if [TCP, UDP].contains(&ends.protocol) {
                (layout.sport, layout.dport) = (ends.source_port, ends.destination_port);
            }
            layout.f8 |= FLAG_ECN_VALID;
        }
        let out = if self.mark && self.ecn.is_capable() { Ecn::Ce } else { self.ecn };
        layout.f8 |= self.ecn as u8 | (out as u8) << 3;
        layout.f8 |= if self.mark { FLAG_MARK } else { 0 };
        layout.f8 |= if self.dropped { FLAG_DROP } else { 0 };
        let [low, middle, high, _] = self.ahead.to_le_bytes();
        layout.e16 = u16::from(low) << 8;
        layout.ahead_high = u16::from_le_bytes([middle, high]);
        layout.d32 = self.sojourn;
        layout.psize = (u32::from(self.band.min(2)) + 1) << 30 | self.bytes;
        layout.real_owd = self.delay;
        layout
    }
}

impl QueueSize {
    fn encode(&self, realtime_offset: u64) -> Layout {
        Layout {
            ts: self.at.as_nanos(),
            kind: KIND_QUEUE_SIZE,
            f8: u8::from(self.handover),
            e16: self.packets,
            d32: self.bytes,
            x: two(self.virtual_bps, realtime_offset),
            y: two(self.real_bps, 0),
            ..Layout::default()
        }
    }
}

impl Record {
    /// Bytes of an encoded record.
    pub const LEN: usize = 64;

    /// The record as the module writes it, in the byte order of the machine.
    ///
    /// `ends` are the packet's addresses, protocol and ports; without them the record says
    /// neither IPv4 nor IPv6. `realtime_offset` is what has to be added to the link's time to get
    /// nanoseconds since 1970.
    pub fn encode(&self, ends: Option<&FlowKey>, realtime_offset: u64) -> [u8; Self::LEN] {
        match self {
            Self::Sojourn(sojourn) => sojourn.encode(ends),
            Self::QueueSize(size) => size.encode(realtime_offset),
        }
        .bytes()
    }

    /// The record that fills what a sub-buffer does not use; readers skip it.
    pub fn padding() -> [u8; Self::LEN] {
        Layout { kind: KIND_PADDING, ..Layout::default() }.bytes()
    }
}

/// The fields in their order.
#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    ts: u64,
    kind: u8,
    f8: u8,
    e16: u16,
    d32: u32,
    x: [u8; 16],
    y: [u8; 16],
    psize: u32,
    version: u8,
    nexthdr: u8,
    sport: u16,
    dport: u16,
    ahead_high: u16,
    real_owd: u32,
}

impl Layout {
    fn bytes(&self) -> [u8; Record::LEN] {
        let mut bytes = [0; Record::LEN];
        let fields: [&[u8]; 14] = [
            &self.ts.to_ne_bytes(),
            &[self.kind],
            &[self.f8],
            &self.e16.to_ne_bytes(),
            &self.d32.to_ne_bytes(),
            &self.x,
            &self.y,
            &self.psize.to_ne_bytes(),
            &[self.version],
            &[self.nexthdr],
            &self.sport.to_ne_bytes(),
            &self.dport.to_ne_bytes(),
            &self.ahead_high.to_ne_bytes(),
            &self.real_owd.to_ne_bytes(),
        ];
        for (to, from) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *to = *from;
        }
        bytes
    }
}

/// IPv4 addresses are mapped into IPv6 (RFC 4291, 2.5.5.2).
fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn two(first: u64, second: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_ne_bytes());
    bytes[8..].copy_from_slice(&second.to_ne_bytes());
    bytes
}

/// `value` or, if that is less, `max`, which fits 32 bits.
fn capped(value: u64, max: u64) -> u32 {
    u32::try_from(value.min(max)).unwrap_or(u32::MAX)
}

const UNIT: u64 = 1024;
const KIND_PADDING: u8 = 4;
const KIND_QUEUE_SIZE: u8 = 6;
const KIND_SOJOURN: u8 = 9;
const FLAG_ECN_VALID: u8 = 1 << 2;
const FLAG_MARK: u8 = 1 << 6;
const FLAG_DROP: u8 = 1 << 7;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// RFC 8200, 4.7.
const NO_NEXT_HEADER: u8 = 59;
