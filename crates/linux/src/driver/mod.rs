//! The driver: reads packets, hands them to the link at their true times, releases what is due,
//! waits.
//!
//! One turn: read all arrivals until none is left, hand them over in stamp order, advance the
//! link to the time of the read, release what is due, then wait for the next deadline or packet.

mod account;
mod copies;
mod lane;
mod means;
mod remote;
mod stamp;
mod verdict;
mod watchdog;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_sched::{Duration, Instant};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

pub use self::account::{Account, Arrived, LaneCounts, Released, Source};
pub use self::lane::Lane;
pub use self::means::{Means, Policy};
pub use self::remote::{Applied, Refused, Remote, Requests, Seen, remote};
pub use self::stamp::{ClockStep, Reading, StampCounts, StampReader};
pub use self::watchdog::{Plan, PolicyChange, Precision, RealtimeBudget, Style, Watchdog};

use crate::clock::monotonic;
use crate::wait;

/// Drives one or both directions of a link from one thread.
#[derive(Debug)]
pub struct Driver<A> {
    lanes: Vec<Lane<A>>,
    precision: Precision,
    stop: Stop,
    /// Drivers in this process.
    threads: usize,
}

/// Tells a driver to stop, from any thread. Each driver needs its own: whoever reads the event
/// first takes it from the others.
#[derive(Clone, Debug)]
pub struct Stop {
    requested: Arc<AtomicBool>,
    drain: Arc<AtomicBool>,
    event: Arc<OwnedFd>,
}

/// What a driver's thread used and waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wakes {
    /// Sleeps that ended at their time.
    pub timer: u64,
    /// Sleeps that a packet ended.
    pub packet: u64,
    /// Sleeps that ended to look at a control block.
    pub control: u64,
    /// Spins before a deadline.
    pub spins: u64,
    /// Nanoseconds spun.
    pub spun: u64,
    /// Turns of the loop.
    pub turns: u64,
    /// Times that a real-time thread went on at the ordinary policy for the rest of a second.
    pub demotions: u64,
    /// Lateness of the timer wakes, summed, ns.
    pub timer_late: u64,
    /// The greatest lateness of a timer wake, ns.
    pub timer_late_max: u64,
}

/// What is left when a driver has stopped.
#[derive(Debug)]
pub struct Stopped<A> {
    /// Its lanes.
    pub lanes: Vec<Lane<A>>,
    /// Why it woke.
    pub wakes: Wakes,
    /// What it was granted.
    pub policy: Policy,
    /// Whether the processors were kept from idling.
    pub idle_held: bool,
    /// Whether timers were tightened.
    pub tight_timers: bool,
    /// How it waited.
    pub style: Style,
    /// The margin learnt in the end.
    pub margin: Duration,
    /// Processor time used by the thread, ns.
    pub cpu: u64,
    /// Time that the thread waited in the run queue, ns (`/proc/thread-self/schedstat`).
    pub run_queue_wait: Option<u64>,
    /// From start to stop.
    pub ran: Duration,
}

impl Stop {
    /// A fresh one.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            requested: Arc::default(),
            drain: Arc::default(),
            event: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?),
        })
    }

    /// Stop as soon as nothing is held any more.
    pub fn drain(&self) {
        self.drain.store(true, Ordering::Release);
        self.wake();
    }

    /// Stop now.
    pub fn now(&self) {
        self.requested.store(true, Ordering::Release);
        self.wake();
    }

    /// Wakes a driver that sleeps, so that it looks at its queue.
    pub fn nudge(&self) {
        self.wake();
    }

    fn wake(&self) {
        // Fails only when the counter is full, and then the driver has been woken already.
        let _ = rustix::io::write(&*self.event, &1_u64.to_ne_bytes());
    }

    fn clear(&self) {
        // Nothing to read is fine: somebody else cleared it.
        let _ = rustix::io::read(&*self.event, &mut [0_u8; 8]);
    }
}

