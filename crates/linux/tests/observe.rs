//! Observers and bundled traffic on the loopback interface of a namespace of their own.

#![expect(clippy::unwrap_used, reason = "a test: there is no #[test] here for clippy to see it by")]

#[path = "support/loopback.rs"]
mod loopback;
mod support;

use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use punctual_linux::clock::{Offset, monotonic};
use punctual_linux::observe::{
    Capture, CaptureConfig, Direction, Filter, ObserveError, Probe, Witness, WitnessConfig,
    WitnessPlaces,
};
use punctual_linux::traffic::{
    Arrivals, EchoServer, Pace, RoundTripsConfig, Summary, TcpReceiveConfig, TcpReceiver,
    TcpSendConfig, TrafficError, UdpReceiveConfig, UdpReceiver, UdpSendConfig, UdpSent,
    round_trips, send_tcp, send_udp,
};
use punctual_linux::wait::{readable, sleep_until};
use punctual_sched::Duration;

fn main() -> ExitCode {
    let tests = tests![
        a_stamped_socket_receives_every_datagram_on_ipv4_and_ipv6,
        a_capture_sees_every_probe_once_in_each_direction,
        a_capture_of_probes_leaves_out_everything_else,
        both_copies_of_a_packet_on_loopback_are_equal_byte_by_byte,
        a_gso_burst_arrives_as_single_numbered_datagrams,
        a_paced_flow_takes_its_time_and_sleeps_in_between,
        what_a_receive_buffer_cannot_hold_is_counted,
        an_unpaced_flow_ends_with_its_time,
        a_bulk_transfer_counts_the_same_at_both_ends,
        an_echo_comes_back_for_every_probe,
        a_probe_without_an_echo_is_counted_not_awaited_for_ever,
        the_witness_counts_every_probe_at_every_place,
        refusals_name_the_operation_and_the_remedy,
    ];
    support::run(&tests, loopback::enter)
}

fn a_stamped_socket_receives_every_datagram_on_ipv4_and_ipv6() {
    for address in [V4, V6] {
        let (sent, arrivals) = send_and_receive(address, |_| {});
        assert_eq!((sent.planned, sent.sent, sent.refused, sent.full), (300, 300, 0, 0));
        let summary = Summary::of(&arrivals.list);
        let expected = Summary { received: 300, bytes: sent.bytes, ..summary };
        assert_eq!(summary, Summary { duplicates: 0, reordered: 0, missing: 0, ..expected });
        assert_eq!((arrivals.foreign, arrivals.unstamped, arrivals.lost_in_socket), (0, 0, 0));
        let delays = arrivals.list.iter().map(|arrival| {
            arrival.stamp_ns - arrival.offset_ns - arrival.sent.as_nanos().cast_signed()
        });
        let delay = median(delays.collect());
        assert!((0..1_000_000).contains(&delay), "send to stamp: {delay} ns at the median");
    }
}

fn a_capture_sees_every_probe_once_in_each_direction() {
    for address in [V4, V6] {
        let mut captures =
            [Direction::Out, Direction::In].map(|direction| open(direction, Filter::Probes));
        let (_, arrivals) = send_and_receive(address, |_| {});
        for capture in &mut captures {
            let (mut numbers, mut delays) = (Vec::new(), Vec::new());
            let offset = Offset::sample();
            drain(capture, |bytes, stamp| {
                let probe = Probe::find_in_frame(bytes).expect("only probes pass");
                let stamp = offset.to_monotonic(stamp);
                delays.push(stamp.signed_since(probe.sent));
                numbers.push(probe.seq);
            });
            let received: Vec<u64> = arrivals.list.iter().map(|arrival| arrival.seq).collect();
            assert_eq!(numbers, received);
            assert_eq!(capture.lost().unwrap(), 0);
            let delay = median(delays);
            assert!((0..1_000_000).contains(&delay), "send to stamp: {delay} ns at the median");
        }
    }
}

