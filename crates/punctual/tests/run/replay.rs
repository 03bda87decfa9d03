//! Kinds of run whose log replays to the same fate of every packet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Ended, PORT, RESULT, Run, Running, udp_receiver, udp_sender};
use crate::report::{Report, number};
use crate::support::Test;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        a_rate_replays,
        loss_replays_and_is_as_asked,
        jitter_replays_and_keeps_the_order,
        overload_replays_and_drops_at_the_limit,
        both_directions_at_once_replay,
        ipv6_replays,
        tcp_in_whole_bursts_replays,
        burst_and_peakrate_replay,
        the_senders_access_rate_replays,
        a_hog_on_every_processor_changes_no_decision,
        three_seconds_of_sigstop_make_packets_late_and_change_no_decision,
        steps_of_the_clock_are_seen_and_change_no_decision,
        an_idle_link_still_dates_packets_by_their_stamps,
        a_thread_for_each_direction_replays,
        runs_side_by_side_replay,
        a_run_inside_a_run_replays,
        a_packet_trace_replays_and_delivers_at_its_opportunities,
        a_trace_of_rates_replays,
    ]
    .into()
}

/// Numbered UDP over `link`, and both results.
fn udp(link: &str, sender: &str) -> Run {
    Run::new(link).peer(&udp_receiver("--idle 500ms")).sh(&udp_sender(sender))
}

/// Sent, received, report; after a run whose every packet must be accounted for and replayed.
fn check(ended: &Ended) -> (u64, u64, Report) {
    let report = ended.report();
    let results = ended.results();
    let (sent, received) = (number(&results[0]["sent"]), number(&results[1]["received"]));
    assert_eq!(number(&results[1]["lost_in_socket"]), 0);
    assert_eq!(sent, report.up.seen(), "sent and seen: {:#}", report.up.json);
    assert_eq!(received + report.up.flushed, report.up.departed, "{:#}", report.up.json);
    ended.replays(&report);
    (sent, received, report)
}

fn a_rate_replays() {
    let (sent, received, _) =
        check(&udp("rate=5mbit delay=10ms", "--rate 4mbit --duration 1s").finish());
    assert_eq!(sent, received);
}

fn loss_replays_and_is_as_asked() {
    let run = udp("loss=10% delay=5ms", "--packets 2000 --count 2000").options(["--seed", "7"]);
    let (_, received, report) = check(&run.finish());
    // Seven standard deviations of 13 about 200.
    assert!((1_706..1_894).contains(&received), "{received} of 2000");
    assert_eq!(report.up.dropped.keys().collect::<Vec<_>>(), ["loss"]);
}

fn jitter_replays_and_keeps_the_order() {
    let ended = udp("delay=10ms jitter=5ms", "--packets 2000 --count 2000").finish();
    let (sent, received, report) = check(&ended);
    assert_eq!(sent, received);
    assert_eq!(number(&ended.results()[1]["reordered"]), 0);
    let propagation = report.up.figure("delay.propagation.p50_ns");
    assert!((8_000_000..14_000_000).contains(&propagation), "{propagation}");
}

fn overload_replays_and_drops_at_the_limit() {
    let ended = udp("rate=2mbit limit=20ms", "--rate 20mbit --duration 1s").loud().finish();
    let (sent, received, report) = check(&ended);
    assert!(received * 8 < sent, "{received} of {sent} at a tenth of the rate");
    assert_eq!(report.up.dropped.keys().collect::<Vec<_>>(), ["limit"]);
    let line = ended.stderr.lines().find(|line| line.starts_with("up ")).expect("it is told");
    assert!(line.contains(" Mbit/s of 2mbit, "), "{line}");
}

fn both_directions_at_once_replay() {
    let ended = Run::new("delay=5ms")
        .options(["--up", "rate=8mbit loss=2%", "--down", "rate=4mbit jitter=2ms limit=50ms"])
        .peer("exec \"$P\" traffic echo 0.0.0.0:5001")
        .sh(&udp_to_an_echo("--rate 6mbit --duration 2s"))
        .finish();
    let report = ended.report();
    assert!(report.up.dropped.contains_key("loss") && report.down.dropped.contains_key("limit"));
    assert_eq!(report.down.seen(), report.up.udp_departed(), "everything that came was echoed");
    ended.replays(&report);
}

/// A command that sends to an echo, and ends when what came back has passed the link: what is sent
/// last comes back last.
pub(crate) fn udp_to_an_echo(options: &str) -> String {
    format!(
        "\"$P\" traffic udp-send \"$PUNCTUAL_PEER:{PORT}\" {options} && \
         \"$P\" traffic rtt \"$PUNCTUAL_PEER:{PORT}\" --count 3 --timeout 500ms"
    )
}

