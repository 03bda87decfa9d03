//! A network namespace held by a descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::sys;

/// A network namespace. It lives as long as a descriptor, a socket, or a process in it does.
///
/// `CLONE_NEWNET` and `setns(2)` act on one thread, so the threads of one process can work in
/// several namespaces; a socket stays in the one where it was opened, whoever uses it.
#[derive(Debug)]
pub struct Network(OwnedFd);

/// A network namespace could not be made, entered or named.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// `unshare(CLONE_NEWNET)` failed.
    #[error("cannot make a network namespace: {0}")]
    Create(Errno),
    /// `setns` failed.
    #[error("cannot enter the network namespace: {0}")]
    Enter(Errno),
    /// The namespace's file in `/proc` could not be opened.
    #[error("cannot open /proc/thread-self/ns/net: {0}; is /proc mounted?")]
    Open(Errno),
    /// No thread could be started.
    #[error("cannot start a thread for the network namespace: {0}")]
    Thread(io::Error),
}

impl Network {
    /// Makes a new namespace, in which only an inactive loopback device exists.
    pub fn new() -> Result<Self, NetworkError> {
        on_a_thread(|| {
            sys::namespace::unshare_network().map_err(NetworkError::Create)?;
            Self::current()
        })?
    }

    /// The namespace of the calling thread.
    pub fn current() -> Result<Self, NetworkError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::open("/proc/thread-self/ns/net", flags, Mode::empty())
            .map(Self)
            .map_err(NetworkError::Open)
    }

    /// Runs `work` on a thread of its own inside the namespace and returns what it returned.
    ///
    /// # Panics
    /// When `work` does.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetworkError> {
        on_a_thread(|| {
            self.enter()?;
            Ok(work())
        })?
    }

    /// Moves the calling thread into the namespace, for good.
    pub fn enter(&self) -> Result<(), NetworkError> {
        move_into_link_name_space(self.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(NetworkError::Enter)
    }

    /// Whether both are the same namespace.
    pub fn is(&self, other: &Self) -> bool {
        let identity = |network: &Self| rustix::fs::fstat(network).map(|s| (s.st_dev, s.st_ino));
        matches!((identity(self), identity(other)), (Ok(a), Ok(b)) if a == b)
    }
}

impl AsFd for Network {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Network {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, NetworkError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("namespace".to_owned())
            .spawn_scoped(scope, work)
            .map_err(NetworkError::Thread)?;
        thread.join().map_or_else(|panic| std::panic::resume_unwind(panic), Ok)
    })
}
