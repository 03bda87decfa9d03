//! The lanes that serve each direction: how many, why not more, and what they are made of.

use std::sync::Arc;

use anyhow::Result;
use punctual_linux::driver::Lane;
use punctual_linux::fault::Faults;
use punctual_linux::netfilter::Support;
use punctual_sched::config::Shared;
use punctual_sched::{Instant, Link, LinkConfig};

use super::Request;
use super::account::{DirectionAccount, Live};
use super::blocks::Blocks;
use super::drivers::clock_steps;
use super::gate::Sockets;
use super::links::Links;
use super::session::MTU;
use crate::cli::RunOptions;
use crate::log::{Direction, DirectionHeader, LaneId, LogSender};
use crate::witness::ProbeLedger;

/// Something for each lane, by direction and the lane's index.
pub(super) type ByLane<T> = [Vec<T>; 2];

/// How many lanes serve each direction.
#[derive(Clone, Debug)]
pub(super) struct LanePlan {
    threads: u8,
    counts: [u8; 2],
    /// Why a direction has one where more were asked for.
    reasons: [Option<String>; 2],
}

impl LanePlan {
    /// As `--threads` asks for, where the links and the kernel allow it.
    pub(super) fn new(options: &RunOptions, links: &Links, support: Support) -> Self {
        let threads = options.threads.unwrap_or(1);
        let asked = (threads / 2).max(1);
        let reasons = Direction::BOTH.map(|direction| {
            let witnessed = options.witness && direction == Direction::Up;
            let reason = || reason(links.of(direction), support, witnessed);
            if asked > 1 { reason() } else { None }
        });
        let counts = reasons.each_ref().map(|reason| if reason.is_some() { 1 } else { asked });
        Self { threads, counts, reasons }
    }

    /// Lanes asked for in each direction.
    pub(super) fn asked(&self) -> u8 {
        (self.threads / 2).max(1)
    }

    /// Lanes that serve a direction.
    pub(super) fn count(&self, direction: Direction) -> u8 {
        self.counts[direction.index()]
    }

    /// Why one serves it where more were asked for.
    pub(super) fn reason(&self, direction: Direction) -> Option<&str> {
        self.reasons[direction.index()].as_deref()
    }

    /// Whether one thread drives everything.
    pub(super) fn shares_thread(&self) -> bool {
        self.threads < 2
    }

    /// The lanes of a direction.
    pub(super) fn of(&self, direction: Direction) -> impl Iterator<Item = LaneId> + use<> {
        (0..self.count(direction)).map(move |index| LaneId { direction, index })
    }

    /// Something for each lane.
    pub(super) fn for_lanes<T>(&self, mut make: impl FnMut(LaneId) -> T) -> ByLane<T> {
        Direction::BOTH.map(|direction| self.of(direction).map(&mut make).collect())
    }

    /// The header of a direction's log, of lanes made by [`lanes`].
    pub(super) fn header(
        &self,
        direction: Direction,
        (links, seed): (&Links, u64),
        start: Instant,
    ) -> DirectionHeader {
        let mut seeds = self.of(direction).map(|lane| lane_seed(seed, lane));
        let first = seeds.next().unwrap_or(seed);
        let config = self.config(links, direction);
        let header = DirectionHeader::new(&config, first, start);
        DirectionHeader { lanes: seeds.collect(), ..header }
    }

    /// The link of each lane of a direction.
    fn config(&self, links: &Links, direction: Direction) -> LinkConfig {
        links.of(direction).divided(self.count(direction))
    }

    /// Says of each direction that has fewer lanes than were asked for why it does.
    pub(super) fn tell(&self) {
        self.told().iter().for_each(crate::tell);
    }

    fn told(&self) -> Vec<String> {
        let threads = self.threads;
        if let [Some(up), Some(down)] = &self.reasons
            && up == down
        {
            return vec![format!(
                "--threads {threads}: one thread serves each direction, as with --threads 2: {up}"
            )];
        }
        let told = |direction: Direction| {
            let (name, reason) = (direction.name(), self.reason(direction)?);
            Some(format!("--threads {threads}: one thread serves {name}: {reason}"))
        };
        Direction::BOTH.into_iter().filter_map(told).collect()
    }
}

