//! Real packets over `lo` through our own rules and queues, in a network namespace of the test's
//! own, as root or as an ordinary user.

#![expect(clippy::unwrap_used, reason = "these functions are tests, run by a runner of our own")]

#[path = "support/loopback.rs"]
mod loopback;
mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use punctual_linux::fault::Faults;
use punctual_linux::netfilter::nfqueue::{
    Batch, OpenError, PacketInfo, Queue, QueueConfig, Received, Verdict,
};
use punctual_linux::netfilter::nftables::{
    Family, Hook, HookConfig, HookError, HookRule, InstalledHooks, Packets,
};
use punctual_linux::netfilter::{probe, queue_statistics};
use rustix::event::{PollFd, PollFlags, Timespec};

fn main() -> ExitCode {
    let tests = tests![
        the_probe_and_the_rules_agree_on_the_way_to_queue,
        an_accepted_ip4_packet_is_delivered,
        an_accepted_ip6_packet_is_delivered,
        a_dropped_packet_is_not_delivered,
        packets_leave_in_the_order_of_their_verdicts,
        the_stamp_is_the_kernels_time_of_arrival,
        a_rule_without_stamp_leaves_the_mark_alone,
        a_whole_packet_is_copied_when_asked_for,
        a_verdict_on_an_unknown_packet_is_refused_by_its_id,
        removing_somebody_elses_chain_flushes_and_says_which,
        a_probe_and_a_refused_installation_flush_nothing,
        counters_come_in_the_order_of_the_rules,
        flows_are_divided_by_their_ports_and_each_keeps_its_rule,
        a_table_vanishes_with_its_socket,
        a_queue_can_be_bound_once,
        what_the_receive_buffer_cannot_hold_is_counted,
        what_the_queue_cannot_hold_is_counted,
        a_full_queue_that_fails_open_lets_packets_pass,
        a_bypass_rule_lets_packets_pass_without_a_queue,
        no_packet_is_lost_while_the_queue_is_bound,
        bursts_come_whole_until_gso_is_switched_off,
    ];
    support::run(&tests, loopback::enter)
}

fn the_probe_and_the_rules_agree_on_the_way_to_queue() {
    let support = probe(&Faults::default()).unwrap();
    assert_eq!(support.action, install(&[rule(Family::Ip4)]).action());
}

fn an_accepted_ip4_packet_is_delivered() {
    let mut bed = Bed::new(Family::Ip4);
    bed.send(b"hello");
    let packet = bed.held(1)[0];
    assert_eq!((packet.id, packet.hook, packet.protocol), (1, 1, 0x0800));
    assert_eq!((packet.in_device, packet.out_device), (1, 0));
    assert_eq!(packet.len, 20 + 8 + 5);
    assert!(!packet.gso);
    bed.accept(&[packet]);
    assert_eq!(bed.delivered().unwrap(), b"hello");
}

fn an_accepted_ip6_packet_is_delivered() {
    let mut bed = Bed::new(Family::Ip6);
    bed.send(b"hello");
    let packet = bed.held(1)[0];
    assert_eq!((packet.hook, packet.protocol, packet.len), (1, 0x86dd, 40 + 8 + 5));
    bed.accept(&[packet]);
    assert_eq!(bed.delivered().unwrap(), b"hello");
}

fn a_dropped_packet_is_not_delivered() {
    let mut bed = Bed::new(Family::Ip4);
    bed.send(b"dropped");
    bed.send(b"accepted");
    let packets = bed.held(2);
    let drop = Verdict { id: packets[0].id, accept: false, ..Verdict::default() };
    assert_eq!(bed.queue.send(&[drop, accept(packets[1])]).unwrap(), 2);
    assert_eq!(bed.delivered().unwrap(), b"accepted");
    assert_eq!(bed.delivered(), None);
    assert_eq!(queue_statistics(QUEUE).unwrap().unwrap().waiting, 0);
}

fn packets_leave_in_the_order_of_their_verdicts() {
    let mut bed = Bed::new(Family::Ip6);
    // More than one system call of verdicts, more than one batch.
    for number in 0..300_u16 {
        bed.send(&number.to_be_bytes());
    }
    let mut packets = bed.held(300);
    packets.reverse();
    bed.accept(&packets);
    for number in (0..300_u16).rev() {
        assert_eq!(bed.delivered().unwrap(), number.to_be_bytes());
    }
}

