//! The report as its readers get it: the whole of its JSON, and its ten lines.
//!
//! A changed snapshot of the JSON is a changed schema: keys may be added, none may go or change
//! its meaning.

use punctual_measure::report::{
    Bytes, Change, Delays, Device, Direction, Directions, Flow, FlowRest, FollowedTrace, Granted,
    Host, IgnoredStore, IgnoredStores, Impairments, Jitter, Lane, Lanes, Log, LostBefore,
    Opportunities, Packets, Peer, Queue, Rate, Report, RuleCounter, Run, SCHEMA, Share, Stamps,
    Thread, Tool, TraceState, Wakes, Witness, queues, text,
};
use punctual_measure::spacing::{self, Received};
use punctual_measure::verdict::{Facts, Testimony};
use punctual_measure::{Distribution, Histogram, LatenessRecorder, judge};
use serde_json::Value;
use std::collections::BTreeMap;

const US: i64 = 1_000;
const MS: i64 = 1_000_000;

#[test]
fn the_whole_json_of_a_filled_report_is_frozen() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&filled()).unwrap());
}

#[test]
fn a_report_read_back_is_the_same() {
    for report in [filled, overloaded, empty].map(|report| Box::new(report())) {
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), *report);
    }
}

#[test]
fn every_number_is_an_integer() {
    for report in [filled, overloaded, empty] {
        let json = serde_json::to_value(report()).unwrap();
        assert!(numbers(&json) > 50);
    }
}

#[test]
fn a_quiet_run_reads_as_ok() {
    insta::assert_snapshot!(checked_text(&filled()));
}

#[test]
fn queues_with_counters_show_as_tc_shows_them() {
    let expected = "up: qdisc codel root limit 1000p\n  maxpacket 1514 ecn_mark 17\n";
    assert_eq!(queues(&filled())[..expected.len()], *expected);
    assert_eq!(queues(&empty()), "");
}

#[test]
fn an_overloaded_run_names_causes_losses_and_remedies() {
    insta::assert_snapshot!(checked_text(&overloaded()));
}

#[test]
fn a_run_without_packets_is_short() {
    insta::assert_snapshot!(checked_text(&empty()));
}

#[test]
fn a_run_with_traffic_one_way_has_room_for_its_reasons() {
    let mut report = overloaded();
    report.directions.down = Direction::default();
    insta::assert_snapshot!(checked_text(&report));
}

#[test]
fn an_early_departure_is_shouted_about() {
    let mut recorder = LatenessRecorder::new(MS);
    (0..5).for_each(|_| recorder.record(-3));
    let mut report = filled();
    report.directions.up.lateness = recorder.lateness();
    assert!(checked_text(&report).contains("p50 -3 ns   p99 -3 ns"));
    assert!(checked_text(&report).contains("5 EARLY"));
}

#[test]
fn a_long_command_is_cut_and_no_number_is_lost() {
    let mut report = overloaded();
    report.run.command = vec!["x".repeat(200)];
    let long = (0..30).map(|i| (format!("some_reason_{i}"), 1_234_567));
    let up = &mut report.directions.up;
    up.packets.dropped = long.collect();
    up.packets.marked = 1_884;
    let text = checked_text(&report);
    assert!(text.lines().next().unwrap().ends_with("xxx..."), "{text}");
    assert_eq!(text.matches("1,234,567").count(), 30, "{text}");
    assert!(text.contains("1,884 marked"), "{text}");
}

#[test]
fn what_a_command_is_called_neither_breaks_the_layout_nor_reaches_the_terminal() {
    let plain = filled();
    let mut report = plain.clone();
    report.run.command = words("sh -c a\nverdict\u{1b}[2J\u{7}\u{9b}1m\u{202e}");
    report.run.name = "lab\n".into();
    report.host.lacks = vec!["\u{1b}]0;title".into()];
    let shown = checked_text(&report);
    assert_eq!(shown.lines().count(), checked_text(&plain).lines().count());
    assert!(shown.starts_with(r"punctual lab\n: 10.0 s"), "{shown}");
    assert!(shown.contains(r"sh -c a\nverdict\u{1b}[2J\u{7}\u{9b}1m\u{202e}"), "{shown}");
}

