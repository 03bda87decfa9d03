//! Ours beside the kernel's where randomness has no seed.

use std::collections::BTreeMap;

use crate::compare::TOLERANCE;
use crate::device::Run;
use crate::file::Vector;

/// Figures of a run that is compared by distribution.
#[derive(Clone, Copy, Debug)]
struct Figures {
    drops: u64,
    marks: u64,
    median_sojourn: u64,
}

type Check = (&'static str, u64, fn(&Figures) -> u64);

/// The kernel's counts of drops and marks and its median sojourn each lie between the 0.5th and
/// the 99.5th percentile of ours over 1,000 seeds.
pub(crate) fn by_distribution(vector: &Vector, run: impl Fn(u64) -> Run) {
    let theirs = kernel_figures(vector);
    let ours: Vec<_> = (0..1_000).map(|seed| our_figures(vector, &run(seed))).collect();
    // The kernel's sojourns are a little longer than ours: it takes its stamps before arrivals and
    // after departures.
    let checks: [Check; 3] = [
        ("drops", 0, |figures| figures.drops),
        ("marks", 0, |figures| figures.marks),
        ("median sojourn", TOLERANCE, |figures| figures.median_sojourn),
    ];
    for (what, longer, figure) in checks {
        let mut all: Vec<_> = ours.iter().map(figure).collect();
        all.sort_unstable();
        let (low, high) = (all[5], all[994]);
        let kernel = figure(&theirs);
        assert!(
            (low..=high + longer).contains(&kernel),
            "{}: {what} {kernel} is not within {low} to {high}",
            vector.name
        );
    }
}

fn kernel_figures(vector: &Vector) -> Figures {
    let marked = vector
        .rows
        .iter()
        .filter(|row| row.left.is_some() && row.tos & 3 != 3 && row.tos_left & 3 == 3);
    let sojourns = vector.rows.iter().filter_map(|row| Some(row.left? - row.sent));
    let drops = vector.rows.iter().filter(|row| row.left.is_none());
    figures(drops.count(), marked.count(), sojourns.collect())
}

fn our_figures(vector: &Vector, run: &Run) -> Figures {
    let sent: BTreeMap<_, _> = vector.rows.iter().map(|row| (row.id, row.sent)).collect();
    let mut first = BTreeMap::new();
    for departure in &run.left {
        first.entry(departure.id).or_insert_with(|| departure.at - sent[&departure.id]);
    }
    let marks = run.left.iter().filter(|departure| departure.ce).count();
    figures(vector.rows.len() - first.len(), marks, first.into_values().collect())
}

fn figures(drops: usize, marks: usize, mut sojourns: Vec<u64>) -> Figures {
    sojourns.sort_unstable();
    let median_sojourn = sojourns.get(sojourns.len() / 2).copied().unwrap_or(0);
    Figures { drops: drops as u64, marks: marks as u64, median_sojourn }
}
