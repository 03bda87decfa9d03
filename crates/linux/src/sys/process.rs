//! Processes in new namespaces, and signals read from a descriptor.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::process::Pid;

/// A child made by [`clone_and_execute`].
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) pidfd: OwnedFd,
}

/// Starts `program` as the first process of a new PID and mount namespace.
///
/// The child keeps the descriptors in `keep` across the `execve`, and the environment of the
/// caller. Needs `CLONE_PIDFD` (Linux 5.2). That the program could not be executed shows as exit
/// status 125 of the child.
pub(crate) fn clone_and_execute(
    program: &CStr,
    arguments: &[CString],
    keep: &[RawFd],
) -> Result<Child, Errno> {
    let mut argv: Vec<*const libc::c_char> = arguments.iter().map(|a| a.as_ptr()).collect();
    argv.push(std::ptr::null());
    let flags = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_PIDFD | libc::SIGCHLD;
    let mut pidfd: libc::c_int = -1;
    // SAFETY: without CLONE_VM this is a fork: no stack is needed, and the child runs on a copy
    // of our memory. The third argument is `parent_tid` on all architectures Rust's std runs on
    // Linux with this argument order (x86-64, aarch64, arm, riscv, ...); CLONE_PIDFD stores there.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) };
    if pid == 0 {
        // SAFETY: the pointers were made before the clone and live in our copy of the memory.
        unsafe { execute(program, &argv, keep) }
    }
    if pid < 0 {
        return Err(last_error());
    }
    // SAFETY: the kernel stored a new descriptor, which nobody else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Child { pidfd })
}

/// In the child: only system calls, because other threads of the parent may have held locks.
///
/// # Safety
/// `argv` must be a null-terminated array of C strings that are alive.
unsafe fn execute(program: &CStr, argv: &[*const libc::c_char], keep: &[RawFd]) -> ! {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    for &fd in keep {
        // SAFETY: changes a flag of a descriptor of this child's own table.
        unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
    }
    if FILE_SIZE_SIGNAL_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: the default action is no code of ours; ignored signals stay so over an execve.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
    }
    // SAFETY: all arrays are null-terminated; on return nothing was changed, and `_exit` runs no
    // code of ours.
    unsafe {
        libc::execve(program.as_ptr(), argv.as_ptr(), environ);
        libc::_exit(125)
    }
}

/// Runs `work` in a forked child and returns its exit status, `None` when a signal killed it.
///
/// For the single-threaded only: the child may allocate and take locks.
pub(crate) fn in_child(work: impl FnOnce() -> u8) -> Result<Option<u8>, Errno> {
    // SAFETY: the caller is single-threaded, so the child's copy of memory is consistent.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let status = work();
        // SAFETY: ends the child at once, without the parent's exit handlers.
        unsafe { libc::_exit(i32::from(status)) }
    }
    let pid = Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(last_error)?;
    let status = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty())?;
    Ok(status.and_then(|(_, s)| s.exit_status()).and_then(|s| u8::try_from(s).ok()))
}

/// Has `command` run `prepare` in the child, after the fork and before the `execve`.
///
/// For single-threaded callers only (the init of a run is): `prepare` may allocate.
pub(crate) fn prepare(
    command: &mut Command,
    prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: the closure runs in a fork of a single-threaded process, whose memory is consistent.
    unsafe { command.pre_exec(prepare) };
}

/// Takes ownership of a descriptor that was inherited across an `execve`, and marks it CLOEXEC.
pub(crate) fn take_descriptor(fd: RawFd) -> Result<OwnedFd, Errno> {
    if fd <= 2 {
        return Err(Errno::BADF);
    }
    // SAFETY: F_GETFD only asks; a number that is not open is answered with EBADF.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    if flags < 0 {
        return Err(last_error());
    }
    // SAFETY: the descriptor is open, and the caller passes each number it was started with once.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// A signal as read from a `signalfd(2)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignalInfo {
    pub(crate) signal: i32,
    pub(crate) code: i32,
}

/// Blocks `signals` in the calling thread (threads made later inherit that) and returns a
/// descriptor from which they are read without blocking.
pub(crate) fn block_and_open(signals: &[i32]) -> Result<OwnedFd, Errno> {
    block(signals)?;
    let set = signal_set(signals)?;
    // SAFETY: -1 asks for a new descriptor; the set is initialised.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(last_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Blocks `signals` in the calling thread.
pub(crate) fn block(signals: &[i32]) -> Result<(), Errno> {
    change_mask(libc::SIG_BLOCK, signals)
}

/// Undoes [`block`].
pub(crate) fn unblock(signals: &[i32]) -> Result<(), Errno> {
    change_mask(libc::SIG_UNBLOCK, signals)
}

/// Whether the process ignores `signal`.
pub(crate) fn is_ignored(signal: i32) -> Result<bool, Errno> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call only stores the present one.
    if unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) } != 0 {
        return Err(last_error());
    }
    // SAFETY: a call that succeeded has filled the structure.
    Ok(unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN)
}

/// Ignores SIGXFSZ in this process, not in what [`clone_and_execute`] starts.
pub(crate) fn ignore_file_size_signal() -> Result<(), Errno> {
    if is_ignored(libc::SIGXFSZ)? {
        return Ok(());
    }
    // SAFETY: to ignore a signal runs no code of ours.
    if unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) } == libc::SIG_ERR {
        return Err(last_error());
    }
    FILE_SIZE_SIGNAL_IGNORED.store(true, Ordering::Relaxed);
    Ok(())
}

/// Whether it was this process that ignored it, and children are to have it back.
static FILE_SIZE_SIGNAL_IGNORED: AtomicBool = AtomicBool::new(false);

/// Unblocks every signal in the calling thread: what a program expects to find when it starts.
pub(crate) fn unblock_all() -> Result<(), Errno> {
    change_mask(libc::SIG_SETMASK, &[])
}

fn change_mask(how: libc::c_int, signals: &[i32]) -> Result<(), Errno> {
    let set = signal_set(signals)?;
    // SAFETY: the set is initialised; a null old set is allowed.
    let error = unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) };
    if error == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(error)) }
}

/// The next signal, `None` when there is none.
pub(crate) fn read_signal(fd: BorrowedFd<'_>) -> Result<Option<SignalInfo>, Errno> {
    let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
    let size = size_of::<libc::signalfd_siginfo>();
    // SAFETY: the buffer has exactly the size passed.
    let read = unsafe { libc::read(fd.as_raw_fd(), info.as_mut_ptr().cast(), size) };
    if read < 0 {
        let error = last_error();
        return if error == Errno::AGAIN { Ok(None) } else { Err(error) };
    }
    if usize::try_from(read) != Ok(size) {
        return Ok(None);
    }
    // SAFETY: a read of the full size filled the structure, all of whose fields are integers.
    let info = unsafe { info.assume_init() };
    let signal = i32::try_from(info.ssi_signo).unwrap_or(0);
    Ok(Some(SignalInfo { signal, code: info.ssi_code }))
}

/// Sends `signal`, any number, to `pid` (negative: to that process group).
pub(crate) fn kill(pid: i32, signal: i32) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    let result = unsafe { libc::kill(pid, signal) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

fn signal_set(signals: &[i32]) -> Result<libc::sigset_t, Errno> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the whole set.
    let mut set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    };
    for &signal in signals {
        // SAFETY: the set is initialised; a bad number is answered with EINVAL.
        if unsafe { libc::sigaddset(&raw mut set, signal) } != 0 {
            return Err(last_error());
        }
    }
    Ok(set)
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
