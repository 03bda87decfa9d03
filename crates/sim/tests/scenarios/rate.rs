use punctual_sched::{Change, DropReason, Duration, Output};
use punctual_sim::{Scenario, Source, Traffic};

use crate::{constant, fates, ms, over};

#[test]
fn the_rate_is_exact_over_a_minute_at_odd_rates() {
    for (bps, len) in
        [(19_999_999_u64, 1_500_u32), (1_000_003, 1_111), (64_001, 77), (333_333_333, 1_500)]
    {
        let offered = constant(&format!("{}bit", bps * 2)).with_len(len);
        let scenario = Scenario {
            sources: vec![offered],
            duration: Duration::from_secs(60),
            ..over(&format!("rate={bps}bit"))
        };
        let mut dues = Vec::new();
        scenario
            .run_observed(|fate| {
                if let Output::Depart { due, .. } = fate.output {
                    dues.push(due.as_nanos());
                }
            })
            .unwrap();
        // The first packet arrives at 0 into an idle link: packet n ends when n + 1 have been
        // serialised, rounded up to the nanosecond, whatever happened before.
        let bits = u128::from(len + 14) * 8;
        for (n, due) in dues.iter().enumerate() {
            let exact = (bits * (n as u128 + 1) * 1_000_000_000).div_ceil(u128::from(bps));
            assert_eq!(u128::from(*due), exact, "packet {n} at {bps} bit/s");
        }
        assert!(dues.last().unwrap() > &60_000_000_000, "{bps}");
    }
}

#[test]
fn tcp_fills_a_link_behind_a_faster_sender_with_the_burst_shown() {
    // A gigabit sender into 100 Mbit/s and 150 ms of round trip.
    let reno = Source::new(Traffic::Reno { back: ms(75) });
    let scenario = Scenario {
        sources: vec![reno],
        duration: Duration::from_secs(120),
        ..over("rate=100mbit delay=75ms burst=15kb nic=1gbit limit=150ms")
    };
    let (outcome, _) = fates(&scenario);
    let most = 100_000_000 * 1_500 / 1_514;
    assert!(outcome.flows[0].throughput_bps > most * 90 / 100);
    let table = outcome.to_string();
    assert!(table.contains("burst 15kb = 1228800ns"), "{table}");
    insta::assert_snapshot!(table);
}

#[test]
fn a_burst_leaves_at_once_after_idling_and_never_more_than_its_size() {
    let burst = Traffic::Burst { packets: 20, every: ms(500) };
    let link = "rate=8mbit framing=0 burst=15000";
    let scenario = Scenario { sources: vec![Source::new(burst)], ..over(link) };
    let (_, fates) = fates(&scenario);
    let waits: Vec<u64> = fates
        .iter()
        .filter_map(|fate| match fate.output {
            Output::Depart { packet, due, .. } => Some(due.since(packet.arrival).as_nanos()),
            Output::Drop { .. } => None,
        })
        .collect();
    // Ten packets of saved-up tokens, then one each 1.5 ms; the same at the second burst.
    let once = |n: u64| n.saturating_sub(9) * 1_500_000;
    let expected: Vec<u64> = (0..2).flat_map(|_| (0..20).map(once)).collect();
    assert_eq!(waits, expected);
}

#[test]
fn a_link_that_is_paused_holds_everything_until_it_goes_on() {
    let change = |text| Change::from_words(text, "change").unwrap();
    let scenario = Scenario {
        sources: vec![constant("5mbit")],
        changes: vec![(ms(200), change("rate=0")), (ms(700), change("rate=10mbit"))],
        ..over("rate=10mbit limit=1000p")
    };
    let (outcome, fates) = fates(&scenario);
    let paused = fates.iter().filter(|fate| match fate.output {
        Output::Depart { due, .. } => (200_000_001..700_000_000).contains(&due.as_nanos()),
        Output::Drop { .. } => true,
    });
    assert_eq!(paused.count(), 0);
    assert_eq!((outcome.link.queued, outcome.flows[0].delivered), (0, outcome.flows[0].sent));
}

#[test]
fn a_link_that_stays_paused_keeps_what_it_holds() {
    let scenario = Scenario { sources: vec![constant("1mbit")], ..over("rate=0 limit=20p") };
    let (outcome, _) = fates(&scenario);
    let sent = outcome.flows[0].sent;
    assert_eq!((outcome.link.queued, outcome.dropped(DropReason::Limit)), (20, sent - 20));
}

#[test]
fn random_loss_after_the_queue_uses_capacity_and_before_it_does_not() {
    let lossy = |at: &str| {
        let scenario = Scenario {
            sources: vec![constant("18mbit")],
            duration: ms(10_000),
            ..over(&format!("rate=10mbit loss=40% loss.at={at}"))
        };
        scenario.run().unwrap()
    };
    let (after, before) = (lossy("after"), lossy("before"));
    // 60 % of the link's 10 Mbit/s get through; 60 % of 18 Mbit/s still fill it.
    let share = |bps: u64| bps * 1_514 / 1_500 / 100_000;
    assert_eq!(share(before.flows[0].throughput_bps), 99);
    let percent = share(after.flows[0].throughput_bps);
    assert!((58..=62).contains(&percent), "{percent} %");
}
