//! `fq` in a link.
#![expect(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use punctual_sched::queue::show;
use punctual_sched::{
    Cause, Change, DropReason, Instant, Link, LinkConfig, Output, Packet, Rate, Stages,
};

fn link(parameters: &str) -> Link {
    let config = LinkConfig::parse(&format!("queue=fq {parameters}"), "test").unwrap();
    Link::new(&config, 1, Instant::ZERO).unwrap()
}

/// 986 bytes, 1,000 with framing.
fn packet(handle: u64, arrival: u64, flow: u32) -> Packet {
    Packet { socket: true, ..Packet::on_path(handle, Instant::from_nanos(arrival), 986, flow) }
}

fn drain(link: &mut Link) -> Vec<Output> {
    core::iter::from_fn(|| link.poll()).collect()
}

/// Runs the link until nothing more happens.
fn run_out(link: &mut Link) -> Vec<Output> {
    let mut outputs = drain(link);
    while let Some(deadline) = link.next_event() {
        link.advance(deadline.at);
        outputs.extend(drain(link));
    }
    outputs
}

/// Handle, flow, due time and stages of departures.
fn departures(outputs: &[Output]) -> Vec<(u64, u32, u64, Stages)> {
    let departure = |output: &Output| match output {
        Output::Depart { packet, due, stages, .. } => {
            Some((packet.handle, packet.flow, due.as_nanos(), *stages))
        }
        Output::Drop { .. } => None,
    };
    outputs.iter().filter_map(departure).collect()
}

#[test]
fn a_flow_that_sends_200_back_to_back_loses_what_is_beyond_its_limit_and_others_nothing() {
    let mut link = link("rate=8mbit");
    for handle in 0..200 {
        link.arrive(packet(handle, 0, 7));
    }
    link.arrive(packet(200, 1_000, 8));
    let outputs = run_out(&mut link);
    let drops: Vec<_> = outputs
        .iter()
        .filter_map(|output| match output {
            Output::Drop { packet, reason, .. } => Some((packet.flow, *reason)),
            Output::Depart { .. } => None,
        })
        .collect();
    // One is in service and eight had no flow yet, as none had packets.
    assert_eq!(drops, vec![(7, DropReason::FlowLimit); 200 - 100 - 1 - 8]);
    // Ahead of the thin flow are the nine without a flow and the fat one's own first quantum.
    let place = departures(&outputs).iter().position(|departure| departure.1 == 8).unwrap();
    assert_eq!(place, 9 + 16);
}

#[test]
fn the_delay_account_parts_the_wait_for_a_rate_from_the_wait_for_others() {
    let mut link = link("rate=8mbit delay=5ms fq.maxrate=400kbit");
    for handle in 0..2 {
        link.arrive(packet(handle, 0, 1));
    }
    // Others, in service when the second packet's time comes.
    for (handle, arrival) in [(2, 19_500_000), (3, 19_600_000)] {
        link.arrive(packet(handle, arrival, u32::try_from(handle).unwrap()));
    }
    let outputs = run_out(&mut link);
    for output in &outputs {
        let Output::Depart { packet, due, stages, .. } = output else { panic!("{output:?}") };
        let Stages { pacing, queue, serialisation, propagation } = *stages;
        assert_eq!(pacing + queue + serialisation + propagation, due.since(packet.arrival));
        assert_eq!(propagation.as_nanos(), 5_000_000);
    }
    let second = departures(&outputs).into_iter().find(|departure| departure.0 == 1).unwrap();
    // A gap of 20 ms, then half a millisecond or more behind the others.
    assert_eq!(second.3.pacing.as_nanos(), 20_000_000);
    assert!([500_000, 1_500_000].contains(&second.3.queue.as_nanos()), "{:?}", second.3);
}

