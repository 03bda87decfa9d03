//! Observers that know nothing of the scheduler: kernel stamps of captured packets and of received
//! datagrams, and the numbered probes they recognise.
//!
//! All of them stamp by `CLOCK_REALTIME` in the kernel, before any wake-up of ours. The kernel turns
//! its receive stamps on a moment after the first socket asks for them (a work item flips a static
//! key), so open every observer some milliseconds before the first packet that counts.

mod capture;
mod probe;
mod stamped_udp;
mod witness;

use std::io;
use std::os::fd::AsFd;

pub use capture::{Capture, CaptureConfig, CapturedPacket, Direction, Filter};
pub use probe::{PROBE_BYTES, Probe};
pub use stamped_udp::{Datagram, StampedUdp};
pub use witness::{
    ProbeSeen, ProbeSent, Seen, Witness, WitnessConfig, WitnessData, WitnessError, WitnessPlaces,
};

/// An observer could not be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The interface does not exist in the calling thread's network namespace.
    #[error("cannot capture on {device}: no such interface in this network namespace ({error})")]
    NoDevice {
        /// The name asked for.
        device: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// A packet socket was refused.
    #[error(
        "cannot open a packet socket on {device}: {error} \
         (CAP_NET_RAW in the user namespace that owns the network namespace is needed)"
    )]
    PacketSocket {
        /// The interface.
        device: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// A UDP socket could not be opened.
    #[error("cannot receive UDP on {address}: {error}")]
    Bind {
        /// The local address asked for.
        address: std::net::SocketAddr,
        /// What the kernel said.
        error: io::Error,
    },
    /// An option was refused.
    #[error("cannot set {option}: {error} (see `man 7 socket`; the kernel may be too old)")]
    Option {
        /// The option's name in the man pages.
        option: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
    /// Reading failed; a capture sees this when its interface goes down or away.
    #[error("cannot read {from}: {error}")]
    Receive {
        /// What was being read.
        from: String,
        /// What the kernel said.
        error: io::Error,
    },
}

/// Asks for a receive buffer beyond the host's limit, which needs `CAP_NET_ADMIN` over the host, and
/// falls back to what `net.core.rmem_max` permits. Returns the size got, in the kernel's own count.
pub(crate) fn grow_receive_buffer(socket: impl AsFd, bytes: usize) -> Result<usize, ObserveError> {
    use rustix::net::sockopt;
    let refused = |error: rustix::io::Errno| ObserveError::Option {
        option: "SO_RCVBUF",
        error: error.into(),
    };
    if sockopt::set_socket_recv_buffer_size_force(&socket, bytes).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, bytes).map_err(refused)?;
    }
    sockopt::socket_recv_buffer_size(&socket).map_err(refused)
}
