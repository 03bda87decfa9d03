use proptest::prelude::*;
use punctual_sched::{Duration, Output};
use punctual_sim::{Scenario, Source, Traffic, Wakes};

use crate::{fates, ms, over, rate};

fn links() -> impl Strategy<Value = String> {
    let optional = |words: &'static [&'static str]| prop::sample::select(words);
    (
        optional(&["", "rate=3mbit", "rate=19999999", "rate=1gbit", "rate=64kbit"]),
        optional(&["", "delay=3ms", "delay=3ms jitter=3ms", "delay=20ms jitter=1ms"]),
        optional(&["", "loss=10%", "loss=10% loss.at=before", "loss=100%"]),
        optional(&["", "limit=7p", "limit=20kb"]),
        optional(&["", "nic=5mbit", "nic=10gbit"]),
        optional(&[
            "",
            "",
            "",
            "queue=fq fq.maxrate=3mbit",
            "queue=codel codel.ecn=on",
            "queue=fq_codel",
            "queue=dualpi2",
        ]),
        optional(&["", "overhead=-14 framing=0", "overhead=24", "hold=64kb"]),
    )
        .prop_map(|(rate, delay, loss, limit, nic, queue, rest)| {
            // The disciplines count packets.
            let limit = if queue.is_empty() || !limit.ends_with("kb") { limit } else { "" };
            format!("{rate} {delay} {loss} {limit} {nic} {queue} {rest}")
        })
}

fn sources() -> impl Strategy<Value = Source> {
    let traffic = prop_oneof![
        (1_000..20_000_000_u64).prop_map(|bps| Traffic::Constant(rate(&bps.to_string()))),
        (1_000..20_000_000_u64).prop_map(|bps| Traffic::Poisson(rate(&bps.to_string()))),
        (1..40_u32, 1..90_u64)
            .prop_map(|(packets, every)| Traffic::Burst { packets, every: ms(every) }),
        // A round trip of microseconds would be millions of packets.
        (1..40_u32, 1..9_u64).prop_map(|(window, back)| Traffic::Greedy { window, back: ms(back) }),
        (1..9_u64).prop_map(|back| Traffic::Reno { back: ms(back) }),
    ];
    (traffic, 200..2_000_u32, 0..50_u64)
        .prop_map(|(traffic, len, start)| Source::new(traffic).with_len(len).starting_at(ms(start)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_packet_has_one_fate_in_time_and_in_order(
        link in links(),
        sources in prop::collection::vec(sources(), 1..4),
        late in 0..5_u64,
        seed: u64,
    ) {
        let wakes = Wakes::Uniform(ms(late));
        let scenario = Scenario { sources, wakes, seed, duration: ms(150), ..over(&link) };
        let (outcome, fates) = fates(&scenario);
        prop_assert_eq!(outcome.link.queued, 0);
        prop_assert!(outcome.lateness.max() <= ms(late));
        let mut next = vec![0; scenario.sources.len()];
        let mut last = punctual_sched::Instant::ZERO;
        for fate in &fates {
            let Output::Depart { packet, due, stages, .. } = fate.output else { continue };
            prop_assert!(fate.number >= next[fate.source], "order within a flow");
            next[fate.source] = fate.number + 1;
            prop_assert!(due >= last && fate.known >= due && due >= packet.arrival);
            last = due;
            let sum = stages.pacing + stages.queue + stages.serialisation + stages.propagation;
            prop_assert_eq!(sum, due.since(packet.arrival));
        }
    }

    #[test]
    fn lateness_changes_nothing_that_was_decided_about_open_loop_traffic(
        link in links(),
        sources in prop::collection::vec(sources(), 1..4),
        late in 1..50_u64,
        seed: u64,
    ) {
        let open = |source: &Source| {
            !matches!(source.traffic, Traffic::Greedy { .. } | Traffic::Reno { .. })
        };
        let sources: Vec<Source> = sources.into_iter().filter(open).collect();
        let decisions = |wakes| -> Vec<Output> {
            let sources = sources.clone();
            let scenario = Scenario { sources, wakes, seed, duration: ms(100), ..over(&link) };
            fates(&scenario).1.iter().map(|fate| fate.output).collect()
        };
        let late = Duration::from_micros(late * 997);
        prop_assert!(decisions(Wakes::Punctual) == decisions(Wakes::Uniform(late)));
    }
}
