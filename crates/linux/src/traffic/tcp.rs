//! A bulk transfer over TCP, counted in intervals.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use punctual_sched::{Duration, Instant};
use rustix::net::sockopt;

use super::TrafficError;
use crate::clock::monotonic;
use crate::wait::readable;

/// The length of a counting interval.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// What to send.
#[derive(Clone, Debug)]
pub struct TcpSendConfig {
    /// Where to.
    pub target: SocketAddr,
    /// Writes for this long; at most one hour.
    pub duration: Duration,
    /// Congestion control by the kernel's name; absent = the namespace's default.
    pub congestion: Option<String>,
    /// How long to wait for the connection, and at the end for the peer to have read everything.
    pub patience: Duration,
}

/// When to stop receiving.
#[derive(Clone, Copy, Debug)]
pub struct TcpReceiveConfig {
    /// How long to wait for a connection.
    pub patience: Duration,
    /// Stops this long after the connection, if the sender has not closed it before; at most one hour.
    pub duration: Duration,
}

/// One direction of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpTransferred {
    /// Bytes written into, or read from, the socket.
    pub bytes: u64,
    /// From the connection to the last byte, nanoseconds.
    pub span_ns: u64,
    /// Bytes in each [`INTERVAL`] since the connection.
    pub intervals: Vec<u64>,
    /// Congestion control used on this side.
    pub congestion: String,
    /// The sender: the peer has read everything and closed. The receiver: the sender closed.
    pub finished: bool,
}

/// Connects, writes zeros until the time is over, closes, and waits for the peer to close.
///
/// What the sender counts has entered its socket; the receiver's count is what crossed the link.
pub fn send_tcp(config: &TcpSendConfig) -> Result<TcpTransferred, TrafficError> {
    let failed = |what| TrafficError::io(format!("{what} {}", config.target));
    let patience = std_duration(config.patience);
    let mut stream =
        TcpStream::connect_timeout(&config.target, patience).map_err(failed("connect TCP to"))?;
    if let Some(name) = &config.congestion {
        sockopt::set_tcp_congestion(&stream, name).map_err(|error| {
            let operation = format!(
                "use the congestion control {name} \
                 (see /proc/sys/net/ipv4/tcp_allowed_congestion_control)"
            );
            TrafficError::Io { operation, error: error.into() }
        })?;
    }
    stream.set_write_timeout(Some(std_duration(INTERVAL))).map_err(failed("write TCP to"))?;
    stream.set_read_timeout(Some(patience)).map_err(failed("read TCP from"))?;
    let mut count = Count::start(&stream, config.duration);
    let block = vec![0; BLOCK];
    while count.open() {
        match stream.write(&block) {
            Ok(written) => count.add(written),
            Err(error) if retry(&error) => {}
            Err(error) => return Err(failed("write TCP to")(error)),
        }
    }
    stream.shutdown(Shutdown::Write).map_err(failed("close TCP to"))?;
    // The peer sends nothing, so its close is the next thing to read.
    count.total.finished = matches!(stream.read(&mut [0]), Ok(0));
    Ok(count.total)
}

/// A listening receiver, so that the port is known before anybody connects.
pub struct TcpReceiver {
    listener: TcpListener,
}

impl TcpReceiver {
    /// Listens in the calling thread's network namespace.
    pub fn bind(address: SocketAddr) -> Result<Self, TrafficError> {
        let listener = TcpListener::bind(address)
            .map_err(TrafficError::io(format!("listen for TCP on {address}")))?;
        Ok(Self { listener })
    }

    /// The address bound.
    pub fn local_addr(&self) -> Result<SocketAddr, TrafficError> {
        self.listener.local_addr().map_err(TrafficError::io("read the TCP address"))
    }

    /// Accepts one connection and reads it to its end.
    pub fn run(self, config: &TcpReceiveConfig) -> Result<TcpTransferred, TrafficError> {
        let failed = |what: &'static str| TrafficError::io(what);
        let came = readable(self.listener.as_fd(), config.patience)
            .map_err(|error| failed("wait for a TCP connection")(error.into()))?;
        if !came {
            let what = "no TCP connection came".to_owned();
            return Err(TrafficError::TimedOut { what, wait: config.patience });
        }
        let (mut stream, _) = self.listener.accept().map_err(failed("accept TCP"))?;
        stream.set_read_timeout(Some(std_duration(INTERVAL))).map_err(failed("read TCP"))?;
        let mut count = Count::start(&stream, config.duration);
        let mut block = vec![0; BLOCK];
        while count.open() {
            match stream.read(&mut block) {
                Ok(0) => {
                    count.total.finished = true;
                    break;
                }
                Ok(read) => count.add(read),
                Err(error) if retry(&error) => {}
                Err(error) => return Err(failed("read TCP")(error)),
            }
        }
        Ok(count.total)
    }
}

struct Count {
    start: Instant,
    end: Instant,
    total: TcpTransferred,
}

impl Count {
    fn start(stream: &TcpStream, duration: Duration) -> Self {
        let start = monotonic();
        let congestion = sockopt::tcp_congestion(stream).unwrap_or_default();
        let total = TcpTransferred { congestion, ..TcpTransferred::default() };
        Self { start, end: start + duration.min(LONGEST), total }
    }

    fn open(&self) -> bool {
        monotonic() < self.end
    }

    fn add(&mut self, bytes: usize) {
        let elapsed = monotonic().since(self.start).as_nanos();
        let index = usize::try_from(elapsed / INTERVAL.as_nanos()).unwrap_or(usize::MAX);
        // The duration bounds the index, but for the last call, which may end a little later.
        if self.total.intervals.len() <= index && index < MOST_INTERVALS {
            self.total.intervals.resize(index + 1, 0);
        }
        if let Some(interval) = self.total.intervals.get_mut(index) {
            *interval += bytes as u64;
        }
        self.total.bytes += bytes as u64;
        self.total.span_ns = elapsed;
    }
}

fn retry(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// `std` refuses a time-out of zero.
fn std_duration(span: Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(span.as_nanos().max(1_000))
}

/// Two full GSO bursts.
const BLOCK: usize = 128 << 10;

const LONGEST: Duration = Duration::from_secs(3_600);

/// One hour and one second.
const MOST_INTERVALS: usize = 36_010;
