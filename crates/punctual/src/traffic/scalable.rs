//! `traffic udp-scalable` and `udp-scalable-receive`: the scalable sender on real sockets.

use std::net::SocketAddr;
use std::num::NonZeroU64;

use anyhow::{Context, ensure};
use clap::Args;
use punctual_linux::clock::monotonic;
use punctual_linux::traffic::EcnSocket;
use punctual_linux::wait::tighten_timers;
use punctual_measure::scalable::{
    Acknowledgement, Counts, Datagram, Receiver, Sender, SenderConfig, SenderSummary,
};
use punctual_sched::{Duration, Ecn, Instant, Rate};
use serde_json::{Value, json};

/// Options of `udp-scalable`.
#[derive(Args, Clone, Debug)]
pub struct UdpScalable {
    /// An `udp-scalable-receive`, as ADDRESS:PORT.
    target: SocketAddr,
    /// Send for this long.
    #[arg(long, default_value = "10s")]
    duration: Duration,
    /// Never faster than this, in bits per second of IP packets.
    #[arg(long, default_value = "1gbit")]
    rate: Rate,
    /// UDP payload in bytes, 32 to 65507.
    #[arg(long, default_value_t = 1_472)]
    size: usize,
    /// Written into every datagram; a receiver takes one run only.
    #[arg(long, default_value_t = 1)]
    run: u64,
}

impl UdpScalable {
    pub(super) fn run(&self) -> anyhow::Result<Value> {
        ensure!(
            (Datagram::BYTES..=65_507).contains(&self.size),
            "--size {}: expected 32 to 65507 bytes of UDP payload",
            self.size
        );
        let rate = NonZeroU64::new(self.rate.as_bps())
            .context("--rate 0 never sends anything: expected 1 bit/s or more")?;
        let headers = if self.target.is_ipv4() { 28 } else { 48 };
        let ip_bytes = self.size as u64 + headers;
        let config = SenderConfig { run: self.run, ip_bytes, max_rate_bps: rate.get() };
        let socket = EcnSocket::connect(self.target, Ecn::Ect1 as u8)?;
        let _ = tighten_timers(); // Later wake-ups are caught up with.
        let start = monotonic();
        let sender = Sender::new(config, start.as_nanos());
        let mut sending = Sending { socket, sender, payload: vec![0; self.size], refused: 0 };
        let end = start + self.duration;
        sending.run(end)?;
        Ok(describe(&sending.sender.summary(), sending.refused, end.since(start), self.size))
    }
}

/// A sender at work.
struct Sending {
    socket: EcnSocket,
    sender: Sender,
    payload: Vec<u8>,
    /// Datagrams that the kernel did not take: lost, for the sender.
    refused: u64,
}

impl Sending {
    fn run(&mut self, end: Instant) -> anyhow::Result<()> {
        loop {
            let now = monotonic();
            if now >= end {
                break;
            }
            while let Some(datagram) = self.sender.poll_transmit(monotonic().as_nanos()) {
                datagram.encode(&mut self.payload);
                self.refused += u64::from(!self.socket.send(&self.payload)?);
            }
            let due = Instant::from_nanos(self.sender.deadline_ns()).min(end);
            self.socket.wait(due.since(monotonic()))?;
            self.take_answers()?;
        }
        // What is on the way back still counts.
        let last = end + LAST_ANSWERS;
        while monotonic() < last {
            self.socket.wait(last.since(monotonic()))?;
            self.take_answers()?;
        }
        Ok(())
    }

    fn take_answers(&mut self) -> anyhow::Result<()> {
        let sender = &mut self.sender;
        self.socket.receive(|datagram| {
            if let Some(answer) = Acknowledgement::decode(datagram.payload) {
                sender.on_acknowledgement(&answer, monotonic().as_nanos());
            }
        })?;
        Ok(())
    }
}

fn describe(summary: &SenderSummary, refused: u64, span: Duration, size: usize) -> Value {
    let received = summary.counts.received();
    let bits = u128::from(summary.counts.bytes) * 8_000_000_000;
    let bps = bits.checked_div(u128::from(span.as_nanos())).and_then(|bps| u64::try_from(bps).ok());
    json!({
        "sent": summary.sent,
        "refused": refused,
        "acknowledged": received,
        "acknowledged_bytes": summary.counts.bytes,
        "payload_bytes": size,
        "payload_bps": bps,
        "codepoints": codepoints(&summary.counts),
        "marked": summary.counts.marked(),
        "marked_ppm": share_ppm(summary.counts.marked(), received),
        "lost": summary.lost,
        "reductions": summary.reductions,
        "timeouts": summary.timeouts,
        "window_packets": summary.window_packets,
        "alpha_ppm": summary.alpha_ppm,
        "span_ns": span.as_nanos(),
        "round_trip": summary.round_trip,
    })
}