/// Why flows of a direction cannot be divided.
fn reason(link: &LinkConfig, support: Support, witnessed: bool) -> Option<String> {
    if let Some(Shared { parameter, why }) = link.shared() {
        return Some(format!("{parameter} {why}"));
    }
    if witnessed {
        return Some("--witness counts its probes in one".to_owned());
    }
    let lack = "this kernel cannot divide flows among queues (nf_tables jhash and exthdr; modprobe \
                nft_hash)";
    (!support.shares).then(|| lack.to_owned())
}

/// What all lanes of a run are made of.
pub(super) struct Making<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) plan: &'a LanePlan,
    pub(super) start: Instant,
    /// The rules stamp arrivals.
    pub(super) stamped: bool,
    pub(super) live: &'a ByLane<Arc<Live>>,
    pub(super) blocks: &'a Blocks,
}

/// All lanes, those of up first.
pub(super) fn lanes(
    making: &Making<'_>,
    sockets: ByLane<Sockets>,
    logs: Option<ByLane<LogSender>>,
) -> Result<Vec<(LaneId, Lane<DirectionAccount>)>> {
    let mut logs = logs.into_iter().flatten().flatten();
    let Making { plan, blocks, .. } = making;
    let figures = Direction::BOTH.into_iter().flat_map(|way| blocks.writers(way, plan.count(way)));
    let ids = Direction::BOTH.into_iter().flat_map(|way| plan.of(way));
    let mut lanes = Vec::new();
    for ((id, sockets), figures) in ids.zip(sockets.into_iter().flatten()).zip(figures) {
        let mut account = making.account(id);
        account.show_by(figures);
        if let Some(log) = logs.next() {
            account.log_to(log);
        }
        lanes.push((id, making.lane(id, account, sockets)?));
    }
    Ok(lanes)
}

impl Making<'_> {
    fn account(&self, id: LaneId) -> DirectionAccount {
        let Self { request, live, start, .. } = *self;
        let config = request.links.of(id.direction);
        let live = Arc::clone(&live[id.direction.index()][id.at()]);
        let mut account = DirectionAccount::new(config, request.options.late, live, start);
        if request.options.witness && id.direction == Direction::Up {
            account.keep_ledger(ProbeLedger::new(request.seed));
        }
        account
    }

    fn lane(
        &self,
        id: LaneId,
        account: DirectionAccount,
        sockets: Sockets,
    ) -> Result<Lane<DirectionAccount>> {
        let (request, start) = (self.request, self.start);
        let config = self.plan.config(&request.links, id.direction);
        let link = Link::new(&config, lane_seed(request.seed, id), start)?;
        let mut lane = Lane::new(sockets.queue, link, account, MTU, start);
        if self.plan.count(id.direction) > 1 {
            lane.serve_beside_others();
        }
        // What is stored there and cannot be done is told once.
        if id.index == 0 {
            lane.follow(self.blocks.watch(id.direction));
        }
        if let Some(egress) = sockets.egress {
            // As many bytes as the link holds of the kernel's memory, which is more.
            let limit = usize::try_from(config.hold_limit).unwrap_or(usize::MAX);
            lane.keep_payloads(egress, limit);
        }
        if !self.stamped {
            lane.without_stamps();
        }
        let faults: &Faults = &request.faults;
        lane.inject(start, clock_steps(faults, start), faults.shift_ns);
        Ok(lane)
    }
}

/// The directions, and the lanes of each, draw from different streams of the run's one seed.
fn lane_seed(seed: u64, lane: LaneId) -> u64 {
    let direction = match lane.direction {
        Direction::Up => seed,
        Direction::Down => !seed,
    };
    direction ^ u64::from(lane.index).wrapping_mul(GOLDEN)
}

