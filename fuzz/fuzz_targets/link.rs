//! Operations on a link of every discipline and stage: the first byte chooses which.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/sched/tests/support/sequence.rs"]
mod sequence;

use sequence::CASES;

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, operations)) = bytes.split_first() else { return };
    sequence::run(&CASES[usize::from(which) % CASES.len()], operations);
});