/// Options of `udp-scalable-receive`.
#[derive(Args, Clone, Debug)]
pub struct UdpScalableReceive {
    /// Where to listen, as ADDRESS:PORT.
    pub(super) address: SocketAddr,
    /// Take this run only; else the one first seen.
    #[arg(long)]
    run: Option<u64>,
    /// End after this time, whatever came.
    #[arg(long, default_value = "60s")]
    duration: Duration,
    /// End when, after the first datagram, nothing came for this long.
    #[arg(long)]
    idle: Option<Duration>,
}

impl UdpScalableReceive {
    pub(super) fn run(&self, mut socket: EcnSocket) -> anyhow::Result<Value> {
        let mut receiver = Receiver::new(self.run);
        let end = monotonic() + self.duration;
        let mut quiet = end;
        let mut unanswered = 0_u64;
        let mut answers = Vec::new();
        while monotonic() < quiet {
            socket.wait(quiet.since(monotonic()))?;
            socket.receive(|datagram| {
                let answer = receiver.on_datagram(datagram.payload, datagram.tos);
                answers.extend(answer.zip(datagram.source));
            })?;
            if let Some(idle) = self.idle.filter(|_| !answers.is_empty()) {
                quiet = end.min(monotonic() + idle);
            }
            for (answer, source) in answers.drain(..) {
                unanswered += u64::from(!socket.send_to(&answer.encode(), source)?);
            }
        }
        let counts = receiver.counts();
        Ok(json!({
            "run": receiver.run(),
            "received": counts.received(),
            "payload_bytes": counts.bytes,
            "codepoints": codepoints(&counts),
            "marked_ppm": share_ppm(counts.marked(), counts.received()),
            "foreign": receiver.foreign(),
            "unanswered": unanswered,
        }))
    }
}

fn codepoints(counts: &Counts) -> Value {
    let [not_ect, ect1, ect0, ce] = counts.codepoints;
    json!({ "not_ect": not_ect, "ect1": ect1, "ect0": ect0, "ce": ce })
}

/// Null for nothing.
fn share_ppm(part: u64, whole: u64) -> Option<u64> {
    u64::try_from((u128::from(part) * 1_000_000).checked_div(u128::from(whole))?).ok()
}

/// How long after its end a sender listens.
const LAST_ANSWERS: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use std::thread;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    enum Line {
        UdpScalable(UdpScalable),
        UdpScalableReceive(UdpScalableReceive),
    }

    fn sender(line: &str) -> UdpScalable {
        match Line::try_parse_from(["traffic"].into_iter().chain(line.split(' '))) {
            Ok(Line::UdpScalable(options)) => options,
            _ => panic!("{line}"),
        }
    }

    fn receiver(line: &str) -> UdpScalableReceive {
        match Line::try_parse_from(["traffic"].into_iter().chain(line.split(' '))) {
            Ok(Line::UdpScalableReceive(options)) => options,
            _ => panic!("{line}"),
        }
    }

    #[test]
    fn everything_arrives_as_ect1_over_both_families_and_both_ends_agree() {
        for (address, size) in [("127.0.0.1:0", 1_472), ("[::1]:0", 1_452)] {
            let socket = EcnSocket::bind(address.parse().unwrap()).unwrap();
            let target = socket.local_addr().unwrap();
            let options =
                receiver(&format!("udp-scalable-receive {target} --duration 20s --idle 300ms"));
            let receiving = thread::spawn(move || options.run(socket).unwrap());
            let line = format!(
                "udp-scalable {target} --duration 400ms --rate 12mbit --size {size} --run 5"
            );
            let sent = sender(&line).run().unwrap();
            let received = receiving.join().unwrap();
            let count = sent["acknowledged"].as_u64().unwrap();
            // 1,000 packets/s: a machine that keeps the thread from running may cost many of them.
            assert!((20..=402).contains(&count), "{sent}");
            assert_eq!(received["run"], 5);
            assert_eq!(received["received"], sent["sent"], "{sent}");
            assert_eq!(sent["codepoints"], received["codepoints"]);
            assert_eq!(sent["codepoints"]["ect1"], sent["sent"], "no router is on this path");
            assert_eq!((&sent["marked_ppm"], &sent["lost"]), (&json!(0), &json!(0)));
            assert_eq!(sent["acknowledged_bytes"], count * size);
            assert!(sent["round_trip"]["p50_ns"].as_i64() > Some(0), "{sent}");
        }
    }

    #[test]
    fn nobody_listening_ends_in_time_outs_and_nulls() {
        let closed = EcnSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let target = closed.local_addr().unwrap();
        drop(closed);
        let sent = sender(&format!("udp-scalable {target} --duration 500ms")).run().unwrap();
        assert!(sent["timeouts"].as_u64() >= Some(1), "{sent}");
        assert!(sent["marked_ppm"].is_null() && sent["round_trip"]["p50_ns"].is_null(), "{sent}");
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for (options, problem) in [
            ("--size 31", "--size 31: expected 32 to 65507 bytes of UDP payload"),
            ("--rate 0", "--rate 0 never sends anything: expected 1 bit/s or more"),
        ] {
            let error = sender(&format!("udp-scalable 127.0.0.1:9 {options}")).run().unwrap_err();
            assert_eq!(error.to_string(), problem);
        }
    }
}
