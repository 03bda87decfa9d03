//! Changes and questions from other threads to the thread that drives a link.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

use punctual_sched::trace::{Position, Trace, TraceOptions};
use punctual_sched::{Change, ConfigError, Duration, Instant, LinkConfig, Snapshot};

use super::Stop;
use crate::clock::monotonic;

/// The way to one direction's link from other threads.
///
/// Calls block until the link's thread has answered, 5 s at most. It is woken for them; while
/// nothing is asked its turns pay one load.
#[derive(Clone, Debug)]
pub struct Remote {
    shared: Arc<Shared>,
    stop: Stop,
}

/// The lane's end of a [`Remote`]: see [`Lane::listen`](super::Lane::listen). Once it is gone, or
/// its lane is closed, every call is refused.
#[derive(Debug)]
pub struct Requests {
    shared: Arc<Shared>,
}

/// A change that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The event time from which it holds: when the link's thread looked, after all that was due
    /// and all that had arrived before. In the midst of a backlog that it is still reading, the
    /// event time reached, which may lie before the time of asking.
    pub at: Instant,
    /// Whether anything changed: what is in force already is neither applied, logged nor counted.
    pub changed: bool,
}

/// A link as its thread saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Counters.
    pub snapshot: Snapshot,
    /// Parameters in force.
    pub config: LinkConfig,
    /// Where in its trace it is; `None` where it follows none.
    pub trace: Option<Position>,
    /// When the delay of the last packet on its way is over; see
    /// [`Link::latest_due`](punctual_sched::Link::latest_due).
    pub latest_due: Option<Instant>,
    /// At this event time.
    pub at: Instant,
}

/// Why a link did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The change makes no valid configuration; nothing has changed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The request was withdrawn.
    #[error(
        "the link's thread has not looked for {PATIENCE}, and nothing was changed: it is stopped, \
         or finds no processor"
    )]
    Stuck,
    /// Nobody knows what became of it.
    #[error(
        "the link's thread took the change and has not answered for {PATIENCE}: whether it holds \
         is not known"
    )]
    Unanswered,
    /// There is no link any more.
    #[error("the link has ended")]
    Gone,
}

/// A way to the link whose driver has `stop`, and the end that its lane holds.
pub fn remote(stop: &Stop) -> (Remote, Requests) {
    let shared = Arc::<Shared>::default();
    (Remote { shared: Arc::clone(&shared), stop: stop.clone() }, Requests { shared })
}

impl Remote {
    /// Changes parameters, all named ones at once.
    ///
    /// What spans both directions is two changes: have both checked first
    /// ([`LinkConfig::changed`], [`LinkConfig::validate`]).
    pub fn change(&self, change: Change) -> Result<Applied, Refused> {
        self.change_asked_at(change, monotonic())
    }

    /// The same for somebody who asked for it earlier, which is what the account is told.
    pub fn change_asked_at(&self, change: Change, asked: Instant) -> Result<Applied, Refused> {
        match self.ask_within(Question::Change(change), asked, PATIENCE)? {
            Answer::Applied(applied) => Ok(applied),
            Answer::Seen(_) => Err(Refused::Unanswered),
        }
    }

    /// Has the link follow another trace from now on, with the parameters by which that was asked
    /// for, or none any more; see [`Link::follow_as`](punctual_sched::Link::follow_as).
    ///
    /// Whoever asks keeps a trace until the link has let go of it: the last one to do so gives back
    /// its memory, which of millions of steps takes longer than the link's thread has.
    pub fn follow_asked_at(
        &self,
        trace: Option<(TraceOptions, Trace)>,
        asked: Instant,
    ) -> Result<Applied, Refused> {
        match self.ask_within(Question::Follow(trace.map(Box::new)), asked, PATIENCE)? {
            Answer::Applied(applied) => Ok(applied),
            Answer::Seen(_) => Err(Refused::Unanswered),
        }
    }

    /// Counters and parameters, as they are when the link's thread has looked at its packets.
    pub fn snapshot(&self) -> Result<Seen, Refused> {
        match self.ask_within(Question::Snapshot, monotonic(), PATIENCE)? {
            Answer::Seen(seen) => Ok(*seen),
            Answer::Applied(_) => Err(Refused::Unanswered),
        }
    }

    fn ask_within(
        &self,
        question: Question,
        asked: Instant,
        patience: Duration,
    ) -> Result<Answer, Refused> {
        let request = Arc::new(Request {
            question,
            asked,
            settled: AtomicBool::new(false),
            answer: OnceLock::new(),
            asker: thread::current(),
        });
        self.shared.push(&request)?;
        self.stop.nudge();
        if let Some(answer) = request.wait(patience) {
            return answer;
        }
        if request.settle() {
            return Err(Refused::Stuck);
        }
        // Taken at the last moment: the answer is on its way.
        request.wait(patience).unwrap_or(Err(Refused::Unanswered))
    }
}

impl Requests {
    /// Whether anything is asked.
    #[inline]
    pub(super) fn pending(&self) -> bool {
        self.shared.pending.load(Ordering::Acquire)
    }

    /// What is asked, in the order of asking; it must be answered. Never waits: where somebody is
    /// asking at this moment, the driver is about to be woken for that.
    pub(super) fn take(&self) -> Vec<Arc<Request>> {
        let waiting = match self.shared.waiting.try_lock() {
            Ok(waiting) => waiting,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return Vec::new(),
        };
        let mut requests = self.shared.empty(waiting);
        requests.retain(|request| request.settle());
        requests
    }

