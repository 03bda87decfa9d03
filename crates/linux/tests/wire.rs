//! What becomes of a packet's bytes on the wire, and of how many there are of it, seen by a capture
//! at the peer.

#![expect(clippy::unwrap_used, reason = "these functions are tests, run by a runner of our own")]

#[path = "support/packets.rs"]
mod packets;
mod support;
#[path = "support/trial.rs"]
mod trial;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use packets::{
    Packet, TCP, differing_bits, ecn, header_checksum_is_right, is_ip4, is_udp_or_tcp, protocol,
    transport_checksum_is_right,
};
use punctual_linux::fault::{Faults, Refuse};
use punctual_linux::lab::links::{self, GATE_IN, GATE_OUT, OUTSIDE};
use punctual_linux::lab::{Lab, LabConfig};
use punctual_linux::namespace::Network;
use punctual_linux::netfilter::nfqueue::{
    Batch, PacketInfo, Queue, QueueConfig, Received, Verdict,
};
use punctual_linux::netfilter::nftables::{
    CE_MARK, Family, Hook, HookConfig, HookRule, InstalledHooks, Packets,
};
use punctual_linux::netfilter::probe;
use punctual_linux::observe::{Capture, CaptureConfig, CapturedPacket, Direction};
use punctual_linux::wire::{Egress, EgressConfig, EgressCounts, flip, set_ce};
use punctual_sched::BitFlip;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::sockopt;

fn main() -> ExitCode {
    let tests = tests![
        the_probe_says_whether_ce_can_be_written,
        an_ecn_capable_packet_whose_verdict_marks_it_arrives_with_ce,
        a_packet_that_is_not_ecn_capable_or_not_marked_stays_as_it_was,
        the_mark_is_cleared_before_the_packet_goes_on,
        every_data_segment_of_a_tcp_connection_can_be_marked,
        a_verdict_with_a_flipped_bit_changes_that_bit_and_leaves_the_checksum_wrong,
        a_corrupted_packet_is_not_delivered_and_the_next_one_is,
        a_packet_with_ce_and_a_flipped_bit_differs_by_just_that,
        verdicts_with_large_payloads_share_calls_and_none_is_lost,
        a_copy_sent_by_the_egress_equals_the_packet_released_by_verdict,
        every_bit_of_a_header_can_arrive_flipped,
        what_the_egress_cannot_send_is_refused_and_counted,
    ];
    support::run(&tests, trial::queues_packets)
}

fn the_probe_says_whether_ce_can_be_written() {
    let network = Network::new().unwrap();
    let asked = |faults: &Faults| network.within(|| probe(faults)).unwrap().unwrap();
    assert!(asked(&Faults::default()).ce_marks);
    let refusing = Faults { refuse: vec![Refuse::CeMarkMissing], ..Faults::default() };
    assert!(!asked(&refusing).ce_marks);
}

fn an_ecn_capable_packet_whose_verdict_marks_it_arrives_with_ce() {
    let mut bed = Bed::new();
    for peer in bed.peers() {
        for sent in [1, 2, 3] {
            let held = bed.send_datagram(peer, sent, b"hello");
            assert_eq!(ecn(&held.bytes), sent);
            bed.verdict(held.info, CE_MARK);
            let arrived = bed.arrived();
            assert_eq!(ecn(&arrived), 3, "{peer}, sent with {sent}");
            assert_eq!(without_ecn(&arrived), without_ecn(&held.bytes));
            check_sums(&arrived);
        }
    }
    let marked = 2 * u64::try_from(bed.peers().len()).unwrap();
    assert_eq!(bed.hooks.ce_written().unwrap(), marked, "CE itself is not written again");
    assert_eq!(bed.hooks.counters().unwrap().len(), 2);
}

fn a_packet_that_is_not_ecn_capable_or_not_marked_stays_as_it_was() {
    let mut bed = Bed::new();
    let foreign = [0, 1, CE_MARK - 1, CE_MARK + 1, CE_MARK.swap_bytes(), u32::MAX];
    let unmarked = foreign.map(|mark| (2, mark));
    for peer in bed.peers() {
        for (sent, mark) in [(0, CE_MARK), (1, 0), (3, 0)].into_iter().chain(unmarked) {
            let held = bed.send_datagram(peer, sent, b"hello");
            bed.verdict(held.info, mark);
            assert_eq!(bed.arrived(), held.bytes, "{peer}, sent with {sent}, mark {mark:x}");
        }
    }
    assert_eq!(bed.hooks.ce_written().unwrap(), 0);
}

