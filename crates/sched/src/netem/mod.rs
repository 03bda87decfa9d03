//! `impair=netem`: loss, duplication, corruption, reordering, delay, rate and slots in one stage
//! that decides as Linux' netem does, down to the draws of its random generator.
//!
//! It takes the place of the queue, since it is one: it holds packets up to a limit of its own
//! and lets them go at their send times.

use crate::config::{ConfigError, LinkConfig};
use crate::output::{BitFlip, DropReason, Mark};
use crate::queue::{Backlog, Discipline, Effects, Moving, Queued, Served, Statistics};
use crate::random::{Component, Stream};
use crate::time::{Duration, Instant};

mod config;
mod delay;
mod generator;
mod held;
mod loss;
mod slot;
mod statistics;
mod time;

pub use config::{NetemChance, NetemConfig, NetemLoss, NetemOptions, NetemSlot, SlotSpacing};
pub use statistics::NetemStatistics;

use delay::{Delay, Schedule};
use generator::{Correlated, Taus113};
use held::{Held, HeldPackets};
use loss::Loss;
use slot::{Random, Slots};
use time::SendTime;

/// A netem: called as Linux calls it, and as the contract of
/// [`Discipline`] has it.
#[derive(Debug)]
pub struct Netem {
    config: NetemConfig,
    /// What the seed decides: duplicate, loss, corruption, reordering, delay, in this order.
    generator: Taus113,
    /// What no seed reaches under Linux, each from a stream of its own.
    memory: Stream,
    bits: Stream,
    uniform: Stream,
    duplicate: Correlated,
    loss: Loss,
    corrupt: Correlated,
    reorder: Correlated,
    delay: Delay,
    /// The seed where none is given.
    derived_seed: u64,
    /// Packets delayed since one was sent at once.
    delayed_since: u32,
    /// When the longest latency ends that a packet was given.
    latest_due: Instant,
    slots: Option<Slots>,
    held: HeldPackets,
    backlog: Backlog,
    /// When the latest of the packets that have left was enqueued.
    left_latest: Instant,
    counters: NetemStatistics,
}

impl Netem {
    /// An empty netem that starts at `start`. What `config.seed` does not decide is drawn from
    /// `seed`; without the former, all is.
    pub fn new(config: &NetemConfig, seed: u64, start: Instant) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut memory = Stream::new(seed, Component::Netem);
        let derived = memory.up_to(u64::MAX);
        let seed_in_force = config.seed.unwrap_or(derived);
        Ok(Self {
            generator: Taus113::new(seed_in_force),
            delay: Delay::new(config, &mut memory),
            loss: Loss::new(config, &mut memory),
            duplicate: Correlated::new(config.duplicate.correlation, &mut memory),
            reorder: Correlated::new(config.reorder.correlation, &mut memory),
            corrupt: Correlated::new(config.corrupt.correlation, &mut memory),
            memory,
            bits: Stream::new(seed, Component::Bit),
            uniform: Stream::new(seed, Component::Slot),
            derived_seed: derived,
            delayed_since: 0,
            latest_due: Instant::ZERO,
            slots: config.slot.clone().map(|slot| Slots::new(slot, SendTime::at(start))),
            held: HeldPackets::default(),
            backlog: Backlog::default(),
            left_latest: start,
            counters: NetemStatistics { seed: seed_in_force, ..NetemStatistics::default() },
            config: config.clone(),
        })
    }

    /// New parameters from `now` on; `config` is valid. What does not differ goes on: generator,
    /// loss model, memory of correlations, count to the next reordering, slots. Packets keep
    /// their send times, also those above a lower limit.
    pub fn set(&mut self, config: &NetemConfig, now: Instant) {
        self.delay.set(config, &mut self.memory);
        self.loss.set(config.loss, &mut self.memory);
        self.duplicate.set(config.duplicate.correlation, &mut self.memory);
        self.reorder.set(config.reorder.correlation, &mut self.memory);
        self.corrupt.set(config.corrupt.correlation, &mut self.memory);
        if self.slots.as_ref().map(Slots::config) != config.slot.as_ref() {
            self.slots = config.slot.clone().map(|slot| Slots::new(slot, SendTime::at(now)));
        }
        if config.seed != self.config.seed {
            let seed = config.seed.unwrap_or(self.derived_seed);
            self.generator = Taus113::new(seed);
            self.counters.seed = seed;
        }
        self.config = config.clone();
    }

    /// A packet or, with `copy` 1, its duplicate, which is not duplicated again.
    fn offer(&mut self, queued: Queued, copy: u8, mark: Mark, effects: &mut Effects) {
        self.counters.offered += 1;
        let generator = &mut self.generator;
        let twice = copy == 0 && self.config.duplicate.strikes(&mut self.duplicate, generator);
        let struck = self.loss.strikes(generator);
        let marked = struck && self.config.ecn && queued.packet.ecn.is_capable();
        let mark = if marked { Mark::Ce } else { mark };
        self.counters.marked += u64::from(marked);
        let lost = struck && !marked;
        if lost && !twice {
            self.counters.lost += 1;
            effects.drop_copy(&queued.packet, copy, DropReason::Loss);
            return;
        }
        // Of a packet both lost and duplicated, one is sent.
        let duplicated = twice && !lost;
        let corrupt = self.corrupt(&queued);
        if duplicated {
            effects.duplicate(&queued.packet);
            self.counters.duplicated += 1;
        }
        if self.held.len() >= self.config.limit as usize {
            self.drop_over_limit(&queued, copy, duplicated, effects);
            return;
        }
        if duplicated {
            self.offer(queued, 1, mark, effects);
        }
        self.hold(Held::new(queued, copy, mark, corrupt));
    }

    fn drop_over_limit(
        &mut self,
        queued: &Queued,
        copy: u8,
        duplicated: bool,
        effects: &mut Effects,
    ) {
        effects.drop_copy(&queued.packet, copy, DropReason::Limit);
        self.counters.limit_drops += 1;
        if duplicated {
            effects.drop_copy(&queued.packet, 1, DropReason::Limit);
            self.counters.limit_drops += 1;
        }
    }

    /// The bit to be flipped, if one is.
    fn corrupt(&mut self, queued: &Queued) -> Option<BitFlip> {
        if !self.config.corrupt.strikes(&mut self.corrupt, &mut self.generator) {
            return None;
        }
        self.counters.corrupted += 1;
        let bits = (u64::from(queued.packet.len) * 8).clamp(1, 1 << 32);
        let bit = self.bits.up_to(bits - 1);
        Some(BitFlip(u32::try_from(bit).expect("below 2^32")))
    }

    /// Sends a packet at once or holds it until its time.
    fn hold(&mut self, mut held: Held) {
        self.backlog.add(&held.queued);
        if self.overtakes() {
            self.delayed_since = 0;
            self.counters.reordered += 1;
            self.held.push_immediate(held);
            return;
        }
        let (now, last) = (held.send, self.held.last());
        let Schedule { send, latency } =
            self.delay.schedule(now, held.queued.bytes, last, &mut self.generator);
        (held.send, held.latency) = (send, latency);
        self.delayed_since = self.delayed_since.saturating_add(1);
        self.counters.delayed += u64::from(send > now);
        self.latest_due = self.latest_due.max(now.instant() + Duration::from_nanos(latency));
        self.held.push(held);
    }

    fn overtakes(&mut self) -> bool {
        let NetemConfig { gap, reorder, .. } = self.config;
        gap > 0
            && self.delayed_since >= gap - 1
            && self.reorder.draw(&mut self.generator) <= reorder.probability
    }

    /// Whether a packet of send time `send` may leave at `now`. A slot that opened before the
    /// packet was due is over, even if nothing has left in it.
    fn open(&mut self, send: SendTime, now: SendTime) -> bool {
        let Some(slots) = &mut self.slots else { return send <= now };
        if slots.next() < send {
            slots
                .draw(now, &mut Random { uniform: &mut self.uniform, seeded: &mut self.generator });
        }
        send <= now && slots.next() <= now
    }

    fn serve(&mut self, served: &mut Served, held: &Held, now: Instant) {
        let Held { queued, latency, copy, mark, corrupt, .. } = *held;
        let waited = now.since(queued.entered).as_nanos();
        self.backlog.remove(&queued);
        self.counters.overtaken += u64::from(queued.entered < self.left_latest);
        self.left_latest = self.left_latest.max(queued.entered);
        self.counters.latency_ns = self.counters.latency_ns.saturating_add(latency);
        self.counters.held_ns = self.counters.held_ns.saturating_add(waited);
        let latency = Duration::from_nanos(latency.min(waited));
        *served = Served { queued, copy, mark, corrupt, latency, pacing: Duration::ZERO };
    }
}

