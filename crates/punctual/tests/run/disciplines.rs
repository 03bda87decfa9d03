//! Queue disciplines on real packets. What a queue decides, it decides in event time: the figures
//! of the log do not depend on how busy the machine is.
#![expect(clippy::cast_precision_loss, reason = "shares of thousands of packets")]

use punctual::log::Direction;
use punctual_sched::{DropReason, Ecn, Mark};

use crate::harness::{PORT, RESULT, Run, udp_receiver, udp_sender};
use crate::logged::{Packet, bytes_by_flow, jain, packets, percentile};
use crate::report::number;
use crate::support::Test;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        fq_shares_evenly_and_lets_thin_flows_pass,
        fq_drops_what_one_flow_has_too_many_under_that_flow,
        fq_codel_keeps_eight_tcp_flows_near_its_target,
        dualpi2_lets_scalable_and_classic_flows_share,
        jens_marks_what_its_ramp_says,
        a_handover_loses_only_what_has_grown_too_old,
        every_discipline_and_impairment_replays,
        duplicates_arrive_and_corrupted_datagrams_do_not,
        marks_reach_the_receiver,
        tcp_is_marked_when_it_asks_for_ecn,
    ]
    .into()
}

/// A peer that takes `count` TCP connections, on ports from [`FIRST`] on, and echoes UDP at 5999.
fn tcp_peer(count: u16) -> String {
    let receiver = |port| format!("\"$P\" traffic tcp-receive 0.0.0.0:{port} > /dev/null");
    let others: Vec<_> = (FIRST + 1..FIRST + count).map(receiver).collect();
    let echo = "\"$P\" traffic echo 0.0.0.0:5999 >/dev/null".to_owned();
    // The port that is waited for is the last to listen.
    together(others.into_iter().chain([echo, format!("sleep 0.1; {}", receiver(FIRST))]))
}

/// [`PORT`] as a number.
const FIRST: u16 = 5001;

/// A command that runs all of these at once and waits for them.
fn together(commands: impl IntoIterator<Item = String>) -> String {
    let started: Vec<_> = commands.into_iter().map(|command| format!("( {command} ) &")).collect();
    format!("{} wait", started.join(" "))
}

/// `count` TCP connections that send for so long.
fn tcp_senders(count: u16, duration: &str) -> Vec<String> {
    let sender = |port| {
        format!(
            "\"$P\" traffic tcp-send \"$PUNCTUAL_PEER:{port}\" --duration {duration} >/dev/null"
        )
    };
    (FIRST..FIRST + count).map(sender).collect()
}

fn fq_shares_evenly_and_lets_thin_flows_pass() {
    let thin = |_| {
        "\"$P\" traffic udp-send \"$PUNCTUAL_PEER:5999\" --packets 50 --size 72 --duration 5s \
         >/dev/null"
            .to_owned()
    };
    let ended = Run::new("delay=5ms")
        // All bits of the hash: by the ten of the default every fiftieth run would have a thin flow
        // that shares its queue with a bulk flow.
        .options(["--up", "rate=50mbit queue=fq fq.orphan_mask=0xffffffff", "--cc", "cubic"])
        .peer(&tcp_peer(2))
        .sh(&together(tcp_senders(2, "5s").into_iter().chain((0..10).map(thin))))
        .finish();
    let report = ended.report();
    let up = packets(&ended, Direction::Up);
    let is_thin = |len: u32| len == 100;
    let flows = bytes_by_flow(up.iter().filter(|packet| packet.arrival.len > 1_000));
    let bulk: Vec<u64> = flows.into_values().collect();
    assert_eq!(bulk.len(), 2);
    assert!(jain(&bulk) >= 0.98, "{bulk:?}");
    let waits: Vec<u64> =
        up.iter().filter(|p| is_thin(p.arrival.len)).filter_map(Packet::queue_ns).collect();
    assert!(waits.len() > 2_400, "{} thin packets", waits.len());
    // Two full packets at 50 Mbit/s.
    let (p99, two) = (percentile(waits, 99), 2 * 1_514 * 8 * 1_000 / 50);
    assert!(p99 <= two, "{p99} ns");
    assert!(bulk.iter().sum::<u64>() * 8 > 5 * 40_000_000, "{bulk:?}");
    ended.replays(&report);
}

