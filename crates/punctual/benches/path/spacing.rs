//! How evenly packets leave a saturated link of 20 Mbit/s, by the receiver's kernel stamps.

use anyhow::Result;

use crate::figures::{Table, number};
use crate::stage::{Load, Outcome, PORT, Stage, Way, traffic};

pub(crate) fn measure(stage: &Stage, pairs: usize) -> Result<()> {
    let load = Load {
        peer: format!("udp-receive 0.0.0.0:{PORT} --idle 1s --link-rate 20mbit"),
        command: traffic(&format!("udp-send $PUNCTUAL_PEER:{PORT} --rate 40mbit --duration 5s")),
        until_peer_ends: true,
    };
    for precision in ["strict", "balanced"] {
        compare(stage, pairs, precision, &load)?;
    }
    Ok(())
}

fn compare(stage: &Stage, pairs: usize, precision: &str, load: &Load) -> Result<()> {
    let title = format!("spacing: {precision} and tbf, 20 Mbit/s offered 40, 5 s; error in us");
    let columns =
        ["tbf p50", "p90", "p99", "link p50", "p90", "p99", "p50 ratio", "p90 ratio", "cpu %"];
    let mut table = Table::begin(&title, &columns);
    for pair in 0..pairs {
        let tbf = || stage.run(&Way::Bare { hold: false, tbf: Some(TBF) }, load);
        let link = || stage.run(&Way::Link { precision, both: "rate=20mbit" }, load);
        let (tbf, link) = match crate::rtt::in_turn(pair, tbf, link) {
            Ok(both) => both,
            Err(error) if pair == 0 => {
                println!("SKIPPED, no tbf to compare with: {error:#}");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let (tbf, ours) = (errors(&tbf)?, errors(&link)?);
        let mut row = [tbf, ours].concat();
        row.extend([ours[0] / tbf[0], ours[1] / tbf[1], processor_share(&link)?]);
        table.row(&row);
    }
    table.end();
    Ok(())
}

fn errors(outcome: &Outcome) -> Result<[f64; 3]> {
    let error = &outcome.peer["spacing"]["error"];
    let [p50, p90, p99] = ["/p50_ns", "/p90_ns", "/p99_ns"].map(|at| number(error, at));
    Ok([p50? / 1e3, p90? / 1e3, p99? / 1e3])
}

/// Percent of one processor that the link's thread used.
pub(crate) fn processor_share(outcome: &Outcome) -> Result<f64> {
    let used = number(&outcome.report, "/run/threads/0/cpu_ns")?;
    Ok(100.0 * used / number(&outcome.report, "/run/duration_ns")?)
}

/// The limit is that of the link: 100 ms.
const TBF: &str = "rate 20mbit burst 10kb limit 250000";
