//! What an export says of a packet: its arrival and one fate.

use punctual_sched::Instant;

use crate::log::{Arrival, Departure, Direction, Dropped};

/// One fate of one packet. A packet has one, each of its duplicates another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The direction of the link.
    pub direction: Direction,
    /// Arrivals are numbered from 1 in each direction; where it has several lanes, the n-th of lane l
    /// (from 0) of k is number (n - 1) k + l + 1.
    pub packet: u64,
    /// 0 for the packet itself, 1 and up for its duplicates.
    pub copy: u8,
    /// The packet as it was handed to the link.
    pub arrival: Arrival,
    /// Nanoseconds since 1970 at link time 0.
    pub epoch_unix_ns: u64,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It left the link.
    Out(Departure),
    /// It was dropped.
    Dropped(Dropped),
    /// The run ended while it was held.
    Held,
    /// The log ends before its fate.
    Unknown,
}

impl Row {
    /// Link time as nanoseconds since 1970.
    pub fn unix_ns(&self, at: Instant) -> u64 {
        self.epoch_unix_ns.saturating_add(at.as_nanos())
    }

    /// The departure, if it did depart.
    pub fn departure(&self) -> Option<&Departure> {
        match &self.fate {
            Fate::Out(departure) => Some(departure),
            _ => None,
        }
    }

    /// The drop, if it was dropped.
    pub fn drop(&self) -> Option<&Dropped> {
        match &self.fate {
            Fate::Dropped(drop) => Some(drop),
            _ => None,
        }
    }

    /// When it was released: due time and lateness. `None` also for a packet that was due and
    /// never released, because the run ended.
    pub fn released(&self) -> Option<Instant> {
        self.departure().and_then(released)
    }

    /// From arrival to release, in nanoseconds: the sum of the parts.
    pub fn total_ns(&self) -> Option<i64> {
        self.released().map(|released| released.signed_since(self.arrival.at))
    }
}

impl Fate {
    /// The word in the column `fate`: `out`, the reason of the drop, `held`, `unknown`.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Out(_) => "out",
            Self::Dropped(drop) => drop.reason.name(),
            Self::Held => "held",
            Self::Unknown => "unknown",
        }
    }
}

/// When a departure was released, if it was.
pub(super) fn released(departure: &Departure) -> Option<Instant> {
    let lateness_ns = departure.lateness_ns?;
    Some(Instant::from_nanos(departure.due.as_nanos().saturating_add_signed(lateness_ns)))
}