/// One flow sends 200 packets at once into a flow limit of 100 (cilium#29083).
fn fq_drops_what_one_flow_has_too_many_under_that_flow() {
    let ended = Run::new("delay=1ms")
        .options(["--up", "rate=1mbit queue=fq"])
        .peer(&udp_receiver("--idle 2s"))
        .sh(&udp_sender("--unpaced --count 200 --size 100 --gso-segments 50"))
        .finish();
    let report = ended.report();
    let dropped = report.up.dropped["flow_limit"];
    // Some have left while the others came.
    assert!((80..=99).contains(&dropped), "{dropped}");
    assert_eq!(report.up.dropped.len(), 1, "{:?}", report.up.dropped);
    let flows = report.up.json["flows"].as_array().expect("flows are a list");
    let named: Vec<_> = flows.iter().filter(|f| number(&f["dropped"]["flow_limit"]) > 0).collect();
    assert_eq!(named.len(), 1, "{flows:#?}");
    assert_eq!(number(&named[0]["dropped"]["flow_limit"]), dropped);
    assert_eq!(number(&report.up.json["queue"]["counters"]["flows_plimit"]), dropped);
    ended.replays(&report);
}

fn fq_codel_keeps_eight_tcp_flows_near_its_target() {
    let ended = Run::new("delay=20ms")
        .options(["--up", "rate=20mbit queue=fq_codel", "--cc", "cubic"])
        .peer(&tcp_peer(8))
        .sh(&together(tcp_senders(8, "6s")))
        .finish();
    let report = ended.report();
    let up = packets(&ended, Direction::Up);
    let p50 = percentile(up.iter().filter_map(Packet::queue_ns), 50);
    assert!(p50 <= 2 * 5_000_000, "{p50} ns");
    assert!(report.up.dropped["congested"] > 0, "{:?}", report.up.dropped);
    let bytes: u64 = bytes_by_flow(&up).values().sum();
    assert!(bytes * 8 > 6 * 16_000_000, "the link is used: {bytes} bytes in 6 s");
    ended.replays(&report);
}

/// A scalable sender beside a cubic one at 40 Mbit/s and 20 ms.
fn dualpi2_lets_scalable_and_classic_flows_share() {
    let scalable = "\"$P\" traffic udp-scalable \"$PUNCTUAL_PEER:5998\" --duration 10s > /dev/null";
    let receiver = "\"$P\" traffic udp-scalable-receive 0.0.0.0:5998 > /dev/null";
    let peer = format!("{receiver} & {}", tcp_peer(1));
    let ended = Run::new("delay=10ms")
        .options(["--up", "rate=40mbit queue=dualpi2", "--cc", "cubic"])
        .peer(&peer)
        .sh(&together([scalable.to_owned()].into_iter().chain(tcp_senders(1, "10s"))))
        .finish();
    let report = ended.report();
    let up = packets(&ended, Direction::Up);
    let (l4s, classic): (Vec<_>, Vec<_>) =
        up.iter().partition(|packet| packet.arrival.ecn == Ecn::Ect1);
    let bytes =
        |packets: &[&Packet]| -> u64 { bytes_by_flow(packets.iter().copied()).values().sum() };
    let shares = (bytes(&l4s), bytes(&classic));
    assert!(shares.0 < 2 * shares.1 && shares.1 < 2 * shares.0, "{shares:?}");
    assert!((shares.0 + shares.1) * 8 > 10 * 32_000_000, "the link is used: {shares:?}");
    let sojourns = |percent| percentile(l4s.iter().filter_map(|p| p.queue_ns()), percent);
    let (p50, p99) = (sojourns(50), sojourns(99));
    let waits = &report.up.json["queue"]["delays"];
    // The report's figures are from a histogram, 0.1 % above at most.
    let told = number(&waits["L"]["p50_ns"]);
    assert!((p50..=p50 + p50 / 1_000 + 1).contains(&told), "{told} {p50}");
    assert!(number(&waits["C"]["p50_ns"]) > told, "{waits}");
    assert!(p50 <= 1_000_000 && p99 <= 3_000_000, "L sojourn p50 {p50} ns, p99 {p99} ns");
    ended.replays(&report);
}

