//! 5G and 4G logs of University College Cork ("Beyond Throughput").

use punctual_sched::trace::Step;

use super::super::Hints;
use super::super::build::{Parsed, Stamped};
use super::super::columns::Columns;
use super::super::error::Problem;
use super::super::format::Format;
use super::super::lines::Lines;
use super::direction;
use super::stamp::Stamps;
use crate::log::Direction;

/// Bit rates in kbit/s, `-` where there is none; seconds repeat and are shared.
pub(in super::super) fn read(mut lines: Lines<'_>, hints: &Hints) -> Result<Parsed, Problem> {
    let rate = match direction(Format::Ucc, hints)? {
        Direction::Up => "UL_bitrate",
        Direction::Down => "DL_bitrate",
    };
    let columns = Columns::find(&mut lines, ["Timestamp", rate])?;
    let (mut stamped, mut stamps) = (Stamped::default(), Stamps::default());
    while let Some(line) = lines.data()? {
        let [at, rate] = columns.of(&line)?;
        let missing = rate == "-" || rate.is_empty();
        let rate = (!missing).then(|| line.rate(rate, 1_000, "a rate in kbit/s or -"));
        let step = Step { at: stamps.read(&line, at)?, rate: rate.transpose()?, ..Step::default() };
        stamped.push(step).map_err(|what| line.wrong(what))?;
    }
    stamped.finish()
}
