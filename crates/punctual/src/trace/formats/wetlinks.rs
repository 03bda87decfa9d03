//! WetLinks: iperf and ping from one site to a server, every few minutes.

use punctual_sched::Probability;
use punctual_sched::trace::Step;

use super::super::Hints;
use super::super::build::{Parsed, Stamped};
use super::super::columns::Columns;
use super::super::error::Problem;
use super::super::format::Format;
use super::super::lines::{Line, Lines, probability};
use super::stamp::Stamps;
use super::{direction, one_way};
use crate::log::Direction;

/// Throughput in bit/s.
pub(in super::super) fn iperf(lines: Lines<'_>, hints: &Hints) -> Result<Parsed, Problem> {
    let column = match direction(Format::WetlinksIperf, hints)? {
        Direction::Up => "upload",
        Direction::Down => "download",
    };
    read(lines, [column, column, column], |line, [rate, ..]| {
        let rate = (!rate.is_empty()).then(|| line.rate(rate, 1, "a rate in bit/s"));
        Ok(Step { rate: rate.transpose()?, ..Step::default() })
    })
}

/// Mean round-trip times in ms, half of them each way unless told, and lost packets of those sent.
pub(in super::super) fn ping(lines: Lines<'_>, hints: &Hints) -> Result<Parsed, Problem> {
    let parsed =
        read(lines, ["ping_avg", "packet_loss", "packets_send"], |line, [rtt, lost, sent]| {
            let rtt = (!rtt.is_empty()).then(|| one_way(line, rtt, hints));
            let loss = (!lost.is_empty() && !sent.is_empty()).then(|| loss(line, lost, sent));
            Ok(Step { delay: rtt.transpose()?, loss: loss.transpose()?, ..Step::default() })
        })?;
    Ok(parsed.warn_of_rtt(hints).warn("losses are of both ways together"))
}

fn read(
    mut lines: Lines<'_>,
    wanted: [&'static str; 3],
    step: impl Fn(&Line<'_>, [&str; 3]) -> Result<Step, Problem>,
) -> Result<Parsed, Problem> {
    let [a, b, c] = wanted;
    let columns = Columns::find(&mut lines, ["site_name", "timestamp_start", a, b, c])?;
    let (mut stamped, mut stamps) = (Stamped::default(), Stamps::default());
    let mut first: Option<String> = None;
    while let Some(line) = lines.data()? {
        let [site, at, a, b, c] = columns.of(&line)?;
        if first.get_or_insert_with(|| site.to_owned()) != site {
            return Err(line.wrong("another site, expected the lines of one"));
        }
        let step = Step { at: stamps.read(&line, at)?, ..step(&line, [a, b, c])? };
        stamped.push(step).map_err(|what| line.wrong(what))?;
    }
    stamped.finish()
}

fn loss(line: &Line<'_>, lost: &str, sent: &str) -> Result<Probability, Problem> {
    let sent = line.scaled(sent, 1, "packets sent")?;
    let lost = line.scaled(lost, 1, "packets lost")?;
    if sent == 0 || lost > sent {
        return Err(line.wrong(format!("{lost} of {sent} packets lost, expected at most all")));
    }
    Ok(probability(lost.into(), sent.into()).unwrap_or(Probability::ONE))
}
