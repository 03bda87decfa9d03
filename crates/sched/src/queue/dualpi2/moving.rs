//! Packets that move: from and to other disciplines, and between the two queues.

use super::signal::Lane;
use super::{Dualpi2, Waiting};
use crate::output::{DropReason, Mark};
use crate::queue::{Effects, Moving, Queued};
use crate::time::{Duration, Instant};

impl Dualpi2 {
    /// Puts every packet where it belongs now, in order of entry: another one of its flow may have
    /// been told apart from it before.
    pub(super) fn sort_anew(&mut self) {
        let mut all: Vec<Waiting> = self.classic.drain().chain(self.low.drain()).collect();
        all.sort_by_key(|waiting| waiting.queued.entered);
        for waiting in all {
            let lane = self.settings.config.classify.lane(waiting.queued.packet.ecn);
            self.fifo(lane).push(Waiting { step: waiting.step && lane == Lane::Low, ..waiting });
        }
    }
}

impl Moving for Dualpi2 {
    /// The wait that there is already is no growth: the controller measures from it on.
    fn adopt(&mut self, queued: Queued, now: Instant) {
        let lane = self.settings.config.classify.lane(queued.packet.ecn);
        self.push(lane, queued, Mark::None);
        let oldest = self.oldest().map_or(Duration::ZERO, |entered| now.since(entered));
        self.controller.find(oldest);
    }

    fn adopt_served(&mut self, queued: &Queued) {
        self.serving.add(queued);
    }

    fn surrender(&mut self, packets: &mut Vec<Queued>) {
        packets.extend(self.classic.drain().map(|waiting| waiting.queued));
        packets.extend(self.low.drain().map(|waiting| waiting.queued));
    }

    fn shrink(&mut self, _now: Instant, effects: &mut Effects) {
        loop {
            let reason = if self.found().packets > self.settings.limit {
                DropReason::Limit
            } else if self.counters.memory_used > self.settings.memory {
                DropReason::MemoryLimit
            } else {
                return;
            };
            let head = self.pop(Lane::Classic).or_else(|| self.pop(Lane::Low));
            let Some(head) = head else { return };
            effects.drop(&head.queued.packet, reason);
        }
    }
}
