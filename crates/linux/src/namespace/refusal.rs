//! Why the kernel refused a user namespace, told apart from what can be observed, with the remedy.

use std::fmt;
use std::path::Path;

use rustix::io::Errno;

/// What was seen when a user namespace was refused. [`Refusal::from_observed`] judges it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent observations, not a state")]
pub struct Observed {
    /// What failed.
    pub step: Step,
    /// How.
    pub errno: Errno,
    /// `Threads` of `/proc/self/status`.
    pub threads: u32,
    /// `Seccomp` of `/proc/self/status`: 0 none, 1 strict, 2 filter.
    pub seccomp_mode: u32,
    /// Whether `/proc` is mounted.
    pub proc_mounted: bool,
    /// Whether `/proc/self/ns/user` exists, that is `CONFIG_USER_NS` is set.
    pub user_namespaces_built: bool,
    /// `kernel.apparmor_restrict_unprivileged_userns` (Ubuntu 23.10 and later).
    pub apparmor_restrict: Option<u64>,
    /// `kernel.unprivileged_userns_clone` (Debian and Arch kernels).
    pub unprivileged_clone: Option<u64>,
    /// `user.max_user_namespaces`.
    pub max_user_namespaces: Option<u64>,
    /// Whether the root directory is not a mount point, as after a plain `chroot`.
    pub chrooted: bool,
    /// Whether this looks like the inside of a Docker or Podman container.
    pub container: bool,
}

/// A step on the way to a usable user namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `unshare(CLONE_NEWUSER)`.
    Unshare,
    /// Writing `/proc/self/setgroups`, `gid_map` and `uid_map`.
    WriteMap,
    /// Making a network namespace in it, the first use of its privileges.
    UsePrivilege,
}

/// Why there is no user namespace for us. `Display` explains in one line, [`remedy`](Self::remedy)
/// says in one line what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// AppArmor denies privileges in new user namespaces to programs without a profile.
    AppArmor,
    /// A seccomp filter denies the system call.
    Seccomp {
        /// Inside a container, whose runtime has set the filter.
        container: bool,
    },
    /// `user.max_user_namespaces` is 0, or so many exist already, or 32 are nested.
    Limit {
        /// The limit, where it can be read.
        max: Option<u64>,
    },
    /// `user.max_net_namespaces` is 0, or so many exist already.
    NetworkLimit,
    /// `kernel.unprivileged_userns_clone` is 0.
    Sysctl,
    /// `/proc` is not mounted.
    ProcMissing,
    /// `/proc` is mounted read-only, so the identity maps cannot be written.
    ProcReadOnly,
    /// The process runs in a `chroot`, where the kernel permits no user namespace.
    Chroot,
    /// The process has more than one thread.
    MultiThreaded,
    /// The kernel was built without `CONFIG_USER_NS`.
    NotBuilt,
    /// None of the known reasons.
    Unknown {
        /// What failed.
        step: Step,
        /// How.
        errno: Errno,
    },
}

impl Refusal {
    /// Judges what was observed; depends on nothing else.
    ///
    /// Errors of `unshare`: `EINVAL` for a second thread or a kernel without user namespaces,
    /// `ENOSPC` (before Linux 4.9 `EUSERS`) for limits, `EPERM` for chroot, sysctl, seccomp and
    /// security modules alike (unshare(2)); container runtimes' filters also answer `ENOSYS`.
    /// AppArmor lets `unshare` pass and refuses what comes after it, so for the same `EPERM` the
    /// step decides which of the two is named.
    pub fn from_observed(seen: &Observed) -> Self {
        let unknown = Self::Unknown { step: seen.step, errno: seen.errno };
        let denied = matches!(seen.errno, Errno::PERM | Errno::ACCESS | Errno::NOSYS);
        let seccomp = seen.seccomp_mode == 2;
        let apparmor = seen.apparmor_restrict.is_some_and(|v| v != 0);
        match seen.errno {
            _ if !seen.proc_mounted => Self::ProcMissing,
            Errno::ROFS => Self::ProcReadOnly,
            Errno::INVAL if seen.threads > 1 => Self::MultiThreaded,
            Errno::INVAL | Errno::NOSYS if !seen.user_namespaces_built => Self::NotBuilt,
            Errno::NOSPC if seen.step == Step::UsePrivilege => Self::NetworkLimit,
            Errno::NOSPC | Errno::USERS => Self::Limit { max: seen.max_user_namespaces },
            _ if !denied => unknown,
            _ if seen.unprivileged_clone == Some(0) => Self::Sysctl,
            _ if seen.step != Step::Unshare && apparmor => Self::AppArmor,
            _ if seccomp => Self::Seccomp { container: seen.container },
            _ if seen.chrooted => Self::Chroot,
            _ if apparmor => Self::AppArmor,
            _ => unknown,
        }
    }

