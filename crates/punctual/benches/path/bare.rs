//! The bare path: the lab of a run without its rules, so that nothing is held in the gate.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use punctual_linux::clock::monotonic;
use punctual_linux::driver::{Means, Precision};
use punctual_linux::fault::Faults;
use punctual_linux::lab::{Lab, LabConfig, links};
use punctual_linux::namespace::user;
use punctual_linux::process::{Event, Identity, Plan, Processes, Who, port_listening};
use punctual_linux::wait::sleep_until;
use punctual_sched::Duration;

/// The first argument that makes this program the bare path.
pub(crate) const WORD: &str = "__bare";

#[derive(Parser)]
struct Options {
    #[arg(long)]
    hold: bool,
    #[arg(long)]
    tbf: Option<String>,
    #[arg(long)]
    peer: Option<String>,
    #[arg(long)]
    peer_port: Option<u16>,
    #[arg(last = true)]
    command: Vec<OsString>,
}

/// Runs a command across the bare path, with the options that `punctual run` has for it.
pub(crate) fn main() -> ExitCode {
    match run(Options::parse_from(std::env::args_os().skip(1))) {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX)),
        Err(error) => {
            eprintln!("bare path: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<i32> {
    let entered = user::enter(&Faults::default())?;
    let lab = Lab::build(&LabConfig::default())?;
    if let Some(words) = &options.tbf {
        lab.gate().within(|| tbf(words))??;
    }
    let addresses = lab.addresses();
    let mut environment = vec![("PUNCTUAL_PEER".into(), addresses.peer4.to_string().into())];
    if let Some(peer6) = addresses.peer6 {
        environment.push(("PUNCTUAL_PEER6".into(), peer6.to_string().into()));
    }
    let plan = Plan {
        command: options.command,
        peer: options.peer.map(Into::into),
        environment,
        identity: Identity::of(&entered),
    };
    let mut processes = Processes::start(&plan, &lab)?;
    // After the processes, which would inherit its scheduling policy.
    let _held = options.hold.then(|| Means::take(Precision::Strict));
    if plan.peer.is_some() {
        processes.start_peer()?;
        await_event(&mut processes, |event| *event == Event::Started(Who::Peer))?;
        await_port(&lab, options.peer_port.context("a peer needs --peer-port")?)?;
    }
    processes.start_command()?;
    let ended =
        await_event(&mut processes, |event| matches!(event, Event::Ended(Who::Command, _)))?;
    processes.kill_all()?;
    match ended {
        Event::Ended(_, exit) => Ok(exit.code()),
        other => bail!("expected the command's end, got {other:?}"),
    }
}

/// In the gate, towards the peer.
fn tbf(words: &str) -> Result<()> {
    let path = std::env::var("PATH").unwrap_or_default();
    let status = Command::new("tc")
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .args(["qdisc", "add", "dev", links::GATE_OUT, "root", "tbf"])
        .args(words.split_whitespace())
        .status()
        .context("cannot run tc (package iproute2)")?;
    ensure!(status.success(), "tc could not add a tbf: {status}");
    Ok(())
}

fn await_event(processes: &mut Processes, wanted: impl Fn(&Event) -> bool) -> Result<Event> {
    loop {
        let event = processes.wait()?.context("the processes' init is gone")?;
        match event {
            _ if wanted(&event) => return Ok(event),
            Event::NotExecuted(..) | Event::NotPrepared(..) | Event::InitEnded => {
                bail!("cannot run it: {event:?}");
            }
            _ => {}
        }
    }
}

fn await_port(lab: &Lab, port: u16) -> Result<()> {
    let deadline = monotonic() + Duration::from_secs(10);
    while !port_listening(lab.outside(), port)? {
        ensure!(monotonic() < deadline, "the peer does not listen on port {port}");
        sleep_until(monotonic() + Duration::from_millis(10));
    }
    Ok(())
}
