//! The event loop: senders, and the driver as the real one works, in virtual time.
//!
//! The driver sleeps until a packet, a change or the link's next deadline calls it, and looks some
//! time later. Then it hands over everything that has arrived, in stamp order, takes every decision
//! due, and releases at once what is past due.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use punctual_sched::{ConfigError, Ecn, Instant, Link, Output, Packet};

use crate::outcome::{Fate, Outcome, Sink};
use crate::random::{Stream, Streams};
use crate::scenario::Scenario;
use crate::source::Sender;

pub(crate) struct Driver<'a, F> {
    scenario: &'a Scenario,
    observe: F,
    link: Link,
    senders: Vec<Sender>,
    agenda: Agenda,
    /// What came in since the driver last looked, in stamp order.
    inbox: Vec<Input>,
    sleep: Sleep,
    lateness: Stream,
    sink: Sink,
}

/// What the driver reads when it looks.
#[derive(Clone, Copy, Debug)]
enum Input {
    Packet(Packet),
    /// Index into the scenario's changes, and when.
    Change(usize, Instant),
}

/// What happens at a time. Equal times are served in the order in which they were put down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A sender's own clock.
    Timer { source: usize },
    /// A sender learns of a fate.
    Feedback { source: usize, number: u64, lost: bool },
    /// A live change.
    Change { index: usize },
    /// The link's deadline, for the sleep of this number.
    Deadline { sleep: u64 },
    /// The driver looks.
    Wake,
}

/// The driver's sleep.
#[derive(Debug, Default)]
struct Sleep {
    /// Counts sleeps: a deadline of an earlier one is void.
    number: u64,
    /// Something has called; the wake-up is on its way.
    called: bool,
}

impl<'a, F: FnMut(&Fate)> Driver<'a, F> {
    pub(crate) fn new(scenario: &'a Scenario, observe: F) -> Result<Self, ConfigError> {
        let mut streams = Streams::new(scenario.seed);
        let lateness = streams.stream();
        let mut agenda = Agenda::default();
        for (source, spec) in scenario.sources.iter().enumerate() {
            agenda.put(Instant::ZERO + spec.start, Event::Timer { source });
        }
        for (index, (at, _)) in scenario.changes.iter().enumerate() {
            agenda.put(Instant::ZERO + *at, Event::Change { index });
        }
        let sender = |source: &_| Sender::new(Clone::clone(source), streams.stream());
        Ok(Self {
            link: Link::new(&scenario.link, scenario.seed, Instant::ZERO)?,
            senders: scenario.sources.iter().map(sender).collect(),
            sink: Sink::new(scenario.sources.len()),
            inbox: Vec::new(),
            sleep: Sleep::default(),
            scenario,
            observe,
            agenda,
            lateness,
        })
    }

    pub(crate) fn run(mut self) -> Result<Outcome, ConfigError> {
        while let Some((now, event)) = self.agenda.next() {
            match event {
                Event::Timer { source } => self.on_timer(source, now),
                Event::Feedback { source, number, lost } => {
                    let count = self.senders[source].on_feedback(number, lost);
                    self.send(source, count, now);
                }
                Event::Change { index } => self.arrive(Input::Change(index, now), now),
                Event::Deadline { sleep } if sleep == self.sleep.number => self.call(now),
                Event::Deadline { .. } => {}
                Event::Wake => self.look(now)?,
            }
        }
        let sent = self.senders.iter().map(|sender| sender.sent).collect();
        Ok(self.sink.finish(self.scenario, sent, self.link.snapshot()))
    }

    fn on_timer(&mut self, source: usize, now: Instant) {
        let (count, next) = self.senders[source].on_timer(now);
        self.send(source, count, now);
        if let Some(next) = next.filter(|next| *next < self.end()) {
            self.agenda.put(next, Event::Timer { source });
        }
    }

