//! Rates, sizes, tokens, limits. 1000 bytes take a millisecond at 8 Mbit/s without framing.

use crate::run::{Run, at};
use punctual_sched::{Cause, DropReason};

#[test]
fn a_rate_rescales_the_rest_of_the_packet_in_service_and_holds_for_those_behind_it() {
    let mut run = Run::new("rate=8mbit framing=0");
    run.send(0, 3, 1_000).change(500, "rate=16mbit").end();
    assert_eq!(run.dues(), [750, 1_250, 1_750]);
}

#[test]
fn a_rate_of_nothing_holds_the_packet_in_service_and_another_one_goes_on_with_its_rest() {
    let mut run = Run::new("rate=8mbit framing=0");
    run.send(0, 2, 1_000).change(400, "rate=0").until(5_000);
    assert_eq!(run.link.next_event(), None);
    run.change(10_000, "rate=8mbit").end();
    assert_eq!(run.dues(), [10_600, 11_600]);
}

#[test]
fn limits_hold_while_a_link_is_paused_and_a_pause_drops_nothing() {
    let mut run = Run::new("rate=8mbit framing=0 limit=3p");
    run.send(0, 2, 1_000).change(100, "rate=0").send(200, 2, 1_000);
    assert_eq!(run.drops(), [(3, DropReason::Limit)]);
    run.change(1_000, "rate=8mbit").end();
    assert_eq!(run.left(), [(0, 1_900), (1, 2_900), (2, 3_900)]);
}

#[test]
fn without_a_bottleneck_all_that_waits_leaves_at_the_instant_of_the_change() {
    let mut run = Run::new("rate=8mbit framing=0 delay=2ms");
    run.send(0, 3, 1_000).change(500, "rate=unlimited").end();
    assert_eq!(run.dues(), [2_500; 3]);
    run.change(9_000, "rate=8mbit").send(9_000, 1, 1_000).end();
    assert_eq!(run.dues()[3], 12_000);
}

#[test]
fn any_rate_from_one_bit_a_second_to_the_fastest_can_follow_any_other() {
    let mut run = Run::new("rate=8mbit framing=0");
    run.send(0, 2, 1_000).change(500, "rate=1bit");
    // 500 bytes are 4000 s.
    assert_eq!(run.link.next_event().unwrap().at, at(4_000_000_500));
    run.change(1_000_500, "rate=1tbit").end();
    // 3999 bits and 8000 more: 4 ns and 8.
    let dues: Vec<_> = run.departures().map(|(_, due, ..)| due.as_nanos()).collect();
    assert_eq!(dues, [1_000_500_004, 1_000_500_012]);
}

#[test]
fn fifty_changes_of_rate_carry_the_integral_of_the_rate() {
    let mut run = Run::new("rate=19mbit framing=0 limit=1000p");
    run.send(0, 200, 1_000);
    for change in 1..=50 {
        run.change(change * 1_000, if change % 2 == 0 { "rate=19mbit" } else { "rate=21mbit" });
    }
    // 19 and 21 Mbit/s in turn, a millisecond each: 125 packets in 50 ms.
    run.until(50_000);
    assert_eq!(run.dues().len(), 125);
    assert_eq!(run.dues()[124], 50_000);
}

#[test]
fn framing_and_overhead_count_for_packets_that_enter_the_queue_from_then_on() {
    let mut run = Run::new("rate=8mbit framing=0");
    run.send(0, 2, 1_000).change(500, "framing=500 overhead=500").send(500, 1, 1_000).end();
    assert_eq!(run.dues(), [1_000, 2_000, 4_000]);
    run.change(5_000, "framing=0 overhead=-500").send(5_000, 1, 1_000).end();
    assert_eq!(run.dues()[3], 5_500);
}

#[test]
fn what_waits_for_the_access_rate_counts_as_it_does_when_it_enters_the_queue() {
    let mut run = Run::new("rate=8mbit framing=0 nic=8mbit");
    run.send(0, 2, 1_000).change(500, "framing=1000").end();
    // In at 1 and 2 ms, and 2 ms each.
    assert_eq!(run.dues(), [3_000, 5_000]);
}

#[test]
fn a_smaller_burst_keeps_the_tokens_that_it_can_hold() {
    let mut run = Run::new("rate=8mbit framing=0 burst=3000b");
    run.change(0, "burst=1000b").send(0, 2, 1_000).end();
    assert_eq!(run.dues(), [0, 1_000]);
}

