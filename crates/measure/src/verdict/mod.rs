//! Whether a run can be believed, down to which time scale, and what spoiled it.
//!
//! Pure: the same [`Facts`] always give the same [`Verdict`].

mod facts;
mod words;

pub(crate) use facts::PAUSE;
pub use facts::{Facts, OwnLoss, Testimony};
pub use words::{Note, Reason};

use crate::units::{self, plural};
use serde::{Deserialize, Serialize};

/// The verdict on a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// False when the emulator itself spoiled the run; exactly when there are reasons.
    pub ok: bool,
    /// Statements about the run are good down to here: the 99.9th percentile of lateness over
    /// both directions, the maximum with fewer than 1,000 departures, null without any.
    pub resolution_ns: Option<i64>,
    /// What spoiled the run, causes before effects.
    pub reasons: Vec<Finding<Reason>>,
    /// What a reader should know although it spoiled nothing.
    pub notes: Vec<Finding<Note>>,
}

/// A word for programs and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding<W> {
    /// Stable.
    pub word: W,
    /// With the figures and the remedy; wording may change.
    pub text: String,
}

/// The tolerance of a departure's lateness in ns: a tenth of the smaller of one-way delay and AQM
/// threshold, at least 100 us, at most 2 ms; `late_ns` (`--late`) overrides all of it.
///
/// A link without delay passes `Some(0)`; a discipline without a threshold passes `None`.
pub fn tolerance_ns(
    one_way_delay_ns: Option<i64>,
    aqm_threshold_ns: Option<i64>,
    late_ns: Option<i64>,
) -> i64 {
    let scale = [one_way_delay_ns, aqm_threshold_ns].into_iter().flatten().min();
    let tenth = scale.map_or(MIN_TOLERANCE_NS, |ns| ns / 10);
    late_ns.unwrap_or_else(|| tenth.clamp(MIN_TOLERANCE_NS, MAX_TOLERANCE_NS))
}

/// Judges a run.
pub fn judge(facts: &Facts) -> Verdict {
    let mut reasons = causes(facts);
    reasons.extend(losses(facts));
    reasons.extend(late(facts));
    reasons.extend(contradictions(facts));
    Verdict {
        ok: reasons.is_empty(),
        resolution_ns: facts.resolution_ns,
        reasons,
        notes: notes(facts),
    }
}

