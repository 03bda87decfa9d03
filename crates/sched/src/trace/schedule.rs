//! A timeline that was checked, as links follow it.

use super::cursor::Timed;
use super::rates::Rates;
use super::tally::Tally;
use super::track::Track;
use super::{Course, Delivery, Opportunity, Step, Timeline};
use crate::time::Duration;
use crate::units::{Probability, Rate};

/// A timeline that was checked, laid out for links to follow: 16 bytes for each value, and another
/// for sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    // First, so that different ones are soon told apart.
    checksum: u32,
    span: Duration,
    pub(super) course: Laid,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Laid {
    Steps(Tracks),
    Deliveries { at: Vec<Delivery>, opportunity: Opportunity, tally: Tally },
}

/// Steps, parameter by parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tracks {
    pub(super) rates: Rates,
    pub(super) delays: Track<Duration>,
    pub(super) losses: Track<Probability>,
    bounds: Bounds,
}

/// Of all steps; `None` where none sets such a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The lowest rate above 0.
    pub(crate) slowest: Option<Rate>,
    pub(crate) fastest: Option<Rate>,
    /// A rate is 0.
    pub(crate) pauses: bool,
    pub(crate) shortest: Option<Duration>,
    pub(crate) longest: Option<Duration>,
    pub(crate) most_loss: Option<Probability>,
}

impl Bounds {
    /// Whether a packet can be lost.
    pub(crate) fn loses(&self) -> bool {
        self.most_loss.is_some_and(|loss| loss != Probability::ZERO)
    }
}

/// Values that a trace sets; `None` what it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values {
    pub(crate) rate: Option<Rate>,
    pub(crate) delay: Option<Duration>,
    pub(crate) loss: Option<Probability>,
}

/// Why a timeline cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimelineError {
    /// Nothing happens.
    #[error("it is empty: nothing ever happens")]
    Empty,
    /// It has no length.
    #[error("it lasts no time, expected a span above 0")]
    NoSpan,
    /// Two entries in the wrong order.
    #[error("entry {0} comes before the one before it, expected times in order")]
    Unordered(usize),
    /// An entry after the end.
    #[error("entry {0} comes after the end of the span")]
    Beyond(usize),
    /// A delivery of nothing.
    #[error("delivery {0} has no opportunity, expected at least one")]
    NoOpportunity(usize),
    /// More opportunities at one instant than 32 bits count.
    #[error("delivery {0} has more than 4294967295 opportunities")]
    TooMany(usize),
    /// More entries than [`Schedule::MOST_ENTRIES`].
    #[error("it has more than 33554432 entries")]
    TooLong,
    /// A step among deliveries or a delivery among steps.
    #[error("it has both steps and deliveries")]
    Mixed,
    /// Opportunities that carry nothing.
    #[error("opportunities of 0 bytes carry nothing")]
    NoBytes,
}

impl Timed for Delivery {
    fn at(&self) -> Duration {
        self.at
    }
}

/// A schedule in the making, entry by entry: of many millions none is in memory twice.
#[derive(Clone, Debug)]
pub struct ScheduleBuilder {
    span: Duration,
    last: Option<Duration>,
    entries: usize,
    course: Making,
}

#[derive(Clone, Debug)]
enum Making {
    Steps { rates: Track<Rate>, delays: Track<Duration>, losses: Track<Probability> },
    Deliveries { at: Vec<Delivery>, opportunity: Opportunity },
}

impl ScheduleBuilder {
    /// Steps that last `span`.
    pub fn steps(span: Duration) -> Self {
        let (rates, delays, losses) = (Track::new(), Track::new(), Track::new());
        let course = Making::Steps { rates, delays, losses };
        Self { span, last: None, entries: 0, course }
    }

    /// Deliveries that last `span`.
    pub fn deliveries(opportunity: Opportunity, span: Duration) -> Self {
        let course = Making::Deliveries { at: Vec::new(), opportunity };
        Self { span, last: None, entries: 0, course }
    }

