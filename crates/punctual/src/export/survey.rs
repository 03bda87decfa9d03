//! The first reading of a log: that it is whole, what it holds, and what its export will need.

use std::collections::BTreeMap;
use std::io::Read;

use punctual_sched::Instant;

use super::error::ExportError;
use super::flights::{Flights, Joined};
use super::row::{Fate, released};
use super::watch::Watch;
use crate::log::{
    CutOff, Direction, Ending, Entry, Header, LaneId, LogReader, Record, Trailer, not_written,
};

/// What a log holds. Nothing is written before all of a log has been read once: a damaged one
/// leaves no file, and what depends on the whole is known before the first row.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The header.
    pub header: Header,
    /// The trailer, `None` when the log was cut off.
    pub trailer: Option<Box<Trailer>>,
    /// Why it was, if it was.
    pub cut_off: CutOff,
    /// Bytes read: a log that still grows is exported up to there.
    pub bytes: u64,
    /// Up and down.
    pub directions: [Counts; 2],
    /// How much later than a record's own time the latest of the records before it may be, ns:
    /// what has to be kept to give records in order of their times.
    pub disorder_ns: u64,
    latest: Instant,
}

/// Records of one direction.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Packets given to the link, and their wire packets and bytes.
    pub arrivals: u64,
    /// Wire packets of these.
    pub segments: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Departures, duplicates included.
    pub departures: u64,
    /// Departures that were released.
    pub released: u64,
    /// Drops by reason, duplicates included.
    pub drops: BTreeMap<&'static str, u64>,
    /// Packets without a fate.
    pub held: u64,
    /// The most packets held at one time.
    pub held_peak: u64,
    /// Changes of parameters, each counted once although all lanes make it.
    pub changes: u64,
    /// The earliest and the latest time.
    pub span: Option<(Instant, Instant)>,
    /// Arrivals after which a packet's last duplicate has its fate.
    pub(super) keep: u64,
}

impl Survey {
    /// Reads all of a log.
    pub fn new<R: Read>(log: LogReader<R>) -> Result<Self, ExportError> {
        Self::watched(log, &mut Watch::none())
    }

    pub(super) fn watched<R: Read>(
        mut log: LogReader<R>,
        watch: &mut Watch,
    ) -> Result<Self, ExportError> {
        let header = log.header().clone();
        let mut flights = Flights::new(&header, [0; 2]);
        let mut survey = Self {
            header,
            trailer: None,
            cut_off: CutOff::Untold,
            bytes: 0,
            directions: Default::default(),
            disorder_ns: 0,
            latest: Instant::ZERO,
        };
        let ending = loop {
            match log.read()? {
                Entry::Record(lane, record) => {
                    survey.record(lane, &record, &mut flights)?;
                    watch.read(log.bytes_read())?;
                }
                Entry::End(ending) => break ending,
            }
        };
        for direction in Direction::BOTH {
            let counts = &mut survey.directions[direction.index()];
            counts.held = flights.rest(direction, Fate::Held).count() as u64;
        }
        survey.bytes = log.bytes_read();
        survey.trailer = match ending {
            Ending::Trailer(trailer) => Some(trailer),
            Ending::CutOff => {
                survey.cut_off = watch.cut_off(survey.bytes);
                None
            }
        };
        Ok(survey)
    }

    /// Records of a direction.
    pub fn of(&self, direction: Direction) -> &Counts {
        &self.directions[direction.index()]
    }

    /// Whether the log holds all of a direction.
    pub fn is_whole(&self, direction: Direction) -> bool {
        let end = self.trailer.as_ref().map(|trailer| trailer.direction(direction));
        end.is_some_and(|end| end.each().all(|lane| lane.unwritten == 0 && lane.end.is_some()))
    }

    /// Why the log does not hold all of the run, as a sentence; `None` when it does.
    pub fn lack(&self) -> Option<String> {
        let Some(trailer) = &self.trailer else {
            let cause = self.cut_off.cause();
            return Some(match self.cut_off {
                CutOff::Written | CutOff::Grown => cause.to_owned(),
                CutOff::Left | CutOff::Untold => format!("the log was cut off: {cause}"),
            });
        };
        if trailer.complete {
            return None;
        }
        let unwritten = trailer.up.all_unwritten().saturating_add(trailer.down.all_unwritten());
        let cause = match &trailer.error {
            Some(error) => error.as_str(),
            None if unwritten > 0 => "the ring was full",
            None => "the run broke off",
        };
        Some(format!("{} because {cause}", not_written(unwritten)))
    }

    fn record(
        &mut self,
        lane: LaneId,
        record: &Record,
        flights: &mut Flights,
    ) -> Result<(), ExportError> {
        let direction = lane.direction;
        let joined = flights.join(lane, record)?;
        let counts = &mut self.directions[direction.index()];
        let at = match record {
            Record::Arrival(arrival) => {
                counts.arrivals += 1;
                counts.segments += u64::from(arrival.segments);
                counts.bytes = counts.bytes.saturating_add(arrival.len.into());
                counts.held_peak = counts.held_peak.max(flights.held(direction) as u64);
                Some(arrival.at)
            }
            Record::Departure(departure) => {
                counts.departures += 1;
                counts.released += u64::from(departure.lateness_ns.is_some());
                released(departure)
            }
            Record::Drop(drop) => {
                *counts.drops.entry(drop.reason.name()).or_default() += 1;
                Some(drop.at)
            }
            Record::Change { at, .. } | Record::Follow { at, .. } => {
                counts.changes += u64::from(lane.index == 0);
                Some(*at)
            }
        };
        if let Joined::Forgotten { packet, distance } = joined {
            counts.keep = counts.keep.max(distance);
            if distance > Flights::MAX as u64 {
                let problem = format!(
                    "a duplicate of packet {packet} has its fate {distance} arrivals later"
                );
                return Err(ExportError::Contradiction { direction, problem });
            }
        }
        if let Some(at) = at {
            let (first, last) = counts.span.unwrap_or((at, at));
            counts.span = Some((first.min(at), last.max(at)));
            self.disorder_ns = self.disorder_ns.max(self.latest.since(at).as_nanos());
            self.latest = self.latest.max(at);
        }
        Ok(())
    }
}
