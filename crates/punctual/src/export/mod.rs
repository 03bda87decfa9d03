//! `punctual log`: what a log holds, and its packets in the formats of other tools.
//!
//! A log is read twice. The first reading ([`Survey`]) finds damage before anything is written, and
//! what the second needs to know beforehand; the second writes. Both hold the packets that the run
//! held at that time, and one block; beside these, CSV holds a line, Parquet a row group, pcapng
//! the frames whose order is not settled, jens what its queue holds. `docs/log-export.md` describes
//! what comes out.

mod changes;
mod columns;
mod csv;
mod error;
mod flights;
mod info;
mod jens;
mod options;
#[cfg(feature = "parquet")]
mod parquet;
mod pcapng;
mod row;
mod survey;
mod watch;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use punctual_linux::process::{SignalFd, signals};
use punctual_sched::Instant;

use self::changes::{ChangesCsv, News, news};
pub use self::columns::{COLUMNS, Column, Kind, Value};
use self::csv::Csv;
pub use self::error::ExportError;
use self::flights::{Flights, Joined};
pub use self::options::{DirectionName, ExportOptions, Format, InfoOptions, LogCommand};
use self::pcapng::Pcapng;
pub use self::pcapng::addresses;
pub use self::row::{Fate, Row};
pub use self::survey::{Counts, Survey};
use self::watch::Watch;
use crate::failure::Failure;
use crate::log::{Direction, DirectionHeader, Entry, Header, LogReader, ReadError};
use crate::output::{self, Output};

/// Runs a subcommand of `punctual log`.
pub fn run(command: &LogCommand) -> Result<u8, Failure> {
    match command {
        LogCommand::Export(options) => run_export(options),
        LogCommand::Info(options) => info::run(options),
    }
}

/// What to export.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// As what.
    pub format: Format,
    /// Of one direction only.
    pub direction: Option<Direction>,
    /// Of which user, where the queue is a jens with several.
    pub user: Option<u32>,
}

/// What was exported.
#[derive(Clone, Debug)]
pub struct Summary {
    /// What the log holds.
    pub survey: Survey,
    /// Rows, or records of jens.
    pub rows: u64,
    /// The most packets kept at one time to be joined with their fates.
    pub peak_packets: usize,
    /// The most rows or frames kept at one time before they were written.
    pub peak_buffered: usize,
}

/// Exports a log, from its beginning to its end, and its changes as CSV to `changes`.
pub fn export<R: Read + Seek, W: Write + Send>(
    input: &mut R,
    request: &Request,
    out: W,
    changes: Option<&mut dyn Write>,
) -> Result<Summary, ExportError> {
    export_watched(input, request, out, changes, &mut Watch::none())
}

fn export_watched<R: Read + Seek, W: Write + Send>(
    input: &mut R,
    request: &Request,
    out: W,
    changes: Option<&mut dyn Write>,
    watch: &mut Watch,
) -> Result<Summary, ExportError> {
    watch.begin("checking");
    let log = LogReader::new(BufReader::new(&mut *input)).map_err(|error| watch.unread(error))?;
    let survey = Survey::watched(log, watch)?;
    watch.begin("writing");
    let (rows, peak_packets, peak_buffered) = if request.format == Format::Jens {
        if changes.is_some() {
            pass(input, &survey, request, Exporter::<W>::None, changes, watch)?;
        }
        (jens::export(input, &survey, request, out, watch)?, 0, 0)
    } else {
        let exporter = Exporter::start(request, out, &survey)?;
        pass(input, &survey, request, exporter, changes, watch)?
    };
    Ok(Summary { survey, rows, peak_packets, peak_buffered })
}