    /// The next step. One that sets nothing is none; a delivery is refused.
    pub fn step(&mut self, step: Step) -> Result<(), TimelineError> {
        let Making::Steps { rates, delays, losses } = &mut self.course else {
            return Err(TimelineError::Mixed);
        };
        if let Some(rate) = step.rate {
            rates.push(step.at, rate);
        }
        if let Some(delay) = step.delay {
            delays.push(step.at, delay);
        }
        if let Some(loss) = step.loss {
            losses.push(step.at, loss);
        }
        self.count(step.at, false)
    }

    /// The next delivery; a step is refused.
    pub fn delivery(&mut self, delivery: Delivery) -> Result<(), TimelineError> {
        self.count(delivery.at, true)?;
        let Making::Deliveries { at, .. } = &mut self.course else {
            return Err(TimelineError::Mixed);
        };
        if delivery.count == 0 {
            return Err(TimelineError::NoOpportunity(self.entries));
        }
        at.push(delivery);
        Ok(())
    }

    /// The whole.
    pub fn finish(self) -> Result<Schedule, TimelineError> {
        let span = self.span;
        if span == Duration::ZERO {
            return Err(TimelineError::NoSpan);
        }
        let course = match self.course {
            Making::Steps { rates, delays, losses } => {
                Laid::Steps(Tracks::new(rates, delays, losses, span)?)
            }
            Making::Deliveries { at, .. } if at.is_empty() => return Err(TimelineError::Empty),
            Making::Deliveries { opportunity: Opportunity { bytes: 0, .. }, .. } => {
                return Err(TimelineError::NoBytes);
            }
            Making::Deliveries { mut at, opportunity } => {
                at.shrink_to_fit();
                let tally = Tally::new(&at);
                Laid::Deliveries { at, opportunity, tally }
            }
        };
        let mut schedule = Schedule { checksum: 0, span, course };
        schedule.checksum = schedule.compute_checksum();
        Ok(schedule)
    }

    /// Checks the time of the next entry.
    fn count(&mut self, at: Duration, each_once: bool) -> Result<(), TimelineError> {
        self.entries += 1;
        let ordered = self.last.is_none_or(|last| last < at || last == at && !each_once);
        if !ordered {
            return Err(TimelineError::Unordered(self.entries));
        }
        if at > self.span {
            return Err(TimelineError::Beyond(self.entries));
        }
        if self.entries > Schedule::MOST_ENTRIES {
            return Err(TimelineError::TooLong);
        }
        self.last = Some(at);
        Ok(())
    }
}

impl Schedule {
    /// The most steps, or instants with deliveries: 2^25, which takes half a gigabyte and more.
    pub const MOST_ENTRIES: usize = 1 << 25;

    /// Checks a timeline and lays it out. Entries are counted from 1 in errors.
    pub fn new(timeline: Timeline) -> Result<Self, TimelineError> {
        let Timeline { course, span } = timeline;
        let mut builder = match &course {
            Course::Steps(_) => ScheduleBuilder::steps(span),
            Course::Deliveries { opportunity, .. } => {
                ScheduleBuilder::deliveries(*opportunity, span)
            }
        };
        if span == Duration::ZERO {
            return Err(TimelineError::NoSpan);
        }
        match course {
            Course::Steps(steps) => steps.into_iter().try_for_each(|step| builder.step(step))?,
            Course::Deliveries { at, .. } => {
                at.into_iter().try_for_each(|delivery| builder.delivery(delivery))?;
            }
        }
        builder.finish()
    }

    /// How long it lasts.
    pub fn span(&self) -> Duration {
        self.span
    }

    /// CRC-32 (IEEE 802.3) of what happens when: the same for two schedules that a link cannot tell
    /// apart.
    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    /// What one opportunity carries, where single deliveries are made; else `None`.
    pub fn opportunity(&self) -> Option<Opportunity> {
        match self.course {
            Laid::Deliveries { opportunity, .. } => Some(opportunity),
            Laid::Steps(_) => None,
        }
    }

    /// The single deliveries; none of steps.
    pub fn deliveries(&self) -> &[Delivery] {
        match &self.course {
            Laid::Deliveries { at, .. } => at,
            Laid::Steps(_) => &[],
        }
    }

