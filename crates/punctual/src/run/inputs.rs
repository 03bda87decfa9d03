//! The files that a run has read, so that it does not write over one of them.

use std::fs::{self, Metadata};
use std::io::stdin;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::tables;

/// Each file with the place that named it. A file is told by device and inode, whatever it is
/// called: `./c.toml`, a symbolic or a hard link.
#[derive(Clone, Debug, Default)]
pub(super) struct Inputs(Vec<(String, Identity)>);

type Identity = (u64, u64);

impl Inputs {
    /// The file `path` was read for `place`.
    pub(super) fn note(&mut self, place: impl Into<String>, path: impl AsRef<Path>) {
        // What is gone by now nobody can write over.
        if let Ok(found) = fs::metadata(path) {
            self.0.push((place.into(), identity(&found)));
        }
    }

    /// The file of a distribution, where `value` names one.
    pub(super) fn note_table(&mut self, place: &str, name: &str, value: &str) {
        if let Some((file, _)) = tables::file_of(name, value) {
            self.note(format!("{place}: {name}"), file);
        }
    }

    /// Standard input was, or will be by the command.
    pub(super) fn note_stdin(&mut self) {
        // A closed one is none.
        if let Ok(found) = rustix::fs::fstat(stdin()) {
            self.0.push(("stdin".to_owned(), (found.st_dev, found.st_ino)));
        }
    }

    /// The first place that read `output`. A terminal, a fifo or `/dev/null` loses nothing by being
    /// written.
    pub(super) fn place_of(&self, output: &Metadata) -> Option<&str> {
        let kind = output.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return None;
        }
        let wanted = identity(output);
        self.0.iter().find(|(_, found)| *found == wanted).map(|(place, _)| place.as_str())
    }
}

fn identity(of: &Metadata) -> Identity {
    (of.dev(), of.ino())
}
