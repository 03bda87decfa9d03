//! The threads that drive the link.

use std::io;
use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result, anyhow, bail};
use punctual_linux::driver::{ClockStep, Driver, Lane, Remote, Stop, Stopped, remote};
use punctual_linux::fault::Faults;
use punctual_sched::{Duration, Instant};

use super::account::DirectionAccount;
use super::lanes::LanePlan;
use super::links::Links;
use super::summary::{self, DriverEnd, LaneEnd};
use crate::cli::PrecisionName;
use crate::log::{Direction, LaneId};

/// One thread for both directions, or one for each lane.
#[derive(Debug)]
pub(super) struct Drivers {
    threads: Vec<Thread>,
    /// The ways to the links of each direction's lanes.
    remotes: [Vec<Remote>; 2],
    /// They were told to stop.
    asked: bool,
}

#[derive(Debug)]
struct Thread {
    name: String,
    lanes: Vec<LaneId>,
    stop: Stop,
    handle: JoinHandle<io::Result<Stopped<DirectionAccount>>>,
}

impl Drivers {
    /// Starts them; `lanes` are those of up and then of down.
    pub(super) fn start(
        lanes: Vec<(LaneId, Lane<DirectionAccount>)>,
        plan: &LanePlan,
        precision: PrecisionName,
    ) -> Result<Self> {
        let groups = if plan.shares_thread() {
            vec![("link".to_owned(), lanes)]
        } else {
            lanes.into_iter().map(|lane| (thread_name(lane.0, plan), vec![lane])).collect()
        };
        let count = groups.len();
        let (mut threads, mut remotes) = (Vec::new(), [Vec::new(), Vec::new()]);
        for (name, group) in groups {
            let stop = Stop::new()?;
            let (ids, mut lanes): (Vec<_>, Vec<_>) = group.into_iter().unzip();
            for (id, lane) in ids.iter().zip(&mut lanes) {
                let (remote, requests) = remote(&stop);
                lane.listen(requests);
                remotes[id.direction.index()].push(remote);
            }
            let driver = Driver::new(lanes, precision.into(), stop.clone()).one_of(count);
            let handle = Builder::new()
                .name(name.clone())
                .spawn(move || driver.run())
                .context("cannot start the link's thread; raise the limit of processes")?;
            threads.push(Thread { name, lanes: ids, stop, handle });
        }
        Ok(Self { threads, remotes, asked: false })
    }

    /// The ways to the links of one direction's lanes; all have the same parameters.
    pub(super) fn remotes(&self, direction: Direction) -> &[Remote] {
        &self.remotes[direction.index()]
    }

    /// How long from `now` on a packet is held, waiting for others apart: what is on its way, which
    /// may have a delay that is in force no more, and what comes now. Of `links`, where nobody
    /// answers.
    pub(super) fn longest_delay(&self, links: &Links, now: Instant) -> Duration {
        let lanes = Direction::BOTH.into_iter().flat_map(|direction| {
            self.remotes(direction).iter().map(move |lane| match lane.snapshot() {
                Ok(seen) => {
                    let held = seen.latest_due.map_or(Duration::ZERO, |due| due.since(now));
                    held.max(seen.config.greatest_latency())
                }
                Err(_) => links.of(direction).greatest_latency(),
            })
        });
        lanes.max().unwrap_or_default()
    }

    /// Has each look at its queue.
    pub(super) fn nudge(&self) {
        self.threads.iter().for_each(|thread| thread.stop.nudge());
    }

    /// Stops them now.
    pub(super) fn stop(&mut self) {
        self.asked = true;
        self.threads.iter().for_each(|thread| thread.stop.now());
    }

    /// Fails when one ended although nobody asked it to.
    pub(super) fn check(&mut self) -> Result<()> {
        if self.asked {
            return Ok(());
        }
        let Some(index) = self.threads.iter().position(|thread| thread.handle.is_finished()) else {
            return Ok(());
        };
        match self.threads.remove(index).handle.join() {
            Ok(Ok(_)) => bail!("the link's thread ended by itself: this is a bug"),
            Ok(Err(error)) => Err(error).context("the link's thread cannot read its packets"),
            Err(_) => bail!("the link's thread panicked: this is a bug"),
        }
    }

    /// Waits for all of them. Their queues stay bound, so that the kernel's counts of them can
    /// still be read.
    pub(super) fn join(self) -> Result<Joined> {
        let join = |thread: Thread| {
            let stopped = thread
                .handle
                .join()
                .map_err(|_| anyhow!("the link's thread panicked: this is a bug"))?
                .context("the link's thread cannot read its packets")?;
            Ok((thread.name, thread.lanes, stopped))
        };
        self.threads.into_iter().map(join).collect::<Result<_>>().map(Joined)
    }
}

/// Threads that have ended, their queues still bound.
#[derive(Debug)]
pub(super) struct Joined(Vec<(String, Vec<LaneId>, Stopped<DirectionAccount>)>);

impl Joined {
    /// Takes them apart, which lets go of their queues.
    pub(super) fn take_apart(self, links: &Links) -> (Vec<DriverEnd>, Vec<LaneEnd>) {
        let (mut drivers, mut lanes) = (Vec::new(), Vec::new());
        for (name, ids, stopped) in self.0 {
            let (driver, ends) = summary::take_apart(&name, stopped, &ids, links);
            drivers.push(driver);
            lanes.extend(ends);
        }
        (drivers, lanes)
    }
}

/// At most 15 bytes, as long as the kernel lets a thread's name be.
fn thread_name(LaneId { direction, index }: LaneId, plan: &LanePlan) -> String {
    let name = direction.name();
    if plan.count(direction) > 1 { format!("link-{name}-{index}") } else { format!("link-{name}") }
}

/// The steps of the clock that a run is to see from `start` on.
pub(super) fn clock_steps(faults: &Faults, start: Instant) -> Vec<ClockStep> {
    faults
        .clock_steps
        .iter()
        .map(|step| ClockStep {
            at: start + Duration::from_secs(step.at_seconds),
            by: step.seconds.saturating_mul(1_000_000_000),
        })
        .collect()
}
