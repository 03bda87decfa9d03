//! What a log says of a direction whose rate changes.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use punctual::log::{Direction, Entry, LogReader, Record};
use punctual_sched::{Duration, Instant};

/// Changes of rate and departures, up, in order.
pub(super) struct Course {
    changes: Vec<(Instant, u64)>,
    departures: Vec<Left>,
}

/// A departure.
struct Left {
    due: Instant,
    /// When it was released.
    at: Instant,
    bits: u64,
}

impl Course {
    pub(super) fn read(log: &Path) -> Result<Self> {
        let mut reader = LogReader::open(log)?;
        let mut course = Self { changes: Vec::new(), departures: Vec::new() };
        let mut bytes = HashMap::new();
        let mut sequence = 0;
        loop {
            let record = match reader.read()? {
                Entry::End(_) => return Ok(course),
                Entry::Record(lane, record) if lane.direction == Direction::Up => record,
                Entry::Record(..) => continue,
            };
            match record {
                Record::Arrival(arrival) => {
                    sequence += 1;
                    bytes.insert(sequence, u64::from(arrival.len));
                }
                Record::Change { at, change } => {
                    course.changes.extend(change.rate.map(|rate| (at, rate.as_bps())));
                }
                Record::Departure(left) => {
                    let late = left.lateness_ns.and_then(|ns| u64::try_from(ns).ok());
                    let at = left.due + Duration::from_nanos(late.unwrap_or(0));
                    // With the Ethernet header that the rate counts.
                    let bits = 8 * (bytes.remove(&left.sequence).unwrap_or(0) + 14);
                    course.departures.push(Left { due: left.due, at, bits });
                }
                Record::Drop(drop) => {
                    bytes.remove(&drop.sequence);
                }
                Record::Follow { .. } => {}
            }
        }
    }

    pub(super) fn changes(&self) -> usize {
        self.changes.len()
    }

    /// Microseconds from each time to what `what` finds after it, in order of size.
    pub(super) fn after(
        &self,
        times: &[Instant],
        what: impl Fn(&Self, Instant) -> Option<Instant>,
    ) -> Vec<f64> {
        let (Some(first), Some(last)) = (self.departures.first(), self.departures.last()) else {
            return Vec::new();
        };
        let mut all: Vec<f64> = times
            .iter()
            .filter(|&&time| time > first.due && time < last.due)
            .filter_map(|&time| what(self, time).map(|then| micros(then.since(time))))
            .collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// The event time of the change that was asked for at `time`: it may lie a little before, where
    /// arrivals of an earlier time were still to be looked at. Changes are further apart.
    pub(super) fn changed(&self, time: Instant) -> Option<Instant> {
        let apart = Duration::from_millis(10);
        let index = self.changes.partition_point(|change| change.0 + apart < time);
        self.changes.get(index).map(|change| change.0).filter(|&at| at < time + apart)
    }

    /// When the first packet after that change was due: it was in service, and the rest of it went
    /// at the new rate.
    pub(super) fn due_after_change(&self, time: Instant) -> Option<Instant> {
        self.first_after(self.changed(time)?).map(|left| left.due)
    }

    /// When it left.
    pub(super) fn left_after_change(&self, time: Instant) -> Option<Instant> {
        self.first_after(self.changed(time)?).map(|left| left.at)
    }

    fn first_after(&self, change: Instant) -> Option<&Left> {
        self.departures.get(self.departures.partition_point(|left| left.due <= change))
    }

    /// Bits carried after the first departure to the last, and what the rate carries in that time.
    #[expect(clippy::cast_precision_loss, reason = "a relative error of 2^-53")]
    pub(super) fn carried_and_integral(&self) -> (f64, f64) {
        let [first, .., last] = self.departures.as_slice() else { return (0.0, 0.0) };
        // The load has come to its end before the queue has: it is saturated until then.
        let carried: u64 = self.departures[1..].iter().map(|left| left.bits).sum();
        let mut integral = 0.0;
        let mut from = first.due;
        let mut rate = 20_000_000;
        for &(at, next) in self.changes.iter().chain([&(last.due, 0)]) {
            let until = at.clamp(from, last.due);
            integral += until.since(from).as_nanos() as f64 * rate as f64 / 1e9;
            (from, rate) = (until, next);
        }
        (carried as f64, integral)
    }

    /// How many windows of `span` that begin with a departure carry more than `rate` does, and one
    /// packet.
    pub(super) fn windows_over(&self, span: Duration, rate: u64, release: bool) -> usize {
        let time = |left: &Left| if release { left.at } else { left.due };
        let allowed = u128::from(rate) * u128::from(span.as_nanos()) / 1_000_000_000;
        let mut end = 0;
        let mut bits = 0;
        let mut over = 0;
        for (index, left) in self.departures.iter().enumerate() {
            while self.departures.get(end).is_some_and(|later| time(later) < time(left) + span) {
                bits += u128::from(self.departures[end].bits);
                end += 1;
            }
            over += usize::from(bits > allowed + u128::from(left.bits));
            if index < end {
                bits -= u128::from(left.bits);
            }
        }
        over
    }
}

#[expect(clippy::cast_precision_loss, reason = "some milliseconds")]
fn micros(span: Duration) -> f64 {
    span.as_nanos() as f64 / 1e3
}
