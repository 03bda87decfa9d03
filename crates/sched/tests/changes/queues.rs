//! Another queue: packets move over, the packet in service stays, tokens go where the serialiser
//! goes. 1000 bytes take a millisecond at 8 Mbit/s without framing.

use crate::run::{Run, at, with};
use punctual_sched::{DropReason, Ecn, Mark, Output, Packet, TransmitTime};

/// Each queue as a change chooses it, with nothing that a bucket would let go at once.
const QUEUES: [(&str, &str); 7] = [
    ("fifo", "queue=fifo burst=none"),
    ("codel", "queue=codel burst=none"),
    ("fq_codel", "queue=fq_codel burst=none"),
    ("fq", "queue=fq burst=none"),
    ("dualpi2", "queue=dualpi2 burst=none"),
    ("tbf", "queue=tbf burst=1000b"),
    ("jens", "queue=jens burst=none"),
];

fn start(queue: &str) -> String {
    let burst = if queue == "tbf" { "burst=1000b" } else { "" };
    format!("rate=8mbit framing=0 queue={queue} {burst}")
}

#[test]
fn from_any_queue_to_any_other_every_packet_leaves_in_order_at_the_rate() {
    for (from, _) in QUEUES {
        for (to, words) in QUEUES.iter().filter(|(to, _)| *to != from) {
            let mut run = Run::new(&start(from));
            run.send(0, 5, 1_000).change(2_500, words).send(2_600, 1, 1_000).end();
            let what = format!("{from} to {to}");
            assert_eq!(run.drops(), [], "{what}");
            assert_eq!(run.handles(), [0, 1, 2, 3, 4, 5], "{what}");
            // Before the change: a queue that serves itself lets the first go at once.
            let expected = match (from, *to) {
                // Half of the next packet has been earned when it moves. Jens lets it go at once,
                // and waits afterwards.
                ("tbf", "jens") => [0, 1_000, 2_000, 2_500, 3_500, 4_500],
                ("tbf", _) => [0, 1_000, 2_000, 3_000, 4_000, 5_000],
                // The line is taken until 3 ms by what jens let go at 2 ms.
                ("jens", _) => [0, 1_000, 2_000, 4_000, 5_000, 6_000],
                // The packet in service is through at 3 ms.
                (_, "jens") => [1_000, 2_000, 3_000, 3_000, 4_000, 5_000],
                _ => [1_000, 2_000, 3_000, 4_000, 5_000, 6_000],
            };
            assert_eq!(run.dues(), expected, "{what}");
            assert_eq!(run.link.snapshot().discipline.name(), *to);
        }
    }
}

#[test]
fn a_moved_packet_has_waited_since_it_entered_the_first_queue() {
    let mut run = Run::new("rate=8mbit framing=0");
    // Two milliseconds in the queue are too many for codel once an interval has passed.
    run.send(0, 20, 1_000)
        .change(5_500, "queue=codel codel.target=1ms codel.interval=3ms limit=auto");
    run.end();
    assert_eq!(run.drops()[0], (9, DropReason::Congested), "the first above target was at 6 ms");
    let waits: Vec<_> = run.departures().map(|(.., wait)| wait.as_nanos() / 1_000).collect();
    assert_eq!(waits[..8], [0, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000]);
}

#[test]
fn packets_of_all_flows_move_in_the_order_in_which_they_came() {
    let flows = [7, 8, 9].into_iter().cycle();
    let kinds = [(Ecn::NotEct, 0), (Ecn::Ect1, 2)].into_iter().cycle();
    for queue in ["fq", "fq_codel", "dualpi2", "jens"] {
        let mut run = Run::new(&format!("rate=8mbit framing=0 queue={queue}"));
        for (us, (flow, (ecn, dscp))) in (0..12).zip(flows.clone().zip(kinds.clone())) {
            run.arrive(us, |packet| Packet { flow, ecn, dscp, ..packet });
        }
        run.change(20, "queue=fifo limit=auto rate=8mbit").end();
        let handles = run.handles();
        assert_eq!(handles[handles.len() - 10..], (2..12).collect::<Vec<_>>(), "{queue}");
    }
}

