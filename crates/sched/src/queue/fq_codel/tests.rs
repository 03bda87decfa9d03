use proptest::prelude::*;

use super::*;
use crate::config::{Change, Limit};
use crate::{Link, Output};

fn config(words: &str) -> LinkConfig {
    LinkConfig::parse(&format!("queue=fq_codel framing=0 {words}"), "--up").unwrap()
}

/// A hash that falls into bucket `bucket` of 1024.
fn hash(bucket: u32) -> u32 {
    bucket << 22
}

fn packet(handle: u64, at: u64, flow: u32, len: u32) -> Packet {
    Packet::on_path(handle, Instant::from_nanos(at), len, hash(flow))
}

fn queued(handle: u64, at: u64, flow: u32, len: u32) -> Queued {
    let packet = packet(handle, at, flow, len);
    Queued { packet, entered: packet.arrival, bytes: len.into() }
}

/// A queue at time 0 that has taken in `(flow, bytes)` with handles 0, 1, ...
fn filled(words: &str, packets: &[(u32, u32)]) -> (FqCodel, Effects) {
    let (mut queue, mut effects) = (FqCodel::new(&config(words)), Effects::default());
    for (handle, (flow, len)) in (0..).zip(packets) {
        queue.enqueue(queued(handle, 0, *flow, *len), &mut effects);
    }
    (queue, effects)
}

/// Handles in order of departure, all at `now`.
fn drain(queue: &mut FqCodel, effects: &mut Effects, now: u64) -> Vec<u64> {
    let now = Instant::from_nanos(now);
    core::iter::from_fn(|| queue.dequeue(now, effects)).map(|s| s.queued.packet.handle).collect()
}

fn drops(effects: &mut Effects) -> Vec<(u64, DropReason)> {
    effects.take_drops().map(|drop| (drop.packet.handle, drop.reason)).collect()
}

fn counter(queue: &FqCodel, name: &str) -> u64 {
    let counters = queue.statistics().counters();
    counters.into_iter().find(|(known, _)| *known == name).unwrap().1
}

const MILLISECOND: u64 = 1_000_000;

#[test]
fn hashes_are_scaled_to_the_buckets() {
    for count in [1, 3, 1_024, 65_536] {
        let flows = Flows::new(count);
        assert_eq!((flows.of(0), flows.of(u32::MAX)), (0, count - 1));
        assert_eq!(flows.of(1 << 31), count / 2);
    }
}

#[test]
fn a_new_flow_goes_first_and_flows_then_take_turns_of_a_quantum() {
    let all = [(1, 1_500), (1, 1_500), (1, 1_500), (2, 1_500), (2, 1_500), (3, 100)];
    let (mut queue, mut effects) = filled("", &all);
    // 1, 2 and 3 are new and get a packet each, 3 is out, then 1 and 2 take turns.
    assert_eq!(drain(&mut queue, &mut effects, 1), [0, 3, 5, 1, 4, 2]);
    assert_eq!(counter(&queue, "new_flow_count"), 3);
    assert_eq!(
        queue.statistics().to_string().lines().last(),
        Some("new_flows_len 0 old_flows_len 0")
    );
}

#[test]
fn turns_count_bytes_and_not_packets() {
    let mut all = vec![(1, 1_000); 30];
    all.extend(vec![(2, 250); 120]);
    let (mut queue, mut effects) = filled("fq_codel.quantum=1000b", &all);
    let order = drain(&mut queue, &mut effects, 1);
    let bytes: u64 = order[..75].iter().map(|h| if *h < 30 { 1_000 } else { 250 }).sum();
    let fat: u64 = order[..75].iter().filter(|h| **h < 30).map(|_| 1_000).sum();
    assert!(fat.abs_diff(bytes - fat) <= 1_000, "{fat} of {bytes}");
}

#[test]
fn a_flow_that_ran_empty_waits_behind_the_old_ones_before_it_is_new_again() {
    let (mut queue, mut effects) = filled("", &[(1, 1_500); 5]);
    let mut left = Vec::new();
    // Flow 2 sends small packets, one for each two that leave.
    for handle in 10..14 {
        queue.enqueue(queued(handle, 1, 2, 100), &mut effects);
        for _ in 0..2 {
            let served = queue.dequeue(Instant::from_nanos(2), &mut effects).unwrap();
            left.push(served.queued.packet.handle);
        }
    }
    // It is new with 10 and 11, old with 12, and with 13 new again.
    assert_eq!(left, [0, 10, 11, 1, 12, 2, 13, 3]);
    assert_eq!(counter(&queue, "new_flow_count"), 3);
}

