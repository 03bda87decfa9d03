//! Directions whose flows are divided among threads, and those where they cannot be.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual_linux::clock::monotonic;
use punctual_linux::control::{ControlBlock, SetValue, Side};
use punctual_linux::wait::sleep_until;
use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Run, punctual, runtime_directory, udp_receiver, udp_sender};
use crate::report::{Direction, number};
use crate::support::Test;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        flows_are_divided_and_each_keeps_its_order,
        one_flow_stays_on_one_lane,
        fragments_and_other_protocols_have_the_first_lane,
        both_ways_of_many_flows_are_divided,
        duplicates_and_flipped_bits_of_lanes_replay,
        what_flows_share_is_served_by_one_thread_and_told,
        a_kernel_that_cannot_divide_flows_is_told,
        a_witness_has_one_thread_up,
        a_change_is_made_on_every_lane,
        what_flows_would_share_is_refused_by_name,
        stores_for_lanes_are_ignored_by_name,
        stores_reach_a_direction_with_its_own_thread,
        a_killed_run_of_many_threads_leaves_its_name_free,
    ]
    .into()
}

fn flows_are_divided_and_each_keeps_its_order() {
    let ended = flows("delay=5ms jitter=2ms", "4", "40 100 200").finish();
    let report = ended.report();
    let result = &ended.results()[0];
    let counted = ["received", "flows", "out_of_order"].map(|name| number(&result[name]));
    assert_eq!(counted, [4_000, 40, 0], "{result}");
    let lanes = lanes(&report.up);
    assert_eq!(lanes.len(), 2);
    assert!(lanes.iter().all(|&packets| packets > 200), "{lanes:?}");
    assert_eq!((lanes.iter().sum::<u64>(), report.up.arrived), (4_000, 4_000));
    assert_eq!(report.up.figure("rule_counter.packets"), 4_000);
    assert_eq!(report.up.lost_before + report.up.flushed, 0);
    let names = names(&report.json);
    assert_eq!(names, ["link-up-0", "link-up-1", "link-down-0", "link-down-1"]);
    assert_eq!(report.up.json["lanes"]["single_because"], Value::Null);
    assert_eq!(number(&report.up.json["delay"]["total"]["n"]), 4_000);
    ended.replays(&report);
    // Every packet has a number of its own in what is exported.
    let table = ended.file("table.csv");
    let export = ["log", "export", "-o"].map(AsRef::as_ref);
    let log = ended.file("log");
    let exported = punctual(export.into_iter().chain([table.as_os_str(), log.as_os_str()]));
    assert_eq!(exported.status, 0, "{}", exported.stderr);
    let table = std::fs::read_to_string(table).expect("a table");
    let mut rows = table.lines();
    let columns: Vec<_> = rows.next().expect("a head").split(',').collect();
    let at = columns.iter().position(|name| *name == "packet").expect("a column");
    let packets: BTreeSet<_> = rows.map(|row| row.split(',').nth(at)).collect();
    assert_eq!(packets.len(), 4_000);
}

fn one_flow_stays_on_one_lane() {
    let ended = Run::new("delay=2ms")
        .options(["--threads", "8"])
        .peer(&udp_receiver("--idle 500ms"))
        .sh(&udp_sender("--rate 8mbit --duration 500ms"))
        .finish();
    let report = ended.report();
    let lanes = lanes(&report.up);
    assert_eq!(lanes.len(), 4);
    // The peer's end may answer the end of the sender by ICMP, which goes down.
    let used: Vec<_> = lanes.iter().filter(|&&packets| packets > 0).collect();
    assert_eq!(used, [&report.up.arrived], "{lanes:?}");
    ended.replays(&report);
}

