//! `tbf`: a token bucket filter, as tc-tbf(8).
//!
//! Packets wait in a fifo of bytes. The one at the head leaves as soon as the bucket, which
//! `rate` fills up to `burst`, holds what it costs, and a second bucket likewise, if there is a
//! `peakrate`. A packet is paid for when it leaves, not while it is sent: the discipline itself is
//! the bottleneck, and the link has no other.

use super::{Backlog, Discipline, Effects, Queued, Served, Statistics};
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
    /// Wire packets of the burst at the head that have been paid for.
    paid: u64,
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
            paid: 0,
            wake: None,
            overlimits: 0,
        }
    }

    /// The parts in which the packet at the head is paid for, and its bytes: an uncut burst that
    /// is too large for the buckets goes one wire packet at a time.
    #[inline]
    fn head(&self) -> Option<(u64, u64)> {
        let head = self.packets.front()?;
        let whole = head.bytes <= self.max_size;
        Some((head.bytes, if whole { 1 } else { segments(head) }))
    }

    /// When the head could leave if nothing changed after `now`.
    fn head_ready(&self, now: Instant) -> Option<Instant> {
        let (bytes, parts) = self.head()?;
        let missing = self.buckets.missing(part(bytes, parts, self.paid), now)?;
        Some(now + missing)
    }

    /// Drops what the fifo cannot hold any more from its tail, and what can never leave.
    fn shrink(&mut self, effects: &mut Effects) {
        let (max, backlog) = (self.max_size, &mut self.backlog);
        self.packets.retain(|queued| {
            let fits = fits(queued, max);
            if !fits {
                backlog.remove(queued);
                effects.drop(&queued.packet, DropReason::TooBig);
            }
            fits
        });
        while self.backlog.bytes > self.limit
            && let Some(last) = self.packets.back()
        {
            self.backlog.remove(last);
            effects.drop(&last.packet, DropReason::Limit);
            self.packets.pop_back();
        }
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
        let Some((bytes, parts)) = self.head() else { return false };
        while self.paid < parts {
            if let Err(missing) = self.buckets.pay(part(bytes, parts, self.paid), now) {
                self.overlimits += 1;
                // At the end of time nothing can be waited for.
                self.wake = missing.map(|missing| now + missing).filter(|wake| *wake > now);
                return false;
            }
            self.paid += 1;
        }
        self.paid = 0;
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
    /// A lower limit drops from the tail.
    fn configure(&mut self, config: &LinkConfig, now: Instant, effects: &mut Effects) {
        self.buckets.configure(config, now);
        self.limit = config.resolved_limit().bytes;
        self.max_size = max_size(config);
        let head = self.packets.front().map(|head| head.packet.handle);
        self.shrink(effects);
        if head != self.packets.front().map(|head| head.packet.handle) {
            self.paid = 0;
        }
        self.wake = self.head_ready(now);
    }

    fn statistics(&self) -> Statistics {
        Statistics::Tbf(TbfStatistics { overlimits: self.overlimits })
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

/// Bytes of part `number` of a packet: its parts are alike, the first ones larger by one where
/// they cannot be.
#[inline]
fn part(bytes: u64, parts: u64, number: u64) -> u64 {
    if parts == 1 { bytes } else { bytes / parts + u64::from(number < bytes % parts) }
}
