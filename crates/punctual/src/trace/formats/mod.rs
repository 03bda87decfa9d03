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

/// Half of a round-trip time in ms.
fn half(line: &Line<'_>, rtt: &str) -> Result<Duration, Problem> {
    line.time(rtt, 500_000, "a round-trip time in ms")
}

/// What a file of round-trip times cannot say.
const HALVED: &str = "round-trip times are halved: the file does not tell the two ways apart";
