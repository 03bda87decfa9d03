//! What the first bytes of a packet say: flow, class, congestion field, header length.
//!
//! Nothing here trusts the packet: a truncated or lying header ends the reading, and what was read
//! up to there counts. Nothing allocates.

use core::fmt;
use core::hash::Hash;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::packet::Ecn;

mod header;

/// `ETH_P_IP` (IEEE 802 numbers).
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// `ETH_P_IPV6`.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;

/// Bytes of a packet that [`classify`] may need; fewer are enough for most. What is beyond is
/// never read.
pub const HEAD_LEN: usize = 128;

/// What a packet's headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classified {
    /// The kind of payload.
    pub kind: PayloadKind,
    /// Who talks to whom.
    pub key: FlowKey,
    /// Hash of the key, the same in every run and on every machine.
    pub flow: u32,
    /// Differentiated services code point (RFC 2474), 0 to 63.
    pub dscp: u8,
    /// Congestion field (RFC 3168).
    pub ecn: Ecn,
    /// Bytes of network header, extension headers included, and transport header: what each
    /// segment of a burst repeats. 0 when not known.
    pub header_len: u16,
    /// The packet is a part of a datagram.
    pub fragment: bool,
}

/// What a packet carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PayloadKind {
    /// UDP (RFC 768).
    Udp,
    /// TCP (RFC 9293).
    Tcp,
    /// ICMP (RFC 792).
    Icmp,
    /// ICMPv6 (RFC 4443).
    Icmpv6,
    /// Anything else, and whatever is truncated or contradicts itself.
    #[default]
    Other,
}

/// Addresses, protocol and ports: the 5-tuple.
///
/// Of a fragment only addresses and protocol, because only the first one has the ports, and all
/// fragments of a datagram belong to one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source and destination; `None` when the packet is not IP or too short to say.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// IP protocol number (IANA), of IPv6 the last next header read.
    pub protocol: u8,
    /// Source port, or the identifier of an ICMP echo; 0 when there is none.
    pub source_port: u16,
    /// Destination port; 0 when there is none.
    pub destination_port: u16,
}

/// Reads the headers of a packet that begins with `head` (its first [`HEAD_LEN`] bytes, or all of a
/// shorter one).
pub fn classify(head: &[u8], ethertype: u16) -> Classified {
    let head = head.get(..HEAD_LEN).unwrap_or(head);
    let mut classified = match ethertype {
        ETHERTYPE_IPV4 => header::ipv4(head),
        ETHERTYPE_IPV6 => header::ipv6(head),
        _ => Classified::default(),
    };
    classified.flow = classified.key.hash32();
    classified
}

/// Length on the wire in bytes at the IP layer, and number of packets, of an unsplit burst of
/// `total_len` bytes: the payload cut into packets of at most `mtu` bytes, each with the headers.
///
/// The kernel cuts at a size of its own (the TCP segment size, a UDP sender's `UDP_SEGMENT`), which
/// a packet does not tell; for bulk traffic it is what fills the MTU. A packet that fits the MTU,
/// or whose headers are not known, is one.
pub fn wire_length(total_len: u32, classified: &Classified, mtu: u32) -> (u32, u16) {
    let header = u32::from(classified.header_len);
    let (Some(payload), Some(room)) = (total_len.checked_sub(header), mtu.checked_sub(header))
    else {
        return (total_len, 1);
    };
    if total_len <= mtu || header == 0 || room == 0 {
        return (total_len, 1);
    }
    let segments = u16::try_from(payload.div_ceil(room)).unwrap_or(u16::MAX);
    (total_len.saturating_add(header.saturating_mul(u32::from(segments) - 1)), segments)
}

impl Default for Classified {
    fn default() -> Self {
        Self {
            kind: PayloadKind::Other,
            key: FlowKey::default(),
            flow: 0,
            dscp: 0,
            ecn: Ecn::NotEct,
            header_len: 0,
            fragment: false,
        }
    }
}

impl FlowKey {
    /// A hash of all fields by constant keys: not for adversaries, but reproducible.
    fn hash32(&self) -> u32 {
        let ports = u64::from(self.source_port) << 16 | u64::from(self.destination_port);
        let mut hash = mix(SEED, u64::from(self.protocol) << 32 | ports);
        match self.addresses {
            Some((IpAddr::V4(from), IpAddr::V4(to))) => {
                hash = mix(hash, u64::from(from.to_bits()) << 32 | u64::from(to.to_bits()));
            }
            Some((from, to)) => {
                for address in [from, to] {
                    let (high, low) = halves(bits(address));
                    hash = mix(mix(hash, high), low);
                }
            }
            None => {}
        }
        u32::try_from(hash >> 32).expect("the upper half of 64 bits")
    }
}

/// One round of multiply and fold (the 128-bit product's halves combined), as in wyhash.
fn mix(hash: u64, word: u64) -> u64 {
    let (high, low) = halves(u128::from(hash ^ word ^ STEP) * u128::from(MULTIPLIER));
    high ^ low
}

/// The upper and the lower 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
const fn halves(bits: u128) -> (u64, u64) {
    ((bits >> 64) as u64, bits as u64)
}

const fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits() as u128,
        IpAddr::V6(address) => address.to_bits(),
    }
}

// Digits of pi, odd where multiplied by: no structure of their own.
const SEED: u64 = 0x2436_a889_85a3_08d3;
const STEP: u64 = 0x1319_8a2e_0370_7344;
const MULTIPLIER: u64 = 0xa409_3822_299f_31d1;

impl fmt::Display for FlowKey {
    /// `udp 10.0.0.1:5000 > 10.0.0.2:53`, `tcp [fd00::1]:80 > [fd00::2]:4000`,
    /// `icmp 10.0.0.1 > 10.0.0.2 id 7`, `udp 10.0.0.1 > 10.0.0.2` (a fragment), `other`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((from, to)) = self.addresses else { return f.write_str("other") };
        match header::protocol_name(self.protocol) {
            Some(name) => f.write_str(name)?,
            None => write!(f, "protocol {}", self.protocol)?,
        }
        let echo = header::is_icmp(self.protocol);
        let ports = !echo && (self.source_port, self.destination_port) != (0, 0);
        f.write_str(" ")?;
        write_end(f, from, ports.then_some(self.source_port))?;
        f.write_str(" > ")?;
        write_end(f, to, ports.then_some(self.destination_port))?;
        if echo && self.source_port != 0 { write!(f, " id {}", self.source_port) } else { Ok(()) }
    }
}

fn write_end(f: &mut fmt::Formatter<'_>, address: IpAddr, port: Option<u16>) -> fmt::Result {
    match (address, port) {
        (IpAddr::V6(address), Some(port)) => write!(f, "[{address}]:{port}"),
        (IpAddr::V6(address), None) => write!(f, "[{address}]"),
        (address, Some(port)) => write!(f, "{address}:{port}"),
        (address, None) => write!(f, "{address}"),
    }
}

pub(crate) const fn v4(octets: [u8; 4]) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_octets(octets))
}

pub(crate) const fn v6(octets: [u8; 16]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_octets(octets))
}

#[cfg(test)]
mod tests;
