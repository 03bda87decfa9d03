//! One direction of the link: every packet's fate, every stage's delay, every departure's lateness.

use super::{FollowedTrace, IgnoredStores, Impairments, Lanes};
use crate::distribution::Distribution;
use crate::lateness::Lateness;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One direction of the link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Direction {
    /// Every parameter in force at the end, defaults included, in the words of the command line.
    pub link: BTreeMap<String, String>,
    /// `split` or `keep`: whether bursts are cut into wire packets before the link.
    pub gso: String,
    /// The queue discipline.
    #[serde(default)]
    pub queue: Queue,
    /// The lanes that served it.
    #[serde(default)]
    pub lanes: Lanes,
    /// Fates, in wire segments.
    pub packets: Packets,
    /// Bursts of UDP (GSO) that crossed uncut. How their sender cut them is not known: `packets`
    /// counts each as if it were cut at the MTU, so that it is an estimate where this is not 0.
    #[serde(default)]
    pub uncut_udp_bursts: u64,
    /// Lost by the emulator before the link saw them; never part of `in`.
    pub lost_before: LostBefore,
    /// Released on time but thrown away by the kernel at the end; part of `out`.
    pub flushed_by_kernel: u64,
    /// Duplicates and packets with flipped bits that did not leave, or not so, as the link had
    /// decided; part of `out`.
    #[serde(default)]
    pub copies_failed: u64,
    /// Sizes of what `packets` counts, IP and above.
    pub bytes: Bytes,
    /// What the impairments did.
    #[serde(default)]
    pub impairments: Impairments,
    /// The trace that it followed at the end; null where it followed none.
    #[serde(default)]
    pub trace: Option<FollowedTrace>,
    /// Opportunities of traces with single deliveries; null where none was followed.
    #[serde(default)]
    pub opportunities: Option<Opportunities>,
    /// Where the time of each departed packet went.
    pub delay: Delays,
    /// Departures against their due times.
    pub lateness: Lateness,
    /// Why the driver woke.
    pub wakes: Wakes,
    /// Rates from the first departure to the last; null with fewer than two.
    pub rate: Rate,
    /// What became of the kernel's arrival stamps.
    pub stamps: Stamps,
    /// The counter in the firewall rule, independent of the driver; null where there is none.
    pub rule_counter: Option<RuleCounter>,
    /// Drops at our own network devices during the run.
    pub devices: Vec<Device>,
    /// The top 64 flows by bytes.
    pub flows: Vec<Flow>,
    /// All other flows, summed; null when there are none.
    pub flows_rest: Option<FlowRest>,
    /// The first 10,000 live changes.
    pub changes: Vec<Change>,
    /// Changes beyond those.
    pub changes_omitted: u64,
    /// All live changes of the rate: of the parameter, or because a trace with rates is followed from
    /// then on, or none any more.
    #[serde(default)]
    pub rate_changes: u64,
    /// What stood in the control block and was not done.
    #[serde(default)]
    pub ignored: IgnoredStores,
}

impl Direction {
    /// Adds a change, or counts it once 10,000 are held.
    pub fn push_change(&mut self, change: Change) {
        if self.changes.len() < MAX_CHANGES {
            self.changes.push(change);
        } else {
            self.changes_omitted += 1;
        }
    }
}

/// A queue discipline at the end of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Its name: `fifo`, `fq`.
    pub kind: String,
    /// Its own counters under the names that `tc -s -j qdisc` gives them.
    pub counters: BTreeMap<String, u64>,
    /// All of it as `tc -s -d qdisc show` prints a qdisc, one line each.
    pub text: Vec<String>,
    /// Of a discipline with several queues, the wait in each by its name: `delay.queue` apart.
    #[serde(default)]
    pub delays: BTreeMap<String, Distribution>,
}

/// Opportunities of traces with single deliveries that came while they were followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opportunities {
    /// At which packets passed, or parts of them.
    pub used: u64,
    /// At which none did.
    pub wasted: u64,
}

/// Fates of packets, counted in wire segments: `in + duplicated = out + dropped + queued`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packets {
    /// Arrivals.
    #[serde(rename = "in")]
    pub arrived: u64,
    /// Copies made by the link.
    pub duplicated: u64,
    /// Departures.
    #[serde(rename = "out")]
    pub departed: u64,
    /// Still held at the end.
    pub queued: u64,
    /// Drops by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Departed with CE set by the link.
    pub marked: u64,
    /// Departed with a bit flipped by the link.
    pub corrupted: u64,
    /// Departed before an earlier arrival, on purpose.
    pub reordered: u64,
}