#[test]
fn a_note_without_a_line_of_its_own_is_named_beside_the_verdict() {
    let mut report = filled();
    report.directions.down.packets.queued = 3;
    let facts = Facts {
        queued: 5,
        log_lost_records: 2,
        departures: 25_600,
        arrivals: 25_624,
        steal_ppm: Some(22_991),
        balanced: true,
        ..Facts::default()
    };
    report.verdict = judge(&facts);
    let text = checked_text(&report);
    assert!(text.contains("; also cut_off, steal\n"), "{text}");
    assert!(text.contains("note       2 log records lost"), "{text}");
}

#[test]
fn notes_give_way_to_reasons_beside_the_verdict() {
    let mut report = overloaded();
    let named = |report: &Report| checked_text(report).lines().nth(1).unwrap().to_owned();
    assert!(named(&report).ends_with("overloaded, steal, receive_buffer, late; also cut_off"));
    let spoiled = Facts {
        log_lost_records: 1,
        queued: 1,
        peer_ended_early: true,
        busy_ppm: Some(970_000),
        late: 700,
        departures: 900,
        arrivals: 900,
        witness: Some(Testimony::Contradicts),
        ..Facts::default()
    };
    report.verdict = judge(&spoiled);
    let kept = "overloaded, late, unbalanced, witness; also log_incomplete";
    assert!(named(&report).ends_with(kept), "{}", named(&report));
}

#[test]
fn what_happened_to_packets_is_shown_before_what_may_be_cut_off() {
    let mut report = empty();
    let up = &mut report.directions.up;
    up.packets = Packets { arrived: 9, marked: 1, queued: 5, ..Packets::default() };
    (up.packets.duplicated, up.packets.corrupted, up.packets.reordered) = (2, 3, 4);
    let shown = "9 in, 0 out, 0 dropped, 1 marked, 2 duplicated, 3 corrupted, 4 reordered";
    assert!(text(&report).contains(shown), "{}", text(&report));
}

#[test]
fn a_link_that_lets_nothing_out_is_called_paused() {
    let mut report = empty();
    report.directions.up.packets.arrived = 3;
    for (rate, shown) in [("0bit", "paused, 3 in"), ("20mbit", "rate unknown, 3 in")] {
        report.directions.up.link.insert("rate".into(), rate.into());
        assert!(text(&report).contains(shown), "{}", text(&report));
    }
}

#[test]
fn a_rate_stands_beside_that_of_its_link_or_its_trace() {
    let up = |trace: Option<FollowedTrace>, rate: &str| {
        let mut report = filled();
        let named = trace.as_ref().map_or("none", |trace| &*trace.text);
        report.directions.up.link = map(&[("rate", rate), ("trace", named)]);
        report.directions.up.trace = trace;
        report.directions.up.rate_changes = 0;
        let line =
            checked_text(&report).lines().find(|line| line.starts_with("up ")).map(str::to_owned);
        line.expect("it has packets")
    };
    assert!(up(None, "20mbit").contains(" of 20mbit, "), "{}", up(None, "20mbit"));
    assert!(up(Some(cell()), "unlimited").contains(" along its trace, "));
    let delays = FollowedTrace { paces: false, ..cell() };
    assert!(up(Some(delays), "20mbit").contains(" of 20mbit, "), "it decides no rate");
    let bare = up(None, "unlimited");
    assert!(!bare.contains(" of ") && !bare.contains("trace"), "{bare}");
}

#[test]
fn packets_unread_at_the_end_are_shown() {
    let mut report = empty();
    report.directions.up.lost_before.unread_at_end = 3;
    assert!(checked_text(&report).contains("0 out, 0 dropped, 3 unread\n"));
}

#[test]
fn a_report_from_before_the_newer_keys_is_still_read() {
    let mut json = serde_json::to_value(filled()).unwrap();
    for way in ["up", "down"] {
        let direction = &mut json["directions"][way];
        let mut drop = |section: &str, key: &str| {
            let section = direction.pointer_mut(section).and_then(Value::as_object_mut).unwrap();
            assert!(section.remove(key).is_some(), "{key}");
        };
        drop("", "uncut_udp_bursts");
        drop("", "ignored");
        drop("/lost_before", "unread_at_end");
        drop("/stamps", "longest_gap_ns");
    }
    let mut expected = filled();
    expected.directions.up.stamps.longest_gap_ns = None;
    expected.directions.up.ignored = IgnoredStores::default();
    assert_eq!(serde_json::from_value::<Report>(json).unwrap(), expected);
}

