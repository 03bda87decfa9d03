//! The lanes of a direction, counted together.

use punctual_linux::driver::{LaneCounts, StampCounts};
use punctual_measure::percentile::Percentile;
use punctual_measure::report;

use super::lanes::{ByLane, LanePlan};
use super::links::Links;
use super::summary::LaneEnd;
use crate::log::Direction;

/// A direction when it has stopped: its lanes together, and the figures of each.
pub(super) struct DirectionEnd {
    pub(super) end: LaneEnd,
    pub(super) lanes: report::Lanes,
}

/// Both directions from their lanes. `None` where a direction has none, which cannot be.
pub(super) fn directions(
    ends: Vec<LaneEnd>,
    plan: &LanePlan,
    links: &Links,
) -> [Option<DirectionEnd>; 2] {
    let mut by_lane: ByLane<LaneEnd> = Default::default();
    for end in ends {
        by_lane[end.lane.direction.index()].push(end);
    }
    let [up, down] = by_lane;
    [(Direction::Up, up), (Direction::Down, down)].map(|(direction, ends)| {
        let each = ends.iter().map(figures).collect();
        let mut end = ends.into_iter().reduce(|end, other| end.merge(&other))?;
        // Each lane has its part of the memory; the parameter is the direction's.
        end.config.hold_limit = links.of(direction).hold_limit;
        let single_because = plan.reason(direction).map(str::to_owned);
        let lanes = report::Lanes { asked: plan.asked().into(), single_because, each };
        Some(DirectionEnd { end, lanes })
    })
}

fn figures(end: &LaneEnd) -> report::Lane {
    let (snapshot, lateness) = (&end.snapshot, end.account.lateness().histogram());
    report::Lane {
        thread: end.thread.clone(),
        packets_in: snapshot.packets_in,
        packets_out: snapshot.packets_out,
        packets_dropped: snapshot.dropped.iter().sum(),
        packets_queued: snapshot.queued,
        receive_buffer_lost: end.counts.receive_buffer,
        lateness_p99_ns: lateness.percentile_ns(Percentile::P99.ppm()),
    }
}

impl LaneEnd {
    /// Both together, under the first one's name.
    fn merge(mut self, other: &Self) -> Self {
        self.account.merge(&other.account);
        self.snapshot.add(&other.snapshot);
        self.counts = sum(self.counts, other.counts);
        let report::Wakes { timer, spin, packet, control, other } = &other.wakes;
        self.wakes.timer += timer;
        self.wakes.spin += spin;
        self.wakes.packet += packet;
        self.wakes.control += control;
        self.wakes.other += other;
        self
    }
}

fn sum(ours: LaneCounts, theirs: LaneCounts) -> LaneCounts {
    // Without `..`, so that a new counter cannot be forgotten here.
    let LaneCounts {
        receive_buffer,
        flushed,
        malformed,
        unread,
        uncut_udp_bursts,
        unkept,
        unsent,
        longest_gap,
        stamps: StampCounts { raised, future, stale, clock_steps, step_touched },
    } = theirs;
    LaneCounts {
        receive_buffer: ours.receive_buffer + receive_buffer,
        flushed: ours.flushed + flushed,
        malformed: ours.malformed + malformed,
        unread: ours.unread + unread,
        uncut_udp_bursts: ours.uncut_udp_bursts + uncut_udp_bursts,
        unkept: ours.unkept + unkept,
        unsent: ours.unsent + unsent,
        longest_gap: ours.longest_gap.max(longest_gap),
        stamps: StampCounts {
            raised: ours.stamps.raised + raised,
            future: ours.stamps.future + future,
            stale: ours.stamps.stale + stale,
            // Every lane sees the same steps, unless it slept through two of them.
            clock_steps: ours.stamps.clock_steps.max(clock_steps),
            step_touched: ours.stamps.step_touched + step_touched,
        },
    }
}
