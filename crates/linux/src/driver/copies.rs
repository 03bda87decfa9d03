//! How each fate reaches the wire where packets are corrupted or duplicated.
//!
//! The kernel holds one packet; the first of its copies that departs takes it along by the verdict,
//! with other bytes if it has a flipped bit. Every other copy is sent from the bytes kept here.

use std::io;
use std::ops::Range;

use punctual_sched::{BitFlip, Mark, Output};

use super::verdict::{kernel_mark, packet_id, send_all};
use crate::netfilter::nfqueue::{HeldPacket, Queue, Verdict};
use crate::wire::{Egress, PayloadStore, Stored, flip, is_in_header, set_ce};

/// The bytes of the packets that a lane holds, and the way out for copies of them.
#[derive(Debug)]
pub(super) struct Copies {
    pub(super) egress: Egress,
    plan: Plan,
}

impl Copies {
    pub(super) fn new(egress: Egress, store_limit: usize) -> Self {
        Self { egress, plan: Plan::new(store_limit) }
    }

    /// A packet was read. Bytes that the kernel cut off, or whose checksums are yet to be
    /// finished, are not those that would be on the wire.
    pub(super) fn arrived(&mut self, held: &HeldPacket<'_>) {
        let info = &held.info;
        let whole = usize::try_from(info.len).is_ok_and(|len| len == held.payload.len());
        let finished = !info.gso && !info.checksum_unfinished;
        let bytes = (whole && finished).then_some(held.payload);
        self.plan.store.keep(info.id, info.protocol, bytes);
    }

    /// The link has one more copy of the packet.
    pub(super) fn duplicated(&mut self, handle: u64) {
        self.plan.store.duplicated(packet_id(handle));
    }

    /// Plans fates up to the first that sends a copy: how many come before it, whose verdicts are
    /// to be given first.
    pub(super) fn plan(&mut self, fates: &[Output]) -> Option<(usize, Copy)> {
        fates.iter().enumerate().find_map(|(index, output)| match self.plan.add(output) {
            Step::Verdict => None,
            Step::Send(copy) => Some((index, copy)),
        })
    }

    /// Gives the verdicts planned so far.
    pub(super) fn give_verdicts(&mut self, queue: &mut Queue) -> io::Result<()> {
        let Plan { pending, bytes, .. } = &mut self.plan;
        let verdicts: Vec<_> = pending.drain(..).map(|verdict| verdict.with(bytes)).collect();
        send_all(queue, &verdicts)
    }

    /// Sends a copy.
    pub(super) fn send(&mut self, copy: &Copy) {
        self.egress.send(copy.protocol, &self.plan.bytes[copy.range.clone()]);
    }

    /// Everything planned has been carried out.
    pub(super) fn finish(&mut self) {
        self.plan.bytes.clear();
    }

    /// Packets whose bytes could not be kept.
    pub(super) fn unkept(&self) -> u64 {
        self.plan.store.unkept()
    }

    /// Copies that did not leave: not sent by the kernel, or without bytes.
    pub(super) fn unsent(&self) -> u64 {
        self.plan.without_bytes + self.egress.counts().unsent
    }
}

/// The packets of which these are fates of duplicates, for each duplicate.
pub(super) fn duplicates_of(fates: &[Output]) -> impl Iterator<Item = u64> {
    fates.iter().filter_map(|output| {
        let (Output::Depart { packet, copy, .. } | Output::Drop { packet, copy, .. }) = output;
        (*copy > 0).then_some(packet.handle)
    })
}

/// What a fate needs beside the verdicts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing: a verdict at most.
    Verdict,
    /// A copy is to be sent.
    Send(Copy),
}

/// A copy to be sent: where its bytes lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    protocol: u16,
    range: Range<usize>,
}

/// Which way each fate goes; no packet is touched yet.
#[derive(Debug)]
struct Plan {
    store: PayloadStore,
    pending: Vec<PendingVerdict>,
    /// Bytes as they are to be on the wire, of pending verdicts and of a copy.
    bytes: Vec<u8>,
    without_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PendingVerdict {
    id: u32,
    accept: bool,
    mark: u32,
    payload: Option<Range<usize>>,
}

impl PendingVerdict {
    fn with(self, bytes: &[u8]) -> Verdict<'_> {
        let payload = self.payload.map(|range| &bytes[range]);
        Verdict { id: self.id, accept: self.accept, mark: Some(self.mark), payload }
    }
}

impl Plan {
    fn new(store_limit: usize) -> Self {
        let store = PayloadStore::new(store_limit);
        Self { store, pending: Vec::new(), bytes: Vec::new(), without_bytes: 0 }
    }

