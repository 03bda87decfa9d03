//! What rates that change carry: sums over any time, and when a sum is reached, both exact and
//! found by searches, however many steps lie between.

use super::cursor::{Place, Rounds};
use super::track::Track;
use crate::time::{Duration, Instant};
use crate::units::Rate;

/// Rates over time.
///
/// What they carry is counted in nanobits (10^-9 bit): a rate of `r` bit/s carries exactly `r` of
/// them in a nanosecond. An unlimited rate carries what waits as soon as it begins; to sums, which
/// are what a token bucket gains, it adds nothing, as a live change to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rates {
    track: Track<Rate>,
    /// Nanobits from the first entry up to each [`BLOCK`]th.
    sums: Vec<u128>,
    /// Indices of entries with an unlimited rate.
    unlimited: Vec<usize>,
    span: Duration,
    /// Nanobits of a whole round, at the last rate before the first entry.
    round: u128,
}

impl Rates {
    pub(super) fn new(mut track: Track<Rate>, span: Duration) -> Self {
        track.shrink();
        let entries = track.entries();
        let mut sums = Vec::with_capacity(entries.len() / BLOCK + 1);
        let mut unlimited = Vec::new();
        let mut sum = 0;
        for (index, entry) in entries.iter().enumerate() {
            if index.is_multiple_of(BLOCK) {
                sums.push(sum);
            }
            if entry.value == Rate::UNLIMITED {
                unlimited.push(index);
            }
            let end = entries.get(index + 1).map_or(span, |next| next.at);
            sum += carried(entry.value, end.saturating_sub(entry.at));
        }
        let mut rates = Self { track, sums, unlimited, span, round: 0 };
        rates.round = rates.sum(span);
        rates
    }

    pub(super) fn track(&self) -> &Track<Rate> {
        &self.track
    }

    pub(super) fn has_unlimited(&self) -> bool {
        !self.unlimited.is_empty()
    }

    /// Nanobits of a whole round.
    pub(super) fn of_round(&self) -> u128 {
        self.round
    }

    /// Nanobits between two times, of which the first is not before the first entry.
    pub(super) fn between(&self, rounds: &Rounds, from: Instant, to: Instant) -> u128 {
        let total = |at: Instant| {
            let place = rounds.place(at);
            place.round * self.round + self.sum(place.within)
        };
        total(to).saturating_sub(total(from))
    }

    /// The first time not before `from` up to which `wanted` nanobits are carried since; `from` is
    /// not before the first entry. `None` if never.
    pub(super) fn reach(&self, rounds: &Rounds, from: Instant, wanted: u128) -> Option<Instant> {
        let Place { mut round, mut within } = rounds.place(from);
        let mut wanted = wanted;
        loop {
            let before = self.sum(within);
            if let Some(within) = self.reach_in_round(within, before + wanted, rounds.repeats()) {
                return rounds.instant(Place { round, within });
            }
            if !rounds.repeats() {
                return None;
            }
            wanted -= self.round - before;
            (round, within) = (round + 1, Duration::ZERO);
            if !self.has_unlimited() {
                // Whole rounds pass that do not suffice.
                let whole = (wanted - 1).checked_div(self.round)?;
                (round, wanted) = (round + whole, wanted - whole * self.round);
            }
        }
    }

    /// The first time in a round, not before `from`, at which the sum since the round's beginning
    /// is `total`; `None` if it is not in this round. A round that `repeats` ends at the span.
    fn reach_in_round(&self, from: Duration, total: u128, repeats: bool) -> Option<Duration> {
        let entries = self.track.entries();
        // Before the first entry the last rate of the round before holds.
        let (first, last) = (entries.first()?, entries.last()?);
        if from < first.at {
            if last.value == Rate::UNLIMITED {
                return Some(from);
            }
            if self.head() >= total {
                return time_for(last.value, total).map(Duration::from_nanos);
            }
        }
        let segment = self.track.count_through(from).max(1) - 1;
        let free = self.unlimited.partition_point(|&index| index < segment);
        let free = self.unlimited.get(free).filter(|&&index| self.sum_at(index) < total);
        if let Some(&index) = free {
            return Some(entries[index].at.max(from));
        }
        let block = self.sums.partition_point(|sum| self.head() + sum < total).max(1) - 1;
        let start = segment.max(block * BLOCK);
        let mut sum = self.sum_at(start);
        for (index, entry) in entries.iter().enumerate().skip(start) {
            let end = entries.get(index + 1).map(|next| next.at);
            let end = end.or_else(|| repeats.then_some(self.span));
            let carries = end.map(|end| carried(entry.value, end.saturating_sub(entry.at)));
            if carries.is_none_or(|carries| sum + carries >= total) {
                let after = time_for(entry.value, total.saturating_sub(sum))?;
                let at = entry.at.as_nanos().checked_add(after)?;
                return Some(Duration::from_nanos(at).max(from));
            }
            sum += carries.unwrap_or(0);
        }
        None
    }

    /// Nanobits from the beginning of a round up to `within`, at the last rate before the first
    /// entry.
    fn sum(&self, within: Duration) -> u128 {
        let entries = self.track.entries();
        match self.track.count_through(within).checked_sub(1) {
            Some(index) => {
                let entry = &entries[index];
                self.sum_at(index) + carried(entry.value, within.saturating_sub(entry.at))
            }
            None => entries.last().map_or(0, |last| carried(last.value, within)),
        }
    }

    /// The same up to an entry.
    fn sum_at(&self, index: usize) -> u128 {
        let entries = self.track.entries();
        let block = index / BLOCK;
        let pairs = entries[block * BLOCK..=index].windows(2);
        let steps = pairs.map(|pair| carried(pair[0].value, pair[1].at.saturating_sub(pair[0].at)));
        self.head() + self.sums[block] + steps.sum::<u128>()
    }

    /// The same up to the first entry.
    fn head(&self) -> u128 {
        let entries = self.track.entries();
        let head = entries.first().zip(entries.last());
        head.map_or(0, |(first, last)| carried(last.value, first.at))
    }
}

/// Nanobits that a rate carries in `time`; none where it is unlimited.
fn carried(rate: Rate, time: Duration) -> u128 {
    u128::from(rate.finite_bps().unwrap_or(0)) * u128::from(time.as_nanos())
}

/// Nanoseconds that `rate` takes for so many nanobits, rounded up; `None` if it never carries them.
fn time_for(rate: Rate, nanobits: u128) -> Option<u64> {
    if nanobits == 0 {
        return Some(0);
    }
    u64::try_from(nanobits.div_ceil(rate.finite_bps()?.into())).ok()
}

/// Entries from one kept sum to the next.
const BLOCK: usize = 64;