fn the_stamp_is_the_kernels_time_of_arrival() {
    let mut bed = Bed::new(Family::Ip4);
    for _ in 0..20 {
        let before = realtime_ns();
        bed.send(b"now");
        let after = realtime_ns();
        let packet = bed.held(1)[0];
        let since = packet.mark.unwrap().wrapping_sub(low_half(before));
        assert!(u64::from(since) <= after - before, "{since} ns into {} ns", after - before);
        bed.accept(&[packet]);
        bed.delivered().unwrap();
    }
}

fn a_rule_without_stamp_leaves_the_mark_alone() {
    let unstamped = HookRule { stamp_arrival: false, ..rule(Family::Ip4) };
    let mut bed = Bed::with(Family::Ip4, CONFIG, &[unstamped]);
    bed.send(b"plain");
    assert_eq!(bed.held(1)[0].mark, None);
}

fn a_whole_packet_is_copied_when_asked_for() {
    for (copy_range, copied) in [(128, 128), (65_535, 1028), (0, 0)] {
        let config = QueueConfig { copy_range, ..CONFIG };
        let mut bed = Bed::with(Family::Ip4, config, &[rule(Family::Ip4)]);
        bed.send(&[0xa5; 1000]);
        wait(&bed.queue);
        assert_eq!(bed.queue.receive(&mut bed.batch).unwrap(), 1);
        let Some(Received::Packet(packet)) = bed.batch.iter().next() else { panic!("no packet") };
        assert_eq!(packet.payload.len(), copied);
        if copied > 0 {
            assert_eq!((packet.payload[0], packet.info.len), (0x45, 1028));
            assert!(packet.payload[28..].iter().all(|&byte| byte == 0xa5));
        }
    }
}

fn a_verdict_on_an_unknown_packet_is_refused_by_its_id() {
    let mut bed = Bed::new(Family::Ip4);
    bed.send(b"known");
    let packet = bed.held(1)[0];
    let unknown = Verdict { id: 4_000_000_000, accept: true, ..Verdict::default() };
    assert_eq!(bed.queue.send(&[unknown, accept(packet)]).unwrap(), 2);
    assert_eq!(bed.delivered().unwrap(), b"known");
    assert_eq!(bed.refused(), [(4_000_000_000, ENOENT)]);
}

fn removing_somebody_elses_chain_flushes_and_says_which() {
    let mut bed = Bed::new(Family::Ip4);
    let stranger = InstalledHooks::install(&hook_config("stranger", &[rule(Family::Ip6)])).unwrap();
    bed.send(b"flushed");
    let packet = bed.held(1)[0];
    drop(stranger);
    bed.accept(&[packet]);
    assert_eq!(bed.refused(), [(packet.id, ENOENT)]);
    assert_eq!(bed.delivered(), None);
}

fn a_probe_and_a_refused_installation_flush_nothing() {
    let mut bed = Bed::new(Family::Ip4);
    bed.send(b"held");
    let packet = bed.held(1)[0];
    probe(&Faults::default()).unwrap();
    let again = InstalledHooks::install(&hook_config(TABLE, &[rule(Family::Ip4)]));
    assert!(matches!(again, Err(HookError::TableTaken)), "{again:?}");
    bed.accept(&[packet]);
    assert_eq!(bed.delivered().unwrap(), b"held");
    assert_eq!(bed.refused(), []);
}

fn counters_come_in_the_order_of_the_rules() {
    let elsewhere = HookRule { device: "lo2".to_owned(), ..rule(Family::Ip4) };
    let rules = [rule(Family::Ip6), elsewhere, rule(Family::Ip4)];
    let mut bed = Bed::with(Family::Ip4, CONFIG, &rules);
    for _ in 0..3 {
        bed.send(&[0; 72]);
    }
    let ip6 = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    ip6.send_to(&[0; 52], ip6.local_addr().unwrap()).unwrap();
    let packets = bed.held(4);
    bed.accept(&packets);
    let counts = bed.hooks.counters().unwrap();
    let counts: Vec<_> = counts.iter().map(|count| (count.packets, count.bytes)).collect();
    assert_eq!(counts, [(1, 100), (0, 0), (3, 300)]);
}