/// 2^64 over the golden ratio: its multiples differ in many bits (Knuth, TAOCP 3, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use punctual_linux::netfilter::nftables::QueueAction;

    use super::*;
    use crate::run::inputs::Inputs;

    fn support(shares: bool) -> Support {
        let action = QueueAction::Native;
        Support { action, arrival_stamps: true, ce_marks: true, shares }
    }

    fn links(up: &str, down: &str) -> Links {
        let [up, down] = [up, down].map(|words| LinkConfig::parse(words, "test").unwrap());
        Links { up, down, warnings: Vec::new(), inputs: Inputs::default() }
    }

    fn plan(threads: u8, up: &str, down: &str, shares: bool, witness: bool) -> LanePlan {
        let options = RunOptions { threads: Some(threads), witness, ..RunOptions::default() };
        LanePlan::new(&options, &links(up, down), support(shares))
    }

    #[test]
    fn a_direction_has_half_of_the_threads_where_flows_share_nothing() {
        for (threads, up, down, counts) in [
            (1, "", "", [1, 1]),
            (2, "", "", [1, 1]),
            (4, "delay=10ms", "loss=1%", [2, 2]),
            (16, "delay=10ms", "loss=1%", [8, 8]),
            (8, "rate=1mbit", "delay=1ms", [1, 4]),
            (8, "queue=fq", "nic=1gbit", [1, 1]),
        ] {
            assert_eq!(
                plan(threads, up, down, true, false).counts,
                counts,
                "{threads} {up} {down}"
            );
        }
    }

    #[test]
    fn fewer_lanes_than_asked_for_have_a_reason_and_none_without() {
        let reasons = |plan: LanePlan| plan.reasons.map(Option::unwrap_or_default);
        let [up, down] = reasons(plan(4, "rate=1mbit", "", true, false));
        assert_eq!((up.as_str(), down.as_str()), ("rate is one bottleneck for all flows", ""));
        let told = |up, down| plan(4, up, down, true, false).told();
        let each = "--threads 4: one thread serves each direction, as with --threads 2: rate is one \
                    bottleneck for all flows";
        assert_eq!(told("rate=1mbit", "rate=2mbit"), [each]);
        assert_eq!(told("delay=1ms", ""), [""; 0]);
        let [up, down] = &told("rate=1mbit", "queue=fq")[..] else { panic!("one line each") };
        assert!(up.contains("serves up: rate is") && down.contains("serves down: queue is"));
        let [up, down] = reasons(plan(4, "", "", true, true));
        assert_eq!((up.as_str(), down.as_str()), ("--witness counts its probes in one", ""));
        assert!(reasons(plan(4, "", "", false, false)).iter().all(|why| why.contains("nft_hash")));
        assert_eq!(reasons(plan(2, "rate=1mbit", "rate=1mbit", false, true)), ["", ""]);
    }

    #[test]
    fn every_lane_draws_for_itself_and_a_single_one_as_the_direction() {
        let lane = |direction, index| LaneId { direction, index };
        assert_eq!(lane_seed(7, Direction::Up.into()), 7);
        assert_eq!(lane_seed(7, Direction::Down.into()), !7);
        let mut seeds: Vec<_> = Direction::BOTH
            .into_iter()
            .flat_map(|way| (0..8).map(move |index| lane_seed(7, lane(way, index))))
            .collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 16);
    }

    #[test]
    fn the_header_names_every_lane_and_the_memory_of_each() {
        let plan = plan(4, "delay=1ms hold=1000b", "rate=1mbit", true, false);
        let links = links("delay=1ms hold=1000b", "rate=1mbit");
        let header = |way| plan.header(way, (&links, 5), Instant::ZERO);
        let up = header(Direction::Up);
        assert_eq!((up.seed, up.lanes.len(), up.link.0["hold"].as_str()), (5, 1, "500b"));
        assert!(header(Direction::Down).lanes.is_empty());
    }
}
