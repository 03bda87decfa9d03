//! One direction of a link, in event time.
//!
//! `arrival -> [nic] -> queue, served at rate -> impairments -> delay line -> departure`

use crate::classify::Classified;
use crate::config::{ConfigError, LinkConfig, LossAt};
use crate::delay_line::DelayLine;
use crate::exit::{Departure, Exit};
use crate::impair::{ImpairmentCounts, Strikes, Struck};
use crate::nic::Nic;
use crate::output::{Cause, Deadline, DropReason, Output, Snapshot};
use crate::packet::Packet;
use crate::queue::{Discipline, Effects, Queue, Queued, Served};
use crate::server::Server;
use crate::time::Instant;
use crate::trace::Follower;

mod change;
mod following;
mod impairment;

use change::Origin;
use following::earlier;

/// One direction of a link: a state machine that decides every packet's fate at the instant at
/// which it is due to be decided, however late it is told that this instant has come.
///
/// # Contract
///
/// * Mutations are [`arrive`](Self::arrive), [`advance`](Self::advance) and
///   [`change`](Self::change). After each, drain [`poll`](Self::poll) until `None`, then ask
///   [`next_event`](Self::next_event); its answer holds until the next mutation.
/// * Times given never run backwards, over all three mutations together, and may repeat. A time
///   that does is taken as the latest one given.
/// * The outcome (fates, due times, their order) is a function of configuration, seed, arrivals
///   and changes in their order. How the same sequence is split into calls of `advance` makes no
///   difference: every decision due up to an arrival or a change is taken before it.
/// * Conservation, in wire segments: in + duplicated = out + dropped + queued, after every call.
/// * Departures leave in order (of what entered the delay line, unless `reorder` asks for another),
///   their due times never decrease, never before their arrival and never early: a packet leaves
///   when its last bit is serialised, rounded up to the nanosecond, or at its dequeue where the
///   queue serves itself. Lateness never accumulates: a busy link starts its next service at the
///   exact end of the last.
/// * Nothing but a configuration can fail; a rejected change leaves everything as it was.
#[derive(Debug)]
pub struct Link {
    config: LinkConfig,
    now: Instant,
    /// What is to be decided next and when; right after every mutation.
    next: Option<(Instant, Stage)>,
    /// Neither a sender's access rate nor a trace: nothing happens beside queue, server and line.
    plain: bool,
    nic: Option<Nic>,
    pub(crate) queue: Queue,
    server: Server,
    /// The packet in service, while the server is busy; else the one before.
    serving: Served,
    busy: bool,
    effects: Effects,
    strikes: Strikes,
    line: DelayLine,
    exit: Exit,
    origin: Origin,
    /// The trace that it follows.
    follower: Option<Box<Follower>>,
}

