//! The report of a run, put together from what everybody counted.

use punctual_linux::driver::{LaneCounts, Policy, StampCounts, Stopped};
use punctual_linux::host::Host;
use punctual_linux::lab::{DeviceStatistics, links};
use punctual_linux::netfilter::Support;
use punctual_linux::netfilter::nftables::QueueAction;
use punctual_measure::histogram::Histogram;
use punctual_measure::report::{self, Direction, Directions, Granted, Report, Thread};
use punctual_measure::verdict::Facts;
use punctual_measure::{difference_ns, judge};
use punctual_sched::config::Limit;
use punctual_sched::trace::Position;
use punctual_sched::{Duration, LinkConfig, Snapshot};

use super::account::DirectionAccount;
use super::gate::{GateCounts, RECEIVE_BUFFER};
use super::impairments::impairments;
use super::links::Links;
use super::merge::DirectionEnd;
use super::state;
use crate::log::{Direction as Way, LaneId};

/// A lane when it has stopped; or all of a direction together, under the first one's name.
pub(super) struct LaneEnd {
    pub(super) lane: LaneId,
    /// The name of its thread.
    pub(super) thread: String,
    /// In force at the end.
    pub(super) config: LinkConfig,
    /// `limit` as it was asked for in words of time, while what came of that is in force.
    pub(super) limit_asked: Option<Duration>,
    pub(super) account: DirectionAccount,
    pub(super) snapshot: Snapshot,
    /// Where in its trace it was; `None` where it followed none.
    pub(super) position: Option<Position>,
    pub(super) counts: LaneCounts,
    pub(super) wakes: report::Wakes,
}

/// A driver's thread when it has stopped.
pub(super) struct DriverEnd {
    pub(super) thread: Thread,
    pub(super) policy: Policy,
    pub(super) idle_held: bool,
    pub(super) tight_timers: bool,
}

/// Lateness above which a departure of `link` counts against the verdict, ns.
pub(super) fn tolerance_ns(link: &LinkConfig, late: Option<Duration>) -> i64 {
    let signed = |span: Duration| difference_ns(span.as_nanos(), 0);
    punctual_measure::verdict::tolerance_ns(
        Some(signed(link.least_delay())),
        link.aqm_threshold().map(signed),
        late.map(signed),
    )
}

/// Takes a stopped driver apart.
pub(super) fn take_apart(
    name: &str,
    stopped: Stopped<DirectionAccount>,
    ids: &[LaneId],
    links: &Links,
) -> (DriverEnd, Vec<LaneEnd>) {
    let wakes = report::Wakes {
        timer: stopped.wakes.timer,
        spin: stopped.wakes.spins,
        packet: stopped.wakes.packet,
        control: stopped.wakes.control,
        other: 0,
    };
    let end = DriverEnd {
        thread: Thread {
            name: name.to_owned(),
            cpu_ns: difference_ns(stopped.cpu, 0),
            spin_ns: difference_ns(stopped.wakes.spun, 0),
            run_queue_wait_ns: stopped.run_queue_wait.map(|wait| difference_ns(wait, 0)),
            margin_ns: Some(difference_ns(stopped.margin.as_nanos(), 0)),
        },
        policy: stopped.policy,
        idle_held: stopped.idle_held,
        tight_timers: stopped.tight_timers,
    };
    let lanes = stopped.lanes.into_iter().zip(ids).map(|(lane, &id)| {
        let (counts, end) = (lane.counts(), lane.latest());
        let (snapshot, config) = (lane.link().snapshot(), lane.link().config().clone());
        let position = lane.link().trace_position();
        let mut account = lane.into_account();
        account.finish_log(end, &snapshot);
        let limit_asked = limit_asked(links.of(id.direction), &config);
        let (wakes, thread) = (wakes.clone(), name.to_owned());
        LaneEnd {
            lane: id,
            thread,
            config,
            limit_asked,
            account,
            snapshot,
            position,
            counts,
            wakes,
        }
    });
    let lanes = lanes.collect();
    (end, lanes)
}

