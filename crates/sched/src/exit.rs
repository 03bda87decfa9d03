//! Where packets leave a link, whichever way: the fates that are to be drained, and the counters.

use std::collections::VecDeque;

use crate::output::{BitFlip, DropReason, Mark, Output, Snapshot, Stages};
use crate::packet::{Packet, true_size};
use crate::queue::{Queued, Served};
use crate::ring::Ring;
use crate::time::Instant;

/// Outputs in order of decision, and what the link counts.
#[derive(Debug)]
pub(crate) struct Exit {
    outputs: Ring<Output>,
    /// Handles of packets duplicated, where somebody asks for them.
    duplicates: Option<VecDeque<u64>>,
    pub(crate) counters: Snapshot,
}

/// What a departing packet has beside its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    pub(crate) copy: u8,
    pub(crate) mark: Mark,
    pub(crate) corrupt: Option<BitFlip>,
    pub(crate) due: Instant,
    pub(crate) stages: Stages,
}

impl Departure {
    /// Of a packet whose service began at `started` and ends at `now`, and which is due at `due`.
    #[inline]
    pub(crate) fn from_service(
        served: &Served,
        started: Instant,
        now: Instant,
        due: Instant,
    ) -> Self {
        let &Served { ref queued, copy, mark, corrupt, pacing, latency } = served;
        let stages = Stages {
            pacing: queued.entered.since(queued.packet.arrival) + pacing,
            queue: started.since(queued.entered).saturating_sub(pacing + latency),
            serialisation: now.since(started),
            propagation: latency + due.since(now),
        };
        Self { copy, mark, corrupt, due, stages }
    }
}

impl Exit {
    pub(crate) fn new() -> Self {
        Self { outputs: Ring::new(), duplicates: None, counters: Snapshot::default() }
    }

    /// The next fate.
    #[inline]
    pub(crate) fn poll(&mut self) -> Option<Output> {
        let output = *self.outputs.front()?;
        self.outputs.pop_front();
        Some(output)
    }

    /// Keeps the handles of packets that are duplicated.
    pub(crate) fn follow_copies(&mut self) {
        self.duplicates.get_or_insert_default();
    }

    /// The handle of a packet that was duplicated.
    #[inline]
    pub(crate) fn poll_duplicate(&mut self) -> Option<u64> {
        self.duplicates.as_mut()?.pop_front()
    }

    /// Counts a packet in; false where it would hold more memory than `most` bytes in all.
    #[inline]
    pub(crate) fn take_in(&mut self, packet: &Packet, most: u64) -> bool {
        self.counters.packets_in += u64::from(packet.segments);
        self.counters.bytes_in += u64::from(packet.len);
        self.take_memory(packet, most)
    }

    /// The queue has handed a packet out, and it has been served.
    #[inline]
    pub(crate) fn served(&mut self, queued: &Queued) {
        self.counters.served_packets += u64::from(queued.packet.segments);
        self.counters.served_bytes += queued.bytes;
    }

    /// Whether there is room for a packet more in `most` bytes; then it is taken.
    #[inline]
    pub(crate) fn take_memory(&mut self, packet: &Packet, most: u64) -> bool {
        let held = self.counters.held_bytes + true_size(packet.len);
        if held > most {
            return false;
        }
        self.hold(held);
        true
    }

    /// Counts duplicates that a discipline made and holds, and announces them to whoever asked.
    pub(crate) fn duplicate(&mut self, packets: impl Iterator<Item = Packet>) {
        for packet in packets {
            self.count_duplicate(&packet);
            self.hold(self.counters.held_bytes + true_size(packet.len));
        }
    }

    /// Counts one more of a packet and announces it to whoever asked.
    pub(crate) fn count_duplicate(&mut self, packet: &Packet) {
        self.counters.duplicated += u64::from(packet.segments);
        self.counters.bytes_duplicated += u64::from(packet.len);
        if let Some(duplicates) = &mut self.duplicates {
            duplicates.push_back(packet.handle);
        }
    }

    fn hold(&mut self, bytes: u64) {
        self.counters.held_bytes = bytes;
        self.counters.held_peak_bytes = self.counters.held_peak_bytes.max(bytes);
    }

    /// A held packet departs.
    #[expect(clippy::inline_always, reason = "measured: a packet is copied once less")]
    #[inline(always)]
    pub(crate) fn depart(&mut self, packet: &Packet, departure: Departure) {
        let Departure { copy, mark, corrupt, due, stages } = departure;
        let counters = &mut self.counters;
        counters.held_bytes -= true_size(packet.len);
        let segments = u64::from(packet.segments);
        counters.packets_out += segments;
        counters.bytes_out += u64::from(packet.len);
        counters.marked += if mark == Mark::Ce { segments } else { 0 };
        counters.corrupted += if corrupt.is_some() { segments } else { 0 };
        let packet = *packet;
        self.outputs.push_back(Output::Depart { packet, copy, corrupt, due, mark, stages });
    }

    /// A held packet is dropped.
    #[inline(never)]
    pub(crate) fn lose(&mut self, packet: &Packet, copy: u8, reason: DropReason, at: Instant) {
        self.counters.held_bytes -= true_size(packet.len);
        self.refuse(packet, copy, reason, at);
    }

    /// A packet that was not held is dropped.
    pub(crate) fn refuse(&mut self, packet: &Packet, copy: u8, reason: DropReason, at: Instant) {
        self.counters.dropped[reason.index()] += u64::from(packet.segments);
        self.counters.bytes_dropped += u64::from(packet.len);
        self.outputs.push_back(Output::Drop { packet: *packet, copy, reason, at });
    }
}
