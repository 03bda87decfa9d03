//! Live changes: what each does to what is held.

use super::Link;
use crate::config::change::LIMITS;
use crate::config::{Change, ConfigError, DerivedLimit, Limit, LinkConfig};
use crate::impair::{Impair, Loss};
use crate::nic::Nic;
use crate::queue::{Discipline, Moving, Queue, Queued};
use crate::time::{Duration, Instant};
use crate::units::Rate;

impl Link {
    /// Whether a change differs from what is in force, see [`LinkConfig::changes`].
    pub fn changes(&self, change: &Change) -> bool {
        match &self.follower {
            None => self.config.changes(change),
            Some(_) => self.in_force().changes(change),
        }
    }

    /// What a change at `at` says that is not in force already, after every decision due up to then:
    /// see [`LinkConfig::news`].
    #[must_use]
    pub fn news(&mut self, change: &Change, at: Instant) -> Change {
        self.advance(at);
        let mut news = match &self.follower {
            None => self.config.news(change),
            Some(_) => self.in_force().news(change),
        };
        if self.delivers() {
            // Refused, whatever it is.
            news.rate = change.rate;
        }
        news
    }

    /// Changes parameters at `at`, all named ones at once, after every decision due up to then.
    /// Whether anything differs from what was in force; if not, nothing was done.
    ///
    /// Nothing is lost, reordered or duplicated, except that a lower `limit` drops what no
    /// longer fits, from where the discipline drops. Saved-up tokens are kept, never refilled.
    pub fn change(&mut self, change: &Change, at: Instant) -> Result<bool, ConfigError> {
        if self.follower.is_some() && !self.meet_change(change, at)? {
            return Ok(false);
        }
        if change.others.is_empty() {
            self.change_values(change, at)
        } else {
            self.change_any(change, at)
        }
    }

    /// The common changes, some 10,000 a second, in place.
    fn change_values(&mut self, change: &Change, at: Instant) -> Result<bool, ConfigError> {
        let before = Values::of(&self.config);
        // No decision due before `at` reads any of them from there.
        self.config.apply_values(change);
        if let Err(error) = self.config.validate_in_force() {
            before.put_back(&mut self.config);
            return Err(error);
        }
        self.config.settle_limit();
        self.advance(at);
        let after = Values::of(&self.config);
        if after == before {
            return Ok(false);
        }
        self.carry_out_values(&before, &after);
        Ok(true)
    }

    fn carry_out_values(&mut self, before: &Values, after: &Values) {
        let itself = self.config.serves_itself();
        if after.rate != before.rate && (!itself || self.server.is_last()) {
            self.server.set_rate(after.rate, self.now);
        }
        if self.config.impair == Impair::Own {
            self.strikes.set_loss(after.loss);
            self.line.set_delay(&self.config);
        }
        let limited = |values: &Values| (values.limit, values.derived_limit);
        // Others do not know the rate, and have nothing to do while their limit stays.
        let rated = itself && (after.rate != before.rate || self.config.impair == Impair::Netem);
        if rated || limited(after) != limited(before) {
            self.queue.configure(&self.config, self.now, &mut self.effects);
            self.settle();
        }
        self.next = self.next_decision();
    }

    /// Any change, by way of a second configuration.
    fn change_any(&mut self, change: &Change, at: Instant) -> Result<bool, ConfigError> {
        let config = self.config.try_changed(change)?;
        let queue = if config.queue == self.config.queue {
            None
        } else {
            Some(self.origin.another_queue(&config, at.max(self.now))?)
        };
        self.advance(at);
        if config == self.config {
            return Ok(false);
        }
        let before = core::mem::replace(&mut self.config, config);
        self.carry_out(&before, change, queue);
        Ok(true)
    }

    /// From the far end of the link on, so that what leaves a stage finds the next one as it is now.
    fn carry_out(&mut self, before: &LinkConfig, change: &Change, queue: Option<Queue>) {
        let (was, is) = (before.behind_queue(), self.config.behind_queue());
        let exit = &mut self.exit;
        self.line
            .configure((&was, &is), self.now, |packet, departure| exit.depart(packet, departure));
        self.strikes.configure(&is);
        if let Some(queue) = queue {
            self.replace_queue(before, change, queue);
        } else {
            self.configure_queue(before);
        }
        self.configure_nic();
        // It has begun: no later change begins it again.
        self.config.jens.handover_now = None;
        self.next = self.next_decision();
    }

