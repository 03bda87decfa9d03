//! What a run needs of the kernel, tried before anything starts.

use rustix::io::Errno;

use crate::fault::{Faults, Refuse};
use crate::lab::{LabError, writable};
use crate::namespace::{Network, NetworkError, Refusal};
use crate::rtnetlink::{RtnetlinkError, Socket, VethEnd};

/// What was found; everything a run cannot do without is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Whether the kernel has IPv6; without it the lab is IPv4 only.
    pub ipv6: bool,
}

/// What a run cannot do without. `Display` explains, [`remedy`](Self::remedy) helps, a line each.
#[derive(Debug, thiserror::Error)]
pub enum Lack {
    /// No user namespace.
    #[error(transparent)]
    UserNamespace(#[from] Refusal),
    /// No network namespace.
    #[error("network namespaces cannot be had: {0}")]
    NetworkNamespace(NetworkError),
    /// No veth devices.
    #[error("veth devices cannot be made: {0}")]
    Veth(RtnetlinkError),
    /// `/proc/sys` cannot be written.
    #[error("/proc/sys is read-only, so forwarding cannot be switched on")]
    ProcSysReadOnly,
    /// Forwarding cannot be switched on for another reason.
    #[error("forwarding cannot be switched on: {0}")]
    Forwarding(LabError),
}

impl Probe {
    /// Tries network namespaces, veth pairs and forwarding, in namespaces that vanish at once.
    /// After [`user::enter`](crate::namespace::user::enter).
    pub fn run(faults: &Faults) -> Result<Self, Lack> {
        let networks = (|| Ok([Network::new()?, Network::new()?]))();
        let [one, other] = networks.map_err(Lack::NetworkNamespace)?;
        make_veth(&one, &other).map_err(Lack::Veth)?;
        if faults.refuses(Refuse::ProcSysReadonly) {
            return Err(Lack::ProcSysReadOnly);
        }
        writable(&one).map_err(|error| match &error {
            LabError::Sysctl { source, .. }
                if source.kind() == std::io::ErrorKind::ReadOnlyFilesystem =>
            {
                Lack::ProcSysReadOnly
            }
            _ => Lack::Forwarding(error),
        })?;
        Ok(Self { ipv6: crate::lab::has_ipv6() })
    }
}

impl Lack {
    /// What to do about it, in one line.
    pub fn remedy(&self) -> String {
        match self {
            Self::UserNamespace(refusal) => refusal.remedy(),
            Self::NetworkNamespace(NetworkError::Create(Errno::NOSPC)) => {
                "`sudo sysctl user.max_net_namespaces=10000`".to_owned()
            }
            Self::NetworkNamespace(NetworkError::Create(Errno::INVAL)) => {
                "use a kernel built with CONFIG_NET_NS".to_owned()
            }
            Self::NetworkNamespace(_) => {
                "start punctual as root, or in a container with `--cap-add SYS_ADMIN \
                 --cap-add NET_ADMIN --security-opt seccomp=unconfined`"
                    .to_owned()
            }
            Self::Veth(RtnetlinkError::Refused { errno: Errno::OPNOTSUPP, .. }) => {
                "`sudo modprobe veth`, or use a kernel built with CONFIG_VETH".to_owned()
            }
            Self::ProcSysReadOnly => "`mount -o remount,rw /proc/sys`; Docker: \
                 `--security-opt systempaths=unconfined`, or `--privileged`"
                .to_owned(),
            Self::Veth(_) | Self::Forwarding(_) => "start punctual as root".to_owned(),
        }
    }
}

fn make_veth(one: &Network, other: &Network) -> Result<(), RtnetlinkError> {
    let end =
        |network, n| VethEnd { network, name: "probe", mac: [2, 0x70, 0x75, 0x6e, 0, n], index: 0 };
    Socket::open(one)?.add_veth([&end(one, 1), &end(other, 2)], 1500)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_module_is_told_apart_from_a_missing_permission() {
        let veth = |errno| {
            Lack::Veth(RtnetlinkError::Refused { operation: "make the veth pair".into(), errno })
        };
        assert!(veth(Errno::OPNOTSUPP).remedy().contains("modprobe veth"));
        assert!(!veth(Errno::PERM).remedy().contains("modprobe"));
        let limit = Lack::NetworkNamespace(NetworkError::Create(Errno::NOSPC));
        assert!(limit.remedy().contains("user.max_net_namespaces"));
    }
}
