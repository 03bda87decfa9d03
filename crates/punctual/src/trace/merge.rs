//! Quantities that were recorded in two files, as one timeline.

use std::fmt;

use punctual_sched::Duration;
use punctual_sched::trace::{Course, Step, Timeline};

use super::build::{MAX_ENTRIES, TOO_MANY};

/// `first` and, from its beginning on, what `second` sets: each step at its own time, those of one
/// instant as one.
///
/// The result spans `first`. What `second` has beyond is cut off; where it ends before, it begins
/// anew if it `repeats`, else its last values hold.
pub fn merge(first: &Timeline, second: &Timeline, repeats: bool) -> Result<Timeline, MergeError> {
    let both: Vec<_> = quantities(first).into_iter().zip(quantities(second)).collect();
    if let Some(((name, _), _)) = both.iter().find(|((_, first), (_, second))| *first && *second) {
        return Err(MergeError::Both(name));
    }
    let (Course::Steps(own), Course::Steps(other)) = (&first.course, &second.course) else {
        return Err(MergeError::Deliveries);
    };
    let rounds = if repeats { rounds(first.span, second.span) } else { 1 };
    let entries = (other.len() as u128).saturating_mul(rounds);
    if entries.saturating_add(own.len() as u128) > MAX_ENTRIES as u128 {
        return Err(MergeError::TooMany);
    }
    let mut own = own.iter().copied().peekable();
    let mut other =
        Rounds::new(other, second.span, repeats).take_while(|step| step.at < first.span).peekable();
    let mut steps: Vec<Step> = Vec::new();
    loop {
        let is_own = match (own.peek(), other.peek()) {
            (None, None) => break,
            (Some(own), Some(other)) => own.at <= other.at,
            (own, _) => own.is_some(),
        };
        let Some(step) = (if is_own { own.next() } else { other.next() }) else { break };
        match steps.last_mut().filter(|last| last.at == step.at) {
            Some(last) => set(last, &step),
            None => steps.push(step),
        }
    }
    Ok(Timeline { course: Course::Steps(steps), span: first.span })
}

/// Why two timelines cannot be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeError {
    /// Both set the quantity of this name.
    Both(&'static str),
    /// One holds single deliveries, beside which no step can stand.
    Deliveries,
    /// More entries than are kept.
    TooMany,
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Both(name) => write!(f, "both set the {name}, expected it in one of them"),
            Self::Deliveries => f.write_str(
                "single deliveries cannot stand beside steps, expected rates; say --fluid",
            ),
            Self::TooMany => f.write_str(TOO_MANY),
        }
    }
}

impl std::error::Error for MergeError {}

/// What a timeline can set, and whether it does. Single deliveries are a rate.
fn quantities(timeline: &Timeline) -> [(&'static str, bool); 3] {
    let (rate, delay, loss) = match &timeline.course {
        Course::Deliveries { .. } => (true, false, false),
        Course::Steps(steps) => (
            steps.iter().any(|step| step.rate.is_some()),
            steps.iter().any(|step| step.delay.is_some()),
            steps.iter().any(|step| step.loss.is_some()),
        ),
    };
    [("rate", rate), ("delay", delay), ("loss", loss)]
}

/// How many rounds begin within a time.
fn rounds(time: Duration, round: Duration) -> u128 {
    u128::from(time.as_nanos()).div_ceil(u128::from(round.as_nanos().max(1)))
}

pub(super) fn sets_delay(timeline: &Timeline) -> bool {
    quantities(timeline)[1].1
}

fn set(last: &mut Step, step: &Step) {
    last.rate = step.rate.or(last.rate);
    last.delay = step.delay.or(last.delay);
    last.loss = step.loss.or(last.loss);
}

/// Steps in the order of their times, over one round or all.
struct Rounds<'a> {
    steps: &'a [Step],
    span: Duration,
    repeats: bool,
    /// Where the round begins, in ns.
    base: u64,
    next: usize,
}

impl<'a> Rounds<'a> {
    fn new(steps: &'a [Step], span: Duration, repeats: bool) -> Self {
        Self { steps, span, repeats, base: 0, next: 0 }
    }
}

