//! Our records beside the module's, field by field.

use super::file::{Recording, timestamp};
use super::run::when;

/// All fields are equal: but times, which may differ by `tolerance` nanoseconds, sojourn and delay,
/// by that in their unit of 1024 ns, and the clock offset, which was that machine's. With
/// `chance`, marks may differ as well.
pub(crate) fn equal(recording: &Recording, ours: &[[u8; 64]], tolerance: u64, chance: bool) {
    let theirs = &recording.records;
    let units = u32::try_from(tolerance.div_ceil(1024)).unwrap();
    let mut differences = Vec::new();
    for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        let time = recording.time_of(timestamp(theirs));
        let near = time.abs_diff(when(ours)) <= tolerance;
        let (a, b) = (comparable(ours, chance), comparable(theirs, chance));
        let close = NEAR.iter().all(|&at| unit(ours, at).abs_diff(unit(theirs, at)) <= units);
        if !near || a != b || (theirs[8] == SOJOURN && !close) {
            let ours = (when(ours), &ours[8..]);
            differences.push(format!("record {index}\n ours {ours:?}\n not {time}, {theirs:?}"));
        }
    }
    let (name, count) = (recording.vector.name, differences.len());
    differences.truncate(5);
    assert_eq!(count, 0, "{name}: {count} of {} differ:\n{}", theirs.len(), differences.join("\n"));
    assert_eq!(ours.len(), theirs.len(), "{name}");
}

/// How many of the recording's packets were to be marked.
pub(crate) fn marks(recording: &Recording) -> u64 {
    let marked = |record: &&[u8; 64]| record[8] == SOJOURN && record[9] & MARK != 0;
    recording.records.iter().filter(marked).count() as u64
}

/// The record without what may differ.
fn comparable(record: &[u8; 64], chance: bool) -> [u8; 64] {
    let mut kept = *record;
    kept[..8].fill(0);
    if record[8] == SOJOURN {
        for at in NEAR {
            kept[at..at + 4].fill(0);
        }
        if chance {
            kept[9] &= !(MARK | ECN_OUT);
        }
    } else {
        kept[24..32].fill(0);
    }
    kept
}

fn unit(record: &[u8; 64], at: usize) -> u32 {
    u32::from_le_bytes(record[at..at + 4].try_into().unwrap())
}

/// Sojourn and delay.
const NEAR: [usize; 2] = [12, 60];
const SOJOURN: u8 = 9;
const MARK: u8 = 1 << 6;
const ECN_OUT: u8 = 3 << 3;
