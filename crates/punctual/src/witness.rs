//! The independent witness against the driver's account of the same probes.

use std::collections::{HashMap, HashSet};

use punctual_linux::driver::{Account, Arrived, Released};
use punctual_linux::observe::{Probe, ProbeSeen, Seen, WitnessData};
use punctual_measure::Distribution;
use punctual_measure::witness::{self, Admitted, Bounds, Evidence, Fate, Findings};
use punctual_sched::{Instant, Output};

/// What the driver's account says of the probes of one run.
///
/// An [`Account`] of its own, or part of a larger one that passes each call on.
#[derive(Debug, Default)]
pub struct ProbeLedger {
    run: u64,
    /// Number and arrival of each probe, by the packet's handle.
    arrivals: HashMap<u64, (u64, Instant)>,
    /// Handles of those whose fate is known.
    settled: HashSet<u64>,
    entries: Vec<witness::Account>,
}

impl ProbeLedger {
    /// Of the probes that carry `run`.
    pub fn new(run: u64) -> Self {
        Self { run, ..Self::default() }
    }

    /// The probe's number, to be handed back in [`Arrived::tag`]; `None` for every other packet.
    /// `head` starts with the IP header.
    pub fn recognise(&self, head: &[u8]) -> Option<u64> {
        Probe::find_in_packet(head).filter(|probe| probe.run == self.run).map(|probe| probe.seq)
    }

    fn settle(&mut self, handle: u64, fate: Fate) {
        let Some(&(seq, arrival)) = self.arrivals.get(&handle) else { return };
        self.settled.insert(handle);
        self.entries.push(witness::Account { seq, arrival_ns: arrival.as_nanos(), fate });
    }

    /// Every probe that arrived: those without a fate are held.
    fn account(&self) -> Vec<witness::Account> {
        let held = self.arrivals.iter().filter(|(handle, _)| !self.settled.contains(handle));
        let held = held.map(|(_, &(seq, arrival))| witness::Account {
            seq,
            arrival_ns: arrival.as_nanos(),
            fate: Fate::Held,
        });
        self.entries.iter().copied().chain(held).collect()
    }
}

impl Account for ProbeLedger {
    fn tag(&mut self, head: &[u8], _: &punctual_sched::Classified) -> Option<u64> {
        self.recognise(head)
    }

    fn arrived(&mut self, arrived: &Arrived) {
        if let Some(seq) = arrived.tag {
            self.arrivals.insert(arrived.packet.handle, (seq, arrived.packet.arrival));
        }
    }

    fn dropped(&mut self, output: &Output) {
        if let Output::Drop { packet, .. } = output {
            self.settle(packet.handle, Fate::Dropped);
        }
    }

    fn released(&mut self, released: &Released<'_>) {
        if let Output::Depart { packet, .. } = released.output {
            let [due_ns, called_ns, released_ns] =
                [released.due, released.called, released.returned].map(Instant::as_nanos);
            self.settle(packet.handle, Fate::Released { due_ns, called_ns, released_ns });
        }
    }
}

/// Sets what the witness saw against the ledger, of a run that admits these losses.
pub fn compare(
    data: &WitnessData,
    ledger: &ProbeLedger,
    admitted: Admitted,
    bounds: &Bounds,
) -> Findings {
    let sent: Vec<_> = data
        .sent
        .iter()
        .map(|probe| witness::Sent { seq: probe.seq, sent_ns: probe.sent.as_nanos() })
        .collect();
    let [before, after, received] =
        [&data.before, &data.after, &data.received].map(|seen| sightings(&seen.probes));
    let lost = |seen: &Seen| seen.lost + seen.unstamped;
    let account = ledger.account();
    witness::compare(
        &Evidence {
            sent: &sent,
            before: &before,
            account: &account,
            after: &after,
            received: &received,
            lost_by_observers: [lost(&data.before), lost(&data.after), lost(&data.received)],
            admitted,
            observed_until_ns: Some(data.until.as_nanos()),
        },
        bounds,
    )
}

/// From the sender's stamp to the receiver's, where nothing is held: the bare path.
pub fn one_way_delay(data: &WitnessData) -> Distribution {
    let sent: HashMap<_, _> = data.sent.iter().map(|probe| (probe.seq, probe.sent)).collect();
    let delay = |seen: &ProbeSeen| {
        let sent = i64::try_from(sent.get(&seen.seq)?.as_nanos()).ok()?;
        Some(seen.stamp_ns.saturating_sub(seen.offset_ns).saturating_sub(sent))
    };
    let mut delays: Vec<i64> = data.received.probes.iter().filter_map(delay).collect();
    Distribution::from_samples(&mut delays)
}

fn sightings(probes: &[ProbeSeen]) -> Vec<witness::Seen> {
    let sighting = |probe: &ProbeSeen| witness::Seen {
        seq: probe.seq,
        stamp_ns: probe.stamp_ns,
        offset_ns: probe.offset_ns,
    };
    probes.iter().map(sighting).collect()
}
