//! Changes of every parameter in a log.

use std::collections::BTreeSet;

use punctual::log::{Bytes, DecodeError, Decoder, Encoder, LogReader, Record};
use punctual::verify::{Outcome, verify};
use punctual_sched::{Change, Duration, Instant, Live, Rate, parameters};

use crate::changes::CHANGES;
use crate::rewrite::{Parts, parts};
use crate::run::{Scenario, scenario};

/// Every change that there are words for, one each 5 ms: in links that keep their queues, where
/// every parameter of a queue can be taken, and in links that do not.
fn runs() -> Vec<Scenario> {
    const LINKS: [(&str, &str); 6] = [
        ("rate=20mbit delay=5ms", "rate=10mbit queue=fq fq.maxrate=8gbit"),
        ("rate=10mbit queue=fq_codel delay=2ms jitter=1ms", "rate=10mbit queue=tbf burst=20kb"),
        ("rate=10mbit queue=dualpi2", "rate=10mbit queue=jens delay=3ms"),
        ("rate=10mbit delay=5ms impair=netem", "rate=10mbit queue=codel loss=1%"),
        ("rate=20mbit delay=5ms", "rate=5mbit nic=10mbit"),
        ("rate=20mbit delay=5ms", "rate=5mbit"),
    ];
    let of_queue = |words: &&&str| words.starts_with("queue=");
    let run = |(number, (up, down)): (usize, (&'static str, &'static str))| {
        let words: Vec<_> = match number {
            4 => CHANGES.iter().collect(),
            5 => CHANGES.iter().rev().filter(of_queue).collect(),
            _ => CHANGES.iter().filter(|words| !of_queue(words)).collect(),
        };
        let changes: Vec<_> = (0..).step_by(5).zip(words.into_iter().copied()).collect();
        scenario("every parameter", up, down, changes.leak(), 450_000)
    };
    LINKS.into_iter().enumerate().map(run).collect()
}

fn changes(parts: &Parts) -> impl Iterator<Item = &Change> {
    parts.records.iter().filter_map(|(_, record)| match record {
        Record::Change { change, .. } => Some(change),
        _ => None,
    })
}

fn outcome(log: &[u8]) -> Outcome {
    verify(LogReader::new(log).unwrap()).unwrap()
}

#[test]
fn changes_of_every_parameter_replay_identically() {
    let mut named = BTreeSet::new();
    for run in runs() {
        let log = run.log();
        let parts = parts(&log);
        named.extend(changes(&parts).flat_map(Change::names));
        let outcome = outcome(&log);
        assert_eq!(outcome.code(), 0, "{} and {}: {outcome}", run.up, run.down);
        assert_eq!(parts.log(), log, "taken apart and put together it is the same file");
    }
    let live = parameters().filter(|row| !matches!(row.live, Live::No(_))).map(|row| row.name);
    let missing: Vec<_> = live.filter(|name| !named.contains(name)).collect();
    assert_eq!(missing, Vec::<&str>::new(), "no link of these has taken it");
}

#[test]
fn an_altered_change_of_any_parameter_that_decides_something_shows() {
    let words: &[(u64, &str)] = &[
        (100, "queue=fq fq.maxrate=1mbit limit=auto"),
        (200, "queue=tbf burst=20kb limit=auto"),
        (300, "burst=3kb tbf.mpu=400b"),
        (400, "queue=codel burst=none codel.interval=20ms"),
        (500, "duplicate=30%"),
        (600, "delay=3ms jitter=3ms,40%"),
        (700, "nic=5mbit"),
        (800, "slot=2ms"),
    ];
    let run = scenario("decisive", "rate=10mbit", "rate=10mbit", words, 700_000);
    let original = parts(&run.log());
    assert_eq!(outcome(&original.clone().log()).code(), 0);
    let at = original.positions(|record| matches!(record, Record::Change { .. }));
    assert_eq!(at.len(), 16);
    for at in at {
        let mut left_out = original.clone();
        left_out.records.remove(at);
        assert_eq!(outcome(&left_out.log()).code(), 1, "{:?} left out", original.records[at]);
        let mut later = original.clone();
        let Record::Change { at: when, .. } = &mut later.records[at].1 else { unreachable!() };
        *when = *when + Duration::from_millis(1_000);
        assert_eq!(outcome(&later.log()).code(), 1, "{:?} later", original.records[at]);
        let mut altered = original.clone();
        let Record::Change { change, .. } = &mut altered.records[at].1 else { unreachable!() };
        change.set("corrupt", "50%").unwrap();
        assert_eq!(outcome(&altered.log()).code(), 1, "{:?} altered", original.records[at]);
    }
}

