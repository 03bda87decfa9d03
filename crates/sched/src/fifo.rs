//! `fifo`: first in, first out, tail drop at a limit in packets or bytes (`pfifo`, `bfifo` of
//! Linux).

use std::collections::VecDeque;

use crate::packet::Packet;
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

/// A packet in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    pub(crate) packet: Packet,
    /// When it entered the queue.
    pub(crate) entered: Instant,
    /// Bytes as the rate counts them.
    pub(crate) bytes: u64,
}

/// Packets in order of arrival. The backlog counts what was taken into service and has not
/// left yet, so that `limit` bounds the whole wait, as under Linux' tbf.
#[derive(Debug)]
pub(crate) struct Fifo {
    packets: VecDeque<Queued>,
    limit: QueueLimit,
    backlog: Backlog,
}

/// What a queue holds, its packet in service included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) peak_bytes: u64,
}

impl Fifo {
    pub(crate) fn new(limit: QueueLimit) -> Self {
        Self { packets: VecDeque::new(), limit, backlog: Backlog::default() }
    }

    /// Takes the packet in, or gives it back when it does not fit.
    pub(crate) fn enqueue(&mut self, queued: Queued) -> Result<(), Queued> {
        let packets = self.backlog.packets + u64::from(queued.packet.segments);
        let bytes = self.backlog.bytes + queued.bytes;
        if packets > self.limit.packets || bytes > self.limit.bytes {
            return Err(queued);
        }
        self.backlog.packets = packets;
        self.backlog.bytes = bytes;
        self.backlog.peak_bytes = self.backlog.peak_bytes.max(bytes);
        self.packets.push_back(queued);
        Ok(())
    }

    /// Takes the head into service; it counts in the backlog until [`Fifo::served`].
    pub(crate) fn dequeue(&mut self) -> Option<Queued> {
        self.packets.pop_front()
    }

    /// The packet in service has left.
    pub(crate) fn served(&mut self, queued: &Queued) {
        self.backlog.packets -= u64::from(queued.packet.segments);
        self.backlog.bytes -= queued.bytes;
    }

    /// A new limit; what no longer fits is to be taken off with [`Fifo::drop_over_limit`].
    pub(crate) fn set_limit(&mut self, limit: QueueLimit) {
        self.limit = limit;
    }

    /// The last packet, while the backlog is over the limit. The one in service stays.
    pub(crate) fn drop_over_limit(&mut self) -> Option<Queued> {
        let over =
            self.backlog.packets > self.limit.packets || self.backlog.bytes > self.limit.bytes;
        let last = if over { self.packets.pop_back() } else { None };
        if let Some(queued) = &last {
            self.served(queued);
        }
        last
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.backlog
    }
}
