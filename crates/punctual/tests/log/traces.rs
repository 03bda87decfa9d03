//! Links that follow traces: the log holds them, and a replay needs nothing else.

use std::sync::Arc;

use proptest::prelude::*;
use punctual::log::{
    BlockWriter, Direction, DirectionEnd, DirectionHeader, EndRecord, Entry, Epoch, Header,
    LogReader, LogWriter, Record,
};
use punctual::verify::{Outcome, verify};
use punctual_sched::trace::{
    Course, Delivery, Opportunity, Schedule, Step, Timeline, Trace, TraceStart,
};
use punctual_sched::{
    ConfigBuilder, Duration, Instant, Link, LinkConfig, Output, Packet, Probability, Rate,
};

use crate::rewrite::parts;
use crate::run::START;

const MS: u64 = 1_000_000;

fn schedule(course: Course, span: u64) -> Arc<Schedule> {
    Arc::new(Schedule::new(Timeline { course, span: Duration::from_nanos(span) }).unwrap())
}

/// A rate that changes every ms, delays, losses, an outage.
fn steps() -> Trace {
    let step = |ms: u64| Step {
        at: Duration::from_millis(ms),
        rate: Rate::from_bps(if ms % 100 < 30 { 0 } else { 8_000_000 + ms * 1_237 }),
        delay: ms.is_multiple_of(7).then(|| Duration::from_micros(3_000 + ms % 13 * 500)),
        loss: (ms == 50).then(|| Probability::from_raw(1 << 28)),
    };
    let course = Course::Steps((0..300).map(step).collect());
    Trace { repeat: true, ..Trace::new(schedule(course, 310 * MS)) }
}

fn deliveries() -> Trace {
    let delivery = |n: u64| Delivery {
        at: Duration::from_millis(n * n % 7 + 10 * n),
        count: 1 + u32::try_from(n % 4).unwrap(),
    };
    let course = Course::Deliveries {
        at: (1..40).map(delivery).collect(),
        opportunity: Opportunity::MAHIMAHI,
    };
    let offset = Duration::from_millis(7);
    Trace {
        repeat: true,
        offset,
        start: TraceStart::AtOnce,
        ..Trace::new(schedule(course, 400 * MS))
    }
}

fn config(words: &str, trace: Option<Trace>) -> LinkConfig {
    let mut builder = ConfigBuilder::default();
    builder.words(words, "test").unwrap();
    if let Some(trace) = trace {
        builder.follow(trace);
    }
    builder.finish().unwrap()
}

/// A run in which `up` follows a trace from the start and both follow others later.
fn log_of(up: &LinkConfig, later: &[(u64, Option<Trace>)]) -> Vec<u8> {
    let down = config("rate=10mbit", None);
    let of = |config, seed| DirectionHeader::new(config, seed, START);
    let header = Header::new("traced", Epoch::default(), of(up, 7), of(&down, 8));
    let mut log = Vec::new();
    let mut writer = BlockWriter::start(&mut log, &header).unwrap();
    let ends =
        [(Direction::Up, up, 7), (Direction::Down, &down, 8)].map(|(direction, config, seed)| {
            let mut link = Link::new(config, seed, START).unwrap();
            let mut later = later.iter().peekable();
            let mut now = START;
            for number in 1..=2_000 {
                let at = START + Duration::from_micros(number * 700 + number * number % 300);
                while let Some((ms, trace)) =
                    later.next_if(|(ms, _)| START + Duration::from_millis(*ms) <= at)
                {
                    now = (START + Duration::from_millis(*ms)).max(now);
                    link.follow(trace.clone(), now).unwrap();
                    writer.record(
                        direction,
                        &Record::Follow { at: now, trace: trace.clone().map(Box::new) },
                    );
                    drain(&mut link, direction, &mut writer);
                }
                now = at;
                let len = if number % 3 == 0 { 80 } else { 1_500 };
                let packet = Packet::on_path(number, now, len, 1);
                writer.record(direction, &Record::Arrival((&packet).into()));
                link.arrive(packet);
                drain(&mut link, direction, &mut writer);
            }
            let end = now + Duration::from_secs(1);
            link.advance(end);
            drain(&mut link, direction, &mut writer);
            DirectionEnd { end: Some(EndRecord::new(end, &link.snapshot())), unwritten: 0 }
        });
    writer.finish(&ends).unwrap();
    log
}

fn drain(link: &mut Link, direction: Direction, writer: &mut BlockWriter<&mut Vec<u8>>) {
    while let Some(output) = link.poll() {
        let (Output::Depart { packet, .. } | Output::Drop { packet, .. }) = output;
        writer.record(direction, &Record::fate(packet.handle, &output, None));
    }
}

