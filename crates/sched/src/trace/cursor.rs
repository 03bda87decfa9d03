//! Where in a timeline that may repeat the next entry is.

use super::track::Entry;
use crate::time::{Duration, Instant};

/// Something that happens at a time of the timeline.
pub(super) trait Timed {
    /// When, from the beginning of the timeline.
    fn at(&self) -> Duration;
}

/// From times of the link to rounds of the timeline and times in them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    /// Link time at which the first round began, had it been followed from its beginning. Before
    /// the epoch where there is an offset and the link began early.
    origin: i128,
    span: Duration,
    repeat: bool,
}

/// A time in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) round: u128,
    /// Below the span, unless the timeline does not repeat.
    pub(super) within: Duration,
}

/// The next entry of a timeline.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    round: u128,
    index: usize,
    /// When it comes; `None` where none comes any more.
    at: Option<Instant>,
}

impl Rounds {
    /// The timeline is at `offset` of its first round at `start`.
    pub(super) fn new(start: Instant, offset: Duration, span: Duration, repeat: bool) -> Self {
        let origin = i128::from(start.as_nanos()) - i128::from(offset.as_nanos());
        Self { origin, span, repeat }
    }

    /// Where the timeline is at `at`, which is not before the start.
    pub(super) fn place(&self, at: Instant) -> Place {
        let elapsed = (i128::from(at.as_nanos()) - self.origin).max(0).unsigned_abs();
        let span = self.span.as_nanos();
        let (round, within) = match u64::try_from(elapsed) {
            // The shorter division, which nearly always suffices.
            Ok(elapsed) if self.repeat => (u128::from(elapsed / span), elapsed % span),
            Ok(elapsed) => (0, elapsed),
            Err(_) if self.repeat => {
                let rest = u64::try_from(elapsed % u128::from(span)).unwrap_or(0);
                (elapsed / u128::from(span), rest)
            }
            Err(_) => (0, u64::MAX),
        };
        Place { round, within: Duration::from_nanos(within) }
    }

    /// When a place comes; `None` beyond the end of time.
    pub(super) fn instant(&self, place: Place) -> Option<Instant> {
        let rounds = i128::try_from(place.round).ok()?.checked_mul(self.span.as_nanos().into())?;
        let nanos = self.origin.checked_add(rounds)?.checked_add(place.within.as_nanos().into())?;
        u64::try_from(nanos).ok().map(Instant::from_nanos)
    }

    pub(super) fn repeats(&self) -> bool {
        self.repeat
    }

    pub(super) fn span(&self) -> Duration {
        self.span
    }
}

impl Cursor {
    /// When the next entry comes.
    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// Which it is; meaningless where none comes.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Whether the next entry comes by `to`, at `to` itself where that is `inclusive`.
    #[inline]
    pub(super) fn passes(&self, to: Instant, inclusive: bool) -> bool {
        self.at.is_some_and(|at| at < to || inclusive && at == to)
    }

    /// The first entry after `to`, or at it where `to` is not `inclusive`. A few entries further
    /// are found by looking at each, any other by a search.
    pub(super) fn seek<T: Timed>(
        &mut self,
        entries: &[T],
        rounds: &Rounds,
        to: Instant,
        inclusive: bool,
    ) {
        let mut place = rounds.place(to);
        let beyond = |entry: &T, within: Duration| {
            if inclusive { entry.at() > within } else { entry.at() >= within }
        };
        // The end of a round is the beginning of the next: an entry there belongs to the round
        // that ends.
        if !inclusive && place.within == Duration::ZERO && place.round > 0 {
            let ends = entries.partition_point(|entry| entry.at() < rounds.span());
            if ends < entries.len() {
                let end = Place { round: place.round - 1, within: rounds.span() };
                self.set(entries, rounds, end.round, ends);
                return;
            }
        }
        let near = if place.round == self.round { self.index } else { 0 };
        let rest = entries.get(near..).unwrap_or_default();
        let index = match rest.iter().take(NEAR).position(|entry| beyond(entry, place.within)) {
            Some(step) => near + step,
            None => entries.partition_point(|entry| !beyond(entry, place.within)),
        };
        if index == entries.len() && rounds.repeats() {
            place.round = place.round.saturating_add(1);
            self.set(entries, rounds, place.round, 0);
        } else {
            self.set(entries, rounds, place.round, index);
        }
    }

    /// The entry after the next one, also where it comes at the same instant.
    pub(super) fn step<T: Timed>(&mut self, entries: &[T], rounds: &Rounds) {
        let index = self.index + 1;
        if index >= entries.len() && rounds.repeats() {
            self.set(entries, rounds, self.round.saturating_add(1), 0);
        } else {
            self.set(entries, rounds, self.round, index);
        }
    }

    /// The entry before the next one, which is the last of the round before where that is the
    /// first.
    pub(super) fn passed<'a, T>(&self, entries: &'a [T]) -> Option<&'a T> {
        match self.index {
            0 => entries.last(),
            index => entries.get(index - 1),
        }
    }

    /// The value of the last entry up to `to`, unless it has been passed.
    pub(super) fn value_to_pass<T: Copy>(
        &self,
        entries: &[Entry<T>],
        rounds: &Rounds,
        to: Instant,
    ) -> Option<T> {
        if !self.passes(to, true) {
            return None;
        }
        let mut cursor = *self;
        cursor.seek(entries, rounds, to, true);
        cursor.passed(entries).map(|entry| entry.value)
    }

    fn set<T: Timed>(&mut self, entries: &[T], rounds: &Rounds, round: u128, index: usize) {
        let place = entries.get(index).map(|entry| Place { round, within: entry.at() });
        *self = Self { round, index, at: place.and_then(|place| rounds.instant(place)) };
    }
}

/// Entries that are looked at one by one.
const NEAR: usize = 8;
