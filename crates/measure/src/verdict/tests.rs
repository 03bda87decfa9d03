use super::*;
use crate::histogram::Histogram;
use crate::lateness::LatenessRecorder;
use crate::report::{
    Device, Direction, Directions, FollowedTrace, Granted, Host, Log, LostBefore, Peer, Run,
    Stamps, Thread, TraceState, Witness,
};
use std::collections::BTreeMap;

const MS: i64 = 1_000_000;

/// 10 s, 10,000 packets, all on time.
fn quiet() -> Facts {
    Facts {
        arrivals: 10_000,
        departures: 10_000,
        resolution_ns: Some(85_000),
        tolerance_ns: MS,
        tolerance_max_ns: MS,
        ingest_p50_ns: Some(45_000),
        ingest_p99_ns: Some(120_000),
        busy_ppm: Some(40_000),
        wait_ppm: Some(2_000),
        steal_ppm: Some(500),
        balanced: true,
        ..Facts::default()
    }
}

fn late() -> Facts {
    Facts { late: 231, resolution_ns: Some(12 * MS), ..quiet() }
}

/// Stopped for 9 s, and nothing that was replaced or late but the stamp of one packet.
fn stalled() -> Facts {
    let gap = Some(9_000 * MS);
    Facts { longest_gap_ns: gap, stamps_replaced: 1, stamps_implausible: 1, ..quiet() }
}

/// A run that saw no packet.
fn nothing() -> Facts {
    let (run, directions) = (Run::default(), Directions::default());
    Facts::new(&Host::default(), &run, &directions, &Histogram::new(), None)
}

fn reasons(facts: &Facts) -> Vec<Reason> {
    let verdict = judge(facts);
    assert_eq!(verdict.ok, verdict.reasons.is_empty());
    verdict.reasons.iter().map(|finding| finding.word).collect()
}

fn notes(facts: &Facts) -> Vec<Note> {
    judge(facts).notes.iter().map(|finding| finding.word).collect()
}

#[test]
fn a_quiet_run_is_ok_without_a_word() {
    let verdict = judge(&quiet());
    assert!(verdict.ok);
    assert_eq!(verdict.resolution_ns, Some(85_000));
    assert_eq!((verdict.reasons, verdict.notes), (vec![], vec![]));
}

#[test]
fn every_reason_stands_alone() {
    let lost = |lost| Facts { lost, ..quiet() };
    let none = OwnLoss::default;
    let table = [
        (late(), Reason::Late),
        (lost(OwnLoss { receive_buffer: 1, ..none() }), Reason::ReceiveBuffer),
        (lost(OwnLoss { nfqueue_full: 1, ..none() }), Reason::NfqueueFull),
        (lost(OwnLoss { malformed: 1, ..none() }), Reason::Malformed),
        (lost(OwnLoss { gate_too_big: 1, ..none() }), Reason::GateTooBig),
        (lost(OwnLoss { hold_full: 1, ..none() }), Reason::HoldFull),
        (lost(OwnLoss { overdue_full: 1, ..none() }), Reason::OverdueFull),
        (lost(OwnLoss { flushed_by_kernel: 1, ..none() }), Reason::FlushedByKernel),
        (lost(OwnLoss { copies_failed: 1, ..none() }), Reason::CopiesFailed),
        (lost(OwnLoss { devices: 1, ..none() }), Reason::DeviceDrops),
        (Facts { clock_steps: 1, stamps_replaced: 1, ..quiet() }, Reason::ClockStep),
        (Facts { wait_ppm: Some(10_001), late: 11, ..quiet() }, Reason::Starved),
        (stalled(), Reason::Stalled),
        (Facts { balanced: false, ..quiet() }, Reason::Unbalanced),
        (Facts { witness: Some(Testimony::Contradicts), ..quiet() }, Reason::Witness),
    ];
    for (facts, reason) in table {
        assert_eq!(reasons(&facts), [reason]);
    }
}

