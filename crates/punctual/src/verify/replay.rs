//! One direction's replay: the link in virtual time, and the comparison of its fates.

use std::collections::VecDeque;

use punctual_sched::trace::Trace;
use punctual_sched::{Change, ConfigError, Instant, Link, Snapshot};

use super::fate::{Fate, nanos};
use super::outcome::{Difference, Gap, Near, Place};
use crate::log::{
    Arrival, Departure, DirectionHeader, Dropped, EndRecord, LaneId, Record, SnapshotRecord,
    Trailer,
};

/// A link fed from a log, its fates compared with those of the log.
#[derive(Debug)]
pub(super) struct Replay {
    lane: LaneId,
    /// Whether the direction has more lanes than this.
    divided: bool,
    link: Link,
    /// The latest time given to the link.
    now: Instant,
    /// A burst is one.
    arrivals: u64,
    departures: Stream<Departure>,
    dropped: Stream<Dropped>,
    /// A difference that is not one of two fates.
    other: Option<Difference>,
}

/// Fates of one kind from both sides, compared in their order.
#[derive(Debug)]
struct Stream<T> {
    /// Equal on both sides, the latest [`SHOWN`].
    before: VecDeque<T>,
    logged: VecDeque<T>,
    replayed: VecDeque<T>,
    compared_up_to: u64,
    /// The heads differ: nothing is compared any more, fates are kept to be shown.
    broken: bool,
}

/// Fates shown before and after a difference.
const SHOWN: usize = 3;

/// The most fates of one kind that one side may be ahead of the other: far more than a run can
/// hold, and a bound for a forged log.
const MAX_AHEAD: usize = 1 << 22;

impl Replay {
    /// Of a lane of the direction that `header` describes.
    pub(super) fn new(lane: LaneId, header: &DirectionHeader) -> Result<Self, ConfigError> {
        let now = Instant::from_nanos(header.start_ns);
        let seed = header.seeds().nth(lane.at()).unwrap_or(header.seed);
        let link = Link::new(&header.config()?, seed, now)?;
        Ok(Self {
            lane,
            divided: header.lane_count() > 1,
            link,
            now,
            arrivals: 0,
            departures: Stream::new(),
            dropped: Stream::new(),
            other: None,
        })
    }

    /// The next record of the log.
    pub(super) fn record(&mut self, record: &Record) {
        match record {
            Record::Arrival(arrival) => self.arrive(arrival),
            Record::Change { at, change } => self.change(change, *at),
            Record::Follow { at, trace } => self.follow(trace.as_deref(), *at),
            Record::Departure(departure) => {
                if self.has_arrived(departure) {
                    self.departures.log(*departure);
                }
            }
            Record::Drop(drop) => {
                if self.has_arrived(drop) {
                    self.dropped.log(*drop);
                }
            }
        }
    }

    /// The end of a complete log: all fates are there and the counters agree.
    pub(super) fn finish(&mut self, logged: &EndRecord) {
        self.step_to("end", Instant::from_nanos(logged.end_ns));
        self.link.advance(self.now);
        self.collect();
        self.departures.end(false);
        self.dropped.end(false);
        let replayed = SnapshotRecord::from(&self.link.snapshot());
        if replayed == logged.snapshot {
            return;
        }
        let pairs = logged.snapshot.counters().into_iter().zip(replayed.counters());
        let differing = pairs.into_iter().find(|(logged, replayed)| logged != replayed);
        let (field, logged, replayed) = match differing {
            Some(((name, logged), (other, replayed))) if name == other => {
                (name, logged.to_string(), replayed.to_string())
            }
            _ => ("counters".to_owned(), format!("{:?}", logged.snapshot), format!("{replayed:?}")),
        };
        self.differ(None, &field, logged, replayed);
    }

    /// The end of an incomplete log: the fates that it has are the first ones of the replay.
    pub(super) fn finish_prefix(&mut self) {
        let latest = [self.departures.latest_logged(), self.dropped.latest_logged()];
        // What the run decided after its last logged arrival, it decided before it was told of
        // the next one: going on to the time of a fate gives this fate.
        self.now = latest.into_iter().flatten().fold(self.now, Instant::max);
        self.link.advance(self.now);
        self.collect();
        self.departures.end(true);
        self.dropped.end(true);
    }

