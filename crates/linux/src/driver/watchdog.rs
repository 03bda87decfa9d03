//! When to sleep, when to spin, and for how long: pure decisions.

use punctual_sched::{Duration, Instant};

use super::means::Precision;

/// Learns how late this machine's timers wake us, and plans each wait so that the last stretch
/// before a deadline is spun, not slept.
#[derive(Debug)]
pub struct Watchdog {
    style: Style,
    margin: Duration,
    window_start: Instant,
    spun: Duration,
}

/// How a thread may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Sleeps to the deadline.
    Sleep,
    /// Sleeps to a learnt margin before it, then spins. `budget`: spins at most half of any
    /// window, because the kernel stops a real-time thread that uses its share up (sched(7),
    /// `sched_rt_runtime_us`).
    Margin {
        /// Whether the thread runs at a real-time policy.
        budget: bool,
    },
    /// Never sleeps.
    Poll,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Sleep until this time (`None`: until a packet comes), unless a packet comes.
    Sleep(Option<Instant>),
    /// Spin to the deadline, looking for packets.
    Spin(Option<Instant>),
    /// The deadline has passed.
    Now,
}

impl Style {
    /// The best style for `precision` on `processors`, with what was granted. With one
    /// processor nothing spins: whoever would send the next packet could not run.
    pub fn choose(
        precision: Precision,
        realtime: bool,
        idle_held: bool,
        processors: usize,
    ) -> Self {
        match precision {
            _ if processors < 2 => Self::Sleep,
            Precision::Eco => Self::Sleep,
            Precision::Strict if !idle_held => Self::Poll,
            Precision::Balanced | Precision::Strict => Self::Margin { budget: realtime },
        }
    }
}

impl Watchdog {
    /// Starts with the median lateness of a short sleep on an ordinary machine.
    pub fn new(style: Style, start: Instant) -> Self {
        Self { style, margin: FIRST_MARGIN, window_start: start, spun: Duration::ZERO }
    }

    /// What to do at `now` while the next deadline is `deadline`.
    pub fn plan(&mut self, deadline: Option<Instant>, now: Instant) -> Plan {
        self.roll_window(now);
        if deadline.is_some_and(|at| at <= now) {
            return Plan::Now;
        }
        match (self.style, deadline) {
            (Style::Poll, _) => Plan::Spin(deadline),
            (Style::Sleep, _) | (Style::Margin { .. }, None) => Plan::Sleep(deadline),
            (Style::Margin { budget }, Some(at)) => {
                let spin_from = at - self.margin;
                if spin_from > now {
                    Plan::Sleep(Some(spin_from))
                } else if budget && self.spun >= SPIN_BUDGET {
                    Plan::Sleep(deadline)
                } else {
                    Plan::Spin(deadline)
                }
            }
        }
    }

    /// A sleep that was to end at `wanted` ended at `woke`.
    ///
    /// The margin climbs by a quarter of what was missing and falls by 1/64 of itself: it settles
    /// near the 90th percentile of the lateness seen, within 20 to 300 us.
    pub fn woke(&mut self, wanted: Instant, woke: Instant) {
        let late = woke.since(wanted).as_nanos();
        let margin = self.margin.as_nanos();
        let next = if late > margin {
            margin + (late.min(MOST_MARGIN) - margin.min(late.min(MOST_MARGIN))) / 4
        } else {
            margin - margin / 64
        };
        self.margin = Duration::from_nanos(next.clamp(LEAST_MARGIN, MOST_MARGIN));
    }

    /// Spun from `from` to `to`.
    pub fn spun(&mut self, from: Instant, to: Instant) {
        self.spun = self.spun + to.since(from);
    }

    /// The margin learnt.
    pub fn margin(&self) -> Duration {
        self.margin
    }

    fn roll_window(&mut self, now: Instant) {
        if now.since(self.window_start) >= WINDOW {
            self.window_start = now;
            self.spun = Duration::ZERO;
        }
    }
}

const FIRST_MARGIN: Duration = Duration::from_micros(100);
const LEAST_MARGIN: u64 = 20_000;
const MOST_MARGIN: u64 = 300_000;
const WINDOW: Duration = Duration::from_millis(100);
const SPIN_BUDGET: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn a_wait_is_slept_to_the_margin_and_spun_from_there() {
        let mut watchdog = Watchdog::new(Style::Margin { budget: false }, at(0));
        assert_eq!(watchdog.plan(Some(at(1000)), at(0)), Plan::Sleep(Some(at(900))));
        assert_eq!(watchdog.plan(Some(at(1000)), at(930)), Plan::Spin(Some(at(1000))));
        assert_eq!(watchdog.plan(Some(at(1000)), at(1000)), Plan::Now);
        assert_eq!(watchdog.plan(None, at(1000)), Plan::Sleep(None));
    }

    #[test]
    fn a_real_time_thread_spins_at_most_half_of_a_window() {
        let mut watchdog = Watchdog::new(Style::Margin { budget: true }, at(0));
        watchdog.spun(at(0), at(50_000));
        assert_eq!(watchdog.plan(Some(at(60_050)), at(60_000)), Plan::Sleep(Some(at(60_050))));
        assert_eq!(watchdog.plan(Some(at(100_050)), at(100_000)), Plan::Spin(Some(at(100_050))));
    }

    #[test]
    fn the_margin_follows_the_lateness_seen_within_its_bounds() {
        let mut watchdog = Watchdog::new(Style::Margin { budget: false }, at(0));
        for _ in 0..200 {
            watchdog.woke(at(0), at(200));
        }
        let settled = watchdog.margin().as_nanos();
        assert!((190_000..=205_000).contains(&settled), "{settled}");
        for _ in 0..500 {
            watchdog.woke(at(0), at(5));
        }
        assert_eq!(watchdog.margin(), Duration::from_micros(20));
        for _ in 0..100 {
            watchdog.woke(at(0), at(50_000));
        }
        assert!(watchdog.margin() <= Duration::from_micros(300));
    }

    #[test]
    fn nothing_spins_on_one_processor_and_eco_never_does() {
        for precision in [Precision::Eco, Precision::Balanced, Precision::Strict] {
            assert_eq!(Style::choose(precision, true, true, 1), Style::Sleep);
        }
        assert_eq!(Style::choose(Precision::Eco, true, true, 8), Style::Sleep);
        assert_eq!(Style::choose(Precision::Strict, false, false, 2), Style::Poll);
        let held = Style::choose(Precision::Strict, true, true, 2);
        assert_eq!(held, Style::Margin { budget: true });
    }
}
