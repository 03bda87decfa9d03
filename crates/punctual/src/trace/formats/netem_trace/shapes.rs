//! Bandwidth that rises and falls, or is drawn.

use punctual_sched::impair::Distribution;
use punctual_sched::trace::Step;
use punctual_sched::{Duration, Rate};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;

use super::super::super::build::{Held, MAX_ENTRIES, TOO_MANY};
use super::human::{Bandwidth, Time};

/// A normal distribution, a value for each step.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Normalized {
    mean: Option<Bandwidth>,
    std_dev: Option<Bandwidth>,
    upper_bound: Option<Bandwidth>,
    lower_bound: Option<Bandwidth>,
    duration: Option<Time>,
    step: Option<Time>,
    seed: Option<u64>,
}

impl Normalized {
    pub(super) fn unroll(&self, seed: Option<u64>, held: &mut Held) -> Result<(), String> {
        let mean = self.mean.unwrap_or(Bandwidth::DEFAULT).0;
        let mut noise = Noise::new(seed.or(self.seed), self.std_dev);
        let least = self.lower_bound.map_or(0, |bound| bound.0);
        let most = self.upper_bound.map_or(Rate::MAX.as_bps(), |bound| bound.0);
        steps(self.duration, self.step, held, |_| {
            let value = i128::from(mean) + noise.draw();
            clamped(value, 0, i128::from(u64::MAX)).max(least).min(most)
        })
    }
}

/// From bottom to top and back in each interval, and noise.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sawtooth {
    bottom: Option<Bandwidth>,
    top: Option<Bandwidth>,
    interval: Option<Time>,
    duty_ratio: Option<f64>,
    duration: Option<Time>,
    step: Option<Time>,
    seed: Option<u64>,
    std_dev: Option<Bandwidth>,
    upper_noise_bound: Option<Bandwidth>,
    lower_noise_bound: Option<Bandwidth>,
}

impl Sawtooth {
    /// Whether something is drawn.
    pub(super) fn is_noisy(&self) -> bool {
        self.std_dev.is_some_and(|deviation| deviation.0 > 0)
    }

    pub(super) fn unroll(&self, seed: Option<u64>, held: &mut Held) -> Result<(), String> {
        let bottom = self.bottom.map_or(0, |bottom| bottom.0);
        let top = self.top.unwrap_or(Bandwidth::DEFAULT).0;
        if bottom > top {
            return Err("SawtoothBwConfig: bottom is above top".to_owned());
        }
        let interval = self.interval.map_or(Duration::from_secs(1), |time| time.0).as_nanos();
        let ratio = self.duty_ratio.unwrap_or(0.5);
        if interval == 0 || !(0.0..=1.0).contains(&ratio) {
            return Err("SawtoothBwConfig: expected an interval above 0 and a duty_ratio from 0 \
                        to 1"
                .to_owned());
        }
        let turn = share(interval, ratio);
        let mut noise = Noise::new(seed.or(self.seed), self.std_dev);
        let down = self.lower_noise_bound.map_or(i128::MIN, |bound| -i128::from(bound.0));
        let up = self.upper_noise_bound.map_or(i128::MAX, |bound| i128::from(bound.0));
        steps(self.duration, self.step, held, |at| {
            let at = at % interval;
            let (part, whole) =
                if at < turn { (at, turn) } else { (interval - at, interval - turn) };
            let height = u128::from(top - bottom) * u128::from(part) / u128::from(whole.max(1));
            let base = i128::from(bottom) + i128::try_from(height).unwrap_or(i128::MAX);
            clamped(base + noise.draw().min(up).max(down), 0, i128::from(u64::MAX))
        })
    }
}

/// A value for each step of the whole time, of which the last may be shorter.
fn steps(
    whole: Option<Time>,
    step: Option<Time>,
    held: &mut Held,
    mut value: impl FnMut(u64) -> u64,
) -> Result<(), String> {
    let whole = whole.map_or(Duration::from_secs(1), |time| time.0).as_nanos();
    let step = step.map_or(Duration::from_millis(1), |time| time.0).as_nanos();
    if step == 0 && whole > 0 {
        return Err("a step of 0, expected one above".to_owned());
    }
    if whole.checked_div(step).is_some_and(|count| count >= MAX_ENTRIES as u64) {
        return Err(TOO_MANY.to_owned());
    }
    let mut at = 0;
    while at < whole {
        let time = step.min(whole - at);
        let rate = Bandwidth(value(at)).rate()?;
        held.push(Step { rate: Some(rate), ..Step::default() }, Duration::from_nanos(time))?;
        at += time;
    }
    Ok(())
}

/// Normal deviates around 0.
struct Noise {
    random: Xoshiro256PlusPlus,
    deviation: u64,
}

impl Noise {
    fn new(seed: Option<u64>, deviation: Option<Bandwidth>) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed.unwrap_or(DEFAULT_SEED));
        Self { random, deviation: deviation.map_or(0, |deviation| deviation.0) }
    }

    fn draw(&mut self) -> i128 {
        let Some(table) = Distribution::Normal.entries().filter(|_| self.deviation > 0) else {
            return 0;
        };
        let bits = usize::try_from(self.random.next_u64() >> 32).unwrap_or(0);
        i128::from(table[bits % table.len()]) * i128::from(self.deviation) / i128::from(DEVIATION)
    }
}

fn clamped(value: i128, least: i128, most: i128) -> u64 {
    u64::try_from(value.clamp(least, most)).unwrap_or(0)
}

/// `ratio` of `whole`. One multiplication, which every machine rounds alike.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a share of at most the whole; nanoseconds beyond 2^53 are hundred days"
)]
fn share(whole: u64, ratio: f64) -> u64 {
    (whole as f64 * ratio).round() as u64
}

/// The crate's.
const DEFAULT_SEED: u64 = 42;
/// One standard deviation in the table.
const DEVIATION: i16 = 8_192;
