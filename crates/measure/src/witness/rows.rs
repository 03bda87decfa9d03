//! Each probe at every stage, and where its numbers do not fit.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::{Account, Admitted, Disagreement, Evidence, Fate, Seen, Stage, minus, signed};

/// One probe at every stage. Times are of its first appearance, counts of all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    pub(super) sent_ns: Option<u64>,
    pub(super) before: Sightings,
    pub(super) arrivals: u32,
    pub(super) arrival_ns: Option<u64>,
    pub(super) departures: u32,
    /// Of these, after the observers had gone, or just before.
    pub(super) unobserved: u32,
    pub(super) dropped: u32,
    pub(super) held: u32,
    pub(super) due_ns: Option<u64>,
    pub(super) called_ns: Option<u64>,
    pub(super) released_ns: Option<u64>,
    pub(super) after: Sightings,
    pub(super) received: Sightings,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sightings {
    pub(super) count: u32,
    pub(super) first_ns: Option<i64>,
}

impl Sightings {
    fn add(&mut self, seen: &Seen) {
        self.count += 1;
        let monotonic_ns = seen.stamp_ns.saturating_sub(seen.offset_ns);
        self.first_ns.get_or_insert(monotonic_ns);
    }
}

pub(super) fn gather(evidence: &Evidence<'_>) -> BTreeMap<u64, Row> {
    let mut rows = BTreeMap::<u64, Row>::new();
    for sent in evidence.sent {
        rows.entry(sent.seq).or_default().sent_ns = Some(sent.sent_ns);
    }
    for seen in evidence.before {
        rows.entry(seen.seq).or_default().before.add(seen);
    }
    for account in evidence.account {
        rows.entry(account.seq).or_default().account(account, evidence.observed_until_ns);
    }
    for seen in evidence.after {
        rows.entry(seen.seq).or_default().after.add(seen);
    }
    for seen in evidence.received {
        rows.entry(seen.seq).or_default().received.add(seen);
    }
    rows
}

impl Row {
    fn account(&mut self, account: &Account, until_ns: Option<u64>) {
        self.arrivals += 1;
        self.arrival_ns.get_or_insert(account.arrival_ns);
        match account.fate {
            Fate::Released { due_ns, called_ns, released_ns } => {
                self.departures += 1;
                let until_ns = until_ns.map(|until| until.saturating_sub(ON_THEIR_WAY_NS));
                self.unobserved += u32::from(until_ns.is_some_and(|until| released_ns > until));
                self.due_ns.get_or_insert(due_ns);
                self.called_ns.get_or_insert(called_ns);
                self.released_ns.get_or_insert(released_ns);
            }
            Fate::Dropped => self.dropped += 1,
            Fate::Held => self.held += 1,
        }
    }

    /// How far the capture after the gate lies outside the call that released the probe.
    pub(super) fn outside_the_call(&self) -> Option<i64> {
        let captured = self.after.first_ns?;
        let before = minus(Some(captured), signed(self.called_ns))?;
        let after = minus(Some(captured), signed(self.released_ns))?;
        Some(before.min(0) + after.max(0))
    }

    /// For each stage how many of this probe are missing behind it, negative where more appear
    /// behind it than came. A duplicate of the link's making is one arrival more in the account than
    /// in the capture before the gate, which is no difference.
    fn misfits(&self) -> [(Stage, i64); 4] {
        let seen = |count: u32| u32::from(count > 0);
        let (after, late) = (self.after.count, self.unobserved);
        let sent = u32::from(self.sent_ns.is_some());
        let observed = self.departures.saturating_sub(late)..=self.departures;
        let passed = after.saturating_sub(late)..=after.saturating_add(late);
        [
            (Stage::SenderToGate, short_of(&(sent..=sent), self.before.count)),
            (
                Stage::GateToAccount,
                i64::from(seen(self.before.count)) - i64::from(seen(self.arrivals)),
            ),
            (Stage::AccountToGate, short_of(&observed, after)),
            (Stage::GateToReceiver, short_of(&passed, self.received.count)),
        ]
    }

    /// Nothing says where it is.
    pub(super) fn is_unexplained(&self) -> bool {
        let told = self.received.count + self.dropped + self.held + self.unobserved;
        self.sent_ns.is_some() && told == 0
    }
}

/// How many `count` has too few for what was expected; negative, how many too many.
fn short_of(expected: &RangeInclusive<u32>, count: u32) -> i64 {
    i64::from(count.clamp(*expected.start(), *expected.end())) - i64::from(count)
}

/// Probes that do not fit at one stage.
#[derive(Default)]
struct Misfits {
    first_seq: Option<u64>,
    missing: u64,
    stray: u64,
}

/// The stages at which more probes are missing, or more appear from nowhere, than anybody admits to
/// have lost.
pub(super) fn missing(rows: &BTreeMap<u64, Row>, evidence: &Evidence<'_>) -> Vec<Disagreement> {
    let mut stages = BTreeMap::<Stage, Misfits>::new();
    for (&seq, row) in rows {
        for (stage, short) in row.misfits().into_iter().filter(|(_, short)| *short != 0) {
            let misfits = stages.entry(stage).or_default();
            // Numbers ascend, so the first one is the lowest.
            misfits.first_seq.get_or_insert(seq);
            misfits.missing += u64::from(short > 0);
            misfits.stray += u64::from(short < 0);
        }
    }
    let told = |(stage, misfits): (Stage, Misfits)| {
        let (missing, stray) = evidence.admitted_at(stage);
        let explained = misfits.missing <= missing && misfits.stray <= stray;
        let first_seq = misfits.first_seq.filter(|_| !explained)?;
        let probes = misfits.missing + misfits.stray;
        Some(Disagreement::Count { stage, probes, first_seq })
    };
    stages.into_iter().filter_map(told).collect()
}

impl Evidence<'_> {
    /// How many probes may be missing behind a stage, and how many may appear there unseen before.
    fn admitted_at(&self, stage: Stage) -> (u64, u64) {
        let [before, after, received] = self.lost_by_observers;
        let Admitted { before_gate, before_account, after_account, behind_gate } = self.admitted;
        match stage {
            Stage::SenderToGate => (before_gate.saturating_add(before), 0),
            Stage::GateToAccount => (before_account, before),
            Stage::AccountToGate => (after_account.saturating_add(after), 0),
            Stage::GateToReceiver => (behind_gate.saturating_add(received), after),
        }
    }
}

/// From a release to the last observer: what the busiest machine takes, many times over.
const ON_THEIR_WAY_NS: u64 = 50_000_000;
