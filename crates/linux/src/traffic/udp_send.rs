//! A paced sender of numbered UDP datagrams.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use punctual_sched::{Duration, Instant};
use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg, sockopt};

use super::{Pace, Schedule, TrafficError};
use crate::clock::monotonic;
use crate::observe::{PROBE_BYTES, Probe};
use crate::sys::socket;
use crate::wait::{sleep_until, tighten_timers};

/// What to send.
#[derive(Clone, Copy, Debug)]
pub struct UdpSendConfig {
    /// Where to.
    pub target: SocketAddr,
    /// Written into every probe.
    pub run: u64,
    /// Payload bytes of a datagram, 40 to 65,507.
    pub size: usize,
    /// How fast.
    pub pace: Pace,
    /// Ends after this many datagrams.
    pub count: Option<u64>,
    /// Ends after this time; at most one hour, which is also the default.
    pub duration: Option<Duration>,
    /// Datagrams handed to the kernel as one burst by `UDP_SEGMENT` (Linux 4.18), 1 to 64.
    pub gso_segments: u16,
    /// Type of service byte (IPv4) or traffic class (IPv6): DSCP and ECN.
    pub tos: u8,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpSent {
    /// Datagrams that fell due before the end.
    pub planned: u64,
    /// Datagrams the kernel took.
    pub sent: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// System calls that returned an ICMP "port unreachable" of an earlier datagram.
    pub refused: u64,
    /// System calls refused because a queue or buffer below the socket was full, or that waited longer
    /// than 100 ms for room; the datagram was offered again.
    pub full: u64,
    /// Datagrams sent more than 1 ms after they were due.
    pub late: u64,
    /// The latest any datagram was, in nanoseconds.
    pub max_late_ns: u64,
    /// Times the sender slept.
    pub sleeps: u64,
    /// The first datagram's send time, `CLOCK_MONOTONIC`.
    pub first: Instant,
    /// The last datagram's send time, `CLOCK_MONOTONIC`.
    pub last: Instant,
}

/// Sends in the calling thread and its network namespace until the count or the time is reached.
pub fn send_udp(config: &UdpSendConfig) -> Result<UdpSent, TrafficError> {
    Sender::new(config)?.run()
}

struct Sender<'a> {
    config: &'a UdpSendConfig,
    socket: UdpSocket,
    schedule: Schedule,
    end: Instant,
    planned: u64,
    buffers: Vec<Vec<u8>>,
    next: u64,
    report: UdpSent,
}

impl<'a> Sender<'a> {
    fn new(config: &'a UdpSendConfig) -> Result<Self, TrafficError> {
        check(config)?;
        let socket = open(config)?;
        let start = monotonic();
        let headers = if matches!(config.target.ip(), IpAddr::V4(_)) { 28 } else { 48 };
        let schedule = Schedule::new(config.pace, config.size as u64 + headers, start);
        let duration = config.duration.unwrap_or(LONGEST).min(LONGEST);
        let end = start + duration;
        // A datagram due exactly at the end is not sent: D seconds at N per second are D times N.
        let in_time = schedule.due_by(end - Duration::from_nanos(1));
        let planned = config.count.unwrap_or(u64::MAX).min(in_time);
        let burst = config.size * usize::from(config.gso_segments);
        let buffers = vec![vec![0; burst]; BATCH];
        let report = UdpSent::default();
        Ok(Self { config, socket, schedule, end, planned, buffers, next: 0, report })
    }

    fn run(mut self) -> Result<UdpSent, TrafficError> {
        let _ = tighten_timers(); // Later wake-ups are counted as such.
        let mut earliest = Instant::ZERO;
        while self.next < self.planned {
            let now = monotonic();
            let unpaced = self.config.pace == Pace::Unpaced;
            if now >= if unpaced { self.end } else { self.end + GRACE } {
                break;
            }
            let due = self.schedule.due_by(now).min(self.planned);
            if due > self.next {
                self.send_batch(due - self.next)?;
                earliest = now + SHORTEST_SLEEP;
                continue;
            }
            sleep_until(self.schedule.due(self.next).max(earliest));
            self.report.sleeps += 1;
        }
        // An unpaced flow plans nothing: it ends with its time.
        let unpaced = self.config.pace == Pace::Unpaced && self.config.count.is_none();
        self.report.planned = if unpaced { self.next } else { self.planned };
        Ok(self.report)
    }

