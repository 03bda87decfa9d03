//! From the first process to the last: starts the peer and the command, hands signals through,
//! keeps time.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;

use anyhow::{Context, Result, bail};
use punctual_linux::clock::monotonic;
use punctual_linux::lab::Lab;
use punctual_linux::process::signals::Received;
use punctual_linux::process::{Event, Exit, Processes, SignalFd, Who, port_listening};
use punctual_linux::wait;
use punctual_sched::{Duration, Instant};
use rustix::event::{PollFd, PollFlags};

/// Looks after the processes of a run. One call after the other: [`Supervisor::begin`],
/// [`Supervisor::command`], [`Supervisor::end`].
#[expect(clippy::struct_excessive_bools, reason = "each is an event that has come")]
pub(super) struct Supervisor<'a> {
    processes: Processes,
    signals: &'a SignalFd,
    lab: &'a Lab,
    /// Called about five times a second.
    tick: Box<dyn FnMut() -> Result<()> + 'a>,
    peer_started: bool,
    peer: Option<Exit>,
    command_started: bool,
    program: OsString,
    command: Option<i32>,
    /// Nothing of the command is left, after it was to stop.
    command_gone: bool,
    /// Nothing is left, after everything was to stop.
    all_gone: bool,
    /// A signal came when all that was left was to finish: do so at once.
    hurry: bool,
    /// Signals that came from processes, to tell an urgent caller from a patient one.
    requests: u32,
    /// The command was to be killed; when it has not ended by then, its init does not do as it is
    /// told.
    kill_by: Option<Instant>,
    notes: Vec<String>,
}

/// How the processes ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Ended {
    /// The command's status as a shell reports it.
    pub status: i32,
    /// The peer's status; `None` while it ran on.
    pub peer: Option<i32>,
    /// The peer ended before the command did.
    pub peer_ended_early: bool,
    /// What was less than it should be.
    pub notes: Vec<String>,
}

/// A run that was stopped before its command ran.
#[derive(Debug, thiserror::Error)]
#[error("stopped by signal {0} before the command was started")]
pub(super) struct Interrupted(pub i32);

impl<'a> Supervisor<'a> {
    /// Takes over the processes of a run, none of them started yet.
    pub(super) fn new(
        processes: Processes,
        signals: &'a SignalFd,
        lab: &'a Lab,
        tick: impl FnMut() -> Result<()> + 'a,
    ) -> Self {
        Self {
            processes,
            signals,
            lab,
            tick: Box::new(tick),
            peer_started: false,
            peer: None,
            command_started: false,
            program: OsString::new(),
            command: None,
            command_gone: false,
            all_gone: false,
            hurry: false,
            requests: 0,
            kill_by: None,
            notes: Vec::new(),
        }
    }

    /// Starts the peer, and waits until it listens on `port`.
    pub(super) fn begin(&mut self, with_peer: bool, port: Option<u16>) -> Result<()> {
        if !with_peer {
            return Ok(());
        }
        self.processes.start_peer().context("cannot start the peer")?;
        let deadline = monotonic() + PEER_PATIENCE;
        while !self.peer_started {
            self.turn(Some(deadline))?;
        }
        let Some(port) = port else { return Ok(()) };
        while !port_listening(self.lab.outside(), port)? {
            if let Some(exit) = self.peer {
                bail!(
                    "the peer ended (status {}) before it listened on port {port}: run its \
                     command by itself to see why",
                    exit.code()
                );
            }
            if monotonic() >= deadline {
                bail!(
                    "the peer does not listen on port {port} after {PEER_PATIENCE}: check \
                     --peer-port"
                );
            }
            self.turn(Some(monotonic() + PORT_POLL))?;
        }
        Ok(())
    }

    /// Runs the command, which is called `program`, to its end, or for `span`; returns its status
    /// as a shell reports it. After `span` what the command leaves behind gets what remains of its
    /// time to end.
    pub(super) fn command(&mut self, program: &OsStr, span: Option<Duration>) -> Result<i32> {
        program.clone_into(&mut self.program);
        self.processes.start_command().context("cannot start the command")?;
        self.command_started = true;
        let mut stop_at = span.map(|span| monotonic() + span);
        let mut next_signal = SIGTERM;
        let status = loop {
            if let Some(status) = self.command {
                break status;
            }
            if stop_at.is_some_and(|at| monotonic() >= at) {
                if next_signal == SIGKILL {
                    self.expect_its_end();
                }
                self.processes.stop_command(next_signal).context("cannot stop the command")?;
                stop_at = Some(monotonic() + TERM_PATIENCE);
                next_signal = SIGKILL;
            }
            self.turn(stop_at)?;
        };
        if let Some(deadline) = stop_at.filter(|_| next_signal == SIGKILL) {
            self.await_end(deadline, |end| end.command_gone)?;
            self.processes.stop_command(SIGKILL).context("cannot stop the command")?;
        }
        Ok(status)
    }

    /// Waits until `gone`, at most until `deadline`.
    fn await_end(&mut self, deadline: Instant, gone: fn(&Self) -> bool) -> Result<()> {
        while !gone(self) && !self.hurry && monotonic() < deadline {
            self.turn(Some(deadline))?;
        }
        Ok(())
    }

    /// Waits for `finished` while signals are looked after, at most until `deadline`.
    pub(super) fn wait_until(
        &mut self,
        deadline: Instant,
        finished: impl Fn() -> bool,
    ) -> Result<()> {
        while !finished() && !self.hurry && monotonic() < deadline {
            self.turn(Some(deadline.min(monotonic() + EMPTY_POLL)))?;
        }
        Ok(())
    }

