//! The discipline by itself, called as a device without a rate of its own calls it.

use proptest::prelude::*;

use super::*;
use crate::config::Limit;
use crate::output::Mark;
use crate::packet::{Ecn, TransmitTime};

pub(super) fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

pub(super) fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

fn parse(parameters: &str) -> LinkConfig {
    LinkConfig::parse(&format!("queue=fq {parameters}"), "test").unwrap()
}

/// Parameters with which every packet has a flow and none is paced.
pub(super) const FLOWS: &str = "fq.pacing=off fq.maxrate=1tbit";

/// A socket's packet of 986 bytes, 1,000 with framing.
pub(super) fn packet(handle: u64, socket: u32) -> Packet {
    Packet { socket: true, ..Packet::on_path(handle, Instant::ZERO, 986, socket) }
}

/// An `fq` and the device below it.
pub(super) struct Device<T = Wheel> {
    pub(super) fq: Fq<T>,
    effects: Effects,
    pub(super) now: u64,
    /// Handle, time, wait for pacing, mark.
    pub(super) left: Vec<(u64, u64, u64, Mark)>,
    pub(super) dropped: Vec<(u64, DropReason)>,
}

impl Device {
    pub(super) fn new(parameters: &str) -> Self {
        Self::with_flows(parameters, MAX_FLOWS)
    }
}

impl<T: Throttled> Device<T> {
    fn with_flows(parameters: &str, max: u32) -> Self {
        let fq = Fq::with_flows(&parse(parameters), Flows::new(1, max), Instant::ZERO);
        Self { fq, effects: Effects::default(), now: 0, left: vec![], dropped: vec![] }
    }

    /// Queues a packet now; `bytes` are those that count.
    pub(super) fn enqueue_sized(&mut self, packet: Packet, bytes: u64) {
        let entered = at(self.now);
        let packet = Packet { arrival: entered, ..packet };
        self.fq.enqueue(Queued { packet, entered, bytes }, &mut self.effects);
        let drops = self.effects.take_drops().map(|d| (d.packet.handle, d.reason));
        self.dropped.extend(drops);
    }

    pub(super) fn enqueue(&mut self, packet: Packet) {
        self.enqueue_sized(packet, u64::from(packet.len) + 14);
    }

    /// Takes out one packet now.
    pub(super) fn dequeue(&mut self) -> Option<u64> {
        let served = self.fq.dequeue(at(self.now), &mut self.effects)?;
        self.fq.served();
        let handle = served.queued.packet.handle;
        self.left.push((handle, self.now, served.pacing.as_nanos(), served.mark));
        Some(handle)
    }

    /// Takes out whatever leaves until `to`, looking whenever the discipline asks for it.
    pub(super) fn run(&mut self, to: u64) {
        while self.dequeue().is_some() {}
        while let Some(wake) = self.fq.wake().filter(|wake| wake.as_nanos() <= to) {
            assert!(wake.as_nanos() > self.now, "asked again at once");
            self.now = wake.as_nanos();
            while self.dequeue().is_some() {}
        }
        self.now = to;
    }

    fn send(&mut self, packet: Packet) {
        self.enqueue(packet);
        self.run(self.now);
    }

    pub(super) fn statistics(&self) -> FqStatistics {
        let Statistics::Fq(statistics) = self.fq.statistics() else { panic!("not fq") };
        statistics
    }

    pub(super) fn handles(&self) -> Vec<u64> {
        self.left.iter().map(|left| left.0).collect()
    }

    pub(super) fn times(&self) -> Vec<u64> {
        self.left.iter().map(|left| left.1).collect()
    }
}

#[test]
fn a_lone_packet_passes_without_a_flow() {
    let mut device = Device::new("");
    device.send(packet(0, 1));
    let FqStatistics { fastpath_packets, flows, .. } = device.statistics();
    assert_eq!((device.handles(), fastpath_packets, flows), (vec![0], 1, 0));
    // A rate of its socket, a maxrate and a transmit time to come need a flow.
    device.send(Packet { pacing_rate: rate(1_000_000), ..packet(1, 1) });
    device.send(Packet { transmit: TransmitTime::new(at(5)), ..packet(2, 2) });
    assert_eq!((device.statistics().fastpath_packets, device.statistics().flows), (1, 2));
}