    /// What to do about it, in one line (an AppArmor profile follows with [`apparmor_profile`]).
    pub fn remedy(&self) -> String {
        match self {
            Self::AppArmor => {
                "install an AppArmor profile that grants `userns`, or, for the whole \
                 machine, `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
                    .to_owned()
            }
            Self::Seccomp { container: true } => {
                "start the container with `--security-opt seccomp=unconfined`, or with \
                 `--cap-add SYS_ADMIN --cap-add NET_ADMIN` and as root"
                    .to_owned()
            }
            Self::Seccomp { container: false } => {
                "allow `unshare` and `clone` with CLONE_NEWUSER in the filter (systemd: \
                 `RestrictNamespaces=no`), or start punctual as root"
                    .to_owned()
            }
            Self::Limit { max: Some(0) } => {
                "`sudo sysctl user.max_user_namespaces=10000`, or start punctual as root".to_owned()
            }
            Self::Limit { .. } => {
                "raise it with `sudo sysctl user.max_user_namespaces=100000`, or \
                 end programs that hold namespaces"
                    .to_owned()
            }
            Self::NetworkLimit => {
                "raise it with `sudo sysctl user.max_net_namespaces=100000`".to_owned()
            }
            Self::Sysctl => "`sudo sysctl kernel.unprivileged_userns_clone=1`, or start punctual \
                 as root"
                .to_owned(),
            Self::ProcMissing => "`mount -t proc proc /proc`".to_owned(),
            Self::ProcReadOnly => "`mount -o remount,rw /proc`, or start the container with \
                 `--security-opt systempaths=unconfined`"
                .to_owned(),
            Self::Chroot => "start punctual outside of the chroot, or as root".to_owned(),
            Self::MultiThreaded => "this is a fault of punctual, please report it".to_owned(),
            Self::NotBuilt => {
                "start punctual as root, or use a kernel built with CONFIG_USER_NS".to_owned()
            }
            Self::Unknown { .. } => "start punctual as root".to_owned(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::AppArmor => {
                "AppArmor denies user namespaces to programs without a profile \
                 (kernel.apparmor_restrict_unprivileged_userns is 1)"
            }
            Self::Seccomp { container: true } => {
                "the container's seccomp filter denies user namespaces"
            }
            Self::Seccomp { container: false } => "a seccomp filter denies user namespaces",
            Self::Limit { max: Some(max) } => {
                return write!(
                    f,
                    "no more user namespaces: user.max_user_namespaces is {max}, nesting ends at 32"
                );
            }
            Self::Limit { max: None } => "no more user namespaces: the kernel's limit is reached",
            Self::NetworkLimit => "no more network namespaces: user.max_net_namespaces is used up",
            Self::Sysctl => {
                "user namespaces are switched off for ordinary users \
                 (kernel.unprivileged_userns_clone is 0)"
            }
            Self::ProcMissing => "/proc is not mounted",
            Self::ProcReadOnly => {
                "/proc is mounted read-only, so a user namespace cannot be set up"
            }
            Self::Chroot => "the kernel permits no user namespace inside a chroot",
            Self::MultiThreaded => "a user namespace was asked for after a second thread started",
            Self::NotBuilt => "this kernel has no user namespaces (CONFIG_USER_NS)",
            Self::Unknown { step, errno } => {
                return write!(f, "the user namespace was refused: {}: {errno}", step.operation());
            }
        };
        f.write_str(text)
    }
}

impl std::error::Error for Refusal {}

impl Step {
    fn operation(self) -> &'static str {
        match self {
            Self::Unshare => "unshare(CLONE_NEWUSER)",
            Self::WriteMap => "writing its identity maps",
            Self::UsePrivilege => "making a network namespace in it",
        }
    }
}

