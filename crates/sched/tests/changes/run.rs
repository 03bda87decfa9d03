//! A link in virtual time, told in microseconds.

use punctual_sched::packet::priority_of;
use punctual_sched::{
    Change, DropReason, Duration, Ecn, Instant, Link, LinkConfig, Mark, Output, Packet,
};

/// A link and what came out of it.
pub(crate) struct Run {
    pub(crate) link: Link,
    pub(crate) outputs: Vec<Output>,
    handles: u64,
}

impl Run {
    pub(crate) fn new(words: &str) -> Self {
        let config = LinkConfig::parse(words, "link").expect("valid");
        let link = Link::new(&config, 1, Instant::ZERO).expect("valid");
        Self { link, outputs: Vec::new(), handles: 0 }
    }

    /// `count` packets of `len` bytes of flow 7 at `us`.
    pub(crate) fn send(&mut self, us: u64, count: u64, len: u32) -> &mut Self {
        (0..count).for_each(|_| self.arrive(us, |packet| Packet { len, ..packet }));
        self
    }

    /// A packet of 1000 bytes, or what is made of it.
    pub(crate) fn arrive(&mut self, us: u64, made: impl FnOnce(Packet) -> Packet) {
        let packet = made(Packet::on_path(self.handles, at(us), 1_000, 7));
        self.handles += 1;
        self.link.arrive(Packet { priority: priority_of(packet.dscp), ..packet });
        self.drain();
    }

    pub(crate) fn change(&mut self, us: u64, words: &str) -> &mut Self {
        assert!(self.try_change(us, words).expect(words), "{words} is no change");
        self
    }

    pub(crate) fn try_change(&mut self, us: u64, words: &str) -> Result<bool, String> {
        let entries = words.split_whitespace().map(|word| word.split_once('=').expect("a pair"));
        let change = Change::parse(self.link.config(), entries).map_err(|e| e.to_string())?;
        let changed = self.link.change(&change, at(us)).map_err(|e| e.to_string());
        self.drain();
        changed
    }

    /// Until nothing is to come.
    pub(crate) fn end(&mut self) -> &mut Self {
        while let Some(deadline) = self.link.next_event() {
            self.link.advance(deadline.at);
            self.drain();
        }
        self
    }

    pub(crate) fn until(&mut self, us: u64) -> &mut Self {
        self.link.advance(at(us));
        self.drain();
        self
    }

    /// Handles and times of departure in microseconds, rounded down, in order.
    pub(crate) fn left(&self) -> Vec<(u64, u64)> {
        self.departures().map(|(packet, due, ..)| (packet.handle, due.as_nanos() / 1_000)).collect()
    }

    /// Times of departure in microseconds.
    pub(crate) fn dues(&self) -> Vec<u64> {
        self.left().into_iter().map(|(_, due)| due).collect()
    }

    pub(crate) fn handles(&self) -> Vec<u64> {
        self.left().into_iter().map(|(handle, _)| handle).collect()
    }

    pub(crate) fn marks(&self) -> Vec<(u64, Mark)> {
        self.departures().map(|(packet, _, mark, _)| (packet.handle, mark)).collect()
    }

    pub(crate) fn departures(&self) -> impl Iterator<Item = (Packet, Instant, Mark, Duration)> {
        self.outputs.iter().filter_map(|output| match *output {
            Output::Depart { packet, due, mark, stages, .. } => {
                Some((packet, due, mark, stages.queue))
            }
            Output::Drop { .. } => None,
        })
    }

    pub(crate) fn drops(&self) -> Vec<(u64, DropReason)> {
        let drops = self.outputs.iter().filter_map(|output| match *output {
            Output::Drop { packet, reason, .. } => Some((packet.handle, reason)),
            Output::Depart { .. } => None,
        });
        drops.collect()
    }

    fn drain(&mut self) {
        self.outputs.extend(core::iter::from_fn(|| self.link.poll()));
    }
}

pub(crate) fn at(us: u64) -> Instant {
    Instant::from_nanos(us * 1_000)
}

/// The same packet with an ECN field.
pub(crate) fn with(ecn: Ecn) -> impl FnOnce(Packet) -> Packet {
    move |packet| Packet { ecn, ..packet }
}
