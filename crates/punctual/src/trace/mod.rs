//! Traces: what a link does over time, read from the formats in which it was recorded.
//!
//! * [`read`]: any known format into one [`Timeline`]
//! * [`Format`]: the formats, and how one is recognised
//! * [`fluid`]: single deliveries as rates
//! * [`merge`]: quantities of two timelines as one
//! * [`Summary`]: what a timeline amounts to
//! * [`write()`]: the program's own format, exact
//! * [`run`]: `punctual trace check`, `convert` and `make`

mod build;
mod check;
mod columns;
mod convert;
mod date;
mod error;
mod fluid;
mod format;
mod formats;
mod lines;
pub mod make;
mod merge;
mod number;
pub mod options;
mod outages;
mod resolve;
mod sniff;
mod summary;
mod write;

use std::fs::File;
use std::io::{BufReader, Cursor, Read as _, stdin};
use std::path::Path;

use punctual_sched::Duration;
use punctual_sched::trace::{Course, Opportunity, Timeline};

pub(crate) use check::warnings;
pub use error::{Missing, TraceError};
pub use fluid::{WINDOW, fluid};
pub use format::{Format, Rtt, Unit};
pub use merge::{MergeError, merge};
pub use outages::{LISTED, MOST_LISTED, Outage, Outages};
pub(crate) use resolve::resolve;
pub use summary::{PEAK, Summary};
pub use write::write;

use self::error::Problem;
use self::lines::{Lines, MAX_LINE};
use self::options::TraceCommand;
use crate::failure::Failure;
use crate::log::Direction;
use crate::output::shown;

/// `punctual trace`. A file that cannot be read as a trace is bad usage.
pub fn run(command: &TraceCommand) -> Result<u8, Failure> {
    match command {
        TraceCommand::Check(options) => check::run(options),
        TraceCommand::Convert(options) => convert::run(options),
        TraceCommand::Make(options) => make::run(options),
    }
}

/// What a file does not say by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// The format; else it is recognised.
    pub format: Option<Format>,
    /// What the rates of [`Format::Pairs`] count.
    pub unit: Option<Unit>,
    /// Which direction of a file that holds both.
    pub direction: Option<Direction>,
    /// What a line of a packet delivery trace carries; else [`Opportunity::MAHIMAHI`].
    pub packet: Option<Opportunity>,
    /// Single deliveries become rates over windows of this length, see [`fluid`].
    pub fluid: Option<Duration>,
    /// Seed of what is drawn while reading (netem-trace's normal distributions), in place of the
    /// file's own.
    pub seed: Option<u64>,
    /// What becomes of round-trip times; else they are halved, with a warning.
    pub rtt: Option<Rtt>,
    /// Nobody is told how far reading is.
    pub quiet: bool,
}

impl Hints {
    /// What one direction has of a round-trip time of `nanos`.
    fn of_rtt(&self, nanos: u64) -> u64 {
        if self.rtt == Some(Rtt::Whole) { nanos } else { nanos / 2 }
    }
}

/// A trace that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// What happens, and for how long.
    pub timeline: Timeline,
    /// The format that was named or recognised.
    pub format: Format,
    /// What was left out or must be known, one line each.
    pub warnings: Vec<String>,
    /// The format means it to begin anew at its end.
    pub loops_by_nature: bool,
}

/// Reads the trace at `path`; `-` is standard input.
///
/// Reads at most 4 GiB and keeps at most 2^25 entries, 16 to 48 bytes each. Where reading takes
/// long, a terminal on standard error is told how far it is.
pub fn read(path: &Path, hints: &Hints) -> Result<Read, TraceError> {
    let name = shown(path);
    if path.as_os_str() == "-" {
        return read_from(&name, stdin().lock(), hints);
    }
    match File::open(path) {
        Ok(file) => read_from(&name, file, hints),
        Err(error) => Err(Problem::input(&error).in_file(&name)),
    }
}

/// Reads a trace from anything; `name` stands in errors.
pub fn read_from(
    name: &str,
    source: impl std::io::Read,
    hints: &Hints,
) -> Result<Read, TraceError> {
    read_whole(name, source, hints).map_err(|problem| problem.in_file(name))
}

fn read_whole(name: &str, mut source: impl std::io::Read, hints: &Hints) -> Result<Read, Problem> {
    if hints.fluid == Some(Duration::ZERO) {
        return Err(Problem::whole("a window of 0 was given, expected a window above 0"));
    }
    let mut head = Vec::new();
    let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
    source.by_ref().take(limit).read_to_end(&mut head).map_err(|error| Problem::input(&error))?;
    let format = match hints.format {
        Some(format) => format,
        None => sniff::recognise(&head, head.len() < MAX_LINE)?,
    };
    if hints.unit.is_some() && format != Format::Pairs {
        return Err(Problem::whole(format!(
            "a unit was given, but {format} has its own; a unit is for pairs"
        )));
    }
    let whole = BufReader::with_capacity(BUFFER, Cursor::new(head).chain(source));
    let mut lines = Lines::new(name, Box::new(whole));
    if hints.quiet {
        lines.be_quiet();
    }
    let guessed = hints.format.is_none() && sniff::is_by_shape(format);
    let parsed = format
        .read(lines, hints)
        .map_err(|problem| if guessed { problem.read_as(format) } else { problem })?;
    let mut read = Read {
        timeline: parsed.timeline,
        format,
        warnings: parsed.warnings,
        loops_by_nature: parsed.loops,
    };
    if let (Some(window), Course::Deliveries { .. }) = (hints.fluid, &read.timeline.course) {
        read.timeline = fluid(&read.timeline, window);
    }
    Ok(read)
}

/// Bytes read at once.
const BUFFER: usize = 1 << 17;

#[cfg(test)]
mod tests;
