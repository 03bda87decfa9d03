//! What a replay found, in words and in JSON.

use std::fmt;

use serde_json::{Value, json};

use crate::log::{CutOff, Direction, ReadError, Trailer, not_written};

/// What a replay found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every fate is the same.
    Identical {
        /// Wire packets that arrived, of both directions.
        packets: u64,
        /// Wire packets that were dropped, of both directions.
        drops: u64,
        /// Wire packets that left with `Mark::Ce`, of both directions.
        marks: u64,
    },
    /// The first fate that is not.
    Different(Difference),
    /// Everything in the log is the same, but the log does not hold the whole run.
    Incomplete(Vec<Gap>),
}

/// Where in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The direction.
    pub direction: Direction,
    /// Its lane, where it has several.
    pub lane: Option<u8>,
}

/// The first difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where.
    pub place: Place,
    /// The packet's number in its lane, from 1; `None` when it is about no packet.
    pub packet: Option<u64>,
    /// What differs.
    pub field: String,
    /// Its value in the log.
    pub logged: String,
    /// Its value in the replay.
    pub replayed: String,
    /// Fates around it, in their order.
    pub near: Vec<Near>,
}

/// A fate beside a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    /// `both` (before the difference), `log` or `replay`.
    pub side: &'static str,
    /// The fate in words.
    pub fate: String,
}

/// What an incomplete log lacks of one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Which.
    pub place: Place,
    /// The highest packet number with a fate in the log.
    pub up_to: u64,
    /// Records that were not written; `None` when nobody was left to count them.
    pub unwritten: Option<u64>,
    /// The end of a sentence that begins "not written because".
    pub cause: String,
}

impl Outcome {
    /// Exit status: 0 only for identical.
    pub fn code(&self) -> u8 {
        u8::from(!matches!(self, Self::Identical { .. }))
    }

    /// The outcome as an object of schema `punctual.verify/1`.
    pub fn to_json(&self) -> Value {
        let mut object = match self {
            Self::Identical { packets, drops, marks } => json!({
                "outcome": "identical", "packets": packets, "drops": drops, "marks": marks,
            }),
            Self::Different(difference) => json!({
                "outcome": "different",
                "direction": difference.place.direction.name(),
                "lane": difference.place.lane,
                "packet": difference.packet,
                "field": difference.field,
                "log": difference.logged,
                "replay": difference.replayed,
                "near": difference.near.iter()
                    .map(|near| json!({ "side": near.side, "fate": near.fate }))
                    .collect::<Vec<_>>(),
            }),
            Self::Incomplete(gaps) => json!({
                "outcome": "incomplete",
                "directions": gaps.iter().map(Gap::to_json).collect::<Vec<_>>(),
            }),
        };
        object["schema"] = SCHEMA.into();
        object
    }
}

/// The object for a file that cannot be read.
pub(super) fn unreadable(error: &ReadError) -> Value {
    json!({ "schema": SCHEMA, "outcome": "unreadable", "error": error.to_string() })
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identical { packets, drops, marks } => {
                write!(f, "identical: {packets} packets, {drops} drops, {marks} marks")
            }
            Self::Different(difference) => difference.fmt(f),
            Self::Incomplete(gaps) => {
                for (at, gap) in gaps.iter().enumerate() {
                    let newline = if at == 0 { "" } else { "\n" };
                    write!(f, "{newline}incomplete: {gap}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "different: direction {}", self.place)?;
        if let Some(packet) = self.packet {
            write!(f, ", packet {packet}")?;
        }
        write!(f, ", {}: log {}, replay {}", self.field, self.logged, self.replayed)?;
        for near in &self.near {
            write!(f, "\n  {:6}  {}", near.side, near.fate)?;
        }
        Ok(())
    }
}

/// The direction's name, and the lane where there are several.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.direction.name())?;
        self.lane.map_or(Ok(()), |lane| write!(f, ", lane {lane}"))
    }
}

impl Near {
    pub(super) fn new(side: &'static str, fate: String) -> Self {
        Self { side, fate }
    }
}

impl Gap {
    /// Of a lane compared up to packet number `up_to`, of which a trailer counts the records that
    /// were not written.
    pub(super) fn new(place: Place, up_to: u64, trailer: Option<(&Trailer, u64)>) -> Self {
        let Some((trailer, unwritten)) = trailer else {
            let cause = CutOff::Untold.cause().to_owned();
            return Self { place, up_to, unwritten: None, cause };
        };
        let cause = match &trailer.error {
            Some(error) => error.clone(),
            None if unwritten > 0 => "the ring was full".to_owned(),
            None => "the run broke off before it ended this direction".to_owned(),
        };
        Self { place, up_to, unwritten: Some(unwritten), cause }
    }

    /// Of a log whose file tells more: where it has no trailer, why.
    pub(super) fn of_cut_off(self, cut_off: CutOff) -> Self {
        match self.unwritten {
            None => Self { cause: cut_off.cause().to_owned(), ..self },
            Some(_) => self,
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "direction": self.place.direction.name(),
            "lane": self.place.lane,
            "identical_up_to_packet": self.up_to,
            "unwritten": self.unwritten,
            "cause": self.cause,
        })
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (up_to, place) = (self.up_to, self.place);
        write!(f, "identical up to packet {up_to} of direction {place}; ")?;
        match self.unwritten {
            Some(unwritten) => write!(f, "{}", not_written(unwritten))?,
            None => f.write_str("what came after was not written")?,
        }
        write!(f, " because {}", self.cause)
    }
}

const SCHEMA: &str = "punctual.verify/1";
