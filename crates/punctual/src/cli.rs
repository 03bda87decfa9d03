//! The command line: each option defined once, with its help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use punctual_linux::driver::Precision;
use punctual_sched::Duration;
use punctual_sched::parameter::{TABLES, Table};

/// A packet scheduler for Linux in userspace that proves its own timing.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command behind an emulated link, on real packets
    Run(Box<RunOptions>),
    /// Replay a run's log in virtual time and compare every decision
    Verify(VerifyOptions),
    /// Look at a run's log, or write its packets for other tools
    #[command(subcommand)]
    Log(crate::export::LogCommand),
    /// Show what it does in a quarter of a minute, on any machine
    Demo(DemoOptions),
    /// Change parameters of a running link
    Set(crate::set::SetOptions),
    /// Have a running link follow a trace, or follow none any more
    Play(Box<crate::play::PlayOptions>),
    /// Show a running link: queues, counters and parameters in force
    Show(crate::show::ShowOptions),
    /// List the runs that are there
    List(crate::list::ListOptions),
    /// Look at trace files, convert them, generate them
    #[command(subcommand)]
    Trace(crate::trace::options::TraceCommand),
    /// Remove what killed runs left behind
    Clean(CleanOptions),
    /// Print the manual page of a command, made from the same definitions as --help
    Man(ManOptions),
    /// Print a completion script for a shell
    Completions(CompletionsOptions),
    /// Bundled senders and receivers, for tests and measurements
    #[command(hide = true, subcommand)]
    Traffic(crate::traffic::TrafficCommand),
}

/// What `punctual run --help` says after the options: the link in examples, every parameter, the
/// rest.
fn run_help() -> String {
    format!("{RUN_LINK}\n\nALL PARAMETERS OF A LINK\n{}\n{RUN_HELP}", parameters_help())
}

/// Two lines for each parameter, from the table that reads them; a group for each discipline.
fn parameters_help() -> String {
    let group = |table: &'static Table| {
        let needs = (!table.needs().is_empty()).then(|| format!("\n with {}:\n", table.needs()));
        let rows = table.rows.iter().map(|row| {
            let (name, takes, default, help) = (row.name, row.takes, row.default, row.help);
            format!("  {name}={takes}  (default {default})\n      {help}\n")
        });
        needs.into_iter().chain(rows)
    };
    TABLES.iter().flat_map(group).collect::<Vec<_>>().concat()
}

const RUN_LINK: &str = "\
LINK is a list of NAME=VALUE in one argument, words as in tc(8):

  rate=20mbit      bottleneck rate; 0 pauses, absent = no bottleneck
  delay=30ms       propagation delay (times need a unit: ns us ms s)
  jitter=2ms       delay drawn from delay -+ jitter; order is kept, so that dense
                   packets wait for the one before and lean to the maximum
  loss=1%          random loss, percent with or without the sign;
                   loss.at=before|after the queue (default after)
  limit=100ms      what the queue holds: 1000p (or 1000pkt, 1000packets), 200kb
                   or a time at the rate
  queue=fifo       queue discipline
  burst=10kb       bytes that may leave at once after idling; peakrate=RATE
  nic=1gbit        the sender's access rate, before the queue
  framing=14       bytes per packet that the rate counts on top; overhead=N
  gso=auto         split|keep: cut the sender's bursts into packets first, or not
  hold=256mb       memory for packets on their way";

const RUN_HELP: &str = "\
WHEN CMD ENDS
  packets on their way get up to 1 s and their delay to arrive, which is told if it takes
  more than 2 s; then the peer and what
  CMD left running get SIGTERM, and what is left of them 2 s later SIGKILL; a signal to
  punctual ends them at once

EXIT STATUS
  CMD's own; 2 bad usage, 3 CMD succeeded but the verdict is not ok and --fail-unless-ok
  was given, 125 punctual failed, 126 CMD cannot be executed, 127 CMD not found,
  128+N CMD was killed by signal N

EXAMPLES
  punctual run --net lab --both 'rate=20mbit delay=30ms' -- sh -c 'ping -c 5 $PUNCTUAL_PEER'
      ($PUNCTUAL_PEER exists inside only: quote it, so that it is expanded there)
  punctual run --net lab --peer 'iperf3 -s -1' --peer-port 5201 \\
      --up rate=20mbit --down rate=100mbit -- sh -c 'iperf3 -c $PUNCTUAL_PEER'";

