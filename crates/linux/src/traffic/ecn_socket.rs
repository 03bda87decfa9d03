//! A UDP socket that says what it sends and reads in the ECN field.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use punctual_sched::Duration;
use rustix::net::sockopt;

use super::TrafficError;
use crate::sys::socket::ReceiveBatch;
use crate::wait::readable;

/// A socket that never waits but in [`EcnSocket::wait`].
pub struct EcnSocket {
    socket: UdpSocket,
    batch: ReceiveBatch,
}

/// One datagram received.
#[derive(Clone, Copy, Debug)]
pub struct EcnDatagram<'a> {
    /// The payload, at most [`EcnSocket::SNAPLEN`] bytes of it.
    pub payload: &'a [u8],
    /// Type of service byte (IPv4) or traffic class (IPv6) as it arrived: DSCP and ECN.
    pub tos: u8,
    /// The sender's address.
    pub source: Option<SocketAddr>,
}

impl EcnSocket {
    /// Payload bytes kept.
    pub const SNAPLEN: usize = 65_536;

    /// A socket that sends to `target` with this type of service byte or traffic class.
    pub fn connect(target: SocketAddr, tos: u8) -> Result<Self, TrafficError> {
        let any: SocketAddr = match target {
            SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
            SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
        };
        let socket = Self::bind(any)?;
        socket.socket.connect(target).map_err(failed(format!("send UDP to {target}")))?;
        let set = match target {
            SocketAddr::V4(_) => sockopt::set_ip_tos(&socket.socket, tos),
            SocketAddr::V6(_) => sockopt::set_ipv6_tclass(&socket.socket, tos.into()),
        };
        set.map_err(|error| failed("set the type of service")(error.into()))?;
        Ok(socket)
    }

    /// A socket that receives on `address`.
    pub fn bind(address: SocketAddr) -> Result<Self, TrafficError> {
        let operation = format!("receive UDP on {address}");
        let socket = UdpSocket::bind(address).map_err(failed(operation.clone()))?;
        socket.set_nonblocking(true).map_err(failed(operation))?;
        let set = match address {
            SocketAddr::V4(_) => sockopt::set_ip_recvtos(&socket, true),
            SocketAddr::V6(_) => sockopt::set_ipv6_recvtclass(&socket, true),
        };
        set.map_err(|error| failed("ask for the type of service")(error.into()))?;
        Ok(Self { socket, batch: ReceiveBatch::new(16, Self::SNAPLEN) })
    }

    /// The address bound.
    pub fn local_addr(&self) -> Result<SocketAddr, TrafficError> {
        self.socket.local_addr().map_err(failed("read the UDP address"))
    }

    /// Sends to the target; false when the kernel has no room for it now, or an ICMP answer says
    /// that nobody listens.
    pub fn send(&self, payload: &[u8]) -> Result<bool, TrafficError> {
        taken(self.socket.send(payload))
    }

    /// Sends to `to`, likewise.
    pub fn send_to(&self, payload: &[u8], to: SocketAddr) -> Result<bool, TrafficError> {
        taken(self.socket.send_to(payload, to))
    }

    /// Waits until something can be received or `span` has passed.
    pub fn wait(&self, span: Duration) -> Result<(), TrafficError> {
        let waited = readable(self.socket.as_fd(), span);
        waited.map(|_| ()).map_err(|error| failed("wait for UDP")(error.into()))
    }

    /// Hands what has arrived to `each`, in batches until nothing is left.
    pub fn receive(&mut self, mut each: impl FnMut(EcnDatagram<'_>)) -> Result<(), TrafficError> {
        loop {
            let received = match self.batch.receive(self.socket.as_fd()) {
                // The ICMP answer to a datagram of ours.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                other => other.map_err(failed("receive UDP"))?,
            };
            if received == 0 {
                return Ok(());
            }
            for index in 0..received {
                let (payload, meta) = self.batch.message(index);
                let (tos, source) = (meta.tos.unwrap_or(0), meta.source);
                each(EcnDatagram { payload, tos, source });
            }
        }
    }
}

fn taken(sent: io::Result<usize>) -> Result<bool, TrafficError> {
    match sent {
        Ok(_) => Ok(true),
        Err(error) if is_passing(&error) => Ok(false),
        Err(error) => Err(failed("send UDP")(error)),
    }
}

/// Whether the next attempt may succeed.
fn is_passing(error: &io::Error) -> bool {
    let kinds =
        [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted, io::ErrorKind::ConnectionRefused];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(libc::ENOBUFS)
}

fn failed(operation: impl Into<String>) -> impl FnOnce(io::Error) -> TrafficError {
    TrafficError::io(operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ecn_field_arrives_as_it_was_sent_over_both_families() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let mut receiver = EcnSocket::bind(address.parse().unwrap()).unwrap();
            let target = receiver.local_addr().unwrap();
            for tos in [0_u8, 1, 2, 0b1011_1001] {
                let sender = EcnSocket::connect(target, tos).unwrap();
                assert!(sender.send(b"payload").unwrap());
                receiver.wait(Duration::from_secs(5)).unwrap();
                let mut seen = Vec::new();
                let from = sender.local_addr().unwrap().port();
                let mut take = |datagram: EcnDatagram<'_>| {
                    let port = datagram.source.map(|source| source.port());
                    seen.push((datagram.payload.to_vec(), datagram.tos, port));
                };
                receiver.receive(&mut take).unwrap();
                assert_eq!(seen, [(b"payload".to_vec(), tos, Some(from))], "{address}");
            }
        }
    }

    #[test]
    fn nobody_listening_is_no_failure() {
        let closed = EcnSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let target = closed.local_addr().unwrap();
        drop(closed);
        let mut sender = EcnSocket::connect(target, 1).unwrap();
        for _ in 0..3 {
            sender.send(b"payload").unwrap();
            sender.wait(Duration::from_millis(20)).unwrap();
            sender.receive(|_| panic!("nothing was sent back")).unwrap();
        }
    }
}
