//! The datapath in the gate namespace: queues, the rules that fill them, and what they counted.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use punctual_linux::lab::{Lab, links};
use punctual_linux::netfilter::nfqueue::{Queue, QueueConfig};
use punctual_linux::netfilter::nftables::{
    Family, Hook, HookConfig, HookRule, InstalledHooks, Packets, RuleCount,
};
use punctual_linux::netfilter::{Support, queue_statistics};
use punctual_linux::observe::StampedUdp;
use punctual_linux::wire::Egress;
use punctual_sched::LinkConfig;
use punctual_sched::config::Gso;

use super::lanes::{ByLane, LanePlan};
use super::links::Links;
use super::session::MTU;
use crate::log::{Direction, LaneId};

/// Queues and rules of both directions, up first.
#[derive(Debug)]
pub(super) struct Gate {
    hooks: InstalledHooks,
    /// The direction of each rule.
    ways: Vec<Direction>,
    plan: LanePlan,
    /// As long as a socket wants them, the stack stamps packets as they come in; NFQUEUE hands
    /// these stamps on, and they tell the turns of our own, finer ones apart.
    _stamping: StampedUdp,
    /// Receive buffer of the smallest of the queues, in the kernel's accounting.
    pub receive_buffer: usize,
}

/// What a lane works with.
#[derive(Debug)]
pub(super) struct Sockets {
    /// The queue that holds packets.
    pub queue: Queue,
    /// The way out for duplicates, and for packets with a bit flipped in the header; only where the
    /// link may make such.
    pub egress: Option<Egress>,
}

/// What the kernel counted of one direction, apart from us.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GateCounts {
    /// Handed to the queue by the rules, IPv4 and IPv6 together.
    pub rule: RuleCount,
    /// Dropped because the queue was at its length.
    pub queue_full: u64,
    /// Not forwarded, and so never seen by the rules: larger than the MTU.
    pub too_big: u64,
}

impl Gate {
    /// Opens the queues first and then installs the rules, so that no packet meets a rule whose
    /// queue nobody has bound. The rules stamp arrivals and write CE where the kernel can.
    pub(super) fn open(
        lab: &Lab,
        links: &Links,
        (plan, support): (LanePlan, Support),
    ) -> Result<(Self, ByLane<Sockets>)> {
        lab.gate().within(|| Self::open_here(links, plan, support))?
    }

    /// How many lanes serve each direction.
    pub(super) fn plan(&self) -> &LanePlan {
        &self.plan
    }

    /// Counts so far.
    pub(super) fn counts(&mut self, lab: &Lab) -> Result<[GateCounts; 2]> {
        let rules = self.hooks.counters().context("cannot read the rules' counters")?;
        let plan = &self.plan;
        let full = lab.gate().within(|| plan.for_lanes(lost_at_length))?;
        let [up, down] = full.map(|lanes| lanes.into_iter().sum::<Result<u64>>());
        let full = [up?, down?];
        let of =
            |direction| self.ways.iter().zip(&rules).filter(move |(way, _)| **way == direction);
        let too_big = lab.gate().within(|| [links::GATE_IN, links::GATE_OUT].map(too_big))?;
        Ok(Direction::BOTH.map(|direction| GateCounts {
            rule: RuleCount {
                packets: of(direction).map(|(_, count)| count.packets).sum(),
                bytes: of(direction).map(|(_, count)| count.bytes).sum(),
            },
            queue_full: full[direction.index()],
            too_big: too_big[direction.index()],
        }))
    }

    fn open_here(
        links: &Links,
        plan: LanePlan,
        support: Support,
    ) -> Result<(Self, ByLane<Sockets>)> {
        let [up, down] = plan.for_lanes(|lane| Sockets::open(lane, links.of(lane.direction)));
        let sockets =
            [up.into_iter().collect::<Result<Vec<_>>>()?, down.into_iter().collect::<Result<_>>()?];
        let rules = rules(&plan, support.arrival_stamps);
        let ways = rules.iter().map(|(direction, _)| *direction).collect();
        let hooks = InstalledHooks::install(&HookConfig {
            table: "punctual".to_owned(),
            hook: Hook::Forward,
            priority: 0,
            rules: rules.into_iter().map(|(_, rule)| rule).collect(),
            ce: support.ce_marks,
        })?;
        let sizes = sockets.iter().flatten().map(|sockets| sockets.queue.receive_buffer());
        let receive_buffer = sizes.min().unwrap_or(0);
        let stamping = StampedUdp::bind((Ipv4Addr::LOCALHOST, 0).into(), 0)?;
        Ok((Self { hooks, ways, plan, _stamping: stamping, receive_buffer }, sockets))
    }
}

