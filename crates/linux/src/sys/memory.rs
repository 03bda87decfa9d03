//! Memory shared with other processes, as words that anybody may change at any time.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::AtomicU64;

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};

/// A mapping of a sealed memfd.
#[derive(Debug)]
pub(crate) struct SharedWords {
    start: NonNull<AtomicU64>,
    count: usize,
}

/// What a mapping is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Loads only, and these relaxed ones.
    Read,
    /// Everything.
    Write,
}

impl SharedWords {
    /// Maps the first `count` words of a memfd (`memfd_create(2)`, Linux 3.17).
    ///
    /// Refused unless it is sealed against shrinking and as long as that: an access beyond the end
    /// of a file is a SIGBUS.
    pub(crate) fn map(fd: BorrowedFd<'_>, count: usize, purpose: Use) -> io::Result<Self> {
        let bytes = count.checked_mul(size_of::<u64>()).ok_or(io::ErrorKind::InvalidInput)?;
        let length = usize::try_from(fstat(fd)?.st_size).unwrap_or(0);
        let sealed = fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        if bytes == 0 || length < bytes || !sealed {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let protection = match purpose {
            Use::Read => libc::PROT_READ,
            Use::Write => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: no address is asked for, so that nothing that is mapped already is touched.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, count })
    }

    /// The words. Of a mapping for [`Use::Read`] they may only be loaded, relaxed: a store is a
    /// SIGSEGV.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, holds `count` words for as long as `self` lives, and
        // every bit pattern is a valid word. Who else has it mapped may change it at any time,
        // which is what atomics are for.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        let bytes = self.count * size_of::<u64>();
        // SAFETY: exactly what was mapped, and no borrow of it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) };
    }
}

// SAFETY: a mapping belongs to the process, not to a thread, and gives out nothing but atomics.
unsafe impl Send for SharedWords {}
// SAFETY: likewise.
unsafe impl Sync for SharedWords {}