#[test]
fn a_run_that_follows_traces_is_replayed_from_its_log_alone() {
    let later: &[(u64, Option<Trace>)] = &[
        (200, Some(deliveries())),
        (500, Some(steps())),
        (700, None),
        (800, Some(Trace { start: TraceStart::AtOnce, repeat: false, ..steps() })),
    ];
    for (words, trace, later) in [
        ("", Some(steps()), &[][..]),
        ("trace=here.csv trace.offset=3ms limit=100ms", Some(steps()), later),
        ("queue=fq_codel", Some(deliveries()), later),
        ("rate=10mbit limit=50p", None, later),
    ] {
        let up = config(words, trace);
        let log = log_of(&up, later);
        let outcome = verify(LogReader::new(&log[..]).unwrap()).unwrap();
        assert!(matches!(outcome, Outcome::Identical { packets: 4_000, .. }), "{words}: {outcome}");
        assert_eq!(parts(&log).log(), log, "{words}");
        let reader = LogReader::new(&log[..]).unwrap();
        assert_eq!(reader.header().up.config().unwrap(), up);
    }
}

#[test]
fn another_trace_gives_another_run() {
    let log = log_of(&config("", Some(steps())), &[(500, Some(deliveries()))]);
    let changes: [fn(&mut Trace); 4] = [
        |trace| trace.repeat = false,
        |trace| trace.offset = Duration::from_nanos(1),
        |trace| trace.start = TraceStart::FirstPacket,
        |trace| trace.per_packet = Some(5),
    ];
    for (which, change) in changes.into_iter().enumerate() {
        let mut altered = parts(&log);
        for (_, record) in &mut altered.records {
            if let Record::Follow { trace: Some(trace), .. } = record {
                change(trace);
            }
        }
        let outcome = verify(LogReader::new(&altered.log()[..]).unwrap()).unwrap();
        assert!(matches!(outcome, Outcome::Different(_)), "{which}: {outcome}");
    }
    // What cannot be followed is no damage, but no run of ours either.
    let mut altered = parts(&log);
    for (_, record) in &mut altered.records {
        if let Record::Follow { trace: Some(trace), .. } = record {
            let far = Step { delay: Some(Duration::from_secs(4_000)), ..Step::default() };
            trace.schedule = schedule(Course::Steps(vec![far]), MS);
        }
    }
    let outcome = verify(LogReader::new(&altered.log()[..]).unwrap()).unwrap();
    assert!(outcome.to_string().contains("follow"), "{outcome}");
}

#[test]
fn senders_log_what_a_link_is_told_to_follow() {
    let up = config("", Some(steps()));
    let of = |seed| DirectionHeader::new(&up, seed, START);
    let header = Header::new("sent", Epoch::default(), of(7), of(8));
    let path = std::env::temp_dir().join(format!("punctual-traced-{}", std::process::id()));
    let (writer, senders) = LogWriter::create(&path, &header, 64).unwrap();
    for mut sender in senders.into_iter().flatten() {
        let mut link = Link::new(&up, 7, START).unwrap();
        let trace = deliveries();
        link.follow(Some(trace.clone()), START).unwrap();
        sender.follow(START, Some(&trace));
        sender.finish(START, &link.snapshot());
    }
    let summary = writer.finish().unwrap();
    let mut reader = LogReader::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!((summary.records, summary.complete), ([1, 1], true));
    assert_eq!(reader.header().down.trace, Some(steps()));
    let trace = Some(Box::new(deliveries()));
    let expected = Record::Follow { at: START, trace };
    assert_eq!(reader.read().unwrap(), Entry::Record(Direction::Up.into(), expected));
}

#[test]
fn ten_million_opportunities_take_two_bytes_each_and_blocks_of_64_kib() {
    let count = 1_000_000;
    let delivery = |ms: u64| Delivery { at: Duration::from_millis(ms), count: 1 };
    let course = Course::Deliveries {
        at: (1..=count).map(delivery).collect(),
        opportunity: Opportunity::MAHIMAHI,
    };
    let trace = Trace::new(schedule(course, count * MS));
    let up = config("", Some(trace.clone()));
    let of = |config| DirectionHeader::new(config, 7, START);
    let header = Header::new("long", Epoch::default(), of(&up), of(&LinkConfig::default()));
    let mut log = Vec::new();
    let writer = BlockWriter::start(&mut log, &header).unwrap();
    writer.finish(&[DirectionEnd::default(), DirectionEnd::default()]).unwrap();
    let bytes = log.len() as u64;
    assert!(bytes < 2 * count + 10_000, "{bytes}");
    let reader = LogReader::new(&log[..]).unwrap();
    assert_eq!(reader.header().up.trace, Some(trace));
    // No frame is longer than a block: heads say their lengths.
    let mut rest = &log[12..];
    while let [_, _, 0, 0, _, _, _, _, l0, l1, l2, l3, ..] = *rest {
        let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        assert!(len <= (64 << 10) + 32, "{len}");
        rest = &rest[16 + len..];
    }
    assert!(rest.is_empty());
}

/// The frames of a log, apart.
fn frames(log: &[u8]) -> Vec<&[u8]> {
    let (_, mut rest) = log.split_at(12);
    let mut frames = Vec::new();
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let (frame, others) = rest.split_at(16 + length);
        frames.push(frame);
        rest = others;
    }
    frames
}

