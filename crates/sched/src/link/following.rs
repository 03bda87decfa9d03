//! A link that follows a trace.
//!
//! Steps are decisions at their own times, the last ones at their instant: a packet whose service
//! ends then still finds the values before, one that arrives then finds the new ones. But nothing
//! is done at a step for its own sake. Where a packet is in service, its end is computed with all
//! the steps that come; otherwise the values are looked up when a packet comes to where they
//! matter. Only disciplines that serve at a rate of their own are told of each step while they hold
//! packets.
//!
//! Opportunities are decisions too, while something waits for one; the others are wasted.

use super::{Link, Stage};
use crate::config::{Change, ConfigError, LinkConfig};
use crate::impair::Impair;
use crate::nic::Nic;
use crate::output::{Cause, Snapshot};
use crate::queue::{Discipline, Queue, Queued};
use crate::time::Instant;
use crate::trace::{Delivered, Follower, Passed, Position, Trace, TraceOptions};
use crate::units::Rate;

impl Link {
    /// Follows another trace from `at` on, or none any more, after every decision due up to then.
    ///
    /// With no trace, or with one that does not set them, values stay as the last steps left them;
    /// after single deliveries the link's `rate` is in force again. The packet in service stays in
    /// service with what is left of it. Nothing is lost or reordered.
    pub fn follow(&mut self, trace: Option<Trace>, at: Instant) -> Result<(), ConfigError> {
        self.follow_as(trace.map(|trace| (TraceOptions::default(), trace)), at)
    }

    /// The same with the parameters by which the trace was asked for, as reports show them; none
    /// where none is followed.
    pub fn follow_as(
        &mut self,
        trace: Option<(TraceOptions, Trace)>,
        at: Instant,
    ) -> Result<(), ConfigError> {
        let config = self.config.following(trace);
        config.validate()?;
        self.advance(at);
        self.meet_trace(false);
        let delivered = self.delivered();
        let left = self.follower.take().filter(|follower| follower.delivers());
        let left = match left {
            Some(follower) => follower.left,
            None => self.server.hand_over(self.now),
        };
        self.exit.counters.opportunities_used = delivered.used;
        self.exit.counters.opportunities_wasted = delivered.wasted;
        (self.config.trace, self.config.trace_options) = (config.trace, config.trace_options);
        self.config = self.config.begun();
        self.config.settle_limit();
        let behind = self.config.behind_queue();
        // The last packet before a queue that serves itself still has the link's own.
        let rate = if self.server.is_last() { self.config.rate } else { behind.rate };
        self.server.set_rate(rate, self.now);
        let follower = |trace| Box::new(Follower::new(trace, self.now));
        self.follower = self.config.trace.clone().map(follower);
        self.plain = self.nic.is_none() && self.follower.is_none();
        self.resume(left);
        self.strikes.set_loss(behind.loss);
        self.line.set_delay(&behind);
        self.queue.configure(&self.config, self.now, &mut self.effects);
        self.settle();
        self.serve_what_waits();
        self.next = self.next_decision();
        Ok(())
    }

    /// The packet in service goes on with so many bytes left.
    fn resume(&mut self, left: u64) {
        if !self.busy {
            return;
        }
        match &mut self.follower {
            Some(follower) if follower.delivers() => follower.left = left,
            _ => {
                self.server.resume(self.serving.queued.bytes, left, self.now);
                if self.server.is_instant() {
                    self.go_on();
                }
            }
        }
    }

    // `serve` is in one piece with its callers.
    #[inline(never)]
    fn go_on(&mut self) {
        if self.server.is_last() {
            self.retire_serialiser();
        } else {
            self.serve(true);
        }
    }

    /// Serves what waits, unless that is for opportunities.
    pub(super) fn serve_what_waits(&mut self) {
        if !self.delivers() {
            self.begin_service();
        }
    }

    /// The parameters in force at the latest time given: [`config`](Self::config) with what steps
    /// have set that nothing has depended on yet.
    pub fn in_force(&self) -> LinkConfig {
        let mut config = self.config.clone();
        if let Some(follower) = &self.follower {
            config.set_values(follower.values_to_pass(self.now));
        }
        config
    }

    /// The rate in force at the latest time given.
    #[inline]
    pub fn rate(&self) -> Rate {
        match &self.follower {
            None => self.config.rate,
            Some(follower) => follower.values_to_pass(self.now).rate.unwrap_or(self.config.rate),
        }
    }