fn ipv6_replays() {
    // Unseeded, one run in a hundred would lose nothing.
    let ended = Run::new("rate=5mbit delay=10ms loss=1%")
        .options(["--seed", "7"])
        .peer(&format!("\"$P\" traffic udp-receive [::]:{PORT} --idle 500ms | cat > \"$T/peer\""))
        .sh(&format!(
            "\"$P\" traffic udp-send \"[$PUNCTUAL_PEER6]:{PORT}\" --rate 6mbit --duration 1s; {RESULT}"
        ))
        .finish();
    let (_, received, report) = check(&ended);
    assert!(received > 0 && report.up.dropped.contains_key("loss"));
}

fn tcp_in_whole_bursts_replays() {
    let ended = Run::new("delay=5ms")
        .peer(&format!("\"$P\" traffic tcp-receive 0.0.0.0:{PORT} | cat > \"$T/peer\""))
        .sh(&format!("\"$P\" traffic tcp-send \"$PUNCTUAL_PEER:{PORT}\" --duration 1s; {RESULT}"))
        .finish();
    let report = ended.report();
    assert_eq!((&*report.up.gso, &*report.down.gso), ("keep", "keep"));
    let results = ended.results();
    assert_eq!(results[0]["bytes"], results[1]["bytes"], "all that was sent was read");
    ended.replays(&report);
}

fn burst_and_peakrate_replay() {
    let link = "rate=5mbit burst=15kb peakrate=20mbit";
    let (sent, received, report) = check(&udp(link, "--rate 4mbit --duration 1s").finish());
    assert_eq!(sent, received);
    assert!(report.up.figure("delay.serialisation.p50_ns") > 0);
}

fn the_senders_access_rate_replays() {
    let (_, _, report) =
        check(&udp("nic=10mbit rate=5mbit limit=30ms", "--rate 40mbit --duration 1s").finish());
    assert!(report.up.all_dropped() > 0);
}

fn a_hog_on_every_processor_changes_no_decision() {
    let stop = AtomicBool::new(false);
    let hogs = thread::available_parallelism().map_or(2, Into::into);
    let ended = thread::scope(|scope| {
        for _ in 0..hogs {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let running = udp("rate=5mbit delay=2ms loss=1%", "--rate 6mbit --duration 2s").start();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| running.wait()));
        stop.store(true, Ordering::Relaxed);
        ended
    });
    check(&ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
}

fn three_seconds_of_sigstop_make_packets_late_and_change_no_decision() {
    let ended = stopped_for_three_seconds(&[]);
    let (sent, received, report) = check(&ended);
    assert_eq!(sent, received + report.up.lost_before);
    assert!(!report.ok());
    assert!(report.reasons().contains(&"late".to_owned()), "{:?}", report.reasons());
    assert!(!report.reasons().contains(&"overloaded".to_owned()), "it had little to do");
    // 500 packets/s for most of the three seconds.
    assert!(report.up.figure("lateness.late") > 1_000, "{:#}", report.up.json["lateness"]);
    assert!(report.up.figure("lateness.max_ns") > 2_500_000_000);
    assert_eq!(report.up.figure("stamps.stale"), 0, "what waited in the kernel keeps its time");
}

/// Five seconds of traffic, in the midst of which the program is stopped.
pub(crate) fn stopped_for_three_seconds(options: &[&str]) -> Ended {
    let running: Running = Run::new("rate=10mbit delay=10ms")
        .options(options.iter().copied())
        .peer(&udp_receiver("--idle 4s"))
        .sh(&format!("echo go >&2; {}", udp_sender("--packets 500 --duration 4500ms")))
        .start();
    running.stderr.says("go");
    running.goes_on_for(Duration::from_millis(500));
    running.signal(Signal::STOP);
    running.goes_on_for(Duration::from_secs(3));
    running.signal(Signal::CONT);
    running.wait()
}

fn steps_of_the_clock_are_seen_and_change_no_decision() {
    let run = udp("rate=5mbit delay=10ms loss=1%", "--rate 4mbit --duration 3s")
        .env("PUNCTUAL_FAULT", "clock-step=3600@1,clock-step=-3600@2");
    let (_, _, report) = check(&run.finish());
    assert_eq!(report.up.figure("stamps.clock_steps"), 2);
    // The packets of two reads at most; the rest keep their stamps.
    let replaced = report.up.figure("stamps.step_touched")
        + report.up.figure("stamps.future")
        + report.up.figure("stamps.stale");
    assert!(replaced < report.up.arrived / 4, "{:#}", report.up.json["stamps"]);
}

