//! Fates, and what they change in the counters and in the memory held.

use super::Link;
use crate::delay_line::Travelling;
use crate::output::{DropReason, Mark, Output};
use crate::packet::{Packet, true_size};

impl Link {
    #[inline(never)]
    pub(super) fn account_effects(&mut self) {
        let mut effects = core::mem::take(&mut self.effects);
        for packet in effects.take_duplicates() {
            self.count_duplicate(&packet);
            self.counters.held_bytes += true_size(packet.len);
        }
        self.counters.held_peak_bytes = self.counters.held_peak_bytes.max(self.counters.held_bytes);
        for dropped in effects.take_drops() {
            self.lose(&dropped.packet, dropped.copy, dropped.reason);
        }
        self.effects = effects;
    }

    /// Counts one more of a packet and announces it to whoever asked.
    pub(super) fn count_duplicate(&mut self, packet: &Packet) {
        self.counters.duplicated += u64::from(packet.segments);
        self.counters.bytes_duplicated += u64::from(packet.len);
        if let Some(duplicates) = &mut self.duplicates {
            duplicates.push_back(packet.handle);
        }
    }

    pub(super) fn depart(&mut self, travelling: &Travelling) {
        let Travelling { packet, copy, mark, corrupt, due, stages } = *travelling;
        self.release_memory(&packet);
        let segments = u64::from(packet.segments);
        self.counters.packets_out += segments;
        self.counters.bytes_out += u64::from(packet.len);
        self.counters.marked += if mark == Mark::Ce { segments } else { 0 };
        self.counters.corrupted += if corrupt.is_some() { segments } else { 0 };
        self.outputs.push_back(Output::Depart { packet, copy, corrupt, due, mark, stages });
    }

    /// Drops a packet that was held.
    pub(super) fn lose(&mut self, packet: &Packet, copy: u8, reason: DropReason) {
        self.release_memory(packet);
        self.drop_packet(packet, copy, reason);
    }

    pub(super) fn drop_packet(&mut self, packet: &Packet, copy: u8, reason: DropReason) {
        self.counters.dropped[reason.index()] += u64::from(packet.segments);
        self.counters.bytes_dropped += u64::from(packet.len);
        self.outputs.push_back(Output::Drop { packet: *packet, copy, reason, at: self.now });
    }

    /// Whether there is room for a packet more; then it is taken.
    pub(super) fn take_memory(&mut self, packet: &Packet) -> bool {
        let held = self.counters.held_bytes + true_size(packet.len);
        if held > self.config.hold_limit {
            return false;
        }
        self.counters.held_bytes = held;
        self.counters.held_peak_bytes = self.counters.held_peak_bytes.max(held);
        true
    }

    pub(super) fn release_memory(&mut self, packet: &Packet) {
        self.counters.held_bytes -= true_size(packet.len);
    }
}
