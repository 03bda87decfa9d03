//! The event loop: senders, and the driver as the real one works, in virtual time.
//!
//! The driver sleeps until a packet, a change or the link's next deadline calls it, and looks some
//! time later. Then it hands over everything that has arrived, in stamp order, takes every decision
//! due, and releases at once what is past due.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use punctual_sched::{ConfigError, Instant, Link, Mark, Output, Packet};

use crate::outcome::{Fate, Outcome, Sink};
use crate::random::{Stream, Streams};
use crate::scenario::Scenario;
use crate::source::{Known, Sender};

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

/// What happens outside of the driver. Equal times are served in the order in which they were put
/// down, all of them before the driver looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A sender's own clock.
    Timer { source: usize },
    /// A sender learns of a fate.
    Feedback { source: usize, number: u64, known: Known },
    /// A live change.
    Change { index: usize },
}

/// The driver's sleep.
#[derive(Debug, Default)]
struct Sleep {
    /// The link's deadline.
    until: Option<Instant>,
    /// Something has called; the driver looks then.
    looks: Option<Instant>,
}

impl Sleep {
    /// When something is to be done for the driver.
    fn next(&self) -> Option<Instant> {
        self.looks.or(self.until)
    }
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
        loop {
            match (self.sleep.next(), self.agenda.peek()) {
                (Some(now), event) if event.is_none_or(|at| now < at) => self.on_driver(now)?,
                (_, Some(_)) => self.on_event(),
                (_, None) => break,
            }
        }
        let sent = self.senders.iter().map(|sender| sender.sent).collect();
        Ok(self.sink.finish(self.scenario, sent, &self.link.snapshot()))
    }

    fn on_driver(&mut self, now: Instant) -> Result<(), ConfigError> {
        if self.sleep.looks.is_some() {
            return self.look(now);
        }
        self.call(now);
        Ok(())
    }

    fn on_event(&mut self) {
        match self.agenda.next() {
            Some((now, Event::Timer { source })) => self.on_timer(source, now),
            Some((now, Event::Feedback { source, number, known })) => {
                let count = self.senders[source].on_feedback(number, known);
                self.send(source, count, now);
            }
            Some((now, Event::Change { index })) => self.arrive(Input::Change(index, now), now),
            None => {}
        }
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
            let flow = u32::try_from(source).unwrap_or(u32::MAX);
            let packet = Packet::on_path(handle(source, number), now, len, flow);
            let packet = Packet { ecn: self.senders[source].source.ecn, ..packet };
            self.arrive(Input::Packet(packet), now);
        }
    }

    fn arrive(&mut self, input: Input, now: Instant) {
        self.inbox.push(input);
        self.call(now);
    }

    /// Something happens at `now` for which the driver wakes up, unless it is on its way already.
    fn call(&mut self, now: Instant) {
        if self.sleep.looks.is_none() {
            self.sleep.looks = Some(now + self.scenario.wakes.draw(&mut self.lateness));
        }
    }

    /// The driver is awake at `now`: read, decide, release, sleep again.
    fn look(&mut self, now: Instant) -> Result<(), ConfigError> {
        self.sink.wakes += 1;
        for input in self.inbox.drain(..) {
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
        let until = self.link.next_event().map(|deadline| deadline.at.max(now));
        self.sleep = Sleep { until, looks: None };
        Ok(())
    }

    /// One packet's end: a departure is released at its due time, or now if that is past.
    fn settle(&mut self, output: Output, now: Instant) {
        let (packet, copy, known, what) = match output {
            Output::Depart { packet, copy, due, mark: Mark::Ce, .. } => {
                (packet, copy, due.max(now), Known::Marked)
            }
            Output::Depart { packet, copy, due, .. } => {
                (packet, copy, due.max(now), Known::Arrived)
            }
            Output::Drop { packet, copy, .. } => (packet, copy, now, Known::Lost),
        };
        let (source, number) = parts(packet.handle);
        let fate = Fate { output, source, number, known };
        (self.observe)(&fate);
        self.sink.take(&fate);
        // A sender hears of each of its packets once: duplicates tell it nothing.
        if let Some(back) = self.senders[source].feedback_delay().filter(|_| copy == 0) {
            self.agenda.put(known + back, Event::Feedback { source, number, known: what });
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

    fn peek(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
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
        agenda.put(at(2), Event::Timer { source: 0 });
        agenda.put(at(1), Event::Timer { source: 9 });
        agenda.put(at(1), Event::Timer { source: 3 });
        let order: Vec<_> = core::iter::from_fn(|| agenda.next()).collect();
        let expected =
            [(1, 9), (1, 3), (2, 0)].map(|(nanos, source)| (at(nanos), Event::Timer { source }));
        assert_eq!(order, expected);
    }

    #[test]
    fn names_give_back_source_and_number() {
        assert_eq!(parts(handle(1_000, (1 << 40) - 1)), (1_000, (1 << 40) - 1));
    }
}
