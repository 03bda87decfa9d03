//! CSV and Parquet: the same rows, and those of the log.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

use punctual::export::{COLUMNS, Format, Request, export};
use punctual::log::{
    BlockWriter, Direction, DirectionEnd, DirectionHeader, EndRecord, Epoch, Header, LaneId,
    Record, SnapshotRecord,
};
use punctual::trace::{Hints, read_from};
use punctual_sched::trace::{Course, Opportunity, Schedule, Step, Timeline, Trace};
use punctual_sched::{
    Change, ConfigBuilder, Duration, Instant, Link, LinkConfig, Output, Packet, Rate, Snapshot,
};

use crate::made::{
    EPOCH_UNIX_NS, arrival, departure, export_of, exported, log_of, one_of_each, request,
};
use crate::rewrite::parts;
use crate::run::{SCENARIOS, START, Scenario};

/// A table's rows by the names of their columns; empty where there is nothing to say.
pub(crate) type Rows = Vec<BTreeMap<String, String>>;

fn csv(log: &[u8]) -> Rows {
    let text = String::from_utf8(export_of(log, Format::Csv)).unwrap();
    let mut lines = text.lines();
    let names: Vec<_> = lines.next().unwrap().split(',').collect();
    assert_eq!(names, COLUMNS.map(|column| column.name));
    lines
        .map(|line| {
            let values: Vec<_> = line.split(',').map(str::to_owned).collect();
            assert_eq!(values.len(), names.len(), "{line}");
            names.iter().map(|name| (*name).to_owned()).zip(values).collect()
        })
        .collect()
}

/// A file in memory.
#[cfg(feature = "parquet")]
pub(crate) fn in_memory(bytes: &[u8]) -> std::fs::File {
    use std::io::Write;
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = std::fs::File::from(rustix::fs::memfd_create("test", flags).unwrap());
    file.write_all(bytes).unwrap();
    file
}

#[cfg(feature = "parquet")]
fn from_parquet(file: &[u8]) -> Rows {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    let reader = SerializedFileReader::new(in_memory(file)).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let fields = row.get_column_iter().map(|(name, field)| {
            let text = match field {
                Field::Null => String::new(),
                Field::Str(text) => text.clone(),
                other => other.to_string(),
            };
            (name.clone(), text)
        });
        fields.collect()
    });
    rows.collect()
}

fn figure(row: &BTreeMap<String, String>, name: &str) -> Option<i128> {
    let text = &row[name];
    if text.is_empty() { None } else { Some(text.parse().unwrap()) }
}

fn sum<'a>(rows: impl IntoIterator<Item = &'a BTreeMap<String, String>>, name: &str) -> u64 {
    rows.into_iter().map(|row| u64::try_from(figure(row, name).unwrap()).unwrap()).sum()
}

