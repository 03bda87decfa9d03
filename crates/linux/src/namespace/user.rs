//! The caller's identity, and the user namespace in which an ordinary user may build networks.

use std::fs;
use std::path::Path;

use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use super::refusal::{Observed, Refusal, Step};
use crate::fault::{Faults, Refuse};
use crate::sys;

/// Who started the program, and as whom its command is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User id in the namespace in which the program was started.
    pub uid: u32,
    /// Group id, likewise.
    pub gid: u32,
    /// All groups, when they have to be set anew (under `sudo`); otherwise those of the process.
    pub groups: Vec<u32>,
    /// The account's name, where `sudo` told it.
    pub name: Option<String>,
}

/// The process may now make network namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// Who started the program.
    pub caller: Caller,
    /// Whether a user namespace was made, in which uid 0 stands for the caller; `false` for root.
    pub in_user_namespace: bool,
}

impl Caller {
    /// The real user and group, or under `sudo` those of who called it (`SUDO_UID`, `SUDO_GID`).
    pub fn current() -> Self {
        let uid = rustix::process::getuid().as_raw();
        let gid = rustix::process::getgid().as_raw();
        let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
        if uid == 0
            && let (Some(uid), Some(gid)) = (number("SUDO_UID"), number("SUDO_GID"))
            && uid != 0
        {
            return Self::of_sudo(uid, gid);
        }
        let groups = rustix::process::getgroups().unwrap_or_default();
        Self {
            uid,
            gid,
            groups: groups.into_iter().map(rustix::process::Gid::as_raw).collect(),
            name: None,
        }
    }

    fn of_sudo(uid: u32, gid: u32) -> Self {
        let name = sys::namespace::name_of(uid);
        let groups = name.as_ref().map_or_else(|| vec![gid], |n| sys::namespace::groups_of(n, gid));
        Self { uid, gid, groups, name: name.and_then(|n| n.into_string().ok()) }
    }
}

/// Makes the process able to build network namespaces.
///
/// Root (uid 0 with `CAP_SYS_ADMIN` and `CAP_NET_ADMIN`) needs nothing; anyone else gets a user
/// namespace in which uid and gid 0 stand for the caller. To be called once, while the process has
/// a single thread. A refusal is found in a child first, so it leaves this process as it was.
pub fn enter(faults: &Faults) -> Result<Entered, Refusal> {
    let caller = Caller::current();
    if let Some(observed) = injected(faults) {
        return Err(Refusal::from_observed(&observed));
    }
    if !Path::new("/proc/self/ns").exists() {
        return Err(Refusal::ProcMissing);
    }
    if is_privileged() {
        return Ok(Entered { caller, in_user_namespace: false });
    }
    if threads() != Some(1) {
        return Err(Refusal::MultiThreaded);
    }
    rehearse().map_err(|failure| Refusal::from_observed(&observe(failure)))?;
    make_and_map().map_err(|failure| Refusal::from_observed(&observe(failure)))?;
    Ok(Entered { caller, in_user_namespace: true })
}

/// Maps `inner` ids of a user namespace just made to the ids this process has outside of it.
///
/// `setgroups` must be denied first, or an ordinary user may not write a group map
/// (`user_namespaces(7)`).
pub(crate) fn write_maps(inner: (u32, u32), outer: (u32, u32)) -> Result<(), Errno> {
    write_proc("/proc/self/setgroups", "deny")?;
    write_proc("/proc/self/gid_map", &format!("{} {} 1", inner.1, outer.1))?;
    write_proc("/proc/self/uid_map", &format!("{} {} 1", inner.0, outer.0))
}

fn is_privileged() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    rustix::process::geteuid().is_root()
        && rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

fn make_and_map() -> Result<(), (Step, Errno)> {
    let outer = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    sys::namespace::unshare_user().map_err(|errno| (Step::Unshare, errno))?;
    write_maps((0, 0), outer).map_err(|errno| (Step::WriteMap, errno))
}

