//! Where results go. What a command prints, in [`print()`]; what it writes to a file, in [`to`] or
//! [`Output`]: a file appears under its name when it is whole, and not before.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, IsTerminal, Seek, Write, stdout};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use punctual_linux::process::{SignalFd, signals};
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

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
    /// of `path` in [`Output::finish`], with its permissions. One that a run is writing is refused,
    /// here and there. What is no regular file (`/dev/null`, a fifo) is written itself; so is a file
    /// in a directory that is not the caller's to write.
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
        if let Some(old) = &old {
            not_of_a_run(old)?;
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
        let replaced = match &self.place {
            Place::Beside(temporary) => fs::metadata(&temporary.to),
            Place::Stream | Place::Itself => self.file.metadata(),
        };
        replaced.is_ok_and(|replaced| is_same(&replaced, other))
    }

    /// Puts the file in its place. All must have been written.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        match &self.place {
            Place::Stream => {}
            Place::Beside(temporary) => temporary.take_place()?,
            // Its lock is held since it was created: no run has begun to write it.
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

/// Whether `found` is of `file`, whatever its name.
pub(crate) fn is_same(found: &fs::Metadata, file: &File) -> bool {
    file.metadata().is_ok_and(|file| (found.dev(), found.ino()) == (file.dev(), file.ino()))
}

/// Refuses what a run is writing, and else keeps runs from it until `file` is closed. A run locks its
/// outputs; what takes their place would take it from the run as well.
fn not_of_a_run(file: &File) -> io::Result<()> {
    // Runs lock no devices; who does means something else by it.
    if file.metadata()?.is_file() && matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
    {
        return Err(io::Error::other("a run is writing it: name another file"));
    }
    Ok(())
}

/// Renames to a name that nothing has; `AlreadyExists` where something has it.
pub(crate) fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that does not know how (NFS).
        Err(Errno::INVAL) if fs::symlink_metadata(to).is_ok() => {
            Err(io::ErrorKind::AlreadyExists.into())
        }
        Err(Errno::INVAL) => fs::rename(from, to),
        renamed => renamed.map_err(io::Error::from),
    }
}

/// Whether a file takes the place of `path` when it is whole.
pub(crate) fn is_replaced(path: &Path) -> bool {
    !is_stdout(path) && fs::metadata(path).map_or(true, |found| found.is_file())
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// A file to be read, as messages name it: `-` is standard input.
pub(crate) fn shown(file: impl AsRef<Path>) -> String {
    let file = file.as_ref();
    if file.as_os_str() == "-" { "stdin".to_owned() } else { file.display().to_string() }
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
        let (file, path) = create_beside(&to)?;
        let temporary = Self { path, to };
        if let Some(old) = old {
            let old = old.metadata()?;
            // Only root can give a file to another; else it is the caller's.
            let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
            file.set_permissions(old.permissions())?;
        }
        Ok((file, temporary))
    }

    /// What is there now need not be what was there when this was created: a run may have begun.
    fn take_place(&self) -> io::Result<()> {
        let now = OpenOptions::new().write(true).custom_flags(AT_ONCE).open(&self.to);
        match now {
            // Open, and so locked, until it is replaced.
            Ok(now) => {
                not_of_a_run(&now)?;
                match fs::rename(&self.path, &self.to) {
                    // A file system of its own (a container's volume): written itself.
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => self.copy_to(now),
                    renamed => renamed,
                }
            }
            // Nothing, or a link that leads nowhere.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match rename_to_free(&self.path, &self.to) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                    Err(_) if self.to.is_symlink() => fs::rename(&self.path, &self.to),
                    // Made since the look: it is there for the next.
                    Err(_) => self.take_place(),
                    Ok(()) => Ok(()),
                }
            }
            Err(error) => Err(error),
        }
    }
}

