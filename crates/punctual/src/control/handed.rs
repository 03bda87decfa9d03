//! Traces that clients hand over: canonical CSV in a sealed memfd.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::Builder;

use punctual_linux::memfd::SealedMemfd;
use punctual_sched::ConfigError;
use punctual_sched::trace::{Trace, TraceOptions};

use super::bell::Bell;
use crate::trace::{Format, Hints, read_from, resolve};

/// Reads traces on a thread of its own, which the first one starts, with the ordinary policy of the
/// server's, and which ends with this. One at a time, in the order in which they came: so the memory
/// for them is that of one, however many clients hand over theirs.
#[derive(Debug)]
pub(super) struct Reader {
    bell: Bell,
    jobs: Option<Sender<Job>>,
}

impl Reader {
    /// One that rings `bell` whenever it has read a trace.
    pub(super) fn new(bell: Bell) -> Self {
        Self { bell, jobs: None }
    }

    /// Has the trace read that came with a request, whose descriptors are `fds`. What is no sealed
    /// memfd is refused at once.
    pub(super) fn begin(
        &mut self,
        options: &TraceOptions,
        fds: Vec<OwnedFd>,
    ) -> Result<Reading, ConfigError> {
        let memfd = only(fds)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (outcome, read) = channel();
        let source = Source { memfd, stop: Arc::clone(&stop) };
        let job = Job { source, options: options.clone(), outcome };
        self.jobs()?.send(job).map_err(|_| refuse(PANICKED))?;
        Ok(Reading { stop, outcome: read })
    }

    fn jobs(&mut self) -> Result<&Sender<Job>, ConfigError> {
        if self.jobs.is_none() {
            let (jobs, queue) = channel();
            let bell = self.bell.clone();
            let thread = Builder::new().name("traces".to_owned());
            let started = thread.spawn(move || read_all(&queue, &bell));
            started.map_err(|error| refuse(format!("no thread can be started for it: {error}")))?;
            self.jobs = Some(jobs);
        }
        self.jobs.as_ref().ok_or_else(|| refuse(PANICKED))
    }
}

/// A trace that is being read, or waits for that. It is given up when this is dropped.
#[derive(Debug)]
pub(super) struct Reading {
    stop: Arc<AtomicBool>,
    outcome: Receiver<Result<Trace, ConfigError>>,
}

impl Reading {
    /// The trace, once it was read and checked whole.
    pub(super) fn outcome(&self) -> Option<Result<Trace, ConfigError>> {
        match self.outcome.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(refuse(PANICKED))),
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Refuses descriptors where none belongs.
pub(super) fn none(fds: &[OwnedFd]) -> Result<(), ConfigError> {
    if fds.is_empty() { Ok(()) } else { Err(ConfigError::new("request", STRAY)) }
}

fn only(fds: Vec<OwnedFd>) -> Result<SealedMemfd, ConfigError> {
    let came = fds.len();
    let mut fds = fds.into_iter();
    let (Some(fd), None) = (fds.next(), fds.next()) else {
        let came = if came == 0 { "no descriptor" } else { "more than one descriptor" };
        return Err(refuse(format!("{came} came with it, expected one, of a sealed memfd")));
    };
    SealedMemfd::open(fd, LONGEST).map_err(|unfit| refuse(unfit.to_string()))
}

fn read_all(queue: &Receiver<Job>, bell: &Bell) {
    while let Ok(job) = queue.recv() {
        job.carry_out();
        bell.ring();
    }
}

/// A trace to be read.
#[derive(Debug)]
struct Job {
    source: Source,
    options: TraceOptions,
    outcome: Sender<Result<Trace, ConfigError>>,
}

impl Job {
    fn carry_out(self) {
        let hints = Hints { format: Some(Format::Punctual), quiet: true, ..Hints::default() };
        let read = read_from("memfd", self.source, &hints).map_err(|error| error.to_string());
        let trace = read.and_then(|read| resolve(&self.options, read)).map_err(refuse);
        // Nobody waits for one that was given up.
        let _ = self.outcome.send(trace);
    }
}

/// Ends with an error once nobody waits for the trace: that is looked at with each read, of 128 KB,
/// whatever is in them.
#[derive(Debug)]
struct Source {
    memfd: SealedMemfd,
    stop: Arc<AtomicBool>,
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("it was given up"));
        }
        self.memfd.read(buffer)
    }
}

fn refuse(problem: impl Into<String>) -> ConfigError {
    ConfigError::new("follow.trace", problem)
}

/// Bytes of a trace: some 20 million lines, which take seconds to read.
const LONGEST: u64 = 512 << 20;
const PANICKED: &str = "the thread that reads traces panicked: a bug";
/// What a descriptor with any other line is told.
pub(super) const STRAY: &str =
    "a descriptor came with it, expected one with a trace to follow only";

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_linux::wait;
    use punctual_sched::Duration;
    use std::os::fd::AsFd;

    fn memfd(text: &str) -> Vec<OwnedFd> {
        vec![SealedMemfd::write("test", |out| out.write_all(text.as_bytes())).unwrap()]
    }

    fn rung(bell: &Bell) -> bool {
        let rung = wait::readable(bell.as_fd(), Duration::from_secs(20)).unwrap();
        bell.hush();
        rung
    }

    #[test]
    fn traces_are_read_one_after_the_other_and_the_bell_rings() {
        let bell = Bell::new().unwrap();
        let mut reader = Reader::new(bell.clone());
        let mut begin = |text| reader.begin(&TraceOptions::default(), memfd(text)).unwrap();
        let first = begin("time_ns,rate_bps\n0,1\n5,2\n");
        let second = begin("no header\n");
        while second.outcome.try_recv().is_err_and(|error| error == TryRecvError::Empty) {
            assert!(rung(&bell));
        }
        assert!(first.outcome().unwrap().is_ok());
        let none = reader.begin(&TraceOptions::default(), Vec::new()).unwrap_err();
        assert!(none.problem.starts_with("no descriptor came with it"), "{none:?}");
    }

    /// Lines without entries: no reader of lines comes back in their midst.
    #[test]
    fn a_trace_that_nobody_waits_for_is_given_up() {
        let fd = memfd(&"\n".repeat(1 << 20));
        let (outcome, read) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let mut source = Source { memfd: only(fd).unwrap(), stop: Arc::clone(&stop) };
        assert_eq!(source.read(&mut [0; 100]).unwrap(), 100);
        drop(Reading { stop, outcome: channel().1 });
        Job { source, options: TraceOptions::default(), outcome }.carry_out();
        let refused = read.recv().unwrap().unwrap_err();
        assert!(refused.problem.contains("it was given up"), "{refused:?}");
    }
}
