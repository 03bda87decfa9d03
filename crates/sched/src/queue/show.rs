//! A link's queue as `tc -s -d qdisc show` prints one.

use core::fmt::Write as _;

use super::Statistics;
use crate::config::LinkConfig;
use crate::output::{DropReason, Snapshot};
use crate::parameter::TABLES;

/// The queue of a link with `config`, as `tc -s -d qdisc show` prints one: the parameters in
/// force, what was sent and dropped, the backlog, the discipline's own lines. Bytes are counted
/// with framing and overhead. No line end after the last line.
pub fn show(config: &LinkConfig, snapshot: &Snapshot) -> String {
    let mut text = format!("qdisc {} root", snapshot.discipline.name());
    for (name, value) in parameters(config, snapshot) {
        // A string takes whatever is written to it.
        let _ = write!(text, " {name} {value}");
    }
    let extra = config.added_bytes();
    let frames = i64::try_from(snapshot.packets_out).unwrap_or(i64::MAX);
    let bytes = snapshot.bytes_out.saturating_add_signed(extra.saturating_mul(frames));
    let counters = snapshot.discipline.counters();
    // Only some disciplines count these two.
    let counter = |name: &str| {
        counters.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value)
    };
    let requeues = counter("requeues");
    let _ = write!(
        text,
        "\n Sent {bytes} bytes {} pkt (dropped {}, overlimits {} requeues {requeues})",
        snapshot.packets_out,
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

/// `limit`, which netem has in its own table, and the parameters of the discipline's table, without
/// its name.
fn parameters(config: &LinkConfig, snapshot: &Snapshot) -> Vec<(&'static str, String)> {
    let name = snapshot.discipline.name();
    let own = TABLES.iter().filter(|table| table.name == name).flat_map(|table| table.rows);
    let own: Vec<_> = own.map(|row| row.name).collect();
    let entries = config.with_limit_resolved().entries().into_iter();
    entries
        .filter(|(entry, _)| own.contains(entry) || (*entry == "limit" && name != "netem"))
        .map(|(entry, value)| (entry.rsplit('.').next().unwrap_or(entry), value))
        .collect()
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
}
