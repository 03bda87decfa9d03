//! What a log knows of a packet, as an IPv4 header and a comment.

use std::fmt::Write;
use std::net::Ipv4Addr;

use punctual_sched::{Ecn, Mark};

use super::super::columns;
use super::super::row::{Fate, Row};
use super::Point;

/// The header of a packet whose payload and addresses no log has.
///
/// Source and destination are [`addresses`] of the flow's hash, the protocol is the one reserved
/// for experiments (RFC 3692), so that no dissector takes what is not there for something else.
/// Behind the link the ECN field is what the link made of it. A burst longer than an IP packet
/// has length 0, as captures of uncut bursts do.
pub(super) fn header(row: &Row, point: Point) -> Vec<u8> {
    let arrival = &row.arrival;
    let marked = point == Point::Out && row.departure().is_some_and(|out| out.mark == Mark::Ce);
    let ecn = if marked { Ecn::Ce } else { arrival.ecn };
    let (source, destination) = addresses(arrival.flow);
    let mut header = vec![0x45, arrival.dscp << 2 | ecn as u8];
    header.extend(u16::try_from(arrival.len).unwrap_or(0).to_be_bytes());
    let [.., id0, id1] = row.packet.to_be_bytes();
    header.extend([id0, id1, DO_NOT_FRAGMENT, 0, TTL, EXPERIMENT, 0, 0]);
    header.extend(source.octets());
    header.extend(destination.octets());
    let checksum = checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&checksum);
    // Bytes that the packet does not have are not among the captured ones.
    header.truncate(usize::try_from(arrival.len).unwrap_or(usize::MAX));
    header
}

/// Stand-ins for a flow's addresses: the upper half of its hash in 198.18.0.0/16, the lower in
/// 198.19.0.0/16, which are reserved for measurements (RFC 2544). Every flow has its own pair, and
/// the hash can be read from it.
pub fn addresses(flow: u32) -> (Ipv4Addr, Ipv4Addr) {
    let [a, b, c, d] = flow.to_be_bytes();
    (Ipv4Addr::new(198, 18, a, b), Ipv4Addr::new(198, 19, c, d))
}

/// `packet=17 fate=out total_ns=31245001 ...`: the columns of a table that no field of a frame has.
/// `fate=later` where it is told by another frame of this packet.
pub(super) fn comment(row: &Row, known: bool) -> String {
    let mut text = format!("packet={}", row.packet);
    let mut say = |name: &str, value: &dyn std::fmt::Display| {
        // Writing to a string cannot fail.
        let _ = write!(text, " {name}={value}");
    };
    if row.copy > 0 {
        say("copy", &row.copy);
    }
    say("fate", &if known { row.fate.word() } else { "later" });
    match &row.fate {
        Fate::Out(out) => {
            match row.total_ns() {
                Some(total_ns) => say("total_ns", &total_ns),
                None => say("released", &"never"),
            }
            for (name, part) in [
                ("pacing_ns", out.pacing),
                ("queue_ns", out.queue),
                ("serialisation_ns", out.serialisation),
                ("propagation_ns", out.propagation()),
            ] {
                say(name, &part.as_nanos());
            }
            if let Some(lateness_ns) = out.lateness_ns {
                say("lateness_ns", &lateness_ns);
            }
            if out.mark != Mark::None {
                say("mark", &columns::mark(out.mark));
            }
            if let Some(bit) = out.corrupt {
                say("corrupt_bit", &bit.0);
            }
        }
        Fate::Dropped(drop) => say("age_ns", &drop.delay.as_nanos()),
        Fate::Held | Fate::Unknown => {}
    }
    if row.arrival.segments > 1 {
        say("segments", &row.arrival.segments);
    }
    if row.arrival.mark > 0 {
        say("fwmark", &format_args!("{:#x}", row.arrival.mark));
    }
    say("flow", &format_args!("{:08x}", row.arrival.flow));
    text
}

/// RFC 1071.
fn checksum(header: &[u8]) -> u16 {
    let words =
        header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

const DO_NOT_FRAGMENT: u8 = 0x40;
const TTL: u8 = 64;
/// "Use for experimentation and testing" (RFC 3692, 2.1).
const EXPERIMENT: u8 = 253;
