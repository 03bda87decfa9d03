//! Logs of directions whose flows are divided among lanes.

use punctual::log::{
    BlockWriter, Damage, Direction, DirectionEnd, DirectionHeader, EndRecord, Ending, Entry, Epoch,
    Header, LaneId, LogReader, LogWriter, ReadError, Record,
};
use punctual::verify::{Outcome, Place, verify};
use punctual_sched::{Change, Duration, Instant, Link, LinkConfig, Output, Packet};

use crate::run::START;

/// Up in `lanes` lanes, down in one.
pub(crate) fn header(lanes: u8) -> Header {
    let config = |words| LinkConfig::parse(words, "test").unwrap();
    let up = config("delay=5ms jitter=2ms loss=3% duplicate=5%");
    let up = DirectionHeader {
        lanes: (1..lanes).map(|lane| 70 + u64::from(lane)).collect(),
        ..DirectionHeader::new(&up, 7, START)
    };
    Header::new("divided", Epoch::default(), up, DirectionHeader::new(&config(""), 8, START))
}

fn lane(index: u8) -> LaneId {
    LaneId { direction: Direction::Up, index }
}

/// What happens on each lane of up: a packet in each lane every 100 us, a change in the middle that
/// each makes at a time of its own; and the ends.
fn lanes(header: &Header) -> (Vec<(LaneId, Record)>, Vec<DirectionEnd>) {
    let config = header.up.config().unwrap();
    let mut links: Vec<_> =
        header.up.seeds().map(|seed| Link::new(&config, seed, START).unwrap()).collect();
    let (mut records, mut numbers) = (Vec::new(), vec![0; links.len()]);
    for turn in 0..500_u64 {
        for (index, link) in (0_u8..).zip(&mut links) {
            let at = START + Duration::from_micros(100 * turn + u64::from(index));
            if turn == 250 {
                let change = Change::from_words("delay=9ms loss=10%", "test").unwrap();
                link.change(&change, at).unwrap();
                records.push((lane(index), Record::Change { at, change }));
            }
            numbers[usize::from(index)] += 1;
            let packet = Packet::on_path(numbers[usize::from(index)], at, 1_000, index.into());
            records.push((lane(index), Record::Arrival((&packet).into())));
            link.arrive(packet);
            collect(link, lane(index), &mut records);
        }
    }
    let end = START + Duration::from_secs(1);
    let finish = |(index, mut link): (u8, Link)| {
        link.advance(end);
        collect(&mut link, lane(index), &mut records);
        DirectionEnd { end: Some(EndRecord::new(end, &link.snapshot())), unwritten: 0 }
    };
    let ends = (0..).zip(links).map(finish).collect();
    (records, ends)
}

fn collect(link: &mut Link, lane: LaneId, records: &mut Vec<(LaneId, Record)>) {
    while let Some(output) = link.poll() {
        let (Output::Depart { packet, .. } | Output::Drop { packet, .. }) = output;
        records.push((lane, Record::fate(packet.handle, &output, None)));
    }
}

fn written(header: &Header, records: &[(LaneId, Record)], ends: Vec<DirectionEnd>) -> Vec<u8> {
    let mut log = Vec::new();
    let mut writer = BlockWriter::start(&mut log, header).unwrap();
    for (lane, record) in records {
        writer.record(*lane, record);
    }
    let link = Link::new(&header.down.config().unwrap(), 8, START).unwrap();
    let down = DirectionEnd { end: Some(EndRecord::new(START, &link.snapshot())), unwritten: 0 };
    writer.finish(&[ends, vec![down]]).unwrap();
    log
}

pub(crate) fn log(lane_count: u8) -> Vec<u8> {
    let header = header(lane_count);
    let (records, ends) = lanes(&header);
    written(&header, &records, ends)
}

fn outcome(log: &[u8]) -> Outcome {
    verify(LogReader::new(log).unwrap()).unwrap()
}

#[test]
fn every_lane_replays_by_itself() {
    for count in [1, 2, 3, 8] {
        let Outcome::Identical { packets, drops, .. } = outcome(&log(count)) else {
            panic!("{}", outcome(&log(count)))
        };
        assert_eq!(packets, 500 * u64::from(count));
        assert!(drops > packets / 50, "{drops} of {packets}");
    }
}

#[test]
fn lanes_draw_apart_though_they_see_the_same() {
    let header = header(2);
    let (records, _) = lanes(&header);
    let lost = |wanted| -> Vec<_> {
        let of = records.iter().filter(|(lane, _)| lane.index == wanted);
        of.filter_map(|(_, record)| match record {
            Record::Drop(drop) => Some(drop.sequence),
            _ => None,
        })
        .collect()
    };
    assert_ne!(lost(0), lost(1));
}

#[test]
fn a_fate_altered_on_one_lane_is_found_there() {
    let header = header(3);
    let (mut records, ends) = lanes(&header);
    let altered = records.iter_mut().find_map(|(lane, record)| match record {
        Record::Departure(fate) if lane.index == 2 && fate.sequence > 50 => Some(fate),
        _ => None,
    });
    let altered = altered.unwrap();
    altered.due = altered.due + Duration::from_nanos(1);
    let sequence = altered.sequence;
    let found = outcome(&written(&header, &records, ends));
    let Outcome::Different(difference) = &found else { panic!("{found}") };
    assert_eq!(difference.place, Place { direction: Direction::Up, lane: Some(2) });
    assert_eq!((difference.packet, difference.field.as_str()), (Some(sequence), "due"));
    let text = found.to_string();
    let first = format!("different: direction up, lane 2, packet {sequence}, due: ");
    assert!(text.starts_with(&first), "{text}");
    assert_eq!(found.to_json()["lane"], 2);
}

