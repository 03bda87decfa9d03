use proptest::prelude::*;
use punctual::log::{
    Arrival, Bytes, Decoder, Departure, Direction, Dropped, Encoder, Entry, LogReader, ReadError,
    Record,
};
use punctual::verify::verify;
use punctual_sched::config::Limit;
use punctual_sched::impair::Loss;
use punctual_sched::units::Probability;
use punctual_sched::{BitFlip, Change, DropReason, Duration, Ecn, Instant, Mark, Rate};

use crate::changes::{CHANGES, add};
use crate::rewrite::{Parts, parts};
use crate::run::{SCENARIOS, Scenario};

fn nanos() -> impl Strategy<Value = u64> {
    prop_oneof![0..50_u64, 0..10_000_000_000_u64, any::<u64>(), Just(u64::MAX)]
}

fn arrival() -> impl Strategy<Value = Record> {
    (nanos(), 1..=u32::MAX, 1..=u16::MAX, any::<u32>(), any::<u32>(), any::<u8>()).prop_map(
        |(at, len, segments, flow, mark, tos)| {
            let (at, ecn) = (Instant::from_nanos(at), Ecn::from_tos(tos));
            Record::Arrival(Arrival { at, len, segments, flow, mark, dscp: tos >> 2, ecn })
        },
    )
}

fn departure() -> impl Strategy<Value = Record> {
    let marks = prop_oneof![Just(Mark::None), Just(Mark::Decided), Just(Mark::Ce)];
    let spans = (nanos(), nanos(), nanos(), nanos());
    let rare = (prop_oneof![Just(0), any::<u8>()], any::<Option<u32>>());
    (nanos(), nanos(), spans, (marks, rare), any::<Option<i64>>()).prop_map(
        |(sequence, due, spans, (mark, (copy, corrupt)), lateness_ns)| {
            let (delay, queue, serialisation, pacing) = spans;
            Record::Departure(Departure {
                sequence,
                copy,
                corrupt: corrupt.map(BitFlip),
                due: Instant::from_nanos(due),
                delay: Duration::from_nanos(delay),
                queue: Duration::from_nanos(queue),
                serialisation: Duration::from_nanos(serialisation),
                pacing: Duration::from_nanos(pacing),
                mark,
                lateness_ns,
            })
        },
    )
}

fn dropped() -> impl Strategy<Value = Record> {
    let copy = prop_oneof![Just(0), any::<u8>()];
    (nanos(), 0..DropReason::ALL.len(), nanos(), nanos(), copy).prop_map(
        |(sequence, reason, at, delay, copy)| {
            let (at, delay) = (Instant::from_nanos(at), Duration::from_nanos(delay));
            Record::Drop(Dropped { sequence, copy, reason: DropReason::ALL[reason], at, delay })
        },
    )
}

fn loss() -> impl Strategy<Value = Loss> {
    (0..4, any::<[u32; 5]>()).prop_map(|(model, shares)| {
        let [p13, p31, p32, p23, p14] = shares.map(Probability::from_raw);
        match model {
            0 => Loss::None,
            1 => Loss::Random { probability: p13, correlation: p31 },
            2 => Loss::GilbertElliott { p: p13, r: p31, one_minus_h: p32, one_minus_k: p23 },
            _ => Loss::FourState { p13, p31, p32, p23, p14 },
        }
    })
}

fn change() -> impl Strategy<Value = Record> {
    let span = || prop::option::of(nanos().prop_map(Duration::from_nanos));
    let rate = prop::option::of(prop_oneof![0..=1_000_000_000_000_u64, Just(u64::MAX)]);
    let limit = prop_oneof![
        any::<u32>().prop_map(Limit::Packets),
        any::<u64>().prop_map(Limit::Bytes),
        nanos().prop_map(|span| Limit::Time(Duration::from_nanos(span))),
    ];
    let loss = prop::option::of(loss());
    let values = (rate, span(), span(), loss, prop::option::of(limit));
    let words = prop::collection::vec(prop::sample::select(CHANGES), 0..3);
    (nanos(), values, words).prop_map(|(at, (rate, delay, jitter, loss, limit), words)| {
        let rate = rate.and_then(Rate::from_bps);
        let mut change = Change { rate, delay, jitter, loss, limit, ..Change::default() };
        for words in words {
            add(&mut change, words);
        }
        Record::Change { at: Instant::from_nanos(at), change }
    })
}

