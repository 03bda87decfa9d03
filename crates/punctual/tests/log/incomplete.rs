use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use punctual::log::{
    BlockWriter, Damage, Direction, DirectionEnd, EndRecord, Ending, Entry, LogError, LogReader,
    LogSender, LogWriter, ReadError, Record, Sink,
};
use punctual::verify::{Outcome, verify};
use punctual_sched::{Duration, Instant, Link, Packet};

use crate::run::{SCENARIOS, START};

/// A disk with room for so many bytes.
#[derive(Clone)]
struct Disk {
    room: usize,
    /// Room that is given back is taken by somebody else.
    contended: bool,
    /// As a pipe, which takes nothing back.
    is_pipe: bool,
    file: Arc<Mutex<Vec<u8>>>,
}

impl Disk {
    fn with_room(room: usize) -> Self {
        Self { room, contended: false, is_pipe: false, file: Arc::default() }
    }

    fn contents(&self) -> Vec<u8> {
        self.file.lock().unwrap().clone()
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.file.lock().unwrap();
        let fits = bytes.len().min(self.room.saturating_sub(file.len()));
        if fits == 0 {
            self.room = if self.contended { 0 } else { self.room };
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.extend_from_slice(&bytes[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Disk {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        if self.is_pipe {
            return Err(io::ErrorKind::NotSeekable.into());
        }
        self.file.lock().unwrap().truncate(usize::try_from(len).unwrap());
        Ok(())
    }
}

fn outcome(log: &[u8]) -> Outcome {
    verify(LogReader::new(log).unwrap()).unwrap()
}

#[test]
fn a_full_disk_ends_the_log_and_the_rest_is_counted() {
    let run = SCENARIOS[10];
    let disk = Disk::with_room(150_000);
    let mut writer = BlockWriter::start(disk.clone(), &run.header()).unwrap();
    let mut told = [0, 0];
    let ends = run.drive(&mut |direction, record| {
        told[direction.index()] += 1;
        writer.record(direction, &record);
        // A block for each record, so that many are whole and one is cut off.
        writer.flush();
    });
    let summary = writer.finish(&ends).unwrap();
    assert!(!summary.complete);
    assert_eq!(summary.error.unwrap().kind(), io::ErrorKind::StorageFull);
    let log = disk.contents();
    let mut lines = Vec::new();
    for direction in Direction::BOTH {
        let at = direction.index();
        assert!(summary.records[at] > 100, "{:?}", summary.records);
        assert_eq!(summary.records[at] + summary.unwritten[at], told[at]);
    }
    let Outcome::Incomplete(gaps) = outcome(&log) else { panic!("{}", outcome(&log)) };
    for gap in &gaps {
        assert!(gap.up_to > 50, "{gap:?}");
        lines.push(format!(
            "incomplete: identical up to packet {} of direction {}; {} records were not written \
             because the disk was full",
            gap.up_to,
            gap.place.direction.name(),
            summary.unwritten[gap.place.direction.index()],
        ));
    }
    assert_eq!(Outcome::Incomplete(gaps).to_string(), lines.join("\n"));
    assert_eq!(outcome(&log).code(), 1);
}

#[test]
fn a_disk_without_room_for_the_trailer_gets_one_in_place_of_the_last_records() {
    let run = SCENARIOS[1];
    let disk = Disk::with_room(run.log().len() - 10);
    let mut writer = BlockWriter::start(disk.clone(), &run.header()).unwrap();
    let ends = run.drive(&mut |direction, record| writer.record(direction, &record));
    let summary = writer.finish(&ends).unwrap();
    assert!(!summary.complete && summary.unwritten != [0, 0], "{summary:?}");
    let text = outcome(&disk.contents()).to_string();
    assert!(text.ends_with("because the disk was full"), "{text}");
}

#[test]
fn a_log_without_a_trailer_is_said_to_be_cut_off() {
    let run = SCENARIOS[1];
    let room = Disk::with_room(run.log().len() - 10);
    let disks = [
        Disk { contended: true, ..room.clone() },
        Disk { is_pipe: true, file: Arc::default(), ..room },
    ];
    for disk in disks {
        let mut writer = BlockWriter::start(disk.clone(), &run.header()).unwrap();
        let ends = run.drive(&mut |direction, record| {
            writer.record(direction, &record);
            writer.flush();
        });
        let summary = writer.finish(&ends).unwrap();
        assert!(!summary.complete && summary.error.is_some(), "{summary:?}");
        let text = outcome(&disk.contents()).to_string();
        assert!(text.starts_with("incomplete: identical up to packet "), "{text}");
        assert!(
            text.contains("what came after was not written because the run was killed, goes on")
        );
        assert!(text.contains("or its reader was gone or too slow"), "{text}");
    }
}

#[test]
fn a_disk_that_is_full_from_the_start_is_an_error() {
    let error = BlockWriter::start(Disk::with_room(100), &SCENARIOS[0].header()).err();
    assert!(matches!(error, Some(LogError::Write(_))), "{error:?}");
    let file = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let error = LogWriter::start(file, &SCENARIOS[0].header(), 16).err();
    assert!(matches!(error, Some(LogError::Write(_))), "{error:?}");
}

#[test]
fn a_file_that_cannot_be_made_is_named() {
    let path = std::path::Path::new("/nonexistent/run.log");
    let error = LogWriter::create(path, &SCENARIOS[0].header(), 16).err().unwrap().to_string();
    assert!(error.starts_with("cannot create the log /nonexistent/run.log: "), "{error}");
}

#[test]
fn a_full_ring_ends_one_direction_and_the_rest_is_counted() {
    let run = SCENARIOS[0];
    let mut links = run.links();
    let disk = Disk::with_room(usize::MAX);
    let (writer, senders) = LogWriter::start(disk.clone(), &run.header(), 256).unwrap();
    let [mut up, down] = crate::run::single(senders);
    // Nobody can write while this is held: the thread stops at its first block.
    let held = disk.file.lock().unwrap();
    let (mut at, mut told) = (START, 0);
    while up.unwritten() < 10 {
        at = at + Duration::from_millis(1);
        told += send_one(&mut links[0], &mut up, at);
    }
    drop(held);
    assert_eq!(up.unwritten(), 10);
    up.finish(at, &links[0].snapshot());
    down.finish(START, &links[1].snapshot());
    let summary = writer.finish().unwrap();
    assert_eq!((summary.records, summary.unwritten), ([told - 10, 0], [10, 0]));
    assert!(!summary.complete && summary.error.is_none(), "{summary:?}");
    let text = outcome(&disk.contents()).to_string();
    let tail = " of direction up; 10 records were not written because the ring was full";
    assert!(text.starts_with("incomplete: identical up to packet "), "{text}");
    assert!(text.ends_with(tail) && text.lines().count() == 1, "down is whole: {text}");
}

/// A packet and its fate; returns how many records that is.
fn send_one(link: &mut Link, sender: &mut LogSender, at: Instant) -> u64 {
    let mut packet = Packet::on_path(0, at, 1500, 7);
    packet.handle = sender.arrival(&packet);
    link.arrive(packet);
    link.advance(at);
    sender.fate(packet.handle, &link.poll().unwrap(), Some(at));
    2
}

#[test]
fn senders_that_are_dropped_leave_a_log_that_says_so() {
    let disk = Disk::with_room(usize::MAX);
    let (writer, senders) = LogWriter::start(disk.clone(), &SCENARIOS[0].header(), 16).unwrap();
    drop::<[Vec<LogSender>; 2]>(senders);
    let summary = writer.finish().unwrap();
    assert!(!summary.complete);
    let text = outcome(&disk.contents()).to_string();
    assert!(text.contains("the run broke off before it ended this direction"), "{text}");
}

#[test]
fn a_log_cut_anywhere_is_identical_up_to_there() {
    let log = SCENARIOS[10].log();
    let mut reader = LogReader::new(&log[..]).unwrap();
    while !matches!(reader.read().unwrap(), Entry::End(_)) {}
    let front = 28 + serde_json::to_vec(reader.header()).unwrap().len();
    for cut in (front..log.len()).step_by(997).chain([log.len() - 1]) {
        let cut_log = &log[..cut];
        let outcome = outcome(cut_log);
        assert!(matches!(&outcome, Outcome::Incomplete(gaps) if gaps.len() == 2), "{outcome}");
    }
}

#[test]
fn a_log_that_ends_after_any_record_is_identical_up_to_there() {
    for run in SCENARIOS {
        let whole = crate::rewrite::parts(&run.log());
        for records in (0..whole.records.len()).step_by(whole.records.len() / 9) {
            let mut cut = whole.clone();
            cut.records.truncate(records);
            cut.ends = Default::default();
            let outcome = outcome(&cut.log());
            assert!(matches!(&outcome, Outcome::Incomplete(_)), "{}: {outcome}", run.name);
        }
    }
}

#[test]
fn an_altered_incomplete_log_differs() {
    let mut cut = crate::rewrite::parts(&SCENARIOS[3].log());
    cut.records.truncate(cut.records.len() / 2);
    cut.ends = Default::default();
    let departures = cut.positions(|record| matches!(record, Record::Departure(_)));
    let last = *departures.last().unwrap();
    if let Record::Departure(fate) = &mut cut.records[last].1 {
        fate.due = fate.due + Duration::from_nanos(1);
    }
    let outcome = outcome(&cut.log());
    assert!(matches!(outcome, Outcome::Different(_)), "{outcome}");
}

#[test]
fn the_end_is_read_again_and_again() {
    let log = SCENARIOS[0].log();
    let mut reader = LogReader::new(&log[..]).unwrap();
    while !matches!(reader.read().unwrap(), Entry::End(_)) {}
    assert!(matches!(reader.read().unwrap(), Entry::End(Ending::Trailer(_))));
}

#[test]
fn a_log_cut_in_its_header_is_said_to_be_cut_off() {
    let log = SCENARIOS[0].log();
    for cut in [0, 1, 7, 8, 11, 12, 20, 28, 29, 100] {
        let error = LogReader::new(&log[..cut]).unwrap_err();
        let expected = format!("the log is cut off after {cut} bytes, within its header");
        assert!(error.to_string().starts_with(&expected), "{cut}: {error}");
    }
    let error = LogReader::new(&b"PUNCH"[..]).unwrap_err();
    assert!(matches!(error, ReadError::NotALog), "{error}");
}

#[test]
fn a_trailer_that_names_a_cause_is_of_no_whole_run() {
    let forged = with_trailer(&SCENARIOS[1].log(), |trailer| {
        trailer["complete"] = false.into();
        trailer["error"] = "the disk was full".into();
    });
    let text = outcome(&forged).to_string();
    assert!(text.starts_with("incomplete: identical up to packet 2000 of direction up"), "{text}");
    assert!(text.ends_with("because the disk was full"), "{text}");
}

#[test]
fn a_trailer_that_contradicts_itself_is_damage() {
    let changes: [fn(&mut serde_json::Value); 4] = [
        |trailer| trailer["error"] = "the disk was full".into(),
        |trailer| trailer["up"]["unwritten"] = 3.into(),
        |trailer| trailer["down"]["end"] = serde_json::Value::Null,
        |trailer| trailer["up"]["end"]["end_ns"] = u64::MAX.into(),
    ];
    for change in changes {
        let forged = with_trailer(&SCENARIOS[1].log(), change);
        let result = LogReader::new(&forged[..]).and_then(verify);
        let Err(ReadError::Damaged { problem: Damage::Contradiction, .. }) = result else {
            panic!("{result:?}");
        };
    }
    let same = with_trailer(&SCENARIOS[1].log(), |_| ());
    assert!(matches!(outcome(&same), Outcome::Identical { .. }));
}

#[test]
fn a_burst_counts_as_its_packets() {
    let run = SCENARIOS[0];
    let mut links = run.links();
    let mut log = Vec::new();
    let mut writer = BlockWriter::start(&mut log, &run.header()).unwrap();
    let at = START + Duration::from_secs(1);
    let packet = Packet { segments: 40, ..Packet::on_path(1, at, 60_000, 7) };
    links[0].arrive(packet);
    writer.record(Direction::Up, &Record::Arrival((&packet).into()));
    let end = at + Duration::from_secs(10);
    let ends = links.each_mut().map(|link| {
        link.advance(end);
        let mut outputs = Vec::new();
        while let Some(output) = link.poll() {
            outputs.push(output);
        }
        (outputs, DirectionEnd { end: Some(EndRecord::new(end, &link.snapshot())), unwritten: 0 })
    });
    for output in &ends[0].0 {
        writer.record(Direction::Up, &Record::fate(1, output, None));
    }
    writer.finish(&ends.map(|(_, end)| end)).unwrap();
    let text = outcome(&log).to_string();
    assert!(text.starts_with("identical: 40 packets, "), "{text}");
}

/// `log` with its trailer changed, its checksum right.
fn with_trailer(log: &[u8], change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    const HEAD: usize = 16;
    let payload = |at: usize| {
        let length = log[at + 8..at + 12].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        at + HEAD..at + HEAD + length.unwrap() as usize
    };
    let mut at = 12;
    while log[at] != b'T' {
        at = payload(at).end;
    }
    let mut trailer = serde_json::from_slice(&log[payload(at)]).unwrap();
    change(&mut trailer);
    let trailer = serde_json::to_vec(&trailer).unwrap();
    let mut head = log[at..at + 8].to_vec();
    head.extend(u32::try_from(trailer.len()).unwrap().to_le_bytes());
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head);
    crc.update(&trailer);
    head.extend(crc.finalize().to_le_bytes());
    [&log[..at], &head, &trailer].concat()
}
