//! `jens`: strict priority, pacing, extra latency and a marking ramp, as the kernel modules
//! `sch_janz` and `sch_multijens` (L4S testbeds, 2022 to 2024).
//!
//! [`config`] holds the parameters, [`pace`] rates as whole nanoseconds per byte, [`record`] and
//! [`recorder`] what is told about every packet.

use crate::bucket::Saved;
use crate::config::{ConfigError, Limit, LinkConfig};
use crate::link::Link;
use crate::packet::Packet;
use crate::queue::{Backlog, Discipline, Effects, Moving, Queue, Queued, Served, Statistics};
use crate::random::{Component, Stream};
use crate::time::{Duration, Instant};
use crate::units::Rate;

pub mod config;
pub mod pace;
mod ramp;
pub mod record;
pub mod recorder;
mod slab;
mod statistics;
mod user;

pub use config::{AgeBase, Handover, JensConfig, QosMode, UserBy};
pub use pace::Pace;
pub use record::{QueueSize, Record, Sojourn};
pub use recorder::Recorder;
use slab::{Node, Slab};
pub use statistics::JensStatistics;
use user::{Shared, Turn, User, Why};

/// Up to 256 users, each with three FIFOs behind a gate that opens when the packet before has been
/// paid for at the rate. A packet leaves when it is dequeued: there is no serialiser behind.
///
/// # Contract
///
/// That of [`Discipline`], and:
///
/// * Packets within one FIFO of one user leave in order. A lower extra latency does not let a
///   packet overtake: only heads are looked at.
/// * A new rate holds from the next packet dequeued on; the gate in force stays. A pause closes
///   the gate until another rate is set; what is queued goes on to age.
/// * Nothing wraps: times beyond the range are its end, ages before the epoch do not count.
#[derive(Debug)]
pub struct Jens {
    users: Vec<User>,
    /// The user served last, or dropped from.
    last: usize,
    shared: Shared,
    /// In packets, over all users.
    limit: u64,
    rate: Rate,
    start: Instant,
    /// How many of the planned handovers have begun.
    begun: usize,
    /// When the last of all handovers that have begun ends.
    handed_over: Instant,
    /// The watchdog.
    armed: Option<Instant>,
}

impl Jens {
    /// An empty queue of `config`, which starts at `start` and draws from `seed`.
    pub fn new(config: &LinkConfig, seed: u64, start: Instant) -> Result<Self, ConfigError> {
        Self::made_at(config, seed, (start, start))
    }

    /// The same on a link that started at `start`, which handovers are planned from, made at `now`.
    pub(crate) fn made_at(
        config: &LinkConfig,
        seed: u64,
        (start, now): (Instant, Instant),
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let jens = &config.jens;
        let pace = Pace::new(config.rate, jens.virtual_factor);
        let mut created = Self {
            users: (0..jens.users).map(|_| User::new(jens, pace, now)).collect(),
            last: 0,
            shared: Shared {
                config: jens.clone(),
                slab: Slab::new(),
                held: Backlog::default(),
                random: Stream::new(seed, Component::Queue),
                statistics: JensStatistics::default(),
            },
            limit: limit(config),
            rate: config.rate,
            start,
            begun: jens.handovers.partition_point(|known| start + known.at < now),
            handed_over: Instant::ZERO,
            armed: None,
        };
        if let Some(duration) = jens.handover_now {
            created.hand_over(now, duration);
        }
        Ok(created)
    }

    /// Until when the line is taken by what has left. Handovers end with this queue.
    pub(crate) fn saved(&self, now: Instant) -> Saved {
        let taken = self.users.iter().map(|user| user.paid_until).max();
        Saved { tokens: 0, paid: 0, from: taken.map_or(now, |taken| taken.max(now)) }
    }

    /// What another serialiser had saved up is of no use here; what has left takes the line.
    pub(crate) fn take_over(&mut self, saved: Saved) {
        for user in &mut self.users {
            user.wait_until(saved.from);
        }
    }

    /// Nothing is served from `at` on for `duration`, of any user; a handover in force only grows
    /// longer. Packets go on to be accepted and to age.
    pub fn hand_over(&mut self, at: Instant, duration: Duration) {
        self.close_gates(at, duration);
        self.tell_handover(at);
    }

    /// Gives one user a rate of its own, from its next packet on and until the link's rate is
    /// changed. False when there is no such user or the rate is unlimited.
    pub fn set_user_rate(&mut self, user: usize, rate: Rate, now: Instant) -> bool {
        let Some(user) = self.users.get_mut(user) else { return false };
        if rate == Rate::UNLIMITED {
            return false;
        }
        if user.set_pace(Pace::new(rate, self.shared.config.virtual_factor)) {
            self.armed = Some(now);
        }
        true
    }

    /// One recorder per user; none when nothing is recorded.
    pub fn recorders(&mut self) -> impl Iterator<Item = &mut Recorder> {
        self.users.iter_mut().filter_map(|user| user.recorder.as_mut())
    }

    fn close_gates(&mut self, at: Instant, duration: Duration) {
        self.shared.statistics.handovers += 1;
        self.handed_over = self.handed_over.max(at + duration);
        for user in &mut self.users {
            user.hand_over(at, duration);
        }
    }

    fn tell_handover(&mut self, at: Instant) {
        for user in &mut self.users {
            user.tell_handover(at);
        }
    }

    /// Begins the planned handovers that are due. None needs to be waited for: nothing between its
    /// time and the next call could have told the difference.
    fn begin_planned(&mut self, now: Instant) {
        while let Some(&Handover { at, duration }) = self.shared.config.handovers.get(self.begun)
            && self.start + at <= now
        {
            self.begun += 1;
            self.hand_over(self.start + at, duration);
        }
    }

