//! Links, addresses, routes and neighbours over `rtnetlink(7)`: one request at a time, blocking.
//!
//! Requests are built with `netlink-packet-route`. Of answers only the few attributes needed are
//! read, so that a host's unusual routes or a newer kernel's attributes cannot fail a run.

mod parse;

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkBuffer,
    NetlinkHeader, NetlinkMessage,
};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use rustix::io::Errno;
use rustix::net::{AddressFamily as Domain, RecvFlags, SendFlags, SocketFlags, SocketType};

use self::parse::{parse_link, parse_permanent_neighbour, parse_route};
use crate::namespace::{Network, NetworkError};

/// A socket that configures the network namespace in which it was opened.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
}

/// A request failed.
#[derive(Debug, thiserror::Error)]
pub enum RtnetlinkError {
    /// The socket could not be opened.
    #[error("cannot open a netlink socket: {0}")]
    Open(Errno),
    /// The namespace could not be entered.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The kernel did not do what was asked.
    #[error("cannot {operation}: {errno}")]
    Refused {
        /// What was asked.
        operation: String,
        /// The kernel's answer.
        errno: Errno,
    },
}

/// One end of a veth pair.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// The namespace it is made in.
    pub network: &'a Network,
    /// Device name, at most 15 bytes.
    pub name: &'a str,
    /// Hardware address.
    pub mac: [u8; 6],
    /// Interface index, 0 to have the kernel choose.
    pub index: u32,
}

/// An address prefix, as a route's destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// First address.
    pub address: IpAddr,
    /// Length in bits.
    pub length: u8,
}

/// A device and its counters (`struct rtnl_link_stats64`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Interface index.
    pub index: u32,
    /// Device name.
    pub name: String,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received, link-layer headers included.
    pub rx_bytes: u64,
    /// Bytes sent, likewise.
    pub tx_bytes: u64,
    /// Errors while receiving.
    pub rx_errors: u64,
    /// Errors while sending.
    pub tx_errors: u64,
    /// Received packets that were dropped.
    pub rx_dropped: u64,
    /// Packets dropped on their way out.
    pub tx_dropped: u64,
}

impl Socket {
    /// Opens a socket in the calling thread's namespace: an ordinary user may list what the host
    /// has, but not enter its namespace (again).
    pub fn open_here() -> Result<Self, RtnetlinkError> {
        // No protocol is protocol 0, which is NETLINK_ROUTE.
        let flags = SocketFlags::CLOEXEC;
        rustix::net::socket_with(Domain::NETLINK, SocketType::RAW, flags, None)
            .map(|fd| Self { fd, sequence: 0 })
            .map_err(RtnetlinkError::Open)
    }

    /// Opens a socket inside `network`, where it stays whoever uses it.
    pub fn open(network: &Network) -> Result<Self, RtnetlinkError> {
        network.within(Self::open_here)?
    }

    /// Makes a pair of `veth(4)` devices, each end in its own namespace, both down.
    pub fn add_veth(&mut self, ends: [&VethEnd<'_>; 2], mtu: u32) -> Result<(), RtnetlinkError> {
        let peer = veth_end(ends[1], mtu);
        let mut message = veth_end(ends[0], mtu);
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        let operation = format!("make the veth pair {} and {}", ends[0].name, ends[1].name);
        self.create(RouteNetlinkMessage::NewLink(message), &operation)
    }

    /// Sets a device up.
    pub fn set_up(&mut self, index: u32) -> Result<(), RtnetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.request(RouteNetlinkMessage::SetLink(message), 0, &format!("set device {index} up"))
    }

    /// Gives a device an address; duplicate address detection is left out, so an IPv6 address can
    /// be used at once.
    pub fn add_address(&mut self, index: u32, own: Prefix) -> Result<(), RtnetlinkError> {
        let mut message = AddressMessage::default();
        message.header.family = family(own.address);
        message.header.prefix_len = own.length;
        message.header.index = index;
        if own.address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        message.attributes =
            vec![AddressAttribute::Local(own.address), AddressAttribute::Address(own.address)];
        let operation = format!("add the address {}/{}", own.address, own.length);
        self.create(RouteNetlinkMessage::NewAddress(message), &operation)
    }