impl Link {
    /// A link at rest at `start`. Equal `config`, `seed`, arrivals and changes give equal fates.
    pub fn new(config: &LinkConfig, seed: u64, start: Instant) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut config = config.clone();
        config.settle_limit();
        let mut config = config.begun();
        let behind = config.behind_queue();
        let queue = Queue::new(&config, seed, start)?;
        // What was to begin with the link has begun.
        config.jens.handover_now = None;
        let follower = |trace| Box::new(Follower::new(trace, start));
        Ok(Self {
            now: start,
            plain: config.nic.is_none() && config.trace.is_none(),
            follower: config.trace.clone().map(follower),
            next: None,
            nic: config.nic.map(|rate| Nic::new(rate, start)),
            queue,
            serving: Served::untouched(Queued::NONE),
            busy: false,
            effects: Effects::default(),
            strikes: Strikes::new(&behind, seed),
            line: DelayLine::new(&behind, seed),
            exit: Exit::new(),
            server: Server::new(&behind, start),
            origin: Origin { seed, start, queues: 0 },
            config,
        })
    }

    /// A packet arrives at `packet.arrival`, after every decision due up to then.
    pub fn arrive(&mut self, packet: Packet) {
        self.advance(packet.arrival);
        if !self.exit.take_in(&packet, self.config.hold_limit) {
            self.exit.refuse(&packet, 0, DropReason::HoldFull, self.now);
            return;
        }
        let (entered, bytes) = (self.now, packet.counted_bytes(self.config.added_bytes()));
        if !self.plain {
            self.take_in(Queued { packet, entered, bytes });
            return;
        }
        self.enqueue(Queued { packet, entered, bytes });
        // What is queued behind a packet in service changes nothing of what is decided next.
        if !self.busy {
            self.begin_service();
            self.next = self.next_decision();
        }
    }

    /// Takes every decision with time <= `to`.
    #[inline]
    pub fn advance(&mut self, to: Instant) {
        while let Some((at, stage)) = self.next
            && at <= to
        {
            self.decide(at, stage);
        }
        self.now = self.now.max(to);
    }

    /// The next fate in order of decision; drain until `None`.
    #[inline]
    pub fn poll(&mut self) -> Option<Output> {
        self.exit.poll()
    }

    /// Has each duplicate announced by [`poll_duplicate`](Self::poll_duplicate), for a driver that
    /// keeps a packet's bytes until its last copy has had its fate.
    pub fn follow_copies(&mut self) {
        self.exit.follow_copies();
    }

    /// The handle of a packet of which one more copy has been made, which will have its own fate;
    /// drain until `None` after each mutation, before looking at the fates: it is known no later
    /// than any fate of the packet that comes after the copy was made.
    #[inline]
    pub fn poll_duplicate(&mut self) -> Option<u64> {
        self.exit.poll_duplicate()
    }

    /// The time before which no packet can depart, and what is waited for; `None` when nothing
    /// is held or the link is paused. Advancing to it always makes progress.
    #[inline]
    pub fn next_event(&self) -> Option<Deadline> {
        let line = self.line.next_due().map(|at| Deadline { at, cause: Cause::Propagation });
        // What keeps its order cannot leave before the head of the line.
        if line.is_some() && !self.line.overtakes() {
            return line;
        }
        let behind = self.upstream_event();
        match (line, behind) {
            (Some(line), Some(behind)) if behind.at < line.at => Some(behind),
            (line, behind) => line.or(behind),
        }
    }

    /// When the delay of the last packet that is on its way is over, `None` while none has one:
    /// those that wait for others, or for a slot, may leave later. It can lie further ahead than any
    /// delay in force, as a change of the delay is one for packets to come.
    pub fn latest_due(&self) -> Option<Instant> {
        self.line.latest_due().max(self.queue.latest_due())
    }

    /// The latest time given.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The parameters in force, while a trace is followed those of the latest step on which
    /// something has depended; [`in_force`](Self::in_force) has them all. A limit in time has become bytes; a default one is told by
    /// [`LinkConfig::with_limit_resolved`].
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Loads what the queue will read when these packets arrive, so that the misses of a batch
    /// overlap. Changes nothing.
    pub fn touch<'a>(&self, packets: impl Iterator<Item = &'a Packet> + Clone) {
        core::hint::black_box(self.queue.touch(packets));
    }

    /// What a driver has to put into a packet's mark, see [`LinkConfig::packet_mark`].
    pub fn packet_mark(&self, classified: &Classified, mark: u32) -> u32 {
        self.config.packet_mark(classified, mark)
    }

    /// Several packets in order of their arrival, as if handed to [`arrive`](Self::arrive) one by
    /// one, [touched](Self::touch) first.
    pub fn arrive_batch(&mut self, packets: &[Packet]) {
        self.touch(packets.iter());
        for packet in packets {
            self.arrive(*packet);
        }
    }

    /// Counters up to the latest time given.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.exit.counters;
        let mut backlog = self.queue.backlog();
        if self.busy {
            backlog.add(&self.serving.queued);
        }
        snapshot.backlog_packets = backlog.packets;
        snapshot.backlog_bytes = backlog.bytes;
        let pacing = self.nic.as_ref().map_or(0, Nic::segments);
        snapshot.queued = pacing + backlog.packets + self.line.segments();
        snapshot.reordered = self.line.reordered();
        snapshot.impairments = ImpairmentCounts {
            reorder: self.line.skipped(),
            jitter: self.line.deviations(),
            slots: self.line.slots(),
            ..self.strikes.counts()
        };
        snapshot.discipline = self.queue.statistics_at(self.now);
        snapshot.reordered += snapshot.discipline.overtaken();
        if self.follower.is_some() {
            let delivered = self.delivered();
            snapshot.opportunities_used = delivered.used;
            snapshot.opportunities_wasted = delivered.wasted;
        }
        snapshot
    }

    /// The time before which no packet can depart that is not on the line yet.
    fn upstream_event(&self) -> Option<Deadline> {
        let (at, cause) = match self.server.ready() {
            Some(end) => (end, Cause::Service),
            None if self.follower.is_some() => self.trace_event()?,
            None => self.queue_event()?,
        };
        Some(Deadline { at: self.earliest(at), cause })
    }

    /// When a packet may leave the queue: one that waits there, or the next that the sender's
    /// access rate lets through, which a queue that paces may let go first.
    fn queue_event(&self) -> Option<(Instant, Cause)> {
        let nic = self.nic.as_ref().and_then(Nic::ready).map(|at| (at, Cause::Nic));
        // Some disciplines have plans of their own while they are empty.
        let waits = self.queue.backlog().packets > 0;
        let queue = self.queue_wake().filter(|_| waits).map(|at| (at, Cause::Queue));
        match (queue, nic) {
            (Some(queue), Some(nic)) if nic.0 < queue.0 => Some(nic),
            (queue, nic) => queue.or(nic),
        }
    }

    // Apart from `advance`, which mostly finds nothing due and then is a comparison.
    #[inline(never)]
    fn decide(&mut self, at: Instant, stage: Stage) {
        self.now = self.now.max(at);
        match stage {
            Stage::Line => self.leave_line(),
            Stage::Server if self.server.is_last() => self.retire_serialiser(),
            Stage::Server => self.serve(true),
            Stage::Queue => self.begin_service(),
            Stage::Nic => self.pass_nic(),
            Stage::Following => self.decide_following(),
        }
        self.next = self.next_decision();
    }

    /// The earliest decision; among several at one instant the one furthest along the link.
    fn next_decision(&mut self) -> Option<(Instant, Stage)> {
        if self.follower.is_some() {
            return self.next_following();
        }
        let first = self.line.next_due().map(|at| (at, Stage::Line));
        let first = earlier(first, self.server.ready(), Stage::Server);
        let first = earlier(first, self.queue_wake(), Stage::Queue);
        earlier(first, self.nic.as_ref().and_then(Nic::ready), Stage::Nic)
    }

    /// When the queue, from which nothing could leave, is to be asked again.
    #[inline]
    fn queue_wake(&self) -> Option<Instant> {
        if self.busy { None } else { self.queue.wake() }
    }

    #[inline(never)]
    fn pass_nic(&mut self) {
        let Some(queued) = self.nic.as_mut().and_then(|nic| nic.pass(self.now)) else { return };
        let bytes = queued.packet.counted_bytes(self.config.added_bytes());
        self.enqueue(Queued { entered: self.now, bytes, ..queued });
        self.begin_service();
    }

    // In one piece with its callers, as `serve` and what it calls: a packet that is handed from
    // function to function is copied each time.
    #[expect(clippy::inline_always, reason = "measured: a third of a packet's time")]
    #[inline(always)]
    fn enqueue(&mut self, queued: Queued) {
        let before = self.config.loss_at == LossAt::Before;
        if before && self.strikes.lose(&queued.packet) == Struck::Lost {
            self.exit.lose(&queued.packet, 0, DropReason::Loss, self.now);
            return;
        }
        self.queue.enqueue(queued, &mut self.effects);
        self.settle();
        let serving = if self.busy { self.serving.queued.bytes } else { 0 };
        let peak = &mut self.exit.counters.backlog_peak_bytes;
        *peak = (self.queue.backlog().bytes + serving).max(*peak);
    }

    /// Serves what the queue lets go, if the server is free.
    #[inline(never)]
    fn begin_service(&mut self) {
        if !self.busy {
            self.serve(false);
        }
    }

    /// Serves what the queue lets go, after the packet in service if that is `through`. What takes
    /// no time to serve has been served at once: nothing else is decided before it at the same
    /// instant but what is further along the link, and that has been decided.
    #[expect(clippy::inline_always, reason = "see enqueue")]
    #[inline(always)]
    fn serve(&mut self, mut through: bool) {
        loop {
            if through {
                self.finish_service();
            }
            let (now, effects) = (self.now, &mut self.effects);
            self.busy = self.queue.dequeue_into(&mut self.serving, now, effects);
            self.settle();
            if !self.busy || self.server.begin(self.serving.queued.bytes, now) != Some(now) {
                return;
            }
            through = true;
        }
    }

    #[expect(clippy::inline_always, reason = "see enqueue")]
    #[inline(always)]
    fn finish_service(&mut self) {
        self.busy = false;
        let (served, now) = (&self.serving, self.now);
        let started = self.server.end(served.queued.bytes, now);
        self.exit.served(&served.queued);
        if self.strikes.possible() {
            self.impair(started);
            return;
        }
        let (packet, due) = (&served.queued.packet, self.line.draw_due(now));
        // Made in each branch, so that it need not be in memory.
        let departure = || Departure::from_service(served, started, now, due);
        if self.line.enter(packet, due, now) {
            self.exit.depart(packet, departure());
        } else {
            self.line.hold(packet, departure());
        }
    }

    /// Accounts for what the last call of the queue did besides.
    #[inline]
    fn settle(&mut self) {
        if !self.effects.is_empty() {
            self.account_effects();
        }
    }

    #[inline(never)]
    fn account_effects(&mut self) {
        let mut effects = core::mem::take(&mut self.effects);
        self.exit.duplicate(effects.take_duplicates());
        for dropped in effects.take_drops() {
            self.exit.lose(&dropped.packet, dropped.copy, dropped.reason, self.now);
        }
        self.effects = effects;
    }

    fn leave_line(&mut self) {
        self.line.leave(|packet, departure| self.exit.depart(packet, departure));
    }
}

