//! The directory of a running link, where others find it: for root `/run/punctual/NAME`, else
//! `$XDG_RUNTIME_DIR/punctual/NAME`, else `/tmp/punctual-UID/NAME`; mode 0700.
//!
//! A live run holds a lock on its directory's `lock` file. The lock goes with the process, however
//! it died; so a directory whose lock is free is stale, and nothing has to be trusted about
//! process numbers. Who makes or removes a directory holds the lock of the base meanwhile: one that
//! is made and not locked yet looks stale.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use punctual_linux::clock::monotonic;
use punctual_linux::wait::sleep_until;
use punctual_sched::Duration;
use rustix::fs::OFlags;

pub use self::places::{base_directory, bases};
use self::places::{is_ours, prepare_base};
use crate::output::unwritten;
use crate::show::Way;

mod places;

/// A run's directory; removed on drop.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    name: String,
    /// Held for as long as the run lives.
    lock: File,
}

impl RunDirectory {
    /// Claims `name`, or the first free of `lab`, `lab-2`, ... Stale directories are removed; what
    /// cannot be removed is told and left.
    pub fn claim(base: &Path, name: Option<&str>) -> Result<Self> {
        let _held = tidied(base)?;
        if let Some(name) = name {
            check_new_name(name)?;
            return Self::try_claim(base, name)?.with_context(|| {
                format!("a run named \"{name}\" is running: choose another --name")
            });
        }
        let lab = |number| if number == 1 { "lab".to_owned() } else { format!("lab-{number}") };
        Self::claim_first(base, lab)
    }

    /// Claims a directory for files that are nobody's once this process has ended. It has a name that
    /// no run can have, and goes as those of runs do.
    pub fn scratch(base: &Path) -> Result<Self> {
        let _held = tidied(base)?;
        Self::claim_first(base, |number| format!("{SCRATCH}{number}"))
    }

    fn claim_first(base: &Path, name: impl Fn(usize) -> String) -> Result<Self> {
        let mut problem = None;
        for number in 1..=MOST_RUNS {
            match Self::try_claim(base, &name(number)) {
                Ok(Some(directory)) => return Ok(directory),
                Ok(None) => {}
                // What is wrong with one name need not be with the next.
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        Err(problem.unwrap_or_else(|| {
            anyhow!("{MOST_RUNS} runs are running under {}: give a --name", base.display())
        }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes `name` in the directory a symbolic link to `target`.
    pub fn lead(&self, name: &str, target: &Path) -> Result<()> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            // Of a run that was killed, in a directory that could not be removed.
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
        }
        symlink(target, &path).with_context(|| format!("cannot create {}", path.display()))
    }

    fn try_claim(base: &Path, name: &str) -> Result<Option<Self>> {
        let path = base.join(name);
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other.with_context(|| format!("cannot create {}", path.display()))?,
        }
        let file = path.join("lock");
        let mut lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(AT_ONCE)
            .open(&file)
            .with_context(|| format!("cannot open {}", file.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", file.display()));
            }
        }
        if let Err(error) = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()))
        {
            // The lock of the base is held.
            let _ = fs::remove_dir_all(&path);
            bail!("cannot write {}: {}", file.display(), unwritten(&error));
        }
        Ok(Some(Self { path, name: name.to_owned(), lock }))
    }

    /// Whether the directory is still the one that was claimed: somebody may have removed that, and
    /// another run made one of the same name.
    fn is_still_there(&self) -> bool {
        let found = fs::symlink_metadata(self.path.join("lock"));
        let (Ok(found), Ok(held)) = (found, self.lock.metadata()) else { return false };
        (found.dev(), found.ino()) == (held.dev(), held.ino())
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // What is left behind is stale and goes with the next start. Without the base's lock, a
        // start could claim the directory while it goes.
        if let Some(base) = self.path.parent()
            && let Ok(_held) = lock_base(base)
            && self.is_still_there()
        {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// The directory of each run that lives under `base`, by name.
pub fn running(base: &Path) -> Result<Vec<PathBuf>> {
    let _held = lock_base(base)?;
    let entries = fs::read_dir(base).with_context(|| format!("cannot read {}", base.display()))?;
    let named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| check_name(name).is_ok())
    };
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter(named);
    let mut running: Vec<_> = paths.filter(|path| matches!(is_held(path), Ok(true))).collect();
    running.sort();
    Ok(running)
}

/// What tidying found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tidied {
    /// Names of what was removed.
    pub removed: Vec<String>,
    /// Names of what is running.
    pub running: Vec<String>,
    /// What could not be looked at or removed, and why.
    pub problems: Vec<String>,
}

