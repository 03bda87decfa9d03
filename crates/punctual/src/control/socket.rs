//! Where the socket of a run is, and the two ends of it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use punctual_linux::clock::monotonic;
use punctual_linux::wait::sleep_until;
use punctual_sched::{Duration, Instant};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Listens in a run's directory. Who may enter the directory, which has mode 0700, may connect:
/// its owner and root.
pub(crate) fn listen(directory: &Path) -> io::Result<UnixListener> {
    let reach = Reach::of(directory)?;
    // Of a run that was killed, where its directory could not be removed.
    match fs::remove_file(&reach.path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&reach.path)?;
    // A umask that lets others in does not matter behind the directory; one that shuts the owner
    // out would.
    fs::set_permissions(directory.join(NAME), Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Connects to the run that listens in `directory`, at the latest by `deadline`: one that is
/// stopped does not take its clients in, and they queue up.
pub(super) fn connect(directory: &Path, deadline: Instant) -> io::Result<UnixStream> {
    let reach = Reach::of(directory)?;
    let address = SocketAddrUnix::new(&reach.path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN) if monotonic() < deadline => sleep_until(monotonic() + POLL),
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// How the socket is named to the kernel, whose addresses end at 107 bytes: by a descriptor of its
/// directory where its path is longer.
struct Reach {
    path: PathBuf,
    /// Open for as long as the path is used.
    _directory: Option<File>,
}

impl Reach {
    fn of(directory: &Path) -> io::Result<Self> {
        let path = directory.join(NAME);
        if path.as_os_str().len() <= LONGEST {
            return Ok(Self { path, _directory: None });
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        // O_PATH needs no permission to read; an access mode has to be named all the same.
        let directory = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(directory)?;
        let path = format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd()).into();
        Ok(Self { path, _directory: Some(directory) })
    }
}

/// The socket's name in the run's directory.
pub(crate) const NAME: &str = "socket";
/// `sun_path` without its last byte, which is zero (`unix(7)`).
const LONGEST: usize = 107;
/// Between two tries to get into a full queue.
const POLL: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn directory(test: &str, length: usize) -> PathBuf {
        let base = std::env::temp_dir().join(format!("punctual-{}-{test}", std::process::id()));
        let long = base.join("x".repeat(length));
        fs::create_dir_all(&long).unwrap();
        long
    }

    #[test]
    fn a_path_longer_than_an_address_is_listened_at_and_connected_to() {
        for length in [1, 80, 107, 108, 250] {
            let directory = directory("long", length);
            let listener = listen(&directory).unwrap();
            let deadline = monotonic() + Duration::from_secs(5);
            let mut client = connect(&directory, deadline).unwrap();
            client.write_all(b"x").unwrap();
            let (mut served, _) = listener.accept().unwrap();
            let mut byte = [0];
            served.read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"x");
            let mode = fs::metadata(directory.join(NAME)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            fs::remove_dir_all(directory.parent().unwrap()).unwrap();
        }
    }

    #[test]
    fn nobody_listening_and_nothing_there_are_told_apart() {
        let directory = directory("gone", 1);
        let deadline = monotonic() + Duration::from_secs(5);
        let missing = connect(&directory, deadline).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        drop(listen(&directory).unwrap());
        let refused = connect(&directory, deadline).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let _again = listen(&directory).unwrap();
        connect(&directory, deadline).unwrap();
        fs::remove_dir_all(directory.parent().unwrap()).unwrap();
    }

    #[test]
    fn a_listener_that_takes_nobody_in_is_waited_for_until_the_deadline() {
        let directory = directory("full", 1);
        let reach = Reach::of(&directory).unwrap();
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(&reach.path).unwrap()).unwrap();
        rustix::net::listen(&socket, 0).unwrap();
        let connect = || connect(&directory, monotonic() + Duration::from_millis(20));
        // One more than the length of the queue gets in (`listen(2)`).
        let _first = connect().unwrap();
        assert_eq!(connect().unwrap_err().kind(), io::ErrorKind::TimedOut);
        fs::remove_dir_all(directory.parent().unwrap()).unwrap();
    }
}
