//! The independent witness, on real packets through the lab and the driver.

#![expect(clippy::unwrap_used, reason = "these functions are tests, run by a runner of our own")]

#[path = "../../linux/tests/support/mod.rs"]
mod support;
#[path = "../../linux/tests/support/trial.rs"]
mod trial;

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::thread;

use punctual::witness::{ProbeLedger, compare, one_way_delay};
use punctual_linux::clock::monotonic;
use punctual_linux::driver::{Driver, Lane, Precision, Stop};
use punctual_linux::lab::links::{GATE_IN, GATE_OUT, INSIDE, OUTSIDE};
use punctual_linux::lab::{Lab, LabConfig};
use punctual_linux::netfilter::nfqueue::{Queue, QueueConfig};
use punctual_linux::netfilter::nftables::{
    Family, Hook, HookConfig, HookRule, InstalledHooks, Packets,
};
use punctual_linux::observe::{
    Capture, CaptureConfig, CapturedPacket, Witness, WitnessConfig, WitnessData, WitnessPlaces,
};
use punctual_linux::wait::sleep_until;
use punctual_measure::witness::{Admitted, Bounds, Difference, Disagreement, Findings};
use punctual_sched::{Duration, Link, LinkConfig};

fn main() -> ExitCode {
    let tests = tests![
        the_witness_agrees_with_a_faithful_driver,
        the_witness_agrees_over_ipv6,
        the_witness_explains_every_loss_by_the_account,
        departures_shifted_by_100_us_behind_the_accounts_back_are_found,
        only_the_hop_count_and_its_checksum_differ_between_the_ends,
    ];
    support::run(&tests, trial::queues_packets)
}

fn the_witness_agrees_with_a_faithful_driver() {
    let findings = agreeing("delay=5ms rate=20mbit", Family::Ip4);
    assert_eq!(findings.disagreements, [], "{findings:#?}");
    assert_eq!((findings.counts.dropped, findings.counts.lost_unexplained), (0, 0));
    // Never early: the capture sees a packet after it was due.
    assert!(findings.departure_error.min_ns.unwrap() >= -1_000, "{findings:#?}");
    assert!(findings.one_way_delay.min_ns.unwrap() > 5_000_000, "{findings:#?}");
}

fn the_witness_agrees_over_ipv6() {
    if !kernel_has_ipv6() {
        println!("(no IPv6 on this kernel)");
        return;
    }
    let findings = agreeing("delay=5ms", Family::Ip6);
    assert_eq!(findings.disagreements, [], "{findings:#?}");
}

fn the_witness_explains_every_loss_by_the_account() {
    let findings = agreeing("delay=2ms loss=20%", Family::Ip4);
    assert_eq!(findings.disagreements, [], "{findings:#?}");
    let counts = findings.counts;
    assert!(counts.dropped > 0 && counts.lost_unexplained == 0, "{counts:?}");
    assert_eq!(counts.sent, counts.received + counts.dropped);
}

fn departures_shifted_by_100_us_behind_the_accounts_back_are_found() {
    let findings = witness("delay=5ms", Family::Ip4, 100_000);
    let departure = |disagreement: &Disagreement| match disagreement {
        Disagreement::Median { difference: Difference::Departure, p50_ns, .. } => Some(*p50_ns),
        _ => None,
    };
    let shift = findings.disagreements.iter().find_map(departure);
    assert!(shift.is_some_and(|shift| shift > 60_000), "{findings:#?}");
}

fn only_the_hop_count_and_its_checksum_differ_between_the_ends() {
    let lab = Lab::build(&LabConfig::default()).unwrap();
    let open = |device| move || Capture::open(device, &CaptureConfig::default()).unwrap();
    let mut inside = lab.inside().within(open(INSIDE)).unwrap();
    let mut outside = lab.outside().within(open(OUTSIDE)).unwrap();
    let [mut sent, mut received] = [Vec::new(), Vec::new()];
    through(&lab, "delay=1ms", 0, || {
        for peer in peers(&lab) {
            send_datagrams(&lab, peer);
            exchange_stream(&lab, peer);
        }
        // The last acknowledgement of a stream is still on its way.
        let end = monotonic() + Duration::from_secs(5);
        while (sent.is_empty() || sent.len() != received.len()) && monotonic() < end {
            drain(&mut inside, true, &mut sent);
            drain(&mut outside, false, &mut received);
            sleep_until(monotonic() + Duration::from_millis(5));
        }
    });
    assert!(sent.len() > 250 * peers(&lab).len(), "{} packets", sent.len());
    assert_eq!(sent.len(), received.len());
    for (sent, received) in sent.iter().zip(&received) {
        let (before, after) = (Ends::of(sent), Ends::of(received));
        assert_eq!(before.hops, after.hops + 1);
        assert!(before.checksum != Checksum::Wrong, "sent wrong: {sent:02x?}");
        assert_eq!(after.checksum, Checksum::Right, "{received:02x?}");
        assert_eq!(before.rest, after.rest);
    }
}