#[test]
fn an_overflow_drops_half_of_the_fattest_flow_from_its_head() {
    let (queue, mut effects) = filled(
        "limit=8p",
        &[
            (1, 500),
            (2, 1_000),
            (2, 1_000),
            (2, 1_000),
            (2, 1_000),
            (3, 900),
            (3, 900),
            (3, 900),
            (1, 500),
        ],
    );
    let limit = |handle| (handle, DropReason::Limit);
    assert_eq!(drops(&mut effects), [limit(1), limit(2)]);
    assert_eq!(queue.backlog(), Backlog { packets: 7, bytes: 5_700 });
    assert_eq!(counter(&queue, "drop_overlimit"), 2);
    assert_eq!(counter(&queue, "drop_overmemory"), 0);
    assert_eq!(queue.flows.get(2).control.count(), 2, "drops are signals");
}

#[test]
fn an_overflow_drops_no_more_than_a_batch() {
    let (queue, mut effects) = filled("limit=100p fq_codel.drop_batch=3", &[(1, 1_000); 101]);
    assert_eq!(drops(&mut effects).len(), 3);
    assert_eq!(queue.backlog().packets, 98);
}

#[test]
fn memory_is_limited_by_the_true_size() {
    let limit = 10 * true_size(100);
    let words = format!("fq_codel.memory_limit={limit}b");
    let (queue, mut effects) = filled(&words, &[(1, 100); 10]);
    assert_eq!((drops(&mut effects), counter(&queue, "memory_used")), (vec![], limit));
    let (queue, mut effects) = filled(&words, &[(1, 100); 11]);
    let gone = drops(&mut effects);
    assert_eq!(gone.len(), 6, "half of 1100 bytes, from 550 up");
    assert!(gone.iter().all(|(_, reason)| *reason == DropReason::MemoryLimit));
    assert_eq!((counter(&queue, "drop_overmemory"), counter(&queue, "drop_overlimit")), (6, 6));
    assert_eq!(counter(&queue, "memory_used"), 5 * true_size(100));
}

#[test]
fn each_flow_has_its_own_controller_but_the_backlog_of_all_counts() {
    let mut all = vec![(1, 1_000); 50];
    all.extend([(2, 100), (2, 100), (2, 100)]);
    let (mut queue, mut effects) = filled("", &all);
    for now in [10, 10, 10, 120] {
        assert!(queue.dequeue(Instant::from_nanos(now * MILLISECOND), &mut effects).is_some());
    }
    let gone = drops(&mut effects);
    // Flow 2 alone, with no more than 200 bytes, would be good, but 48 packets of flow 1 wait, too.
    assert_eq!(gone, [(51, DropReason::Congested)]);
}

#[test]
fn ce_threshold_is_for_selected_packets() {
    let words = "fq_codel.ce_threshold=1ms fq_codel.ce_threshold_selector=0x01/0x03";
    let (mut queue, mut effects) = (FqCodel::new(&config(words)), Effects::default());
    for (handle, ecn) in (0..).zip([Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce]) {
        let plain = queued(handle, 0, 1, 100);
        let queued = Queued { packet: Packet { ecn, dscp: 46, ..plain.packet }, ..plain };
        queue.enqueue(queued, &mut effects);
    }
    let now = Instant::from_nanos(MILLISECOND + 1);
    let marks: Vec<_> = core::iter::from_fn(|| queue.dequeue(now, &mut effects))
        .map(|s| s.mark == Mark::Ce)
        .collect();
    assert_eq!(marks, [false, true, false, false]);
    assert_eq!(counter(&queue, "ce_mark"), 1);
    for (text, ds_field, selected) in
        [("0/0", 0xff, true), ("0xb8/0xfc", 0xb9, true), ("0xb8/0xfc", 0x00, false)]
    {
        assert_eq!(text.parse::<Selector>().unwrap().selects(ds_field), selected, "{text}");
    }
}

#[test]
fn a_huge_packet_costs_its_flow_a_thousand_turns_at_most() {
    let (mut queue, mut effects) =
        (FqCodel::new(&config("fq_codel.quantum=256b")), Effects::default());
    let huge = Queued { bytes: u64::MAX >> 8, ..queued(0, 0, 1, u32::MAX) };
    queue.memory_limit = u64::MAX;
    queue.enqueue(huge, &mut effects);
    queue.enqueue(queued(1, 0, 1, 100), &mut effects);
    assert_eq!(drain(&mut queue, &mut effects, 1), [0, 1]);
}