/// Asked of a second queue, behind the chain that writes.
fn the_mark_is_cleared_before_the_packet_goes_on() {
    let mut bed = Bed::new();
    let (_hooks, mut behind) = bed.lab.gate().within(queue_behind).unwrap();
    for peer in bed.peers() {
        for sent in [0, 1, 2, 3] {
            let held = bed.send_datagram(peer, sent, b"hello");
            bed.verdict(held.info, CE_MARK);
            let later = next_held(&mut behind);
            assert_eq!((later.info.mark, ecn(&later.bytes) == 3), (None, sent != 0));
            send(&mut behind, &accept(later.info, 0));
            bed.arrived();
        }
        let held = bed.send_datagram(peer, 2, b"another's mark");
        bed.verdict(held.info, 7);
        let later = next_held(&mut behind);
        assert_eq!(later.info.mark, Some(7), "only our own mark is cleared");
        send(&mut behind, &accept(later.info, 0));
        bed.arrived();
    }
}

fn every_data_segment_of_a_tcp_connection_can_be_marked() {
    let mut bed = Bed::new();
    for network in [bed.lab.inside(), bed.lab.outside()] {
        network.within(|| std::fs::write("/proc/sys/net/ipv4/tcp_ecn", "1").unwrap()).unwrap();
    }
    for peer in bed.peers() {
        let arrived = bed.stream(peer, CE_MARK);
        let data: Vec<_> = arrived.iter().filter(|packet| packet.len() > 1000).collect();
        assert!(data.len() > 20 && data.iter().all(|packet| ecn(packet) == 3), "{}", data.len());
        assert!(arrived.iter().any(|packet| ecn(packet) == 0), "a SYN is not ECN-capable");
        for packet in &arrived {
            assert_eq!(protocol(packet), TCP);
            check_sums(packet);
        }
    }
}

fn a_verdict_with_a_flipped_bit_changes_that_bit_and_leaves_the_checksum_wrong() {
    let mut bed = Bed::new();
    for peer in bed.peers() {
        let header = if peer.is_ipv4() { 20 } else { 40 };
        for size in [1, 500, 501, 1_400] {
            // Ports, length, the first and the last bit of the payload. Not the checksum: one of
            // 0xffff means the same as the one that is not there.
            for bit in [header * 8, header * 8 + 47, (header + 8) * 8, (header + 8 + size) * 8 - 1]
            {
                let held = bed.send_datagram(peer, 0, &vec![0xa5; size]);
                let mut bytes = held.bytes.clone();
                flip(&mut bytes, BitFlip(u32::try_from(bit).unwrap()));
                bed.replace(held.info, &bytes);
                let arrived = bed.arrived();
                assert_eq!(differing_bits(&arrived, &held.bytes), [bit]);
                assert!(header_checksum_is_right(&arrived));
                assert!(!transport_checksum_is_right(&arrived), "{peer}, bit {bit}");
            }
        }
    }
}

fn a_corrupted_packet_is_not_delivered_and_the_next_one_is() {
    let mut bed = Bed::new();
    for peer in bed.peers() {
        let bind = || UdpSocket::bind((peer, 9)).unwrap();
        let receiver = bed.lab.outside().within(bind).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let held = bed.send_datagram(peer, 0, b"corrupted");
        let mut bytes = held.bytes.clone();
        flip(&mut bytes, BitFlip(u32::MAX));
        bed.replace(held.info, &bytes);
        let held = bed.send_datagram(peer, 0, b"intact");
        bed.verdict(held.info, 0);
        let mut buffer = [0; 100];
        let length = receiver.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"intact");
        assert_eq!(
            [bed.arrived().len(), bed.arrived().len()],
            [held.bytes.len() + 3, held.bytes.len()]
        );
    }
}

