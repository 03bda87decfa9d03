//! What tests read of a log: one direction's packets with their fates.
#![expect(clippy::cast_precision_loss, reason = "shares of megabytes")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;

use punctual::log::{Arrival, Departure, Direction, Dropped, Entry, LogReader, Record};

use crate::harness::Ended;

/// A packet and what became of it and of its copies.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) arrival: Arrival,
    pub(crate) departures: Vec<Departure>,
    pub(crate) drops: Vec<Dropped>,
}

impl Packet {
    /// Time in the queue, in ns, of a packet that departed.
    pub(crate) fn queue_ns(&self) -> Option<u64> {
        self.departures.first().map(|departure| departure.queue.as_nanos())
    }
}

/// All packets of one direction, in order of arrival on each of its lanes.
pub(crate) fn packets(ended: &Ended, wanted: Direction) -> Vec<Packet> {
    let mut reader = LogReader::open(&ended.file("log")).unwrap();
    let mut packets: Vec<Packet> = Vec::new();
    // Of each lane, where its packets are.
    let mut lanes: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
    let index = |lane: &[usize], sequence: u64| lane[usize::try_from(sequence).unwrap() - 1];
    loop {
        match reader.read().unwrap() {
            Entry::Record(lane, record) if lane.direction == wanted => match record {
                Record::Arrival(arrival) => {
                    lanes.entry(lane.index).or_default().push(packets.len());
                    packets.push(Packet { arrival, departures: Vec::new(), drops: Vec::new() });
                }
                Record::Departure(departure) => {
                    let lane = lanes.entry(lane.index).or_default();
                    packets[index(lane, departure.sequence)].departures.push(departure);
                }
                Record::Drop(drop) => {
                    let lane = lanes.entry(lane.index).or_default();
                    packets[index(lane, drop.sequence)].drops.push(drop);
                }
                Record::Change { .. } | Record::Follow { .. } => {}
            },
            Entry::Record(..) => {}
            Entry::End(_) => return packets,
        }
    }
}

/// Bytes that departed, by flow.
pub(crate) fn bytes_by_flow<'a>(
    packets: impl IntoIterator<Item = &'a Packet>,
) -> BTreeMap<u32, u64> {
    let mut flows = BTreeMap::new();
    for packet in packets {
        let bytes = u64::from(packet.arrival.len) * packet.departures.len() as u64;
        *flows.entry(packet.arrival.flow).or_insert(0) += bytes;
    }
    flows
}

/// Jain's fairness index, 1 / n to 1.
pub(crate) fn jain(shares: &[u64]) -> f64 {
    let shares = shares.iter().map(|&share| share as f64);
    let (sum, squares) = shares.clone().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    sum * sum / (squares * shares.len() as f64)
}

/// The smallest value with at least `percent` % of all at or below it.
pub(crate) fn percentile(values: impl IntoIterator<Item = u64>, percent: usize) -> u64 {
    let mut values: Vec<u64> = values.into_iter().collect();
    assert!(values.len() >= 100, "{} are too few", values.len());
    values.sort_unstable();
    values[(values.len() * percent).div_ceil(100) - 1]
}
