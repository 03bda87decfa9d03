//! `punctual run` from outside: the built program on real packets, as root and as an ordinary user.

#[path = "../../../linux/tests/support/mod.rs"]
#[macro_use]
mod support;

mod bad_input;
mod bad_luck;
mod cases;
mod command;
mod control;
mod counts;
mod disciplines;
mod exported;
mod harness;
mod lanes;
mod logged;
mod odd_packets;
mod play;
mod replay;
mod report;
mod roles;
mod stores;
mod surroundings;

use std::process::ExitCode;

use crate::harness::Run;

fn main() -> ExitCode {
    if let Some(ended) = roles::dispatch() {
        return ended;
    }
    let mut tests = command::tests();
    tests.extend(bad_input::tests());
    tests.extend(replay::tests());
    tests.extend(exported::tests());
    tests.extend(counts::tests());
    tests.extend(odd_packets::tests());
    tests.extend(cases::tests());
    tests.extend(stores::tests());
    tests.extend(disciplines::tests());
    tests.extend(bad_luck::tests());
    tests.extend(control::tests());
    tests.extend(play::tests());
    tests.extend(lanes::tests());
    tests.extend(surroundings::tests());
    let code = support::run(&tests, trial);
    harness::tidy();
    code
}

/// The reason for which this machine permits no run at all. Anything else that goes wrong is for
/// the tests to find.
fn trial() -> Result<(), String> {
    let ended = Run::new("").command(["true"]).finish();
    if ended.status == 125 { Err(ended.stderr.trim().replace('\n', ";")) } else { Ok(()) }
}
