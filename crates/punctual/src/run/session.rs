//! One run from its first namespace to its last packet.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use punctual_linux::clock::{Offset, monotonic, process_cpu, realtime};
use punctual_linux::host;
use punctual_linux::lab::{DeviceStatistics, Lab, LabConfig, LabError, Tcp};
use punctual_linux::namespace::{Entered, user};
use punctual_linux::netfilter::{self, Support};
use punctual_linux::probe::Probe;
use punctual_linux::process::{Identity, Plan, Processes, SignalFd, Terminal};
use punctual_measure::report::{self, Directions, Report};
use punctual_measure::{Histogram, difference_ns, units};
use punctual_sched::{Duration, Instant};

use super::account::Live;
use super::blocks::Blocks;
use super::drivers::Drivers;
use super::gate::{Gate, GateCounts, Sockets};
use super::lanes::{ByLane, LanePlan, Making, lanes};
use super::links::Links;
use super::live::LiveLine;
use super::merge::{self, DirectionEnd};
use super::outputs::Outputs;
use super::summary::{self, DriverEnd};
use super::supervise::{Ended, Interrupted, Supervisor};
use super::witness::{RunWitness, Testimony};
use super::{Request, remotes};
use crate::control::{RunFacts, socket};
use crate::failure::Failure;
use crate::log::{Direction, Epoch, Header, LogSender, LogSummary, LogWriter};
use crate::runtime::RunDirectory;

/// A run that has ended.
#[derive(Debug)]
pub(super) struct Finished {
    /// The command's status as a shell reports it.
    pub status: i32,
    /// The report.
    pub report: Report,
}

/// Runs what is asked for.
pub(super) fn run(
    request: &Request<'_>,
    signals: &SignalFd,
    outputs: &mut Outputs,
) -> Result<Finished, Failure> {
    // Before any other thread exists: a user namespace can only be made by a process that has one.
    let entered =
        user::enter(&request.faults).map_err(|refusal| refused(&refusal, &refusal.remedy()))?;
    Probe::run(&request.faults).map_err(|lack| refused(&lack, &lack.remedy()))?;
    let directory = RunDirectory::claim(&request.base, request.options.name.as_deref())?;
    let session = Session::open(request, &entered, directory)?;
    session.run(signals, outputs).map_err(|error| match error.downcast_ref::<Interrupted>() {
        Some(Interrupted(signal)) => Failure::Interrupted(*signal),
        None => Failure::Own(error),
    })
}

fn refused(what: &dyn Display, remedy: &str) -> Failure {
    Failure::Refused(format!("{what}; remedy: {remedy}"))
}

/// Everything that a run holds.
struct Session<'a> {
    request: &'a Request<'a>,
    // In this order on drop: the processes, the rules that feed the queues, the namespaces.
    processes: Processes,
    gate: Gate,
    sockets: ByLane<Sockets>,
    lab: Lab,
    directory: RunDirectory,
    support: Support,
}

/// What was seen from the start of the first driver to the end of the last process.
struct Observed {
    drivers: Vec<DriverEnd>,
    directions: [Option<DirectionEnd>; 2],
    gate: [GateCounts; 2],
    devices: [Vec<DeviceStatistics>; 2],
    ended: Ended,
    testimony: Option<Testimony>,
    tcp: Tcp,
}

/// Readings from the beginning of a run that its end is compared with.
struct Beginning {
    realtime: i64,
    monotonic: Instant,
    steal: Option<Duration>,
    cpu: u64,
}

