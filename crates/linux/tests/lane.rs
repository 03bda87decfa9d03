//! A lane on real packets whose fates call for everything that can be done to them on the wire,
//! seen by a capture at the peer.

#![expect(clippy::unwrap_used, reason = "these functions are tests, run by a runner of our own")]

#[path = "support/packets.rs"]
mod packets;
mod support;
#[path = "support/trial.rs"]
mod trial;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use packets::{
    Packet, differing_bits, ecn, header_checksum_is_right, is_udp_or_tcp,
    transport_checksum_is_right,
};
use punctual_linux::clock::monotonic;
use punctual_linux::driver::{
    Account, Arrived, Driver, Lane, LaneCounts, Precision, Released, Stop,
};
use punctual_linux::lab::links::{self, GATE_IN, GATE_OUT, OUTSIDE};
use punctual_linux::lab::{Lab, LabConfig};
use punctual_linux::netfilter::nfqueue::{Queue, QueueConfig};
use punctual_linux::netfilter::nftables::{
    Family, Hook, HookConfig, HookRule, InstalledHooks, Packets,
};
use punctual_linux::netfilter::queue_statistics;
use punctual_linux::observe::{Capture, CaptureConfig, CapturedPacket, Direction};
use punctual_linux::wire::Egress;
use punctual_sched::{BitFlip, DropReason, Link, LinkConfig, Mark, Output};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::sockopt;

fn main() -> ExitCode {
    let tests = tests![
        marks_of_the_link_arrive_as_ce,
        a_queue_that_marks_marks_on_the_wire,
        each_fate_of_each_copy_is_what_the_peer_sees,
        copies_that_find_no_bytes_are_counted_and_the_packet_departs,
    ];
    support::run(&tests, trial::queues_packets)
}

/// Without the bytes: the kernel writes CE.
fn marks_of_the_link_arrive_as_ce() {
    let run = run(Bytes::No, |fates| {
        fates.into_iter().map(|fate| with(fate, 0, None, Mark::Ce)).collect()
    });
    for (peer, arrived) in &run.arrived {
        assert_eq!(arrived.len(), ROUNDS * SCENARIOS, "{peer}");
        for packet in arrived {
            assert_eq!(ecn(packet), 3);
            assert!(header_checksum_is_right(packet) && transport_checksum_is_right(packet));
        }
    }
    let LaneCounts { receive_buffer, flushed, malformed, .. } = run.counts;
    assert_eq!((receive_buffer, flushed, malformed), (0, 0, 0));
}

/// Decided by a discipline: L4S packets that wait for more than a millisecond (RFC 9332).
fn a_queue_that_marks_marks_on_the_wire() {
    let run = run_link("rate=2mbit queue=dualpi2", ECT1, Bytes::No, |fates| fates);
    let arrived: Vec<_> = run.arrived.iter().flat_map(|(_, list)| list).collect();
    let marked = arrived.iter().filter(|packet| ecn(packet) == 3).count();
    let untouched = arrived.iter().filter(|packet| ecn(packet) == ECT1).count();
    assert!(marked > 500 && untouched > 0, "{marked} marked, {untouched} not");
    assert_eq!(marked + untouched, arrived.len());
    for packet in arrived {
        assert!(header_checksum_is_right(packet) && transport_checksum_is_right(packet));
    }
    // The last packet of each transfer is not among those that arrived.
    let decided = run.marked - u64::try_from(marked).unwrap();
    assert!(decided <= 2, "{} were marked by decision, {marked} arrived so", run.marked);
    assert_eq!(run.ce_written, run.marked);
}