/// Datagrams of every seventh size, with different bytes in each.
fn send_datagrams(lab: &Lab, peer: IpAddr) {
    let bind = |address: IpAddr| move || UdpSocket::bind((address, 0)).unwrap();
    let receiver = lab.outside().within(bind(peer)).unwrap();
    receiver.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    let any = if peer.is_ipv4() { "0.0.0.0" } else { "::" };
    let sender = lab.inside().within(bind(any.parse().unwrap())).unwrap();
    for size in (0..1_452).step_by(7) {
        let payload: Vec<u8> =
            (0..size).map(|at| u8::try_from((at * 31 + size) % 251).unwrap()).collect();
        sender.send_to(&payload, receiver.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 2_000];
        assert_eq!(receiver.recv(&mut buffer).unwrap(), size);
        assert_eq!(buffer[..size], payload);
    }
}

/// A stream in segments of their own, closed from both ends.
fn exchange_stream(lab: &Lab, peer: IpAddr) {
    let listener = lab.outside().within(|| TcpListener::bind((peer, 0)).unwrap()).unwrap();
    let target = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let mut data = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut data).unwrap();
        data.len()
    });
    let mut client = lab.inside().within(|| TcpStream::connect(target).unwrap()).unwrap();
    client.set_nodelay(true).unwrap();
    for _ in 0..50 {
        client.write_all(&[0x5a; 500]).unwrap();
        sleep_until(monotonic() + Duration::from_micros(500));
    }
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    assert_eq!(serving.join().unwrap(), 25_000);
}

/// The IP packets of UDP and TCP that have been captured, one way.
fn drain(capture: &mut Capture, outgoing: bool, list: &mut Vec<Vec<u8>>) {
    let mut take = |packet: CapturedPacket<'_>| {
        let ours = match packet.bytes[14] >> 4 {
            4 => [UDP, TCP].contains(&packet.bytes[14 + 9]),
            6 => [UDP, TCP].contains(&packet.bytes[14 + 6]),
            _ => false,
        };
        if packet.outgoing == outgoing && ours {
            list.push(packet.bytes[14..].to_vec());
        }
    };
    while capture.receive(&mut take).unwrap() > 0 {}
    assert_eq!(capture.lost().unwrap(), 0);
}

/// A packet apart from what may differ between the ends.
struct Ends {
    hops: u8,
    /// The transport's. A sender leaves it to its device, which a veth is not: the gate finishes it.
    checksum: Checksum,
    rest: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum Checksum {
    Right,
    /// The sum of the pseudo-header alone (`CHECKSUM_PARTIAL`).
    Unfinished,
    Wrong,
}

impl Ends {
    fn of(packet: &[u8]) -> Self {
        let mut rest = packet.to_vec();
        let v4 = packet[0] >> 4 == 4;
        let (header, protocol, hop_count) =
            if v4 { (usize::from(packet[0] & 15) * 4, packet[9], 8) } else { (40, packet[6], 7) };
        if v4 {
            assert_eq!(sum(&packet[..header], 0), 0xffff, "IPv4 header checksum");
            rest[10..12].fill(0);
        }
        let addresses = if v4 { &packet[12..20] } else { &packet[8..40] };
        let length = packet.len() - header;
        let pseudo = sum(addresses, u32::from(protocol) + u32::try_from(length).unwrap());
        let place = header + if protocol == UDP { 6 } else { 16 };
        let checksum = if sum(&packet[header..], u32::from(pseudo)) == 0xffff {
            Checksum::Right
        } else if packet[place..place + 2] == pseudo.to_be_bytes() {
            Checksum::Unfinished
        } else {
            Checksum::Wrong
        };
        rest[place..place + 2].fill(0);
        let hops = std::mem::take(&mut rest[hop_count]);
        Self { hops, checksum, rest }
    }
}

/// The one's complement sum of RFC 1071, not inverted.
fn sum(bytes: &[u8], start: u32) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
    let mut total = bytes.chunks(2).map(word).sum::<u32>() + start;
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    u16::try_from(total).unwrap()
}

fn peers(lab: &Lab) -> Vec<IpAddr> {
    let addresses = lab.addresses();
    [Some(addresses.peer4.into()), addresses.peer6.map(IpAddr::from)]
        .into_iter()
        .flatten()
        .collect()
}