/// As under Linux, which looks at nothing but whether some flow could send.
#[test]
fn what_has_no_time_of_its_own_passes_what_waits_in_its_flow() {
    let mut device = Device::new("");
    device.send(Packet { transmit: TransmitTime::new(at(1_000_000)), ..packet(0, 1) });
    device.send(packet(1, 1));
    assert_eq!((device.handles(), device.statistics().fastpath_packets), (vec![1], 1));
}

#[test]
fn at_most_eight_packets_pass_while_other_flows_wait_for_their_time() {
    let mut device = Device::new("");
    device.send(Packet { transmit: TransmitTime::new(at(1_000_000)), ..packet(0, 1) });
    assert_eq!(device.statistics().throttled_flows, 1);
    for handle in 1..=9 {
        device.enqueue(packet(handle, 2));
    }
    assert_eq!((device.statistics().fastpath_packets, device.statistics().flows), (8, 2));
}

#[test]
fn a_burst_on_a_new_flow_leaves_ten_packets_then_a_quantum_at_a_time() {
    let mut device = Device::new("fq.maxrate=8mbit");
    for handle in 0..16 {
        device.enqueue_sized(packet(handle, 1), 1_514);
    }
    device.run(1_000_000_000);
    let burst = [0; 10];
    let rest = [3_028_000, 3_028_000, 6_056_000, 6_056_000, 9_084_000, 9_084_000];
    assert_eq!(device.times(), [&burst[..], &rest[..]].concat());
    assert_eq!(device.statistics().throttled, 3);
    assert_eq!(device.left[15].2, 9_084_000, "all of the wait was for the flow's own rate");
}

#[test]
fn a_flow_of_low_rate_has_its_packets_spaced_from_the_first_on() {
    let mut device = Device::new("");
    for handle in 0..3 {
        device.enqueue(Packet { pacing_rate: rate(500_000), ..packet(handle, 1) });
    }
    device.run(1_000_000_000);
    assert_eq!(device.times(), [0, 16_000_000, 32_000_000]);
}

#[test]
fn nopacing_lets_a_flow_send_as_it_likes() {
    let mut device = Device::new("fq.pacing=off fq.maxrate=8kbit");
    for handle in 0..3 {
        device.enqueue(packet(handle, 1));
    }
    device.run(0);
    assert_eq!(device.times(), [0, 0, 0]);
}

#[test]
fn a_maxrate_of_zero_is_a_packet_a_second_where_that_is_asked_for() {
    let mut device = Device::new("fq.maxrate=0 fq.maxrate_zero=second");
    for handle in 0..3 {
        device.enqueue(packet(handle, 1));
    }
    device.run(10_000_000_000);
    assert_eq!(device.times(), [0, 1_000_000_000, 2_000_000_000]);
    assert_eq!(device.statistics().pkts_too_long, 3);
}

#[test]
fn a_flow_woken_late_gets_back_up_to_half_of_its_gap() {
    let mut device = Device::new("fq.maxrate=500kbit");
    for handle in 0..4 {
        device.enqueue(packet(handle, 1));
    }
    device.run(0);
    // The gap is 16 ms. Look 5 ms late, then 12 ms.
    for (now, next) in [(21_000_000, 32_000_000), (44_000_000, 52_000_000)] {
        device.now = now;
        assert!(device.dequeue().is_some());
        assert_eq!((device.dequeue(), device.fq.wake()), (None, Some(at(next))));
    }
    assert_eq!(device.statistics().latency, 5_000_000 / 8 - 5_000_000 / 64 + 12_000_000 / 8);
}

#[test]
fn a_look_at_a_throttled_flow_comes_at_its_time_or_with_the_slack_of_linux() {
    for (parameters, second, latency) in
        [("fq.wake=due", 16_000_000, 0), ("fq.wake=slack", 16_010_000, 1_250)]
    {
        let mut device = Device::new(&format!("fq.maxrate=500kbit {parameters}"));
        device.enqueue(packet(0, 1));
        device.enqueue(packet(1, 1));
        device.run(0);
        let statistics = device.statistics();
        assert_eq!((statistics.throttled_flows, statistics.next_packet_delay), (1, second));
        device.run(1_000_000_000);
        assert_eq!(device.times(), [0, second]);
        assert_eq!(device.statistics().latency, latency);
    }
}

#[test]
fn an_arrival_causes_a_look_before_the_slack_has_passed() {
    let mut device = Device::new("fq.maxrate=500kbit fq.wake=slack");
    device.enqueue(packet(0, 1));
    device.enqueue(packet(1, 1));
    device.run(16_003_000);
    device.send(packet(2, 2));
    let first = (1, 16_003_000, 16_000_000, Mark::None);
    assert_eq!(device.left[1..], [first, (2, 16_003_000, 0, Mark::None)]);
}

