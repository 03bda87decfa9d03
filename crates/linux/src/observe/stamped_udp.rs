//! A UDP socket whose datagrams carry the kernel's receive stamp.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use super::{ObserveError, grow_receive_buffer};
use crate::sys::socket::{self, ReceiveBatch};

/// A receiver. [`StampedUdp::receive`] never waits; poll the descriptor for readability.
pub struct StampedUdp {
    socket: UdpSocket,
    batch: ReceiveBatch,
    buffer_bytes: usize,
}

impl std::fmt::Debug for StampedUdp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StampedUdp").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// One datagram received.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The payload, at most [`StampedUdp::SNAPLEN`] bytes of it.
    pub payload: &'a [u8],
    /// Bytes of the whole payload.
    pub length: usize,
    /// The kernel's stamp by `CLOCK_REALTIME`, nanoseconds: taken as the interface received the
    /// packet.
    pub stamp_ns: Option<i64>,
    /// The sender's address.
    pub source: Option<SocketAddr>,
}

impl StampedUdp {
    /// Payload bytes kept: every numbered probe fits, the rest is only counted.
    pub const SNAPLEN: usize = 2_048;

    /// Binds in the calling thread's network namespace, and asks for `buffer_bytes` of receive buffer.
    pub fn bind(address: SocketAddr, buffer_bytes: usize) -> Result<Self, ObserveError> {
        let socket =
            UdpSocket::bind(address).map_err(|error| ObserveError::Bind { address, error })?;
        socket::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
            .map_err(|error| ObserveError::Option { option: "SO_TIMESTAMPNS", error })?;
        let buffer_bytes = grow_receive_buffer(&socket, buffer_bytes)?;
        Ok(Self { socket, batch: ReceiveBatch::new(64, Self::SNAPLEN), buffer_bytes })
    }

    /// Hands one batch of what has arrived to `each`; returns how many datagrams that was.
    pub fn receive(&mut self, mut each: impl FnMut(Datagram<'_>)) -> Result<usize, ObserveError> {
        let received = self.batch.receive(self.socket.as_fd()).map_err(|error| {
            ObserveError::Receive { from: "the stamped UDP socket".to_owned(), error }
        })?;
        for index in 0..received {
            let (payload, meta) = self.batch.message(index);
            let (length, stamp_ns, source) = (meta.length, meta.stamp_ns, meta.source);
            each(Datagram { payload, length, stamp_ns, source });
        }
        Ok(received)
    }

    /// Datagrams that found the receive buffer full, modulo 2^32.
    pub fn lost(&self) -> Result<u32, ObserveError> {
        socket::socket_drops(self.socket.as_fd())
            .map_err(|error| ObserveError::Option { option: "SO_MEMINFO", error })
    }

    /// The address bound.
    pub fn local_addr(&self) -> Result<SocketAddr, ObserveError> {
        self.socket.local_addr().map_err(|error| ObserveError::Receive {
            from: "the address of the stamped UDP socket".to_owned(),
            error,
        })
    }

    /// The receive buffer got, in the kernel's own count of bytes.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }
}

impl AsFd for StampedUdp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