impl<'a> Session<'a> {
    fn open(
        request: &'a Request<'a>,
        entered: &Entered,
        directory: RunDirectory,
    ) -> Result<Self, Failure> {
        let options = request.options;
        let config =
            LabConfig { congestion_control: options.cc.clone(), ecn: options.ecn, mtu: MTU };
        let lab = Lab::build(&config).map_err(|error| match error {
            LabError::CongestionControl { .. } => Failure::usage(format!("--cc: {error}")),
            other => other.into(),
        })?;
        let support = lab
            .gate()
            .within(|| netfilter::probe(&request.faults))?
            .map_err(|missing| Failure::Refused(missing.to_string()))?;
        check_marks(&request.links, support)?;
        let lanes = LanePlan::new(options, &request.links, support);
        let (gate, sockets) = Gate::open(&lab, &request.links, (lanes, support))?;
        let plan = Plan {
            command: request.command.clone(),
            peer: request.options.peer.clone().map(Into::into),
            environment: environment(&lab, &directory),
            identity: Identity::of(entered),
        };
        // Before any other thread: the parent-death signal follows the thread that starts.
        let processes = Processes::start(&plan, &lab)?;
        Ok(Self { request, processes, gate, sockets, lab, directory, support })
    }

    fn run(self, signals: &SignalFd, outputs: &mut Outputs) -> Result<Finished> {
        let beginning = Beginning::now();
        let (request, support) = (self.request, self.support);
        let (receive_buffer, name) = (self.gate.receive_buffer, self.directory.name().to_owned());
        self.tell_costs();
        let (writer, logs) = self.open_log(outputs, beginning.monotonic)?.unzip();
        let begin = || {
            // The log first: the disk may have no room for it.
            writer.as_ref().map_or(Ok(()), LogWriter::begin)?;
            outputs.begin().context("cannot empty the report")
        };
        let observed = self.operate(signals, &beginning, logs, begin)?;
        let log = writer.map(LogWriter::finish).transpose()?;

        let (directions, lateness) = observed.directions();
        let (drivers, notes) = (&observed.drivers, &observed.ended.notes);
        let host = summary::host(&request.host, drivers, receive_buffer, support, notes);
        let run = run_section(request, &name, &beginning, &observed, log.as_ref());
        let witness = observed.witness(&directions);
        let report = summary::conclude(host, run, directions, &lateness, witness);
        Ok(Finished { status: observed.ended.status, report })
    }

    /// Moves packets from the first process to the last. Calls `begin` when nothing but the command
    /// remains to be started.
    fn operate(
        mut self,
        signals: &SignalFd,
        beginning: &Beginning,
        logs: Option<ByLane<LogSender>>,
        begin: impl FnOnce() -> Result<()>,
    ) -> Result<Observed> {
        let start = beginning.monotonic;
        let (options, links) = (self.request.options, &self.request.links);
        let plan = self.gate.plan().clone();
        let live: ByLane<Arc<Live>> = plan.for_lanes(|_| Arc::default());
        let devices_before = self.lab.device_statistics()?;
        let stamped = self.support.arrival_stamps;
        let blocks = Blocks::create(links)?;
        let making = Making {
            request: self.request,
            plan: &plan,
            start,
            stamped,
            live: &live,
            blocks: &blocks,
        };
        let lanes = lanes(&making, self.sockets, logs)?;
        // Only now: what is stored from here on is new to the lanes.
        blocks.publish(&self.directory)?;
        let drivers = RefCell::new(Drivers::start(lanes, &plan, options.precision)?);
        let (name, command) = (self.directory.name(), &self.request.command);
        let facts = RunFacts::new(name, command, beginning.realtime, start);
        let means = remotes::Means::of(links, &plan, self.support, options.witness);
        let control = remotes::listen(self.directory.path(), facts, &drivers.borrow(), means)?;
        let mut shown = LiveLine::new(live.clone(), options.quiet);
        let mut supervisor = Supervisor::new(self.processes, signals, &self.lab, || {
            shown.show();
            drivers.borrow_mut().check()
        });
        supervisor.begin(options.peer.is_some(), options.peer_port)?;
        let seed = self.request.seed;
        let witness = options.witness.then(|| RunWitness::start(&self.lab, &links.up, seed));
        let witness = witness.transpose()?;
        begin()?;
        run_command(&mut supervisor, self.request)?;
        let testimony = witness.map_or(Ok(None), |witness| witness.stop(&mut supervisor))?;
        drain(&mut supervisor, &drivers, live, (links, options.quiet))?;

        // The link is driven until nobody is left to send: so what it has not read is counted.
        let ended = supervisor.end()?;
        let devices = [devices_before, self.lab.device_statistics()?];
        remotes::close(control);
        let mut drivers = drivers.into_inner();
        drivers.stop();
        let joined = drivers.join()?;
        // While the queues are bound: afterwards the kernel knows nothing of them.
        let gate = self.gate.counts(&self.lab)?;
        let (drivers, lanes) = joined.take_apart(links);
        let directions = merge::directions(lanes, &plan, links);
        let tcp = self.lab.tcp().clone();
        Ok(Observed { drivers, directions, gate, devices, ended, testimony, tcp })
    }