fn fragments_and_other_protocols_have_the_first_lane() {
    for (target, address) in
        [("$PUNCTUAL_PEER:5001", "$PUNCTUAL_PEER"), ("[$PUNCTUAL_PEER6]:5001", "$PUNCTUAL_PEER6")]
    {
        // 4,000 bytes are three fragments.
        let ended = Run::new("delay=2ms")
            .options(["--threads", "4"])
            .peer(&receiver())
            .sh(&format!(
                "\"$SELF\" role=send-flows \"{target}\" 20 10 4000 >&2; \
                 \"$SELF\" role=ping {address} 3; cat \"$T/peer\""
            ))
            .finish();
        let report = ended.report();
        let result = &ended.results()[0];
        let counted = ["received", "flows", "out_of_order"].map(|name| number(&result[name]));
        assert_eq!(counted, [200, 20, 0], "{result}");
        let lanes = lanes(&report.up);
        assert_eq!(lanes, [603, 0], "{target}");
        assert!(number(&report.down.json["lanes"]["each"][0]["packets_in"]) >= 3);
        assert!(ended.stderr.contains("3 answered"), "{}", ended.stderr);
        ended.replays(&report);
    }
}

fn both_ways_of_many_flows_are_divided() {
    let rtt = "\"$P\" traffic rtt \"$PUNCTUAL_PEER:5001\" --count 50 --interval 5ms";
    let ended = Run::new("delay=3ms")
        .options(["--threads", "4"])
        .peer("exec \"$P\" traffic echo 0.0.0.0:5001")
        .sh(&format!("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do {rtt} & done; wait"))
        .finish();
    let report = ended.report();
    let answered: u64 = ended.results().iter().map(|result| number(&result["answered"])).sum();
    assert_eq!((ended.results().len(), answered), (12, 600));
    for direction in [&report.up, &report.down] {
        let lanes = lanes(direction);
        assert_eq!((direction.arrived, lanes.iter().sum::<u64>()), (600, 600));
        assert!(lanes.iter().all(|packets| packets % 50 == 0), "a flow is on two: {lanes:?}");
    }
    ended.replays(&report);
}

fn duplicates_and_flipped_bits_of_lanes_replay() {
    let link = "delay=3ms loss=2% duplicate=5% corrupt=1%";
    let ended = flows(link, "4", "20 100 300").finish();
    let report = ended.report();
    assert_eq!(lanes(&report.up).len(), 2);
    assert!(number(&report.up.json["packets"]["duplicated"]) > 20, "{:#}", report.up.json);
    assert!(number(&report.up.json["packets"]["corrupted"]) > 2, "{:#}", report.up.json);
    let loss = &report.up.json["impairments"]["loss"];
    assert_eq!(number(&loss["opportunities"]), 2_000, "{loss}");
    ended.replays(&report);
}

fn what_flows_share_is_served_by_one_thread_and_told() {
    let ended = Run::bare()
        .options(["--net", "lab", "--threads", "6", "--up", "rate=50mbit", "--down", "delay=1ms"])
        .loud()
        .peer(&udp_receiver("--idle 300ms"))
        .sh(&udp_sender("--rate 8mbit --duration 300ms"))
        .finish();
    let report = ended.report();
    let line =
        "punctual: --threads 6: one thread serves up: rate is one bottleneck for all flows\n";
    assert!(ended.stderr.contains(line), "{}", ended.stderr);
    assert!(!ended.stderr.contains("one thread serves down"), "{}", ended.stderr);
    assert_eq!(names(&report.json), ["link-up", "link-down-0", "link-down-1", "link-down-2"]);
    let of = &report.up.json["lanes"];
    assert_eq!((number(&of["asked"]), lanes(&report.up).len()), (3, 1));
    assert_eq!(of["single_because"], "rate is one bottleneck for all flows");
    ended.replays(&report);
}

fn a_kernel_that_cannot_divide_flows_is_told() {
    let run = flows("delay=1ms", "4", "20 10 100");
    let ended = run.env("PUNCTUAL_FAULT", "refuse=shares-missing").loud().finish();
    let report = ended.report();
    let line = "punctual: --threads 4: one thread serves each direction, as with --threads 2: this \
                kernel cannot";
    assert_eq!(ended.stderr.matches(line).count(), 1, "{}", ended.stderr);
    assert_eq!(lanes(&report.up), [200]);
    ended.replays(&report);
}

fn a_witness_has_one_thread_up() {
    let ended =
        Run::new("delay=10ms").options(["--threads", "4", "--witness"]).sh("sleep 0.5").finish();
    let report = ended.report();
    let reason = &report.up.json["lanes"]["single_because"];
    assert_eq!(reason, "--witness counts its probes in one");
    assert_eq!((lanes(&report.up).len(), lanes(&report.down).len()), (1, 2));
    assert!(!report.json["witness"].is_null());
    ended.replays(&report);
}

