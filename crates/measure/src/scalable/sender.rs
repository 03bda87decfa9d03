//! The sending end.

use super::window::{ONE, Window};
use super::wire::{Acknowledgement, Counts, Datagram};
use crate::Histogram;

/// How a sender behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// Written into every datagram.
    pub run: u64,
    /// Bytes of one datagram at the IP layer, 1 or more.
    pub ip_bytes: u64,
    /// The greatest rate in bit/s at the IP layer, 1 or more.
    pub max_rate_bps: u64,
}

/// A sender of numbered datagrams that always has more to send.
///
/// # Contract
///
/// * Times are ns of one clock and never run backwards.
/// * Call [`poll_transmit`](Self::poll_transmit) until it returns `None` and send each datagram
///   with ECT(1); then wait until [`deadline_ns`](Self::deadline_ns) or an answer, which goes to
///   [`on_acknowledgement`](Self::on_acknowledgement). Then again.
/// * The deadline changes with every call.
///
/// Datagrams leave evenly spaced over a round trip; one that is late is caught up with, up to
/// [`CATCH_UP`] of them. Losses are gaps in the receiver's totals: the path is expected to keep the
/// order of the flow, as every queue here does.
#[derive(Clone, Debug)]
pub struct Sender {
    config: SenderConfig,
    window: Window,
    /// Datagrams sent: the number of the next one.
    sent: u64,
    /// The highest number answered, plus 1.
    answered: u64,
    /// What the receiver had counted at the last answer.
    counts: Counts,
    lost: u64,
    /// Marks and losses of datagrams before this number belong to a reduction already made.
    reduced_at: u64,
    round: Round,
    smoothed_ns: u64,
    /// The next datagram is due.
    next_ns: u64,
    /// Something was sent into an idle path, or answered.
    progress_ns: u64,
    reductions: u64,
    timeouts: u64,
    round_trips: Histogram,
}

/// A round trip for the averaged share: it ends when this number is answered.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    until: u64,
    counts: Counts,
}

impl Sender {
    /// Nothing sent yet; the first datagram is due at `now_ns`.
    pub fn new(config: SenderConfig, now_ns: u64) -> Self {
        Self {
            config,
            window: Window::new(),
            sent: 0,
            answered: 0,
            counts: Counts::default(),
            lost: 0,
            reduced_at: 0,
            round: Round::default(),
            smoothed_ns: FIRST_ROUND_TRIP_NS,
            next_ns: now_ns,
            progress_ns: now_ns,
            reductions: 0,
            timeouts: 0,
            round_trips: Histogram::new(),
        }
    }

    /// The next datagram, if one may leave at `now_ns`.
    pub fn poll_transmit(&mut self, now_ns: u64) -> Option<Datagram> {
        self.give_up_if_silent(now_ns);
        if self.in_flight() >= self.window.packets() || now_ns < self.next_ns {
            return None;
        }
        if self.in_flight() == 0 {
            self.progress_ns = now_ns;
        }
        let interval = self.interval_ns();
        let earliest = now_ns.saturating_sub(interval.saturating_mul(CATCH_UP));
        self.next_ns = self.next_ns.max(earliest).saturating_add(interval);
        let datagram = Datagram { run: self.config.run, seq: self.sent, sent_ns: now_ns };
        self.sent += 1;
        Some(datagram)
    }

    /// When to call [`poll_transmit`](Self::poll_transmit) again though no answer has come.
    pub fn deadline_ns(&self) -> u64 {
        let silent = self.progress_ns.saturating_add(self.patience_ns());
        if self.in_flight() >= self.window.packets() { silent } else { self.next_ns }
    }

    /// An answer came at `now_ns`. One of another run, or older than one that came before, is
    /// left out.
    pub fn on_acknowledgement(&mut self, answer: &Acknowledgement, now_ns: u64) {
        let known = answer.run == self.config.run && answer.highest < self.sent;
        if !known || answer.counts.received() <= self.counts.received() {
            return;
        }
        self.measure(answer, now_ns);
        self.progress_ns = now_ns;
        let limited = self.in_flight() * 2 + SLACK >= self.window.packets();
        self.answered = self.answered.max(answer.highest + 1);
        let marked = answer.counts.marked().saturating_sub(self.counts.marked());
        let received = answer.counts.received() - self.counts.received();
        self.counts = answer.counts;
        self.end_round(answer.highest);
        self.react(answer.highest, marked > 0);
        if limited {
            self.window.grow(received.saturating_sub(marked), self.smoothed_ns);
        }
    }

