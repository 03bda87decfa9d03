//! `--witness`: probes, captures and kernel stamps that know nothing of the driver.

use std::os::fd::AsFd;
use std::thread;

use anyhow::{Context, Result, anyhow};
use punctual_linux::clock::monotonic;
use punctual_linux::lab::{Lab, LabConfig, links};
use punctual_linux::observe::{Witness, WitnessConfig, WitnessData, WitnessPlaces};
use punctual_linux::wait;
use punctual_measure::witness::{Admitted, Bounds};
use punctual_measure::{Distribution, report};
use punctual_sched::{Duration, LinkConfig};

use super::supervise::Supervisor;
use crate::witness::{ProbeLedger, compare, one_way_delay};

/// A witness of the direction up.
pub(super) struct RunWitness {
    witness: Witness,
    bare: Distribution,
    linger: Duration,
}

impl RunWitness {
    /// Measures the bare path in a lab without a link, then starts probes on this one. `run`
    /// marks the probes.
    pub(super) fn start(lab: &Lab, link: &LinkConfig, run: u64) -> Result<Self> {
        let bare = bare_one_way_delay(run).context("cannot measure the bare path")?;
        let linger = LINGER + link.greatest_latency();
        let config = WitnessConfig { linger, ..config(lab, run) };
        let witness = Witness::start(&places(lab), &config)?;
        Ok(Self { witness, bare, linger })
    }

    /// Stops sending and waits for probes on their way; the link must still be driven. `None`
    /// when a signal came in between: then there is no time for the rest.
    pub(super) fn stop(self, supervisor: &mut Supervisor<'_>) -> Result<Option<Testimony>> {
        let patience = monotonic() + self.linger + Duration::from_secs(1);
        let waiting = thread::spawn(|| self.witness.stop());
        supervisor.wait_until(patience, || waiting.is_finished())?;
        if !waiting.is_finished() {
            return Ok(None);
        }
        let data = waiting.join().map_err(|_| anyhow!("the witness panicked: this is a bug"))??;
        Ok(Some(Testimony { data, bare: self.bare }))
    }
}

/// What the witness saw.
pub(super) struct Testimony {
    data: WitnessData,
    bare: Distribution,
}

impl Testimony {
    /// Sets it against the driver's account of the same probes, and what `up` admits as lost.
    ///
    /// From a capture to the hook a packet takes its time like any other on this machine: up to
    /// half of what a tenth of the bare path's packets exceed is no contradiction, where that is more
    /// than the usual 20 us. (The bare path is measured before the run, when less runs beside it.)
    pub(super) fn against(&self, ledger: &ProbeLedger, up: &report::Direction) -> report::Witness {
        let one_way = self.bare.p50_ns.unwrap_or(0).max(0).unsigned_abs();
        let usual = Bounds::with_bare_path(one_way);
        let slow = self.bare.p90_ns.unwrap_or(0).max(0).unsigned_abs();
        let bounds = Bounds {
            arrival_ns: usual.arrival_ns.max(slow / 2),
            departure_ns: usual.departure_ns.max(slow / 2),
            ..usual
        };
        let findings = compare(&self.data, ledger, admitted(up), &bounds);
        report::Witness { bare_one_way_delay: Some(self.bare.clone()), ..findings.section() }
    }
}

/// What the direction's report says was lost outside the link.
fn admitted(up: &report::Direction) -> Admitted {
    // In the order in which packets pass them: two towards the gate, two behind it.
    let dropped = up.devices.iter().map(report::Device::dropped);
    let (towards, behind): (Vec<_>, Vec<_>) =
        dropped.enumerate().partition(|(place, _)| *place < 2);
    let sum = |places: Vec<(usize, u64)>| places.into_iter().map(|(_, n)| n).sum();
    Admitted {
        before_gate: sum(towards),
        before_account: up.lost_before.total() + up.lost_before.unread_at_end,
        after_account: up.flushed_by_kernel + up.copies_failed,
        behind_gate: sum(behind),
    }
}

/// Sender to receiver through three namespaces where nothing is held.
fn bare_one_way_delay(run: u64) -> Result<Distribution> {
    let lab = Lab::build(&LabConfig::default())?;
    let config = WitnessConfig { interval: Duration::from_millis(5), ..config(&lab, run) };
    let witness = Witness::start(&places(&lab), &config)?;
    wait::sleep_until(monotonic() + BARE);
    Ok(one_way_delay(&witness.stop()?))
}

fn config(lab: &Lab, run: u64) -> WitnessConfig {
    WitnessConfig::new((lab.addresses().peer4, 0).into(), run)
}

fn places(lab: &Lab) -> WitnessPlaces<'_> {
    WitnessPlaces {
        sender: lab.inside().as_fd(),
        gate: lab.gate().as_fd(),
        receiver: lab.outside().as_fd(),
        device_before: links::GATE_IN,
        device_after: links::GATE_OUT,
    }
}

/// Time for the bare path: 200 probes.
const BARE: Duration = Duration::from_secs(1);
/// Beside the link's delay: what a queue of a second takes to drain.
const LINGER: Duration = Duration::from_secs(2);
