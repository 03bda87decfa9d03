//! A live change, and what a configuration becomes by it.

use std::sync::Arc;

use super::{ConfigError, DerivedLimit, Limit, LinkConfig};
use crate::impair::{Impair, Loss};
use crate::parameter::Parameter;
use crate::queue::QueueLimit;
use crate::time::Duration;
use crate::units::Rate;

/// A live change: every parameter named takes its new value at one instant, the others stay.
///
/// Those that a link may be told thousands of times a second have a field: such a change is applied
/// without allocating and without a copy of the configuration. All others are in `others`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// New `rate`; the rest of the packet in service is rescaled.
    pub rate: Option<Rate>,
    /// New `delay`, for packets that enter the delay line from now on; order is kept.
    pub delay: Option<Duration>,
    /// New `jitter`, likewise; its correlation stays.
    pub jitter: Option<Duration>,
    /// New `loss`.
    pub loss: Option<Loss>,
    /// New `limit`; a lower one drops what no longer fits, from where the discipline drops.
    pub limit: Option<Limit>,
    /// Parameters without a field of their own, see [`Change::set`].
    pub others: Settings,
}

/// Parameters by name, each once, with their values as they are written. A clone shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(Option<Arc<Vec<Setting>>>);

/// One parameter with a value that its row can read.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) parameter: &'static Parameter,
    pub(crate) value: String,
}

impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        (self.parameter.name, &self.value) == (other.parameter.name, &other.value)
    }
}

impl Eq for Setting {}

impl Settings {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Names and values, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.all().iter().map(|setting| (setting.parameter.name, setting.value.as_str()))
    }

    pub(crate) fn all(&self) -> &[Setting] {
        self.0.as_ref().map_or(&[], |settings| settings)
    }

    /// Adds one; the value of one that is there already is replaced.
    pub(crate) fn put(&mut self, setting: Setting) {
        let settings = Arc::make_mut(self.0.get_or_insert_default());
        settings.retain(|known| known.parameter.name != setting.parameter.name);
        settings.push(setting);
    }

    /// Takes one out.
    pub(crate) fn remove(&mut self, name: &str) {
        self.retain(|known| known.parameter.name != name);
    }

    fn retain(&mut self, keep: impl FnMut(&Setting) -> bool) {
        let Some(settings) = &mut self.0 else { return };
        let settings = Arc::make_mut(settings);
        settings.retain(keep);
        if settings.is_empty() {
            self.0 = None;
        }
    }
}

/// Parameters that drop what no longer fits when they name less.
pub(crate) const LIMITS: [&str; 3] = ["limit", "fq_codel.memory_limit", "dualpi2.memlimit"];

impl LinkConfig {
    /// This configuration, that of a link in operation, with the parameters named replaced.
    /// Limits are as in force: a time has become bytes at the rate of then.
    #[must_use]
    pub fn changed(&self, change: &Change) -> Self {
        let mut config = self.clone();
        config.settle_limit();
        config.apply(change);
        config.settle_limit();
        config
    }

    /// Whether a change differs from what is in force. One that does not is not applied, logged or
    /// counted. A handover of jens that is to begin now always does.
    pub fn changes(&self, change: &Change) -> bool {
        let Change { rate, delay, jitter, loss, limit, ref others } = *change;
        if !others.is_empty() || matches!(limit, Some(Limit::Time(_))) {
            let mut settled = self.clone();
            settled.settle_limit();
            settled.jens.handover_now = None;
            return settled != self.changed(change);
        }
        rate.is_some_and(|rate| rate != self.rate)
            || delay.is_some_and(|delay| delay != self.delay)
            || jitter.is_some_and(|jitter| jitter != self.jitter)
            || loss.is_some_and(|loss| loss != self.loss)
            || limit.is_some_and(|limit| Some(limit) != self.limit)
    }

