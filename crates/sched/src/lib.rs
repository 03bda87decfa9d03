//! The scheduler of punctual: packets, queues, link stages. It sees no clock and does no I/O.
//!
//! * [`time`]: points and spans in nanoseconds
//! * [`units`]: rates, sizes, probabilities, with `tc`'s syntax
//! * [`words`]: the known word that a wrong one was meant to be
//! * [`packet`]: the descriptor
//! * [`classify`]: what the first bytes of a packet say
//! * [`config`]: parameters of a link, changes of them
//! * [`parameter`]: their names, how they are read, checked and printed
//! * [`link`]: one direction of a link, in event time
//! * [`queue`]: the disciplines
//! * [`netem`]: all impairments in one stage, as Linux' netem decides them
//! * [`trace`]: what a link does over time
//! * [`impair`]: loss, duplicates, flipped bits, jitter, reordering, slots
//! * [`output`]: fates, drop reasons, counters
#![forbid(unsafe_code)]

mod bucket;
mod checksum;
pub mod classify;
pub mod config;
mod delay_line;
mod exit;
pub mod impair;
pub mod link;
pub mod netem;
mod nic;
pub mod output;
pub mod packet;
pub mod parameter;
pub mod queue;
mod random;
mod ring;
mod server;
pub mod time;
pub mod trace;
pub mod units;
pub mod words;

pub use classify::{Classified, FlowKey};
pub use config::{Change, ConfigError, LinkConfig};
pub use link::Link;
pub use output::{BitFlip, Cause, Deadline, DropReason, Mark, Output, Snapshot, Stages};
pub use packet::{Ecn, Packet, TransmitTime};
pub use parameter::{ConfigBuilder, Live, Parameter, parameters};
pub use time::{Duration, Instant};
pub use units::{Bytes, Probability, Rate};
