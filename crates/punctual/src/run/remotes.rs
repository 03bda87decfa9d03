//! The links of a run as its control socket reaches them: by way of the threads that drive them.

use std::cell::RefCell;
use std::path::Path;

use anyhow::Result;
use punctual_linux::driver::{Refused, Remote, Seen};
use punctual_linux::netfilter::Support;
use punctual_sched::impair::Correlated;
use punctual_sched::trace::{Trace, TraceOptions};
use punctual_sched::{Change, ConfigError, Instant, LinkConfig};

use super::drivers::Drivers;
use super::impairments::impairments;
use super::lanes::{ByLane, LanePlan};
use super::links::{Links, users_by_mark};
use super::state;
use crate::control::{self, Applied, Backlog, RunFacts, Server, Service, Shown, socket};
use crate::log::Direction;

/// Listens in the run's directory and answers for its links. Without a socket they cannot be changed,
/// and all else goes on.
pub(super) fn listen(
    directory: &Path,
    facts: RunFacts,
    drivers: &Drivers,
    means: Means,
) -> Result<Option<Server<Service<Remotes>>>> {
    let lanes = Direction::BOTH.map(|direction| drivers.remotes(direction).to_vec());
    let links = Remotes { lanes, means, traces: RefCell::default() };
    match socket::listen(directory) {
        Ok(listener) => Server::start(listener, |bell| Service::new(facts, links, bell)).map(Some),
        Err(error) => {
            let place = directory.display();
            crate::warn(format_args!(
                "the link cannot be changed while it runs: no socket in \
                 {place}: {error}"
            ));
            Ok(None)
        }
    }
}

/// Closes the socket. What is wrong with it is no reason to lose a report.
pub(super) fn close(control: Option<Server<Service<Remotes>>>) {
    if let Some(Err(problem)) = control.map(Server::stop) {
        crate::warn(problem);
    }
}

/// Both directions, by the lanes that serve them.
#[derive(Debug)]
pub(super) struct Remotes {
    lanes: ByLane<Remote>,
    means: Means,
    /// What links were told to follow, kept until they follow another.
    traces: RefCell<[Option<Trace>; 2]>,
}

impl Remotes {
    /// A direction as its lanes see it together.
    fn seen(&self, direction: Direction) -> Result<Seen, Refused> {
        let mut lanes = self.lanes[direction.index()].iter();
        let mut seen = lanes.next().ok_or(Refused::Gone)?.snapshot()?;
        for lane in lanes {
            let other = lane.snapshot()?;
            seen.snapshot.add(&other.snapshot);
            seen.at = seen.at.max(other.at);
        }
        // Each lane has its part of the memory; the parameter is the direction's.
        seen.config.hold_limit = self.means.hold[direction.index()];
        Ok(seen)
    }
}

/// Lanes have the same parameters and are asked the same, so that none refuses what another did; but
/// a thread may not answer.
fn partly(refused: Refused, done: usize, lanes: usize) -> control::Refused {
    match refused {
        Refused::Config(error) if done == 0 => control::Refused::Config(error),
        other if done == 0 => control::Refused::Link(other.to_string()),
        other => control::Refused::Link(format!(
            "{other} ({done} of the {lanes} threads that serve this direction have changed)"
        )),
    }
}

/// What a run was given at its start, and no change can go beyond.
#[derive(Clone, Copy, Debug)]
pub(super) struct Means {
    /// CE can be written.
    marks: bool,
    /// The bytes of packets are kept, up first.
    payloads: [bool; 2],
    /// Numbered probes go up.
    witness: bool,
    /// Flows are divided among several lanes, up first.
    divided: [bool; 2],
    /// Memory for held packets, up first.
    hold: [u64; 2],
}

impl Means {
    /// Of a run of `links`.
    pub(super) fn of(links: &Links, plan: &LanePlan, support: Support, witness: bool) -> Self {
        let payloads = Direction::BOTH.map(|direction| links.of(direction).needs_payloads());
        let divided = Direction::BOTH.map(|direction| plan.count(direction) > 1);
        let hold = Direction::BOTH.map(|direction| links.of(direction).hold_limit);
        Self { marks: support.ce_marks, payloads, witness, divided, hold }
    }

    /// Refuses what a link with `config` would need and the run does not have.
    fn check(self, direction: Direction, config: &LinkConfig) -> Result<(), ConfigError> {
        let refused = |place: &str, problem: &str| Err(ConfigError::new(place, problem));
        if self.divided[direction.index()] {
            config.check_divided()?;
        }
        let corrupt = config.corrupt != Correlated::NEVER;
        if config.needs_payloads() && !self.payloads[direction.index()] {
            let place = if corrupt { "corrupt" } else { "duplicate" };
            return refused(
                place,
                "the bytes of packets are not kept: that is only so in a run that starts with \
                 corrupt or duplicate",
            );
        }
        if corrupt && self.witness && direction == Direction::Up {
            return refused("corrupt", "probes of --witness with a flipped bit do not arrive");
        }
        if config.may_mark() && !self.marks {
            let place = if config.ecn { "ecn" } else { "queue" };
            return refused(place, "this kernel cannot write CE into packets, and the link marks");
        }
        users_by_mark(config).map_or(Ok(()), |problem| refused("jens.user", problem))
    }
}

impl control::Links for Remotes {
    fn change(
        &self,
        direction: Direction,
        change: &Change,
        asked: Instant,
    ) -> Result<Applied, control::Refused> {
        let lanes = &self.lanes[direction.index()];
        let mut all = Applied { at: Instant::ZERO, changed: false };
        for (done, lane) in lanes.iter().enumerate() {
            let applied = lane
                .change_asked_at(change.clone(), asked)
                .map_err(|refused| partly(refused, done, lanes.len()))?;
            // It holds for the direction once it holds on every lane.
            all.at = all.at.max(applied.at);
            all.changed |= applied.changed;
        }
        Ok(all)
    }

    fn follow(
        &self,
        direction: Direction,
        trace: Option<(TraceOptions, Trace)>,
        asked: Instant,
    ) -> Result<Applied, control::Refused> {
        // Of several lanes each would refuse a trace: they share none.
        let lane = self.lanes[direction.index()].first().ok_or(Refused::Gone)?;
        let kept = trace.as_ref().map(|(_, trace)| trace.clone());
        let applied = lane.follow_asked_at(trace, asked)?;
        self.traces.borrow_mut()[direction.index()] = kept;
        Ok(Applied { at: applied.at, changed: applied.changed })
    }

    fn permits(&self, direction: Direction, config: &LinkConfig) -> Result<(), ConfigError> {
        self.means.check(direction, config)
    }

    fn config(&self, direction: Direction) -> Result<LinkConfig, control::Refused> {
        Ok(self.seen(direction)?.config)
    }

    fn show(&self, direction: Direction) -> Result<Shown, control::Refused> {
        let seen = self.seen(direction)?;
        let (config, snapshot) = (&seen.config, &seen.snapshot);
        Ok(Shown {
            link: state::in_force(config, None),
            gso: state::bursts(config).to_owned(),
            queue: state::queue(config, snapshot),
            backlog: Backlog { packets: snapshot.backlog_packets, bytes: snapshot.backlog_bytes },
            packets: state::packets(snapshot),
            bytes: state::bytes(snapshot),
            impairments: impairments(config, snapshot),
            trace: state::followed(config, seen.trace),
            opportunities: state::opportunities(config, snapshot),
        })
    }
}

impl From<Refused> for control::Refused {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Config(error) => Self::Config(error),
            other => Self::Link(other.to_string()),
        }
    }
}
