//! Links and traffic that the test of allocations, the benches and the instruction counts share.
//! A discipline or an impairment is one line of a table here.
#![allow(dead_code, reason = "each of them uses its part of it")]

use punctual_sched::{Ecn, Instant, Link, LinkConfig, Output, Packet, Rate};

/// A queue discipline as the harnesses configure it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Discipline {
    /// Its word.
    pub(crate) name: &'static str,
    /// Parameters with which it decides as people would have it, beside `rate`.
    pub(crate) words: &'static str,
    /// Parameters with which it holds millions of packets of one flow and drops none.
    pub(crate) roomy: &'static str,
    /// Whether it paces flows at rates of their own.
    pub(crate) paces: bool,
}

/// Every discipline.
pub(crate) const DISCIPLINES: &[Discipline] = &[Discipline {
    name: "fifo",
    words: "queue=fifo",
    roomy: "queue=fifo limit=4000000p",
    paces: false,
}];

/// Every stage beside the queue: a name and its parameters.
pub(crate) const STAGES: &[(&str, &str)] = &[
    ("wire", ""),
    ("nic", "rate=1gbit nic=2gbit"),
    ("burst", "rate=1gbit burst=100kb peakrate=2gbit"),
    ("loss", "rate=1gbit loss=1%"),
    ("loss-before", "rate=1gbit loss=1% loss.at=before"),
    ("delay", "rate=1gbit delay=5ms"),
    ("jitter", "rate=1gbit delay=5ms jitter=2ms"),
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

    /// The next packet; time does not pass.
    pub(crate) fn packet(&mut self) -> Packet {
        let random = scramble(self.number);
        // Which of the flows, by the high bits of a product: uniform, and no division.
        let index = ((random >> 32) * u64::from(self.flows)) >> 32;
        let flow = u32::try_from(scramble(index) >> 32).expect("32 bits");
        let mut packet = Packet::on_path(self.number, Instant::from_nanos(self.now), FULL, flow);
        packet.pacing_rate = self.pacing;
        if self.mixed {
            packet.len = 64 + u32::try_from(random % 1437).expect("small");
            packet.ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ect0][flow as usize % 4];
            packet.dscp = u8::try_from(flow >> 8 & 63).expect("6 bits");
            packet.priority = u8::try_from(flow >> 16 & 15).expect("4 bits");
        }
        self.number += 1;
        packet
    }

    /// Lets the time pass that `packet` takes at the rate.
    pub(crate) fn pass(&mut self, packet: &Packet) {
        let bits = u64::from(packet.len + FRAMING) * 8;
        self.now += match self.rate.finite_bps() {
            Some(rate) => bits * 1_000_000_000 / rate * 100 / self.load,
            None => 1_000,
        };
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

    /// One packet arrives after its time; `take` gets what comes out. As the driver does for each
    /// packet that it reads and releases.
    #[inline]
    pub(crate) fn step(&mut self, mut take: impl FnMut(Output)) {
        let packet = self.traffic.packet();
        self.traffic.pass(&packet);
        self.link.arrive(Packet { arrival: Instant::from_nanos(self.traffic.now), ..packet });
        self.release(&mut take);
    }

    /// [`BATCH`] packets arrive at once, after their time.
    #[inline]
    pub(crate) fn step_batch(&mut self, mut take: impl FnMut(Output)) {
        self.batch.clear();
        for _ in 0..BATCH {
            let packet = self.traffic.packet();
            self.traffic.pass(&packet);
            self.batch.push(Packet { arrival: Instant::from_nanos(self.traffic.now), ..packet });
        }
        self.link.arrive_batch(&self.batch);
        self.release(&mut take);
    }

    #[inline]
    fn release(&mut self, take: &mut impl FnMut(Output)) {
        self.link.advance(Instant::from_nanos(self.traffic.now));
        std::hint::black_box(self.link.next_event());
        while let Some(output) = self.link.poll() {
            take(output);
        }
    }
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