/// The text, once it is known to fit.
fn checked_text(report: &Report) -> String {
    let text = text(report);
    let goes_on = |line: &&str| line.starts_with("           ");
    assert!(text.ends_with('\n') && text.lines().filter(|line| !goes_on(line)).count() <= 10);
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
        assert_eq!(line, line.trim_end());
    }
    text
}

/// How many numbers a value holds; fails on one that is not an integer.
fn numbers(value: &Value) -> usize {
    match value {
        Value::Number(number) => {
            assert!(number.is_i64() || number.is_u64(), "{number}");
            1
        }
        Value::Array(values) => values.iter().map(numbers).sum(),
        Value::Object(values) => values.values().map(numbers).sum(),
        Value::Null | Value::Bool(_) | Value::String(_) => 0,
    }
}

/// A quiet run with every section filled.
fn filled() -> Report {
    let up_lateness = lateness(17_100, 900);
    let down_lateness = lateness(8_500, 700);
    let directions = Directions {
        up: up(&up_lateness, 17_100),
        down: Direction {
            packets: Packets { arrived: 8_500, departed: 8_500, ..Packets::default() },
            link: map(&[("delay", "30ms"), ("framing", "14"), ("rate", "unlimited")]),
            gso: "keep".into(),
            rate: Rate { frame_bps: Some(496_700), ip_bps: Some(381_900) },
            delay: Delays {
                total: spread(30_010 * US, 30_090 * US),
                queue: spread(0, 0),
                serialisation: spread(0, 0),
                pacing: spread(0, 0),
                propagation: spread(30 * MS, 30 * MS),
                ingest: spread(41 * US, 118 * US),
            },
            lateness: down_lateness.lateness(),
            ..Direction::default()
        },
    };
    let mut merged = up_lateness.histogram().clone();
    merged.merge(down_lateness.histogram());
    report(run(), directions, Some(witness()), &merged)
}

/// Ten times what the machine can do.
fn overloaded() -> Report {
    let lateness = lateness(1_000_000, 1_500_000);
    let mut run = run();
    run.threads[0].cpu_ns = 9_870 * MS;
    run.threads[0].spin_ns = 0;
    run.cpu_ns = Some(10_120 * MS);
    run.exit_status = Some(1);
    let mut up = up(&lateness, 1_000_000);
    up.lost_before = LostBefore { receive_buffer: 48_211, ..LostBefore::default() };
    up.rate = Rate { frame_bps: Some(941_300_000), ip_bps: Some(932_600_000) };
    up.delay.ingest = spread(12 * MS, 48 * MS);
    up.delay.total = spread(92 * MS, 148 * MS);
    let down = Direction { lateness: self::lateness(9, 900).lateness(), ..up.clone() };
    report(run, Directions { up, down }, None, lateness.histogram())
}

fn empty() -> Report {
    let run = Run { cpu_ns: Some(3 * MS), threads: vec![], peer: None, log: None, ..run() };
    report(run, Directions::default(), None, &Histogram::new())
}

fn report(
    run: Run,
    directions: Directions,
    witness: Option<Witness>,
    lateness: &Histogram,
) -> Report {
    let host = host();
    let facts = Facts::new(&host, &run, &directions, lateness, witness.as_ref());
    Report {
        schema: SCHEMA.into(),
        tool: Tool { name: "punctual".into(), version: "0.1.0".into() },
        host,
        run,
        verdict: judge(&facts),
        directions,
        witness,
    }
}

