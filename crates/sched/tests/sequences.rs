//! Random sequences of operations on every discipline and stage: packets are conserved, fates come
//! once and in order, deadlines are kept, nothing panics. `fuzz/` runs the same sequences, guided
//! by what they reach.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

#[path = "support/sequence.rs"]
mod sequence;

use sequence::{CASES, run};

#[test]
fn whatever_happens_to_a_link_its_promises_hold() {
    let bytes = proptest::collection::vec(any::<u8>(), 0..600);
    let mut broken = Vec::new();
    for case in CASES {
        let config = ProptestConfig {
            max_shrink_iters: 500,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let result = TestRunner::new(config).run(&bytes, |bytes| {
            run(case, &bytes);
            Ok(())
        });
        if let Err(error) = result {
            broken.push(format!("{}: {error}", case.words));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
