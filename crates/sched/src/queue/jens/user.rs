//! One user: three FIFOs behind a gate.

use super::JensStatistics;
use super::config::{AgeBase, JensConfig};
use super::pace::Pace;
use super::ramp::Ramp;
use super::record::{QueueSize, Record, Sojourn};
use super::recorder::Recorder;
use super::slab::{Fifo, Node, Slab};
use crate::output::{DropReason, Mark};
use crate::packet::Packet;
use crate::queue::{Backlog, Effects, Served};
use crate::random::Stream;
use crate::time::{Duration, Instant};

/// What all users share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: JensConfig,
    pub(super) slab: Slab,
    pub(super) held: Backlog,
    pub(super) random: Stream,
    pub(super) statistics: JensStatistics,
}

/// One user's queue.
#[derive(Debug)]
pub(super) struct User {
    /// Served in this order.
    fifos: [Fifo; 3],
    held: Backlog,
    /// `None` while paused.
    pace: Option<Pace>,
    /// Nothing is served before.
    gate: Instant,
    /// The line is taken until then by what has been served.
    pub(super) paid_until: Instant,
    /// The end of the virtual queue.
    virtual_gate: Instant,
    /// The line was busy without a break, so the next service starts at the gate, not now.
    crediting: bool,
    age_next: Instant,
    size_next: Instant,
    /// The rate that the last record of the queue's size told.
    told: Option<Pace>,
    pub(super) recorder: Option<Recorder>,
}

/// What a user has to offer.
#[derive(Debug)]
pub(super) enum Turn {
    /// A packet.
    Served,
    /// Nothing until then.
    Wait(Instant),
    Empty,
}

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Age,
    /// The queue was at its limit.
    Limit,
    /// The limit was lowered.
    Resized,
}

enum Heads {
    /// The head of this FIFO is visible.
    Visible(usize),
    /// The first will be visible then.
    Hidden(Instant),
    Empty,
}

impl User {
    pub(super) fn new(config: &JensConfig, pace: Option<Pace>, start: Instant) -> Self {
        let recorder = (config.sub_buffers > 0).then(|| Recorder::new(config.sub_buffers));
        Self {
            fifos: [Fifo::EMPTY; 3],
            held: Backlog::default(),
            pace,
            gate: Instant::ZERO,
            paid_until: Instant::ZERO,
            virtual_gate: Instant::ZERO,
            crediting: false,
            age_next: start + AGE_PERIOD,
            size_next: Instant::ZERO,
            told: None,
            recorder,
        }
    }

    /// Appends a packet to its FIFO.
    pub(super) fn append(&mut self, node: Node, shared: &mut Shared) {
        self.held.add(&node.queued);
        let band = shared.config.qos_mode.fifo(&node.queued.packet);
        self.fifos[band].push(node, &mut shared.slab);
    }

    /// Takes out every packet, in order of entry.
    pub(super) fn drain(&mut self, shared: &mut Shared) -> Vec<Node> {
        let mut all = Vec::new();
        for fifo in &mut self.fifos {
            all.extend(core::iter::from_fn(|| fifo.pop(&mut shared.slab)));
        }
        for node in &all {
            self.count_off(node, shared);
        }
        all.sort_by_key(|node| node.queued.entered);
        all
    }

    /// Puts every packet into the FIFO where it belongs now: another one of its flow may have been
    /// told apart from it before.
    pub(super) fn sort_anew(&mut self, shared: &mut Shared) {
        for node in self.drain(shared) {
            shared.held.add(&node.queued);
            self.append(Node::new(node.queued, node.latency), shared);
        }
    }

    /// Nothing is served before `at`.
    pub(super) fn wait_until(&mut self, at: Instant) {
        self.gate = self.gate.max(at);
        self.paid_until = self.paid_until.max(at);
    }

    /// Puts the packet that leaves at `now` into `served`, or says when to ask again.
    pub(super) fn turn(
        &mut self,
        served: &mut Served,
        now: Instant,
        shared: &mut Shared,
        effects: &mut Effects,
    ) -> Turn {
        self.check_age(now, shared, effects);
        let Some(pace) = self.pace else { return self.paused(now) };
        if now < self.gate {
            self.tell_idle_size(now);
            return Turn::Wait(self.gate.min(self.age_next));
        }
        match self.heads(now, &shared.slab) {
            Heads::Visible(band) => match self.fifos[band].pop(&mut shared.slab) {
                Some(node) => {
                    self.serve((served, &node), band, pace, now, shared);
                    Turn::Served
                }
                None => Turn::Empty,
            },
            Heads::Hidden(at) => {
                self.crediting = false;
                self.tell_idle_size(now);
                Turn::Wait(at)
            }
            Heads::Empty => {
                self.crediting = false;
                self.tell_idle_size(now);
                Turn::Empty
            }
        }
    }

