//! The calls on a `NETLINK_NETFILTER` socket that rustix does not offer: batched receive
//! (`recvmmsg`), the options of `SOL_NETLINK`, and the drop counter of `SO_MEMINFO`.

use std::io;
use std::mem::{MaybeUninit, size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Messages read by one `recvmmsg`: with 32 to 64 the system call is a small part of the cost of a
/// packet, and 64 headers (5 kB) still fit the stack and the first-level cache.
pub(crate) const SLOTS: usize = 64;

/// A non-blocking netfilter socket of the calling thread's network namespace, bound to an address
/// that the kernel chooses.
pub(crate) fn netfilter_socket() -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Some(netlink::NETFILTER),
    )?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

/// What one slot received.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filled {
    /// Bytes in the slot.
    pub(crate) length: usize,
    /// The datagram was longer than the slot.
    pub(crate) truncated: bool,
}

/// Reads up to [`SLOTS`] datagrams that are there now; datagram `n` lands at `n * slot_size`.
///
/// Returns how many came, at least one: `EAGAIN` when there was none.
pub(crate) fn receive_batch(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    slot_size: usize,
    filled: &mut [Filled; SLOTS],
) -> io::Result<usize> {
    let mut vectors = [MaybeUninit::<libc::iovec>::uninit(); SLOTS];
    let mut headers = [MaybeUninit::<libc::mmsghdr>::uninit(); SLOTS];
    let mut slots: libc::c_uint = 0;
    for ((vector, header), slot) in
        vectors.iter_mut().zip(&mut headers).zip(buffer.chunks_exact_mut(slot_size))
    {
        let vector =
            vector.write(libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() });
        // SAFETY: `msghdr` is plain integers and pointers, for which all zeroes is a valid value
        // (no address, no control data).
        let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        message.msg_iov = vector;
        message.msg_iovlen = 1;
        header.write(libc::mmsghdr { msg_hdr: message, msg_len: 0 });
        slots += 1;
    }
    // SAFETY: the first `slots` headers are initialised above; each points to one initialised
    // iovec on this stack frame, which points to its own exclusive part of `buffer`; all outlive
    // the call. The timeout may be null.
    let received = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            slots,
            libc::MSG_DONTWAIT,
            std::ptr::null_mut(),
        )
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    for (header, filled) in headers.iter().zip(filled.iter_mut()).take(received) {
        // SAFETY: the kernel reports at most `slots` messages, and those headers were initialised
        // above (the kernel only overwrites fields of them).
        let header = unsafe { header.assume_init_ref() };
        *filled = Filled {
            length: (header.msg_len as usize).min(slot_size),
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        };
    }
    Ok(received)
}

/// Switches an on/off option of `SOL_NETLINK` (netlink(7)) on.
pub(crate) fn enable(socket: BorrowedFd<'_>, option: libc::c_int) -> io::Result<()> {
    let one: libc::c_int = 1;
    // SAFETY: the pointer and the length describe `one`, which outlives the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_NETLINK,
            option,
            (&raw const one).cast(),
            socket_length(size_of_val(&one)),
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Datagrams that the kernel could not put into this socket's receive buffer (`SO_MEMINFO`,
/// Linux 4.12), since the socket was made; a 32-bit counter that wraps.
pub(crate) fn drops(socket: impl AsFd) -> io::Result<u32> {
    // SK_MEMINFO_DROPS is the ninth word (linux/sock_diag.h); a longer answer would be cut.
    let mut words = [0_u32; 16];
    let mut length = socket_length(size_of::<[u32; 16]>());
    // SAFETY: pointer and length describe `words`; the kernel writes at most `length` bytes and
    // the length back. Any bit pattern is a valid u32.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(words[SK_MEMINFO_DROPS])
}

fn socket_length(bytes: usize) -> libc::socklen_t {
    libc::socklen_t::try_from(bytes).expect("an option is a few bytes long")
}

const SK_MEMINFO_DROPS: usize = 8;