#[test]
fn a_change_that_the_link_refuses_in_replay_shows() {
    let run = scenario("refused", "rate=10mbit", "", &[(100, "rate=9mbit")], 700_000);
    let mut altered = parts(&run.log());
    let at = altered.positions(|record| matches!(record, Record::Change { .. }))[0];
    let Record::Change { change, .. } = &mut altered.records[at].1 else { unreachable!() };
    change.set("fq.quantum", "3000").unwrap();
    let outcome = outcome(&altered.log());
    let Outcome::Different(difference) = outcome else { panic!("{outcome}") };
    assert_eq!(difference.field, "change");
    assert_eq!(difference.replayed, "refused: fq.quantum: needs queue=fq");
}

#[test]
fn a_change_of_values_alone_is_written_as_ever() {
    // Time 5, 1000 bit/s, 5 ns, 3 ns, random loss of 10 / 2^32 without correlation, 20 packets.
    const BYTES: [u8; 12] = [0x7f, 10, 0xe8, 0x07, 5, 3, 1, 10, 0, 0, 20, 0x03];
    let mut bytes = Bytes::new(&BYTES[..11]);
    let record = Decoder::default().decode(&mut bytes).unwrap();
    let Record::Change { at, change } = &record else { panic!("{record:?}") };
    assert_eq!((*at, change.rate), (Instant::from_nanos(5), Rate::from_bps(1_000)));
    let words: Vec<_> = change.entries().into_iter().map(|(name, _)| name).collect();
    assert_eq!(words, ["rate", "delay", "jitter", "loss", "limit"]);
    let mut out = Vec::new();
    Encoder::default().encode(&record, &mut out);
    assert_eq!(out, BYTES[..11]);
}

#[test]
fn any_other_parameter_is_written_by_its_name() {
    let change = Change::from_words("rate=1kbit burst=9kb", "test").unwrap();
    let record = Record::Change { at: Instant::from_nanos(5), change };
    let mut out = Vec::new();
    Encoder::default().encode(&record, &mut out);
    assert_eq!(out, b"\x87\x0a\xe8\x07\x01\x05burst\x039kb");
    assert_eq!(Decoder::default().decode(&mut Bytes::new(&out)), Ok(record));
}

#[test]
fn a_table_of_the_greatest_size_is_read_back() {
    let mut change = Change::default();
    change.set("distribution", &format!("table:{}", "7fff".repeat(16_384))).unwrap();
    let record = Record::Change { at: Instant::ZERO, change };
    let mut out = Vec::new();
    Encoder::default().encode(&record, &mut out);
    assert!(out.len() > 65_536);
    assert_eq!(Decoder::default().decode(&mut Bytes::new(&out)), Ok(record));
}

#[test]
fn what_no_change_can_say_is_no_record() {
    for (others, what) in [
        (&b"\x00"[..], "none"),
        (b"\x01\x05burst\x03fast", "a value that cannot be read"),
        (b"\x01\x05burnt\x039kb", "no parameter"),
        (b"\x01\x03gso\x05split", "fixed"),
        (b"\x01\x04rate\x051mbit", "one with a field"),
        (b"\x02\x05burst\x039kb\x05burst\x038kb", "one twice"),
        (b"\x01\x05burst\x02\xff\xfe", "no text"),
    ] {
        let record = [&[0x83, 10][..], others].concat();
        let read = Decoder::default().decode(&mut Bytes::new(&record));
        assert!(matches!(read, Err(DecodeError::Range(_))), "{what}: {read:?}");
    }
    for cut in
        [&b"\x01"[..], b"\x01\x05bur", b"\x01\x05burst", b"\x01\x05burst\x039k", b"\xff\xff\x7f"]
    {
        let record = [&[0x83, 10][..], cut].concat();
        let read = Decoder::default().decode(&mut Bytes::new(&record));
        assert_eq!(read, Err(DecodeError::Short), "{cut:?}");
    }
}