#[test]
fn a_lower_limit_of_another_queue_drops_nothing_until_something_enters() {
    let mut run = Run::new("rate=8mbit framing=0 limit=100p");
    run.send(0, 50, 1_000);
    run.change(500, "queue=dualpi2");
    assert_eq!(run.link.config().resolved_limit().packets, 100, "one that was given stays");
    let mut run = Run::new("rate=8mbit framing=0 queue=fq_codel");
    run.send(0, 1_500, 1_000).change(500, "queue=codel").change(600, "rate=9mbit");
    assert_eq!((run.drops(), run.link.snapshot().backlog_packets), (vec![], 1_500));
    run.send(700, 1, 1_000);
    assert_eq!(run.drops(), [(1_500, DropReason::Limit)]);
    run.change(800, "limit=999p");
    assert_eq!(run.drops().len(), 502, "a lower limit that is asked for drops");
}

#[test]
fn a_limit_that_is_named_with_the_queue_is_that_of_the_new_queue_and_drops_as_it_does() {
    let mut run = Run::new("rate=8mbit framing=0 limit=100p");
    run.send(0, 6, 1_000).change(500, "queue=dualpi2 limit=3p").end();
    assert_eq!(run.drops().iter().map(|(handle, _)| *handle).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(run.left(), [(0, 1_000), (4, 2_000), (5, 3_000)]);
}

#[test]
fn the_packet_in_service_counts_in_the_limit_of_the_new_queue() {
    // fq_codel drops from the head, up to half of the flow.
    for (queue, dropped) in [("codel", vec![3]), ("dualpi2", vec![3]), ("fq_codel", vec![1, 2])] {
        let mut run = Run::new("rate=8mbit framing=0 limit=3p");
        run.send(0, 2, 1_000).change(500, &format!("queue={queue}")).send(600, 2, 1_000);
        let drops: Vec<_> = dropped.into_iter().map(|n| (n, DropReason::Limit)).collect();
        assert_eq!(run.drops(), drops, "{queue}");
    }
}

#[test]
fn a_change_of_rate_rescales_the_last_packet_of_the_serialiser() {
    for words in ["queue=tbf burst=1000b", "queue=jens"] {
        let mut run = Run::new("rate=8mbit framing=0");
        run.send(0, 1, 1_000).change(500, words).change(600, "rate=16mbit").end();
        assert_eq!(run.dues(), [800], "{words}");
        let mut run = Run::new("rate=8mbit framing=0");
        run.send(0, 2, 1_000).change(500, words).change(600, "rate=0").until(5_000);
        assert_eq!(run.dues(), [], "{words}");
        run.change(5_000, "rate=8mbit").until(5_400);
        assert_eq!(run.dues()[0], 5_400, "{words}");
    }
}

#[test]
fn a_queue_may_change_again_while_the_last_packet_is_served() {
    let mut run = Run::new("rate=8mbit framing=0");
    run.send(0, 3, 1_000).change(200, "queue=tbf burst=1000b").change(400, "queue=jens burst=none");
    run.change(600, "queue=codel").end();
    assert_eq!(run.dues(), [1_000, 2_000, 3_000]);
}

#[test]
fn tokens_move_with_the_serialiser_and_back() {
    let mut run = Run::new("rate=8mbit framing=0 burst=5000b");
    // Full: five packets; two are spent.
    run.send(0, 2, 1_000).change(0, "queue=tbf").send(0, 4, 1_000).end();
    assert_eq!(run.dues(), [0, 0, 0, 0, 0, 1_000]);
    // 2 ms later two packets have been earned. One is spent, and one is left for the fifo.
    run.send(3_000, 1, 1_000).change(3_000, "queue=fifo").send(3_000, 2, 1_000).end();
    assert_eq!(run.dues()[6..], [3_000, 3_000, 4_000]);
}

#[test]
fn tokens_that_a_smaller_bucket_cannot_hold_are_lost_and_none_are_added() {
    let mut run = Run::new("rate=8mbit framing=0 burst=5000b");
    run.change(0, "queue=tbf burst=1000b").send(0, 2, 1_000).end();
    assert_eq!(run.dues(), [0, 1_000]);
    let mut run = Run::new("rate=8mbit framing=0 queue=tbf burst=1000b");
    run.change(0, "queue=fifo burst=5000b").send(0, 2, 1_000).end();
    assert_eq!(run.dues(), [0, 1_000]);
    let mut run = Run::new("rate=8mbit framing=0");
    run.change(0, "queue=tbf burst=5000b").send(0, 2, 1_000).end();
    assert_eq!(run.dues(), [1_000, 2_000], "where there was no bucket none is full");
    let mut run = Run::new("rate=8mbit framing=0");
    run.change(0, "queue=tbf burst=5000b tbf.refill=linux").send(0, 2, 1_000).end();
    assert_eq!(run.dues(), [0, 0], "but as Linux has it");
}

#[test]
fn what_is_earned_while_the_last_packet_is_served_pays_for_it_and_not_for_the_next() {
    let mut run = Run::new("rate=8mbit framing=0 burst=1000b");
    run.send(0, 3, 1_000).change(600, "queue=tbf").end();
    assert_eq!(run.dues(), [0, 1_000, 2_000]);
}

#[test]
fn switching_to_and_fro_carries_the_rate() {
    for (there, back, most) in [
        ("queue=tbf burst=1000b", "queue=fifo burst=none", 0),
        ("queue=codel", "queue=fq limit=auto", 0),
        // What jens lets go at once is paid for after it.
        ("queue=jens", "queue=fifo", 1),
    ] {
        let mut run = Run::new("rate=8mbit framing=0 limit=10000p");
        run.change(0, "limit=auto");
        run.send(0, 60, 1_000);
        for change in 1..=20 {
            run.change(change * 1_700, if change % 2 == 1 { there } else { back });
        }
        run.until(40_000);
        let left = run.dues().len();
        assert!((40 - 10..=40 + most).contains(&left), "{there}: {left}");
        run.end();
        assert_eq!(run.dues().len(), 60);
    }
}

#[test]
fn a_packet_larger_than_the_bucket_leaves_once_it_has_been_paid_for() {
    let mut run = Run::new("rate=8mbit framing=0");
    run.send(0, 3, 1_000).change(500, "queue=tbf burst=100b").end();
    assert_eq!((run.dues(), run.drops()), (vec![1_000, 2_000, 3_000], vec![]));
    run.send(4_000, 1, 1_000);
    assert_eq!(run.drops(), [(3, DropReason::TooBig)], "what comes now is refused as ever");
    let mut run = Run::new("rate=8mbit framing=0 queue=tbf burst=1000b");
    run.send(0, 2, 1_000).change(400, "burst=100b").change(700, "rate=16mbit").end();
    assert_eq!(run.dues(), [0, 850]);
    let mut run = Run::new("rate=8mbit framing=0 queue=tbf burst=1000b");
    run.send(0, 2, 1_000).change(400, "burst=100b").change(700, "queue=fifo burst=none").end();
    assert_eq!(run.dues(), [0, 1_000], "what it has paid it takes along");
}

#[test]
fn overhead_counts_once_on_either_side_of_tbf() {
    let mut run = Run::new("rate=8mbit framing=0 overhead=500");
    run.send(0, 4, 1_000).change(700, "queue=tbf burst=2000b").until(4_600);
    run.change(4_600, "queue=fifo").end();
    assert_eq!(run.dues(), [1_500, 3_000, 4_500, 6_000]);
}

#[test]
fn a_pause_goes_over_to_another_queue() {
    for (_, words) in QUEUES {
        let mut run = Run::new("rate=8mbit framing=0 queue=fq_codel");
        run.change(0, "rate=0").send(0, 2, 1_000);
        if words.contains("fq_codel") {
            continue;
        }
        run.change(1_000, words).until(90_000);
        assert_eq!(run.left(), [], "{words}");
        run.change(90_000, "rate=8mbit").end();
        assert_eq!(run.left().len(), 2, "{words}");
    }
}

#[test]
fn what_holds_a_flow_back_in_fq_ends_with_it() {
    let mut run = Run::new("queue=fq");
    run.arrive(0, |packet| Packet { transmit: TransmitTime::new(at(50_000)), ..packet });
    run.change(1_000, "queue=fifo").end();
    assert_eq!(run.dues(), [1_000]);
    let mut run = Run::new(
        "rate=80mbit framing=0 queue=fq fq.maxrate=8mbit fq.initial_quantum=0b fq.quantum=1000",
    );
    run.send(0, 3, 1_000).change(500, "queue=codel").end();
    assert_eq!(run.dues(), [100, 600, 700]);
}

#[test]
fn a_transmit_time_counts_again_in_fq_and_is_cut_to_its_horizon() {
    let mut run = Run::new("rate=8mbit framing=0");
    for _ in 0..3 {
        run.arrive(0, |packet| Packet { transmit: TransmitTime::new(at(50_000)), ..packet });
    }
    run.change(100, "queue=fq fq.horizon=10ms limit=auto").end();
    // The first was in service. Nothing is lost by a change, not even beyond the horizon.
    assert_eq!((run.dues(), run.drops()), (vec![1_000, 11_100, 12_100], vec![]));
}

#[test]
fn flow_limits_and_bands_of_fq_do_not_count_what_moves_in() {
    let mut run = Run::new("rate=8mbit framing=0");
    run.send(0, 30, 1_000).change(500, "queue=fq fq.flow_limit=5p limit=10p");
    // The limit was named, and holds for all of them; the flow's own does not.
    assert_eq!(run.link.snapshot().backlog_packets, 10);
    let mut run = Run::new("rate=8mbit framing=0");
    run.send(0, 30, 1_000).change(500, "queue=fq fq.flow_limit=5p").end();
    assert_eq!(run.dues(), (1..=30).map(|ms| ms * 1_000).collect::<Vec<_>>());
}

#[test]
fn dualpi2_takes_the_wait_that_it_finds_for_no_growth() {
    let mut run = Run::new("rate=8mbit framing=0 limit=1000p");
    for _ in 0..200 {
        run.arrive(0, |packet| packet);
    }
    run.change(50_000, "queue=dualpi2").until(66_000);
    let snapshot = run.link.snapshot();
    let counters = snapshot.discipline.counters();
    let prob = counters.iter().find(|(name, _)| *name == "prob").unwrap().1;
    // At 66 ms the head has waited 66 ms, 16 more than at the change: 51 ms above target, and the
    // gains are 44 and 879 / 2^6 per ns.
    let expected = (51_000_000_u64 * 44 + 16_000_000 * 879) / 64;
    assert_eq!(prob, expected);
}

#[test]
fn marks_decided_before_are_those_of_the_queue_that_decided_them() {
    let mut run = Run::new(
        "rate=8mbit framing=0 queue=codel codel.ecn=on codel.target=0ms codel.interval=2ms",
    );
    for _ in 0..20 {
        run.arrive(0, with(Ecn::Ect0));
    }
    run.until(6_500);
    let marked = |run: &Run| -> Vec<u64> {
        let marks = run.marks().into_iter().filter(|(_, mark)| *mark == Mark::Ce);
        marks.map(|(handle, _)| handle).collect()
    };
    let before = marked(&run);
    assert_eq!(before, [3, 5]);
    run.change(6_500, "queue=codel limit=auto codel.interval=50ms codel.target=1ms");
    run.change(6_500, "queue=fifo limit=auto").end();
    assert_eq!(marked(&run), before);
}

#[test]
fn ages_of_jens_go_by_the_first_entry_and_its_handovers_end_with_it() {
    let mut run = Run::new("rate=8mbit framing=0 queue=tbf burst=1000b");
    run.send(0, 3, 1_000).change(0, "rate=0").change(600_000, "queue=jens burst=none").end();
    // Those older than 500 ms go with the first check, 200 ms later.
    assert_eq!(run.drops(), [(1, DropReason::Age), (2, DropReason::Age)]);
    let mut run = Run::new("rate=8mbit framing=0 queue=jens jens.handover=0ms,900ms");
    run.send(0, 2, 1_000).change(500, "queue=fifo").end();
    assert_eq!(run.dues(), [1_500, 2_500]);
    let mut run = Run::new("rate=8mbit framing=0");
    // Planned from the start of the link: what is past does not begin.
    run.change(5_000, "queue=jens jens.handover=1ms,900ms,6ms,10ms").send(5_500, 2, 1_000).end();
    assert_eq!(run.dues(), [5_500, 16_000]);
}

#[test]
fn extra_latency_of_jens_is_for_what_comes_after_it() {
    let mut run = Run::new("rate=8mbit framing=0");
    run.send(0, 2, 1_000)
        .change(500, "queue=jens jens.extralatency=10ms")
        .send(600, 1, 1_000)
        .end();
    assert_eq!(run.dues(), [1_000, 1_000, 10_600]);
}

#[test]
fn a_queue_with_packets_moves_in_a_single_instant_of_event_time() {
    // However late it is told, nothing is decided by the old queue after the change or by the new
    // one before it.
    let mut late = Run::new("rate=8mbit framing=0");
    late.send(0, 6, 1_000).change(2_500, "queue=fq_codel limit=auto").end();
    let mut prompt = Run::new("rate=8mbit framing=0");
    prompt.send(0, 6, 1_000).until(1_000).until(2_000).until(2_499);
    prompt.change(2_500, "queue=fq_codel limit=auto").until(2_501).until(3_700).end();
    assert_eq!(late.outputs, prompt.outputs);
    let served = late.outputs.iter().filter(|output| matches!(output, Output::Depart { .. }));
    assert_eq!(served.count(), 6);
}
