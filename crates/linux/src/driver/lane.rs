//! One direction on real packets: a queue of the kernel and the link that decides for it.

mod changes;
mod release;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use punctual_sched::classify::{Classified, PayloadKind, classify, wire_length};
use punctual_sched::packet::priority_of;
use punctual_sched::{Deadline, Duration, Instant, Link, Output, Packet, Rate};

use super::account::{Account, Arrived, LaneCounts};
use super::copies::Copies;
use super::remote::Requests;
use super::stamp::{ClockStep, Reading, StampReader};
use super::verdict::is_flushed;
use crate::clock::monotonic;
use crate::control::Watch;
use crate::netfilter::nfqueue::{Batch, HeldPacket, PacketInfo, Queue, Received, Verdict};
use crate::wire::Egress;

/// One direction: the kernel's queue, the link, and the account kept of both.
#[derive(Debug)]
pub struct Lane<A> {
    queue: Queue,
    batch: Batch,
    link: Link,
    account: A,
    stamps: StampReader,
    arrivals: Vec<Arrived>,
    outputs: Vec<Output>,
    verdicts: Vec<Verdict<'static>>,
    /// Only where packets are corrupted or duplicated.
    copies: Option<Box<Copies>>,
    requests: Option<Requests>,
    watch: Option<Watch>,
    /// Other lanes serve the same direction.
    divided: bool,
    mtu: u32,
    stamped: bool,
    /// Packets handed to the link so far.
    number: u64,
    flushed: u64,
    unread: u64,
    uncut_udp_bursts: u64,
    looked: Instant,
    longest_gap: Duration,
    shift: u64,
    injected_fates: Option<fn(Vec<Output>) -> Vec<Output>>,
}

impl<A: Account> Lane<A> {
    /// A lane for `link`, which starts at `start`. `mtu` is that of the link's devices: bursts
    /// that the kernel has not cut count as packets of this size.
    pub fn new(queue: Queue, link: Link, account: A, mtu: u32, start: Instant) -> Self {
        Self {
            batch: queue.batch(),
            queue,
            link,
            account,
            stamps: StampReader::new(start, Vec::new()),
            arrivals: Vec::with_capacity(BATCHES_PER_TURN * Queue::BATCH),
            outputs: Vec::with_capacity(BATCHES_PER_TURN * Queue::BATCH),
            verdicts: Vec::with_capacity(release::VERDICTS_PER_CALL),
            copies: None,
            requests: None,
            watch: None,
            divided: false,
            mtu,
            stamped: true,
            number: 0,
            flushed: 0,
            unread: 0,
            uncut_udp_bursts: 0,
            looked: start,
            longest_gap: Duration::ZERO,
            shift: 0,
            injected_fates: None,
        }
    }

    /// The rules could not stamp arrivals: packets are dated as they came in, where the kernel says
    /// so, or when they are read.
    pub fn without_stamps(&mut self) {
        self.stamped = false;
    }

    /// Keeps the bytes of packets, at most `limit` of them, for a link that corrupts or duplicates;
    /// copies are sent by `egress`. The queue's copy range must hold whole packets, and bursts must
    /// be cut. Before the first packet.
    pub fn keep_payloads(&mut self, egress: Egress, limit: usize) {
        self.link.follow_copies();
        self.copies = Some(Box::new(Copies::new(egress, limit)));
    }

    /// Does what other threads ask, from now on.
    pub fn listen(&mut self, requests: Requests) {
        self.requests = Some(requests);
    }

    /// Follows the words of a control block, from now on: every turn looks at them.
    pub fn follow(&mut self, watch: Watch) {
        self.watch = Some(watch);
    }

    /// Serves some flows of a direction whose others have lanes of their own: refuses changes by which
    /// flows would share something, and those of a control block, which only one lane can follow.
    pub fn serve_beside_others(&mut self) {
        self.divided = true;
    }

    /// For tests: steps of the real-time clock to be imagined from `start` on, and a shift in ns
    /// by which departures are held back behind the account's back.
    pub fn inject(&mut self, start: Instant, steps: Vec<ClockStep>, shift: Option<u64>) {
        self.stamps = StampReader::new(start, steps);
        self.shift = shift.unwrap_or(0);
    }

    /// For tests: fates that take the place of the link's. A copy of a packet that the link did not
    /// make counts as made right before.
    pub fn inject_fates(&mut self, change: fn(Vec<Output>) -> Vec<Output>) {
        self.injected_fates = Some(change);
    }

    /// Reads, hands over, advances, releases. False when more packets are waiting.
    pub(super) fn turn(&mut self) -> io::Result<bool> {
        // Before the read: what arrived before a change was asked for is then handed over first.
        let asked = self.requests.as_ref().is_some_and(Requests::pending);
        let (drained, read_from) = self.read()?;
        // After the read: what was stored before a packet was sent holds for that packet.
        let found = self.look(read_from);
        self.hand_over();
        if drained {
            self.link.advance(read_from);
            self.stamps.advanced(read_from);
            self.collect();
        }
        if let Some(found) = found {
            self.carry_out(found, self.latest());
        }
        if asked {
            self.answer();
        }
        self.settle();
        self.release()?;
        self.account.turned(&self.link);
        Ok(drained)
    }

