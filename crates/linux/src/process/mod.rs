//! The command and its peer, in a PID namespace of their own.
//!
//! The first process of that namespace, its *init*, is this program again, started with a hidden
//! first argument. It starts both, reaps what is left behind, and reports. When it ends the kernel
//! kills everything in the namespace, also what left its session or ignores SIGTERM
//! (`pid_namespaces(7)`); and it ends when the engine does: by the parent-death signal, and
//! because its end of the control socket then reads end of file.

pub mod init;
mod plan;
pub mod port;
pub mod signals;
mod spawn;
mod sweep;
pub mod terminal;
mod wire;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{Signal, WaitIdOptions};

use crate::lab::Lab;
use crate::sys;

pub use plan::{Identity, Plan};
pub use port::port_listening;
pub use signals::SignalFd;
pub use terminal::Terminal;
pub use wire::{Event, Exit, Who};

/// The init of a run and, below it, the command and the peer.
///
/// Order of calls: [`start`](Self::start), then [`start_peer`](Self::start_peer) and
/// [`start_command`](Self::start_command) as wanted; [`next_event`](Self::next_event) whenever
/// [`fd`](Self::fd) is readable. Dropping kills all that is left.
#[derive(Debug)]
pub struct Processes {
    child: sys::process::Child,
    control: OwnedFd,
    ended: bool,
}

/// The processes of a run could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The plan or the socket for the init could not be made.
    #[error("cannot prepare the run's processes: {0}")]
    Prepare(#[from] Errno),
    /// The plan could not be written.
    #[error("cannot write the plan for the run's processes: {0}")]
    Plan(#[from] io::Error),
    /// The kernel refused the PID namespace.
    #[error("cannot start the first process of a PID namespace: {0}")]
    Clone(Errno),
}

impl Processes {
    /// Starts the init, in the calling process's network namespace.
    ///
    /// From the main thread, or one that lives as long as the run: the parent-death signal fires
    /// when the *thread* ends that started the child (`PR_SET_PDEATHSIG(2const)`). The terminal,
    /// standard streams, working directory and environment are handed through.
    ///
    /// # Panics
    /// Never: a decimal number contains no NUL.
    pub fn start(plan: &Plan, lab: &Lab) -> Result<Self, StartError> {
        let flags = SocketFlags::CLOEXEC;
        let (control, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let written = plan.write()?;
        let inherited = [
            theirs.as_raw_fd(),
            written.as_raw_fd(),
            lab.inside().as_fd().as_raw_fd(),
            lab.outside().as_fd().as_raw_fd(),
        ];
        let mut arguments = vec![c"punctual".to_owned(), init::ARGUMENT.to_owned()];
        arguments.extend(
            inherited.iter().map(|fd| {
                CString::new(fd.to_string()).expect("a number in decimal contains no NUL")
            }),
        );
        let child = sys::process::clone_and_execute(c"/proc/self/exe", &arguments, &inherited)
            .map_err(StartError::Clone)?;
        Ok(Self { child, control, ended: false })
    }

    /// Readable when an event is pending.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Starts the peer of the plan in *outside*, by `sh -c`, its output to standard error, its
    /// input empty, in a session of its own so that a Ctrl-C meant for the command spares it.
    pub fn start_peer(&self) -> Result<(), Errno> {
        self.send(wire::Request::Start(Who::Peer))
    }

    /// Starts the command of the plan in *inside*.
    pub fn start_command(&self) -> Result<(), Errno> {
        self.send(wire::Request::Start(Who::Command))
    }

    /// Sends `signal` to the command, if it runs.
    pub fn signal_command(&self, signal: i32) -> Result<(), Errno> {
        self.send(wire::Request::Signal(Who::Command, signal))
    }

    /// Asks the peer, and its process group, to end: SIGTERM.
    pub fn terminate_peer(&self) -> Result<(), Errno> {
        self.send(wire::Request::Signal(Who::Peer, libc::SIGTERM))
    }

    /// Sends `signal` to the command and to everything else in its network namespace: a shell that
    /// wraps a program does not hand it on. [`Event::CommandGone`] follows when all have ended.
    pub fn stop_command(&self, signal: i32) -> Result<(), Errno> {
        self.send(wire::Request::StopCommand(signal))
    }

    /// Asks everything that is left to end: SIGTERM. [`Event::AllGone`] follows when it has.
    pub fn terminate_all(&self) -> Result<(), Errno> {
        self.send(wire::Request::StopAll(libc::SIGTERM))
    }

    /// The next event without waiting; `None` when there is none yet.
    ///
    /// [`Event::InitEnded`] is the last: nothing of the run lives then.
    pub fn next_event(&mut self) -> Result<Option<Event>, Errno> {
        if self.ended {
            return Ok(None);
        }
        self.receive(RecvFlags::DONTWAIT)
    }

    /// Waits for the next event; `None` after [`Event::InitEnded`].
    pub fn wait(&mut self) -> Result<Option<Event>, Errno> {
        if self.ended {
            return Ok(None);
        }
        self.receive(RecvFlags::empty())
    }

    /// Kills the init, and with it everything in the namespace, and waits until it is gone.
    pub fn kill_all(mut self) -> Result<(), Errno> {
        self.end()
    }

    /// The same in the midst of a run, of an init that does not do as it is told: it may have been
    /// stopped. There are no events afterwards.
    pub fn kill_init(&mut self) -> Result<(), Errno> {
        self.end()
    }

    /// Nothing of the run lives.
    pub fn is_over(&self) -> bool {
        self.ended
    }

    /// Nobody is left to do it when all have ended, and then there is nothing to be done.
    fn send(&self, request: wire::Request) -> Result<(), Errno> {
        if self.ended {
            return Ok(());
        }
        rustix::net::send(&self.control, &request.encode(), SendFlags::NOSIGNAL).map(|_| ())
    }

    fn receive(&mut self, flags: RecvFlags) -> Result<Option<Event>, Errno> {
        let mut buffer = vec![0; wire::LONGEST];
        let length = loop {
            match rustix::net::recv(&self.control, buffer.as_mut_slice(), flags) {
                Ok((length, _)) => break length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::CONNRESET) => break 0,
                Err(error) => return Err(error),
            }
        };
        if length == 0 {
            self.end()?;
            return Ok(Some(Event::InitEnded));
        }
        Event::decode(&buffer[..length]).map(Some).ok_or(Errno::PROTO)
    }

    fn end(&mut self) -> Result<(), Errno> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        match rustix::process::pidfd_send_signal(&self.child.pidfd, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(error),
        }
        let id = rustix::process::WaitId::PidFd(self.child.pidfd.as_fd());
        rustix::io::retry_on_intr(|| rustix::process::waitid(id.clone(), WaitIdOptions::EXITED))
            .map(|_| ())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // Nobody is left to tell; the init also dies with us.
        let _ = self.end();
    }
}
