use std::collections::VecDeque;

use super::*;
use crate::scalable::Receiver;

const MS: u64 = 1_000_000;

const CONFIG: SenderConfig = SenderConfig { run: 1, ip_bytes: 1_500, max_rate_bps: 1_000_000_000 };

/// A sender before a bottleneck with a step marker, in virtual time.
struct Path {
    sender: Sender,
    receiver: Receiver,
    /// Nanoseconds that a packet is served.
    service: u64,
    /// Both ways together, without the queue.
    round_trip: u64,
    step: u64,
    /// Each n-th packet is lost instead of sent.
    lose_every: Option<u64>,
    now: u64,
    /// When the bottleneck is free.
    free: u64,
    /// Answers on their way back.
    back: VecDeque<(u64, Acknowledgement)>,
    sojourns: Vec<u64>,
}

impl Path {
    fn new(rate_bps: u64, round_trip: u64) -> Self {
        Self {
            sender: Sender::new(CONFIG, 0),
            receiver: Receiver::new(None),
            service: 1_500 * 8_000_000_000 / rate_bps,
            round_trip,
            step: MS,
            lose_every: None,
            now: 0,
            free: 0,
            back: VecDeque::new(),
            sojourns: Vec::new(),
        }
    }

    fn run(&mut self, until: u64) {
        while self.now < until {
            while let Some(datagram) = self.sender.poll_transmit(self.now) {
                self.send(datagram);
            }
            let answer = self.back.front().map_or(u64::MAX, |(at, _)| *at);
            self.now = self.sender.deadline_ns().min(answer).max(self.now);
            while let Some((at, answer)) = self.back.front().copied()
                && at <= self.now
            {
                self.back.pop_front();
                self.sender.on_acknowledgement(&answer, self.now);
            }
        }
    }

    fn send(&mut self, datagram: Datagram) {
        if self.lose_every.is_some_and(|every| datagram.seq % every == every - 1) {
            return;
        }
        let start = self.free.max(self.now);
        self.free = start + self.service;
        let sojourn = start - self.now;
        self.sojourns.push(sojourn);
        let tos = if sojourn > self.step { 3 } else { 1 };
        let mut payload = [0; 1_472];
        datagram.encode(&mut payload);
        let answer = self.receiver.on_datagram(&payload, tos).unwrap();
        self.back.push_back((self.free + self.round_trip, answer));
    }

    /// Packets per second from here until `until`.
    fn rate(&mut self, until: u64) -> u64 {
        let (start, before) = (self.now, self.receiver.counts().received());
        self.run(until);
        (self.receiver.counts().received() - before) * 1_000_000_000 / (self.now - start)
    }

    fn sojourn(&mut self, ppm: u64) -> u64 {
        let mut sojourns: Vec<_> =
            self.sojourns.drain(..).map(|s| i64::try_from(s).unwrap()).collect();
        sojourns.sort_unstable();
        crate::percentile::of_sorted(&sojourns, ppm).unwrap().unsigned_abs()
    }
}

#[test]
fn a_step_marker_is_filled_and_its_queue_stays_at_the_step() {
    for (rate, round_trip) in [(10_000_000, 5 * MS), (40_000_000, 20 * MS), (200_000_000, 40 * MS)]
    {
        let mut path = Path::new(rate, round_trip);
        path.run(4_000 * MS);
        path.sojourns.clear();
        let full = rate / 12_000;
        let reached = path.rate(14_000 * MS);
        assert!(reached * 100 >= full * 93, "{reached} of {full} packets/s");
        let median = path.sojourn(500_000);
        assert!(median <= MS + path.service, "median {median} ns at {rate}");
        let summary = path.sender.summary();
        assert!(summary.reductions > 5 && summary.timeouts == 0, "{summary:?}");
        assert_eq!(summary.lost, 0);
    }
}

#[test]
fn the_tail_of_the_queue_is_below_three_steps_from_the_first_packet_on() {
    let mut path = Path::new(40_000_000, 20 * MS);
    path.run(10_000 * MS);
    let tail = path.sojourn(990_000);
    assert!(tail <= 3 * MS, "{tail} ns");
}

#[test]
fn losses_halve_once_per_round_trip_and_are_counted() {
    let mut path = Path::new(1_000_000_000, 20 * MS);
    path.step = u64::MAX;
    path.lose_every = Some(100);
    path.run(5_000 * MS);
    let summary = path.sender.summary();
    let expected = summary.sent / 100;
    assert!(summary.lost.abs_diff(expected) <= 2, "{} of {expected}", summary.lost);
    assert!(summary.reductions <= 250, "{} in 250 round trips", summary.reductions);
    // Reno's window: the square root of 1.5 over the loss rate, 12 packets.
    assert!((6..=18).contains(&summary.window_packets), "{}", summary.window_packets);
}

#[test]
fn a_silent_path_is_probed_by_two_packets_and_comes_back() {
    let mut path = Path::new(40_000_000, 20 * MS);
    path.run(1_000 * MS);
    path.back.clear();
    path.lose_every = Some(1);
    path.run(3_000 * MS);
    let silent = path.sender.summary();
    assert!((2..=10).contains(&silent.timeouts), "{}", silent.timeouts);
    assert_eq!(silent.window_packets, 2);
    path.lose_every = None;
    path.run(6_000 * MS);
    assert!(path.sender.summary().window_packets > 20, "{:?}", path.sender.summary());
}

#[test]
fn no_more_than_the_greatest_rate_leaves_and_the_unused_window_stays_small() {
    let mut path = Path::new(1_000_000_000, 20 * MS);
    path.sender = Sender::new(SenderConfig { max_rate_bps: 12_000_000, ..CONFIG }, 0);
    let rate = path.rate(5_000 * MS);
    assert!((900..=1_001).contains(&rate), "{rate} packets/s");
    assert!(path.sender.summary().window_packets < 60, "{:?}", path.sender.summary());
}

#[test]
fn a_late_sender_catches_up_with_two_datagrams_only() {
    let mut sender = Sender::new(SenderConfig { max_rate_bps: 12_000_000, ..CONFIG }, 0);
    assert!(sender.poll_transmit(0).is_some());
    assert!(sender.poll_transmit(0).is_none(), "paced");
    let burst = core::iter::from_fn(|| sender.poll_transmit(20 * MS)).count();
    assert_eq!(burst, 3, "the one due and two that are late");
}

#[test]
fn foreign_and_stale_answers_are_left_out() {
    let mut sender = Sender::new(CONFIG, 0);
    sender.poll_transmit(0).unwrap();
    let counts = Counts { codepoints: [0, 1, 0, 0], bytes: 1_472 };
    let answer = Acknowledgement { run: 1, highest: 0, echo_ns: 0, counts };
    for wrong in [
        Acknowledgement { run: 2, ..answer },
        Acknowledgement { highest: 1, ..answer },
        Acknowledgement { highest: u64::MAX, ..answer },
        Acknowledgement { counts: Counts::default(), ..answer },
    ] {
        sender.on_acknowledgement(&wrong, MS);
        assert_eq!(sender.summary().counts, Counts::default(), "{wrong:?}");
    }
    sender.on_acknowledgement(&answer, MS);
    sender.on_acknowledgement(&answer, 2 * MS);
    assert_eq!(sender.summary().round_trip.n, 1);
    let hostile = Counts { codepoints: [u64::MAX; 4], bytes: u64::MAX };
    sender.on_acknowledgement(&Acknowledgement { counts: hostile, ..answer }, u64::MAX);
    assert!(sender.summary().window_packets >= 2);
}