fn a_capture_of_probes_leaves_out_everything_else() {
    let mut probes = open(Direction::In, Filter::Probes);
    let mut everything = open(Direction::In, Filter::Everything);
    for address in [V4, V6] {
        let receiver = UdpSocket::bind(address.parse::<SocketAddr>().unwrap()).unwrap();
        let target = receiver.local_addr().unwrap();
        let sender = UdpSocket::bind(address.parse::<SocketAddr>().unwrap()).unwrap();
        let mut payload = [0; 60];
        sender.send_to(&payload, target).unwrap();
        sender.send_to(b"punctual", target).unwrap();
        sender.send_to(b"punctua", target).unwrap();
        let now = monotonic();
        Probe { run: 1, seq: 0, intended: now, sent: now }.encode(&mut payload);
        sender.send_to(&payload, target).unwrap();
        payload[5] ^= 1;
        sender.send_to(&payload, target).unwrap();
    }
    let (mut passed, mut all) = (0, 0);
    drain(&mut probes, |bytes, _| {
        passed += 1;
        assert!(bytes.windows(8).any(|part| part == b"punctual"));
    });
    drain(&mut everything, |_, _| all += 1);
    // Of each family: the probe, and the eight bytes that are the magic alone.
    assert_eq!((passed, all), (4, 10));
}

fn both_copies_of_a_packet_on_loopback_are_equal_byte_by_byte() {
    let mut captures =
        [Direction::Out, Direction::In].map(|direction| open(direction, Filter::Everything));
    send_and_receive(V6, |config| (config.size, config.count) = (1_400, Some(20)));
    let [mut out, mut inside] = [Vec::new(), Vec::new()];
    drain(&mut captures[0], |bytes, _| out.push(bytes.to_vec()));
    drain(&mut captures[1], |bytes, _| inside.push(bytes.to_vec()));
    assert_eq!(out.len(), 20);
    assert!(out.iter().all(|bytes| bytes.len() == 14 + 40 + 8 + 1_400));
    assert_eq!(out, inside);
}

fn a_gso_burst_arrives_as_single_numbered_datagrams() {
    let (sent, arrivals) = send_and_receive(V4, |config| {
        (config.size, config.gso_segments) = (1_000, 16);
        (config.pace, config.count) = (packets(20_000), Some(1_003));
    });
    assert_eq!((sent.sent, sent.bytes), (1_003, 1_003_000));
    let summary = Summary::of(&arrivals.list);
    assert_eq!((summary.received, summary.missing, summary.bytes), (1_003, 0, 1_003_000));
    assert_eq!(arrivals.lost_in_socket, 0);
}

fn a_paced_flow_takes_its_time_and_sleeps_in_between() {
    let (sent, _) = send_and_receive(V4, |config| {
        (config.pace, config.count) = (packets(500), None);
        config.duration = Some(Duration::from_millis(400));
    });
    assert_eq!((sent.planned, sent.sent), (200, 200));
    // Packet 199 is due 398 ms after packet 0, and none is ever early.
    let span = sent.last.since(sent.first) + Duration::from_nanos(sent.max_late_ns);
    assert!(span >= Duration::from_millis(398), "{span:?}");
    assert!(sent.sleeps >= 100, "{sent:?}");
}

fn what_a_receive_buffer_cannot_hold_is_counted() {
    // As an ordinary user the buffer holds 256 of these, 5 ms at this rate.
    let (sent, arrivals) = send_and_receive(V4, |config| {
        (config.pace, config.count) = (packets(50_000), None);
        config.duration = Some(Duration::from_millis(300));
    });
    assert_eq!((sent.planned, sent.sent), (15_000, 15_000), "{sent:?}");
    let summary = Summary::of(&arrivals.list);
    assert_eq!(summary.received + arrivals.lost_in_socket, 15_000, "{summary:?}");
    println!("{} lost, {} late, {} sleeps", arrivals.lost_in_socket, sent.late, sent.sleeps);
}

