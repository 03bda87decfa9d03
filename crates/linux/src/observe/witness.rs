//! Four threads that watch one direction of a link from outside: a sender of numbered probes, a
//! capture on each side of the gate, a receiver with kernel stamps.

mod observing;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use punctual_sched::{Duration, Instant};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{
    Capture, CaptureConfig, Direction, Filter, ObserveError, PROBE_BYTES, Probe, StampedUdp,
};
use crate::clock::monotonic;
use crate::wait::{sleep_until, tighten_timers};
use observing::{Observation, Observing};

/// A running witness. It shares no counter and no stamp with the driver.
pub struct Witness {
    shared: Arc<Shared>,
    sender: JoinHandle<Result<Vec<ProbeSent>, WitnessError>>,
    before: Observation,
    after: Observation,
    receiver: Observation,
    linger: Duration,
}

/// The network namespaces and the gate's interfaces, for the direction that is watched.
#[derive(Clone, Copy, Debug)]
pub struct WitnessPlaces<'a> {
    /// Where the probes are sent.
    pub sender: BorrowedFd<'a>,
    /// The gate.
    pub gate: BorrowedFd<'a>,
    /// Where they are received.
    pub receiver: BorrowedFd<'a>,
    /// The gate's interface towards the sender.
    pub device_before: &'a str,
    /// The gate's interface towards the receiver.
    pub device_after: &'a str,
}

/// What to send and how long to wait for the rest.
#[derive(Clone, Copy, Debug)]
pub struct WitnessConfig {
    /// An address of the receiver's namespace; port 0 lets the kernel choose.
    pub target: SocketAddr,
    /// Written into every probe; must differ from the runs of other senders.
    pub run: u64,
    /// From one probe to the next.
    pub interval: Duration,
    /// Probes at most.
    pub limit: u64,
    /// After the last probe, wait at most this long for those on the way: longer than the delay plus
    /// the time to drain the queue.
    pub linger: Duration,
}

impl WitnessConfig {
    /// 50 probes/s: 32.8 kbit/s of the link with IPv4 and Ethernet framing, 0.16 % of 20 Mbit/s, and
    /// a median over 200 after four seconds.
    pub fn new(target: SocketAddr, run: u64) -> Self {
        let (interval, linger) = (Duration::from_millis(20), Duration::from_secs(2));
        Self { target, run, interval, limit: 1_000_000, linger }
    }

    /// Capacity the probes take, in bits per second rounded up, when the link counts `framing` bytes
    /// beyond each IP packet.
    pub fn load_bps(&self, framing: u64) -> u64 {
        let headers = if self.target.is_ipv4() { 28 } else { 48 };
        let bits = (PROBE_BYTES as u64 + headers + framing) * 8;
        (bits * 1_000_000_000).div_ceil(self.interval.as_nanos().max(1))
    }
}

/// One probe as its sender accounts for it, `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSent {
    /// Its number.
    pub seq: u64,
    /// When it was due.
    pub intended: Instant,
    /// Just before the send call.
    pub sent: Instant,
}

/// One probe as an observer saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSeen {
    /// Its number.
    pub seq: u64,
    /// The kernel's stamp, `CLOCK_REALTIME` in nanoseconds.
    pub stamp_ns: i64,
    /// Real time minus monotonic time as it was read, nanoseconds.
    pub offset_ns: i64,
}

/// What the four threads noted.
#[derive(Clone, Debug, Default)]
pub struct WitnessData {
    /// By the sender.
    pub sent: Vec<ProbeSent>,
    /// On the gate's interface towards the sender.
    pub before: Seen,
    /// On the gate's interface towards the receiver.
    pub after: Seen,
    /// By the receiver.
    pub received: Seen,
    /// All of them looked on until then, `CLOCK_MONOTONIC`.
    pub until: Instant,
}

/// What one observer noted.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// In the order of reading.
    pub probes: Vec<ProbeSeen>,
    /// Packets this observer lost itself for want of buffer: differences may be its own fault.
    pub lost: u64,
    /// Probes without a kernel stamp, not listed.
    pub unstamped: u64,
}

