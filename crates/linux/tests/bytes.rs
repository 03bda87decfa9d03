//! What a link changes of the packets that pass it: captures on both sides of the gate, compared
//! byte by byte.

#[path = "support/reexec.rs"]
mod support;

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

use punctual_linux::clock::monotonic;
use punctual_linux::driver::{Account, Arrived, Driver, Lane, Precision, Released, Stop};
use punctual_linux::fault::Faults;
use punctual_linux::lab::{Lab, LabConfig, links};
use punctual_linux::namespace::user;
use punctual_linux::netfilter::nfqueue::{Queue, QueueConfig};
use punctual_linux::netfilter::nftables::{Family, Hook, HookConfig, HookRule, InstalledHooks};
use punctual_linux::observe::{Capture, CaptureConfig, Direction, Filter};
use punctual_linux::process::init;
use punctual_linux::traffic::{
    Pace, TcpReceiveConfig, TcpReceiver, TcpSendConfig, UdpReceiveConfig, UdpReceiver,
    UdpSendConfig, send_tcp, send_udp,
};
use punctual_linux::wait::readable;
use punctual_sched::{Duration, Link, LinkConfig, Output};
use support::{Test, TestResult};

fn main() -> ExitCode {
    if let Some(code) = init::dispatch() {
        return code;
    }
    if std::env::args().nth(1).is_some_and(|word| word == "role=probe") {
        return user::enter(&Faults::default()).map_or(ExitCode::FAILURE, |_| ExitCode::SUCCESS);
    }
    support::run(TESTS, what_is_missing)
}

const TESTS: &[Test] = &[
    ("udp_packets_differ_in_hop_count_and_checksums_only", udp_packets_differ_only_as_routed),
    ("tcp_bursts_that_are_kept_differ_in_hop_count_only", tcp_bursts_differ_only_as_routed),
];

/// Tried in a child, because the namespaces of this process must stay as they are.
fn what_is_missing() -> Option<String> {
    let tried = std::process::Command::new("/proc/self/exe").arg("role=probe").status();
    let granted = tried.is_ok_and(|status| status.success());
    (!granted).then(|| "namespaces are refused".to_owned())
}

/// Where bursts are cut, the kernel hands packets over with the checksums that it would else have
/// left to the network device.
fn udp_packets_differ_only_as_routed() -> TestResult {
    let bed = Bed::build(false)?;
    let (before, after) = bed.capture(|bed| {
        for peer in bed.peers() {
            for size in [40, 777, 1_400] {
                bed.send_udp(peer, size)?;
            }
        }
        Ok(())
    })?;
    assert_eq!((before.len(), after.len()), (2 * 3 * 50, 2 * 3 * 50));
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(*after, finish_udp_checksum(routed(before)));
    }
    Ok(())
}

fn tcp_bursts_differ_only_as_routed() -> TestResult {
    let bed = Bed::build(true)?;
    let (before, after) = bed.capture(|bed| bed.peers().try_for_each(|peer| bed.send_tcp(peer)))?;
    // The link ends with the last connection, whose last ACK may then still be on its way.
    assert!((0..=1).contains(&(before.len() - after.len())), "{} {}", before.len(), after.len());
    assert!(before.iter().any(|packet| packet.len() > 1_500), "no burst among {}", before.len());
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(*after, routed(before));
    }
    Ok(())
}

/// A lab with a link from *inside* to *outside*, and nothing held the other way.
struct Bed {
    lab: Lab,
    queue: Queue,
    _hooks: InstalledHooks,
    captures: [Capture; 2],
}

type Packets = Vec<Vec<u8>>;

impl Bed {
    fn build(gso: bool) -> Result<Self, Box<dyn std::error::Error>> {
        user::enter(&Faults::default())?;
        let lab = Lab::build(&LabConfig::default())?;
        let (queue, hooks) =
            lab.gate().within(|| open(gso).map_err(|error| error.to_string()))??;
        let captures = lab.gate().within(|| {
            let inside = capture(links::GATE_IN, Direction::In);
            inside.and_then(|inside| Ok([inside, capture(links::GATE_OUT, Direction::Out)?]))
        })??;
        Ok(Self { lab, queue, _hooks: hooks, captures })
    }

    /// What was captured before and after the link while `work` was done, Ethernet headers off.
    fn capture(
        self,
        work: impl FnOnce(&Ends<'_>) -> TestResult,
    ) -> Result<(Packets, Packets), Box<dyn std::error::Error>> {
        let Self { lab, queue, _hooks, captures: [mut before, mut after] } = self;
        let start = monotonic();
        // Slow enough for the small capture buffer of an ordinary user.
        let rate = "50mbit".parse()?;
        let delay = Duration::from_millis(1);
        let config = LinkConfig { rate, delay, ..LinkConfig::default() };
        let lane = Lane::new(queue, Link::new(&config, 1, start)?, Nothing, 1_500, start);
        let stop = Stop::new()?;
        let driver = Driver::new(vec![lane], Precision::Eco, stop.clone());
        let done = AtomicBool::new(false);
        scope(|scope| {
            let driver = scope.spawn(|| driver.run());
            let before = scope.spawn(|| drain(&mut before, &done));
            let after = scope.spawn(|| drain(&mut after, &done));
            let worked = work(&Ends { lab: &lab });
            stop.drain();
            let outcome = driver.join();
            done.store(true, Ordering::Release);
            outcome.map_err(|_| "the driver panicked")??;
            let joined = [before, after].map(|thread| thread.join().map_err(|_| "a panic"));
            let [before, after] = joined;
            worked?;
            Ok((before??, after??))
        })
    }
}

/// The two ends of the lab.
struct Ends<'a> {
    lab: &'a Lab,
}

