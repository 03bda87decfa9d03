//! Live changes as they are written.

use super::builder::OWN_ONLY;
use super::{Live, Parameter, TABLES, Table, hint, pairs};
use crate::config::{Change, ConfigError, LinkConfig, Setting};

impl Change {
    /// The most bytes that the values of one change have together: a plan of 10,000 handovers fits.
    pub const MAX_TEXT: usize = 1 << 19;

    /// Reads a live change of a link with `config`, and checks what would come of it: unknown names,
    /// values that cannot be read, parameters that cannot change while the link runs or do not
    /// apply to it, contradictions. A name given twice is an error: one of the two was meant to be
    /// another.
    pub fn parse<'a>(
        config: &LinkConfig,
        entries: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ConfigError> {
        let mut change = Self::default();
        for (name, value) in entries {
            if change.names().any(|known| known == name) {
                return Err(ConfigError::new(name, "is given twice"));
            }
            change.set_for(config, name, value)?;
        }
        config.try_changed(&change)?;
        Ok(change)
    }

    /// The same without a link: words such as `rate=10mbit loss=1%`, of which only each by itself is
    /// checked. `place` is named in errors.
    pub fn from_words(text: &str, place: &str) -> Result<Self, ConfigError> {
        let link = LinkConfig::default();
        let refuse = |problem| ConfigError::new(place, problem);
        let mut change = Self::default();
        for (name, value) in pairs::read(text, &link).map_err(refuse)? {
            if Parameter::find(name).is_none() {
                return Err(refuse(hint::unknown(name, value, &link)));
            }
            change.set(name, value).map_err(|error| error.within(place))?;
        }
        Ok(change)
    }

    /// Adds one parameter to the change; a value that it had in this change is replaced.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        self.set_for(&LinkConfig::default(), name, value)
    }

    /// Whether nothing is named.
    pub fn is_empty(&self) -> bool {
        self.names().next().is_none()
    }

    /// The parameters named.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let Self { rate, delay, jitter, loss, limit, others } = self;
        let fields = [
            ("rate", rate.is_some()),
            ("delay", delay.is_some()),
            ("jitter", jitter.is_some()),
            ("loss", loss.is_some()),
            ("limit", limit.is_some()),
        ];
        let named = fields.into_iter().filter(|(_, named)| *named).map(|(name, _)| name);
        named.chain(others.iter().map(|(name, _)| name))
    }

    /// The parameters named with their values as they are written, for reports: a table of 64 KB is
    /// named by its size and checksum.
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let Self { rate, delay, jitter, loss, limit, others } = self;
        let fields = [
            ("rate", rate.map(|rate| rate.to_string())),
            ("delay", delay.map(|delay| delay.to_string())),
            ("jitter", jitter.map(|jitter| jitter.to_string())),
            ("loss", loss.map(|loss| loss.to_string())),
            ("limit", limit.map(|limit| limit.to_string())),
        ];
        let named = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let others = others.all().iter().map(|Setting { parameter, value }| {
            let mut link = LinkConfig::default();
            let brief = match parameter.name {
                "distribution" | "slot" if parameter.apply(&mut link, value).is_ok() => {
                    parameter.brief(&link)
                }
                _ => value.clone(),
            };
            (parameter.name, brief)
        });
        named.chain(others).collect()
    }

    /// Adds a parameter whose value is read as one of a link with `config`.
    fn set_for(&mut self, config: &LinkConfig, name: &str, value: &str) -> Result<(), ConfigError> {
        let unknown = || ConfigError::new(name, hint::unknown(name, value, config));
        let parameter = Parameter::find(name).ok_or_else(unknown)?;
        if let Live::No(reason) = parameter.live {
            return Err(ConfigError::new(name, format!("is fixed when the run starts: {reason}")));
        }
        let mut read = LinkConfig { queue: config.queue, ..LinkConfig::default() };
        read.set(name, value)?;
        let known: usize = self.others.iter().map(|(_, value)| value.len()).sum();
        if value.len() > Self::MAX_TEXT - known {
            let problem = format!("the change is longer than {} bytes", Self::MAX_TEXT);
            return Err(ConfigError::new(name, problem));
        }
        self.others.remove(name);
        self.put(parameter, value, &read);
        Ok(())
    }

    /// To its field, if the parameter has one that can hold the value that was `read`.
    fn put(&mut self, parameter: &'static Parameter, value: &str, read: &LinkConfig) {
        match parameter.name {
            "rate" => self.rate = Some(read.rate),
            "delay" => self.delay = Some(read.delay),
            "loss" => self.loss = Some(read.loss),
            "jitter" if !value.contains(',') => self.jitter = Some(read.jitter),
            "limit" if read.limit.is_some() => self.limit = read.limit,
            _ => {
                match parameter.name {
                    "jitter" => self.jitter = None,
                    "limit" => self.limit = None,
                    _ => {}
                }
                self.others.put(Setting { parameter, value: value.to_owned() });
            }
        }
    }
}

impl LinkConfig {
    /// Refuses what cannot come of `change`, which made this of `before`.
    pub(crate) fn check_change(&self, before: &Self, change: &Change) -> Result<(), ConfigError> {
        for Setting { parameter, .. } in change.others.all() {
            if let Live::WithQueue(reason) = parameter.live
                && self.queue == before.queue
            {
                let problem = format!("is fixed while the queue stays: {reason}");
                return Err(ConfigError::new(parameter.name, problem));
            }
        }
        self.validate_in_force()?;
        self.check_named(change, TABLES)?;
        self.check_named(change, OWN_ONLY)?;
        match self.validate_as_written() {
            // What a change did not name may have lost its meaning by it, and have one again by the
            // next.
            Err(error) if change.others.iter().any(|(name, _)| name == error.place) => Err(error),
            _ => Ok(()),
        }
    }

    /// Refuses parameters of a discipline that is not chosen.
    fn check_named(&self, change: &Change, tables: &[Table]) -> Result<(), ConfigError> {
        for table in tables.iter().filter(|table| !(table.applies)(self)) {
            let named = |row: &&Parameter| change.others.iter().any(|(name, _)| name == row.name);
            if let Some(row) = table.rows.iter().find(named) {
                return Err(ConfigError::new(row.name, format!("needs {}", table.needs)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
