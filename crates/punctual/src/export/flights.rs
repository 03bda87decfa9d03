//! Packets between their arrival and their fate.

use std::collections::{BTreeMap, VecDeque};

use super::error::ExportError;
use super::row::{Fate, Row};
use crate::log::{Arrival, Direction, Header, Record};

/// Joins each fate of a log with its arrival.
///
/// Holds the packets that the run held at that time, and no more. A duplicate may have its fate
/// after the packet itself, and the log does not say how many there are: so packets are kept for
/// another `keep` arrivals, as many as the slowest duplicate needs.
#[derive(Debug)]
pub(super) struct Flights {
    sides: [Side; 2],
    epoch_unix_ns: u64,
    peak: usize,
}

/// The packets of one direction.
#[derive(Debug, Default)]
struct Side {
    arrivals: u64,
    held: BTreeMap<u64, Arrival>,
    /// Those that have had their own fate, and wait for that of a duplicate.
    kept: BTreeMap<u64, Arrival>,
    /// Numbers in `kept`, in the order of their fates.
    order: VecDeque<u64>,
    keep: u64,
}

/// What a record is once it is joined with what came before.
#[derive(Clone, Copy, Debug)]
pub(super) enum Joined {
    /// A packet arrived.
    Arrived(u64, Arrival),
    /// A fate and its packet.
    Row(Row),
    /// A fate of a duplicate whose packet is not kept any more.
    Forgotten(u64),
    /// Parameters changed.
    Changed,
}

impl Flights {
    /// The most packets that are kept of one direction. No run holds as many; a forged log must
    /// not have more kept.
    pub(super) const MAX: usize = 1 << 22;

    /// Keeps packets for `keep` arrivals after their own fate, up and down.
    pub(super) fn new(header: &Header, keep: [u64; 2]) -> Self {
        let sides = keep.map(|keep| Side { keep, ..Side::default() });
        Self { sides, epoch_unix_ns: header.epoch.realtime_ns, peak: 0 }
    }

    /// The next record of the log.
    pub(super) fn join(
        &mut self,
        direction: Direction,
        record: &Record,
    ) -> Result<Joined, ExportError> {
        let side = &mut self.sides[direction.index()];
        let contradiction = |problem| ExportError::Contradiction { direction, problem };
        let (packet, copy, fate) = match record {
            Record::Change { .. } | Record::Follow { .. } => return Ok(Joined::Changed),
            Record::Arrival(arrival) => {
                side.arrive(*arrival).map_err(contradiction)?;
                self.peak = self.peak.max(side.held.len() + side.kept.len());
                return Ok(Joined::Arrived(side.arrivals, *arrival));
            }
            Record::Departure(fate) => (fate.sequence, fate.copy, Fate::Out(*fate)),
            Record::Drop(fate) => (fate.sequence, fate.copy, Fate::Dropped(*fate)),
        };
        let Some(arrival) = side.of(packet, copy).map_err(contradiction)? else {
            return Ok(Joined::Forgotten(packet));
        };
        let epoch_unix_ns = self.epoch_unix_ns;
        Ok(Joined::Row(Row { direction, packet, copy, arrival, epoch_unix_ns, fate }))
    }

    /// The packets without a fate when the log has ended, by number.
    pub(super) fn rest(&self, direction: Direction, fate: Fate) -> impl Iterator<Item = Row> {
        let epoch_unix_ns = self.epoch_unix_ns;
        self.sides[direction.index()].held.iter().map(move |(&packet, &arrival)| Row {
            direction,
            packet,
            copy: 0,
            arrival,
            epoch_unix_ns,
            fate,
        })
    }

    /// Arrivals so far.
    pub(super) fn arrivals(&self, direction: Direction) -> u64 {
        self.sides[direction.index()].arrivals
    }

    /// Packets without a fate so far.
    pub(super) fn held(&self, direction: Direction) -> usize {
        self.sides[direction.index()].held.len()
    }

    /// The most packets of one direction that were kept at one time.
    pub(super) fn peak(&self) -> usize {
        self.peak
    }
}

impl Side {
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