/// The marked share is the mean of the ramp's probability over the sojourns of the same packets.
fn jens_marks_what_its_ramp_says() {
    let ended = Run::new("delay=1ms")
        .options([
            "--up",
            "rate=30mbit queue=jens jens.markfree=4ms jens.markfull=404ms",
            "--seed",
            "7",
        ])
        .peer(&udp_receiver("--idle 1s"))
        // jens carries a frame of 1,442 bytes in 266 ns a byte, one every 383.6 us; one comes every
        // 346.2 us. So waits grow to 370 ms, and a sender that is kept waiting adds some tens.
        .sh(&udp_sender("--rate 33mbit --count 10000 --tos 1"))
        .finish();
    let report = ended.report();
    let up = packets(&ended, Direction::Up);
    let sent: Vec<_> = up.iter().filter(|packet| packet.arrival.ecn == Ecn::Ect1).collect();
    assert_eq!(sent.len(), 10_000);
    let ramp = |sojourn: u64| (sojourn as f64 / 1e6 - 4.0).clamp(0.0, 400.0) / 400.0;
    let sojourns: Vec<_> = sent.iter().copied().filter_map(Packet::queue_ns).collect();
    let expected = sojourns.iter().map(|&ns| ramp(ns)).sum::<f64>() / sojourns.len() as f64;
    let marks = sent.iter().flat_map(|packet| &packet.departures);
    let marked = marks.filter(|departure| departure.mark == Mark::Ce).count();
    let share = marked as f64 / sojourns.len() as f64;
    assert!(expected > 0.1 && expected < 0.9, "the ramp is not used: {expected}");
    assert!((share - expected).abs() <= 0.02, "{share} of {expected}");
    ended.replays(&report);
}

fn a_handover_loses_only_what_has_grown_too_old() {
    let ended = Run::new("delay=1ms")
        .options(["--up", "rate=10mbit queue=jens jens.handover=1s,200ms"])
        .peer(&udp_receiver("--idle 1s"))
        .sh(&udp_sender("--rate 5mbit --duration 3s"))
        .finish();
    let report = ended.report();
    let up = packets(&ended, Direction::Up);
    let waits = up.iter().filter_map(Packet::queue_ns);
    let longest = waits.max().expect("something departed");
    assert!((190_000_000..=210_000_000).contains(&longest), "{longest} ns of 200 ms");
    for drop in up.iter().flat_map(|packet| &packet.drops) {
        assert_eq!(drop.reason, DropReason::Age);
        assert!(drop.delay.as_nanos() >= 100_000_000, "{drop:?}");
    }
    // One for each look at the ages, every 200 ms.
    assert!(report.up.all_dropped() <= 2, "{:?}", report.up.dropped);
    ended.replays(&report);
}

