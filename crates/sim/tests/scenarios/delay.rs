use punctual_sched::{DropReason, Duration, Output};
use punctual_sim::{Scenario, Source, Traffic};

use crate::{constant, fates, ms, over, rate};

#[test]
fn stages_add_up_to_the_whole_delay_of_every_packet() {
    let scenario = Scenario {
        sources: vec![
            Source::new(Traffic::Poisson(rate("9mbit"))),
            Source::new(Traffic::Burst { packets: 10, every: ms(50) }),
        ],
        duration: ms(5_000),
        ..over("rate=12mbit delay=100ms nic=100mbit")
    };
    let (outcome, fates) = fates(&scenario);
    for fate in &fates {
        let Output::Depart { packet, due, stages, .. } = fate.output else { continue };
        let total = due.since(packet.arrival);
        let sum = stages.pacing + stages.queue + stages.serialisation + stages.propagation;
        assert_eq!(sum, total, "{fate:?}");
        // 1514 bytes at 12 Mbit/s: 1009.3 us, rounded by less than 1 ns to either side.
        assert!(stages.serialisation >= Duration::from_nanos(1_009_333), "{fate:?}");
        assert!(total >= ms(101) && stages.propagation == ms(100), "{fate:?}");
    }
    assert!(outcome.flows.iter().all(|flow| flow.delivered >= 1_000));
    insta::assert_snapshot!(outcome);
}

#[test]
fn a_hundred_thousand_packets_a_second_for_a_hundred_milliseconds_lose_none() {
    let scenario = Scenario {
        // 100,000/s of 100 bytes.
        sources: vec![constant("80mbit").with_len(100)],
        duration: ms(2_000),
        ..over("delay=100ms")
    };
    let (outcome, _) = fates(&scenario);
    assert_eq!((outcome.flows[0].sent, outcome.flows[0].delivered), (200_000, 200_000));
    assert_eq!(outcome.flows[0].sojourn.min(), ms(100));
    assert_eq!(outcome.flows[0].sojourn.max(), ms(100));
    insta::assert_snapshot!(outcome);
}

#[test]
fn memory_that_runs_out_is_named_and_not_blamed_on_the_queue() {
    let scenario = Scenario {
        sources: vec![constant("80mbit").with_len(100)],
        duration: ms(500),
        ..over("delay=100ms hold=1mb")
    };
    let (outcome, _) = fates(&scenario);
    let reasons = DropReason::ALL.into_iter().filter(|reason| outcome.dropped(*reason) > 0);
    assert_eq!(reasons.collect::<Vec<_>>(), [DropReason::HoldFull]);
    assert!(outcome.link.held_peak_bytes <= 1 << 20);
}

#[test]
fn jitter_spreads_over_its_whole_range_and_keeps_the_order() {
    let scenario = Scenario {
        // Ten per second: no packet meets another.
        sources: vec![constant("120kbit")],
        duration: Duration::from_secs(2_000),
        ..over("delay=20ms jitter=5ms")
    };
    let sojourn = &fates(&scenario).0.flows[0].sojourn;
    for (percent, expected) in [(1, 15_100), (25, 17_500), (50, 20_000), (75, 22_500), (99, 24_900)]
    {
        // 20,000 draws: the standard error of a quartile is 31 us.
        let off = sojourn.percentile(percent).as_nanos().abs_diff(expected * 1_000);
        assert!(off < 130_000, "{percent} %: off by {off} ns");
    }
    let crowded = Scenario { sources: vec![constant("120mbit")], ..over("delay=20ms jitter=5ms") };
    let (_, fates) = fates(&crowded);
    assert!(fates.windows(2).all(|pair| pair[0].number < pair[1].number));
}