    /// What has been reached so far.
    pub fn summary(&self) -> SenderSummary {
        SenderSummary {
            sent: self.sent,
            counts: self.counts,
            lost: self.lost,
            reductions: self.reductions,
            timeouts: self.timeouts,
            window_packets: self.window.packets(),
            alpha_ppm: self.window.alpha_ppm(),
            round_trip: self.round_trips.distribution(),
        }
    }

    fn in_flight(&self) -> u64 {
        self.sent - self.answered
    }

    /// RFC 6298's smoothing, with a gain of 1/8.
    fn measure(&mut self, answer: &Acknowledgement, now_ns: u64) {
        let sample = now_ns.saturating_sub(answer.echo_ns).max(1);
        self.round_trips.record(i64::try_from(sample).unwrap_or(i64::MAX));
        let first = self.counts.received() == 0;
        let smoothed = self.smoothed_ns - self.smoothed_ns / 8;
        self.smoothed_ns = if first { sample } else { smoothed.saturating_add(sample / 8) };
    }

    fn end_round(&mut self, highest: u64) {
        if highest < self.round.until {
            return;
        }
        let before = self.round.counts;
        let received = self.counts.received() - before.received();
        self.window.observe(received, self.counts.marked() - before.marked());
        self.round = Round { until: self.sent, counts: self.counts };
    }

    /// At most one reduction per round trip, the greater of the two.
    fn react(&mut self, highest: u64, marked: bool) {
        let missing = (highest + 1).saturating_sub(self.counts.received());
        let lost = missing > self.lost;
        self.lost = self.lost.max(missing);
        if !(lost || marked) || highest < self.reduced_at {
            return;
        }
        if lost {
            self.window.lose();
        } else {
            self.window.mark();
        }
        self.reductions += 1;
        self.reduced_at = self.sent;
    }

    /// After a silence nothing is taken to be on the way any more.
    fn give_up_if_silent(&mut self, now_ns: u64) {
        let silence = now_ns.saturating_sub(self.progress_ns);
        if self.in_flight() == 0 || silence < self.patience_ns() {
            return;
        }
        self.answered = self.sent;
        self.reduced_at = self.sent;
        self.progress_ns = now_ns;
        self.window.collapse();
        self.timeouts += 1;
    }

    /// Four round trips, at least 200 ms and at most a second.
    fn patience_ns(&self) -> u64 {
        self.smoothed_ns.saturating_mul(4).clamp(200_000_000, 1_000_000_000)
    }

    /// From one datagram to the next: a round trip over the window, in slow start as much faster
    /// as the window grows; no faster than the greatest rate.
    fn interval_ns(&self) -> u64 {
        let spread =
            u128::from(self.smoothed_ns) * u128::from(ONE) / u128::from(self.window.size());
        let spread = if self.window.is_in_slow_start() { spread * 4 / 5 } else { spread };
        let rate = u128::from(self.config.max_rate_bps.max(1));
        let least = u128::from(self.config.ip_bytes) * 8_000_000_000 / rate;
        u64::try_from(spread.max(least)).unwrap_or(u64::MAX)
    }
}

/// A sender's account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderSummary {
    /// Datagrams sent.
    pub sent: u64,
    /// What the receiver has counted, as far as it has been heard.
    pub counts: Counts,
    /// The greatest number of gaps seen in the receiver's count.
    pub lost: u64,
    /// Reductions of the window.
    pub reductions: u64,
    /// Silences after which the path was taken to be empty.
    pub timeouts: u64,
    /// The window now, in datagrams.
    pub window_packets: u64,
    /// The averaged marked share now, in millionths.
    pub alpha_ppm: u64,
    /// Round trips: from just before sending to the answer.
    pub round_trip: crate::Distribution,
}

/// Datagrams that a late sender sends at once, so that lateness costs no rate and adds no queue
/// worth marking.
pub const CATCH_UP: u64 = 2;

/// Datagrams below half of the window up to which it still counts as used.
const SLACK: u64 = 4;

/// Paces the first window, before anything is known.
const FIRST_ROUND_TRIP_NS: u64 = 20_000_000;

#[cfg(test)]
mod tests;
