//! A receiver of numbered UDP datagrams with the kernel's stamps.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use punctual_sched::{Duration, Instant};

use super::TrafficError;
use crate::clock::{Offset, monotonic};
use crate::observe::{Datagram, Probe, StampedUdp};
use crate::wait::readable;

/// When to stop, and what to keep.
#[derive(Clone, Copy, Debug)]
pub struct UdpReceiveConfig {
    /// Only datagrams of this run; absent = those of the run first seen.
    pub run: Option<u64>,
    /// Stops after this many datagrams.
    pub count: Option<u64>,
    /// Stops after this time, whatever came; at most one hour.
    pub duration: Duration,
    /// Stops when, after the first datagram, nothing came for this long.
    pub idle: Option<Duration>,
}

/// A bound receiver, so that the port is known before anything is sent.
pub struct UdpReceiver {
    socket: StampedUdp,
}

/// One datagram received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number.
    pub seq: u64,
    /// The kernel's receive stamp, `CLOCK_REALTIME` in nanoseconds.
    pub stamp_ns: i64,
    /// Real time minus monotonic time when it was read, nanoseconds.
    pub offset_ns: i64,
    /// The sender's clock just before its system call, `CLOCK_MONOTONIC`.
    pub sent: Instant,
    /// UDP payload bytes.
    pub length: u32,
}

/// Everything received.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    /// In the order of reading, which is the kernel's order; at most [`Arrivals::LIMIT`].
    pub list: Vec<Arrival>,
    /// Datagrams beyond the limit of the list, counted only.
    pub unlisted: u64,
    /// Datagrams that are no probe, or one of another run.
    pub foreign: u64,
    /// Datagrams the kernel did not stamp, never part of the list.
    pub unstamped: u64,
    /// Datagrams lost in this socket's receive buffer.
    pub lost_in_socket: u64,
    /// Receive buffer got, in the kernel's own count of bytes.
    pub buffer_bytes: usize,
    /// The run received.
    pub run: Option<u64>,
}

impl Arrivals {
    /// Datagrams listed: 160 MB, 40 s at 100,000 packets/s.
    pub const LIMIT: usize = 4_000_000;

    fn take(&mut self, datagram: &Datagram<'_>, offset: Offset) {
        let probe = Probe::decode(datagram.payload)
            .filter(|probe| *self.run.get_or_insert(probe.run) == probe.run);
        let Some(probe) = probe else {
            self.foreign += 1;
            return;
        };
        let Some(stamp_ns) = datagram.stamp_ns else {
            self.unstamped += 1;
            return;
        };
        if self.list.len() == Self::LIMIT {
            self.unlisted += 1;
            return;
        }
        let length = u32::try_from(datagram.length).unwrap_or(u32::MAX);
        let (seq, sent, offset_ns) = (probe.seq, probe.sent, offset.nanos);
        self.list.push(Arrival { seq, stamp_ns, offset_ns, sent, length });
    }
}

impl UdpReceiver {
    /// Binds in the calling thread's network namespace.
    pub fn bind(address: SocketAddr) -> Result<Self, TrafficError> {
        Ok(Self { socket: StampedUdp::bind(address, BUFFER_BYTES)? })
    }

    /// The address bound.
    pub fn local_addr(&self) -> Result<SocketAddr, TrafficError> {
        Ok(self.socket.local_addr()?)
    }

    /// Receives until one of the limits of `config` is reached.
    pub fn run(mut self, config: &UdpReceiveConfig) -> Result<Arrivals, TrafficError> {
        let mut arrivals = Arrivals {
            run: config.run,
            buffer_bytes: self.socket.buffer_bytes(),
            ..Arrivals::default()
        };
        let end = monotonic() + config.duration.min(LONGEST);
        let mut quiet = None;
        while let Some(wait) = wait_for(end, quiet) {
            readable(self.socket.as_fd(), wait)
                .map_err(|error| TrafficError::io("wait for UDP")(error.into()))?;
            let offset = Offset::sample();
            let read = self.socket.receive(|datagram| arrivals.take(&datagram, offset))?;
            if read > 0 {
                quiet = config.idle.map(|idle| monotonic() + idle);
            }
            let listed = arrivals.list.len() as u64 + arrivals.unlisted;
            if config.count.is_some_and(|count| listed >= count) {
                break;
            }
        }
        arrivals.lost_in_socket = u64::from(self.socket.lost()?);
        Ok(arrivals)
    }
}

/// How long to wait for the next datagram; `None` when the end or the end of patience is reached.
fn wait_for(end: Instant, quiet: Option<Instant>) -> Option<Duration> {
    let until = quiet.map_or(end, |quiet| quiet.min(end));
    let wait = until.since(monotonic());
    (wait > Duration::ZERO).then_some(wait)
}