    /// A pause is a handover without an end: what is queued goes on to age.
    fn paused(&mut self, now: Instant) -> Turn {
        self.tell_idle_size(now);
        if self.held == Backlog::default() { Turn::Empty } else { Turn::Wait(self.age_next) }
    }

    fn heads(&self, now: Instant, slab: &Slab) -> Heads {
        let mut first: Option<Instant> = None;
        for (band, fifo) in self.fifos.iter().enumerate() {
            let Some(arrival) = fifo.head(slab).map(Node::arrival) else { continue };
            if arrival <= now {
                return Heads::Visible(band);
            }
            first = Some(first.map_or(arrival, |first| first.min(arrival)));
        }
        first.map_or(Heads::Empty, Heads::Hidden)
    }

    fn serve(
        &mut self,
        (served, node): (&mut Served, &Node),
        band: usize,
        pace: Pace,
        now: Instant,
        shared: &mut Shared,
    ) {
        let (arrival, bytes) = (node.arrival(), node.queued.bytes);
        self.count_off(node, shared);
        let mut ideal = if self.crediting { self.gate.max(arrival) } else { now };
        let mut virtual_ideal = ideal;
        if shared.config.virtual_factor > 1 {
            virtual_ideal = ideal.max(self.virtual_gate);
            self.virtual_gate = virtual_ideal + pace.virtual_time(bytes);
        }
        self.gate = ideal + pace.time(bytes);
        self.paid_until = self.gate;
        self.crediting = true;
        if now >= self.size_next || self.told != self.pace {
            self.tell_size(ideal, now, false);
            // So that no two records have the same time. The module judges the delay by it too.
            ideal = ideal + Duration::from_nanos(1);
            virtual_ideal = virtual_ideal + Duration::from_nanos(1);
        }
        let mark = mark(&node.queued.packet, virtual_ideal.since(arrival), shared);
        self.record(|| {
            Record::Sojourn(Sojourn {
                mark: mark != Mark::None,
                sojourn: Sojourn::units(ideal.since(arrival)),
                ahead: Sojourn::units_ahead(virtual_ideal.since(ideal)),
                ..sojourn(node, band, ideal, now)
            })
        });
        served.set_untouched(&node.queued);
        (served.mark, served.latency) = (mark, node.latency);
    }

    /// Drops what is too old: one packet when any is older than 100 ms, and all that are older
    /// than 500 ms, every 200 ms.
    pub(super) fn check_age(&mut self, now: Instant, shared: &mut Shared, effects: &mut Effects) {
        if now < self.age_next {
            return;
        }
        let base = match shared.config.age_base {
            AgeBase::Now => now,
            AgeBase::Virtual => now.max(self.virtual_gate),
        };
        let old = |fifo: &Fifo, slab: &Slab, age: Duration| {
            fifo.head(slab).is_some_and(|head| head.arrival() < base - age)
        };
        if self.fifos.iter().any(|fifo| old(fifo, &shared.slab, OLD)) {
            let first = self.fifos.iter().position(|fifo| fifo.head(&shared.slab).is_some());
            self.drop_head(first.unwrap_or(0), Why::Age, now, shared, effects);
        }
        for band in 0..self.fifos.len() {
            while old(&self.fifos[band], &shared.slab, TOO_OLD) {
                self.drop_head(band, Why::Age, now, shared, effects);
            }
        }
        self.age_next = self.age_next + AGE_PERIOD;
        if self.age_next <= now {
            self.age_next = now + AGE_PERIOD;
        }
    }

    /// Drops the oldest packet of the last FIFO that holds any. False when none does.
    pub(super) fn drop_last(
        &mut self,
        why: Why,
        now: Instant,
        shared: &mut Shared,
        effects: &mut Effects,
    ) -> bool {
        let held = |fifo: &Fifo| fifo.head(&shared.slab).is_some();
        let Some(band) = self.fifos.iter().rposition(held) else { return false };
        self.drop_head(band, why, now, shared, effects);
        true
    }