#[test]
fn a_cause_comes_before_what_it_caused() {
    let overloaded = Facts { busy_ppm: Some(970_000), ..late() };
    assert_eq!(reasons(&overloaded), [Reason::Overloaded, Reason::Late]);
    let starved = Facts { wait_ppm: Some(300_000), ..late() };
    assert_eq!(reasons(&starved), [Reason::Starved, Reason::Late]);
    let stolen = Facts { steal_ppm: Some(23_000), ..late() };
    assert_eq!(reasons(&stolen), [Reason::Steal, Reason::Late]);
}

#[test]
fn a_busy_or_waiting_driver_that_is_on_time_is_ok() {
    assert_eq!(reasons(&Facts { busy_ppm: Some(990_000), ..quiet() }), []);
    assert_eq!(reasons(&Facts { wait_ppm: Some(300_000), late: 10, ..quiet() }), []);
    assert_eq!(reasons(&Facts { ingest_p50_ns: Some(9 * MS), ..quiet() }), []);
}

#[test]
fn exactly_one_percent_late_is_ok_and_one_more_is_not() {
    assert_eq!(reasons(&Facts { late: 100, ..quiet() }), []);
    assert_eq!(reasons(&Facts { late: 101, ..quiet() }), [Reason::Late]);
}

#[test]
fn a_backlog_is_overload_unless_the_driver_was_kept_from_running() {
    let backlog = Facts { ingest_p50_ns: Some(9 * MS), busy_ns: Some(9 * MS), ..late() };
    assert_eq!(reasons(&backlog), [Reason::Overloaded, Reason::Late]);
    let kept = Facts { wait_ppm: Some(900_000), ..backlog };
    assert_eq!(reasons(&kept), [Reason::Starved, Reason::Late]);
}

#[test]
fn packets_that_waited_longer_than_the_driver_worked_did_not_wait_for_its_work() {
    let stopped = Facts { ingest_p50_ns: Some(755 * MS), busy_ns: Some(70 * MS), ..late() };
    assert_eq!(reasons(&stopped), [Reason::Late]);
}

#[test]
fn a_driver_with_half_a_processor_that_never_rests_is_overloaded_and_starved() {
    let both = Facts { busy_ppm: Some(500_000), wait_ppm: Some(480_000), ..late() };
    assert_eq!(reasons(&both), [Reason::Overloaded, Reason::Starved, Reason::Late]);
}

#[test]
fn overload_is_named_when_packets_were_lost_though_none_was_late() {
    let lost = OwnLoss { receive_buffer: 7, ..OwnLoss::default() };
    let facts = Facts { lost, busy_ppm: Some(999_000), ..quiet() };
    assert_eq!(reasons(&facts), [Reason::Overloaded, Reason::ReceiveBuffer]);
}

#[test]
fn steal_and_an_untouched_clock_step_are_notes_while_departures_are_on_time() {
    let facts = Facts { steal_ppm: Some(23_000), clock_steps: 2, ..quiet() };
    assert_eq!(reasons(&facts), []);
    assert_eq!(notes(&facts), [Note::ClockStep, Note::Steal]);
}

#[test]
fn an_incomplete_log_and_an_early_peer_are_notes() {
    let facts = Facts { log_lost_records: 5, peer_ended_early: true, ..quiet() };
    assert_eq!(reasons(&facts), []);
    assert_eq!(notes(&facts), [Note::LogIncomplete, Note::PeerEndedEarly]);
    assert_eq!(notes(&Facts { stamps_replaced: 3, ..quiet() }), [Note::StampsReplaced]);
}

#[test]
fn a_bucket_below_a_packet_is_named_when_nothing_departed() {
    let facts = Facts { departures: 0, too_big: 7, resolution_ns: None, ..quiet() };
    assert_eq!(notes(&facts), [Note::NoDepartures]);
    let expected = "no packet departed, 7 were too big for tbf's bucket: raise burst (and tbf.mtu)";
    assert_eq!(judge(&facts).notes[0].text, expected);
}

#[test]
fn replaced_stamps_are_told_with_their_share() {
    let text = |stamps_replaced| {
        let facts = Facts { stamps_replaced, arrivals: 2_000, ..quiet() };
        judge(&facts).notes.iter().map(|note| note.text.clone()).collect::<Vec<_>>()
    };
    let tail = "implausible and replaced by our reading";
    assert_eq!(text(1), [format!("1 of 2,000 arrival stamps was {tail}")]);
    assert_eq!(text(3), [format!("3 of 2,000 arrival stamps were {tail}")]);
}

