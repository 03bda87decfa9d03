//! Why a log has no trailer, as far as its file tells.

use std::fs::{File, TryLockError};

use super::error::ReadError;

/// Why a log has no trailer. A run locks its log for as long as it lives; a copy has no lock, nor has
/// what comes through a pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CutOff {
    /// Nothing tells.
    #[default]
    Untold,
    /// Its run is writing it.
    Written,
    /// There is more in it by now, and nobody is writing it: the run has ended meanwhile.
    Grown,
    /// Nobody is writing it.
    Left,
}

impl CutOff {
    /// Of a log whose end was found after `read` bytes. `file` was opened for this log alone, as the
    /// look at the lock takes it for a moment.
    pub(crate) fn of(file: &File, read: u64) -> Self {
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            return Self::Untold;
        }
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => return Self::Written,
            // A file system without locks.
            Err(TryLockError::Error(_)) => return Self::Untold,
            Ok(()) => {}
        }
        // Closing the file does the same.
        let _ = file.unlock();
        let grown = file.metadata().is_ok_and(|found| found.len() > read);
        if grown { Self::Grown } else { Self::Left }
    }

    /// The end of a sentence that begins "not written because".
    pub(crate) const fn cause(self) -> &'static str {
        match self {
            Self::Untold => {
                "the run was killed, goes on, or the disk had no room left for the log's end, or its \
                 reader was gone or too slow"
            }
            Self::Written => {
                "the run is still writing the log; read it again when the run has ended"
            }
            Self::Grown => "the run wrote on while the log was read; read it again",
            Self::Left => {
                "the run was killed, or the disk had no room left for the log's end, or its reader \
                 was gone or too slow, or this is a copy that was made while the run went on"
            }
        }
    }

    /// The same of a log that could not be read: one may be empty because its run has only locked it
    /// yet, as it starts or waits for its peer.
    pub(crate) fn of_unread(file: &File, error: ReadError) -> ReadError {
        match error {
            ReadError::CutOff { length }
                if matches!(Self::of(file, length), Self::Written | Self::Grown) =>
            {
                ReadError::NotBegun
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn who_writes_a_log_is_told_by_its_lock_and_its_length() {
        let name = format!("punctual-{}-cut-off.log", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "head").unwrap();
        let mut run = File::options().append(true).open(&path).unwrap();
        let log = File::open(&path).unwrap();
        run.try_lock().unwrap();
        assert_eq!(CutOff::of(&log, 4), CutOff::Written);
        run.write_all(b" and the rest").unwrap();
        assert_eq!(CutOff::of(&log, 4), CutOff::Written);
        let unread = |length| CutOff::of_unread(&log, ReadError::CutOff { length });
        assert!(matches!(unread(4), ReadError::NotBegun));
        run.unlock().unwrap();
        assert_eq!(CutOff::of(&log, 4), CutOff::Grown);
        assert_eq!(CutOff::of(&log, 17), CutOff::Left);
        assert!(matches!(unread(17), ReadError::CutOff { length: 17 }));
        run.try_lock().expect("a look keeps no lock");
        assert_eq!(CutOff::of(&File::open("/dev/null").unwrap(), 0), CutOff::Untold);
        std::fs::remove_file(path).unwrap();
    }
}