#[test]
fn transmit_times_reorder_and_equal_ones_leave_as_they_came() {
    let mut device = Device::new("");
    for (handle, time) in [(0, 3_000), (1, 1_000), (2, 2_000), (3, 1_000), (4, 3_000)] {
        device.enqueue(Packet { transmit: TransmitTime::new(at(time)), ..packet(handle, 1) });
    }
    device.run(10_000);
    assert_eq!(device.handles(), [1, 3, 2, 0, 4]);
    assert_eq!(device.times(), [1_000, 1_000, 2_000, 3_000, 3_000]);
}

#[test]
fn a_transmit_time_knows_no_rate_but_maxrate() {
    let mut device = Device::new("fq.maxrate=8mbit");
    for handle in 0..3 {
        let transmit = TransmitTime::new(at(1_000));
        device.enqueue(Packet { transmit, pacing_rate: rate(8_000), ..packet(handle, 1) });
    }
    device.run(1_000_000_000);
    // Each by its own length, credit or not.
    assert_eq!(device.times(), [1_000, 1_001_000, 2_001_000]);
}

#[test]
fn beyond_the_horizon_packets_are_dropped_or_brought_forward() {
    let beyond =
        |handle, time| Packet { transmit: TransmitTime::new(at(time)), ..packet(handle, 1) };
    let mut device = Device::new("fq.horizon=1ms");
    device.enqueue(beyond(0, 1_000_000));
    device.enqueue(beyond(1, 1_000_001));
    device.run(1_000_000_000);
    assert_eq!((device.times(), device.dropped), (vec![1_000_000], vec![(1, DropReason::Horizon)]));
    let mut device = Device::new("fq.horizon=1ms fq.horizon_mode=cap");
    device.enqueue(beyond(0, u64::MAX));
    device.run(1_000_000_000);
    assert_eq!((device.times(), device.statistics().horizon_caps), (vec![1_000_000], 1));
}

#[test]
fn packets_later_than_the_threshold_are_marked_and_counted_even_if_they_cannot_be() {
    let mut device = Device::new(&format!("{FLOWS} fq.ce_threshold=1ms"));
    for (handle, ecn) in (0..).zip([Ecn::Ect0, Ecn::Ect0, Ecn::NotEct, Ecn::Ect1, Ecn::Ce]) {
        device.enqueue(Packet { ecn, ..packet(handle, 1) });
    }
    for now in [0, 1_000_000, 1_000_001, 1_000_001, 1_000_001] {
        device.now = now;
        device.dequeue();
    }
    let marks: Vec<_> = device.left.iter().map(|left| left.3).collect();
    assert_eq!(marks, [Mark::None, Mark::None, Mark::Decided, Mark::Ce, Mark::Ce]);
    assert_eq!(device.statistics().ce_mark, 3);
}

#[test]
fn a_flow_at_its_limit_loses_packets_under_its_own_name() {
    let mut device = Device::new(FLOWS);
    for handle in 0..200 {
        device.enqueue(packet(handle, 7));
    }
    let expected: Vec<_> = (100..200).map(|handle| (handle, DropReason::FlowLimit)).collect();
    assert_eq!(device.dropped, expected);
    device.enqueue(packet(200, 8));
    assert_eq!(device.dropped.len(), 100, "others lose nothing");
    assert_eq!(device.statistics().flows_plimit, 100);
}

#[test]
fn the_limit_is_that_of_each_band() {
    let mut device = Device::new(&format!("{FLOWS} limit=2p"));
    // Bands 1, 2, 0 for priorities 0, 1, 6.
    for (handle, priority) in (1..).zip([0, 0, 0, 1, 1, 1, 6, 6, 6]) {
        device.enqueue(Packet { priority, ..packet(handle, u32::from(priority)) });
    }
    let dropped: Vec<_> = device.dropped.iter().map(|(handle, _)| *handle).collect();
    assert_eq!(dropped, [3, 6, 9]);
    assert!(device.dropped.iter().all(|(_, reason)| *reason == DropReason::BandLimit));
    let statistics = device.statistics();
    assert_eq!((statistics.band_packets, statistics.band_drops), ([2; 3], [1; 3]));
    assert_eq!(device.fq.backlog(), Backlog { packets: 6, bytes: 6_000 });
}

