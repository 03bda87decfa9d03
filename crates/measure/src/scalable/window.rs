//! A scalable congestion window, as Prague and DCTCP keep it.

/// Packets that may be on the way, in 2^-16.
///
/// * Slow start: a quarter more per round trip, up to the first mark or loss. What is sent in
///   the round trip before a mark is heard of overshoots by as much.
/// * Then one packet more per round trip, for packets without a mark; below 25 ms less, by the
///   square of the round trip, so that a path's shortness gains no rate (RFC 9331, section 4.3, asks
///   for it; 25 ms as in Linux' TCP Prague).
/// * A mark takes half of the averaged marked share off, once per round trip (RFC 8257, section
///   3.3; RFC 9331, section 4.3, asks for this scaling). The average has a gain of 1/16 per round
///   trip.
/// * A loss halves the window, once per round trip (RFC 9331, section 4.3, item 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    size: u64,
    slow_start: bool,
    /// The averaged marked share, in 2^-16.
    alpha: u64,
}

impl Window {
    /// Ten packets (RFC 6928). The share starts at 1, so that the first mark halves.
    pub fn new() -> Self {
        Self { size: 10 * ONE, slow_start: true, alpha: ONE }
    }

    /// Whole packets.
    pub fn packets(&self) -> u64 {
        self.size / ONE
    }

    /// In 2^-16 packets.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The averaged marked share in millionths.
    pub fn alpha_ppm(&self) -> u64 {
        self.alpha * 1_000_000 / ONE
    }

    /// Whether no congestion has been met yet.
    pub fn is_in_slow_start(&self) -> bool {
        self.slow_start
    }

    /// `packets` arrived without a mark while the window limited the sender; round trips take
    /// `round_trip_ns`.
    pub fn grow(&mut self, packets: u64, round_trip_ns: u64) {
        let more =
            if self.slow_start { ONE / 4 } else { increase(round_trip_ns) * ONE / self.size };
        self.size = self.size.saturating_add(more.saturating_mul(packets)).min(GREATEST);
    }

    /// A round trip is over in which `marked` of `received` packets carried a mark.
    pub fn observe(&mut self, received: u64, marked: u64) {
        if let Some(share) = (marked.min(received) * ONE).checked_div(received) {
            self.alpha = self.alpha - self.alpha / 16 + share / 16;
        }
    }

    /// The first mark of a round trip.
    pub fn mark(&mut self) {
        self.reduce(self.size * self.alpha / ONE / 2);
    }

    /// The first loss of a round trip.
    pub fn lose(&mut self) {
        self.reduce(self.size / 2);
    }

    /// Nothing came back for a long time.
    pub fn collapse(&mut self) {
        self.reduce(self.size);
    }

    fn reduce(&mut self, by: u64) {
        self.size = (self.size - by).max(LEAST);
        self.slow_start = false;
    }
}

/// How much is added per round trip, in 2^-16 packets: at least one of these.
fn increase(round_trip_ns: u64) -> u64 {
    // Microseconds: 25,000 squared times 2^16 stays below 2^64.
    let share = (round_trip_ns / 1_000).min(EQUAL_FROM_US);
    (share * share * ONE / (EQUAL_FROM_US * EQUAL_FROM_US)).max(1)
}

impl Default for Window {
    fn default() -> Self {
        Self::new()
    }
}

/// One packet, and a share of 1.
pub(super) const ONE: u64 = 1 << 16;
/// Two packets, so that one is on the way while the other is answered.
const LEAST: u64 = 2 * ONE;
/// Round trips from here on are not evened out.
const EQUAL_FROM_US: u64 = 25_000;
/// 16,384 full packets: 100 ms at 2 Gbit/s.
const GREATEST: u64 = 16_384 * ONE;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_steady_share_of_marks_is_learnt_and_taken_by_half() {
        let mut window = Window::new();
        for _ in 0..200 {
            window.observe(100, 10);
        }
        assert!((99_000..=100_100).contains(&window.alpha_ppm()), "{}", window.alpha_ppm());
        let before = window.size();
        window.mark();
        let taken = before - window.size();
        assert!(taken.abs_diff(before / 20) < before / 1_000, "{taken} of {before}");
    }

    #[test]
    fn the_first_mark_and_each_loss_halve_down_to_two_packets() {
        let mut window = Window::new();
        window.mark();
        assert_eq!((window.packets(), window.is_in_slow_start()), (5, false));
        for expected in [2, 2, 2] {
            window.lose();
            assert_eq!(window.packets(), expected);
        }
    }

    #[test]
    fn a_window_grows_by_a_quarter_and_then_by_a_packet_per_round_trip() {
        let mut window = Window::new();
        window.grow(8, 25 * MS);
        assert_eq!(window.packets(), 12);
        window.lose();
        let before = window.size();
        window.grow(window.packets(), 100 * MS);
        assert!((window.size() - before).abs_diff(ONE) < ONE / 10, "{before} {window:?}");
        let before = window.size();
        window.grow(window.packets(), 5 * MS);
        assert!((window.size() - before).abs_diff(ONE / 25) < ONE / 100, "{before} {window:?}");
        for _ in 0..100_000 {
            window.grow(u64::from(u32::MAX), u64::MAX);
        }
        assert_eq!(window.packets(), 16_384);
    }
}