fn flows_are_divided_by_their_ports_and_each_keeps_its_rule() {
    let shares = (1..4).map(|share| Packets::Share { share, of: 4 });
    let all = [Packets::OtherProtocols, Packets::Fragments].into_iter().chain(shares);
    let all: Vec<_> = all.chain([Packets::All]).collect();
    for family in [Family::Ip4, Family::Ip6] {
        let rules = all.iter().map(|&packets| HookRule { packets, bypass: true, ..rule(family) });
        let mut hooks = install(&rules.collect::<Vec<_>>());
        let mut counts = || {
            let counts = hooks.counters().unwrap();
            counts.iter().map(|count| count.packets).collect::<Vec<_>>()
        };
        let mut before = counts();
        assert_eq!(before, [0; 6]);
        let mut flows = [0; 6];
        for _ in 0..60 {
            let (sender, receiver) = sockets(family);
            let mut taken_by = Vec::new();
            for _ in 0..3 {
                sender.send(b"one").unwrap();
                assert_eq!(read(&receiver).unwrap(), b"one");
                let after = counts();
                let rule = before.iter().zip(&after).position(|(before, after)| before < after);
                taken_by.push(rule.unwrap());
                assert_eq!(after.iter().sum::<u64>(), before.iter().sum::<u64>() + 1);
                before = after;
            }
            assert_eq!(taken_by, [taken_by[0]; 3]);
            flows[taken_by[0]] += 1;
        }
        // 15 each, but for chance.
        assert!(flows[..2] == [0, 0] && flows[2..].iter().all(|&n| n > 2), "{flows:?}");
        // ICMP: nobody has the port any more.
        let (sender, receiver) = sockets(family);
        drop(receiver);
        sender.send(b"answered by ICMP").unwrap();
        assert_eq!(counts()[0], 1);
    }
}

fn a_table_vanishes_with_its_socket() {
    let bed = Bed::new(Family::Ip4);
    let Bed { hooks, queue, sender, receiver, .. } = bed;
    drop(hooks);
    sender.send(b"free").unwrap();
    assert_eq!(read(&receiver).unwrap(), b"free");
    assert_eq!(queue_statistics(QUEUE).unwrap().unwrap().last_id, 0);
    drop(queue);
    assert_eq!(queue_statistics(QUEUE).unwrap(), None);
    let mut again = Bed::new(Family::Ip4);
    again.send(b"held");
    again.held(1);
}

fn a_queue_can_be_bound_once() {
    let bed = Bed::new(Family::Ip4);
    let second = Queue::open(&CONFIG);
    assert!(matches!(second, Err(OpenError::Taken { number: QUEUE })), "{second:?}");
    drop(bed);
    Queue::open(&CONFIG).unwrap();
}

fn what_the_receive_buffer_cannot_hold_is_counted() {
    let config = QueueConfig { receive_buffer: 1, ..CONFIG };
    let mut bed = Bed::with(Family::Ip4, config, &[rule(Family::Ip4)]);
    assert!((1..20_000).contains(&bed.queue.receive_buffer()));
    for _ in 0..200 {
        bed.send(&[0; 100]);
    }
    let mut received = 0;
    while bed.queue.receive(&mut bed.batch).unwrap() > 0 {
        received += bed.batch.len() as u64;
    }
    let lost = bed.queue.losses().unwrap().receive_buffer;
    assert!(received > 0 && lost > 0);
    assert_eq!(received + lost, bed.hooks.counters().unwrap()[0].packets);
    let statistics = queue_statistics(QUEUE).unwrap().unwrap();
    assert_eq!(u64::from(statistics.dropped_receive_buffer), lost);
    assert_eq!(u64::from(statistics.waiting), received);
}

fn what_the_queue_cannot_hold_is_counted() {
    let config = QueueConfig { max_len: 3, ..CONFIG };
    let mut bed = Bed::with(Family::Ip4, config, &[rule(Family::Ip4)]);
    for number in 0..5 {
        bed.send(&[number]);
    }
    let packets = bed.held(3);
    let statistics = queue_statistics(QUEUE).unwrap().unwrap();
    assert_eq!((statistics.waiting, statistics.dropped_full), (3, 2));
    assert_eq!((statistics.copy_range, statistics.dropped_receive_buffer), (128, 0));
    bed.accept(&packets);
    for number in 0..3 {
        assert_eq!(bed.delivered().unwrap(), [number]);
    }
}