#[test]
fn no_packets_are_ok_with_a_note_and_no_resolution() {
    let facts = nothing();
    let verdict = judge(&facts);
    assert!(verdict.ok);
    assert_eq!((verdict.resolution_ns, notes(&facts)), (None, vec![Note::NoPackets]));
}

#[test]
fn a_run_without_departures_or_with_few_says_so() {
    let none = Facts { departures: 0, resolution_ns: None, ..quiet() };
    assert_eq!(notes(&none), [Note::NoDepartures]);
    assert_eq!(notes(&Facts { departures: 999, ..quiet() }), [Note::FewPackets]);
    assert_eq!(notes(&Facts { departures: 1_000, ..quiet() }), []);
}

#[test]
fn a_tolerance_is_a_tenth_of_the_smaller_scale_within_its_limits() {
    let cases = [
        (Some(10 * MS), None, None, MS),
        (Some(10 * MS), Some(5 * MS), None, MS / 2),
        (Some(100 * MS), None, None, 2 * MS),
        (Some(0), None, None, 100_000),
        (Some(10 * MS), Some(1_000), None, 100_000),
        (None, None, None, 100_000),
        (Some(10 * MS), None, Some(7 * MS), 7 * MS),
        (Some(10 * MS), None, Some(5_000), 5_000),
    ];
    for (delay, aqm, late, expected) in cases {
        assert_eq!(tolerance_ns(delay, aqm, late), expected, "{delay:?} {aqm:?} {late:?}");
    }
}

/// A report in which every fact has its own value.
fn spoiled() -> (Run, Directions, Histogram) {
    let mut run = Run { duration_ns: 1_000 * MS, steal_ns: Some(46 * MS), ..Run::default() };
    let thread = |cpu, spin, wait| Thread {
        cpu_ns: cpu * MS,
        spin_ns: spin * MS,
        run_queue_wait_ns: Some(wait * MS),
        ..Thread::default()
    };
    run.threads = vec![thread(900, 800, 30), thread(700, 20, 10)];
    run.log = Some(Log { lost_records: 4, ..Log::default() });
    run.peer = Some(Peer { ended_early: true, ..Peer::default() });
    let mut up = LatenessRecorder::new(MS);
    let mut down = LatenessRecorder::new(2 * MS);
    (0..999).for_each(|_| up.record(10_000));
    (0..1000).for_each(|_| down.record(20_000));
    down.record(3 * MS);
    let mut directions = Directions::default();
    directions.up.lateness = up.lateness();
    directions.up.lost_before = LostBefore {
        receive_buffer: 1,
        nfqueue_full: 2,
        malformed: 8,
        too_big: 9,
        unread_at_end: 7,
    };
    directions.up.packets.dropped =
        BTreeMap::from([("hold_full".into(), 3), ("overdue_full".into(), 4), ("loss".into(), 99)]);
    directions.up.packets.arrived = 116;
    directions.up.packets.queued = 10;
    directions.up.stamps.longest_gap_ns = Some(30 * MS);
    directions.up.uncut_udp_bursts = 8;
    directions.down.uncut_udp_bursts = 3;
    directions.up.ignored.count = 2;
    directions.down.ignored.count = 5;
    directions.up.delay.ingest.p50_ns = Some(5);
    directions.down.delay.ingest.p50_ns = Some(9);
    directions.down.lateness = down.lateness();
    directions.down.flushed_by_kernel = 5;
    directions.down.copies_failed = 7;
    directions.down.devices = vec![Device { rx_dropped: 2, tx_dropped: 4, ..Device::default() }];
    directions.down.stamps = Stamps {
        raised: 50,
        future: 1,
        stale: 1,
        clock_steps: 1,
        step_touched: 1,
        longest_gap_ns: Some(40 * MS),
    };
    let mut merged = up.histogram().clone();
    merged.merge(down.histogram());
    (run, directions, merged)
}

