//! The controlling terminal, given to the command and taken back.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::termios::{self, OptionalActions, Termios};

use crate::sys;

/// The terminal whose foreground is our process group, as it was before the command ran.
///
/// A shell as the command makes a process group of its own the foreground, and cannot give it back
/// when it ends: ours has no number in its PID namespace. A command that was killed leaves modes
/// behind, such as no echo.
#[derive(Debug)]
pub struct Terminal {
    fd: OwnedFd,
    group: Pid,
    modes: Termios,
}

impl Terminal {
    /// The controlling terminal; `None` without one, or when we are not in its foreground.
    pub fn current() -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?;
        let group = rustix::process::getpgrp();
        let modes = termios::tcgetattr(&fd).ok()?;
        (termios::tcgetpgrp(&fd) == Ok(group)).then_some(Self { fd, group, modes })
    }

    /// Makes our process group the foreground again, and sets the modes back if the command was
    /// killed; one that ended by itself may have meant to change them, as `stty` does.
    pub fn take_back(&self, killed: bool) -> Result<(), Errno> {
        // From the background both calls raise SIGTTOU, which stops the process unless blocked.
        sys::process::block(&[libc::SIGTTOU])?;
        let taken = termios::tcsetpgrp(&self.fd, self.group).and_then(|()| {
            if killed {
                return termios::tcsetattr(&self.fd, OptionalActions::Now, &self.modes);
            }
            Ok(())
        });
        sys::process::unblock(&[libc::SIGTTOU])?;
        taken
    }
}
