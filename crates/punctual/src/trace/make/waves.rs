//! Regular courses: constant, square, saw, sine.

use clap::Args;
use punctual_sched::trace::{Course, Step, Timeline};
use punctual_sched::{Duration, Probability, Rate};

use super::super::build::MAX_ENTRIES;
use super::super::number::Decimal;
use super::{Common, range, sampled};

/// `punctual trace make constant`
#[derive(Args, Debug)]
pub struct ConstantOptions {
    /// The rate
    #[arg(long, value_name = "RATE")]
    pub rate: Rate,
    /// What all kinds have.
    #[command(flatten)]
    pub common: Common,
}

impl ConstantOptions {
    pub(super) fn make(&self) -> Result<Timeline, String> {
        let rate = self.rate.as_bps();
        sampled(self.common.duration, self.common.duration, |_| rate)
    }
}

/// `punctual trace make square`
#[derive(Args, Debug)]
pub struct SquareOptions {
    /// The low rate
    #[arg(long, value_name = "RATE")]
    pub low: Rate,
    /// The high rate, with which it begins
    #[arg(long, value_name = "RATE")]
    pub high: Rate,
    /// From one rise to the next
    #[arg(long, value_name = "TIME")]
    pub period: Duration,
    /// Share of the period that is high
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = share)]
    pub duty: Share,
    /// What all kinds have.
    #[command(flatten)]
    pub common: Common,
}

/// `--duty`: as it is written. A [`Probability`] is a multiple of 2^-32, by which a second is 0.1 ns
/// off and an hour 0.4 us.
#[derive(Clone, Copy, Debug)]
pub struct Share(Decimal);

fn share(text: &str) -> Result<Share, String> {
    // Takes and refuses the same words.
    let near = text.parse::<Probability>().map_err(|error| error.to_string())?;
    let exact = Decimal::parse(text.trim_end_matches('%'));
    exact.map(|percent| Share(percent.hundredth())).ok_or_else(|| format!("expected {near}"))
}

impl Share {
    /// To the nearest nanosecond.
    fn of(self, period: u64) -> Result<u64, String> {
        let problem = "--duty has more digits than so long a --period can be divided by";
        self.0.scaled(period).map_err(|_| problem.to_owned())
    }
}

impl SquareOptions {
    pub(super) fn make(&self) -> Result<Timeline, String> {
        let (span, period) = (self.common.duration.as_nanos(), self.period.as_nanos());
        if span == 0 || period == 0 {
            return Err("--duration and --period must be above 0".to_owned());
        }
        if u128::from(span / period) >= MAX_ENTRIES as u128 / 2 {
            return Err(format!("{} periods are too many, expected less than 2^24", span / period));
        }
        let high = self.duty.of(period)?;
        let begins = (0..=span / period).map(|number| number.saturating_mul(period));
        let edges = begins.flat_map(|at| [(at, self.high), (at.saturating_add(high), self.low)]);
        let mut steps: Vec<Step> = Vec::new();
        for (at, rate) in edges.filter(|(at, _)| *at < span) {
            let at = Duration::from_nanos(at);
            // A part of no length is none.
            if steps.last().is_some_and(|last| last.at == at) {
                steps.pop();
            }
            if steps.last().is_none_or(|last| last.rate != Some(rate)) {
                steps.push(Step { at, rate: Some(rate), ..Step::default() });
            }
        }
        Ok(Timeline { course: Course::Steps(steps), span: self.common.duration })
    }
}

/// `punctual trace make saw` and `sine`
#[derive(Args, Debug)]
pub struct WaveOptions {
    /// The lowest rate
    #[arg(long, value_name = "RATE")]
    pub low: Rate,
    /// The highest rate
    #[arg(long, value_name = "RATE")]
    pub high: Rate,
    /// From one rise to the next
    #[arg(long, value_name = "TIME")]
    pub period: Duration,
    /// How long each rate holds; it is that of the middle of this time
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    pub step: Duration,
    /// What all kinds have.
    #[command(flatten)]
    pub common: Common,
}

impl WaveOptions {
    pub(super) fn saw(&self) -> Result<Timeline, String> {
        self.wave(nearest)
    }

    pub(super) fn sine(&self) -> Result<Timeline, String> {
        self.wave(|swing, at, period| {
            let phase = nearest(ONE, at, period);
            nearest(swing, raised_sine(phase), ONE)
        })
    }

    /// `above`: how far a time of the period is above the lowest rate, of how far the highest is.
    fn wave(&self, above: impl Fn(u64, u64, u64) -> u64) -> Result<Timeline, String> {
        let (low, high) = range(self.low, self.high)?;
        let period = self.period.as_nanos();
        if period == 0 {
            return Err("--period must be above 0".to_owned());
        }
        let half = self.step.as_nanos() / 2;
        sampled(self.common.duration, self.step, |at| {
            low + above(high - low, at.saturating_add(half) % period, period)
        })
    }
}

/// `whole * part / of`, for parts up to the whole, to the nearest.
fn nearest(whole: u64, part: u64, of: u64) -> u64 {
    let (product, of) = (u128::from(whole) * u128::from(part), u128::from(of));
    u64::try_from((product + of / 2) / of).unwrap_or(whole)
}

/// `(1 + sin)/2` of a part of the whole turn, both in 2^32ths, to one in 10^8.
///
/// Integers, because the sines of different machines differ in their last bits.
pub(super) fn raised_sine(phase: u64) -> u64 {
    let quarter = ONE / 4;
    let (turn, within) = (phase / quarter, phase % quarter);
    // Quarters 1 and 3 run backwards, 2 and 3 are below.
    let within = if turn % 2 == 1 { quarter - within } else { within };
    let sine = sine_of_quarter(within * 4);
    // Both halves are rounded the same way, so that they add up.
    let upper = u64::midpoint(ONE, sine);
    if turn % 4 < 2 { upper } else { ONE - upper }
}

/// `sin(x * pi/2)` for x from 0 to 1, in 2^32ths, by the series up to x^13, whose next member is
/// below 10^-9.
fn sine_of_quarter(x: u64) -> u64 {
    let angle = (u128::from(x) * HALF_PI) >> 32;
    let square = (angle * angle) >> 32;
    // 1 - s/(2*3) * (1 - s/(4*5) * (1 - ...)), from the inside.
    let mut sum = u128::from(ONE);
    for n in [6_u128, 5, 4, 3, 2, 1] {
        let member = ((square * sum) >> 32) / (2 * n * (2 * n + 1));
        sum = u128::from(ONE).saturating_sub(member);
    }
    u64::try_from((angle * sum) >> 32).unwrap_or(ONE).min(ONE)
}

const ONE: u64 = 1 << 32;
/// pi/2 * 2^32.
const HALF_PI: u128 = 6_746_518_852;