    /// Before a change at `at`: everything up to then. Whether it changes anything; if it does not,
    /// or is refused, no step has been passed for it, so that it need not be in a log.
    pub(super) fn meet_change(
        &mut self,
        change: &Change,
        at: Instant,
    ) -> Result<bool, ConfigError> {
        if change.rate.is_some() && self.delivers() {
            let problem = "packets leave at the trace's opportunities, expected none with it";
            return Err(ConfigError::new("rate", problem));
        }
        self.advance(at);
        let in_force = self.in_force();
        in_force.try_changed(change)?;
        if !in_force.changes(change) {
            return Ok(false);
        }
        self.meet_trace(false);
        self.forget_plan();
        Ok(true)
    }

    /// Before an arrival (`with_packet`) or a change at this instant: all steps up to it.
    pub(super) fn meet_trace(&mut self, with_packet: bool) {
        let Some(follower) = &mut self.follower else { return };
        if with_packet {
            follower.begin_with_packet(self.now);
        }
        if follower.delivers() {
            if !self.busy && self.queue.backlog().packets == 0 {
                follower.waste_deliveries(self.now);
            }
            return;
        }
        self.pass_steps(true);
    }

    /// A packet comes to a link that has an access rate or follows a trace.
    #[inline(never)]
    pub(super) fn take_in(&mut self, queued: Queued) {
        self.meet_trace(true);
        if let Some(nic) = &mut self.nic {
            nic.accept(queued);
        } else {
            self.enqueue(queued);
            self.serve_what_waits();
        }
        self.next = self.next_decision();
    }

    /// What is decided next. Of several at one instant the one furthest along the link, the trace
    /// last.
    #[inline(never)]
    pub(super) fn next_following(&mut self) -> Option<(Instant, Stage)> {
        let line = self.line.next_due().map(|at| (at, Stage::Line));
        let trace = match &mut self.follower {
            Some(follower) if follower.delivers() => self.next_delivery(),
            Some(follower) => {
                if self.busy && !follower.planned {
                    self.server.plan(follower);
                    follower.planned = true;
                }
                let at = [
                    self.server.ready(),
                    self.queue_wake(),
                    self.nic.as_ref().and_then(Nic::ready),
                    self.step_to_tell(),
                ];
                at.into_iter().flatten().min()
            }
            None => None,
        };
        earlier(line, trace, Stage::Following)
    }

