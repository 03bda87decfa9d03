//! The other end of the control socket: a command's.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use punctual_linux::clock::monotonic;
use punctual_linux::memfd;
use punctual_linux::wait::sleep_until;
use punctual_sched::{Duration, Instant};
use rustix::fs::fstat;
use serde_json::Value;

use super::socket;
use crate::runtime;

/// A connection to a run, one question after the other.
#[derive(Debug)]
pub(crate) struct Client {
    stream: UnixStream,
    input: Vec<u8>,
}

/// A run that was not asked, or has not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// There is no socket.
    #[error(
        "it has no control socket: it is starting, or ending (try again), or could not make one"
    )]
    NoSocket,
    /// There is one, and nobody listens.
    #[error("nobody listens at its control socket: it is ending, or was killed")]
    Gone,
    /// It belongs to somebody else.
    #[error("its control socket belongs to another user")]
    NotAllowed,
    /// It does not answer in time.
    #[error(
        "it does not answer: it is stopped, or finds no processor; what it was asked it may still do"
    )]
    Silent,
    /// It has not read a trace in time.
    #[error(
        "it does not say within {} s that it follows the trace of {bytes} bytes: it is stopped, finds \
         no processor, or reads other traces first; what it was asked it may still do",
        patience.as_nanos() / 1_000_000_000
    )]
    Unread {
        /// Of the trace.
        bytes: u64,
        /// How long it was waited for.
        patience: Duration,
    },
    /// The connection ended before the answer.
    #[error("it ended before it answered")]
    Ended,
    /// What came is no answer.
    #[error("it answers what this version does not understand: {0}")]
    Garbled(String),
    /// Another failure.
    #[error("its control socket fails: {0}")]
    Io(io::Error),
}

impl Client {
    /// Connects to the run whose directory it is; one that is starting is given a moment for that.
    pub(crate) fn connect(directory: &Path) -> Result<Self, AskError> {
        let stream = reach(directory)?;
        stream.set_write_timeout(Some(std(PATIENCE)))?;
        Ok(Self { stream, input: Vec::new() })
    }

    /// Sends one request and waits for its answer.
    pub(crate) fn ask(&mut self, request: &Value) -> Result<Value, AskError> {
        self.send(request)?;
        self.answer(monotonic() + PATIENCE)
    }

    /// The same with a trace in a memfd that goes with the request, and has to be read until the
    /// answer.
    pub(crate) fn ask_with(&mut self, request: &Value, trace: &OwnedFd) -> Result<Value, AskError> {
        let bytes = fstat(trace).map_err(io::Error::from)?.st_size.unsigned_abs();
        let patience = patience(bytes);
        let line = format!("{request}\n");
        let sent = memfd::send(&self.stream, line.as_bytes(), trace);
        let sent = sent.and_then(|sent| self.stream.write_all(&line.as_bytes()[sent..]));
        let asked = passing(sent).map_err(AskError::from);
        let answer = asked.and_then(|()| self.answer(monotonic() + patience));
        answer.map_err(|error| match error {
            AskError::Silent => AskError::Unread { bytes, patience },
            other => other,
        })
    }

    /// Sends a request whose answer is taken later.
    pub(crate) fn send(&mut self, request: &Value) -> Result<(), AskError> {
        let line = format!("{request}\n");
        Ok(passing(self.stream.write_all(line.as_bytes()))?)
    }

