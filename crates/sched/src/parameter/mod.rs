//! The parameters of a link: one name each, on the command line, in TOML, in live changes, in
//! reports and in logs.
//!
//! Everything that knows a parameter is in its row of [`TABLES`]: name, what it takes, default,
//! help, how it is read and printed.

use core::fmt::Display;
use core::str::FromStr;

use crate::config::{ConfigError, Gso, Limit, LinkConfig, LossAt, QueueKind};
use crate::impair::Impair;
use crate::trace::Trace;
use crate::units::{Bytes, Rate};
use crate::words;

mod builder;
mod change;
mod codel;
mod dualpi2;
mod fq;
mod fq_codel;
mod hint;
mod impair;
mod jens;
mod link;
mod netem;
mod pairs;
mod pasted;
mod tbf;
mod trace;
mod validate;

pub use self::builder::ConfigBuilder;

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
    /// Whether it can change while the link runs.
    pub live: Live,
    set: fn(&mut LinkConfig, &str) -> Result<(), String>,
    get: fn(&LinkConfig) -> String,
}

/// Whether a parameter can change while the link runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// It can.
    Yes,
    /// Only where the same change chooses another `queue`, with which the discipline is made anew;
    /// why.
    WithQueue(&'static str),
    /// It is fixed when the run starts; why.
    No(&'static str),
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
        name: "trace",
        rows: trace::ROWS,
        needs: "trace=FILE",
        applies: |c| c.trace_options.file.is_some(),
    },
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
    fn find(name: &str) -> Option<&'static Self> {
        parameters().find(|p| p.name == name)
    }

    /// Sets it.
    pub(crate) fn apply(&self, config: &mut LinkConfig, value: &str) -> Result<(), String> {
        (self.set)(config, value)
    }

    /// Its value for reports: a table of 64 KB is named by its size and checksum.
    fn brief(&self, config: &LinkConfig) -> String {
        match (self.name, &config.slot) {
            ("distribution", _) => config.distribution.brief(),
            ("slot", Some(slot)) => slot.brief(),
            ("trace", _) => config.trace_brief(),
            _ => (self.get)(config),
        }
    }

    /// How it is written: `rate=RATE`.
    fn usage(&self) -> String {
        format!("{}={}", self.name, self.takes)
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
        let unknown = || ConfigError::new(name, hint::unknown(name, value, self));
        let parameter = Parameter::find(name).ok_or_else(unknown)?;
        (parameter.set)(self, value).map_err(|problem| ConfigError::new(name, problem))
    }

    /// Every parameter that applies to this configuration with its value, defaults included, for
    /// reports: a table of 64 KB is named by its size and checksum.
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let tables = TABLES.iter().filter(|table| (table.applies)(self));
        tables.flat_map(|table| table.rows).map(|p| (p.name, p.brief(self))).collect()
    }

    /// Every parameter there is with its value, for logs.
    pub fn all_entries(&self) -> Vec<(&'static str, String)> {
        parameters().map(|p| (p.name, (p.get)(self))).collect()
    }

    /// The configuration whose [`LinkConfig::all_entries`] these are, and what it follows.
    /// Parameters that are not named have their defaults.
    pub fn from_entries<'a>(
        entries: impl IntoIterator<Item = (&'a str, &'a str)>,
        trace: Option<Trace>,
    ) -> Result<Self, ConfigError> {
        let mut config = Self { trace, ..Self::default() };
        for (name, value) in entries {
            config.set(name, value)?;
        }
        config.validate()?;
        Ok(config)
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

/// Packets, with or without their unit.
fn packets(text: &str) -> Option<u32> {
    match text.parse() {
        Ok(Limit::Packets(packets)) => Some(packets),
        Ok(Limit::Bytes(_) | Limit::Time(_)) => None,
        Err(_) => text.parse().ok(),
    }
}

/// `None` for `word`, else what `read` makes of the text. `none` and `off` are the same: of two
/// disciplines each takes another.
fn unless<T>(
    word: &str,
    text: &str,
    read: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    let never = ["none", "off"];
    let same = never.contains(&word) && never.contains(&text);
    if text == word || same { Ok(None) } else { read(text).map(Some) }
}

fn or(word: &str, value: Option<impl Display>) -> String {
    value.map_or_else(|| word.to_owned(), |value| value.to_string())
}

fn limited(rate: Rate) -> Option<Rate> {
    (rate != Rate::UNLIMITED).then_some(rate)
}

fn word<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T, String> {
    // TOML's words for the same.
    let switch = match text {
        "true" => "on",
        "false" => "off",
        other => other,
    };
    let found = known.iter().find(|&&(name, _)| name == text || name == switch);
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