    fn send(&mut self, source: usize, count: u64, now: Instant) {
        if now >= self.end() {
            return;
        }
        let (first, len) = (self.senders[source].sent, self.senders[source].source.len);
        self.senders[source].send(count);
        for number in first..first + count {
            let packet = Packet {
                handle: handle(source, number),
                arrival: now,
                len,
                segments: 1,
                flow: u32::try_from(source).unwrap_or(u32::MAX),
                mark: 0,
                dscp: 0,
                ecn: Ecn::NotEct,
            };
            self.arrive(Input::Packet(packet), now);
        }
    }

    fn arrive(&mut self, input: Input, now: Instant) {
        self.inbox.push(input);
        self.call(now);
    }

    /// Something happens at `now` for which the driver wakes up, unless it is on its way already.
    fn call(&mut self, now: Instant) {
        if !self.sleep.called {
            self.sleep.called = true;
            let late = self.scenario.wakes.draw(&mut self.lateness);
            self.agenda.put(now + late, Event::Wake);
        }
    }

    /// The driver is awake at `now`: read, decide, release, sleep again.
    fn look(&mut self, now: Instant) -> Result<(), ConfigError> {
        self.sink.wakes += 1;
        for input in std::mem::take(&mut self.inbox) {
            match input {
                Input::Packet(packet) => self.link.arrive(packet),
                Input::Change(index, at) => {
                    self.link.change(&self.scenario.changes[index].1, at)?;
                }
            }
        }
        self.link.advance(now);
        while let Some(output) = self.link.poll() {
            self.settle(output, now);
        }
        self.sleep = Sleep { number: self.sleep.number + 1, called: false };
        if let Some(deadline) = self.link.next_event() {
            let sleep = self.sleep.number;
            self.agenda.put(deadline.at.max(now), Event::Deadline { sleep });
        }
        Ok(())
    }

    /// One packet's end: a departure is released at its due time, or now if that is past.
    fn settle(&mut self, output: Output, now: Instant) {
        let (packet, known, lost) = match output {
            Output::Depart { packet, due, .. } => (packet, due.max(now), false),
            Output::Drop { packet, .. } => (packet, now, true),
        };
        let (source, number) = parts(packet.handle);
        let fate = Fate { output, source, number, known };
        (self.observe)(&fate);
        self.sink.take(&fate);
        if let Some(back) = self.senders[source].feedback_delay() {
            self.agenda.put(known + back, Event::Feedback { source, number, lost });
        }
    }

    fn end(&self) -> Instant {
        Instant::ZERO + self.scenario.duration
    }
}

/// A packet's name: its source's index above the number of the packet, 2^40 of them.
fn handle(source: usize, number: u64) -> u64 {
    (source as u64) << 40 | number
}

fn parts(handle: u64) -> (usize, u64) {
    let source = usize::try_from(handle >> 40).expect("an index made from a usize");
    (source, handle & ((1 << 40) - 1))
}

/// Events by time.
#[derive(Debug, Default)]
struct Agenda {
    heap: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    count: u64,
}

impl Agenda {
    fn put(&mut self, at: Instant, event: Event) {
        self.heap.push(Reverse((at, self.count, event)));
        self.count += 1;
    }

    fn next(&mut self) -> Option<(Instant, Event)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_instant_come_in_the_order_in_which_they_were_put_down() {
        let mut agenda = Agenda::default();
        let at = Instant::from_nanos;
        agenda.put(at(2), Event::Wake);
        agenda.put(at(1), Event::Wake);
        agenda.put(at(1), Event::Timer { source: 0 });
        let order: Vec<_> = core::iter::from_fn(|| agenda.next()).collect();
        let expected =
            [(at(1), Event::Wake), (at(1), Event::Timer { source: 0 }), (at(2), Event::Wake)];
        assert_eq!(order, expected);
    }

    #[test]
    fn names_give_back_source_and_number() {
        assert_eq!(parts(handle(1_000, (1 << 40) - 1)), (1_000, (1 << 40) - 1));
    }
}