fn a_full_queue_that_fails_open_lets_packets_pass() {
    let config = QueueConfig { max_len: 1, fail_open: true, ..CONFIG };
    let mut bed = Bed::with(Family::Ip4, config, &[rule(Family::Ip4)]);
    bed.send(b"held");
    bed.send(b"passes");
    assert_eq!(bed.delivered().unwrap(), b"passes");
    let packets = bed.held(1);
    bed.accept(&packets);
    assert_eq!(bed.delivered().unwrap(), b"held");
}

fn a_bypass_rule_lets_packets_pass_without_a_queue() {
    for (bypass, expected) in [(true, Some(b"alone".to_vec())), (false, None)] {
        let hooks = install(&[HookRule { bypass, ..rule(Family::Ip4) }]);
        let (sender, receiver) = sockets(Family::Ip4);
        let _ = sender.send(b"alone");
        assert_eq!(read(&receiver), expected, "bypass {bypass}");
        drop(hooks);
    }
}

/// Packets arrive while the queue is bound, over and over: the first one read is always the first
/// one queued, so that none went missing before the acknowledgement.
fn no_packet_is_lost_while_the_queue_is_bound() {
    let _hooks = install(&[HookRule { bypass: true, ..rule(Family::Ip4) }]);
    let (sender, _receiver) = sockets(Family::Ip4);
    let stop = AtomicBool::new(false);
    let first_ids: Vec<u32> = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = sender.send(b"flood");
            }
        });
        let ids = (0..100).map(|_| first_id()).collect();
        stop.store(true, Ordering::Relaxed);
        ids
    });
    assert_eq!(first_ids, [1; 100]);
}

fn first_id() -> u32 {
    let mut queue = Queue::open(&CONFIG).unwrap();
    let mut batch = queue.batch();
    wait(&queue);
    queue.receive(&mut batch).unwrap();
    match batch.iter().next() {
        Some(Received::Packet(packet)) => packet.info.id,
        other => panic!("no packet but {other:?}"),
    }
}

fn bursts_come_whole_until_gso_is_switched_off() {
    let config = QueueConfig { gso: true, ..CONFIG };
    let mut bed = Bed::with(Family::Ip4, config, &[rule(Family::Ip4)]);
    let whole = bed.transfer();
    let largest = whole.iter().map(|packet| packet.len).max().unwrap();
    assert!(largest > 3000, "{largest}");
    assert!(whole.iter().filter(|packet| packet.len > 1500).all(|packet| packet.gso));
    assert!(whole.iter().any(|packet| packet.checksum_unfinished));
    bed.queue.set_gso(false).unwrap();
    let cut = bed.transfer();
    assert_eq!(cut.iter().map(|packet| packet.len).max(), Some(1500));
    assert!(!cut.iter().any(|packet| packet.gso));
}

/// Rules, their queue, and two sockets that talk across them.
struct Bed {
    hooks: InstalledHooks,
    queue: Queue,
    batch: Batch,
    sender: UdpSocket,
    receiver: UdpSocket,
}

impl Bed {
    fn new(family: Family) -> Self {
        Self::with(family, CONFIG, &[rule(family)])
    }

    fn with(family: Family, config: QueueConfig, rules: &[HookRule]) -> Self {
        let queue = Queue::open(&config).unwrap();
        let hooks = install(rules);
        let (sender, receiver) = sockets(family);
        Self { hooks, batch: queue.batch(), queue, sender, receiver }
    }

    fn send(&self, payload: &[u8]) {
        self.sender.send(payload).unwrap();
    }

    /// What the receiver got; `None` if nothing is there.
    fn delivered(&self) -> Option<Vec<u8>> {
        read(&self.receiver)
    }

    /// The next packets, exactly so many.
    fn held(&mut self, count: usize) -> Vec<PacketInfo> {
        let mut packets = Vec::new();
        while packets.len() < count {
            wait(&self.queue);
            packets.extend(self.packets());
        }
        packets.extend(self.packets());
        assert_eq!(packets.len(), count);
        packets
    }

    fn packets(&mut self) -> Vec<PacketInfo> {
        self.queue.receive(&mut self.batch).unwrap();
        assert_eq!(self.batch.malformed(), 0);
        let packet = |received| match received {
            Received::Packet(packet) => packet.info,
            other => panic!("unexpected {other:?}"),
        };
        self.batch.iter().map(packet).collect()
    }

