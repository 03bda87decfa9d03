//! What a verdict rests on.

use crate::histogram::Histogram;
use crate::percentile::{PPM, Percentile};
use crate::report::{Device, Direction, Directions, Host, Run, Thread, Witness, share_ppm};

/// Everything the verdict looks at, over both directions and all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Facts {
    /// Packets that reached the link, were lost before it, or were unread when the run ended.
    pub arrivals: u64,
    /// Departures whose lateness was recorded.
    pub departures: u64,
    /// 99.9th percentile of their lateness.
    pub resolution_ns: Option<i64>,
    /// Departures later than the tolerance.
    pub late: u64,
    /// The least tolerance that a departure had, in either direction; that of the stricter
    /// direction where there was none.
    pub tolerance_ns: i64,
    /// The greatest.
    pub tolerance_max_ns: i64,
    /// Packets larger than tbf's bucket, which can never leave.
    pub too_big: u64,
    /// Packets that `limit` dropped.
    pub over_limit: u64,
    /// Packets dropped for whatever reason.
    pub dropped: u64,
    /// A discipline or limit that was asked for, in a direction without a rate: nothing waits there.
    pub idle_queue: Option<String>,
    /// Whether the run was `--precision strict`.
    pub strict: bool,
    /// Whether it was `--precision eco`, which asks for no real-time policy.
    pub eco: bool,
    /// Packets the emulator lost.
    pub lost: OwnLoss,
    /// Median time arrivals waited to be read, of the worse direction.
    pub ingest_p50_ns: Option<i64>,
    /// 99th percentile of the same.
    pub ingest_p99_ns: Option<i64>,
    /// Share of the run for which the busiest thread worked, polling not counted.
    pub busy_ppm: Option<u64>,
    /// The same in ns.
    pub busy_ns: Option<i64>,
    /// Share of the run for which the thread that waited longest waited for a processor.
    pub wait_ppm: Option<u64>,
    /// Whether the driver was granted a real-time policy.
    pub realtime: bool,
    /// Share of our processors' time that the hypervisor gave to others.
    pub steal_ppm: Option<u64>,
    /// Steps of the real-time clock.
    pub clock_steps: u64,
    /// Arrival stamps replaced because they lay in the future or implausibly far back.
    pub stamps_replaced: u64,
    /// Of these, all but those that a step of the clock made ambiguous.
    pub stamps_implausible: u64,
    /// Longest time between two looks at a queue, of the worse direction.
    pub longest_gap_ns: Option<i64>,
    /// Packets still held when the run ended.
    pub queued: u64,
    /// Why a direction that held some of them let none out any more.
    pub shut: Option<String>,
    /// Bursts of UDP that crossed uncut.
    pub uncut_udp_bursts: u64,
    /// Stores to the control block that were not done.
    pub ignored_stores: u64,
    /// Whether each direction's packets balance.
    pub balanced: bool,
    /// Log records that could not be written.
    pub log_lost_records: u64,
    /// Whether the peer ended before the command, and not with success: a server that serves one
    /// client does that.
    pub peer_ended_early: bool,
    /// Somebody changed the MTU of one of our devices.
    pub mtu_changed: bool,
    /// The NFQUEUE sockets were granted the receive buffer that was asked for.
    pub buffer_granted: bool,
    /// Why writing the log ended early.
    pub log_cause: Option<String>,
    /// What the witness says, where there was one.
    pub witness: Option<Testimony>,
}

/// What an independent witness says of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Testimony {
    /// Its probes and captures agree.
    Agrees,
    /// It saw too little to tell.
    CannotTell,
    /// It contradicts.
    Contradicts,
}

impl Testimony {
    fn of(witness: &Witness) -> Self {
        match (witness.ok, witness.disagreements.is_empty()) {
            (_, false) => Self::Contradicts,
            (true, true) => Self::Agrees,
            (false, true) => Self::CannotTell,
        }
    }
}

/// Packets lost by the emulator, not by the emulated link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnLoss {
    /// The NFQUEUE socket's receive buffer was full.
    pub receive_buffer: u64,
    /// The NFQUEUE was full.
    pub nfqueue_full: u64,
    /// What the kernel said of them was not understood.
    pub malformed: u64,
    /// Too big for the gate.
    pub gate_too_big: u64,
    /// The delay line's memory was full.
    pub hold_full: u64,
    /// The memory for packets past due was full.
    pub overdue_full: u64,
    /// Released, then thrown away by the kernel.
    pub flushed_by_kernel: u64,
    /// Duplicates and flipped bits that did not get onto the wire.
    pub copies_failed: u64,
    /// Dropped at our own network devices.
    pub devices: u64,
}

impl OwnLoss {
    /// All of it.
    pub fn total(&self) -> u64 {
        let Self {
            receive_buffer,
            nfqueue_full,
            malformed,
            gate_too_big,
            hold_full,
            overdue_full,
            flushed_by_kernel,
            copies_failed,
            devices,
        } = self;
        let before = receive_buffer + nfqueue_full + malformed + gate_too_big;
        before + hold_full + overdue_full + flushed_by_kernel + copies_failed + devices
    }