fn an_unpaced_flow_ends_with_its_time() {
    let start = monotonic();
    let (sent, _) = send_and_receive(V4, |config| {
        (config.pace, config.count) = (Pace::Unpaced, None);
        config.duration = Some(Duration::from_millis(50));
    });
    assert!(sent.sent > 100 && sent.planned == sent.sent && sent.late == 0, "{sent:?}");
    assert!(monotonic().since(start) < Duration::from_secs(5));
}

fn a_bulk_transfer_counts_the_same_at_both_ends() {
    let listener = TcpReceiver::bind(V6.parse().unwrap()).unwrap();
    let target = listener.local_addr().unwrap();
    let patience = Duration::from_secs(10);
    let config = TcpReceiveConfig { patience, duration: Duration::from_secs(20) };
    let receiving = thread::spawn(move || listener.run(&config).unwrap());
    let duration = Duration::from_millis(350);
    let congestion = Some("reno".to_owned());
    let sent = send_tcp(&TcpSendConfig { target, duration, congestion, patience }).unwrap();
    let arrived = receiving.join().unwrap();
    assert_eq!(sent.congestion, "reno");
    assert_eq!(sent.bytes, arrived.bytes);
    assert!(sent.bytes > 1_000_000 && sent.finished && arrived.finished, "{sent:?}");
    for side in [&sent, &arrived] {
        assert_eq!(side.intervals.iter().sum::<u64>(), side.bytes);
        assert!(side.intervals.len() >= 3, "{side:?}");
    }
}

fn an_echo_comes_back_for_every_probe() {
    for address in [V4, V6] {
        let server = EchoServer::bind(address.parse().unwrap()).unwrap();
        let config = trips(server.local_addr().unwrap());
        let stop = AtomicBool::new(false);
        let (result, echoed) = thread::scope(|scope| {
            let echoing = scope.spawn(|| server.run(Duration::from_secs(20), &stop).unwrap());
            let result = round_trips(&config).unwrap();
            stop.store(true, Ordering::Relaxed);
            (result, echoing.join().unwrap())
        });
        assert_eq!((result.sent, result.round_trips_ns.len(), result.unanswered), (100, 100, 0));
        assert_eq!((echoed.received, echoed.sent), (100, 100));
        let middle = median(result.round_trips_ns.iter().map(|trip| trip.cast_signed()).collect());
        assert!((1_000..10_000_000).contains(&middle), "{middle} ns at the median");
    }
}

fn a_probe_without_an_echo_is_counted_not_awaited_for_ever() {
    let silent = UdpSocket::bind(V4).unwrap();
    let timeout = Duration::from_millis(5);
    let config = RoundTripsConfig { count: 3, timeout, ..trips(silent.local_addr().unwrap()) };
    let result = round_trips(&config).unwrap();
    assert_eq!((result.sent, result.unanswered, result.refused), (3, 3, 0));
    drop(silent);
    let result = round_trips(&config).unwrap();
    assert_eq!((result.sent, result.unanswered), (3, 3));
    assert!(result.refused >= 2, "{result:?}");
}

fn the_witness_counts_every_probe_at_every_place() {
    let here = File::open("/proc/thread-self/ns/net").unwrap();
    for address in [V4, V6] {
        let here = here.as_fd();
        let places = WitnessPlaces {
            sender: here,
            gate: here,
            receiver: here,
            device_before: "lo",
            device_after: "lo",
        };
        let config = WitnessConfig {
            interval: Duration::from_millis(2),
            limit: 100,
            ..WitnessConfig::new(address.parse().unwrap(), 42)
        };
        let witness = Witness::start(&places, &config).unwrap();
        sleep_until(monotonic() + Duration::from_millis(200));
        let data = witness.stop().unwrap();
        assert!(data.sent.len() > 20, "{} sent", data.sent.len());
        let sent: Vec<u64> = data.sent.iter().map(|probe| probe.seq).collect();
        for seen in [&data.before, &data.after, &data.received] {
            assert_eq!(seen.probes.iter().map(|probe| probe.seq).collect::<Vec<_>>(), sent);
            assert_eq!((seen.lost, seen.unstamped), (0, 0));
        }
    }
}