    fn configure_queue(&mut self, before: &LinkConfig) {
        if !self.config.serves_itself() || self.server.is_last() {
            self.configure_server();
        }
        if !self.config.has_same_queue(before) {
            self.queue.configure(&self.config, self.now, &mut self.effects);
            self.settle();
        }
    }

    /// Moves all packets to another discipline, in order of their entry. They count with the
    /// framing and overhead in force now, and have waited since they entered the queue. The packet
    /// in service stays.
    fn replace_queue(&mut self, before: &LinkConfig, change: &Change, queue: Queue) {
        let (mut packets, now, extra) = (Vec::new(), self.now, self.config.added_bytes());
        let mut old = core::mem::replace(&mut self.queue, queue);
        self.move_serialiser(before, &old);
        old.surrender(&mut packets);
        for queued in packets {
            let bytes = queued.packet.counted_bytes(extra);
            self.queue.adopt(Queued { bytes, ..queued }, now);
        }
        if self.busy {
            self.queue.adopt_served(&self.serving.queued);
        }
        if change.names().any(|name| LIMITS.contains(&name)) {
            self.queue.shrink(now, &mut self.effects);
            self.settle();
        }
        self.serve_what_waits();
    }

    fn configure_server(&mut self) {
        if self.delivers() {
            return;
        }
        self.server.configure(&self.config, self.now);
    }

    /// Queues that serve themselves have no serialiser behind them: what it has saved up, or is
    /// taken by, goes with it. A packet in service is finished by the one that has begun.
    fn move_serialiser(&mut self, before: &LinkConfig, old: &Queue) {
        let now = self.now;
        let itself = self.config.serves_itself();
        if self.busy {
            self.configure_server();
            self.server.set_last(itself);
            return;
        }
        match (before.serves_itself(), itself) {
            (false, false) => self.configure_server(),
            (false, true) => {
                let saved = self.server.give_way(now);
                self.queue.take_over(saved);
            }
            (true, false) => self.server.take_over(&self.config, old.saved(now)),
            (true, true) => self.queue.take_over(old.saved(now)),
        }
    }

    /// The packet in service is through, and was the last of the serialiser.
    pub(super) fn retire_serialiser(&mut self) {
        self.finish_service();
        let saved = self.server.give_way(self.now);
        self.queue.take_over(saved);
        self.begin_service();
    }

    /// What waits for an access rate that is gone enters the queue at once.
    fn configure_nic(&mut self) {
        match (&mut self.nic, self.config.nic) {
            (Some(nic), Some(rate)) => nic.set_rate(rate, self.now),
            (None, Some(rate)) => self.nic = Some(Nic::new(rate, self.now)),
            (None, None) => {}
            (Some(_), None) => {
                while self.nic.as_ref().is_some_and(|nic| nic.segments() > 0) {
                    self.pass_nic();
                }
                self.nic = None;
            }
        }
        self.plain = self.nic.is_none() && self.follower.is_none();
    }
}

/// Where a link's decisions come from besides its configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) seed: u64,
    pub(super) start: Instant,
    /// Queues made so far: each draws from a stream of its own.
    pub(super) queues: u64,
}

impl Origin {
    fn another_queue(&mut self, config: &LinkConfig, now: Instant) -> Result<Queue, ConfigError> {
        let seed = self.seed ^ (self.queues + 1).wrapping_mul(SPREAD);
        let queue = Queue::made_at(config, seed, self.start, now)?;
        self.queues += 1;
        Ok(queue)
    }
}

/// What a change has a field for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Values {
    rate: Rate,
    delay: Duration,
    jitter: Duration,
    loss: Loss,
    limit: Option<Limit>,
    derived_limit: Option<DerivedLimit>,
}

impl Values {
    fn of(config: &LinkConfig) -> Self {
        let LinkConfig { rate, delay, jitter, loss, limit, derived_limit, .. } = *config;
        Self { rate, delay, jitter, loss, limit, derived_limit }
    }

    fn put_back(self, config: &mut LinkConfig) {
        let Self { rate, delay, jitter, loss, limit, derived_limit } = self;
        (config.rate, config.delay, config.jitter, config.loss) = (rate, delay, jitter, loss);
        (config.limit, config.derived_limit) = (limit, derived_limit);
    }
}

/// 2^64 over the golden ratio: seeds of neighbours share no bits (Steele, Lea, Flood 2014).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
