//! What the init of a run is to start, and as whom.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::MemfdFlags;

use crate::namespace::Entered;

/// The command, its peer, and what both get beside the caller's own environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The command and its arguments; the first is looked up in `PATH`.
    pub command: Vec<OsString>,
    /// The peer, a line for `sh -c`.
    pub peer: Option<OsString>,
    /// Variables set beside those inherited.
    pub environment: Vec<(OsString, OsString)>,
    /// As whom both run.
    pub identity: Identity,
}

/// As whom the command and the peer run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// As the process is: root who did not come by `sudo`.
    Unchanged,
    /// As the caller of `sudo`.
    Account {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
        /// All groups.
        groups: Vec<u32>,
    },
    /// In a nested user namespace in which the caller's ids are again what they are outside, so
    /// that nothing believes it is root.
    Nested {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
    },
}

impl Identity {
    /// The identity that gives the caller back who he was before `entered`.
    pub fn of(entered: &Entered) -> Self {
        let caller = &entered.caller;
        if entered.in_user_namespace {
            Self::Nested { uid: caller.uid, gid: caller.gid }
        } else if caller.uid == 0 {
            Self::Unchanged
        } else {
            Self::Account { uid: caller.uid, gid: caller.gid, groups: caller.groups.clone() }
        }
    }
}

impl Plan {
    /// Writes the plan to a memory file that the init inherits. Arguments and variables may hold
    /// any bytes, so each is preceded by its length.
    pub(super) fn write(&self) -> io::Result<OwnedFd> {
        let fd = rustix::fs::memfd_create("punctual-plan", MemfdFlags::CLOEXEC)?;
        let mut file = File::from(fd);
        file.write_all(&self.encode())?;
        file.rewind()?;
        Ok(file.into())
    }

    pub(super) fn read(fd: OwnedFd) -> io::Result<Self> {
        let mut bytes = Vec::new();
        File::from(fd).read_to_end(&mut bytes)?;
        Self::decode(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, self.command.len());
        self.command.iter().for_each(|word| put_text(&mut out, word));
        put_number(&mut out, usize::from(self.peer.is_some()));
        self.peer.iter().for_each(|line| put_text(&mut out, line));
        put_number(&mut out, self.environment.len());
        for (name, value) in &self.environment {
            put_text(&mut out, name);
            put_text(&mut out, value);
        }
        let (kind, uid, gid, groups): (u32, _, _, &[u32]) = match &self.identity {
            Identity::Unchanged => (0, 0, 0, &[]),
            Identity::Account { uid, gid, groups } => (1, *uid, *gid, groups),
            Identity::Nested { uid, gid } => (2, *uid, *gid, &[]),
        };
        out.extend([kind, uid, gid].map(u32::to_ne_bytes).as_flattened());
        put_number(&mut out, groups.len());
        for group in groups {
            out.extend(group.to_ne_bytes());
        }
        out
    }

    fn decode(mut bytes: &[u8]) -> Option<Self> {
        let input = &mut bytes;
        let command = (0..number(input)?).map(|_| text(input)).collect::<Option<_>>()?;
        let peer = if number(input)? == 0 { None } else { Some(text(input)?) };
        let pair = |input: &mut &[u8]| Some((text(input)?, text(input)?));
        let environment = (0..number(input)?).map(|_| pair(input)).collect::<Option<_>>()?;
        let (kind, uid, gid) = (number(input)?, number(input)?, number(input)?);
        let groups = (0..number(input)?).map(|_| number(input)).collect::<Option<_>>()?;
        let identity = match kind {
            0 => Identity::Unchanged,
            1 => Identity::Account { uid, gid, groups },
            2 => Identity::Nested { uid, gid },
            _ => return None,
        };
        Some(Self { command, peer, environment, identity })
    }
}

fn put_number(out: &mut Vec<u8>, number: usize) {
    let number = u32::try_from(number).expect("the kernel's limit for arguments is far below 2^32");
    out.extend(number.to_ne_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &OsStr) {
    put_number(out, text.len());
    out.extend(text.as_bytes());
}

fn number(input: &mut &[u8]) -> Option<u32> {
    let (number, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(u32::from_ne_bytes(*number))
}

fn text(input: &mut &[u8]) -> Option<OsString> {
    let length = usize::try_from(number(input)?).ok()?;
    let (text, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(OsString::from_vec(text.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Caller;

    fn plan() -> Plan {
        Plan {
            command: vec!["a b".into(), OsString::from_vec(vec![0xff, b'\n', 0xfe]), "".into()],
            peer: Some("iperf3 -s".into()),
            environment: vec![("PUNCTUAL_PEER".into(), OsString::from_vec(vec![0x80]))],
            identity: Identity::Account { uid: 1000, gid: 100, groups: vec![100, 27] },
        }
    }

    #[test]
    fn a_plan_with_any_bytes_is_read_as_it_was_written() {
        assert_eq!(Plan::read(plan().write().unwrap()).unwrap(), plan());
        for identity in [Identity::Unchanged, Identity::Nested { uid: 5, gid: 6 }] {
            let other = Plan { peer: None, identity, ..plan() };
            assert_eq!(Plan::decode(&other.encode()), Some(other));
        }
    }

    #[test]
    fn a_truncated_plan_is_refused() {
        let whole = plan().encode();
        assert!((0..whole.len()).all(|length| Plan::decode(&whole[..length]).is_none()));
    }

    #[test]
    fn only_root_without_sudo_stays_as_it_is() {
        let of = |uid, in_user_namespace| {
            let caller = Caller { uid, gid: 7, groups: vec![7], name: None };
            Identity::of(&Entered { caller, in_user_namespace })
        };
        assert_eq!(of(0, false), Identity::Unchanged);
        assert_eq!(of(5, false), Identity::Account { uid: 5, gid: 7, groups: vec![7] });
        assert_eq!(of(5, true), Identity::Nested { uid: 5, gid: 7 });
        assert_eq!(of(0, true), Identity::Nested { uid: 0, gid: 7 });
    }
}
