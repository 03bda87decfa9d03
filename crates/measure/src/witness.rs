//! Does an independent witness agree with the driver's own account?
//!
//! Numbered probes are sent, captured on both sides of the gate and received; the driver accounts for
//! the same probes by its own stamps. [`compare`] sets the one against the other, stage by stage:
//! every probe must be seen where the account says it was, and at the median not far from when.

mod disagreement;
mod rows;

use std::collections::{BTreeMap, HashSet};

use crate::difference_ns;
use crate::distribution::Distribution;
use crate::report;
pub use disagreement::{Difference, Disagreement, Stage, Untold};
use rows::{Row, gather, missing};

/// A probe as its sender accounts for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its number.
    pub seq: u64,
    /// Just before the send call, monotonic clock in ns.
    pub sent_ns: u64,
}

/// A probe as the kernel stamped it for an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its number.
    pub seq: u64,
    /// The stamp, real-time clock in ns.
    pub stamp_ns: i64,
    /// Real time minus monotonic time when the stamp was read, in ns.
    pub offset_ns: i64,
}

/// A probe as the driver accounts for it, monotonic clock. A duplicate is a further entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its number, read from the packet's first bytes.
    pub seq: u64,
    /// When it arrived.
    pub arrival_ns: u64,
    /// What became of it.
    pub fate: Fate,
}

/// What the driver says became of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It left.
    Released {
        /// When it was to leave.
        due_ns: u64,
        /// When the call that released it began: not before this.
        called_ns: u64,
        /// When that call had returned: not after this.
        released_ns: u64,
    },
    /// It was dropped, with a reason that the report counts.
    Dropped,
    /// It was still held when the run ended: the report counts it as queued.
    Held,
}

/// Packets that the report says were lost outside the link, by anybody: they may have been probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// At the devices before the gate.
    pub before_gate: u64,
    /// Before the driver saw them: no room, or unread at the end.
    pub before_account: u64,
    /// Released, but the kernel no longer held them.
    pub after_account: u64,
    /// At the devices behind the gate.
    pub behind_gate: u64,
}

/// Everything noted about the probes of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence<'a> {
    /// By the sender.
    pub sent: &'a [Sent],
    /// On the gate's interface towards the sender.
    pub before: &'a [Seen],
    /// By the driver.
    pub account: &'a [Account],
    /// On the gate's interface towards the receiver.
    pub after: &'a [Seen],
    /// By the receiver, in the order received.
    pub received: &'a [Seen],
    /// Probes the three observers say they lost themselves: before, after, received. That many
    /// missing probes prove nothing, and the witness cannot tell.
    pub lost_by_observers: [u64; 3],
    /// What the report says was lost.
    pub admitted: Admitted,
    /// The observers looked on until then, monotonic clock: what was released later, or so shortly
    /// before that it was still on its way, they need not have seen.
    pub observed_until_ns: Option<u64>,
}

/// How far medians may be apart, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Capture before the gate and arrival, either way.
    pub arrival_ns: u64,
    /// Capture after the gate and release, either way.
    pub departure_ns: u64,
    /// Sender to receiver beyond the delay accounted for, either way: what the bare path takes, plus
    /// the two above.
    pub path_ns: u64,
}

impl Bounds {
    /// 20 us for each capture, and 40 us on top of the bare path's one-way delay for the whole.
    pub const fn with_bare_path(one_way_ns: u64) -> Self {
        Self {
            arrival_ns: 20_000,
            departure_ns: 20_000,
            path_ns: one_way_ns.saturating_add(40_000),
        }
    }
}

/// What the comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Probes at each stage, duplicates not counted.
    pub counts: Counts,
    /// Capture before the gate minus driver's arrival: negative, the capture comes first.
    pub arrival_error: Distribution,
    /// Capture after the gate against the call that released the probe: 0 within it, negative
    /// before it, positive after it.
    pub release_error: Distribution,
    /// Capture after the gate minus due time.
    pub departure_error: Distribution,
    /// Receiver's stamp minus sender's stamp.
    pub one_way_delay: Distribution,
    /// The same minus the time from arrival to release by the driver's account.
    pub path_beyond_account: Distribution,
    /// Everything that speaks against the account.
    pub disagreements: Vec<Disagreement>,
    /// Why it cannot be told whether the account is right; nothing of it speaks against it.
    pub untold: Vec<Untold>,
}

/// Probes at each stage, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By the sender.
    pub sent: u64,
    /// Captured before the gate.
    pub before: u64,
    /// Arrived by the driver's account.
    pub arrived: u64,
    /// Departed by the driver's account.
    pub departed: u64,
    /// Dropped by the driver's account.
    pub dropped: u64,
    /// Captured after the gate.
    pub after: u64,
    /// Received.
    pub received: u64,
    /// Received again.
    pub duplicated: u64,
    /// Received after one with a higher number.
    pub reordered: u64,
    /// Sent, not received, and by the account neither dropped nor held nor lost.
    pub lost_unexplained: u64,
}

