//! One direction of a lab, driven on real packets by a thread, with all that its account is told.

use std::net::{Ipv4Addr, UdpSocket};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use punctual_linux::clock::monotonic;
use punctual_linux::control::Ignored;
use punctual_linux::driver::{
    Account, Arrived, Driver, Lane, LaneCounts, Precision, Released, Remote, Source, Stop, Stopped,
    remote,
};
use punctual_linux::lab::links::GATE_IN;
use punctual_linux::lab::{Lab, LabConfig};
use punctual_linux::netfilter::nfqueue::{Queue, QueueConfig};
use punctual_linux::netfilter::nftables::{
    Family, Hook, HookConfig, HookRule, InstalledHooks, Packets,
};
use punctual_sched::trace::Trace;
use punctual_sched::{Change, DropReason, Instant, Link, LinkConfig, Output, Snapshot, Stages};

/// Up, from inside to outside.
pub(crate) struct Driven {
    _lab: Lab,
    pub(crate) remote: Remote,
    pub(crate) sender: UdpSocket,
    pub(crate) receiver: UdpSocket,
    stop: Stop,
    thread: Option<JoinHandle<Stopped<Ledger>>>,
    _hooks: InstalledHooks,
}

/// What was left.
pub(crate) struct Left {
    pub(crate) ledger: Ledger,
    pub(crate) counts: LaneCounts,
    pub(crate) snapshot: Snapshot,
    pub(crate) stopped: Stopped<()>,
}

impl Driven {
    pub(crate) fn start(link: &str) -> Self {
        Self::start_with(link, Precision::Balanced, |_| ())
    }

    /// The same with a lane that is prepared before it is driven.
    pub(crate) fn start_with(
        link: &str,
        precision: Precision,
        prepare: impl FnOnce(&mut Lane<Ledger>),
    ) -> Self {
        let lab = Lab::build(&LabConfig::default()).unwrap();
        let (queue, hooks) = lab.gate().within(|| (open(), install())).unwrap();
        let start = monotonic();
        let link = Link::new(&LinkConfig::parse(link, "up").unwrap(), 1, start).unwrap();
        let mut lane = Lane::new(queue, link, Ledger::default(), 1500, start);
        let stop = Stop::new().unwrap();
        let (remote, requests) = remote(&stop);
        lane.listen(requests);
        prepare(&mut lane);
        let driver = Driver::new(vec![lane], precision, stop.clone());
        let thread = Some(thread::spawn(|| driver.run().unwrap()));
        let peer = lab.addresses().peer4;
        let any = (Ipv4Addr::UNSPECIFIED, 0);
        let receiver = lab.outside().within(|| UdpSocket::bind((peer, 9)).unwrap()).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let sender = lab.inside().within(|| UdpSocket::bind(any).unwrap()).unwrap();
        sender.connect((peer, 9)).unwrap();
        Self { _lab: lab, remote, sender, receiver, stop, thread, _hooks: hooks }
    }

    /// Sends datagrams that are packets of `length` bytes.
    pub(crate) fn send(&self, count: usize, length: usize) {
        (0..count).for_each(|_| {
            self.sender.send(&vec![0x5a; length - 28]).unwrap();
        });
    }

    /// Waits for one datagram to arrive.
    pub(crate) fn receive(&self) {
        self.receiver.recv(&mut [0; 2048]).unwrap();
    }

    /// Ends at once.
    pub(crate) fn end(mut self) -> Left {
        self.stop.now();
        self.left()
    }

    /// Ends once nothing is held any more.
    pub(crate) fn drain(mut self) -> Left {
        self.stop.drain();
        self.left()
    }