/// What a list of arrivals says, in exact integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Datagrams received, duplicates included.
    pub received: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Received more than once.
    pub duplicates: u64,
    /// Received after a datagram with a higher number.
    pub reordered: u64,
    /// Numbers below the highest received that never came. Losses at the very end show only in the
    /// sender's count.
    pub missing: u64,
    /// The first kernel stamp, `CLOCK_REALTIME` in nanoseconds.
    pub first_ns: i64,
    /// The last kernel stamp.
    pub last_ns: i64,
    /// Payload bytes after the first datagram: what the link carried between the two stamps.
    pub bytes_after_first: u64,
}

impl Summary {
    /// Sums up `arrivals`; all zero when there are none.
    pub fn of(arrivals: &[Arrival]) -> Self {
        let mut summary = Self::default();
        let mut seen = HashSet::with_capacity(arrivals.len());
        let mut highest = None;
        for arrival in arrivals {
            summary.received += 1;
            summary.bytes += u64::from(arrival.length);
            if !seen.insert(arrival.seq) {
                summary.duplicates += 1;
            } else if highest.is_some_and(|highest| arrival.seq < highest) {
                summary.reordered += 1;
            }
            highest = highest.max(Some(arrival.seq));
        }
        if let (Some(highest), [first, ..], [.., last]) = (highest, arrivals, arrivals) {
            summary.missing = (highest + 1).saturating_sub(seen.len() as u64);
            (summary.first_ns, summary.last_ns) = (first.stamp_ns, last.stamp_ns);
            summary.bytes_after_first = summary.bytes - u64::from(first.length);
        }
        summary
    }

    /// Bits per second between the first and the last stamp, rounded down, when each datagram takes
    /// `header_bytes` beyond its payload: 28 for IPv4, 48 for IPv6, 14 more for the Ethernet header.
    /// `None` with fewer than two datagrams or no time between them.
    pub fn rate_bps(&self, header_bytes: u64) -> Option<u64> {
        let span = u128::try_from(self.last_ns - self.first_ns).ok().filter(|&span| span > 0)?;
        let headers = u128::from(self.received.checked_sub(1)?) * u128::from(header_bytes);
        let bits = (u128::from(self.bytes_after_first) + headers) * 8;
        u64::try_from(bits * 1_000_000_000 / span).ok()
    }

    /// Spaces between successive stamps of `arrivals`, nanoseconds; negative across a clock step.
    pub fn spacings(arrivals: &[Arrival]) -> Vec<i64> {
        arrivals.windows(2).map(|pair| pair[1].stamp_ns - pair[0].stamp_ns).collect()
    }
}

/// 25,000 small datagrams in the kernel's count, or a quarter of a second at 100,000 packets/s.
const BUFFER_BYTES: usize = 32 << 20;

const LONGEST: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(list: &[(u64, i64)]) -> Vec<Arrival> {
        let arrival = |&(seq, stamp_ns)| Arrival {
            seq,
            stamp_ns,
            offset_ns: 0,
            sent: Instant::ZERO,
            length: 100,
        };
        list.iter().map(arrival).collect()
    }

    #[test]
    fn lost_reordered_and_duplicate_datagrams_are_told_apart() {
        let list = arrivals(&[(0, 0), (2, 10), (1, 20), (2, 30), (5, 40)]);
        let summary = Summary::of(&list);
        assert_eq!(
            summary,
            Summary {
                received: 5,
                bytes: 500,
                duplicates: 1,
                reordered: 1,
                missing: 2,
                first_ns: 0,
                last_ns: 40,
                bytes_after_first: 400,
            }
        );
        assert_eq!(Summary::spacings(&list), [10, 10, 10, 10]);
    }

    #[test]
    fn the_rate_counts_what_was_carried_after_the_first_datagram() {
        // 100 + 42 bytes every millisecond: 1.136 Mbit/s.
        let list = arrivals(&[(0, 0), (1, 1_000_000), (2, 2_000_000), (3, 3_000_000)]);
        assert_eq!(Summary::of(&list).rate_bps(42), Some(1_136_000));
    }

    #[test]
    fn a_rate_needs_two_datagrams_and_time_between_them() {
        assert_eq!(Summary::of(&[]), Summary::default());
        assert_eq!(Summary::of(&[]).rate_bps(42), None);
        assert_eq!(Summary::of(&arrivals(&[(0, 7)])).rate_bps(42), None);
        assert_eq!(Summary::of(&arrivals(&[(0, 7), (1, 7)])).rate_bps(42), None);
    }
}
