//! Writing to a fifo, or another pipe, whose reader takes its time.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use punctual_linux::clock::monotonic;
use punctual_linux::wait;
use punctual_sched::{Duration, Instant};

/// A pipe that is written without blocking, waited for until the end and then only so long.
#[derive(Debug)]
pub(crate) struct Pipe<'a> {
    /// Opened with `O_NONBLOCK`.
    pub file: &'a File,
    /// When what writes came to its end; waits for ever while it is unset.
    pub ended: &'a OnceLock<Instant>,
}

impl Pipe<'_> {
    /// Writes all of `bytes` at the end of whatever writes.
    pub(crate) fn write_last(file: &File, bytes: &[u8]) -> io::Result<()> {
        Pipe { file, ended: &OnceLock::from(monotonic()) }.write_all(bytes)
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut since = None;
        loop {
            match self.file.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return written,
            }
            if let Some(&ended) = self.ended.get() {
                let now = monotonic();
                let since = *since.get_or_insert(now);
                if now >= since + STALLED || now >= ended + LATEST {
                    let kind = io::ErrorKind::TimedOut;
                    return Err(io::Error::new(kind, "the reader did not read on"));
                }
            }
            wait::writable(self.file.as_fd(), LOOK)?;
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// From one look at the end to the next.
const LOOK: Duration = Duration::from_millis(100);
/// How long a reader may read nothing at the end: one that is stopped, or waits for another pipe.
const STALLED: Duration = Duration::from_secs(5);
/// How long all of it may take at the end. A full ring is 700 kB of log: 25 kB/s suffice.
const LATEST: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// The two ends of a pipe.
    fn pipe() -> (File, File) {
        use rustix::pipe::{PipeFlags, pipe_with};
        let (read, write) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        rustix::io::ioctl_fionbio(&read, false).unwrap();
        (read.into(), write.into())
    }

    #[test]
    fn a_slow_reader_gets_all() {
        let (mut read, write) = pipe();
        let reader = std::thread::spawn(move || {
            std::thread::park_timeout(std::time::Duration::from_millis(250));
            let mut all = Vec::new();
            read.read_to_end(&mut all).unwrap();
            all.len()
        });
        let mut pipe = Pipe { file: &write, ended: &OnceLock::new() };
        pipe.write_all(&vec![1; 150_000]).unwrap();
        Pipe::write_last(&write, &vec![2; 150_000]).unwrap();
        drop(write);
        assert_eq!(reader.join().unwrap(), 300_000);
    }

    #[test]
    fn a_reader_that_never_reads_is_given_up_at_the_end() {
        let (_read, write) = pipe();
        let start = monotonic();
        let error = Pipe::write_last(&write, &vec![0; 150_000]).unwrap_err();
        assert_eq!(error.to_string(), "the reader did not read on");
        assert!(monotonic() >= start + STALLED);
        let long_ago = OnceLock::from(Instant::ZERO);
        let error = Pipe { file: &write, ended: &long_ago }.write_all(&[0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(monotonic() < start + STALLED + STALLED, "the end is not the only bound");
    }

    #[test]
    fn a_reader_that_is_gone_is_not_waited_for() {
        let (read, write) = pipe();
        drop(read);
        let error = Pipe::write_last(&write, &[0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
