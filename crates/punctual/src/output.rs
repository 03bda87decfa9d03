//! Where results go. What a command prints, in [`print()`]; what it writes to a file, in [`to`] or
//! [`Output`]: a file appears under its name when it is whole, and not before.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, IsTerminal, Seek, Write, stdout};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use punctual_linux::process::{SignalFd, signals};

use crate::failure::Failure;

/// Prints a result, at once. A reader of standard output that has gone (`punctual list | head -0`) is
/// no failure: it has read what it wanted.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut stdout = stdout().lock();
    printed(stdout.write_all(text.as_ref()).and_then(|()| stdout.flush()))
}

/// What became of a result that was printed.
pub(crate) fn printed(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(anyhow!("cannot write to stdout: {}", unwritten(&error)).into()),
        Ok(()) => Ok(()),
    }
}

/// Gives `write` the file, or standard output where there is none.
///
/// A signal that asks for the end is looked for while a file is written, so that it is not left half.
pub(crate) fn to(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let Some(path) = path.filter(|path| !is_stdout(path)) else {
        let mut out = BufWriter::new(stdout().lock());
        let written = write(&mut out).and_then(|()| out.flush());
        // What is left must not be written when the buffer goes.
        let _ = out.into_parts();
        return printed(written);
    };
    signals::outlive_file_size_limit().context("cannot ignore SIGXFSZ")?;
    // Blocked before there is anything to remove; not where writing may wait for a reader for ever.
    let blocked = if is_replaced(path) { Some(SignalFd::new()?) } else { None };
    let output = Output::create(path)
        .map_err(|error| anyhow!("cannot create {}: {}", path.display(), unwritten(&error)))?;
    let watched = Watched { output: &output, signals: blocked.as_ref(), received: Cell::new(None) };
    let mut out = BufWriter::with_capacity(BUFFER, &watched);
    let written = write(&mut out).and_then(|()| out.flush());
    let _ = out.into_parts();
    if let Some(signal) = watched.received.get() {
        return Err(Failure::Interrupted(signal));
    }
    written
        .and_then(|()| output.finish())
        .map_err(|error| anyhow!("cannot write {}: {}", path.display(), unwritten(&error)).into())
}

/// An output until a signal comes.
struct Watched<'a> {
    output: &'a Output,
    signals: Option<&'a SignalFd>,
    received: Cell<Option<i32>>,
}

impl Write for &Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(signals) = self.signals
            && let Some(received) = signals.next()?
        {
            self.received.set(Some(received.signal));
            // Not `Interrupted`, after which writing is tried again.
            return Err(io::Error::other("stopped by a signal"));
        }
        (&self.output.file).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.output.file).flush()
    }
}

/// An output that is being written.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    /// What it is called in messages.
    pub(crate) path: PathBuf,
    place: Place,
}

/// What is written.
#[derive(Debug)]
enum Place {
    /// As it comes: a stream, a device.
    Stream,
    /// A file beside the one that it will replace.
    Beside(Temporary),
    /// A file in whose directory no other can be made. Half of the new contents is none: it is
    /// emptied where it does not get all of them.
    Itself,
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
    /// of `path` in [`Output::finish`], with its permissions. One that a run is writing is refused. What is no regular file (`/dev/null`, a
    /// fifo) is written itself; so is a file in a directory that is not the caller's to write.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let path = path.to_owned();
        if is_stdout(&path) {
            let file = File::from(rustix::io::dup(stdout())?);
            return Ok(Self { file, path: STDOUT.into(), place: Place::Stream });
        }
        // A link stays one, and what it leads to is replaced.
        let to = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        // Also to learn whether it is the caller's to write: its directory's permissions say nothing
        // of that.
        let old = match OpenOptions::new().write(true).open(&to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            old => Some(old?),
        };
        // A run locks its outputs; what takes their place would take it from the run as well.
        if let Some(old) = &old
            && matches!(old.try_lock_shared(), Err(TryLockError::WouldBlock))
        {
            return Err(io::Error::other("a run is writing it: name another file"));
        }
        match old {
            Some(file) if !file.metadata()?.is_file() => {
                Ok(Self { file, path, place: Place::Stream })
            }
            old => match Temporary::create(to, old.as_ref()) {
                Ok((file, beside)) => Ok(Self { file, path, place: Place::Beside(beside) }),
                Err(error) => match old {
                    Some(file) if error.kind() == io::ErrorKind::PermissionDenied => {
                        Ok(Self { file, path, place: Place::Itself })
                    }
                    _ => Err(error),
                },
            },
        }
    }

    /// Whether it is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.file.is_terminal()
    }

    /// Whether `other` is the file that would be replaced, or written to.
    pub(crate) fn replaces(&self, other: &File) -> bool {
        let same = |found: io::Result<fs::Metadata>| {
            let (Ok(found), Ok(other)) = (found, other.metadata()) else { return false };
            (found.dev(), found.ino()) == (other.dev(), other.ino())
        };
        match &self.place {
            Place::Beside(temporary) => same(fs::metadata(&temporary.to)),
            Place::Stream | Place::Itself => same(self.file.metadata()),
        }
    }

    /// Puts the file in its place. All must have been written.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        match &self.place {
            Place::Stream => {}
            Place::Beside(temporary) => fs::rename(&temporary.path, &temporary.to)?,
            Place::Itself => self.file.set_len((&self.file).stream_position()?)?,
        }
        if let Place::Beside(temporary) = std::mem::replace(&mut self.place, Place::Stream) {
            std::mem::forget(temporary);
        }
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Untouched, it stays as it is.
        if matches!(self.place, Place::Itself)
            && (&self.file).stream_position().is_ok_and(|written| written > 0)
        {
            let _ = self.file.set_len(0);
        }
    }
}

