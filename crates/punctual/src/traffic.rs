//! `punctual traffic`: the bundled load, for tests, benches and the demonstration. Hidden from help.
//!
//! Each command prints its result as one line of JSON: integers with their unit in the key, null
//! where there is nothing to say.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use clap::{Args, Subcommand};
use punctual_linux::traffic::{
    Arrival, Arrivals, EchoServer, EcnSocket, Pace, RoundTripsConfig, Summary, TcpReceiveConfig,
    TcpReceiver, TcpSendConfig, TcpTransferred, UdpReceiveConfig, UdpReceiver, UdpSendConfig,
    round_trips, send_tcp, send_udp,
};
use punctual_measure::Distribution;
use punctual_measure::spacing::{self, Received};
use punctual_sched::{Duration, Rate};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::print;

mod scalable;

pub use scalable::{UdpScalable, UdpScalableReceive};

/// Bundled traffic: paced senders that sleep, receivers with kernel stamps.
#[derive(Subcommand, Clone, Debug)]
pub enum TrafficCommand {
    /// Send numbered UDP datagrams at a steady pace.
    UdpSend(UdpSend),
    /// Receive them with the kernel's stamps.
    UdpReceive(UdpReceive),
    /// Send ECT(1) datagrams at the rate that congestion marks allow (L4S).
    UdpScalable(UdpScalable),
    /// Count them by ECN codepoint and answer each.
    UdpScalableReceive(UdpScalableReceive),
    /// Send as much as one TCP connection takes.
    TcpSend(TcpSend),
    /// Accept one TCP connection and count what comes.
    TcpReceive(TcpReceive),
    /// Send every UDP datagram back to where it came from.
    Echo(Echo),
    /// Measure round trips to an echo, asleep in between.
    Rtt(Rtt),
}

/// Runs one command to its end and prints its result.
pub fn run(command: &TrafficCommand) -> Result<(), Failure> {
    let result = match command {
        TrafficCommand::UdpSend(options) => options.run()?,
        TrafficCommand::UdpReceive(options) => options.run(UdpReceiver::bind(options.address)?)?,
        TrafficCommand::UdpScalable(options) => options.run()?,
        TrafficCommand::UdpScalableReceive(options) => {
            options.run(EcnSocket::bind(options.address)?)?
        }
        TrafficCommand::TcpSend(options) => options.run()?,
        TrafficCommand::TcpReceive(options) => options.run(TcpReceiver::bind(options.address)?)?,
        TrafficCommand::Echo(options) => options.run(EchoServer::bind(options.address)?)?,
        TrafficCommand::Rtt(options) => options.run()?,
    };
    print(format!("{result}\n"))
}

/// Options of `udp-send`.
#[derive(Args, Clone, Debug)]
pub struct UdpSend {
    /// Where to, as ADDRESS:PORT.
    target: SocketAddr,
    #[command(flatten)]
    pace: PaceOptions,
    /// UDP payload in bytes, 40 to 65507.
    #[arg(long, default_value_t = 1_400)]
    size: usize,
    /// End after this many datagrams.
    #[arg(long)]
    count: Option<u64>,
    /// End after this time.
    #[arg(long)]
    duration: Option<Duration>,
    /// Written into every datagram; a receiver takes one run only.
    #[arg(long, default_value_t = 1)]
    run: u64,
    /// Datagrams per burst handed to the kernel at once.
    #[arg(long, default_value_t = 1)]
    gso_segments: u16,
    /// Type of service byte or traffic class: DSCP << 2 | ECN; 1 = ECT(1), 2 = ECT(0).
    #[arg(long, default_value_t = 0)]
    tos: u8,
}

/// How fast, one of three.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
struct PaceOptions {
    /// Bits per second of IP packets, as `20mbit`.
    #[arg(long)]
    rate: Option<Rate>,
    /// Packets per second.
    #[arg(long)]
    packets: Option<NonZeroU64>,
    /// As fast as the socket takes them.
    #[arg(long)]
    unpaced: bool,
}

