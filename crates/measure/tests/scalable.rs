//! The scalable sender beside a Cubic one before the real `dualpi2`, in virtual time.
#![expect(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use punctual_measure::percentile::of_sorted;
use punctual_measure::scalable::{Acknowledgement, Datagram, Receiver, Sender, SenderConfig};
use punctual_sched::{Ecn, Instant, Link, LinkConfig, Mark, Output, Packet};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// The default step.
const STEP: i64 = 1_000_000;
/// The way back.
const BACK: u64 = 10 * MS;
const LEN: u32 = 1_500;

/// 40 Mbit/s and 20 ms, one flow of each kind: each gets at least half of what the other gets, and
/// packets of the scalable one wait about as long as the step allows.
#[test]
fn a_scalable_and_a_cubic_flow_share_a_link_and_the_scalable_ones_packets_hardly_wait() {
    for seed in 0..5 {
        let mut bench = Bench::new(seed, true);
        bench.run(30 * SECOND);
        let [scalable, cubic] = bench.carried;
        assert!(scalable < 2 * cubic && cubic < 2 * scalable, "{scalable} and {cubic} packets");
        assert!((scalable + cubic) * 100 >= 93 * 30 * 40_000_000 / 12_112, "of the link's rate");
        let (median, tail) = bench.sojourns();
        assert!(median <= STEP, "median {median} ns");
        assert!(tail <= 3 * STEP, "99th percentile {tail} ns");
    }
}

#[test]
fn alone_it_fills_the_link_and_its_queue_stays_at_the_step() {
    let mut bench = Bench::new(1, false);
    bench.run(10 * SECOND);
    let (median, tail) = bench.sojourns();
    assert!(bench.carried[0] * 100 >= 93 * 10 * 40_000_000 / 12_112, "{:?}", bench.carried);
    assert!(median <= STEP && tail <= 3 * STEP, "{median} {tail}");
}

/// Two senders, a link, and what is on its way back.
struct Bench {
    link: Link,
    sender: Sender,
    receiver: Receiver,
    cubic: Option<Cubic>,
    agenda: BinaryHeap<Reverse<(u64, u64, Event)>>,
    events: u64,
    now: u64,
    /// Packets delivered of each flow.
    carried: [u64; 2],
    waits: Vec<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Index into the answers.
    Answer(usize),
    Delivered(u64),
    Lost(u64),
}

impl Bench {
    fn new(seed: u64, cubic: bool) -> Self {
        let text = "rate=40mbit delay=10ms queue=dualpi2";
        let config = LinkConfig::parse(text, "test").unwrap();
        let sending = SenderConfig { run: 1, ip_bytes: LEN.into(), max_rate_bps: 1_000_000_000 };
        Self {
            link: Link::new(&config, seed, Instant::ZERO).unwrap(),
            sender: Sender::new(sending, 0),
            receiver: Receiver::new(None),
            cubic: cubic.then(Cubic::default),
            agenda: BinaryHeap::new(),
            events: 0,
            now: 0,
            carried: [0; 2],
            waits: Vec::new(),
        }
    }

    fn run(&mut self, until: u64) {
        let mut answers = Vec::new();
        while self.now < until {
            self.send();
            let link = self.link.next_event().map(|deadline| deadline.at.as_nanos());
            let event = self.agenda.peek().map(|Reverse((at, _, _))| *at);
            let next = [link, event, Some(self.sender.deadline_ns())].into_iter().flatten().min();
            self.now = next.unwrap().max(self.now);
            self.link.advance(Instant::from_nanos(self.now));
            self.settle(&mut answers);
            while let Some(Reverse((at, _, event))) = self.agenda.peek().copied()
                && at <= self.now
            {
                self.agenda.pop();
                self.take(event, &answers);
            }
        }
    }

    fn send(&mut self) {
        let arrival = Instant::from_nanos(self.now);
        while let Some(datagram) = self.sender.poll_transmit(self.now) {
            let packet = Packet::on_path(datagram.seq << 32, arrival, LEN, 0);
            self.link.arrive(Packet { ecn: Ecn::Ect1, ..packet });
        }
        while let Some(number) = self.cubic.as_mut().and_then(Cubic::send) {
            self.link.arrive(Packet::on_path(number << 32 | 1, arrival, LEN, 1));
        }
    }

