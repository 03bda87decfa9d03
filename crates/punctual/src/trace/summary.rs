//! What a timeline amounts to.

use punctual_sched::trace::{Course, Delivery, Opportunity, Step, Timeline};
use punctual_sched::{Duration, Probability, Rate};

use super::outages::{Outage, Outages, Search};

/// Figures of one round of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How long it lasts.
    pub span: Duration,
    /// Steps, or times of deliveries.
    pub entries: usize,
    /// Opportunities in all; 0 for steps.
    pub opportunities: u64,
    /// Mean rate over the time in which a finite rate is known, bit/s.
    pub mean_bps: Option<u64>,
    /// How long the rate is unlimited, which no mean holds.
    pub unlimited: Duration,
    /// The highest finite rate; of deliveries, over any [`Summary::peak_over`].
    pub peak_bps: Option<u64>,
    /// Of deliveries: [`PEAK`], or the span where that is shorter.
    pub peak_over: Option<Duration>,
    /// The longest time in which nothing passes.
    pub outage: Option<Outage>,
    /// How long nothing passes at the beginning.
    pub dead_start: Duration,
    /// All long outages.
    pub outages: Outages,
    /// The smallest time from one entry to the next that is not 0.
    pub smallest_step: Option<Duration>,
    /// Least, mean over time and greatest delay.
    pub delay: Option<[Duration; 3]>,
    /// Mean over time and greatest loss.
    pub loss: Option<[Probability; 2]>,
}

/// Over which the peak of deliveries is taken where they last that long.
pub const PEAK: Duration = Duration::from_millis(100);

impl Summary {
    /// Of one round.
    pub fn of(timeline: &Timeline) -> Self {
        match &timeline.course {
            Course::Steps(steps) => of_steps(steps, timeline.span),
            Course::Deliveries { at, opportunity } => {
                of_deliveries(at, *opportunity, timeline.span)
            }
        }
    }
}

fn of_steps(steps: &[Step], span: Duration) -> Summary {
    let (mut now, mut sums) = (Step::default(), Sums::default());
    let ends = steps.iter().skip(1).map(|step| step.at).chain([span]);
    for (step, end) in steps.iter().zip(ends) {
        now.at = step.at;
        now.rate = step.rate.or(now.rate);
        now.delay = step.delay.or(now.delay);
        now.loss = step.loss.or(now.loss);
        sums.add(&now, end.saturating_sub(step.at));
    }
    let times = steps.iter().map(|step| step.at);
    let (outage, dead_start, outages) = sums.outages.finish();
    Summary {
        span,
        entries: steps.len(),
        opportunities: 0,
        mean_bps: sums.rate.mean(),
        unlimited: sums.unlimited,
        peak_bps: sums.rate.greatest,
        peak_over: None,
        outage,
        dead_start,
        outages,
        smallest_step: smallest(times),
        delay: sums.delay.spread(),
        loss: sums.loss.greatest.zip(sums.loss.mean()).map(|(greatest, mean)| {
            [mean, greatest]
                .map(|raw| Probability::from_raw(u32::try_from(raw).unwrap_or(u32::MAX)))
        }),
    }
}

fn of_deliveries(at: &[Delivery], opportunity: Opportunity, span: Duration) -> Summary {
    let bits = u128::from(opportunity.bytes) * 8;
    let opportunities = at.iter().map(|delivery| u64::from(delivery.count)).sum();
    let per_second = |count: u64, time: Duration| {
        let bps = u128::from(count) * bits * 1_000_000_000 / u128::from(time.as_nanos().max(1));
        u64::try_from(bps).unwrap_or(u64::MAX)
    };
    let window = PEAK.min(span);
    let mut search = Search::default();
    let mut before = Duration::ZERO;
    for end in at.iter().map(|delivery| delivery.at).chain([span]) {
        search.add(before, true, end.saturating_sub(before));
        search.passes();
        before = end;
    }
    let (outage, dead_start, outages) = search.finish();
    Summary {
        span,
        entries: at.len(),
        opportunities,
        mean_bps: Some(per_second(opportunities, span)),
        unlimited: Duration::ZERO,
        peak_bps: Some(per_second(most_within(at, window), window)),
        peak_over: Some(window),
        outage,
        dead_start,
        outages,
        smallest_step: smallest(at.iter().map(|delivery| delivery.at)),
        delay: None,
        loss: None,
    }
}

/// The most opportunities in any time of this length.
fn most_within(at: &[Delivery], window: Duration) -> u64 {
    let (mut first, mut count, mut most) = (0, 0, 0);
    for delivery in at {
        count += u64::from(delivery.count);
        while delivery.at.saturating_sub(at[first].at) >= window {
            count -= u64::from(at[first].count);
            first += 1;
        }
        most = most.max(count);
    }
    most
}

fn smallest(times: impl Iterator<Item = Duration> + Clone) -> Option<Duration> {
    let gaps = times.clone().skip(1).zip(times).map(|(at, before)| at.saturating_sub(before));
    gaps.filter(|gap| *gap > Duration::ZERO).min()
}

#[derive(Default)]
struct Sums {
    rate: Weighed,
    delay: Weighed,
    loss: Weighed,
    unlimited: Duration,
    outages: Search,
}

impl Sums {
    /// Values that hold for a time.
    fn add(&mut self, now: &Step, time: Duration) {
        match now.rate {
            Some(Rate::UNLIMITED) => self.unlimited = self.unlimited + time,
            Some(rate) => self.rate.add(rate.as_bps(), time),
            None => {}
        }
        if let Some(delay) = now.delay {
            self.delay.add(delay.as_nanos(), time);
        }
        if let Some(loss) = now.loss {
            self.loss.add(loss.as_raw().into(), time);
        }
        let nothing = now.rate == Some(Rate::PAUSE) || now.loss == Some(Probability::ONE);
        if time > Duration::ZERO {
            self.outages.add(now.at, nothing, time);
        }
    }
}

/// A mean over time.
#[derive(Default)]
struct Weighed {
    /// Of values times nanoseconds; times add up to the span, so that it fits.
    sum: u128,
    time: u128,
    least: Option<u64>,
    greatest: Option<u64>,
}

impl Weighed {
    fn add(&mut self, value: u64, time: Duration) {
        let nanos = u128::from(time.as_nanos());
        self.sum = self.sum.saturating_add(u128::from(value) * nanos);
        self.time += nanos;
        self.least = Some(self.least.map_or(value, |least| least.min(value)));
        self.greatest = Some(self.greatest.map_or(value, |greatest| greatest.max(value)));
    }

    fn mean(&self) -> Option<u64> {
        let mean = self.sum.checked_div(self.time)?;
        u64::try_from(mean).ok()
    }

    fn spread(&self) -> Option<[Duration; 3]> {
        let all = [self.least?, self.mean()?, self.greatest?];
        Some(all.map(Duration::from_nanos))
    }
}
