//! Links and traffic that the test of allocations, the benches and the instruction counts share.
//! A discipline or an impairment is one line of a table here.
#![allow(dead_code, reason = "each of them uses its part of it")]

use punctual_sched::queue::{Discipline as _, Effects, Queue, Queued, Served};
use punctual_sched::{Ecn, Instant, Link, LinkConfig, Output, Packet, Rate};

/// A queue discipline as the harnesses configure it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Discipline {
    /// Its word.
    pub(crate) name: &'static str,
    /// Parameters with which it decides as people would have it, beside `rate` and `queue`.
    pub(crate) words: &'static str,
    /// Parameters with which it holds millions of packets of one flow for minutes and gives up
    /// none.
    pub(crate) roomy: &'static str,
}

impl Discipline {
    /// The words of a link with this discipline.
    pub(crate) fn link(&self, rate: &str, words: &str) -> String {
        format!("rate={rate} queue={} {words}", self.name)
    }
}

const fn discipline(name: &'static str, words: &'static str, roomy: &'static str) -> Discipline {
    Discipline { name, words, roomy }
}

/// Every discipline.
pub(crate) const DISCIPLINES: &[Discipline] = &[
    discipline("fifo", "", "limit=4000000p"),
    discipline(
        "fq",
        "",
        "limit=4000000p fq.flow_limit=4000000p fq.horizon=3600s fq.orphan_mask=0xffffffff",
    ),
    discipline("codel", "codel.ecn=on", "limit=4000000p codel.target=1000s codel.interval=2000s"),
    discipline(
        "fq_codel",
        "",
        "limit=4000000p fq_codel.target=1000s fq_codel.interval=2000s fq_codel.memory_limit=2gb",
    ),
    discipline(
        "dualpi2",
        "",
        "limit=4000000p dualpi2.target=4s dualpi2.tupdate=4s dualpi2.step_thresh=4s dualpi2.memlimit=4000mb",
    ),
    discipline("jens", "", "limit=4000000p jens.markfree=4s jens.markfull=4100ms"),
    discipline("tbf", "burst=20kb", "limit=4000mb burst=20kb"),
];

/// Every stage beside the queue: a name and its parameters.
pub(crate) const STAGES: &[(&str, &str)] = &[
    ("wire", ""),
    ("nic", "rate=1gbit nic=2gbit"),
    ("burst", "rate=1gbit burst=100kb peakrate=2gbit"),
    ("loss", "rate=1gbit loss=1%"),
    ("loss-before", "rate=1gbit loss=1% loss.at=before"),
    ("gemodel", "rate=1gbit loss=gemodel,1%,10%,70%,0.1%"),
    ("duplicate", "rate=1gbit duplicate=1%"),
    ("corrupt", "rate=1gbit corrupt=1%"),
    ("delay", "rate=1gbit delay=5ms"),
    ("jitter", "rate=1gbit delay=5ms jitter=2ms,25% distribution=normal"),
    ("reorder", "rate=1gbit delay=5ms reorder=10%,25%"),
    ("overtake", "rate=1gbit delay=5ms jitter=2ms reorder=jitter"),
    ("slot", "rate=1gbit delay=5ms slot=1ms,2ms"),
    ("netem", "rate=1gbit delay=5ms jitter=2ms loss=1% duplicate=1% impair=netem"),
];

/// Packets that follow each other as a rate carries them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    /// How many flows there are. Each packet is of one of them at random.
    pub(crate) flows: u32,
    /// The rate for which the traffic is made.
    pub(crate) rate: Rate,
    /// How much of the rate it asks for, in percent.
    pub(crate) load: u64,
    /// Lengths, ECN fields and priorities of all kinds, else full frames of one kind.
    pub(crate) mixed: bool,
    /// The rate at which each sender asks its flow to be paced.
    pub(crate) pacing: Rate,
    /// When the next packet arrives.
    pub(crate) now: u64,
    /// Packets so far.
    pub(crate) number: u64,
}

impl Traffic {
    /// Full frames of `flows` at all of `rate`, from 0 on.
    pub(crate) fn full(flows: u32, rate: Rate) -> Self {
        let pacing = Rate::UNLIMITED;
        Self { flows, rate, load: 100, mixed: false, pacing, now: 0, number: 0 }
    }

    /// The next packet, after the time that it takes at the rate.
    #[inline]
    pub(crate) fn next(&mut self) -> Packet {
        let packet = self.packet();
        let bits = u64::from(packet.len + FRAMING) * 8;
        self.now += match self.rate.finite_bps() {
            Some(rate) => bits * 1_000_000_000 / rate * 100 / self.load,
            None => 1_000,
        };
        Packet { arrival: Instant::from_nanos(self.now), ..packet }
    }