#[test]
fn one_of_everything_is_told_to_the_letter() {
    let text = String::from_utf8(export_of(&one_of_each(), Format::Csv)).unwrap();
    assert_eq!(text, include_str!("one_of_each.csv"));
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_has_the_rows_of_csv() {
    let logs = SCENARIOS.iter().map(Scenario::log).chain([one_of_each()]);
    for log in logs {
        let (csv, parquet) = (csv(&log), from_parquet(&export_of(&log, Format::Parquet)));
        assert_eq!(csv.len(), parquet.len());
        for (csv, parquet) in csv.iter().zip(&parquet) {
            assert_eq!(csv, parquet);
        }
    }
}

#[test]
fn a_table_agrees_with_what_the_run_counted() {
    for scenario in SCENARIOS {
        let log = scenario.log();
        let rows = csv(&log);
        for (direction, end) in Direction::BOTH.into_iter().zip(parts(&log).ends) {
            let rows: Vec<_> =
                rows.iter().filter(|row| row["direction"] == direction.name()).collect();
            let end = end.end.unwrap().snapshot;
            counts_agree(&rows, &end, scenario.name);
            for row in rows {
                parts_sum_up(row);
            }
        }
    }
}

fn counts_agree(rows: &[&BTreeMap<String, String>], end: &SnapshotRecord, name: &str) {
    let of =
        |fate: &str| -> Vec<_> { rows.iter().copied().filter(|row| row["fate"] == fate).collect() };
    assert_eq!(sum(of("out"), "segments"), end.packets_out, "{name}");
    assert_eq!(sum(of("out"), "bytes"), end.bytes_out, "{name}");
    for (reason, dropped) in &end.dropped {
        assert_eq!(sum(of(reason), "segments"), *dropped, "{name}: {reason}");
    }
    let own = || rows.iter().copied().filter(|row| row["copy"] == "0");
    assert_eq!(sum(own(), "segments"), end.packets_in, "{name}");
    assert_eq!(sum(own(), "bytes"), end.bytes_in, "{name}");
    // Duplicates that were still held are in no row.
    let copies = rows.len() as u64 - own().count() as u64;
    let held = sum(of("held"), "segments");
    assert_eq!(copies + end.queued, held + end.duplicated, "{name}");
    assert_eq!(
        of("out").iter().filter(|row| row["mark"] == "ce").count() as u64,
        end.marked,
        "{name}"
    );
    let corrupt = of("out").iter().filter(|row| !row["corrupt_bit"].is_empty()).count();
    assert_eq!(corrupt as u64, end.corrupted, "{name}");
}

/// The parts of a delay are those of its total, and times are in order.
fn parts_sum_up(row: &BTreeMap<String, String>) {
    let parts = ["queue_ns", "serialisation_ns", "pacing_ns", "propagation_ns"];
    let parts = parts.map(|name| figure(row, name));
    if row["fate"] != "out" {
        assert_eq!(parts, [None; 4], "{row:?}");
        assert_eq!(row["fate"] == "held", row["dropped_ns"].is_empty(), "{row:?}");
        return;
    }
    let sum: i128 = parts.into_iter().map(Option::unwrap).sum();
    let (arrival, due) = (figure(row, "arrival_ns").unwrap(), figure(row, "due_ns").unwrap());
    assert_eq!(arrival + sum, due, "{row:?}");
    match figure(row, "released_ns") {
        Some(released) => {
            assert_eq!(due + figure(row, "lateness_ns").unwrap(), released, "{row:?}");
            assert_eq!(arrival + figure(row, "total_ns").unwrap(), released, "{row:?}");
        }
        None => assert!(row["lateness_ns"].is_empty() && row["total_ns"].is_empty(), "{row:?}"),
    }
}

/// A log that named 2 ms while 100 ms of delay stood behind the link misled its readers.
#[test]
fn behind_a_trace_every_line_has_the_parts_of_its_delay_and_their_total() {
    // 12 Mbit/s as single deliveries and as a rate; packets come faster.
    let own = "# span=1s\ntime,rate\n0s,12mbit\n";
    for (text, words, service) in [("1\n", "", 0), (own, " framing=0", 1_000_000)] {
        let rows = csv(&delayed(text, words));
        assert_eq!(rows.len(), 500);
        for row in &rows {
            assert_eq!(row["fate"], "out", "{row:?}");
            parts_sum_up(row);
            let of = |name: &str| figure(row, name).unwrap();
            let parts = ["queue_ns", "serialisation_ns", "propagation_ns", "lateness_ns"].map(of);
            assert_eq!(parts.iter().sum::<i128>() + of("pacing_ns"), of("total_ns"), "{row:?}");
            assert_eq!((parts[1], parts[2]), (service, 100_000_000), "{row:?}");
            assert!(of("total_ns") >= 100_000_000, "{row:?}");
        }
        // The queue grows by 0.1 ms a packet.
        let waited = figure(&rows[499], "queue_ns").unwrap();
        assert!((49_000_000..52_000_000).contains(&waited), "{waited}");
    }
}

/// 500 packets of 1,500 bytes, one each 0.9 ms, through a link that follows the trace in `text`,
/// delays them by 100 ms and has `words` beside.
fn delayed(text: &str, words: &str) -> Vec<u8> {
    let hints = Hints { packet: Some(Opportunity::IP), ..Hints::default() };
    let timeline = read_from("trace", text.as_bytes(), &hints).unwrap().timeline;
    let mut builder = ConfigBuilder::default();
    builder.words(&format!("delay=100ms limit=1000p{words}"), "test").unwrap();
    let trace = Trace::new(Arc::new(Schedule::new(timeline).unwrap()));
    builder.follow(Trace { repeat: true, ..trace });
    let config = builder.finish().unwrap();
    let of = |config| DirectionHeader::new(config, 7, START);
    let down = LinkConfig::default();
    let header = Header::new("delayed", Epoch::default(), of(&config), of(&down));
    let mut log = Vec::new();
    let mut writer = BlockWriter::start(&mut log, &header).unwrap();
    let mut link = Link::new(&config, 7, START).unwrap();
    let mut now = START;
    for number in 1..=500 {
        now = now + Duration::from_micros(900);
        let packet = Packet::on_path(number, now, 1_500, 1);
        writer.record(Direction::Up, &Record::Arrival((&packet).into()));
        link.arrive(packet);
    }
    let end = now + Duration::from_secs(1);
    link.advance(end);
    while let Some(output) = link.poll() {
        let Output::Depart { packet, due, .. } = output else { panic!("{output:?}") };
        let released = due + Duration::from_micros(packet.handle % 50);
        writer.record(Direction::Up, &Record::fate(packet.handle, &output, Some(released)));
    }
    let end = EndRecord::new(end, &link.snapshot());
    let up = DirectionEnd { end: Some(end), unwritten: 0 };
    writer.finish(&[up, DirectionEnd { end: None, unwritten: 0 }]).unwrap();
    log
}

#[test]
fn one_direction_alone_is_that_part_of_both() {
    let log = SCENARIOS[5].log();
    let both = csv(&log);
    for direction in Direction::BOTH {
        let request = Request { direction: Some(direction), ..request(Format::Csv) };
        let text = String::from_utf8(exported(&log, &request).unwrap().0).unwrap();
        let of = both.iter().filter(|row| row["direction"] == direction.name());
        assert_eq!(text.lines().count(), of.count() + 1);
        assert!(text.lines().skip(1).all(|line| line.starts_with(direction.name())));
    }
}

#[test]
fn a_log_that_was_cut_off_gives_what_it_has() {
    let log = Scenario { packets: 10_000, ..SCENARIOS[3] }.log();
    let whole = csv(&log);
    let cut = &log[..log.len() / 2];
    let (text, summary) = exported(cut, &request(Format::Csv)).unwrap();
    assert!(summary.survey.lack().unwrap().starts_with("the log was cut off"));
    let rows = csv(cut);
    assert_eq!(String::from_utf8(text).unwrap().lines().count(), rows.len() + 1);
    let told: Vec<_> = rows.iter().filter(|row| row["fate"] != "unknown").collect();
    assert!(told.len() > 1000 && rows.len() > told.len(), "{} of {}", told.len(), rows.len());
    // Blocks of the two directions take turns, so rows of one stay where they were.
    for direction in Direction::BOTH {
        let of = |rows: &[&BTreeMap<String, String>]| -> Vec<BTreeMap<String, String>> {
            let rows = rows.iter().filter(|row| row["direction"] == direction.name());
            rows.map(|row| (*row).clone()).collect()
        };
        assert!(of(&whole.iter().collect::<Vec<_>>()).starts_with(&of(&told)));
    }
    assert!(rows.iter().all(|row| row["fate"] != "held"), "nobody knows");
}

#[test]
fn packets_held_when_the_run_ended_have_rows_by_number() {
    let rows = csv(&SCENARIOS[11].log());
    let held = rows.iter().filter(|row| row["fate"] == "held" && row["direction"] == "down");
    let packets: Vec<_> = held.map(|row| figure(row, "packet").unwrap()).collect();
    assert!(packets.len() > 100 && packets.is_sorted(), "{}", packets.len());
}

#[test]
fn changes_are_lines_of_their_own_one_for_each_parameter() {
    let log = SCENARIOS[10].log();
    let mut changes = Vec::new();
    export(&mut Cursor::new(&log), &request(Format::Csv), Vec::new(), Some(&mut changes)).unwrap();
    let text = String::from_utf8(changes).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "at_ns,at_unix_ns,direction,parameter,value");
    assert_eq!(lines[1], "105000000,105000000,up,rate,1mbit");
    let up = lines.iter().filter(|line| line.contains(",up,"));
    let values: Vec<_> = up.map(|line| line.splitn(4, ',').last().unwrap()).collect();
    assert_eq!(
        values,
        [
            "rate,1mbit",
            "rate,0bit",
            "rate,30mbit",
            "delay,40ms",
            "jitter,5ms",
            "loss,10%",
            "limit,5p",
            "rate,2mbit",
            "delay,1ms",
            "jitter,0ms",
            "loss,0%",
        ]
    );
}

