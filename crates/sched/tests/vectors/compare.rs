//! Ours beside the kernel's.

use std::collections::BTreeMap;

use crate::device::Run;
use crate::file::Vector;

/// Departures agree to this many nanoseconds unless a test says why not.
pub(crate) const TOLERANCE: u64 = 1_000;

/// Fates, marks, copies and order are the kernel's exactly, departures within `tolerance`.
pub(crate) fn exactly(vector: &Vector, run: &Run, tolerance: u64) {
    fates(vector, run, tolerance);
    order(vector, run);
}

fn fates(vector: &Vector, run: &Run, tolerance: u64) {
    let mut left: BTreeMap<u64, Vec<(u64, bool)>> = BTreeMap::new();
    for departure in &run.left {
        left.entry(departure.id).or_default().push((departure.at, departure.ce));
    }
    let mut differences = Vec::new();
    for row in &vector.rows {
        let ours = left.remove(&row.id).unwrap_or_default();
        let ce = ours.iter().any(|(_, ce)| *ce) || row.tos & 3 == 3;
        let first = ours.iter().map(|(at, _)| *at).min();
        let theirs = (row.left.is_some(), row.left.is_some() && row.tos_left & 3 == 3);
        let copies = if row.left.is_some() { usize::from(row.copies) } else { 0 };
        let near = match (first, row.left) {
            (Some(ours), Some(theirs)) => ours.abs_diff(theirs) <= tolerance,
            (None, None) => true,
            _ => false,
        };
        if !near || ours.len() != copies || (first.is_some(), first.is_some() && ce) != theirs {
            differences.push(format!("{row:?}\n   ours: {ours:?}"));
        }
    }
    let (count, of) = (differences.len(), vector.rows.len());
    differences.truncate(10);
    assert_eq!(count, 0, "{}: {count} of {of} differ:\n{}", vector.name, differences.join("\n"));
    assert!(left.is_empty(), "{}: never sent: {left:?}", vector.name);
}

/// Packets that left the kernel more than 300 ns apart leave here in the same order. Duplicates
/// have no times of their own in the recordings.
fn order(vector: &Vector, run: &Run) {
    let mut place = BTreeMap::new();
    for (index, departure) in run.left.iter().enumerate() {
        place.entry(departure.id).or_insert(index);
    }
    let mut rows: Vec<_> =
        vector.rows.iter().filter_map(|row| row.left.map(|at| (at, row.id))).collect();
    rows.sort_unstable();
    for pair in rows.windows(2) {
        let [(first, before), (second, after)] = [pair[0], pair[1]];
        let ours = place[&before] < place[&after];
        assert!(ours || second - first < 300, "{}: {after} left before {before}", vector.name);
    }
}