impl Ends<'_> {
    fn peers(&self) -> impl Iterator<Item = IpAddr> {
        let addresses = self.lab.addresses();
        [Some(addresses.peer4.into()), addresses.peer6.map(Into::into)].into_iter().flatten()
    }

    fn send_udp(&self, peer: IpAddr, size: usize) -> TestResult {
        let target = SocketAddr::new(peer, 9_000);
        let count = Some(50);
        let far_end = self.lab.outside().within(|| UdpReceiver::bind(target))??;
        let pace = Pace::Packets(NonZeroU64::new(5_000).ok_or("a pace of 0")?);
        let (run, duration, gso_segments) = (1, None, 1);
        let config = UdpSendConfig { target, run, size, pace, count, duration, gso_segments };
        self.lab.inside().within(|| send_udp(&config))??;
        let duration = Duration::from_secs(5);
        let received = far_end.run(&UdpReceiveConfig { run: None, count, duration, idle: None })?;
        // Not by panics: other threads wait for the end of this work.
        match received.list.len() {
            50 => Ok(()),
            other => Err(format!("{other} of 50 packets of {size} bytes reached {peer}").into()),
        }
    }

    fn send_tcp(&self, peer: IpAddr) -> TestResult {
        let target = SocketAddr::new(peer, 9_000);
        let far_end = self.lab.outside().within(|| TcpReceiver::bind(target))??;
        let patience = Duration::from_secs(5);
        let duration = Duration::from_millis(50);
        let config = TcpSendConfig { target, duration, congestion: None, patience };
        let end = TcpReceiveConfig { patience, duration: patience };
        scope(|scope| {
            let far_end = scope.spawn(|| far_end.run(&end));
            let sent = self.lab.inside().within(|| send_tcp(&config))??;
            let received = far_end.join().map_err(|_| "the receiver panicked")??;
            let (sent, received) = (sent.bytes, received.bytes);
            if sent == received {
                Ok(())
            } else {
                Err(format!("{received} of {sent} bytes").into())
            }
        })
    }
}

fn open(gso: bool) -> Result<(Queue, InstalledHooks), Box<dyn std::error::Error>> {
    let queue = Queue::open(&QueueConfig {
        number: 1,
        copy_range: 128,
        max_len: 100_000,
        receive_buffer: 4 << 20,
        gso,
        fail_open: false,
    })?;
    let rule = |family| HookRule {
        family,
        device: links::GATE_IN.to_owned(),
        queue: 1,
        stamp_arrival: true,
        bypass: false,
    };
    let hooks = InstalledHooks::install(&HookConfig {
        table: "bytes".to_owned(),
        hook: Hook::Forward,
        priority: 0,
        rules: vec![rule(Family::Ip4), rule(Family::Ip6)],
    })?;
    Ok((queue, hooks))
}

fn capture(
    device: &str,
    direction: Direction,
) -> Result<Capture, punctual_linux::observe::ObserveError> {
    let filter = Filter::Everything;
    Capture::open(device, &CaptureConfig { direction, filter, ..CaptureConfig::default() })
}

/// Reads until `done` and nothing is left.
fn drain(capture: &mut Capture, done: &AtomicBool) -> Result<Packets, String> {
    let mut packets = Vec::new();
    loop {
        let last = done.load(Ordering::Acquire);
        readable(capture.as_fd(), Duration::from_millis(20)).map_err(|error| error.to_string())?;
        let mut keep = |frame: &[u8]| packets.extend(transport(&frame[ETHERNET..]));
        while capture.receive(|packet| keep(packet.bytes)).map_err(|error| error.to_string())? > 0 {
        }
        if last {
            break;
        }
    }
    match capture.lost() {
        Ok(0) => Ok(packets),
        other => Err(format!("lost in the capture: {other:?}")),
    }
}

/// A copy of a packet of TCP or UDP: what the kernel says of its own accord (MLD, IGMP) is no part
/// of the comparison.
fn transport(packet: &[u8]) -> Option<Vec<u8>> {
    let protocol = packet[if packet[0] >> 4 == 6 { 6 } else { 9 }];
    matches!(protocol, TCP | UDP).then(|| packet.to_vec())
}

/// As a router sends it on (RFC 1812, section 5.3.1; RFC 8200, section 3).
fn routed(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 6 {
        packet[7] -= 1;
        return packet;
    }
    packet[8] -= 1;
    packet[10..12].fill(0);
    let header = usize::from(packet[0] & 0x0f) * 4;
    let sum = !fold(sum(&packet[..header]));
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// With the checksum of RFC 768 over the pseudo-header and the datagram.
fn finish_udp_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    let (header, addresses) = if packet[0] >> 4 == 6 { (40, 8..40) } else { (20, 12..20) };
    packet[header + 6..header + 8].fill(0);
    let length = u32::try_from(packet.len() - header).expect("a packet");
    let total = sum(&packet[addresses]) + sum(&packet[header..]) + u32::from(UDP) + length;
    let checksum = match !fold(total) {
        0 => u16::MAX,
        sum => sum,
    };
    packet[header + 6..header + 8].copy_from_slice(&checksum.to_be_bytes());
    packet
}

fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    bytes.chunks(2).map(word).sum()
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    u16::try_from((once & 0xffff) + (once >> 16)).expect("folded twice")
}

/// Keeps no account.
#[derive(Debug)]
struct Nothing;

impl Account for Nothing {
    fn arrived(&mut self, _: &Arrived) {}
    fn dropped(&mut self, _: &Output) {}
    fn released(&mut self, _: &Released<'_>) {}
}

const ETHERNET: usize = 14;
const TCP: u8 = 6;
const UDP: u8 = 17;