#[test]
fn a_lane_that_lacks_its_end_is_named() {
    let header = header(2);
    let (records, mut ends) = lanes(&header);
    ends[1].end = None;
    ends[1].unwritten = 4;
    let found = outcome(&written(&header, &records, ends));
    let text = found.to_string();
    assert!(text.starts_with("incomplete: identical up to packet "), "{text}");
    assert!(text.contains(" of direction up, lane 1; 4 records were not written"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn a_log_of_lanes_cut_anywhere_is_identical_up_to_there() {
    let log = log(3);
    for length in (log.len() / 2..log.len()).step_by(997) {
        let found = outcome(&log[..length]);
        assert!(matches!(found, Outcome::Incomplete(_)), "{length}: {found}");
    }
}

#[test]
fn the_thread_writes_what_the_senders_of_lanes_were_told() {
    let header = header(2);
    let path = std::env::temp_dir().join(format!("punctual-lanes-{}", std::process::id()));
    let (writer, [up, down]) = LogWriter::create(&path, &header, 1 << 12).unwrap();
    assert_eq!((up.len(), down.len()), (2, 1));
    let (mut number, config) = (0, header.up.config().unwrap());
    let seeds: Vec<_> = header.up.seeds().collect();
    for (mut sender, seed) in up.into_iter().zip(seeds) {
        let mut link = Link::new(&config, seed, START).unwrap();
        number += 1;
        for _ in 0..number {
            let mut packet = Packet::on_path(0, START, 100, 1);
            packet.handle = sender.arrival(&packet);
            link.arrive(packet);
        }
        let end = START + Duration::from_millis(50);
        link.advance(end);
        while let Some(output) = link.poll() {
            let (Output::Depart { packet, .. } | Output::Drop { packet, .. }) = output;
            sender.fate(packet.handle, &output, None);
        }
        sender.finish(end, &link.snapshot());
    }
    let idle = Link::new(&header.down.config().unwrap(), 8, START).unwrap();
    for sender in down {
        sender.finish(START, &idle.snapshot());
    }
    let summary = writer.finish().unwrap();
    let log = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(summary.complete, "{summary:?}");
    let found = outcome(&log);
    assert!(matches!(found, Outcome::Identical { packets: 3, .. }), "{found}");
}

#[test]
fn records_and_ends_of_lanes_that_the_header_does_not_name_are_damage() {
    let (narrow, wide) = (header(2), header(3));
    let (records, ends) = lanes(&wide);
    let log = written(&wide, &records, ends);
    // The same frames behind the header of another log.
    let split = |log: &[u8]| 12 + 16 + u32::from_le_bytes(log[20..24].try_into().unwrap()) as usize;
    let (records, ends) = lanes(&narrow);
    let other = written(&narrow, &records, ends);
    let forged = [&other[..split(&other)], &log[split(&log)..]].concat();
    let error = read_all(&forged).unwrap_err();
    assert!(matches!(error, ReadError::Damaged { problem: Damage::Place, .. }), "{error}");
    let forged = [&log[..split(&log)], &other[split(&other)..]].concat();
    let error = read_all(&forged).unwrap_err();
    assert!(matches!(error, ReadError::Damaged { problem: Damage::Count, .. }), "{error}");
}

#[test]
fn a_header_with_lanes_that_cannot_be_is_refused() {
    let refused = |change: fn(&mut Header)| {
        let mut header = header(2);
        change(&mut header);
        let mut log = Vec::new();
        let writer = BlockWriter::start(&mut log, &header).unwrap();
        writer.finish(&[DirectionEnd::default(), DirectionEnd::default()]).unwrap();
        LogReader::new(&log[..]).unwrap_err().to_string()
    };
    let many = refused(|header| header.up.lanes = vec![1; 64]);
    assert!(many.contains("direction up has 65 lanes, 64 at most"), "{many}");
    let followed = refused(|header| header.up.follows = true);
    assert!(followed.contains("a trace for all of them"), "{followed}");
}

#[test]
fn a_direction_of_one_lane_is_written_as_ever() {
    let log = log(1);
    assert!(!log.windows(8).any(|window| window == b"\"lanes\":"));
}

fn read_all(log: &[u8]) -> Result<Ending, ReadError> {
    let mut reader = LogReader::new(log)?;
    loop {
        if let Entry::End(ending) = reader.read()? {
            return Ok(ending);
        }
    }
}

#[test]
fn times_of_lanes_are_their_own() {
    let header = header(2);
    let (records, ends) = lanes(&header);
    // All of one lane, then all of the other: order means something only within a lane.
    let mut sorted = records.clone();
    sorted.sort_by_key(|(lane, _)| lane.index);
    assert!(matches!(outcome(&written(&header, &sorted, ends)), Outcome::Identical { .. }));
    let times = |record: &Record| match record {
        Record::Arrival(arrival) => Some(arrival.at),
        _ => None,
    };
    let latest: Option<Instant> = records.iter().filter_map(|(_, record)| times(record)).max();
    assert!(latest.unwrap() > START);
}
