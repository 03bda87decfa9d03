//! The directory of a running link, where others find it: `$XDG_RUNTIME_DIR/punctual/NAME`, for
//! root `/run/punctual/NAME`, else `/tmp/punctual-UID/NAME`; mode 0700.
//!
//! A live run holds a lock on its directory's `lock` file. The lock goes with the process, however
//! it died; so a directory whose lock is free is stale, and nothing has to be trusted about
//! process numbers.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// A run's directory; removed on drop.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    name: String,
    /// Held for as long as the run lives.
    _lock: File,
}

impl RunDirectory {
    /// Claims `name`, or the first free of `lab`, `lab-2`, ... Stale directories are removed.
    pub fn claim(base: &Path, name: Option<&str>) -> Result<Self> {
        prepare_base(base)?;
        remove_stale(base)?;
        if let Some(name) = name {
            check_name(name)?;
            return Self::try_claim(base, name)?.with_context(|| {
                format!("a run named \"{name}\" is running: choose another --name")
            });
        }
        for number in 1..=MOST_RUNS {
            let name = if number == 1 { "lab".to_owned() } else { format!("lab-{number}") };
            if let Some(directory) = Self::try_claim(base, &name)? {
                return Ok(directory);
            }
        }
        bail!("{MOST_RUNS} runs are running under {}: give a --name", base.display())
    }

    /// The run's name.
    pub fn name(&self) -> &str {
        &self.name
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
            .open(&file)
            .with_context(|| format!("cannot open {}", file.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", file.display()));
            }
        }
        // Between our open and our lock, somebody tidying up may have removed the file.
        let ours = lock.metadata()?.ino();
        if fs::metadata(&file).map(|named| named.ino()).ok() != Some(ours) {
            return Ok(None);
        }
        lock.set_len(0)?;
        writeln!(lock, "{}", std::process::id())?;
        Ok(Some(Self { path, name: name.to_owned(), _lock: lock }))
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // What is left behind is stale and goes with the next start.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Where the caller's runs are. `uid` is the caller's own, also inside a user namespace.
pub fn base_directory(uid: u32) -> PathBuf {
    if uid == 0 {
        return PathBuf::from("/run/punctual");
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if Path::new(&runtime).is_absolute() && Path::new(&runtime).is_dir() => {
            Path::new(&runtime).join("punctual")
        }
        _ => PathBuf::from(format!("/tmp/punctual-{uid}")),
    }
}

/// Removes the directories of runs that are no more. Returns the names of what was removed and of
/// what is running.
pub fn remove_stale(base: &Path) -> Result<(Vec<String>, Vec<String>)> {
    let (mut removed, mut running) = (Vec::new(), Vec::new());
    let entries = match fs::read_dir(base) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((removed, running)),
        other => other.with_context(|| format!("cannot read {}", base.display()))?,
    };
    for entry in entries {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if check_name(name).is_err() || !path.is_dir() {
            continue;
        }
        let lock = match File::open(path.join("lock")) {
            Ok(lock) => Some(lock),
            // A directory that a start has made and not locked yet, or one without a lock at all.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("cannot open lock of {name}")),
        };
        if lock.as_ref().is_none_or(|lock| lock.try_lock().is_ok()) {
            fs::remove_dir_all(&path)
                .with_context(|| format!("cannot remove {}", path.display()))?;
            removed.push(name.to_owned());
        } else {
            running.push(name.to_owned());
        }
    }
    removed.sort();
    running.sort();
    Ok((removed, running))
}

/// The base belongs to the caller alone: in `/tmp` anybody could have made it first.
fn prepare_base(base: &Path) -> Result<()> {
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(base)
        .with_context(|| format!("cannot create {}", base.display()))?;
    let metadata = fs::symlink_metadata(base)?;
    let me = rustix::process::geteuid().as_raw();
    if !metadata.is_dir() || metadata.uid() != me || metadata.mode() & 0o077 != 0 {
        bail!(
            "{} is not a directory of yours with mode 0700: remove it, or set XDG_RUNTIME_DIR",
            base.display()
        );
    }
    Ok(())
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

const MOST_RUNS: usize = 1000;

#[cfg(test)]
mod tests {
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
        assert_eq!(fs::read_dir(&base).unwrap().count(), 0);
        fs::remove_dir(&base).unwrap();
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
        let (removed, running) = remove_stale(&base).unwrap();
        assert_eq!((removed, running), (vec!["dead".to_owned()], vec!["live".to_owned()]));
        drop(live);
        fs::remove_dir(&base).unwrap();
    }

    #[test]
    fn names_that_could_leave_the_directory_are_refused() {
        for name in ["", ".", "..", "a/b", "-x", "a b", &"x".repeat(65)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["lab", "lab-2", "5g_trace.v1"] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }
}