    /// Drops one packet of the next user that has any. False when nobody has.
    fn drop_one(&mut self, why: Why, now: Instant, effects: &mut Effects) -> bool {
        (0..self.users.len()).any(|_| {
            self.last = (self.last + 1) % self.users.len();
            self.users[self.last].drop_last(why, now, &mut self.shared, effects)
        })
    }

    fn set_rate(&mut self, rate: Rate, now: Instant) {
        if rate == self.rate {
            return;
        }
        self.rate = rate;
        self.set_paces(now);
    }

    fn set_paces(&mut self, now: Instant) {
        let pace = Pace::new(self.rate, self.shared.config.virtual_factor);
        for user in &mut self.users {
            if user.set_pace(pace) {
                self.armed = Some(now);
            }
        }
    }

    /// Takes over what a live change may name. A plan of handovers that is not the one known
    /// replaces it; what of it is past does not begin.
    fn set_parameters(&mut self, config: &JensConfig, now: Instant) {
        let shared = &mut self.shared.config;
        if shared.handovers != config.handovers {
            self.begun = config.handovers.partition_point(|known| self.start + known.at < now);
            shared.handovers.clone_from(&config.handovers);
        }
        shared.mark_free = config.mark_free;
        shared.mark_full = config.mark_full;
        shared.extra_latency = config.extra_latency;
        shared.age_base = config.age_base;
        if shared.qos_mode != config.qos_mode {
            shared.qos_mode = config.qos_mode;
            self.users.iter_mut().for_each(|user| user.sort_anew(&mut self.shared));
        }
        if self.shared.config.virtual_factor != config.virtual_factor {
            self.shared.config.virtual_factor = config.virtual_factor;
            self.set_paces(now);
        }
    }

    /// The number of a packet's user.
    fn user_of(&self, packet: &Packet) -> usize {
        let user = usize::try_from(packet.mark).unwrap_or(usize::MAX);
        if user < self.users.len() { user } else { 0 }
    }
}

impl Discipline for Jens {
    fn enqueue(&mut self, queued: Queued, effects: &mut Effects) {
        let now = queued.entered;
        self.begin_planned(now);
        let user = self.user_of(&queued.packet);
        self.users[user].check_age(now, &mut self.shared, effects);
        self.shared.held.add(&queued);
        if self.shared.held.packets > self.limit {
            self.shared.statistics.overlimits += 1;
            // The packet itself is not among those that can be dropped.
            while self.shared.held.packets > self.limit && self.drop_one(Why::Limit, now, effects) {
            }
        }
        let node = Node::new(queued, self.shared.config.extra_latency);
        self.users[user].append(node, &mut self.shared);
    }

    fn dequeue_into(&mut self, served: &mut Served, now: Instant, effects: &mut Effects) -> bool {
        self.begin_planned(now);
        let mut wake: Option<Instant> = None;
        for _ in 0..self.users.len() {
            self.last = (self.last + 1) % self.users.len();
            match self.users[self.last].turn(served, now, &mut self.shared, effects) {
                Turn::Served => return true,
                Turn::Wait(at) => wake = Some(wake.map_or(at, |wake| wake.min(at))),
                Turn::Empty => {}
            }
        }
        // A call that has nothing to wait for leaves the watchdog as it is.
        self.armed = wake.or(self.armed).filter(|at| *at > now);
        false
    }

    fn wake(&self) -> Option<Instant> {
        self.armed
    }

    fn backlog(&self) -> Backlog {
        self.shared.held
    }

    /// A handover is a delay; one that has ended is over.
    fn latest_due(&self) -> Option<Instant> {
        (self.shared.held.packets > 0 && self.handed_over > Instant::ZERO)
            .then_some(self.handed_over)
    }

    /// In the module's order: limit, rate, handover, marks, latency; then what no longer fits is
    /// dropped; then the handover is recorded.
    fn configure(&mut self, config: &LinkConfig, now: Instant, effects: &mut Effects) {
        self.begin_planned(now);
        let before = core::mem::replace(&mut self.limit, limit(config));
        self.set_rate(config.rate, now);
        if let Some(duration) = config.jens.handover_now {
            self.close_gates(now, duration);
        }
        self.set_parameters(&config.jens, now);
        if self.limit < before {
            self.shrink(now, effects);
        }
        if config.jens.handover_now.is_some() {
            self.tell_handover(now);
        }
    }

    fn statistics(&self) -> Statistics {
        Statistics::Jens(self.shared.statistics)
    }
}

impl Moving for Jens {
    /// What has come without an extra latency has none.
    fn adopt(&mut self, queued: Queued, _now: Instant) {
        self.shared.held.add(&queued);
        let user = self.user_of(&queued.packet);
        self.users[user].append(Node::new(queued, Duration::ZERO), &mut self.shared);
    }

    fn surrender(&mut self, packets: &mut Vec<Queued>) {
        for user in &mut self.users {
            packets.extend(user.drain(&mut self.shared).into_iter().map(|node| node.queued));
        }
    }

    fn shrink(&mut self, now: Instant, effects: &mut Effects) {
        while self.shared.held.packets > self.limit && self.drop_one(Why::Resized, now, effects) {}
    }
}

impl Link {
    /// The link's queue where that is a jens, for its recorders and for rates of single users.
    pub fn jens_mut(&mut self) -> Option<&mut Jens> {
        match &mut self.queue {
            Queue::Jens(jens) => Some(jens),
            _ => None,
        }
    }
}

/// Packets; `limit` in another unit is refused by [`LinkConfig::validate`].
fn limit(config: &LinkConfig) -> u64 {
    match config.limit {
        Some(Limit::Packets(packets)) => packets.into(),
        _ => JensConfig::DEFAULT_LIMIT.into(),
    }
}

#[cfg(test)]
mod tests;