#[test]
fn a_trace_that_is_followed_is_a_change() {
    let step = Step { rate: Rate::from_bps(5_000_000), ..Step::default() };
    let span = Duration::from_millis(800);
    let schedule = Schedule::new(Timeline { course: Course::Steps(vec![step]), span }).unwrap();
    let trace = Some(Box::new(Trace::new(Arc::new(schedule))));
    let log = log_of(&[
        (Direction::Up, Record::Follow { at: Instant::from_nanos(7), trace }),
        (Direction::Down, Record::Follow { at: Instant::from_nanos(9), trace: None }),
    ]);
    let mut changes = Vec::new();
    export(&mut Cursor::new(&log), &request(Format::Csv), Vec::new(), Some(&mut changes)).unwrap();
    let text = String::from_utf8(changes).unwrap();
    let lines: Vec<_> = text.lines().skip(1).collect();
    let unix = EPOCH_UNIX_NS;
    assert!(lines[0].starts_with(&format!("7,{},up,trace,\"800ms, mean 5mbit, crc32 ", unix + 7)));
    assert_eq!(lines[1..], [format!("9,{},down,trace,none", unix + 9)]);
    let capture = export_of(&log, Format::Pcapng);
    let told = "MESSAGE=change up trace=800ms, mean 5mbit, crc32 ";
    assert!(capture.windows(told.len()).any(|bytes| bytes == told.as_bytes()));
}

