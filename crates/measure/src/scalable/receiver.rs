//! The receiving end.

use super::wire::{Acknowledgement, Counts, Datagram};

/// Counts what arrives, by ECN codepoint, and answers each datagram with the totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receiver {
    run: Option<u64>,
    highest: u64,
    counts: Counts,
    foreign: u64,
}

impl Receiver {
    /// Takes datagrams of `run`, or of the run first seen.
    pub fn new(run: Option<u64>) -> Self {
        Self { run, ..Self::default() }
    }

    /// A datagram arrived with this type of service byte (IPv4) or traffic class (IPv6); the
    /// answer, if it is of the run.
    pub fn on_datagram(&mut self, payload: &[u8], tos: u8) -> Option<Acknowledgement> {
        let ours = Datagram::decode(payload)
            .filter(|datagram| *self.run.get_or_insert(datagram.run) == datagram.run);
        let Some(datagram) = ours else {
            self.foreign += 1;
            return None;
        };
        self.counts.codepoints[usize::from(tos & 3)] += 1;
        self.counts.bytes = self.counts.bytes.saturating_add(payload.len() as u64);
        self.highest = self.highest.max(datagram.seq);
        let Datagram { run, sent_ns, .. } = datagram;
        Some(Acknowledgement { run, highest: self.highest, echo_ns: sent_ns, counts: self.counts })
    }

    /// The run received.
    pub fn run(&self) -> Option<u64> {
        self.run
    }

    /// Totals so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Datagrams of another run or kind.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_are_counted_whatever_the_dscp_and_other_runs_are_left_out() {
        let mut receiver = Receiver::new(None);
        let mut send = |run, seq, tos| {
            let mut payload = [0; 100];
            Datagram { run, seq, sent_ns: seq * 10 }.encode(&mut payload);
            receiver.on_datagram(&payload, tos)
        };
        assert_eq!(send(1, 4, 0b1011_1001).map(|answer| answer.highest), Some(4));
        assert_eq!(send(2, 9, 1), None);
        let answer = send(1, 3, 0b11).unwrap();
        assert_eq!((answer.highest, answer.echo_ns), (4, 30));
        assert_eq!(answer.counts, Counts { codepoints: [0, 1, 0, 1], bytes: 200 });
        assert_eq!((receiver.run(), receiver.foreign()), (Some(1), 1));
    }
}
