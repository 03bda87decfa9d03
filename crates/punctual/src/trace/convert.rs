//! `punctual trace convert`: any format as the program's own CSV.

use super::options::ConvertOptions;
use super::{output, write};
use crate::failure::Failure;
use crate::tell;

/// Reads, and only then opens what it writes, which may be the same file.
pub(super) fn run(options: &ConvertOptions) -> Result<u8, Failure> {
    let hints = options.input.hints(options.fluid);
    let read = options.input.read(&hints)?;
    for warning in &read.warnings {
        tell(format_args!("punctual: {}: {warning}", options.input.file.display()));
    }
    output::to(options.output.as_deref(), |mut out| {
        write(&mut out, &read.timeline, read.loops_by_nature)
    })?;
    Ok(0)
}