fn record() -> impl Strategy<Value = Record> {
    prop_oneof![arrival(), departure(), dropped(), change()]
}

/// Reads to the end or the first error.
fn read_all(log: &[u8]) -> Result<(), ReadError> {
    let mut reader = LogReader::new(log)?;
    while !matches!(reader.read()?, Entry::End(_)) {}
    Ok(())
}

fn small() -> Scenario {
    Scenario { packets: 150, ..SCENARIOS[10] }
}

proptest! {
    #[test]
    fn every_record_is_read_as_it_was_written(records in prop::collection::vec(record(), 1..40)) {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        let mut out = Vec::new();
        for record in &records {
            let before = out.len();
            encoder.encode(record, &mut out);
            let others = match record {
                Record::Change { change, .. } => change.others.iter().map(|(name, value)| {
                    // Their number, and two lengths of one or two bytes.
                    name.len() + value.len() + 5
                }).sum(),
                _ => 0,
            };
            prop_assert!(out.len() - before <= 80 + others);
        }
        let mut bytes = Bytes::new(&out);
        for record in records {
            prop_assert_eq!(decoder.decode(&mut bytes), Ok(record));
        }
        prop_assert!(bytes.is_empty());
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut decoder = Decoder::default();
        let mut bytes = Bytes::new(&bytes);
        while decoder.decode(&mut bytes).is_ok() {}
    }

    #[test]
    fn bytes_that_are_no_log_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut front = b"PUNCTLOG\x01\0\0\0".to_vec();
        // The beginning of a log is one that was cut off.
        let cut = front.starts_with(&bytes);
        prop_assert!(cut || matches!(read_all(&bytes), Err(ReadError::NotALog)));
        front.extend(&bytes);
        prop_assert!(read_all(&front).is_err());
    }

    #[test]
    fn a_damaged_log_never_passes_for_identical(
        damage in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..4),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let mut log = small().log();
        let whole = log.clone();
        for (at, xor) in damage {
            let at = at.index(log.len());
            log[at] ^= xor;
        }
        if let Some(cut) = cut {
            log.truncate(cut.index(log.len()));
        }
        prop_assume!(log != whole);
        let outcome = LogReader::new(&log[..]).and_then(verify);
        prop_assert!(outcome.is_err() || outcome.is_ok_and(|outcome| outcome.code() == 1));
    }

    #[test]
    fn forged_records_with_right_checksums_are_only_different(
        forged in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), record()), 1..6),
        start in nanos(),
    ) {
        let mut altered: Parts = parts(&small().log());
        altered.header.down.start_ns = start;
        altered.header.down.link.0.insert("hold".into(), format!("{}b", start | 1));
        for (at, up, record) in forged {
            let at = at.index(altered.records.len());
            let direction = if up { Direction::Up } else { Direction::Down };
            altered.records.insert(at, (direction, record));
        }
        let log = altered.log();
        // Neither a panic nor an error; a change late in the run may be without effect.
        prop_assert!(verify(LogReader::new(&log[..]).unwrap()).is_ok());
    }
}

#[test]
fn a_log_of_another_version_is_named() {
    let mut log = SCENARIOS[0].log();
    log[8] = 2;
    let error = read_all(&log).unwrap_err().to_string();
    assert_eq!(error, "a log of version 2; this program reads version 1");
}

#[test]
fn what_follows_the_trailer_is_refused() {
    let mut log = SCENARIOS[0].log();
    log.push(0);
    assert!(matches!(read_all(&log), Err(ReadError::Damaged { .. })));
}

#[test]
fn a_frame_of_more_than_a_mebibyte_is_refused_before_it_is_read() {
    let mut log = b"PUNCTLOG\x01\0\0\0H\0\0\0\0\0\0\0".to_vec();
    log.extend_from_slice(&(1_u32 << 20 | 1).to_le_bytes());
    log.extend_from_slice(&[0; 4]);
    assert!(matches!(read_all(&log), Err(ReadError::Damaged { .. })));
}