impl Findings {
    /// Whether nothing speaks against the account, and what there was to see could be seen.
    pub fn agrees(&self) -> bool {
        self.disagreements.is_empty() && self.untold.is_empty()
    }

    /// The witness's section of the report.
    pub fn section(&self) -> report::Witness {
        report::Witness {
            sent: self.counts.sent,
            received: self.counts.received,
            duplicated: self.counts.duplicated,
            reordered: self.counts.reordered,
            lost_unexplained: self.counts.lost_unexplained,
            arrival_error: self.arrival_error.clone(),
            departure_error: self.departure_error.clone(),
            one_way_delay: self.one_way_delay.clone(),
            disagreements: self.disagreements.iter().map(ToString::to_string).collect(),
            untold: self.untold.iter().map(ToString::to_string).collect(),
            ok: self.agrees(),
            ..report::Witness::default()
        }
    }
}

/// Sets the witness's evidence against the driver's account.
pub fn compare(evidence: &Evidence<'_>, bounds: &Bounds) -> Findings {
    let probes = gather(evidence);
    let differences = Differences::of(&probes);
    let mut findings = Findings {
        counts: count(&probes, evidence),
        disagreements: missing(&probes, evidence),
        ..differences.distributions()
    };
    let lost = evidence.lost_by_observers.iter().sum();
    if lost > 0 {
        findings.untold.push(Untold::ObserversLost { probes: lost });
    }
    for (difference, distribution, bound_ns) in [
        (Difference::Arrival, &findings.arrival_error, bounds.arrival_ns),
        (Difference::Departure, &findings.release_error, bounds.departure_ns),
        (Difference::Path, &findings.path_beyond_account, bounds.path_ns),
    ] {
        match distribution.p50_ns {
            Some(p50_ns) if p50_ns.unsigned_abs() > bound_ns => {
                findings.disagreements.push(Disagreement::Median { difference, p50_ns, bound_ns });
            }
            Some(_) => {}
            // That a probe is missing is found by counting; here there is only nothing to compare.
            None => findings.untold.push(Untold::NoSamples { difference }),
        }
    }
    findings
}

fn count(rows: &BTreeMap<u64, Row>, evidence: &Evidence<'_>) -> Counts {
    let mut counts = Counts::default();
    for row in rows.values() {
        counts.sent += u64::from(row.sent_ns.is_some());
        counts.before += u64::from(row.before.count > 0);
        counts.arrived += u64::from(row.arrivals > 0);
        counts.departed += u64::from(row.departures > 0);
        counts.dropped += u64::from(row.dropped > 0);
        counts.after += u64::from(row.after.count > 0);
        counts.received += u64::from(row.received.count > 0);
        counts.duplicated += u64::from(row.received.count.saturating_sub(1));
        counts.lost_unexplained += u64::from(row.is_unexplained());
    }
    let Admitted { before_gate, before_account, after_account, behind_gate } = evidence.admitted;
    let admitted = [before_gate, before_account, after_account, behind_gate];
    let admitted = admitted.into_iter().fold(0, u64::saturating_add);
    counts.lost_unexplained = counts.lost_unexplained.saturating_sub(admitted);
    let (mut highest, mut known) = (None, HashSet::new());
    for seen in evidence.received {
        let first = known.insert(seen.seq);
        counts.reordered += u64::from(first && Some(seen.seq) < highest);
        highest = highest.max(Some(seen.seq));
    }
    counts
}

#[derive(Default)]
struct Differences {
    arrival_error: Vec<i64>,
    release_error: Vec<i64>,
    departure_error: Vec<i64>,
    one_way_delay: Vec<i64>,
    path_beyond_account: Vec<i64>,
}

impl Differences {
    fn of(rows: &BTreeMap<u64, Row>) -> Self {
        let mut all = Self::default();
        for row in rows.values() {
            all.arrival_error.extend(minus(row.before.first_ns, signed(row.arrival_ns)));
            all.release_error.extend(row.outside_the_call());
            all.departure_error.extend(minus(row.after.first_ns, signed(row.due_ns)));
            let one_way = minus(row.received.first_ns, signed(row.sent_ns));
            let held = row.released_ns.zip(row.arrival_ns);
            let held = held.map(|(released, arrival)| difference_ns(released, arrival));
            all.one_way_delay.extend(one_way);
            all.path_beyond_account.extend(minus(one_way, held));
        }
        all
    }

    fn distributions(mut self) -> Findings {
        Findings {
            arrival_error: Distribution::from_samples(&mut self.arrival_error),
            release_error: Distribution::from_samples(&mut self.release_error),
            departure_error: Distribution::from_samples(&mut self.departure_error),
            one_way_delay: Distribution::from_samples(&mut self.one_way_delay),
            path_beyond_account: Distribution::from_samples(&mut self.path_beyond_account),
            ..Findings::default()
        }
    }
}

fn minus(later: Option<i64>, earlier: Option<i64>) -> Option<i64> {
    Some(later?.saturating_sub(earlier?))
}

fn signed(nanos: Option<u64>) -> Option<i64> {
    nanos.map(|nanos| i64::try_from(nanos).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