/// `punctual run`
#[derive(Args, Debug, Default)]
#[command(after_long_help = run_help())]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct RunOptions {
    /// What CMD reaches: `lab`, an isolated peer namespace (nothing of the host is touched); needed
    /// unless --peer is given
    #[arg(long, value_enum)]
    pub net: Option<Net>,
    /// Program to run at the other end, by `sh -c`; its output goes to stderr
    #[arg(long, value_name = "CMD")]
    pub peer: Option<String>,
    /// Wait until the peer listens on this TCP or UDP port before CMD starts, 30 s at most
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub peer_port: Option<u16>,
    /// Link in both directions, e.g. 'rate=20mbit delay=30ms' (see --help)
    #[arg(long, value_name = "LINK")]
    pub both: Option<String>,
    /// Link from CMD to the peer; overrides --both parameter by parameter
    #[arg(long, value_name = "LINK")]
    pub up: Option<String>,
    /// Link from the peer to CMD; overrides --both parameter by parameter
    #[arg(long, value_name = "LINK")]
    pub down: Option<String>,
    /// Read links from a TOML file with tables both, up and down; options override it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Name of the run: 1 to 64 letters, digits, `-`, `_`, `.`, not with `-` or `.` in front, and none
    /// of up, down and both (default: lab, lab-2, ...)
    #[arg(long)]
    pub name: Option<String>,
    /// Stop CMD and what it started after this time (SIGTERM, then SIGKILL 2 s later)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    /// Seed of all randomness; the same seed and arrivals give the same losses and jitter
    #[arg(long, value_parser = seed, allow_hyphen_values = true)]
    pub seed: Option<u64>,
    /// What being on time may cost: eco neither spins nor asks for a real-time policy, strict
    /// keeps processors from idling
    #[arg(long, value_enum, default_value_t)]
    pub precision: PrecisionName,
    /// Lateness above which a departure counts against the verdict
    /// (default: a tenth of the one-way delay, 100us to 2ms)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub late: Option<Duration>,
    /// Write the report as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write a log from which `punctual verify` reproduces every decision, to a file
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Send numbered probes, capture both sides of the gate, compare with the report
    #[arg(long)]
    pub witness: bool,
    /// Threads that drive the link: 2 gives each direction its own; 4, 6, ... 16 divide the flows of
    /// each direction among half of them, where its parameters give flows nothing to share
    /// (default 1)
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<u8>,
    /// TCP congestion control of CMD and peer, e.g. cubic (default: the host's)
    #[arg(long, value_name = "NAME")]
    pub cc: Option<String>,
    /// TCP of CMD and peer asks for ECN, so that queues mark it instead of dropping (default: the
    /// kernel's, which only accepts it)
    #[arg(long)]
    pub ecn: bool,
    /// No summary on stderr but for what was lost of the log, and no live line (shown while stdout is
    /// not the terminal)
    #[arg(short, long)]
    pub quiet: bool,
    /// Exit with 3 when CMD succeeded but the verdict is not ok
    #[arg(long)]
    pub fail_unless_ok: bool,
    /// Command to run (default: $SHELL)
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

/// One, or as many for each direction.
fn threads(text: &str) -> Result<u8, String> {
    match text.parse() {
        Ok(1) => Ok(1),
        Ok(number) if number <= MOST_THREADS && number % 2 == 0 && number > 0 => Ok(number),
        _ => Err(format!(
            "expected 1, 2 (one for each direction), or an even number up to {MOST_THREADS}"
        )),
    }
}

/// Beyond eight queues a direction the kernel's rules cost as much as what they save.
const MOST_THREADS: u8 = 16;

/// Decimal or, after `0x`, hexadecimal.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    let read = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.map_err(|_| {
        format!("expected a whole number from 0 to {}, or 0x and hexadecimal", u64::MAX)
    })
}

/// `--net`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Net {
    /// An isolated peer namespace.
    Lab,
}

/// `--precision`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PrecisionName {
    /// Never spins
    Eco,
    /// Real-time policy or short slice where granted, short spins
    #[default]
    Balanced,
    /// The same, and processors are kept from idling
    Strict,
}

impl PrecisionName {
    /// The word on the command line and in the report.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Eco => "eco",
            Self::Balanced => "balanced",
            Self::Strict => "strict",
        }
    }
}

impl From<PrecisionName> for Precision {
    fn from(name: PrecisionName) -> Self {
        match name {
            PrecisionName::Eco => Self::Eco,
            PrecisionName::Balanced => Self::Balanced,
            PrecisionName::Strict => Self::Strict,
        }
    }
}

/// `punctual verify`
#[derive(Args, Debug)]
pub struct VerifyOptions {
    /// Log written by `punctual run --log`; `-` is stdin
    pub log: PathBuf,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `punctual demo`
#[derive(Args, Debug, Default)]
pub struct DemoOptions {
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Do not use real packets even where they could be had
    #[arg(long = "virtual")]
    pub virtual_time: bool,
}

/// `punctual clean`
#[derive(Args, Debug)]
pub struct CleanOptions {
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `punctual man`
#[derive(Args, Debug)]
pub struct ManOptions {
    /// Command whose page to print, such as `trace make` or `trace-make` (default: the overview)
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

impl ManOptions {
    /// As `man` looks it up: `trace-make`.
    pub(crate) fn name(&self) -> Option<String> {
        (!self.command.is_empty()).then(|| self.command.join("-"))
    }
}

/// `punctual completions`
#[derive(Args, Debug)]
pub struct CompletionsOptions {
    /// Shell to complete for
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}