#[test]
fn a_lower_limit_drops_as_an_overflow_does() {
    let mut link = Link::new(&config("rate=8mbit"), 1, Instant::ZERO).unwrap();
    for handle in 0..100 {
        link.arrive(packet(handle, 0, u32::from(handle % 10 == 0), 1_000));
    }
    let change = Change { limit: Some(Limit::Packets(20)), ..Change::default() };
    link.change(&change, Instant::ZERO).unwrap();
    // 100 less half of 90, 45, ... : flow 0 keeps what fits beside the thin flow.
    let snapshot = link.snapshot();
    assert!(snapshot.backlog_packets <= 20);
    assert!(snapshot.backlog_packets >= 10);
    assert_eq!(snapshot.dropped[DropReason::Limit.index()] + snapshot.queued, 100);
    assert_eq!(config("").resolved_limit().packets, 10_240);
}

#[test]
fn values_out_of_range_are_refused() {
    for (words, message) in [
        ("fq_codel.flows=0", "fq_codel.flows: 0 is out of range, expected 1 to 65536"),
        ("fq_codel.flows=65537", "fq_codel.flows: 65537 is out of range, expected 1 to 65536"),
        ("fq_codel.flows=many", r#"fq_codel.flows: "many" is no whole number such as 1024"#),
        ("fq_codel.quantum=255b", "fq_codel.quantum: 255b is out of range, expected 256b to 1mb"),
        (
            "fq_codel.quantum=1048577b",
            "fq_codel.quantum: 1048577b is out of range, expected 256b to 1mb",
        ),
        (
            "fq_codel.memory_limit=0b",
            "fq_codel.memory_limit: 0b is out of range, expected 1b to 2gb",
        ),
        (
            "fq_codel.memory_limit=3gb",
            "fq_codel.memory_limit: 3gb is out of range, expected 1b to 2gb",
        ),
        (
            "fq_codel.drop_batch=0",
            "fq_codel.drop_batch: 0 is out of range, expected 1 to 4294967295",
        ),
        (
            "fq_codel.ce_threshold_selector=1",
            r#"fq_codel.ce_threshold_selector: "1" is no VALUE/MASK of 8 bits such as 0x01/0x03"#,
        ),
        (
            "fq_codel.ce_threshold_selector=0x100/0xff",
            r#"fq_codel.ce_threshold_selector: "0x100/0xff" is no VALUE/MASK of 8 bits such as 0x01/0x03"#,
        ),
        (
            "fq_codel.ce_threshold_selector=3/1",
            r#"fq_codel.ce_threshold_selector: "3/1" selects nothing: the value has bits outside the mask"#,
        ),
        ("fq_codel.interval=0ms", "fq_codel.interval: 0ms is no interval, expected 1us or more"),
        (
            "limit=100ms rate=1mbit",
            "limit: 100ms: fq_codel counts packets, expected for example 1000p",
        ),
        (
            "gso=keep",
            "gso: keep would mark or drop whole bursts where the queue means packets, expected split or auto",
        ),
    ] {
        let error = LinkConfig::parse(&format!("queue=fq_codel {words}"), "--up").unwrap_err();
        assert_eq!(error.to_string(), format!("--up: {message}"), "{words}");
    }
    let error = LinkConfig::parse("fq_codel.flows=7", "--up").unwrap_err();
    assert_eq!(error.to_string(), "--up: fq_codel.flows: needs queue=fq_codel");
}

#[test]
fn fq_codel_shows_as_tc_shows_it() {
    let config = config("rate=8mbit limit=3p");
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    for handle in 0..5 {
        link.arrive(packet(handle, 0, 1, 1_000));
    }
    link.advance(Instant::from_nanos(MILLISECOND));
    let memory = true_size(1_000);
    let expected = format!(
        "qdisc fq_codel root limit 3p flows 1024 quantum 1500 target 5ms interval 100ms \
         memory_limit 32Mb ecn drop_batch 64\n \
         Sent 1000 bytes 1 pkt (dropped 2, overlimits 0 requeues 0)\n \
         backlog 2000b 2p requeues 0\n  \
         maxpacket 1000 drop_overlimit 2 new_flow_count 1 ecn_mark 0 memory_used {memory}\n  \
         new_flows_len 1 old_flows_len 0"
    );
    assert_eq!(super::super::show(&config, &link.snapshot()), expected);
}

prop_compose! {
    fn selectors()(value in any::<u8>(), mask in any::<u8>()) -> Selector {
        Selector { value: value & mask, mask }
    }
}

proptest! {
    #[test]
    fn parameters_read_back_as_they_were_written(
        (flows, quantum) in (1..=65_536_u32, prop::option::of(256..=1_048_576_u32)),
        (memory_limit, drop_batch) in (1..=1_u32 << 31, 1..=u32::MAX),
        (ecn, selector) in (any::<bool>(), selectors()),
    ) {
        let mut written = config("");
        let codel = super::super::codel::CodelConfig { ecn, ..written.fq_codel.codel };
        written.fq_codel = FqCodelConfig { flows, quantum, memory_limit, drop_batch, selector, codel };
        let entries = written.entries();
        let read = LinkConfig::from_entries(entries.iter().map(|(n, v)| (*n, v.as_str())), None);
        prop_assert_eq!(read, Ok(written));
    }

    #[test]
    fn everything_leaves_once_in_order_within_its_flow_and_limits_hold(
        steps in prop::collection::vec(
            (0..20_u32, 1..3_000_u32, 0..3_000_000_u64, 0..4_u8, any::<bool>()), 1..300),
        (limit, batch) in (1..40_u32, 1..10_u32),
        linux in any::<bool>(),
    ) {
        let arithmetic = if linux { "linux" } else { "rfc" };
        let words = format!(
            "limit={limit}p fq_codel.drop_batch={batch} fq_codel.arithmetic={arithmetic} \
             fq_codel.memory_limit=60kb fq_codel.interval=5ms fq_codel.target=1ms fq_codel.flows=16"
        );
        let (mut queue, mut effects) = (FqCodel::new(&config(&words)), Effects::default());
        let (mut now, mut left, mut gone) = (0, Vec::new(), Vec::new());
        let mut taken = 0;
        for (handle, (flow, len, gap, ecn, ask)) in (0..).zip(&steps) {
            now += gap;
            let plain = queued(handle, now, 0, *len);
            let packet = Packet { flow: flow << 27, ecn: Ecn::from_tos(*ecn), ..plain.packet };
            queue.enqueue(Queued { packet, ..plain }, &mut effects);
            taken += 1;
            gone.extend(effects.take_drops().map(|drop| drop.packet.handle));
            prop_assert!(queue.held.all().packets <= u64::from(limit));
            if *ask && let Some(served) = queue.dequeue(Instant::from_nanos(now), &mut effects) {
                prop_assert!(served.mark != Mark::Ce || served.queued.packet.ecn.is_capable());
                left.push(served.queued.packet);
            }
            gone.extend(effects.take_drops().map(|drop| drop.packet.handle));
            prop_assert_eq!(
                left.len() + gone.len() + usize::try_from(queue.backlog().packets).unwrap(), taken);
        }
        while let Some(served) = queue.dequeue(Instant::from_nanos(now), &mut effects) {
            left.push(served.queued.packet);
        }
        gone.extend(effects.take_drops().map(|drop| drop.packet.handle));
        for flow in 0..20 {
            let of_flow = left.iter().filter(|packet| packet.flow == flow << 27);
            prop_assert!(of_flow.map(|packet| packet.handle).is_sorted());
        }
        let mut all: Vec<_> = left.iter().map(|packet| packet.handle).chain(gone).collect();
        all.sort_unstable();
        prop_assert_eq!(all, (0..taken as u64).collect::<Vec<_>>());
        prop_assert_eq!(queue.backlog(), Backlog::default());
        prop_assert_eq!((queue.memory, queue.flows.lengths()), (0, (0, 0)));
    }

    #[test]
    fn any_time_and_size_is_survived(
        steps in prop::collection::vec((any::<u64>(), any::<u32>(), any::<u32>()), 1..60),
        linux in any::<bool>(), flows in 1..=65_536_u32,
    ) {
        let arithmetic = if linux { "linux" } else { "rfc" };
        let words = format!("rate=100kbit limit=20p fq_codel.flows={flows} fq_codel.arithmetic={arithmetic}");
        let mut link = Link::new(&config(&words), 1, Instant::ZERO).unwrap();
        let mut now = 0_u64;
        for (handle, (gap, len, flow)) in (0..).zip(steps) {
            now = now.saturating_add(gap >> (handle * 7 % 64));
            link.arrive(Packet { flow, ..packet(handle, now, 0, len.max(1)) });
        }
        link.advance(Instant::from_nanos(u64::MAX));
        let departed = core::iter::from_fn(|| link.poll())
            .filter(|output| matches!(output, Output::Depart { .. })).count() as u64;
        let snapshot = link.snapshot();
        let dropped: u64 = snapshot.dropped.iter().sum();
        prop_assert_eq!(departed + dropped + snapshot.queued, snapshot.packets_in);
    }
}