#[test]
fn a_larger_burst_is_filled_by_time_and_not_by_the_change() {
    let mut run = Run::new("rate=8mbit framing=0 burst=1000b");
    run.change(0, "burst=4000b").send(0, 2, 1_000).end();
    assert_eq!(run.dues(), [0, 1_000]);
    // Since 1 ms: after 3 ms there are 3000 tokens.
    run.send(4_000, 4, 1_000).end();
    assert_eq!(run.dues()[2..], [4_000, 4_000, 4_000, 5_000]);
}

#[test]
fn without_a_burst_every_packet_is_serialised_and_no_token_is_left() {
    let mut run = Run::new("rate=8mbit framing=0 burst=3000b");
    run.change(0, "burst=none").send(0, 1, 1_000).end();
    run.change(5_000, "burst=3000b").send(5_000, 1, 1_000).end();
    assert_eq!(run.dues(), [1_000, 6_000], "what time had earned meanwhile is not kept");
}

#[test]
fn a_burst_that_shrinks_takes_nothing_from_the_packet_that_is_being_paid() {
    let mut run = Run::new("rate=8mbit framing=0 burst=1000b");
    run.send(0, 2, 1_000).change(600, "burst=1b").end();
    assert_eq!(run.dues(), [0, 1_000]);
}

#[test]
fn fifty_changes_of_the_burst_hand_out_none() {
    let mut run = Run::new("rate=8mbit framing=0 burst=2000b limit=1000p");
    run.send(0, 20, 1_000);
    for change in 1..=50 {
        let words = if change % 2 == 0 { "burst=2000b" } else { "burst=9000b" };
        run.change(change * 100, words);
    }
    run.end();
    assert_eq!(run.dues()[2..5], [1_000, 2_000, 3_000]);
    assert_eq!(run.dues()[19], 18_000);
}

#[test]
fn a_peakrate_spaces_the_tokens_saved_up_and_counts_from_the_beginning_of_a_service() {
    let mut run = Run::new("rate=8mbit framing=0 burst=3000b");
    run.change(0, "peakrate=16mbit").send(0, 4, 1_000).end();
    // Tokens for three, half a millisecond each; by then half of the fourth has been earned ...
    assert_eq!(run.dues(), [500, 1_000, 1_500, 2_000]);
    let mut run = Run::new("rate=8mbit framing=0 burst=1000b");
    // ... and a packet that has waited for half of its tokens has been under way for so long.
    run.send(0, 2, 1_000).change(500, "peakrate=10mbit").end();
    assert_eq!(run.dues(), [0, 1_000]);
}

#[test]
fn another_peakrate_rescales_the_rest_and_none_lets_the_tokens_go() {
    let mut run = Run::new("rate=8mbit framing=0 burst=9000b peakrate=16mbit");
    run.send(0, 4, 1_000).change(250, "peakrate=32mbit").end();
    assert_eq!(run.dues(), [375, 625, 875, 1_125]);
    let mut run = Run::new("rate=8mbit framing=0 burst=9000b peakrate=16mbit");
    run.send(0, 4, 1_000).change(250, "peakrate=unlimited").end();
    assert_eq!(run.dues(), [250; 4]);
}

#[test]
fn an_access_rate_rescales_its_head_and_can_come_and_go() {
    let mut run = Run::new("nic=8mbit framing=0");
    run.send(0, 3, 1_000).change(500, "nic=16mbit").end();
    assert_eq!(run.dues(), [750, 1_250, 1_750]);
    let mut run = Run::new("nic=8mbit rate=80mbit framing=0");
    run.send(0, 3, 1_000).change(500, "nic=unlimited").end();
    assert_eq!(run.dues(), [600, 700, 800], "all enter the queue at 500 us");
    run.change(900, "nic=8mbit").send(900, 1, 1_000);
    assert_eq!(run.link.next_event().unwrap().cause, Cause::Nic);
    run.end();
    assert_eq!(run.dues()[3], 2_000);
}

#[test]
fn packets_that_the_access_rate_held_back_meet_the_limit_when_it_is_taken_away() {
    let mut run = Run::new("nic=8mbit rate=8mbit framing=0 limit=2p");
    run.send(0, 4, 1_000).change(0, "nic=unlimited").end();
    assert_eq!(run.left(), [(0, 1_000), (1, 2_000)]);
    assert_eq!(run.drops(), [(2, DropReason::Limit), (3, DropReason::Limit)]);
}

