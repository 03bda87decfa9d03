//! The runs of other users, which only root can reach. They are not among root's own, and go by their
//! users' names for them; root is told that they are there.

use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use punctual_linux::clock::monotonic;
use rustix::process::geteuid;

use super::socket;
use crate::runtime;

/// A run of another user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OtherRun {
    /// Its name.
    pub(crate) name: String,
    /// Whose it is.
    uid: u32,
}

/// Those that are where runs of users are without a setting of their own, by name; none for others
/// than root, to whom their directories are closed.
pub(crate) fn all() -> Vec<OtherRun> {
    if geteuid().is_root() { under(Path::new("/run/user"), Path::new("/tmp")) } else { Vec::new() }
}

/// How root reaches them: `lab of user 1000 (by sudo -u '#1000' punctual ...)`. Empty where there are
/// none.
pub(crate) fn told(runs: &[OtherRun]) -> String {
    let one = |run: &OtherRun| {
        let OtherRun { name, uid } = run;
        format!("{name} of user {uid} (sudo -u '#{uid}' punctual ...)")
    };
    let shown: Vec<_> = runs.iter().take(MOST_TOLD).map(one).collect();
    let more = if runs.len() > MOST_TOLD { ", ..." } else { "" };
    shown.join(", ") + more
}

/// `users` holds a directory for each user with a `punctual` in it, `temporary` a `punctual-UID` each.
fn under(users: &Path, temporary: &Path) -> Vec<OtherRun> {
    let users = entries(users).map(|entry| entry.path().join("punctual"));
    let temporary = entries(temporary).filter(|entry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with("punctual-"))
    });
    let bases = users.chain(temporary.map(|entry| entry.path()));
    let mut runs: Vec<_> = bases.flat_map(|base| in_base(&base)).collect();
    runs.sort();
    // The same directory may be in two places.
    runs.dedup();
    runs
}

fn in_base(base: &Path) -> Vec<OtherRun> {
    let Some(uid) = owner(base).filter(|uid| *uid != geteuid().as_raw()) else { return Vec::new() };
    let run = |entry: DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let known = runtime::check_name(&name).is_ok() && owner(&entry.path()) == Some(uid);
        (known && listens(&entry.path())).then_some(OtherRun { name, uid })
    };
    entries(base).filter_map(run).collect()
}

/// Whose directory it is; none where it is something else, a link included, or open to others.
fn owner(path: &Path) -> Option<u32> {
    let found = fs::symlink_metadata(path).ok()?;
    let open = found.mode() & 0o077 != 0;
    (found.is_dir() && !open).then(|| found.uid())
}

/// Its locks are its user's business: whoever listens, lives.
fn listens(directory: &Path) -> bool {
    match socket::connect(directory, monotonic()) {
        Ok(_) => true,
        // A full queue of clients.
        Err(error) => error.kind() == io::ErrorKind::TimedOut,
    }
}

/// As many as there can be runs: anybody may fill a directory of theirs.
fn entries(directory: &Path) -> impl Iterator<Item = DirEntry> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().take(MOST_ENTRIES)
}

const MOST_ENTRIES: usize = 10_000;
const MOST_TOLD: usize = 8;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{DirBuilderExt, chown};
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn runs_of_others_are_told_with_their_users() {
        let run = |name: &str, uid| OtherRun { name: name.to_owned(), uid };
        assert_eq!(told(&[]), "");
        assert_eq!(
            told(&[run("lab", 1000), run("x", 1001)]),
            "lab of user 1000 (sudo -u '#1000' punctual ...), x of user 1001 (sudo -u '#1001' \
             punctual ...)"
        );
        let many: Vec<_> = (0..100).map(|uid| run("lab", uid)).collect();
        assert!(told(&many).ends_with("punctual ...), ...") && told(&many).len() < 400);
    }

    #[test]
    fn only_what_listens_in_a_directory_of_another_user_alone_is_a_run_of_theirs() {
        if !geteuid().is_root() {
            // Only root can make directories of others.
            return;
        }
        let top = std::env::temp_dir().join(format!("punctual-others-{}", std::process::id()));
        let (users, temporary) = (top.join("user"), top.join("tmp"));
        let made = |base: PathBuf, uid, mode, name: &str| {
            fs::create_dir_all(base.parent().unwrap()).unwrap();
            let make = |path: &Path| {
                fs::DirBuilder::new().mode(mode).recursive(true).create(path).unwrap();
                chown(path, Some(uid), Some(uid)).unwrap();
            };
            make(&base);
            make(&base.join(name));
            UnixListener::bind(base.join(name).join("socket")).unwrap()
        };
        let _live = [
            made(users.join("1000/punctual"), 1000, 0o700, "lab"),
            made(temporary.join("punctual-1001"), 1001, 0o700, "lab"),
            made(temporary.join("punctual-1002"), 1002, 0o755, "open"),
            made(temporary.join("punctual-0"), 0, 0o700, "own"),
            made(temporary.join("other-1003"), 1003, 0o700, "other"),
            made(temporary.join("punctual-1001"), 1001, 0o700, ".files-1"),
        ];
        drop(made(temporary.join("punctual-1001"), 1001, 0o700, "dead"));
        std::os::unix::fs::symlink("lab", temporary.join("punctual-1001/linked")).unwrap();
        let run = |uid| OtherRun { name: "lab".to_owned(), uid };
        assert_eq!(under(&users, &temporary), [run(1000), run(1001)]);
        fs::remove_dir_all(&top).unwrap();
    }
}
