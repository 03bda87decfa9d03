//! Sends IP packets out of a device to the neighbour behind it, byte for byte as they are given.
//!
//! A packet socket, because the kernel's raw IP sockets rewrite what they send (raw(7)): they fill
//! in an identification of 0, the length and the header checksum, and route anew, so a copy would
//! differ from its original. Filters and the routing of the namespace are passed by; a held packet
//! has been through them already. Cost of a full frame, against a verdict in a batch of 32 (2.1 us):
//! 1.25 times; a raw socket 1.36 times. `PACKET_QDISC_BYPASS` is left off: it would also pass by
//! the captures on the device.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::sys::socket;

/// Where packets leave.
#[derive(Clone, Copy, Debug)]
pub struct EgressConfig<'a> {
    /// The device's name.
    pub device: &'a str,
    /// Its own hardware address.
    pub source: [u8; 6],
    /// Hardware address of the only neighbour, or of the next router.
    pub neighbour: [u8; 6],
    /// Largest IP packet in bytes.
    pub mtu: u32,
}

/// An open way out. Nothing is received on it.
#[derive(Debug)]
pub struct Egress {
    socket: OwnedFd,
    /// Ethernet addresses: destination, source.
    addresses: [u8; 12],
    mtu: usize,
    counts: EgressCounts,
}

/// What went wrong while sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EgressCounts {
    /// Packets sent.
    pub sent: u64,
    /// Attempts that were repeated because the kernel had no room.
    pub retried: u64,
    /// Packets that could not be sent: no room after all attempts, larger than the MTU, the
    /// device down.
    pub unsent: u64,
}

/// No way out could be opened.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot open a packet socket on {device}: {error}; run as root, or in a user namespace that \
     owns the network namespace (CAP_NET_RAW), on a kernel with CONFIG_PACKET"
)]
pub struct EgressError {
    device: String,
    /// The kernel's answer.
    #[source]
    pub error: io::Error,
}

impl Egress {
    /// In the calling thread's network namespace.
    pub fn open(config: &EgressConfig<'_>) -> Result<Self, EgressError> {
        let refused = |error| EgressError { device: config.device.to_owned(), error };
        let mut addresses = [0; 12];
        addresses[..6].copy_from_slice(&config.neighbour);
        addresses[6..].copy_from_slice(&config.source);
        Ok(Self {
            socket: Self::bound(config.device).map_err(refused)?,
            addresses,
            mtu: usize::try_from(config.mtu).unwrap_or(usize::MAX),
            counts: EgressCounts::default(),
        })
    }

    /// Sends a packet, from its IP header on, as one of `protocol` (the Ethertype: its first byte
    /// may be a corrupted one); when this returns it is on its way. False if it could not be sent,
    /// which is counted.
    pub fn send(&mut self, protocol: u16, packet: &[u8]) -> bool {
        let fits = (1..=self.mtu).contains(&packet.len());
        let sent = fits && self.transmit(&self.header(protocol), packet);
        self.counts.sent += u64::from(sent);
        self.counts.unsent += u64::from(!sent);
        sent
    }

    /// Counts so far.
    pub fn counts(&self) -> EgressCounts {
        self.counts
    }

    fn bound(device: &str) -> io::Result<OwnedFd> {
        let socket = socket::packet_socket()?;
        let interface = rustix::net::netdevice::name_to_index(&socket, device)?;
        socket::bind_packet_socket(socket.as_fd(), interface, socket::Protocol::None)?;
        Ok(socket)
    }

    fn header(&self, protocol: u16) -> [u8; 14] {
        let mut header = [0; 14];
        header[..12].copy_from_slice(&self.addresses);
        header[12..].copy_from_slice(&protocol.to_be_bytes());
        header
    }

    fn transmit(&mut self, header: &[u8], packet: &[u8]) -> bool {
        for _ in 0..ATTEMPTS {
            match self.attempt(header, packet) {
                Ok(()) => return true,
                Err(error) if is_temporary(error) => self.counts.retried += 1,
                Err(_) => return false,
            }
            self.await_room();
        }
        false
    }

    fn attempt(&self, header: &[u8], packet: &[u8]) -> rustix::io::Result<()> {
        let parts = [IoSlice::new(header), IoSlice::new(packet)];
        let mut control = SendAncillaryBuffer::default();
        rustix::net::sendmsg(&self.socket, &parts, &mut control, SendFlags::empty()).map(drop)
    }

    /// Waits for room in the socket's send buffer, but only shortly: others are due.
    fn await_room(&self) {
        let mut fds = [PollFd::new(&self.socket, PollFlags::OUT)];
        let patience = Timespec::try_from(PATIENCE).ok();
        // Whatever it says, the next attempt tells.
        let _ = rustix::event::poll(&mut fds, patience.as_ref());
    }
}

fn is_temporary(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    matches!(error, Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INTR)
}

/// Together with the wait: at most half a millisecond for one packet.
const ATTEMPTS: u32 = 10;
const PATIENCE: Duration = Duration::from_micros(50);
