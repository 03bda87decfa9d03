//! Packets per second of several flows through a link that gives them nothing to share, up on one
//! thread and on several.

use anyhow::Result;

use crate::figures::{Table, number};
use crate::rtt::in_turn;
use crate::stage::{Load, Outcome, PORT, Stage, Way};

/// As fast as the senders can. They take processors as well: more threads than what is left of them
/// gain nothing.
pub(crate) fn measure(stage: &Stage, pairs: usize) -> Result<()> {
    for threads in [4, 8] {
        let title = format!(
            "lanes: {FLOWS} flows of 1400 bytes, as fast as they can, 2 s, delay 1 ms; \
             1000 packets/s out, --threads 2 and {threads}"
        );
        let columns =
            ["2", "more", "ratio", "2 lost/100k", "more lost/100k", "2 p99 us", "more p99 us"];
        let mut table = Table::begin(&title, &columns);
        for pair in 0..pairs {
            let run = |threads| stage.run(&Way::Lanes { threads, both: "delay=1ms" }, &load());
            let (few, many) = in_turn(pair, || run(2), || run(threads))?;
            let (few, many) = (Flow::of(&few)?, Flow::of(&many)?);
            let ratio = many.thousands / few.thousands;
            table.row(&[
                few.thousands,
                many.thousands,
                ratio,
                few.lost,
                many.lost,
                few.late,
                many.late,
            ]);
        }
        table.end();
    }
    Ok(())
}

struct Flow {
    /// Thousands of packets per second that departed.
    thousands: f64,
    /// Of 100,000 that the rules handed to the queues, those that the link never saw.
    lost: f64,
    /// 99th percentile of lateness.
    late: f64,
}

impl Flow {
    fn of(outcome: &Outcome) -> Result<Self> {
        let at = |name: &str| number(&outcome.report, &format!("/directions/up/{name}"));
        let (packets, bytes) = (at("packets/out")?, at("bytes/out")?);
        let handed = at("rule_counter/packets")?;
        let lost = at("lost_before/receive_buffer")? + at("lost_before/nfqueue_full")?;
        Ok(Self {
            thousands: at("rate/ip_bps")? / 8.0 * packets / bytes / 1e3,
            lost: lost / handed * 1e5,
            late: at("lateness/p99_ns")? / 1e3,
        })
    }
}

fn load() -> Load {
    let send = format!("traffic udp-send $PUNCTUAL_PEER:{PORT} --unpaced --duration 2s");
    Load {
        peer: format!("udp-receive 0.0.0.0:{PORT} --idle 1s"),
        command: format!(
            "n=0; while [ $n -lt {FLOWS} ]; do \"$BENCH_PUNCTUAL\" {send} >/dev/null & n=$((n+1)); \
             done; wait"
        ),
        until_peer_ends: true,
    }
}

const FLOWS: u32 = 8;