#[test]
fn facts_are_gathered_from_both_directions_and_all_threads() {
    let (run, directions, merged) = spoiled();
    let facts = {
        let granted = Granted { policy: Some("fifo 49".into()), ..Granted::default() };
        let host = Host { cpus: Some(2), granted, ..Host::default() };
        let witness = Witness { disagreements: vec!["one".into()], ..Witness::default() };
        Facts::new(&host, &run, &directions, &merged, Some(&witness))
    };
    let lost = OwnLoss {
        receive_buffer: 1,
        nfqueue_full: 2,
        malformed: 8,
        gate_too_big: 9,
        hold_full: 3,
        overdue_full: 4,
        flushed_by_kernel: 5,
        copies_failed: 7,
        devices: 4,
    };
    assert_eq!(facts.lost.total(), 43, "of a device only what was to leave it");
    let expected = Facts {
        arrivals: 143,
        departures: 2_000,
        resolution_ns: merged.percentile_ns(999_000),
        late: 1,
        tolerance_ns: MS,
        tolerance_max_ns: 2 * MS,
        lost,
        ingest_p50_ns: Some(9),
        ingest_p99_ns: None,
        busy_ppm: Some(680_000),
        busy_ns: Some(680 * MS),
        wait_ppm: Some(30_000),
        realtime: true,
        steal_ppm: Some(23_000),
        clock_steps: 1,
        stamps_replaced: 3,
        stamps_implausible: 2,
        longest_gap_ns: Some(40 * MS),
        too_big: 0,
        over_limit: 0,
        dropped: 106,
        idle_queue: None,
        strict: false,
        eco: false,
        queued: 10,
        shut: None,
        uncut_udp_bursts: 11,
        ignored_stores: 7,
        balanced: true,
        log_lost_records: 4,
        peer_ended_early: true,
        mtu_changed: false,
        buffer_granted: false,
        log_cause: None,
        witness: Some(Testimony::Contradicts),
    };
    assert_eq!(facts, expected);
    // Rank ceil(0.999 x 2000) = 1998 lies among the departures 20 us late.
    assert!(merged.percentile_ns(999_000).is_some_and(|ns| (20_000..20_020).contains(&ns)));
}

#[test]
fn every_word_in_json_is_its_word_in_text() {
    let worst = Facts {
        busy_ppm: Some(970_000),
        wait_ppm: Some(20_000),
        steal_ppm: Some(23_000),
        clock_steps: 1,
        stamps_replaced: 12_345,
        stamps_implausible: 1,
        longest_gap_ns: Some(75_300 * MS),
        balanced: false,
        witness: Some(Testimony::Contradicts),
        lost: OwnLoss {
            receive_buffer: 1_234_567,
            nfqueue_full: 1_234_567,
            malformed: 1_234_567,
            gate_too_big: 1_234_567,
            hold_full: 1_234_567,
            overdue_full: 1_234_567,
            flushed_by_kernel: 1_234_567,
            copies_failed: 1_234_567,
            devices: 1_234_567,
        },
        ..late()
    };
    let verdict = judge(&worst);
    assert_eq!(verdict.reasons.len(), 17);
    for finding in &verdict.reasons {
        assert_eq!(serde_json::to_value(finding.word).unwrap(), finding.word.word());
        // So that the ten lines need not cut it: a label of 11 columns stands before it.
        assert!(finding.text.len() <= 89, "{} columns: {}", finding.text.len(), finding.text);
        assert!(finding.text.contains(": "), "names a remedy: {}", finding.text);
    }
}

#[test]
fn every_note_has_its_word_in_json_and_fits_its_line() {
    let n = 1_234_567;
    let facts = Facts {
        steal_ppm: Some(23_000),
        stamps_replaced: n,
        log_lost_records: n,
        queued: n,
        uncut_udp_bursts: n,
        ignored_stores: n,
        peer_ended_early: true,
        departures: 999,
        idle_queue: Some("limit=4294967295p".into()),
        ..quiet()
    };
    let untouched = Facts { stamps_replaced: 0, clock_steps: n, departures: 0, ..facts.clone() };
    let no_packets = Facts { arrivals: 0, witness: Some(Testimony::Agrees), ..quiet() };
    let silent = Facts { witness: Some(Testimony::CannotTell), ..quiet() };
    let verdicts = [judge(&facts), judge(&untouched), judge(&no_packets), judge(&silent)];
    let mut words = std::collections::BTreeSet::new();
    for note in verdicts.iter().flat_map(|verdict| &verdict.notes) {
        assert_eq!(serde_json::to_value(note.word).unwrap(), note.word.word());
        assert!(note.text.len() <= 89, "{} columns: {}", note.text.len(), note.text);
        words.insert(note.word);
    }
    assert_eq!(words.len(), 14);
}

