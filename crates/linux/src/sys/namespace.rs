//! `unshare(2)`, and the account database's groups.

use std::ffi::{CStr, CString};

use rustix::io::Errno;
use rustix::thread::UnshareFlags;

/// Gives the calling process a new user namespace. Fails with `EINVAL` once it has a second thread.
pub(crate) fn unshare_user() -> Result<(), Errno> {
    unshare(UnshareFlags::NEWUSER)
}

/// Gives the calling thread, and nobody else, a new network namespace.
pub(crate) fn unshare_network() -> Result<(), Errno> {
    unshare(UnshareFlags::NEWNET)
}

/// Gives the calling thread a private copy of its mount namespace.
pub(crate) fn unshare_mounts() -> Result<(), Errno> {
    unshare(UnshareFlags::NEWNS)
}

fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    debug_assert!(!flags.contains(UnshareFlags::FILES));
    // SAFETY: the function is unsafe only for CLONE_FILES, which no caller in this file passes.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// All groups of account `name` whose primary group is `gid` (getgrouplist(3)).
pub(crate) fn groups_of(name: &CStr, gid: u32) -> Vec<u32> {
    let mut groups = vec![0; 64];
    // Twice: the first call may find the room too small and then says how much is needed.
    for _ in 0..2 {
        let mut count = libc::c_int::try_from(groups.len()).unwrap_or(libc::c_int::MAX);
        // SAFETY: `name` is NUL-terminated; `groups` has room for `count` entries, which is all
        // that the function may write.
        let got =
            unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        let count = usize::try_from(count).unwrap_or(0);
        if got >= 0 {
            groups.truncate(count);
            return groups;
        }
        groups.resize(count.max(groups.len() * 2), 0);
    }
    vec![gid]
}

/// The account name of `uid`, if the account database knows it (`getpwuid_r(3)`).
pub(crate) fn name_of(uid: u32) -> Option<CString> {
    let mut buffer = vec![0; 16 * 1024];
    let mut found = std::ptr::null_mut();
    // SAFETY: `passwd` is plain data for which all zeroes is a valid value.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    // SAFETY: all four pointers are valid for the call, and the length is the buffer's own.
    let error = unsafe {
        libc::getpwuid_r(uid, &raw mut entry, buffer.as_mut_ptr(), buffer.len(), &raw mut found)
    };
    if error != 0 || found.is_null() {
        return None;
    }
    // SAFETY: on success `pw_name` is a NUL-terminated string inside `buffer`, which lives on.
    Some(unsafe { CStr::from_ptr(entry.pw_name) }.to_owned())
}