    /// The link's counters.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.link.snapshot()
    }

    /// Which lane it is of.
    pub(super) fn lane(&self) -> LaneId {
        self.lane
    }

    fn place(&self) -> Place {
        Place { direction: self.lane.direction, lane: self.divided.then_some(self.lane.index) }
    }

    /// What the log lacks of this lane.
    pub(super) fn gap(&self, trailer: Option<&Trailer>) -> Gap {
        let up_to = self.departures.compared_up_to.max(self.dropped.compared_up_to);
        let unwritten =
            trailer.and_then(|trailer| trailer.lane(self.lane)).map(|end| end.unwritten);
        Gap::new(self.place(), up_to, trailer.zip(unwritten))
    }

    pub(super) fn differs(&self) -> bool {
        self.other.is_some() || self.departures.broken || self.dropped.broken
    }

    /// Whether enough follows the difference to be shown.
    pub(super) fn is_shown(&self) -> bool {
        let (departures, dropped) = (&self.departures, &self.dropped);
        self.other.is_some()
            || departures.broken && departures.is_shown()
            || dropped.broken && dropped.is_shown()
    }

    pub(super) fn difference(&self) -> Option<Difference> {
        // `other` is set only while nothing else differs, so it comes first.
        self.other
            .clone()
            .or_else(|| self.departures.difference(self.place()))
            .or_else(|| self.dropped.difference(self.place()))
    }

    fn arrive(&mut self, arrival: &Arrival) {
        self.arrivals += 1;
        self.step_to("arrival", arrival.at);
        self.link.arrive(Arrival { at: self.now, ..*arrival }.packet(self.arrivals));
        self.collect();
    }

    fn change(&mut self, change: &Change, at: Instant) {
        self.step_to("change", at);
        if let Err(error) = self.link.change(change, self.now) {
            self.differ(None, "change", "accepted".to_owned(), format!("refused: {error}"));
        }
        self.collect();
    }

    fn follow(&mut self, trace: Option<&Trace>, at: Instant) {
        self.step_to("follow", at);
        if let Err(error) = self.link.follow(trace.cloned(), self.now) {
            self.differ(None, "follow", "accepted".to_owned(), format!("refused: {error}"));
        }
        self.collect();
    }

    /// The times given to a link never run backwards: a log in which they do was altered.
    fn step_to(&mut self, field: &str, at: Instant) {
        if at < self.now {
            let (logged, now) = (nanos(at), nanos(self.now));
            self.differ(Some(self.arrivals), field, logged, format!("not before {now}"));
        }
        self.now = self.now.max(at);
    }

    fn has_arrived<T: Fate>(&mut self, fate: &T) -> bool {
        let sequence = fate.sequence();
        let arrived = (1..=self.arrivals).contains(&sequence);
        if !arrived {
            let replayed = format!("no such packet: {} have arrived", self.arrivals);
            self.differ(Some(sequence), "fate", fate.describe(), replayed);
        }
        arrived
    }

    fn collect(&mut self) {
        while let Some(output) = self.link.poll() {
            let handle = match output {
                punctual_sched::Output::Depart { packet, .. }
                | punctual_sched::Output::Drop { packet, .. } => packet.handle,
            };
            match Record::fate(handle, &output, None) {
                Record::Departure(departure) => self.departures.replay(departure),
                Record::Drop(drop) => self.dropped.replay(drop),
                Record::Arrival(_) | Record::Change { .. } | Record::Follow { .. } => {}
            }
        }
    }

    /// Keeps the first difference.
    fn differ(&mut self, packet: Option<u64>, field: &str, logged: String, replayed: String) {
        if self.differs() {
            return;
        }
        self.other = Some(Difference {
            place: self.place(),
            packet,
            field: field.to_owned(),
            logged,
            replayed,
            near: self.departures.before_lines(),
        });
    }
}

impl<T: Fate> Stream<T> {
    fn new() -> Self {
        let empty = VecDeque::new;
        Self {
            before: empty(),
            logged: empty(),
            replayed: empty(),
            compared_up_to: 0,
            broken: false,
        }
    }

    fn log(&mut self, fate: T) {
        self.logged.push_back(fate);
        self.compare();
    }

    fn replay(&mut self, fate: T) {
        self.replayed.push_back(fate);
        self.compare();
    }

    /// Compares while both sides have a fate.
    fn compare(&mut self) {
        while !self.broken
            && let (Some(logged), Some(replayed)) = (self.logged.front(), self.replayed.front())
        {
            if logged.difference(replayed).is_some() {
                self.broken = true;
                return;
            }
            self.compared_up_to = self.compared_up_to.max(logged.sequence());
            self.before.extend(self.logged.pop_front());
            self.replayed.pop_front();
            if self.before.len() > SHOWN {
                self.before.pop_front();
            }
        }
        self.broken |= self.logged.len().max(self.replayed.len()) > MAX_AHEAD;
    }

    /// No more fates: whatever one side has alone is a difference. With `prefix` the log may end
    /// early.
    fn end(&mut self, prefix: bool) {
        self.broken |= !self.logged.is_empty() || !prefix && !self.replayed.is_empty();
    }

    fn latest_logged(&self) -> Option<Instant> {
        self.logged.iter().map(Fate::time).max()
    }

    fn is_shown(&self) -> bool {
        self.logged.len().min(self.replayed.len()) > SHOWN
    }

    fn difference(&self, place: Place) -> Option<Difference> {
        if !self.broken {
            return None;
        }
        let (logged, replayed) = (self.logged.front(), self.replayed.front());
        let pair = logged.zip(replayed).and_then(|(logged, replayed)| logged.difference(replayed));
        let or_none = |fate: Option<&T>| {
            fate.map_or_else(|| format!("no further {}", T::KIND), Fate::describe)
        };
        let (field, expected, found) =
            pair.unwrap_or_else(|| ("fate", or_none(logged), or_none(replayed)));
        let mut near = self.before_lines();
        let side = |side, fates: &VecDeque<T>| -> Vec<Near> {
            fates.iter().take(SHOWN + 1).map(|fate| Near::new(side, fate.describe())).collect()
        };
        near.extend(side("log", &self.logged));
        near.extend(side("replay", &self.replayed));
        Some(Difference {
            place,
            packet: logged.or(replayed).map(Fate::sequence),
            field: field.to_owned(),
            logged: expected,
            replayed: found,
            near,
        })
    }

    fn before_lines(&self) -> Vec<Near> {
        self.before.iter().map(|fate| Near::new("both", fate.describe())).collect()
    }
}