fn host() -> Host {
    Host {
        kernel: Some("6.18.1".into()),
        cpus: Some(2),
        clocksource: Some("kvm-clock".into()),
        clock_read_ns: Some(52),
        hz: Some(250),
        granted: Granted {
            policy: Some("fifo 50".into()),
            slice_ns: None,
            timer_slack_ns: Some(1),
            cpu_dma_latency_ns: Some(0),
            memory_locked: Some(true),
            receive_buffer_bytes: Some(33_554_432),
            receive_buffer_asked_bytes: Some(33_554_432),
            nfqueue_length_packets: Some(65_536),
            hold_limit_bytes: Some(268_435_456),
        },
        lacks: vec!["the queue expression of nf_tables: the compat target is used".into()],
    }
}

fn run() -> Run {
    Run {
        name: "lab".into(),
        id: "5f0c2b7e".into(),
        argv: words("punctual run --net lab --both rate=20mbit,delay=30ms -- iperf3 -c 10.0.0.2"),
        command: words("iperf3 -c 10.0.0.2"),
        started_unix_ns: Some(1_796_000_000_123_456_789),
        duration_ns: 10_004 * MS,
        seed: 42,
        exit_status: Some(0),
        net: "lab".into(),
        precision: "balanced".into(),
        congestion_control: Some("cubic".into()),
        tcp_ecn: Some(2),
        peer: Some(Peer { command: "iperf3 -s".into(), exit_status: None, ended_early: false }),
        threads: vec![Thread {
            name: "driver".into(),
            cpu_ns: 412 * MS,
            spin_ns: 160 * MS,
            run_queue_wait_ns: Some(21 * MS),
            margin_ns: Some(62 * US),
        }],
        cpu_ns: Some(431 * MS),
        steal_ns: Some(460 * MS),
        log: Some(Log { path: "lab.log".into(), bytes: 812_345, lost_records: 0, cause: None }),
    }
}

fn impaired(departed: u64) -> Impairments {
    Impairments {
        loss: Some(Share::new(200, 3, departed + 1)),
        loss_marked: Some(0),
        duplicate: Some(Share::new(250, 4, departed - 2)),
        corrupt: Some(Share::new(100, 1, departed + 2)),
        reorder: Some(Share::new(50, 1, departed + 2)),
        jitter: Some(Jitter {
            asked_ns: 1_000_000,
            min_ns: Some(-999_000),
            mean_ns: Some(-899_100),
            max_ns: Some(999_000),
        }),
        slots: Some(9_412),
    }
}

fn codel() -> Queue {
    Queue {
        kind: "codel".into(),
        counters: counts(&[("ecn_mark", 17), ("maxpacket", 1514)]),
        text: vec!["qdisc codel root limit 1000p".into(), "  maxpacket 1514 ecn_mark 17".into()],
        delays: BTreeMap::new(),
    }
}

fn one_lane(departed: u64) -> Lanes {
    let lane = Lane {
        thread: "link".into(),
        packets_in: departed + 21,
        packets_out: departed,
        packets_dropped: 22,
        packets_queued: 3,
        receive_buffer_lost: 0,
        lateness_p99_ns: Some(1_000),
    };
    let because = "rate is one bottleneck for all flows";
    Lanes { asked: 2, single_because: Some(because.into()), each: vec![lane] }
}

fn cell() -> FollowedTrace {
    FollowedTrace {
        text: "cell.up (mahimahi, 60s, mean 20mbit, crc32 0badcafe)".to_owned(),
        course: "deliveries".to_owned(),
        paces: true,
        span_ns: 60_000_000_000,
        repeats: true,
        state: TraceState::Running,
        rounds: 0,
        at_ns: 10_012_345_678,
    }
}

fn delays() -> Delays {
    Delays {
        total: spread(32_431 * US, 80_122 * US),
        queue: spread(2_104 * US, 49_512 * US),
        serialisation: spread(600 * US, 606 * US),
        pacing: spread(0, 0),
        propagation: spread(30 * MS, 30 * MS),
        ingest: spread(45 * US, 120 * US),
    }
}