impl PaceOptions {
    fn pace(&self) -> anyhow::Result<Pace> {
        if let Some(packets) = self.packets {
            return Ok(Pace::Packets(packets));
        }
        match self.rate {
            None | Some(Rate::UNLIMITED) => Ok(Pace::Unpaced),
            Some(rate) => NonZeroU64::new(rate.as_bps())
                .map(Pace::Bits)
                .context("--rate 0 never sends anything: expected 1 bit/s or more"),
        }
    }
}

impl UdpSend {
    fn run(&self) -> anyhow::Result<Value> {
        let sent = send_udp(&UdpSendConfig {
            target: self.target,
            run: self.run,
            size: self.size,
            pace: self.pace.pace()?,
            count: self.count,
            duration: self.duration,
            gso_segments: self.gso_segments,
            tos: self.tos,
        })?;
        Ok(json!({
            "planned": sent.planned,
            "sent": sent.sent,
            "payload_bytes": sent.bytes,
            "refused": sent.refused,
            "full": sent.full,
            "late": sent.late,
            "max_late_ns": sent.max_late_ns,
            "sleeps": sent.sleeps,
            "first_ns": sent.first.as_nanos(),
            "last_ns": sent.last.as_nanos(),
        }))
    }
}

/// Options of `udp-receive`.
#[derive(Args, Clone, Debug)]
pub struct UdpReceive {
    /// Where to listen, as ADDRESS:PORT.
    address: SocketAddr,
    /// Take this run only; else the one first seen.
    #[arg(long)]
    run: Option<u64>,
    /// End after this many datagrams.
    #[arg(long)]
    count: Option<u64>,
    /// End after this time, whatever came.
    #[arg(long, default_value = "60s")]
    duration: Duration,
    /// End when, after the first datagram, nothing came for this long.
    #[arg(long)]
    idle: Option<Duration>,
    /// Rate of the saturated link in front, for the spacing error.
    #[arg(long)]
    link_rate: Option<Rate>,
    /// Bytes the link counts beyond each IP packet.
    #[arg(long, default_value_t = 14)]
    framing: u64,
}

impl UdpReceive {
    fn run(&self, receiver: UdpReceiver) -> anyhow::Result<Value> {
        let arrivals = receiver.run(&UdpReceiveConfig {
            run: self.run,
            count: self.count,
            duration: self.duration,
            idle: self.idle,
        })?;
        Ok(self.describe(&arrivals))
    }

    fn describe(&self, arrivals: &Arrivals) -> Value {
        let list = &arrivals.list;
        let summary = Summary::of(list);
        let headers = if self.address.is_ipv4() { 28 } else { 48 };
        let mut gaps = Summary::spacings(list);
        let mut delays: Vec<i64> = list.iter().map(one_way_delay_ns).collect();
        let spacing = self.link_rate.map(|rate| {
            let frame = |arrival: &Arrival| Received {
                stamp_ns: arrival.stamp_ns,
                frame_bytes: u64::from(arrival.length) + headers + self.framing,
            };
            spacing::of(&list.iter().map(frame).collect::<Vec<_>>(), rate.as_bps())
        });
        let stamp = |stamp: i64| (summary.received > 0).then_some(stamp);
        json!({
            "run": arrivals.run,
            "received": summary.received,
            "payload_bytes": summary.bytes,
            "missing": summary.missing,
            "duplicates": summary.duplicates,
            "reordered": summary.reordered,
            "foreign": arrivals.foreign,
            "unstamped": arrivals.unstamped,
            "unlisted": arrivals.unlisted,
            "lost_in_socket": arrivals.lost_in_socket,
            "buffer_bytes": arrivals.buffer_bytes,
            "first_ns": stamp(summary.first_ns),
            "last_ns": stamp(summary.last_ns),
            "ip_bps": summary.rate_bps(headers),
            "frame_bps": summary.rate_bps(headers + self.framing),
            "one_way_delay": Distribution::from_samples(&mut delays),
            "gaps": Distribution::from_samples(&mut gaps),
            "spacing": spacing,
        })
    }
}

/// From the sender's clock to the kernel's stamp: right where both are of one machine.
fn one_way_delay_ns(arrival: &Arrival) -> i64 {
    let received = arrival.stamp_ns.saturating_sub(arrival.offset_ns);
    received.saturating_sub(i64::try_from(arrival.sent.as_nanos()).unwrap_or(i64::MAX))
}

