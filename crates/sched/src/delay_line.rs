//! The delay line: propagation delay and jitter, in order.

use std::collections::VecDeque;

use crate::output::{BitFlip, Mark, Stages};
use crate::packet::Packet;
use crate::random::Stream;
use crate::time::{Duration, Instant};

/// A packet on its way, with its time so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Travelling {
    pub(crate) packet: Packet,
    pub(crate) copy: u8,
    pub(crate) mark: Mark,
    pub(crate) corrupt: Option<BitFlip>,
    pub(crate) due: Instant,
    pub(crate) stages: Stages,
}

const _: () = assert!(size_of::<Travelling>() <= 128, "a held packet costs at most 128 bytes");

/// Packets between the bottleneck and their departure. Each takes `delay`, give or take
/// `jitter`; a packet that would overtake waits for the one before it.
#[derive(Debug)]
pub(crate) struct DelayLine {
    delay: Duration,
    jitter: Duration,
    random: Stream,
    packets: VecDeque<Travelling>,
    /// Wire packets held: the segments of `packets`.
    segments: u64,
    last_due: Instant,
}

impl DelayLine {
    pub(crate) fn new(delay: Duration, jitter: Duration, random: Stream) -> Self {
        let (packets, last_due) = (VecDeque::new(), Instant::ZERO);
        Self { delay, jitter, random, packets, segments: 0, last_due }
    }

    /// When a packet that enters at `now` will leave.
    pub(crate) fn draw_due(&mut self, now: Instant) -> Instant {
        let due = (now + self.draw_delay()).max(self.last_due);
        self.last_due = due;
        due
    }

    /// Holds a packet until the time drawn for it, the times of its stages filled in.
    pub(crate) fn enter(&mut self, travelling: Travelling) {
        self.segments += u64::from(travelling.packet.segments);
        self.packets.push_back(travelling);
    }

    /// When the next packet leaves.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.packets.front().map(|head| head.due)
    }

    /// The earliest time at which a packet that enters at `now` could leave.
    pub(crate) fn earliest(&self, now: Instant) -> Instant {
        (now + self.delay.saturating_sub(self.jitter)).max(self.last_due)
    }

    /// Takes the next packet off.
    pub(crate) fn leave(&mut self) -> Option<Travelling> {
        let head = self.packets.pop_front()?;
        self.segments -= u64::from(head.packet.segments);
        Some(head)
    }

    /// Wire packets held.
    pub(crate) fn segments(&self) -> u64 {
        self.segments
    }

    /// New values, for packets that enter from now on.
    pub(crate) fn set(&mut self, delay: Duration, jitter: Duration) {
        self.delay = delay;
        self.jitter = jitter;
    }

    fn draw_delay(&mut self) -> Duration {
        if self.jitter == Duration::ZERO {
            return self.delay;
        }
        let spread = self.random.up_to(self.jitter.as_nanos().saturating_mul(2));
        self.delay.saturating_sub(self.jitter) + Duration::from_nanos(spread)
    }
}
