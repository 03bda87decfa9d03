//! One TCP connection (cubic): through a link without bounds beside the bare path, and how well it
//! fills a link.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::figures::{Table, number};
use crate::rtt::in_turn;
use crate::stage::{Load, Outcome, PORT, Stage, Way, traffic};

pub(crate) fn measure(stage: &Stage, pairs: usize) -> Result<()> {
    if !allowed(stage) {
        println!("\ntcp: cubic is not allowed to an ordinary user here; with the kernel's default");
    }
    unlimited(stage, pairs)?;
    filled(stage, pairs)
}

fn unlimited(stage: &Stage, pairs: usize) -> Result<()> {
    let mut table =
        Table::begin("tcp: unlimited link, cubic, 5 s; Gbit/s", &["bare", "link", "ratio"]);
    let load = load(stage, "5s");
    for pair in 0..pairs {
        let bare = || stage.run(&Way::Bare { hold: false, tbf: None }, &load);
        let link = || stage.run(&Way::Link { precision: "balanced", both: "" }, &load);
        let (bare, link) = in_turn(pair, bare, link)?;
        let [bare, link] = [&bare, &link].map(|outcome| number(&outcome.peer, "/bps"));
        let (bare, link) = (bare? / 1e9, link? / 1e9);
        table.row(&[bare, link, link / bare]);
    }
    table.end();
    Ok(())
}

fn filled(stage: &Stage, pairs: usize) -> Result<()> {
    let title = "tcp: 100 Mbit/s, 2 x 30 ms, cubic, seconds 3 to 10; share of the link filled";
    let mut table = Table::begin(title, &["share", "dropped"]);
    for _ in 0..pairs {
        let way = Way::Link { precision: "balanced", both: "rate=100mbit delay=30ms" };
        let outcome = stage.run(&way, &load(stage, "10s"))?;
        let dropped =
            number(&outcome.report, "/directions/up/packets/dropped/limit").unwrap_or(0.0);
        table.row(&[share(&outcome)?, dropped]);
    }
    table.end();
    Ok(())
}

/// Bits that the link counted of what came in these seconds, of those it can carry. How many bytes
/// the link counts for a byte of payload is its own count over the whole run.
fn share(outcome: &Outcome) -> Result<f64> {
    let up = &outcome.report["directions"]["up"];
    let frames = number(up, "/bytes/out")? + FRAMING * number(up, "/packets/out")?;
    let per_byte = frames / number(&outcome.peer, "/bytes")?;
    let intervals = outcome.peer["intervals_bytes"].as_array().context("no intervals")?;
    let bytes: f64 = intervals.iter().skip(FROM).take(COUNT).filter_map(Value::as_f64).sum();
    let count = f64::from(u32::try_from(COUNT)?);
    Ok(bytes * per_byte * 8.0 / (count * 0.1 * 100e6))
}

/// Cubic is asked for by the sender's socket, which an ordinary user may only where it is among
/// `net.ipv4.tcp_allowed_congestion_control`; as a namespace's default nobody may elsewhere.
fn load(stage: &Stage, duration: &str) -> Load {
    let congestion = if allowed(stage) { "--congestion cubic" } else { "" };
    Load {
        peer: format!("tcp-receive 0.0.0.0:{PORT}"),
        command: traffic(&format!(
            "tcp-send $PUNCTUAL_PEER:{PORT} --duration {duration} {congestion}"
        )),
        until_peer_ends: true,
    }
}

fn allowed(stage: &Stage) -> bool {
    let allowed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    !stage.user() || allowed.is_ok_and(|names| names.split_whitespace().any(|name| name == "cubic"))
}

const FRAMING: f64 = 14.0;
/// Intervals of 100 ms: from 3 s to 9.9 s after the connection.
const FROM: usize = 30;
const COUNT: usize = 69;
