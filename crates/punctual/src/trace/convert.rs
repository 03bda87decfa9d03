//! `punctual trace convert`: any format as the program's own CSV.

use std::cmp::Ordering;
use std::path::Path;

use punctual_sched::trace::Timeline;

use super::merge::{merge, sets_delay};
use super::options::{ConvertOptions, unread};
use super::{Hints, Read, read, write};
use crate::failure::Failure;
use crate::output::{self, shown};
use crate::warn;

/// Reads, and only then opens what it writes, which may be the same file.
pub(super) fn run(options: &ConvertOptions) -> Result<u8, Failure> {
    let files = [Some(&options.input.file), options.merge.merge.as_ref()];
    if files.iter().all(|file| file.is_some_and(|file| file.as_os_str() == "-")) {
        return Err(Failure::usage("--merge: stdin can be only one of the two files"));
    }
    let hints = Hints { rtt: options.rtt, ..options.input.hints(options.fluid) };
    let mut found = options.input.read(&hints)?;
    let mut warnings = named(&options.input.file, &found.warnings);
    let mut holds_rtt = found.format.holds_rtt();
    if let Some(file) = &options.merge.merge {
        let second = second(options, file, &hints)?;
        holds_rtt |= second.format.holds_rtt();
        warnings.extend(named(file, &second.warnings));
        warnings.extend(spans(file, &found, &second));
        found.timeline = merged(options, file, &found, &second)?;
    }
    if options.rtt.is_some() && !holds_rtt {
        return Err(Failure::usage("--rtt: there are no round-trip times"));
    }
    for warning in warnings {
        warn(warning);
    }
    output::to(options.output.as_deref(), |mut out| {
        write(&mut out, &found.timeline, found.loops_by_nature)
    })?;
    Ok(0)
}

fn named(file: &Path, warnings: &[String]) -> Vec<String> {
    warnings.iter().map(|warning| format!("{}: {warning}", shown(file))).collect()
}

/// What is merged into the first.
fn second(options: &ConvertOptions, file: &Path, hints: &Hints) -> Result<Read, Failure> {
    let (format, unit) = (options.merge.merge_format, options.merge.merge_unit);
    let hints = Hints { format, unit, ..hints.clone() };
    read(file, &hints).map_err(|error| match error.missing().map(super::Missing::option) {
        Some(option @ ("format" | "unit")) => {
            Failure::usage(format!("{error}; say --merge-{option}"))
        }
        _ => unread(error),
    })
}

/// What becomes of the second file where the first is shorter or longer.
fn spans(file: &Path, first: &Read, second: &Read) -> Option<String> {
    let (whole, part) = (first.timeline.span, second.timeline.span);
    let what = match part.cmp(&whole) {
        Ordering::Equal => return None,
        Ordering::Greater => format!("lasts {part}: what it has after {whole} is left out"),
        Ordering::Less if second.loops_by_nature => {
            format!("ends after {part} and begins anew, up to {whole}")
        }
        Ordering::Less => format!("ends after {part}: its last values hold up to {whole}"),
    };
    Some(format!("{}: {what}", shown(file)))
}

/// The first with what the second sets.
fn merged(
    options: &ConvertOptions,
    file: &Path,
    found: &Read,
    second: &Read,
) -> Result<Timeline, Failure> {
    let first = options.input.file.as_path();
    for (file, read) in [(first, found), (file, second)] {
        if options.rtt.is_none() && read.format.holds_rtt() && sets_delay(&read.timeline) {
            return Err(Failure::usage(format!(
                "{}: holds round-trip times, expected to be told what one direction has of them; \
                 say --rtt half or --rtt whole",
                shown(file)
            )));
        }
    }
    merge(&found.timeline, &second.timeline, second.loops_by_nature)
        .map_err(|error| Failure::usage(format!("{} and {}: {error}", shown(first), shown(file))))
}
