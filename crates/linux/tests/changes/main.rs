//! Links that are changed while they carry real packets.

#![expect(clippy::unwrap_used, reason = "these functions are tests, run by a runner of our own")]

#[path = "../support/mod.rs"]
#[macro_use]
mod support;
#[path = "../support/trial.rs"]
mod trial;

mod block;
mod driven;
mod remote;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut tests = remote::tests();
    tests.extend(block::tests());
    support::run(&tests, trial::queues_packets)
}