/// A witness could not start, or died on the way.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// A thread was not let into a namespace.
    #[error("the witness cannot enter the {place}'s network namespace: {error}")]
    Namespace {
        /// Sender, gate or receiver.
        place: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
    /// An observer failed.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// A probe could not be sent.
    #[error("the witness cannot send a probe to {target}: {error}")]
    Send {
        /// The receiver.
        target: SocketAddr,
        /// What the kernel said.
        error: io::Error,
    },
    /// A thread ended without an answer.
    #[error("the witness's {0} thread could not be started or died")]
    Thread(&'static str),
}

#[derive(Default)]
struct Shared {
    stop_sending: AtomicBool,
    stop: AtomicBool,
    received: AtomicU64,
}

impl Witness {
    /// Opens every observer, then starts sending.
    ///
    /// The calling thread stays where it is. It must hold `CAP_SYS_ADMIN` in the user namespace that
    /// owns the three network namespaces.
    pub fn start(places: &WitnessPlaces<'_>, config: &WitnessConfig) -> Result<Self, WitnessError> {
        let shared = Arc::new(Shared::default());
        let started = Self::start_threads(places, config, &shared);
        if started.is_err() {
            shared.stop.store(true, Ordering::Relaxed); // Ends the threads that did start.
        }
        started
    }

    fn start_threads(
        places: &WitnessPlaces<'_>,
        config: &WitnessConfig,
        shared: &Arc<Shared>,
    ) -> Result<Self, WitnessError> {
        let capture = |device: &str, direction| {
            let device = device.to_owned();
            let (snaplen, filter) = (128, Filter::Probes);
            let config = CaptureConfig { snaplen, direction, filter, ..CaptureConfig::default() };
            move || Capture::open(&device, &config)
        };
        let target = config.target;
        let observe = Observing { shared, run: config.run };
        let (receiver, target) =
            observe.start("receiver", places.receiver, move || StampedUdp::bind(target, BUFFER))?;
        let before = capture(places.device_before, Direction::In);
        let (before, _) = observe.start("gate", places.gate, before)?;
        let after = capture(places.device_after, Direction::Out);
        let (after, _) = observe.start("gate", places.gate, after)?;
        let config = WitnessConfig { target: target.unwrap_or(config.target), ..*config };
        let linger = config.linger;
        let namespace = dup(places.sender, "sender")?;
        let for_sender = Arc::clone(shared);
        let sender = thread::Builder::new()
            .name("witness-sender".to_owned())
            .spawn(move || send(&namespace, &config, &for_sender))
            .map_err(|_| WitnessError::Thread("sender"))?;
        let shared = Arc::clone(shared);
        Ok(Self { shared, sender, before, after, receiver, linger })
    }

    /// Stops sending, waits for what is on the way (until as many came as were sent, at most the time
    /// configured), stops observing.
    pub fn stop(self) -> Result<WitnessData, WitnessError> {
        self.shared.stop_sending.store(true, Ordering::Relaxed);
        let sent = join(self.sender, "sender");
        let expected = sent.as_ref().map_or(0, |sent| sent.len() as u64);
        let end = monotonic() + self.linger;
        while self.shared.received.load(Ordering::Relaxed) < expected && monotonic() < end {
            sleep_until(monotonic() + Duration::from_millis(2));
        }
        let until = monotonic();
        self.shared.stop.store(true, Ordering::Relaxed);
        let before = join(self.before, "capture");
        let after = join(self.after, "capture");
        let received = join(self.receiver, "receiver");
        let (sent, before) = (sent?, before?);
        Ok(WitnessData { sent, before, after: after?, received: received?, until })
    }
}

/// The body of the sending thread.
fn send(
    namespace: &OwnedFd,
    config: &WitnessConfig,
    shared: &Shared,
) -> Result<Vec<ProbeSent>, WitnessError> {
    enter(namespace, "sender")?;
    let _ = tighten_timers(); // Without it the probes leave later, which their stamps say.
    let any: SocketAddr = match config.target {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let failed = |error| WitnessError::Send { target: config.target, error };
    let socket = UdpSocket::bind(any).map_err(failed)?;
    socket.connect(config.target).map_err(failed)?;
    let mut list = Vec::new();
    let start = monotonic() + STAMPS_ON;
    for seq in 0..config.limit {
        let offset = Duration::from_nanos(config.interval.as_nanos().saturating_mul(seq));
        let intended = start + offset;
        sleep_until(intended);
        if shared.stop_sending.load(Ordering::Relaxed) {
            break;
        }
        let sent = monotonic();
        let mut payload = [0; PROBE_BYTES];
        Probe { run: config.run, seq, intended, sent }.encode(&mut payload);
        socket.send(&payload).map_err(failed)?;
        list.push(ProbeSent { seq, intended, sent });
    }
    Ok(list)
}

fn enter(namespace: &OwnedFd, place: &'static str) -> Result<(), WitnessError> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| WitnessError::Namespace { place, error: error.into() })
}

fn dup(namespace: BorrowedFd<'_>, place: &'static str) -> Result<OwnedFd, WitnessError> {
    namespace.try_clone_to_owned().map_err(|error| WitnessError::Namespace { place, error })
}

fn join<T>(
    thread: JoinHandle<Result<T, WitnessError>>,
    name: &'static str,
) -> Result<T, WitnessError> {
    thread.join().unwrap_or(Err(WitnessError::Thread(name)))
}

/// Probes are small and few: far more than they need between two reads.
const BUFFER: usize = 4 << 20;

/// The kernel switches receive stamps on by a work item after the first socket has asked: with 50 ms
/// between the two no probe meets it unready.
const STAMPS_ON: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_of_the_probes_is_stated() {
        let config = WitnessConfig::new(([10, 0, 0, 1], 0).into(), 1);
        // (40 + 28 + 14) bytes x 8 x 50/s.
        assert_eq!(config.load_bps(14), 32_800);
        let config = WitnessConfig::new(([0_u16; 8], 0).into(), 1);
        assert_eq!(config.load_bps(14), 40_800);
    }
}
