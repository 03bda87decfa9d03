//! Where the results go: opened and locked before anything is started, touched only once the run has
//! started (its links and its peer are up and the log has its beginning), and whole or not there at
//! its end.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write, stdout};
use std::path::{Path, PathBuf};

use punctual_measure::Report;
use punctual_measure::report::{queues, text};

use super::inputs::Inputs;
use crate::cli::RunOptions;
use crate::failure::Failure;
use crate::log::{self, LogFile, Pipe};

/// Report and log of a run. In this order: [`Outputs::open`], [`Outputs::begin`],
/// [`Outputs::write`]. Dropped before the run began, it leaves every file as it found it.
#[derive(Debug)]
pub(super) struct Outputs {
    report: Option<ReportTo>,
    /// Written by the log's thread, through [`Outputs::log`].
    log: Option<Output>,
    begun: bool,
}

#[derive(Debug)]
enum ReportTo {
    Stdout,
    File(Output),
}

/// A file, locked so that no other output is written into it: neither one of this run nor one of
/// another.
#[derive(Debug)]
struct Output {
    path: PathBuf,
    file: File,
    /// A file in the usual sense; else a device or a fifo, which is written as it comes.
    regular: bool,
    /// It was not there before.
    made: bool,
}

impl Outputs {
    /// Opens what `options` name, and makes what is missing. Nothing is emptied: a run that is
    /// refused from here on has not been. None of them may be one of `inputs`.
    pub(super) fn open(options: &RunOptions, inputs: &Inputs) -> Result<Self, Failure> {
        let mut outputs = Self { report: None, log: None, begun: false };
        if let Some(path) = &options.log {
            outputs.log = Some(Output::open("--log", path, inputs)?);
        }
        outputs.report = match options.report.as_deref() {
            None => None,
            Some(path) if path == Path::new("-") => Some(ReportTo::Stdout),
            Some(path) => Some(ReportTo::File(Output::open("--report", path, inputs)?)),
        };
        Ok(outputs)
    }

    /// The file of the log, for its writer.
    pub(super) fn log(&self) -> io::Result<Option<LogFile>> {
        let log = self.log.as_ref();
        log.map(|output| output.file.try_clone().and_then(LogFile::new)).transpose()
    }

    /// The run has started, and the log is begun: what an earlier one has left is gone.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.begun = true;
        match &self.report {
            Some(ReportTo::File(output)) => output.empty(),
            Some(ReportTo::Stdout) | None => Ok(()),
        }
    }

    /// Writes the report, and the lines for people unless `quiet`.
    pub(super) fn write(self, report: &Report, quiet: bool) -> Result<(), Failure> {
        // The report first: the summary's reader may be gone or slow.
        let written = self.write_report(report);
        if !quiet {
            crate::tell_lines((text(report) + &queues(report)).trim_end());
        }
        written
    }

    fn write_report(&self, report: &Report) -> Result<(), Failure> {
        let Some(to) = &self.report else { return Ok(()) };
        let mut json = serde_json::to_vec_pretty(report)?;
        json.push(b'\n');
        let (name, written) = match to {
            ReportTo::Stdout => (Path::new("-"), stdout().write_all(&json)),
            ReportTo::File(output) => (&*output.path, output.write(&json)),
        };
        written.map_err(|error| {
            anyhow::anyhow!("--report: cannot write {}: {error}", name.display()).into()
        })
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        if self.begun {
            return;
        }
        let report = match &self.report {
            Some(ReportTo::File(output)) => Some(output),
            Some(ReportTo::Stdout) | None => None,
        };
        for output in report.into_iter().chain(&self.log).filter(|output| output.made) {
            // What cannot be removed is empty. A link that was there stays.
            let _ = fs::canonicalize(&output.path).and_then(fs::remove_file);
        }
    }
}