    fn open_log(
        &self,
        outputs: &Outputs,
        start: Instant,
    ) -> Result<Option<(LogWriter, ByLane<LogSender>)>> {
        let Some(file) = outputs.log().context("cannot open the log")? else { return Ok(None) };
        let made_from = (&self.request.links, self.request.seed);
        let header = |direction| self.gate.plan().header(direction, made_from, start);
        let [up, down] = Direction::BOTH.map(header);
        let offset = Offset::sample();
        let epoch = Epoch { monotonic_ns: 0, realtime_ns: offset.nanos.max(0).unsigned_abs() };
        let header = Header::new(self.directory.name(), epoch, up, down);
        Ok(Some(LogWriter::held(file, &header, LogWriter::RING)?))
    }

    /// Says before the run what this machine will make it cost, and what to beware of in its traces.
    fn tell_costs(&self) {
        if self.request.options.quiet {
            return;
        }
        if let Some(lack) = summary::receive_buffer_lack(self.gate.receive_buffer) {
            crate::tell(format_args!("the machine lacks {lack}"));
        }
        for warning in &self.request.links.warnings {
            crate::warn(warning);
        }
        self.gate.plan().tell();
    }
}

impl Observed {
    fn directions(&self) -> (Directions, Histogram) {
        let mut directions = Directions::default();
        let mut lateness = Histogram::new();
        for (direction, end) in Direction::BOTH.into_iter().zip(&self.directions) {
            let Some(end) = end else { continue };
            let section = summary::direction(end, self.gate[direction.index()], &self.devices);
            lateness.merge(end.end.account.lateness().histogram());
            match direction {
                Direction::Up => directions.up = section,
                Direction::Down => directions.down = section,
            }
        }
        (directions, lateness)
    }
}

impl Observed {
    fn witness(&self, directions: &Directions) -> Option<report::Witness> {
        let mut ends = self.directions.iter().flatten();
        let ledger = ends.find_map(|direction| direction.end.account.ledger())?;
        Some(self.testimony.as_ref()?.against(ledger, &directions.up))
    }
}

impl Beginning {
    fn now() -> Self {
        Self {
            realtime: realtime(),
            monotonic: monotonic(),
            steal: host::steal(),
            cpu: process_cpu(),
        }
    }
}

/// Runs the command to its end, and takes the terminal back from it.
fn run_command(supervisor: &mut Supervisor<'_>, request: &Request<'_>) -> Result<()> {
    let terminal = Terminal::current();
    let status = supervisor.command(&request.command[0], request.options.duration)?;
    if let Some(terminal) = terminal {
        // Refused only when the terminal is gone, and then there is nothing to take back.
        let _ = terminal.take_back(status > 128);
    }
    Ok(())
}

