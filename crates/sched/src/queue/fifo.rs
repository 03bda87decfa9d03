//! `fifo`: first in, first out, tail drop at a limit in packets or bytes (`pfifo`, `bfifo` of
//! Linux).

use super::{Backlog, Discipline, Effects, Held, Moving, Queued, Served, Statistics};
use crate::config::LinkConfig;
use crate::output::DropReason;
use crate::ring::Ring;
use crate::time::Instant;

/// What a queue may hold, resolved: both bounds apply, the greatest value is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimit {
    /// Wire packets.
    pub packets: u64,
    /// Bytes as the rate counts them.
    pub bytes: u64,
}

impl QueueLimit {
    /// No bound but the link's memory.
    pub const NONE: Self = Self { packets: u64::MAX, bytes: u64::MAX };
}

/// Packets in order of arrival. The one in service counts in the limit until it has been served:
/// so `limit` bounds the whole wait, as under Linux' tbf.
#[derive(Debug)]
pub struct Fifo {
    packets: Ring<Queued>,
    limit: QueueLimit,
    held: Held,
}

impl Fifo {
    /// An empty queue.
    pub fn new(limit: QueueLimit) -> Self {
        Self { packets: Ring::new(), limit, held: Held::default() }
    }

    fn is_over_limit(&self, held: &Held) -> bool {
        let held = held.all();
        held.packets > self.limit.packets || held.bytes > self.limit.bytes
    }
}

impl Discipline for Fifo {
    #[inline]
    fn enqueue(&mut self, queued: Queued, effects: &mut Effects) {
        let mut then = self.held;
        then.waiting.add(&queued);
        if self.is_over_limit(&then) {
            let Queued { packet, .. } = queued;
            effects.drop(&packet, DropReason::Limit);
            return;
        }
        self.held = then;
        self.packets.push_back(queued);
    }

    #[inline]
    fn dequeue_into(&mut self, served: &mut Served, _: Instant, _: &mut Effects) -> bool {
        self.served();
        let Some(head) = self.packets.front() else { return false };
        served.set_untouched(head);
        self.held.waiting.remove(head);
        self.held.hand_out(head);
        self.packets.pop_front();
        true
    }

    fn wake(&self) -> Option<Instant> {
        None
    }

    fn served(&mut self) {
        self.held.served();
    }

    fn backlog(&self) -> Backlog {
        self.held.waiting
    }

    /// A lower limit drops from the tail what no longer fits. The packet in service stays.
    fn configure(&mut self, config: &LinkConfig, now: Instant, effects: &mut Effects) {
        let before = core::mem::replace(&mut self.limit, config.resolved_limit());
        if config.lowers_limit(before) {
            self.shrink(now, effects);
        }
    }

    fn statistics(&self) -> Statistics {
        Statistics::Fifo
    }
}

impl Moving for Fifo {
    fn adopt(&mut self, queued: Queued, _now: Instant) {
        self.held.waiting.add(&queued);
        self.packets.push_back(queued);
    }

    fn adopt_served(&mut self, queued: &Queued) {
        self.held.hand_out(queued);
    }

    fn surrender(&mut self, packets: &mut Vec<Queued>) {
        packets.extend(self.packets.drain());
        self.held.waiting = Backlog::default();
    }

    fn shrink(&mut self, _now: Instant, effects: &mut Effects) {
        while self.is_over_limit(&self.held) {
            let Some(last) = self.packets.back() else { return };
            self.held.waiting.remove(last);
            effects.drop(&last.packet, DropReason::Limit);
            self.packets.pop_back();
        }
    }
}