fn each_fate_of_each_copy_is_what_the_peer_sees() {
    let run = run(Bytes::Yes, by_scenario);
    for (peer, arrived) in &run.arrived {
        let mut arrived = arrived.iter();
        for sent in (0..ROUNDS).flat_map(|_| 0..SCENARIOS) {
            let mut next = || arrived.next().unwrap_or_else(|| panic!("{peer}: scenario {sent}"));
            check_scenario(sent, &mut next);
        }
        assert!(arrived.next().is_none(), "{peer}");
    }
    let peers = run.arrived.len();
    let ledger = &run.ledger;
    assert_eq!(ledger.arrived, peers * (ROUNDS * SCENARIOS + 1));
    let arrived: usize = run.arrived.iter().map(|(_, list)| list.len() + 1).sum();
    assert_eq!(ledger.released, arrived);
    assert_eq!(ledger.dropped, peers * ROUNDS * 3);
    assert_eq!((run.counts.unsent, run.counts.unkept, run.counts.flushed), (0, 0, 0));
}

fn copies_that_find_no_bytes_are_counted_and_the_packet_departs() {
    let run = run(Bytes::NoRoom, |fates| {
        let twice = |fate| [with(fate, 0, None, Mark::None), with(fate, 1, None, Mark::None)];
        fates.into_iter().flat_map(twice).collect()
    });
    let sent = ROUNDS * SCENARIOS;
    assert!(run.arrived.iter().all(|(_, arrived)| arrived.len() == sent));
    let all = u64::try_from((sent + 1) * run.arrived.len()).unwrap();
    assert_eq!((run.counts.unkept, run.counts.unsent), (all, all));
}

/// Each departure of a packet with `n` bytes of payload becomes what scenario `n` says; `n` stands
/// in the descriptor's length.
fn by_scenario(fates: Vec<Output>) -> Vec<Output> {
    fates.into_iter().flat_map(scenario).collect()
}

fn scenario(fate: Output) -> Vec<Output> {
    let Output::Depart { packet, .. } = fate else { return vec![fate] };
    let payload = payload_bytes(packet.len);
    let last_bit = Some(packet.len * 8 - 1);
    let address_bit = Some(destination_bit(packet.len));
    let plain = |copy| with(fate, copy, None, Mark::None);
    match payload {
        1 => vec![plain(0), plain(1)],
        2 => vec![plain(1), plain(2), plain(0)],
        3 => vec![lost(fate, 0), with(fate, 1, None, Mark::Ce)],
        4 => vec![with(fate, 0, last_bit, Mark::Ce)],
        5 => vec![with(fate, 0, last_bit, Mark::None), with(fate, 1, None, Mark::Ce)],
        6 => vec![with(fate, 0, address_bit, Mark::None), plain(1)],
        7 => vec![with(fate, 1, address_bit, Mark::None), lost(fate, 0)],
        8 => vec![lost(fate, 0)],
        _ => vec![plain(0)],
    }
}

/// What arrives in scenario `n`, in order.
fn check_scenario<'a>(n: usize, next: &mut impl FnMut() -> &'a Packet) {
    let check = |packet: &Packet, ce: bool, corrupt: Option<usize>| {
        assert_eq!(usize::try_from(payload_bytes(u32::try_from(packet.len()).unwrap())), Ok(n));
        let mut repaired = packet.clone();
        if let Some(bit) = corrupt {
            punctual_linux::wire::flip(&mut repaired, BitFlip(u32::try_from(bit).unwrap()));
            assert_eq!(differing_bits(&repaired, packet), [bit]);
            assert!(!transport_checksum_is_right(packet), "scenario {n}: {packet:02x?}");
        }
        assert_eq!(ecn(&repaired), if ce { 3 } else { 2 }, "scenario {n}: {packet:02x?}");
        assert!(header_checksum_is_right(&repaired), "scenario {n}: {packet:02x?}");
        assert!(transport_checksum_is_right(&repaired), "scenario {n}: {packet:02x?}");
    };
    let last = |packet: &Packet| Some(packet.len() * 8 - 1);
    let address = |packet: &Packet| {
        Some(usize::try_from(destination_bit(u32::try_from(packet.len()).unwrap())).unwrap())
    };
    match n {
        0 => check(next(), false, None),
        1 => (0..2).for_each(|_| check(next(), false, None)),
        2 => (0..3).for_each(|_| check(next(), false, None)),
        3 => check(next(), true, None),
        4 => {
            let packet = next();
            check(packet, true, last(packet));
        }
        5 => {
            let packet = next();
            check(packet, false, last(packet));
            check(next(), true, None);
        }
        6 => {
            let packet = next();
            check(packet, false, address(packet));
            check(next(), false, None);
        }
        7 => {
            let packet = next();
            check(packet, false, address(packet));
        }
        _ => {}
    }
}

