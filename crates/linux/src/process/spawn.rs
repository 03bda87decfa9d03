//! The command and the peer, each in its network namespace and with the caller's identity.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags};
use rustix::pipe::PipeFlags;
use rustix::process::Pid;
use rustix::thread::CapabilitySet;
use rustix::{fs, mount, thread};

use super::plan::{Identity, Plan};
use crate::namespace::{Network, NetworkError, user};
use crate::sys;

/// Where and as whom a process runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) network: &'a Network,
    pub(super) identity: &'a Identity,
}

/// Why a process does not run.
#[derive(Debug)]
pub(super) enum Failure {
    /// Before the program: the step, and how it failed.
    Prepare(String, Errno),
    /// The program could not be executed.
    Execute(Errno),
}

/// Starts the command with our standard streams. Beside the result: notes for the user.
pub(super) fn command(plan: &Plan, place: &Place<'_>) -> (Result<Pid, Failure>, Vec<String>) {
    let Some((program, arguments)) = plan.command.split_first() else {
        return (Err(Failure::Execute(Errno::NOENT)), Vec::new());
    };
    let mut command = Command::new(program);
    command.args(arguments);
    spawn(command, plan, place, false)
}

/// Starts the peer: `sh -c`, nothing to read, its output to standard error.
pub(super) fn peer(plan: &Plan, place: &Place<'_>) -> (Result<Pid, Failure>, Vec<String>) {
    let Some(line) = &plan.peer else {
        return (Err(Failure::Execute(Errno::NOENT)), Vec::new());
    };
    let output = match rustix::io::fcntl_dupfd_cloexec(io::stderr(), 3) {
        Ok(fd) => Stdio::from(fd),
        Err(errno) => return (Err(Failure::Prepare("duplicate stderr".into(), errno)), Vec::new()),
    };
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line).stdin(Stdio::null()).stdout(output);
    spawn(command, plan, place, true)
}

fn spawn(
    mut command: Command,
    plan: &Plan,
    place: &Place<'_>,
    own_session: bool,
) -> (Result<Pid, Failure>, Vec<String>) {
    command.envs(plan.environment.iter().map(|(name, value)| (name, value)));
    let mut story = Story::default();
    let result = spawn_prepared(command, place, own_session, &mut story);
    let result = result.map_err(|errno| match story.failed.take() {
        Some(step) => Failure::Prepare(step, errno),
        None => Failure::Execute(errno),
    });
    (result, story.notes)
}

fn spawn_prepared(
    mut command: Command,
    place: &Place<'_>,
    own_session: bool,
    story: &mut Story,
) -> Result<Pid, Errno> {
    let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
    let (reader, writer) = rustix::pipe::pipe_with(flags)?;
    let network = Network::from(rustix::io::fcntl_dupfd_cloexec(place.network, 3)?);
    let identity = place.identity.clone();
    let teller = Teller(writer);
    sys::process::prepare(&mut command, move || {
        Ok(prepare(&network, &identity, own_session, &teller)?)
    });
    let child = command.spawn();
    drop(command);
    story.read(&reader);
    let child = child.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok(pid.expect("a child's id is a positive pid"))
}

/// In the child, in this order: each step needs privileges that the later ones give away.
fn prepare(
    network: &Network,
    identity: &Identity,
    own_session: bool,
    teller: &Teller,
) -> Result<(), Errno> {
    teller.step("unblock signals", sys::process::unblock_all())?;
    if own_session {
        teller.step("setsid", rustix::process::setsid())?;
    }
    let entered = network.enter().map_err(|error| match error {
        NetworkError::Enter(errno) => errno,
        _ => Errno::IO,
    });
    teller.step("enter the network namespace", entered)?;
    if let Err(errno) = mount_sys() {
        teller.note(&format!("/sys shows the host's network devices: mounting anew: {errno}"));
    }
    teller.step("drop inheritable capabilities", drop_inheritable())?;
    teller.step("take the caller's identity", assume(identity))
}

/// `sysfs` shows the network devices of the namespace in which it was mounted (`sysfs(5)`). What
/// is mounted at `/sys/fs/cgroup`, where programs read their limits, is carried over.
fn mount_sys() -> Result<(), Errno> {
    sys::namespace::unshare_mounts()?;
    let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount::mount_change("/", propagation)?;
    let clone = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let groups = mount::open_tree(fs::CWD, "/sys/fs/cgroup", clone);
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount::mount("sysfs", "/sys", "sysfs", flags, None)
        // A read-only original, as in containers, permits only a read-only mount.
        .or_else(|_| mount::mount("sysfs", "/sys", "sysfs", flags | MountFlags::RDONLY, None))?;
    if let Ok(groups) = groups {
        let from_itself = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        mount::move_mount(&groups, "", fs::CWD, "/sys/fs/cgroup", from_itself)?;
    }
    Ok(())
}

/// Capabilities that would survive the `execve` of an ordinary program (`capabilities(7)`).
fn drop_inheritable() -> Result<(), Errno> {
    match thread::clear_ambient_capability_set() {
        // Linux before 4.3 has no ambient set.
        Ok(()) | Err(Errno::INVAL) => {}
        Err(errno) => return Err(errno),
    }
    let mut sets = thread::capabilities(None)?;
    sets.inheritable = CapabilitySet::empty();
    thread::set_capabilities(None, sets)
}

fn assume(identity: &Identity) -> Result<(), Errno> {
    match identity {
        Identity::Unchanged => Ok(()),
        Identity::Nested { uid, gid } => {
            let outer = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            sys::namespace::unshare_user()?;
            user::write_maps((*uid, *gid), outer)
        }
        Identity::Account { uid, gid, groups } => {
            let groups: Vec<_> = groups.iter().map(|g| thread::Gid::from_raw(*g)).collect();
            let (uid, gid) = (thread::Uid::from_raw(*uid), thread::Gid::from_raw(*gid));
            thread::set_thread_groups(&groups)?;
            thread::set_thread_res_gid(gid, gid, gid)?;
            thread::set_thread_res_uid(uid, uid, uid)
        }
    }
}

/// The child's way to say which step failed; what `Command` reports is the bare error number.
struct Teller(OwnedFd);

impl Teller {
    fn step<T>(&self, name: &str, result: Result<T, Errno>) -> Result<T, Errno> {
        result.inspect_err(|_| self.write(b'F', name))
    }

    fn note(&self, text: &str) {
        self.write(b'N', text);
    }

    /// Lines are far below the size of a pipe, so nothing is cut.
    fn write(&self, kind: u8, text: &str) {
        let line = [&[kind], text.as_bytes(), b"\n"].concat();
        let _ = rustix::io::write(&self.0, &line);
    }
}

#[derive(Default)]
struct Story {
    failed: Option<String>,
    notes: Vec<String>,
}

impl Story {
    fn read(&mut self, reader: &OwnedFd) {
        let mut bytes = vec![0; 4096];
        let length = rustix::io::read(reader, bytes.as_mut_slice()).unwrap_or(0);
        for line in String::from_utf8_lossy(&bytes[..length]).lines() {
            match line.split_at_checked(1) {
                Some(("F", step)) => self.failed = Some(step.to_owned()),
                Some((_, note)) => self.notes.push(note.to_owned()),
                None => {}
            }
        }
    }
}