/// The second reading. Returns rows, and the peaks of packets and of rows or frames held.
fn pass<R: Read + Seek, W: Write + Send>(
    input: &mut R,
    survey: &Survey,
    request: &Request,
    mut exporter: Exporter<W>,
    changes: Option<&mut dyn Write>,
    watch: &mut Watch,
) -> Result<(u64, usize, usize), ExportError> {
    let mut log = rewound(input, survey)?;
    let mut flights = Flights::new(&survey.header, survey.directions.each_ref().map(|c| c.keep));
    let changes = changes.map(|out| ChangesCsv::start(out, &survey.header)).transpose();
    let mut changes = changes.map_err(ExportError::WriteChanges)?;
    let wanted = |direction| request.direction.is_none_or(|only| only == direction);
    let mut rows = 0;
    while let Entry::Record(lane, record) = log.read()? {
        let direction = lane.direction;
        watch.read(log.bytes_read())?;
        if !wanted(direction) {
            continue;
        }
        match flights.join(lane, &record)? {
            Joined::Arrived(packet, arrival) => exporter.arrived(direction, packet, arrival)?,
            Joined::Row(row) => {
                rows += 1;
                exporter.row(&row)?;
            }
            Joined::Forgotten { .. } => return Err(ExportError::Changed),
            Joined::Changed => {
                let Some((at, news)) = news(&record) else { continue };
                if let Some(changes) = &mut changes {
                    changes.change(direction, at, &news).map_err(ExportError::WriteChanges)?;
                }
                exporter.changed(direction, at, &news)?;
            }
        }
    }
    for direction in Direction::BOTH {
        let fate = if survey.is_whole(direction) { Fate::Held } else { Fate::Unknown };
        for row in flights.rest(direction, fate) {
            rows += 1;
            exporter.row(&row)?;
        }
    }
    changes.map_or(Ok(()), ChangesCsv::finish).map_err(ExportError::WriteChanges)?;
    let peak = exporter.finish(survey)?;
    Ok((rows, flights.peak(), peak))
}

/// The log from its beginning, up to where it was read first.
fn rewound<'a, R: Read + Seek>(
    input: &'a mut R,
    survey: &Survey,
) -> Result<LogReader<BufReader<io::Take<&'a mut R>>>, ReadError> {
    let error = input.seek(SeekFrom::Start(0)).err();
    if let Some(error) = error {
        return Err(ReadError::Read { offset: 0, error });
    }
    LogReader::new(BufReader::new(input.take(survey.bytes)))
}

/// What the header says of a direction.
fn header_of(header: &Header, direction: Direction) -> &DirectionHeader {
    match direction {
        Direction::Up => &header.up,
        Direction::Down => &header.down,
    }
}

/// The writer of a format.
enum Exporter<W: Write + Send> {
    None,
    Csv(Csv<W>),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::Parquet<W>>),
    Pcapng(Box<Pcapng<W>>),
}

impl<W: Write + Send> Exporter<W> {
    fn start(request: &Request, out: W, survey: &Survey) -> Result<Self, ExportError> {
        let directions = match request.direction {
            Some(direction) => vec![direction],
            None => Direction::BOTH.into(),
        };
        Ok(match request.format {
            Format::Jens => Self::None,
            Format::Csv => Self::Csv(Csv::start(out)?),
            #[cfg(feature = "parquet")]
            Format::Parquet => Self::Parquet(Box::new(parquet::Parquet::start(out, survey)?)),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => {
                return Err(ExportError::Refused(
                    "this punctual was built without parquet: build it with --features parquet, \
                     or export csv"
                        .to_owned(),
                ));
            }
            Format::Pcapng => Self::Pcapng(Box::new(Pcapng::start(out, survey, directions)?)),
        })
    }

    fn arrived(
        &mut self,
        direction: Direction,
        packet: u64,
        arrival: crate::log::Arrival,
    ) -> io::Result<()> {
        match self {
            Self::Pcapng(pcapng) => pcapng.arrived(direction, packet, arrival),
            _ => Ok(()),
        }
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        match self {
            Self::None => Ok(()),
            Self::Csv(csv) => csv.row(row),
            #[cfg(feature = "parquet")]
            Self::Parquet(parquet) => parquet.row(row),
            Self::Pcapng(pcapng) => pcapng.row(row),
        }
    }

    fn changed(&mut self, direction: Direction, at: Instant, news: &News) -> io::Result<()> {
        match self {
            Self::Pcapng(pcapng) => pcapng.changed(direction, at, news),
            _ => Ok(()),
        }
    }

    /// Ends the output; returns the most rows or frames that were held.
    fn finish(self, survey: &Survey) -> io::Result<usize> {
        match self {
            Self::None => Ok(0),
            Self::Csv(csv) => csv.finish().map(|()| 1),
            #[cfg(feature = "parquet")]
            Self::Parquet(parquet) => parquet.finish(),
            Self::Pcapng(pcapng) => pcapng.finish(survey),
        }
    }
}

