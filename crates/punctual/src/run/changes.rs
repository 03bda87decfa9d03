//! The live changes of one direction, and what was ignored, as the report lists them.

use std::collections::BTreeMap;

use punctual_linux::control::Ignored;
use punctual_linux::driver::Source;
use punctual_measure::report::{self, IgnoredStore, MAX_CHANGES, MAX_IGNORED};
use punctual_sched::{Change, Instant, LinkConfig};

/// Collects changes on the driver's thread: the first are kept, the others counted.
#[derive(Debug)]
pub(super) struct Changes {
    start: Instant,
    first: Vec<(Instant, Option<Instant>, What)>,
    beyond: u64,
    /// Of all of them those of the rate.
    rates: u64,
    /// A trace with rates is followed.
    paced: bool,
    last: Instant,
    news: bool,
    first_ignored: Vec<(Instant, Ignored)>,
    ignored: u64,
}

/// What changed.
#[derive(Debug)]
enum What {
    /// Parameters.
    Values(Change),
    /// The trace that is followed, as reports name it.
    Trace(String),
}

impl Changes {
    /// None yet of `link`, of a run that began at `start`.
    pub(super) fn new(start: Instant, link: &LinkConfig) -> Self {
        Self {
            start,
            // Here and not on the driver's thread.
            first: Vec::with_capacity(MAX_CHANGES),
            beyond: 0,
            rates: 0,
            paced: is_paced(link),
            last: Instant::ZERO,
            news: false,
            first_ignored: Vec::with_capacity(MAX_IGNORED),
            ignored: 0,
        }
    }

    /// The link changed at `at`, as asked for at `asked`.
    pub(super) fn push(&mut self, at: Instant, asked: Option<Instant>, change: &Change) {
        self.rates += u64::from(change.rate.is_some());
        self.push_any(at, asked, || What::Values(change.clone()));
    }

    /// The link follows what `link` says since `at`, as asked for at `asked`.
    pub(super) fn push_trace(&mut self, at: Instant, asked: Instant, link: &LinkConfig) {
        let before = core::mem::replace(&mut self.paced, is_paced(link));
        self.rates += u64::from(before || self.paced);
        self.push_any(at, Some(asked), || What::Trace(link.trace_brief()));
    }

    fn push_any(&mut self, at: Instant, asked: Option<Instant>, what: impl FnOnce() -> What) {
        (self.last, self.news) = (at, true);
        if self.first.len() < MAX_CHANGES {
            self.first.push((at, asked, what()));
        } else {
            self.beyond += 1;
        }
    }

    /// Something was not done at `at`.
    pub(super) fn ignore(&mut self, at: Instant, ignored: &Ignored) {
        self.ignored += 1;
        if self.first_ignored.len() < MAX_IGNORED {
            self.first_ignored.push((at, ignored.clone()));
        }
    }

    /// How many changes there were.
    pub(super) fn count(&self) -> u64 {
        self.beyond + u64::try_from(self.first.len()).unwrap_or(u64::MAX)
    }

    /// When the last one was; 0 without any.
    pub(super) fn last(&self) -> Instant {
        self.last
    }

    /// How much was not done.
    pub(super) fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Whether there was a change since this was last asked.
    pub(super) fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.news)
    }

    /// Adds those of another lane, which makes the same changes: each holds once all lanes make it.
    pub(super) fn merge(&mut self, other: &Self) {
        for (ours, theirs) in self.first.iter_mut().zip(&other.first) {
            ours.0 = ours.0.max(theirs.0);
        }
        self.last = self.last.max(other.last);
        self.ignored += other.ignored;
        let room = MAX_IGNORED - self.first_ignored.len();
        self.first_ignored.extend(other.first_ignored.iter().take(room).cloned());
    }

    /// Lists them.
    pub(super) fn fill(&self, direction: &mut report::Direction) {
        for (at, asked, what) in &self.first {
            direction.push_change(report::Change {
                at_ns: at.signed_since(self.start),
                asked_ns: asked.map(|asked| asked.signed_since(self.start)),
                values: values(what),
            });
        }
        direction.changes_omitted += self.beyond;
        direction.rate_changes += self.rates;
        direction.ignored.count = self.ignored;
        direction.ignored.first = self.first_ignored.iter().map(|each| self.entry(each)).collect();
    }

    fn entry(&self, (at, ignored): &(Instant, Ignored)) -> IgnoredStore {
        IgnoredStore {
            at_ns: at.signed_since(self.start),
            place: place(ignored.source).to_owned(),
            parameter: ignored.parameter.clone(),
            value: ignored.value,
            reason: ignored.reason.to_string(),
        }
    }
}

/// Whether it follows a trace that decides the rate.
fn is_paced(link: &LinkConfig) -> bool {
    link.trace.as_ref().is_some_and(|trace| trace.schedule.paces())
}

