//! Flows of one direction, counted one by one as far as memory is bounded.

use std::collections::{BTreeMap, HashMap};

use punctual_measure::report::{self, Flow, FlowRest};
use punctual_sched::classify::FlowKey;
use punctual_sched::{DropReason, Packet};

/// Flows by hash, the first [`MOST_FLOWS`] of them one by one, the others summed.
#[derive(Debug, Default)]
pub(super) struct FlowTable {
    flows: HashMap<u32, FlowCounts>,
    rest: FlowRest,
    rest_dropped: [u64; DropReason::ALL.len()],
}

#[derive(Debug)]
struct FlowCounts {
    key: FlowKey,
    packets: u64,
    bytes: u64,
    dropped: [u64; DropReason::ALL.len()],
}

impl FlowTable {
    pub(super) fn arrived(&mut self, packet: &Packet, key: &FlowKey) {
        let (segments, bytes) = (u64::from(packet.segments), u64::from(packet.len));
        if self.flows.len() >= MOST_FLOWS && !self.flows.contains_key(&packet.flow) {
            self.rest.packets += segments;
            self.rest.bytes += bytes;
            return;
        }
        let flow = self.flows.entry(packet.flow).or_insert_with(|| FlowCounts {
            key: *key,
            packets: 0,
            bytes: 0,
            dropped: [0; DropReason::ALL.len()],
        });
        flow.packets += segments;
        flow.bytes += bytes;
    }

    pub(super) fn dropped(&mut self, packet: &Packet, reason: DropReason) {
        let segments = u64::from(packet.segments);
        match self.flows.get_mut(&packet.flow) {
            Some(flow) => flow.dropped[reason.index()] += segments,
            None => self.rest_dropped[reason.index()] += segments,
        }
    }

    pub(super) fn report(&self) -> (Vec<Flow>, Option<FlowRest>) {
        let flows = self.flows.values().map(FlowCounts::report).collect();
        let (top, others) = report::keep_top_flows(flows);
        if self.rest == FlowRest::default() {
            return (top, others);
        }
        let mut rest = others.unwrap_or_default();
        rest.packets += self.rest.packets;
        rest.bytes += self.rest.bytes;
        for (reason, count) in drops_by_name(&self.rest_dropped) {
            *rest.dropped.entry(reason).or_default() += count;
        }
        (top, Some(rest))
    }
}

impl FlowCounts {
    fn report(&self) -> Flow {
        Flow {
            flow: self.key.to_string(),
            packets: self.packets,
            bytes: self.bytes,
            dropped: drops_by_name(&self.dropped),
            delay_p50_ns: None,
        }
    }
}

/// Counts by the reason's name, those that are not 0.
pub(super) fn drops_by_name(dropped: &[u64; DropReason::ALL.len()]) -> BTreeMap<String, u64> {
    DropReason::ALL
        .into_iter()
        .map(|reason| (reason.name().to_owned(), dropped[reason.index()]))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// More flows than this are summed: a port scan must not fill memory.
const MOST_FLOWS: usize = 4096;
