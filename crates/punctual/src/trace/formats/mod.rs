//! The readers, one for each format.

pub(super) mod bytes_since;
pub(super) mod cellreplay;
pub(super) mod errant;
pub(super) mod fau;
pub(super) mod fcc;
pub(super) mod lens;
pub(super) mod mahimahi;
pub(super) mod netem_trace;
pub(super) mod ntrace;
pub(super) mod pairs;
pub(super) mod punctual;
pub(super) mod stamp;
pub(super) mod starlink;
pub(super) mod theaterq;
pub(super) mod ucc;
pub(super) mod wetlinks;

use punctual_sched::Duration;

use super::Hints;
use super::build::Parsed;
use super::error::{Missing, Problem};
use super::format::Format;
use super::lines::Line;
use crate::log::Direction;

/// The direction that was asked for, of a file that holds both.
fn direction(format: Format, hints: &Hints) -> Result<Direction, Problem> {
    hints.direction.ok_or_else(|| {
        let what = format!("is {format}, which holds both directions, expected one to be named");
        Problem::open(Missing::Direction, what)
    })
}

/// What one direction has of a round-trip time in ms.
fn one_way(line: &Line<'_>, rtt: &str, hints: &Hints) -> Result<Duration, Problem> {
    line.time(rtt, hints.of_rtt(1_000_000), "a round-trip time in ms")
}

impl Parsed {
    /// What a file of round-trip times cannot say, unless it was told.
    fn warn_of_rtt(self, hints: &Hints) -> Self {
        let halved = "round-trip times are halved: the file does not tell the two ways apart";
        self.warn_if(hints.rtt.is_none(), halved)
    }
}
