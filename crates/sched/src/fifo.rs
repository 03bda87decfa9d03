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

/// Packets in order of arrival. The head is the one in service and stays until it has been
/// served: so `limit` bounds the whole wait, as under Linux' tbf, and no packet is copied to be
/// looked at.
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

    /// Takes the packet in, unless it does not fit: then false.
    #[must_use]
    pub(crate) fn enqueue(&mut self, packet: &Packet, entered: Instant, bytes: u64) -> bool {
        let packets_then = self.backlog.packets + u64::from(packet.segments);
        let bytes_then = self.backlog.bytes + bytes;
        if packets_then > self.limit.packets || bytes_then > self.limit.bytes {
            return false;
        }
        self.backlog.packets = packets_then;
        self.backlog.bytes = bytes_then;
        self.backlog.peak_bytes = self.backlog.peak_bytes.max(bytes_then);
        self.packets.push_back(Queued { packet: *packet, entered, bytes });
        true
    }

    /// The packet in service, or next to be.
    pub(crate) fn head(&self) -> Option<&Queued> {
        self.packets.front()
    }

    /// Takes the head off: it has been served.
    pub(crate) fn dequeue(&mut self) -> Option<Queued> {
        let head = self.packets.pop_front()?;
        self.leaves(&head);
        Some(head)
    }

    /// A new limit; what no longer fits is to be taken off with [`Fifo::drop_over_limit`].
    pub(crate) fn set_limit(&mut self, limit: QueueLimit) {
        self.limit = limit;
    }

    /// The last packet, while the backlog is over the limit. The one in service stays.
    pub(crate) fn drop_over_limit(&mut self) -> Option<Queued> {
        let over =
            self.backlog.packets > self.limit.packets || self.backlog.bytes > self.limit.bytes;
        if !over || self.packets.len() < 2 {
            return None;
        }
        let last = self.packets.pop_back()?;
        self.leaves(&last);
        Some(last)
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn leaves(&mut self, queued: &Queued) {
        self.backlog.packets -= u64::from(queued.packet.segments);
        self.backlog.bytes -= queued.bytes;
    }
}