impl Temporary {
    fn copy_to(&self, mut file: File) -> io::Result<()> {
        file.set_len(0)?;
        io::copy(&mut File::open(&self.path)?, &mut file)?;
        fs::remove_file(&self.path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Where it cannot be removed it cannot be helped.
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes a file of a hidden name of its own in the directory of `path`. What somebody else has left
/// under such a name (a process of the same number, in another container) stays.
pub(crate) fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.as_bytes();
    let mut hidden = b".".to_vec();
    hidden.extend_from_slice(&name[..name.len().min(LONGEST_NAME)]);
    first_free(&path.with_file_name(OsStr::from_bytes(&hidden)), |path| {
        OpenOptions::new().write(true).create_new(true).open(path)
    })
}

/// Does it with `path.PID` or, where that is taken, `path.PID-2` and so on; and the name.
pub(crate) fn first_free<T>(
    path: &Path,
    mut make: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<(T, PathBuf)> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let mut tried = PathBuf::from(&name);
    for number in 2.. {
        match make(&tried) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MOST_NAMES => {
                let mut next = name.clone();
                next.push(format!("-{number}"));
                tried = next.into();
            }
            done => return done.map(|done| (done, tried)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A fifo that has come into a file's place is an error, and no wait for its reader.
const AT_ONCE: i32 = OFlags::NONBLOCK.bits().cast_signed();
/// Bytes collected before they are written.
const BUFFER: usize = 64 << 10;
/// Names that are tried.
const MOST_NAMES: u32 = 1_000;
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
        fs::remove_file(&file).unwrap();
        to(Some(&link), |out| out.write_all(b"new")).unwrap();
        assert_eq!((&*fs::read(&link).unwrap(), place.names().len()), (&b"new"[..], 1));
    }

    #[test]
    fn the_longest_name_has_a_hidden_one_too() {
        let place = Directory::new("longest");
        let file = place.0.join("n".repeat(255));
        to(Some(&file), |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    #[test]
    fn a_run_that_begins_meanwhile_keeps_its_file() {
        for old in [None, Some("old")] {
            let place = Directory::new("meanwhile");
            let file = place.0.join("b.csv");
            if let Some(old) = old {
                fs::write(&file, old).unwrap();
            }
            // As a run opens and locks its log.
            let mut live = None;
            let refused = to(Some(&file), |out| {
                out.write_all(b"new")?;
                if old.is_some() {
                    fs::remove_file(&file)?;
                }
                fs::write(&file, "a run's")?;
                let run = OpenOptions::new().write(true).open(&file)?;
                run.try_lock()?;
                live = Some(run);
                Ok(())
            });
            let said = refused.unwrap_err().to_string();
            assert!(said.ends_with("b.csv: a run is writing it: name another file"), "{said}");
            assert_eq!((&*fs::read(&file).unwrap(), place.names().len()), (&b"a run's"[..], 1));
            drop(live);
            to(Some(&file), |out| out.write_all(b"new")).unwrap();
            assert_eq!((&*fs::read(&file).unwrap(), place.names().len()), (&b"new"[..], 1));
        }
    }

    #[test]
    fn a_run_does_not_begin_to_write_what_is_being_written_itself() {
        let place = Directory::new("held");
        let file = place.0.join("file");
        fs::write(&file, "old").unwrap();
        let ours = OpenOptions::new().write(true).open(&file).unwrap();
        not_of_a_run(&ours).unwrap();
        let run = File::open(&file).unwrap();
        assert!(matches!(run.try_lock(), Err(TryLockError::WouldBlock)));
        drop(ours);
        run.try_lock().unwrap();
        let late = File::open(&file).unwrap();
        assert!(not_of_a_run(&late).unwrap_err().to_string().starts_with("a run is writing it"));
    }

    #[test]
    fn a_name_that_is_taken_is_not_free() {
        let place = Directory::new("free");
        let [from, to] = ["from", "to"].map(|name| place.0.join(name));
        fs::write(&from, "new").unwrap();
        fs::write(&to, "old").unwrap();
        let taken = rename_to_free(&from, &to).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        fs::remove_file(&to).unwrap();
        rename_to_free(&from, &to).unwrap();
        assert_eq!((&*fs::read(&to).unwrap(), from.exists()), (&b"new"[..], false));
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