    fn add(&mut self, output: &Output) -> Step {
        let (Output::Depart { packet, .. } | Output::Drop { packet, .. }) = output;
        let id = packet_id(packet.handle);
        let Self { pending, bytes, without_bytes, .. } = self;
        let decide = |stored: &mut Stored, last: bool| {
            let mut step = Step::Verdict;
            if let Output::Depart { corrupt, mark, .. } = output {
                if leaves_by_verdict(stored, *corrupt) {
                    pending.push(accept(id, stored, (*mark, *corrupt), bytes));
                    stored.held = false;
                } else if stored.bytes.is_empty() {
                    *without_bytes += 1;
                } else {
                    let range = write(stored, (*mark, *corrupt), bytes);
                    step = Step::Send(Copy { protocol: stored.protocol, range });
                }
            }
            if last && stored.held {
                pending.push(PendingVerdict { id, accept: false, mark: 0, payload: None });
            }
            step
        };
        // A packet that is not known was let go before.
        self.store.settle(id, decide).unwrap_or_else(|| {
            self.without_bytes += u64::from(matches!(output, Output::Depart { .. }));
            Step::Verdict
        })
    }
}

/// A bit flipped in the header must not be seen by the kernel, which would route by it: it asks
/// for a corrupted address by ARP, and tells the sender that nobody has it.
fn leaves_by_verdict(stored: &Stored, corrupt: Option<BitFlip>) -> bool {
    let misleads = |bit| is_in_header(&stored.bytes, bit);
    stored.held && !corrupt.is_some_and(misleads)
}

fn accept(
    id: u32,
    stored: &Stored,
    (mark, corrupt): (Mark, Option<BitFlip>),
    bytes: &mut Vec<u8>,
) -> PendingVerdict {
    if corrupt.is_some() && !stored.bytes.is_empty() {
        let payload = Some(write(stored, (mark, corrupt), bytes));
        return PendingVerdict { id, accept: true, mark: 0, payload };
    }
    PendingVerdict { id, accept: true, mark: kernel_mark(mark), payload: None }
}

/// Writes the bytes as they shall be on the wire: marked by a router, then damaged on the way.
fn write(
    stored: &Stored,
    (mark, corrupt): (Mark, Option<BitFlip>),
    bytes: &mut Vec<u8>,
) -> Range<usize> {
    let start = bytes.len();
    bytes.extend_from_slice(&stored.bytes);
    let packet = &mut bytes[start..];
    if mark == Mark::Ce {
        set_ce(packet);
    }
    if let Some(bit) = corrupt {
        flip(packet, bit);
    }
    start..bytes.len()
}

#[cfg(test)]
mod tests {
    use punctual_sched::{DropReason, Instant, Packet, Stages};

    use super::*;
    use crate::netfilter::nftables::CE_MARK;

    /// ECT(0), 28 bytes.
    const BYTES: [u8; 28] = {
        let mut bytes = [0x11; 28];
        bytes[0] = 0x45;
        bytes[1] = 2;
        bytes
    };

    fn plan(copies: u32) -> Plan {
        let mut plan = Plan::new(1000);
        plan.store.keep(9, 0x0800, Some(&BYTES));
        for _ in 1..copies {
            plan.store.duplicated(9);
        }
        plan
    }

    fn packet() -> Packet {
        // The handle's high half is the packet's number.
        Packet::on_path(9 | 77 << 32, Instant::ZERO, 28, 1)
    }

    fn depart(copy: u8, corrupt: Option<u32>, mark: Mark) -> Output {
        let corrupt = corrupt.map(BitFlip);
        let (due, stages) = (Instant::ZERO, Stages::default());
        Output::Depart { packet: packet(), copy, corrupt, due, mark, stages }
    }

    fn lose(copy: u8) -> Output {
        Output::Drop { packet: packet(), copy, reason: DropReason::Loss, at: Instant::ZERO }
    }

    /// The verdicts given: accepted, mark, payload.
    fn verdicts(plan: &mut Plan) -> Vec<(bool, u32, Option<Vec<u8>>)> {
        let bytes = plan.bytes.clone();
        let tell = |verdict: PendingVerdict| {
            assert_eq!(verdict.id, 9);
            (verdict.accept, verdict.mark, verdict.payload.map(|range| bytes[range].to_vec()))
        };
        plan.pending.drain(..).map(tell).collect()
    }

    fn sent(plan: &Plan, step: &Step) -> Vec<u8> {
        let Step::Send(copy) = step else { panic!("nothing is sent") };
        assert_eq!(copy.protocol, 0x0800);
        plan.bytes[copy.range.clone()].to_vec()
    }