/// The section of one direction. Counts are taken apart by name, and the section put together
/// without defaults: what is counted and not reported does not compile.
pub(super) fn direction(
    end: &DirectionEnd,
    gate: GateCounts,
    statistics: &[Vec<DeviceStatistics>; 2],
) -> Direction {
    let DirectionEnd { end, lanes } = end;
    let LaneEnd {
        lane,
        thread: _,
        config,
        limit_asked,
        account,
        snapshot,
        position,
        counts,
        wakes,
    } = end;
    let LaneCounts {
        receive_buffer: _,
        flushed,
        malformed: _,
        unread: _,
        uncut_udp_bursts,
        unkept,
        unsent,
        longest_gap,
        stamps,
    } = *counts;
    let GateCounts { rule, queue_full: _, too_big: _ } = gate;
    let kept = account.report();
    Direction {
        link: state::in_force(config, *limit_asked),
        lanes: lanes.clone(),
        queue: report::Queue { delays: kept.queue.delays, ..state::queue(config, snapshot) },
        gso: state::bursts(config).to_owned(),
        packets: state::packets(snapshot),
        uncut_udp_bursts,
        lost_before: lost_before(*counts, gate),
        flushed_by_kernel: flushed,
        copies_failed: unsent + unkept,
        bytes: state::bytes(snapshot),
        impairments: impairments(config, snapshot),
        trace: state::followed(config, *position),
        opportunities: state::opportunities(config, snapshot),
        delay: kept.delay,
        lateness: kept.lateness,
        wakes: wakes.clone(),
        rate: kept.rate,
        stamps: stamps_section(stamps, longest_gap),
        rule_counter: Some(report::RuleCounter { packets: rule.packets, bytes: rule.bytes }),
        devices: devices(lane.direction, statistics),
        flows: kept.flows,
        flows_rest: kept.flows_rest,
        changes: kept.changes,
        changes_omitted: kept.changes_omitted,
        rate_changes: kept.rate_changes,
        ignored: kept.ignored,
    }
}

fn lost_before(counts: LaneCounts, gate: GateCounts) -> report::LostBefore {
    let LaneCounts { receive_buffer, malformed, unread: unread_at_end, .. } = counts;
    let GateCounts { queue_full: nfqueue_full, too_big, .. } = gate;
    report::LostBefore { receive_buffer, nfqueue_full, malformed, too_big, unread_at_end }
}

fn stamps_section(counts: StampCounts, longest_gap: Duration) -> report::Stamps {
    let StampCounts { raised, future, stale, clock_steps, step_touched } = counts;
    report::Stamps {
        raised,
        future,
        stale,
        clock_steps,
        step_touched,
        longest_gap_ns: Some(difference_ns(longest_gap.as_nanos(), 0)),
    }
}

/// `limit` of the link that was asked for, if it was a time and the link that is in force still has
/// what came of it.
fn limit_asked(asked: &LinkConfig, in_force: &LinkConfig) -> Option<Duration> {
    match asked.limit {
        Some(Limit::Time(time)) if asked.with_limit_resolved().limit == in_force.limit => {
            Some(time)
        }
        _ => None,
    }
}

