//! The rate at the receiver: bits after the first packet over the time between the first and the
//! last of the kernel's stamps.

use anyhow::Result;

use crate::figures::{Table, number};
use crate::stage::{Load, PORT, Stage, Way, traffic};

pub(crate) fn measure(stage: &Stage) -> Result<()> {
    let columns =
        ["Mbit/s", "received", "lost", "measured", "error ppm", "error packets", "by due, ppm"];
    let mut table =
        Table::begin("rate: balanced, 5 s; offered twofold, at 1 Gbit/s 1.2 x", &columns);
    for case in &CASES {
        table.row(&case.measure(stage)?);
    }
    Ok(())
}

struct Case {
    link: &'static str,
    bps: f64,
    offered: &'static str,
    /// Packets that the sender hands over as one.
    burst: u16,
    /// Packets that leave the link as one: where it keeps bursts, a burst.
    unit: u16,
}

impl Case {
    fn measure(&self, stage: &Stage) -> Result<[f64; 7]> {
        let load = Load {
            peer: format!("udp-receive 0.0.0.0:{PORT} --idle 1s"),
            command: traffic(&format!(
                "udp-send $PUNCTUAL_PEER:{PORT} --rate {} --duration 5s --size 1472 --gso-segments {}",
                self.offered, self.burst
            )),
            until_peer_ends: true,
        };
        let outcome = stage.run(&Way::Link { precision: "balanced", both: self.link }, &load)?;
        let at = |name| number(&outcome.peer, name);
        let span = (at("/last_ns")? - at("/first_ns")?) / 1e9;
        let received = at("/received")?;
        let packets = received - f64::from(self.unit);
        let measured = packets * FRAME_BITS / span;
        let error = (measured - self.bps) / self.bps;
        let lost = at("/lost_in_socket")?;
        let late_packets = (span - packets * FRAME_BITS / self.bps) * self.bps / FRAME_BITS;
        // Where this is off as well, the sender paused and the link had nothing to send.
        let due = number(&outcome.report, "/directions/up/rate/frame_bps")?;
        let by_due = (due - self.bps) / self.bps * 1e6;
        Ok([self.bps / 1e6, received, lost, measured / 1e6, error * 1e6, late_packets, by_due])
    }
}

/// Full packets: where bursts are kept, the link counts them as cut at the MTU. 1472 bytes of
/// payload, UDP, IPv4, and the 14 bytes of framing that the rate counts.
const FRAME_BITS: f64 = (1_472 + 8 + 20 + 14) as f64 * 8.0;

const CASES: [Case; 6] = [
    Case { link: "rate=64kbit", bps: 64e3, offered: "128kbit", burst: 1, unit: 1 },
    Case { link: "rate=1mbit", bps: 1e6, offered: "2mbit", burst: 1, unit: 1 },
    Case { link: "rate=20mbit", bps: 20e6, offered: "40mbit", burst: 1, unit: 1 },
    Case { link: "rate=100mbit", bps: 100e6, offered: "200mbit", burst: 1, unit: 1 },
    Case { link: "rate=1gbit gso=split", bps: 1e9, offered: "1200mbit", burst: 44, unit: 1 },
    Case { link: "rate=1gbit gso=keep", bps: 1e9, offered: "1200mbit", burst: 44, unit: 44 },
];