/// Removes the directories of runs that are no more. In what is not the caller's there are none of
/// the caller's.
pub fn remove_stale(base: &Path) -> Result<Tidied> {
    if !is_ours(base) {
        return Ok(Tidied::default());
    }
    tidy(base, &lock_base(base)?)
}

/// Makes the base, locks it and tidies it; what cannot be removed is told and left.
fn tidied(base: &Path) -> Result<File> {
    prepare_base(base)?;
    let held = lock_base(base)?;
    for problem in tidy(base, &held)?.problems {
        crate::warn(format_args!("{problem}"));
    }
    Ok(held)
}

/// `_held` is the lock of the base.
fn tidy(base: &Path, _held: &File) -> Result<Tidied> {
    let mut tidied = Tidied::default();
    let entries = fs::read_dir(base).with_context(|| format!("cannot read {}", base.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", base.display()))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let scratch = name.starts_with(SCRATCH);
        if !(scratch || check_name(name).is_ok()) || !path.is_dir() {
            continue;
        }
        match remove_if_stale(&path) {
            Ok(true) => tidied.removed.push(name.to_owned()),
            Ok(false) if scratch => {}
            Ok(false) => tidied.running.push(name.to_owned()),
            Err(error) => {
                tidied.problems.push(format!("cannot remove {}: {error}", path.display()));
            }
        }
    }
    tidied.removed.sort();
    tidied.running.sort();
    tidied.problems.sort();
    Ok(tidied)
}

/// `false`: a run holds it.
fn remove_if_stale(path: &Path) -> io::Result<bool> {
    if is_held(path)? {
        return Ok(false);
    }
    fs::remove_dir_all(path).map(|()| true)
}

/// Whether a run lives in this directory. The lock of the base must be held: a start that finds the
/// lock taken for the moment of this look would believe that its name is.
fn is_held(path: &Path) -> io::Result<bool> {
    let lock = match OpenOptions::new().read(true).custom_flags(AT_ONCE).open(path.join("lock")) {
        Ok(lock) => lock,
        // Of a start that was killed before it made the lock.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match lock.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Waits for the lock of the base, which is held for as long as a directory takes to be made or
/// removed.
fn lock_base(base: &Path) -> Result<File> {
    let path = base.join(".lock");
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(AT_ONCE)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    let deadline = monotonic() + BASE_PATIENCE;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) if monotonic() < deadline => {
                sleep_until(monotonic() + BASE_POLL);
            }
            Err(TryLockError::WouldBlock) => bail!(
                "another start has held {} for {BASE_PATIENCE}: end it, see `fuser {}`",
                path.display(),
                path.display()
            ),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
    }
}

/// Names are directory names and words in messages.
pub fn check_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let good = (1..=64).contains(&name.len()) && name.chars().all(allowed);
    if !good || name.starts_with(['.', '-']) {
        bail!(
            "--name: \"{name}\" is not 1 to 64 letters, digits, \"-\", \"_\", \".\" that begin \
             with a letter, digit or \"_\""
        );
    }
    Ok(())
}

/// The same, of a run that is to be: a word by which `punctual show` knows a direction is none.
pub fn check_new_name(name: &str) -> Result<()> {
    check_name(name)?;
    if Way::from_str(name, false).is_ok() {
        bail!("--name: \"{name}\" is a direction in `punctual show {name}`: choose another name");
    }
    Ok(())
}

