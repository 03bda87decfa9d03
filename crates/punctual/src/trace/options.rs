//! The options of `punctual trace`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use punctual_sched::Duration;
use punctual_sched::trace::Opportunity;

use super::make::MakeOptions;
use super::{Format, Hints, Read, Rtt, TraceError, Unit};
use crate::cli::seed;
use crate::failure::Failure;
use crate::log::Direction;

/// `punctual trace`
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Name a trace's format, and say what it holds and what to beware of
    Check(CheckOptions),
    /// Write a trace as canonical CSV
    Convert(ConvertOptions),
    /// Generate a trace from a seed, as canonical CSV
    Make(MakeOptions),
}

/// `punctual trace check`
#[derive(Args, Debug)]
#[command(after_long_help = CHECK_HELP)]
pub struct CheckOptions {
    /// The file and what it does not say.
    #[command(flatten)]
    pub input: InputOptions,
    /// Turn single deliveries into rates over windows of this time (default 10ms)
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true,
          default_missing_value = "10ms")]
    pub fluid: Option<Duration>,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `punctual trace convert`
#[derive(Args, Debug)]
#[command(after_long_help = CONVERT_HELP)]
pub struct ConvertOptions {
    /// The file and what it does not say.
    #[command(flatten)]
    pub input: InputOptions,
    /// Turn single deliveries into rates over windows of this time (default 10ms)
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true,
          default_missing_value = "10ms")]
    pub fluid: Option<Duration>,
    /// What one direction has of round-trip times; needed where they are merged (default: half)
    #[arg(long, value_enum)]
    pub rtt: Option<Rtt>,
    /// What is merged into the file.
    #[command(flatten)]
    pub merge: MergeOptions,
    /// File to write, replaced if it exists (default: stdout)
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
}

/// A second trace, and what it does not say by itself.
#[derive(Args, Debug)]
pub struct MergeOptions {
    /// Trace that sets what the file does not, such as delays beside rates; both begin at 0, and the
    /// file gives the span
    #[arg(long, value_name = "FILE")]
    pub merge: Option<PathBuf>,
    /// Format of that trace (default: recognised)
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        hide_possible_values = true,
        requires = "merge"
    )]
    pub merge_format: Option<Format>,
    /// What the rates of its time-throughput pairs count, per second
    #[arg(long, value_enum, value_name = "UNIT", requires = "merge")]
    pub merge_unit: Option<Unit>,
}

/// A trace file, and what it does not say by itself.
#[derive(Args, Debug)]
pub struct InputOptions {
    /// Trace file; `-` is stdin
    pub file: PathBuf,
    /// What holds for both directions.
    #[command(flatten)]
    pub hints: HintOptions,
    /// Which direction of a file that holds both: up or down
    #[arg(long, value_parser = direction)]
    pub direction: Option<Direction>,
}

/// What a file does not say by itself, whichever direction is meant.
#[derive(Args, Debug)]
pub struct HintOptions {
    /// Format of the file (default: recognised)
    #[arg(long, value_enum, hide_possible_values = true)]
    pub format: Option<Format>,
    /// What the rates of time-throughput pairs count, per second
    #[arg(long, value_enum)]
    pub unit: Option<Unit>,
    /// Bytes of a packet delivery opportunity: 1504, of which each packet needs 4 beside its own
    /// as in Mahimahi's code, or 1500 as in its manual
    #[arg(long, value_name = "BYTES", value_parser = packet, default_value = "1504")]
    pub packet: Packet,
    /// Seed of what is drawn from a distribution, in place of the file's own
    #[arg(long, value_parser = seed)]
    pub seed: Option<u64>,
}

/// `--packet`
#[derive(Clone, Copy, Debug)]
pub struct Packet(pub Opportunity);

impl Packet {
    /// As it is written.
    pub(crate) fn word(self) -> &'static str {
        if self.0 == Opportunity::IP { "1500" } else { "1504" }
    }
}

impl HintOptions {
    /// For the reader.
    pub(crate) fn hints(&self) -> Hints {
        let &Self { format, unit, packet, seed } = self;
        Hints { format, unit, packet: Some(packet.0), seed, ..Hints::default() }
    }
}

impl InputOptions {
    pub(super) fn hints(&self, fluid: Option<Duration>) -> Hints {
        Hints { direction: self.direction, fluid, ..self.hints.hints() }
    }

    /// What cannot be read is bad usage; where an option would decide, the message names it.
    pub(super) fn read(&self, hints: &Hints) -> Result<Read, Failure> {
        super::read(&self.file, hints).map_err(unread)
    }
}

/// A file that cannot be read, as bad usage.
pub(crate) fn unread(error: TraceError) -> Failure {
    match error.missing() {
        Some(missing) => Failure::usage(format!("{error}; say --{}", missing.option())),
        None => Failure::usage(error),
    }
}

pub(super) fn direction(text: &str) -> Result<Direction, String> {
    let found = Direction::BOTH.into_iter().find(|direction| direction.name() == text);
    found.ok_or_else(|| "expected up or down".to_owned())
}

fn packet(text: &str) -> Result<Packet, String> {
    match text {
        "1504" => Ok(Packet(Opportunity::MAHIMAHI)),
        "1500" => Ok(Packet(Opportunity::IP)),
        _ => Err("expected 1504 or 1500".to_owned()),
    }
}

const CHECK_HELP: &str = "\
FORMATS
  punctual           canonical CSV, as convert and make write it
  mahimahi           packet delivery: a time in ms a line, one opportunity each
  mahimahi-rate      kbit per ms, one line per ms (never guessed)
  mahimahi-log       the delivery opportunities of a log
  netem-trace        configuration of Rattan's crate, JSON or TOML
  theaterq           KEEP,LATENCY,RATE,LOSS,LIMIT
  theaterq-extended  8 to 10 columns, with JITTER and duplicates
  fau                at,delay,stddev,min_link_cap,...
  pairs              seconds and throughput; --unit says what of
  hsdpa, ghent       bytes and ms since the line before
  fcc                web-get CSV, bytes/s in column 7, 5 s each
  fcc-rates          a rate in bytes/s a line, 5 s each (never guessed)
  ucc                Timestamp,...,DL_bitrate,UL_bitrate,... in kbit/s; --direction
  starlink           time,throughput,speed,... in Mbit/s
  lens-irtt          timestamp,rtt,uplink,downlink in ms; --direction
  lens-ping          timestamp,rtt in ms
  wetlinks-iperf     site_name,...,download,upload in bit/s; --direction
  wetlinks-ping      site_name,...,packet_loss,packets_send,ping_avg,...
  errant             time,operator,...,download,upload,rtt; --direction
  ntrace             Intel LPP network trace; --direction
  cellreplay         the base delays of a light trace

EXIT STATUS
  0 it can be read, 2 it cannot

EXAMPLES
  punctual trace check Verizon-LTE-short.down
  punctual trace check --unit mbit --json cooked.txt";

const CONVERT_HELP: &str = "\
EXAMPLES
  punctual trace convert --direction down drive.csv -o drive.trace.csv
  punctual trace convert --fluid=20ms ATT-LTE-driving.up | head
  punctual trace convert --unit kbit report.log
  punctual trace convert --direction down speed.csv --merge ping.csv --rtt half -o both.csv";