#[test]
fn bands_share_by_weight_and_a_weight_in_debt_waits_for_more_turns() {
    let mut device =
        Device::new(&format!("{FLOWS} fq.weights=65536,32768,16384 fq.flow_limit=1000p"));
    for handle in 0..1_000 {
        for (socket, priority) in [(1, 6), (2, 0), (3, 1)] {
            device.enqueue(Packet { priority, ..packet(handle * 3 + u64::from(socket), socket) });
        }
    }
    let left: Vec<_> = (0..1_000).filter_map(|_| device.dequeue()).collect();
    let shares = [1, 2, 0].map(|flow| left.iter().filter(|handle| *handle % 3 == flow).count());
    assert_eq!(shares.iter().sum::<usize>(), 1_000);
    for (share, fair) in shares.into_iter().zip([571, 286, 143]) {
        assert!((fair - 40..=fair + 40).contains(&share), "{shares:?}");
    }
}

#[test]
fn new_flows_go_first_and_flows_share_by_bytes() {
    let mut device = Device::new(&format!("{FLOWS} fq.initial_quantum=2000 fq.quantum=2000"));
    let urgent = |handle, socket| Packet { priority: 6, ..packet(handle, socket) };
    for handle in 10..30 {
        device.enqueue(urgent(handle, 1));
    }
    let first: Vec<_> = (0..7).filter_map(|_| device.dequeue()).collect();
    assert_eq!(first, [10, 11, 12, 13, 14, 15, 16]);
    for handle in 40..43 {
        device.enqueue(urgent(handle, 2));
    }
    let next: Vec<_> = (0..6).filter_map(|_| device.dequeue()).collect();
    assert_eq!(next, [40, 41, 17, 42, 18, 19]);
}

#[test]
fn a_flow_that_comes_back_gets_a_quantum_after_the_refill_delay_only() {
    for (gap, order) in [(40_000_000, [0, 1, 2, 3]), (40_000_001, [0, 1, 3, 2])] {
        let mut device = Device::new(&format!("{FLOWS} fq.initial_quantum=1500"));
        let urgent = |handle, socket| Packet { priority: 6, ..packet(handle, socket) };
        device.enqueue(urgent(0, 1));
        // While something waits, the flow's turn ends.
        device.enqueue(Packet { transmit: TransmitTime::new(at(1_000_000)), ..packet(9, 9) });
        device.run(gap);
        // The first flow may send another 500 bytes, or a quantum.
        for (handle, socket) in [(1, 1), (3, 1), (2, 2)] {
            device.enqueue(urgent(handle, socket));
        }
        device.run(gap);
        let left: Vec<_> = device.handles().into_iter().filter(|handle| *handle != 9).collect();
        assert_eq!(left, order, "after {gap}");
    }
}

#[test]
fn a_new_flow_starts_with_the_initial_quantum_even_where_that_is_less() {
    let mut device = Device::new(&format!("{FLOWS} fq.initial_quantum=500"));
    device.now = 1_000_000_000;
    for (handle, socket) in [(0, 1), (1, 1), (2, 2)] {
        device.enqueue(Packet { priority: 6, ..packet(handle, socket) });
    }
    device.run(device.now);
    assert_eq!(device.handles(), [0, 2, 1]);
}

#[test]
fn sockets_and_hashes_never_share_a_flow_and_hashes_share_under_the_mask() {
    let mut device = Device::new("fq.orphan_mask=3 fq.maxrate=1gbit");
    for (handle, flow) in [(0, 1), (1, 5), (2, 2)] {
        device.enqueue(Packet { socket: false, ..packet(handle, flow) });
    }
    device.enqueue(packet(3, 1));
    device.enqueue(packet(4, 5));
    assert_eq!(device.statistics().flows, 4);
}

#[test]
fn idle_flows_are_forgotten_after_three_seconds_when_new_ones_come() {
    let mut device = Device::new("fq.maxrate=1gbit fq.buckets=1 fq.orphan_mask=0xffffffff");
    for flow in 0..4 {
        device.send(packet(0, flow));
    }
    device.run(3_000_000_000);
    device.send(packet(0, 4));
    assert_eq!((device.statistics().gc_flows, device.statistics().flows), (0, 5));
    device.run(3_000_000_001);
    device.send(packet(0, 5));
    device.send(packet(0, 6));
    assert_eq!((device.statistics().gc_flows, device.statistics().flows), (4, 3));
    // One found again is not forgotten, however long it was away.
    device.run(10_000_000_000);
    device.send(packet(0, 5));
    assert_eq!((device.statistics().gc_flows, device.statistics().flows), (4, 3));
}

