//! Large logs in bounded memory.

use std::io;

use punctual::export::Format;
use punctual::log::{Direction, Record};
use punctual_sched::DropReason;

use crate::capture::Capture;
use crate::made::{arrival, departure, dropped, exported, log_of, request};

/// A million packets, a thousand held at a time; the first is held to the end.
fn million() -> Vec<u8> {
    let up = Direction::Up;
    let mut records = Vec::new();
    for sequence in 1..=1_000_000_u64 {
        records.push((up, arrival(1000 * sequence, 1500, 1, 0x0102_0304)));
        if let Some(old) = sequence.checked_sub(1000).filter(|old| *old > 1) {
            records.push(match old % 50 {
                0 => (up, dropped(old, 0, DropReason::Limit)),
                _ => (up, Record::Departure(departure(old))),
            });
        }
    }
    log_of(&records)
}

#[test]
fn a_million_packets_are_never_held_together() {
    let log = million();
    for (format, most) in [(Format::Csv, 1), (Format::Parquet, 1 << 17), (Format::Pcapng, 1 << 18)]
    {
        if format == Format::Parquet && cfg!(not(feature = "parquet")) {
            continue;
        }
        let (out, summary) = exported(&log, &request(format)).unwrap();
        assert_eq!(summary.rows, 1_000_000);
        assert!(summary.peak_packets <= 1002, "{format:?}: {}", summary.peak_packets);
        assert!(summary.peak_buffered <= most + 1, "{format:?}: {}", summary.peak_buffered);
        match format {
            Format::Parquet => row_groups(&out),
            Format::Pcapng => told_later(&out),
            Format::Csv | Format::Jens => {
                assert_eq!(io::BufRead::lines(&*out).count(), 1_000_001);
            }
        }
    }
}

/// The frame of a packet that is held for longer than frames can wait goes before its fate is
/// known, and all others have theirs.
fn told_later(out: &[u8]) {
    let capture = Capture::parse(out);
    assert!(capture.frames.is_sorted_by_key(|frame| frame.unix_ns));
    let later = capture.frames.iter().filter(|frame| frame.comment.contains("fate=later"));
    assert_eq!(later.map(|frame| frame.id).collect::<Vec<_>>(), [1]);
}

#[cfg(feature = "parquet")]
fn row_groups(out: &[u8]) {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    let reader = SerializedFileReader::new(crate::table::in_memory(out)).unwrap();
    let groups = reader.metadata().row_groups().iter();
    let groups: Vec<_> = groups.map(parquet::file::metadata::RowGroupMetaData::num_rows).collect();
    assert_eq!(groups, [131_072, 131_072, 131_072, 131_072, 131_072, 131_072, 131_072, 82_496]);
}

#[cfg(not(feature = "parquet"))]
fn row_groups(_: &[u8]) {}
