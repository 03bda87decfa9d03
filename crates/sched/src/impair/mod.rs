//! Impairments: what goes wrong on a path behind its bottleneck.
//!
//! * [`loss`]: random loss, independent or in bursts
//! * [`correlated`]: random events of duplication and corruption
//! * [`distribution`]: how jitter spreads
//! * [`reorder`]: which packets may overtake
//! * [`slot`]: departures in slots only
//! * [`counts`]: how often each of them struck
//!
//! At work, after the server, they are loss, duplicate, corrupt (`strikes`), then the delay line
//! with jitter (`spread`), reordering (`overtaking`) and slots (`gate`). Each draws from a stream
//! of its own, so that one that is added never shifts what another does.

pub mod correlated;
pub mod counts;
pub mod distribution;
mod events;
mod gate;
mod list;
pub mod loss;
mod losses;
mod overtaking;
pub mod reorder;
pub mod slot;
mod spread;
mod strikes;
mod tables;

pub use correlated::Correlated;
pub use counts::{Deviations, ImpairmentCounts, Share};
pub use distribution::{Distribution, Table};
pub use list::BadValue;
pub use loss::Loss;
pub use reorder::Reorder;
pub use slot::{Slot, SlotGap};

pub(crate) use gate::Gate;
pub(crate) use overtaking::Overtaking;
pub(crate) use spread::Spread;
pub(crate) use strikes::{Strikes, Struck};

/// `impair`: whose rules the impairments follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Impair {
    /// punctual's: asked shares are what comes out, jitter keeps order unless told otherwise.
    #[default]
    Own,
    /// Those of Linux' netem, to the letter.
    Netem,
}

#[cfg(test)]
mod tests;