#[test]
fn another_number_of_buckets_forgets_all_idle_flows() {
    let mut device = Device::new("fq.maxrate=1gbit");
    for flow in 0..100 {
        device.send(packet(0, flow));
    }
    device.run(3_000_000_001);
    device.fq.configure(
        &parse("fq.maxrate=1gbit fq.buckets=512"),
        at(device.now),
        &mut device.effects,
    );
    assert_eq!((device.statistics().gc_flows, device.statistics().flows), (100, 0));
}

#[test]
fn flows_beyond_the_bound_of_memory_leave_first_and_unpaced() {
    let mut device: Device = Device::with_flows("fq.maxrate=8kbit", 2);
    for flow in 0..4 {
        device.enqueue(packet(u64::from(flow), flow));
        device.enqueue(packet(u64::from(flow) + 10, flow));
    }
    device.run(0);
    let statistics = device.statistics();
    assert_eq!((statistics.flows, statistics.allocation_errors), (2, 4));
    assert_eq!(device.handles(), [2, 12, 3, 13, 0, 1]);
}

#[test]
fn a_lower_limit_drops_in_the_order_of_departure_what_is_not_throttled() {
    let mut device = Device::new("");
    device.send(Packet { transmit: TransmitTime::new(at(1_000_000)), ..packet(0, 1) });
    for handle in 1..6 {
        device.enqueue(packet(handle, 2));
    }
    let lower =
        parse("").changed(&crate::Change { limit: Some(Limit::Packets(2)), ..Default::default() });
    device.fq.configure(&lower, at(0), &mut device.effects);
    let dropped: Vec<_> =
        device.effects.take_drops().map(|d| (d.packet.handle, d.reason)).collect();
    let expected: Vec<_> = (1..5).map(|handle| (handle, DropReason::Limit)).collect();
    assert_eq!(dropped, expected);
    let least = parse("limit=1p");
    device.dequeue();
    device.enqueue(Packet { transmit: TransmitTime::new(at(1_000_000)), ..packet(6, 1) });
    device.fq.configure(&least, at(0), &mut device.effects);
    assert_eq!((device.effects.take_drops().count(), device.fq.backlog().packets), (0, 2));
}

#[test]
fn the_packet_handed_out_last_counts_until_it_is_served() {
    let config = parse("");
    let mut fq: Fq = Fq::new(&config, 1, Instant::ZERO);
    let mut effects = Effects::default();
    let queued = |handle| Queued { packet: packet(handle, 1), entered: at(0), bytes: 1_000 };
    fq.enqueue(queued(0), &mut effects);
    assert!(fq.dequeue(at(0), &mut effects).is_some());
    assert_eq!(fq.backlog(), Backlog::default());
    // Not empty, but no flow has packets: eight more pass.
    fq.enqueue(queued(1), &mut effects);
    assert_eq!(fq.counters.fastpath_packets, 2);
    assert_eq!((fq.len, fq.backlog().packets), (2, 1));
    fq.served();
    assert_eq!(fq.len, 1);
}

/// Packets of a random run.
#[derive(Clone, Debug)]
struct Step {
    gap: u64,
    flow: u32,
    bytes: u64,
    priority: u8,
    rate: u64,
    transmit: Option<u64>,
    dequeues: u8,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let magnitude = |max: u32| (any::<u64>(), 0_u32..=max).prop_map(|(n, bits)| n >> (63 - bits));
    let step = (
        (prop_oneof![3 => Just(0), 1 => magnitude(30)], 0_u32..6, magnitude(12)),
        (0_u8..16, prop::option::weighted(0.2, magnitude(33)), any::<bool>(), 0_u8..4),
    );
    let step = step.prop_map(|((gap, flow, bytes), (priority, transmit, paced, dequeues))| {
        let rate = if paced { 20_000 << (flow * 3) } else { u64::MAX };
        Step { gap, flow, bytes: bytes.max(1), priority, rate, transmit, dequeues }
    });
    prop::collection::vec(step, 0..300)
}

