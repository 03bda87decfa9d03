//! The log of a run: a sender per direction for the datapath, a thread that writes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use punctual_sched::trace::Trace;
use punctual_sched::{Change, Instant, Output, Packet, Snapshot};
use rtrb::{Consumer, Producer, RingBuffer};
use rustix::fs::OFlags;

use super::LaneId;
use super::blocks::{BlockWriter, DirectionEnd, LogSummary, Sink};
use super::file::LogFile;
use super::header::Header;
use super::record::{Arrival, Record};
use super::trailer::EndRecord;

/// The thread that writes a log.
///
/// It starts with the scheduling of the thread that makes it: make it before the datapath raises
/// its own. Dropped without [`LogWriter::finish`], it ends after all senders are gone.
#[derive(Debug)]
pub struct LogWriter {
    thread: JoinHandle<Result<LogSummary, LogError>>,
    stop: Arc<AtomicBool>,
    /// `None` when it is another sink.
    file: Option<LogFile>,
}

/// The datapath's end of the log of one lane.
///
/// Calls are made in the order in which things happen. None of them waits, allocates or makes a
/// system call. When the ring is full the direction's log ends there: that record and all later
/// ones are only counted, since a log with a hole could not be replayed.
#[derive(Debug)]
pub struct LogSender {
    ring: Producer<Record>,
    side: Arc<Side>,
    arrivals: u64,
    unwritten: u64,
}

/// A log that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be made.
    #[error("cannot create the log {}: {error}; name another file with --log", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Its beginning cannot be written.
    #[error("cannot write the log: {}; name a file elsewhere with --log", crate::output::unwritten(.0))]
    Write(io::Error),
    /// No thread can be had.
    #[error("cannot start the log's thread: {0}; raise the limit of processes (ulimit -u)")]
    Thread(io::Error),
    /// The thread is gone.
    #[error("the log's thread ended by a panic: this is a bug, the log is incomplete")]
    Panic,
}

/// What a sender says outside its ring.
#[derive(Debug, Default)]
struct Side {
    unwritten: AtomicU64,
    end: OnceLock<(Instant, Snapshot)>,
}

impl LogWriter {
    /// Records that a ring holds by default: a third of a second at 200,000 records/s, 7 MB.
    pub const RING: usize = 65_536;

    /// Makes the file and starts the thread; the senders are those of the lanes of up and of down.
    pub fn create(
        path: &Path,
        header: &Header,
        ring: usize,
    ) -> Result<(Self, [Vec<LogSender>; 2]), LogError> {
        let failed = |error| LogError::Create { path: path.to_owned(), error };
        let file = open(path).and_then(LogFile::new).map_err(failed)?;
        let (writer, senders) = Self::held(file, header, ring)?;
        writer.begin().map(|()| (writer, senders))
    }

    /// The same, but all of it is held until [`LogWriter::begin`].
    pub(crate) fn held(
        file: LogFile,
        header: &Header,
        ring: usize,
    ) -> Result<(Self, [Vec<LogSender>; 2]), LogError> {
        let (writer, senders) = Self::start(file.clone(), header, ring)?;
        file.bound();
        Ok((Self { file: Some(file), ..writer }, senders))
    }

    /// The run has started: what an earlier one has left in the file is gone. Until then, and when
    /// this fails, the file is as it was.
    pub(crate) fn begin(&self) -> Result<(), LogError> {
        self.file.as_ref().map_or(Ok(()), LogFile::begin)
    }

    /// The same with any sink.
    pub fn start<S: Sink + Send + 'static>(
        sink: S,
        header: &Header,
        ring: usize,
    ) -> Result<(Self, [Vec<LogSender>; 2]), LogError> {
        let blocks = BlockWriter::start(sink, header)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut outlets = Vec::new();
        let senders = header.for_lanes(|lane| {
            let (producer, ring) = faulted_in(ring);
            let side = Arc::new(Side::default());
            outlets.push(Outlet { lane, ring, side: Arc::clone(&side) });
            LogSender { ring: producer, side, arrivals: 0, unwritten: 0 }
        });
        let worker = Worker { blocks, outlets, stop: Arc::clone(&stop) };
        let thread = thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || worker.run())
            .map_err(LogError::Thread)?;
        Ok((Self { thread, stop, file: None }, senders))
    }

    /// Writes what is left and the trailer. The senders must have been finished before: what
    /// they send after this is lost uncounted.
    pub fn finish(self) -> Result<LogSummary, LogError> {
        self.stop.store(true, Ordering::Release);
        self.file.iter().for_each(LogFile::end);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or(Err(LogError::Panic))
    }
}

