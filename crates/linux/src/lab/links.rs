//! The two veth pairs: addresses, routes, neighbours.

use std::net::IpAddr;

use crate::namespace::Network;
use crate::rtnetlink::{Prefix, RtnetlinkError, Socket, VethEnd};
use crate::wire::EgressConfig;

use super::addresses::{Addresses, Subnet};
use super::watch::Watch;

/// Device in *inside*.
pub const INSIDE: &str = "link0";
/// The gate's device towards *inside*.
pub const GATE_IN: &str = "gate-in";
/// The gate's device towards *outside*.
pub const GATE_OUT: &str = "gate-out";
/// Device in *outside*.
pub const OUTSIDE: &str = "peer0";

/// Connects the three namespaces; `congestion` is set on the default routes of both ends.
pub(super) fn connect(
    networks: [&Network; 3],
    addresses: &Addresses,
    mtu: u32,
    congestion: Option<&str>,
) -> Result<(), RtnetlinkError> {
    let [inside, gate, outside] = networks;
    for network in networks {
        let mut socket = Socket::open(network)?;
        let index = socket.index_of("lo")?;
        socket.set_up(index)?;
    }
    let ends = [device(gate, GATE_IN, 1), device(inside, INSIDE, 2)];
    pair(ends, &addresses.inside(), mtu, congestion)?;
    let ends = [device(gate, GATE_OUT, 3), device(outside, OUTSIDE, 4)];
    pair(ends, &addresses.outside(), mtu, congestion)
}

/// How packets leave the gate by [`GATE_IN`] or [`GATE_OUT`]: to the one neighbour there.
pub fn egress(device: &'static str, mtu: u32) -> EgressConfig<'static> {
    let n = if device == GATE_IN { 1 } else { 3 };
    EgressConfig { device, source: mac(n), neighbour: mac(n + 1), mtu }
}

/// The `n`th device, with an index unlike that of its peer. Where both are equal, as they are when
/// the kernel chooses them, it takes the end for a device without a peer and tells of its carrier up
/// to a second later.
fn device<'a>(network: &'a Network, name: &'a str, n: u8) -> VethEnd<'a> {
    VethEnd { network, name, mac: mac(n), index: 10 + u32::from(n) }
}

/// A locally administered unicast address (IEEE 802, second bit of the first byte).
fn mac(n: u8) -> [u8; 6] {
    [0x02, 0x70, 0x75, 0x6e, 0x63, n]
}

/// A device of the lab, with what it takes to configure it.
struct Device<'a> {
    end: VethEnd<'a>,
    socket: Socket,
    watch: Watch,
}

fn pair(
    [near, end]: [VethEnd<'_>; 2],
    subnets: &[Subnet],
    mtu: u32,
    congestion: Option<&str>,
) -> Result<(), RtnetlinkError> {
    Socket::open(near.network)?.add_veth([&near, &end], mtu)?;
    let mut gate = Device::open(near)?;
    let mut end = Device::open(end)?;
    gate.socket.set_up(gate.end.index)?;
    end.socket.set_up(end.end.index)?;
    gate.watch.wait_until_up(gate.end.index)?;
    end.watch.wait_until_up(end.end.index)?;
    for subnet in subnets {
        gate.join(subnet.gate, subnet.length, subnet.end, end.end.mac)?;
        end.join(subnet.end, subnet.length, subnet.gate, gate.end.mac)?;
        end.socket.add_default_route(end.end.index, subnet.gate, congestion)?;
    }
    Ok(())
}

impl<'a> Device<'a> {
    fn open(end: VethEnd<'a>) -> Result<Self, RtnetlinkError> {
        let (socket, watch) = (Socket::open(end.network)?, Watch::open(end.network)?);
        Ok(Self { end, socket, watch })
    }

    fn join(
        &mut self,
        own: IpAddr,
        length: u8,
        other: IpAddr,
        other_mac: [u8; 6],
    ) -> Result<(), RtnetlinkError> {
        let own = Prefix { address: own, length };
        self.socket.add_address(self.end.index, own)?;
        self.socket.add_neighbour(self.end.index, other, other_mac)?;
        if own.address.is_ipv6() {
            self.watch.wait_until_local(&mut self.socket, own)?;
        }
        Ok(())
    }
}
