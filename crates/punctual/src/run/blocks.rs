//! The blocks of shared memory by which other programs change a run and watch it.

use anyhow::{Context, Result};
use punctual_linux::control::{ControlBlock, Side, StatsBlock, Watch};

use super::figures::LaneFigures;
use super::links::Links;
use crate::log::Direction;
use crate::runtime::RunDirectory;

/// Both blocks; they go with the process.
#[derive(Debug)]
pub(super) struct Blocks {
    control: ControlBlock,
    stats: StatsBlock,
}

impl Blocks {
    /// Blocks for these links.
    pub(super) fn create(links: &Links) -> Result<Self> {
        let control = ControlBlock::create([links.up.rate, links.down.rate])
            .context("cannot make the control block")?;
        let stats = StatsBlock::create().context("cannot make the statistics block")?;
        Ok(Self { control, stats })
    }

    /// Has `control` and `stats` in the run's directory lead to them.
    pub(super) fn publish(&self, directory: &RunDirectory) -> Result<()> {
        directory.lead("control", &self.control.path())?;
        directory.lead("stats", &self.stats.path())
    }

    /// The end that a direction's lane follows.
    pub(super) fn watch(&self, direction: Direction) -> Watch {
        self.control.watch(side(direction))
    }

    /// The ends that the accounts of a direction's `lanes` write to.
    pub(super) fn writers(&self, direction: Direction, lanes: u8) -> Vec<LaneFigures> {
        LaneFigures::new(self.stats.writer(side(direction)), lanes)
    }
}

fn side(direction: Direction) -> Side {
    match direction {
        Direction::Up => Side::Up,
        Direction::Down => Side::Down,
    }
}
