//! Where the directories of runs can stand.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::Access;
use rustix::process::geteuid;

/// Where the runs of this process's effective user are; to be asked before the process enters a
/// user namespace of its own.
///
/// The first place that can be used. Root of a user namespace (`unshare -Ur`) has no `/run`, and
/// stands in `/tmp` under the uid that it has outside. A run inside a run stands beside that one,
/// whatever the command's environment still says.
pub fn base_directory() -> PathBuf {
    let places = all_places();
    let [others @ .., last] = places.as_slice() else { unreachable!("there is always /tmp") };
    others.iter().find(|place| is_usable(place)).unwrap_or(last).clone()
}

/// Where runs of this process's effective user can be, whatever the environment of their start was;
/// only what is there and theirs alone. In the order in which a name is looked for.
///
/// Behind a link the user has a user namespace of its own, in which [`base_directory`] of the outside
/// may have another name; the owner of a directory is shown as what it is.
pub fn bases() -> Vec<PathBuf> {
    let uid = geteuid().as_raw();
    let mut bases = all_places();
    bases.push(format!("/run/user/{uid}/punctual").into());
    bases.push(format!("/tmp/punctual-{uid}").into());
    let mut seen = std::collections::BTreeSet::new();
    bases.retain(|base| seen.insert(base.clone()) && is_ours(base));
    bases
}

/// The places of this process.
fn all_places() -> Vec<PathBuf> {
    let uid = geteuid().as_raw();
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let around = variable("PUNCTUAL_SOCKET").as_deref().and_then(base_of_socket);
    places(uid, unique_uid(&map, uid), variable("XDG_RUNTIME_DIR").as_deref(), around)
}

/// In the order of preference. `around` is the base of the run inside which this is.
fn places(
    uid: u32,
    unique_uid: u32,
    runtime: Option<&Path>,
    around: Option<PathBuf>,
) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if uid == 0 {
        places.push("/run/punctual".into());
    }
    if let Some(runtime) = runtime
        && runtime.is_absolute()
        && runtime.is_dir()
    {
        places.push(runtime.join("punctual"));
    }
    places.extend(around);
    places.push(format!("/tmp/punctual-{unique_uid}").into());
    places
}

/// Where the run of this socket is: `BASE/NAME/socket`.
pub(super) fn base_of_socket(socket: &Path) -> Option<PathBuf> {
    let base = socket.parent()?.parent()?;
    (socket.is_absolute() && is_ours(base)).then(|| base.to_owned())
}

fn is_usable(base: &Path) -> bool {
    prepare_base(base).is_ok() && is_ours(base)
}

/// Whether it is there, and for the caller alone to use. The owner does not say it all: in a user
/// namespace everybody who is unknown there looks like `nobody`, who may be the caller.
pub(super) fn is_ours(base: &Path) -> bool {
    let access = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    check_base(base).is_ok() && rustix::fs::access(base, access).is_ok()
}

/// The uid that a name in `/tmp` is made of. Root is somebody in every user namespace; who it is, the
/// map tells. Any other uid is kept: inside a run, the command has the one of its user, while its
/// parent namespace is the run's own, where all users are 0.
fn unique_uid(map: &str, uid: u32) -> u32 {
    if uid == 0 { outer_uid(map, uid) } else { uid }
}

/// What `uid` is outside of the user namespace whose map this is: lines of first uid inside, first
/// uid outside, count (`user_namespaces(7)`).
fn outer_uid(map: &str, uid: u32) -> u32 {
    let outer = |line: &str| {
        let numbers: Vec<u32> = line.split_whitespace().flat_map(str::parse).collect();
        let [inside, outside, count] = numbers[..] else { return None };
        let offset = uid.checked_sub(inside).filter(|offset| *offset < count)?;
        outside.checked_add(offset)
    };
    map.lines().find_map(outer).unwrap_or(uid)
}

/// The base belongs to the caller alone: in `/tmp` anybody could have made it first.
pub(super) fn prepare_base(base: &Path) -> Result<()> {
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(base)
        .with_context(|| format!("cannot create {}", base.display()))?;
    check_base(base)
}

fn check_base(base: &Path) -> Result<()> {
    let metadata = fs::symlink_metadata(base)?;
    let me = geteuid().as_raw();
    if !metadata.is_dir() || metadata.uid() != me || metadata.mode() & 0o077 != 0 {
        bail!(
            "{} is not a directory of yours with mode 0700: remove it, or set XDG_RUNTIME_DIR",
            base.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_a_place_of_its_own() {
        let temporary = std::env::temp_dir();
        let [runtime, theirs] = [temporary.join("punctual"), "/tmp/punctual-1000".into()];
        let around = || Some(PathBuf::from("/outer"));
        assert_eq!(places(1000, 1000, Some(&temporary), None), [runtime.clone(), theirs.clone()]);
        assert_eq!(
            places(1000, 1000, Some(Path::new("relative")), around()),
            places(1000, 1000, None, around())
        );
        assert_eq!(
            places(0, 1000, Some(&temporary), around()),
            ["/run/punctual".into(), runtime, "/outer".into(), theirs]
        );
        let map = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!(
            [0, 1, 65_536, 65_537].map(|uid| outer_uid(map, uid)),
            [1000, 100_000, 165_535, 65_537]
        );
        assert_eq!(outer_uid("0 0 4294967295\n", 1000), 1000);
        // Inside a run, and root of a namespace of its own in there.
        assert_eq!(unique_uid("1000 0 1\n", 1000), 1000);
        assert_eq!(unique_uid("0 1000 1\n", 0), 1000);
    }
}
