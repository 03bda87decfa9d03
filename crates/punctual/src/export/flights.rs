//! Packets between their arrival and their fate.

use std::collections::{BTreeMap, VecDeque};

use super::error::ExportError;
use super::row::{Fate, Row};
use crate::log::{Arrival, Direction, Header, LaneId, Record};

/// Joins each fate of a log with its arrival.
///
/// Holds the packets that the run held at that time, and no more. A duplicate may have its fate
/// after the packet itself, and the log does not say how many there are: so packets are kept for
/// another `keep` arrivals, as many as the slowest duplicate needs.
#[derive(Debug)]
pub(super) struct Flights {
    /// By direction and the lane's index.
    sides: [Vec<Side>; 2],
    epoch_unix_ns: u64,
    peak: usize,
}

/// The packets of one lane.
#[derive(Debug, Default)]
struct Side {
    arrivals: u64,
    held: BTreeMap<u64, Arrival>,
    /// Those that have had their own fate, and wait for that of a duplicate.
    kept: BTreeMap<u64, Arrival>,
    /// Numbers in `kept`, in the order of their fates.
    order: VecDeque<u64>,
    keep: u64,
    /// Which lane of how many.
    lane: u64,
    lanes: u64,
}

/// What a record is once it is joined with what came before.
#[derive(Clone, Copy, Debug)]
pub(super) enum Joined {
    /// A packet arrived.
    Arrived(u64, Arrival),
    /// A fate and its packet.
    Row(Row),
    /// A fate of a duplicate whose packet is not kept any more.
    Forgotten {
        /// The packet.
        packet: u64,
        /// How many have arrived since, this one included.
        distance: u64,
    },
    /// Parameters changed.
    Changed,
}

impl Flights {
    /// The most packets that are kept of one lane. No run holds as many; a forged log must
    /// not have more kept.
    pub(super) const MAX: usize = 1 << 22;

    /// Keeps packets for `keep` arrivals after their own fate, up and down.
    pub(super) fn new(header: &Header, keep: [u64; 2]) -> Self {
        let sides = header.for_lanes(|lane| {
            let lanes = header.direction(lane.direction).lane_count() as u64;
            let keep = keep[lane.direction.index()];
            Side { keep, lanes, lane: u64::from(lane.index), ..Side::default() }
        });
        Self { sides, epoch_unix_ns: header.epoch.realtime_ns, peak: 0 }
    }

    /// The next record of the log.
    pub(super) fn join(&mut self, lane: LaneId, record: &Record) -> Result<Joined, ExportError> {
        let direction = lane.direction;
        let side = &mut self.sides[direction.index()][lane.at()];
        let contradiction = |problem| ExportError::Contradiction { direction, problem };
        let (packet, copy, fate) = match record {
            Record::Change { .. } | Record::Follow { .. } => return Ok(Joined::Changed),
            Record::Arrival(arrival) => {
                side.arrive(*arrival).map_err(contradiction)?;
                self.peak = self.peak.max(side.held.len() + side.kept.len());
                return Ok(Joined::Arrived(side.number(side.arrivals), *arrival));
            }
            Record::Departure(fate) => (fate.sequence, fate.copy, Fate::Out(*fate)),
            Record::Drop(fate) => (fate.sequence, fate.copy, Fate::Dropped(*fate)),
        };
        let Some(arrival) = side.of(packet, copy).map_err(contradiction)? else {
            let distance = side.arrivals - packet + 1;
            return Ok(Joined::Forgotten { packet: side.number(packet), distance });
        };
        let packet = side.number(packet);
        let epoch_unix_ns = self.epoch_unix_ns;
        Ok(Joined::Row(Row { direction, packet, copy, arrival, epoch_unix_ns, fate }))
    }

    /// The packets without a fate when the log has ended, by number.
    pub(super) fn rest(&self, direction: Direction, fate: Fate) -> impl Iterator<Item = Row> {
        let epoch_unix_ns = self.epoch_unix_ns;
        let held = |side: &'_ Side| -> Vec<(u64, Arrival)> {
            side.held.iter().map(|(&packet, &arrival)| (side.number(packet), arrival)).collect()
        };
        let mut held = self.sides[direction.index()].iter().map(held).collect::<Vec<_>>().concat();
        held.sort_unstable_by_key(|(packet, _)| *packet);
        held.into_iter().map(move |(packet, arrival)| Row {
            direction,
            packet,
            copy: 0,
            arrival,
            epoch_unix_ns,
            fate,
        })
    }

    /// Packets without a fate so far.
    pub(super) fn held(&self, direction: Direction) -> usize {
        self.sides[direction.index()].iter().map(|side| side.held.len()).sum()
    }

    /// The most packets of one lane that were kept at one time.
    pub(super) fn peak(&self) -> usize {
        self.peak
    }
}

impl Side {
    /// The number that an export gives to packet `n` of this lane: lanes take turns, so that each
    /// packet of a direction has its own, and its remainder tells the lane.
    fn number(&self, n: u64) -> u64 {
        n.saturating_sub(1).saturating_mul(self.lanes).saturating_add(self.lane + 1)
    }

    fn arrive(&mut self, arrival: Arrival) -> Result<(), String> {
        if self.held.len() + self.kept.len() >= Flights::MAX {
            return Err(format!("more than {} packets are held at once", Flights::MAX));
        }
        self.arrivals += 1;
        self.held.insert(self.arrivals, arrival);
        let oldest = self.arrivals.saturating_sub(self.keep);
        while let Some(packet) = self.order.pop_front_if(|packet| *packet < oldest) {
            self.kept.remove(&packet);
        }
        Ok(())
    }

    /// The arrival of a packet that has a fate, `None` when it is not kept any more.
    fn of(&mut self, packet: u64, copy: u8) -> Result<Option<Arrival>, String> {
        if !(1..=self.arrivals).contains(&packet) {
            let arrivals = self.arrivals;
            return Err(format!("packet {packet} has a fate, and {arrivals} have arrived"));
        }
        if copy > 0 {
            return Ok(self.held.get(&packet).or_else(|| self.kept.get(&packet)).copied());
        }
        let Some(arrival) = self.held.remove(&packet) else {
            return Err(format!("packet {packet} has a second fate"));
        };
        if self.keep > 0 {
            self.kept.insert(packet, arrival);
            self.order.push_back(packet);
        }
        Ok(Some(arrival))
    }
}
