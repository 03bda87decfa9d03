//! `punctual trace make`: traces from a seed.
//!
//! Integers only: the same options give the same file on every machine.

mod random;
mod slotted;
mod waves;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use punctual_sched::trace::{Course, Step, Timeline};
use punctual_sched::{Duration, Rate};

pub use self::random::{MarkovOptions, State, WalkOptions};
pub use self::slotted::{Pattern, SlottedOptions};
pub use self::waves::{ConstantOptions, Share, SquareOptions, WaveOptions};

use super::build::MAX_ENTRIES;
use super::write;
use crate::failure::Failure;
use crate::output;

/// `punctual trace make`
#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub struct MakeOptions {
    /// What to make.
    #[command(subcommand)]
    pub kind: Kind,
}

/// The kinds of generated traces.
#[derive(Debug, Subcommand)]
pub enum Kind {
    /// One rate
    Constant(ConstantOptions),
    /// High for a part of each period, then low
    Square(SquareOptions),
    /// From low to high in each period, then low at once
    Saw(WaveOptions),
    /// Between low and high as a sine
    Sine(WaveOptions),
    /// A random walk between two bounds
    Walk(WalkOptions),
    /// States that are left at random, each with a rate
    Markov(MarkovOptions),
    /// Deliveries in the slots of a radio link: a grant every n slots, a TDD pattern
    ///
    /// What is sent in a slot is there when the slot is over. The trace is as many whole rounds of
    /// pattern and grants as fit into the duration, so that it repeats without a seam.
    Slotted(SlottedOptions),
}

impl Kind {
    /// What has periods, and does not end with one: the trace begins anew all the same.
    fn seam(&self) -> Option<String> {
        let (period, common) = match self {
            Self::Square(options) => (options.period, &options.common),
            Self::Saw(options) | Self::Sine(options) => (options.period, &options.common),
            Self::Constant(_) | Self::Walk(_) | Self::Markov(_) | Self::Slotted(_) => return None,
        };
        let left = common.duration.as_nanos().checked_rem(period.as_nanos())?;
        let duration = common.duration;
        (left > 0).then(|| {
            format!(
                "--duration {duration} is no multiple of --period {period}: the last period breaks \
                 off where the trace begins anew"
            )
        })
    }
}

/// What all kinds have.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// How long the trace is
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub duration: Duration,
    /// File to write, replaced if it exists (default: stdout)
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
}

/// Makes the trace and writes it.
pub(super) fn run(options: &MakeOptions) -> Result<u8, Failure> {
    let (made, common) = match &options.kind {
        Kind::Constant(options) => (options.make(), &options.common),
        Kind::Square(options) => (options.make(), &options.common),
        Kind::Saw(options) => (options.saw(), &options.common),
        Kind::Sine(options) => (options.sine(), &options.common),
        Kind::Walk(options) => (options.make(), &options.common),
        Kind::Markov(options) => (options.make(), &options.common),
        Kind::Slotted(options) => (options.make(), &options.common),
    };
    let timeline = made.map_err(Failure::usage)?;
    if let Some(warning) = options.kind.seam() {
        crate::warn(warning);
    }
    output::to(common.output.as_deref(), |mut out| write(&mut out, &timeline, true))?;
    Ok(0)
}

/// Rates for `step` each until `span` is over; `rate` is given when each begins. Equal rates in a
/// row are one step.
fn sampled(
    span: Duration,
    step: Duration,
    mut rate: impl FnMut(u64) -> u64,
) -> Result<Timeline, String> {
    let (whole, every) = (span.as_nanos(), step.as_nanos());
    if whole == 0 || every == 0 {
        return Err("--duration and --step must be above 0".to_owned());
    }
    if u128::from(whole / every) >= MAX_ENTRIES as u128 {
        return Err(format!("{} steps are too many, expected less than 2^25", whole / every));
    }
    let mut steps: Vec<Step> = Vec::new();
    let mut at = 0;
    while at < whole {
        let rate = Rate::from_bps(rate(at));
        if steps.last().is_none_or(|last| last.rate != rate) {
            steps.push(Step { at: Duration::from_nanos(at), rate, ..Step::default() });
        }
        at = at.saturating_add(every);
    }
    Ok(Timeline { course: Course::Steps(steps), span })
}

/// Two rates in order, both with a bound.
fn range(low: Rate, high: Rate) -> Result<(u64, u64), String> {
    if low == Rate::UNLIMITED || high == Rate::UNLIMITED {
        return Err("--low and --high need rates with a bound, not unlimited".to_owned());
    }
    if low > high {
        return Err(format!("--low {low} is above --high {high}"));
    }
    Ok((low.as_bps(), high.as_bps()))
}

/// `random` as a number in `0..=most`.
fn up_to(random: u64, most: u64) -> u64 {
    let product = u128::from(random) * (u128::from(most) + 1);
    // The high half of a product with at most 2^64 is at most `most`.
    u64::try_from(product >> 64).unwrap_or(most)
}

const HELP: &str = "\
EXAMPLES
  punctual trace make square --low 5mbit --high 20mbit --period 2s
  punctual trace make sine --low 1mbit --high 50mbit --period 10s --step 20ms -o sine.csv
  punctual trace make walk --low 2mbit --high 40mbit --by 1mbit --step 50ms --seed 7
  punctual trace make markov --state 30mbit:2s --state 4mbit:500ms --state 0:100ms
  punctual trace make slotted --rate 50mbit --slot 500us --pattern DDDSU --direction up

The same options give the same file on every machine. Each kind has its own --help.";

#[cfg(test)]
mod tests;