impl Packets {
    /// Whether every packet has exactly one fate.
    pub fn balanced(&self) -> bool {
        let dropped = self.dropped.values().map(|&n| u128::from(n)).sum::<u128>();
        let [arrived, duplicated, departed, queued] =
            [self.arrived, self.duplicated, self.departed, self.queued].map(u128::from);
        arrived + duplicated == departed + dropped + queued
    }

    /// Drops for all reasons.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.values().sum()
    }
}

/// Packets that never reached the link. All but `too_big` the rule had handed to us: without bursts it
/// counts `in + receive_buffer + nfqueue_full + malformed + unread_at_end`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostBefore {
    /// The NFQUEUE socket's receive buffer was full.
    pub receive_buffer: u64,
    /// The NFQUEUE itself was full.
    pub nfqueue_full: u64,
    /// What the kernel said of them was not understood, so that they stayed in its queue.
    #[serde(default)]
    pub malformed: u64,
    /// Not forwarded by the gate: larger than the MTU, as it takes them.
    #[serde(default)]
    pub too_big: u64,
    /// Not read when the run ended: no loss, the command was done before they could matter to it.
    #[serde(default)]
    pub unread_at_end: u64,
}

impl LostBefore {
    /// Lost while the run went on.
    pub fn total(&self) -> u64 {
        self.receive_buffer + self.nfqueue_full + self.malformed + self.too_big
    }
}

/// Sizes, IP packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// Of arrivals.
    #[serde(rename = "in")]
    pub arrived: u64,
    /// Of duplicates made by the link.
    #[serde(default)]
    pub duplicated: u64,
    /// Of departures.
    #[serde(rename = "out")]
    pub departed: u64,
    /// Of drops.
    pub dropped: u64,
}

/// Delay of departed packets by stage: per packet, `total = queue + serialisation + pacing +
/// propagation + lateness`; `ingest` runs beside these and is part of none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delays {
    /// From the kernel's arrival stamp to the return of the call that released the packet.
    pub total: Distribution,
    /// Waiting for those ahead.
    pub queue: Distribution,
    /// Its own bits at the link's rate.
    pub serialisation: Distribution,
    /// Held back by a shaper or a transmit time although the link was free.
    pub pacing: Distribution,
    /// The delay line.
    pub propagation: Distribution,
    /// From the kernel's arrival stamp to our reading it.
    pub ingest: Distribution,
}

/// Wake-ups of the driver by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wakes {
    /// A deadline, slept through.
    pub timer: u64,
    /// A deadline, polled for.
    pub spin: u64,
    /// A packet.
    pub packet: u64,
    /// The bounded look at the control block, or a change.
    pub control: u64,
    /// Anything else, signals included.
    pub other: u64,
}

/// Bits after the first departure over the time from the first to the last, by due times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// IP and framing, as the link's `rate` counts.
    pub frame_bps: Option<u64>,
    /// IP alone.
    pub ip_bps: Option<u64>,
}

/// Arrival stamps that could not be taken as they were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamps {
    /// Older than the latest event given to the link, and raised to it.
    pub raised: u64,
    /// Later than the reading, and replaced.
    pub future: u64,
    /// Implausibly old, and replaced.
    pub stale: u64,
    /// Steps of the real-time clock seen.
    pub clock_steps: u64,
    /// Read together with a step, so that nothing told on which side of it they were stamped,
    /// and replaced.
    pub step_touched: u64,
    /// Longest time between two looks at the queue; null where it was not measured. The driver
    /// looks at least once a second: a longer gap is one in which it, or the machine, was stopped.
    #[serde(default)]
    pub longest_gap_ns: Option<i64>,
}

/// What the firewall rule counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCounter {
    /// Packets: a burst counts once.
    pub packets: u64,
    /// Bytes, IP.
    pub bytes: u64,
}

/// Drops at one of our own network devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its name: `link0` inside, `gate-in` and `gate-out` in the gate, `peer0` outside.
    pub name: String,
    /// Received and dropped: what the device before it counts as well, and frames that are no IP,
    /// which nobody takes.
    pub rx_dropped: u64,
    /// Dropped before transmission, or because the device behind it did not take it.
    pub tx_dropped: u64,
    /// The largest IP packet it takes at the end of the run.
    #[serde(default)]
    pub mtu_bytes: Option<u64>,
}

