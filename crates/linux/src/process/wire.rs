//! The messages between the engine and the init of a run: one per datagram of a `SOCK_SEQPACKET`
//! pair, a kind, a subject, a number, and text where there is any.

use rustix::io::Errno;

/// The longest message, bytes; longer notes are cut.
pub(super) const LONGEST: usize = 1024;

/// Whom a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The command, in *inside*.
    Command,
    /// The peer, in *outside*.
    Peer,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this status, 0 to 255.
    Status(i32),
    /// Killed by this signal.
    Signal(i32),
}

/// What the init reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The init is set up and obeys.
    Ready,
    /// It runs.
    Started(Who),
    /// The program could not be executed.
    NotExecuted(Who, Errno),
    /// The namespace or identity for it could not be set up: the step's name, and how it failed.
    NotPrepared(Who, Errno, String),
    /// It ended.
    Ended(Who, Exit),
    /// After a request to stop the command: no process is left in its network namespace.
    CommandGone,
    /// After a request to stop everything: the init is alone.
    AllGone,
    /// Something is less than it should be, but the run goes on: one line for the user.
    Note(String),
    /// The init is gone, and with it everything it had started.
    InitEnded,
}

/// What the engine asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Start(Who),
    Signal(Who, i32),
    /// This signal to every process in the command's network namespace.
    StopCommand(i32),
    /// This signal to every process but the init.
    StopAll(i32),
}

impl Exit {
    /// As a shell reports it: the status, or 128 and the signal's number.
    pub fn code(self) -> i32 {
        match self {
            Self::Status(status) => status,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

impl Event {
    /// The exit status for a program that could not be executed, as shells have it: 127 when it
    /// was not found, 126 otherwise.
    pub fn status_of_failed_execution(errno: Errno) -> i32 {
        if matches!(errno, Errno::NOENT | Errno::NOTDIR) { 127 } else { 126 }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Ready => message(0, Who::Command, 0, ""),
            Self::Started(who) => message(1, *who, 0, ""),
            Self::NotExecuted(who, errno) => message(2, *who, errno.raw_os_error(), ""),
            Self::NotPrepared(who, errno, step) => message(3, *who, errno.raw_os_error(), step),
            Self::Ended(who, Exit::Status(status)) => message(4, *who, *status, ""),
            Self::Ended(who, Exit::Signal(signal)) => message(5, *who, *signal, ""),
            Self::Note(text) => message(6, Who::Command, 0, text),
            Self::CommandGone => message(7, Who::Command, 0, ""),
            Self::AllGone => message(8, Who::Command, 0, ""),
            Self::InitEnded => Vec::new(),
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, who, number, text) = parts(bytes)?;
        let text = || String::from_utf8_lossy(text).into_owned();
        Some(match kind {
            0 => Self::Ready,
            1 => Self::Started(who),
            2 => Self::NotExecuted(who, errno(number)),
            3 => Self::NotPrepared(who, errno(number), text()),
            4 => Self::Ended(who, Exit::Status(number)),
            5 => Self::Ended(who, Exit::Signal(number)),
            6 => Self::Note(text()),
            7 => Self::CommandGone,
            8 => Self::AllGone,
            _ => return None,
        })
    }
}

impl Request {
    pub(super) fn encode(self) -> Vec<u8> {
        match self {
            Self::Start(who) => message(0, who, 0, ""),
            Self::Signal(who, signal) => message(1, who, signal, ""),
            Self::StopCommand(signal) => message(2, Who::Command, signal, ""),
            Self::StopAll(signal) => message(3, Who::Command, signal, ""),
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        match parts(bytes)? {
            (0, who, _, _) => Some(Self::Start(who)),
            (1, who, signal, _) => Some(Self::Signal(who, signal)),
            (2, _, signal, _) => Some(Self::StopCommand(signal)),
            (3, _, signal, _) => Some(Self::StopAll(signal)),
            _ => None,
        }
    }
}

fn message(kind: u8, who: Who, number: i32, text: &str) -> Vec<u8> {
    let mut bytes = vec![kind, u8::from(who == Who::Peer)];
    bytes.extend(number.to_ne_bytes());
    bytes.extend(text.bytes());
    bytes.truncate(LONGEST);
    bytes
}

fn parts(bytes: &[u8]) -> Option<(u8, Who, i32, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<2>()?;
    let (number, text) = rest.split_first_chunk::<4>()?;
    let who = if head[1] == 0 { Who::Command } else { Who::Peer };
    Some((head[0], who, i32::from_ne_bytes(*number), text))
}

fn errno(number: i32) -> Errno {
    Errno::from_raw_os_error(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_and_request_arrives_as_it_was_sent() {
        let events = [
            Event::Ready,
            Event::Started(Who::Peer),
            Event::NotExecuted(Who::Command, Errno::NOENT),
            Event::NotPrepared(Who::Peer, Errno::PERM, "setns".to_owned()),
            Event::Ended(Who::Command, Exit::Status(7)),
            Event::Ended(Who::Peer, Exit::Signal(9)),
            Event::Note("no /sys".to_owned()),
            Event::CommandGone,
            Event::AllGone,
        ];
        for event in events {
            assert_eq!(Event::decode(&event.encode()), Some(event));
        }
        for request in [
            Request::Start(Who::Command),
            Request::Signal(Who::Peer, 15),
            Request::StopCommand(15),
            Request::StopAll(9),
        ] {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
    }

    #[test]
    fn a_note_too_long_is_cut_and_a_truncated_message_refused() {
        let note = Event::Note("x".repeat(5000)).encode();
        assert_eq!(note.len(), LONGEST);
        for length in 0..6 {
            assert_eq!(Event::decode(&note[..length]), None);
        }
    }

    #[test]
    fn exit_codes_are_a_shells() {
        assert_eq!(Exit::Status(3).code(), 3);
        assert_eq!(Exit::Signal(15).code(), 143);
        assert_eq!(Event::status_of_failed_execution(Errno::NOENT), 127);
        assert_eq!(Event::status_of_failed_execution(Errno::ACCESS), 126);
        assert_eq!(Event::status_of_failed_execution(Errno::NOEXEC), 126);
    }
}
