use punctual::log::{Damage, Departure, Dropped, LogReader, ReadError, Record};
use punctual::verify::{Difference, Outcome, verify};
use punctual_sched::{BitFlip, DropReason, Duration, Instant, Mark, Rate};

use crate::rewrite::{Parts, parts};
use crate::run::SCENARIOS;

const NS: Duration = Duration::from_nanos(1);

type Alteration<T> = (&'static str, fn(&mut T));

/// Each with the field in which it must show.
const OF_DEPARTURES: [Alteration<Departure>; 10] = [
    ("packet", |fate| fate.sequence += 1),
    ("due", |fate| fate.due = fate.due + NS),
    ("due", |fate| fate.due = fate.due - NS),
    ("delay", |fate| fate.delay = fate.delay + NS),
    ("copy", |fate| fate.copy = 1),
    ("corrupt", |fate| fate.corrupt = Some(BitFlip(0))),
    ("mark", |fate| fate.mark = Mark::Ce),
    ("queue", |fate| fate.queue = fate.queue + NS),
    ("serialisation", |fate| fate.serialisation = fate.serialisation + NS),
    ("pacing", |fate| fate.pacing = fate.pacing + NS),
];

const OF_DROPS: [Alteration<Dropped>; 5] = [
    ("packet", |fate| fate.sequence -= 1),
    ("copy", |fate| fate.copy = 1),
    ("reason", |fate| fate.reason = DropReason::HoldFull),
    ("at", |fate| fate.at = fate.at + NS),
    ("delay", |fate| fate.delay = fate.delay + NS),
];

fn difference(altered: Parts, what: &str) -> Difference {
    let log = altered.log();
    let outcome = verify(LogReader::new(&log[..]).unwrap()).unwrap();
    assert_eq!(outcome.code(), 1);
    match outcome {
        Outcome::Different(difference) => difference,
        other => panic!("{what}: {other}"),
    }
}

/// Some of all, first and last included.
fn some(positions: &[usize]) -> impl Iterator<Item = usize> + '_ {
    let step = (positions.len() / 7).max(1);
    positions.iter().copied().step_by(step).chain(positions.last().copied())
}

#[test]
fn an_arrival_one_nanosecond_off_shows() {
    for run in SCENARIOS {
        let original = parts(&run.log());
        let fated = |at: &usize| has_fate(&original, *at);
        let arrivals = original.positions(|record| matches!(record, Record::Arrival(_)));
        let arrivals: Vec<_> = arrivals.into_iter().filter(fated).collect();
        for at in some(&arrivals) {
            for earlier in [false, true] {
                let mut altered = original.clone();
                let Record::Arrival(arrival) = &mut altered.records[at].1 else { unreachable!() };
                arrival.at = if earlier { arrival.at - NS } else { arrival.at + NS };
                difference(altered, &format!("{} record {at} earlier {earlier}", run.name));
            }
        }
    }
}

/// Whether the log says what became of the packet. What was still held at the end has no fate
/// that its arrival could contradict.
fn has_fate(parts: &Parts, at: usize) -> bool {
    let direction = parts.records[at].0;
    let mine = parts.records.iter().enumerate().filter(|(_, (of, _))| *of == direction);
    let arrived = mine.clone().filter(|(i, (_, r))| *i <= at && matches!(r, Record::Arrival(_)));
    let number = arrived.count() as u64;
    mine.skip_while(|(i, _)| *i < at).any(|(_, (_, record))| match record {
        Record::Departure(fate) => fate.sequence == number,
        Record::Drop(fate) => fate.sequence == number,
        _ => false,
    })
}

#[test]
fn any_altered_departure_shows_in_the_field_altered() {
    for run in SCENARIOS {
        let original = parts(&run.log());
        let departures = original.positions(|record| matches!(record, Record::Departure(_)));
        for at in some(&departures) {
            for (field, alter) in OF_DEPARTURES {
                let mut altered = original.clone();
                let Record::Departure(fate) = &mut altered.records[at].1 else { unreachable!() };
                alter(fate);
                let number = fate.sequence;
                let direction = altered.records[at].0;
                let found = difference(altered, run.name);
                if found.field == "fate" {
                    // The last packet of all, renamed to one that never arrived.
                    assert_eq!(field, "packet", "{found}");
                    continue;
                }
                assert_eq!(found.field, field, "{}: {found}", run.name);
                assert_eq!(
                    (found.place.direction, found.packet),
                    (direction, Some(number)),
                    "{found}"
                );
            }
        }
    }
}