/// Findings about a faithful driver. A machine busy with something else may once be far behind at the
/// median; a count that differs, or three such runs, are no accident.
fn agreeing(link: &str, family: Family) -> Findings {
    let of_time = |disagreement: &Disagreement| matches!(disagreement, Disagreement::Median { .. });
    let mut findings = witness(link, family, 0);
    for _ in 0..2 {
        if findings.agrees() || !findings.disagreements.iter().all(of_time) {
            break;
        }
        findings = witness(link, family, 0);
    }
    findings
}

/// 200 probes a second for a second over the bare path, then over `link`, whose driver holds each
/// departure back by `shift_ns` without accounting for it.
fn witness(link: &str, family: Family, shift_ns: u64) -> Findings {
    let lab = Lab::build(&LabConfig::default()).unwrap();
    let bare = one_way_delay(&observe(&lab, family)).p50_ns.unwrap();
    let (data, ledger) = through(&lab, link, shift_ns, || observe(&lab, family));
    let bounds = Bounds::with_bare_path(bare.unsigned_abs());
    let findings = compare(&data, &ledger, Admitted::default(), &bounds);
    println!(
        "bare path {bare} ns; arrival error {:?}, release error {:?}, path {:?} at the median",
        findings.arrival_error.p50_ns,
        findings.release_error.p50_ns,
        findings.path_beyond_account.p50_ns
    );
    findings
}

/// Does `work` while a driver holds what *inside* sends by `link`.
fn through<T>(lab: &Lab, link: &str, shift_ns: u64, work: impl FnOnce() -> T) -> (T, ProbeLedger) {
    let config = LinkConfig::parse(link, "up").unwrap();
    let (hooks, queue) = lab.gate().within(|| (install(), open())).unwrap();
    let start = monotonic();
    let link = Link::new(&config, 1, start).unwrap();
    let mut lane = Lane::new(queue, link, ProbeLedger::new(RUN), 1_500, start);
    lane.inject(start, Vec::new(), Some(shift_ns));
    let stop = Stop::new().unwrap();
    let driver = Driver::new(vec![lane], Precision::Balanced, stop.clone());
    let (result, stopped) = thread::scope(|scope| {
        let driving = scope.spawn(|| driver.run().unwrap());
        // A failed assertion in `work` must not leave the scope waiting for the driver.
        let result = catch_unwind(AssertUnwindSafe(work));
        stop.drain();
        (result, driving.join().unwrap())
    });
    drop(hooks);
    let ledger = stopped.lanes.into_iter().next().unwrap().into_account();
    (result.unwrap_or_else(|panic| resume_unwind(panic)), ledger)
}

fn observe(lab: &Lab, family: Family) -> WitnessData {
    let peer = lab.addresses();
    let target: SocketAddr = match family {
        Family::Ip4 => (peer.peer4, 0).into(),
        Family::Ip6 => (peer.peer6.unwrap(), 0).into(),
    };
    let places = WitnessPlaces {
        sender: lab.inside().as_fd(),
        gate: lab.gate().as_fd(),
        receiver: lab.outside().as_fd(),
        device_before: GATE_IN,
        device_after: GATE_OUT,
    };
    let interval = Duration::from_millis(5);
    // Lost probes never come: the wait for them is this long.
    let linger = Duration::from_millis(100);
    let config = WitnessConfig { interval, linger, ..WitnessConfig::new(target, RUN) };
    let witness = Witness::start(&places, &config).unwrap();
    sleep_until(monotonic() + Duration::from_millis(1_050));
    let data = witness.stop().unwrap();
    assert!(data.sent.len() > 100, "only {} probes sent", data.sent.len());
    data
}

fn install() -> InstalledHooks {
    let rule = |family| HookRule {
        family,
        device: GATE_IN.to_owned(),
        packets: Packets::All,
        queue: QUEUE,
        stamp_arrival: true,
        bypass: false,
    };
    let rules = vec![rule(Family::Ip4), rule(Family::Ip6)];
    let table = "punctual-witness".to_owned();
    let config = HookConfig { table, hook: Hook::Forward, priority: 0, rules, ce: false };
    InstalledHooks::install(&config).unwrap()
}

fn open() -> Queue {
    let config = QueueConfig {
        number: QUEUE,
        copy_range: 128,
        max_len: 10_000,
        receive_buffer: 4 << 20,
        gso: false,
        fail_open: false,
    };
    Queue::open(&config).unwrap()
}

fn kernel_has_ipv6() -> bool {
    std::path::Path::new("/proc/net/if_inet6").exists()
}

const RUN: u64 = 0x7769_746e;
const QUEUE: u16 = 7;
const TCP: u8 = 6;
const UDP: u8 = 17;
