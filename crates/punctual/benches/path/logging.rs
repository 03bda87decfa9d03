//! What a log costs: lateness with and without one, near the top packet rate.

use anyhow::Result;

use crate::figures::{Table, number};
use crate::stage::{Load, Outcome, PORT, Stage, Way, traffic};

pub(crate) fn measure(stage: &Stage, pairs: usize) -> Result<()> {
    let load = |offered: &str| Load {
        peer: format!("udp-receive 0.0.0.0:{PORT} --idle 1s --duration 20s"),
        command: traffic(&format!(
            "udp-send $PUNCTUAL_PEER:{PORT} {offered} --size 100 --duration 4s"
        )),
        until_peer_ends: true,
    };
    let both = "delay=2ms";
    let way = Way::Link { precision: "balanced", both };
    let top = packets(&stage.run(&way, &load("--unpaced"))?)? / 4.0;
    println!("\nlogging: top rate of 100 bytes unpaced {:.1} k packets/s", top / 1e3);
    for share in [0.8, 0.4] {
        let offered = load(&format!("--packets {:.0}", share * top));
        let title = format!("logging: {:.0} % of that, 4 s, delay 2 ms", 100.0 * share);
        let columns =
            ["p50 us", "p50 logged", "ratio", "p99 us", "p99 logged", "lost", "lost logged"];
        let mut table = Table::begin(&title, &columns);
        for pair in 0..pairs {
            let plain = || stage.run(&way, &offered);
            let logged = || stage.run(&Way::Logged { precision: "balanced", both }, &offered);
            let (plain, logged) = if pair % 2 == 0 {
                let plain = plain()?;
                (plain, logged()?)
            } else {
                let logged = logged()?;
                (plain()?, logged)
            };
            let [a, b] = [figures(&plain)?, figures(&logged)?];
            table.row(&[a[0], b[0], b[0] / a[0], a[1], b[1], a[2], b[2]]);
        }
        table.end();
    }
    Ok(())
}

fn packets(outcome: &Outcome) -> Result<f64> {
    number(&outcome.peer, "/received")
}

/// Lateness at the median and the 99th percentile in us, packets lost.
fn figures(outcome: &Outcome) -> Result<[f64; 3]> {
    let late = |name| number(&outcome.report, &format!("/directions/up/lateness/{name}"));
    let lost = number(&outcome.command, "/sent")? - packets(outcome)?;
    Ok([late("p50_ns")? / 1e3, late("p99_ns")? / 1e3, lost])
}
