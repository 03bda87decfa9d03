//! `punctual run`: a command behind a link, on real packets.

mod account;
mod blocks;
mod changes;
mod drivers;
mod figures;
mod flows;
mod gate;
mod impairments;
mod inputs;
mod lanes;
mod links;
mod live;
mod merge;
mod outputs;
mod remotes;
mod session;
mod state;
mod summary;
mod supervise;
pub(crate) mod tables;
mod traces;
mod witness;

use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use anyhow::Context;
use punctual_linux::fault::Faults;
use punctual_linux::host::Host;
use punctual_linux::process::SignalFd;
use punctual_linux::process::signals::outlive_file_size_limit;
use punctual_sched::LinkConfig;
use punctual_sched::impair::Correlated;

use crate::cli::RunOptions;
use crate::failure::Failure;
use crate::runtime;

use self::links::Links;
use self::outputs::Outputs;
use self::session::Finished;

/// Runs the command and returns the exit status of punctual.
pub fn run(options: &RunOptions) -> Result<u8, Failure> {
    let request = Request::check(options)?;
    let mut outputs = Outputs::open(options, &request.links.inputs)?;
    // Before any other thread exists, so that signals are blocked in all of them. They stay so: one
    // that comes after the command's end must neither cut the report off nor take the place of the
    // command's status.
    let signals = SignalFd::new().context("cannot take over signals")?;
    let signals = ManuallyDrop::new(signals);
    outlive_file_size_limit().context("cannot ignore SIGXFSZ")?;
    let finished = session::run(&request, &signals, &mut outputs)?;
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
            runtime::check_new_name(name).map_err(Failure::usage)?;
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
            command: command_or_shell(&options.command, std::env::var_os("SHELL")),
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

/// `shell` is `$SHELL`; empty, it names none.
fn command_or_shell(command: &[OsString], shell: Option<OsString>) -> Vec<OsString> {
    if command.is_empty() {
        let shell = shell.filter(|shell| !shell.is_empty());
        return vec![shell.unwrap_or_else(|| "/bin/sh".into())];
    }
    command.to_vec()
}

/// A seed that differs from run to run; the report and the log name it.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

fn exit_status(finished: &Finished, fail_unless_ok: bool) -> u8 {
    match finished.status {
        0 if fail_unless_ok && !finished.report.verdict.ok => NOT_OK,
        status => u8::try_from(status).unwrap_or(u8::MAX),
    }
}

const NOT_OK: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_shell_is_none() {
        let shell = |shell: Option<&str>| command_or_shell(&[], shell.map(Into::into));
        assert_eq!([None, Some("")].map(shell), [["/bin/sh"], ["/bin/sh"]]);
        assert_eq!(shell(Some("/bin/bash")), ["/bin/bash"]);
    }
}
