//! The least that a queue costs, and what one costs that sorts; both make their packets as the rigs
//! do.

use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;

use punctual_sched::Packet;

use super::workload::Traffic;

/// First in, first out.
pub(crate) struct RingOfPackets {
    traffic: Traffic,
    packets: VecDeque<Packet>,
}

impl RingOfPackets {
    pub(crate) fn new(mut traffic: Traffic, held: u32) -> Self {
        let packets = (0..held).map(|_| traffic.packet()).collect();
        Self { traffic, packets }
    }

    #[inline(never)]
    pub(crate) fn packets(&mut self, count: u32) {
        for _ in 0..count {
            self.packets.push_back(self.traffic.next());
            black_box(&self.packets.pop_front());
        }
    }
}

/// Packets by departure time, at which each flow has its share of the rate.
pub(crate) struct Sorted {
    traffic: Traffic,
    packets: BTreeMap<(u64, u64), Packet>,
    /// When the next packet may go, by the low bits of the flow's hash.
    next: Vec<u64>,
}

impl Sorted {
    pub(crate) fn new(traffic: Traffic, held: u32) -> Self {
        let flows = traffic.flows.next_power_of_two() as usize;
        let mut sorted = Self { traffic, packets: BTreeMap::new(), next: vec![0; flows] };
        for _ in 0..held {
            let packet = sorted.traffic.packet();
            sorted.insert(packet);
        }
        sorted
    }

    fn insert(&mut self, packet: Packet) {
        let flows = self.next.len();
        let next = &mut self.next[packet.flow as usize & (flows - 1)];
        let due = (*next).max(packet.arrival.as_nanos());
        *next = due + u64::from(packet.len) * u64::from(self.traffic.flows) / 12;
        self.packets.insert((due, packet.handle), packet);
    }

    #[inline(never)]
    pub(crate) fn packets(&mut self, count: u32) {
        for _ in 0..count {
            let packet = self.traffic.next();
            self.insert(packet);
            black_box(&self.packets.pop_first());
        }
    }
}