impl Discipline for Netem {
    fn enqueue(&mut self, queued: Queued, effects: &mut Effects) {
        self.offer(queued, 0, Mark::None, effects);
    }

    fn dequeue_into(&mut self, served: &mut Served, now: Instant, _: &mut Effects) -> bool {
        if let Some(held) = self.held.pop_immediate() {
            self.serve(served, &held, now);
            return true;
        }
        let Some(send) = self.held.first() else { return false };
        let moment = SendTime::at(now);
        if !self.open(send, moment) {
            return false;
        }
        let Some(held) = self.held.pop() else { return false };
        let mut random = Random { uniform: &mut self.uniform, seeded: &mut self.generator };
        if let Some(slots) = &mut self.slots {
            slots.spend(held.queued.bytes, moment, &mut random);
        }
        self.serve(served, &held, now);
        true
    }

    fn wake(&self) -> Option<Instant> {
        let send = self.held.first()?;
        let slot = self.slots.as_ref().map(Slots::next);
        Some(slot.map_or(send, |slot| slot.max(send)).instant())
    }

    fn latest_due(&self) -> Option<Instant> {
        (self.held.len() > 0).then_some(self.latest_due)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn configure(&mut self, config: &LinkConfig, now: Instant, _effects: &mut Effects) {
        self.set(&NetemConfig::from(config), now);
    }

    fn statistics(&self) -> Statistics {
        Statistics::Netem(self.counters)
    }
}

/// It takes the place of a queue from the start to the end: nothing ever moves.
impl Moving for Netem {
    fn adopt(&mut self, queued: Queued, _now: Instant) {
        self.hold(Held::new(queued, 0, Mark::None, None));
    }

    fn surrender(&mut self, packets: &mut Vec<Queued>) {
        let held = &mut self.held;
        let all = core::iter::from_fn(|| held.pop_immediate().or_else(|| held.pop()));
        packets.extend(all.map(|held| held.queued));
        self.backlog = Backlog::default();
    }

    /// Packets keep their send times, also those above a lower limit.
    fn shrink(&mut self, _now: Instant, _effects: &mut Effects) {}
}

impl NetemChance {
    /// Whether it happens this time. An event that never does draws nothing.
    fn strikes(self, random: &mut Correlated, generator: &mut Taus113) -> bool {
        self.probability > 0 && random.draw(generator) <= self.probability
    }
}

#[cfg(test)]
mod tests;