fn a_packet_with_ce_and_a_flipped_bit_differs_by_just_that() {
    let mut bed = Bed::new();
    for peer in bed.peers() {
        for sent in [1, 2] {
            let held = bed.send_datagram(peer, sent, b"hello");
            let mut marked = held.bytes.clone();
            assert!(set_ce(&mut marked));
            let mut bytes = marked.clone();
            let last = bytes.len() * 8 - 1;
            flip(&mut bytes, BitFlip(u32::try_from(last).unwrap()));
            bed.replace(held.info, &bytes);
            let arrived = bed.arrived();
            assert_eq!(ecn(&arrived), 3);
            assert_eq!(differing_bits(&arrived, &marked), [last]);
            assert_eq!(without_ecn(&marked), without_ecn(&held.bytes));
            assert!(header_checksum_is_right(&arrived) && !transport_checksum_is_right(&arrived));
            // What we write is what the kernel would have written.
            let held = bed.send_datagram(peer, sent, b"hello");
            bed.verdict(held.info, CE_MARK);
            let by_the_kernel = bed.arrived();
            assert!(set_ce(&mut held.bytes.clone()));
            let mut by_us = held.bytes;
            set_ce(&mut by_us);
            assert_eq!(by_us, by_the_kernel);
        }
    }
}

/// 200 full frames are five system calls of payload.
fn verdicts_with_large_payloads_share_calls_and_none_is_lost() {
    let mut bed = Bed::new();
    let peer = bed.peers()[0];
    let held: Vec<_> = (0..200).map(|_| bed.send_datagram(peer, 0, &[0x5a; 1_472])).collect();
    let verdicts: Vec<_> = held
        .iter()
        .map(|held| Verdict { payload: Some(&held.bytes), ..accept(held.info, 0) })
        .collect();
    assert_eq!(bed.queue.send(&verdicts).unwrap(), 200);
    for held in &held {
        assert_eq!(bed.arrived(), held.bytes);
    }
}

fn a_copy_sent_by_the_egress_equals_the_packet_released_by_verdict() {
    let mut bed = Bed::new();
    let mut egress = bed.egress();
    for peer in bed.peers() {
        for size in [0, 1, 1_000, 1_452] {
            let held = bed.send_datagram(peer, 2, &vec![1; size]);
            assert!(egress.send(held.info.protocol, &held.bytes));
            bed.verdict(held.info, 0);
            assert!(egress.send(held.info.protocol, &held.bytes));
            let arrived = [bed.arrived(), bed.arrived(), bed.arrived()];
            assert!(arrived.iter().all(|packet| *packet == held.bytes));
            check_sums(&arrived[0]);
        }
        let bind = || UdpSocket::bind((peer, 9)).unwrap();
        let receiver = bed.lab.outside().within(bind).unwrap();
        let held = bed.send_datagram(peer, 0, b"twice");
        egress.send(held.info.protocol, &held.bytes);
        bed.verdict(held.info, 0);
        receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        for _ in 0..2 {
            let mut buffer = [0; 100];
            let length = receiver.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"twice");
            bed.arrived();
        }
    }
    let sent = 9 * u64::try_from(bed.peers().len()).unwrap();
    assert_eq!(egress.counts(), EgressCounts { sent, ..EgressCounts::default() });
}

/// Sent by the egress: the kernel would route by a corrupted address, ask for it, and tell the
/// sender that nobody answered.
fn every_bit_of_a_header_can_arrive_flipped() {
    let mut bed = Bed::new();
    let mut egress = bed.egress();
    for peer in bed.peers() {
        let held = bed.send_datagram(peer, 0, b"hello");
        for bit in 0..if peer.is_ipv4() { 160 } else { 320 } {
            let mut bytes = held.bytes.clone();
            flip(&mut bytes, BitFlip(bit));
            assert!(egress.send(held.info.protocol, &bytes));
            let arrived = bed.next_captured();
            assert_eq!(differing_bits(&arrived, &held.bytes), [usize::try_from(bit).unwrap()]);
        }
        bed.verdict(held.info, 0);
        assert_eq!(bed.next_captured(), held.bytes);
    }
}