/// Goes all the way in a child, whose exit status says which step failed; its pipe says how.
fn rehearse() -> Result<(), (Step, Errno)> {
    let (reader, writer) = rustix::pipe::pipe().map_err(|errno| (Step::Unshare, errno))?;
    let status = sys::process::in_child(|| {
        let Err((step, errno)) = make_and_map().and_then(|()| {
            sys::namespace::unshare_network().map_err(|errno| (Step::UsePrivilege, errno))
        }) else {
            return 0;
        };
        let told = rustix::io::write(&writer, &errno.raw_os_error().to_ne_bytes());
        if told == Ok(size_of::<i32>()) { step as u8 + 1 } else { u8::MAX }
    });
    drop(writer);
    let step = match status {
        Ok(Some(0)) => return Ok(()),
        Ok(Some(2)) => Step::WriteMap,
        Ok(Some(3)) => Step::UsePrivilege,
        // A filter may also kill the child instead of answering.
        Ok(_) => Step::Unshare,
        Err(errno) => return Err((Step::Unshare, errno)),
    };
    let mut code = [0; size_of::<i32>()];
    match rustix::io::read(&reader, &mut code) {
        Ok(4) => Err((step, Errno::from_raw_os_error(i32::from_ne_bytes(code)))),
        _ => Err((step, Errno::PERM)),
    }
}

fn observe((step, errno): (Step, Errno)) -> Observed {
    Observed {
        step,
        errno,
        threads: threads().unwrap_or(1),
        seccomp_mode: status_field("Seccomp:").unwrap_or(0),
        proc_mounted: Path::new("/proc/self/ns").exists(),
        user_namespaces_built: Path::new("/proc/self/ns/user").exists(),
        apparmor_restrict: sysctl("kernel/apparmor_restrict_unprivileged_userns"),
        unprivileged_clone: sysctl("kernel/unprivileged_userns_clone"),
        max_user_namespaces: sysctl("user/max_user_namespaces"),
        chrooted: fs::read_to_string("/proc/self/mountinfo").is_ok_and(|text| !has_root(&text)),
        container: ["/.dockerenv", "/run/.containerenv"].iter().any(|p| Path::new(p).exists()),
    }
}

/// What would be seen if the kernel refused as the injected fault says.
fn injected(faults: &Faults) -> Option<Observed> {
    let mut seen = observe((Step::Unshare, Errno::PERM));
    (seen.seccomp_mode, seen.apparmor_restrict, seen.unprivileged_clone) = (0, None, None);
    match *faults.refuse.first()? {
        Refuse::UsernsApparmor => {
            (seen.step, seen.apparmor_restrict) = (Step::WriteMap, Some(1));
        }
        Refuse::UsernsSeccomp => seen.seccomp_mode = 2,
        Refuse::UsernsLimit => (seen.errno, seen.max_user_namespaces) = (Errno::NOSPC, Some(0)),
        Refuse::UsernsSysctl => seen.unprivileged_clone = Some(0),
        Refuse::ProcMissing => seen.proc_mounted = false,
        Refuse::ProcSysReadonly
        | Refuse::NfqueueMissing
        | Refuse::CeMarkMissing
        | Refuse::SharesMissing => return None,
    }
    Some(seen)
}

/// Whether a mount of this process's own table is its root directory; field 5 is the mount point.
fn has_root(mountinfo: &str) -> bool {
    mountinfo.lines().any(|line| line.split(' ').nth(4) == Some("/"))
}

fn threads() -> Option<u32> {
    status_field("Threads:")
}

fn status_field(name: &str) -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

fn sysctl(name: &str) -> Option<u64> {
    fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim().parse().ok()
}

fn write_proc(path: &str, value: &str) -> Result<(), Errno> {
    fs::write(path, value).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn each_injected_refusal_is_recognised_as_itself() {
        let cases = [
            ("userns-apparmor", Refusal::AppArmor),
            ("userns-limit", Refusal::Limit { max: Some(0) }),
            ("userns-sysctl", Refusal::Sysctl),
            ("proc-missing", Refusal::ProcMissing),
        ];
        for (name, expected) in cases {
            let faults = Faults::parse(OsStr::new(&format!("refuse={name}"))).unwrap();
            assert_eq!(enter(&faults), Err(expected), "{name}");
        }
        let faults = Faults::parse(OsStr::new("refuse=userns-seccomp")).unwrap();
        assert!(matches!(enter(&faults), Err(Refusal::Seccomp { .. })));
    }

    #[test]
    fn a_root_that_is_no_mount_point_is_a_chroot() {
        let host =
            "21 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n22 21 0:20 / /proc rw - proc proc rw\n";
        let chroot = "22 21 0:20 / /proc rw - proc proc rw\n";
        assert!(has_root(host) && !has_root(chroot));
    }
}