    /// The decision due at this instant where a trace is followed: those before the line in their
    /// order, each after the steps before this instant.
    #[inline(never)]
    pub(super) fn decide_following(&mut self) {
        if self.delivers() {
            return self.deliver();
        }
        self.pass_steps(false);
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= self.now);
        if due(self.server.ready()) {
            if !self.server.is_paid(self.now) {
                // It is a step at this instant that lets the packet go: to an unlimited rate.
                self.pass_steps(true);
            }
            self.forget_plan();
            self.go_on();
        } else if due(self.queue_wake()) {
            self.begin_service();
        } else if due(self.nic.as_ref().and_then(Nic::ready)) {
            self.pass_nic();
        } else {
            self.pass_steps(true);
        }
    }

    /// What a packet that is not on the line yet waits for.
    pub(super) fn trace_event(&self) -> Option<(Instant, Cause)> {
        if self.delivers() {
            return self.next_delivery().map(|at| (at, Cause::Trace));
        }
        let step = self.step_to_tell().map(|at| (at, Cause::Trace));
        match (self.queue_event(), step) {
            (Some(queue), Some(step)) if step.0 < queue.0 => Some(step),
            (queue, step) => queue.or(step),
        }
    }

    /// The earliest time at which a packet could leave that enters the line at `at` or later.
    pub(super) fn earliest(&self, at: Instant) -> Instant {
        let step = self.follower.as_ref().and_then(|follower| follower.next_delay());
        let earliest = self.line.earliest(at);
        // A step may set a shorter delay for that packet or, where it is lost, for the next.
        step.map_or(earliest, |step| earliest.min(step.max(at)))
    }

    /// The end of the service that is going on is to be found anew.
    pub(super) fn forget_plan(&mut self) {
        if let Some(follower) = &mut self.follower {
            follower.planned = false;
        }
    }

    /// Whether packets leave at single opportunities.
    pub(super) fn delivers(&self) -> bool {
        self.follower.as_ref().is_some_and(|follower| follower.delivers())
    }

    /// The next opportunity for what waits.
    fn next_delivery(&self) -> Option<Instant> {
        let waits = self.busy || self.queue.backlog().packets > 0;
        self.follower.as_ref().filter(|_| waits)?.next_delivery()
    }

    /// The next step that the queue is told of, because it serves at a rate of its own and holds
    /// packets.
    fn step_to_tell(&self) -> Option<Instant> {
        let tells = self.config.serves_itself() && self.queue.backlog().packets > 0;
        self.follower.as_ref().filter(|_| tells)?.next_step()
    }

    /// Passes steps up to this instant, those at it where it is `inclusive`.
    fn pass_steps(&mut self, inclusive: bool) {
        let now = self.now;
        if matches!(self.queue, Queue::Tbf(_)) {
            self.pass_each();
        }
        let passed = self.follower.as_mut().and_then(|follower| follower.pass(now, inclusive));
        if let Some(passed) = passed {
            self.apply(&passed, now);
        }
    }

    /// Passes steps before this instant one by one, so that a bucket of its own gains what each of
    /// them gives.
    fn pass_each(&mut self) {
        let now = self.now;
        let Some(follower) = &mut self.follower else { return };
        if let Some(far) = follower.far_before(now)
            && let Some(passed) = follower.pass(far, false)
        {
            self.apply(&passed, far);
        }
        while let Some(follower) = &mut self.follower
            && let Some(at) = follower.next_rate()
            && at < now
            && let Some(passed) = follower.pass(at, true)
        {
            self.apply(&passed, at);
        }
    }

    /// What steps up to `at` set, as a live change of it at each of their times.
    fn apply(&mut self, passed: &Passed, at: Instant) {
        self.config.set_values(passed.values);
        let itself = self.config.serves_itself();
        if itself {
            self.queue.configure(&self.config, at, &mut self.effects);
            self.settle();
        }
        if let Some(rate) = passed.values.rate
            && (!itself || self.server.is_last())
        {
            self.server.follow(passed.first, passed.carried, rate, at);
        }
        if self.config.impair == Impair::Own {
            self.strikes.set_loss(self.config.loss);
            self.line.set_delay(&self.config);
        }
    }

    /// Opportunities at this instant: packets pass as far as their bytes go. A packet of which some
    /// are left goes on at the next one; what nobody takes is wasted.
    fn deliver(&mut self) {
        let now = self.now;
        let brought = self.follower.as_mut().map_or(0, |follower| follower.take_delivery(now));
        let mut bytes = brought;
        while bytes > 0 && (self.busy || self.begin_delivery()) {
            let Some(follower) = &mut self.follower else { return };
            let passes = bytes.min(follower.left);
            bytes -= passes;
            follower.left -= passes;
            if follower.left > 0 {
                break;
            }
            self.finish_service();
            self.queue.served();
        }
        if let Some(follower) = &mut self.follower {
            follower.count_used(brought - bytes);
        }
    }

    /// Opportunities of the traces so far.
    pub(super) fn delivered(&self) -> Delivered {
        let Snapshot { opportunities_used, opportunities_wasted, .. } = self.exit.counters;
        let follower = self.follower.as_ref();
        let last = follower.map_or_else(Delivered::default, |f| f.delivered(self.now));
        Delivered {
            used: opportunities_used.saturating_add(last.used),
            wasted: opportunities_wasted.saturating_add(last.wasted),
        }
    }

    /// Where in its trace it is at the latest time given; `None` where it follows none.
    pub fn trace_position(&self) -> Option<Position> {
        self.follower.as_ref().map(|follower| follower.position(self.now))
    }

    /// The next packet begins to pass; false where none may.
    fn begin_delivery(&mut self) -> bool {
        let (now, effects) = (self.now, &mut self.effects);
        self.busy = self.queue.dequeue_into(&mut self.serving, now, effects);
        self.settle();
        if self.busy {
            let bytes = self.serving.queued.bytes;
            self.server.begin(bytes, now);
            if let Some(follower) = &mut self.follower {
                follower.left = bytes;
            }
        }
        self.busy
    }
}

/// The earlier of two decisions, the first where they are at one instant.
#[inline]
pub(super) fn earlier(
    first: Option<(Instant, Stage)>,
    at: Option<Instant>,
    stage: Stage,
) -> Option<(Instant, Stage)> {
    match at {
        Some(at) if first.is_none_or(|(earliest, _)| at < earliest) => Some((at, stage)),
        _ => first,
    }
}
