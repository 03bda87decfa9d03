//! Settings in `/proc/sys/net`, which shows the network namespace of the thread that opens it.

use std::io;
use std::path::Path;

use super::{LabError, Tcp};
use crate::namespace::Network;

/// Turns forwarding on. First of all settings: the kernel then resets others to a router's.
pub(super) fn forward(gate: &Network, ipv6: bool) -> Result<(), LabError> {
    gate.within(|| {
        write("ipv4/ip_forward", "1")?;
        if ipv6 { write("ipv6/conf/all/forwarding", "1") } else { Ok(()) }
    })?
}

/// What all three namespaces get before they have devices, which copy `default` when made:
/// no reverse path filter (a host's may be inherited), no duplicate address detection, no
/// automatic addresses and no router solicitations, so nothing but the run's traffic is on the
/// link and IPv6 works at once.
pub(super) fn quiet(network: &Network, ipv6: bool) -> Result<(), LabError> {
    network.within(|| {
        for scope in ["all", "default"] {
            write(&format!("ipv4/conf/{scope}/rp_filter"), "0")?;
            if ipv6 {
                for (name, value) in QUIET6 {
                    write(&format!("ipv6/conf/{scope}/{name}"), value)?;
                }
            }
        }
        Ok(())
    })?
}

/// Lets programs listen on every port: the lab is the caller's own, and a peer may be a server
/// that knows only port 80 (`ip_unprivileged_port_start`, ip(7), Linux 4.11).
pub(super) fn permit_ports(network: &Network) -> Result<(), LabError> {
    network.within(|| write("ipv4/ip_unprivileged_port_start", "0"))?
}

/// Lets programs open ICMP sockets without privilege. The range is in terms of the writer's user
/// namespace: there the caller's group is 0, and other groups do not exist.
pub(super) fn permit_ping(network: &Network) -> Result<(), LabError> {
    network.within(|| {
        write("ipv4/ping_group_range", "0 2147483647")
            .or_else(|_| write("ipv4/ping_group_range", "0 0"))
    })?
}

/// What became of the congestion control asked for as the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// New TCP sockets use it.
    Set,
    /// It exists, but only the host's own namespace may make it the default.
    Restricted,
}

/// Sets the congestion control that new TCP sockets use.
///
/// In any other namespace than the first, root or not, the kernel takes as default only what
/// `tcp_allowed_congestion_control` lists, which often lacks cubic.
pub(super) fn congestion_control(network: &Network, name: &str) -> Result<Outcome, LabError> {
    network.within(|| match write("ipv4/tcp_congestion_control", name) {
        Ok(()) => Ok(Outcome::Set),
        Err(LabError::Sysctl { source, .. }) => {
            let available = read("ipv4/tcp_available_congestion_control").unwrap_or_default();
            let exists = available.split(' ').any(|known| known == name);
            if exists && source.kind() == io::ErrorKind::PermissionDenied {
                return Ok(Outcome::Restricted);
            }
            Err(LabError::CongestionControl { name: name.to_owned(), available, source })
        }
        Err(other) => Err(other),
    })?
}

/// TCP asks for ECN when it connects, and accepts it.
pub(super) fn ask_for_ecn(network: &Network) -> Result<(), LabError> {
    network.within(|| write("ipv4/tcp_ecn", "1"))?
}

/// What TCP is set to.
pub(super) fn tcp(network: &Network) -> Result<Tcp, LabError> {
    let tcp = network.within(|| Tcp {
        congestion_control: read("ipv4/tcp_congestion_control").ok(),
        ecn: read("ipv4/tcp_ecn").ok().and_then(|value| value.parse().ok()),
    });
    Ok(tcp?)
}

/// Whether the kernel has IPv6 switched on (`ipv6.disable=1` leaves the directory out).
pub(crate) fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6/conf/default").exists()
}

/// Whether forwarding could be switched on in `network`.
pub(crate) fn writable(network: &Network) -> Result<(), LabError> {
    network.within(|| write("ipv4/ip_forward", "1"))?
}

fn write(name: &str, value: &str) -> Result<(), LabError> {
    let path = format!("/proc/sys/net/{name}");
    std::fs::write(&path, value).map_err(|source| LabError::Sysctl { path, source })
}

fn read(name: &str) -> io::Result<String> {
    std::fs::read_to_string(format!("/proc/sys/net/{name}")).map(|text| text.trim().to_owned())
}

const QUIET6: [(&str, &str); 7] = [
    ("disable_ipv6", "0"),
    ("accept_dad", "0"),
    ("dad_transmits", "0"),
    ("accept_ra", "0"),
    ("autoconf", "0"),
    ("router_solicitations", "0"),
    // No link-local addresses: they serve neighbour discovery and routers only.
    ("addr_gen_mode", "1"),
];