/// The stages at which a decision can be due.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Line,
    Server,
    Queue,
    Nic,
    /// Any but the line where a trace is followed, see [`following`].
    Following,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;
    use crate::units::Rate;

    /// A link that holds a burst of 2 in each of its stages: nic, queue, delay line.
    fn filled() -> Link {
        let rate = |bps| Rate::from_bps(bps).expect("not zero");
        let config = LinkConfig {
            nic: Some(rate(16_000_000)),
            rate: rate(8_000_000),
            framing: 0,
            delay: Duration::from_millis(100),
            ..LinkConfig::default()
        };
        let mut link = Link::new(&config, 1, Instant::ZERO).expect("a valid configuration");
        for handle in 0..3 {
            link.arrive(Packet { segments: 2, ..Packet::on_path(handle, Instant::ZERO, 1000, 7) });
        }
        // They reach the queue at 0.5, 1.0 and 1.5 ms; the first is served at 1.5 ms.
        link.advance(Instant::from_nanos(1_500_000));
        link.arrive(Packet { segments: 2, ..Packet::on_path(3, link.now, 1000, 7) });
        link
    }

    fn unaccounted(link: &Link) -> u64 {
        let snapshot = link.snapshot();
        let known = snapshot.packets_out + snapshot.dropped.iter().sum::<u64>() + snapshot.queued;
        snapshot.packets_in - known
    }

    #[test]
    fn duplicates_are_announced_once_each_to_who_asks_for_them() {
        let mut link = filled();
        let announce = |link: &mut Link| {
            for handle in [7, 5, 7] {
                link.effects.duplicate(&Packet::on_path(handle, link.now, 1000, 7));
            }
            link.settle();
            core::iter::from_fn(|| link.poll_duplicate()).collect::<Vec<_>>()
        };
        assert_eq!(announce(&mut link), []);
        link.follow_copies();
        assert_eq!(announce(&mut link), [7, 5, 7]);
        assert_eq!(link.poll_duplicate(), None);
        assert_eq!(link.exit.counters.duplicated, 6);
    }

    #[test]
    fn each_stage_counts_what_it_holds() {
        let link = filled();
        let nic = link.nic.as_ref().map_or(0, Nic::segments);
        assert_eq!((nic, link.snapshot().backlog_packets, link.line.segments()), (2, 4, 2));
        assert_eq!((link.snapshot().queued, unaccounted(&link)), (8, 0));
    }

    #[test]
    fn a_packet_that_a_stage_forgets_unbalances_the_counters() {
        let forget: [fn(&mut Link) -> bool; 3] = [
            |link| link.nic.as_mut().and_then(|nic| nic.pass(link.now)).is_some(),
            |link| core::mem::take(&mut link.busy),
            |link| link.line.leave(|_, _| ()),
        ];
        for (stage, forget) in forget.into_iter().enumerate() {
            let mut link = filled();
            assert!(forget(&mut link), "stage {stage} holds one");
            assert_eq!(unaccounted(&link), 2, "stage {stage}");
        }
    }
}
