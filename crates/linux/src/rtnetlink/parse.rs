//! What the kernel tells of links, routes and neighbours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::NlasIterator;
use netlink_packet_route::neighbour::NeighbourState;

use super::{Link, Prefix};

/// The value of the first attribute of kind `wanted` behind a fixed header of `header` bytes.
fn attribute(message: &[u8], header: usize, wanted: u16) -> Option<Vec<u8>> {
    let attributes = NlasIterator::new(message.get(header..)?);
    attributes
        .map_while(Result::ok)
        .find(|attribute| attribute.kind() == wanted)
        .map(|attribute| attribute.value().to_vec())
}

pub(super) fn parse_link(message: &[u8]) -> Option<Link> {
    let index = u32::from_ne_bytes(*message.get(4..8)?.first_chunk()?);
    let name = attribute(message, LINK_HEADER, IFLA_IFNAME)?;
    let name = String::from_utf8_lossy(name.strip_suffix(b"\0").unwrap_or(&name)).into_owned();
    let statistics = attribute(message, LINK_HEADER, IFLA_STATS64)?;
    let counter = |n: usize| {
        let bytes = statistics.get(n * 8..n * 8 + 8).and_then(|b| b.first_chunk());
        bytes.map_or(0, |b| u64::from_ne_bytes(*b))
    };
    Some(Link {
        index,
        name,
        mtu: attribute(message, LINK_HEADER, IFLA_MTU)
            .and_then(|bytes| Some(u32::from_ne_bytes(*bytes.first_chunk()?)))
            .unwrap_or(0),
        rx_packets: counter(0),
        tx_packets: counter(1),
        rx_bytes: counter(2),
        tx_bytes: counter(3),
        rx_errors: counter(4),
        tx_errors: counter(5),
        rx_dropped: counter(6),
        tx_dropped: counter(7),
    })
}

pub(super) fn parse_route(message: &[u8]) -> Option<Prefix> {
    let length = *message.get(1)?;
    let destination = attribute(message, ROUTE_HEADER, RTA_DST);
    let address = match (i32::from(*message.first()?), destination) {
        (libc::AF_INET, None) => Ipv4Addr::UNSPECIFIED.into(),
        (libc::AF_INET6, None) => Ipv6Addr::UNSPECIFIED.into(),
        (_, Some(bytes)) => address_of(&bytes)?,
        _ => return None,
    };
    Some(Prefix { address, length })
}

pub(super) fn parse_permanent_neighbour(message: &[u8]) -> Option<IpAddr> {
    let state = u16::from_ne_bytes(*message.get(8..10)?.first_chunk()?);
    let address = attribute(message, NEIGHBOUR_HEADER, NDA_DST)?;
    (state == u16::from(NeighbourState::Permanent)).then(|| address_of(&address)).flatten()
}

fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(*bytes.first_chunk::<4>()?)),
        16 => Some(IpAddr::from(*bytes.first_chunk::<16>()?)),
        _ => None,
    }
}

// linux/if_link.h, linux/rtnetlink.h, linux/neighbour.h
const LINK_HEADER: usize = 16;
const ROUTE_HEADER: usize = 12;
const NEIGHBOUR_HEADER: usize = 12;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_STATS64: u16 = 23;
const RTA_DST: u16 = 1;
const NDA_DST: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_read_whatever_else_it_carries() {
        // 10.1.0.0/16 with an attribute of an unknown kind before the destination.
        let mut message = vec![2, 16, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
        message.extend([8, 0, 99, 0, 1, 2, 3, 4]);
        message.extend([8, 0, 1, 0, 10, 1, 0, 0]);
        let prefix = Prefix { address: Ipv4Addr::new(10, 1, 0, 0).into(), length: 16 };
        assert_eq!(parse_route(&message), Some(prefix));
    }

    #[test]
    fn a_route_without_destination_is_the_default_of_its_family() {
        let v4 = [2, 0, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
        let address = Ipv4Addr::UNSPECIFIED.into();
        assert_eq!(parse_route(&v4), Some(Prefix { address, length: 0 }));
        let v6 = [10, 0, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
        let address = Ipv6Addr::UNSPECIFIED.into();
        assert_eq!(parse_route(&v6), Some(Prefix { address, length: 0 }));
    }

    #[test]
    fn truncated_answers_are_not_read() {
        for length in 0..12 {
            assert_eq!(parse_route(&[2; 12][..length.min(1)]), None);
            assert_eq!(parse_link(&vec![0; length]), None);
            assert_eq!(parse_permanent_neighbour(&vec![0; length]), None);
        }
    }
}