/// What a change says, in the words of the command line.
fn values(what: &What) -> BTreeMap<String, String> {
    let named = |(name, value): (&str, String)| (name.to_owned(), value);
    match what {
        What::Values(change) => change.entries().into_iter().map(named).collect(),
        What::Trace(brief) => [("trace", brief.clone())].map(named).into(),
    }
}

fn place(source: Source) -> &'static str {
    match source {
        Source::Remote => "socket",
        Source::Word => "word",
        Source::Set => "set",
    }
}

#[cfg(test)]
mod tests {
    use punctual_linux::control::Reason;
    use punctual_sched::trace::TraceOptions;

    use super::*;

    #[test]
    fn changes_are_listed_in_the_words_of_the_command_line() {
        let start = Instant::from_nanos(1_000);
        let mut changes = Changes::new(start, &LinkConfig::default());
        let change = Change::from_words("rate=19mbit delay=5ms loss=1% limit=20p", "set").unwrap();
        changes.push(Instant::from_nanos(3_500), Some(Instant::from_nanos(2_000)), &change);
        changes.push(
            Instant::from_nanos(4_000),
            None,
            &Change::from_words("rate=0", "set").unwrap(),
        );
        let mut direction = report::Direction::default();
        changes.fill(&mut direction);
        let [first, second] = &direction.changes[..] else { panic!("{direction:?}") };
        assert_eq!((first.at_ns, first.asked_ns), (2_500, Some(1_000)));
        let words: Vec<_> = first.values.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(words, ["delay=5ms", "limit=20p", "loss=1%", "rate=19mbit"]);
        assert_eq!((second.asked_ns, second.values["rate"].as_str()), (None, "0bit"));
    }

    #[test]
    fn what_was_ignored_is_named_with_place_and_reason() {
        let mut changes = Changes::new(Instant::from_nanos(1_000), &LinkConfig::default());
        let ignored = Ignored {
            source: Source::Word,
            parameter: "rate".to_owned(),
            value: u64::MAX - 1,
            reason: Reason::Range,
        };
        (0..105).for_each(|_| changes.ignore(Instant::from_nanos(1_500), &ignored));
        let mut direction = report::Direction::default();
        changes.fill(&mut direction);
        assert_eq!((direction.ignored.count, direction.ignored.first.len()), (105, 100));
        let expected = IgnoredStore {
            at_ns: 500,
            place: "word".to_owned(),
            parameter: "rate".to_owned(),
            value: u64::MAX - 1,
            reason: "out of range".to_owned(),
        };
        assert_eq!(direction.ignored.first[0], expected);
    }

    #[test]
    fn changes_beyond_the_first_are_counted() {
        let mut changes = Changes::new(Instant::ZERO, &LinkConfig::default());
        let change = Change::from_words("rate=1mbit", "set").unwrap();
        (0..MAX_CHANGES + 3).for_each(|_| changes.push(Instant::ZERO, None, &change));
        let mut direction = report::Direction::default();
        changes.fill(&mut direction);
        assert_eq!((direction.changes.len(), direction.changes_omitted), (10_000, 3));
        assert_eq!(direction.rate_changes, 10_003);
    }

    #[test]
    fn changes_of_the_rate_are_those_of_its_value_and_of_traces_with_rates() {
        let words = |change| Change::from_words(change, "set").unwrap();
        let follows = |column: &str, value: &str| {
            let text = format!("# span=1s\ntime_ns,{column}\n0,{value}\n");
            let hints = crate::trace::Hints::default();
            let read = crate::trace::read_from("t", text.as_bytes(), &hints).unwrap();
            let trace = crate::trace::resolve(&TraceOptions::default(), read).unwrap();
            LinkConfig { trace: Some(trace), ..LinkConfig::default() }
        };
        let (rates, delays) = (follows("rate_bps", "5"), follows("delay_ns", "5"));
        let none = LinkConfig::default();
        let mut changes = Changes::new(Instant::ZERO, &none);
        let mut counted = |what: &mut dyn FnMut(&mut Changes)| {
            what(&mut changes);
            changes.rates
        };
        let now = Instant::ZERO;
        assert_eq!(counted(&mut |all| all.push(now, None, &words("delay=5ms"))), 0);
        assert_eq!(counted(&mut |all| all.push(now, None, &words("rate=5mbit"))), 1);
        assert_eq!(counted(&mut |all| all.push_trace(now, now, &delays)), 1);
        assert_eq!(counted(&mut |all| all.push_trace(now, now, &none)), 1);
        assert_eq!(counted(&mut |all| all.push_trace(now, now, &rates)), 2);
        assert_eq!(counted(&mut |all| all.push_trace(now, now, &delays)), 3);
        let mut followed = Changes::new(now, &rates);
        followed.push_trace(now, now, &none);
        assert_eq!(followed.rates, 1);
    }
}
