//! The links of a run as its control socket reaches them: by way of the threads that drive them.

use std::path::Path;

use anyhow::Result;
use punctual_linux::driver::{Refused, Remote};
use punctual_measure::report::Delays;
use punctual_sched::{Change, Instant, LinkConfig};

use super::drivers::Drivers;
use super::impairments::impairments;
use super::summary;
use crate::control::{self, Applied, Backlog, RunFacts, Server, Service, Shown, socket};
use crate::log::Direction;

/// Listens in the run's directory and answers for its links. Without a socket they cannot be changed,
/// and all else goes on.
pub(super) fn listen(
    directory: &Path,
    facts: RunFacts,
    drivers: &Drivers,
) -> Result<Option<Server<Service<Remotes>>>> {
    let links = Remotes(Direction::BOTH.map(|direction| drivers.remote(direction).clone()));
    match socket::listen(directory) {
        Ok(listener) => Server::start(listener, Service::new(facts, links)).map(Some),
        Err(error) => {
            let place = directory.display();
            crate::tell(format_args!(
                "punctual: warning: the link cannot be changed while it runs: no socket in \
                 {place}: {error}"
            ));
            Ok(None)
        }
    }
}

/// Closes the socket. What is wrong with it is no reason to lose a report.
pub(super) fn close(control: Option<Server<Service<Remotes>>>) {
    if let Some(Err(problem)) = control.map(Server::stop) {
        crate::tell(format_args!("punctual: warning: {problem}"));
    }
}

/// Both directions, up first.
#[derive(Debug)]
pub(super) struct Remotes([Remote; 2]);

impl control::Links for Remotes {
    fn change(
        &self,
        direction: Direction,
        change: &Change,
        asked: Instant,
    ) -> Result<Applied, control::Refused> {
        let applied = self.0[direction.index()].change_asked_at(change.clone(), asked)?;
        Ok(Applied { at: applied.at, changed: applied.changed })
    }

    fn config(&self, direction: Direction) -> Result<LinkConfig, control::Refused> {
        Ok(self.0[direction.index()].snapshot()?.config)
    }

    fn show(&self, direction: Direction) -> Result<Shown, control::Refused> {
        let seen = self.0[direction.index()].snapshot()?;
        let (config, snapshot) = (&seen.config, &seen.snapshot);
        Ok(Shown {
            link: summary::in_force(config, None),
            gso: summary::bursts(config).to_owned(),
            queue: summary::queue(config, snapshot),
            backlog: Backlog { packets: snapshot.backlog_packets, bytes: snapshot.backlog_bytes },
            packets: summary::packets(snapshot),
            bytes: summary::bytes(snapshot),
            // What was measured of the delays is with the thread that measures it.
            impairments: impairments(config, snapshot, &Delays::default()),
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