    fn settle(&mut self, answers: &mut Vec<Acknowledgement>) {
        while let Some(output) = self.link.poll() {
            match output {
                Output::Depart { packet, due, mark, stages, .. } => {
                    let at = due.as_nanos() + BACK;
                    if packet.flow == 1 {
                        self.carried[1] += 1;
                        self.put(at, Event::Delivered(packet.handle >> 32));
                        continue;
                    }
                    self.carried[0] += 1;
                    self.waits.push(i64::try_from(stages.queue.as_nanos()).unwrap());
                    let sent_ns = packet.arrival.as_nanos();
                    let mut payload = [0; 1_472];
                    Datagram { run: 1, seq: packet.handle >> 32, sent_ns }.encode(&mut payload);
                    let tos = if mark == Mark::Ce { 3 } else { 1 };
                    answers.push(self.receiver.on_datagram(&payload, tos).unwrap());
                    self.put(at, Event::Answer(answers.len() - 1));
                }
                // Known by the answers to the packets behind it.
                Output::Drop { packet, at, .. } if packet.flow == 1 => {
                    self.put(at.as_nanos() + 2 * BACK, Event::Lost(packet.handle >> 32));
                }
                Output::Drop { .. } => {}
            }
        }
    }

    fn take(&mut self, event: Event, answers: &[Acknowledgement]) {
        match (event, &mut self.cubic) {
            (Event::Answer(index), _) => {
                self.sender.on_acknowledgement(&answers[index], self.now);
            }
            (Event::Delivered(_), Some(cubic)) => cubic.on_delivered(self.now),
            (Event::Lost(number), Some(cubic)) => cubic.on_lost(number),
            (_, None) => {}
        }
    }

    fn put(&mut self, at: u64, event: Event) {
        self.agenda.push(Reverse((at, self.events, event)));
        self.events += 1;
    }

    /// Median and 99th percentile of the scalable packets' wait.
    fn sojourns(&mut self) -> (i64, i64) {
        self.waits.sort_unstable();
        let at = |ppm| of_sorted(&self.waits, ppm).unwrap();
        (at(500_000), at(990_000))
    }
}

/// CUBIC's window (RFC 9438), without ECN: C = 0.4, beta = 0.7, and Reno's window where that is
/// greater. A round trip is taken as 35 ms: 20 ms and the classic queue's target.
#[derive(Debug)]
struct Cubic {
    window: f64,
    slow_start_until: f64,
    greatest: f64,
    epoch: Option<u64>,
    in_flight: u64,
    sent: u64,
    recovered_at: u64,
}

impl Default for Cubic {
    fn default() -> Self {
        Self {
            window: 10.0,
            slow_start_until: f64::INFINITY,
            greatest: 0.0,
            epoch: None,
            in_flight: 0,
            sent: 0,
            recovered_at: 0,
        }
    }
}

impl Cubic {
    #[expect(clippy::cast_precision_loss, reason = "a window of less than 2^52")]
    fn send(&mut self) -> Option<u64> {
        if self.in_flight as f64 + 1.0 > self.window {
            return None;
        }
        self.in_flight += 1;
        self.sent += 1;
        Some(self.sent - 1)
    }

    #[expect(clippy::cast_precision_loss, reason = "30 s are less than 2^52 ns")]
    fn on_delivered(&mut self, now: u64) {
        self.in_flight -= 1;
        if self.window < self.slow_start_until {
            self.window += 1.0;
            return;
        }
        let epoch = *self.epoch.get_or_insert(now);
        let (since, round_trip) = ((now - epoch) as f64 / 1e9, 0.035);
        let inflection = (self.greatest * 0.3 / 0.4).cbrt();
        let cubic = 0.4 * (since + round_trip - inflection).powi(3) + self.greatest;
        let reno = self.greatest * 0.7 + 0.53 * since / round_trip;
        let target = cubic.max(reno).min(self.window * 1.5);
        self.window += ((target - self.window) / self.window).max(0.0);
    }

    fn on_lost(&mut self, number: u64) {
        self.in_flight -= 1;
        if number < self.recovered_at {
            return;
        }
        self.greatest = self.window;
        self.window = (self.window * 0.7).max(2.0);
        self.slow_start_until = self.window;
        self.epoch = None;
        self.recovered_at = self.sent;
    }
}
