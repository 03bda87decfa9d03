//! The file of a run's log, which keeps what an earlier run has left until this one has started.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use punctual_linux::clock::monotonic;
use punctual_sched::Instant;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::blocks::Sink;
use super::pipe::Pipe;
use super::writer::LogError;

/// Where a run's log goes. A clone is the same file: one is written by the log's thread, one begun
/// by the run.
///
/// Until [`LogFile::begin`] what is written is held in memory, as no run may have started: its peer
/// may not come up. What an earlier run has left in the file is then as it was.
#[derive(Clone, Debug)]
pub(crate) struct LogFile(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    begun: Condvar,
    ended: OnceLock<Instant>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// A file in the usual sense; else a device or a fifo, which keeps nothing.
    regular: bool,
    /// For what is in the file; `None` where that may not be read.
    old: Option<File>,
    /// Written before the run has started, `None` since.
    held: Option<Vec<u8>>,
    /// Bytes that are held at most.
    limit: usize,
    /// Bytes in the file, as far as this has written them.
    written: u64,
    /// Names of the file when it was opened; some file systems tell none.
    names: u64,
}

/// What another program did to a log while it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Meddling {
    /// It has no name any more.
    #[error("the file was removed")]
    Removed,
    /// It is shorter than what was written.
    #[error("the file was truncated by another program")]
    Truncated,
    /// It is longer.
    #[error("another program wrote into the file")]
    Overwritten,
}

impl Meddling {
    /// What `error` tells of, if it does.
    pub(super) fn of(error: &io::Error) -> Option<Self> {
        error.get_ref().and_then(|inner| inner.downcast_ref()).copied()
    }
}

impl LogFile {
    /// `file` was opened for writing and not emptied.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let found = file.metadata()?;
        let (regular, names) = (found.is_file(), found.nlink());
        // By way of the descriptor, so that it is the same file whatever its name leads to by now.
        let old = || File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
        let old = if regular { old() } else { None };
        let held = Some(Vec::new());
        let state = State { file, regular, old, held, limit: usize::MAX, written: 0, names };
        Ok(Self(Arc::new(Shared {
            state: Mutex::new(state),
            begun: Condvar::new(),
            ended: OnceLock::new(),
        })))
    }

    /// The log's beginning is written, however long it is: of what follows little is held.
    pub(super) fn bound(&self) {
        let mut state = self.0.lock();
        state.limit = state.held.as_ref().map_or(0, Vec::len).saturating_add(HELD);
    }

    /// The run has started: what is held takes the place of what was in the file. When that
    /// fails, the file is as it was.
    pub(super) fn begin(&self) -> Result<(), LogError> {
        let mut state = self.0.lock();
        let Some(held) = state.held.take() else { return Ok(()) };
        if let Err(error) = state.replace(&held) {
            state.held = Some(held);
            return Err(LogError::Write(error));
        }
        self.0.begun.notify_all();
        Ok(())
    }

    /// The run has ended: from here on a reader that does not read is waited for only so long.
    pub(super) fn end(&self) {
        // Set once is enough.
        let _ = self.0.ended.set(monotonic());
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Written in place rather than after emptying the file: what the disk or a limit then refuses
    /// can be taken back, because the blocks that were there still are.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.regular {
            return Pipe::write_last(&self.file, bytes);
        }
        let (length, whole) = (self.file.metadata()?.len(), bytes.len() as u64);
        let mut kept = Vec::new();
        if let Some(old) = self.old.take() {
            old.take(whole).read_to_end(&mut kept)?;
        }
        let written = self.file.write_all_at(bytes, 0).and_then(|()| self.file.set_len(whole));
        written.inspect_err(|_| {
            // What cannot be put back the disk has lost.
            let _ = self.file.write_all_at(&kept, 0);
            let _ = self.file.set_len(length);
        })?;
        self.file.seek(SeekFrom::Start(whole))?;
        // From now on at the end, wherever that is: in a file that somebody empties there is no
        // hole, and its length tells.
        fcntl_setfl(&self.file, fcntl_getfl(&self.file)? | OFlags::APPEND)?;
        self.written = whole;
        Ok(())
    }

    /// Fails when the file is not as long as what was written to it.
    fn unaltered(&self) -> io::Result<()> {
        if !self.regular {
            return Ok(());
        }
        match self.file.metadata()?.len().cmp(&self.written) {
            Ordering::Less => Err(io::Error::other(Meddling::Truncated)),
            Ordering::Equal => Ok(()),
            Ordering::Greater => Err(io::Error::other(Meddling::Overwritten)),
        }
    }

    /// Fails also when the file has lost its name: what is written to it nobody will read.
    fn there(&self) -> io::Result<()> {
        if self.regular && self.names > 0 && self.file.metadata()?.nlink() == 0 {
            return Err(io::Error::other(Meddling::Removed));
        }
        self.unaltered()
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let full = |state: &mut State| {
            let limit = state.limit;
            state.held.as_ref().is_some_and(|held| held.len() >= limit)
        };
        let state = self.0.begun.wait_while(self.0.lock(), full);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = &mut state.held {
            held.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        state.unaltered()?;
        let written = if state.regular {
            state.file.write(bytes)?
        } else {
            Pipe { file: &state.file, ended: &self.0.ended }.write(bytes)?
        };
        state.written += written as u64;
        Ok(written)
    }

    /// The last call: fails when another program had its hands in the file.
    fn flush(&mut self) -> io::Result<()> {
        let state = self.0.lock();
        if state.held.is_none() { state.there() } else { Ok(()) }
    }
}

