//! Faults that users reported of other emulators, each as a test of this one.

use crate::harness::{Ended, PORT, RESULT, Run, is_root, role, udp_receiver, udp_sender};
use crate::report::number;
use crate::support::Test;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        tcp_through_a_delay_loses_nothing_that_is_not_told,
        twofold_overload_waits_no_longer_than_the_limit,
        a_delay_line_holds_what_rate_times_delay_needs,
        bursts_of_the_sender_leave_in_even_spacing,
        more_than_the_machine_can_is_told_and_changes_no_decision,
        what_the_kernels_queue_cannot_hold_is_told,
        no_delay_adds_no_more_than_a_few_bare_round_trips,
        an_idle_fast_link_adds_no_more_than_its_serialisation,
        a_kernel_without_the_queue_is_refused_aloud,
    ]
    .into()
}

/// A delay-only shell that drops by itself (mahimahi#132).
fn tcp_through_a_delay_loses_nothing_that_is_not_told() {
    let ended = Run::new("delay=20ms")
        .peer(&format!("\"$P\" traffic tcp-receive 0.0.0.0:{PORT} | cat > \"$T/peer\""))
        .sh(&format!("\"$P\" traffic tcp-send \"$PUNCTUAL_PEER:{PORT}\" --duration 3s; {RESULT}"))
        .finish();
    let report = ended.report();
    for direction in [&report.up, &report.down] {
        assert_eq!(direction.all_dropped() + direction.devices + direction.flushed, 0);
        assert!(!is_root() || direction.lost_before == 0, "{:#}", direction.json);
        assert_eq!(direction.departed, direction.arrived);
    }
    // TCP's packets carry departure times; they are dated by their stamps all the same.
    let stamps = &report.up.json["stamps"];
    assert!(number(&stamps["future"]) * 100 < report.up.arrived, "{stamps}");
    assert!(number(&report.up.json["delay"]["ingest"]["p50_ns"]) > 0);
    let results = ended.results();
    assert!(number(&results[1]["bytes"]) > 10_000_000, "{}", results[1]);
    assert_eq!(results[0]["bytes"], results[1]["bytes"]);
    ended.replays(&report);
}

/// Shapers that grow seconds of backlog where drops are wanted (minimega#752, tcconfig#111).
fn twofold_overload_waits_no_longer_than_the_limit() {
    let ended = Run::new("rate=10mbit")
        .peer(&udp_receiver("--idle 500ms --link-rate 10mbit"))
        .sh(&udp_sender("--rate 20mbit --duration 5s"))
        .finish();
    let report = ended.report();
    let up = &report.up;
    assert_eq!(up.json["link"]["limit"], "125000b", "the default is 100 ms, and shown");
    // What is ahead of the last packet admitted is at most the limit, 100 ms.
    let longest = up.figure("delay.queue.max_ns");
    assert!((90_000_000..=100_000_000).contains(&longest), "{longest}");
    let lost = up.dropped["limit"];
    assert!(lost * 5 > up.arrived * 2 && lost * 5 < up.arrived * 3, "{lost} of {}", up.arrived);
    let received = &ended.results()[1];
    let rate = number(&received["frame_bps"]);
    assert!(rate.abs_diff(10_000_000) < 10_000, "{rate}");
    ended.replays(&report);
}

/// Delay lines that drop at 1,000 packets (iproute2#56 and others).
fn a_delay_line_holds_what_rate_times_delay_needs() {
    let ended = Run::new("delay=100ms")
        .peer(&udp_receiver("--idle 1s"))
        .sh(&udp_sender("--packets 50000 --duration 2s --size 64"))
        .finish();
    let report = ended.report();
    let [sent, received] = &ended.results()[..] else { panic!("{}", ended.text()) };
    let sent = number(&sent["sent"]);
    assert!(sent > 90_000, "the sender is slower than the test needs: {sent}");
    let arrived = number(&received["received"]) + number(&received["lost_in_socket"]);
    assert_eq!(sent, report.up.seen(), "{:#}", report.up.json);
    assert_eq!(arrived, report.up.departed - report.up.flushed);
    assert_eq!(report.up.all_dropped(), 0);
    if is_root() {
        assert_eq!(report.up.lost_before + report.up.devices, 0, "{:#}", report.up.json);
    }
    ended.replays(&report);
}

/// 64 KB super-packets distort shaping (sqm-scripts#11).
fn bursts_of_the_sender_leave_in_even_spacing() {
    let ended = Run::new("rate=20mbit")
        .peer(&udp_receiver("--idle 500ms --link-rate 20mbit"))
        .sh(&udp_sender("--rate 25mbit --duration 2s --gso-segments 20"))
        .finish();
    let report = ended.report();
    assert_eq!(report.up.gso, "split");
    let [sent, received] = &ended.results()[..] else { panic!("{}", ended.text()) };
    assert_eq!(number(&sent["sent"]), report.up.arrived, "each segment is a packet");
    assert_eq!(number(&received["received"]), report.up.departed);
    // 1,442 bytes on the wire at 20 Mbit/s. A burst that passed whole would have gaps of a few
    // microseconds; late departures on a busy machine shift the median by some tens.
    let gap = number(&received["gaps"]["p50_ns"]);
    assert!((400_000..750_000).contains(&gap), "{gap}");
    let rate = number(&received["frame_bps"]);
    assert!(rate.abs_diff(20_000_000) < 200_000, "{rate}");
}

