//! The parameters of a link: one name each, on the command line, in TOML, in live changes, in
//! reports and in logs.
//!
//! Everything that knows a parameter is in its row of [`TABLES`]: name, what it takes, default,
//! help, how it is read and printed.

use core::fmt::Display;
use core::str::FromStr;

use crate::config::{Change, ConfigError, Gso, LinkConfig, LossAt, QueueKind};
use crate::impair::Impair;
use crate::units::{Bytes, Probability, Rate};
use crate::words;

mod codel;
mod dualpi2;
mod fq;
mod fq_codel;
mod impair;
mod jens;
mod link;
mod netem;
mod tbf;
mod validate;

/// One parameter of a link.
#[derive(Debug)]
pub struct Parameter {
    /// Dotted name.
    pub name: &'static str,
    /// What it takes, for help: `RATE`, `before|after`.
    pub takes: &'static str,
    /// The value when nobody gives one, as it would be written.
    pub default: &'static str,
    /// One line of help.
    pub help: &'static str,
    set: fn(&mut LinkConfig, &str) -> Result<(), String>,
    get: fn(&LinkConfig) -> String,
}

/// Parameters that belong together.
#[derive(Debug)]
pub struct Table {
    /// The discipline or stage that they belong to, which is the first part of their names; empty
    /// for those of the link itself.
    pub name: &'static str,
    /// One row each, in the order of help and reports.
    pub rows: &'static [Parameter],
    /// What to give with them for them to mean something: `queue=fq`.
    needs: &'static str,
    /// Whether they mean something with this configuration.
    applies: fn(&LinkConfig) -> bool,
}

impl Table {
    /// What to give with these parameters for them to mean something, as it is written:
    /// `queue=fq`; empty for those of the link itself.
    pub fn needs(&self) -> &'static str {
        self.needs
    }
}

/// Every table, in the order of help and reports.
pub const TABLES: &[Table] = &[
    Table { name: "", rows: link::ROWS, needs: "", applies: |_| true },
    Table { name: "", rows: impair::ROWS, needs: "", applies: |_| true },
    Table {
        name: "tbf",
        rows: tbf::ROWS,
        needs: "queue=tbf",
        applies: |c| c.queue == QueueKind::Tbf,
    },
    Table { name: "fq", rows: fq::ROWS, needs: "queue=fq", applies: |c| c.queue == QueueKind::Fq },
    Table {
        name: "codel",
        rows: codel::ROWS,
        needs: "queue=codel",
        applies: |c| c.queue == QueueKind::Codel,
    },
    Table {
        name: "fq_codel",
        rows: fq_codel::ROWS,
        needs: "queue=fq_codel",
        applies: |c| c.queue == QueueKind::FqCodel,
    },
    Table {
        name: "dualpi2",
        rows: dualpi2::ROWS,
        needs: "queue=dualpi2",
        applies: |c| c.queue == QueueKind::Dualpi2,
    },
    Table {
        name: "jens",
        rows: jens::ROWS,
        needs: "queue=jens",
        applies: |c| c.queue == QueueKind::Jens,
    },
    Table {
        name: "netem",
        rows: netem::ROWS,
        needs: "impair=netem",
        applies: |config| config.impair == Impair::Netem,
    },
];

/// Every parameter, in the order of help and reports.
pub fn parameters() -> impl Iterator<Item = &'static Parameter> + Clone {
    TABLES.iter().flat_map(|table| table.rows)
}

impl Parameter {
    /// The parameter of this name; else why there is none, with the nearest known name.
    fn find(name: &str) -> Result<&'static Self, String> {
        if let Some(parameter) = parameters().find(|p| p.name == name) {
            return Ok(parameter);
        }
        if LATER.contains(&name) {
            return Err(format!("parameter \"{name}\" is not available in this version"));
        }
        Err(format!("unknown parameter \"{name}\", {}", Self::hint(name)))
    }

    /// What was meant: the nearest name, the one of other tools' word, or the names of the same
    /// discipline, of the link where it is none's: all names would be a page.
    fn hint(name: &str) -> String {
        let meant = words::nearest(name, parameters().map(|p| p.name))
            .or_else(|| SYNONYMS.iter().find(|(word, _)| *word == name).map(|(_, meant)| *meant));
        if let Some(meant) = meant {
            return format!("did you mean \"{meant}\"?");
        }
        let owner = name.split_once('.').map_or("", |(owner, _)| owner);
        let owner = if TABLES.iter().any(|table| table.name == owner) { owner } else { "" };
        let tables = TABLES.iter().filter(|table| table.name == owner);
        let names = tables.flat_map(|table| table.rows).map(|row| row.name);
        format!("expected one of {}", words::join(names))
    }
}

impl LinkConfig {
    /// Reads a link such as `rate=20mbit delay=30ms`; `place` (`--both`, `up`) is named in errors.
    pub fn parse(text: &str, place: &str) -> Result<Self, ConfigError> {
        let mut builder = ConfigBuilder::default();
        builder.words(text, place)?;
        builder.finish()
    }

