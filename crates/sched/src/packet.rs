//! What the scheduler knows of a packet.

use core::num::NonZero;

use crate::time::Instant;
use crate::units::Rate;

/// A packet descriptor. The payload stays with the driver, behind `handle`.
///
/// At most 64 bytes (checked at compile time), so that one fits a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The driver's name for the packet; opaque here.
    pub handle: u64,
    /// When it met the link. The time at which it is handed to
    /// [`Link::arrive`](crate::Link::arrive).
    pub arrival: Instant,
    /// Length on the wire in bytes at the IP layer, all segments together with the headers that
    /// each of them carries. 1 to 2^32 - 1.
    pub len: u32,
    /// Wire packets that this descriptor stands for: 1, or more for an unsplit burst (GSO).
    pub segments: u16,
    /// Hash of the flow (addresses, protocol, ports).
    pub flow: u32,
    /// Firewall mark, where one survives up to here, else 0; or the number of the user as
    /// [`LinkConfig::packet_mark`](crate::LinkConfig::packet_mark) gives it.
    pub mark: u32,
    /// Differentiated services code point, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: Ecn,
    /// What the sender's kernel calls the packet's priority; only its low 4 bits count. On a path
    /// it follows from the DSCP, see [`priority_of`].
    pub priority: u8,
    /// Whether `flow` names the sender's socket rather than a hash of the packet's headers. Never
    /// on a path, where no socket is visible.
    pub socket: bool,
    /// The sender's own rate for this socket (`SO_MAX_PACING_RATE`). Unlimited on a path.
    pub pacing_rate: Rate,
    /// Not before this time, as the sender asked (`SO_TXTIME`). `None` on a path.
    pub transmit: Option<TransmitTime>,
}

/// An earliest departure time that a sender asked for. Never 0, which means "none" wherever
/// such times are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransmitTime(NonZero<u64>);

impl TransmitTime {
    /// `None` at time 0.
    pub fn new(at: Instant) -> Option<Self> {
        NonZero::new(at.as_nanos()).map(Self)
    }

    /// The time.
    pub const fn at(self) -> Instant {
        Instant::from_nanos(self.0.get())
    }
}

impl Packet {
    /// A packet as a router sees one: its priority follows from the DSCP, no socket, no transmit
    /// time, no mark.
    pub const fn on_path(handle: u64, arrival: Instant, len: u32, flow: u32) -> Self {
        Self {
            handle,
            arrival,
            len,
            segments: 1,
            flow,
            mark: 0,
            dscp: 0,
            ecn: Ecn::NotEct,
            priority: 0,
            socket: false,
            pacing_rate: Rate::UNLIMITED,
            transmit: None,
        }
    }
}

impl Packet {
    /// Bytes that a rate counts: the wire length, and for each wire packet `extra` (framing and
    /// overhead), at least one byte each.
    pub(crate) fn counted_bytes(&self, extra: i64) -> u64 {
        let segments = i64::from(self.segments);
        let bytes = (i64::from(self.len) + segments * extra).max(segments);
        u64::try_from(bytes).expect("at least one byte per segment")
    }
}

/// The priority that Linux gives a packet that it forwards, from the type of service of its IPv4
/// header (RFC 1349, as in tc-prio(8)): best effort 0, bulk 2, interactive bulk 4, interactive 6.
/// Only the three low bits of `dscp` count. Here IPv6 packets are treated alike.
pub const fn priority_of(dscp: u8) -> u8 {
    match dscp & 7 {
        0 | 1 => 0,
        2 | 3 => 2,
        4 | 5 => 6,
        _ => 4,
    }
}

const _: () = assert!(size_of::<Packet>() <= 64, "a descriptor fits one cache line");

/// The ECN field of an IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0,
    /// ECN-capable, codepoint 01 (L4S, RFC 9331).
    Ect1 = 1,
    /// ECN-capable, codepoint 10.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// Whether congestion can be marked on the packet: any codepoint but Not-ECT.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }

    /// Reads the two low bits of a TOS or traffic class byte.
    pub const fn from_tos(tos: u8) -> Self {
        match tos & 3 {
            1 => Self::Ect1,
            2 => Self::Ect0,
            3 => Self::Ce,
            _ => Self::NotEct,
        }
    }
}

/// Memory that the kernel pins for a held packet of `len` bytes, in bytes.
///
/// A socket buffer costs 256 bytes for its head, and data rounded up to an allocation class:
/// payload, about 80 bytes of headroom and 320 of shared information in a power of two up to
/// 4096, whole pages beyond. A full frame measures 2,304 bytes on Linux 6.18, as this gives.
pub const fn true_size(len: u32) -> u64 {
    let data = len as u64 + 400;
    if data <= 4096 {
        let class = data.next_power_of_two();
        return 256 + if class < 512 { 512 } else { class };
    }
    256 + 512 + data.next_multiple_of(4096)
}
