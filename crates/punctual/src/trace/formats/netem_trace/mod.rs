//! netem-trace configurations, as Rattan reads them: JSON or TOML.
//!
//! Bandwidth, delay and loss are carried. What has no place in a timeline (a delay for each packet,
//! duplicates, receive windows, loss that depends on earlier losses) is refused by its name.

mod human;
mod shapes;

use std::fmt;

use punctual_sched::trace::Step;
use punctual_sched::{Duration, Probability};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use self::human::{Bandwidth, Time};
use self::shapes::{Normalized, Sawtooth};
use super::super::Hints;
use super::super::build::{Held, MAX_ENTRIES, Parsed, TOO_MANY};
use super::super::error::{Problem, line_after};
use super::super::lines::Lines;

/// Reads a configuration. A pattern with a count of 0 begins anew at its end.
pub(in super::super) fn read(lines: Lines<'_>, hints: &Hints) -> Result<Parsed, Problem> {
    let text = lines.rest()?;
    let config = if text.trim_start().starts_with('{') {
        serde_json::from_str(&text).map_err(|error| Problem::json(&error))?
    } else {
        toml::from_str(&text).map_err(|error| in_toml(&text, &error))?
    };
    let mut unrolled = Unrolled { seed: hints.seed, ..Unrolled::default() };
    unrolled.add(&config, true).map_err(Problem::whole)?;
    let Unrolled { held, forever, drawn, .. } = unrolled;
    let mut parsed = held.finish()?;
    parsed.loops = forever;
    let warning = "its normal distribution is drawn anew from the seed: the same mean, deviation \
                   and bounds, but other values than Rattan's";
    Ok(parsed.warn_if(drawn, warning))
}

/// Whether a text has a table of this format.
pub(in super::super) fn is_toml(text: &str) -> bool {
    text.lines().take(100).any(|line| {
        let line = line.trim();
        line.starts_with('[') && NAMES.iter().any(|name| line.contains(name))
    })
}

fn in_toml(text: &str, error: &toml::de::Error) -> Problem {
    let what = error.message().lines().next().unwrap_or_default();
    let Some(span) = error.span() else { return Problem::whole(what) };
    let before = text.as_bytes().get(..span.start).unwrap_or_default();
    Problem::at(line_after(before), what)
}

/// The models that are carried.
#[derive(Debug)]
enum Config {
    StaticBw(StaticBw),
    NormalizedBw(Normalized),
    SawtoothBw(Sawtooth),
    TraceBw(TraceBw),
    StaticDelay(StaticDelay),
    StaticLoss(StaticLoss),
    Repeated(Repeated),
}

/// A table with one key, the model's name. Read by hand, so that errors keep their line.
impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Named)
    }
}

struct Named;

