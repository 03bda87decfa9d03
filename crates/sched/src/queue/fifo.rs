//! `fifo`: first in, first out, tail drop at a limit in packets or bytes (`pfifo`, `bfifo` of
//! Linux).

use std::collections::VecDeque;

use super::{Backlog, Discipline, Effects, Queued, Served, Statistics};
use crate::config::LinkConfig;
use crate::output::DropReason;
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
    packets: VecDeque<Queued>,
    limit: QueueLimit,
    /// The packets waiting and the one in service.
    held: Backlog,
    serving: Backlog,
}

impl Fifo {
    /// An empty queue.
    pub fn new(limit: QueueLimit) -> Self {
        let (held, serving) = (Backlog::default(), Backlog::default());
        Self { packets: VecDeque::new(), limit, held, serving }
    }

    fn drop_over_limit(&mut self, effects: &mut Effects) {
        while self.held.packets > self.limit.packets || self.held.bytes > self.limit.bytes {
            let Some(last) = self.packets.pop_back() else { return };
            self.held.remove(&last);
            effects.drop(&last.packet, DropReason::Limit);
        }
    }
}

impl Discipline for Fifo {
    fn enqueue(&mut self, queued: Queued, effects: &mut Effects) {
        let mut then = self.held;
        then.add(&queued);
        if then.packets > self.limit.packets || then.bytes > self.limit.bytes {
            effects.drop(&queued.packet, DropReason::Limit);
            return;
        }
        self.held = then;
        self.packets.push_back(queued);
    }

    fn dequeue(&mut self, _now: Instant, _effects: &mut Effects) -> Option<Served> {
        self.served();
        let head = self.packets.pop_front()?;
        self.serving.add(&head);
        Some(Served::untouched(head))
    }

    fn wake(&self) -> Option<Instant> {
        None
    }

    fn served(&mut self) {
        self.held.packets -= self.serving.packets;
        self.held.bytes -= self.serving.bytes;
        self.serving = Backlog::default();
    }

    fn backlog(&self) -> Backlog {
        Backlog {
            packets: self.held.packets - self.serving.packets,
            bytes: self.held.bytes - self.serving.bytes,
        }
    }

    /// A lower limit drops from the tail what no longer fits. The packet in service stays.
    fn configure(&mut self, config: &LinkConfig, _now: Instant, effects: &mut Effects) {
        self.limit = config.resolved_limit();
        self.drop_over_limit(effects);
    }

    fn statistics(&self) -> Statistics {
        Statistics::Fifo
    }
}