fn up(lateness: &LatenessRecorder, departed: u64) -> Direction {
    Direction {
        link: map(&[("delay", "30ms"), ("limit", "100ms"), ("queue", "fifo"), ("rate", "20mbit")]),
        gso: "split".into(),
        queue: codel(),
        lanes: one_lane(departed),
        packets: Packets {
            arrived: departed + 21,
            duplicated: 4,
            departed,
            queued: 2,
            dropped: counts(&[("limit", 20), ("loss", 3)]),
            marked: 17,
            corrupted: 1,
            reordered: 2,
        },
        uncut_udp_bursts: 0,
        lost_before: LostBefore::default(),
        flushed_by_kernel: 0,
        copies_failed: 0,
        impairments: impaired(departed),
        trace: Some(cell()),
        opportunities: Some(Opportunities { used: 17_100, wasted: 1_204 }),
        bytes: Bytes {
            arrived: 25_681_500,
            duplicated: 6_000,
            departed: 25_650_000,
            dropped: 34_500,
        },
        delay: delays(),
        lateness: lateness.lateness(),
        wakes: Wakes { timer: 15_022, spin: 14_800, packet: 16_210, control: 9_987, other: 1 },
        rate: Rate { frame_bps: Some(19_996_100), ip_bps: Some(19_811_400) },
        stamps: Stamps { raised: 12, longest_gap_ns: Some(1_000_090 * US), ..Stamps::default() },
        rule_counter: Some(RuleCounter { packets: departed + 21, bytes: 25_681_500 }),
        devices: vec![gate()],
        flows: vec![Flow {
            flow: "tcp 10.0.0.1:40112 > 10.0.0.2:5201".into(),
            packets: departed,
            bytes: 25_600_000,
            dropped: counts(&[("limit", 20)]),
            delay_p50_ns: Some(32_440 * US),
            delay_p99_ns: Some(80_020 * US),
        }],
        flows_rest: Some(FlowRest {
            flows: 3,
            packets: 21,
            bytes: 81_500,
            dropped: counts(&[("loss", 3)]),
        }),
        changes: changes(),
        changes_omitted: 0,
        rate_changes: 1,
        ignored: ignored(),
    }
}

fn gate() -> Device {
    Device { name: "gate/up0".into(), mtu_bytes: Some(1_500), ..Device::default() }
}

fn changes() -> Vec<Change> {
    vec![Change {
        at_ns: 5_000 * MS,
        asked_ns: Some(4_999_990 * US),
        values: map(&[("rate", "10mbit")]),
    }]
}

fn ignored() -> IgnoredStores {
    IgnoredStores {
        count: 101,
        first: vec![IgnoredStore {
            at_ns: 6_000 * MS,
            place: "word".into(),
            parameter: "rate".into(),
            value: u64::MAX - 1,
            reason: "out of range".into(),
        }],
    }
}

fn witness() -> Witness {
    let train: Vec<_> = (0..2_000)
        .map(|i| Received { stamp_ns: i * 500_000 + i % 7, frame_bytes: 1_250 })
        .collect();
    Witness {
        sent: 2_003,
        received: 2_000,
        duplicated: 1,
        reordered: 0,
        lost_unexplained: 0,
        arrival_error: spread(4 * US, 11 * US),
        departure_error: spread(6 * US, 19 * US),
        one_way_delay: spread(32_460 * US, 80_151 * US),
        bare_one_way_delay: Some(spread(14 * US, 52 * US)),
        spacing: Some(spacing::of(&train, 20_000_000)),
        disagreements: Vec::new(),
        untold: Vec::new(),
        ok: true,
    }
}

/// `n` departures: most a microsecond late, one in a hundred and one in 5,000 later.
fn lateness(n: u64, slow_ns: i64) -> LatenessRecorder {
    let mut recorder = LatenessRecorder::new(2 * MS);
    for i in 0..n {
        let tail = [(i % 100 == 7, 40), (i % 5_000 == 77, 1_300)];
        let factor = tail.iter().filter(|(hit, _)| *hit).map(|(_, factor)| factor).max();
        recorder.record(slow_ns * factor.unwrap_or(&1));
    }
    recorder
}

/// A distribution with the given median and 99th percentile.
fn spread(p50_ns: i64, p99_ns: i64) -> Distribution {
    let samples = (0..5_000).map(|i| if i % 20 == 0 { p99_ns } else { p50_ns });
    Distribution::from_samples(&mut samples.collect::<Vec<_>>())
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(key, value)| (key.into(), value.into())).collect()
}

fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pairs.iter().map(|&(key, n)| (key.into(), n)).collect()
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(Into::into).collect()
}
