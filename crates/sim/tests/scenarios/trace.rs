//! Links that follow traces, with senders that react.

use std::sync::Arc;

use punctual_sched::trace::{Course, Delivery, Opportunity, Schedule, Timeline, Trace};
use punctual_sched::{Duration, LinkConfig, Output};
use punctual_sim::{Scenario, Source, Traffic, Wakes};

use crate::{fates, ms};

/// Bursts of opportunities every few milliseconds and an outage of half a second: 6 Mbit/s.
fn cellular() -> Trace {
    let at = (1..=400_u64)
        .map(|n| Delivery {
            at: Duration::from_millis(4 * n + n * n % 3),
            count: 2 + u32::from(n % 3 == 0),
        })
        .collect();
    let course = Course::Deliveries { at, opportunity: Opportunity::MAHIMAHI };
    let timeline = Timeline { course, span: Duration::from_millis(2_100) };
    Trace { repeat: true, ..Trace::new(Arc::new(Schedule::new(timeline).unwrap())) }
}

#[test]
fn however_late_the_driver_wakes_a_packet_trace_gives_every_packet_the_same_fate() {
    let words = LinkConfig::parse("limit=200p delay=20ms queue=codel", "link").unwrap();
    let link = LinkConfig { trace: Some(cellular()), ..words };
    let run = |wakes| {
        let cbr = Source::new(Traffic::Constant("9mbit".parse().unwrap()));
        let scenario = Scenario {
            sources: vec![cbr],
            duration: Duration::from_secs(10),
            wakes,
            ..Scenario::new(link.clone())
        };
        let (_, fates) = fates(&scenario);
        fates.iter().map(|fate| format!("{:?}", fate.output)).collect::<Vec<_>>()
    };
    let punctual = run(Wakes::Punctual);
    assert!(punctual.iter().any(|fate| fate.contains("Congested")));
    let sorted = |mut fates: Vec<String>| {
        fates.sort();
        fates
    };
    assert_eq!(sorted(run(Wakes::Uniform(ms(4)))), sorted(punctual));
}

#[test]
fn a_congestion_control_uses_nearly_every_opportunity() {
    let words = LinkConfig::parse("limit=100p delay=20ms", "link").unwrap();
    let link = LinkConfig { trace: Some(cellular()), ..words };
    let reno = Source::new(Traffic::Reno { back: ms(20) });
    let duration = Duration::from_secs(21);
    let scenario = Scenario { sources: vec![reno], duration, ..Scenario::new(link) };
    let (outcome, fates) = fates(&scenario);
    let offered = cellular().schedule.mean_rate().unwrap().as_bps() * 1_500 / 1_504;
    let throughput = outcome.flows[0].throughput_bps;
    assert!(throughput <= offered * 1_001 / 1_000, "{throughput} of {offered}");
    assert!(throughput >= offered * 8 / 10, "{throughput} of {offered}");
    let late = |output: &Output| matches!(output, Output::Depart { due, .. } if due.as_nanos() % 1_000_000 > 0);
    assert!(!fates.iter().any(|fate| late(&fate.output)), "they leave at whole milliseconds");
}