fn an_idle_link_still_dates_packets_by_their_stamps() {
    // A stamp says when within 4.29 s.
    let ended = Run::new("delay=1ms")
        .peer("exec \"$P\" traffic echo 0.0.0.0:5001")
        .sh("\"$P\" traffic rtt \"$PUNCTUAL_PEER:5001\" --count 2 --interval 4500ms")
        .finish();
    let report = ended.report();
    assert_eq!((report.up.arrived, report.up.figure("stamps.stale")), (2, 0));
    assert_eq!(report.down.figure("stamps.stale"), 0);
    ended.replays(&report);
}

fn a_thread_for_each_direction_replays() {
    let ended = Run::new("rate=5mbit delay=5ms")
        .options(["--threads", "2"])
        .peer("exec \"$P\" traffic echo 0.0.0.0:5001")
        .sh("\"$P\" traffic rtt \"$PUNCTUAL_PEER:5001\" --count 100 --interval 5ms")
        .finish();
    let report = ended.report();
    assert_eq!(number(&ended.results()[0]["answered"]), 100);
    assert_eq!(report.run()["threads"].as_array().map(Vec::len), Some(2));
    assert_eq!((report.up.arrived, report.down.arrived), (100, 100));
    ended.replays(&report);
}

fn runs_side_by_side_replay() {
    let runs = ["rate=5mbit loss=1%", "rate=2mbit delay=20ms"]
        .map(|link| udp(link, "--rate 4mbit --duration 2s").start());
    for running in runs {
        let (sent, received, report) = check(&running.wait());
        assert!(sent > received && report.up.all_dropped() == sent - received);
    }
}

fn a_run_inside_a_run_replays() {
    let inner = "\"$P\" run --net lab --both 'rate=2mbit delay=5ms' --quiet \
                 --log \"$T/inner.log\" --report \"$T/inner.json\" \
                 --peer '\"$P\" traffic udp-receive 0.0.0.0:5001 --idle 500ms >&2' --peer-port 5001 -- \
                 sh -c '\"$P\" traffic udp-send \"$PUNCTUAL_PEER:5001\" --rate 4mbit --duration 1s >&2'";
    let ended = Run::new("rate=10mbit delay=10ms")
        .peer(&udp_receiver("--idle 500ms"))
        .sh(&format!(
            "{inner} && \"$P\" verify \"$T/inner.log\" >&2 && {}",
            udp_sender("--rate 8mbit --duration 1s")
        ))
        .finish();
    let (sent, received, _) = check(&ended);
    assert_eq!(sent, received);
    let inner = std::fs::read(ended.file("inner.json")).expect("the inner run left its report");
    assert!(Report::parse(&inner).up.all_dropped() > 0);
    assert!(ended.stderr.contains("identical: "), "{}", ended.stderr);
}

/// A file in the temporary directory that goes with the test.
struct TraceFile(std::path::PathBuf);

impl TraceFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("punctual-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("a temporary file can be written");
        Self(path)
    }

    fn link(&self, words: &str) -> String {
        format!("trace={} {words}", self.0.display())
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn a_packet_trace_replays_and_delivers_at_its_opportunities() {
    // Two opportunities every 5 ms.
    let file = TraceFile::new("deliveries", "5\n5\n");
    let run = udp(&file.link("limit=1000p delay=1ms"), "--rate 2mbit --duration 1s");
    let ended = run.finish();
    check(&ended);
    let packets = crate::logged::packets(&ended, punctual::log::Direction::Up);
    let first = packets.first().expect("some came").arrival.at.as_nanos();
    for departure in packets.iter().flat_map(|packet| &packet.departures) {
        let since = departure.due.as_nanos() - first - 1_000_000;
        assert_eq!(since % 5_000_000, 0, "{since} ns after the first packet");
    }
    let report = ended.report();
    let trace = report.up.json["link"]["trace"].as_str().expect("a text").to_owned();
    assert!(trace.contains("(mahimahi, 5ms, mean 4812800bit, crc32 "), "{trace}");
}

fn a_trace_of_rates_replays() {
    let text = "time_ns,rate_bps,delay_ns,loss\n0,4000000,5000000,5%\n50000000,0,,\n\
                80000000,20000000,1000000,0%\n";
    let file = TraceFile::new("rates", text);
    let words = "trace.loop=yes limit=200p queue=fq_codel trace.offset=20ms";
    check(&udp(&file.link(words), "--rate 5mbit --duration 1s").finish());
}