    /// Adds a default route. `congestion` is the congestion control of the TCP connections that
    /// take it (`congctl` in ip-route(8)); unlike a namespace's default it may be any that exists.
    pub fn add_default_route(
        &mut self,
        index: u32,
        via: IpAddr,
        congestion: Option<&str>,
    ) -> Result<(), RtnetlinkError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(via);
        message.header.table = netlink_packet_route::route::RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.attributes =
            vec![RouteAttribute::Gateway(RouteAddress::from(via)), RouteAttribute::Oif(index)];
        if let Some(name) = congestion {
            let metric = RouteMetric::CcAlgo(name.to_owned());
            message.attributes.push(RouteAttribute::Metrics(vec![metric]));
        }
        let operation = format!("add the default route via {via}");
        self.create(RouteNetlinkMessage::NewRoute(message), &operation)
    }

    /// Adds a permanent neighbour, so that its hardware address is never asked for.
    pub fn add_neighbour(
        &mut self,
        index: u32,
        address: IpAddr,
        mac: [u8; 6],
    ) -> Result<(), RtnetlinkError> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(address);
        message.header.ifindex = index;
        message.header.state = NeighbourState::Permanent;
        let destination = match address {
            IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
            IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
        };
        message.attributes = vec![
            NeighbourAttribute::Destination(destination),
            NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
        ];
        let operation = format!("add the permanent neighbour {address}");
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.request(RouteNetlinkMessage::NewNeighbour(message), flags, &operation)
    }

    /// All devices of the namespace.
    pub fn links(&mut self) -> Result<Vec<Link>, RtnetlinkError> {
        let message = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let answers = self.dump(message, "list devices")?;
        Ok(answers.iter().filter_map(|answer| parse_link(answer)).collect())
    }

    /// The index of the device called `name`.
    pub fn index_of(&mut self, name: &str) -> Result<u32, RtnetlinkError> {
        let link = self.links()?.into_iter().find(|link| link.name == name);
        link.map(|link| link.index).ok_or_else(|| RtnetlinkError::Refused {
            operation: format!("find the device {name}"),
            errno: Errno::NODEV,
        })
    }

    /// The destinations of all IPv4 and IPv6 routes, of all tables; default routes have length 0.
    pub fn route_destinations(&mut self) -> Result<Vec<Prefix>, RtnetlinkError> {
        let mut all = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            match self.dump(RouteNetlinkMessage::GetRoute(message), "list routes") {
                Ok(answers) => all.extend(answers.iter().filter_map(|a| parse_route(a))),
                // A kernel without this family has no routes of it.
                Err(RtnetlinkError::Refused {
                    errno: Errno::OPNOTSUPP | Errno::AFNOSUPPORT,
                    ..
                }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// The permanent neighbours' addresses.
    pub fn permanent_neighbours(&mut self) -> Result<Vec<IpAddr>, RtnetlinkError> {
        let message = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
        let answers = self.dump(message, "list neighbours")?;
        Ok(answers.iter().filter_map(|answer| parse_permanent_neighbour(answer)).collect())
    }

    fn create(
        &mut self,
        message: RouteNetlinkMessage,
        operation: &str,
    ) -> Result<(), RtnetlinkError> {
        self.request(message, NLM_F_CREATE | NLM_F_EXCL, operation)
    }

    fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
        operation: &str,
    ) -> Result<(), RtnetlinkError> {
        self.exchange(message, flags | NLM_F_ACK)
            .map(|_| ())
            .map_err(|errno| RtnetlinkError::Refused { operation: operation.to_owned(), errno })
    }

    fn dump(
        &mut self,
        message: RouteNetlinkMessage,
        operation: &str,
    ) -> Result<Vec<Vec<u8>>, RtnetlinkError> {
        self.exchange(message, NLM_F_DUMP)
            .map_err(|errno| RtnetlinkError::Refused { operation: operation.to_owned(), errno })
    }

    /// Sends one request and collects the payloads of its answers up to the end or the error.
    fn exchange(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Vec<Vec<u8>>, Errno> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, message.into());
        message.finalize();
        let mut request = vec![0; message.buffer_len()];
        message.serialize(&mut request);
        rustix::net::send(&self.fd, &request, SendFlags::empty())?;
        let mut answers = Vec::new();
        let mut buffer = vec![0; BUFFER];
        loop {
            let (length, _) =
                rustix::net::recv(&self.fd, buffer.as_mut_slice(), RecvFlags::empty())?;
            if self.collect(&buffer[..length], &mut answers)? {
                return Ok(answers);
            }
        }
    }

    /// Takes the messages of one datagram; whether the answer is complete with it.
    fn collect(&self, mut datagram: &[u8], answers: &mut Vec<Vec<u8>>) -> Result<bool, Errno> {
        while let Ok(message) = NetlinkBuffer::new_checked(datagram) {
            let length = message.length() as usize;
            if message.sequence_number() == self.sequence {
                match message.message_type() {
                    NLMSG_ERROR | NLMSG_DONE => return finish(message.payload()).map(|()| true),
                    _ => answers.push(message.payload().to_vec()),
                }
            }
            let aligned = length.next_multiple_of(4);
            datagram = datagram.get(aligned..).unwrap_or_default();
        }
        Ok(false)
    }
}

/// `NLMSG_ERROR` and `NLMSG_DONE` both begin with a negative error number, 0 for success.
fn finish(payload: &[u8]) -> Result<(), Errno> {
    let code = payload.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
    if code < 0 { Err(Errno::from_raw_os_error(-code)) } else { Ok(()) }
}

fn veth_end(end: &VethEnd<'_>, mtu: u32) -> LinkMessage {
    use std::os::fd::{AsFd, AsRawFd};
    let mut message = LinkMessage::default();
    message.header.index = end.index;
    message.attributes = vec![
        LinkAttribute::IfName(end.name.to_owned()),
        LinkAttribute::Mtu(mtu),
        LinkAttribute::Address(end.mac.to_vec()),
        LinkAttribute::NetNsFd(end.network.as_fd().as_raw_fd()),
    ];
    message
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// The kernel fills at most 32 KiB of a dump into one datagram.
const BUFFER: usize = 64 * 1024;
// linux/netlink.h, linux/if_link.h, linux/rtnetlink.h, linux/neighbour.h
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_answer_carries_its_number_and_zero_is_success() {
        assert_eq!(finish(&(-17_i32).to_ne_bytes()), Err(Errno::EXIST));
        assert_eq!(finish(&0_i32.to_ne_bytes()), Ok(()));
    }
}
