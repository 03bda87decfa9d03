//! Departures on time: 15 Mbit/s on a link of 20, strict, by the report's own buckets.

use anyhow::Result;

use crate::figures::{Table, number};
use crate::stage::{Load, PORT, Stage, Way, traffic};

pub(crate) fn measure(stage: &Stage, pairs: usize) -> Result<()> {
    let title = "lateness: strict, 15 of 20 Mbit/s, 10 s; % of departures";
    let columns = ["within 50 us", "within 1 ms", "above 2 ms", "p50 us", "p999 us", "max us"];
    let mut table = Table::begin(title, &columns);
    let load = Load {
        peer: format!("udp-receive 0.0.0.0:{PORT} --idle 1s"),
        command: traffic(&format!("udp-send $PUNCTUAL_PEER:{PORT} --rate 15mbit --duration 10s")),
        until_peer_ends: true,
    };
    for _ in 0..pairs {
        let outcome = stage.run(&Way::Link { precision: "strict", both: "rate=20mbit" }, &load)?;
        let at = |name| number(&outcome.report, &format!("/directions/up/lateness/{name}"));
        let percent = |count| 100.0 * count / at("n").unwrap_or(f64::NAN);
        let (soon, late) = (at("lt_50us")?, at("lt_1ms")?);
        table.row(&[
            percent(soon),
            percent(soon + late),
            percent(at("above_2ms")?),
            at("p50_ns")? / 1e3,
            at("p999_ns")? / 1e3,
            at("max_ns")? / 1e3,
        ]);
    }
    table.end();
    Ok(())
}