#[test]
fn the_note_that_weighs_most_comes_first() {
    let mut facts = Facts {
        steal_ppm: Some(23_000),
        stamps_replaced: 1,
        log_lost_records: 1,
        queued: 1,
        uncut_udp_bursts: 1,
        ignored_stores: 1,
        peer_ended_early: true,
        departures: 999,
        ..quiet()
    };
    let after = [Note::PeerEndedEarly, Note::FewPackets, Note::Steal];
    let bursts = [Note::UdpBursts, Note::IgnoredStores];
    let first = [Note::LogIncomplete, Note::StampsReplaced, Note::CutOff];
    assert_eq!(notes(&facts), [&first[..], &bursts, &after].concat());
    (facts.stamps_replaced, facts.clock_steps) = (0, 1);
    let first = [Note::LogIncomplete, Note::CutOff];
    let expected = [&first[..], &bursts, &[Note::ClockStep], &after].concat();
    assert_eq!(notes(&facts), expected);
}

#[test]
fn packets_still_held_and_uncut_bursts_are_notes_with_their_number() {
    let text = |facts: &Facts| judge(facts).notes[0].text.clone();
    let held = text(&Facts { queued: 1_500, ..quiet() });
    assert_eq!(held, "1,500 packets were still on their way when the run ended");
    assert!(text(&Facts { uncut_udp_bursts: 7, ..quiet() }).starts_with("7 UDP bursts"));
}

fn followed() -> FollowedTrace {
    FollowedTrace {
        text: "a (mahimahi, 1s, mean 8mbit, crc32 00000000)".to_owned(),
        course: "deliveries".to_owned(),
        paces: true,
        span_ns: 1_000_000_000,
        repeats: false,
        state: TraceState::Ended,
        rounds: 1,
        at_ns: 1_000_000_000,
    }
}

#[test]
fn what_keeps_packets_back_for_good_is_told() {
    let told = |rate: &str, state, queued| {
        let course = if rate == "unlimited" { "deliveries" } else { "steps" }.to_owned();
        let trace = FollowedTrace { course, state, ..followed() };
        let mut directions = Directions::default();
        directions.up.link = [("rate".to_owned(), rate.to_owned())].into();
        directions.up.packets.queued = queued;
        directions.up.trace = Some(trace);
        let run = Run::default();
        Facts::new(&Host::default(), &run, &directions, &Histogram::new(), None).shut
    };
    let ended = TraceState::Ended;
    assert_eq!(told("unlimited", ended, 3).as_deref(), Some("the trace of up has ended"));
    assert_eq!(told("0bit", ended, 3).as_deref(), Some("up has a rate of 0"));
    assert_eq!(told("8mbit", ended, 3), None, "its last rate stays");
    assert_eq!(told("unlimited", TraceState::Running, 3), None);
    assert_eq!(told("unlimited", ended, 0), None);
    let shut = Some("up has a rate of 0".to_owned());
    let note = judge(&Facts { queued: 3, shut, ..quiet() }).notes[0].text.clone();
    let expected = "3 packets were still on their way when the run ended: up has a rate of 0";
    assert_eq!(note, expected);
}

