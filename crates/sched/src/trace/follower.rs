//! Following a trace in event time.

use super::cursor::{Cursor, Place, Rounds};
use super::schedule::{Laid, Tracks, Values};
use super::{Delivery, Trace, TraceStart};
use crate::time::{Duration, Instant};
use crate::units::Rate;

/// Where a link is in its trace.
///
/// Nothing is done for a step before something depends on it: what steps have left is looked up by
/// searches, so that a thousand steps, or a thousand rounds, in which nothing happened cost as much
/// as one.
#[derive(Debug)]
pub(crate) struct Follower {
    trace: Trace,
    /// `None` until it begins.
    rounds: Option<Rounds>,
    cursors: Cursors,
    /// Bytes that the packet in service still has to pass at opportunities.
    pub(crate) left: u64,
    /// Whether the end of the service that is going on has been found.
    pub(crate) planned: bool,
    delivered: Delivered,
}

/// The next entry of each kind.
#[derive(Clone, Copy, Debug, Default)]
struct Cursors {
    rate: Cursor,
    delay: Cursor,
    loss: Cursor,
    delivery: Cursor,
}

/// What the steps that were passed have left.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    pub(crate) values: Values,
    /// The first of them that set a rate, and what rates have carried from there on, in nanobits.
    pub(crate) first: Instant,
    pub(crate) carried: u128,
}

/// Opportunities that have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivered {
    /// At which packets passed, or parts of them.
    pub(crate) used: u64,
    /// At which none did.
    pub(crate) wasted: u64,
}

/// Where in its trace a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// When it began; `None` as long as it waits for the first packet.
    pub begun: Option<Instant>,
    /// Rounds that are over, each of the trace's span.
    pub rounds: u64,
    /// From the beginning of the timeline, at most the span.
    pub within: Duration,
    /// It does not repeat, and its end has come.
    pub ended: bool,
}

impl Follower {
    /// Begins at `now`, unless it waits for a packet.
    pub(crate) fn new(trace: Trace, now: Instant) -> Self {
        let at_once = trace.start == TraceStart::AtOnce;
        let (cursors, rounds) = (Cursors::default(), None);
        let delivered = Delivered::default();
        let mut follower = Self { trace, rounds, cursors, left: 0, planned: false, delivered };
        if at_once {
            follower.begin(now);
        }
        follower
    }

    /// A packet arrives at `now`.
    pub(crate) fn begin_with_packet(&mut self, now: Instant) {
        if self.rounds.is_none() {
            self.begin(now);
        }
    }

    fn begin(&mut self, now: Instant) {
        let Trace { schedule, repeat, .. } = &self.trace;
        let span = schedule.span();
        let rounds = Rounds::new(now, self.trace.offset_within(), span, *repeat);
        self.rounds = Some(rounds);
        // What comes at this instant comes before the packet, or has left its values already.
        match &schedule.course {
            Laid::Steps(tracks) => self.cursors.seek(tracks, &rounds, now, true),
            Laid::Deliveries { at, .. } => self.cursors.delivery.seek(at, &rounds, now, true),
        }
    }

    /// When the next step comes, whatever it sets.
    pub(crate) fn next_step(&self) -> Option<Instant> {
        let Cursors { rate, delay, loss, .. } = &self.cursors;
        [rate.at(), delay.at(), loss.at()].into_iter().flatten().min()
    }

    /// When the next step comes that sets a rate.
    pub(crate) fn next_rate(&self) -> Option<Instant> {
        self.cursors.rate.at()
    }

    /// When the next step comes that sets a delay.
    pub(crate) fn next_delay(&self) -> Option<Instant> {
        self.cursors.delay.at()
    }

    /// When the next opportunity comes that has not been passed.
    pub(crate) fn next_delivery(&self) -> Option<Instant> {
        self.cursors.delivery.at()
    }

    /// Nanobits that rates carry from `from`, which is not before a step that sets one, up to `to`.
    pub(crate) fn carried(&self, from: Instant, to: Instant) -> u128 {
        let tracks = self.tracks().zip(self.rounds.as_ref());
        tracks.map_or(0, |(tracks, rounds)| tracks.rates.between(rounds, from, to))
    }