impl Sink for LogFile {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        if let Some(held) = &mut state.held {
            return held.cut(len);
        }
        // Not as it was left: nothing may follow in it.
        state.unaltered()?;
        state.file.cut(len)?;
        state.written = len;
        Ok(())
    }
}

/// Bytes that are held of what happens before the run has started, some 2,000,000 packets: a peer
/// may send before it listens. When they are full the thread waits, and then the ring fills up.
const HELD: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn with(name: &str, text: &str) -> Self {
            let file = format!("punctual-{}-{name}.log", std::process::id());
            let path = std::env::temp_dir().join(file);
            std::fs::write(&path, text).unwrap();
            Self(path)
        }

        fn text(&self) -> String {
            std::fs::read_to_string(&self.0).unwrap()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn open(path: &Path) -> LogFile {
        LogFile::new(super::super::open(path).unwrap()).unwrap()
    }

    #[test]
    fn what_is_in_the_file_stays_until_the_run_has_begun() {
        for old in ["", "of an earlier run, and longer than this one's", "old"] {
            let place = Place::with("begun", old);
            let log = open(&place.0);
            let mut thread = log.clone();
            thread.write_all(b"header").unwrap();
            thread.cut(4).unwrap();
            assert_eq!(place.text(), old);
            log.begin().unwrap();
            assert_eq!(place.text(), "head");
            thread.write_all(b", packets").unwrap();
            assert_eq!(place.text(), "head, packets");
            thread.cut(6).unwrap();
            thread.write_all(b"end").unwrap();
            assert_eq!(place.text(), "head, end");
        }
    }

    /// A log of "head", begun, to which `alter` was done.
    fn altered(name: &str, alter: impl FnOnce(&Path)) -> (Place, LogFile) {
        let place = Place::with(name, "old");
        let mut log = open(&place.0);
        log.write_all(b"head").unwrap();
        log.begin().unwrap();
        log.flush().unwrap();
        alter(&place.0);
        (place, log)
    }

    #[test]
    fn a_file_that_another_program_shortened_or_wrote_is_left_to_it() {
        for (meddling, text) in [
            (Meddling::Truncated, ""),
            (Meddling::Truncated, "hea"),
            (Meddling::Overwritten, "head and more"),
        ] {
            let (place, mut log) = altered("altered", |path| std::fs::write(path, text).unwrap());
            let told = |result: io::Result<()>| Meddling::of(&result.unwrap_err()).unwrap();
            assert_eq!(told(log.flush()), meddling);
            assert_eq!(told(log.write_all(b", packets")), meddling);
            assert_eq!(told(log.cut(4)), meddling);
            assert_eq!(place.text(), text);
        }
    }

    #[test]
    fn a_file_without_a_name_is_told_at_the_end_and_another_name_is_one() {
        let (_place, mut log) = altered("removed", |path| std::fs::remove_file(path).unwrap());
        log.write_all(b", packets").unwrap();
        assert_eq!(Meddling::of(&log.flush().unwrap_err()), Some(Meddling::Removed));
        let moved = |path: &Path| path.with_extension("moved");
        let (place, mut log) = altered("named", |path| std::fs::rename(path, moved(path)).unwrap());
        log.write_all(b", packets").unwrap();
        log.flush().unwrap();
        let text = std::fs::read_to_string(moved(&place.0)).unwrap();
        std::fs::remove_file(moved(&place.0)).unwrap();
        assert_eq!(text, "head, packets");
    }

    #[test]
    fn a_file_that_was_removed_before_the_run_has_begun_is_told_too() {
        let place = Place::with("early", "old");
        let mut log = open(&place.0);
        log.write_all(b"head").unwrap();
        std::fs::remove_file(&place.0).unwrap();
        log.begin().unwrap();
        assert_eq!(Meddling::of(&log.flush().unwrap_err()), Some(Meddling::Removed));
    }

    #[test]
    fn what_is_held_is_bounded_behind_the_beginning() {
        let place = Place::with("bounded", "");
        let log = open(&place.0);
        let mut thread = log.clone();
        thread.write_all(&vec![0; HELD + 1]).unwrap();
        log.bound();
        thread.write_all(&vec![1; HELD]).unwrap();
        let waiting = std::thread::spawn(move || thread.write_all(b"end").unwrap());
        std::thread::park_timeout(std::time::Duration::from_millis(50));
        assert!(!waiting.is_finished() && place.text().is_empty());
        log.begin().unwrap();
        waiting.join().unwrap();
        assert_eq!(std::fs::metadata(&place.0).unwrap().len(), 2 * HELD as u64 + 4);
    }
}