    /// The steps in order, each time once; none of deliveries.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        let mut heads = [0; 3];
        core::iter::from_fn(move || self.tracks()?.step(&mut heads))
    }

    /// How many entries it has: deliveries, or values.
    pub fn len(&self) -> usize {
        match &self.course {
            Laid::Deliveries { at, .. } => at.len(),
            Laid::Steps(tracks) => {
                tracks.rates.track().entries().len()
                    + tracks.delays.entries().len()
                    + tracks.losses.entries().len()
            }
        }
    }

    /// Never: what is empty is no schedule.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn tracks(&self) -> Option<&Tracks> {
        match &self.course {
            Laid::Steps(tracks) => Some(tracks),
            Laid::Deliveries { .. } => None,
        }
    }

    /// Whether it decides how fast packets are served.
    pub fn paces(&self) -> bool {
        self.tracks().is_none_or(|tracks| !tracks.rates.track().entries().is_empty())
    }

    /// What is true of all its steps.
    pub(crate) fn bounds(&self) -> Bounds {
        self.tracks().map_or_else(Bounds::default, |tracks| tracks.bounds)
    }

    /// The values with which a link begins that follows it from `offset` on: those that steps up to
    /// there have left, or of the first step where there is none.
    pub(crate) fn values_at(&self, offset: Duration) -> Values {
        self.tracks().map_or_else(Values::default, |tracks| tracks.values_at(offset))
    }
}

impl Tracks {
    fn new(
        rates: Track<Rate>,
        mut delays: Track<Duration>,
        mut losses: Track<Probability>,
        span: Duration,
    ) -> Result<Self, TimelineError> {
        let none = rates.entries().is_empty()
            && delays.entries().is_empty()
            && losses.entries().is_empty();
        if none {
            return Err(TimelineError::Empty);
        }
        delays.shrink();
        losses.shrink();
        let mut tracks =
            Self { rates: Rates::new(rates, span), delays, losses, bounds: Bounds::default() };
        tracks.bounds = tracks.bounds();
        Ok(tracks)
    }

    fn bounds(&self) -> Bounds {
        let rates = self.rates.track().entries().iter().map(|entry| entry.value);
        let delays = || self.delays.entries().iter().map(|entry| entry.value);
        Bounds {
            slowest: rates.clone().filter(|rate| *rate != Rate::PAUSE).min(),
            fastest: rates.clone().max(),
            pauses: rates.clone().any(|rate| rate == Rate::PAUSE),
            shortest: delays().min(),
            longest: delays().max(),
            most_loss: self.losses.entries().iter().map(|entry| entry.value).max(),
        }
    }

    /// The step after `heads` entries of each track, which then count one more where they are part
    /// of it.
    fn step(&self, heads: &mut [usize; 3]) -> Option<Step> {
        let [rate, delay, loss] = heads;
        let rates = self.rates.track().entries();
        let next = [
            rates.get(*rate).map(|entry| entry.at),
            self.delays.entries().get(*delay).map(|entry| entry.at),
            self.losses.entries().get(*loss).map(|entry| entry.at),
        ];
        let at = next.into_iter().flatten().min()?;
        Some(Step {
            at,
            rate: take(rates, rate, at),
            delay: take(self.delays.entries(), delay, at),
            loss: take(self.losses.entries(), loss, at),
        })
    }

    fn values_at(&self, offset: Duration) -> Values {
        let first = self.step(&mut [0; 3]).map_or(Duration::ZERO, |step| step.at);
        let at = offset.max(first);
        Values {
            rate: self.rates.track().value_at(at),
            delay: self.delays.value_at(at),
            loss: self.losses.value_at(at),
        }
    }
}

/// The value of the entry at `head` if it comes at `at`; then `head` is the next.
fn take<T: Copy>(entries: &[super::track::Entry<T>], head: &mut usize, at: Duration) -> Option<T> {
    let entry = entries.get(*head).filter(|entry| entry.at == at)?;
    *head += 1;
    Some(entry.value)
}
