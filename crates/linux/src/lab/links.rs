//! The two veth pairs: addresses, routes, neighbours.

use crate::namespace::Network;
use crate::rtnetlink::{Prefix, RtnetlinkError, Socket, VethEnd};

use super::addresses::{Addresses, Subnet};

/// Device in *inside*.
pub const INSIDE: &str = "link0";
/// The gate's device towards *inside*.
pub const GATE_IN: &str = "gate-in";
/// The gate's device towards *outside*.
pub const GATE_OUT: &str = "gate-out";
/// Device in *outside*.
pub const OUTSIDE: &str = "peer0";

/// Connects the three namespaces.
pub(super) fn connect(
    networks: [&Network; 3],
    addresses: &Addresses,
    mtu: u32,
) -> Result<(), RtnetlinkError> {
    let [inside, gate, outside] = networks;
    let mut gate_socket = Socket::open(gate)?;
    loopback(&mut gate_socket)?;
    pair(
        &mut gate_socket,
        VethEnd { network: gate, name: GATE_IN, mac: mac(1) },
        VethEnd { network: inside, name: INSIDE, mac: mac(2) },
        &addresses.inside(),
        mtu,
    )?;
    pair(
        &mut gate_socket,
        VethEnd { network: gate, name: GATE_OUT, mac: mac(3) },
        VethEnd { network: outside, name: OUTSIDE, mac: mac(4) },
        &addresses.outside(),
        mtu,
    )
}

fn pair(
    gate_socket: &mut Socket,
    gate: VethEnd<'_>,
    end: VethEnd<'_>,
    subnets: &[Subnet],
    mtu: u32,
) -> Result<(), RtnetlinkError> {
    let mut end_socket = Socket::open(end.network)?;
    loopback(&mut end_socket)?;
    gate_socket.add_veth([&gate, &end], mtu)?;
    let gate_index = gate_socket.index_of(gate.name)?;
    let end_index = end_socket.index_of(end.name)?;
    gate_socket.set_up(gate_index)?;
    end_socket.set_up(end_index)?;
    for subnet in subnets {
        let own = |address| Prefix { address, length: subnet.length };
        gate_socket.add_address(gate_index, own(subnet.gate))?;
        gate_socket.add_neighbour(gate_index, subnet.end, end.mac)?;
        end_socket.add_address(end_index, own(subnet.end))?;
        end_socket.add_neighbour(end_index, subnet.gate, gate.mac)?;
        end_socket.add_default_route(end_index, subnet.gate)?;
    }
    Ok(())
}

fn loopback(socket: &mut Socket) -> Result<(), RtnetlinkError> {
    let index = socket.index_of("lo")?;
    socket.set_up(index)
}

/// A locally administered unicast address (IEEE 802, second bit of the first byte).
fn mac(n: u8) -> [u8; 6] {
    [0x02, 0x70, 0x75, 0x6e, 0x63, n]
}
