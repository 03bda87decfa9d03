//! From the server to the delay line, where something strikes.

use super::Link;
use crate::config::LossAt;
use crate::exit::Departure;
use crate::impair::Struck;
use crate::output::{DropReason, Mark};
use crate::packet::Packet;
use crate::time::Instant;

impl Link {
    /// Loses, marks, duplicates the packet whose service began at `started` and which is through;
    /// what is left goes on.
    #[inline(never)]
    pub(super) fn impair(&mut self, started: Instant) {
        let packet = self.serving.queued.packet;
        let mut departure = Departure::from_service(&self.serving, started, self.now, self.now);
        if self.config.loss_at == LossAt::After {
            match self.strikes.lose(&packet) {
                Struck::Spared => {}
                Struck::Marked => departure.mark = Mark::Ce,
                Struck::Lost => {
                    self.exit.lose(&packet, departure.copy, DropReason::Loss, self.now);
                    return;
                }
            }
        }
        let twice = self.strikes.duplicate();
        self.propagate(&packet, departure);
        if twice {
            self.duplicate(&packet, departure);
        }
    }

    /// One more of a packet, with a number, a fate and a delay of its own.
    fn duplicate(&mut self, packet: &Packet, original: Departure) {
        let copy = original.copy.saturating_add(1);
        self.exit.count_duplicate(packet);
        if self.exit.take_memory(packet, self.config.hold_limit) {
            self.propagate(packet, Departure { copy, ..original });
        } else {
            self.exit.refuse(packet, copy, DropReason::HoldFull, self.now);
        }
    }

    /// Puts a packet on the delay line, a bit flipped or not.
    fn propagate(&mut self, packet: &Packet, mut departure: Departure) {
        let flipped = self.strikes.corrupt(packet);
        departure.corrupt = departure.corrupt.or(flipped);
        let due = self.line.draw_due(self.now);
        departure.due = due;
        departure.stages.propagation = departure.stages.propagation + due.since(self.now);
        if self.line.enter(packet, due, self.now) {
            self.exit.depart(packet, departure);
        } else {
            self.line.hold(packet, departure);
        }
    }
}
