//! Flows of one direction, counted one by one as far as memory is bounded.

use std::collections::{BTreeMap, HashMap};

use punctual_measure::percentile::Percentile;
use punctual_measure::report::{self, Flow, FlowRest};
use punctual_measure::{CoarseHistogram, Distribution, Histogram};
use punctual_sched::classify::FlowKey;
use punctual_sched::{DropReason, LinkConfig, Packet};

/// Flows by hash, the first [`MOST_FLOWS`] of them one by one, the others summed.
#[derive(Debug, Default)]
pub(super) struct FlowTable {
    flows: HashMap<u32, FlowCounts>,
    rest: FlowRest,
    rest_dropped: [u64; DropReason::ALL.len()],
}

#[derive(Clone, Debug)]
struct FlowCounts {
    key: FlowKey,
    packets: u64,
    bytes: u64,
    dropped: [u64; DropReason::ALL.len()],
    /// Total delays; of the first [`MOST_DELAYS`] flows.
    delays: Option<CoarseHistogram>,
}

impl FlowTable {
    pub(super) fn arrived(&mut self, packet: &Packet, key: &FlowKey) {
        let (segments, bytes) = (u64::from(packet.segments), u64::from(packet.len));
        if self.flows.len() >= MOST_FLOWS && !self.flows.contains_key(&packet.flow) {
            self.rest.packets += segments;
            self.rest.bytes += bytes;
            return;
        }
        let measured = self.flows.len() < MOST_DELAYS;
        let flow = self.flows.entry(packet.flow).or_insert_with(|| FlowCounts {
            key: *key,
            packets: 0,
            bytes: 0,
            dropped: [0; DropReason::ALL.len()],
            delays: measured.then(CoarseHistogram::new),
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

    /// A packet of a flow has left, `total_ns` after it arrived.
    pub(super) fn released(&mut self, packet: &Packet, total_ns: i64) {
        let flow = self.flows.get_mut(&packet.flow);
        if let Some(delays) = flow.and_then(|flow| flow.delays.as_mut()) {
            delays.record(total_ns);
        }
    }

    /// Adds the flows of another lane.
    pub(super) fn merge(&mut self, other: &Self) {
        #[expect(clippy::iter_over_hash_type, reason = "sums do not depend on the order")]
        for (hash, flow) in &other.flows {
            match self.flows.get_mut(hash) {
                // The same hash of other keys: counted together, as on one lane.
                Some(ours) => ours.merge(flow),
                None => drop(self.flows.insert(*hash, flow.clone())),
            }
        }
        self.rest.packets += other.rest.packets;
        self.rest.bytes += other.rest.bytes;
        self.rest_dropped.iter_mut().zip(other.rest_dropped).for_each(|(sum, n)| *sum += n);
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

/// Waits in each of the queues that a discipline keeps apart.
#[derive(Debug)]
pub(super) struct Classes {
    config: LinkConfig,
    waits: BTreeMap<&'static str, Histogram>,
}

impl Classes {
    pub(super) fn new(config: &LinkConfig) -> Self {
        let waits = config.queues().iter().map(|name| (*name, Histogram::new())).collect();
        Self { config: config.clone(), waits }
    }

    /// The link has changed: packets that leave from now on are told apart by this configuration.
    pub(super) fn follow(&mut self, config: &LinkConfig) {
        self.config.clone_from(config);
    }

    /// A packet has left that waited `queue_ns` in the queue.
    pub(super) fn released(&mut self, packet: &Packet, queue_ns: i64) {
        // Most disciplines have none.
        if let Some(name) = self.config.queues().get(self.config.queue_of(packet)) {
            self.waits.entry(name).or_default().record(queue_ns);
        }
    }

    /// Adds the waits on another lane.
    pub(super) fn merge(&mut self, other: &Self) {
        for (name, waits) in &other.waits {
            self.waits.entry(name).or_default().merge(waits);
        }
    }

    /// By name.
    pub(super) fn report(&self) -> BTreeMap<String, Distribution> {
        let waits = self.waits.iter();
        waits.map(|(name, waits)| ((*name).to_owned(), waits.distribution())).collect()
    }
}

impl FlowCounts {
    fn merge(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.dropped.iter_mut().zip(other.dropped).for_each(|(sum, n)| *sum += n);
    }

    fn delay(&self, percentile: Percentile) -> Option<i64> {
        self.delays.as_ref()?.percentile_ns(percentile.ppm())
    }

    fn report(&self) -> Flow {
        Flow {
            flow: self.key.to_string(),
            packets: self.packets,
            bytes: self.bytes,
            dropped: drops_by_name(&self.dropped),
            delay_p50_ns: self.delay(Percentile::P50),
            delay_p99_ns: self.delay(Percentile::P99),
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

/// Flows whose delays are kept: 3 KB each.
const MOST_DELAYS: usize = 1024;
/// More flows than this are summed: a port scan must not fill memory.
const MOST_FLOWS: usize = 4096;
