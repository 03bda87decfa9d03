//! What this test does as the command or the peer of a run, where the bundled traffic will not.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use punctual_linux::clock::monotonic;
use punctual_linux::fault::Faults;
use punctual_linux::lab::{Lab, LabConfig};
use punctual_linux::namespace::user;
use punctual_linux::traffic::{EchoServer, EcnSocket, RoundTripsConfig, round_trips};
use punctual_linux::wait::sleep_until;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto};
use std::sync::atomic::{AtomicBool, Ordering};

/// Plays the role that the first argument names, if it names one.
pub(crate) fn dispatch() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next()?.strip_prefix("role=")?.to_owned();
    let arguments: Vec<String> = arguments.collect();
    let played = match (role.as_str(), &arguments[..]) {
        ("send-empty", [target, count]) => send_empty(target, count),
        ("count", [address]) => count(address),
        ("count-ce", [address]) => count_ce(address),
        ("send-flows", [target, flows, count, size]) => send_flows(target, flows, (count, size)),
        ("receive-flows", [address]) => receive_flows(address),
        ("bare", [probes]) => bare(probes),
        ("half-line", [socket]) => half_line(socket),
        ("ping", [target, count]) => ping(target, count),
        _ => Err(format!("unknown role {role} {arguments:?}").into()),
    };
    Some(match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{role}: {error}");
            ExitCode::FAILURE
        }
    })
}

type Played = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Sends datagrams without payload.
fn send_empty(target: &str, count: &str) -> Played {
    let target: SocketAddr = target.parse()?;
    let any: SocketAddr =
        if target.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    for _ in 0..count.parse::<u32>()? {
        socket.send_to(&[], target)?;
    }
    Ok(())
}

/// Counts datagrams until none came for half a second after the first; prints datagrams and bytes.
fn count(address: &str) -> Played {
    let socket = UdpSocket::bind(address)?;
    let (mut datagrams, mut bytes) = (0_u64, 0);
    let mut buffer = vec![0; 65_536];
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                datagrams += 1;
                bytes += length;
                socket.set_read_timeout(Some(Duration::from_millis(500)))?;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error.into()),
        }
    }
    println!("{}", serde_json::json!({ "received": datagrams, "payload_bytes": bytes }));
    Ok(())
}

/// Counts datagrams and those with CE until none came for half a second after the first.
fn count_ce(address: &str) -> Played {
    let mut socket = EcnSocket::bind(address.parse()?)?;
    let (mut received, mut ce, mut silent) = (0_u64, 0_u64, 0);
    // A wait of 100 ms each: 20 s for the first, half a second once it has come.
    while silent < if received == 0 { 200 } else { 5 } {
        socket.wait(punctual_sched::Duration::from_millis(100))?;
        let before = received;
        socket.receive(|datagram| {
            received += 1;
            ce += u64::from(datagram.tos & 3 == 3);
        })?;
        silent = if received == before { silent + 1 } else { 0 };
    }
    println!("{}", serde_json::json!({ "received": received, "ce": ce }));
    Ok(())
}

/// Sends `count` numbered datagrams on each of some flows, which take turns.
fn send_flows(target: &str, flows: &str, (count, size): (&str, &str)) -> Played {
    let target: SocketAddr = target.parse()?;
    let any: SocketAddr =
        if target.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let sockets = (0..flows.parse()?).map(|_: u32| UdpSocket::bind(any));
    let sockets = sockets.collect::<io::Result<Vec<_>>>()?;
    let mut payload = vec![0; size.parse()?];
    for number in 0..count.parse::<u32>()? {
        payload[..4].copy_from_slice(&number.to_be_bytes());
        for socket in &sockets {
            socket.send_to(&payload, target)?;
        }
        sleep_until(monotonic() + punctual_sched::Duration::from_millis(2));
    }
    Ok(())
}

/// Receives what `send_flows` sends until none came for half a second after the first; prints
/// datagrams, flows, and datagrams that came after a later one of their flow.
fn receive_flows(address: &str) -> Played {
    let socket = UdpSocket::bind(address)?;
    let (mut received, mut out_of_order) = (0_u64, 0_u64);
    let mut latest = BTreeMap::new();
    let mut buffer = vec![0; 65_536];
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((_, from)) => {
                let number = u32::from_be_bytes(buffer[..4].try_into()?);
                received += 1;
                out_of_order += u64::from(latest.get(&from).is_some_and(|last| number < *last));
                latest.insert(from, number);
                socket.set_read_timeout(Some(Duration::from_millis(500)))?;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error.into()),
        }
    }
    let flows = latest.len();
    let result = serde_json::json!({
        "received": received, "flows": flows, "out_of_order": out_of_order,
    });
    println!("{result}");
    Ok(())
}

/// Sends half a change to a control socket, says so, and waits to be killed.
fn half_line(socket: &str) -> Played {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(b"{\"set\":{\"up.rate\":\"2mbit\"")?;
    println!("sent");
    io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// Sends echo requests, each after the answer to the one before; fails where one has none.
fn ping(target: &str, count: &str) -> Played {
    let target: IpAddr = target.parse()?;
    // Types: RFC 792, RFC 4443. The kernel fills in the identifier and the checksum.
    let (family, protocol, request) = if target.is_ipv4() {
        (AddressFamily::INET, ipproto::ICMP, 8)
    } else {
        (AddressFamily::INET6, ipproto::ICMPV6, 128)
    };
    let socket = rustix::net::socket(family, SocketType::DGRAM, Some(protocol))?;
    sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(20)))?;
    rustix::net::connect(&socket, &SocketAddr::new(target, 0))?;
    for number in 0..count.parse()? {
        let mut answer = [0; 64];
        rustix::net::send(&socket, &[request, 0, 0, 0, 0, 0, 0, number], SendFlags::empty())?;
        rustix::net::recv(&socket, &mut answer, RecvFlags::empty())?;
        if answer[7] != number {
            return Err(format!("{number} was answered by {answer:?}").into());
        }
    }
    eprintln!("{count} answered");
    Ok(())
}

/// Round trips in the lab without anything in the gate: prints their median in ns.
fn bare(probes: &str) -> Played {
    user::enter(&Faults::default())?;
    let lab = Lab::build(&LabConfig::default())?;
    let target = SocketAddr::from((lab.addresses().peer4, 5001));
    let server = lab.outside().within(|| EchoServer::bind(([0, 0, 0, 0], 5001).into()))??;
    let stop = AtomicBool::new(false);
    let config = RoundTripsConfig {
        target,
        run: 1,
        count: probes.parse()?,
        interval: punctual_sched::Duration::from_millis(5),
        size: 64,
        timeout: punctual_sched::Duration::from_secs(2),
    };
    let trips = std::thread::scope(|scope| {
        scope.spawn(|| server.run(punctual_sched::Duration::from_secs(60), &stop));
        let trips = lab.inside().within(|| round_trips(&config));
        stop.store(true, Ordering::Relaxed);
        trips
    })??;
    let mut times = trips.round_trips_ns;
    times.sort_unstable();
    println!("{}", times.get(times.len() / 2).ok_or("no round trip")?);
    Ok(())
}
