//! `punctual log`: exports of logs of links in virtual time, read back by other parsers.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod capture;
mod command;
mod hostile;
mod large;
mod made;
mod records;
#[path = "../log/rewrite.rs"]
mod rewrite;
#[expect(dead_code, reason = "shared with the tests of logs")]
#[path = "../log/run.rs"]
mod run;
#[path = "../../../linux/tests/support/signals.rs"]
mod signals;
mod table;
