//! Changes from other threads of the process.

use std::sync::Arc;

use crate::driven::{Driven, Event};
use crate::support::Test;
use punctual_linux::clock::monotonic;
use punctual_linux::driver::{Refused, Source};
use punctual_linux::wait::sleep_until;
use punctual_sched::DropReason::Limit;
use punctual_sched::trace::{
    Course, Delivery, Opportunity, Schedule, Timeline, Trace, TraceOptions, TraceStart,
};
use punctual_sched::{Change, Duration, Rate};

pub(crate) fn tests() -> Vec<Test> {
    tests![
        a_change_from_another_thread_holds_for_what_comes_after,
        a_change_reaches_a_driver_that_sleeps,
        a_change_that_cannot_be_changes_nothing,
        a_paused_link_goes_on_when_it_is_told_to,
        a_link_is_told_to_follow_a_trace_and_to_stop,
        a_trace_that_cannot_be_followed_changes_nothing,
    ]
    .into()
}

fn a_change_from_another_thread_holds_for_what_comes_after() {
    let driven = Driven::start("delay=1ms");
    driven.send(1, 100);
    driven.receive();
    let asked = monotonic();
    let applied = driven.remote.change(change("delay=20ms loss=0%")).unwrap();
    assert!(applied.changed && applied.at >= asked && applied.at <= monotonic());
    let again = driven.remote.change(change("delay=20ms")).unwrap();
    assert!(!again.changed);
    driven.send(1, 100);
    driven.receive();
    let seen = driven.remote.snapshot().unwrap();
    assert_eq!(seen.config.delay, Duration::from_millis(20));
    assert_eq!((seen.snapshot.packets_in, seen.snapshot.packets_out), (2, 2));
    let left = driven.drain();
    let delays: Vec<_> = left.ledger.departures().iter().map(|(_, _, s)| s.propagation).collect();
    assert_eq!(delays, [1, 20].map(Duration::from_millis));
    let [(at, when, changed, source)] = &left.ledger.changes()[..] else {
        panic!("{:?}", left.ledger)
    };
    assert_eq!(
        (*at, changed, *source),
        (applied.at, &change("delay=20ms"), Source::Remote),
        "that nothing is lost was so before"
    );
    assert!(when.is_some_and(|when| asked <= when && when <= *at));
}

/// An idle driver looks once a second.
fn a_change_reaches_a_driver_that_sleeps() {
    let driven = Driven::start("rate=20mbit");
    let mut waits: Vec<_> = (0..21)
        .map(|n| {
            sleep_until(monotonic() + Duration::from_millis(5));
            let asked = monotonic();
            driven
                .remote
                .change(Change { rate: Rate::from_bps(1000 + n), ..Change::default() })
                .unwrap();
            monotonic().since(asked)
        })
        .collect();
    waits.sort_unstable();
    assert!(waits[10] < Duration::from_millis(20), "{waits:?}");
    let left = driven.end();
    assert_eq!(left.ledger.changes().len(), 21);
    assert!(left.stopped.wakes.turns > 21);
}

fn a_change_that_cannot_be_changes_nothing() {
    let driven = Driven::start("delay=1ms");
    let before = driven.remote.snapshot().unwrap().config;
    let refused = driven.remote.change(change("rate=1mbit jitter=2ms")).unwrap_err();
    assert!(matches!(refused, Refused::Config(_)), "{refused:?}");
    assert_eq!(driven.remote.snapshot().unwrap().config, before);
    let remote = driven.remote.clone();
    assert!(driven.end().ledger.changes().is_empty());
    assert_eq!(remote.change(change("delay=2ms")).unwrap_err(), Refused::Gone);
}