fn what_the_egress_cannot_send_is_refused_and_counted() {
    let bed = Bed::new();
    let mut egress = bed.egress();
    assert!(!egress.send(0x0800, &[0x45; 1_501]));
    assert!(!egress.send(0x0800, &[]));
    assert_eq!(egress.counts(), EgressCounts { unsent: 2, ..EgressCounts::default() });
    let config = EgressConfig { device: "no-such-device", ..egress_config() };
    let refused = bed.lab.gate().within(|| Egress::open(&config)).unwrap().unwrap_err();
    assert!(refused.to_string().contains("no-such-device"), "{refused}");
}

/// A lab, what holds packets in its gate, and a capture at the peer.
struct Bed {
    hooks: InstalledHooks,
    queue: Queue,
    batch: Batch,
    capture: Capture,
    captured: std::collections::VecDeque<Packet>,
    lab: Lab,
}

/// A packet that the gate holds, whole.
struct Held {
    info: PacketInfo,
    bytes: Packet,
}

impl Bed {
    fn new() -> Self {
        let lab = Lab::build(&LabConfig::default()).unwrap();
        let (queue, hooks) = lab.gate().within(|| (open(QUEUE), install())).unwrap();
        let config = CaptureConfig { direction: Direction::In, ..CaptureConfig::default() };
        let capture = lab.outside().within(|| Capture::open(OUTSIDE, &config).unwrap()).unwrap();
        let captured = std::collections::VecDeque::new();
        Self { hooks, batch: queue.batch(), queue, capture, captured, lab }
    }

    fn peers(&self) -> Vec<IpAddr> {
        let addresses = self.lab.addresses();
        let both = [Some(addresses.peer4.into()), addresses.peer6.map(IpAddr::from)];
        both.into_iter().flatten().collect()
    }

    /// Sends a datagram to the peer's discard port; the packet as it is held.
    fn send_datagram(&mut self, peer: IpAddr, ecn: u8, payload: &[u8]) -> Held {
        let socket = self.lab.inside().within(|| datagram_socket(peer, ecn)).unwrap();
        socket.send_to(payload, SocketAddr::from((peer, 9))).unwrap();
        next_held(&mut self.queue)
    }

    fn verdict(&mut self, packet: PacketInfo, mark: u32) {
        send(&mut self.queue, &accept(packet, mark));
    }

    fn replace(&mut self, packet: PacketInfo, bytes: &[u8]) {
        send(&mut self.queue, &Verdict { payload: Some(bytes), ..accept(packet, 0) });
    }

    /// Out of the gate to the peer.
    fn egress(&self) -> Egress {
        self.lab.gate().within(|| Egress::open(&egress_config()).unwrap()).unwrap()
    }

    /// The next packet of UDP or TCP that reached the peer.
    fn arrived(&mut self) -> Packet {
        loop {
            let packet = self.next_captured();
            if is_udp_or_tcp(&packet) {
                return packet;
            }
        }
    }

    /// The next packet of IP that reached the peer, whatever is in its header.
    fn next_captured(&mut self) -> Packet {
        loop {
            if let Some(packet) = self.captured.pop_front() {
                return packet;
            }
            assert!(poll(&self.capture, 5_000), "nothing reached the peer");
            self.look();
        }
    }

    fn look(&mut self) {
        // What the gate says of itself by multicast (MLD) is left out.
        let take = |packet: CapturedPacket<'_>| {
            let unicast = packet.bytes[0] & 1 == 0;
            if unicast
                && [[0x08, 0x00], [0x86, 0xdd]].contains(&[packet.bytes[12], packet.bytes[13]])
            {
                self.captured.push_back(packet.bytes[14..].to_vec());
            }
        };
        self.capture.receive(take).unwrap();
        assert_eq!(self.capture.lost().unwrap(), 0);
    }

    /// Sends 100 kB over TCP, each packet with this mark in its verdict; all packets that arrived.
    fn stream(&mut self, peer: IpAddr, mark: u32) -> Vec<Packet> {
        let listen = || TcpListener::bind((peer, 0)).unwrap();
        let listener = self.lab.outside().within(listen).unwrap();
        let target = listener.local_addr().unwrap();
        let inside = self.lab.inside();
        thread::scope(|scope| {
            let reading = scope.spawn(move || {
                let mut stream = listener.accept().unwrap().0;
                stream.read_to_end(&mut Vec::new()).unwrap()
            });
            scope.spawn(move || {
                let mut stream = inside.within(|| TcpStream::connect(target)).unwrap().unwrap();
                stream.write_all(&vec![7; 100_000]).unwrap();
            });
            while !reading.is_finished() {
                poll(&self.queue, 20);
                self.queue.receive(&mut self.batch).unwrap();
                let verdicts: Vec<_> =
                    packets_of(&self.batch).map(|held| accept(held.info, mark)).collect();
                assert_eq!(self.queue.send(&verdicts).unwrap(), verdicts.len());
            }
            assert_eq!(reading.join().unwrap(), 100_000);
        });
        while poll(&self.capture, 0) {
            self.look();
        }
        self.captured.drain(..).filter(|packet| is_udp_or_tcp(packet)).collect()
    }
}

