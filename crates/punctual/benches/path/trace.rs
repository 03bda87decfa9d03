//! A Mahimahi trace: packets that wait leave one by one at its opportunities. That each due time is
//! one is exact, and tested in virtual time; here it is how late they left.

use std::fs;

use anyhow::Result;

use crate::figures::{Table, number};
use crate::stage::{Load, PORT, Stage, Way, traffic};

pub(crate) fn measure(stage: &Stage, pairs: usize) -> Result<()> {
    let title = "trace: Mahimahi, 12 Mbit/s in ones and threes, strict, 40 Mbit/s offered, 10 s";
    let columns = ["departures", "wasted", "p50 us", "p99 us", "max us", "within 50 us"];
    let mut table = Table::begin(title, &columns);
    let path = stage.log().with_extension("mahimahi");
    fs::write(&path, opportunities())?;
    let words = format!("trace={} limit=100p", path.display());
    let load = Load {
        peer: format!("udp-receive 0.0.0.0:{PORT} --idle 1s --duration 20s"),
        command: traffic(&format!("udp-send $PUNCTUAL_PEER:{PORT} --rate 40mbit --duration 10s")),
        until_peer_ends: true,
    };
    for _ in 0..pairs {
        let outcome = stage.run(&Way::Logged { precision: "strict", both: &words }, &load)?;
        stage.verify()?;
        let up = |name| number(&outcome.report, &format!("/directions/up/{name}"));
        let departures = up("lateness/n")?;
        table.row(&[
            departures,
            up("opportunities/wasted")?,
            up("lateness/p50_ns")? / 1e3,
            up("lateness/p99_ns")? / 1e3,
            up("lateness/max_ns")? / 1e3,
            100.0 * up("lateness/lt_50us")? / departures,
        ]);
    }
    table.end();
    Ok(())
}

/// 1000 opportunities a second: one each ms, but every third ms has them all for three.
fn opportunities() -> String {
    let six = |ms: u64| [0, 1, 2, 5, 5, 5].map(|at| format!("{}\n", ms + at));
    (1..=3_000).step_by(6).flat_map(six).collect()
}