    /// Refuses what is asked and all that will be.
    pub(super) fn close(&self) {
        let mut waiting = self.shared.lock();
        waiting.closed = true;
        for request in self.shared.empty(waiting) {
            request.answer(Err(Refused::Gone));
        }
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.close();
    }
}

#[derive(Debug, Default)]
struct Shared {
    /// Set after a request was added, and before the driver is woken for it.
    pending: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    requests: Vec<Arc<Request>>,
    closed: bool,
}

impl Shared {
    fn push(&self, request: &Arc<Request>) -> Result<(), Refused> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(Refused::Gone);
        }
        waiting.requests.push(Arc::clone(request));
        drop(waiting);
        self.pending.store(true, Ordering::Release);
        Ok(())
    }

    fn empty(&self, mut waiting: MutexGuard<'_, Waiting>) -> Vec<Arc<Request>> {
        // Before the lock is given up: what is added after that sets it again.
        self.pending.store(false, Ordering::Relaxed);
        mem::take(&mut waiting.requests)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing that is done under the lock leaves it half done.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One call.
#[derive(Debug)]
pub(super) struct Request {
    question: Question,
    asked: Instant,
    /// Taken by the driver or withdrawn by the caller, whoever was first.
    settled: AtomicBool,
    answer: OnceLock<Result<Answer, Refused>>,
    asker: Thread,
}

#[derive(Debug)]
pub(super) enum Question {
    Change(Change),
    Follow(Option<Box<(TraceOptions, Trace)>>),
    Snapshot,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Applied(Applied),
    Seen(Box<Seen>),
}

impl Request {
    pub(super) fn question(&self) -> &Question {
        &self.question
    }

    pub(super) fn asked(&self) -> Instant {
        self.asked
    }

    /// Answers, which never waits.
    pub(super) fn answer(&self, answer: Result<Answer, Refused>) {
        // Set by one side once: the driver has taken the request, or nobody ever will.
        let _ = self.answer.set(answer);
        self.asker.unpark();
    }

    /// Whether the caller of this was the first.
    fn settle(&self) -> bool {
        !self.settled.swap(true, Ordering::AcqRel)
    }

    fn wait(&self, patience: Duration) -> Option<Result<Answer, Refused>> {
        let deadline = monotonic() + patience;
        loop {
            if let Some(answer) = self.answer.get() {
                return Some(answer.clone());
            }
            let left = deadline.since(monotonic());
            if left == Duration::ZERO {
                return None;
            }
            thread::park_timeout(std::time::Duration::from_nanos(left.as_nanos()));
        }
    }
}

/// The driver looks within microseconds of being woken, and every second anyway.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use punctual_sched::Rate;

    use super::*;

    fn pair() -> (Remote, Requests) {
        remote(&Stop::new().unwrap())
    }

    fn change(bps: u64) -> Change {
        Change { rate: Rate::from_bps(bps), ..Change::default() }
    }

    fn answer_all(requests: &Requests) -> usize {
        let taken = requests.take();
        for request in &taken {
            let Question::Change(change) = request.question() else { panic!("a snapshot") };
            let at = Instant::from_nanos(change.rate.unwrap().as_bps());
            request.answer(Ok(Answer::Applied(Applied { at, changed: true })));
        }
        taken.len()
    }

    #[test]
    fn every_caller_gets_the_answer_to_its_own_request() {
        let (remote, requests) = pair();
        thread::scope(|scope| {
            let ask = |n: u64| {
                let remote = remote.clone();
                scope.spawn(move || {
                    for bps in n * 1000..n * 1000 + 200 {
                        let applied = remote.change(change(bps)).unwrap();
                        assert_eq!(applied.at.as_nanos(), bps);
                    }
                })
            };
            let askers: Vec<_> = (1..5).map(ask).collect();
            let mut answered = 0;
            while answered < 800 {
                if requests.pending() {
                    answered += answer_all(&requests);
                }
                thread::yield_now();
            }
            for asker in askers {
                asker.join().unwrap();
            }
        });
        assert!(!requests.pending());
    }

    #[test]
    fn what_nobody_takes_is_withdrawn_and_never_carried_out() {
        let (remote, requests) = pair();
        let patience = Duration::from_millis(5);
        let refused =
            remote.ask_within(Question::Change(change(1)), monotonic(), patience).unwrap_err();
        assert_eq!(refused, Refused::Stuck);
        assert!(requests.pending());
        assert_eq!(answer_all(&requests), 0);
    }

    #[test]
    fn what_is_taken_and_not_answered_is_told_apart() {
        let (remote, requests) = pair();
        let asker = thread::spawn(move || {
            remote
                .ask_within(Question::Snapshot, monotonic(), Duration::from_millis(50))
                .unwrap_err()
        });
        let taken = loop {
            let taken = requests.take();
            if !taken.is_empty() {
                break taken;
            }
        };
        assert_eq!(asker.join().unwrap(), Refused::Unanswered);
        assert_eq!(taken.len(), 1);
    }

    #[test]
    fn a_link_that_is_gone_refuses_at_once() {
        let (remote, requests) = pair();
        let asker = {
            let remote = remote.clone();
            thread::spawn(move || remote.snapshot().unwrap_err())
        };
        while !requests.pending() {
            thread::yield_now();
        }
        drop(requests);
        assert_eq!(asker.join().unwrap(), Refused::Gone);
        assert_eq!(remote.change(change(1)).unwrap_err(), Refused::Gone);
    }
}