    /// Of one direction. Drop reasons `hold_full` and `overdue_full` are the emulator's own; all
    /// others are the link's.
    fn of(direction: &Direction) -> Self {
        let dropped = |reason| direction.packets.dropped.get(reason).copied().unwrap_or(0);
        Self {
            receive_buffer: direction.lost_before.receive_buffer,
            nfqueue_full: direction.lost_before.nfqueue_full,
            malformed: direction.lost_before.malformed,
            gate_too_big: direction.lost_before.too_big,
            hold_full: dropped("hold_full"),
            overdue_full: dropped("overdue_full"),
            flushed_by_kernel: direction.flushed_by_kernel,
            copies_failed: direction.copies_failed,
            devices: direction.devices.iter().map(Device::dropped).sum(),
        }
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            receive_buffer: self.receive_buffer + other.receive_buffer,
            nfqueue_full: self.nfqueue_full + other.nfqueue_full,
            malformed: self.malformed + other.malformed,
            gate_too_big: self.gate_too_big + other.gate_too_big,
            hold_full: self.hold_full + other.hold_full,
            overdue_full: self.overdue_full + other.overdue_full,
            flushed_by_kernel: self.flushed_by_kernel + other.flushed_by_kernel,
            copies_failed: self.copies_failed + other.copies_failed,
            devices: self.devices + other.devices,
        }
    }
}

impl Facts {
    /// Gathers the facts from the parts of a report. `lateness` holds both directions merged,
    /// `host.cpus` must be the processors that `run.steal_ns` was summed over.
    pub fn new(
        host: &Host,
        run: &Run,
        directions: &Directions,
        lateness: &Histogram,
        witness: Option<&Witness>,
    ) -> Self {
        let both = [&directions.up, &directions.down];
        let sum = |of: fn(&Direction) -> u64| both.into_iter().map(of).sum::<u64>();
        let worst = |of: fn(&Direction) -> Option<i64>| both.into_iter().filter_map(of).max();
        let thread = |of: fn(&Thread, i64) -> Option<u64>| {
            run.threads.iter().filter_map(|thread| of(thread, run.duration_ns)).max()
        };
        let steal = || {
            let processors_ns = run.duration_ns.saturating_mul(i64::from(host.cpus?));
            share_ppm(run.steal_ns?, processors_ns)
        };
        let (tolerance_ns, tolerance_max_ns) = tolerances(both);
        Self {
            arrivals: sum(|d| {
                d.packets.arrived + d.lost_before.total() + d.lost_before.unread_at_end
            }),
            departures: lateness.n(),
            resolution_ns: lateness.percentile_ns(Percentile::P999.ppm()),
            late: sum(|d| d.lateness.late),
            tolerance_ns,
            tolerance_max_ns,
            too_big: sum(|d| d.packets.dropped.get("too_big").copied().unwrap_or(0)),
            over_limit: sum(|d| d.packets.dropped.get("limit").copied().unwrap_or(0)),
            dropped: sum(|d| d.packets.dropped.values().sum()),
            idle_queue: both.into_iter().find_map(idle_queue),
            strict: run.precision == "strict",
            eco: run.precision == "eco",
            lost: OwnLoss::of(&directions.up).plus(&OwnLoss::of(&directions.down)),
            ingest_p50_ns: worst(|d| d.delay.ingest.p50_ns),
            ingest_p99_ns: worst(|d| d.delay.ingest.p99_ns),
            busy_ppm: thread(Thread::busy_ppm),
            busy_ns: run.threads.iter().map(Thread::busy_ns).max(),
            wait_ppm: thread(Thread::wait_ppm),
            realtime: host.granted.policy.as_deref().is_some_and(|p| p.starts_with("fifo")),
            steal_ppm: steal(),
            // One real-time clock: each direction's driver sees the same steps.
            clock_steps: both.map(|d| d.stamps.clock_steps).into_iter().max().unwrap_or(0),
            stamps_replaced: sum(|d| d.stamps.future + d.stamps.stale + d.stamps.step_touched),
            stamps_implausible: sum(|d| d.stamps.future + d.stamps.stale),
            longest_gap_ns: worst(|d| d.stamps.longest_gap_ns),
            queued: sum(|d| d.packets.queued),
            shut: directions.named().into_iter().find_map(|(name, d)| shut(name, d)),
            uncut_udp_bursts: sum(|d| d.uncut_udp_bursts),
            ignored_stores: sum(|d| d.ignored.count),
            balanced: both.into_iter().all(|d| d.packets.balanced()),
            log_lost_records: run.log.as_ref().map_or(0, |log| log.lost_records),
            peer_ended_early: peer_ended_early(run),
            mtu_changed: mtu_changed(directions),
            buffer_granted: buffer_granted(host),
            log_cause: run.log.as_ref().and_then(|log| log.cause.clone()),
            witness: witness.map(Testimony::of),
        }
    }