/// Why departures were late, packets lost or stamps of no use; empty when none were.
fn causes(facts: &Facts) -> Vec<Finding<Reason>> {
    let spoiled = facts.is_late() || facts.lost.total() > 0;
    let starved = facts.wait_ppm.filter(|&wait| wait > WAIT_PPM);
    let starved = starved.filter(|_| spoiled || facts.tail_is_late());
    let steal = facts.steal_ppm.filter(|&steal| steal > STEAL_PPM && facts.is_late());
    [
        facts.stalled_ns().map(stalled),
        (spoiled && facts.is_overloaded()).then(|| overloaded(facts)),
        starved.map(|wait| {
            let wait = units::percent(wait);
            let remedy = match (facts.realtime, facts.eco) {
                (true, _) => "stop other work, real-time threads first",
                (false, true) => "stop other work, or try --precision balanced",
                (false, false) => "stop other work, be root or raise ulimit -r",
            };
            Reason::Starved.because(format!("the driver waited {wait} for a processor: {remedy}"))
        }),
        steal.map(|steal| {
            let steal = units::percent(steal);
            Reason::Steal.because(format!(
                "the hypervisor took {steal} of the processors' time: repeat on a quieter machine"
            ))
        }),
        clock_step(facts),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn stalled(gap_ns: i64) -> Finding<Reason> {
    let gap = units::duration(gap_ns);
    Reason::Stalled.because(format!(
        "no look at the queue for {gap}, arrivals unknown: do not stop punctual or the machine"
    ))
}

fn overloaded(facts: &Facts) -> Finding<Reason> {
    let busy = units::percent(facts.busy_ppm.unwrap_or(0));
    let p50 = units::duration_or_dash(facts.ingest_p50_ns);
    let p99 = units::duration_or_dash(facts.ingest_p99_ns);
    Reason::Overloaded.because(format!(
        "driver busy {busy}, packets waited {p50} (p99 {p99}): lower the load or gso=keep"
    ))
}

fn clock_step(facts: &Facts) -> Option<Finding<Reason>> {
    (facts.clock_steps > 0 && facts.stamps_replaced > 0).then(|| {
        let steps = plural(facts.clock_steps, "time");
        let stamps = plural(facts.stamps_replaced, "stamp");
        Reason::ClockStep.because(format!(
            "clock stepped {steps}, {stamps} replaced: let time sync slew, not step"
        ))
    })
}

/// One reason for each place where the emulator lost packets.
fn losses(facts: &Facts) -> Vec<Finding<Reason>> {
    let lost = &facts.lost;
    let places = [
        (Reason::ReceiveBuffer, lost.receive_buffer, buffer_lost(facts)),
        (
            Reason::NfqueueFull,
            lost.nfqueue_full,
            // What is delayed waits in the kernel's queue, which Linux 6.18 bounds whatever length
            // is asked for.
            "lost, NFQUEUE full: keep delay x packets/s below 65,536 (Linux 6.18)",
        ),
        (
            Reason::Malformed,
            lost.malformed,
            "lost, kernel messages not understood: a bug of ours, please report it",
        ),
        (
            Reason::GateTooBig,
            lost.gate_too_big,
            "too big for the gate: gso_max_size of our devices at most 65536",
        ),
        (
            Reason::HoldFull,
            lost.hold_full,
            "lost in the full delay line: raise hold, or lower rate or delay",
        ),
        (
            Reason::OverdueFull,
            lost.overdue_full,
            "past due lost, not released in time: lower the load",
        ),
        (
            Reason::FlushedByKernel,
            lost.flushed_by_kernel,
            "released but flushed by the kernel: keep the devices up to the end",
        ),
        (
            Reason::CopiesFailed,
            lost.copies_failed,
            "not copied or altered as decided: lower rate or delay, or free memory",
        ),
        (Reason::DeviceDrops, lost.devices, devices_dropped(facts)),
    ];
    let hit = places.into_iter().filter(|&(_, n, _)| n > 0);
    hit.map(|(reason, n, text)| reason.because(format!("{} {text}", plural(n, "packet")))).collect()
}

fn buffer_lost(facts: &Facts) -> &'static str {
    if facts.buffer_granted {
        "lost in the receive buffer: lower the load, or gso=keep"
    } else {
        "lost in the receive buffer: raise net.core.rmem_max or be real root"
    }
}

fn devices_dropped(facts: &Facts) -> &'static str {
    if facts.mtu_changed {
        "dropped at our devices, too large for one: leave their MTU at 1500"
    } else {
        "dropped at our devices: raise net.core.netdev_max_backlog"
    }
}

fn late(facts: &Facts) -> Option<Finding<Reason>> {
    facts.is_late().then(|| {
        let share = units::share(facts.late, facts.departures);
        if facts.tolerance_max_ns == 0 {
            return Reason::Late.because(format!(
                "{share} of departures after their time, none is at it: give --late more than 0"
            ));
        }
        let (least, most) = (facts.tolerance_ns, facts.tolerance_max_ns);
        let tolerance = if least < most {
            format!("{} to {}", units::duration(least), units::duration(most))
        } else {
            units::duration(most)
        };
        let remedy = if facts.strict { "lower the load" } else { "try --precision strict" };
        Reason::Late.because(format!(
            "{share} of departures over {tolerance} late, 1 % is allowed: {remedy} or --late"
        ))
    })
}

/// Figures that contradict each other: faults of the emulator's own accounting.
fn contradictions(facts: &Facts) -> Vec<Finding<Reason>> {
    let unbalanced = (!facts.balanced).then(|| {
        Reason::Unbalanced.because(
            "in + duplicated is not out + dropped + queued: a bug of ours, please report it",
        )
    });
    let witness = (facts.witness == Some(Testimony::Contradicts)).then(|| {
        Reason::Witness
            .because("the witness contradicts the report: a bug of ours, please report it")
    });
    unbalanced.into_iter().chain(witness).collect()
}

