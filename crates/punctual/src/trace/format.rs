//! The formats: their names, what they hold, which reader reads them.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use punctual_sched::words::nearest;

use super::Hints;
use super::build::Parsed;
use super::error::Problem;
use super::formats;
use super::lines::Lines;

/// A format of trace files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Canonical CSV: what `punctual trace convert` and `make` write
    Punctual,
    /// Mahimahi packet delivery: a time in ms a line, one opportunity each
    Mahimahi,
    /// Mahimahi rate input: kbit per ms, one line per ms (never guessed)
    MahimahiRate,
    /// Mahimahi log: its delivery opportunities
    MahimahiLog,
    /// netem-trace (Rattan) configuration, JSON or TOML
    NetemTrace,
    /// TheaterQ, 5 columns: KEEP,LATENCY,RATE,LOSS,LIMIT
    Theaterq,
    /// TheaterQ, 8 to 10 columns, with JITTER and duplicates
    TheaterqExtended,
    /// CSV with at,delay,stddev,min_link_cap,... (satellite paths, FAU)
    Fau,
    /// Seconds and throughput; needs a unit
    Pairs,
    /// HSDPA logs from Norway: bytes and ms since the line before
    Hsdpa,
    /// 4G logs from Ghent: bytes and ms since the line before
    Ghent,
    /// FCC MBA web-get CSV: bytes/s in column 7, 5 s each
    Fcc,
    /// One rate in bytes/s a line, 5 s each (never guessed)
    FccRates,
    /// UCC 5G and 4G logs ("Beyond Throughput"): kbit/s; needs a direction
    Ucc,
    /// Starlink versus cellular CSV: time,throughput,speed,... in Mbit/s
    Starlink,
    /// LENS irtt CSV: one-way delays in ms and losses; needs a direction
    LensIrtt,
    /// LENS ping CSV: round-trip times in ms, halved
    LensPing,
    /// WetLinks iperf CSV: bit/s; needs a direction
    WetlinksIperf,
    /// WetLinks ping CSV: round-trip times in ms, halved, and losses
    WetlinksPing,
    /// ERRANT log CSV: kbit/s and RTT; needs a direction
    Errant,
    /// Intel LPP ntrace, version 1: kbit/s and us; needs a direction
    Ntrace,
    /// CellReplay light trace: its base delays
    Cellreplay,
}

impl Format {
    /// Its name, as on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// What it is, in a line.
    pub fn describe(self) -> String {
        let help = self.to_possible_value().and_then(|value| value.get_help().cloned());
        help.map(|help| help.to_string()).unwrap_or_default()
    }

    /// Its rates are what a transport achieved, which is at most what the link could carry.
    pub fn is_achieved(self) -> bool {
        matches!(
            self,
            Self::Hsdpa
                | Self::Ghent
                | Self::Fcc
                | Self::FccRates
                | Self::Ucc
                | Self::Starlink
                | Self::WetlinksIperf
                | Self::Errant
                | Self::Ntrace
        )
    }

    /// Its delays are round-trip times.
    pub fn holds_rtt(self) -> bool {
        matches!(self, Self::LensPing | Self::WetlinksPing | Self::Errant | Self::Ntrace)
    }

    pub(super) fn read(self, lines: Lines<'_>, hints: &Hints) -> Result<Parsed, Problem> {
        match self {
            Self::Punctual => formats::punctual::read(lines),
            Self::Mahimahi => formats::mahimahi::deliveries(lines, hints),
            Self::MahimahiRate => formats::mahimahi::rates(lines),
            Self::MahimahiLog => formats::mahimahi::log(lines, hints),
            Self::NetemTrace => formats::netem_trace::read(lines, hints),
            Self::Theaterq => formats::theaterq::simple(lines),
            Self::TheaterqExtended => formats::theaterq::extended(lines),
            Self::Fau => formats::fau::read(lines),
            Self::Pairs => formats::pairs::read(lines, hints),
            Self::Hsdpa => formats::bytes_since::hsdpa(lines),
            Self::Ghent => formats::bytes_since::ghent(lines),
            Self::Fcc => formats::fcc::web_get(lines),
            Self::FccRates => formats::fcc::rates(lines),
            Self::Ucc => formats::ucc::read(lines, hints),
            Self::Starlink => formats::starlink::read(lines),
            Self::LensIrtt => formats::lens::irtt(lines, hints),
            Self::LensPing => formats::lens::ping(lines, hints),
            Self::WetlinksIperf => formats::wetlinks::iperf(lines, hints),
            Self::WetlinksPing => formats::wetlinks::ping(lines, hints),
            Self::Errant => formats::errant::read(lines, hints),
            Self::Ntrace => formats::ntrace::read(lines, hints),
            Self::Cellreplay => formats::cellreplay::read(lines),
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        word(text, "format")
    }
}

/// What one direction has of a round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rtt {
    /// Half of it, the other direction as much
    Half,
    /// All of it, the other direction nothing
    Whole,
}

impl FromStr for Unit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        word(text, "unit")
    }
}

/// The value of this name; else the one that was meant, or all.
fn word<T: ValueEnum>(text: &str, what: &str) -> Result<T, String> {
    let value = T::from_str(text, true);
    value.map_err(|_| {
        let known = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<_> = known.map(|value| value.get_name().to_owned()).collect();
        match nearest(text, names.iter().map(String::as_str)) {
            Some(meant) => format!("{text:?} is no {what}, did you mean {meant:?}?"),
            None => format!("{text:?} is no {what}, expected one of {}", names.join(", ")),
        }
    })
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

/// What the rates of time-throughput pairs count, per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Unit {
    /// Bits per second
    Bit,
    /// 1,000 bits per second
    Kbit,
    /// 1,000,000 bits per second
    Mbit,
    /// Bytes per second
    Byte,
    /// 1,000 bytes per second
    Kbyte,
    /// 1,000,000 bytes per second
    Mbyte,
}

impl Unit {
    /// As it is written.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Bit => "bit",
            Self::Kbit => "kbit",
            Self::Mbit => "mbit",
            Self::Byte => "byte",
            Self::Kbyte => "kbyte",
            Self::Mbyte => "mbyte",
        }
    }

    /// Bits per second in one of it.
    pub const fn bits(self) -> u64 {
        match self {
            Self::Bit => 1,
            Self::Kbit => 1_000,
            Self::Mbit => 1_000_000,
            Self::Byte => 8,
            Self::Kbyte => 8_000,
            Self::Mbyte => 8_000_000,
        }
    }
}
