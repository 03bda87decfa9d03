//! Round trips over UDP: a client that sleeps between probes, and the echo it talks to.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_sched::{Duration, Instant};

use super::TrafficError;
use crate::clock::monotonic;
use crate::observe::{PROBE_BYTES, Probe};
use crate::wait::{readable, sleep_until, tighten_timers};

/// Sends every datagram back to where it came from.
pub struct EchoServer {
    socket: UdpSocket,
}

/// What an echo server did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echoed {
    /// Datagrams received.
    pub received: u64,
    /// Datagrams sent back.
    pub sent: u64,
}

impl EchoServer {
    /// Binds in the calling thread's network namespace.
    pub fn bind(address: SocketAddr) -> Result<Self, TrafficError> {
        let socket = UdpSocket::bind(address)
            .map_err(TrafficError::io(format!("receive UDP on {address}")))?;
        socket.set_nonblocking(true).map_err(TrafficError::io("receive UDP"))?;
        Ok(Self { socket })
    }

    /// The address bound.
    pub fn local_addr(&self) -> Result<SocketAddr, TrafficError> {
        self.socket.local_addr().map_err(TrafficError::io("read the UDP address"))
    }

    /// Echoes for `duration`, or until `stop` is true, which is looked at every 20 ms.
    pub fn run(self, duration: Duration, stop: &AtomicBool) -> Result<Echoed, TrafficError> {
        let end = monotonic() + duration;
        let mut done = Echoed::default();
        let mut buffer = vec![0; 65_536];
        while !stop.load(Ordering::Relaxed) {
            let wait = end.since(monotonic()).min(Duration::from_millis(20));
            if wait == Duration::ZERO {
                break;
            }
            readable(self.socket.as_fd(), wait)
                .map_err(|error| TrafficError::io("wait for UDP")(error.into()))?;
            // An error here is a time-out's EAGAIN, or the ICMP answer to an echo nobody waits for.
            while let Ok((length, source)) = self.socket.recv_from(&mut buffer) {
                done.received += 1;
                done.sent += u64::from(self.socket.send_to(&buffer[..length], source).is_ok());
            }
        }
        Ok(done)
    }
}

/// How to measure round trips.
#[derive(Clone, Copy, Debug)]
pub struct RoundTripsConfig {
    /// An echo server.
    pub target: SocketAddr,
    /// Written into every probe.
    pub run: u64,
    /// Probes to send, at most 1,000,000.
    pub count: u64,
    /// From one probe to the next; a probe whose predecessor is still awaited is sent late.
    pub interval: Duration,
    /// UDP payload bytes, 40 to 65,507.
    pub size: usize,
    /// How long an echo is awaited.
    pub timeout: Duration,
}

/// Round trips measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    /// Probes sent.
    pub sent: u64,
    /// From just before the send call to just after the receive call by `CLOCK_MONOTONIC`,
    /// nanoseconds, in the order of sending; the client's own wake-up is part of it.
    pub round_trips_ns: Vec<u64>,
    /// Probes without an echo within the time-out.
    pub unanswered: u64,
    /// Echoes that came after their time-out.
    pub too_late: u64,
    /// ICMP "port unreachable" answers.
    pub refused: u64,
}

/// Sends one probe at a time, in the calling thread and its network namespace.
pub fn round_trips(config: &RoundTripsConfig) -> Result<RoundTrips, TrafficError> {
    if !(PROBE_BYTES..=65_507).contains(&config.size) || config.count > 1_000_000 {
        return Err(TrafficError::Config(
            "expected a size of 40 to 65507 bytes and at most 1000000 probes",
        ));
    }
    let _ = tighten_timers(); // Without it the client's own wake-ups are later, no more.
    let socket = connect(config.target)?;
    let mut result = RoundTrips::default();
    let (mut payload, mut buffer) = (vec![0; config.size], vec![0; 65_536]);
    let start = monotonic();
    for seq in 0..config.count {
        let intended = start + Duration::from_nanos(config.interval.as_nanos().saturating_mul(seq));
        sleep_until(intended);
        let sent = monotonic();
        Probe { run: config.run, seq, intended, sent }.encode(&mut payload);
        result.sent += 1;
        if let Err(error) = socket.send(&payload) {
            refused(error, &mut result)?;
            result.unanswered += 1;
            continue;
        }
        match await_echo(&socket, config, seq, sent, &mut buffer, &mut result)? {
            Some(received) => result.round_trips_ns.push(received.since(sent).as_nanos()),
            None => result.unanswered += 1,
        }
    }
    Ok(result)
}

fn connect(target: SocketAddr) -> Result<UdpSocket, TrafficError> {
    let any: SocketAddr = match target {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let failed = || TrafficError::io(format!("open a UDP socket to {target}"));
    let socket = UdpSocket::bind(any).map_err(failed())?;
    socket.connect(target).map_err(failed())?;
    socket.set_nonblocking(true).map_err(failed())?;
    Ok(socket)
}

/// When the echo of probe `seq` was received; `None` after the time-out.
fn await_echo(
    socket: &UdpSocket,
    config: &RoundTripsConfig,
    seq: u64,
    sent: Instant,
    buffer: &mut [u8],
    result: &mut RoundTrips,
) -> Result<Option<Instant>, TrafficError> {
    loop {
        let wait = (sent + config.timeout).since(monotonic());
        let ready = readable(socket.as_fd(), wait)
            .map_err(|error| TrafficError::io("wait for the echo")(error.into()))?;
        if !ready && wait == Duration::ZERO {
            return Ok(None);
        }
        match socket.recv(buffer) {
            Ok(length) => match Probe::decode(&buffer[..length]) {
                Some(probe) if probe.run == config.run && probe.seq == seq => {
                    return Ok(Some(monotonic()));
                }
                Some(probe) if probe.run == config.run => result.too_late += 1,
                _ => {}
            },
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => {
                refused(error, result)?;
                return Ok(None);
            }
        }
    }
}

/// Counts an ICMP answer; every other error ends the measurement.
fn refused(error: std::io::Error, result: &mut RoundTrips) -> Result<(), TrafficError> {
    if error.kind() != std::io::ErrorKind::ConnectionRefused {
        return Err(TrafficError::io("exchange UDP with the echo server")(error));
    }
    result.refused += 1;
    Ok(())
}
