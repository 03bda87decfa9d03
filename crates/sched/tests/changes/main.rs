//! Live changes: what each means for what is held, and what holds whatever is changed.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "../support/changes.rs"]
mod changes;
mod disciplines;
mod documented;
mod impairments;
mod properties;
mod queues;
mod rates;
mod run;