    fn accept(&mut self, packets: &[PacketInfo]) {
        let verdicts: Vec<_> = packets.iter().copied().map(accept).collect();
        assert_eq!(self.queue.send(&verdicts).unwrap(), verdicts.len());
    }

    /// Answers to verdicts; the kernel gave them before `send` returned.
    fn refused(&mut self) -> Vec<(u32, i32)> {
        self.queue.receive(&mut self.batch).unwrap();
        let refused = |received| match received {
            Received::Refused { id, error } => (id, error),
            other => panic!("unexpected {other:?}"),
        };
        self.batch.iter().map(refused).collect()
    }

    /// Accepts all packets of a TCP transfer of half a megabyte; what they were.
    fn transfer(&mut self) -> Vec<PacketInfo> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let mut seen = Vec::new();
        thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let mut stream = listener.accept().unwrap().0;
                stream.read_to_end(&mut Vec::new()).unwrap()
            });
            scope.spawn(move || {
                TcpStream::connect(address).unwrap().write_all(&vec![0; 500_000]).unwrap();
            });
            while !reader.is_finished() {
                wait_briefly(&self.queue);
                let packets = self.packets();
                self.accept(&packets);
                seen.extend(packets);
            }
            assert_eq!(reader.join().unwrap(), 500_000);
        });
        seen
    }
}

fn accept(packet: PacketInfo) -> Verdict<'static> {
    Verdict { id: packet.id, accept: true, mark: Some(0), payload: None }
}

fn rule(family: Family) -> HookRule {
    HookRule {
        family,
        device: "lo".to_owned(),
        packets: Packets::All,
        queue: QUEUE,
        stamp_arrival: true,
        bypass: false,
    }
}

fn hook_config(table: &str, rules: &[HookRule]) -> HookConfig {
    let (table, rules) = (table.to_owned(), rules.to_vec());
    HookConfig { table, hook: Hook::Input, priority: 0, rules, ce: false }
}

fn install(rules: &[HookRule]) -> InstalledHooks {
    InstalledHooks::install(&hook_config(TABLE, rules)).unwrap()
}

fn sockets(family: Family) -> (UdpSocket, UdpSocket) {
    let address: IpAddr = match family {
        Family::Ip4 => Ipv4Addr::LOCALHOST.into(),
        Family::Ip6 => Ipv6Addr::LOCALHOST.into(),
    };
    let receiver = UdpSocket::bind((address, 0)).unwrap();
    receiver.set_nonblocking(true).unwrap();
    // A packet of a few bytes counts as 768: the default size holds 277.
    rustix::net::sockopt::set_socket_recv_buffer_size(&receiver, 1 << 20).unwrap();
    let sender = UdpSocket::bind((address, 0)).unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    (sender, receiver)
}

/// A verdict delivers before it returns, and so does a packet that no rule takes: no wait.
fn read(receiver: &UdpSocket) -> Option<Vec<u8>> {
    let mut bytes = [0; 2048];
    match receiver.recv(&mut bytes) {
        Ok(length) => Some(bytes[..length].to_vec()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("cannot receive: {error}"),
    }
}

fn wait(queue: &Queue) {
    assert!(poll(queue, Duration::from_secs(5)), "no packet reached the queue");
}

fn wait_briefly(queue: &Queue) {
    poll(queue, Duration::from_millis(20));
}

fn poll(queue: &Queue, timeout: Duration) -> bool {
    let timeout = Timespec::try_from(timeout).unwrap();
    rustix::event::poll(&mut [PollFd::new(queue, PollFlags::IN)], Some(&timeout)).unwrap() > 0
}

fn realtime_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let whole = u64::try_from(time.tv_sec).unwrap() * 1_000_000_000;
    whole + u64::try_from(time.tv_nsec).unwrap()
}

fn low_half(time: u64) -> u32 {
    u32::try_from(time & u64::from(u32::MAX)).unwrap()
}

const TABLE: &str = "punctual_test";
const QUEUE: u16 = 40;
const ENOENT: i32 = 2;
const CONFIG: QueueConfig = QueueConfig {
    number: QUEUE,
    copy_range: 128,
    max_len: 10_000,
    receive_buffer: 1 << 20,
    gso: false,
    fail_open: false,
};