#[test]
fn a_value_with_commas_is_quoted() {
    let mut changes = Vec::new();
    let log = one_of_each();
    export(&mut Cursor::new(log), &request(Format::Csv), Vec::new(), Some(&mut changes)).unwrap();
    let text = String::from_utf8(changes).unwrap();
    assert!(text.ends_with(",down,loss,\"gemodel,1%,10%,100%,0%\"\n"), "{text}");
}

#[test]
fn every_parameter_that_can_change_has_lines() {
    let mut change = Change::default();
    for (name, value) in [("duplicate", "5%,20%"), ("queue", "fq"), ("rate", "1mbit")] {
        change.set(name, value).unwrap();
    }
    let log = log_of(&[(Direction::Up, Record::Change { at: Instant::from_nanos(5), change })]);
    let mut changes = Vec::new();
    export(&mut Cursor::new(log), &request(Format::Csv), Vec::new(), Some(&mut changes)).unwrap();
    let text = String::from_utf8(changes).unwrap();
    let unix = EPOCH_UNIX_NS + 5;
    let lines = ["rate,1mbit", "duplicate,\"5%,20%\"", "queue,fq"];
    let expected = lines.map(|line| format!("5,{unix},up,{line}"));
    assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), expected);
}

/// A log whose direction up has two lanes: two packets on the first, of which the second is held, one
/// on the other, and a change that both make.
fn log_of_lanes() -> Vec<u8> {
    let config = LinkConfig::parse("delay=1ms", "test").unwrap();
    let direction = DirectionHeader::new(&config, 1, Instant::ZERO);
    let up = DirectionHeader { lanes: vec![9], ..direction.clone() };
    let header = Header::new("lanes", Epoch::default(), up, direction);
    let mut log = Vec::new();
    let mut writer = BlockWriter::start(&mut log, &header).unwrap();
    for index in [0, 1] {
        let lane = LaneId { direction: Direction::Up, index };
        let change = Change::from_words("delay=2ms", "test").unwrap();
        writer.record(lane, &Record::Change { at: Instant::from_nanos(5), change });
        writer.record(lane, &arrival(1000, 100, 1, index.into()));
        writer.record(lane, &Record::Departure(departure(1)));
    }
    writer.record(Direction::Up, &arrival(2000, 100, 1, 0));
    let end = EndRecord::new(Instant::from_nanos(1_000_000_000), &Snapshot::default());
    let end = DirectionEnd { end: Some(end), unwritten: 0 };
    writer.finish(&[vec![end.clone(); 2], vec![end]]).unwrap();
    log
}

#[test]
fn lanes_take_turns_in_the_numbers_of_packets() {
    let log = log_of_lanes();
    let numbers: Vec<_> = csv(&log)
        .iter()
        .map(|row| ["direction", "packet", "fate", "flow"].map(|name| row[name].clone()).join(" "))
        .collect();
    let expected = ["up 1 out 00000000", "up 2 out 00000001", "up 3 held 00000000"];
    assert_eq!(numbers, expected);
    let (_, summary) = exported(&log, &request(Format::Csv)).unwrap();
    let counts = summary.survey.of(Direction::Up);
    assert_eq!((counts.arrivals, counts.departures, counts.held, counts.changes), (3, 2, 1, 1));
    assert!(summary.survey.is_whole(Direction::Up) && summary.survey.lack().is_none());
    let frames = export_of(&log, Format::Pcapng);
    let id = |packet: u64| {
        let option =
            [&5_u16.to_le_bytes()[..], &8_u16.to_le_bytes(), &packet.to_le_bytes()].concat();
        frames.windows(option.len()).filter(|window| *window == option).count()
    };
    assert_eq!([1, 2, 3, 4].map(id), [2, 2, 1, 0], "in and out, or in alone");
}

#[test]
fn the_page_names_every_column_in_its_order() {
    let page = include_str!("../../../../docs/log-export.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let named: Vec<_> = rows.map(|(name, _)| name).collect();
    let columns: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
    assert!(named.windows(columns.len()).any(|window| window == columns), "{named:?}");
}
