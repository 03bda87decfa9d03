//! What the scheduler knows of a packet.

use crate::time::Instant;

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
    /// Firewall mark, where one survives up to here, else 0.
    pub mark: u32,
    /// Differentiated services code point, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: Ecn,
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
