use punctual_sched::{DropReason, Ecn};
use punctual_sim::{Scenario, Source, Traffic};

use crate::{constant, fates, ms, over, rate};

fn reno() -> Source {
    Source::new(Traffic::Reno { back: ms(10) })
}

#[test]
fn fq_gives_unequal_windows_equal_shares_and_lets_a_thin_flow_pass() {
    let greedy = |window| Source::new(Traffic::Greedy { window, back: ms(5) });
    let thin = Source::new(Traffic::Poisson(rate("100kbit"))).with_len(200);
    let scenario = Scenario {
        sources: vec![greedy(60), greedy(15), thin],
        duration: ms(10_000),
        ..over("rate=20mbit delay=5ms queue=fq")
    };
    let (outcome, _) = fates(&scenario);
    let (fat, slim) = (outcome.flows[0].bytes, outcome.flows[1].bytes);
    assert!(fat.abs_diff(slim) * 100 < fat, "{fat} {slim}");
    // The delay, its own serialisation, the packet in service; and where the flow has not been
    // detached since its last packet, one round of the others: a quantum of two packets each.
    let wait = |percent| outcome.flows[2].sojourn.percentile(percent);
    assert!(wait(50) <= ms(5) + rate_time(214 + 2 * 1_514), "{}", wait(50));
    assert!(wait(99) <= ms(5) + rate_time(214 + 5 * 1_514), "{}", wait(99));
    insta::assert_snapshot!(outcome);
}

/// The time of so many bytes at 20 Mbit/s.
fn rate_time(bytes: u64) -> punctual_sched::Duration {
    punctual_sched::Duration::from_nanos(bytes * 8 * 50)
}

#[test]
fn codel_keeps_a_reno_flow_near_its_target_where_a_fifo_fills_up() {
    let wait = |link: &str| {
        let scenario = Scenario {
            sources: vec![reno()],
            duration: ms(20_000),
            ..over(&format!("rate=20mbit delay=10ms {link}"))
        };
        let (outcome, _) = fates(&scenario);
        assert!(outcome.flows[0].throughput_bps > 17_000_000, "{outcome}");
        (outcome.flows[0].sojourn.percentile(50), outcome)
    };
    let (fifo, _) = wait("limit=200ms");
    let (codel, outcome) = wait("queue=codel");
    assert!(fifo > ms(60) && codel < ms(10 + 10), "{fifo} {codel}");
    assert!(outcome.dropped(DropReason::Congested) > 0);
    insta::assert_snapshot!(outcome);
}

#[test]
fn fq_codel_marks_instead_of_dropping_where_packets_can_be_marked() {
    let scenario = Scenario {
        sources: vec![reno().with_ecn(Ecn::Ect0), reno()],
        duration: ms(10_000),
        ..over("rate=20mbit delay=10ms queue=fq_codel")
    };
    let (outcome, _) = fates(&scenario);
    assert_eq!(outcome.flows[0].dropped[DropReason::Congested.index()], 0);
    assert!(outcome.flows[0].marked > 0 && outcome.flows[1].marked == 0);
    assert!(outcome.fairness_ppm() > 990_000, "{}", outcome.fairness_ppm());
    insta::assert_snapshot!(outcome);
}

#[test]
fn dualpi2_lets_a_scalable_and_a_reno_flow_share() {
    let scalable = Source::new(Traffic::Scalable { back: ms(10) }).with_ecn(Ecn::Ect1);
    let scenario = Scenario {
        sources: vec![scalable, reno()],
        duration: ms(30_000),
        ..over("rate=40mbit delay=10ms queue=dualpi2")
    };
    let (outcome, _) = fates(&scenario);
    let (scalable, classic) = (outcome.flows[0].bytes, outcome.flows[1].bytes);
    assert!(scalable < 2 * classic && classic < 2 * scalable, "{scalable} {classic}");
    assert!(outcome.flows[0].sojourn.percentile(50) <= ms(10 + 1), "{outcome}");
    insta::assert_snapshot!(outcome);
}

#[test]
fn a_token_bucket_carries_its_rate_and_its_burst() {
    let scenario = Scenario {
        sources: vec![constant("30mbit")],
        duration: ms(5_000),
        ..over("rate=20mbit burst=20kb queue=tbf limit=50ms")
    };
    let (outcome, _) = fates(&scenario);
    // IP bytes of frames at 20 Mbit/s, and one burst in 5 s.
    let carried = outcome.flows[0].throughput_bps;
    let (least, most) = (19_815_000 - 5_000, 19_815_000 + 20_480 * 8 / 5 + 5_000);
    assert!((least..=most).contains(&carried), "{carried}");
    insta::assert_snapshot!(outcome);
}
