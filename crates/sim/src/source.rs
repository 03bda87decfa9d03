//! Senders.

use core::fmt;

use punctual_sched::{Duration, Instant, Rate};

use crate::random::Stream;

/// A sender: one flow of packets of one length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// When it sends.
    pub traffic: Traffic,
    /// Length of its packets in bytes at the IP layer, 1 or more.
    pub len: u32,
    /// When it begins.
    pub start: Duration,
}

/// When a sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Evenly spaced packets that add up to this rate (bits at the IP layer), without drift.
    Constant(Rate),
    /// Independent exponential gaps with this mean rate.
    Poisson(Rate),
    /// So many packets at one instant, again and again.
    Burst {
        /// Packets in one burst.
        packets: u32,
        /// From one burst to the next.
        every: Duration,
    },
    /// Always `window` packets on the way: a new one for each that has arrived or is lost.
    Greedy {
        /// Packets in flight.
        window: u32,
        /// How long the sender takes to learn of a packet's fate. At least 1 us: a sender
        /// that knew of a loss at once would send into a full queue for ever.
        back: Duration,
    },
    /// TCP Reno's window (RFC 5681): slow start from 10 packets, then one more per round trip,
    /// half after a loss, at most once per window.
    Reno {
        /// As for [`Traffic::Greedy`].
        back: Duration,
    },
}

impl Source {
    /// Traffic in full packets of 1500 bytes from the beginning on.
    pub const fn new(traffic: Traffic) -> Self {
        Self { traffic, len: 1_500, start: Duration::ZERO }
    }

    /// The same with packets of `len` bytes.
    #[must_use]
    pub const fn with_len(mut self, len: u32) -> Self {
        self.len = len;
        self
    }

    /// The same, from `start` on.
    #[must_use]
    pub const fn starting_at(mut self, start: Duration) -> Self {
        self.start = start;
        self
    }

    pub(crate) fn bits(&self) -> u64 {
        u64::from(self.len) * 8
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.traffic {
            Traffic::Constant(rate) => write!(f, "constant {rate}"),
            Traffic::Poisson(rate) => write!(f, "poisson {rate}"),
            Traffic::Burst { packets, every } => write!(f, "{packets}p every {every}"),
            Traffic::Greedy { window, back } => write!(f, "greedy {window}p {back}"),
            Traffic::Reno { back } => write!(f, "reno {back}"),
        }
    }
}

/// A sender at work.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) source: Source,
    /// Packets sent so far: the number of the next one.
    pub(crate) sent: u64,
    random: Stream,
    window: Window,
}

impl Sender {
    pub(crate) fn new(source: Source, random: Stream) -> Self {
        let window = match source.traffic {
            Traffic::Greedy { window, .. } => Window::fixed(window),
            _ => Window::reno(),
        };
        Self { source, sent: 0, random, window }
    }

    /// Its own clock says `now`: how many packets it sends, and when the clock is to call again.
    pub(crate) fn on_timer(&mut self, now: Instant) -> (u64, Option<Instant>) {
        match self.source.traffic {
            Traffic::Constant(rate) => (1, self.constant_after(rate)),
            Traffic::Poisson(rate) => {
                let gap = self.random.exponential();
                (1, spacing(self.source.bits(), rate, gap, 32).map(|gap| now + gap))
            }
            Traffic::Burst { packets, every } => {
                let next = (every != Duration::ZERO).then(|| now + every);
                (u64::from(packets), next)
            }
            Traffic::Greedy { .. } | Traffic::Reno { .. } => (self.window.room(), None),
        }
    }

    /// It learns of its packet `number`'s fate: how many packets it sends for it.
    pub(crate) fn on_feedback(&mut self, number: u64, lost: bool) -> u64 {
        if lost {
            self.window.on_loss(number, self.sent);
        } else {
            self.window.on_arrival();
        }
        self.window.room()
    }

    /// How long it takes to learn of a fate; `None` when it does not care.
    pub(crate) fn feedback_delay(&self) -> Option<Duration> {
        match self.source.traffic {
            Traffic::Greedy { back, .. } | Traffic::Reno { back } => {
                Some(back.max(Duration::from_micros(1)))
            }
            _ => None,
        }
    }

    /// `count` packets leave.
    pub(crate) fn send(&mut self, count: u64) {
        self.sent += count;
        self.window.in_flight += count;
    }

    /// From the start each time, so that no rounding adds up. Called before the packet is counted.
    fn constant_after(&self, rate: Rate) -> Option<Instant> {
        let since = spacing(self.source.bits(), rate, self.sent + 1, 0)?;
        Some(Instant::ZERO + self.source.start + since)
    }
}

/// The time that `count / 2^shift` packets of `bits` take at `rate`; `None` when the rate is pause
/// or unlimited.
fn spacing(bits: u64, rate: Rate, count: u64, shift: u32) -> Option<Duration> {
    let nanos = u128::from(bits) * u128::from(count) * 1_000_000_000
        / (u128::from(rate.finite_bps()?) << shift);
    Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
}

/// What a closed-loop sender may have on the way.
#[derive(Debug)]
struct Window {
    /// Packets, in units of 1/2^16.
    size: u64,
    slow_start_until: u64,
    fixed: bool,
    in_flight: u64,
    /// Losses of packets before this number belong to a reaction already taken.
    recovered_at: u64,
}

/// One packet of window.
const PACKET: u64 = 1 << 16;

impl Window {
    fn fixed(packets: u32) -> Self {
        let size = u64::from(packets) * PACKET;
        Self { size, slow_start_until: 0, fixed: true, in_flight: 0, recovered_at: 0 }
    }

    /// RFC 6928: ten packets to begin with.
    fn reno() -> Self {
        let size = 10 * PACKET;
        Self { size, slow_start_until: u64::MAX, fixed: false, in_flight: 0, recovered_at: 0 }
    }

    fn room(&self) -> u64 {
        (self.size / PACKET).saturating_sub(self.in_flight)
    }

    fn on_arrival(&mut self) {
        self.in_flight -= 1;
        if self.fixed {
            return;
        }
        // RFC 5681, section 3.1: a packet per packet, later a packet per window.
        self.size +=
            if self.size < self.slow_start_until { PACKET } else { PACKET * PACKET / self.size };
    }

    fn on_loss(&mut self, number: u64, sent: u64) {
        self.in_flight -= 1;
        if self.fixed || number < self.recovered_at {
            return;
        }
        self.size = (self.size / 2).max(2 * PACKET);
        self.slow_start_until = self.size;
        self.recovered_at = sent;
    }
}