impl<A: Account> Driver<A> {
    /// A driver for these lanes. It takes its means when it runs, on the thread that it runs on.
    pub fn new(lanes: Vec<Lane<A>>, precision: Precision, stop: Stop) -> Self {
        Self { lanes, precision, stop, threads: 1 }
    }

    /// It is one of so many in this process: where these are more than there are processors none of
    /// them spins.
    #[must_use]
    pub fn one_of(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Drives until stopped. Fails only when the kernel refuses to be read from.
    pub fn run(mut self) -> io::Result<Stopped<A>> {
        let means = Means::take(self.precision);
        let room = (means.processors, self.threads);
        let style = Style::choose(self.precision, means.idle_held(), room);
        let start = monotonic();
        let waited_before = run_queue_wait();
        let mut waiting = Waiting {
            watchdog: Watchdog::new(style),
            budget: means.realtime().then(|| RealtimeBudget::new(start)),
            awake_since: start,
            wakes: Wakes::default(),
        };
        while !self.finished() {
            let mut drained = true;
            for lane in &mut self.lanes {
                drained &= lane.turn()?;
            }
            // The turn may have released the last packet: then nothing would end a wait.
            if drained && !self.finished() {
                self.wait(&mut waiting)?;
            }
            waiting.turned();
        }
        for lane in &mut self.lanes {
            lane.close()?;
        }
        Ok(Stopped {
            lanes: self.lanes,
            wakes: waiting.wakes,
            policy: means.policy,
            idle_held: means.idle_held(),
            tight_timers: means.tight_timers,
            style,
            margin: waiting.watchdog.margin(),
            cpu: crate::clock::thread_cpu(),
            run_queue_wait: run_queue_wait()
                .zip(waited_before)
                .map(|(after, before)| after.saturating_sub(before)),
            ran: monotonic().since(start),
        })
    }

    fn finished(&self) -> bool {
        if self.stop.requested.load(Ordering::Acquire) {
            return true;
        }
        self.stop.drain.load(Ordering::Acquire) && self.lanes.iter().all(Lane::is_empty)
    }

    /// Waits as the watchdog plans: returns at a deadline, with a packet, with news in a control
    /// block, or when stopped.
    fn wait(&self, waiting: &mut Waiting) -> io::Result<()> {
        let deadline = self.lanes.iter().filter_map(Lane::deadline).min();
        let longest = monotonic() + LONGEST_SLEEP;
        loop {
            let now = monotonic();
            let may_spin = waiting.budget.as_mut().is_none_or(|budget| budget.may_spin(now));
            match waiting.watchdog.plan(deadline, now, may_spin) {
                Plan::Now => return Ok(()),
                Plan::Sleep(until) => {
                    if self.sleep(now, (until, longest), waiting)? {
                        return Ok(());
                    }
                }
                Plan::Spin(until) => {
                    let spun_to = self.spin(now, until)?;
                    waiting.spun(now, spun_to);
                    return Ok(());
                }
            }
        }
    }

    /// Sleeps until `until` or `longest`, or less where a control block is to be looked at: false
    /// when there was nothing new in it, and more is to be slept.
    fn sleep(
        &self,
        now: Instant,
        (until, longest): (Option<Instant>, Instant),
        waiting: &mut Waiting,
    ) -> io::Result<bool> {
        let span = until.map_or(longest, |until| until.min(longest)).since(now);
        let Some(look) = self.look_within().filter(|&look| look < span) else {
            let packet = self.poll(Some(span))?;
            waiting.slept(now, until, packet);
            return Ok(true);
        };
        let packet = self.poll(Some(look))?;
        // How late it came is not learnt from: it is nobody's deadline.
        waiting.slept(now, None, packet);
        waiting.wakes.control += u64::from(!packet);
        // A turn costs several times what a look does.
        Ok(packet || self.lanes.iter().any(Lane::has_news))
    }

    /// How long the thread may sleep before it has to look at a control block.
    fn look_within(&self) -> Option<Duration> {
        let eco = self.precision == Precision::Eco;
        let span = if eco { LOOK_ECO } else { LOOK };
        self.lanes.iter().any(Lane::must_look).then_some(span)
    }

    /// Spins to the deadline or until there is something to read, at most as long as a sleep may
    /// last; returns when it ended.
    fn spin(&self, from: Instant, until: Option<Instant>) -> io::Result<Instant> {
        let longest = from + LONGEST_SLEEP;
        let end = until.map_or(longest, |until| until.min(longest));
        loop {
            let now = monotonic();
            let left = end.since(now);
            if left == Duration::ZERO {
                return Ok(now);
            }
            // A look at the sockets takes about 1 us: not in the last stretch.
            if left > LAST_STRETCH && self.poll(Some(Duration::ZERO))? {
                return Ok(monotonic());
            }
            core::hint::spin_loop();
        }
    }

    /// Waits for a packet or the stop signal for at most `span`; true when there is either.
    fn poll(&self, span: Option<Duration>) -> io::Result<bool> {
        // Two lanes at most, and the stop event.
        let event: BorrowedFd<'_> = self.stop.event.as_fd();
        let mut fds = [event, event, event].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        for (slot, lane) in fds[1..].iter_mut().zip(&self.lanes) {
            *slot = PollFd::from_borrowed_fd(lane.descriptor(), PollFlags::IN);
        }
        let ready = wait::any_readable(&mut fds[..=self.lanes.len()], span)?;
        if fds[0].revents().contains(PollFlags::IN) {
            self.stop.clear();
        }
        Ok(ready)
    }
}

/// What a thread learns from its waits.
struct Waiting {
    watchdog: Watchdog,
    budget: Option<RealtimeBudget>,
    awake_since: Instant,
    wakes: Wakes,
}

impl Waiting {
    /// A sleep that began at `from` is over, by a packet or by time: at `until` or before, to look
    /// at the queue.
    fn slept(&mut self, from: Instant, until: Option<Instant>, packet: bool) {
        let woke = monotonic();
        if let Some(budget) = &mut self.budget {
            budget.awake(self.awake_since, from);
        }
        self.awake_since = woke;
        if packet {
            self.wakes.packet += 1;
        } else if let Some(wanted) = until.filter(|&wanted| wanted <= woke) {
            self.watchdog.woke(wanted, woke);
            let late = woke.since(wanted).as_nanos();
            self.wakes.timer += 1;
            self.wakes.timer_late += late;
            self.wakes.timer_late_max = self.wakes.timer_late_max.max(late);
        }
    }

    fn spun(&mut self, from: Instant, to: Instant) {
        self.wakes.spins += 1;
        self.wakes.spun += to.since(from).as_nanos();
        if let Some(budget) = &mut self.budget {
            budget.spun(from, to);
        }
    }

    fn turned(&mut self) {
        self.wakes.turns += 1;
        let Some(budget) = &mut self.budget else { return };
        let now = monotonic();
        budget.awake(self.awake_since, now);
        self.awake_since = now;
        let change = budget.check(now);
        if let Some(change) = change {
            self.wakes.demotions += u64::from(change == PolicyChange::Demote);
            Means::change(change);
        }
    }
}

/// Time that this thread waited in the run queue, ns; `None` where the kernel does not count.
fn run_queue_wait() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

const LAST_STRETCH: Duration = Duration::from_micros(3);

/// How long a store may go unseen while packets are held: 1 ms less what a wake is late.
const LOOK: Duration = Duration::from_micros(900);
/// The same where precision is worth less than rest.
const LOOK_ECO: Duration = Duration::from_millis(10);

/// An arrival stamp says when within 4.29 s. Who looks at the empty queue more often than that
/// knows which 4.29 s it means.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