/// Waits for packets on their way: until every lane has seen its queue empty and holds none.
fn drain(
    supervisor: &mut Supervisor<'_>,
    drivers: &RefCell<Drivers>,
    live: ByLane<Arc<Live>>,
    (links, quiet): (&Links, bool),
) -> Result<()> {
    let live: Vec<_> = live.into_iter().flatten().collect();
    let turns: Vec<_> = live.iter().map(|live| live.turns.load(Ordering::Acquire)).collect();
    let arrived = || {
        drivers.borrow().nudge();
        live.iter().zip(&turns).all(|(live, before)| live.is_empty_since(*before))
    };
    let start = monotonic();
    let patience = DRAIN + drivers.borrow().longest_delay(links, start);
    let unasked = patience.min(UNTOLD);
    supervisor.wait_until(start + unasked, arrived)?;
    let held: u64 = live.iter().map(|live| live.queued.load(Ordering::Relaxed)).sum();
    let unfinished = monotonic() >= start + unasked && !arrived();
    if !quiet && unasked < patience && unfinished {
        let (count, longest) = (units::count(held), patience.saturating_sub(unasked));
        let longest = units::duration(longest.as_nanos().try_into().unwrap_or(i64::MAX));
        crate::tell(format_args!(
            "the command has ended; waiting up to {longest} for packets on their way, {count} \
             now; a signal (Ctrl-C) ends that"
        ));
    }
    supervisor.wait_until(start + patience, arrived)
}

/// A link that marks congestion needs a kernel that can write the mark.
fn check_marks(links: &Links, support: Support) -> Result<(), Failure> {
    if support.ce_marks || !(links.up.may_mark() || links.down.may_mark()) {
        return Ok(());
    }
    let what = "this kernel cannot write CE into packets (nf_tables payload expressions), and the \
                link's queue marks";
    Err(Failure::Refused(format!("{what}; remedy: use a queue that does not mark")))
}

fn environment(lab: &Lab, directory: &RunDirectory) -> Vec<(OsString, OsString)> {
    let addresses = lab.addresses();
    let mut variables = vec![
        ("PUNCTUAL_PEER".into(), addresses.peer4.to_string().into()),
        ("PUNCTUAL_NAME".into(), directory.name().into()),
        ("PUNCTUAL_SOCKET".into(), directory.path().join(socket::NAME).into()),
    ];
    if let Some(peer6) = addresses.peer6 {
        variables.push(("PUNCTUAL_PEER6".into(), peer6.to_string().into()));
    }
    variables
}

fn run_section(
    request: &Request<'_>,
    name: &str,
    beginning: &Beginning,
    observed: &Observed,
    log: Option<&LogSummary>,
) -> report::Run {
    let options = request.options;
    let words = |words: &mut dyn Iterator<Item = OsString>| {
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    };
    report::Run {
        name: name.to_owned(),
        id: format!("{:016x}-{}", request.seed, beginning.realtime),
        argv: words(&mut std::env::args_os()),
        command: words(&mut request.command.iter().cloned()),
        started_unix_ns: Some(beginning.realtime),
        duration_ns: monotonic().signed_since(beginning.monotonic),
        seed: request.seed,
        exit_status: Some(observed.ended.status),
        net: "lab".to_owned(),
        precision: options.precision.word().to_owned(),
        congestion_control: observed.tcp.congestion_control.clone(),
        tcp_ecn: observed.tcp.ecn,
        peer: options.peer.clone().map(|command| report::Peer {
            command,
            exit_status: observed.ended.peer,
            ended_early: observed.ended.peer_ended_early,
        }),
        threads: observed.drivers.iter().map(|driver| driver.thread.clone()).collect(),
        cpu_ns: Some(difference_ns(process_cpu(), beginning.cpu)),
        steal_ns: beginning
            .steal
            .zip(host::steal())
            .map(|(before, after)| difference_ns(after.as_nanos(), before.as_nanos())),
        log: log.zip(options.log.as_ref()).map(|(summary, path)| report::Log {
            path: path.display().to_string(),
            bytes: summary.bytes,
            lost_records: summary.unwritten.iter().sum(),
            cause: summary.cause(),
        }),
    }
}

/// Of the lab's links, bytes.
pub(super) const MTU: u32 = 1500;
/// How long packets on their way may take to arrive after the command has ended, beside their
/// delay.
const DRAIN: Duration = Duration::from_secs(1);
/// How long that goes on before it is told.
const UNTOLD: Duration = Duration::from_secs(2);
