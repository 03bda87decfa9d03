//! Bundled traffic: senders and receivers for tests, measurements and the demonstration.
//!
//! Every sender sleeps between packets, with absolute deadlines: a load generator that spins on one
//! of two processors changes every figure it is there to measure. When it wakes late it sends what
//! fell due at once, and counts that. Everything here is bounded in time and in memory.

mod echo;
mod ecn_socket;
mod schedule;
mod tcp;
mod udp_receive;
mod udp_send;

use std::io;

pub use echo::{EchoServer, Echoed, RoundTrips, RoundTripsConfig, round_trips};
pub use ecn_socket::{EcnDatagram, EcnSocket};
pub use schedule::{Pace, Schedule};
pub use tcp::{INTERVAL, TcpReceiveConfig, TcpReceiver, TcpSendConfig, TcpTransferred, send_tcp};
pub use udp_receive::{Arrival, Arrivals, Summary, UdpReceiveConfig, UdpReceiver};
pub use udp_send::{UdpSendConfig, UdpSent, send_udp};

/// Traffic could not be set up or carried on.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// The kernel refused an operation.
    #[error("cannot {operation}: {}", remedy(error))]
    Io {
        /// What was tried, with its address.
        operation: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// The other end did not do its part in the time given.
    #[error("{what} within {} ms", wait.as_nanos() / 1_000_000)]
    TimedOut {
        /// What did not happen.
        what: String,
        /// How long was waited.
        wait: punctual_sched::Duration,
    },
    /// The configuration contradicts itself or a limit.
    #[error("{0}")]
    Config(&'static str),
    /// A stamped socket failed.
    #[error(transparent)]
    Observe(#[from] crate::observe::ObserveError),
}

impl TrafficError {
    fn io(operation: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let operation = operation.into();
        move |error| Self::Io { operation, error }
    }
}

/// The kernel's answer with what it usually means between two ends of a link.
fn remedy(error: &io::Error) -> String {
    let hint = match error.kind() {
        io::ErrorKind::ConnectionRefused => "nothing listens at that address and port",
        io::ErrorKind::TimedOut => "no answer came back: is the peer up, is everything lost?",
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            "no route from this network namespace"
        }
        io::ErrorKind::AddrInUse => "another program has that port: choose another",
        io::ErrorKind::AddrNotAvailable => "that address is not of this network namespace",
        _ => return error.to_string(),
    };
    format!("{error}; {hint}")
}
