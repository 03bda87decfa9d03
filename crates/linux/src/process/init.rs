//! The first process of a run's PID namespace.

use std::ffi::{CStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use super::plan::Plan;
use super::spawn::{self, Failure, Place};
use super::sweep;
use super::wire::{self, Event, Exit, Request, Who};
use crate::namespace::Network;
use crate::sys;

/// The hidden first argument. What follows are the numbers of four inherited descriptors.
pub(super) const ARGUMENT: &CStr = c"__init";

/// To be called first in `main`: runs as the init of a run, to its end, when started as one.
///
/// `None` when this process is not an init; else `main` returns what it got.
pub fn dispatch() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()?.as_encoded_bytes() != ARGUMENT.to_bytes() {
        return None;
    }
    let Some(mut init) = Init::from_arguments(arguments.collect()) else {
        eprintln!("punctual: __init is for punctual's own use");
        return Some(ExitCode::from(OWN_FAILURE));
    };
    // An error here is a broken control socket: the engine is gone, and so is the need for us.
    let ended = init.run();
    Some(if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(OWN_FAILURE) })
}

struct Init {
    control: OwnedFd,
    children: OwnedFd,
    plan: Plan,
    inside: Network,
    outside: Network,
    command: Option<Pid>,
    peer: Option<Pid>,
    /// `/proc` shows our own processes.
    own_proc: bool,
    /// The command was to stop, and its end is to be told.
    stopping: bool,
    /// Everything was to stop, and its end is to be told.
    closing: bool,
}

impl Init {
    fn from_arguments(arguments: Vec<OsString>) -> Option<Self> {
        if rustix::process::getpid() != Pid::INIT {
            return None;
        }
        let fds: Vec<OwnedFd> = arguments
            .into_iter()
            .map(|text| sys::process::take_descriptor(text.to_str()?.parse().ok()?).ok())
            .collect::<Option<_>>()?;
        let [control, plan, inside, outside] = <[OwnedFd; 4]>::try_from(fds).ok()?;
        Some(Self {
            control,
            children: sys::process::block_and_open(&[libc::SIGCHLD]).ok()?,
            plan: Plan::read(plan).ok()?,
            inside: inside.into(),
            outside: outside.into(),
            command: None,
            peer: None,
            own_proc: false,
            stopping: false,
            closing: false,
        })
    }

    fn run(&mut self) -> Result<(), Errno> {
        // If the engine died before this call, the control socket below reads end of file.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        match mount_proc() {
            Ok(()) => self.own_proc = true,
            Err(note) => self.tell(&Event::Note(note))?,
        }
        self.tell(&Event::Ready)?;
        loop {
            let mut polled = [
                PollFd::new(&self.control, PollFlags::IN),
                PollFd::new(&self.children, PollFlags::IN),
            ];
            rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, None))?;
            let asked = !polled[0].revents().is_empty();
            while sys::process::read_signal(self.children.as_fd())?.is_some() {}
            self.reap()?;
            if asked && !self.obey()? {
                return Ok(());
            }
        }
    }

    /// Handles one request; `false` when the engine is gone.
    fn obey(&mut self) -> Result<bool, Errno> {
        let mut buffer = vec![0; wire::LONGEST];
        let (length, _) =
            rustix::net::recv(&self.control, buffer.as_mut_slice(), RecvFlags::empty())?;
        match Request::decode(&buffer[..length]) {
            _ if length == 0 => return Ok(false),
            Some(Request::Start(who)) => self.start(who)?,
            Some(Request::Signal(who, signal)) => self.signal(who, signal),
            Some(Request::StopCommand(signal)) => self.stop_command(signal)?,
            Some(Request::StopAll(signal)) => self.stop_all(signal)?,
            None => return Err(Errno::PROTO),
        }
        Ok(true)
    }

    fn start(&mut self, who: Who) -> Result<(), Errno> {
        let place = match who {
            Who::Command => Place { network: &self.inside, identity: &self.plan.identity },
            Who::Peer => Place { network: &self.outside, identity: &self.plan.identity },
        };
        let (result, notes) = match who {
            Who::Command => spawn::command(&self.plan, &place),
            Who::Peer => spawn::peer(&self.plan, &place),
        };
        for note in notes {
            self.tell(&Event::Note(note))?;
        }
        match result {
            Ok(pid) => {
                *self.slot(who) = Some(pid);
                self.tell(&Event::Started(who))
            }
            Err(Failure::Execute(errno)) => self.tell(&Event::NotExecuted(who, errno)),
            Err(Failure::Prepare(step, errno)) => self.tell(&Event::NotPrepared(who, errno, step)),
        }
    }

    /// The peer leads its own process group, and gets the signal as a group.
    fn signal(&mut self, who: Who, signal: i32) {
        let Some(pid) = *self.slot(who) else { return };
        let target = pid.as_raw_nonzero().get();
        // It may have ended just now, which `reap` reports.
        let _ = sys::process::kill(if who == Who::Peer { -target } else { target }, signal);
    }

    fn stop_command(&mut self, signal: i32) -> Result<(), Errno> {
        self.stopping = true;
        if self.own_proc {
            sweep::signal_all_in(&self.inside, signal);
        } else {
            self.signal(Who::Command, signal);
        }
        self.reap()
    }

    fn stop_all(&mut self, signal: i32) -> Result<(), Errno> {
        self.closing = true;
        // All but the init, which is the caller; refused when there is nobody (`kill(2)`).
        let _ = sys::process::kill(-1, signal);
        self.reap()
    }

    fn reap(&mut self) -> Result<(), Errno> {
        let alone = loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.report(pid, status)?,
                Ok(None) => break false,
                // What has lost its parent is ours: without children there are no processes.
                Err(Errno::CHILD) => break true,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        };
        if self.stopping && (alone || self.command_is_gone()) {
            self.stopping = false;
            self.tell(&Event::CommandGone)?;
        }
        if self.closing && alone {
            self.closing = false;
            self.tell(&Event::AllGone)?;
        }
        Ok(())
    }

    fn command_is_gone(&self) -> bool {
        self.command.is_none() && !(self.own_proc && sweep::is_anybody_in(&self.inside))
    }

    fn report(&mut self, pid: Pid, status: WaitStatus) -> Result<(), Errno> {
        let exit = match (status.exit_status(), status.terminating_signal()) {
            (Some(status), _) => Exit::Status(status),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => return Ok(()),
        };
        for who in [Who::Command, Who::Peer] {
            if *self.slot(who) == Some(pid) {
                *self.slot(who) = None;
                self.tell(&Event::Ended(who, exit))?;
            }
        }
        Ok(())
    }

    fn slot(&mut self, who: Who) -> &mut Option<Pid> {
        match who {
            Who::Command => &mut self.command,
            Who::Peer => &mut self.peer,
        }
    }

    fn tell(&self, event: &Event) -> Result<(), Errno> {
        rustix::net::send(&self.control, &event.encode(), SendFlags::NOSIGNAL).map(|_| ())
    }
}

/// Shows the processes of the new PID namespace in `/proc`; the error is a note for the user.
///
/// The host's mounts stay visible as they come and go (slave propagation); ours never get there.
fn mount_proc() -> Result<(), String> {
    let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", propagation).map_err(|errno| {
        format!("/proc shows the host's processes: the mounts cannot be made private: {errno}")
    })?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("proc", "/proc", "proc", flags, None)
        .map_err(|errno| format!("/proc shows the host's processes: mounting anew: {errno}"))
}

/// The exit status for a failure of our own.
const OWN_FAILURE: u8 = 125;
