//! The sender's access rate.

use std::collections::VecDeque;

use crate::bucket::Bucket;
use crate::queue::Queued;
use crate::time::Instant;
use crate::units::Rate;

/// The sender's access link before the queue: pure serialisation, bounded by the link's memory.
#[derive(Debug)]
pub(crate) struct Nic {
    bucket: Bucket,
    packets: VecDeque<Queued>,
    /// Wire packets held: the segments of `packets`.
    segments: u64,
    ready: Option<Instant>,
}

impl Nic {
    pub(crate) fn new(rate: Rate, start: Instant) -> Self {
        let bucket = Bucket::new(rate, 0, start);
        Self { bucket, packets: VecDeque::new(), segments: 0, ready: None }
    }

    pub(crate) fn accept(&mut self, queued: Queued) {
        self.segments += u64::from(queued.packet.segments);
        self.packets.push_back(queued);
        if self.packets.len() == 1 {
            self.bucket.begin(queued.entered);
            self.ready = self.bucket.ready(queued.bytes);
        }
    }

    pub(crate) fn ready(&self) -> Option<Instant> {
        self.ready
    }

    /// A new rate from `now` on; the rest of the head is rescaled.
    pub(crate) fn set_rate(&mut self, rate: Rate, now: Instant) {
        let serving = self.packets.front().map(|head| head.bytes);
        self.bucket.set_rate(rate, serving.is_some(), now);
        self.ready = serving.and_then(|bytes| self.bucket.ready(bytes));
    }

    /// The head passes at `now`, the next one begins.
    pub(crate) fn pass(&mut self, now: Instant) -> Option<Queued> {
        let passed = self.packets.pop_front()?;
        self.segments -= u64::from(passed.packet.segments);
        self.bucket.finish(passed.bytes, now);
        self.ready = self.packets.front().and_then(|next| {
            self.bucket.begin(now);
            self.bucket.ready(next.bytes)
        });
        Some(passed)
    }

    /// Wire packets held.
    pub(crate) fn segments(&self) -> u64 {
        self.segments
    }
}
