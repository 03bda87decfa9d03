//! Live changes: what each does to what is held.

use super::Link;
use crate::config::{Change, ConfigError, Limit, LinkConfig};
use crate::impair::{Impair, Loss};
use crate::queue::Discipline;
use crate::time::{Duration, Instant};
use crate::units::Rate;

impl Link {
    /// Changes parameters at `at`, all named ones at once, after every decision due up to then.
    /// Whether anything differs from what was in force; if not, nothing was done.
    ///
    /// Nothing is lost, reordered or duplicated, except that a lower `limit` drops what no
    /// longer fits, from where the discipline drops. Saved-up tokens are kept, never refilled.
    pub fn change(&mut self, change: &Change, at: Instant) -> Result<bool, ConfigError> {
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
        if let Err(error) = self.config.validate() {
            before.put_back(&mut self.config);
            return Err(error);
        }
        self.config.settle_limit();
        self.advance(at);
        let after = Values::of(&self.config);
        if after == before {
            return Ok(false);
        }
        self.carry_out(&before, &after);
        Ok(true)
    }

    fn carry_out(&mut self, before: &Values, after: &Values) {
        let itself = self.config.serves_itself();
        if after.rate != before.rate && !itself {
            self.server.set_rate(after.rate, self.now);
        }
        if self.config.impair == Impair::Own {
            self.strikes.set_loss(after.loss);
            self.line.set_delay(&self.config);
        }
        // Others do not know the rate, and have nothing to do while their limit stays.
        if itself || (after.limit, after.derived_limit) != (before.limit, before.derived_limit) {
            self.queue.configure(&self.config, self.now, &mut self.effects);
            self.settle();
        }
        self.next = self.next_decision();
    }

    /// Any change, by way of a second configuration.
    fn change_any(&mut self, change: &Change, at: Instant) -> Result<bool, ConfigError> {
        let config = self.config.try_changed(change)?;
        self.advance(at);
        if config == self.config {
            return Ok(false);
        }
        let before = core::mem::replace(&mut self.config, config);
        if before.queue != self.config.queue {
            let problem = "cannot be changed while the link runs";
            self.config = before;
            return Err(ConfigError::new("queue", problem));
        }
        let behind = self.config.behind_queue();
        self.server.set_rate(behind.rate, self.now);
        self.strikes.set_loss(behind.loss);
        self.line.set_delay(&behind);
        self.queue.configure(&self.config, self.now, &mut self.effects);
        self.settle();
        self.next = self.next_decision();
        Ok(true)
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
    derived_limit: Option<u64>,
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