    /// The next packet; no time passes.
    #[inline]
    pub(crate) fn packet(&mut self) -> Packet {
        let random = scramble(self.number);
        // Which of the flows, by the high bits of a product: uniform, and no division.
        let index = ((random >> 32) * u64::from(self.flows)) >> 32;
        let flow = u32::try_from(scramble(index) >> 32).expect("32 bits");
        let mut packet = Packet::on_path(self.number, Instant::from_nanos(self.now), FULL, flow);
        packet.pacing_rate = self.pacing;
        // Only of its own sender does a flow have a rate.
        packet.socket = self.pacing != Rate::UNLIMITED;
        if self.mixed {
            packet.len = 64 + u32::try_from(random % 1437).expect("small");
            packet.ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ect0][flow as usize % 4];
            packet.dscp = u8::try_from(flow >> 8 & 63).expect("6 bits");
            packet.priority = u8::try_from(flow >> 16 & 15).expect("4 bits");
        }
        self.number += 1;
        packet
    }
}

/// A link under traffic, driven as the driver does.
#[derive(Debug)]
pub(crate) struct Rig {
    /// The link.
    pub(crate) link: Link,
    /// What arrives at it.
    pub(crate) traffic: Traffic,
    batch: Vec<Packet>,
}

impl Rig {
    /// A link of these parameters at rest.
    pub(crate) fn new(words: &str, traffic: Traffic) -> Self {
        let config = LinkConfig::parse(words, "link").expect("the table's words are parameters");
        let link = Link::new(&config, 1, Instant::ZERO).expect("they are valid together");
        Self { link, traffic, batch: Vec::with_capacity(BATCH) }
    }

    /// `packets` arrive while no time passes.
    pub(crate) fn fill(&mut self, packets: u64) {
        for _ in 0..packets {
            let packet = self.traffic.packet();
            self.link.arrive(packet);
        }
    }

    /// The next packet arrives; `take` gets what comes out.
    #[inline]
    pub(crate) fn step(&mut self, take: impl FnMut(&Output)) {
        let packet = self.traffic.next();
        self.pass(packet, take);
    }

    /// `packet` arrives. As the driver does for each packet that it reads and releases.
    #[inline]
    pub(crate) fn pass(&mut self, packet: Packet, mut take: impl FnMut(&Output)) {
        self.link.arrive(packet);
        self.release(packet.arrival, &mut take);
    }

    /// [`BATCH`] packets arrive at once, after their time.
    #[inline]
    pub(crate) fn step_batch(&mut self, mut take: impl FnMut(&Output)) {
        self.batch.clear();
        for _ in 0..BATCH {
            self.batch.push(self.traffic.next());
        }
        self.link.arrive_batch(&self.batch);
        self.release(Instant::from_nanos(self.traffic.now), &mut take);
    }

    #[inline]
    fn release(&mut self, now: Instant, take: &mut impl FnMut(&Output)) {
        self.link.advance(now);
        std::hint::black_box(self.link.next_event());
        while let Some(output) = self.link.poll() {
            take(&output);
        }
    }
}

/// A discipline alone under traffic: no link around it.
#[derive(Debug)]
pub(crate) struct QueueRig {
    queue: Queue,
    traffic: Traffic,
    served: Served,
    effects: Effects,
    /// Packets that came out.
    pub(crate) out: u64,
}

impl QueueRig {
    /// A discipline of these parameters, with `held` packets that arrived at once.
    pub(crate) fn new(words: &str, mut traffic: Traffic, held: u64) -> Self {
        let config = LinkConfig::parse(words, "queue").expect("the table's words are parameters");
        let queue = Queue::new(&config, 1, Instant::ZERO).expect("they are valid together");
        let served = Served::untouched(queued(traffic.packet()));
        let mut rig = Self { queue, traffic, served, effects: Effects::default(), out: 0 };
        for _ in 0..held {
            let packet = rig.traffic.packet();
            rig.queue.enqueue(queued(packet), &mut rig.effects);
        }
        rig
    }

    /// A packet is enqueued, then the device below is free: one is dequeued.
    #[inline]
    pub(crate) fn step(&mut self, mut take: impl FnMut(&Served)) {
        let packet = self.traffic.next();
        self.queue.enqueue(queued(packet), &mut self.effects);
        if self.queue.dequeue_into(&mut self.served, packet.arrival, &mut self.effects) {
            self.out += 1;
            take(&self.served);
        }
    }
}

/// As it enters a queue.
#[inline]
fn queued(packet: Packet) -> Queued {
    Queued { packet, entered: packet.arrival, bytes: u64::from(packet.len + FRAMING) }
}

/// A bijection that leaves no pattern (the finaliser of `splitmix64`, Steele et al. 2014).
pub(crate) fn scramble(number: u64) -> u64 {
    let x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Packets of a batch: what the driver reads at once at most.
pub(crate) const BATCH: usize = 64;

/// A full packet in bytes at the IP layer.
const FULL: u32 = 1_500;
/// What the rate counts besides, by default.
const FRAMING: u32 = 14;

/// The rate that the harnesses use.
pub(crate) const GIGABIT: Rate = match Rate::from_bps(1_000_000_000) {
    Some(rate) => rate,
    None => Rate::UNLIMITED,
};
