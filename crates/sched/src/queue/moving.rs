//! Packets that move from one discipline to another, by a live change of `queue`.

use super::{Effects, Jens, Queue, Queued, each};
use crate::bucket::Saved;
use crate::config::{ConfigError, LinkConfig, QueueKind};
use crate::time::Instant;

/// What every discipline does for it.
///
/// A new discipline is made; it adopts what the old one surrenders, in order of entry, and is told
/// of the packet in service. What a discipline has learnt (marks, counters, credits, timers, paces)
/// goes with it.
pub(crate) trait Moving {
    /// Takes in a packet that another discipline held until `now`. No limit, no AQM and no chance
    /// decides about it, and it has waited since it entered there.
    fn adopt(&mut self, queued: Queued, now: Instant);

    /// A packet that another discipline handed out is in service: it counts like one of its own.
    fn adopt_served(&mut self, _queued: &Queued) {}

    /// Gives up all packets. Those that entered at one instant are in the order in which they came,
    /// as far as it is known: flow by flow.
    fn surrender(&mut self, packets: &mut Vec<Queued>);

    /// Drops what is over the limits, one of which was lowered.
    fn shrink(&mut self, now: Instant, effects: &mut Effects);
}

impl Queue {
    /// An empty queue of `config.queue` for a link that started at `start`, made at `now`.
    pub(crate) fn made_at(
        config: &LinkConfig,
        seed: u64,
        start: Instant,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        match config.queue {
            QueueKind::Jens => Ok(Self::Jens(Box::new(Jens::made_at(config, seed, (start, now))?))),
            _ => Self::new(config, seed, now),
        }
    }

    /// What a queue that serves itself has saved up.
    pub(crate) fn saved(&self, now: Instant) -> Saved {
        match self {
            Self::Tbf(tbf) => tbf.saved(now),
            Self::Jens(jens) => jens.saved(now),
            _ => Saved { tokens: 0, paid: 0, from: now },
        }
    }

    /// Serves itself from now on, with what the serialiser had saved up.
    pub(crate) fn take_over(&mut self, saved: Saved) {
        match self {
            Self::Tbf(tbf) => tbf.take_over(saved),
            Self::Jens(jens) => jens.take_over(saved),
            _ => {}
        }
    }
}

impl Moving for Queue {
    fn adopt(&mut self, queued: Queued, now: Instant) {
        each!(self, discipline => discipline.adopt(queued, now));
    }

    fn adopt_served(&mut self, queued: &Queued) {
        each!(self, discipline => discipline.adopt_served(queued));
    }

    fn surrender(&mut self, packets: &mut Vec<Queued>) {
        each!(self, discipline => discipline.surrender(packets));
        packets.sort_by_key(|queued| queued.entered);
    }

    fn shrink(&mut self, now: Instant, effects: &mut Effects) {
        each!(self, discipline => discipline.shrink(now, effects));
    }
}
