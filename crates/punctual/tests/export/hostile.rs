//! Logs that nobody's run wrote.

use proptest::prelude::*;
use punctual::export::{ExportError, Format};
use punctual::log::{Arrival, Departure, Direction, Dropped, Record};
use punctual_sched::{BitFlip, DropReason, Duration, Ecn, Instant, Mark};

use crate::capture::Capture;
use crate::made::{arrival, departure, dropped, exported, log_of, one_of_each, request};
use crate::run::SCENARIOS;

const ALL: [Format; 4] = [Format::Csv, Format::Parquet, Format::Pcapng, Format::Jens];

fn refused(records: &[Record]) -> String {
    let records: Vec<_> = records.iter().map(|record| (Direction::Up, record.clone())).collect();
    let log = log_of(&records);
    let mut texts = ALL.map(|format| {
        let mut out = Vec::new();
        let error = punctual::export::export(
            &mut std::io::Cursor::new(&log),
            &request(format),
            &mut out,
            None,
        );
        assert!(out.is_empty(), "nothing is written before the log is known to be good");
        error.unwrap_err().to_string()
    });
    texts.sort();
    assert_eq!(texts[0], texts[3]);
    texts[0].clone()
}

#[test]
fn fates_that_cannot_be_are_refused() {
    let twice =
        [arrival(1000, 1, 1, 0), dropped(1, 0, DropReason::Loss), dropped(1, 0, DropReason::Loss)];
    assert_eq!(
        refused(&twice),
        "the log contradicts itself: direction up: packet 1 has a second fate"
    );
    for sequence in [0, 2, u64::MAX] {
        let fate = Record::Departure(Departure { sequence, ..departure(1) });
        let text = refused(&[arrival(1000, 1, 1, 0), fate]);
        let expected = format!("packet {sequence} has a fate, and 1 have arrived");
        assert!(text.ends_with(&expected), "{text}");
    }
}

#[test]
fn a_duplicate_may_have_its_fate_long_after_its_packet_within_reason() {
    let mut records = vec![arrival(1000, 777, 1, 9), dropped(1, 0, DropReason::Loss)];
    for sequence in 2..50_000 {
        records.push(arrival(1000 * sequence, 1, 1, 0));
        records.push(dropped(sequence, 0, DropReason::Loss));
    }
    records.push(Record::Departure(Departure { copy: 1, ..departure(1) }));
    let records: Vec<_> = records.into_iter().map(|record| (Direction::Up, record)).collect();
    let (out, summary) = exported(&log_of(&records), &request(Format::Csv)).unwrap();
    let last = String::from_utf8(out).unwrap();
    assert!(last.lines().last().unwrap().starts_with("up,1,1,out,1000,"), "{last}");
    assert!(last.lines().last().unwrap().contains(",777,1,00000009,"));
    assert!(summary.peak_packets <= 50_001, "{}", summary.peak_packets);
}

#[test]
fn damage_is_refused_as_by_verify() {
    let log = SCENARIOS[1].log();
    for at in [100, log.len() / 2, log.len() - 3] {
        let mut damaged = log.clone();
        damaged[at] ^= 0x10;
        for format in ALL {
            let error = exported(&damaged, &request(format)).unwrap_err();
            assert!(matches!(error, ExportError::Read(_)), "{error}");
            assert!(error.to_string().contains("damaged"), "{error}");
        }
    }
}

#[test]
fn a_log_without_packets_is_an_empty_table() {
    let log = log_of(&[]);
    for format in [Format::Csv, Format::Parquet, Format::Pcapng] {
        if format == Format::Parquet && cfg!(not(feature = "parquet")) {
            continue;
        }
        let (out, summary) = exported(&log, &request(format)).unwrap();
        assert_eq!(summary.rows, 0);
        assert!(!out.is_empty());
    }
}

fn nanos() -> impl Strategy<Value = u64> {
    prop_oneof![0..50_u64, 0..10_000_000_000_u64, any::<u64>(), Just(u64::MAX)]
}

fn forged() -> impl Strategy<Value = Record> {
    let arrival = (nanos(), 1..=u32::MAX, 1..=u16::MAX, any::<u32>(), any::<u8>()).prop_map(
        |(at, len, segments, flow, tos)| {
            let (at, ecn) = (Instant::from_nanos(at), Ecn::from_tos(tos));
            Record::Arrival(Arrival { at, len, segments, flow, mark: flow, dscp: tos >> 2, ecn })
        },
    );
    let departure =
        ((1..6_u64, 0..3_u8), [nanos(), nanos(), nanos(), nanos()], any::<Option<i64>>()).prop_map(
            |((sequence, copy), [due, delay, queue, serialisation], lateness_ns)| {
                Record::Departure(Departure {
                    sequence,
                    copy,
                    corrupt: lateness_ns.map(|_| BitFlip(u32::MAX)),
                    due: Instant::from_nanos(due),
                    delay: Duration::from_nanos(delay),
                    queue: Duration::from_nanos(queue),
                    serialisation: Duration::from_nanos(serialisation),
                    pacing: Duration::from_nanos(queue),
                    mark: Mark::Ce,
                    lateness_ns,
                })
            },
        );
    let dropped = ((1..6_u64, 0..3_u8), 0..DropReason::ALL.len(), nanos(), nanos()).prop_map(
        |((sequence, copy), reason, at, delay)| {
            let (at, delay) = (Instant::from_nanos(at), Duration::from_nanos(delay));
            Record::Drop(Dropped { sequence, copy, reason: DropReason::ALL[reason], at, delay })
        },
    );
    prop_oneof![3 => arrival, 1 => departure, 1 => dropped]
}

proptest! {
    #[test]
    fn no_records_make_an_export_panic(
        records in prop::collection::vec((any::<bool>(), forged()), 1..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let direction = |up| if up { Direction::Up } else { Direction::Down };
        let records: Vec<_> =
            records.into_iter().map(|(up, record)| (direction(up), record)).collect();
        let log = log_of(&records);
        for format in [Format::Csv, Format::Parquet, Format::Pcapng] {
            let Ok((out, _)) = exported(&log, &request(format)) else { continue };
            if format == Format::Pcapng {
                Capture::parse(&out);
            }
        }
        let _ = exported(&log[..cut.index(log.len())], &request(Format::Pcapng));
    }

    #[test]
    fn no_damage_makes_an_export_panic(at in any::<prop::sample::Index>(), by in 1_u8..) {
        let mut log = one_of_each();
        let at = at.index(log.len());
        log[at] ^= by;
        for format in ALL {
            let _ = exported(&log, &request(format));
        }
    }
}