/// Opens a file for output, made where it is missing and not emptied where it is not. A fifo that
/// nobody reads is an error, where to wait for a reader could last for ever.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
}

impl LogSender {
    /// A packet that is handed to the link now. Returns its number, counted from 1, by which its
    /// fate names it.
    pub fn arrival(&mut self, packet: &Packet) -> u64 {
        self.arrivals += 1;
        self.push(Record::Arrival(Arrival::from(packet)));
        self.arrivals
    }

    /// A change that the link has accepted.
    pub fn change(&mut self, at: Instant, change: &Change) {
        self.push(Record::Change { at, change: change.clone() });
    }

    /// A trace that the link follows from `at` on, or that it follows none any more.
    pub fn follow(&mut self, at: Instant, trace: Option<&Trace>) {
        let trace = trace.cloned().map(Box::new);
        self.push(Record::Follow { at, trace });
    }

    /// The fate of packet number `sequence`: a drop, or a departure with the time of its release.
    /// Every output of the link is logged, with `None` when it was never released; departures in
    /// the order in which the link gave them, and drops likewise.
    pub fn fate(&mut self, sequence: u64, output: &Output, released: Option<Instant>) {
        self.push(Record::fate(sequence, output, released));
    }

    /// The end: the link was advanced to `end`, drained, and then had these counters.
    pub fn finish(self, end: Instant, snapshot: &Snapshot) {
        // Set once: the sender is consumed.
        let _ = self.side.end.set((end, *snapshot));
    }

    /// Records that were only counted, so far.
    pub fn unwritten(&self) -> u64 {
        self.unwritten
    }

    fn push(&mut self, record: Record) {
        if self.unwritten == 0 && self.ring.push(record).is_ok() {
            return;
        }
        self.unwritten += 1;
        self.side.unwritten.store(self.unwritten, Ordering::Relaxed);
    }
}

/// A ring whose memory is there: the first lap's page faults, half a microsecond each, would fall
/// to the datapath.
fn faulted_in(capacity: usize) -> (Producer<Record>, Consumer<Record>) {
    let (mut producer, mut consumer) = RingBuffer::new(capacity);
    let blank = Record::Change { at: Instant::ZERO, change: Change::default() };
    while producer.push(blank.clone()).is_ok() {}
    while consumer.pop().is_ok() {}
    (producer, consumer)
}

#[derive(Debug)]
struct Worker<S: Sink> {
    blocks: BlockWriter<S>,
    /// Those of up first, and lanes in their order.
    outlets: Vec<Outlet>,
    stop: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Outlet {
    lane: LaneId,
    ring: Consumer<Record>,
    side: Arc<Side>,
}

const _: () = assert!(size_of::<Record>() <= 104, "a ring of 65,536 records takes 7 MB");

/// How long the thread waits between two looks at the rings.
const POLL: std::time::Duration = std::time::Duration::from_millis(20);

/// Looks after which begun blocks are written, full or not: what a killed run may lose.
const FLUSH: u32 = 10;

impl<S: Sink> Worker<S> {
    fn run(mut self) -> Result<LogSummary, LogError> {
        for look in 1_u32.. {
            // Asked before the rings are drained: what was sent before the end is then seen.
            let ended = self.stop.load(Ordering::Acquire)
                || self.outlets.iter().all(|outlet| outlet.ring.is_abandoned());
            self.drain();
            if ended {
                break;
            }
            if look.is_multiple_of(FLUSH) {
                self.blocks.flush();
            }
            thread::park_timeout(POLL);
        }
        let mut ends = [Vec::new(), Vec::new()];
        for Outlet { lane, side, .. } in &self.outlets {
            ends[lane.direction.index()].push(DirectionEnd {
                end: side.end.get().map(|(at, snapshot)| EndRecord::new(*at, snapshot)),
                unwritten: side.unwritten.load(Ordering::Relaxed),
            });
        }
        self.blocks.finish(&ends)
    }

    fn drain(&mut self) {
        for Outlet { lane, ring, .. } in &mut self.outlets {
            while let Ok(record) = ring.pop() {
                self.blocks.record(*lane, &record);
            }
        }
    }
}
