//! Addresses that collide with no route of the host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::rtnetlink::Prefix;

/// The addresses of a lab: one IPv4 /24 and one IPv6 /60, each halved into the subnet between
/// *inside* and *gate* and the one between *gate* and *outside*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Where the command runs.
    pub inside4: Ipv4Addr,
    /// Likewise; `None` on a kernel without IPv6.
    pub inside6: Option<Ipv6Addr>,
    /// Where the peer runs.
    pub peer4: Ipv4Addr,
    /// Likewise; `None` on a kernel without IPv6.
    pub peer6: Option<Ipv6Addr>,
    pub(super) network4: Ipv4Addr,
    pub(super) network6: Option<Ipv6Addr>,
}

/// A subnet of the lab as the link set-up needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subnet {
    pub(super) length: u8,
    /// Where *inside* or *outside* is.
    pub(super) end: IpAddr,
    pub(super) gate: IpAddr,
}

impl Addresses {
    /// The first candidate network that overlaps none of `taken`, for each family.
    ///
    /// Candidates are the networks for benchmarks (IPv4 198.18.0.0/15, RFC 2544; IPv6
    /// 2001:2::/48, RFC 5180), which nobody routes, then private ones (RFC 1918, RFC 4193).
    /// Routes as wide as a default route say nothing about use, and are left out of account: a
    /// VPN's 0.0.0.0/1, a provider's 2000::/3.
    pub fn choose(taken: &[Prefix], ipv6: bool) -> Option<Self> {
        let free = |network: IpAddr, length| {
            let network = Prefix { address: network, length };
            !taken.iter().any(|other| is_specific(*other) && overlap(network, *other))
        };
        let network4 = candidates4().find(|n| free((*n).into(), LENGTH4))?;
        let network6 = candidates6().find(|n| free((*n).into(), LENGTH6)).filter(|_| ipv6);
        if ipv6 && network6.is_none() {
            return None;
        }
        let at4 = |offset| Ipv4Addr::from_bits(network4.to_bits() + offset);
        let at6 = |offset| network6.map(|n| Ipv6Addr::from_bits(n.to_bits() + offset));
        Some(Self {
            inside4: at4(2),
            inside6: at6(2),
            peer4: at4(SECOND4 + 2),
            peer6: at6(SECOND6 + 2),
            network4,
            network6,
        })
    }

    /// The subnets between *inside* and *gate*.
    pub(super) fn inside(&self) -> Vec<Subnet> {
        self.subnets(self.inside4, self.inside6, 0, 0)
    }

    /// The subnets between *gate* and *outside*.
    pub(super) fn outside(&self) -> Vec<Subnet> {
        self.subnets(self.peer4, self.peer6, SECOND4, SECOND6)
    }

    fn subnets(
        &self,
        end4: Ipv4Addr,
        end6: Option<Ipv6Addr>,
        offset4: u32,
        offset6: u128,
    ) -> Vec<Subnet> {
        let gate4 = Ipv4Addr::from_bits(self.network4.to_bits() + offset4 + 1);
        let mut subnets =
            vec![Subnet { length: LENGTH4 + 1, end: end4.into(), gate: gate4.into() }];
        if let (Some(end6), Some(network6)) = (end6, self.network6) {
            let gate6 = Ipv6Addr::from_bits(network6.to_bits() + offset6 + 1);
            subnets.push(Subnet { length: 64, end: end6.into(), gate: gate6.into() });
        }
        subnets
    }
}

fn candidates4() -> impl Iterator<Item = Ipv4Addr> {
    let networks = |a, b| (0..=255).map(move |c| Ipv4Addr::new(a, b, c, 0));
    [(198, 18), (198, 19), (10, 213), (172, 29), (192, 168)]
        .into_iter()
        .flat_map(move |(a, b)| networks(a, b))
}

fn candidates6() -> impl Iterator<Item = Ipv6Addr> {
    let benchmark = (0..256).map(|n| Ipv6Addr::new(0x2001, 2, 0, n << 4, 0, 0, 0, 0));
    let private = (0..256).map(|n| Ipv6Addr::new(0xfd70, 0x756e, 0x6374, n << 4, 0, 0, 0, 0));
    benchmark.chain(private)
}