/// A ready AppArmor profile that lets the program at `program` make user namespaces, with the
/// commands that install it as comments. The syntax is that of AppArmor 4 (Ubuntu 23.10 and later).
pub fn apparmor_profile(program: &Path) -> String {
    let program = program.display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "# save as /etc/apparmor.d/punctual, then: sudo apparmor_parser -r /etc/apparmor.d/punctual\n\
         abi <abi/4.0>,\n\
         include <tunables/global>\n\
         \n\
         profile punctual \"{program}\" flags=(unconfined) {{\n\
         \x20 userns,\n\
         \x20 include if exists <local/punctual>\n\
         }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordinary(step: Step, errno: Errno) -> Observed {
        Observed {
            step,
            errno,
            threads: 1,
            seccomp_mode: 0,
            proc_mounted: true,
            user_namespaces_built: true,
            apparmor_restrict: None,
            unprivileged_clone: None,
            max_user_namespaces: Some(96_365),
            chrooted: false,
            container: false,
        }
    }

    fn judge(step: Step, errno: Errno, change: impl FnOnce(&mut Observed)) -> Refusal {
        let mut seen = ordinary(step, errno);
        change(&mut seen);
        Refusal::from_observed(&seen)
    }

    #[test]
    fn apparmor_lets_unshare_pass_and_refuses_what_follows() {
        for step in [Step::WriteMap, Step::UsePrivilege] {
            let refusal = judge(step, Errno::PERM, |seen| seen.apparmor_restrict = Some(1));
            assert_eq!(refusal, Refusal::AppArmor);
        }
        let off = judge(Step::WriteMap, Errno::PERM, |seen| seen.apparmor_restrict = Some(0));
        assert_eq!(off, Refusal::Unknown { step: Step::WriteMap, errno: Errno::PERM });
    }

    #[test]
    fn docker_on_ubuntu_is_seccomp_although_apparmor_restricts_too() {
        let refusal = judge(Step::Unshare, Errno::PERM, |seen| {
            seen.seccomp_mode = 2;
            seen.apparmor_restrict = Some(1);
            seen.container = true;
        });
        assert_eq!(refusal, Refusal::Seccomp { container: true });
        assert!(refusal.remedy().contains("--security-opt seccomp=unconfined"));
    }

    #[test]
    fn a_filter_outside_a_container_names_systemd_not_docker() {
        let refusal = judge(Step::Unshare, Errno::NOSYS, |seen| seen.seccomp_mode = 2);
        assert_eq!(refusal, Refusal::Seccomp { container: false });
        assert!(refusal.remedy().contains("RestrictNamespaces"));
    }

    #[test]
    fn limits_are_told_by_their_own_errors() {
        let zero = judge(Step::Unshare, Errno::NOSPC, |seen| seen.max_user_namespaces = Some(0));
        assert_eq!(zero, Refusal::Limit { max: Some(0) });
        assert!(zero.to_string().contains("max_user_namespaces is 0"));
        let old = judge(Step::Unshare, Errno::USERS, |_| ());
        assert_eq!(old, Refusal::Limit { max: Some(96_365) });
        let network = judge(Step::UsePrivilege, Errno::NOSPC, |_| ());
        assert_eq!(network, Refusal::NetworkLimit);
    }

    #[test]
    fn debians_switch_chroot_threads_and_a_kernel_without_are_told_apart() {
        let sysctl = judge(Step::Unshare, Errno::PERM, |seen| seen.unprivileged_clone = Some(0));
        assert_eq!(sysctl, Refusal::Sysctl);
        let chroot = judge(Step::Unshare, Errno::PERM, |seen| seen.chrooted = true);
        assert_eq!(chroot, Refusal::Chroot);
        let threads = judge(Step::Unshare, Errno::INVAL, |seen| seen.threads = 2);
        assert_eq!(threads, Refusal::MultiThreaded);
        let kernel = judge(Step::Unshare, Errno::INVAL, |seen| seen.user_namespaces_built = false);
        assert_eq!(kernel, Refusal::NotBuilt);
    }

    #[test]
    fn a_missing_or_read_only_proc_is_named_before_anything_else() {
        let missing = judge(Step::WriteMap, Errno::NOENT, |seen| seen.proc_mounted = false);
        assert_eq!(missing, Refusal::ProcMissing);
        let read_only = judge(Step::WriteMap, Errno::ROFS, |seen| seen.seccomp_mode = 2);
        assert_eq!(read_only, Refusal::ProcReadOnly);
    }

    #[test]
    fn explanation_and_remedy_are_one_line_each() {
        let unknown = Refusal::Unknown { step: Step::Unshare, errno: Errno::NOMEM };
        let all = [
            Refusal::AppArmor,
            Refusal::Seccomp { container: true },
            Refusal::Limit { max: None },
            Refusal::NetworkLimit,
            Refusal::Sysctl,
            Refusal::ProcMissing,
            Refusal::ProcReadOnly,
            Refusal::Chroot,
            Refusal::NotBuilt,
            unknown,
        ];
        for refusal in all {
            assert!(
                !refusal.to_string().contains(['\n', '\t']) && !refusal.to_string().contains("  ")
            );
            assert!(!refusal.remedy().contains('\n') && !refusal.remedy().contains("  "));
        }
    }

    #[test]
    fn the_profile_names_the_program_even_with_a_space_in_its_path() {
        let profile = apparmor_profile(Path::new("/home/a b/punctual"));
        assert!(
            profile.contains(
                "profile punctual \"/home/a b/punctual\" flags=(unconfined) {\n  userns,\n"
            )
        );
    }
}