fn a_change_is_made_on_every_lane() {
    let run = Run::new("delay=2ms").options(["--threads", "4"]).peer(&receiver()).sh(&format!(
        "{}; \"$P\" set --json up.delay=20ms up.loss=0.1% >&2; \"$P\" set up.delay=20ms >&2; {}; \
             \"$P\" show --json up >&2; cat \"$T/peer\"",
        sender("30 20 100"),
        sender("30 20 100")
    ));
    let ended = run.finish();
    let report = ended.report();
    let changes = report.up.json["changes"].as_array().expect("a list");
    let [change] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(change["values"]["delay"], "20ms");
    let json = |line: &&str| line.starts_with('{');
    let told: Vec<Value> = ended
        .stderr
        .lines()
        .filter(json)
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    let [answer, shown] = &told[..] else { panic!("{}", ended.stderr) };
    assert_eq!(answer["applied"]["up"]["at_ns"], change["at_ns"]);
    let shown = &shown["directions"]["up"];
    assert_eq!((&shown["link"]["delay"], number(&shown["packets"]["in"])), (&"20ms".into(), 1_200));
    // The second half is held for longer, whatever its lane.
    for departure in crate::logged::packets(&ended, punctual::log::Direction::Up)
        .iter()
        .flat_map(|packet| &packet.departures)
    {
        let ms = departure.delay.as_nanos() / 1_000_000;
        assert!([2, 20].contains(&ms), "{ms}");
    }
    assert_eq!(report.up.json["link"]["loss"], "0.1%");
    ended.replays(&report);
}

fn what_flows_would_share_is_refused_by_name() {
    let trace = "printf '1\\n2\\n3\\n' > \"$T/some.up\"";
    let play = "\"$P\" play --format mahimahi";
    let ended = Run::bare()
        .options(["--net", "lab", "--threads", "4", "--up", "delay=2ms", "--down", "slot=1ms"])
        .sh(&format!(
            "{trace}; \"$P\" set up.rate=1mbit up.delay=1ms; \"$P\" set up.loss=gemodel,1%,10%; \
             {play} --direction up \"$T/some.up\"; {play} \"$T/some.up\"; \
             \"$SELF\" role=ping $PUNCTUAL_PEER 1"
        ))
        .finish();
    let report = ended.report();
    for refusal in [
        "up.rate: it is one bottleneck for all flows, and several threads serve them here: start the run \
         with it, or with --threads 2",
        "up.loss: it follows the packets before, whosever they are, and several threads",
        "trace: it gives what it has to all flows, and several threads",
    ] {
        assert!(ended.stderr.contains(refusal), "{refusal}: {}", ended.stderr);
    }
    assert_eq!(ended.stderr.matches("trace: it gives").count(), 2, "{}", ended.stderr);
    assert_eq!(report.up.json["link"]["delay"], "2ms");
    for direction in [&report.up, &report.down] {
        assert_eq!(direction.json["changes"].as_array().map(Vec::len), Some(0));
    }
    ended.replays(&report);
}

fn stores_for_lanes_are_ignored_by_name() {
    let running = Run::new("delay=2ms")
        .options(["--threads", "4"])
        .sh("echo go; until [ -e \"$T/go\" ]; do sleep 0.01; done; \
             \"$SELF\" role=ping $PUNCTUAL_PEER 2")
        .start();
    running.stdout.says("go");
    let control = runtime_directory(running.name()).join("control");
    let block = ControlBlock::open(&control).expect("the run's block");
    block.store_rate(Side::Up, 5_000_000);
    block.set(Side::Down, &[(SetValue::Delay, 5_000_000)]).expect("nobody else writes");
    std::fs::write(running.directory().join("go"), "").expect("a directory of ours");
    let ended = running.wait();
    let report = ended.report();
    let ignored = |direction: &Direction| {
        let ignored = &direction.json["ignored"];
        assert_eq!(number(&ignored["count"]), 1, "{ignored}");
        let text = |name: &str| ignored["first"][0][name].as_str().unwrap_or_default().to_owned();
        (text("parameter"), text("reason"))
    };
    let (parameter, reason) = ignored(&report.up);
    assert_eq!(parameter, "rate");
    assert!(reason.contains("it is one bottleneck for all flows"), "{reason}");
    let (parameter, reason) = ignored(&report.down);
    assert_eq!(parameter, "delay");
    assert!(reason.contains("change it by the socket"), "{reason}");
    // The word says again what is in force.
    assert_eq!(block.rate(Side::Up), u64::MAX);
    assert!(report.notes().contains(&"ignored_stores".to_owned()));
    ended.replays(&report);
}