    /// The answer to a request that was sent, if it comes by `deadline`.
    pub(crate) fn answer(&mut self, deadline: Instant) -> Result<Value, AskError> {
        loop {
            if let Some(end) = self.input.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                let garbled = |error: serde_json::Error| AskError::Garbled(error.to_string());
                return serde_json::from_slice(&line).map_err(garbled);
            }
            if self.input.len() > LONGEST_ANSWER {
                return Err(AskError::Garbled("a line of more than 16 MB".to_owned()));
            }
            self.read(deadline)?;
        }
    }

    fn read(&mut self, deadline: Instant) -> Result<(), AskError> {
        let left = deadline.since(monotonic());
        if left == Duration::ZERO {
            return Err(AskError::Silent);
        }
        self.stream.set_read_timeout(Some(std(left)))?;
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(AskError::Ended),
            Ok(length) => {
                self.input.extend_from_slice(&buffer[..length]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A server that has closed may have said why: that can still be read.
fn passing(sent: io::Result<()>) -> io::Result<()> {
    match sent {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Waits for the socket of a run that lives and has none yet.
fn reach(directory: &Path) -> io::Result<UnixStream> {
    let start = monotonic();
    loop {
        let now = monotonic();
        match socket::connect(directory, now + PATIENCE) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && now < start + STARTING
                    && lives(directory) =>
            {
                sleep_until(now + POLL);
            }
            reached => return reached,
        }
    }
}

fn lives(directory: &Path) -> bool {
    let running = directory.parent().and_then(|base| runtime::running(base).ok());
    running.is_some_and(|running| running.iter().any(|run| run == directory))
}

/// How long the answer to a request with a trace of so many bytes may take.
fn patience(bytes: u64) -> Duration {
    PATIENCE + Duration::from_nanos(bytes.saturating_mul(READING))
}

fn std(span: Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(span.as_nanos())
}

impl From<io::Error> for AskError {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::NotFound => Self::NoSocket,
            Kind::ConnectionRefused => Self::Gone,
            Kind::PermissionDenied => Self::NotAllowed,
            Kind::TimedOut | Kind::WouldBlock => Self::Silent,
            Kind::BrokenPipe | Kind::ConnectionReset => Self::Ended,
            _ => Self::Io(error),
        }
    }
}

/// A link's thread that is kept from running answers after 5 s that it does not.
const PATIENCE: Duration = Duration::from_secs(12);
/// Nanoseconds for each byte of a trace: 10 MB/s, where 3 million lines a second are some 45.
const READING: u64 = 100;
/// From when a run has a name until it has a socket: some 0.1 s, and more on a busy machine.
const STARTING: Duration = Duration::from_secs(1);
/// Between two looks for the socket.
const POLL: Duration = Duration::from_millis(10);
/// Bytes: a hundred times what both directions take.
const LONGEST_ANSWER: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::RunDirectory;
    use std::fs;

    #[test]
    fn a_run_that_is_starting_is_waited_for_and_one_that_does_not_live_is_not() {
        let name = format!("punctual-client-{}", std::process::id());
        let base = std::env::temp_dir().join(name);
        let run = RunDirectory::claim(&base, None).unwrap();
        let (tell, begun) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let client = scope.spawn(|| {
                tell.send(()).unwrap();
                Client::connect(run.path())
            });
            begun.recv().unwrap();
            sleep_until(monotonic() + Duration::from_millis(50));
            let _listener = socket::listen(run.path()).unwrap();
            client.join().unwrap().unwrap();
        });
        let start = monotonic();
        fs::remove_file(run.path().join(socket::NAME)).unwrap();
        let none = Client::connect(run.path()).unwrap_err();
        assert!(none.to_string().contains("(try again)"), "{none}");
        assert!(monotonic().since(start) >= STARTING, "it lives");
        fs::remove_file(run.path().join("lock")).unwrap();
        let start = monotonic();
        assert!(matches!(Client::connect(run.path()), Err(AskError::NoSocket)));
        assert!(monotonic().since(start) < STARTING, "nobody lives there");
        drop(run);
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn patience_is_that_of_other_requests_and_what_the_trace_needs() {
        assert_eq!(patience(0), PATIENCE);
        assert_eq!(patience(30_000_000), Duration::from_secs(15));
        assert_eq!(patience(512 << 20).as_nanos() / 1_000_000_000, 65);
        let unread = AskError::Unread { bytes: 30_000_000, patience: patience(30_000_000) };
        let told = "it does not say within 15 s that it follows the trace of 30000000 bytes: it is \
                    stopped, ";
        assert!(unread.to_string().starts_with(told), "{unread}");
    }
}