/// Rules that hand each direction's packets to the queues of its lanes.
fn rules(plan: &LanePlan, stamp_arrival: bool) -> Vec<(Direction, HookRule)> {
    let mut rules = Vec::new();
    for direction in Direction::BOTH {
        let device = match direction {
            Direction::Up => links::GATE_IN,
            Direction::Down => links::GATE_OUT,
        };
        for (packets, lane) in divided(plan, direction) {
            rules.extend([Family::Ip4, Family::Ip6].map(|family| {
                let queue = number(lane);
                let device = device.to_owned();
                let bypass = false;
                (direction, HookRule { family, device, packets, queue, stamp_arrival, bypass })
            }));
        }
    }
    rules
}

/// Which packets go to which lane, in the order of the rules. Those without ports of their own have
/// the first lane: protocols other than TCP and UDP, and fragments.
fn divided(plan: &LanePlan, direction: Direction) -> Vec<(Packets, LaneId)> {
    let first = LaneId::from(direction);
    let of = u16::from(plan.count(direction));
    let mut packets = Vec::new();
    if of > 1 {
        packets.extend([(Packets::OtherProtocols, first), (Packets::Fragments, first)]);
    }
    let others = plan.of(direction).skip(1);
    packets.extend(others.map(|lane| (Packets::Share { share: u16::from(lane.index), of }, lane)));
    packets.push((Packets::All, first));
    packets
}

/// Packets that a lane's queue could not hold.
fn lost_at_length(lane: LaneId) -> Result<u64> {
    let statistics = queue_statistics(number(lane)).context("cannot read its queue's losses")?;
    let bound = statistics.context("its queue is gone before its losses were read")?;
    Ok(u64::from(bound.dropped_full))
}

impl Sockets {
    fn open(lane: LaneId, link: &LinkConfig) -> Result<Self> {
        let payloads = link.needs_payloads();
        let queue = Queue::open(&QueueConfig {
            number: number(lane),
            copy_range: if payloads { MTU } else { 128 },
            max_len: QUEUE_LENGTH,
            receive_buffer: RECEIVE_BUFFER,
            gso: link.resolved_gso() == Gso::Keep,
            fail_open: false,
        })?;
        // What packets leave by.
        let device = match lane.direction {
            Direction::Up => links::GATE_OUT,
            Direction::Down => links::GATE_IN,
        };
        let egress = payloads.then(|| Egress::open(&links::egress(device, MTU))).transpose()?;
        Ok(Self { queue, egress })
    }
}

/// IPv6 packets that came in by `device` and were answered with Packet Too Big. Bursts of more than
/// 64 KB (BIG TCP) are among them: the kernel counts the jumbo header (RFC 2675), which no segment
/// will carry, to the size of each.
fn too_big(device: &str) -> u64 {
    // Without IPv6 there is no such file, and no such packet.
    let path = format!("/proc/thread-self/net/dev_snmp6/{device}");
    let counters = std::fs::read_to_string(path).unwrap_or_default();
    let mut lines = counters.lines().filter_map(|line| line.split_once(char::is_whitespace));
    let counter = lines.find(|(name, _)| *name == "Ip6InTooBigErrors");
    counter.and_then(|(_, count)| count.trim().parse().ok()).unwrap_or(0)
}

/// A lane's queue; numbers are the gate's own. Up has the odd ones.
fn number(lane: LaneId) -> u16 {
    let way = match lane.direction {
        Direction::Up => 1,
        Direction::Down => 2,
    };
    way + 2 * u16::from(lane.index)
}

/// Packets that the kernel shall hold for us at most. It may hold fewer whatever is asked: Linux
/// 6.18 stops at 65,536, and what comes then is counted as `nfqueue_full`.
const QUEUE_LENGTH: u32 = 1_000_000;
/// Wanted receive buffer, bytes: a tenth of a second of 400,000 small packets/s, at about 768
/// bytes of kernel memory each.
pub(super) const RECEIVE_BUFFER: usize = 32 << 20;