/// 0 ms asked, 20 ms got (clumsy#134).
fn no_delay_adds_no_more_than_a_few_bare_round_trips() {
    added_round_trips("delay=0ms", 0);
}

/// A rate that the machine cannot reach, and no word about it (pantheon#72, quic-interop's #95).
fn more_than_the_machine_can_is_told_and_changes_no_decision() {
    let ended = Run::new("rate=1tbit")
        // A real-time thread would slow the senders instead: they share its processors.
        .options(["--precision", "eco", "--fail-unless-ok"])
        .peer("exec \"$P\" traffic udp-receive 0.0.0.0:5001 > /dev/null")
        .sh("for sender in 1 2 3 4; do \"$P\" traffic udp-send \"$PUNCTUAL_PEER:5001\" \
             --unpaced --size 40 --duration 2s & done; wait")
        .finish();
    let report = ended.report_after(3);
    let named = ["overloaded", "starved", "receive_buffer"];
    let reasons = report.reasons();
    assert!(reasons.iter().any(|reason| named.contains(&reason.as_str())), "{reasons:?}");
    let sent: u64 = ended.results().iter().map(|sender| number(&sender["sent"])).sum();
    assert_eq!(sent, report.up.seen(), "{:#}", report.up.json);
    ended.replays(&report);
}

/// A delay times a rate of packets that the kernel's queue is too short for.
fn what_the_kernels_queue_cannot_hold_is_told() {
    let ended = Run::new("")
        .options(["--up", "delay=3s", "--fail-unless-ok"])
        .sh("\"$P\" traffic udp-send \"$PUNCTUAL_PEER:9\" --packets 50000 --size 40 --duration 3s")
        .finish();
    let report = ended.report_after(3);
    let sent = number(&ended.results()[0]["sent"]);
    assert!(sent > 70_000, "the sender is slower than the test needs: {sent}");
    assert_eq!(sent, report.up.seen(), "{:#}", report.up.json);
    let full = number(&report.up.json["lost_before"]["nfqueue_full"]);
    assert!(full > 0, "{:#}", report.up.json);
    assert!(report.reasons().contains(&"nfqueue_full".to_owned()), "{:?}", report.reasons());
    ended.replays(&report);
}

/// A bandwidth adds 20 ms to an idle path (imunes#102).
fn an_idle_fast_link_adds_no_more_than_its_serialisation() {
    // 64 bytes of payload, 28 of headers, 14 of framing, both ways.
    let serialisation = 2 * (64 + 28 + 14) * 8 * 10;
    added_round_trips("rate=100mbit", serialisation);
}

/// What the link adds to a round trip, but for the ns that it is asked to, is at most [`MOST`] round
/// trips of the bare path beside it: each way one more thread is woken, reads and writes. The
/// faults added a hundred and more.
fn added_round_trips(link: &str, asked: i64) {
    let mut added: Vec<_> = (0..PAIRS)
        .map(|_| {
            let (through, bare) = (through(link), bare());
            (100 * (through - bare - asked) / bare, through, bare)
        })
        .collect();
    added.sort_unstable();
    let (percent, ..) = added[PAIRS / 2];
    eprintln!("{link} adds {percent} % of the bare round trip: {added:?}");
    assert!(percent <= 100 * MOST, "{percent} % of {added:?}");
}

fn through(link: &str) -> i64 {
    let ended = Run::new(link)
        .peer("exec \"$P\" traffic echo 0.0.0.0:5001")
        .sh("\"$P\" traffic rtt \"$PUNCTUAL_PEER:5001\" --count 60 --interval 5ms")
        .finish();
    ended.report();
    let median = number(&ended.results()[0]["round_trip"]["p50_ns"]);
    i64::try_from(median).expect("a round trip is short")
}

/// The same path with nothing in the gate.
fn bare() -> i64 {
    let ended: Ended = role("bare", &["60"]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    ended.text().trim().parse().expect("the role prints a number")
}

/// A kernel without the needed discipline, and an experiment that shows as applied
/// (chaos-mesh#1389).
fn a_kernel_without_the_queue_is_refused_aloud() {
    let run = Run::new("").env("PUNCTUAL_FAULT", "refuse=nfqueue-missing").sh("echo started");
    let refused = run.finish();
    assert_eq!((refused.status, &*refused.stdout), (125, &b""[..]));
    assert!(refused.stderr.contains("NFQUEUE"), "{}", refused.stderr);
}

/// Bare round trips; some three were seen.
const MOST: i64 = 8;
/// Pairs of a run and the bare path.
const PAIRS: usize = 7;