    #[test]
    fn a_packet_alone_is_accepted_or_dropped_and_forgotten() {
        for (fate, expected) in [
            (depart(0, None, Mark::None), (true, 0)),
            (depart(0, None, Mark::Decided), (true, 0)),
            (depart(0, None, Mark::Ce), (true, CE_MARK)),
            (lose(0), (false, 0)),
        ] {
            let mut plan = plan(1);
            assert_eq!(plan.add(&fate), Step::Verdict);
            assert_eq!(verdicts(&mut plan), [(expected.0, expected.1, None)]);
            assert!(plan.store.is_empty());
        }
    }

    #[test]
    fn a_bit_beyond_the_header_is_flipped_by_the_verdict() {
        let mut plan = plan(1);
        assert_eq!(plan.add(&depart(0, Some(28 * 8 - 1), Mark::Ce)), Step::Verdict);
        let mut expected = BYTES;
        set_ce(&mut expected);
        expected[27] ^= 1;
        assert_eq!(verdicts(&mut plan), [(true, 0, Some(expected.to_vec()))]);
    }

    #[test]
    fn a_bit_of_the_header_is_flipped_in_what_is_sent_and_the_held_packet_is_dropped() {
        let mut plan = plan(1);
        let step = plan.add(&depart(0, Some(0), Mark::None));
        let mut expected = BYTES;
        expected[0] ^= 0x80;
        assert_eq!(sent(&plan, &step), expected);
        assert_eq!(verdicts(&mut plan), [(false, 0, None)]);
        assert!(plan.store.is_empty());
    }

    #[test]
    fn the_first_copy_to_depart_takes_the_held_packet_and_the_others_are_sent() {
        for order in [[0, 1, 2], [2, 0, 1]] {
            let mut plan = plan(3);
            let steps = order.map(|copy| plan.add(&depart(copy, None, Mark::None)));
            assert_eq!(verdicts(&mut plan), [(true, 0, None)]);
            assert_eq!(steps[0], Step::Verdict);
            assert_eq!([sent(&plan, &steps[1]), sent(&plan, &steps[2])], [BYTES, BYTES]);
            assert!(plan.store.is_empty());
        }
    }

    #[test]
    fn a_duplicate_of_a_lost_packet_takes_the_held_one() {
        let mut plan = plan(2);
        plan.add(&lose(0));
        assert_eq!(verdicts(&mut plan), [], "its duplicate may still depart");
        plan.add(&depart(1, None, Mark::Ce));
        assert_eq!(verdicts(&mut plan), [(true, CE_MARK, None)]);
    }

    #[test]
    fn the_held_packet_is_dropped_when_no_copy_has_taken_it() {
        let mut plan = plan(3);
        plan.add(&lose(1));
        let step = plan.add(&depart(2, Some(5), Mark::None));
        assert!(matches!(step, Step::Send(_)));
        assert_eq!(verdicts(&mut plan), []);
        plan.add(&lose(0));
        assert_eq!(verdicts(&mut plan), [(false, 0, None)]);
    }

    #[test]
    fn each_copy_has_its_own_mark_and_bit() {
        let mut plan = plan(2);
        plan.add(&depart(0, None, Mark::None));
        let step = plan.add(&depart(1, Some(27 * 8), Mark::Ce));
        let mut expected = BYTES;
        set_ce(&mut expected);
        expected[27] ^= 0x80;
        assert_eq!(sent(&plan, &step), expected);
        assert_eq!(verdicts(&mut plan), [(true, 0, None)]);
    }

    #[test]
    fn a_packet_without_bytes_departs_as_it_is_and_its_copies_are_counted() {
        let mut plan = Plan::new(0);
        plan.store.keep(9, 0x0800, Some(&BYTES));
        plan.store.duplicated(9);
        plan.add(&depart(0, Some(3), Mark::Ce));
        assert_eq!(plan.add(&depart(1, None, Mark::None)), Step::Verdict);
        assert_eq!(verdicts(&mut plan), [(true, CE_MARK, None)]);
        assert_eq!((plan.store.unkept(), plan.without_bytes), (1, 1));
    }

    #[test]
    fn a_fate_of_a_packet_that_is_not_known_is_counted() {
        let mut plan = Plan::new(1000);
        assert_eq!(plan.add(&depart(0, None, Mark::None)), Step::Verdict);
        plan.add(&lose(0));
        assert_eq!((verdicts(&mut plan), plan.without_bytes), (vec![], 1));
    }
}
