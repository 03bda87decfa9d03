//! A link from several sources, and which of them to name when they contradict each other.

use super::{Parameter, TABLES, Table, hint, impair, pairs};
use crate::config::{ConfigError, LinkConfig, QueueKind};
use crate::impair::Impair;
use crate::queue::fq::Wake;
use crate::time::Duration;
use crate::trace::Trace;
use crate::words;

/// A configuration from several sources: a later one overrides parameters of an earlier one.
#[derive(Clone, Debug, Default)]
pub struct ConfigBuilder {
    config: LinkConfig,
    /// In the order in which they came, for errors that only the whole shows.
    given: Vec<Given>,
}

/// What one source said of one parameter.
#[derive(Clone, Debug)]
struct Given {
    name: &'static str,
    value: String,
    place: String,
}

impl ConfigBuilder {
    /// Applies words such as `rate=20mbit delay=30ms`. A parameter given twice in one text is an
    /// error: one of the two was meant to be another.
    pub fn words(&mut self, text: &str, place: &str) -> Result<&mut Self, ConfigError> {
        let pairs = pairs::read(text, &self.config);
        for (name, value) in pairs.map_err(|problem| ConfigError::new(place, problem))? {
            if self.set(name, value, place).is_err() {
                // What was meant may depend on the discipline, and that may stand behind it.
                self.config = hint::chosen(text, &self.config);
                self.set(name, value, place)?;
            }
        }
        Ok(self)
    }

    /// Applies one parameter, for example one key of a TOML table (`place` = the table's name).
    pub fn set(&mut self, name: &str, value: &str, place: &str) -> Result<&mut Self, ConfigError> {
        let Some(parameter) = Parameter::find(name) else {
            return Err(ConfigError::new(place, hint::unknown(name, value, &self.config)));
        };
        self.config.set(name, value).map_err(|error| error.within(place))?;
        let (value, place) = (value.to_owned(), place.to_owned());
        self.given.push(Given { name: parameter.name, value, place });
        Ok(self)
    }

    /// What the sources say so far: which file to read for `trace`, and how.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// What the file named by `trace` holds.
    pub fn follow(&mut self, trace: Trace) -> &mut Self {
        self.config.trace = Some(trace);
        self
    }

    /// The whole, checked by [`LinkConfig::validate`]; a burst needs a rate, a
    /// peakrate a lower rate and a burst as well, a discipline's parameter the discipline.
    /// The error names who gave the parameter to change and, where a later source made it one,
    /// that source.
    pub fn finish(self) -> Result<LinkConfig, ConfigError> {
        let Err(error) = self.check() else { return Ok(self.config) };
        let Some(given) = self.given.iter().rfind(|given| given.name == error.place) else {
            return Err(error);
        };
        let later = self.cause(&error).filter(|cause| cause.place != given.place);
        let mut error = error.within(&given.place);
        if let Some(Given { name, value, place }) = later {
            let ConfigError { place, .. } = ConfigError::new(*name, "").within(place);
            let value = words::brief(value);
            error.problem = format!("{} (with {place}={value})", error.problem);
        }
        Err(error)
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.config.validate_as_written()?;
        self.check_ecn()?;
        self.check_applicable(TABLES)?;
        self.check_applicable(OWN_ONLY).map_err(|error| {
            let problem = "netem loses before it holds, expected none with impair=netem";
            ConfigError::new(error.place, problem)
        })?;
        self.check_needs()
    }

    /// Refuses parameters that do nothing for want of another, under the same exception.
    fn check_needs(&self) -> Result<(), ConfigError> {
        for need in NEEDS.iter().filter(|need| !(need.met)(&self.config)) {
            let other = self.given.iter().rposition(|given| given.name == need.other);
            let idle = |(index, given): (usize, &Given)| {
                let overridden =
                    other.is_some_and(|at| at > index && self.given[at].place != given.place);
                given.name == need.name && !overridden
            };
            if self.given.iter().enumerate().any(idle) {
                return Err(ConfigError::new(need.name, format!("needs {}", need.words)));
            }
        }
        Ok(())
    }