/// In order of weight, since the text of a report has room for few: what makes the log or the
/// figures incomplete, then what explains them.
fn notes(facts: &Facts) -> Vec<Finding<Note>> {
    let implausible = if facts.clock_steps == 0 { facts.stamps_replaced } else { 0 };
    let untouched = facts.clock_steps > 0 && facts.stamps_replaced == 0;
    let steal = facts.steal_ppm.filter(|&steal| steal > STEAL_PPM && !facts.is_late());
    [
        log_incomplete(facts),
        (implausible > 0).then(|| replaced(implausible, facts.arrivals)),
        (facts.queued > 0).then(|| {
            let were = if facts.queued == 1 { "was still on its" } else { "were still on their" };
            let packets = plural(facts.queued, "packet");
            let why = facts.shut.as_ref().map_or_else(String::new, |shut| format!(": {shut}"));
            Note::CutOff.because(format!("{packets} {were} way when the run ended{why}"))
        }),
        witness(facts),
        (facts.uncut_udp_bursts > 0).then(|| {
            let bursts = plural(facts.uncut_udp_bursts, "UDP burst");
            Note::UdpBursts.because(format!(
                "{bursts} crossed uncut, counted as if cut at the MTU: gso=split counts them"
            ))
        }),
        (facts.ignored_stores > 0).then(|| {
            let stores = plural(facts.ignored_stores, "store");
            Note::IgnoredStores.because(format!(
                "{stores} to the control block ignored: `ignored` in the report names them"
            ))
        }),
        untouched.then(|| {
            let steps = plural(facts.clock_steps, "time");
            Note::ClockStep.because(format!("clock stepped {steps}, no packet touched"))
        }),
        facts
            .peer_ended_early
            .then(|| Note::PeerEndedEarly.because("the peer ended before the command did")),
        few_packets(facts),
        facts.idle_queue.as_ref().map(|queue| {
            Note::IdleQueue.because(format!(
                "nothing waits in {queue} without a rate, so it cannot act: give rate=RATE"
            ))
        }),
        steal.map(|steal| {
            let steal = units::percent(steal);
            Note::Steal.because(format!("the hypervisor took {steal} of the processors' time"))
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn log_incomplete(facts: &Facts) -> Option<Finding<Note>> {
    let (lost, cause) = (facts.log_lost_records, &facts.log_cause);
    if lost == 0 && cause.is_none() {
        return None;
    }
    let records = plural(lost, "log record");
    Some(Note::LogIncomplete.because(match cause {
        Some(cause) => format!("{records} lost, {cause}: log elsewhere"),
        None => format!("{records} lost, verify stops at the first: log to a faster disk"),
    }))
}

fn witness(facts: &Facts) -> Option<Finding<Note>> {
    match facts.witness? {
        Testimony::Agrees => Some(
            Note::WitnessAgrees.because("the witness's probes and captures agree with this report"),
        ),
        Testimony::CannotTell => Some(Note::WitnessCannotTell.because(
            "too few probes arrived for the witness to tell: `witness.untold` in the report",
        )),
        // A reason.
        Testimony::Contradicts => None,
    }
}

/// `1 of 500 arrival stamps was implausible`.
fn replaced(stamps: u64, arrivals: u64) -> Finding<Note> {
    let were = if stamps == 1 { "was" } else { "were" };
    let (stamps, arrivals) = (units::count(stamps), units::count(arrivals));
    Note::StampsReplaced.because(format!(
        "{stamps} of {arrivals} arrival stamps {were} implausible and replaced by our reading"
    ))
}

/// What so few packets mean for the resolution.
fn few_packets(facts: &Facts) -> Option<Finding<Note>> {
    match (facts.arrivals, facts.departures) {
        (0, _) => Some(Note::NoPackets.because("no packets: does the command use $PUNCTUAL_PEER?")),
        (_, 0) if facts.too_big > 0 => Some(Note::NoDepartures.because(format!(
            "no packet departed, {} {} too big for tbf's bucket: raise burst (and tbf.mtu)",
            units::count(facts.too_big),
            if facts.too_big == 1 { "was" } else { "were" }
        ))),
        (_, 0)
            if facts.over_limit > 0 && facts.over_limit == facts.dropped && facts.queued == 0 =>
        {
            let packets = plural(facts.over_limit, "packet");
            Some(Note::NoDepartures.because(format!(
                "limit dropped all {packets}: none fits; raise limit above a packet with framing"
            )))
        }
        (_, 0) => {
            Some(Note::NoDepartures.because("no packet departed, so none was on time or late"))
        }
        (_, n @ 1..1_000) => {
            Some(Note::FewPackets.because(format!(
                "the resolution is the maximum of only {}",
                plural(n, "departure")
            )))
        }
        _ => None,
    }
}

const MIN_TOLERANCE_NS: i64 = 100_000;
const MAX_TOLERANCE_NS: i64 = 2_000_000;

/// Waiting in the run queue for less of the run than this is what any busy machine does.
const WAIT_PPM: u64 = 10_000;

/// Below 0.1 % steal does not show in a 99.9th percentile.
const STEAL_PPM: u64 = 1_000;

#[cfg(test)]
mod tests;
