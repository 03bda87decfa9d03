//! Courses that are drawn: a random walk, states.

use clap::Args;
use punctual_sched::trace::Timeline;
use punctual_sched::{Duration, Rate};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Common, range, sampled, up_to};
use crate::cli::seed;

/// `punctual trace make walk`
#[derive(Args, Debug)]
pub struct WalkOptions {
    /// The lowest rate
    #[arg(long, value_name = "RATE")]
    pub low: Rate,
    /// The highest rate
    #[arg(long, value_name = "RATE")]
    pub high: Rate,
    /// The rate changes by up to this much at each step, up or down, any change as likely
    #[arg(long, value_name = "RATE")]
    pub by: Rate,
    /// Where it begins (default: the middle)
    #[arg(long, value_name = "RATE")]
    pub start: Option<Rate>,
    /// How long each rate holds
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub step: Duration,
    /// Seed of all that is drawn
    #[arg(long, default_value_t = 1, value_parser = seed)]
    pub seed: u64,
    /// What all kinds have.
    #[command(flatten)]
    pub common: Common,
}

impl WalkOptions {
    pub(super) fn make(&self) -> Result<Timeline, String> {
        let (low, high) = range(self.low, self.high)?;
        let by = self.by.finite_bps().ok_or("--by must be above 0 and have a bound")?;
        let middle = low + (high - low) / 2;
        let mut rate = self.start.map_or(middle, Rate::as_bps);
        if !(low..=high).contains(&rate) {
            return Err("--start is not between --low and --high".to_owned());
        }
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        sampled(self.common.duration, self.step, |at| {
            if at > 0 {
                let change = up_to(random.next_u64(), by.saturating_mul(2));
                rate = reflected(i128::from(rate) + i128::from(change) - i128::from(by), low, high);
            }
            rate
        })
    }
}

/// A value that went beyond a bound, as far within it; at the other bound if that is too far.
fn reflected(value: i128, low: u64, high: u64) -> u64 {
    let (low, high) = (i128::from(low), i128::from(high));
    let value = if value < low { 2 * low - value } else { value };
    let value = if value > high { 2 * high - value } else { value };
    u64::try_from(value.clamp(low, high)).unwrap_or(0)
}

/// `punctual trace make markov`
#[derive(Args, Debug)]
pub struct MarkovOptions {
    /// A state: its rate and the mean time in it; at least two, it begins in the first
    #[arg(long = "state", value_name = "RATE:TIME", value_parser = state, required = true)]
    pub states: Vec<State>,
    /// Whether to leave is drawn once in this time; the next state is any other, as likely
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    pub step: Duration,
    /// Seed of all that is drawn
    #[arg(long, default_value_t = 1, value_parser = seed)]
    pub seed: u64,
    /// What all kinds have.
    #[command(flatten)]
    pub common: Common,
}

/// `--state`
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// The rate while in it.
    pub rate: Rate,
    /// The mean time in it.
    pub stay: Duration,
}

fn state(text: &str) -> Result<State, String> {
    let (rate, stay) = text.split_once(':').ok_or("expected RATE:TIME, such as 20mbit:2s")?;
    let rate = rate.parse::<Rate>().map_err(|error| error.to_string())?;
    let stay = stay.parse::<Duration>().map_err(|error| error.to_string())?;
    Ok(State { rate, stay })
}

impl MarkovOptions {
    pub(super) fn make(&self) -> Result<Timeline, String> {
        if self.states.len() < 2 {
            return Err("expected at least two --state".to_owned());
        }
        if let Some(short) = self.states.iter().find(|state| state.stay < self.step) {
            return Err(format!("a state's time {} is below --step {}", short.stay, self.step));
        }
        let others = u64::try_from(self.states.len() - 1).unwrap_or(u64::MAX);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let mut now = 0;
        sampled(self.common.duration, self.step, |at| {
            let stay = self.states[now].stay.as_nanos().max(1);
            // Leaves with probability step / stay, so that the mean is `stay`.
            let leaves = at > 0 && up_to(random.next_u64(), stay - 1) < self.step.as_nanos();
            if leaves {
                let other = up_to(random.next_u64(), others - 1) + 1;
                now = (now + usize::try_from(other).unwrap_or(1)) % self.states.len();
            }
            self.states[now].rate.as_bps()
        })
    }
}
