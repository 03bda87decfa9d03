//! The datapath in the gate namespace: queues, the rules that fill them, and what they counted.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use punctual_linux::lab::{Lab, links};
use punctual_linux::netfilter::nfqueue::{Queue, QueueConfig};
use punctual_linux::netfilter::nftables::{
    Family, Hook, HookConfig, HookRule, InstalledHooks, RuleCount,
};
use punctual_linux::netfilter::{Support, queue_statistics};
use punctual_linux::observe::StampedUdp;
use punctual_linux::wire::Egress;
use punctual_sched::LinkConfig;
use punctual_sched::config::Gso;

use super::links::Links;
use super::session::MTU;

/// Queues and rules of both directions, up first.
#[derive(Debug)]
pub(super) struct Gate {
    hooks: InstalledHooks,
    /// As long as a socket wants them, the stack stamps packets as they come in; NFQUEUE hands
    /// these stamps on, and they tell the turns of our own, finer ones apart.
    _stamping: StampedUdp,
    /// Receive buffer of the smaller of the two queues, in the kernel's accounting.
    pub receive_buffer: usize,
}

/// What one direction's lane works with.
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
    pub(super) fn open(lab: &Lab, links: &Links, support: Support) -> Result<(Self, [Sockets; 2])> {
        lab.gate().within(|| Self::open_here(links, support))?
    }

    /// Counts so far.
    pub(super) fn counts(&mut self, lab: &Lab) -> Result<[GateCounts; 2]> {
        let rules = self.hooks.counters().context("cannot read the rules' counters")?;
        let full: [Result<u64>; 2] = lab.gate().within(|| {
            NUMBERS.map(|number| {
                let statistics =
                    queue_statistics(number).context("cannot read its queue's losses")?;
                let bound = statistics.context("its queue is gone before its losses were read")?;
                Ok(u64::from(bound.dropped_full))
            })
        })?;
        let [up, down] = full;
        let full: [u64; 2] = [up?, down?];
        // Rules: IPv4 of up, IPv6 of up, IPv4 of down, IPv6 of down.
        let sum = |direction: usize| {
            let both = [2 * direction, 2 * direction + 1].map(|rule| rules[rule]);
            RuleCount {
                packets: both.iter().map(|count| count.packets).sum(),
                bytes: both.iter().map(|count| count.bytes).sum(),
            }
        };
        let too_big = lab.gate().within(|| [links::GATE_IN, links::GATE_OUT].map(too_big))?;
        Ok([0, 1].map(|direction| GateCounts {
            rule: sum(direction),
            queue_full: full[direction],
            too_big: too_big[direction],
        }))
    }

    fn open_here(links: &Links, support: Support) -> Result<(Self, [Sockets; 2])> {
        let sockets = [
            Sockets::open(NUMBERS[0], &links.up, links::GATE_OUT)?,
            Sockets::open(NUMBERS[1], &links.down, links::GATE_IN)?,
        ];
        let rule = |family, device: &str, queue| HookRule {
            family,
            device: device.to_owned(),
            queue,
            stamp_arrival: support.arrival_stamps,
            bypass: false,
        };
        let hooks = InstalledHooks::install(&HookConfig {
            table: "punctual".to_owned(),
            hook: Hook::Forward,
            priority: 0,
            rules: [(links::GATE_IN, NUMBERS[0]), (links::GATE_OUT, NUMBERS[1])]
                .into_iter()
                .flat_map(|(device, queue)| {
                    [rule(Family::Ip4, device, queue), rule(Family::Ip6, device, queue)]
                })
                .collect(),
            ce: support.ce_marks,
        })?;
        let sizes = sockets.iter().map(|sockets| sockets.queue.receive_buffer());
        let receive_buffer = sizes.min().unwrap_or(0);
        let stamping = StampedUdp::bind((Ipv4Addr::LOCALHOST, 0).into(), 0)?;
        Ok((Self { hooks, _stamping: stamping, receive_buffer }, sockets))
    }
}

impl Sockets {
    /// `device` is the one that packets leave by.
    fn open(number: u16, link: &LinkConfig, device: &'static str) -> Result<Self> {
        let payloads = link.needs_payloads();
        let queue = Queue::open(&QueueConfig {
            number,
            copy_range: if payloads { MTU } else { 128 },
            max_len: QUEUE_LENGTH,
            receive_buffer: RECEIVE_BUFFER,
            gso: link.resolved_gso() == Gso::Keep,
            fail_open: false,
        })?;
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

/// Queue numbers of up and down; they are the gate's own.
const NUMBERS: [u16; 2] = [1, 2];
/// Packets that the kernel shall hold for us at most. It may hold fewer whatever is asked: Linux
/// 6.18 stops at 65,536, and what comes then is counted as `nfqueue_full`.
const QUEUE_LENGTH: u32 = 1_000_000;
/// Wanted receive buffer, bytes: a tenth of a second of 400,000 small packets/s, at about 768
/// bytes of kernel memory each.
pub(super) const RECEIVE_BUFFER: usize = 32 << 20;
