//! UDP packets of 1400 bytes per second through a link without bounds, and what is lost of 50,000
//! small ones per second.

use anyhow::Result;

use crate::figures::{Table, number};
use crate::rtt::in_turn;
use crate::stage::{Load, Outcome, PORT, Stage, Way, traffic};

pub(crate) fn measure(stage: &Stage, pairs: usize) -> Result<()> {
    unpaced(stage, pairs)?;
    small(stage)
}

/// As fast as the sender can: it does the work of the whole bare path itself, but of the link's only
/// the way to the queue.
fn unpaced(stage: &Stage, pairs: usize) -> Result<()> {
    let title = "udp: 1400 bytes, as fast as the sender can, 3 s; 1000 packets/s received";
    let columns = ["bare", "link", "ratio", "bare lost/100k", "link lost/100k"];
    let mut table = Table::begin(title, &columns);
    let load = load("--unpaced --duration 3s");
    for pair in 0..pairs {
        let bare = || stage.run(&Way::Bare { hold: false, tbf: None }, &load);
        let link = || stage.run(&Way::Link { precision: "balanced", both: "" }, &load);
        let (bare, link) = in_turn(pair, bare, link)?;
        let (before, after) = (Flow::of(&bare)?, Flow::of(&link)?);
        let ratio = after.thousands / before.thousands;
        table.row(&[before.thousands, after.thousands, ratio, before.lost, after.lost]);
    }
    table.end();
    Ok(())
}

fn small(stage: &Stage) -> Result<()> {
    let title = "udp: 50,000 packets of 100 bytes per second, 5 s, delay 20 ms";
    let columns = ["sent", "received", "lost", "receive buffer", "in receiver"];
    let mut table = Table::begin(title, &columns);
    let load = load("--packets 50000 --duration 5s --size 100");
    for _ in 0..5 {
        let way = Way::Link { precision: "balanced", both: "delay=20ms" };
        let outcome = stage.run(&way, &load)?;
        let sent = number(&outcome.command, "/sent")?;
        let received = number(&outcome.peer, "/received")?;
        let buffer = number(&outcome.report, "/directions/up/lost_before/receive_buffer")?;
        let in_socket = number(&outcome.peer, "/lost_in_socket")?;
        table.row(&[sent, received, sent - received, buffer, in_socket]);
    }
    table.end();
    Ok(())
}

struct Flow {
    /// Thousands of packets per second, as received.
    thousands: f64,
    /// Of 100,000 sent; the receiver's own losses are not the path's.
    lost: f64,
}

impl Flow {
    fn of(outcome: &Outcome) -> Result<Self> {
        let at = |name| number(&outcome.peer, name);
        let received = at("/received")?;
        let sent = number(&outcome.command, "/sent")?;
        let span = (at("/last_ns")? - at("/first_ns")?) / 1e9;
        let lost = (sent - received - at("/lost_in_socket")?) / sent * 1e5;
        Ok(Self { thousands: received / span / 1e3, lost })
    }
}

fn load(pace: &str) -> Load {
    Load {
        peer: format!("udp-receive 0.0.0.0:{PORT} --idle 1s"),
        command: traffic(&format!("udp-send $PUNCTUAL_PEER:{PORT} {pace}")),
        until_peer_ends: true,
    }
}