#[test]
fn a_remedy_is_one_that_helps_here() {
    let lost = |lost, change: fn(&mut Facts)| {
        let mut facts = Facts { lost, ..quiet() };
        change(&mut facts);
        judge(&facts).reasons[0].text.clone()
    };
    let buffer = || OwnLoss { receive_buffer: 1, ..OwnLoss::default() };
    assert!(lost(buffer(), |_| {}).ends_with("raise net.core.rmem_max or be real root"));
    assert!(lost(buffer(), |f| f.buffer_granted = true).ends_with("lower the load, or gso=keep"));
    let devices = || OwnLoss { devices: 1, ..OwnLoss::default() };
    assert!(lost(devices(), |_| {}).ends_with("netdev_max_backlog"));
    assert!(lost(devices(), |f| f.mtu_changed = true).ends_with("leave their MTU at 1500"));
    let hold = OwnLoss { hold_full: 1, ..OwnLoss::default() };
    assert!(lost(hold, |_| {}).contains("raise hold"));
    let cause = Some("the disk was full".to_owned());
    let log =
        judge(&Facts { log_lost_records: 7, log_cause: cause, ..quiet() }).notes[0].text.clone();
    assert_eq!(log, "7 log records lost, the disk was full: log elsewhere");
    let two = judge(&Facts { tolerance_ns: MS / 10, tolerance_max_ns: 2 * MS, ..late() });
    let expected = "2.31 % of departures over 100 us to 2.00 ms late, 1 % is allowed: ";
    assert!(two.reasons[0].text.starts_with(expected), "{}", two.reasons[0].text);
    let none =
        judge(&Facts { tolerance_ns: 0, tolerance_max_ns: 0, ..late() }).reasons[0].text.clone();
    assert!(none.ends_with("give --late more than 0") && !none.contains("over 0"), "{none}");
}

#[test]
fn frames_that_are_no_ip_are_no_loss_and_a_changed_mtu_is_seen() {
    let of = |devices: Vec<Device>| {
        let (run, mut directions) = (Run::default(), Directions::default());
        directions.up.devices = devices;
        Facts::new(&Host::default(), &run, &directions, &Histogram::new(), None)
    };
    let device = |rx_dropped, tx_dropped, mtu| Device {
        rx_dropped,
        tx_dropped,
        mtu_bytes: Some(mtu),
        ..Device::default()
    };
    let facts = of(vec![device(0, 0, 1_500), device(9, 0, 1_500)]);
    assert_eq!((facts.lost.devices, facts.mtu_changed), (0, false));
    // Both ends of a pair count what the far one refuses.
    let facts = of(vec![device(0, 22, 9_000), device(22, 0, 1_500)]);
    assert_eq!((facts.lost.devices, facts.mtu_changed), (22, true));
}

#[test]
fn a_witness_that_saw_nothing_to_compare_is_a_note() {
    let heard = |witness: &Witness| {
        let (run, directions) = (Run::default(), Directions::default());
        let host = Host::default();
        let testimony = Facts::new(&host, &run, &directions, &Histogram::new(), Some(witness));
        let facts = Facts { witness: testimony.witness, ..quiet() };
        (reasons(&facts), notes(&facts))
    };
    let agrees = Witness { ok: true, ..Witness::default() };
    assert_eq!(heard(&agrees), (vec![], vec![Note::WitnessAgrees]));
    let untold = Witness { untold: vec!["no sample".into()], ..Witness::default() };
    assert_eq!(heard(&untold), (vec![], vec![Note::WitnessCannotTell]));
    let against = Witness { disagreements: vec!["3 probes differ".into()], ..untold };
    assert_eq!(heard(&against), (vec![Reason::Witness], vec![]));
}

#[test]
fn a_gap_in_the_looks_at_the_queue_is_a_stall_when_packets_felt_it() {
    assert!(judge(&stalled()).reasons[0].text.contains("for 9.00 s"));
    let gap = Facts { longest_gap_ns: Some(9_000 * MS), ..quiet() };
    assert_eq!(reasons(&gap), [], "nothing came in it");
    assert_eq!(reasons(&Facts { late: 1, ..gap.clone() }), [Reason::Stalled]);
    let lost = OwnLoss { receive_buffer: 1, ..OwnLoss::default() };
    assert_eq!(reasons(&Facts { lost, ..gap }), [Reason::Stalled, Reason::ReceiveBuffer]);
    assert_eq!(reasons(&Facts { longest_gap_ns: Some(2_000 * MS), ..stalled() }), []);
    assert_eq!(reasons(&Facts { longest_gap_ns: None, ..stalled() }), []);
}