/// A frame with another payload and the checksum of it.
fn forged(frame: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut forged = frame[..8].to_vec();
    forged.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
    let mut crc = crc32fast::Hasher::new();
    crc.update(&forged);
    crc.update(payload);
    forged.extend_from_slice(&crc.finalize().to_le_bytes());
    forged.extend_from_slice(payload);
    forged
}

fn read_all(log: &[u8]) -> bool {
    let Ok(mut reader) = LogReader::new(log) else { return false };
    loop {
        match reader.read() {
            Ok(Entry::End(_)) => return true,
            Ok(Entry::Record(..)) => {}
            Err(_) => return false,
        }
    }
}

#[test]
fn frames_of_a_trace_that_are_not_in_their_place_are_damage() {
    let log = log_of(&config("", Some(steps())), &[(500, Some(deliveries()))]);
    let frames = frames(&log);
    let kinds: Vec<u8> = frames.iter().map(|frame| frame[0]).collect();
    assert_eq!(&kinds[..3], b"HCF");
    let later = kinds.iter().rposition(|kind| *kind == b'C').unwrap();
    let put = |order: &[usize]| {
        let all = order.iter().flat_map(|&index| frames[index]);
        log[..12].iter().chain(all).copied().collect::<Vec<_>>()
    };
    let all: Vec<usize> = (0..frames.len()).collect();
    assert!(read_all(&put(&all)));
    let without = |index| all.iter().copied().filter(|i| *i != index).collect::<Vec<_>>();
    let twice =
        |index| all.iter().flat_map(|&i| vec![i; 1 + usize::from(i == index)]).collect::<Vec<_>>();
    for order in [
        without(1),
        without(2),
        without(later),
        without(later + 1),
        twice(1),
        twice(2),
        twice(later),
        twice(later + 1),
    ] {
        assert!(!read_all(&put(&order)), "{order:?}");
    }
    // Cut off in the midst of a trace: a log of what was before, or none.
    assert!(read_all(&put(&all[..=later])));
    assert!(!read_all(&put(&all[..2])));
}

proptest! {
    #[test]
    fn no_bytes_of_a_trace_make_a_reader_panic_or_hold_more_than_they_say(
        which in 1..3_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
        noise in prop::collection::vec(any::<u8>(), 0..300),
        replace in any::<bool>(),
    ) {
        for trace in [steps(), deliveries()] {
            let log = log_of_nothing(trace);
            let frames = frames(&log);
            let mut payload = frames[which][16..].to_vec();
            for (at, byte) in &changes {
                let at = at.index(payload.len());
                payload[at] = *byte;
            }
            payload.truncate(cut.index(payload.len() + 1));
            if replace {
                payload.clone_from(&noise);
            }
            let mut bad = log[..12].to_vec();
            for (index, frame) in frames.iter().enumerate() {
                if index == which {
                    bad.extend(forged(frame, &payload));
                } else {
                    bad.extend_from_slice(frame);
                }
            }
            // Whatever it is, it is read or refused.
            read_all(&bad);
        }
    }

    #[test]
    fn every_trace_is_read_as_it_was_written(
        steps in prop::collection::vec((0..5_000_000_u64, any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<u32>>()), 1..50),
        unit in prop_oneof![Just(1_u64), Just(MS)],
        rest in 1..1_000_u64,
        offset in any::<u64>(),
        repeat in any::<bool>(),
        per_packet in any::<Option<u32>>(),
    ) {
        let mut at = 0;
        let steps: Vec<Step> = steps.into_iter().map(|(gap, bps, delay, loss)| {
            at += gap;
            Step {
                at: Duration::from_nanos(at * unit),
                rate: bps.map(|bps| Rate::from_bps(bps % 1_000_000_000_001).unwrap()),
                delay: delay.map(|delay| Duration::from_nanos(delay % 3_600_000_000_000)),
                loss: loss.map(Probability::from_raw),
            }
        }).collect();
        let Ok(schedule) = Schedule::new(Timeline { course: Course::Steps(steps), span: Duration::from_nanos((at + rest) * unit) }) else {
            return Ok(());
        };
        let trace = Trace { repeat, per_packet, offset: Duration::from_nanos(offset), ..Trace::new(Arc::new(schedule)) };
        let log = log_of_nothing(trace.clone());
        let reader = LogReader::new(&log[..]).unwrap();
        prop_assert_eq!(&reader.header().up.trace, &Some(trace));
    }
}

/// Of a run to which nothing came.
fn log_of_nothing(trace: Trace) -> Vec<u8> {
    let config = LinkConfig { trace: Some(trace), ..LinkConfig::default() };
    let of = |config| DirectionHeader::new(config, 7, Instant::ZERO);
    let header = Header::new("still", Epoch::default(), of(&config), of(&LinkConfig::default()));
    let mut log = Vec::new();
    let writer = BlockWriter::start(&mut log, &header).unwrap();
    writer.finish(&[DirectionEnd::default(), DirectionEnd::default()]).unwrap();
    log
}