fn stores_reach_a_direction_with_its_own_thread() {
    let running = Run::new("rate=20mbit delay=2ms")
        .options(["--threads", "2"])
        .peer("exec \"$P\" traffic echo 0.0.0.0:5001")
        .sh("echo go; \"$P\" traffic rtt \"$PUNCTUAL_PEER:5001\" --count 500 --interval 2ms")
        .start();
    running.stdout.says("go");
    let control = runtime_directory(running.name()).join("control");
    let block = ControlBlock::open(&control).expect("the run's block");
    for change in 0..40_u64 {
        let side = Side::BOTH[usize::from(change % 2 > 0)];
        if change % 4 < 2 {
            block.store_rate(side, 18_000_000 + change);
        } else {
            let delay = 2_000_000 + change * 50_000;
            block.set(side, &[(SetValue::Delay, delay)]).expect("nobody else writes");
        }
        sleep_until(monotonic() + punctual_sched::Duration::from_millis(15));
    }
    let ended = running.wait();
    let report = ended.report();
    for direction in [&report.up, &report.down] {
        let changes = direction.json["changes"].as_array().expect("a list");
        assert_eq!((changes.len(), direction.figure("ignored.count")), (20, 0));
        let names: BTreeSet<_> = changes
            .iter()
            .filter_map(|change| change["values"].as_object()?.keys().next())
            .collect();
        assert_eq!(names.len(), 2, "rates and delays: {names:?}");
        assert_eq!(direction.all_dropped() + direction.lost_before + direction.flushed, 0);
    }
    assert_eq!(names(&report.json), ["link-up", "link-down"]);
    ended.replays(&report);
}

fn a_killed_run_of_many_threads_leaves_its_name_free() {
    let run = Run::new("delay=1ms").options(["--threads", "8"]).sh("echo go; sleep 60");
    let name = run.name().to_owned();
    let running = run.start();
    running.stdout.says("go");
    let exit = running.signal_to_the_end(Signal::KILL, Duration::from_millis(50));
    assert!(!exit.success());
    let again = Run::new("delay=1ms")
        .named(&name)
        .options(["--threads", "8"])
        .sh("\"$SELF\" role=ping $PUNCTUAL_PEER 1")
        .finish();
    assert_eq!(again.report().up.arrived, 1);
}

/// Many flows of `threads` threads, with `sizes`: flows, datagrams of each, bytes.
fn flows(link: &str, threads: &str, sizes: &str) -> Run {
    Run::new(link)
        .options(["--threads", threads])
        .peer(&receiver())
        .sh(&format!("{}; cat \"$T/peer\"", sender(sizes)))
}

fn receiver() -> String {
    format!("\"$SELF\" role=receive-flows {ANY} | cat > \"$T/peer\"")
}

fn sender(sizes: &str) -> String {
    format!("\"$SELF\" role=send-flows \"$PUNCTUAL_PEER:5001\" {sizes} >&2")
}

/// Of IPv4 too.
const ANY: &str = "[::]:5001";

/// Packets in, by lane.
fn lanes(direction: &Direction) -> Vec<u64> {
    let lanes = direction.json["lanes"]["each"].as_array().expect("a list");
    lanes.iter().map(|lane| number(&lane["packets_in"])).collect()
}

fn names(report: &Value) -> Vec<String> {
    let threads = report["run"]["threads"].as_array().expect("a list");
    threads.iter().filter_map(|thread| Some(thread["name"].as_str()?.to_owned())).collect()
}