fn packets_of(batch: &Batch) -> impl Iterator<Item = Held> {
    assert_eq!(batch.malformed(), 0);
    batch.iter().map(|received| match received {
        Received::Packet(packet) => Held { info: packet.info, bytes: packet.payload.to_vec() },
        other => panic!("unexpected {other:?}"),
    })
}

fn next_held(queue: &mut Queue) -> Held {
    assert!(poll(&*queue, 5_000), "no packet reached the queue");
    let mut batch = queue.batch();
    assert_eq!(queue.receive(&mut batch).unwrap(), 1);
    let held = packets_of(&batch).next().unwrap();
    assert_eq!(held.bytes.len(), usize::try_from(held.info.len).unwrap());
    assert!(!held.info.checksum_unfinished);
    held
}

fn accept(packet: PacketInfo, mark: u32) -> Verdict<'static> {
    Verdict { id: packet.id, accept: true, mark: Some(mark), payload: None }
}

fn send(queue: &mut Queue, verdict: &Verdict<'_>) {
    assert_eq!(queue.send(std::slice::from_ref(verdict)).unwrap(), 1);
}

/// The packet with the ECN field cleared, and in IPv4 the header checksum that covers it.
fn without_ecn(packet: &[u8]) -> Packet {
    let mut rest = packet.to_vec();
    if is_ip4(packet) {
        rest[1] &= !3;
        rest[10..12].fill(0);
    } else {
        rest[1] &= !0x30;
    }
    rest
}

fn check_sums(packet: &[u8]) {
    assert!(header_checksum_is_right(packet), "{packet:02x?}");
    assert!(transport_checksum_is_right(packet), "{packet:02x?}");
}

fn datagram_socket(peer: IpAddr, ecn: u8) -> UdpSocket {
    if peer.is_ipv4() {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        sockopt::set_ip_tos(&socket, ecn).unwrap();
        socket
    } else {
        let socket = UdpSocket::bind("[::]:0").unwrap();
        sockopt::set_ipv6_tclass(&socket, ecn.into()).unwrap();
        socket
    }
}

fn egress_config() -> EgressConfig<'static> {
    links::egress(GATE_OUT, 1_500)
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
    let table = "punctual-wire".to_owned();
    let config = HookConfig { table, hook: Hook::Forward, priority: 0, rules, ce: true };
    InstalledHooks::install(&config).unwrap()
}

fn queue_behind() -> (InstalledHooks, Queue) {
    let queue = open(BEHIND);
    let rule = |family| HookRule {
        family,
        device: GATE_OUT.to_owned(),
        packets: Packets::All,
        queue: BEHIND,
        stamp_arrival: false,
        bypass: false,
    };
    let rules = vec![rule(Family::Ip4), rule(Family::Ip6)];
    let table = "punctual-behind".to_owned();
    let config = HookConfig { table, hook: Hook::PostRouting, priority: 0, rules, ce: false };
    (InstalledHooks::install(&config).unwrap(), queue)
}

fn open(number: u16) -> Queue {
    let config = QueueConfig {
        number,
        copy_range: 65_535,
        max_len: 10_000,
        receive_buffer: 4 << 20,
        gso: false,
        fail_open: false,
    };
    Queue::open(&config).unwrap()
}

fn poll(socket: &impl std::os::fd::AsFd, milliseconds: u64) -> bool {
    let timeout = Timespec::try_from(Duration::from_millis(milliseconds)).unwrap();
    rustix::event::poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)).unwrap() > 0
}

const QUEUE: u16 = 7;
const BEHIND: u16 = 8;
