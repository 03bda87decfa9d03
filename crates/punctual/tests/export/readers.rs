//! Parquet files as pyarrow and DuckDB read them.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod made;
#[path = "../../../linux/tests/support/mod.rs"]
#[macro_use]
mod support;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use punctual::export::Format;
use punctual::log::{Departure, Direction, Record};

use crate::made::{arrival, departure, export_of, log_of, one_of_each};

fn main() -> ExitCode {
    let tests = tests![
        pyarrow_reads_every_value_that_csv_has,
        duckdb_reads_every_value_that_csv_has,
        many_row_groups_are_one_table_to_both,
        the_queries_of_the_page_run,
    ];
    support::run(&tests, installed)
}

fn python() -> Command {
    Command::new("python3")
}

fn installed() -> Result<(), String> {
    if cfg!(not(feature = "parquet")) {
        return Err("built without Parquet".to_owned());
    }
    let told = python().args(["-c", "import pyarrow.parquet, duckdb"]).output();
    let told = told.map_err(|error| format!("python3 cannot be run: {error}"))?;
    if told.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&told.stderr);
    let last = errors.lines().last().unwrap_or("it says nothing");
    Err(format!("{last}; install pyarrow and duckdb by pip"))
}

/// A directory with `run.parquet` and `run.csv` of one log, removed at the end.
struct Exports(PathBuf);

impl Exports {
    fn of(test: &str, log: &[u8]) -> Self {
        let name = format!("punctual-readers-{}-{test}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).unwrap();
        let exports = Self(directory);
        fs::write(exports.0.join("run.parquet"), export_of(log, Format::Parquet)).unwrap();
        fs::write(exports.0.join("run.csv"), export_of(log, Format::Csv)).unwrap();
        exports
    }

    /// What a script prints.
    fn python(&self, script: &str) -> String {
        let told = python().current_dir(&self.0).args(["-c", script]).output().unwrap();
        let errors = String::from_utf8(told.stderr).unwrap();
        assert!(told.status.success(), "{script}\n{errors}");
        String::from_utf8(told.stdout).unwrap().trim_end().to_owned()
    }
}

impl Drop for Exports {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Compares the table `names`, `rows` with the lines of the CSV file, value by value.
const COMPARE: &str = "
import csv
lines = list(csv.reader(open('run.csv')))
assert names == lines[0], names
rows = [['' if value is None else str(value) for value in row] for row in rows]
assert rows == lines[1:], next(pair for pair in zip(rows, lines[1:]) if pair[0] != pair[1])
print(len(rows))
";

const PYARROW: &str = "
import pyarrow.parquet as pq
table = pq.read_table('run.parquet')
names = table.column_names
rows = zip(*(column.to_pylist() for column in table.columns))
assert pq.ParquetFile('run.parquet').metadata.metadata[b'punctual.complete'] == b'true'
";

const DUCKDB: &str = "
import duckdb
found = duckdb.sql(\"SELECT * FROM 'run.parquet'\")
names, rows = found.columns, found.fetchall()
";

fn pyarrow_reads_every_value_that_csv_has() {
    let exports = Exports::of("pyarrow", &one_of_each());
    assert_eq!(exports.python(&format!("{PYARROW}{COMPARE}")), rows(&exports));
}

fn duckdb_reads_every_value_that_csv_has() {
    let exports = Exports::of("duckdb", &one_of_each());
    assert_eq!(exports.python(&format!("{DUCKDB}{COMPARE}")), rows(&exports));
}

fn many_row_groups_are_one_table_to_both() {
    let exports = Exports::of("groups", &log_of_many(300_000));
    for reader in [PYARROW, DUCKDB] {
        assert_eq!(exports.python(&format!("{reader}{COMPARE}")), "300000");
    }
    let groups =
        "import pyarrow.parquet as pq; print(pq.ParquetFile('run.parquet').num_row_groups)";
    assert_eq!(exports.python(groups), "3");
}

/// Those of `docs/log-export.md`, which all have a figure to find.
fn the_queries_of_the_page_run() {
    let page = include_str!("../../../../docs/log-export.md");
    let block = |language: &str| {
        let begun = page.split(&format!("```{language}\n")).nth(1).unwrap();
        begun.split("```").next().unwrap()
    };
    let exports = Exports::of("page", &one_of_each());
    assert_eq!(exports.python(block("python")), "5 [\n  7,\n  9,\n  9\n]");
    for query in block("sql").split(';').filter(|query| !query.trim().is_empty()) {
        let script = format!("import duckdb\nprint(len(duckdb.sql('''{query}''').fetchall()))");
        let found: u32 = exports.python(&script).parse().unwrap();
        assert!(found > 0, "{query}");
    }
}

fn rows(exports: &Exports) -> String {
    let lines = fs::read_to_string(exports.0.join("run.csv")).unwrap();
    (lines.lines().count() - 1).to_string()
}

fn log_of_many(packets: u64) -> Vec<u8> {
    let records = (1..=packets).flat_map(|number| {
        let late = Departure { lateness_ns: i64::try_from(number).ok(), ..departure(number) };
        [arrival(1000 * number, 1500, 1, 7), Record::Departure(late)]
    });
    log_of(&records.map(|record| (Direction::Up, record)).collect::<Vec<_>>())
}