    /// `ecn=off`, which without a loss changes nothing, beside a queue that marks.
    fn check_ecn(&self) -> Result<(), ConfigError> {
        let given = |name| self.given.iter().any(|given| given.name == name);
        let marks = hint::marking(self.config.queue).is_some();
        let own = self.config.impair == Impair::Own;
        if !(own && marks && !self.config.ecn && given("ecn") && !given("loss")) {
            return Ok(());
        }
        let queue = hint::unmarked(&self.config);
        Err(ConfigError::new("ecn", format!("is of a loss and there is none, {queue}")))
    }

    /// The parameter since which the link has been wrong in this way.
    fn cause(&self, error: &ConfigError) -> Option<&Given> {
        let mut link = Self::default();
        link.config.trace.clone_from(&self.config.trace);
        let mut cause = None;
        for given in &self.given {
            // It was set before, so it can be set again.
            let _ = link.set(given.name, &given.value, &given.place);
            match link.check() {
                Err(same) if same == *error => cause = cause.or(Some(given)),
                _ => cause = None,
            }
        }
        cause
    }

    /// Refuses parameters of a discipline that was not chosen, unless a later source chose
    /// another one: then what an earlier one had said of the first is of no use, and no mistake.
    pub(super) fn check_applicable(&self, tables: &[Table]) -> Result<(), ConfigError> {
        for table in tables.iter().filter(|table| !(table.applies)(&self.config)) {
            let (chooser, _) = table.needs.split_once('=').unwrap_or_default();
            let chosen = self.given.iter().rposition(|given| given.name == chooser);
            let mistaken = |(index, given): (usize, &Given)| {
                let of_table = table.rows.iter().any(|row| row.name == given.name);
                let overridden =
                    chosen.is_some_and(|at| at > index && self.given[at].place != given.place);
                (of_table && !overridden).then_some(given.name)
            };
            if let Some(name) = self.given.iter().enumerate().find_map(mistaken) {
                return Err(ConfigError::new(name, format!("needs {}", table.needs)));
            }
        }
        Ok(())
    }
}

/// A parameter that does nothing without another.
struct Need {
    name: &'static str,
    /// The parameter that it needs.
    other: &'static str,
    /// What to give, as it is written.
    words: &'static str,
    /// Whether it does something with this configuration.
    met: fn(&LinkConfig) -> bool,
}

/// Written without what they need they were meant to do something, and do not.
const NEEDS: &[Need] = &[
    Need {
        name: "loss.at",
        other: "loss",
        words: "loss=PERCENT",
        met: |c| c.impair == Impair::Netem || !c.loss.is_none(),
    },
    Need {
        name: "tbf.mtu",
        other: "peakrate",
        words: "peakrate=RATE",
        met: |c| c.queue != QueueKind::Tbf || c.peakrate.is_some(),
    },
    Need {
        name: "fq.timer_slack",
        other: "fq.wake",
        words: "fq.wake=slack",
        met: |c| c.queue != QueueKind::Fq || c.fq.wake == Wake::Slack,
    },
    Need {
        name: "fq_codel.ce_threshold_selector",
        other: "fq_codel.ce_threshold",
        words: "fq_codel.ce_threshold=TIME",
        met: |c| c.queue != QueueKind::FqCodel || c.fq_codel.codel.ce_threshold.is_some(),
    },
    Need {
        name: "jens.agebase",
        other: "jens.vq",
        words: "jens.vq above 1",
        met: |c| c.queue != QueueKind::Jens || c.jens.virtual_factor > 1,
    },
    Need {
        name: "jens.user",
        other: "jens.users",
        words: "jens.users above 1",
        met: |c| c.queue != QueueKind::Jens || c.jens.users > 1,
    },
    Need {
        name: "distribution",
        other: "jitter",
        words: "jitter=TIME",
        met: |c| c.impair == Impair::Netem || c.jitter > Duration::ZERO,
    },
];

/// What netem decides by its nature.
pub(super) const OWN_ONLY: &[Table] = &[Table {
    name: "",
    rows: &[impair::LOSS_AT_ROW],
    needs: "impair=own",
    applies: |config| config.impair == Impair::Own,
}];
