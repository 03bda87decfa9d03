//! What `punctual log` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::log::Direction;

/// `punctual log`
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Write a run's packets as CSV, Parquet or pcapng, or as the records of jens
    Export(ExportOptions),
    /// Say what a log holds and whether it is complete
    Info(InfoOptions),
}

/// `punctual log export`
#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub struct ExportOptions {
    /// Log written by `punctual run --log`, a file: it is read twice
    pub log: PathBuf,
    /// File to write, `-` for standard output; its ending names the format
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Format, whatever the file is called
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// One direction only
    #[arg(long, value_enum)]
    pub direction: Option<DirectionName>,
    /// Write the changes of parameters to this file, as CSV
    #[arg(long, value_name = "FILE")]
    pub changes: Option<PathBuf>,
    /// The user whose records to write, of a jens with several (they count from 0)
    #[arg(long, value_name = "N")]
    pub user: Option<u32>,
}

/// `punctual log info`
#[derive(Args, Debug)]
pub struct InfoOptions {
    /// Log written by `punctual run --log`; `-` is stdin
    pub log: PathBuf,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What an export is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line for each fate
    Csv,
    /// A row for each fate, in columns, compressed
    Parquet,
    /// A frame for each arrival, release and drop, for Wireshark
    Pcapng,
    /// Records of 64 bytes, as the kernel modules of jens write them
    Jens,
}

/// `--direction`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DirectionName {
    /// From the command to its peer
    Up,
    /// From the peer to the command
    Down,
}

impl From<DirectionName> for Direction {
    fn from(name: DirectionName) -> Self {
        match name {
            DirectionName::Up => Self::Up,
            DirectionName::Down => Self::Down,
        }
    }
}

const HELP: &str = "\
FORMATS
  .csv      a line for each fate: departure, drop, or none when the run ended
  .parquet  the same columns, compressed by zstd, for DuckDB, pandas, Spark
  .pcapng   frames with nanosecond stamps for Wireshark; the fate and the parts of
            the delay are in each frame's comment
  .jens     the 64-byte records of queue=jens, made again from the log

  A log has neither payload nor addresses. Captures show addresses that stand for
  the hash of a flow: see docs/log-export.md, which has every column too.

EXIT STATUS
  0 all that the log holds was written, a warning on stderr if that is not all of the
  run; 2 the log is damaged, or has nothing of what was asked for; 125 the output
  cannot be written; 128+N stopped by signal N. OUT is there when it is whole.

EXAMPLES
  punctual log export run.log -o run.parquet
  duckdb -c \"SELECT flow, quantile_disc(total_ns, 0.99) FROM 'run.parquet' GROUP BY flow\"
  punctual log export run.log -o run.pcapng --direction up
  tshark -r run.pcapng -Y 'frame.comment contains \"fate=limit\"'
  punctual log export run.log -o - --format csv | head";