/// Whether a file takes the place of `path` when it is whole.
pub(crate) fn is_replaced(path: &Path) -> bool {
    !is_stdout(path) && fs::metadata(path).map_or(true, |found| found.is_file())
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// What standard output is called in messages.
pub(crate) const STDOUT: &str = "standard output";

/// What a failed write means, with the remedy where there is one.
pub(crate) fn unwritten(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        io::ErrorKind::QuotaExceeded => "the disk quota is used up".to_owned(),
        io::ErrorKind::FileTooLarge => {
            "it would be larger than the limit for files (ulimit -f)".to_owned()
        }
        _ => error.to_string(),
    }
}

impl Write for &Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.file).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.file).flush()
    }
}

impl Temporary {
    /// A hidden file that will take the place of `to`, which is `old` where it is there.
    fn create(to: PathBuf, old: Option<&File>) -> io::Result<(File, Self)> {
        let path = beside(&to)?;
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let temporary = Self { path, to };
        if let Some(old) = old {
            let old = old.metadata()?;
            // Only root can give a file to another; else it is the caller's.
            let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
            file.set_permissions(old.permissions())?;
        }
        Ok((file, temporary))
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
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.as_bytes();
    let mut hidden = b".".to_vec();
    hidden.extend_from_slice(&name[..name.len().min(LONGEST_NAME)]);
    hidden.extend_from_slice(format!(".{}", std::process::id()).as_bytes());
    Ok(path.with_file_name(std::ffi::OsStr::from_bytes(&hidden)))
}

/// Bytes collected before they are written.
const BUFFER: usize = 64 << 10;
/// Bytes of a name that the hidden one has of it: with what is added, no more than `NAME_MAX`.
const LONGEST_NAME: usize = 240;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("punctual-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn what_is_not_written_whole_leaves_the_old_file_and_nothing_beside_it() {
        let place = Directory::new("cut");
        let file = place.0.join("trace.csv");
        fs::write(&file, "old").unwrap();
        let failed = to(Some(&file), |out| {
            out.write_all(&vec![b'x'; 3 * BUFFER])?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(failed.unwrap_err().to_string().ends_with("trace.csv: the disk is full"));
        assert_eq!((&*fs::read(&file).unwrap(), place.names().len()), (&b"old"[..], 1));
    }

    #[test]
    fn the_new_file_has_the_permissions_of_the_old_and_a_link_stays_one() {
        let place = Directory::new("permissions");
        let [file, link] = ["trace.csv", "link"].map(|name| place.0.join(name));
        fs::write(&file, "old, and longer").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        to(Some(&link), |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
        assert!(link.is_symlink());
        assert_eq!(place.names().len(), 2);
    }

    #[test]
    fn the_longest_name_has_a_hidden_one_too() {
        let place = Directory::new("longest");
        let file = place.0.join("n".repeat(255));
        to(Some(&file), |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    #[test]
    fn a_file_written_itself_has_all_or_nothing() {
        let place = Directory::new("itself");
        let path = place.0.join("file");
        let output = || {
            fs::write(&path, "old, and longer").unwrap();
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            Output { file, path: path.clone(), place: Place::Itself }
        };
        drop(output());
        assert_eq!(fs::read(&path).unwrap(), b"old, and longer");
        let whole = output();
        (&whole).write_all(b"new").unwrap();
        whole.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let half = output();
        (&half).write_all(b"new").unwrap();
        drop(half);
        assert_eq!(fs::read(&path).unwrap(), b"");
    }
}
