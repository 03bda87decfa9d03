//! The driver's account of numbered probes, for the witness.

use std::collections::HashMap;

use punctual_sched::classify::Classified;
use punctual_sched::{DropReason, Instant, Output};

/// What the driver says of numbered probes.
#[derive(Debug)]
pub(super) struct ProbeAccount {
    recognise: Recognise,
    /// Probes on the link, by their packet's number.
    travelling: HashMap<u64, (u64, Instant)>,
    fates: Vec<ProbeFate>,
}

/// Reads a probe's number from a packet's first bytes.
pub(super) type Recognise = fn(&[u8], &Classified) -> Option<u64>;

/// One probe as the driver saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeFate {
    /// Its number.
    pub probe: u64,
    /// When it met the link.
    pub arrival: Instant,
    /// When it was due and when it was released; or why it was dropped.
    pub fate: Result<(Instant, Instant), DropReason>,
}

impl ProbeAccount {
    /// Probes are the packets that `recognise` gives a number.
    pub(super) fn new(recognise: Recognise) -> Self {
        Self { recognise, travelling: HashMap::new(), fates: Vec::new() }
    }

    /// The fates so far.
    pub(super) fn fates(&self) -> &[ProbeFate] {
        &self.fates
    }

    pub(super) fn recognise(&self, head: &[u8], classified: &Classified) -> Option<u64> {
        (self.recognise)(head, classified)
    }

    pub(super) fn arrived(&mut self, number: u64, probe: u64, arrival: Instant) {
        self.travelling.insert(number, (probe, arrival));
    }

    pub(super) fn fate(&mut self, number: u64, output: &Output, released: Option<Instant>) {
        let Some((probe, arrival)) = self.travelling.remove(&number) else { return };
        let fate = match output {
            Output::Depart { due, .. } => Ok((*due, released.unwrap_or(*due))),
            Output::Drop { reason, .. } => Err(*reason),
        };
        self.fates.push(ProbeFate { probe, arrival, fate });
    }
}