    /// Whether steps before `at` leave an unlimited rate; one is passed by then.
    pub(crate) fn is_unlimited_before(&self, at: Instant) -> bool {
        let Some((tracks, rounds)) = self.tracks().zip(self.rounds.as_ref()) else { return false };
        let (entries, mut cursor) = (tracks.rates.track().entries(), self.cursors.rate);
        cursor.seek(entries, rounds, at, false);
        cursor.passed(entries).is_some_and(|entry| entry.value == Rate::UNLIMITED)
    }

    /// The first time at which rates have carried so many nanobits since `from`, which is not
    /// before a step that sets one, or an unlimited rate is reached; `None` if never.
    pub(crate) fn reach(&self, from: Instant, nanobits: u128) -> Option<Instant> {
        self.tracks()?.rates.reach(self.rounds.as_ref()?, from, nanobits)
    }

    /// Passes the steps up to `to`, those at it where it is `inclusive`. `None` where there is none.
    #[inline]
    pub(crate) fn pass(&mut self, to: Instant, inclusive: bool) -> Option<Passed> {
        let Cursors { rate, delay, loss, .. } = &self.cursors;
        let passes = [rate, delay, loss].map(|cursor| cursor.passes(to, inclusive));
        if passes == [false; 3] { None } else { self.pass_some(passes, to, inclusive) }
    }

    #[inline(never)]
    fn pass_some(
        &mut self,
        [rate, delay, loss]: [bool; 3],
        to: Instant,
        inclusive: bool,
    ) -> Option<Passed> {
        let (Laid::Steps(tracks), Some(rounds)) = (&self.trace.schedule.course, &self.rounds)
        else {
            return None;
        };
        let cursors = &mut self.cursors;
        let mut passed = Passed::default();
        if rate && let Some(first) = cursors.rate.at() {
            let entries = tracks.rates.track().entries();
            cursors.rate.seek(entries, rounds, to, inclusive);
            passed.values.rate = cursors.rate.passed(entries).map(|entry| entry.value);
            passed.first = first;
            passed.carried = tracks.rates.between(rounds, first, to);
        }
        if delay {
            let entries = tracks.delays.entries();
            cursors.delay.seek(entries, rounds, to, inclusive);
            passed.values.delay = cursors.delay.passed(entries).map(|entry| entry.value);
        }
        if loss {
            let entries = tracks.losses.entries();
            cursors.loss.seek(entries, rounds, to, inclusive);
            passed.values.loss = cursors.loss.passed(entries).map(|entry| entry.value);
        }
        Some(passed)
    }

    /// What the steps up to `to` that have not been passed will leave.
    pub(crate) fn values_to_pass(&self, to: Instant) -> Values {
        let (Some(tracks), Some(rounds)) = (self.tracks(), &self.rounds) else {
            return Values::default();
        };
        let Cursors { rate, delay, loss, .. } = &self.cursors;
        Values {
            rate: rate.value_to_pass(tracks.rates.track().entries(), rounds, to),
            delay: delay.value_to_pass(tracks.delays.entries(), rounds, to),
            loss: loss.value_to_pass(tracks.losses.entries(), rounds, to),
        }
    }

    /// Where more than [`EACH`] steps that set a rate are to be passed up to `to`: the time of the
    /// one so many before it.
    pub(crate) fn far_before(&self, to: Instant) -> Option<Instant> {
        let (tracks, rounds) = (self.tracks()?, self.rounds.as_ref()?);
        let track = tracks.rates.track();
        let (entries, each) = (track.entries(), EACH as u128);
        let Place { round, within } = rounds.place(to);
        let all = |index: usize| index as u128;
        let passed = round.saturating_mul(all(entries.len())) + all(track.count_through(within));
        let far = passed.checked_sub(each)?;
        let (round, index) = (far / all(entries.len()), far % all(entries.len()));
        let within = entries.get(usize::try_from(index).ok()?)?.at;
        let far = rounds.instant(Place { round, within })?;
        (self.next_rate()? < far).then_some(far)
    }