    /// Sets one parameter. On an error nothing has changed. Contradictions between parameters are
    /// found by [`LinkConfig::validate`], once all are set.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        let parameter = Parameter::find(name).map_err(|problem| ConfigError::new(name, problem))?;
        (parameter.set)(self, value).map_err(|problem| ConfigError::new(name, problem))
    }

    /// Every parameter that applies to this configuration with its value, defaults included, for
    /// reports: a table of 64 KB is named by its size and checksum.
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let tables = TABLES.iter().filter(|table| (table.applies)(self));
        let brief = |p: &Parameter| match (p.name, &self.slot) {
            ("distribution", _) => self.distribution.brief(),
            ("slot", Some(slot)) => slot.brief(),
            _ => (p.get)(self),
        };
        tables.flat_map(|table| table.rows).map(|p| (p.name, brief(p))).collect()
    }

    /// Every parameter there is with its value, for logs.
    pub fn all_entries(&self) -> Vec<(&'static str, String)> {
        parameters().map(|p| (p.name, (p.get)(self))).collect()
    }

    /// The configuration whose [`LinkConfig::all_entries`] these are. Parameters that are not named
    /// have their defaults.
    pub fn from_entries<'a>(
        entries: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        for (name, value) in entries {
            config.set(name, value)?;
        }
        config.validate()?;
        Ok(config)
    }
}

impl Change {
    /// Reads a live change such as `rate=10mbit loss=1%`; `place` is named in errors.
    pub fn parse(text: &str, place: &str) -> Result<Self, ConfigError> {
        let mut change = Self::default();
        for (name, value) in pairs(text).map_err(|problem| ConfigError::new(place, problem))? {
            Parameter::find(name).map_err(|problem| ConfigError::new(place, problem))?;
            change.set(name, value).map_err(|error| error.within(place))?;
        }
        Ok(change)
    }

    /// Adds one parameter to the change.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        let mut config = LinkConfig::default();
        config.set(name, value)?;
        match name {
            "rate" => self.rate = Some(config.rate),
            "delay" => self.delay = Some(config.delay),
            "jitter" if config.jitter_correlation == Probability::ZERO => {
                self.jitter = Some(config.jitter);
            }
            "jitter" => {
                let problem = "its correlation cannot be changed while the link runs";
                return Err(ConfigError::new(name, problem));
            }
            "loss" => self.loss = Some(config.loss),
            "limit" if config.limit.is_some() => self.limit = config.limit,
            "limit" => return Err(ConfigError::new(name, "auto is derived at the start only")),
            _ => return Err(ConfigError::new(name, "cannot be changed while the link runs")),
        }
        Ok(())
    }
}

/// A configuration from several sources: a later one overrides parameters of an earlier one.
#[derive(Clone, Debug, Default)]
pub struct ConfigBuilder {
    config: LinkConfig,
    /// Who gave each parameter last, for errors that only the whole shows.
    places: Vec<(&'static str, String)>,
}

impl ConfigBuilder {
    /// Applies words such as `rate=20mbit delay=30ms`. A parameter given twice in one text is an
    /// error: one of the two was meant to be another.
    pub fn words(&mut self, text: &str, place: &str) -> Result<&mut Self, ConfigError> {
        for (name, value) in pairs(text).map_err(|problem| ConfigError::new(place, problem))? {
            self.set(name, value, place)?;
        }
        Ok(self)
    }

    /// Applies one parameter, for example one key of a TOML table (`place` = the table's name).
    pub fn set(&mut self, name: &str, value: &str, place: &str) -> Result<&mut Self, ConfigError> {
        let parameter =
            Parameter::find(name).map_err(|problem| ConfigError::new(place, problem))?;
        self.config.set(name, value).map_err(|error| error.within(place))?;
        self.places.push((parameter.name, place.to_owned()));
        Ok(self)
    }