    /// Sends up to `due` datagrams, as many as one system call takes, with one stamp.
    fn send_batch(&mut self, due: u64) -> Result<(), TrafficError> {
        let segments = u64::from(self.config.gso_segments);
        let bursts = usize::try_from(due.div_ceil(segments)).unwrap_or(usize::MAX).min(BATCH);
        let datagrams = due.min(bursts as u64 * segments);
        let now = monotonic();
        let lengths = self.encode(datagrams, bursts, now);
        let slices: Vec<[IoSlice<'_>; 1]> = (self.buffers.iter().zip(&lengths))
            .map(|(buffer, &length)| [IoSlice::new(&buffer[..length])])
            .collect();
        let mut controls: Vec<_> = slices.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let mut messages: Vec<_> = slices
            .iter()
            .zip(&mut controls)
            .map(|(data, control)| MMsgHdr::new(data, control))
            .collect();
        let answer = sendmmsg(&self.socket, &mut messages, SendFlags::NOSIGNAL);
        let taken = match answer {
            Ok(bursts) => (bursts as u64 * segments).min(datagrams),
            Err(Errno::INTR) => 0,
            Err(Errno::CONNREFUSED) => {
                self.report.refused += 1;
                0
            }
            Err(Errno::AGAIN | Errno::NOBUFS) => {
                self.report.full += 1;
                sleep_until(now + SHORTEST_SLEEP);
                0
            }
            Err(error) => {
                let operation = format!("send UDP to {}", self.config.target);
                return Err(TrafficError::Io { operation, error: error.into() });
            }
        };
        self.account(taken, now);
        Ok(())
    }

    /// Numbers `datagrams` datagrams in `bursts` buffers; returns the bytes to send of each buffer.
    fn encode(&mut self, datagrams: u64, bursts: usize, now: Instant) -> Vec<usize> {
        let size = self.config.size;
        let mut lengths = vec![0; bursts];
        let places = (0..bursts).flat_map(|burst| {
            (0..usize::from(self.config.gso_segments)).map(move |segment| (burst, segment))
        });
        for (seq, (burst, segment)) in (self.next..self.next + datagrams).zip(places) {
            let intended = self.schedule.due(seq);
            let probe = Probe { run: self.config.run, seq, intended, sent: now };
            probe.encode(&mut self.buffers[burst][segment * size..(segment + 1) * size]);
            lengths[burst] += size;
        }
        lengths
    }

    fn account(&mut self, taken: u64, now: Instant) {
        if taken == 0 {
            return;
        }
        let report = &mut self.report;
        if report.sent == 0 {
            report.first = now;
        }
        if self.config.pace != Pace::Unpaced {
            let late = now.since(self.schedule.due(self.next)).as_nanos();
            report.max_late_ns = report.max_late_ns.max(late);
            let in_time = self.schedule.due_by(now - LATE).saturating_sub(self.next);
            report.late += in_time.min(taken);
        }
        report.last = now;
        report.sent += taken;
        report.bytes += taken * self.config.size as u64;
        self.next += taken;
    }
}

fn check(config: &UdpSendConfig) -> Result<(), TrafficError> {
    if !(PROBE_BYTES..=65_507).contains(&config.size) {
        return Err(TrafficError::Config("size: expected 40 to 65507 bytes of UDP payload"));
    }
    let burst = config.size * usize::from(config.gso_segments);
    if !(1..=64).contains(&config.gso_segments) || burst > 65_487 {
        return Err(TrafficError::Config(
            "gso segments: expected 1 to 64, and size times segments at most 65487 bytes",
        ));
    }
    if config.pace == Pace::Unpaced && config.count.is_none() && config.duration.is_none() {
        return Err(TrafficError::Config("an unpaced flow needs a count or a duration"));
    }
    Ok(())
}

fn open(config: &UdpSendConfig) -> Result<UdpSocket, TrafficError> {
    let operation = || format!("open a UDP socket to {}", config.target);
    let any: SocketAddr = match config.target {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any).map_err(TrafficError::io(operation()))?;
    socket.connect(config.target).map_err(TrafficError::io(operation()))?;
    let wait = Some(std::time::Duration::from_millis(100));
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, wait)
        .map_err(|error| TrafficError::io(operation())(error.into()))?;
    if config.tos != 0 {
        let set = match config.target {
            SocketAddr::V4(_) => sockopt::set_ip_tos(&socket, config.tos),
            SocketAddr::V6(_) => sockopt::set_ipv6_tclass(&socket, config.tos.into()),
        };
        set.map_err(|error| TrafficError::io("set the type of service")(error.into()))?;
    }
    if config.gso_segments > 1 {
        let size = i32::try_from(config.size).expect("checked: at most 65507");
        socket::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, size)
            .map_err(TrafficError::io("set UDP_SEGMENT (Linux 4.18)"))?;
    }
    Ok(socket)
}

/// Bursts per system call.
const BATCH: usize = 64;

/// A shorter sleep costs more than it separates: a wake-up is 50 to 100 us late on an ordinary
/// machine. Above 20,000 packets/s packets therefore leave in batches.
const SHORTEST_SLEEP: Duration = Duration::from_micros(50);

/// Lateness from which a datagram is counted as late.
const LATE: Duration = Duration::from_millis(1);

/// How long after its end a sender may still catch up on what fell due before.
const GRACE: Duration = Duration::from_secs(1);

const LONGEST: Duration = Duration::from_secs(3_600);
