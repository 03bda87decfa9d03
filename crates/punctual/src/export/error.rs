//! Why an export ended without its file.

use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::log::{Direction, ReadError};
use crate::output::{shown, unwritten};

/// An export that did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The log cannot be read, or is damaged.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// Its checksums are right and its records cannot be those of a run.
    #[error("the log contradicts itself: direction {}: {problem}", direction.name())]
    Contradiction {
        /// Where.
        direction: Direction,
        /// What.
        problem: String,
    },
    /// The log has nothing of what was asked for.
    #[error("{0}")]
    Refused(String),
    /// What was found when the log was first read is not there any more.
    #[error("the log changed while it was read; export it when the run has ended")]
    Changed,
    /// The output cannot be written.
    #[error("{}", unwritten(.0))]
    Write(#[from] io::Error),
    /// The file of the changes cannot be.
    #[error("{}", unwritten(.0))]
    WriteChanges(io::Error),
    /// The same, of an output that has a name.
    #[error("cannot write {}: {}", path.display(), unwritten(error))]
    WriteTo {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A signal asked for the end.
    #[error("stopped by signal {0}")]
    Interrupted(i32),
}

impl ExportError {
    /// The same with the name of the file whose writing failed: of the packets, or of the changes.
    pub(super) fn at(self, packets: &Path, changes: Option<&Path>) -> Self {
        let (path, error) = match (self, changes) {
            (Self::Write(error), _) => (packets, error),
            (Self::WriteChanges(error), Some(changes)) => (changes, error),
            (other, _) => return other,
        };
        Self::WriteTo { path: path.to_owned(), error }
    }

    /// The failure of a command that was given `log`: a log that cannot be used is bad usage, as
    /// for `punctual verify`.
    pub(super) fn of(self, log: &Path) -> Failure {
        match self {
            Self::Interrupted(signal) => Failure::Interrupted(signal),
            Self::Write(_) | Self::WriteChanges(_) | Self::WriteTo { .. } => {
                Failure::Own(anyhow::anyhow!("{self}"))
            }
            Self::Read(error) => Failure::usage(error.told(log)),
            _ => Failure::usage(format!("{}: {self}", shown(log))),
        }
    }
}
