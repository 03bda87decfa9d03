//! What goes wrong behind the bottleneck, and the delay line.

use crate::run::{Run, with};
use punctual_sched::{DropReason, Ecn, LinkConfig, Mark, Output, Packet};

#[test]
fn a_delay_is_for_packets_that_enter_the_line_from_then_on_and_none_overtakes() {
    let mut run = Run::new("delay=100ms");
    run.send(0, 1, 100).send(50_000, 1, 100).change(60_000, "delay=10ms");
    // Would be due at 70 and 120 ms.
    run.send(60_000, 1, 100).send(110_000, 1, 100).send(145_000, 1, 100);
    run.change(150_000, "delay=100ms").send(160_000, 1, 100).end();
    assert_eq!(run.dues(), [100_000, 150_000, 150_000, 150_000, 155_000, 260_000]);
    assert_eq!(run.handles(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_packet_that_waits_in_the_queue_takes_the_delay_in_force_when_it_has_been_served() {
    let mut run = Run::new("rate=8mbit framing=0 delay=5ms");
    run.send(0, 2, 1_000).change(1_500, "delay=20ms").end();
    assert_eq!(run.dues(), [6_000, 22_000]);
}

#[test]
fn what_is_on_its_way_is_so_for_the_delay_that_it_was_given() {
    for (words, far) in [
        ("delay=100ms", 100_000),
        // Those that skip the delay leave before the last that does not.
        ("delay=100ms reorder=50%", 100_000),
        ("delay=100ms impair=netem", 100_000),
        ("delay=100ms impair=netem reorder=50%", 100_000),
        // Waiting for 999 others, 1 s each, is none of it.
        ("delay=100ms impair=netem rate=8kbit", 100_000),
    ] {
        let mut run = Run::new(words);
        let due = |run: &Run| run.link.latest_due().map(|due| due.as_nanos() / 1_000);
        assert_eq!(due(&run), None, "{words}");
        run.send(0, 1_000, 1_000).change(1_000, "delay=1ms");
        assert_eq!(due(&run), Some(far), "{words}");
        run.until(50_000).send(50_000, 10, 1_000);
        assert_eq!(due(&run), Some(far), "{words}");
        run.end();
        assert_eq!(due(&run), None, "{words}");
    }
}

#[test]
fn a_jitter_and_its_distribution_are_for_packets_to_come() {
    // A table of one value: the whole jitter above the mean, or below it.
    let mut run = Run::new("delay=10ms");
    run.send(0, 1, 100).change(0, "jitter=2ms distribution=table:2000").send(0, 1, 100);
    run.change(20_000, "distribution=table:e000").send(20_000, 1, 100);
    run.change(40_000, "delay=5ms").send(40_000, 1, 100);
    run.change(60_000, "jitter=0ms").send(60_000, 1, 100).end();
    assert_eq!(run.dues(), [10_000, 12_000, 28_000, 43_000, 65_000]);
}

#[test]
fn a_correlation_of_jitter_is_for_packets_to_come_and_stays_when_jitter_alone_changes() {
    let spread = |words: &str| {
        let mut run = Run::new("delay=10ms jitter=10ms");
        run.change(0, words);
        (0..200).for_each(|n| _ = run.send(n * 50_000, 1, 100));
        run.end();
        let delays: Vec<_> = run.dues().iter().zip(0..).map(|(due, n)| due - n * 50_000).collect();
        delays.windows(2).filter(|pair| pair[0] == pair[1]).count()
    };
    assert_eq!(spread("jitter=9ms"), 0);
    let correlated = spread("jitter=9ms,90%");
    assert!((160..199).contains(&correlated), "{correlated} of 199 repeat the one before");
    let mut run = Run::new("delay=10ms jitter=10ms,90%");
    run.change(0, "jitter=9ms");
    assert_eq!(run.link.config().jitter_correlation.to_string(), "90%");
    run.change(0, "jitter=9ms,0%");
    assert_eq!(run.link.config().jitter_correlation.to_string(), "0%");
}

#[test]
fn reorder_lets_packets_to_come_skip_the_delay_and_none_keeps_them_behind_all_on_the_line() {
    let mut run = Run::new("delay=10ms");
    run.send(0, 1, 100).change(1_000, "reorder=100%").send(1_000, 1, 100);
    run.change(2_000, "reorder=none delay=1ms").send(2_000, 1, 100).end();
    assert_eq!(run.left(), [(1, 1_000), (0, 10_000), (2, 10_000)]);
    let mut run = Run::new("delay=10ms jitter=5ms distribution=table:2000 reorder=jitter");
    run.send(0, 1, 100).change(1_000, "distribution=table:e000").send(1_000, 1, 100);
    run.change(2_000, "reorder=none").send(2_000, 1, 100).end();
    // The first is due at 15 ms, those after it at 6 and, but for the first, 7.
    assert_eq!(run.left(), [(1, 6_000), (0, 15_000), (2, 15_000)]);
}

#[test]
fn a_gap_of_reorder_goes_on_counting() {
    let mut run = Run::new("delay=10ms reorder=100%,gap=5");
    run.send(0, 3, 100).change(0, "reorder=100%,gap=4").send(0, 1, 100).end();
    assert_eq!(run.left(), [(3, 0), (0, 10_000), (1, 10_000), (2, 10_000)]);
}

#[test]
fn jitter_is_counted_from_the_delay_in_force_as_each_packet_entered() {
    let counted = |run: &Run| {
        let jitter = run.link.snapshot().impairments.jitter;
        (jitter.packets, jitter.least_ns(), jitter.mean_ns(), jitter.greatest_ns())
    };
    // A table of one value: 1/4 of the jitter beyond the delay, each time.
    let mut run = Run::new("delay=10ms jitter=4ms distribution=table:0800");
    run.send(0, 1, 100).change(1_000, "delay=100ms").send(1_000, 1, 100);
    run.change(2_000, "delay=200ms jitter=40ms").send(2_000, 2, 100).until(3_000);
    let (one, ten) = (Some(1_000_000), Some(10_000_000));
    assert_eq!(counted(&run), (4, one, Some(5_500_000), ten), "also of those on the line");
    // Not of those that have none; and what waits for order, here 4 ms, is late by that.
    run.change(3_000, "jitter=0ms").send(3_000, 1, 100);
    assert_eq!(counted(&run).0, 4);
    run.change(4_000, "delay=204ms jitter=4ms").send(4_000, 1, 100).end();
    assert_eq!(run.dues()[4..], [212_000, 212_000]);
    assert_eq!(counted(&run), (5, one, Some(5_200_000), ten));
    let mut run = Run::new("delay=10ms jitter=4ms reorder=100% slot=50ms,packets=1");
    run.send(0, 2, 100).end();
    assert_eq!(counted(&run), (0, None, None, None), "they skip it, and wait for slots");
}

#[test]
fn slots_that_come_hold_packets_that_are_on_the_line() {
    let mut run = Run::new("delay=10ms");
    run.send(0, 3, 100).change(5_000, "slot=3ms,packets=1").end();
    assert_eq!(run.dues(), [10_000, 13_000, 16_000]);
}

#[test]
fn without_slots_what_waited_for_one_leaves_at_once_in_its_order() {
    let mut run = Run::new("delay=1ms slot=50ms,packets=1");
    run.send(0, 3, 100).send(29_500, 1, 100).change(30_000, "slot=none").end();
    assert_eq!(run.left(), [(0, 1_000), (1, 30_000), (2, 30_000), (3, 30_500)]);
    let propagation = |output: &Output| match output {
        Output::Depart { stages, .. } => stages.propagation.as_nanos() / 1_000,
        Output::Drop { .. } => 0,
    };
    assert_eq!(
        run.outputs.iter().map(propagation).collect::<Vec<_>>(),
        [1_000, 30_000, 30_000, 1_000]
    );
    assert_eq!(run.link.snapshot().impairments.slots, 1, "what was counted stays");
}

#[test]
fn the_next_slot_is_drawn_anew_from_the_last_one_but_does_not_open_in_the_past() {
    let mut run = Run::new("slot=50ms,packets=1");
    run.send(0, 4, 100).change(5_000, "slot=20ms,packets=1").until(30_000);
    assert_eq!(run.dues(), [0, 20_000]);
    run.change(30_000, "slot=2ms,packets=1").end();
    assert_eq!(run.dues(), [0, 20_000, 30_000, 32_000]);
    let mut run = Run::new("slot=50ms,packets=1");
    run.send(0, 4, 100).change(5_000, "slot=50ms,packets=2").end();
    assert_eq!(
        run.dues(),
        [0, 50_000, 50_000, 100_000],
        "the next one stays where only its size changes"
    );
}

#[test]
fn a_loss_is_for_packets_that_are_served_from_then_on() {
    let mut run = Run::new("rate=8mbit framing=0 delay=5ms");
    run.send(0, 3, 1_000).change(1_500, "loss=100%").until(2_500).change(2_500, "loss=0%").end();
    assert_eq!(run.left(), [(0, 6_000), (2, 8_000)]);
    assert_eq!(run.drops(), [(1, DropReason::Loss)]);
}

#[test]
fn another_loss_model_begins_at_its_start() {
    // It loses in the bad state alone, which it enters with the first packet and never leaves.
    let mut run = Run::new("loss=gemodel,100%,0%,100%,0%");
    run.send(0, 2, 100).change(0, "loss=state,100%,0%").send(0, 1, 100);
    run.change(0, "loss=gemodel,100%,0%,100%,0%").send(0, 2, 100);
    assert_eq!(run.handles(), [0, 3]);
}

#[test]
fn where_loss_strikes_is_where_a_packet_passes_next() {
    let mut run = Run::new("rate=8mbit framing=0 loss=100% loss.at=before");
    run.send(0, 1, 1_000);
    assert_eq!(run.drops(), [(0, DropReason::Loss)]);
    // What is in the queue passed the place before it, and passes the place behind it as well.
    run.change(0, "loss=0%").send(0, 2, 1_000).change(500, "loss=100% loss.at=after").until(1_000);
    assert_eq!(run.drops().len(), 2);
    // And the other way round passes none.
    run.change(1_500, "loss.at=before").end();
    assert_eq!(run.left(), [(2, 2_000)]);
}

#[test]
fn with_ecn_loss_marks_from_then_on_what_can_be_marked() {
    let mut run = Run::new("loss=100%");
    run.arrive(0, with(Ecn::Ect0));
    run.change(0, "ecn=on");
    run.arrive(0, with(Ecn::Ect0));
    run.arrive(0, with(Ecn::NotEct));
    run.change(0, "ecn=off");
    run.arrive(0, with(Ecn::Ect0));
    assert_eq!(run.marks(), [(1, Mark::Ce)]);
    assert_eq!(run.drops().len(), 3);
}

#[test]
fn duplicates_and_flipped_bits_are_of_packets_that_are_served_from_then_on() {
    let mut run = Run::new("rate=8mbit framing=0");
    run.send(0, 4, 1_000).change(1_500, "duplicate=100%").until(2_500);
    run.change(2_500, "duplicate=0% corrupt=100%").until(3_500).change(3_500, "corrupt=0%").end();
    assert_eq!(run.left(), [(0, 1_000), (1, 2_000), (1, 2_000), (2, 3_000), (3, 4_000)]);
    let flipped: Vec<_> = run
        .outputs
        .iter()
        .filter_map(|output| match output {
            Output::Depart { packet, corrupt: Some(_), .. } => Some(packet.handle),
            _ => None,
        })
        .collect();
    assert_eq!(flipped, [2]);
}

#[test]
fn duplicates_and_flipped_bits_need_a_driver_that_keeps_bytes() {
    for (words, refused) in [("duplicate=1%", true), ("corrupt=1%", true), ("loss=1%", false)] {
        let config = LinkConfig::parse(words, "link").unwrap();
        assert_eq!(config.check_payloads(true), Ok(()));
        assert_eq!(config.check_payloads(false).is_err(), refused, "{words}");
    }
}

#[test]
fn netem_gives_the_packets_to_come_their_send_times_and_keeps_those_that_it_gave() {
    let mut run = Run::new("impair=netem delay=10ms rate=8mbit framing=0");
    run.send(0, 1, 1_000).change(1_000, "delay=1ms rate=16mbit").send(1_000, 1, 1_000).end();
    // 10 ms and serialisation; then behind it.
    assert_eq!(run.dues(), [11_000, 11_500]);
    run.change(20_000, "netem.packet_overhead=1000").send(20_000, 1, 1_000).end();
    run.change(30_000, "netem.packet_overhead=0 netem.cell_size=500 netem.cell_overhead=500");
    run.send(30_000, 1, 1_000).end();
    assert_eq!(run.dues()[2..], [22_000, 32_000]);
}

#[test]
fn a_lower_limit_of_netem_drops_what_comes_and_nothing_that_is_held() {
    let mut run = Run::new("impair=netem delay=10ms");
    run.send(0, 5, 100).change(0, "netem.limit=2p").send(0, 1, 100).end();
    assert_eq!(run.drops(), [(5, DropReason::Limit)]);
    assert_eq!(run.dues(), [10_000; 5]);
}

#[test]
fn a_seed_of_netem_begins_its_numbers_anew_and_auto_goes_back_to_the_links() {
    let fates = |changes: &[&str]| {
        let mut run = Run::new("impair=netem loss=50%");
        for words in changes {
            run.change(0, words);
        }
        let first = run.link.snapshot().packets_in;
        run.send(0, 64, 100);
        run.handles().into_iter().map(|handle| handle - first).collect::<Vec<_>>()
    };
    assert_eq!(fates(&["netem.seed=7"]), fates(&["netem.seed=8", "netem.seed=7"]));
    assert_ne!(fates(&["netem.seed=7"]), fates(&["netem.seed=8"]));
    assert_eq!(fates(&["netem.seed=7", "netem.seed=auto"]), fates(&[]));
}

#[test]
fn netem_takes_the_impairments_of_a_link_as_well() {
    let mut run = Run::new("impair=netem delay=10ms");
    run.send(0, 1, 100).change(0, "reorder=100%,gap=1").send(0, 1, 100);
    run.change(0, "reorder=none duplicate=100%").send(0, 1, 100);
    run.change(0, "duplicate=0% loss=100%").send(0, 1, 100);
    run.change(0, "ecn=on");
    run.arrive(0, with(Ecn::Ect0));
    run.change(0, "ecn=off loss=0% jitter=5ms distribution=table:2000").send(0, 1, 100).end();
    assert_eq!(
        run.left(),
        [(1, 0), (0, 10_000), (2, 10_000), (2, 10_000), (4, 10_000), (5, 15_000)]
    );
    assert_eq!(run.drops(), [(3, DropReason::Loss)]);
    run.change(20_000, "jitter=0ms slot=5ms,packets=1 corrupt=100%");
    run.arrive(20_000, |packet| Packet { len: 100, ..packet });
    run.arrive(20_000, |packet| Packet { len: 100, ..packet });
    run.end();
    assert_eq!(run.link.snapshot().corrupted, 2);
    let [first, second] = run.dues()[6..] else { panic!("two") };
    assert_eq!(second - first, 5_000);
}
