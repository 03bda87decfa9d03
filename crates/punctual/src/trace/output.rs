//! Where commands write: a file, or standard output.

use std::fs::File;
use std::io::{self, BufWriter, Write, stdout};
use std::path::Path;

use anyhow::Context;

/// Gives `write` the file, or standard output where there is none. A reader of standard output that
/// has gone is no failure.
pub(super) fn to(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let Some(path) = path.filter(|path| path.as_os_str() != "-") else {
        let mut out = BufWriter::new(stdout().lock());
        let written = write(&mut out).and_then(|()| out.flush());
        return match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                // What is left must not be written when the buffer goes.
                let _ = out.into_parts();
                Ok(())
            }
            written => written.context("cannot write to stdout"),
        };
    };
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut out = BufWriter::new(file);
    let written = write(&mut out).and_then(|()| out.flush());
    written.with_context(|| format!("cannot write {}", path.display()))
}
