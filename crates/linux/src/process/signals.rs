//! Signals to the engine, read from a descriptor instead of interrupting it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use crate::sys;

/// Every signal that ends a program which does nothing about it, blocked and read by `poll`: but for
/// those that tell of its own faults and limits, and SIGPIPE. SIGTSTP keeps its effect: the
/// terminal stops the command and the engine together.
///
/// A signal that the program was started to ignore (`nohup(1)`) stays ignored: blocked, it would
/// be kept and read.
#[derive(Debug)]
pub struct SignalFd {
    fd: OwnedFd,
    blocked: Vec<i32>,
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub signal: i32,
    /// Whether the terminal sent it, to the whole foreground process group: then the command has
    /// it already. Any other reached the engine only, and is to be handed on; so is SIGHUP, which a
    /// terminal that goes away sends to its session's leader alone.
    pub from_terminal: bool,
}

impl Received {
    /// Whether it asks to end; the others are what programs have agreed on between them.
    pub fn asks_to_end(&self) -> bool {
        REQUESTS.contains(&self.signal)
    }
}

impl SignalFd {
    /// Blocks the signals in the calling thread, and in the threads it starts from now on; to be
    /// called before there are others. The command gets an empty signal mask again.
    pub fn new() -> Result<Self, Errno> {
        let mut blocked = Vec::new();
        let agreed = OTHERS.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
        for signal in REQUESTS.into_iter().chain(agreed) {
            if !sys::process::is_ignored(signal)? {
                blocked.push(signal);
            }
        }
        Ok(Self { fd: sys::process::block_and_open(&blocked)?, blocked })
    }

    /// The next signal, without waiting.
    pub fn next(&self) -> Result<Option<Received>, Errno> {
        let info = sys::process::read_signal(self.fd.as_fd())?;
        Ok(info.map(|info| Received {
            signal: info.signal,
            from_terminal: info.code == SI_KERNEL && KEYS.contains(&info.signal),
        }))
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for SignalFd {
    fn drop(&mut self) {
        // One that is pending would kill the process at once.
        while let Ok(Some(_)) = self.next() {}
        // Fails only for numbers that are no signals; these were accepted before.
        let _ = sys::process::unblock(&self.blocked);
    }
}

/// From now on a write beyond the limit of a file's size (`ulimit -f`) fails with `EFBIG`, as on a
/// full disk, instead of killing the process by SIGXFSZ. Programs started later find that signal
/// as this one did.
pub fn outlive_file_size_limit() -> Result<(), Errno> {
    sys::process::ignore_file_size_signal()
}

const REQUESTS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// `signal(7)`, "Standard signals", disposition Term: all others but SIGPIPE, which is ignored.
const OTHERS: [i32; 8] = [
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
];

/// What keys of a terminal send to its foreground (`termios(3)`, VINTR and VQUIT).
const KEYS: [i32; 2] = [libc::SIGINT, libc::SIGQUIT];

/// `si_code` of what the kernel sent itself, as the terminal driver does, and timers do
/// (`sigaction(2)`).
const SI_KERNEL: i32 = 0x80;
