//! Sealed memfds (`memfd_create(2)`, Linux 3.17), and descriptors that pass over unix sockets.

use std::io::{self, BufWriter, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, fcntl_get_seals, fstat, memfd_create,
};
use rustix::io::{Errno, pread};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// What another process wrote into a memfd and nobody can change any more: read once, from its
/// beginning, wherever its sender has moved the offset that both share.
#[derive(Debug)]
pub struct SealedMemfd {
    fd: OwnedFd,
    at: u64,
    length: u64,
}

/// A descriptor that is not what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// Of something else: a file, a pipe, a socket.
    #[error("the descriptor that came with it is no memfd")]
    Other,
    /// It can still change.
    #[error("the memfd is not sealed, expected F_SEAL_WRITE, F_SEAL_GROW and F_SEAL_SHRINK")]
    Unsealed,
    /// It is too long.
    #[error("the memfd holds {length} bytes, expected at most {most}")]
    TooLong {
        /// Bytes that it has.
        length: u64,
        /// Bytes that it may have.
        most: u64,
    },
}

impl SealedMemfd {
    /// Writes one, and seals it.
    pub fn write(
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<OwnedFd> {
        let file = std::fs::File::from(create(name)?);
        let mut out = BufWriter::with_capacity(BUFFER, file);
        write(&mut out)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        fcntl_add_seals(&file, SEALS | SealFlags::SEAL)?;
        Ok(file.into())
    }

    /// Takes one of at most `most` bytes from another process.
    pub fn open(fd: OwnedFd, most: u64) -> Result<Self, Unfit> {
        // Files of any other kind have no seals, or none but the one against more.
        let seals = fcntl_get_seals(&fd).map_err(|_| Unfit::Other)?;
        if !seals.contains(SEALS) {
            return Err(Unfit::Unsealed);
        }
        let length = fstat(&fd).map_err(|_| Unfit::Other)?.st_size;
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        if length > most {
            return Err(Unfit::TooLong { length, most });
        }
        Ok(Self { fd, at: 0, length })
    }
}

impl Read for SealedMemfd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.length - self.at).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len());
        let read = pread(&self.fd, &mut buffer[..wanted], self.at)?;
        self.at += u64::try_from(read).unwrap_or(u64::MAX);
        Ok(read)
    }
}

/// An empty memfd that its owner alone can open, to be sealed.
pub(crate) fn create(name: &str) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Linux 6.3; without it such kernels complain in their log.
    let fd = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(name, flags)?,
        other => other?,
    };
    // Everybody's otherwise, once /proc/PID/fd is passed.
    fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
    Ok(fd)
}

/// Sends bytes over a unix socket and a descriptor with the first of them; how many were sent.
pub fn send(socket: impl AsFd, bytes: &[u8], fd: impl AsFd) -> io::Result<usize> {
    let fds = [fd.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives what is there from a unix socket, 0 bytes at its end, and adds the descriptors that
/// came with it to `fds`. Those came with the last message of which bytes were received. More than
/// [`MOST_FDS`] in one message are closed by the kernel.
pub fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> io::Result<Received> {
    let before = fds.len();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    let cut = received.flags.contains(ReturnFlags::CTRUNC);
    Ok(Received { bytes: received.bytes, starved: cut && fds.len() < before + MOST_FDS })
}

/// What [`receive`] brought besides descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes.
    pub bytes: usize,
    /// Descriptors came that this process had no room for (`RLIMIT_NOFILE`): they are lost.
    pub starved: bool,
}

/// Descriptors that [`receive`] takes from one message: one more than anything needs, so that too
/// many are noticed.
pub const MOST_FDS: usize = 2;
/// Its content and its length are what they are.
const SEALS: SealFlags = SealFlags::WRITE.union(SealFlags::GROW).union(SealFlags::SHRINK);
/// Bytes written at once.
const BUFFER: usize = 1 << 17;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, SeekFrom};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn sealed(text: &str) -> OwnedFd {
        SealedMemfd::write("test", |out| out.write_all(text.as_bytes())).unwrap()
    }

    fn text(fd: OwnedFd) -> String {
        let mut text = String::new();
        SealedMemfd::open(fd, 100).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn what_was_sealed_is_read_from_its_beginning_and_cannot_change() {
        let mut file = File::from(sealed("a text"));
        file.seek(SeekFrom::End(0)).unwrap();
        assert!(file.write_all(b"more").is_err());
        assert!(file.set_len(1).is_err() && file.set_len(100).is_err());
        assert_eq!(text(file.into()), "a text");
        assert_eq!(text(sealed("")), "");
    }

    #[test]
    fn what_is_no_sealed_memfd_or_too_long_is_refused() {
        let told = |fd: OwnedFd| SealedMemfd::open(fd, 5).unwrap_err().to_string();
        let [pipe, _writer] = {
            let (reader, writer) = io::pipe().unwrap();
            [OwnedFd::from(reader), writer.into()]
        };
        let (socket, _other) = UnixStream::pair().unwrap();
        for other in [pipe, socket.into(), File::open("/dev/zero").unwrap().into()] {
            assert_eq!(told(other), "the descriptor that came with it is no memfd");
        }
        let open = create("test").unwrap();
        fcntl_add_seals(&open, SealFlags::GROW | SealFlags::SHRINK).unwrap();
        for other in [open, File::open("/proc/self/exe").unwrap().into()] {
            let told = told(other);
            assert!(told.contains("no memfd") || told.contains("not sealed"), "{told}");
        }
        assert_eq!(told(sealed("a text")), "the memfd holds 6 bytes, expected at most 5");
    }

    #[test]
    fn a_descriptor_that_cannot_be_read_is_an_error_and_no_more() {
        let fd = sealed("a text");
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let blind = rustix::fs::open(path, rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
        // Such a descriptor tells no seals.
        assert!(matches!(SealedMemfd::open(blind, 100), Err(Unfit::Other)));
    }

    #[test]
    fn a_descriptor_passes_with_the_bytes_that_it_was_sent_with() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut buffer, mut fds) = ([0; 64], Vec::new());
        (&ours).write_all(b"before\n").unwrap();
        assert_eq!(send(&ours, b"with it\n", sealed("one")).unwrap(), 8);
        (&ours).write_all(b"behind\n").unwrap();
        let length = receive(&theirs, &mut buffer, &mut fds).unwrap().bytes;
        assert!(buffer[..length].ends_with(b"with it\n"));
        assert_eq!(fds.drain(..).map(text).collect::<Vec<_>>(), ["one"]);
        let length = receive(&theirs, &mut buffer, &mut fds).unwrap().bytes;
        assert_eq!((&buffer[..length], fds.len()), (&b"behind\n"[..], 0));
        drop(ours);
        assert_eq!(receive(&theirs, &mut buffer, &mut fds).unwrap().bytes, 0);
    }
}
