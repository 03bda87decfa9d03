//! From lines to a timeline: order, gaps, bounds.

use punctual_measure::units::plural;
use punctual_sched::Duration;
use punctual_sched::trace::{Course, Delivery, Opportunity, Step, Timeline};

use super::error::Problem;

/// What a reader made of a file.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) timeline: Timeline,
    pub(super) loops: bool,
    pub(super) warnings: Vec<String>,
}

impl Parsed {
    pub(super) fn new(timeline: Timeline) -> Self {
        Self { timeline, loops: false, warnings: Vec::new() }
    }

    /// The format means it to begin anew at its end.
    pub(super) fn looping(mut self) -> Self {
        self.loops = true;
        self
    }

    pub(super) fn warn(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }

    pub(super) fn warn_if(self, holds: bool, warning: impl Into<String>) -> Self {
        if holds { self.warn(warning) } else { self }
    }
}

/// Values that hold for a time that stands beside them.
#[derive(Debug, Default)]
pub(super) struct Held {
    steps: Vec<Step>,
    end: Duration,
}

impl Held {
    /// `step`, whose time is set here, from the end of the last one and for `time`.
    pub(super) fn push(&mut self, step: Step, time: Duration) -> Result<(), String> {
        bounded(self.steps.len())?;
        self.steps.push(Step { at: self.end, ..step });
        let end = self.end.as_nanos().checked_add(time.as_nanos());
        self.end =
            end.map(Duration::from_nanos).ok_or("the times add up to more than 584 years")?;
        Ok(())
    }

    /// How many steps there are.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Where the next step would begin.
    pub(super) fn end(&self) -> Duration {
        self.end
    }

    /// The timeline, unless it has no length.
    pub(super) fn finish(self) -> Result<Parsed, Problem> {
        if self.end == Duration::ZERO {
            return Err(Problem::whole("is empty, expected values and how long they hold"));
        }
        Ok(Parsed::new(Timeline { course: Course::Steps(self.steps), span: self.end }))
    }
}

/// Values that were recorded at a time and hold until the next.
///
/// The first time is the timeline's beginning. Where several have the same time (logs count whole
/// seconds), they share the time until the next one evenly. The last holds as long as the one
/// before it. What was recorded before the first value is left out.
#[derive(Debug, Default)]
pub(super) struct Stamped {
    steps: Vec<Step>,
    /// Lines without a value.
    missing: u64,
}

impl Stamped {
    /// `step` at its own time, on any axis.
    pub(super) fn push(&mut self, step: Step) -> Result<(), String> {
        let is_empty = sets_nothing(&step);
        self.missing += u64::from(is_empty);
        let Some(last) = self.steps.last() else {
            if !is_empty {
                self.steps.push(step);
            }
            return Ok(());
        };
        if step.at < last.at {
            return Err(backwards(last.at.saturating_sub(step.at)));
        }
        bounded(self.steps.len())?;
        self.steps.push(step);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Parsed, Problem> {
        let Some(first) = self.steps.first().map(|step| step.at) else {
            return Err(Problem::whole("holds no value, expected times and values"));
        };
        self.steps.iter_mut().for_each(|step| step.at = step.at.saturating_sub(first));
        let span = spread(&mut self.steps).ok_or_else(|| {
            Problem::whole("all lines have the same time, expected at least two times")
        })?;
        self.steps.retain(|step| !sets_nothing(step));
        let timeline = Timeline { course: Course::Steps(self.steps), span };
        let have = if self.missing == 1 { "has" } else { "have" };
        let lines = plural(self.missing, "line");
        let warning = format!("{lines} {have} no value; the value before holds");
        Ok(Parsed::new(timeline).warn_if(self.missing > 0, warning))
    }
}

/// Steps with equal times, which begin at 0, share the time until the next. Returns the whole
/// length, `None` when all are equal.
fn spread(steps: &mut [Step]) -> Option<Duration> {
    let mut start = 0;
    let mut gap = None;
    while start < steps.len() {
        let at = steps[start].at;
        let equal = steps[start..].iter().take_while(|step| step.at == at).count();
        let next = steps.get(start + equal).map(|next| next.at.saturating_sub(at));
        let room = next.or(gap)?;
        for (index, step) in steps[start..start + equal].iter_mut().enumerate() {
            step.at = at + part(room, index, equal);
        }
        if next.is_none() {
            return Some(at + room);
        }
        gap = next;
        start += equal;
    }
    None
}

/// `room * index / count`.
fn part(room: Duration, index: usize, count: usize) -> Duration {
    let (index, count) = (index as u128, count.max(1) as u128);
    let nanos = u128::from(room.as_nanos()) * index / count;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Steps as they stand, in order; empty ones are kept.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    steps: Vec<Step>,
}

impl Sorted {
    pub(super) fn push(&mut self, step: Step) -> Result<(), String> {
        if let Some(last) = self.steps.last().filter(|last| last.at > step.at) {
            return Err(backwards(last.at.saturating_sub(step.at)));
        }
        bounded(self.steps.len())?;
        self.steps.push(step);
        Ok(())
    }

    /// There are steps, and none sets anything.
    pub(super) fn is_blank(&self) -> bool {
        !self.steps.is_empty() && self.steps.iter().all(sets_nothing)
    }

    /// When the last step is, and when it would end if it were as long as the one before.
    pub(super) fn ends(&self) -> Option<(Duration, Duration)> {
        let last = self.steps.last()?.at;
        let before = self.steps.iter().rev().find(|step| step.at < last);
        Some((last, before.map_or(last, |before| last + last.saturating_sub(before.at))))
    }

    pub(super) fn finish(self, span: Duration) -> Parsed {
        Parsed::new(Timeline { course: Course::Steps(self.steps), span })
    }
}

/// Single deliveries in order.
#[derive(Debug, Default)]
pub(super) struct Opportunities {
    at: Vec<Delivery>,
}

impl Opportunities {
    pub(super) fn push(&mut self, at: Duration, count: u32) -> Result<(), String> {
        let Some(last) = self.at.last_mut().filter(|last| last.at >= at) else {
            bounded(self.at.len())?;
            self.at.push(Delivery { at, count });
            return Ok(());
        };
        if last.at > at {
            return Err(backwards(last.at.saturating_sub(at)));
        }
        last.count =
            last.count.checked_add(count).ok_or("more than 2^32 opportunities at one time")?;
        Ok(())
    }

    /// At how many different times.
    pub(super) fn instants(&self) -> usize {
        self.at.len()
    }

    /// When the last one is.
    pub(super) fn last(&self) -> Option<Duration> {
        self.at.last().map(|last| last.at)
    }

    pub(super) fn finish(self, span: Duration, opportunity: Opportunity) -> Parsed {
        Parsed::new(Timeline { course: Course::Deliveries { at: self.at, opportunity }, span })
    }
}

fn sets_nothing(step: &Step) -> bool {
    Step { at: Duration::ZERO, ..*step } == Step::default()
}

fn backwards(by: Duration) -> String {
    format!("goes back in time by {by}, expected times in order")
}

fn bounded(entries: usize) -> Result<(), String> {
    if entries < MAX_ENTRIES { Ok(()) } else { Err(TOO_MANY.to_owned()) }
}

/// Entries of a timeline: 1.5 GiB of steps.
pub(super) const MAX_ENTRIES: usize = 1 << 25;
pub(super) const TOO_MANY: &str =
    "more than 33554432 entries, expected a trace that fits in memory";