fn with(fate: Output, copy: u8, corrupt: Option<u32>, mark: Mark) -> Output {
    let Output::Depart { packet, due, stages, .. } = fate else { return fate };
    Output::Depart { packet, copy, corrupt: corrupt.map(BitFlip), due, mark, stages }
}

fn lost(fate: Output, copy: u8) -> Output {
    let Output::Depart { packet, due, .. } = fate else { return fate };
    Output::Drop { packet, copy, reason: DropReason::Loss, at: due }
}

/// The tests' datagrams are shorter than the difference between the two headers.
fn payload_bytes(packet: u32) -> u32 {
    packet - if packet < 48 { 28 } else { 48 }
}

/// A bit of the destination's address, by which the kernel would route.
fn destination_bit(packet: u32) -> u32 {
    if packet < 48 { 150 } else { 300 }
}

/// Whether the lane keeps the bytes of packets.
#[derive(Clone, Copy)]
enum Bytes {
    No,
    Yes,
    NoRoom,
}

struct Run {
    /// For each peer's address.
    arrived: Vec<(IpAddr, Vec<Packet>)>,
    ledger: Ledger,
    counts: LaneCounts,
    /// Marked by decision, and by the kernel.
    marked: u64,
    ce_written: u64,
}

/// Sends all scenarios to both addresses of the peer, through a lane whose fates are changed.
fn run(bytes: Bytes, fates: fn(Vec<Output>) -> Vec<Output>) -> Run {
    run_link("delay=1ms", ECT0, bytes, fates)
}

fn run_link(link: &str, ect: u8, bytes: Bytes, fates: fn(Vec<Output>) -> Vec<Output>) -> Run {
    let lab = Lab::build(&LabConfig::default()).unwrap();
    let (queue, mut hooks, egress) = lab.gate().within(|| (open(), install(), egress())).unwrap();
    let config = CaptureConfig { direction: Direction::In, ..CaptureConfig::default() };
    let mut capture = lab.outside().within(|| Capture::open(OUTSIDE, &config).unwrap()).unwrap();
    let start = monotonic();
    let link = Link::new(&LinkConfig::parse(link, "up").unwrap(), 1, start).unwrap();
    let mut lane = Lane::new(queue, link, Ledger::default(), MTU, start);
    match bytes {
        Bytes::No => {}
        Bytes::Yes => lane.keep_payloads(egress, 1 << 20),
        Bytes::NoRoom => lane.keep_payloads(egress, 0),
    }
    lane.inject_fates(fates);
    let stop = Stop::new().unwrap();
    let driver = Driver::new(vec![lane], Precision::Balanced, stop.clone());
    let (arrived, stopped) = thread::scope(|scope| {
        let driving = scope.spawn(|| driver.run().unwrap());
        let sending =
            || peers(&lab).map(|peer| (peer, transfer(&lab, (peer, ect), &mut capture))).collect();
        // A failed assertion must not leave the scope waiting for the driver.
        let arrived = catch_unwind(AssertUnwindSafe(sending));
        stop.drain();
        (arrived, driving.join().unwrap())
    });
    let waiting = lab.gate().within(|| queue_statistics(QUEUE)).unwrap();
    assert_eq!(waiting.unwrap().unwrap().waiting, 0, "the kernel still holds packets");
    let ce_written = hooks.ce_written().unwrap();
    drop(hooks);
    let lane = stopped.lanes.into_iter().next().unwrap();
    let (counts, marked) = (lane.counts(), lane.link().snapshot().marked);
    let arrived = arrived.unwrap_or_else(|panic| resume_unwind(panic));
    Run { arrived, ledger: lane.into_account(), counts, marked, ce_written }
}

