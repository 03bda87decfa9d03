//! jens beside the modules sch_janz and sch_multijens.

mod file;
mod records;
mod run;

use crate::compare::{TOLERANCE, exactly};
use crate::file::Vector;
use file::Recording;
use run::{Outcome, run};

/// Fates, marks, departures, records and `tc`'s counters. Where a ramp marks, chance does, and the
/// module's marks are compared by their number.
fn agree(name: &'static str, tolerance: u64) {
    let recording = Recording::read(name);
    let outcome = run(&recording, 1);
    let chance = recording.config.jens.mark_free < recording.config.jens.mark_full;
    if chance {
        exactly(&with_marks(&recording.vector, &outcome), &outcome.run, tolerance);
        marks_agree_by_chance(&recording);
    } else {
        exactly(&recording.vector, &outcome.run, tolerance);
    }
    records::equal(&recording, &outcome.records, tolerance, chance);
    let printed: Vec<_> = recording.vector.after[1..].iter().map(|line| line.trim()).collect();
    assert_eq!(outcome.shown, printed.join("\n"), "{name}");
}

/// The module's numbers of marks decided and of marks set lie between the 0.5th and the 99.5th
/// percentile of ours over 1,000 seeds.
fn marks_agree_by_chance(recording: &Recording) {
    let ours: Vec<(u64, u64)> = (0..1_000)
        .map(|seed| {
            let statistics = run(recording, seed).statistics;
            (statistics.marked, statistics.marked - statistics.not_capable)
        })
        .collect();
    let rows = recording.vector.rows.iter().filter(|row| row.left.is_some());
    let set = rows.filter(|row| row.tos & 3 != 3 && row.tos_left & 3 == 3).count() as u64;
    let decided = records::marks(recording);
    for (what, theirs, mut ours) in [
        ("decided", decided, ours.iter().map(|(decided, _)| *decided).collect::<Vec<_>>()),
        ("set", set, ours.iter().map(|(_, set)| *set).collect()),
    ] {
        ours.sort_unstable();
        let (low, high, name) = (ours[5], ours[994], recording.vector.name);
        assert!((low..=high).contains(&theirs), "{name}: {theirs} {what}, ours {low} to {high}");
    }
}

/// The recording as if chance had marked what we marked.
fn with_marks(vector: &Vector, outcome: &Outcome) -> Vector {
    let mut vector = vector.clone();
    for row in &mut vector.rows {
        let ours = outcome.run.left.iter().find(|left| left.id == row.id);
        row.tos_left = ours.map_or(row.tos_left, |left| row.tos | if left.ce { 3 } else { 0 });
    }
    vector
}

#[test]
fn packets_are_paced_from_the_ideal_time_of_the_one_before() {
    for name in ["jens-burst", "jens-busy", "jens-rate15", "jens-rate-fast"] {
        agree(name, TOLERANCE);
    }
}

#[test]
fn a_step_marks_by_queue_delay() {
    agree("jens-step", TOLERANCE);
    agree("jens-step-notect", TOLERANCE);
}

#[test]
fn a_ramp_marks_by_chance() {
    agree("jens-ramp", TOLERANCE);
}

#[test]
fn extra_latency_is_frozen_when_a_packet_arrives() {
    agree("jens-extralatency", TOLERANCE);
    agree("jens-extralatency-rate", TOLERANCE);
    agree("jens-latency-lowered", TOLERANCE);
    agree("jens-latency-raised", TOLERANCE);
}

#[test]
fn fifos_are_served_in_strict_order() {
    for name in ["jens-fifos", "jens-qosmode1", "jens-qosmode2"] {
        agree(name, TOLERANCE);
    }
}

#[test]
fn old_packets_are_dropped_every_200_ms() {
    // Thousands of enqueues each moved the recording's clock a little.
    agree("jens-age", 4_000);
}

#[test]
fn the_limit_drops_from_the_head_of_the_last_fifo() {
    agree("jens-limit", TOLERANCE);
}

#[test]
fn a_handover_stops_service_and_lets_packets_age() {
    agree("jens-handover", TOLERANCE);
    agree("jens-handover-long", TOLERANCE);
}

#[test]
fn a_new_rate_holds_from_the_next_packet_on() {
    for name in ["jens-ratechange", "jens-ratefast", "jens-tcrate"] {
        agree(name, TOLERANCE);
    }
}

#[test]
fn users_are_served_by_turns() {
    agree("jens-users", TOLERANCE);
}