fn every_discipline_and_impairment_replays() {
    for link in [
        "rate=4mbit queue=tbf burst=5kb limit=20kb",
        "rate=4mbit queue=codel codel.ecn=on",
        "rate=4mbit queue=codel codel.arithmetic=linux",
        "rate=4mbit queue=fq_codel",
        "rate=4mbit queue=fq fq.maxrate=2mbit",
        "rate=4mbit queue=dualpi2",
        "rate=4mbit queue=jens",
        "rate=4mbit queue=jens jens.users=4 jens.user=dport",
        "rate=4mbit delay=5ms loss=gemodel,5%,30%,80%,1% duplicate=5% corrupt=2% reorder=5%",
        "rate=4mbit delay=5ms jitter=2ms distribution=pareto loss=3%,25% slot=1ms,2ms",
        "impair=netem rate=4mbit delay=5ms jitter=1ms loss=3% duplicate=2% reorder=10% corrupt=1%",
    ] {
        let ended = Run::new(link)
            .peer(&udp_receiver("--idle 500ms"))
            .sh(&udp_sender("--rate 6mbit --duration 1s --tos 2"))
            .finish();
        let report = ended.report();
        assert!(report.up.arrived > 400, "{link}: {:#}", report.up.json);
        ended.replays(&report);
    }
}

fn duplicates_arrive_and_corrupted_datagrams_do_not() {
    let ended = Run::new("delay=2ms")
        .options(["--up", "delay=2ms duplicate=20% corrupt=10%", "--seed", "7"])
        .peer(&udp_receiver("--idle 500ms"))
        .sh(&udp_sender("--packets 2000 --count 2000"))
        .finish();
    let report = ended.report();
    let packets = &report.up.json["packets"];
    let (duplicated, corrupted) = (number(&packets["duplicated"]), number(&packets["corrupted"]));
    assert!((330..=470).contains(&duplicated) && corrupted > 150, "{packets}");
    let received = number(&ended.results()[1]["received"]);
    let departed = report.up.departed - report.up.flushed;
    // A bit in a header may also make a datagram one for somebody else, or one that is still right.
    let whole = departed - corrupted;
    assert!(received >= whole && received <= whole + corrupted / 10, "{received} of {departed}");
    ended.replays(&report);
}

/// The kernel's default is to accept ECN, but not to ask for it.
fn tcp_is_marked_when_it_asks_for_ecn() {
    for (ecn, asked) in [(true, 1), (false, 2)] {
        let option = if ecn { &["--ecn"][..] } else { &[] };
        let ended = Run::new("delay=5ms")
            .options(["--up", "rate=10mbit queue=fq_codel", "--cc", "cubic"])
            .options(option.iter().copied())
            .peer(&tcp_peer(1))
            .sh(&together(tcp_senders(1, "3s")))
            .finish();
        let report = ended.report();
        assert_eq!(report.run()["tcp_ecn"], asked);
        assert_eq!(report.run()["congestion_control"], "cubic");
        assert_eq!(report.up.marked > 0, ecn, "{:#}", report.up.json);
        assert_eq!(report.up.dropped.contains_key("congested"), !ecn, "{:?}", report.up.dropped);
        let flow = &report.up.json["flows"][0];
        let [p50, p99] = ["delay_p50_ns", "delay_p99_ns"].map(|key| number(&flow[key]));
        assert!((5_000_000..=p99).contains(&p50), "{flow}");
        ended.replays(&report);
    }
}

/// Marked by the link, seen by the receiver's kernel, on IPv4 and IPv6.
fn marks_reach_the_receiver() {
    for (target, any) in [("$PUNCTUAL_PEER", "0.0.0.0"), ("[$PUNCTUAL_PEER6]", "[::]")] {
        let ended = Run::new("delay=1ms")
            .options(["--up", "rate=10mbit queue=codel codel.ecn=on codel.ce_threshold=1ms"])
            .peer(&format!("\"$SELF\" role=count-ce {any}:{PORT} | cat > \"$T/peer\""))
            .sh(&format!(
                "\"$P\" traffic udp-send \"{target}:{PORT}\" --rate 12mbit --duration 1s --tos 2; \
                 {RESULT}"
            ))
            .finish();
        let report = ended.report();
        let counted = &ended.results()[1];
        assert!(report.up.marked > 300, "{:#}", report.up.json);
        assert_eq!(number(&counted["ce"]), report.up.marked, "{counted}");
        assert_eq!(number(&counted["received"]), report.up.departed - report.up.flushed);
        ended.replays(&report);
    }
}
