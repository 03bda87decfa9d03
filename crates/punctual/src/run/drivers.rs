//! The threads that drive the link.

use std::io;
use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result, anyhow, bail};
use punctual_linux::driver::{ClockStep, Driver, Lane, Remote, Stop, Stopped, remote};
use punctual_linux::fault::Faults;
use punctual_sched::{Duration, Instant};

use super::account::DirectionAccount;
use super::links::Links;
use super::summary::{self, DriverEnd, LaneEnd};
use crate::cli::RunOptions;
use crate::log::Direction;

/// One thread for both directions, or one for each.
#[derive(Debug)]
pub(super) struct Drivers {
    threads: Vec<Thread>,
    /// The ways to the directions' links, up first.
    remotes: Vec<Remote>,
    /// They were told to stop.
    asked: bool,
}

#[derive(Debug)]
struct Thread {
    name: &'static str,
    directions: Vec<Direction>,
    stop: Stop,
    handle: JoinHandle<io::Result<Stopped<DirectionAccount>>>,
}

impl Drivers {
    /// Starts them; `lanes` are up and down.
    pub(super) fn start(lanes: Vec<Lane<DirectionAccount>>, options: &RunOptions) -> Result<Self> {
        let mut groups = vec![("link", Direction::BOTH.to_vec(), lanes)];
        if options.threads == Some(2) {
            let (_, _, mut lanes) = groups.remove(0);
            let down = lanes.split_off(1);
            groups.push(("link-up", vec![Direction::Up], lanes));
            groups.push(("link-down", vec![Direction::Down], down));
        }
        let (mut threads, mut remotes) = (Vec::new(), Vec::new());
        for (name, directions, mut lanes) in groups {
            let stop = Stop::new()?;
            for lane in &mut lanes {
                let (remote, requests) = remote(&stop);
                lane.listen(requests);
                remotes.push(remote);
            }
            let driver = Driver::new(lanes, options.precision.into(), stop.clone());
            let handle = Builder::new()
                .name(name.to_owned())
                .spawn(move || driver.run())
                .context("cannot start the link's thread; raise the limit of processes")?;
            threads.push(Thread { name, directions, stop, handle });
        }
        Ok(Self { threads, remotes, asked: false })
    }

    /// The way to one direction's link.
    pub(super) fn remote(&self, direction: Direction) -> &Remote {
        &self.remotes[direction.index()]
    }

    /// The longest that a packet is held by either direction in force, waiting for others apart; of
    /// `links`, where nobody answers.
    pub(super) fn longest_delay(&self, links: &Links) -> Duration {
        let [up, down] = Direction::BOTH.map(|direction| {
            let seen = self.remote(direction).snapshot();
            let config = seen.map_or_else(|_| links.of(direction).clone(), |seen| seen.config);
            config.greatest_latency()
        });
        up.max(down)
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
            Ok((thread.name, thread.directions, stopped))
        };
        self.threads.into_iter().map(join).collect::<Result<_>>().map(Joined)
    }
}

/// Threads that have ended, their queues still bound.
#[derive(Debug)]
pub(super) struct Joined(Vec<(&'static str, Vec<Direction>, Stopped<DirectionAccount>)>);

impl Joined {
    /// Takes them apart, which lets go of their queues.
    pub(super) fn take_apart(self, links: &Links) -> (Vec<DriverEnd>, Vec<LaneEnd>) {
        let (mut drivers, mut lanes) = (Vec::new(), Vec::new());
        for (name, directions, stopped) in self.0 {
            let (driver, ends) = summary::take_apart(name, stopped, &directions, links);
            drivers.push(driver);
            lanes.extend(ends);
        }
        (drivers, lanes)
    }
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