    /// The longest time without a look at a queue, where it was too long and packets came in it:
    /// their arrivals are not known, or they left late, or they found no room to wait in.
    pub(super) fn stalled_ns(&self) -> Option<i64> {
        let felt = self.stamps_implausible > 0 || self.late > 0 || self.lost.total() > 0;
        self.longest_gap_ns.filter(|&gap| gap > STALL_NS && felt)
    }

    /// More than 1 % of departures were late.
    pub(super) fn is_late(&self) -> bool {
        u128::from(self.late) * 100 > u128::from(self.departures)
    }

    /// More than 0.1 % were: the resolution itself is beyond the tolerance.
    pub(super) fn tail_is_late(&self) -> bool {
        u128::from(self.late) * 1_000 > u128::from(self.departures)
    }

    /// Whether the driver had more to do than it could: it never rested although it had its share
    /// of a processor; or half of all packets waited long for it although nothing kept it waiting.
    /// In the second case it worked for as long as they waited, or it was not work that they
    /// waited for: the program was stopped, or the whole machine was.
    pub(super) fn is_overloaded(&self) -> bool {
        let (busy, wait) = (self.busy_ppm.unwrap_or(0), self.wait_ppm.unwrap_or(0));
        let never_rested = busy + wait > RESTLESS_PPM && busy > WORKING_PPM;
        let backlog = self.ingest_p50_ns.is_some_and(|p50| {
            p50 > BACKLOG_NS.max(self.tolerance_ns) && self.busy_ns.is_some_and(|busy| busy >= p50)
        });
        never_rested || backlog && wait <= super::WAIT_PPM
    }
}

/// The least and the greatest tolerance that departures of both directions had.
fn tolerances(both: [&Direction; 2]) -> (i64, i64) {
    let lateness = both.map(|direction| &direction.lateness);
    let busy = lateness.into_iter().filter(|lateness| lateness.distribution.n > 0);
    let least = busy.clone().map(|lateness| lateness.tolerance_min_ns).min();
    let greatest = busy.map(|lateness| lateness.tolerance_max_ns).max();
    let idle = lateness.map(|lateness| lateness.tolerance_ns).into_iter().min().unwrap_or(0);
    (least.unwrap_or(idle), greatest.unwrap_or(idle))
}

/// What is to queue in a direction where nothing ever has to: `queue=codel`, `limit=100p`. A queue
/// that paces makes packets wait of itself, netem has a rate of its own, and a rate that has changed
/// was one before.
fn idle_queue(direction: &Direction) -> Option<String> {
    let value = |name: &str| direction.link.get(name).map(String::as_str);
    let follows = direction.trace.as_ref().is_some_and(|trace| trace.paces);
    let paced = direction.rate_changes > 0 || follows || value("impair") == Some("netem");
    let unlimited = value("rate") == Some("unlimited") && !paced;
    let queue = value("queue").filter(|_| unlimited)?;
    match queue {
        "codel" | "fq_codel" | "dualpi2" => Some(format!("queue={queue}")),
        "fifo" => value("limit").filter(|limit| *limit != "none").map(|l| format!("limit={l}")),
        _ => None,
    }
}

/// What keeps back all packets that a direction still holds: `up has a rate of 0`.
fn shut(name: &str, direction: &Direction) -> Option<String> {
    let (trace, rate) = (&direction.trace, direction.link.get("rate"));
    match trace {
        _ if direction.packets.queued == 0 => None,
        Some(trace) if trace.is_spent() => Some(format!("the trace of {name} has ended")),
        _ if rate.is_some_and(|rate| rate == PAUSE) => Some(format!("{name} has a rate of 0")),
        _ => None,
    }
}

fn peer_ended_early(run: &Run) -> bool {
    run.peer.as_ref().is_some_and(|peer| peer.ended_early && peer.exit_status != Some(0))
}

fn buffer_granted(host: &Host) -> bool {
    let granted = &host.granted;
    let sizes = granted.receive_buffer_bytes.zip(granted.receive_buffer_asked_bytes);
    sizes.is_some_and(|(granted, asked)| granted >= asked)
}

/// Whether our devices do not all take packets of the same size any more, as they do when made.
fn mtu_changed(directions: &Directions) -> bool {
    let devices = directions.up.devices.iter().chain(&directions.down.devices);
    let mut sizes = devices.filter_map(|device| device.mtu_bytes);
    sizes.next().is_some_and(|first| sizes.any(|other| other != first))
}

/// How reports write a rate of 0.
pub(crate) const PAUSE: &str = "0bit";

/// Twice the longest time that the driver waits of its own accord.
const STALL_NS: i64 = 2_000_000_000;

/// A thread that works or waits to work for 90 % of the time has no reserve for a burst.
const RESTLESS_PPM: u64 = PPM / 10 * 9;

/// A thread that only waits behind others is starved, not overloaded; one that got a third of a
/// processor, about its fair share beside a sender and a receiver on two, and still never rested
/// had too much to do.
const WORKING_PPM: u64 = PPM * 3 / 10;

/// Slow wake-ups from idle take up to 0.2 ms; half of all packets waiting longer than 1 ms is a
/// backlog.
const BACKLOG_NS: i64 = 1_000_000;