    fn drop_head(
        &mut self,
        band: usize,
        why: Why,
        now: Instant,
        shared: &mut Shared,
        effects: &mut Effects,
    ) {
        let Some(node) = self.fifos[band].pop(&mut shared.slab) else { return };
        self.count_off(&node, shared);
        self.crediting = false;
        let segments = u64::from(node.queued.packet.segments);
        let reason = if why == Why::Age {
            shared.statistics.age_drops += segments;
            DropReason::Age
        } else {
            shared.statistics.limit_drops += segments;
            DropReason::Limit
        };
        self.record(|| {
            let arrival = node.arrival();
            let units = match why {
                Why::Resized => Sojourn::RESIZED,
                _ if arrival > now => Sojourn::EARLY,
                _ => Sojourn::units(now.since(arrival)),
            };
            Record::Sojourn(Sojourn {
                sojourn: units,
                dropped: true,
                ..sojourn(&node, band, now, now)
            })
        });
        effects.drop(&node.queued.packet, reason);
    }

    fn count_off(&mut self, node: &Node, shared: &mut Shared) {
        self.held.remove(&node.queued);
        shared.held.remove(&node.queued);
    }

    /// A new rate; the gate already computed stays. A pause ends credit, as a handover does. True
    /// when a pause ends, after which the queue has to be asked again.
    pub(super) fn set_pace(&mut self, pace: Option<Pace>) -> bool {
        let paused = core::mem::replace(&mut self.pace, pace).is_none();
        self.crediting &= pace.is_some();
        paused && pace.is_some()
    }

    /// Nothing is served for `duration` from `at` on.
    pub(super) fn hand_over(&mut self, at: Instant, duration: Duration) {
        self.gate = self.gate.max(at + duration);
        self.crediting = false;
    }

    /// The record of a handover, readable at once.
    pub(super) fn tell_handover(&mut self, at: Instant) {
        self.tell_size(at, at, true);
        if let Some(recorder) = &mut self.recorder {
            recorder.flush();
        }
    }

    fn tell_idle_size(&mut self, now: Instant) {
        if !self.crediting && now >= self.size_next {
            self.tell_size(now, now, false);
        }
    }

    fn tell_size(&mut self, at: Instant, now: Instant, handover: bool) {
        self.size_next = now + SIZE_PERIOD;
        self.told = self.pace;
        let (held, pace) = (self.held, self.pace);
        self.record(|| {
            Record::QueueSize(QueueSize {
                at,
                handover,
                packets: u16::try_from(held.packets).unwrap_or(u16::MAX),
                bytes: u32::try_from(held.bytes).unwrap_or(u32::MAX),
                virtual_bps: pace.map_or(0, Pace::virtual_bps),
                real_bps: pace.map_or(0, Pace::real_bps),
            })
        });
    }

    fn record(&mut self, record: impl FnOnce() -> Record) {
        if let Some(recorder) = &mut self.recorder {
            recorder.push(record());
        }
    }
}

fn mark(packet: &Packet, delay: Duration, shared: &mut Shared) -> Mark {
    let ramp = Ramp { free: shared.config.mark_free, full: shared.config.mark_full };
    if !ramp.marks(delay, &mut shared.random) {
        return Mark::None;
    }
    shared.statistics.marked += u64::from(packet.segments);
    if packet.ecn.is_capable() {
        return Mark::Ce;
    }
    shared.statistics.not_capable += u64::from(packet.segments);
    Mark::Decided
}

/// What a record says of every packet.
fn sojourn(node: &Node, band: usize, at: Instant, now: Instant) -> Sojourn {
    Sojourn {
        at,
        handle: node.queued.packet.handle,
        ecn: node.queued.packet.ecn,
        mark: false,
        dropped: false,
        band: u8::try_from(band).unwrap_or(2),
        sojourn: 0,
        ahead: 0,
        delay: Sojourn::units_up(now.since(node.queued.entered)),
        bytes: Sojourn::size(node.queued.bytes),
    }
}

const AGE_PERIOD: Duration = Duration::from_millis(200);
const OLD: Duration = Duration::from_millis(100);
const TOO_OLD: Duration = Duration::from_millis(500);
const SIZE_PERIOD: Duration = Duration::from_millis(500);
