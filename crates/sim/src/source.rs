//! Senders.

use core::fmt;

use punctual_sched::{Duration, Ecn, Instant, Rate};

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
    /// ECN field of its packets.
    pub ecn: Ecn,
}

/// What a sender learns of one of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Known {
    Arrived,
    /// It arrived with a congestion mark.
    Marked,
    Lost,
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
    /// half after a loss or a mark (RFC 3168), at most once per window.
    Reno {
        /// As for [`Traffic::Greedy`].
        back: Duration,
    },
    /// A scalable window as DCTCP's (RFC 8257): as [`Traffic::Reno`], but marks take from it, once
    /// per window, half of the share of marked packets, averaged with a gain of 1/16.
    Scalable {
        /// As for [`Traffic::Greedy`].
        back: Duration,
    },
}

impl Source {
    /// Traffic in full packets of 1500 bytes from the beginning on.
    pub const fn new(traffic: Traffic) -> Self {
        Self { traffic, len: 1_500, start: Duration::ZERO, ecn: Ecn::NotEct }
    }

    /// The same with this ECN field in its packets.
    #[must_use]
    pub const fn with_ecn(mut self, ecn: Ecn) -> Self {
        self.ecn = ecn;
        self
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
            Traffic::Scalable { back } => write!(f, "scalable {back}"),
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
            Traffic::Greedy { window, .. } => Window::new(window, Reaction::None),
            Traffic::Scalable { .. } => Window::new(10, Reaction::Share),
            _ => Window::new(10, Reaction::Half),
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
            Traffic::Greedy { .. } | Traffic::Reno { .. } | Traffic::Scalable { .. } => {
                (self.window.room(), None)
            }
        }
    }

    /// It learns of its packet `number`'s fate: how many packets it sends for it.
    pub(crate) fn on_feedback(&mut self, number: u64, known: Known) -> u64 {
        self.window.on_feedback(number, self.sent, known);
        self.window.room()
    }

    /// How long it takes to learn of a fate; `None` when it does not care.
    pub(crate) fn feedback_delay(&self) -> Option<Duration> {
        match self.source.traffic {
            Traffic::Greedy { back, .. } | Traffic::Reno { back } | Traffic::Scalable { back } => {
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
    reaction: Reaction,
    in_flight: u64,
    /// Losses and marks of packets before this number belong to a reaction already taken.
    recovered_at: u64,
    marks: Marks,
}

/// How a window reacts to marks. All but [`Reaction::None`] halve after a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    /// Neither to marks nor to losses.
    None,
    /// As to a loss.
    Half,
    /// By half of the share of marked packets.
    Share,
}

/// The share of marked packets, as DCTCP keeps it (RFC 8257, section 3.3).
#[derive(Debug)]
struct Marks {
    /// The averaged share in units of 1/2^16. 1 to begin with, so that the first mark halves.
    alpha: u64,
    packets: u64,
    marked: u64,
    /// The window of observation ends with this packet.
    until: u64,
}

/// What a receiver lets be on the way, 4,096 packets: Linux' greatest receive buffer by default
/// holds as many full ones. Without it a window on a path without losses would grow for ever.
const RECEIVE_WINDOW: u64 = 4_096 * PACKET;

/// One packet of window, and one of `alpha`.
const PACKET: u64 = 1 << 16;

impl Window {
    /// RFC 6928: ten packets to begin with, for what is not fixed.
    fn new(packets: u32, reaction: Reaction) -> Self {
        Self {
            size: u64::from(packets) * PACKET,
            slow_start_until: u64::MAX,
            reaction,
            in_flight: 0,
            recovered_at: 0,
            marks: Marks { alpha: PACKET, packets: 0, marked: 0, until: 0 },
        }
    }

    fn room(&self) -> u64 {
        (self.size / PACKET).saturating_sub(self.in_flight)
    }

    /// `sent` packets have been sent so far.
    fn on_feedback(&mut self, number: u64, sent: u64, known: Known) {
        self.in_flight -= 1;
        if self.reaction == Reaction::None {
            return;
        }
        self.marks.observe(number, sent, known);
        match (known, self.reaction) {
            (Known::Marked, Reaction::Share) => {
                self.reduce(number, sent, self.size * self.marks.alpha / PACKET / 2);
            }
            (Known::Lost | Known::Marked, _) => self.reduce(number, sent, self.size / 2),
            (Known::Arrived, _) => {}
        }
        if known != Known::Lost {
            self.grow();
        }
    }

    /// RFC 5681, section 3.1: a packet per packet, later a packet per window.
    fn grow(&mut self) {
        let more =
            if self.size < self.slow_start_until { PACKET } else { PACKET * PACKET / self.size };
        self.size = (self.size + more).min(RECEIVE_WINDOW);
    }

    fn reduce(&mut self, number: u64, sent: u64, by: u64) {
        if number < self.recovered_at {
            return;
        }
        self.size = (self.size - by).max(2 * PACKET);
        self.slow_start_until = self.size;
        self.recovered_at = sent;
    }
}

impl Marks {
    fn observe(&mut self, number: u64, sent: u64, known: Known) {
        self.packets += 1;
        self.marked += u64::from(known == Known::Marked);
        if number >= self.until {
            self.alpha = self.alpha - self.alpha / 16 + self.marked * PACKET / self.packets / 16;
            (self.packets, self.marked, self.until) = (0, 0, sent);
        }
    }
}
