//! The run log and its replay: logs of links in virtual time, whole, altered, cut and forged.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod altered;
mod changed;
#[path = "../../../sched/tests/support/changes.rs"]
mod changes;
mod hostile;
mod identical;
mod incomplete;
mod lanes;
mod rewrite;
mod run;
mod traces;
