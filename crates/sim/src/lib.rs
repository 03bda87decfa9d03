//! Virtual time: sources, wake-up models, links and sinks around the same scheduler.
//!
//! A [`Scenario`] is data: a link, senders, how late the driver wakes up, a seed. Running it gives
//! an [`Outcome`], which prints as a table. Equal scenarios give equal outcomes on every machine:
//! no clock, no float, no hash order.
//!
//! * [`scenario`]: what is run
//! * [`source`]: senders: constant, Poisson, bursts, a fixed window, Reno's window, a scalable one
//! * [`wakes`]: how late the driver wakes up
//! * [`outcome`]: what came of it, per flow and in all
//! * [`distribution`]: exact percentiles

#![forbid(unsafe_code)]

pub mod distribution;
mod driver;
pub mod outcome;
mod random;
pub mod scenario;
pub mod source;
pub mod wakes;

pub use distribution::Distribution;
pub use outcome::{Fate, FlowOutcome, Outcome};
pub use scenario::Scenario;
pub use source::{Source, Traffic};
pub use wakes::Wakes;
