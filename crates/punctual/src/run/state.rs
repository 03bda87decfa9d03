//! What the report and `show` say of a link in the same words.

use std::collections::BTreeMap;

use punctual_measure::report;
use punctual_sched::config::Gso;
use punctual_sched::queue::show;
use punctual_sched::trace::Position;
use punctual_sched::{Duration, LinkConfig, Snapshot};

use super::flows::drops_by_name;

/// Fates so far.
pub(super) fn packets(snapshot: &Snapshot) -> report::Packets {
    report::Packets {
        arrived: snapshot.packets_in,
        departed: snapshot.packets_out,
        queued: snapshot.queued,
        dropped: drops_by_name(&snapshot.dropped),
        duplicated: snapshot.duplicated,
        marked: snapshot.marked,
        corrupted: snapshot.corrupted,
        reordered: snapshot.reordered,
    }
}

/// Sizes of what [`packets`] counts.
pub(super) fn bytes(snapshot: &Snapshot) -> report::Bytes {
    report::Bytes {
        arrived: snapshot.bytes_in,
        duplicated: snapshot.bytes_duplicated,
        departed: snapshot.bytes_out,
        dropped: snapshot.bytes_dropped,
    }
}

/// The trace that is followed, and where in it the link is.
pub(super) fn followed(
    config: &LinkConfig,
    position: Option<Position>,
) -> Option<report::FollowedTrace> {
    let (trace, position) = (config.trace.as_ref()?, position?);
    let Position { begun, rounds, within, ended } = position;
    let state = match begun {
        None => report::TraceState::Waiting,
        Some(_) if ended => report::TraceState::Ended,
        Some(_) => report::TraceState::Running,
    };
    let delivers = trace.schedule.opportunity().is_some();
    Some(report::FollowedTrace {
        text: config.trace_brief(),
        course: if delivers { "deliveries" } else { "steps" }.to_owned(),
        paces: trace.schedule.paces(),
        span_ns: trace.schedule.span().as_nanos(),
        repeats: trace.repeat,
        state,
        rounds,
        at_ns: within.as_nanos(),
    })
}

/// Of traces with single deliveries, the one that is followed or others before.
pub(super) fn opportunities(
    config: &LinkConfig,
    snapshot: &Snapshot,
) -> Option<report::Opportunities> {
    let (used, wasted) = (snapshot.opportunities_used, snapshot.opportunities_wasted);
    let delivers =
        config.trace.as_ref().is_some_and(|trace| trace.schedule.opportunity().is_some());
    (delivers || used > 0 || wasted > 0).then_some(report::Opportunities { used, wasted })
}

/// How bursts cross the link.
pub(super) fn bursts(config: &LinkConfig) -> &'static str {
    if config.resolved_gso() == Gso::Keep { "keep" } else { "split" }
}

/// The queue discipline's own counters.
pub(super) fn queue(config: &LinkConfig, snapshot: &Snapshot) -> report::Queue {
    let counters = snapshot.discipline.counters().into_iter();
    report::Queue {
        kind: snapshot.discipline.name().to_owned(),
        counters: counters.map(|(name, value)| (name.to_owned(), value)).collect(),
        text: show(config, snapshot).lines().map(str::to_owned).collect(),
        ..report::Queue::default()
    }
}

/// Every parameter with its value in force: the limit and the treatment of bursts resolved.
pub(super) fn in_force(
    config: &LinkConfig,
    limit_asked: Option<Duration>,
) -> BTreeMap<String, String> {
    let config = config.with_limit_resolved();
    let mut entries: BTreeMap<String, String> =
        config.entries().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    if let Some(asked) = limit_asked {
        entries.insert("limit.asked".to_owned(), asked.to_string());
    }
    if config.limit.is_none() {
        entries.insert("limit".to_owned(), "none".to_owned());
    }
    entries
}