    /// What a change says that is not in force already, which is all that it does. Limits stay with
    /// what else they are named with: by a new one of the same value a new queue drops what it does
    /// not hold.
    #[must_use]
    pub fn news(&self, change: &Change) -> Change {
        let mut news = change.clone();
        let alone = change.others.is_empty();
        news.rate = change.rate.filter(|rate| *rate != self.rate);
        news.delay = change.delay.filter(|delay| *delay != self.delay);
        news.jitter = change.jitter.filter(|jitter| *jitter != self.jitter);
        news.loss = change.loss.filter(|loss| *loss != self.loss);
        news.limit = change.limit.filter(|limit| !alone || Some(*limit) != self.limit);
        if !alone {
            let mut config = self.clone();
            config.jens.handover_now = None;
            news.others.retain(|Setting { parameter, value }| {
                let mut with = config.clone();
                let _ = parameter.apply(&mut with, value);
                LIMITS.contains(&parameter.name) || with != config
            });
        }
        news
    }

    /// The same as [`LinkConfig::changed`], checked: the error's place is the parameter to change.
    pub(crate) fn try_changed(&self, change: &Change) -> Result<Self, ConfigError> {
        let mut config = self.clone();
        config.settle_limit();
        config.apply(change);
        config.check_change(self, change)?;
        config.settle_limit();
        Ok(config)
    }

    /// Whether two configurations differ in nothing that a queue reads.
    pub(crate) fn has_same_queue(&self, other: &Self) -> bool {
        let mut same = self.clone();
        if self.impair == Impair::Own {
            (same.delay, same.jitter) = (other.delay, other.jitter);
            same.jitter_correlation = other.jitter_correlation;
            same.distribution.clone_from(&other.distribution);
            same.slot.clone_from(&other.slot);
            (same.reorder, same.loss, same.loss_at) = (other.reorder, other.loss, other.loss_at);
            (same.ecn, same.duplicate, same.corrupt) = (other.ecn, other.duplicate, other.corrupt);
        }
        Self { nic: other.nic, ..same } == *other
    }

    /// Replaces what has a field of its own.
    pub(crate) fn apply_values(&mut self, change: &Change) {
        let Change { rate, delay, jitter, loss, limit, .. } = *change;
        self.rate = rate.unwrap_or(self.rate);
        self.delay = delay.unwrap_or(self.delay);
        self.jitter = jitter.unwrap_or(self.jitter);
        self.loss = loss.unwrap_or(self.loss);
        if limit.is_some() {
            (self.limit, self.derived_limit) = (limit, None);
        }
    }

    /// Whether a queue that held up to `before` has to drop what no longer fits. A default that is
    /// derived late, where no rate had bound it, drops nothing: no change has asked for it.
    pub(crate) fn lowers_limit(&self, before: QueueLimit) -> bool {
        let now = self.resolved_limit();
        let is_late = self.limit.is_none() && before == QueueLimit::NONE;
        !is_late && (now.packets < before.packets || now.bytes < before.bytes)
    }

    /// Turns a limit in time into bytes, and derives the default, once there is a rate for it: so a
    /// later change of rate does not derive them anew. What a pause was given for want of a rate is
    /// only raised, so that no change of rate drops anything.
    pub(crate) fn settle_limit(&mut self) {
        match self.limit {
            Some(Limit::Time(_)) => {
                let bytes = self.resolved_limit().bytes;
                if bytes != u64::MAX {
                    self.limit = Some(Limit::Bytes(bytes));
                }
            }
            None if self.queue.default_limit().is_none() && self.impair == Impair::Own => {
                let derived = self.derive_limit();
                self.derived_limit = match (self.derived_limit, derived) {
                    (None, derived) => derived,
                    (Some(earlier), Some(now)) if earlier.provisional => {
                        Some(DerivedLimit { bytes: now.bytes.max(earlier.bytes), ..now })
                    }
                    (earlier, _) => earlier,
                };
            }
            _ => {}
        }
    }

    fn apply(&mut self, change: &Change) {
        let queue = self.queue;
        self.jens.handover_now = None;
        for Setting { parameter, value } in change.others.all() {
            // It was read before. What it reads as depends on nothing else.
            let _ = parameter.apply(self, value);
            if parameter.name == "limit" {
                self.derived_limit = None;
            }
        }
        self.apply_values(change);
        if self.queue != queue {
            // Another discipline has another default.
            self.derived_limit = None;
        }
    }
}
