//! From the server to the delay line.

use super::Link;
use crate::config::LossAt;
use crate::delay_line::Travelling;
use crate::impair::Struck;
use crate::output::{DropReason, Mark};

impl Link {
    /// Loses, marks, duplicates a packet that has been served; what is left goes on.
    pub(super) fn impair(&mut self, mut travelling: Travelling) {
        if self.config.loss_at == LossAt::After {
            match self.strikes.lose(&travelling.packet) {
                Struck::Spared => {}
                Struck::Marked => travelling.mark = Mark::Ce,
                Struck::Lost => {
                    self.lose(&travelling.packet, travelling.copy, DropReason::Loss);
                    return;
                }
            }
        }
        let twice = self.strikes.duplicate();
        self.propagate(travelling);
        if twice {
            self.duplicate(travelling);
        }
    }

    /// One more of a packet, with a number, a fate and a delay of its own.
    fn duplicate(&mut self, original: Travelling) {
        let copy = original.copy.saturating_add(1);
        self.count_duplicate(&original.packet);
        if self.take_memory(&original.packet) {
            self.propagate(Travelling { copy, ..original });
        } else {
            self.drop_packet(&original.packet, copy, DropReason::HoldFull);
        }
    }

    /// Puts a packet on the delay line, a bit flipped or not.
    fn propagate(&mut self, mut travelling: Travelling) {
        let flipped = self.strikes.corrupt(&travelling.packet);
        travelling.corrupt = travelling.corrupt.or(flipped);
        if let Some(travelling) = self.line.enter(travelling, self.now) {
            self.depart(&travelling);
        }
    }
}
