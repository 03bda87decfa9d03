//! When to sleep, when to spin, and for how long: pure decisions.

use punctual_sched::{Duration, Instant};

/// Learns how late this machine's timers wake us, and plans each wait so that the last stretch
/// before a deadline is spun, not slept.
#[derive(Debug)]
pub struct Watchdog {
    style: Style,
    margin: Duration,
}

/// How much a run may spend on being on time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Never spins.
    Eco,
    /// Real-time policy or a short slice where granted, and a short spin before each deadline.
    #[default]
    Balanced,
    /// The same, and the processors are kept from idling.
    Strict,
}

/// How a thread may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Sleeps to the deadline.
    Sleep,
    /// Sleeps to a learnt margin before it, then spins.
    Margin,
    /// Polls from 1 ms before each deadline on: while the link is busy it never sleeps. Polling
    /// through longer waits takes a processor from those who send and receive: with two of them
    /// round trips of 20 ms took 80 us longer.
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
    /// The best style of one of `threads` for `precision` on `processors`, with what was granted.
    /// With one processor, or more threads than processors, nothing spins: whoever would send the
    /// next packet, or release it, could not run.
    pub fn choose(
        precision: Precision,
        idle_held: bool,
        (processors, threads): (usize, usize),
    ) -> Self {
        match precision {
            _ if processors < 2 || processors < threads => Self::Sleep,
            Precision::Eco => Self::Sleep,
            Precision::Strict if !idle_held => Self::Poll,
            Precision::Balanced | Precision::Strict => Self::Margin,
        }
    }
}

impl Watchdog {
    /// Starts with the median lateness of a short sleep on an ordinary machine.
    pub fn new(style: Style) -> Self {
        Self { style, margin: FIRST_MARGIN }
    }

    /// What to do at `now` while the next deadline is `deadline`, and the thread may spin or not.
    pub fn plan(&self, deadline: Option<Instant>, now: Instant, may_spin: bool) -> Plan {
        if deadline.is_some_and(|at| at <= now) {
            return Plan::Now;
        }
        match (self.style, deadline) {
            (Style::Poll, Some(at)) if at.since(now) > POLL_AHEAD => {
                Plan::Sleep(Some(at - POLL_AHEAD))
            }
            (Style::Poll, Some(_)) => Plan::Spin(deadline),
            (Style::Sleep, _) | (Style::Margin | Style::Poll, None) => Plan::Sleep(deadline),
            (Style::Margin, Some(at)) => {
                let spin_from = at - self.margin;
                match may_spin {
                    true if spin_from > now => Plan::Sleep(Some(spin_from)),
                    true => Plan::Spin(deadline),
                    false => Plan::Sleep(deadline),
                }
            }
        }
    }

    /// A sleep that was to end at `wanted` ended at `woke`.
    ///
    /// Follows the 95th percentile of lateness: up by 19 parts of a step when a wake-up was later
    /// than the margin, down by one when it was not, so that 19 of 20 must be within for it to
    /// stand still. A step is 1/160 of the margin; the margin stays within 20 to 300 us.
    pub fn woke(&mut self, wanted: Instant, woke: Instant) {
        let margin = self.margin.as_nanos();
        let part = margin / 160;
        let next =
            if woke.since(wanted) > self.margin { margin + 19 * part } else { margin - part };
        self.margin = Duration::from_nanos(next.clamp(LEAST_MARGIN, MOST_MARGIN));
    }

    /// The margin learnt.
    pub fn margin(&self) -> Duration {
        self.margin
    }
}

/// Keeps a real-time thread from being stopped by the kernel, and from spinning all the time.
///
/// The kernel gives ordinary tasks that a real-time thread keeps from running 50 ms in each
/// second (sched(7), `sched_rt_runtime_us`; the fair server of Linux 6.12): a busy link at a
/// real-time policy was up to 54 ms late. So beyond 900 ms awake in a second the thread goes on
/// at the ordinary policy until the second is over; and it spins for at most half of any 100 ms,
/// beyond which it sleeps to its deadlines.
#[derive(Debug)]
pub struct RealtimeBudget {
    second: Window,
    spins: Window,
    demoted: bool,
}

/// What is to become of the thread's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyChange {
    /// Back to real time.
    Promote,
    /// To the ordinary policy.
    Demote,
}

/// Time used within a window of fixed length.
#[derive(Debug)]
struct Window {
    start: Instant,
    used: Duration,
}

impl RealtimeBudget {
    /// Fresh windows.
    pub fn new(start: Instant) -> Self {
        let window = || Window { start, used: Duration::ZERO };
        Self { second: window(), spins: window(), demoted: false }
    }

    /// Was awake from `from` to `to`.
    pub fn awake(&mut self, from: Instant, to: Instant) {
        self.second.used = self.second.used + to.since(from.max(self.second.start));
    }

    /// Spun from `from` to `to`, which counts as awake elsewhere.
    pub fn spun(&mut self, from: Instant, to: Instant) {
        self.spins.used = self.spins.used + to.since(from.max(self.spins.start));
    }

    /// Whether the thread may spin at `now`.
    pub fn may_spin(&mut self, now: Instant) -> bool {
        self.spins.roll(now, SPIN_WINDOW);
        self.demoted || self.spins.used < SPIN_BUDGET
    }