impl Device {
    /// Packets that were dropped here, each of them once: a packet that the far end of a veth(4)
    /// pair does not take is counted by both ends, one that is no IP by the far end only.
    pub fn dropped(&self) -> u64 {
        self.tx_dropped
    }
}

/// One flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// `udp 10.0.0.1:5000 > 10.0.0.2:6000`.
    pub flow: String,
    /// Arrivals.
    pub packets: u64,
    /// Bytes of arrivals, IP.
    pub bytes: u64,
    /// Drops by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Median of total delay; null without departures, and for flows that came after the first
    /// 1,024.
    pub delay_p50_ns: Option<i64>,
    /// 99 % of its departures had at most this total delay; null as the median is.
    #[serde(default)]
    pub delay_p99_ns: Option<i64>,
}

/// The flows beyond the top 64, summed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowRest {
    /// How many flows.
    pub flows: u64,
    /// Arrivals.
    pub packets: u64,
    /// Bytes of arrivals, IP.
    pub bytes: u64,
    /// Drops by reason.
    pub dropped: BTreeMap<String, u64>,
}

/// One live change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Event time at which it holds, since the start of the run.
    pub at_ns: i64,
    /// When it was asked for, since the start of the run; null for bare stores of the rate word.
    pub asked_ns: Option<i64>,
    /// Parameter to new value, in the words of the command line.
    pub values: BTreeMap<String, String>,
}

/// Splits `flows` into the 64 largest by bytes, largest first (ties by label), and the
/// sum of the others.
pub fn keep_top_flows(mut flows: Vec<Flow>) -> (Vec<Flow>, Option<FlowRest>) {
    flows.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.flow.cmp(&b.flow)));
    let others = flows.split_off(flows.len().min(MAX_FLOWS));
    let rest = others.iter().fold(FlowRest::default(), |mut rest, flow| {
        rest.flows += 1;
        rest.packets += flow.packets;
        rest.bytes += flow.bytes;
        for (reason, n) in &flow.dropped {
            *rest.dropped.entry(reason.clone()).or_default() += n;
        }
        rest
    });
    (flows, (!others.is_empty()).then_some(rest))
}

/// Flows listed one by one; more would make the report of a port scan unreadable.
const MAX_FLOWS: usize = 64;

/// Changes listed one by one: ten seconds at 1,000 changes/s.
pub const MAX_CHANGES: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_balance_when_each_has_one_fate() {
        let mut packets = Packets {
            arrived: 100,
            duplicated: 5,
            departed: 90,
            queued: 3,
            dropped: BTreeMap::from([("loss".into(), 5), ("queue_full".into(), 7)]),
            ..Packets::default()
        };
        assert!(packets.balanced());
        packets.departed += 1;
        assert!(!packets.balanced());
        assert_eq!(packets.dropped_total(), 12);
    }

    #[test]
    fn the_rest_of_the_flows_is_summed_and_nothing_is_lost() {
        let flow = |i: u64| Flow {
            flow: format!("udp {i:03}"),
            packets: 1,
            bytes: i % 70 * 10,
            dropped: BTreeMap::from([("loss".into(), 1)]),
            ..Flow::default()
        };
        let (top, rest) = keep_top_flows((0..140).map(flow).collect());
        let rest = rest.unwrap();
        assert_eq!((top.len(), rest.flows, rest.packets), (64, 76, 76));
        assert_eq!(rest.dropped, BTreeMap::from([("loss".into(), 76)]));
        assert_eq!((top[0].flow.as_str(), top[1].flow.as_str()), ("udp 069", "udp 139"));
        let total = top.iter().map(|f| f.bytes).sum::<u64>() + rest.bytes;
        assert_eq!(total, 2 * (0..70).sum::<u64>() * 10);
        assert!(top.iter().all(|f| f.bytes >= 380));
    }

    #[test]
    fn few_flows_have_no_rest() {
        assert_eq!(keep_top_flows(vec![Flow::default()]).1, None);
    }

    #[test]
    fn changes_beyond_ten_thousand_are_counted() {
        let mut direction = Direction::default();
        (0..10_003).for_each(|_| direction.push_change(Change::default()));
        assert_eq!((direction.changes.len(), direction.changes_omitted), (10_000, 3));
    }
}
