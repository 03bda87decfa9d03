//! What wakes the server's thread out of its wait.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// A bell that any thread may ring, and that rings until it is hushed: `eventfd(2)`.
#[derive(Clone, Debug)]
pub(crate) struct Bell(Arc<OwnedFd>);

impl Bell {
    /// One that does not ring.
    pub(super) fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(fd)))
    }

    /// A descriptor more of it, `None` where there is no room for one.
    pub(super) fn spare(&self) -> Option<OwnedFd> {
        self.0.try_clone().ok()
    }

    /// Whoever polls it for reading wakes up.
    pub(super) fn ring(&self) {
        // Fails only when the counter is full, and then it rings already.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// Rings no more until it is rung again.
    pub(super) fn hush(&self) {
        // Fails only when it does not ring.
        let _ = rustix::io::read(&*self.0, &mut [0_u8; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