    /// When the next packet can be due, the injected shift included.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadline: Option<Deadline> = self.link.next_event();
        deadline.map(|deadline| deadline.at)
    }

    /// Whether the words of a control block are to be looked at although nothing else happens:
    /// while anything is held. For an empty link, paused or not, the next arrival is soon enough.
    pub(super) fn must_look(&self) -> bool {
        let waits = || self.link.rate() == Rate::PAUSE && !self.is_empty();
        self.watch.is_some() && (self.link.next_event().is_some() || waits())
    }

    /// Whether there is anything new in the words of a control block.
    pub(super) fn has_news(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::has_news)
    }

    /// Nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.link.snapshot().queued == 0
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }

    /// Takes the answers to the last verdicts, so that what the kernel had flushed is counted, and
    /// counts the packets that come with them: they are not ours any more.
    pub(super) fn close(&mut self) -> io::Result<()> {
        if let Some(requests) = &self.requests {
            requests.close();
        }
        for _ in 0..MOST_READS_AT_CLOSE {
            if self.queue.receive(&mut self.batch)? == 0 {
                break;
            }
            for received in self.batch.iter() {
                self.unread += u64::from(matches!(received, Received::Packet(_)));
                self.flushed += u64::from(is_flushed(received));
            }
        }
        Ok(())
    }

    /// The link.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The latest time given to the link: the end of its log.
    pub fn latest(&self) -> Instant {
        self.stamps.latest()
    }

    /// What the kernel did.
    pub fn counts(&self) -> LaneCounts {
        LaneCounts {
            receive_buffer: self.queue.losses().map_or(0, |losses| losses.receive_buffer),
            flushed: self.flushed,
            malformed: self.batch.malformed(),
            unread: self.unread,
            uncut_udp_bursts: self.uncut_udp_bursts,
            unkept: self.copies.as_ref().map_or(0, |copies| copies.unkept()),
            unsent: self.copies.as_ref().map_or(0, |copies| copies.unsent()),
            longest_gap: self.longest_gap,
            stamps: self.stamps.counts(),
        }
    }

    /// The account.
    pub fn into_account(self) -> A {
        self.account
    }

    /// Reads until nothing is left, or a turn's share. Returns whether nothing is left, and when
    /// the last read began: every packet stamped well before it has been read.
    fn read(&mut self) -> io::Result<(bool, Instant)> {
        let mut began = monotonic();
        self.longest_gap = self.longest_gap.max(began.since(self.looked));
        self.looked = began;
        for _ in 0..BATCHES_PER_TURN {
            let datagrams = self.queue.receive(&mut self.batch)?;
            if datagrams > 0 {
                self.stamps.batch(Reading::sample());
                self.take_in();
            }
            if datagrams < Queue::BATCH {
                return Ok((true, began));
            }
            began = monotonic();
        }
        Ok((false, began))
    }

    fn take_in(&mut self) {
        for received in self.batch.iter() {
            match received {
                Received::Packet(held) => {
                    if let Some(copies) = &mut self.copies {
                        copies.arrived(&held);
                    }
                    let classified = classify(held.payload, held.info.protocol);
                    let udp = classified.kind == PayloadKind::Udp;
                    self.uncut_udp_bursts += u64::from(udp && held.info.gso);
                    let mut packet =
                        describe(&held, &classified, &mut self.stamps, (self.mtu, self.stamped));
                    // The packet's own mark is the stamp.
                    packet.mark = self.link.packet_mark(&classified, 0);
                    let tag = self.account.tag(held.payload, &classified);
                    let read = self.stamps.read_at();
                    self.arrivals.push(Arrived { packet, classified, read, tag });
                }
                other => self.flushed += u64::from(is_flushed(other)),
            }
        }
    }

    /// Gives the packets read to the link in the order of their stamps.
    fn hand_over(&mut self) {
        // Nearly always sorted already; the sort is stable and then costs one comparison each.
        self.arrivals.sort_by_key(|arrived| arrived.packet.arrival);
        self.link.touch(self.arrivals.iter().map(|arrived| &arrived.packet));
        for index in 0..self.arrivals.len() {
            let arrived = &mut self.arrivals[index];
            self.number += 1;
            arrived.packet.handle |= self.number << 32;
            arrived.packet.arrival = self.stamps.in_order(arrived.packet.arrival);
            let packet = arrived.packet;
            self.account.arrived(arrived);
            self.link.arrive(packet);
            self.collect();
        }
        self.arrivals.clear();
    }

    fn collect(&mut self) {
        while let Some(output) = self.link.poll() {
            self.outputs.push(output);
        }
        if let Some(copies) = &mut self.copies {
            while let Some(handle) = self.link.poll_duplicate() {
                copies.duplicated(handle);
            }
        }
    }
}

fn describe(
    held: &HeldPacket<'_>,
    classified: &Classified,
    stamps: &mut StampReader,
    (mtu, stamped): (u32, bool),
) -> Packet {
    let PacketInfo { id, mark, len, gso, timestamp_us, .. } = held.info;
    let (len, segments) = if gso { wire_length(len, classified, mtu) } else { (len, 1) };
    // A mark that is absent is 0, a stamp like any other.
    let arrival = if stamped {
        stamps.arrival(mark.unwrap_or(0), timestamp_us)
    } else {
        stamps.unstamped(timestamp_us)
    };
    Packet {
        segments,
        dscp: classified.dscp,
        ecn: classified.ecn,
        priority: priority_of(classified.dscp),
        ..Packet::on_path(u64::from(id), arrival, len, classified.flow)
    }
}

/// 16 reads of 64: about a millisecond of work, after which what is due is released.
const BATCHES_PER_TURN: usize = 16;
/// Enough for a million packets: a peer that floods on must not keep a run from ending.
const MOST_READS_AT_CLOSE: usize = 16_384;