#[test]
fn packets_unread_at_the_end_are_no_loss_but_they_came() {
    let (run, mut directions) = (Run::default(), Directions::default());
    directions.up.lost_before.unread_at_end = 5;
    let facts = Facts::new(&Host::default(), &run, &directions, &Histogram::new(), None);
    assert_eq!(facts.lost.total(), 0);
    assert_eq!((reasons(&facts), notes(&facts)), (vec![], vec![Note::NoDepartures]));
}

#[test]
fn a_starved_driver_that_is_real_time_already_is_not_told_to_become_it() {
    let starved = Facts { wait_ppm: Some(20_000), late: 11, ..quiet() };
    let text = |facts: &Facts| judge(facts).reasons[0].text.clone();
    assert!(text(&starved).ends_with("be root or raise ulimit -r"));
    let eco = text(&Facts { eco: true, ..starved.clone() });
    assert!(eco.ends_with("or try --precision balanced"), "root does not help: {eco}");
    assert!(text(&Facts { realtime: true, ..starved }).ends_with("real-time threads first"));
}

#[test]
fn a_strict_run_that_is_late_is_not_told_to_be_strict() {
    let text = |facts: &Facts| judge(facts).reasons[0].text.clone();
    assert!(text(&late()).ends_with("try --precision strict or --late"));
    assert!(text(&Facts { strict: true, ..late() }).ends_with("lower the load or --late"));
}

#[test]
fn a_queue_that_can_never_act_is_a_note() {
    let idle_of = |down: Direction| {
        let (run, directions) = (Run::default(), Directions { down, ..Directions::default() });
        Facts::new(&Host::default(), &run, &directions, &Histogram::new(), None).idle_queue
    };
    let of = |entries: &[(&str, &str)]| {
        let entries = entries.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Direction { link: entries.collect(), ..Direction::default() }
    };
    let idle = |entries: &[(&str, &str)]| idle_of(of(entries));
    let unlimited = ("rate", "unlimited");
    assert_eq!(idle(&[unlimited, ("queue", "codel")]).as_deref(), Some("queue=codel"));
    assert_eq!(idle(&[unlimited, ("queue", "fifo"), ("limit", "9p")]).as_deref(), Some("limit=9p"));
    assert_eq!(idle(&[unlimited, ("queue", "fifo"), ("limit", "none")]), None);
    assert_eq!(idle(&[unlimited, ("queue", "fq"), ("limit", "9p")]), None, "it paces");
    assert_eq!(idle(&[("rate", "1mbit"), ("queue", "codel")]), None);
    assert_eq!(idle(&[unlimited, ("queue", "codel"), ("impair", "netem")]), None);
    let codel = || of(&[unlimited, ("queue", "codel")]);
    let along = |paces| Some(FollowedTrace { paces, ..followed() });
    assert_eq!(idle_of(Direction { trace: along(true), ..codel() }), None);
    let delays = idle_of(Direction { trace: along(false), ..codel() });
    assert_eq!(delays.as_deref(), Some("queue=codel"), "a trace of delays only");
    assert_eq!(idle_of(Direction { rate_changes: 1, ..codel() }), None, "it had a rate before");
}

#[test]
fn a_limit_below_a_packet_is_told_with_the_remedy() {
    let all = Facts { departures: 0, over_limit: 3, dropped: 3, ..quiet() };
    let text = |facts: &Facts| judge(facts).notes[0].text.clone();
    let expected =
        "limit dropped all 3 packets: none fits; raise limit above a packet with framing";
    assert_eq!(text(&all), expected);
    assert!(!text(&Facts { dropped: 4, ..all.clone() }).contains("limit"));
    let notes = judge(&Facts { queued: 1, ..all }).notes;
    assert!(notes.iter().all(|note| !note.text.contains("limit")), "one did fit: {notes:?}");
}

#[test]
fn one_packet_is_not_told_as_many() {
    let one = judge(&Facts { queued: 1, ..quiet() }).notes[0].text.clone();
    assert_eq!(one, "1 packet was still on its way when the run ended");
    let lost = OwnLoss { devices: 1, ..OwnLoss::default() };
    assert!(judge(&Facts { lost, ..quiet() }).reasons[0].text.starts_with("1 packet dropped"));
}
