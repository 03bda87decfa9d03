//! Why a queue could not be opened, in words and with the remedy.

use std::io;

use crate::netfilter::exchange::SocketError;

/// Why a queue could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A socket option.
    #[error("cannot set {option} on the queue's socket: {error}")]
    Option {
        /// Its name.
        option: &'static str,
        /// The kernel's answer.
        #[source]
        error: io::Error,
    },
    /// The request could not be sent, or the answer not be read.
    #[error("cannot talk to the kernel about queue {number}: {error}")]
    Exchange {
        /// The queue.
        number: u16,
        /// What failed.
        #[source]
        error: io::Error,
    },
    /// Another socket has it.
    #[error(
        "queue {number} is taken by another program in this network namespace: choose another \
             number, or stop that program (see /proc/net/netfilter/nfnetlink_queue)"
    )]
    Taken {
        /// The queue.
        number: u16,
    },
    /// No `CAP_NET_ADMIN`.
    #[error(
        "not permitted to bind queue {number}: run as root, or in a user namespace that owns \
             this network namespace (CAP_NET_ADMIN)"
    )]
    NotPermitted {
        /// The queue.
        number: u16,
    },
    /// The kernel has no NFQUEUE.
    #[error(
        "this kernel has no NFQUEUE: load it with `modprobe nfnetlink_queue` \
             (CONFIG_NETFILTER_NETLINK_QUEUE)"
    )]
    Missing,
    /// Any other answer.
    #[error("the kernel refused to bind queue {number}: {error}")]
    Refused {
        /// The queue.
        number: u16,
        /// The kernel's answer.
        #[source]
        error: io::Error,
    },
    /// The answer did not come, which a full receive buffer can do.
    #[error(
        "the kernel did not answer about queue {number}: its receive buffer of {receive_buffer} \
             bytes filled up at once; ask for a larger one"
    )]
    NoAnswer {
        /// The queue.
        number: u16,
        /// The buffer's size in bytes.
        receive_buffer: usize,
    },
}

/// `permitted`: the kernel takes configuration from us. It answers EPERM both to a stranger's queue
/// and to a missing capability.
pub(super) fn binding_error(number: u16, error: i32, permitted: bool) -> OpenError {
    match error {
        libc::EBUSY => OpenError::Taken { number },
        libc::EPERM if permitted => OpenError::Taken { number },
        libc::EPERM => OpenError::NotPermitted { number },
        // nfnetlink's answer to a subsystem that it neither has nor can load.
        libc::EINVAL => OpenError::Missing,
        other => OpenError::Refused { number, error: io::Error::from_raw_os_error(other) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_told_apart() {
        let words = |error, permitted| binding_error(7, error, permitted).to_string();
        assert!(words(libc::EBUSY, true).contains("taken by another program"));
        assert!(words(libc::EPERM, true).contains("taken by another program"));
        assert!(words(libc::EPERM, false).contains("CAP_NET_ADMIN"));
        assert!(words(libc::EINVAL, false).contains("modprobe nfnetlink_queue"));
        assert!(words(libc::ENOMEM, false).contains("refused to bind queue 7"));
    }
}
