//! Where an export goes. A file appears under its name when it is whole, and not before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};

/// An output that is being written.
#[derive(Debug)]
pub(super) struct Output {
    file: File,
    /// What it is called in messages.
    pub(super) path: PathBuf,
    temporary: Option<Temporary>,
}

/// A file beside the one it will replace. Removed when dropped.
#[derive(Debug)]
struct Temporary {
    path: PathBuf,
    to: PathBuf,
}

impl Output {
    /// Opens an output; `-` is standard output.
    ///
    /// A regular file is written under a name of its own in the same directory and takes the place
    /// of `path` in [`Output::finish`]. What is no regular file (`/dev/null`, a fifo) is written
    /// itself.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let path = path.to_owned();
        if is_stdout(&path) {
            let file = File::from(rustix::io::dup(stdout())?);
            return Ok(Self { file, path: STDOUT.into(), temporary: None });
        }
        // A link stays one, and what it leads to is replaced.
        let to = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        if !is_replaced(&to) {
            let file = OpenOptions::new().write(true).open(&to)?;
            return Ok(Self { file, path, temporary: None });
        }
        let temporary = Temporary { path: beside(&to)?, to };
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary.path);
        match file {
            Ok(file) => Ok(Self { file, path, temporary: Some(temporary) }),
            Err(error) => {
                // Not ours: another process has it.
                std::mem::forget(temporary);
                Err(error)
            }
        }
    }

    /// Whether it is a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        self.file.is_terminal()
    }

    /// Whether `other` is the file that would be replaced, or written to.
    pub(super) fn replaces(&self, other: &File) -> bool {
        let same = |found: io::Result<fs::Metadata>| {
            use std::os::unix::fs::MetadataExt;
            let (Ok(found), Ok(other)) = (found, other.metadata()) else { return false };
            (found.dev(), found.ino()) == (other.dev(), other.ino())
        };
        match &self.temporary {
            Some(temporary) => same(fs::metadata(&temporary.to)),
            None => same(self.file.metadata()),
        }
    }

    /// Puts the file in its place. All must have been written.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if let Some(temporary) = &self.temporary {
            fs::rename(&temporary.path, &temporary.to)?;
        }
        if let Some(temporary) = self.temporary.take() {
            std::mem::forget(temporary);
        }
        Ok(())
    }
}

/// Whether a file takes the place of `path` when it is whole.
pub(super) fn is_replaced(path: &Path) -> bool {
    !is_stdout(path) && fs::metadata(path).map_or(true, |found| found.is_file())
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// What standard output is called in messages.
pub(super) const STDOUT: &str = "standard output";

impl Write for &Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.file).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.file).flush()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Where it cannot be removed it cannot be helped.
        let _ = fs::remove_file(&self.path);
    }
}

/// A hidden name in the directory of `path` that no other process uses.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", std::process::id()));
    Ok(path.with_file_name(hidden))
}