    fn left(&mut self) -> Left {
        let stopped = self.thread.take().unwrap().join().unwrap();
        let Stopped {
            mut lanes,
            wakes,
            policy,
            idle_held,
            tight_timers,
            style,
            margin,
            cpu,
            run_queue_wait,
            ran,
        } = stopped;
        let lane = lanes.remove(0);
        Left {
            counts: lane.counts(),
            snapshot: lane.link().snapshot(),
            ledger: lane.into_account(),
            stopped: Stopped {
                lanes: Vec::new(),
                wakes,
                policy,
                idle_held,
                tight_timers,
                style,
                margin,
                cpu,
                run_queue_wait,
                ran,
            },
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        // A test that has failed leaves no driver behind.
        self.stop.now();
    }
}

/// All that happened, in order.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) events: Vec<Event>,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Arrived(Instant),
    Ignored(Ignored),
    Changed { at: Instant, asked: Option<Instant>, change: Change, source: Source },
    Followed { at: Instant, asked: Instant, trace: Option<Trace> },
    Released { arrival: Instant, due: Instant, stages: Stages },
    Dropped(DropReason),
}

impl Ledger {
    /// Event times, times of asking, and what changed.
    pub(crate) fn changes(&self) -> Vec<(Instant, Option<Instant>, Change, Source)> {
        let changes = self.events.iter().filter_map(|event| match event {
            Event::Changed { at, asked, change, source } => {
                Some((*at, *asked, change.clone(), *source))
            }
            _ => None,
        });
        changes.collect()
    }

    /// What of the control block was not done.
    pub(crate) fn ignored(&self) -> Vec<&Ignored> {
        let ignored = self.events.iter().filter_map(|event| match event {
            Event::Ignored(ignored) => Some(ignored),
            _ => None,
        });
        ignored.collect()
    }

    /// How many packets arrived, left and were dropped.
    pub(crate) fn fates(&self) -> [u64; 3] {
        let mut counts = [0; 3];
        for event in &self.events {
            match event {
                Event::Arrived(_) => counts[0] += 1,
                Event::Released { .. } => counts[1] += 1,
                Event::Dropped(_) => counts[2] += 1,
                Event::Ignored(_) | Event::Changed { .. } | Event::Followed { .. } => {}
            }
        }
        counts
    }

    /// Arrival, due time and stages of each packet that left.
    pub(crate) fn departures(&self) -> Vec<(Instant, Instant, Stages)> {
        let departures = self.events.iter().filter_map(|event| match event {
            Event::Released { arrival, due, stages } => Some((*arrival, *due, *stages)),
            _ => None,
        });
        departures.collect()
    }
}

impl Account for Ledger {
    fn arrived(&mut self, arrived: &Arrived) {
        self.events.push(Event::Arrived(arrived.packet.arrival));
    }

    fn dropped(&mut self, output: &Output) {
        let Output::Drop { reason, .. } = output else { panic!("{output:?}") };
        self.events.push(Event::Dropped(*reason));
    }

    fn released(&mut self, released: &Released<'_>) {
        let Output::Depart { packet, due, stages, .. } = released.output else { panic!() };
        assert!(*due <= released.called);
        let event = Event::Released { arrival: packet.arrival, due: *due, stages: *stages };
        self.events.push(event);
    }

    fn ignored(&mut self, _: Instant, ignored: &Ignored) {
        self.events.push(Event::Ignored(ignored.clone()));
    }

    fn changed(&mut self, at: Instant, asked: Option<Instant>, change: &Change, source: Source) {
        self.events.push(Event::Changed { at, asked, change: change.clone(), source });
    }

    fn followed(&mut self, at: Instant, asked: Instant, link: &LinkConfig) {
        self.events.push(Event::Followed { at, asked, trace: link.trace.clone() });
    }
}

fn open() -> Queue {
    let config = QueueConfig {
        number: QUEUE,
        copy_range: 128,
        max_len: 10_000,
        receive_buffer: 4 << 20,
        gso: false,
        fail_open: false,
    };
    Queue::open(&config).unwrap()
}

fn install() -> InstalledHooks {
    let rule = HookRule {
        family: Family::Ip4,
        device: GATE_IN.to_owned(),
        packets: Packets::All,
        queue: QUEUE,
        stamp_arrival: true,
        bypass: false,
    };
    let config = HookConfig {
        table: "punctual-driven".to_owned(),
        hook: Hook::Forward,
        priority: 0,
        rules: vec![rule],
        ce: false,
    };
    InstalledHooks::install(&config).unwrap()
}

const QUEUE: u16 = 7;
