//! A packet socket on one interface, with kernel stamps: what `tcpdump` would see, without it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::probe::MAGIC;
use super::{ObserveError, grow_receive_buffer};
use crate::sys::socket::{self, ReceiveBatch};

/// A capture. [`Capture::receive`] never waits; poll the descriptor for readability.
///
/// Packets that leave by the interface are stamped as they are handed to it, after the queueing
/// discipline; packets that come in, as the interface receives them. On the loopback interface every
/// packet is seen twice, out and in.
pub struct Capture {
    socket: OwnedFd,
    device: String,
    batch: ReceiveBatch,
    wanted: Direction,
    buffer_bytes: usize,
    lost: u64,
}

/// How to capture.
#[derive(Clone, Copy, Debug)]
pub struct CaptureConfig {
    /// Bytes kept of each packet, 1 to 262,144; 65,535 keeps every packet whole, GSO bursts included.
    pub snaplen: usize,
    /// Packets read by one system call, 1 to 1024.
    pub slots: usize,
    /// Receive buffer asked for, in bytes.
    pub buffer_bytes: usize,
    /// Which way packets must go.
    pub direction: Direction,
    /// Which packets.
    pub filter: Filter,
}

impl Default for CaptureConfig {
    fn default() -> Self {
        let (direction, filter) = (Direction::Both, Filter::Everything);
        Self { snaplen: 65_535, slots: 32, buffer_bytes: 16 << 20, direction, filter }
    }
}

/// Which way a packet goes, seen from the namespace of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// In and out.
    Both,
    /// Received by the interface.
    In,
    /// Sent by the interface.
    Out,
}

/// Which packets reach the capture at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All of them, ARP included.
    Everything,
    /// Unfragmented UDP whose payload starts with a probe's magic, decided in the kernel: a capture of
    /// probes then costs the other packets a few instructions, and its buffer stays free of them.
    Probes,
}

/// One packet as the kernel handed it to the capture, from its Ethernet header on.
#[derive(Clone, Copy, Debug)]
pub struct CapturedPacket<'a> {
    /// At most the snap length.
    pub bytes: &'a [u8],
    /// Bytes of the whole packet.
    pub length: usize,
    /// The kernel's stamp by `CLOCK_REALTIME`, nanoseconds.
    pub stamp_ns: Option<i64>,
    /// It left by the interface.
    pub outgoing: bool,
}

impl Capture {
    /// Opens a capture in the calling thread's network namespace.
    pub fn open(device: &str, config: &CaptureConfig) -> Result<Self, ObserveError> {
        let refused = |error| ObserveError::PacketSocket { device: device.to_owned(), error };
        let socket = socket::packet_socket().map_err(refused)?;
        let fd = socket.as_fd();
        let interface = rustix::net::netdevice::name_to_index(fd, device).map_err(|error| {
            ObserveError::NoDevice { device: device.to_owned(), error: error.into() }
        })?;
        let option = |option| move |error| ObserveError::Option { option, error };
        socket::set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
            .map_err(option("SO_TIMESTAMPNS"))?;
        if config.direction == Direction::In {
            // Linux 4.20.
            socket::set_option(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)
                .map_err(option("PACKET_IGNORE_OUTGOING"))?;
        }
        if config.filter == Filter::Probes {
            socket::attach_filter(fd, &PROBES_ONLY).map_err(option("SO_ATTACH_FILTER"))?;
        }
        let buffer_bytes = grow_receive_buffer(fd, config.buffer_bytes)?;
        socket::bind_packet_socket(fd, interface, socket::Protocol::All).map_err(refused)?;
        let batch = ReceiveBatch::new(config.slots, config.snaplen.clamp(1, 262_144));
        let (device, wanted) = (device.to_owned(), config.direction);
        Ok(Self { socket, device, batch, wanted, buffer_bytes, lost: 0 })
    }

    /// Hands one batch of what has been captured to `each`; returns how many packets it read, 0 when
    /// there were none.
    pub fn receive(
        &mut self,
        mut each: impl FnMut(CapturedPacket<'_>),
    ) -> Result<usize, ObserveError> {
        let received = self.batch.receive(self.socket.as_fd()).map_err(|error| {
            ObserveError::Receive { from: format!("the capture on {}", self.device), error }
        })?;
        for index in 0..received {
            let (bytes, meta) = self.batch.message(index);
            if self.wanted == Direction::Out && !meta.outgoing {
                continue;
            }
            let (length, stamp_ns) = (meta.length, meta.stamp_ns);
            each(CapturedPacket { bytes, length, stamp_ns, outgoing: meta.outgoing });
        }
        Ok(received)
    }

    /// Packets that passed the filter but found the receive buffer full, since the capture was opened.
    pub fn lost(&mut self) -> Result<u64, ObserveError> {
        let drops = socket::take_packet_drops(self.socket.as_fd())
            .map_err(|error| ObserveError::Option { option: "PACKET_STATISTICS", error })?;
        self.lost += u64::from(drops);
        Ok(self.lost)
    }

    /// The receive buffer got, in the kernel's own count of bytes.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }
}

impl AsFd for Capture {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// [`Filter::Probes`] in classic BPF (`Documentation/networking/filter.rst`). A load beyond the end of
/// the packet rejects it.
const PROBES_ONLY: [libc::sock_filter; 17] = {
    const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
    const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    const LOAD_WORD_AT_X: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_IND;
    const X_IS_HEADER_LENGTH: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
    const X_IS: u32 = libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM;
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    [
        bpf(LOAD_HALF, 12, 0, 0),
        bpf(EQUAL, 0x0800, 0, 5), // not IPv4: to the test for IPv6
        bpf(LOAD_HALF, 20, 0, 0),
        bpf(ANY_BIT, 0x3fff, 12, 0), // a fragment: reject
        bpf(LOAD_BYTE, 23, 0, 0),
        bpf(X_IS_HEADER_LENGTH, 14, 0, 0),
        bpf(libc::BPF_JMP | libc::BPF_JA, 3, 0, 0), // to the test for UDP
        bpf(EQUAL, 0x86dd, 0, 8),                   // neither: reject
        bpf(LOAD_BYTE, 20, 0, 0),
        bpf(X_IS, 40, 0, 0),
        bpf(EQUAL, 17, 0, 5),              // not UDP: reject
        bpf(LOAD_WORD_AT_X, 14 + 8, 0, 0), // the payload's first word
        bpf(EQUAL, (MAGIC >> 32) as u32, 0, 3),
        bpf(LOAD_WORD_AT_X, 14 + 12, 0, 0), // and its second
        bpf(EQUAL, (MAGIC & 0xffff_ffff) as u32, 0, 1),
        bpf(RETURN, u32::MAX, 0, 0),
        bpf(RETURN, 0, 0, 0),
    ]
};

const fn bpf(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: (code & 0xffff) as u16, jt, jf, k }
}
