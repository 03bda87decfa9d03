//! Round trips beyond twice the link's delay and beyond the bare path's own.

use anyhow::Result;

use crate::figures::{Table, number};
use crate::stage::{Load, Outcome, PORT, Stage, Way, traffic};

pub(crate) fn measure(stage: &Stage, pairs: usize) -> Result<()> {
    for precision in ["strict", "balanced", "eco"] {
        compare(stage, pairs, precision, &IPV4)?;
    }
    compare(stage, pairs, "strict", &IPV6)
}

struct Family {
    name: &'static str,
    any: &'static str,
    peer: &'static str,
}

fn compare(stage: &Stage, pairs: usize, precision: &str, family: &Family) -> Result<()> {
    let title = format!("rtt: {precision}, {}, 2 x 10 ms; p50 of 100 round trips, us", family.name);
    let mut table = Table::begin(&title, &["bare", "link", "beyond", "link p99"]);
    let load = Load {
        peer: format!("echo {}:{PORT}", family.any),
        command: traffic(&format!("rtt {}:{PORT} --count 100 --interval 30ms", family.peer)),
        ..Load::default()
    };
    // The same idle hold on both sides: root's strict has one, an ordinary user's polls instead.
    let hold = precision == "strict" && !stage.user();
    for pair in 0..pairs {
        let bare = || stage.run(&Way::Bare { hold, tbf: None }, &load);
        let link = || stage.run(&Way::Link { precision, both: "delay=10ms" }, &load);
        let (bare, link) = in_turn(pair, bare, link)?;
        let (before, after) = (percentile(&bare, "p50_ns")?, percentile(&link, "p50_ns")?);
        let beyond = after - before - TWICE_DELAY_US;
        table.row(&[before, after, beyond, percentile(&link, "p99_ns")?]);
    }
    table.end();
    Ok(())
}

fn percentile(outcome: &Outcome, name: &str) -> Result<f64> {
    Ok(number(&outcome.command, &format!("/round_trip/{name}"))? / 1e3)
}

/// Runs both, in an order that alternates from pair to pair.
pub(crate) fn in_turn<T>(
    pair: usize,
    first: impl FnOnce() -> Result<T>,
    second: impl FnOnce() -> Result<T>,
) -> Result<(T, T)> {
    if pair.is_multiple_of(2) {
        let first = first()?;
        return Ok((first, second()?));
    }
    let second = second()?;
    Ok((first()?, second))
}

const TWICE_DELAY_US: f64 = 20_000.0;
const IPV4: Family = Family { name: "IPv4", any: "0.0.0.0", peer: "$PUNCTUAL_PEER" };
const IPV6: Family = Family { name: "IPv6", any: "[::]", peer: "[$PUNCTUAL_PEER6]" };