    /// Passes the opportunities of which the next comes at `now`; the bytes that they carry.
    pub(crate) fn take_delivery(&mut self, now: Instant) -> u64 {
        let (Laid::Deliveries { at, opportunity, .. }, Some(rounds)) =
            (&self.trace.schedule.course, &self.rounds)
        else {
            return 0;
        };
        let cursor = &mut self.cursors.delivery;
        let delivery = at.get(cursor.index()).filter(|_| cursor.at() == Some(now));
        let Some(&Delivery { count, .. }) = delivery else { return 0 };
        cursor.step(at, rounds);
        u64::from(count) * u64::from(opportunity.bytes)
    }

    /// Opportunities up to `to` find nothing: they are wasted.
    pub(crate) fn waste_deliveries(&mut self, to: Instant) {
        let (Laid::Deliveries { at, .. }, Some(rounds)) =
            (&self.trace.schedule.course, &self.rounds)
        else {
            return;
        };
        if self.cursors.delivery.passes(to, true) {
            self.cursors.delivery.seek(at, rounds, to, true);
        }
    }

    /// So many bytes of the opportunities of one instant were used, of which the last may be so in
    /// part.
    pub(crate) fn count_used(&mut self, bytes: u64) {
        let Some(opportunity) = self.trace.schedule.opportunity() else { return };
        self.delivered.used += bytes.div_ceil(opportunity.bytes.into());
    }

    /// Opportunities that came since it began, those at `now`, up to which all decisions were
    /// taken, included.
    pub(crate) fn delivered(&self, now: Instant) -> Delivered {
        let Delivered { used, .. } = self.delivered;
        let (Laid::Deliveries { at, tally, .. }, Some(rounds)) =
            (&self.trace.schedule.course, &self.rounds)
        else {
            return Delivered::default();
        };
        let start = Place { round: 0, within: self.trace.offset_within() };
        // What comes at the instant at which it begins is before it.
        let came = tally.through(at, rounds.place(now)) - tally.through(at, start);
        let wasted = u64::try_from(came.saturating_sub(used.into())).unwrap_or(u64::MAX);
        Delivered { used, wasted }
    }

    /// Where it is at `now`.
    pub(crate) fn position(&self, now: Instant) -> Position {
        let span = self.trace.schedule.span();
        let Some(rounds) = &self.rounds else {
            let within = self.trace.offset_within();
            return Position { begun: None, rounds: 0, within, ended: false };
        };
        let Place { round, within } = rounds.place(now);
        let start = Place { round: 0, within: self.trace.offset_within() };
        Position {
            begun: rounds.instant(start),
            rounds: u64::try_from(round).unwrap_or(u64::MAX),
            within: within.min(span),
            ended: !rounds.repeats() && within >= span,
        }
    }

    /// Whether it makes single deliveries.
    pub(crate) fn delivers(&self) -> bool {
        matches!(self.trace.schedule.course, Laid::Deliveries { .. })
    }

    fn tracks(&self) -> Option<&Tracks> {
        self.trace.schedule.tracks()
    }
}

impl Cursors {
    fn seek(&mut self, tracks: &Tracks, rounds: &Rounds, to: Instant, inclusive: bool) {
        self.rate.seek(tracks.rates.track().entries(), rounds, to, inclusive);
        self.delay.seek(tracks.delays.entries(), rounds, to, inclusive);
        self.loss.seek(tracks.losses.entries(), rounds, to, inclusive);
    }
}

impl Trace {
    /// The offset within the span.
    fn offset_within(&self) -> Duration {
        // The span is above 0.
        Duration::from_nanos(self.offset.as_nanos() % self.schedule.span().as_nanos())
    }

    /// The values with which a link begins.
    pub(crate) fn first_values(&self) -> Values {
        self.schedule.values_at(self.offset_within())
    }
}

/// Steps that a discipline with tokens of its own is shown one by one after it was idle, so that it
/// gains what each of them gives. Of any before these only the last is shown: by then its bucket is
/// full, or would have been.
const EACH: usize = 1_024;