/// Drops at the devices that a direction passes, in the order in which it does, from `before`
/// to `after`. Each device is listed with the side that this direction uses.
fn devices(way: Way, [before, after]: &[Vec<DeviceStatistics>; 2]) -> Vec<report::Device> {
    // Name, and whether up passes it on its way in.
    let path = [
        (links::INSIDE, false),
        (links::GATE_IN, true),
        (links::GATE_OUT, false),
        (links::OUTSIDE, true),
    ];
    let find = |statistics: &[DeviceStatistics], name: &str| {
        let links = statistics.iter().flat_map(|network| &network.links);
        links.into_iter().find(|link| link.name == name).cloned().unwrap_or_default()
    };
    let mut devices: Vec<_> = path
        .into_iter()
        .map(|(name, in_when_up)| {
            let (then, now) = (find(before, name), find(after, name));
            let receives = in_when_up == (way == Way::Up);
            report::Device {
                name: name.to_owned(),
                // A device that was made anew counts from 0.
                rx_dropped: if receives {
                    now.rx_dropped.saturating_sub(then.rx_dropped)
                } else {
                    0
                },
                tx_dropped: if receives {
                    0
                } else {
                    now.tx_dropped.saturating_sub(then.tx_dropped)
                },
                mtu_bytes: Some(now.mtu.into()),
            }
        })
        .collect();
    if way == Way::Down {
        devices.reverse();
    }
    devices
}

/// The machine's section.
pub(super) fn host(
    host: &Host,
    drivers: &[DriverEnd],
    receive_buffer: usize,
    support: Support,
    notes: &[String],
) -> report::Host {
    let first = drivers.first();
    let (policy, slice_ns) = match first.map(|driver| driver.policy) {
        Some(Policy::Fifo(priority)) => (Some(format!("fifo {priority}")), None),
        Some(Policy::Slice(slice)) => (Some("other".to_owned()), Some(difference_ns(slice, 0))),
        Some(Policy::Ordinary) => (Some("other".to_owned()), None),
        None => (None, None),
    };
    let mut lacks = notes.to_vec();
    lacks.extend(receive_buffer_lack(receive_buffer));
    if support.action == QueueAction::Compat {
        lacks.push("nft_queue (xt NFQUEUE serves)".to_owned());
    }
    if !support.arrival_stamps {
        lacks.push("stamps by rules (packets are dated when they are read)".to_owned());
    }
    if !support.ce_marks {
        lacks.push("CE by rules (nothing can be marked)".to_owned());
    }
    report::Host {
        kernel: Some(host.kernel.clone()),
        cpus: u32::try_from(host.processors).ok(),
        clocksource: host.clocksource.clone(),
        clock_read_ns: Some(difference_ns(host.clock_read, 0)),
        hz: host.hz.and_then(|hz| u32::try_from(hz).ok()),
        granted: Granted {
            policy,
            slice_ns,
            timer_slack_ns: first.filter(|driver| driver.tight_timers).map(|_| 1),
            cpu_dma_latency_ns: first.filter(|driver| driver.idle_held).map(|_| 0),
            memory_locked: None,
            receive_buffer_bytes: u64::try_from(receive_buffer).ok(),
            receive_buffer_asked_bytes: u64::try_from(RECEIVE_BUFFER).ok(),
            // Asked for and not refused; what the kernel makes of it cannot be asked.
            nfqueue_length_packets: None,
            hold_limit_bytes: Some(super::hold_limit(host)),
        },
        lacks,
    }
}

/// What a receive buffer smaller than wanted costs, in words: how many small packets it holds
/// between two reads, at about 768 bytes of kernel memory each.
pub(super) fn receive_buffer_lack(bytes: usize) -> Option<String> {
    (bytes < RECEIVE_BUFFER).then(|| {
        format!(
            "a receive buffer of {} MiB ({} KiB granted: of a burst between two reads about {} \
             packets are kept, the rest is lost and counted; sysctl net.core.rmem_max raises it)",
            RECEIVE_BUFFER >> 20,
            bytes >> 10,
            bytes / 768
        )
    })
}

/// Judges the run and closes the report.
pub(super) fn conclude(
    host: report::Host,
    run: report::Run,
    directions: Directions,
    lateness: &Histogram,
    witness: Option<report::Witness>,
) -> Report {
    let facts = Facts::new(&host, &run, &directions, lateness, witness.as_ref());
    Report {
        schema: report::SCHEMA.to_owned(),
        tool: report::Tool {
            name: "punctual".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        verdict: judge(&facts),
        host,
        run,
        directions,
        witness,
    }
}