impl Output {
    fn open(option: &str, path: &Path, inputs: &Inputs) -> Result<Self, Failure> {
        let refused =
            |error| Failure::usage(format!("{option}: cannot create {}: {error}", path.display()));
        let made = !path.exists();
        let file = log::open(path).map_err(refused)?;
        let found = file.metadata().map_err(refused)?;
        if let Some(place) = inputs.place_of(&found) {
            let name = path.display();
            return Err(Failure::usage(format!(
                "{option}: {name} is an input of this run too ({place}) and would be written over; \
                 name another file"
            )));
        }
        let regular = found.is_file();
        let output = Self { path: path.to_owned(), file, regular, made: made && regular };
        if regular && matches!(output.file.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(Failure::usage(format!(
                "{option}: {} is being written: by another run, or --report and --log name the \
                 same file",
                path.display()
            )));
        }
        Ok(output)
    }

    fn empty(&self) -> io::Result<()> {
        if self.regular { self.file.set_len(0) } else { Ok(()) }
    }

    /// All of `bytes` or, where that is a file, none of them.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        if !self.regular {
            return Pipe::write_last(&self.file, bytes);
        }
        let written = match self.write_beside(bytes) {
            // Not ours to write in that directory, but the file is.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                (&self.file).write_all(bytes)
            }
            written => written,
        };
        written.inspect_err(|_| {
            // Half a report is none; what is left of it here is an empty file.
            let _ = self.empty();
            if self.made {
                let _ = fs::remove_file(&self.path);
            }
        })
    }

    /// Writes another file and puts it into the place of this one, with its permissions.
    fn write_beside(&self, bytes: &[u8]) -> io::Result<()> {
        // Where a link leads, so that it stays one.
        let target = fs::canonicalize(&self.path)?;
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{}", std::process::id()));
        let beside = target.with_file_name(name);
        let write = || {
            let mut file = File::create_new(&beside)?;
            file.write_all(bytes)?;
            file.set_permissions(self.file.metadata()?.permissions())?;
            fs::rename(&beside, &target)
        };
        write().inspect_err(|_| {
            // It may never have been made.
            let _ = fs::remove_file(&beside);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("punctual-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn options(&self, report: &str, log: &str) -> RunOptions {
            let at = |name: &str| Some(self.0.join(name));
            RunOptions { report: at(report), log: at(log), ..RunOptions::default() }
        }

        fn read(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.0.join(name)).ok()
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn open(place: &Place, report: &str, log: &str) -> Result<Outputs, Failure> {
        Outputs::open(&place.options(report, log), &Inputs::default())
    }

    #[test]
    fn files_of_a_run_that_does_not_begin_are_as_before() {
        let place = Place::new("untouched");
        fs::write(place.0.join("old"), "kept").unwrap();
        drop(open(&place, "old", "new").unwrap());
        assert_eq!((place.read("old").as_deref(), place.read("new")), (Some("kept"), None));
        std::os::unix::fs::symlink("missing", place.0.join("link")).unwrap();
        drop(open(&place, "old", "link").unwrap());
        assert!(place.0.join("link").is_symlink() && !place.0.join("missing").exists());
        open(&place, "nowhere/report", "old").unwrap_err();
        open(&place, "nowhere/report", "new").unwrap_err();
        assert_eq!((place.read("old").as_deref(), place.read("new")), (Some("kept"), None));
    }

    #[test]
    fn a_run_that_begins_empties_the_report_and_then_fills_it_at_once() {
        let place = Place::new("filled");
        fs::write(place.0.join("real"), "old").unwrap();
        std::os::unix::fs::symlink("real", place.0.join("report")).unwrap();
        let mut outputs = open(&place, "report", "log").unwrap();
        outputs.begin().unwrap();
        assert_eq!(place.read("real").as_deref(), Some(""));
        let Some(ReportTo::File(report)) = &outputs.report else { panic!("{outputs:?}") };
        report.write(b"{}\n").unwrap();
        assert_eq!(place.read("real").as_deref(), Some("{}\n"));
        assert!(place.0.join("report").is_symlink());
        let mut names = place.names();
        names.sort();
        assert_eq!(names, ["log", "real", "report"]);
    }

    #[test]
    fn one_file_is_not_two_outputs() {
        let place = Place::new("twice");
        let refused = open(&place, "same", "same").unwrap_err();
        assert!(refused.to_string().contains("--report: "), "{refused}");
        assert_eq!(place.names(), Vec::<String>::new());
    }
}