impl<'de> Visitor<'de> for Named {
    type Value = Config;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a model by its name, such as {\"StaticBwConfig\": {...}}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Config, A::Error> {
        let name = map.next_key::<String>()?.unwrap_or_default();
        let config = match name.as_str() {
            "StaticBwConfig" => Config::StaticBw(map.next_value()?),
            "NormalizedBwConfig" => Config::NormalizedBw(map.next_value()?),
            "SawtoothBwConfig" => Config::SawtoothBw(map.next_value()?),
            "TraceBwConfig" => Config::TraceBw(map.next_value()?),
            "StaticDelayConfig" => Config::StaticDelay(map.next_value()?),
            "StaticLossConfig" => Config::StaticLoss(map.next_value()?),
            "RepeatedBwPatternConfig"
            | "RepeatedDelayPatternConfig"
            | "RepeatedLossPatternConfig" => Config::Repeated(map.next_value()?),
            name => return Err(A::Error::custom(refused(name))),
        };
        match map.next_key::<String>()? {
            None => Ok(config),
            Some(more) => {
                Err(A::Error::custom(format!("{more:?} beside {name}, expected one model")))
            }
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StaticBw {
    bw: Option<Bandwidth>,
    duration: Option<Time>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StaticDelay {
    delay: Option<Time>,
    duration: Option<Time>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StaticLoss {
    loss: Option<Vec<f64>>,
    duration: Option<Time>,
}

/// For each time, values that hold so long each.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TraceBw {
    pattern: Vec<(Time, Vec<Bandwidth>)>,
}

/// Patterns one after the other, `count` times over; 0 is for ever.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Repeated {
    pattern: Vec<Config>,
    count: u64,
}

/// What configurations come to, one after the other.
#[derive(Debug, Default)]
struct Unrolled {
    held: Held,
    /// It begins anew at its end.
    forever: bool,
    /// Something was drawn.
    drawn: bool,
    seed: Option<u64>,
    /// Values and empty patterns passed, which bounds the work on a hostile file.
    work: usize,
}

impl Unrolled {
    /// `outermost`: nothing comes before or after.
    fn add(&mut self, config: &Config, outermost: bool) -> Result<(), String> {
        self.worked()?;
        match config {
            Config::StaticBw(model) => {
                let rate = model.bw.unwrap_or(Bandwidth::DEFAULT).rate()?;
                self.hold(Step { rate: Some(rate), ..Step::default() }, model.duration)
            }
            Config::StaticDelay(model) => {
                let delay = Some(model.delay.map_or(DELAY, |delay| delay.0));
                self.hold(Step { delay, ..Step::default() }, model.duration)
            }
            Config::StaticLoss(model) => {
                let loss = Some(loss(model.loss.as_deref())?);
                self.hold(Step { loss, ..Step::default() }, model.duration)
            }
            Config::TraceBw(model) => self.trace(model),
            Config::SawtoothBw(model) => {
                self.drawn |= model.is_noisy();
                model.unroll(self.seed, &mut self.held)
            }
            Config::NormalizedBw(model) => {
                self.drawn = true;
                model.unroll(self.seed, &mut self.held)
            }
            Config::Repeated(repeated) => self.repeat(repeated, outermost),
        }
    }

    fn worked(&mut self) -> Result<(), String> {
        self.work += 1;
        if self.work > MAX_ENTRIES { Err(TOO_MANY.to_owned()) } else { Ok(()) }
    }

    fn hold(&mut self, step: Step, time: Option<Time>) -> Result<(), String> {
        match time.map_or(SECOND, |time| time.0) {
            Duration::ZERO => self.worked(),
            time => self.held.push(step, time),
        }
    }

    fn trace(&mut self, model: &TraceBw) -> Result<(), String> {
        for (time, values) in &model.pattern {
            for value in values {
                let step = Step { rate: Some(value.rate()?), ..Step::default() };
                self.hold(step, Some(*time))?;
            }
        }
        Ok(())
    }

    fn repeat(&mut self, repeated: &Repeated, outermost: bool) -> Result<(), String> {
        if repeated.count == 0 && !outermost {
            return Err("a pattern with count 0 inside of another never ends, expected it \
                        outermost"
                .to_owned());
        }
        self.forever |= repeated.count == 0;
        let alone = outermost && repeated.pattern.len() == 1;
        let before = self.held.len();
        for round in 0..repeated.count.max(1) {
            for config in &repeated.pattern {
                self.add(config, alone)?;
            }
            let added = u64::try_from(self.held.len() - before).unwrap_or(u64::MAX);
            if added == 0 || self.forever {
                break;
            }
            // Told before the memory is used.
            let whole = added.saturating_mul(repeated.count);
            if round == 0 && usize::try_from(whole).unwrap_or(usize::MAX) > MAX_ENTRIES {
                return Err(TOO_MANY.to_owned());
            }
        }
        Ok(())
    }
}

/// The first value is the loss of a packet after one that was not lost; further ones, after so many
/// losses, must be the same.
fn loss(pattern: Option<&[f64]>) -> Result<Probability, String> {
    let pattern = pattern.unwrap_or(&[0.1, 0.2]);
    let Some(&first) = pattern.first() else { return Ok(Probability::ZERO) };
    if pattern.iter().any(|next| next.total_cmp(&first).is_ne()) {
        return Err("StaticLossConfig with a loss that depends on earlier losses is not carried, \
                    expected one value"
            .to_owned());
    }
    if !(0.0..=1.0).contains(&first) {
        return Err(format!("loss {first}, expected a share from 0 to 1"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 2^32 - 1")]
    let raw = (first * f64::from(u32::MAX)).round_ties_even() as u32;
    Ok(Probability::from_raw(raw))
}

fn refused(name: &str) -> String {
    let known = NAMES.contains(&name);
    let why = if known { "is not carried" } else { "is unknown" };
    format!("{name} {why}, expected models of bandwidth, delay or loss")
}

/// What the crate takes where nothing is given.
const SECOND: Duration = Duration::from_secs(1);
const DELAY: Duration = Duration::from_millis(10);

/// All models of the crate.
pub(in super::super) const NAMES: [&str; 21] = [
    "StaticBwConfig",
    "NormalizedBwConfig",
    "SawtoothBwConfig",
    "TraceBwConfig",
    "RepeatedBwPatternConfig",
    "StaticDelayConfig",
    "RepeatedDelayPatternConfig",
    "StaticLossConfig",
    "RepeatedLossPatternConfig",
    "StaticDelayPerPacketConfig",
    "NormalizedDelayPerPacketConfig",
    "LogNormalizedDelayPerPacketConfig",
    "RepeatedDelayPerPacketPatternConfig",
    "StaticDuplicateConfig",
    "RepeatedDuplicatePatternConfig",
    "StaticRwndConfig",
    "RepeatedRwndPatternConfig",
    "StaticHeavyPdoConfig",
    "TraceHeavyPdoConfig",
    "RepeatedHeavyPdoPatternConfig",
    "TraceLightPdoConfig",
];
