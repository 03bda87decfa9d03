//! `punctual run`: a command behind a link, on real packets.

mod account;
mod blocks;
mod changes;
mod drivers;
mod flows;
mod gate;
mod impairments;
mod links;
mod live;
mod remotes;
mod session;
mod summary;
mod supervise;
pub(crate) mod tables;
mod witness;

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{Write, stdout};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use anyhow::Context;
use punctual_linux::fault::Faults;
use punctual_linux::host::Host;
use punctual_linux::process::SignalFd;
use punctual_linux::process::signals::outlive_file_size_limit;
use punctual_measure::Report;
use punctual_measure::report::{queues, text};
use punctual_sched::LinkConfig;
use punctual_sched::impair::Correlated;

use crate::cli::RunOptions;
use crate::failure::Failure;
use crate::{log, runtime};

use self::links::Links;
use self::session::Finished;

/// Runs the command and returns the exit status of punctual.
pub fn run(options: &RunOptions) -> Result<u8, Failure> {
    let request = Request::check(options)?;
    let outputs = Outputs::open(options)?;
    // Before any other thread exists, so that signals are blocked in all of them. They stay so: one
    // that comes after the command's end must neither cut the report off nor take the place of the
    // command's status.
    let signals = SignalFd::new().context("cannot take over signals")?;
    let signals = ManuallyDrop::new(signals);
    outlive_file_size_limit().context("cannot ignore SIGXFSZ")?;
    let finished = session::run(&request, &signals)?;
    outputs.write(&finished.report, options.quiet)?;
    Ok(exit_status(&finished, options.fail_unless_ok))
}

/// What is to be run, checked: from here on nothing is the caller's mistake.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    options: &'a RunOptions,
    command: Vec<OsString>,
    links: Links,
    seed: u64,
    faults: Faults,
    host: Host,
    /// Where the run's directory goes; of the user who started the process, as whom it is no more
    /// once it is in a user namespace.
    base: PathBuf,
}

impl<'a> Request<'a> {
    fn check(options: &'a RunOptions) -> Result<Self, Failure> {
        if options.peer_port.is_some() && options.peer.is_none() {
            return Err(Failure::usage(
                "--peer-port: nothing will listen there without --peer CMD",
            ));
        }
        if options.cc.as_ref().is_some_and(|name| name.trim().is_empty()) {
            return Err(Failure::usage("--cc: expected a name, such as cubic"));
        }
        if options.log.as_deref() == Some(Path::new("-")) {
            return Err(Failure::usage(
                "--log: stdout is the command's, expected a file (./- for one of that name)",
            ));
        }
        if let Some(name) = &options.name {
            runtime::check_name(name).map_err(Failure::usage)?;
        }
        let host = Host::look();
        // The links first: what is wrong with them is there to be told whatever else is missing.
        let links = Links::from_options(options, hold_limit(&host))?;
        if options.net.is_none() && options.peer.is_none() {
            return Err(Failure::usage(
                "--net: what the host reaches is not available in this version; give --net lab \
                 for an isolated peer namespace, with --peer CMD to run something there",
            ));
        }
        if options.witness && links.up.corrupt != Correlated::NEVER {
            return Err(Failure::usage(
                "--witness: probes with a flipped bit do not arrive, and nothing could be told \
                 from that; leave out corrupt in the direction up",
            ));
        }
        Ok(Self {
            command: command_or_shell(&options.command),
            links,
            seed: options.seed.unwrap_or_else(fresh_seed),
            faults: Faults::from_environment().map_err(Failure::usage)?,
            host,
            base: runtime::base_directory(),
            options,
        })
    }
}

/// Memory for packets on their way: the smaller of 256 MB and a quarter of what is available now,
/// resolved once, so that a replay drops at the same packet.
fn hold_limit(host: &Host) -> u64 {
    let available = host.memory_available.unwrap_or(u64::MAX);
    LinkConfig::HOLD_LIMIT.min(available / 4)
}

fn command_or_shell(command: &[OsString]) -> Vec<OsString> {
    if command.is_empty() {
        return vec![std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())];
    }
    command.to_vec()
}

/// A seed that differs from run to run; the report and the log name it.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// Where the results go, opened before anything is started.
struct Outputs<'a> {
    report: Option<(&'a Path, Option<File>)>,
    /// Held, for the lock on it; the log is written through a descriptor of its own.
    _log: Option<File>,
}

impl<'a> Outputs<'a> {
    fn open(options: &'a RunOptions) -> Result<Self, Failure> {
        let log = options.log.as_deref().map(|path| create("--log", path)).transpose()?;
        let report = options.report.as_deref().map(|path| {
            let file = if path == Path::new("-") { None } else { Some(create("--report", path)?) };
            Ok::<_, Failure>((path, file))
        });
        let report = report.transpose()?;
        // Emptied only now: until here it may be another run's.
        for file in log.iter().chain(report.iter().filter_map(|(_, file)| file.as_ref())) {
            if file.metadata()?.is_file() {
                file.set_len(0)?;
            }
        }
        Ok(Self { report, _log: log })
    }

    fn write(self, report: &Report, quiet: bool) -> Result<(), Failure> {
        // The report first: the summary's reader may be gone or slow.
        let written = self.write_report(report);
        if !quiet {
            crate::tell((text(report) + &queues(report)).trim_end());
        }
        written
    }

    fn write_report(self, report: &Report) -> Result<(), Failure> {
        let Some((path, file)) = self.report else { return Ok(()) };
        let mut json = serde_json::to_vec_pretty(report)?;
        json.push(b'\n');
        let written = match file {
            Some(mut file) => file.write_all(&json),
            None => stdout().write_all(&json),
        };
        written.map_err(|error| {
            anyhow::anyhow!("--report: cannot write {}: {error}", path.display()).into()
        })
    }
}

/// Opens or makes the file, and locks it, so that no other output is written into it: neither one
/// of this run nor one of another.
fn create(option: &str, path: &Path) -> Result<File, Failure> {
    let refused =
        |error| Failure::usage(format!("{option}: cannot create {}: {error}", path.display()));
    let file = log::open(path, false).map_err(refused)?;
    if file.metadata().map_err(refused)?.is_file()
        && matches!(file.try_lock(), Err(TryLockError::WouldBlock))
    {
        return Err(Failure::usage(format!(
            "{option}: {} is being written: by another run, or --report and --log name the same \
             file",
            path.display()
        )));
    }
    Ok(file)
}

fn exit_status(finished: &Finished, fail_unless_ok: bool) -> u8 {
    match finished.status {
        0 if fail_unless_ok && !finished.report.verdict.ok => NOT_OK,
        status => u8::try_from(status).unwrap_or(u8::MAX),
    }
}

const NOT_OK: u8 = 3;
