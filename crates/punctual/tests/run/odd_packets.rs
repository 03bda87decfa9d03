//! Packets that are no ordinary datagrams: each has a count and, where it is lost, a reason.

use crate::harness::{PORT, RESULT, Run, udp_receiver, udp_sender};
use crate::report::number;
use crate::support::Test;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        datagrams_larger_than_the_mtu_pass_as_fragments,
        datagrams_larger_than_the_mtu_pass_as_ipv6_fragments,
        datagrams_without_payload_pass,
        ten_thousand_packets_at_once_each_have_a_fate,
        an_icmp_error_crosses_the_link_to_the_sender,
        bursts_larger_than_64_kb_are_counted_where_the_gate_refuses_them,
    ]
    .into()
}

fn datagrams_larger_than_the_mtu_pass_as_fragments() {
    let ended = Run::new("rate=20mbit delay=5ms")
        .peer(&udp_receiver("--idle 500ms"))
        .sh(&udp_sender("--packets 200 --count 100 --size 4000"))
        .finish();
    let report = ended.report();
    // 4,008 bytes in pieces of at most 1,480.
    assert_eq!((report.up.arrived, report.up.departed), (300, 300), "{:#}", report.up.json);
    assert_eq!(report.up.figure("bytes.in"), 100 * (4_008 + 3 * 20));
    let received = &ended.results()[1];
    assert_eq!((number(&received["received"]), number(&received["payload_bytes"])), (100, 400_000));
    ended.replays(&report);
}

fn datagrams_larger_than_the_mtu_pass_as_ipv6_fragments() {
    let ended = Run::new("rate=20mbit delay=5ms")
        .peer(&format!("\"$P\" traffic udp-receive [::]:{PORT} --idle 500ms | cat > \"$T/peer\""))
        .sh(&format!(
            "\"$P\" traffic udp-send \"[$PUNCTUAL_PEER6]:{PORT}\" --packets 200 --count 100 \
             --size 4000; {RESULT}"
        ))
        .finish();
    let report = ended.report();
    // 4,008 bytes in pieces of at most 1,448, each with 40 + 8 bytes of headers.
    assert_eq!((report.up.arrived, report.up.departed), (300, 300), "{:#}", report.up.json);
    assert_eq!(report.up.figure("bytes.in"), 100 * (4_008 + 3 * 48));
    assert_eq!(number(&ended.results()[1]["received"]), 100);
    ended.replays(&report);
}

fn datagrams_without_payload_pass() {
    for (target, any) in [("$PUNCTUAL_PEER:5001", "0.0.0.0"), ("[$PUNCTUAL_PEER6]:5001", "[::]")] {
        let ended = Run::new("rate=1mbit loss=5%")
            .peer(&format!("\"$SELF\" role=count {any}:5001 | cat > \"$T/peer\""))
            .sh(&format!("\"$SELF\" role=send-empty \"{target}\" 200; {RESULT}"))
            .finish();
        let report = ended.report();
        let received = &ended.results()[0];
        assert_eq!(report.up.seen(), 200, "{:#}", report.up.json);
        assert_eq!(number(&received["received"]), report.up.departed - report.up.flushed);
        assert_eq!(number(&received["payload_bytes"]), 0);
        ended.replays(&report);
    }
}

fn ten_thousand_packets_at_once_each_have_a_fate() {
    let ended = Run::new("rate=10mbit limit=2000p delay=5ms")
        .peer(&udp_receiver("--idle 500ms"))
        .sh(&udp_sender("--unpaced --count 10000 --size 100"))
        .finish();
    let report = ended.report();
    let [sent, received] = &ended.results()[..] else { panic!("{}", ended.text()) };
    let up = &report.up;
    assert_eq!(number(&sent["sent"]), 10_000);
    assert_eq!(up.seen(), 10_000, "{:#}", up.json);
    let received = number(&received["received"]) + number(&received["lost_in_socket"]);
    assert_eq!(received, up.departed - up.flushed);
    assert!(up.dropped["limit"] > 0 && received >= 2_000, "{:#}", up.json["packets"]);
    ended.replays(&report);
}

fn an_icmp_error_crosses_the_link_to_the_sender() {
    let ended = Run::new("delay=5ms")
        .options(["--peer", "exec sleep 60"])
        .sh("\"$P\" traffic udp-send \"$PUNCTUAL_PEER:9\" --packets 100 --count 30")
        .finish();
    let report = ended.report();
    let refused = number(&ended.results()[0]["refused"]);
    assert!(refused > 0 && report.down.departed >= refused, "{:#}", report.down.json);
    assert_eq!(report.up.departed, 30);
    ended.replays(&report);
}

/// BIG TCP. Only root may set this size, and not every iproute2 can.
fn bursts_larger_than_64_kb_are_counted_where_the_gate_refuses_them() {
    let ended = Run::new("delay=2ms")
        .peer(&format!("\"$P\" traffic tcp-receive [::]:{PORT} >/dev/null"))
        .sh(&format!(
            "ip link set link0 gso_max_size 400000 2>/dev/null || exit 9; \
             \"$P\" traffic tcp-send \"[$PUNCTUAL_PEER6]:{PORT}\" --duration 1s >/dev/null; \
             awk '$1 == \"Ip6OutRequests\" {{ print $2 }}' /proc/net/snmp6"
        ))
        .finish();
    if ended.status == 9 {
        println!("(the size of bursts cannot be set)");
        return;
    }
    let report = ended.report();
    let sent = number(&ended.results()[0]);
    let (seen, refused) =
        (report.up.figure("rule_counter.packets"), report.up.figure("lost_before.too_big"));
    // The connection's end may come after the look, and multicast reports are not forwarded.
    assert!(sent.abs_diff(seen + refused) <= 5, "{sent}: {:#}", report.up.json);
    assert_eq!(report.reasons().contains(&"gate_too_big".to_owned()), refused > 0);
}