const MOST_RUNS: usize = 1000;
/// How the names of directories begin that are none of runs.
const SCRATCH: &str = ".files-";
/// A fifo in a file's place is an error, and no wait for whoever opens its other end.
const AT_ONCE: i32 = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).bits().cast_signed();
/// For the lock of the base: a thousand times what a start holds it.
const BASE_PATIENCE: Duration = Duration::from_secs(10);
const BASE_POLL: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::places::base_of_socket;
    use super::*;

    fn base(test: &str) -> PathBuf {
        let base =
            std::env::temp_dir().join(format!("punctual-test-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        base
    }

    #[test]
    fn two_runs_side_by_side_get_two_names_and_leave_nothing() {
        let base = base("side");
        let first = RunDirectory::claim(&base, None).unwrap();
        let second = RunDirectory::claim(&base, None).unwrap();
        assert_eq!((first.name(), second.name()), ("lab", "lab-2"));
        let taken = RunDirectory::claim(&base, Some("lab")).unwrap_err();
        assert!(taken.to_string().contains("is running"), "{taken}");
        drop((first, second));
        assert_eq!(names(&base), [".lock"]);
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn the_directory_of_a_killed_run_is_removed_and_its_name_free() {
        let base = base("stale");
        DirBuilder::new().mode(0o700).create(&base).unwrap();
        fs::create_dir(base.join("dead")).unwrap();
        fs::write(base.join("dead/lock"), "12345\n").unwrap();
        let live = RunDirectory::claim(&base, Some("live")).unwrap();
        assert!(!base.join("dead").exists());
        fs::create_dir(base.join("dead")).unwrap();
        fs::write(base.join("dead/lock"), "").unwrap();
        let tidied = remove_stale(&base).unwrap();
        assert_eq!(
            (&*tidied.removed, &*tidied.running),
            (&["dead".into()][..], &["live".into()][..])
        );
        drop(live);
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn what_another_run_has_made_under_the_same_name_is_left_to_it() {
        let base = base("again");
        let first = RunDirectory::claim(&base, Some("rx")).unwrap();
        fs::remove_dir_all(first.path()).unwrap();
        let second = RunDirectory::claim(&base, Some("rx")).unwrap();
        drop(first);
        assert_eq!(running(&base).unwrap(), [second.path().to_owned()]);
        drop(second);
        assert_eq!(names(&base), [".lock"]);
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn files_of_a_process_that_is_no_more_go_and_are_no_run() {
        let base = base("scratch");
        let first = RunDirectory::scratch(&base).unwrap();
        let second = RunDirectory::scratch(&base).unwrap();
        assert_ne!(first.path(), second.path());
        fs::create_dir(base.join(".files-7")).unwrap();
        fs::write(base.join(".files-7/lock"), "12345\n").unwrap();
        fs::write(base.join(".files-7/log"), "left").unwrap();
        assert_eq!(running(&base).unwrap(), [] as [PathBuf; 0]);
        let tidied = remove_stale(&base).unwrap();
        assert_eq!((&*tidied.removed, &*tidied.running), (&[".files-7".to_owned()][..], &[][..]));
        drop((first, second));
        assert_eq!(names(&base), [".lock"]);
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_judged_stops_no_start() {
        let base = base("odd");
        DirBuilder::new().mode(0o700).create(&base).unwrap();
        for name in ["lab", "odd"] {
            fs::create_dir(base.join(name)).unwrap();
            // Cannot be opened: a link to itself, and that also by root.
            symlink("lock", base.join(name).join("lock")).unwrap();
        }
        fs::write(base.join("lab-2"), "a file").unwrap();
        let live = RunDirectory::claim(&base, None).unwrap();
        assert_eq!(live.name(), "lab-3");
        let problems = remove_stale(&base).unwrap().problems;
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[1].contains("odd"), "{problems:?}");
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn starts_at_one_time_all_get_a_directory() {
        let base = base("parallel");
        let base = &base;
        for _ in 0..50 {
            std::thread::scope(|scope| {
                let starts: Vec<_> =
                    (0..8).map(|_| scope.spawn(|| RunDirectory::claim(base, None))).collect();
                for start in starts {
                    let directory = start.join().unwrap().unwrap();
                    assert!(directory.path.join("lock").exists(), "{}", directory.name());
                }
            });
        }
        assert_eq!(names(base), [".lock"]);
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn what_is_not_ours_is_left_without_a_word() {
        let base = base("others");
        DirBuilder::new().mode(0o755).create(&base).unwrap();
        fs::create_dir(base.join("lab")).unwrap();
        assert_eq!(remove_stale(&base).unwrap(), Tidied::default());
        assert_eq!(base_of_socket(&base.join("lab/socket")), None);
        fs::set_permissions(&base, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(base_of_socket(&base.join("lab/socket")), Some(base.clone()));
        assert_eq!(remove_stale(&base).unwrap().removed, ["lab"]);
        fs::remove_dir_all(&base).unwrap();
    }

    fn names(base: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let names = fs::read_dir(base).unwrap().map(name);
        names.map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn names_that_could_leave_the_directory_are_refused() {
        for name in ["", ".", "..", "a/b", "-x", "a b", &"x".repeat(65)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["lab", "lab-2", "5g_trace.v1", "upper", "Up"] {
            assert!(check_new_name(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn a_name_that_show_takes_for_a_direction_is_refused_for_a_new_run() {
        for way in Way::value_variants() {
            let refused = check_new_name(way.word()).unwrap_err().to_string();
            assert!(refused.ends_with("choose another name"), "{refused}");
            // What an older version has started is found.
            assert!(check_name(way.word()).is_ok());
        }
    }
}
