//! Views of network and transport headers.

use super::{Classified, PayloadKind, v4, v6};
use crate::packet::Ecn;

/// Protocol numbers (IANA, "Assigned Internet Protocol Numbers").
mod protocol {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ICMP: u8 = 1;
    pub(super) const TCP: u8 = 6;
    pub(super) const UDP: u8 = 17;
    pub(super) const DCCP: u8 = 33;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const ESP: u8 = 50;
    pub(super) const AH: u8 = 51;
    pub(super) const ICMPV6: u8 = 58;
    pub(super) const DESTINATION_OPTIONS: u8 = 60;
    pub(super) const SCTP: u8 = 132;
    pub(super) const UDP_LITE: u8 = 136;
    pub(super) const MOBILITY: u8 = 135;
}

/// The name of a protocol in reports.
pub(super) const fn protocol_name(number: u8) -> Option<&'static str> {
    Some(match number {
        protocol::ICMP => "icmp",
        protocol::TCP => "tcp",
        protocol::UDP => "udp",
        protocol::DCCP => "dccp",
        protocol::ESP => "esp",
        protocol::AH => "ah",
        protocol::ICMPV6 => "icmpv6",
        protocol::SCTP => "sctp",
        protocol::UDP_LITE => "udplite",
        _ => return None,
    })
}

pub(super) const fn is_icmp(number: u8) -> bool {
    matches!(number, protocol::ICMP | protocol::ICMPV6)
}

/// IPv4 (RFC 791).
pub(super) fn ipv4(head: &[u8]) -> Classified {
    let mut classified = Classified::default();
    let Some(&[version_ihl, tos]) = head.first_chunk() else { return classified };
    let header_len = usize::from(version_ihl & 0x0f) * 4;
    if version_ihl >> 4 != 4 || header_len < 20 {
        return classified;
    }
    set_class(&mut classified, tos);
    let Some(fixed) = head.first_chunk::<20>() else { return classified };
    classified.key.protocol = fixed[9];
    classified.key.addresses = Some((v4(array(fixed, 12)), v4(array(fixed, 16))));
    // All of the fragment field but "don't fragment" and the reserved bit: more, or an offset.
    classified.fragment = u16::from_be_bytes(array(fixed, 6)) & 0x3fff != 0;
    if head.len() < header_len {
        return classified;
    }
    transport(&mut classified, head, header_len);
    classified
}

/// IPv6 (RFC 8200) and its extension headers.
pub(super) fn ipv6(head: &[u8]) -> Classified {
    let mut classified = Classified::default();
    let Some(&first) = head.first_chunk::<2>() else { return classified };
    if first[0] >> 4 != 6 {
        return classified;
    }
    set_class(&mut classified, first[0] << 4 | first[1] >> 4);
    let Some(fixed) = head.first_chunk::<40>() else { return classified };
    classified.key.protocol = fixed[6];
    classified.key.addresses = Some((v6(array(fixed, 8)), v6(array(fixed, 24))));
    if let Some(at) = skip_extensions(&mut classified, head, 40) {
        transport(&mut classified, head, at);
    }
    classified
}

/// Walks the extension headers from `at` on; sets protocol and fragment. `None` when the packet
/// ends before the upper header begins. Each step takes at least 8 bytes of a bounded head.
fn skip_extensions(classified: &mut Classified, head: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let this = classified.key.protocol;
        let extension = matches!(
            this,
            protocol::HOP_BY_HOP
                | protocol::ROUTING
                | protocol::FRAGMENT
                | protocol::DESTINATION_OPTIONS
                | protocol::MOBILITY
                | protocol::AH
        );
        if !extension {
            return Some(at);
        }
        let &[next, len, high, low] = head.get(at..)?.first_chunk()?;
        at += match this {
            protocol::FRAGMENT => 8,
            // RFC 4302, section 2.2: 32-bit words, less two.
            protocol::AH => (usize::from(len) + 2) * 4,
            // RFC 8200, section 4.3: 8-octet units, not counting the first.
            _ => (usize::from(len) + 1) * 8,
        };
        if at > head.len() {
            return None;
        }
        classified.key.protocol = next;
        // RFC 6946: neither offset nor "more" is a whole datagram. What follows a true fragment's
        // header is there in the first fragment only, so none of them looks at it.
        if this == protocol::FRAGMENT && u16::from_be_bytes([high, low]) & 0xfff9 != 0 {
            classified.fragment = true;
            return Some(at);
        }
    }
}

/// Reads ports and header length of the transport header at `at`.
fn transport(classified: &mut Classified, head: &[u8], at: usize) {
    classified.header_len = u16::try_from(at).unwrap_or(0);
    if classified.fragment {
        classified.kind = kind(classified.key.protocol);
        return;
    }
    let rest = head.get(at..).unwrap_or_default();
    let len = match classified.key.protocol {
        protocol::UDP => ports(classified, rest).and_then(|()| length(rest, 8)),
        // RFC 9293, section 3.1: the data offset counts 32-bit words, at least the fixed five.
        protocol::TCP => ports(classified, rest)
            .and_then(|()| rest.get(12))
            .map(|offset| usize::from(offset >> 4) * 4)
            .filter(|&len| len >= 20),
        protocol::ICMP => echo(classified, rest, [0, 8]),
        protocol::ICMPV6 => echo(classified, rest, [129, 128]),
        protocol::UDP_LITE | protocol::SCTP | protocol::DCCP => {
            ports(classified, rest);
            None
        }
        _ => None,
    };
    if let Some(len) = len {
        classified.kind = kind(classified.key.protocol);
        classified.header_len += u16::try_from(len).unwrap_or(0);
    }
}

fn ports(classified: &mut Classified, rest: &[u8]) -> Option<()> {
    let &[a, b, c, d] = rest.first_chunk()?;
    classified.key.source_port = u16::from_be_bytes([a, b]);
    classified.key.destination_port = u16::from_be_bytes([c, d]);
    Some(())
}

/// The identifier of an echo request or reply stands in for ports, as in address translators
/// (RFC 5508): it tells one ping from another.
fn echo(classified: &mut Classified, rest: &[u8], types: [u8; 2]) -> Option<usize> {
    let head = rest.first_chunk::<8>()?;
    if types.contains(&head[0]) {
        classified.key.source_port = u16::from_be_bytes(array(head, 4));
    }
    Some(8)
}

fn length(rest: &[u8], len: usize) -> Option<usize> {
    (rest.len() >= len).then_some(len)
}

const fn kind(protocol: u8) -> PayloadKind {
    match protocol {
        protocol::UDP => PayloadKind::Udp,
        protocol::TCP => PayloadKind::Tcp,
        protocol::ICMP => PayloadKind::Icmp,
        protocol::ICMPV6 => PayloadKind::Icmpv6,
        _ => PayloadKind::Other,
    }
}

fn set_class(classified: &mut Classified, tos: u8) {
    classified.dscp = tos >> 2;
    classified.ecn = Ecn::from_tos(tos);
}

/// `N` bytes of a fixed header from `at` on.
fn array<const N: usize, const LEN: usize>(header: &[u8; LEN], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&header[at..at + N]);
    bytes
}