    /// What to change at `now`, if anything.
    pub fn check(&mut self, now: Instant) -> Option<PolicyChange> {
        if self.second.roll(now, SECOND) {
            let promote = core::mem::take(&mut self.demoted);
            return promote.then_some(PolicyChange::Promote);
        }
        if self.second.used >= AWAKE_BUDGET && !self.demoted {
            self.demoted = true;
            return Some(PolicyChange::Demote);
        }
        None
    }
}

impl Window {
    /// Begins a new window when this one is over.
    fn roll(&mut self, now: Instant, length: Duration) -> bool {
        let over = now.since(self.start) >= length;
        if over {
            *self = Self { start: now, used: Duration::ZERO };
        }
        over
    }
}

const POLL_AHEAD: Duration = Duration::from_millis(1);
const FIRST_MARGIN: Duration = Duration::from_micros(100);
const LEAST_MARGIN: u64 = 20_000;
const MOST_MARGIN: u64 = 300_000;
const SECOND: Duration = Duration::from_secs(1);
const AWAKE_BUDGET: Duration = Duration::from_millis(900);
const SPIN_WINDOW: Duration = Duration::from_millis(100);
const SPIN_BUDGET: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn a_wait_is_slept_to_the_margin_and_spun_from_there() {
        let watchdog = Watchdog::new(Style::Margin);
        let plan = |deadline, now, may_spin| watchdog.plan(deadline, at(now), may_spin);
        assert_eq!(plan(Some(at(1000)), 0, true), Plan::Sleep(Some(at(900))));
        assert_eq!(plan(Some(at(1000)), 930, true), Plan::Spin(Some(at(1000))));
        assert_eq!(plan(Some(at(1000)), 0, false), Plan::Sleep(Some(at(1000))));
        assert_eq!(plan(Some(at(1000)), 1000, true), Plan::Now);
        assert_eq!(plan(None, 1000, true), Plan::Sleep(None));
    }

    #[test]
    fn polling_begins_a_millisecond_before_a_deadline() {
        let watchdog = Watchdog::new(Style::Poll);
        let plan = |deadline, now| watchdog.plan(deadline, at(now), true);
        assert_eq!(plan(Some(at(10_000)), 0), Plan::Sleep(Some(at(9_000))));
        assert_eq!(plan(Some(at(10_000)), 9_000), Plan::Spin(Some(at(10_000))));
        assert_eq!(plan(Some(at(10_000)), 10_000), Plan::Now);
        assert_eq!(plan(None, 0), Plan::Sleep(None));
    }

    #[test]
    fn a_real_time_thread_is_ordinary_for_the_rest_of_a_second_that_it_was_awake() {
        let mut budget = RealtimeBudget::new(at(0));
        budget.awake(at(0), at(899_000));
        assert_eq!(budget.check(at(899_000)), None);
        budget.awake(at(899_000), at(900_000));
        assert_eq!(budget.check(at(900_000)), Some(PolicyChange::Demote));
        assert_eq!(budget.check(at(950_000)), None);
        assert_eq!(budget.check(at(1_000_000)), Some(PolicyChange::Promote));
        budget.awake(at(950_000), at(1_400_000));
        assert_eq!(budget.check(at(1_950_000)), None);
    }

    #[test]
    fn a_real_time_thread_spins_for_at_most_half_of_100_ms() {
        let mut budget = RealtimeBudget::new(at(0));
        budget.spun(at(0), at(49_000));
        assert!(budget.may_spin(at(49_000)));
        budget.spun(at(50_000), at(51_000));
        assert!(!budget.may_spin(at(51_000)));
        assert!(budget.may_spin(at(100_000)));
    }

    #[test]
    fn the_margin_follows_the_lateness_seen_within_its_bounds() {
        let mut watchdog = Watchdog::new(Style::Margin);
        for _ in 0..1000 {
            watchdog.woke(at(0), at(200));
        }
        let settled = watchdog.margin().as_nanos();
        assert!((200_000..=225_000).contains(&settled), "{settled}");
        for _ in 0..1000 {
            watchdog.woke(at(0), at(5));
        }
        assert_eq!(watchdog.margin(), Duration::from_micros(20));
        for _ in 0..100 {
            watchdog.woke(at(0), at(50_000));
        }
        assert_eq!(watchdog.margin(), Duration::from_micros(300));
    }

    #[test]
    fn the_margin_covers_all_but_the_latest_twentieth_of_wakes() {
        let mut watchdog = Watchdog::new(Style::Margin);
        let lateness = |n: u64| 60 + (n * 7919) % 100;
        let mut covered = 0;
        for n in 0..4000 {
            covered += u64::from(n >= 1000 && at(lateness(n)).since(at(0)) <= watchdog.margin());
            watchdog.woke(at(0), at(lateness(n)));
        }
        assert!((2790..=2910).contains(&covered), "{covered} of 3000");
    }

    #[test]
    fn nothing_spins_on_one_processor_and_eco_never_does() {
        for precision in [Precision::Eco, Precision::Balanced, Precision::Strict] {
            assert_eq!(Style::choose(precision, true, (1, 1)), Style::Sleep);
            assert_eq!(Style::choose(precision, true, (3, 4)), Style::Sleep);
        }
        assert_eq!(Style::choose(Precision::Eco, true, (8, 1)), Style::Sleep);
        assert_eq!(Style::choose(Precision::Strict, false, (2, 1)), Style::Poll);
        assert_eq!(Style::choose(Precision::Strict, true, (2, 2)), Style::Margin);
    }
}