#[test]
fn any_altered_drop_shows_in_the_field_altered() {
    let mut seen = 0;
    for run in SCENARIOS {
        let original = parts(&run.log());
        let drops = original.positions(|record| matches!(record, Record::Drop(_)));
        for at in some(&drops) {
            for (field, alter) in OF_DROPS {
                let mut altered = original.clone();
                let Record::Drop(fate) = &mut altered.records[at].1 else { unreachable!() };
                alter(fate);
                let found = difference(altered, run.name);
                // Packet 1 renamed to 0, which is nobody's number.
                assert!(found.field == field || found.field == "fate", "{}: {found}", run.name);
                seen += 1;
            }
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn a_record_left_out_or_told_twice_shows() {
    for run in SCENARIOS {
        let original = parts(&run.log());
        let all: Vec<_> = (0..original.records.len()).collect();
        for at in some(&all) {
            let mut altered = original.clone();
            let record = altered.records.remove(at);
            difference(altered, run.name);
            if matches!(record.1, Record::Change { .. }) {
                continue;
            }
            let mut altered = original.clone();
            altered.records.insert(at, record);
            difference(altered, run.name);
        }
    }
}

#[test]
fn two_departures_swapped_show() {
    for run in SCENARIOS {
        let original = parts(&run.log());
        let departures = original.positions(|record| matches!(record, Record::Departure(_)));
        let first = departures[departures.len() / 2];
        let direction = original.records[first].0;
        let next = departures
            .into_iter()
            .find(|&at| at > first && original.records[at].0 == direction)
            .unwrap();
        let mut altered = original.clone();
        altered.records.swap(first, next);
        let found = difference(altered, run.name);
        assert!(["packet", "fate"].contains(&found.field.as_str()), "{found}");
    }
}

#[test]
fn an_altered_change_shows() {
    let original = parts(&SCENARIOS[10].log());
    let changes = original.positions(|record| matches!(record, Record::Change { .. }));
    assert_eq!(changes.len(), 14);
    for at in changes {
        let mut altered = original.clone();
        let Record::Change { change, .. } = &mut altered.records[at].1 else { unreachable!() };
        change.rate = Rate::from_bps(3_000_001);
        difference(altered, "rate");
        let mut altered = original.clone();
        altered.records.remove(at);
        difference(altered, "left out");
    }
}

fn set(parts: &mut Parts, name: &str, value: &str) {
    parts.header.down.link.0.insert(name.to_owned(), value.to_owned());
}

#[test]
fn an_altered_seed_parameter_counter_or_end_shows() {
    let original = parts(&SCENARIOS[5].log());
    let alterations: [Alteration<Parts>; 6] = [
        ("seed", |parts| parts.header.up.seed += 1),
        ("parameter", |parts| set(parts, "delay", "1ns")),
        ("packets_out", |parts| parts.ends[0].end.as_mut().unwrap().snapshot.packets_out += 1),
        ("dropped.loss", |parts| {
            *parts.ends[1].end.as_mut().unwrap().snapshot.dropped.get_mut("loss").unwrap() += 1;
        }),
        ("queued", |parts| parts.ends[1].end.as_mut().unwrap().snapshot.queued += 1),
        ("end", |parts| parts.ends[1].end.as_mut().unwrap().end_ns = 1),
    ];
    for (what, alter) in alterations {
        let mut altered = original.clone();
        alter(&mut altered);
        let found = difference(altered, what);
        if !["seed", "parameter"].contains(&what) {
            assert_eq!(found.field, what, "{found}");
        }
    }
}

#[test]
fn a_difference_is_shown_with_its_neighbourhood() {
    let mut altered = parts(&SCENARIOS[1].log());
    let departures = altered.positions(|record| matches!(record, Record::Departure(_)));
    let at = departures[departures.len() / 4];
    let Record::Departure(fate) = &mut altered.records[at].1 else { unreachable!() };
    let (number, due) = (fate.sequence, fate.due.as_nanos());
    fate.due = Instant::from_nanos(due + 1);
    let found = difference(altered, "due");
    let direction = found.place.direction.name();
    let text = found.to_string();
    let first = format!(
        "different: direction {direction}, packet {number}, due: log {} ns, replay {due} ns",
        due + 1
    );
    assert_eq!(text.lines().next(), Some(first.as_str()));
    let side = |side| found.near.iter().filter(|near| near.side == side).count();
    assert_eq!([side("both"), side("log"), side("replay")], [3, 4, 4], "{text}");
    let json = Outcome::Different(found).to_json();
    assert_eq!(json["packet"], number);
    assert_eq!(json["near"].as_array().map(Vec::len), Some(11));
}

#[test]
fn a_flipped_bit_is_told_by_the_checksum() {
    let log = SCENARIOS[1].log();
    let mut damaged = 0;
    for at in (12..log.len()).step_by(251) {
        let mut flipped = log.clone();
        flipped[at] ^= 0x10;
        let result = LogReader::new(&flipped[..]).and_then(verify);
        match result {
            Err(ReadError::Damaged { problem: Damage::Checksum, .. }) => damaged += 1,
            // In a head's length the frame may seem cut off, or its head be none.
            Err(ReadError::Damaged { problem: Damage::Head, .. }) | Ok(Outcome::Incomplete(_)) => {}
            other => panic!("byte {at}: {other:?}"),
        }
    }
    assert!(damaged > 100, "{damaged}");
}
