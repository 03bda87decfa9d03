//! `tbf`: a token bucket filter, as tc-tbf(8).
//!
//! Packets wait in a fifo of bytes. The one at the head leaves as soon as the bucket, which
//! `rate` fills up to `burst`, holds what it costs, and a second bucket likewise, if there is a
//! `peakrate`. A packet is paid for when it leaves, not while it is sent: the discipline itself is
//! the bottleneck, and the link has no other.

use super::{Backlog, Discipline, Effects, Moving, QueueLimit, Queued, Served, Statistics};
use crate::bucket::{NANOBITS_PER_BYTE, Saved};
use crate::config::LinkConfig;
use crate::output::DropReason;
use crate::ring::Ring;
use crate::time::Instant;

mod buckets;
mod config;
pub mod rate_table;
#[cfg(test)]
mod tests;

use buckets::Buckets;
pub(super) use config::bytes_per_second;
pub use config::{Refill, TbfConfig};
pub use rate_table::{LinkLayer, RateTable};

/// A token bucket filter over a fifo of bytes.
#[derive(Debug)]
pub struct Tbf {
    packets: Ring<Queued>,
    backlog: Backlog,
    /// Bytes that the fifo holds at most.
    limit: u64,
    /// Bytes of the largest packet that the buckets can ever pay for.
    max_size: u64,
    buckets: Buckets,
    /// What has not been paid for of a packet at the head that is being paid in parts.
    owed: Option<Owed>,
    wake: Option<Instant>,
    overlimits: u64,
}

/// Counters of tbf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TbfStatistics {
    /// Times that a packet was asked for and had to wait: once for each attempt, not once for
    /// each packet.
    pub overlimits: u64,
}

impl TbfStatistics {
    /// Under the name that `tc -s -j qdisc` gives it.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("overlimits", self.overlimits)]
    }
}

impl Tbf {
    /// An empty queue with full buckets at `start`. `config` is valid.
    pub fn new(config: &LinkConfig, start: Instant) -> Self {
        Self {
            packets: Ring::new(),
            backlog: Backlog::default(),
            limit: config.resolved_limit().bytes,
            max_size: max_size(config),
            buckets: Buckets::new(config, start),
            owed: None,
            wake: None,
            overlimits: 0,
        }
    }

    /// What is left of the packet at the head to be paid for.
    #[inline]
    fn head(&self) -> Option<Owed> {
        let head = self.packets.front()?;
        Some(self.owed.unwrap_or_else(|| Owed::all(head, self.max_size)))
    }

    /// The bytes of a head that is larger than `max_size`, as one can be since a change.
    fn large_head(&self, max_size: u64) -> Option<u64> {
        self.head().map(Owed::next).filter(|bytes| *bytes > max_size)
    }

    /// When the head could leave if nothing changed after `now`.
    fn head_ready(&self, now: Instant) -> Option<Instant> {
        let missing = match self.large_head(self.max_size) {
            Some(bytes) => self.buckets.missing_large(bytes, now),
            None => self.buckets.missing(self.head()?.next(), now),
        };
        Some(now + missing?)
    }

    /// What the buckets have saved up. While a packet waits for it, it is that packet's.
    pub(crate) fn saved(&self, now: Instant) -> Saved {
        let saved = self.buckets.saved(self.large_head(self.max_size), now);
        let Some(head) = self.packets.front() else { return saved };
        let parts = head.bytes - self.owed.map_or(head.bytes, |owed| owed.bytes);
        let paid = saved.tokens.saturating_add(i128::from(parts) * NANOBITS_PER_BYTE);
        Saved { tokens: 0, paid, ..saved }
    }

    /// Serves itself from now on, with what another serialiser had saved up.
    pub(crate) fn take_over(&mut self, saved: Saved) {
        self.buckets.take_over(saved);
    }
}

impl Discipline for Tbf {
    #[inline]
    fn enqueue(&mut self, queued: Queued, effects: &mut Effects) {
        if !fits(&queued, self.max_size) {
            effects.drop(&queued.packet, DropReason::TooBig);
        } else if self.backlog.bytes.saturating_add(queued.bytes) > self.limit {
            effects.drop(&queued.packet, DropReason::Limit);
        } else {
            self.backlog.add(&queued);
            self.packets.push_back(queued);
        }
    }

