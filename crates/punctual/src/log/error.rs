//! What keeps a file from being read as a log.

use std::io;
use std::path::{Path, PathBuf};

use super::codec::DecodeError;
use super::frame::VERSION;
use crate::output::shown;

/// Why a file cannot be read as a log.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be opened.
    #[error("cannot open {}: {error}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It cannot be read.
    #[error("cannot read the log after {offset} bytes: {error}")]
    Read {
        /// How far it was read.
        offset: u64,
        /// What the system said.
        error: io::Error,
    },
    /// It is something else.
    #[error("not a log of punctual: it does not begin with PUNCTLOG")]
    NotALog,
    /// It ends before the run's configuration is told.
    #[error(
        "the log is cut off after {length} bytes, within its header: the run was killed as it \
         began, or had only begun when this was read or copied, or the disk was full"
    )]
    CutOff {
        /// Bytes of the file.
        length: u64,
    },
    /// Nothing is in it yet that a run will write.
    #[error(
        "nothing is in the log yet: its run is starting, or waits for its peer; read it again when \
         the run has ended"
    )]
    NotBegun,
    /// It is of another version.
    #[error("a log of version {0}; this program reads version {VERSION}")]
    Version(u32),
    /// The header or trailer is not as documented.
    #[error("the log's {place} is not as expected: {problem}")]
    Json {
        /// `header` or `trailer`.
        place: &'static str,
        /// What the parser said.
        problem: String,
    },
    /// Bytes were altered or lost.
    #[error("the log is damaged: the frame at byte {offset} {problem}")]
    Damaged {
        /// Where the frame begins.
        offset: u64,
        /// What is wrong.
        problem: Damage,
    },
}

impl ReadError {
    /// With the name of the log, as it was given.
    pub(crate) fn told(&self, log: &Path) -> String {
        match self {
            // Has it already.
            Self::Open { .. } => self.to_string(),
            _ => format!("{}: {self}", shown(log)),
        }
    }
}

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Its head is none.
    #[error("has no valid head")]
    Head,
    /// Its checksum differs.
    #[error("does not have the checksum it names (CRC-32)")]
    Checksum,
    /// It has no place there.
    #[error("does not belong there")]
    Place,
    /// A record in it is none.
    #[error("holds no valid record: {0}")]
    Record(DecodeError),
    /// Its bytes and its count of records disagree.
    #[error("has more bytes than its records")]
    Surplus,
    /// The trailer says what cannot be of one run.
    #[error("contradicts itself")]
    Contradiction,
    /// The trailer counts other records than there are.
    #[error("names another number of records than the log holds")]
    Count,
}