fn run_export(options: &ExportOptions) -> Result<u8, Failure> {
    let format = format_of(options)?;
    if options.changes.as_ref() == Some(&options.output) {
        let path = options.output.display();
        return Err(Failure::usage(format!("{path}: packets and changes need two files")));
    }
    if options.user.is_some() && format != Format::Jens {
        return Err(Failure::usage("--user: is for the records of jens"));
    }
    let request =
        Request { format, direction: options.direction.map(Into::into), user: options.user };
    match export_files(options, &request) {
        Ok(summary) => {
            warn(options, &request, &summary);
            Ok(0)
        }
        // `punctual log export -o - | head` is no failure.
        Err(ExportError::WriteTo { path, error })
            if error.kind() == io::ErrorKind::BrokenPipe && path == Path::new(output::STDOUT) =>
        {
            Ok(0)
        }
        Err(error) => Err(error.of(&options.log)),
    }
}

fn export_files(options: &ExportOptions, request: &Request) -> Result<Summary, ExportError> {
    let mut log = open(&options.log)?;
    // A file beyond the limit of its size is an error then, and not the end of the process.
    signals::outlive_file_size_limit().map_err(io::Error::from)?;
    // Blocked before there is anything to remove; not where writing may wait for a reader for ever.
    let outputs = [Some(&options.output), options.changes.as_ref()];
    let replaces = outputs.into_iter().flatten().any(|path| output::is_replaced(path));
    let blocked = if replaces { Some(SignalFd::new().map_err(io::Error::from)?) } else { None };
    let mut watch = Watch::new(&log, blocked);
    let out = create(&options.output, &log)?;
    let changes = options.changes.as_deref().map(|path| create(path, &log)).transpose()?;
    let mut csv = changes.as_ref().map(BufWriter::new);
    if out.is_terminal() && request.format != Format::Csv {
        return Err(ExportError::Refused("a terminal shows csv only: --format csv".to_owned()));
    }
    let summary = export_watched(
        &mut log,
        request,
        BufWriter::with_capacity(BUFFER, &out),
        csv.as_mut().map(|csv| csv as &mut dyn Write),
        &mut watch,
    )
    .map_err(|error| error.at(&out.path, changes.as_ref().map(|changes| &*changes.path)))?;
    drop(csv);
    for output in [Some(out), changes].into_iter().flatten() {
        let path = output.path.clone();
        output.finish().map_err(|error| ExportError::from(error).at(&path, None))?;
    }
    Ok(summary)
}

fn open(path: &Path) -> Result<File, ExportError> {
    if path.as_os_str() == "-" {
        let problem = "a log is read twice, which stdin cannot be: copy it into a file (./- for one \
                       of that name)";
        return Err(ExportError::Refused(problem.to_owned()));
    }
    let log = File::open(path).map_err(|error| ReadError::Open { path: path.to_owned(), error })?;
    if !log.metadata().is_ok_and(|found| found.is_file()) {
        let problem = "it is no file, and a log is read twice: copy it into one".to_owned();
        return Err(ExportError::Refused(problem));
    }
    Ok(log)
}

fn create(path: &Path, log: &File) -> Result<Output, ExportError> {
    let output = Output::create(path).map_err(|error| ExportError::from(error).at(path, None))?;
    if output.replaces(log) {
        return Err(ExportError::Refused("it would be replaced by its own export".to_owned()));
    }
    Ok(output)
}

/// What the file's name or `--format` says.
fn format_of(options: &ExportOptions) -> Result<Format, Failure> {
    if let Some(format) = options.format {
        return Ok(format);
    }
    let ending = options.output.extension().and_then(|ending| ending.to_str());
    let known = ending.and_then(|ending| {
        use clap::ValueEnum;
        Format::from_str(ending, true).ok()
    });
    known.ok_or_else(|| {
        Failure::usage(format!(
            "{}: no format has this ending, expected .csv, .parquet, .pcapng or .jens, \
             or --format",
            options.output.display()
        ))
    })
}

/// What the caller should know although all went well.
fn warn(options: &ExportOptions, request: &Request, summary: &Summary) {
    let log = options.log.display();
    if let Some(lack) = summary.survey.lack() {
        crate::warn(format_args!("{log}: not all of the run was exported: {lack}"));
    }
    let changes: u64 = summary.survey.directions.iter().map(|counts| counts.changes).sum();
    if changes > 0 && options.changes.is_none() && request.format != Format::Pcapng {
        crate::warn(format_args!(
            "{log}: {changes} change{} of parameters not in {}; --changes FILE \
             writes {}",
            if changes == 1 { "" } else { "s" },
            options.output.display(),
            if changes == 1 { "it" } else { "them" },
        ));
    }
}

/// Bytes collected before they are written.
const BUFFER: usize = 64 << 10;
