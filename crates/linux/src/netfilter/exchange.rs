//! Questions to the kernel and their answers, over a socket of our own or, in tests, a stand-in
//! for a kernel that we do not have.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{RecvFlags, SendFlags};

use super::attribute::{self, Attributes, Message, Messages, native_u32};
use crate::sys::netlink;

/// Sends messages, collects the answers to them.
pub(crate) trait Exchange {
    /// Everything that the kernel answers to `request`, in its order.
    fn exchange(&mut self, request: &[u8]) -> io::Result<Vec<Answer>>;
}

/// The kernel's answer to one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The message's sequence number.
    pub(crate) sequence: u32,
    /// Error number, 0 for success.
    pub(crate) error: i32,
    /// Where in the message the attribute stands that was refused (`NETLINK_EXT_ACK`, Linux 4.12).
    pub(crate) offset: Option<usize>,
}

/// No netfilter socket could be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot open a netfilter socket: {error}; {}", socket_remedy(error))]
pub struct SocketError {
    /// The kernel's answer.
    #[source]
    pub error: io::Error,
}

/// A netfilter socket for configuration.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl ControlSocket {
    /// In the calling thread's network namespace.
    pub(crate) fn open() -> Result<Self, SocketError> {
        let socket = Self::prepared().map_err(|error| SocketError { error })?;
        Ok(Self { socket, buffer: vec![0; RECEIVE_SIZE] })
    }

    fn prepared() -> io::Result<OwnedFd> {
        let socket = netlink::netfilter_socket()?;
        netlink::enable(socket.as_fd(), libc::NETLINK_EXT_ACK)?;
        netlink::enable(socket.as_fd(), libc::NETLINK_CAP_ACK)?;
        Ok(socket)
    }

    /// Sends a dump request and hands over each message of the dump. Fails with `Interrupted` if
    /// what is dumped changed meanwhile: ask again.
    pub(crate) fn dump(
        &mut self,
        request: &[u8],
        mut each: impl FnMut(&Message<'_>),
    ) -> io::Result<()> {
        send(&self.socket, request)?;
        let mut changed = false;
        while let Some(datagram) = receive(&self.socket, &mut self.buffer)? {
            for message in Messages::new(datagram) {
                let message = message.map_err(|_| malformed())?;
                changed |= message.flags & NLM_F_DUMP_INTR != 0;
                match message.kind {
                    attribute::NLMSG_DONE if changed => return Err(interrupted()),
                    attribute::NLMSG_DONE => return Ok(()),
                    attribute::NLMSG_ERROR => return Err(refusal(&message)),
                    _ => each(&message),
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the kernel's dump has no end"))
    }
}

impl Exchange for ControlSocket {
    /// The kernel acts on a message, and answers it, before `send` returns: what is not there then
    /// will not come.
    fn exchange(&mut self, request: &[u8]) -> io::Result<Vec<Answer>> {
        send(&self.socket, request)?;
        let mut answers = Vec::new();
        while let Some(datagram) = receive(&self.socket, &mut self.buffer)? {
            for message in Messages::new(datagram) {
                let message = message.map_err(|_| malformed())?;
                answers.extend(Answer::parse(&message));
            }
        }
        Ok(answers)
    }
}

impl Answer {
    /// `None` if the message is no answer.
    fn parse(message: &Message<'_>) -> Option<Self> {
        if message.kind != attribute::NLMSG_ERROR {
            return None;
        }
        let error = native_u32(message.body, 0)?.cast_signed().wrapping_neg();
        Some(Self { sequence: message.sequence, error, offset: refused_offset(message) })
    }
}

/// The attributes behind `struct nlmsgerr` and, unless it was cut off, the message refused.
fn refused_offset(message: &Message<'_>) -> Option<usize> {
    if message.flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let quoted = if message.flags & NLM_F_CAPPED == 0 {
        usize::try_from(native_u32(message.body, 4)?).ok()?.max(NLMSGHDR)
    } else {
        NLMSGHDR
    };
    let start = quoted.checked_next_multiple_of(4)?.checked_add(4)?;
    let value = Attributes::new(message.body.get(start..)?).find(NLMSGERR_ATTR_OFFS)?;
    usize::try_from(native_u32(value, 0)?).ok()
}

/// What a refused netfilter socket means.
fn socket_remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT) => {
            "this kernel has no nfnetlink: load it with `modprobe nfnetlink` \
             (CONFIG_NETFILTER_NETLINK)"
        }
        Some(libc::EAFNOSUPPORT | libc::EPERM | libc::EACCES) => {
            "a sandbox forbids netlink: allow AF_NETLINK in its seccomp filter (systemd: \
             RestrictAddressFamilies)"
        }
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit on open files (`ulimit -n`)",
        _ => "netfilter cannot be used here",
    }
}

fn send(socket: &OwnedFd, request: &[u8]) -> io::Result<()> {
    rustix::io::retry_on_intr(|| rustix::net::send(socket, request, SendFlags::empty()))?;
    Ok(())
}

/// `None` if nothing is there.
fn receive<'a>(socket: &OwnedFd, buffer: &'a mut Vec<u8>) -> io::Result<Option<&'a [u8]>> {
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recv(socket, buffer.as_mut_slice(), RecvFlags::empty())
    });
    match received {
        Ok((length, _)) => Ok(Some(&buffer[..length])),
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn refusal(message: &Message<'_>) -> io::Error {
    Answer::parse(message)
        .map_or_else(malformed, |answer| io::Error::from_raw_os_error(answer.error))
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is no netlink message")
}

fn interrupted() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "the rules changed while they were read")
}

/// The kernel fills at most 32 kB of a dump at a time.
const RECEIVE_SIZE: usize = 64 << 10;
const NLMSGHDR: usize = 16;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_OFFS: u16 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(flags: u16, quoted_length: u32, quoted: usize) -> Option<Answer> {
        let mut body = (-libc::ENOENT).to_ne_bytes().to_vec();
        body.extend(quoted_length.to_ne_bytes());
        body.resize(4 + quoted, 0);
        body.extend([8_u16.to_ne_bytes(), NLMSGERR_ATTR_OFFS.to_ne_bytes()].concat());
        body.extend(100_u32.to_ne_bytes());
        Answer::parse(&Message { kind: attribute::NLMSG_ERROR, flags, sequence: 3, body: &body })
    }

    #[test]
    fn an_answer_says_which_attribute_was_refused() {
        let expected = |offset| Some(Answer { sequence: 3, error: libc::ENOENT, offset });
        assert_eq!(answer(NLM_F_ACK_TLVS | NLM_F_CAPPED, 999, 16), expected(Some(100)));
        assert_eq!(answer(NLM_F_ACK_TLVS, 42, 44), expected(Some(100)));
        assert_eq!(answer(NLM_F_CAPPED, 16, 16), expected(None));
        assert_eq!(answer(NLM_F_ACK_TLVS, u32::MAX, 16), expected(None));
    }

    #[test]
    fn a_refused_socket_is_explained() {
        let words =
            |number| SocketError { error: io::Error::from_raw_os_error(number) }.to_string();
        assert!(words(libc::EPROTONOSUPPORT).contains("modprobe nfnetlink"));
        assert!(words(libc::EAFNOSUPPORT).contains("RestrictAddressFamilies"));
        assert!(words(libc::EPERM).contains("seccomp"));
        assert!(words(libc::EMFILE).contains("ulimit -n"));
    }
}