impl Iterator for Rounds<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.next == self.steps.len() && self.repeats && self.span > Duration::ZERO {
            self.base = self.base.checked_add(self.span.as_nanos())?;
            self.next = 0;
        }
        let step = self.steps.get(self.next)?;
        self.next += 1;
        let at = self.base.checked_add(step.at.as_nanos())?;
        Some(Step { at: Duration::from_nanos(at), ..*step })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use punctual_sched::trace::{Delivery, Opportunity};
    use punctual_sched::{Probability, Rate};

    use super::*;

    fn rates(steps: &[(u64, u64)], span: u64) -> Timeline {
        let step = |&(at, bps): &(u64, u64)| Step {
            at: Duration::from_nanos(at),
            rate: Rate::from_bps(bps),
            ..Step::default()
        };
        Timeline {
            course: Course::Steps(steps.iter().map(step).collect()),
            span: Duration::from_nanos(span),
        }
    }

    fn delays(steps: &[(u64, u64)], span: u64) -> Timeline {
        let step = |&(at, nanos): &(u64, u64)| Step {
            at: Duration::from_nanos(at),
            delay: Some(Duration::from_nanos(nanos)),
            ..Step::default()
        };
        Timeline {
            course: Course::Steps(steps.iter().map(step).collect()),
            span: Duration::from_nanos(span),
        }
    }

    /// Times, rates, delays.
    fn merged(first: &Timeline, second: &Timeline, repeats: bool) -> Vec<Row> {
        let timeline = merge(first, second, repeats).unwrap();
        assert_eq!(timeline.span, first.span);
        let Course::Steps(steps) = timeline.course else { panic!() };
        let row = |step: &Step| {
            let delay = step.delay.map(Duration::as_nanos);
            (step.at.as_nanos(), step.rate.map(Rate::as_bps), delay)
        };
        steps.iter().map(row).collect()
    }

    type Row = (u64, Option<u64>, Option<u64>);

    #[test]
    fn steps_of_two_timelines_are_each_at_its_own_time() {
        let (rates, delays) = (
            rates(&[(0, 8), (10, 4), (20, 2)], 30),
            delays(&[(0, 1), (4, 2), (10, 3), (19, 4)], 30),
        );
        let both = [
            (0, Some(8), Some(1)),
            (4, None, Some(2)),
            (10, Some(4), Some(3)),
            (19, None, Some(4)),
            (20, Some(2), None),
        ];
        assert_eq!(merged(&rates, &delays, false), both);
        assert_eq!(merged(&delays, &rates, false), both);
    }

    #[test]
    fn the_first_gives_the_span_and_the_second_is_cut_holds_or_begins_anew() {
        let (short, long) = (delays(&[(0, 1), (3, 2)], 6), rates(&[(0, 8), (14, 4)], 15));
        let cut = [(0, Some(8), Some(1)), (3, None, Some(2))];
        assert_eq!(merged(&short, &long, true), cut);
        let held = [(0, Some(8), Some(1)), (3, None, Some(2)), (14, Some(4), None)];
        assert_eq!(merged(&long, &short, false), held);
        let anew = [
            (0, Some(8), Some(1)),
            (3, None, Some(2)),
            (6, None, Some(1)),
            (9, None, Some(2)),
            (12, None, Some(1)),
            (14, Some(4), None),
        ];
        assert_eq!(merged(&long, &short, true), anew);
    }

    #[test]
    fn what_both_set_is_refused_by_name_and_deliveries_need_to_be_rates() {
        let one = rates(&[(0, 1)], 9);
        assert_eq!(merge(&one, &one, false), Err(MergeError::Both("rate")));
        let delay = delays(&[(0, 1)], 9);
        assert_eq!(merge(&delay, &delay, false), Err(MergeError::Both("delay")));
        let mut loss = delay.clone();
        let Course::Steps(steps) = &mut loss.course else { panic!() };
        steps[0] = Step { loss: Some(Probability::ONE), ..Step::default() };
        assert_eq!(merge(&loss, &loss, false), Err(MergeError::Both("loss")));
        assert!(merge(&loss, &delay, false).is_ok());
        let at = vec![Delivery { at: Duration::from_nanos(9), count: 1 }];
        let course = Course::Deliveries { at, opportunity: Opportunity::IP };
        let deliveries = Timeline { course, span: Duration::from_nanos(9) };
        assert_eq!(merge(&deliveries, &one, false), Err(MergeError::Both("rate")));
        for (first, second) in [(&deliveries, &delay), (&delay, &deliveries)] {
            assert_eq!(merge(first, second, false), Err(MergeError::Deliveries));
        }
    }

    #[test]
    fn a_tiny_second_that_begins_anew_without_end_is_refused() {
        let (hour, tiny) = (rates(&[(0, 1)], 3_600_000_000_000), delays(&[(0, 1)], 1));
        assert_eq!(merge(&hour, &tiny, true), Err(MergeError::TooMany));
        assert!(merge(&hour, &tiny, false).is_ok());
    }

    proptest! {
        #[test]
        fn at_every_instant_each_quantity_is_what_its_own_timeline_says(
            rate in prop::collection::btree_map(0_u64..60, 1_u64..9, 1..20),
            delay in prop::collection::btree_map(0_u64..30, 1_u64..9, 1..20),
            spans in (60_u64..90, 30_u64..90),
            repeats: bool,
        ) {
            let (rate, delay): (Vec<_>, Vec<_>) = (rate.into_iter().collect(), delay.into_iter().collect());
            let all = merged(&rates(&rate, spans.0), &delays(&delay, spans.1), repeats);
            prop_assert!(all.is_sorted_by(|a, b| a.0 < b.0));
            let at = |steps: &[(u64, u64)], now: u64| {
                steps.iter().rev().find(|(at, _)| *at <= now).map(|(_, value)| *value)
            };
            for now in 0..spans.0 {
                let passed = || all.iter().rev().filter(|row| row.0 <= now);
                prop_assert_eq!(passed().find_map(|row| row.1), at(&rate, now));
                // In a later round what no step has set yet is what the last round left.
                let last = delay.last().map(|(_, value)| *value);
                let expected = if repeats && now >= spans.1 {
                    at(&delay, now % spans.1).or(last)
                } else {
                    at(&delay, now)
                };
                prop_assert_eq!(passed().find_map(|row| row.2), expected);
            }
        }
    }
}
