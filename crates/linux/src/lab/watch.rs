//! Waiting for what the kernel does later: devices that send, addresses that receive.

use std::os::fd::OwnedFd;

use netlink_packet_core::{NetlinkBuffer, NlasIterator};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use crate::namespace::Network;
use crate::rtnetlink::{Prefix, RtnetlinkError, Socket};

/// A socket that hears of changes of devices and of IPv6 routes since it was opened.
#[derive(Debug)]
pub(super) struct Watch(OwnedFd);

impl Watch {
    pub(super) fn open(network: &Network) -> Result<Self, RtnetlinkError> {
        let opened = network.within(|| {
            let flags = SocketFlags::CLOEXEC;
            let fd =
                rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
            rustix::net::bind(&fd, &SocketAddrNetlink::new(0, RTMGRP_LINK | RTMGRP_IPV6_ROUTE))?;
            Ok(fd)
        })?;
        opened.map(Self).map_err(RtnetlinkError::Open)
    }

    /// Waits until a device that was set up since, and whose veth peer was too, really sends.
    ///
    /// The end that is set up first gets its carrier when the second is, but a kernel worker
    /// activates its queue some time later, and until then it drops what is sent without a word
    /// (here the first packet of 3 labs in 100). That worker is also who tells of the operational
    /// state *up* (RFC 2863), and it does so after the activation.
    pub(super) fn wait_until_up(&self, index: u32) -> Result<(), RtnetlinkError> {
        let operation = || format!("wait until device {index} is up");
        while !tells_of_up(&self.next(operation)?, index) {}
        Ok(())
    }

    /// Waits until packets for an IPv6 address are taken in: its local route appears when a kernel
    /// worker has skipped the detection of duplicates.
    pub(super) fn wait_until_local(
        &self,
        socket: &mut Socket,
        own: Prefix,
    ) -> Result<(), RtnetlinkError> {
        let local = Prefix { address: own.address, length: 128 };
        while !socket.route_destinations()?.contains(&local) {
            self.next(|| format!("wait for the local route of {}", own.address))?;
        }
        Ok(())
    }

    fn next(&self, operation: impl Fn() -> String) -> Result<Vec<u8>, RtnetlinkError> {
        let refused = |errno| RtnetlinkError::Refused { operation: operation(), errno };
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        let ready = rustix::io::retry_on_intr(|| poll(&mut polled, Some(&LIMIT)));
        if ready.map_err(refused)? == 0 {
            return Err(refused(Errno::TIMEDOUT));
        }
        let mut buffer = vec![0; 32 * 1024];
        let received = rustix::net::recv(&self.0, buffer.as_mut_slice(), RecvFlags::DONTWAIT);
        buffer.truncate(received.map_err(refused)?.0);
        Ok(buffer)
    }
}

/// Notifications come one in a datagram.
fn tells_of_up(datagram: &[u8], index: u32) -> bool {
    let Ok(message) = NetlinkBuffer::new_checked(datagram) else { return false };
    let payload = message.payload();
    message.message_type() == RTM_NEWLINK
        && payload.get(4..8) == Some(&index.to_ne_bytes())
        && payload.get(LINK_HEADER..).is_some_and(|attributes| {
            NlasIterator::new(attributes)
                .map_while(Result::ok)
                .any(|a| a.kind() == IFLA_OPERSTATE && a.value() == [IF_OPER_UP])
        })
}

/// Far beyond the milliseconds it takes, so that a fault is told instead of waited for.
const LIMIT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
// linux/rtnetlink.h, linux/if_link.h, linux/if.h
const RTMGRP_LINK: u32 = 1;
const RTMGRP_IPV6_ROUTE: u32 = 0x400;
const RTM_NEWLINK: u16 = 16;
const LINK_HEADER: usize = 16;
const IFLA_OPERSTATE: u16 = 16;
const IF_OPER_UP: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_state_up_of_the_device_meant_counts() {
        let told = |kind: u16, index: u32, state: u8| {
            let mut bytes = [40_u32.to_ne_bytes(), [0; 4], [0; 4], [0; 4]].concat();
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            bytes.extend([0; 4]);
            bytes.extend(index.to_ne_bytes());
            bytes.extend([0; 8]);
            bytes.extend(5_u16.to_ne_bytes());
            bytes.extend(IFLA_OPERSTATE.to_ne_bytes());
            bytes.extend([state, 0, 0, 0]);
            bytes
        };
        assert!(tells_of_up(&told(RTM_NEWLINK, 3, 6), 3));
        assert!(!tells_of_up(&told(RTM_NEWLINK, 4, 6), 3));
        assert!(!tells_of_up(&told(RTM_NEWLINK, 3, 2), 3));
        assert!(!tells_of_up(&told(RTM_NEWLINK + 1, 3, 6), 3));
        assert!(!tells_of_up(&told(RTM_NEWLINK, 3, 6)[..30], 3));
    }
}
