//! The lab: three network namespaces in a row, *inside* (the command), *gate* (forwards, and
//! holds the packets) and *outside* (the peer). Nothing of the host is touched.
//!
//! Three, because a packet may be held between two ends only where it is forwarded: its sender's
//! socket has been released by then, and its receive time stamp is not taken yet.

mod addresses;
pub mod links;
mod sysctl;
mod watch;

use std::io;

use crate::namespace::{Network, NetworkError};
use crate::rtnetlink::{Link, RtnetlinkError, Socket};

pub use addresses::Addresses;
pub(crate) use sysctl::{has_ipv6, writable};

/// How a lab is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabConfig {
    /// Largest IP packet on both links, bytes; 1280 at least, or IPv6 does not work (RFC 8200).
    pub mtu: u32,
    /// Default TCP congestion control in *inside* and *outside*; `None` keeps the kernel's.
    pub congestion_control: Option<String>,
    /// TCP in *inside* and *outside* asks for ECN (`tcp_ecn` 1); else the kernel's default, which
    /// is to accept it when asked.
    pub ecn: bool,
}

/// Three connected namespaces. They go when this is dropped and the last process in them ends.
#[derive(Debug)]
pub struct Lab {
    inside: Network,
    gate: Network,
    outside: Network,
    addresses: Addresses,
    tcp: Tcp,
}

/// How TCP behaves at both ends; each `None` where the kernel does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Congestion control of new sockets.
    pub congestion_control: Option<String>,
    /// `tcp_ecn`: 0 never, 1 asks for it, 2 accepts it (`ip-sysctl`).
    pub ecn: Option<u8>,
}

/// The devices of one namespace of the lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceStatistics {
    /// `inside`, `gate` or `outside`.
    pub network: &'static str,
    /// Each device but the loopback.
    pub links: Vec<Link>,
}

/// A lab could not be built.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A namespace could not be made or entered.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A link, address, route or neighbour was refused.
    #[error("cannot set up the lab: {0}")]
    Rtnetlink(#[from] RtnetlinkError),
    /// A setting was refused.
    #[error("cannot write {path}: {source}")]
    Sysctl {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The congestion control does not exist, or may not be used.
    #[error(
        "cannot use the congestion control `{name}`: {source}; available: {available} \
         (others may need `modprobe tcp_{name}`, or root)"
    )]
    CongestionControl {
        /// As asked for.
        name: String,
        /// What the kernel offers, separated by spaces.
        available: String,
        /// Why.
        source: io::Error,
    },
    /// Every candidate subnet overlaps a route of the host.
    #[error("cannot find a subnet free of the host's routes; every candidate is taken")]
    NoFreeSubnet,
}

impl Default for LabConfig {
    fn default() -> Self {
        Self { mtu: 1500, congestion_control: None, ecn: false }
    }
}

impl Lab {
    /// Builds the three namespaces and the links between them.
    ///
    /// The subnets avoid the routes of the namespace the caller is in, so a lab works within a lab.
    pub fn build(config: &LabConfig) -> Result<Self, LabError> {
        let taken = Socket::open_here()?.route_destinations()?;
        let ipv6 = has_ipv6();
        let addresses = Addresses::choose(&taken, ipv6).ok_or(LabError::NoFreeSubnet)?;
        let (inside, gate, outside) = (Network::new()?, Network::new()?, Network::new()?);
        sysctl::forward(&gate, ipv6)?;
        for network in [&inside, &gate, &outside] {
            sysctl::quiet(network, ipv6)?;
        }
        for end in [&inside, &outside] {
            sysctl::permit_ping(end)?;
            sysctl::permit_ports(end)?;
        }
        if config.ecn {
            [&inside, &outside].into_iter().try_for_each(sysctl::ask_for_ecn)?;
        }
        let mut by_route = None;
        if let Some(name) = &config.congestion_control {
            for end in [&inside, &outside] {
                if sysctl::congestion_control(end, name)? == sysctl::Outcome::Restricted {
                    by_route = Some(name.as_str());
                }
            }
        }
        links::connect([&inside, &gate, &outside], &addresses, config.mtu, by_route)?;
        let mut tcp = sysctl::tcp(&inside)?;
        if let Some(name) = by_route {
            tcp.congestion_control = Some(name.to_owned());
        }
        Ok(Self { inside, gate, outside, addresses, tcp })
    }

    /// Where the command runs.
    pub fn inside(&self) -> &Network {
        &self.inside
    }

    /// Where packets are forwarded and held.
    pub fn gate(&self) -> &Network {
        &self.gate
    }

    /// Where the peer runs.
    pub fn outside(&self) -> &Network {
        &self.outside
    }

    /// How TCP behaves at both ends.
    pub fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    /// The addresses of command and peer.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The kernel's own counters of every device of the lab.
    pub fn device_statistics(&self) -> Result<Vec<DeviceStatistics>, RtnetlinkError> {
        let named = [("inside", &self.inside), ("gate", &self.gate), ("outside", &self.outside)];
        named
            .into_iter()
            .map(|(name, network)| {
                let mut links = Socket::open(network)?.links()?;
                links.retain(|link| link.name != "lo");
                Ok(DeviceStatistics { network: name, links })
            })
            .collect()
    }
}
