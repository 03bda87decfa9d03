//! The export of a run's log and its report: the same figures, read from a table.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;

use serde_json::Value;

use crate::harness::{Run, punctual, udp_receiver, udp_sender};
use crate::replay::udp_to_an_echo;
use crate::report::number;
use crate::support::Test;

pub(crate) fn tests() -> Vec<Test> {
    tests![a_table_has_the_figures_of_the_report, bursts_and_duplicates_are_counted_as_reported]
        .into()
}

fn a_table_has_the_figures_of_the_report() {
    let ended = Run::new("delay=5ms")
        .options(["--up", "rate=8mbit loss=2%", "--down", "rate=4mbit jitter=2ms limit=50ms"])
        .peer("exec \"$P\" traffic echo 0.0.0.0:5001")
        .sh(&udp_to_an_echo("--rate 6mbit --duration 2s"))
        .finish();
    agrees(&ended);
}

fn bursts_and_duplicates_are_counted_as_reported() {
    let ended = Run::new("delay=5ms duplicate=10% corrupt=5% reorder=10%")
        .options(["--seed", "7"])
        .peer(&udp_receiver("--idle 500ms"))
        .sh(&udp_sender("--packets 2000 --count 2000"))
        .finish();
    agrees(&ended);
}

fn agrees(ended: &crate::harness::Ended) {
    let report = ended.report();
    let rows = table(ended);
    for (name, json) in [("up", &report.up.json), ("down", &report.down.json)] {
        let rows: Vec<_> = rows.iter().filter(|row| row.text("direction") == name).collect();
        counts(&rows, json);
        let columns = ["total", "queue", "serialisation", "pacing", "propagation"];
        for column in columns {
            figures(&rows, &format!("{column}_ns"), &json["delay"][column]);
        }
        figures(&rows, "lateness_ns", &json["lateness"]);
    }
}

/// One row by its columns; a null is not there.
struct Row(BTreeMap<String, Cell>);

enum Cell {
    Text(String),
    Number(i128),
}

impl Row {
    fn text(&self, column: &str) -> &str {
        match &self.0[column] {
            Cell::Text(text) => text,
            Cell::Number(_) => panic!("{column} is a number"),
        }
    }

    fn number(&self, column: &str) -> Option<i128> {
        match self.0.get(column)? {
            Cell::Number(number) => Some(*number),
            Cell::Text(_) => panic!("{column} is text"),
        }
    }
}

/// Counts and bytes are sums over rows.
fn counts(rows: &[&Row], json: &Value) {
    let sum = |column: &str, of: &dyn Fn(&Row) -> bool| -> u64 {
        let of = rows.iter().filter(|row| of(row));
        u64::try_from(of.filter_map(|row| row.number(column)).sum::<i128>()).expect("a count")
    };
    let (packets, bytes) = (&json["packets"], &json["bytes"]);
    for (column, counted) in [("segments", packets), ("bytes", bytes)] {
        assert_eq!(sum(column, &|row| row.number("copy") == Some(0)), number(&counted["in"]));
        assert_eq!(sum(column, &|row| row.text("fate") == "out"), number(&counted["out"]));
    }
    for (reason, dropped) in packets["dropped"].as_object().expect("drops are a table") {
        assert_eq!(sum("segments", &|row| row.text("fate") == reason), number(dropped), "{reason}");
    }
    let corrupt = sum("segments", &|row| row.number("corrupt_bit").is_some());
    assert_eq!(corrupt, number(&packets["corrupted"]));
}

/// A distribution is that of the column over the rows of released packets, to the report's tenth
/// of a percent.
fn figures(rows: &[&Row], column: &str, told: &Value) {
    let released = rows.iter().filter(|row| row.number("released_ns").is_some());
    let mut values: Vec<_> = released.filter_map(|row| row.number(column)).collect();
    values.sort_unstable();
    let n = values.len();
    assert_eq!(n as u64, number(&told["n"]), "{column}");
    if n == 0 {
        return;
    }
    let figure = |key: &str| i128::from(told[key].as_i64().expect("a figure"));
    let mean = values.iter().sum::<i128>() / n as i128;
    assert_eq!(figure("min_ns"), values[0], "{column}");
    assert_eq!(figure("max_ns"), values[n - 1], "{column}");
    assert!((figure("mean_ns") - mean).abs() <= 1, "{column}: {} {mean}", figure("mean_ns"));
    for (key, share) in [("p50_ns", 500), ("p90_ns", 900), ("p99_ns", 990), ("p999_ns", 999)] {
        let exact = values[(n * share).div_ceil(1000) - 1];
        let within = figure(key) - exact;
        assert!(
            (0..=exact.abs() / 1000 + 1).contains(&within),
            "{column}: {key}: the table has {exact}, the report {}",
            figure(key)
        );
    }
}

#[cfg(feature = "parquet")]
fn table(ended: &crate::harness::Ended) -> Vec<Row> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    let file = exported(ended, "parquet");
    let reader = SerializedFileReader::new(fs::File::open(file).expect("it was written"));
    let reader = reader.expect("it is Parquet");
    let rows = reader.get_row_iter(None).expect("it has rows").map(|row| {
        let row = row.expect("a row can be read");
        let cells = row.get_column_iter().filter_map(|(name, field)| {
            let cell = match field {
                Field::Null => return None,
                Field::Str(text) => Cell::Text(text.clone()),
                other => Cell::Number(other.to_string().parse().expect("an integer")),
            };
            Some((name.clone(), cell))
        });
        Row(cells.collect())
    });
    rows.collect()
}

#[cfg(not(feature = "parquet"))]
fn table(ended: &crate::harness::Ended) -> Vec<Row> {
    let text = fs::read_to_string(exported(ended, "csv")).expect("it was written");
    let mut lines = text.lines().map(|line| line.split(','));
    let names: Vec<_> = lines.next().expect("it has a line of names").collect();
    let words = ["direction", "fate", "flow", "ecn", "mark"];
    let cell = |(name, text): (&&str, &str)| {
        let text = Some(text).filter(|text| !text.is_empty())?.to_owned();
        let word = words.contains(name);
        let cell =
            if word { Cell::Text(text) } else { Cell::Number(text.parse().expect("an integer")) };
        Some(((*name).to_owned(), cell))
    };
    lines.map(|line| Row(names.iter().zip(line).filter_map(cell).collect())).collect()
}

/// The log, exported beside it.
fn exported(ended: &crate::harness::Ended, format: &str) -> std::path::PathBuf {
    let (log, out) = (ended.file("log"), ended.file(&format!("table.{format}")));
    let words = [OsStr::new("log"), OsStr::new("export"), log.as_os_str(), OsStr::new("-o")];
    let told = punctual(words.into_iter().chain([out.as_os_str()]));
    assert_eq!((told.status, told.stderr.as_str()), (0, ""));
    out
}