fn parameters() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        "limit=5p",
        "fq.flow_limit=3p fq.wake=slack",
        "fq.maxrate=1mbit fq.quantum=1 fq.initial_quantum=0",
        "fq.horizon=1ms fq.horizon_mode=cap fq.weights=16384,16384,16384",
        "fq.pacing=off fq.ce_threshold=1us fq.buckets=1",
    ])
}

/// Runs `steps` and returns when each packet may leave at the earliest.
fn run_steps<T: Throttled>(device: &mut Device<T>, steps: &[Step], horizon: u64) -> Vec<u64> {
    let mut earliest = vec![];
    for (handle, step) in (0..).zip(steps) {
        let now = device.now + step.gap;
        device.run(now);
        let transmit = step.transmit.and_then(|ahead| TransmitTime::new(at(now + ahead)));
        let pacing_rate = rate(step.rate);
        let priority = step.priority;
        let packet = Packet { priority, pacing_rate, transmit, ..packet(handle, step.flow) };
        let latest = now + horizon;
        earliest.push(transmit.map_or(now, |transmit| transmit.at().as_nanos().min(latest)));
        device.enqueue_sized(packet, step.bytes);
        for _ in 0..step.dequeues {
            device.dequeue();
        }
    }
    device.run(u64::MAX);
    earliest
}

proptest! {
    #[test]
    fn every_packet_leaves_once_or_is_dropped_once_and_nothing_leaves_early(
        steps in steps(), parameters in parameters(),
    ) {
        let mut device = Device::new(parameters);
        let horizon = parse(parameters).fq.horizon.as_nanos();
        let earliest = run_steps(&mut device, &steps, horizon);
        prop_assert_eq!(device.fq.backlog(), Backlog::default());
        let statistics = device.statistics();
        prop_assert_eq!((statistics.throttled_flows, statistics.band_packets), (0, [0; 3]));
        prop_assert_eq!(statistics.inactive_flows, statistics.flows);
        for (handle, time, pacing, _) in &device.left {
            let index = usize::try_from(*handle).unwrap();
            prop_assert!(earliest[index] <= *time, "{} left at {}", handle, time);
            prop_assert!(*pacing <= *time);
        }
        let dropped = device.dropped.iter().map(|dropped| dropped.0);
        let mut fates: Vec<_> = device.handles().into_iter().chain(dropped).collect();
        fates.sort_unstable();
        prop_assert_eq!(fates, (0..steps.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn order_within_a_flow_is_kept(
        mut steps in steps(),
        parameters in prop::sample::select(vec!["fq.maxrate=1mbit", "fq.maxrate=1gbit limit=9p"]),
    ) {
        for step in &mut steps {
            step.transmit = None;
        }
        let mut device = Device::new(parameters);
        run_steps(&mut device, &steps, 0);
        for flow in 0..6 {
            let of_flow = |handle: &u64| steps[usize::try_from(*handle).unwrap()].flow == flow;
            let left: Vec<_> = device.handles().into_iter().filter(of_flow).collect();
            prop_assert!(left.is_sorted(), "{:?}", left);
        }
    }

    #[test]
    fn no_flow_is_faster_than_its_rate_once_its_first_quantum_is_used_up(
        mut steps in steps(), flow_rate in 20_000_u64..1_000_000_000,
    ) {
        let config = format!("fq.maxrate={flow_rate} fq.initial_quantum=0 fq.flow_limit=1000p");
        let mut device = Device::new(&config);
        for step in &mut steps {
            (step.flow, step.transmit) = (0, None);
        }
        run_steps(&mut device, &steps, 0);
        // Whatever is paced leaves with at most a quantum and a packet saved up.
        let (mut bytes, first) = (0_u64, device.left.first().map_or(0, |left| left.1));
        for (handle, time, ..) in &device.left {
            let step = &steps[usize::try_from(*handle).unwrap()];
            let carried = u128::from(time - first) * u128::from(flow_rate) / 8_000_000_000;
            let saved = u128::from(3_028 + 8_192_u64);
            prop_assert!(u128::from(bytes) <= carried + saved, "{bytes} by {time}");
            bytes += step.bytes;
        }
    }

    #[test]
    fn the_wheel_decides_as_the_tree(steps in steps(), parameters in parameters()) {
        let (mut wheel, mut tree) = (Device::new(parameters), Device::<Tree>::with_flows(parameters, 9));
        run_steps(&mut wheel, &steps, 0);
        run_steps(&mut tree, &steps, 0);
        prop_assert_eq!(wheel.left, tree.left);
        prop_assert_eq!(wheel.dropped, tree.dropped);
    }
}
