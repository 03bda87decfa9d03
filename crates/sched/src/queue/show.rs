//! A link's queue as `tc -s -d qdisc show` prints one.

mod dualpi2;
pub(super) mod figures;
mod netem;
mod parameters;
mod tbf;

use core::fmt::Write as _;

use self::parameters::parameters;
use super::Statistics;
use crate::config::LinkConfig;
use crate::output::{DropReason, Snapshot};

/// The queue of a link with `config`, as `tc -s -d qdisc show` prints one: the parameters in
/// force in the words, order and figures of `tc`, what the queue handed out and dropped (not what
/// was lost or duplicated before or behind it), the backlog, the
/// discipline's own lines. Bytes are counted with framing and overhead. No line end after the last
/// line.
pub fn show(config: &LinkConfig, snapshot: &Snapshot) -> String {
    let mut text =
        format!("qdisc {} root{}", snapshot.discipline.name(), parameters(config, snapshot));
    let counters = snapshot.discipline.counters();
    // Only some disciplines count these two.
    let counter = |name: &str| {
        counters.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value)
    };
    let requeues = counter("requeues");
    // A string takes whatever is written to it.
    let _ = write!(
        text,
        "\n Sent {} bytes {} pkt (dropped {}, overlimits {} requeues {requeues})",
        snapshot.served_bytes,
        snapshot.served_packets,
        dropped(snapshot),
        counter("overlimits"),
    );
    let _ = write!(
        text,
        "\n backlog {}b {}p requeues {requeues}",
        snapshot.backlog_bytes, snapshot.backlog_packets,
    );
    for line in snapshot.discipline.to_string().lines() {
        let _ = write!(text, "\n  {line}");
    }
    text
}

/// What the discipline dropped: not what random loss or the emulator's own memory took. Loss at
/// random is netem's own.
fn dropped(snapshot: &Snapshot) -> u64 {
    if let Statistics::Netem(netem) = &snapshot.discipline {
        return netem.tc_dropped();
    }
    let own = |reason: &DropReason| !matches!(reason, DropReason::Loss | DropReason::HoldFull);
    DropReason::ALL.iter().filter(|reason| own(reason)).map(|r| snapshot.dropped[r.index()]).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Instant, Link, Packet};

    #[test]
    fn a_fifo_shows_as_tc_shows_one() {
        let config = LinkConfig::parse("rate=8mbit limit=3p", "test").unwrap();
        let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
        for handle in 0..5 {
            link.arrive(Packet::on_path(handle, Instant::ZERO, 986, 1));
        }
        link.advance(Instant::from_nanos(1_000_000));
        let expected = "qdisc fifo root limit 3p\n \
                        Sent 1000 bytes 1 pkt (dropped 2, overlimits 0 requeues 0)\n \
                        backlog 2000b 2p requeues 0";
        assert_eq!(show(&config, &link.snapshot()), expected);
    }

    #[test]
    fn what_was_sent_and_dropped_and_waits_is_what_entered_the_queue() {
        for words in [
            "loss=50%",
            "loss=50% loss.at=before",
            "duplicate=50%",
            "duplicate=50% delay=5ms jitter=5ms",
            "nic=80mbit queue=fq_codel loss=20% duplicate=20%",
            "impair=netem delay=1ms loss=10%",
        ] {
            let config = LinkConfig::parse(&format!("rate=8mbit {words}"), "test").unwrap();
            let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
            for handle in 0..500 {
                link.arrive(Packet::on_path(handle, Instant::ZERO, 986, 1));
            }
            for at in [60, 100, 200, 2_000] {
                link.advance(Instant::from_nanos(at * 1_000_000));
                let snapshot = link.snapshot();
                let before = config.loss_at == crate::config::LossAt::Before;
                let lost = if before { snapshot.dropped[DropReason::Loss.index()] } else { 0 };
                let known = snapshot.served_packets + dropped(&snapshot) + snapshot.backlog_packets;
                assert_eq!(known + lost, 500, "{words} at {at} ms");
                assert_eq!(snapshot.served_bytes, snapshot.served_packets * 1_000, "{words}");
            }
        }
    }
}