    #[inline]
    fn dequeue_into(&mut self, served: &mut Served, now: Instant, _: &mut Effects) -> bool {
        // Until then the head waits, whoever asks: arrivals change neither it nor the tokens.
        if self.wake.is_some_and(|wake| now < wake) {
            self.overlimits += 1;
            return false;
        }
        self.wake = None;
        let Some(mut owed) = self.head() else { return false };
        while owed.parts > 0 {
            let bytes = owed.next();
            let paid = if bytes <= self.max_size {
                self.buckets.pay(bytes, now)
            } else {
                self.buckets.pay_large(bytes, now)
            };
            if let Err(missing) = paid {
                self.overlimits += 1;
                // At the end of time nothing can be waited for.
                self.wake = missing.map(|missing| now + missing).filter(|wake| *wake > now);
                return false;
            }
            owed = owed.after_next();
            self.owed = (owed.parts > 0).then_some(owed);
        }
        let Some(head) = self.packets.front() else { return false };
        served.set_untouched(head);
        self.backlog.remove(head);
        self.packets.pop_front();
        true
    }

    fn wake(&self) -> Option<Instant> {
        self.wake
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// The head's wait is computed anew. What the buckets hold is kept, unless `tbf.refill=linux`.
    /// A lower limit drops from the tail. What was taken in and is too large for smaller buckets
    /// leaves once it has been paid for.
    fn configure(&mut self, config: &LinkConfig, now: Instant, effects: &mut Effects) {
        let max_size = max_size(config);
        let large = self.large_head(max_size.min(self.max_size));
        self.buckets.configure(config, large, now);
        self.max_size = max_size;
        self.owed = self.owed.map(|owed| owed.within(self.max_size));
        let bytes = core::mem::replace(&mut self.limit, config.resolved_limit().bytes);
        if config.lowers_limit(QueueLimit { bytes, ..QueueLimit::NONE }) {
            self.shrink(now, effects);
        }
        self.wake = self.head_ready(now);
    }

    fn statistics(&self) -> Statistics {
        Statistics::Tbf(TbfStatistics { overlimits: self.overlimits })
    }
}

impl Moving for Tbf {
    fn adopt(&mut self, queued: Queued, _now: Instant) {
        self.backlog.add(&queued);
        self.packets.push_back(queued);
    }

    fn surrender(&mut self, packets: &mut Vec<Queued>) {
        packets.extend(self.packets.drain());
        self.backlog = Backlog::default();
        self.owed = None;
    }

    fn shrink(&mut self, _now: Instant, effects: &mut Effects) {
        while self.backlog.bytes > self.limit
            && let Some(last) = self.packets.back()
        {
            self.backlog.remove(last);
            effects.drop(&last.packet, DropReason::Limit);
            self.packets.pop_back();
        }
        if self.packets.is_empty() {
            self.owed = None;
        }
    }
}

/// Bytes of the largest packet that both buckets can hold the tokens for.
fn max_size(config: &LinkConfig) -> u64 {
    let peak = config.peakrate.and(config.tbf.mtu).unwrap_or(u32::MAX);
    u64::from(config.burst.unwrap_or(0).min(peak))
}

/// Whether the buckets can pay for a packet, at least one wire packet at a time.
#[inline]
fn fits(queued: &Queued, max_size: u64) -> bool {
    queued.bytes <= max_size || queued.bytes.div_ceil(segments(queued)) <= max_size
}

#[inline]
fn segments(queued: &Queued) -> u64 {
    u64::from(queued.packet.segments).max(1)
}

/// What has not been paid for of a packet.
#[derive(Clone, Copy, Debug)]
struct Owed {
    bytes: u64,
    /// Parts in which it is paid: alike, the first ones larger by one byte where they cannot be.
    parts: u64,
}

impl Owed {
    /// All of a packet: at once, but an uncut burst that is too large for the buckets one wire
    /// packet at a time.
    #[inline]
    fn all(queued: &Queued, max_size: u64) -> Self {
        let bytes = queued.bytes;
        if bytes <= max_size {
            return Self { bytes, parts: 1 };
        }
        Self { bytes, parts: segments(queued) }.within(max_size)
    }

    #[inline]
    fn next(self) -> u64 {
        if self.parts == 1 { self.bytes } else { self.bytes.div_ceil(self.parts) }
    }

    #[inline]
    fn after_next(self) -> Self {
        Self { bytes: self.bytes - self.next(), parts: self.parts - 1 }
    }

    /// At once where even the parts are too large.
    fn within(self, max_size: u64) -> Self {
        if self.next() <= max_size { self } else { Self { parts: 1, ..self } }
    }
}