#[test]
fn a_lower_limit_drops_what_no_longer_fits_and_a_higher_one_nothing() {
    for (queue, dropped) in [
        ("fifo", vec![5, 4, 3]),
        ("codel", vec![5, 4, 3]),
        // From the head of the classic queue, of the fattest flow, of the last FIFO.
        ("dualpi2", vec![1, 2, 3]),
        ("fq_codel", vec![1, 2, 3]),
        // In the order of departure.
        ("fq", vec![1, 2, 3]),
    ] {
        let mut run = Run::new(&format!("rate=8mbit framing=0 queue={queue} limit=10p"));
        run.send(0, 6, 1_000).change(500, "limit=3p");
        let drops: Vec<_> = dropped.into_iter().map(|n| (n, DropReason::Limit)).collect();
        assert_eq!(run.drops(), drops, "{queue}: the one in service stays, and counts");
        run.change(500, "limit=20p").end();
        assert_eq!(run.dues(), [1_000, 2_000, 3_000], "{queue}");
    }
    let mut run = Run::new("rate=8mbit framing=0 queue=jens limit=10p");
    run.send(0, 6, 1_000).change(500, "limit=3p").end();
    assert_eq!(run.drops(), [(1, DropReason::Limit), (2, DropReason::Limit)]);
    let mut run = Run::new("rate=8mbit framing=0 queue=tbf burst=1000b limit=10000b");
    run.send(0, 6, 1_000).change(500, "limit=3000b").end();
    assert_eq!(run.drops(), [(5, DropReason::Limit), (4, DropReason::Limit)]);
}

#[test]
fn a_limit_may_change_its_unit() {
    let mut run = Run::new("rate=8mbit framing=0 limit=10p");
    run.send(0, 6, 1_000).change(500, "limit=2500b");
    assert_eq!(run.drops().len(), 4);
    run.change(600, "limit=3p").send(600, 2, 1_000);
    assert_eq!(run.drops().len(), 5);
    run.change(700, "limit=1ms").end();
    assert_eq!(run.link.config().resolved_limit().bytes, 1_500, "at least a full packet");
}

#[test]
fn a_change_of_rate_framing_or_burst_never_derives_a_limit_anew() {
    for limit in ["limit=10ms", ""] {
        let mut run = Run::new(&format!("rate=8mbit framing=0 {limit}"));
        let bytes = run.link.config().resolved_limit().bytes;
        run.change(0, "rate=80mbit").change(0, "rate=1kbit framing=100").change(0, "burst=3kb");
        assert_eq!(run.link.config().resolved_limit().bytes, bytes, "{limit}");
        run.change(0, "limit=auto rate=80mbit");
        assert_eq!(run.link.config().resolved_limit().bytes, 1_000_000, "{limit}");
    }
}

#[test]
fn a_link_that_gets_its_first_rate_derives_its_limit_then() {
    let mut run = Run::new("");
    assert_eq!(run.link.config().resolved_limit().bytes, u64::MAX);
    run.change(0, "rate=80mbit").change(0, "rate=8mbit");
    assert_eq!(run.link.config().resolved_limit().bytes, 1_000_000);
}

#[test]
fn a_pause_before_the_first_rate_leaves_the_limit_to_that_rate() {
    for (start, paused) in [("rate=0", "delay=1ms"), ("", "rate=0")] {
        let mut run = Run::new(start);
        run.change(0, paused);
        assert_eq!(run.link.config().resolved_limit().bytes, 16 * 1_514, "{start}");
        run.change(0, "rate=80mbit").change(0, "rate=8mbit");
        assert_eq!(run.link.config().resolved_limit().bytes, 1_000_000, "{start}");
    }
    // Never a lower one.
    let mut run = Run::new("rate=0 framing=100");
    run.change(0, "rate=1kbit framing=0").change(0, "rate=8mbit");
    assert_eq!(run.link.config().resolved_limit().bytes, 16 * 1_600);
}

#[test]
fn a_pause_drops_nothing_that_waits_for_peakrate_alone() {
    let mut run = Run::new("rate=8mbit framing=0 burst=3kb peakrate=80mbit");
    run.change(0, "rate=unlimited limit=auto").send(0, 100, 1_000).change(10, "rate=0");
    assert_eq!(run.drops(), []);
}

#[test]
fn the_same_change_twice_is_no_change() {
    let mut run = Run::new("rate=8mbit queue=fq");
    assert_eq!(run.try_change(0, "rate=9mbit delay=1ms fq.quantum=2000"), Ok(true));
    assert_eq!(run.try_change(5, "rate=9mbit delay=1ms fq.quantum=2000"), Ok(false));
    assert_eq!(run.try_change(5, "rate=9mbit"), Ok(false));
    assert_eq!(
        run.try_change(5, "limit=100ms"),
        Err("limit: 100ms: fq counts packets, expected for example 10000p".into())
    );
}
