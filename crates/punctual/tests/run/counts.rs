//! What the kernel and the ends counted against what the report says.

use crate::harness::{PORT, RESULT, Run, udp_receiver, udp_sender};
use crate::replay::udp_to_an_echo;
use crate::report::{Direction, number};
use crate::support::Test;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        the_rule_the_link_and_the_receiver_count_the_same_packets,
        of_bursts_they_count_the_same_bytes,
        of_tcp_bursts_they_count_the_same_bytes,
        the_stages_of_the_delay_add_up,
    ]
    .into()
}

/// The independent counter in the rule.
fn rule(direction: &Direction) -> (u64, u64) {
    (direction.figure("rule_counter.packets"), direction.figure("rule_counter.bytes"))
}

fn the_rule_the_link_and_the_receiver_count_the_same_packets() {
    let ended = Run::new("rate=8mbit delay=5ms loss=1% limit=20ms")
        .peer(&udp_receiver("--idle 500ms"))
        .sh(&udp_sender("--rate 10mbit --duration 2s"))
        .finish();
    let report = ended.report();
    let [sent, received] = &ended.results()[..] else { panic!("{}", ended.text()) };
    let up = &report.up;
    assert_eq!(up.gso, "split");
    let (packets, bytes) = rule(up);
    assert_eq!(packets, up.arrived + up.lost_before + up.unread_at_end);
    assert_eq!(packets + up.devices, number(&sent["sent"]));
    // Each IP packet has 1,428 bytes.
    assert_eq!(bytes, packets * 1_428);
    assert_eq!(up.figure("bytes.in"), up.arrived * 1_428);
    assert_eq!(number(&received["received"]), up.departed - up.flushed);
    assert!(up.dropped["loss"] > 0 && up.dropped["limit"] > 0, "{:?}", up.dropped);
}

fn of_bursts_they_count_the_same_bytes() {
    let ended = Run::new("delay=5ms")
        .peer(&udp_receiver("--idle 500ms"))
        .sh(&udp_sender("--rate 40mbit --duration 1s --gso-segments 10"))
        .finish();
    let report = ended.report();
    assert_eq!(report.up.gso, "keep");
    let [sent, received] = &ended.results()[..] else { panic!("{}", ended.text()) };
    assert_eq!(number(&sent["sent"]), report.up.seen(), "wire packets");
    let bursts = report.up.figure("uncut_udp_bursts");
    // Each is two to ten packets; the sender may have had less to send at a time.
    let further = report.up.arrived - rule(&report.up).0;
    assert!((bursts..=bursts * 9).contains(&further), "{bursts} bursts: {:#}", report.up.json);
    assert!(bursts > 0);
    assert!(report.notes().contains(&"udp_bursts".to_owned()), "{:#}", report.json);
    assert_eq!(number(&received["received"]), report.up.departed - report.up.flushed);
    each_further_segment_adds_its_headers(&report.up, 28);
}

fn of_tcp_bursts_they_count_the_same_bytes() {
    let ended = Run::new("delay=2ms")
        .peer(&format!("\"$P\" traffic tcp-receive 0.0.0.0:{PORT} | cat > \"$T/peer\""))
        .sh(&format!("\"$P\" traffic tcp-send \"$PUNCTUAL_PEER:{PORT}\" --duration 1s; {RESULT}"))
        .finish();
    let report = ended.report();
    // 20 of IPv4, 20 of TCP, 12 of its timestamps.
    each_further_segment_adds_its_headers(&report.up, 52);
    let payload = number(&ended.results()[1]["bytes"]);
    let whole = report.up.figure("bytes.out") - 52 * report.up.departed;
    // The options of the SYN, and what was sent twice.
    assert!(whole >= payload && whole - payload < payload / 50 + 100, "{whole} and {payload}");
}

/// The kernel's counter sees a burst with one set of headers.
fn each_further_segment_adds_its_headers(direction: &Direction, headers: u64) {
    let (packets, bytes) = rule(direction);
    assert_eq!(direction.lost_before, 0);
    assert!(packets < direction.arrived, "no burst reached the rule: {:#}", direction.json);
    let further = direction.arrived - packets;
    assert_eq!(direction.figure("bytes.in"), bytes + further * headers);
}

fn the_stages_of_the_delay_add_up() {
    let ended = Run::new("rate=6mbit delay=20ms jitter=5ms")
        .peer("exec \"$P\" traffic echo 0.0.0.0:5001")
        .sh(&udp_to_an_echo("--rate 5mbit --duration 2s"))
        .finish();
    let report = ended.report();
    for direction in [&report.up, &report.down] {
        assert!(direction.departed > 500, "{:#}", direction.json);
        let mean = |name: &str| direction.figure(&format!("{name}.mean_ns"));
        let total = mean("delay.total");
        let stages = ["queue", "serialisation", "pacing", "propagation"];
        let sum: u64 = stages.iter().map(|stage| mean(&format!("delay.{stage}"))).sum();
        let sum = sum + mean("lateness");
        // Each of six means is rounded to a nanosecond.
        assert!(total.abs_diff(sum) <= 6, "total {total}, stages and lateness {sum}");
        let propagation = mean("delay.propagation");
        assert!((18_000_000..24_000_000).contains(&propagation), "{propagation}");
    }
    assert_eq!(report.down.seen(), report.up.udp_departed());
}