/// Pacers that send in bursts of ten packets or of 100 ms, and miss their rate (quinn#2627,
/// iperf#460).
#[test]
fn a_paced_flow_leaves_in_bursts_of_one_quantum_at_most_and_at_its_rate() {
    for (rate, bps, most) in
        [("400kbit", 400_000, 1), ("10mbit", 10_000_000, 2), ("1gbit", 1_000_000_000, 2_u64)]
    {
        let mut link = link(&format!("fq.maxrate={rate} fq.flow_limit=1000"));
        for handle in 0..500 {
            let full = Packet::on_path(handle, Instant::ZERO, 1_500, 7);
            link.arrive(Packet { socket: true, ..full });
        }
        let dues: Vec<u64> =
            departures(&run_out(&mut link)).into_iter().map(|(_, _, due, _)| due).collect();
        // The initial quantum of ten packets, and those of the fast path before it.
        let steady = &dues[40..];
        let together = |due: &u64| steady.iter().filter(|other| *other == due).count() as u64;
        let burst = steady.iter().map(together).max().unwrap();
        assert!(burst <= most, "{rate}: {burst} packets at once");
        let (first, last) = (steady[0], steady[steady.len() - 1]);
        let bits = u128::from(steady.iter().filter(|due| **due > first).count() as u64) * 1_514 * 8;
        let carried = bits * 1_000_000_000 / u128::from(last - first);
        assert!(carried.abs_diff(bps) * 200 <= bps, "{rate}: {carried} bit/s");
    }
}

#[test]
fn the_link_wakes_at_a_flows_time_and_names_the_queue_as_the_cause() {
    let mut link = link("fq.maxrate=400kbit");
    link.arrive(packet(0, 0, 1));
    link.arrive(packet(1, 0, 1));
    drain(&mut link);
    let deadline = link.next_event().unwrap();
    assert_eq!((deadline.at.as_nanos(), deadline.cause), (20_000_000, Cause::Queue));
    assert_eq!(departures(&run_out(&mut link))[0].2, 20_000_000);
}

#[test]
fn batches_and_single_arrivals_have_the_same_fates() {
    let config = "rate=20mbit fq.maxrate=5mbit fq.flow_limit=20p";
    let packets: Vec<_> = (0..500_u32)
        .map(|number| packet(number.into(), u64::from(number / 10) * 300_000, number * 7 % 13))
        .collect();
    let (mut one, mut all) = (link(config), link(config));
    for packet in &packets {
        one.arrive(*packet);
    }
    all.arrive_batch(&packets);
    assert_eq!(run_out(&mut one), run_out(&mut all));
}

#[test]
fn a_paused_link_keeps_its_flows_and_a_change_of_rate_lets_them_go_on() {
    let mut link = link("rate=0 fq.maxrate=800kbit");
    for handle in 0..4 {
        link.arrive(packet(handle, 0, 1));
    }
    assert_eq!(link.next_event(), None);
    let change = Change { rate: Rate::from_bps(8_000_000), ..Change::default() };
    link.change(&change, Instant::from_nanos(1_000_000_000)).unwrap();
    assert_eq!(departures(&run_out(&mut link)).len(), 4);
    assert_eq!(link.snapshot().queued, 0);
}

/// Flow 1's second packet may leave at 20 ms; flow 2's packet is in service from 19.5 to 20.5 ms.
#[test]
fn a_flow_whose_time_comes_while_the_link_is_busy_is_looked_at_when_it_is_free() {
    for (rate, expected) in [("rate=8mbit", 500_000 / 8), ("rate=unlimited", 0)] {
        let mut link = link(&format!("{rate} fq.maxrate=400kbit"));
        link.arrive(packet(0, 0, 1));
        link.arrive(packet(1, 0, 1));
        link.advance(Instant::from_nanos(19_500_000));
        link.arrive(packet(2, 19_500_000, 2));
        link.advance(Instant::from_nanos(30_000_000));
        let counters = link.snapshot().discipline.counters();
        assert!(counters.contains(&("latency", expected)), "{rate}: {counters:?}");
    }
}

#[test]
fn a_queue_shows_as_tc_shows_one() {
    let config = LinkConfig::parse("rate=8mbit queue=fq fq.maxrate=400kbit", "test").unwrap();
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    for handle in 0..3 {
        link.arrive(packet(handle, 0, 1));
    }
    link.advance(Instant::from_nanos(5_000_000));
    let expected = "\
qdisc fq root limit 10000p flow_limit 100p buckets 1024 orphan_mask 1023 \
bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1 weights 589824 196608 65536 quantum 3028b \
initial_quantum 15140b maxrate 400Kbit low_rate_threshold 550Kbit refill_delay 40ms \
timer_slack 10us horizon 10s horizon_drop
 Sent 1000 bytes 1 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 2000b 2p requeues 0
  flows 1 (inactive 0 throttled 1) band0_pkts 0 band1_pkts 2 band2_pkts 0 next_packet_delay 19ms
  gc 0 highprio 0 throttled 1";
    assert_eq!(show(&config, &link.snapshot()), expected);
}
