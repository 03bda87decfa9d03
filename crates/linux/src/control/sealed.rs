//! Sealed memory that other processes find through `/proc/PID/fd`.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{SealFlags, fcntl_add_seals, ftruncate};
use rustix::io::Errno;

use super::layout::{SIZE, VERSION};
use crate::memfd;
use crate::sys::memory::{SharedWords, Use};

/// One block of [`SIZE`] bytes, in a memfd that nobody can resize.
#[derive(Debug)]
pub(super) struct Sealed {
    fd: OwnedFd,
    words: SharedWords,
}

/// Who may write to a block beside its maker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writers {
    /// Whoever can open it.
    All,
    /// Nobody (`F_SEAL_FUTURE_WRITE`, Linux 5.1).
    Maker,
}

impl Sealed {
    /// A block that begins with `magic`; all else is zero.
    pub(super) fn create(name: &str, magic: u64, writers: Writers) -> io::Result<Self> {
        let fd = memfd::create(name)?;
        ftruncate(&fd, SIZE.try_into().unwrap_or(u64::MAX))?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
        let words = SharedWords::map(fd.as_fd(), SIZE / 8, Use::Write)?;
        let sealed = Self { fd, words };
        let pid = u64::from(std::process::id());
        let size = SIZE.try_into().unwrap_or(u64::MAX);
        for (word, value) in sealed.words().iter().zip([magic, VERSION, size, pid]) {
            word.store(value.to_le(), Ordering::Relaxed);
        }
        if writers == Writers::Maker {
            match fcntl_add_seals(&sealed.fd, SealFlags::FUTURE_WRITE) {
                Ok(()) | Err(Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
        fcntl_add_seals(&sealed.fd, SealFlags::SEAL)?;
        Ok(sealed)
    }

    /// A block of another process.
    pub(super) fn open(path: &Path, magic: u64, purpose: Use) -> io::Result<Self> {
        let write = purpose == Use::Write;
        let fd = OwnedFd::from(OpenOptions::new().read(true).write(write).open(path)?);
        let words = SharedWords::map(fd.as_fd(), SIZE / 8, purpose)?;
        let sealed = Self { fd, words };
        let head = [0, 1].map(|word| sealed.load(word));
        if head != [magic, VERSION] {
            let problem = format!("{} is no block of version {VERSION}", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        Ok(sealed)
    }

    /// Where other processes of the same user open it while this one lives.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd()).into()
    }

    pub(super) fn words(&self) -> &[AtomicU64] {
        self.words.words()
    }

    pub(super) fn load(&self, word: usize) -> u64 {
        u64::from_le(self.words()[word].load(Ordering::Relaxed))
    }
}

impl AsFd for Sealed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