    /// Ends the peer and everything else that is left, by SIGTERM first.
    pub(super) fn end(mut self) -> Result<Ended> {
        let mut ended = Ended {
            status: self.command.unwrap_or(0),
            peer_ended_early: self.peer.is_some(),
            ..Ended::default()
        };
        // Refused only when the init has ended, and with it everything else.
        if self.processes.terminate_all().is_ok() {
            self.await_end(monotonic() + TERM_PATIENCE, |end| end.all_gone)?;
        }
        ended.peer = self.peer.map(Exit::code);
        ended.notes = std::mem::take(&mut self.notes);
        self.processes.kill_all().context("cannot end the run's processes")?;
        Ok(ended)
    }

    /// Waits for an event, a signal, or the next tick, at most until `until`; handles what came.
    fn turn(&mut self, until: Option<Instant>) -> Result<()> {
        let now = monotonic();
        let span = until.map_or(TICK, |until| until.since(now).min(TICK));
        let mut fds = [
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.processes.fd(), PollFlags::IN),
        ];
        // The socket of an init that is gone is readable for ever.
        let open = if self.processes.is_over() { 1 } else { 2 };
        wait::any_readable(&mut fds[..open], Some(span)).context("cannot wait for the run")?;
        while let Some(event) = self.processes.next_event().context("lost the run's init")? {
            self.event(event)?;
        }
        while let Some(signal) = self.signals.next().context("cannot read signals")? {
            self.signal(signal)?;
        }
        self.enforce()?;
        (self.tick)()
    }

    /// Kills the init, and with it the command, when it was told to kill that and did not: somebody
    /// stopped it.
    fn enforce(&mut self) -> Result<()> {
        let due = self.kill_by.is_some_and(|by| monotonic() >= by);
        if !due || self.command.is_some() {
            return Ok(());
        }
        crate::tell("the run's init does not answer: it is killed, and the run with it");
        self.processes.kill_init().context("cannot kill the run's init")?;
        self.command = Some(128 + SIGKILL);
        (self.command_gone, self.all_gone) = (true, true);
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Ready | Event::Started(Who::Command) => {}
            Event::Started(Who::Peer) => self.peer_started = true,
            Event::NotExecuted(Who::Peer, errno) => bail!("cannot start the peer's shell: {errno}"),
            Event::NotExecuted(Who::Command, errno) => {
                // As a shell does, also when it is to be quiet: nothing else says why.
                let program = self.program.display();
                let meant = hint(&self.program).unwrap_or_default();
                crate::tell(format_args!("cannot execute {program}: {errno}{meant}"));
                self.command = Some(Event::status_of_failed_execution(errno));
            }
            Event::NotPrepared(who, errno, step) => {
                let who = if who == Who::Peer { "peer" } else { "command" };
                bail!("cannot prepare the {who}: {step}: {errno}");
            }
            Event::Ended(Who::Peer, exit) => self.peer = Some(exit),
            Event::Ended(Who::Command, exit) => self.command = Some(exit.code()),
            Event::CommandGone => self.command_gone = true,
            Event::AllGone => self.all_gone = true,
            Event::Note(note) => self.notes.push(note),
            Event::InitEnded if !self.command_started => bail!("the run's init was killed"),
            // The link is ours and has its packets: what it did is told as after any other end.
            Event::InitEnded => {
                crate::tell("the run's init was killed, and with it the command");
                self.command.get_or_insert(128 + SIGKILL);
                (self.command_gone, self.all_gone) = (true, true);
            }
        }
        Ok(())
    }

    /// The terminal's signals have reached the command already; all others are handed on.
    fn signal(&mut self, received: Received) -> Result<()> {
        if !self.command_started {
            return Err(Interrupted(received.signal).into());
        }
        if self.command.is_some() {
            self.hurry |= received.asks_to_end();
            return Ok(());
        }
        if received.from_terminal {
            return Ok(());
        }
        self.requests += u32::from(received.asks_to_end());
        let impatient = received.asks_to_end() && self.requests >= IMPATIENT;
        self.signal_command(if impatient { SIGKILL } else { received.signal })
    }

    fn signal_command(&mut self, signal: i32) -> Result<()> {
        if signal == SIGKILL {
            self.expect_its_end();
        }
        self.processes.signal_command(signal).context("cannot signal the command")
    }

    /// The init is told to kill the command now.
    fn expect_its_end(&mut self) {
        self.kill_by.get_or_insert_with(|| monotonic() + KILL_PATIENCE);
    }
}

/// What was meant by a program with spaces in its name: a line for a shell.
fn hint(program: &OsStr) -> Option<String> {
    let line = program.to_str().filter(|line| line.trim().contains(' '))?;
    let quoted = line.replace('\'', r"'\''");
    Some(format!("; a line for a shell is run by -- sh -c '{quoted}'"))
}

/// Time between two looks at the clock, the drivers and the terminal.
const TICK: Duration = Duration::from_millis(200);
/// How long a peer may take until it listens.
const PEER_PATIENCE: Duration = Duration::from_secs(30);
/// A look into the peer's namespace costs about a millisecond.
const PORT_POLL: Duration = Duration::from_millis(50);
/// Time between two looks at whether the link is empty.
const EMPTY_POLL: Duration = Duration::from_millis(10);
/// From SIGTERM to SIGKILL.
const TERM_PATIENCE: Duration = Duration::from_secs(2);
/// From SIGKILL by way of the init to that of the init itself.
const KILL_PATIENCE: Duration = Duration::from_secs(1);
/// The third request of a process to stop is met with SIGKILL.
const IMPATIENT: u32 = 3;
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