/// Sends every scenario several times and then a datagram that ends it; what arrived before that.
fn transfer(lab: &Lab, (peer, ect): (IpAddr, u8), capture: &mut Capture) -> Vec<Packet> {
    let sender = lab.inside().within(|| socket(peer, ect)).unwrap();
    let target = SocketAddr::from((peer, 9));
    for size in (0..ROUNDS).flat_map(|_| 0..SCENARIOS) {
        sender.send_to(&[0x5a; SCENARIOS][..size], target).unwrap();
    }
    sender.send_to(&[0x5a; LAST], target).unwrap();
    let mut arrived: Vec<Packet> = Vec::new();
    let is_last = |packet: &Packet| {
        payload_bytes(u32::try_from(packet.len()).unwrap()) == u32::try_from(LAST).unwrap()
    };
    while !arrived.last().is_some_and(is_last) {
        assert!(readable(capture), "{peer}: only {} packets arrived", arrived.len());
        let take = |packet: CapturedPacket<'_>| {
            if is_udp_or_tcp(&packet.bytes[14..]) {
                arrived.push(packet.bytes[14..].to_vec());
            }
        };
        capture.receive(take).unwrap();
    }
    assert_eq!(capture.lost().unwrap(), 0);
    arrived.pop();
    arrived
}

fn readable(capture: &Capture) -> bool {
    let timeout = Timespec::try_from(Duration::from_secs(5)).unwrap();
    rustix::event::poll(&mut [PollFd::new(capture, PollFlags::IN)], Some(&timeout)).unwrap() > 0
}

fn peers(lab: &Lab) -> impl Iterator<Item = IpAddr> {
    let addresses = lab.addresses();
    [Some(addresses.peer4.into()), addresses.peer6.map(IpAddr::from)].into_iter().flatten()
}

fn socket(peer: IpAddr, ect: u8) -> UdpSocket {
    if peer.is_ipv4() {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        sockopt::set_ip_tos(&socket, ect).unwrap();
        socket
    } else {
        let socket = UdpSocket::bind("[::]:0").unwrap();
        sockopt::set_ipv6_tclass(&socket, ect.into()).unwrap();
        socket
    }
}

fn egress() -> Egress {
    Egress::open(&links::egress(GATE_OUT, MTU)).unwrap()
}

fn open() -> Queue {
    let config = QueueConfig {
        number: QUEUE,
        copy_range: MTU,
        max_len: 10_000,
        receive_buffer: 4 << 20,
        gso: false,
        fail_open: false,
    };
    Queue::open(&config).unwrap()
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
    let table = "punctual-lane".to_owned();
    let config = HookConfig { table, hook: Hook::Forward, priority: 0, rules, ce: true };
    InstalledHooks::install(&config).unwrap()
}

/// Counts fates, and checks that each departure is released within its call and not before its time.
#[derive(Debug, Default)]
struct Ledger {
    arrived: usize,
    released: usize,
    dropped: usize,
}

impl Account for Ledger {
    fn arrived(&mut self, _: &Arrived) {
        self.arrived += 1;
    }

    fn dropped(&mut self, _: &Output) {
        self.dropped += 1;
    }

    fn released(&mut self, released: &Released<'_>) {
        assert!(released.due <= released.called && released.called <= released.returned);
        self.released += 1;
    }
}

const QUEUE: u16 = 7;
const MTU: u32 = 1_500;
const ROUNDS: usize = 40;
const SCENARIOS: usize = 9;
/// Payload of the datagram that ends a transfer.
const LAST: usize = 16;
const ECT0: u8 = 2;
const ECT1: u8 = 1;
