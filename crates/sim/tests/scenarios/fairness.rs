use punctual_sim::{Scenario, Source, Traffic};

use crate::{constant, fates, ms, over, rate};

#[test]
fn a_fifo_gives_equal_windows_equal_shares() {
    let greedy = Source::new(Traffic::Greedy { window: 20, back: ms(5) });
    let scenario = Scenario {
        sources: vec![greedy; 4],
        duration: ms(10_000),
        ..over("rate=50mbit delay=5ms")
    };
    let (outcome, _) = fates(&scenario);
    assert!(outcome.fairness_ppm() > 999_900, "{}", outcome.fairness_ppm());
    insta::assert_snapshot!(outcome);
}

#[test]
fn a_fifo_gives_windows_in_proportion_not_in_fairness() {
    let greedy = |window| Source::new(Traffic::Greedy { window, back: ms(5) });
    let scenario = Scenario {
        sources: vec![greedy(40), greedy(10)],
        duration: ms(10_000),
        ..over("rate=20mbit delay=5ms")
    };
    let (outcome, _) = fates(&scenario);
    let share = outcome.flows[0].bytes * 100 / (outcome.flows[0].bytes + outcome.flows[1].bytes);
    assert!((79..=81).contains(&share), "{share} %");
}

#[test]
fn a_thin_flow_waits_as_long_as_a_fat_one_in_a_fifo() {
    let thin = Source::new(Traffic::Poisson(rate("100kbit"))).with_len(200);
    let scenario = Scenario {
        sources: vec![constant("30mbit"), thin],
        duration: ms(5_000),
        ..over("rate=20mbit")
    };
    let (outcome, _) = fates(&scenario);
    let wait = outcome.flows[1].sojourn.percentile(50);
    assert!(wait > ms(95), "{wait}");
    insta::assert_snapshot!(outcome);
}
