//! Impairments: what goes wrong on a path behind its bottleneck.
//!
//! * [`loss`]: random loss, independent or in bursts
//! * [`correlated`]: random events of duplication and corruption
//! * [`distribution`]: how jitter spreads
//! * [`reorder`]: which packets may overtake
//! * [`slot`]: departures in slots only

pub mod correlated;
pub mod distribution;
mod list;
pub mod loss;
pub mod reorder;
pub mod slot;
mod tables;

pub use correlated::Correlated;
pub use distribution::{Distribution, Table};
pub use list::BadValue;
pub use loss::Loss;
pub use reorder::Reorder;
pub use slot::{Slot, SlotGap};

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