    /// The whole, checked by [`LinkConfig::validate`]; a burst needs a rate, a
    /// peakrate a lower rate and a burst as well, a discipline's parameter the discipline.
    pub fn finish(self) -> Result<LinkConfig, ConfigError> {
        let last = |name: &str| self.places.iter().rev().find(|(known, _)| *known == name);
        match self.config.validate_as_written().and_then(|()| self.check_applicable(TABLES)) {
            Ok(()) => Ok(self.config),
            Err(error) => Err(match last(&error.place) {
                Some((_, place)) => error.within(place),
                None => error,
            }),
        }
    }
}

impl ConfigBuilder {
    /// Refuses parameters of a discipline that was not chosen, unless a later source chose
    /// another one: then what an earlier one had said of the first is of no use, and no mistake.
    fn check_applicable(&self, tables: &[Table]) -> Result<(), ConfigError> {
        for table in tables.iter().filter(|table| !(table.applies)(&self.config)) {
            let (chooser, _) = table.needs.split_once('=').unwrap_or_default();
            let chosen = self.places.iter().rposition(|(name, _)| *name == chooser);
            let mistaken = |(index, (name, place)): (usize, &(&'static str, String))| {
                let of_table = table.rows.iter().any(|row| row.name == *name);
                let overridden = chosen.is_some_and(|at| at > index && self.places[at].1 != *place);
                (of_table && !overridden).then_some(*name)
            };
            if let Some(name) = self.places.iter().enumerate().find_map(mistaken) {
                return Err(ConfigError::new(name, format!("needs {}", table.needs)));
            }
        }
        Ok(())
    }
}

impl ConfigError {
    /// The error as seen from outside: option `--both` gives `--both: rate`, table `up` gives
    /// `up.rate`.
    #[must_use]
    pub fn within(self, place: &str) -> Self {
        let separator = if place.starts_with('-') { ": " } else { "." };
        Self { place: format!("{place}{separator}{}", self.place), problem: self.problem }
    }
}

/// Parts `a=1 b=2` into names and values; each name once.
fn pairs(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for word in text.split_whitespace() {
        let (name, value) = pair(word)?;
        if pairs.iter().any(|&(known, _)| known == name) {
            return Err(format!("parameter \"{name}\" is given twice"));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

fn pair(word: &str) -> Result<(&str, &str), String> {
    match word.split_once('=') {
        Some(("", _)) => Err(format!("\"{word}\" has no name before \"=\"")),
        Some((name, "")) => Parameter::find(name)
            .and_then(|p| Err(format!("\"{word}\" has no value, {}", usage(p)))),
        Some((_, value)) if joined(value) => {
            Err(format!("\"{word}\" joins parameters with a comma, expected spaces between them"))
        }
        Some(pair) => Ok(pair),
        None => match Parameter::find(word) {
            Ok(parameter) => Err(format!("\"{word}\" has no value, {}", usage(parameter))),
            Err(_) => Err(format!("\"{word}\" is no NAME=VALUE such as delay=30ms")),
        },
    }
}

/// Whether a value goes on with another parameter, as in `100mbit,delay=5ms`.
fn joined(value: &str) -> bool {
    let parts = value.split(',').skip(1).filter_map(|part| part.split_once('='));
    parts.map(|(name, _)| Parameter::find(name)).any(|found| found.is_ok())
}

fn usage(parameter: &Parameter) -> String {
    format!("expected {}={}", parameter.name, parameter.takes)
}

/// Words of other tools for the same.
const SYNONYMS: &[(&str, &str)] =
    &[("bandwidth", "rate"), ("bw", "rate"), ("latency", "delay"), ("rtt", "delay")];
/// Words that later versions know.
const LATER: &[&str] = &["trace", "backpressure"];

const LOSS_AT: &[(&str, LossAt)] = &[("before", LossAt::Before), ("after", LossAt::After)];
const GSO: &[(&str, Gso)] = &[("split", Gso::Split), ("keep", Gso::Keep), ("auto", Gso::Auto)];
const QUEUES: &[(&str, QueueKind)] = &[
    ("fifo", QueueKind::Fifo),
    ("tbf", QueueKind::Tbf),
    ("fq", QueueKind::Fq),
    ("codel", QueueKind::Codel),
    ("fq_codel", QueueKind::FqCodel),
    ("dualpi2", QueueKind::Dualpi2),
    ("jens", QueueKind::Jens),
];

fn read<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// A size that fits 32 bits.
fn narrow(text: &str) -> Result<u32, String> {
    let Bytes(bytes) = read(text)?;
    u32::try_from(bytes).map_err(|_| format!("\"{text}\" is more than {}b", u32::MAX))
}

fn integer(text: &str) -> Result<i32, String> {
    text.parse().map_err(|_| format!("\"{text}\" is no whole number of bytes such as -4"))
}

/// `None` for `word`, else what `read` makes of the text.
fn unless<T>(
    word: &str,
    text: &str,
    read: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    if text == word { Ok(None) } else { read(text).map(Some) }
}

fn or(word: &str, value: Option<impl Display>) -> String {
    value.map_or_else(|| word.to_owned(), |value| value.to_string())
}

fn limited(rate: Rate) -> Option<Rate> {
    (rate != Rate::UNLIMITED).then_some(rate)
}

fn word<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|&&(name, _)| name == text);
    found.map(|&(_, value)| value).ok_or_else(|| {
        format!(
            "unknown word \"{text}\", {}",
            words::hint(text, known.iter().map(|&(name, _)| name))
        )
    })
}

fn written<T: Copy + PartialEq>(value: T, known: &[(&str, T)]) -> String {
    let name = known.iter().find(|&&(_, candidate)| candidate == value).map(|&(name, _)| name);
    name.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