fn a_paused_link_goes_on_when_it_is_told_to() {
    let driven = Driven::start("rate=0 limit=10p");
    driven.send(15, 1000);
    let held = || driven.remote.snapshot().unwrap().snapshot;
    while held().packets_in < 15 {
        std::thread::yield_now();
    }
    assert_eq!((held().queued, held().dropped.iter().sum()), (10, 5_u64));
    let applied = driven.remote.change(change("rate=100mbit")).unwrap();
    (0..10).for_each(|_| driven.receive());
    let left = driven.drain();
    assert_eq!((left.snapshot.packets_out, left.counts.flushed), (10, 0));
    let before = left.ledger.events.iter().take_while(|e| !matches!(e, Event::Changed { .. }));
    let arrived = before.filter(|event| matches!(event, Event::Arrived(at) if *at <= applied.at));
    assert_eq!(arrived.count(), 15);
    assert!(left.ledger.events.iter().filter(|e| matches!(e, Event::Dropped(Limit))).count() == 5);
    for (n, (arrival, due, _)) in left.ledger.departures().into_iter().enumerate() {
        // 1,014 bytes at 100 Mbit/s, one after the other.
        let served = Duration::from_nanos(u64::try_from(n + 1).unwrap() * 81_120);
        assert!(arrival < applied.at);
        assert_eq!(due, applied.at + served);
    }
}

/// An opportunity each ms, which the driver sleeps through as long as nothing waits.
fn a_link_is_told_to_follow_a_trace_and_to_stop() {
    let driven = Driven::start("delay=1ms");
    let asked = monotonic();
    let applied = driven.remote.follow_asked_at(Some(opportunities(1)), asked).unwrap();
    assert!(applied.changed && applied.at >= asked);
    for _ in 0..5 {
        driven.send(1, 1_000);
        driven.receive();
    }
    let seen = driven.remote.snapshot().unwrap();
    let position = seen.trace.unwrap();
    assert_eq!((position.begun, position.ended), (Some(applied.at), false));
    let counted = (seen.snapshot.opportunities_used, seen.snapshot.opportunities_wasted);
    let came = seen.at.since(applied.at).as_nanos() / 1_000_000;
    assert_eq!((counted.0, counted.0 + counted.1), (5, came));
    let stopped = driven.remote.follow_asked_at(None, monotonic()).unwrap();
    let again = driven.remote.follow_asked_at(None, monotonic()).unwrap();
    assert!(stopped.changed && !again.changed);
    driven.send(1, 1_000);
    driven.receive();
    assert_eq!(driven.remote.snapshot().unwrap().trace, None);
    let left = driven.drain();
    let followed = left.ledger.events.iter().filter_map(|event| match event {
        Event::Followed { at, asked, trace } => Some((*at, *asked, trace.clone())),
        _ => None,
    });
    let followed: Vec<_> = followed.collect();
    assert_eq!(followed.len(), 2);
    assert_eq!(followed[0], (applied.at, asked, Some(opportunities(1).1)));
    assert_eq!((followed[1].0, &followed[1].2), (stopped.at, &None));
    let departures = left.ledger.departures();
    for (_, due, stages) in &departures[..5] {
        assert_eq!((*due - Duration::from_millis(1)).since(applied.at).as_nanos() % 1_000_000, 0);
        assert!(stages.queue <= Duration::from_millis(1));
    }
    assert_eq!(departures[5].2.queue, Duration::ZERO);
}

fn a_trace_that_cannot_be_followed_changes_nothing() {
    let driven = Driven::start("rate=8mbit burst=10kb queue=tbf limit=100kb");
    let before = driven.remote.snapshot().unwrap();
    let refused = driven.remote.follow_asked_at(Some(opportunities(1)), monotonic()).unwrap_err();
    assert!(matches!(&refused, Refused::Config(error) if error.place == "queue"), "{refused:?}");
    let after = driven.remote.snapshot().unwrap();
    assert_eq!((after.config, after.trace), (before.config, None));
    assert!(driven.end().ledger.events.is_empty());
}

/// One of 1,500 bytes every so many ms, from now on.
fn opportunities(ms: u64) -> (TraceOptions, Trace) {
    let span = Duration::from_millis(ms);
    let at = vec![Delivery { at: span, count: 1 }];
    let course = Course::Deliveries { at, opportunity: Opportunity::IP };
    let schedule = Schedule::new(Timeline { course, span }).unwrap();
    let start = TraceStart::AtOnce;
    let trace = Trace { repeat: true, start, ..Trace::new(Arc::new(schedule)) };
    (TraceOptions::default(), trace)
}

fn change(words: &str) -> Change {
    Change::from_words(words, "set").unwrap()
}
