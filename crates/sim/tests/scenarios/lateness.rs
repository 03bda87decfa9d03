use punctual_sched::{Change, Duration, Output, Probability};
use punctual_sim::{Fate, Scenario, Source, Traffic, Wakes};

use crate::{constant, fates, ms, over, rate};

/// Everything that can decide: queue, loss, jitter, burst, access rate, changes.
fn busy(wakes: Wakes) -> Scenario {
    Scenario {
        sources: vec![
            Source::new(Traffic::Poisson(rate("14mbit"))),
            Source::new(Traffic::Burst { packets: 30, every: ms(37) }).with_len(700),
            constant("3mbit").with_len(93),
        ],
        changes: [(300, "rate=5mbit"), (500, "rate=0"), (600, "rate=30mbit limit=10p delay=1ms")]
            .map(|(at, change)| (ms(at), Change::from_words(change, "change").unwrap()))
            .to_vec(),
        duration: ms(2_000),
        wakes,
        ..over(
            "rate=20mbit delay=4ms jitter=1ms loss=2% limit=30p burst=4kb peakrate=90mbit nic=200mbit",
        )
    }
}

const MODELS: [Wakes; 3] = [
    Wakes::Constant(Duration::from_micros(700)),
    Wakes::Uniform(Duration::from_millis(3)),
    Wakes::Stall {
        usual: Duration::from_micros(50),
        stall: Duration::from_millis(300),
        share: Probability::from_raw(1 << 25),
    },
];

#[test]
fn late_wake_ups_change_no_fate() {
    let decisions = |wakes, seed| -> Vec<Output> {
        let (_, fates) = fates(&Scenario { seed, ..busy(wakes) });
        fates.iter().map(|fate| fate.output).collect()
    };
    for seed in 1..=10 {
        let punctual = decisions(Wakes::Punctual, seed);
        let drops = punctual.iter().filter(|output| matches!(output, Output::Drop { .. }));
        assert!(drops.count() > 100, "seed {seed}");
        for wakes in MODELS {
            assert!(decisions(wakes, seed) == punctual, "{wakes}, seed {seed}");
        }
    }
}

#[test]
fn a_punctual_driver_releases_everything_when_it_is_due() {
    let (outcome, fates) = fates(&busy(Wakes::Punctual));
    assert_eq!(outcome.lateness.max(), Duration::ZERO);
    assert_eq!(fates.iter().map(Fate::lateness).max(), Some(Duration::ZERO));
    insta::assert_snapshot!(outcome);
}

#[test]
fn no_release_is_later_than_the_wake_up_was() {
    for (wakes, most) in MODELS.into_iter().zip([700, 3_000, 300_000]) {
        let (outcome, _) = fates(&busy(wakes));
        assert!(outcome.lateness.max() <= Duration::from_micros(most), "{wakes}");
        assert!(outcome.lateness.max() > Duration::from_micros(most / 2), "{wakes}");
    }
    insta::assert_snapshot!(busy(MODELS[2]).run().unwrap());
}

#[test]
fn lateness_does_not_cost_rate() {
    let scenario = Scenario {
        sources: vec![constant("40mbit")],
        wakes: Wakes::Constant(ms(2)),
        duration: ms(10_000),
        ..over("rate=20mbit")
    };
    let (outcome, fates) = fates(&scenario);
    assert_eq!(outcome.flows[0].throughput_bps, 20_000_000 * 1_500 / 1_514);
    let released: Vec<_> = fates
        .iter()
        .filter(|fate| matches!(fate.output, Output::Depart { .. }))
        .map(|fate| fate.known)
        .collect();
    let span = released[released.len() - 1].since(released[0]).as_nanos();
    let due = (released.len() as u64 - 1) * 605_600;
    assert!(span.abs_diff(due) <= 2_000_000, "{span} ns for {due} ns");
}

#[test]
fn equal_seeds_give_equal_outcomes_and_others_do_not() {
    let run = |seed| Scenario { seed, ..busy(MODELS[1]) }.run().unwrap();
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