/// Options of `tcp-send`.
#[derive(Args, Clone, Debug)]
pub struct TcpSend {
    /// Where to, as ADDRESS:PORT.
    target: SocketAddr,
    /// Write for this long.
    #[arg(long, default_value = "5s")]
    duration: Duration,
    /// Congestion control by the kernel's name.
    #[arg(long)]
    congestion: Option<String>,
    /// Wait this long for the connection, and at the end for the peer to have read everything.
    #[arg(long, default_value = "10s")]
    patience: Duration,
}

impl TcpSend {
    fn run(&self) -> anyhow::Result<Value> {
        let sent = send_tcp(&TcpSendConfig {
            target: self.target,
            duration: self.duration,
            congestion: self.congestion.clone(),
            patience: self.patience,
        })?;
        Ok(describe_tcp(&sent))
    }
}

/// Options of `tcp-receive`.
#[derive(Args, Clone, Debug)]
pub struct TcpReceive {
    /// Where to listen, as ADDRESS:PORT.
    address: SocketAddr,
    /// End this long after the connection.
    #[arg(long, default_value = "60s")]
    duration: Duration,
    /// Wait this long for the connection.
    #[arg(long, default_value = "60s")]
    patience: Duration,
}

impl TcpReceive {
    fn run(&self, receiver: TcpReceiver) -> anyhow::Result<Value> {
        let (patience, duration) = (self.patience, self.duration);
        Ok(describe_tcp(&receiver.run(&TcpReceiveConfig { patience, duration })?))
    }
}

fn describe_tcp(transferred: &TcpTransferred) -> Value {
    let nanos = u128::from(transferred.span_ns);
    let bps = (u128::from(transferred.bytes) * 8_000_000_000).checked_div(nanos);
    json!({
        "bytes": transferred.bytes,
        "span_ns": transferred.span_ns,
        "bps": bps.and_then(|bps| u64::try_from(bps).ok()),
        "intervals_bytes": transferred.intervals,
        "interval_ns": punctual_linux::traffic::INTERVAL.as_nanos(),
        "congestion": transferred.congestion,
        "finished": transferred.finished,
    })
}

/// Options of `echo`.
#[derive(Args, Clone, Debug)]
pub struct Echo {
    /// Where to listen, as ADDRESS:PORT.
    address: SocketAddr,
    /// End after this time.
    #[arg(long, default_value = "60s")]
    duration: Duration,
}

impl Echo {
    fn run(&self, server: EchoServer) -> anyhow::Result<Value> {
        let echoed = server.run(self.duration, &AtomicBool::new(false))?;
        Ok(json!({ "received": echoed.received, "sent": echoed.sent }))
    }
}

/// Options of `rtt`.
#[derive(Args, Clone, Debug)]
pub struct Rtt {
    /// An echo, as ADDRESS:PORT.
    target: SocketAddr,
    /// Probes to send.
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// From one probe to the next.
    #[arg(long, default_value = "10ms")]
    interval: Duration,
    /// UDP payload in bytes, 40 to 65507.
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// Wait this long for an echo.
    #[arg(long, default_value = "2s")]
    timeout: Duration,
    /// Written into every datagram.
    #[arg(long, default_value_t = 1)]
    run: u64,
}

impl Rtt {
    fn run(&self) -> anyhow::Result<Value> {
        let trips = round_trips(&RoundTripsConfig {
            target: self.target,
            run: self.run,
            count: self.count,
            interval: self.interval,
            size: self.size,
            timeout: self.timeout,
        })?;
        let times = trips.round_trips_ns.iter();
        let mut times: Vec<i64> =
            times.map(|&time| i64::try_from(time).unwrap_or(i64::MAX)).collect();
        Ok(json!({
            "sent": trips.sent,
            "answered": times.len(),
            "unanswered": trips.unanswered,
            "too_late": trips.too_late,
            "refused": trips.refused,
            "round_trip": Distribution::from_samples(&mut times),
        }))
    }
}

#[cfg(test)]
mod tests;
