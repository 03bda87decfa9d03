//! A log with one of everything, and exports as tests read them.

use std::io::Cursor;

use punctual::export::{ExportError, Format, Request, Summary, export};
use punctual::log::{
    Arrival, BlockWriter, Departure, Direction, DirectionEnd, DirectionHeader, Dropped, EndRecord,
    Epoch, Header, Record,
};
use punctual_sched::{
    BitFlip, Change, DropReason, Duration, Ecn, Instant, LinkConfig, Mark, Snapshot,
};

/// Link time 0 of [`one_of_each`].
pub(crate) const EPOCH_UNIX_NS: u64 = 1_790_000_000_000_000_000;

pub(crate) const fn request(format: Format) -> Request {
    Request { format, direction: None, user: None }
}

pub(crate) fn exported(log: &[u8], request: &Request) -> Result<(Vec<u8>, Summary), ExportError> {
    let mut out = Vec::new();
    let summary = export(&mut Cursor::new(log), request, &mut out, None)?;
    Ok((out, summary))
}

pub(crate) fn export_of(log: &[u8], format: Format) -> Vec<u8> {
    exported(log, &request(format)).unwrap().0
}

/// A log of these records, complete.
pub(crate) fn log_of(records: &[(Direction, Record)]) -> Vec<u8> {
    let config = LinkConfig::parse("rate=10mbit delay=1ms", "test").unwrap();
    let direction = DirectionHeader::new(&config, 1, Instant::ZERO);
    let epoch = Epoch { monotonic_ns: 5, realtime_ns: EPOCH_UNIX_NS };
    let header = Header::new("made", epoch, direction.clone(), direction);
    let mut log = Vec::new();
    let mut writer = BlockWriter::start(&mut log, &header).unwrap();
    for (direction, record) in records {
        writer.record(*direction, record);
    }
    let end = EndRecord::new(Instant::from_nanos(1_000_000_000), &Snapshot::default());
    let ends = Direction::BOTH.map(|_| DirectionEnd { end: Some(end.clone()), unwritten: 0 });
    writer.finish(&ends).unwrap();
    log
}

pub(crate) fn arrival(at: u64, len: u32, segments: u16, flow: u32) -> Record {
    let at = Instant::from_nanos(at);
    Record::Arrival(Arrival { at, len, segments, flow, mark: 0, dscp: 46, ecn: Ecn::Ect0 })
}

/// Of a packet that arrived at 1000 x its number.
pub(crate) fn departure(sequence: u64) -> Departure {
    let [queue, serialisation, pacing, propagation] = [100, 20, 3, 4000].map(Duration::from_nanos);
    let delay = queue + serialisation + pacing + propagation;
    Departure {
        sequence,
        copy: 0,
        corrupt: None,
        due: Instant::from_nanos(1000 * sequence) + delay,
        delay,
        queue,
        serialisation,
        pacing,
        mark: Mark::None,
        lateness_ns: Some(7),
    }
}

pub(crate) fn dropped(sequence: u64, copy: u8, reason: DropReason) -> Record {
    let delay = Duration::from_nanos(500);
    let at = Instant::from_nanos(1000 * sequence) + delay;
    Record::Drop(Dropped { sequence, copy, reason, at, delay })
}

/// Up: a packet for each reason to be dropped, then a plain departure, a burst marked CE, one that
/// was to be marked and could not be, one with a flipped bit and two duplicates (one leaves after
/// its packet, one is dropped before), one never released, one still held. Down: a change.
pub(crate) fn one_of_each() -> Vec<u8> {
    let up = Direction::Up;
    let mut records = Vec::new();
    for (sequence, reason) in (1..).zip(DropReason::ALL) {
        records.push((up, arrival(1000 * sequence, 100, 1, 0x0102_0304)));
        records.push((up, dropped(sequence, 0, reason)));
    }
    let first = DropReason::ALL.len() as u64 + 1;
    let lengths = [(1500, 1), (70_000, 48), (52, 1), (1500, 1), (60, 1), (61, 1)];
    for (sequence, (len, segments)) in (first..).zip(lengths) {
        records.push((up, arrival(1000 * sequence, len, segments, 0xfffe_fdfc)));
    }
    let plain = departure(first);
    let marked = Departure { mark: Mark::Ce, ..departure(first + 1) };
    let decided = Departure { mark: Mark::Decided, lateness_ns: Some(-2), ..departure(first + 2) };
    let corrupt = Departure { corrupt: Some(BitFlip(77)), ..departure(first + 3) };
    let copy = Departure { copy: 1, lateness_ns: Some(9), ..departure(first + 3) };
    let unreleased = Departure { lateness_ns: None, ..departure(first + 4) };
    records.push((up, dropped(first + 3, 2, DropReason::HoldFull)));
    records.extend([plain, marked, decided, corrupt].map(|fate| (up, Record::Departure(fate))));
    records.push((up, arrival(1000 * (first + 6), 1499, 1, 1)));
    records.push((up, dropped(first + 6, 0, DropReason::Loss)));
    records.extend([copy, unreleased].map(|fate| (up, Record::Departure(fate))));
    let mut change = Change::default();
    change.set("rate", "5mbit").unwrap();
    change.set("loss", "gemodel,1%,10%").unwrap();
    records.push((Direction::Down, Record::Change { at: Instant::from_nanos(20_500), change }));
    log_of(&records)
}
