//! Scheduling policy of the calling thread: `sched_setattr` (Linux 3.14), for which neither libc
//! nor rustix has a wrapper.

use std::io;

/// The layout of `struct sched_attr` up to the fields of Linux 3.14, 48 bytes.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks for `SCHED_FIFO` at `priority` (1 to 99) for the calling thread.
pub(crate) fn set_fifo(priority: u32) -> io::Result<()> {
    set(libc::SCHED_FIFO, priority, 0)
}

/// Asks for the ordinary policy with a time slice of `slice` ns, which EEVDF honours between
/// 0.1 and 100 ms (Linux 6.12); 0 is the default slice. Earlier kernels ignore it.
pub(crate) fn set_ordinary(slice: u64) -> io::Result<()> {
    set(libc::SCHED_OTHER, 0, slice)
}

fn set(policy: libc::c_int, priority: u32, runtime: u64) -> io::Result<()> {
    let attributes = Attributes {
        size: u32::try_from(size_of::<Attributes>()).expect("48"),
        policy: policy.unsigned_abs(),
        // Threads and processes that we start shall not inherit a real-time policy.
        flags: libc::SCHED_FLAG_RESET_ON_FORK.unsigned_abs().into(),
        nice: 0,
        priority,
        runtime,
        deadline: 0,
        period: 0,
    };
    // SAFETY: the kernel reads `size` bytes from the structure, which outlives the call; thread 0
    // is the caller, flags are 0.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