fn is_specific(route: Prefix) -> bool {
    route.length >= if route.address.is_ipv4() { 8 } else { 16 }
}

fn overlap(a: Prefix, b: Prefix) -> bool {
    let shorter = a.length.min(b.length);
    match (a.address, b.address) {
        (IpAddr::V4(x), IpAddr::V4(y)) => {
            let differing = (x.to_bits() ^ y.to_bits()).leading_zeros();
            differing >= u32::from(shorter)
        }
        (IpAddr::V6(x), IpAddr::V6(y)) => {
            let differing = (x.to_bits() ^ y.to_bits()).leading_zeros();
            differing >= u32::from(shorter)
        }
        _ => false,
    }
}

const LENGTH4: u8 = 24;
const LENGTH6: u8 = 60;
/// Start of the second half, 198.18.0.128/25.
const SECOND4: u32 = 128;
/// Start of the second /64.
const SECOND6: u128 = 1 << 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn route(address: &str, length: u8) -> Prefix {
        Prefix { address: address.parse().unwrap(), length }
    }

    #[test]
    fn a_host_without_such_routes_gets_the_benchmark_networks() {
        let default = [route("0.0.0.0", 0), route("::", 0), route("192.168.1.0", 24)];
        let chosen = Addresses::choose(&default, true).unwrap();
        assert_eq!(chosen.inside4, Ipv4Addr::new(198, 18, 0, 2));
        assert_eq!(chosen.peer4, Ipv4Addr::new(198, 18, 0, 130));
        assert_eq!(chosen.inside6, Some("2001:2::2".parse().unwrap()));
        assert_eq!(chosen.peer6, Some("2001:2:0:1::2".parse().unwrap()));
    }

    #[test]
    fn a_lab_within_a_lab_avoids_both_halves_of_the_outer_one() {
        let outer = Addresses::choose(&[], true).unwrap();
        let seen_inside = [route("198.18.0.0", 25), route("2001:2::", 64), route("0.0.0.0", 0)];
        let inner = Addresses::choose(&seen_inside, true).unwrap();
        assert_eq!(inner.inside4, Ipv4Addr::new(198, 18, 1, 2));
        assert_ne!(inner.inside6, outer.inside6);
        assert_ne!(inner.inside6.unwrap().segments()[3], outer.peer6.unwrap().segments()[3]);
    }

    #[test]
    fn a_wider_or_narrower_route_takes_a_candidate_and_a_vpns_half_of_everything_none() {
        let wide = Addresses::choose(&[route("198.18.0.0", 16)], false).unwrap();
        assert_eq!(wide.inside4, Ipv4Addr::new(198, 19, 0, 2));
        let host = Addresses::choose(&[route("198.18.0.200", 32)], false).unwrap();
        assert_eq!(host.inside4, Ipv4Addr::new(198, 18, 1, 2));
        let vpn = Addresses::choose(&[route("128.0.0.0", 1), route("2000::", 3)], true).unwrap();
        assert_eq!(vpn.inside4, Ipv4Addr::new(198, 18, 0, 2));
    }

    #[test]
    fn when_everything_is_taken_nothing_is_chosen() {
        let all4: Vec<_> = (8..=255_u8).map(|a| route(&format!("{a}.0.0.0"), 8)).collect();
        assert_eq!(Addresses::choose(&all4, false), None);
        let all6 = [route("2001::", 16), route("fd70::", 16)];
        assert_eq!(Addresses::choose(&all6, true), None);
        assert!(Addresses::choose(&all6, false).is_some_and(|chosen| chosen.peer6.is_none()));
    }

    #[test]
    fn the_gate_has_an_address_in_each_half() {
        let chosen = Addresses::choose(&[], true).unwrap();
        let gates: Vec<_> =
            chosen.inside().iter().chain(&chosen.outside()).map(|s| s.gate).collect();
        let expected = ["198.18.0.1", "2001:2::1", "198.18.0.129", "2001:2:0:1::1"];
        assert_eq!(gates, expected.map(|a| a.parse::<IpAddr>().unwrap()));
    }
}