fn refusals_name_the_operation_and_the_remedy() {
    let missing = Capture::open("nowhere0", &CaptureConfig::default()).err();
    assert!(
        matches!(&missing, Some(ObserveError::NoDevice { device, .. }) if device == "nowhere0")
    );
    let unused = UdpSocket::bind(V4).unwrap().local_addr().unwrap();
    let refused = send_tcp(&TcpSendConfig {
        target: unused,
        duration: Duration::from_millis(10),
        congestion: None,
        patience: Duration::from_secs(1),
    });
    let text = refused.unwrap_err().to_string();
    assert!(text.starts_with("cannot connect TCP to 127.0.0.1:"), "{text}");
    assert!(text.contains("nothing listens at that address and port"), "{text}");
    let receiver = TcpReceiver::bind(V4.parse().unwrap()).unwrap();
    let (patience, duration) = (Duration::from_millis(5), Duration::from_secs(1));
    let alone = receiver.run(&TcpReceiveConfig { patience, duration }).unwrap_err();
    assert_eq!(alone.to_string(), "no TCP connection came within 5 ms");
    let foreign = UdpReceiver::bind("192.0.2.1:0".parse().unwrap()).err().unwrap();
    assert!(matches!(foreign, TrafficError::Observe(ObserveError::Bind { .. })), "{foreign}");
}

const V4: &str = "127.0.0.1:0";
const V6: &str = "[::1]:0";

/// Sends 300 datagrams at 2,000/s, or what `change` makes of that, to a stamped receiver.
fn send_and_receive(address: &str, change: impl FnOnce(&mut UdpSendConfig)) -> (UdpSent, Arrivals) {
    let receiver = UdpReceiver::bind(address.parse().unwrap()).unwrap();
    let mut config = UdpSendConfig {
        target: receiver.local_addr().unwrap(),
        run: 7,
        size: 60,
        pace: packets(2_000),
        count: Some(300),
        duration: None,
        gso_segments: 1,
        tos: 0,
    };
    change(&mut config);
    let limits = UdpReceiveConfig {
        run: Some(7),
        count: config.count,
        duration: Duration::from_secs(20),
        idle: Some(Duration::from_millis(300)),
    };
    let receiving = thread::spawn(move || receiver.run(&limits).unwrap());
    // The kernel turns receive stamps on a moment after the first socket has asked for them.
    sleep_until(monotonic() + Duration::from_millis(50));
    let sent = send_udp(&config).unwrap();
    (sent, receiving.join().unwrap())
}

fn packets(per_second: u64) -> Pace {
    Pace::Packets(NonZeroU64::new(per_second).unwrap())
}

fn trips(target: SocketAddr) -> RoundTripsConfig {
    let (interval, timeout) = (Duration::from_millis(1), Duration::from_secs(2));
    RoundTripsConfig { target, run: 9, count: 100, interval, size: 60, timeout }
}

fn open(direction: Direction, filter: Filter) -> Capture {
    Capture::open("lo", &CaptureConfig { direction, filter, ..CaptureConfig::default() }).unwrap()
}

/// Everything captured so far; all of it has been sent and received, so nothing is on its way.
fn drain(capture: &mut Capture, mut each: impl FnMut(&[u8], i64)) {
    while readable(capture.as_fd(), Duration::ZERO).unwrap() {
        let read = capture.receive(|packet| each(packet.bytes, packet.stamp_ns.unwrap()));
        if read.unwrap() == 0 {
            break;
        }
    }
}

fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values[values.len() / 2]
}
