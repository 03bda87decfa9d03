use punctual_sched::{DropReason, Output, Rate};
use punctual_sim::{Scenario, Source, Traffic};

use crate::{constant, fates, ms, over};

/// The time for which packets queued and were serialised.
fn longest_queue_delay(scenario: &Scenario) -> u64 {
    let (_, fates) = fates(scenario);
    let waits = fates.iter().filter_map(|fate| match fate.output {
        Output::Depart { stages, .. } => Some((stages.queue + stages.serialisation).as_nanos()),
        Output::Drop { .. } => None,
    });
    waits.max().unwrap()
}

#[test]
fn overload_waits_no_longer_than_the_limit_and_drops_the_rest() {
    let overload = |limit: &str| Scenario {
        sources: vec![constant("40mbit")],
        duration: ms(5_000),
        ..over(&format!("rate=20mbit delay=10ms {limit}"))
    };
    for (limit, longest) in
        [("limit=100ms", 100_000_000), ("", 100_000_000), ("limit=7ms", 7_000_000)]
    {
        let waited = longest_queue_delay(&overload(limit));
        // The greatest whole number of packets below the limit, 1514 bytes of 605.6 us each.
        assert!(waited <= longest && waited > longest - 605_600, "{limit}: {waited} ns");
    }
    let outcome = overload("").run().unwrap();
    let dropped = outcome.dropped(DropReason::Limit);
    assert!(dropped.abs_diff(outcome.flows[0].sent / 2) < 200, "{dropped}");
    insta::assert_snapshot!(outcome);
}

#[test]
fn a_slow_link_holds_at_least_sixteen_full_packets() {
    let burst = Traffic::Burst { packets: 17, every: ms(10_000) };
    let scenario = Scenario { sources: vec![Source::new(burst)], ..over("rate=64kbit") };
    let (outcome, _) = fates(&scenario);
    assert_eq!((outcome.flows[0].delivered, outcome.dropped(DropReason::Limit)), (16, 1));
}

#[test]
fn a_limit_in_packets_counts_the_one_in_service() {
    let burst = Traffic::Burst { packets: 50, every: ms(10_000) };
    let link = "rate=1mbit limit=10p";
    let scenario = Scenario { sources: vec![Source::new(burst)], ..over(link) };
    let (outcome, _) = fates(&scenario);
    assert_eq!((outcome.flows[0].delivered, outcome.dropped(DropReason::Limit)), (10, 40));
}

#[test]
fn an_access_rate_keeps_a_burst_from_overflowing_the_queue() {
    let burst = Traffic::Burst { packets: 44, every: ms(100) };
    let with_nic = |nic: &str| Scenario {
        sources: vec![Source::new(burst)],
        ..over(&format!("rate=100mbit limit=20p nic={nic}"))
    };
    let dropped = |nic| with_nic(nic).run().unwrap().dropped(DropReason::Limit);
    // Ten bursts: straight into the queue 24 of 44 do not fit, at 110 Mbit/s all do.
    assert_eq!((dropped("unlimited"), dropped("110mbit")), (240, 0));
}

#[test]
fn a_window_of_packets_keeps_the_link_full_and_the_queue_bounded() {
    let greedy = Traffic::Greedy { window: 40, back: ms(10) };
    let scenario = Scenario {
        sources: vec![Source::new(greedy)],
        duration: ms(2_000),
        ..over("rate=20mbit delay=10ms")
    };
    let (outcome, _) = fates(&scenario);
    let packet = Rate::from_bps(20_000_000).unwrap().as_bps() * 1_500 / 1_514;
    assert!(outcome.flows[0].throughput_bps.abs_diff(packet) <= 1);
    assert_eq!(outcome.dropped(DropReason::Limit), 0);
    insta::assert_snapshot!(outcome);
}
