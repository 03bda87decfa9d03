//! Where the results go: opened and locked before anything is started, touched only once the run has
//! started (its links and its peer are up and the log has its beginning), and whole or not there at
//! its end.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use punctual_linux::clock::monotonic;
use punctual_linux::wait::sleep_until;
use punctual_measure::Report;
use punctual_measure::report::{queues, text};
use punctual_measure::verdict::Note;
use punctual_sched::Duration;
use rustix::fs::fstat;
use rustix::io::Errno;

use super::inputs::Inputs;
use crate::cli::RunOptions;
use crate::failure::Failure;
use crate::log::{self, LogFile, Pipe};
use crate::output;

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
    /// Where it is: links in `path` are followed, and made absolute.
    target: PathBuf,
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

    /// Writes the report, and the lines for people; where `quiet` that the log is not whole alone.
    pub(super) fn write(self, report: &Report, quiet: bool) -> Result<(), Failure> {
        // The report first: the summary's reader may be gone or slow.
        let written = self.write_report(report);
        if !quiet {
            crate::tell_lines((text(report) + &queues(report)).trim_end());
        } else if let Some(note) =
            report.verdict.notes.iter().find(|n| n.word == Note::LogIncomplete)
        {
            crate::warn(format_args!("--log: {}", note.text));
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
            let why = output::unwritten(&error);
            anyhow::anyhow!("--report: cannot write {}: {why}", name.display()).into()
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
        report.into_iter().chain(&self.log).for_each(Output::remove);
    }
}

impl Output {
    fn open(option: &str, path: &Path, inputs: &Inputs) -> Result<Self, Failure> {
        let deadline = monotonic() + PATIENCE;
        loop {
            let output = Self::unlocked(option, path, inputs)?;
            if !output.regular || output.lock(option)? || monotonic() >= deadline {
                return Ok(output);
            }
        }
    }

    fn unlocked(option: &str, path: &Path, inputs: &Inputs) -> Result<Self, Failure> {
        let refused = |error: io::Error| {
            let why = match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NXIO) => "nobody reads the fifo".to_owned(),
                _ => output::unwritten(&error),
            };
            Failure::usage(format!("{option}: cannot open {}: {why}", path.display()))
        };
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
        if regular && let Some(stream) = stream_into(&file) {
            return Err(Failure::usage(format!(
                "{option}: {} is {stream} of this run too: name another file, or - for a report on \
                 standard output",
                path.display()
            )));
        }
        let path = path.to_owned();
        let mut output = Self { target: path.clone(), path, file, regular, made: made && regular };
        output.target = output.place();
        Ok(output)
    }

    /// `false`: it was replaced or removed before it was locked, and what is written to it nobody
    /// would read.
    fn lock(&self, option: &str) -> Result<bool, Failure> {
        let deadline = monotonic() + PATIENCE;
        while matches!(self.file.try_lock(), Err(TryLockError::WouldBlock)) {
            if monotonic() >= deadline {
                return Err(Failure::usage(format!(
                    "{option}: {} is being written: by another run, or --report and --log name the \
                     same file",
                    self.path.display()
                )));
            }
            sleep_until(monotonic() + POLL);
        }
        Ok(self.is_at(&self.target))
    }

    /// Whether this file is there, and not another that has taken its place.
    fn is_at(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|found| output::is_same(&found, &self.file))
    }

    /// Where the file is or, where it is nowhere, was: its directory may have another name by now, and
    /// a link lead elsewhere.
    fn place(&self) -> PathBuf {
        let found = fs::canonicalize(&self.path).ok().filter(|found| self.is_at(found));
        found.unwrap_or_else(|| self.target.clone())
    }

    fn empty(&self) -> io::Result<()> {
        if self.regular { self.file.set_len(0) } else { Ok(()) }
    }

    /// What was not there before is not there afterwards; a link that was there stays.
    fn remove(&self) {
        let place = self.place();
        if self.made && self.is_at(&place) {
            // What cannot be removed is empty.
            let _ = fs::remove_file(place);
        }
    }

    /// All of `bytes` or, where that is a file, none of them.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        if !self.regular {
            return Pipe::write_last(&self.file, bytes);
        }
        let place = self.place();
        let written = match self.write_beside(bytes, &place) {
            Ok(None) => Ok(()),
            Ok(Some(kept)) => Err(io::Error::other(format!(
                "another file has taken its place, which is left alone; the report is in {}",
                kept.display()
            ))),
            // No other in that directory, or none over this one, which may be a mount of its own.
            Err(_) if self.is_at(&place) => (&self.file).write_all(bytes),
            Err(error) => {
                let gone = fs::symlink_metadata(&place).is_err();
                let by = if gone { "it was removed" } else { "another file has taken its place" };
                let why = output::unwritten(&error);
                Err(io::Error::other(format!("{by}, and no file can be made beside it: {why}")))
            }
        };
        written.inspect_err(|_| {
            // Half a report is none; what is left of it here is an empty file.
            let _ = self.empty();
            self.remove();
        })
    }

    /// Writes another file and puts it into the place of this one, with its permissions, or where
    /// [`Output::put`] has kept it.
    fn write_beside(&self, bytes: &[u8], place: &Path) -> io::Result<Option<PathBuf>> {
        let (mut file, beside) = output::create_beside(place)?;
        let mut write = || {
            file.write_all(bytes)?;
            let old = self.file.metadata()?;
            // Only root can give a file to another; else it is the caller's.
            let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
            file.set_permissions(old.permissions())?;
            self.put(&beside, place)
        };
        write().inspect_err(|_| {
            let _ = fs::remove_file(&beside);
        })
    }

    /// Where somebody has removed the file, it is made again. Where another has taken its place that
    /// one stays, which may be of another run: the lock of this one does not keep anybody from it.
    /// Then it is kept under another name, which is returned.
    fn put(&self, beside: &Path, place: &Path) -> io::Result<Option<PathBuf>> {
        if self.is_at(place) {
            return fs::rename(beside, place).map(|()| None);
        }
        match output::rename_to_free(beside, place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let kept = output::first_free(place, |name| output::rename_to_free(beside, name));
                kept.map(|((), name)| Some(name))
            }
            renamed => renamed.map(|()| None),
        }
    }
}

/// Which of the streams that the command writes to as well leads into a file.
fn stream_into(file: &File) -> Option<&'static str> {
    let leads = |stream: BorrowedFd<'_>| {
        let (Ok(stream), Ok(file)) = (fstat(stream), fstat(file)) else { return false };
        (stream.st_dev, stream.st_ino) == (file.st_dev, file.st_ino)
    };
    let (out, err) = (stdout(), io::stderr());
    [(out.as_fd(), "standard output"), (err.as_fd(), "standard error")]
        .into_iter()
        .find_map(|(stream, name)| leads(stream).then_some(name))
}

/// For the lock of a file: others hold it for the moment of a look, or of putting a file in its place.
const PATIENCE: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(2);

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
        report(&outputs).write(b"{}\n").unwrap();
        assert_eq!(place.read("real").as_deref(), Some("{}\n"));
        assert!(place.0.join("report").is_symlink());
        let mut names = place.names();
        names.sort();
        assert_eq!(names, ["log", "real", "report"]);
    }

    fn report(outputs: &Outputs) -> &Output {
        let Some(ReportTo::File(report)) = &outputs.report else { panic!("{outputs:?}") };
        report
    }

    #[test]
    fn a_file_that_another_run_has_made_meanwhile_is_left_to_it() {
        for old in [None, Some("old")] {
            let place = Place::new("another");
            if let Some(old) = old {
                fs::write(place.0.join("same"), old).unwrap();
            }
            let mut first = open(&place, "same", "log").unwrap();
            first.begin().unwrap();
            fs::remove_file(place.0.join("same")).unwrap();
            let mut second = open(&place, "report", "same").unwrap();
            second.begin().unwrap();
            fs::write(place.0.join("same"), "the second's").unwrap();
            let said = report(&first).write(b"{}\n").unwrap_err().to_string();
            let kept = format!("same.{}", std::process::id());
            let expected =
                format!("left alone; the report is in {}", place.0.join(&kept).display());
            assert!(said.ends_with(&expected), "{said}");
            drop((first, second));
            assert_eq!(place.read("same").as_deref(), Some("the second's"));
            assert_eq!(place.read(&kept).as_deref(), Some("{}\n"));
            let mut names = place.names();
            names.sort();
            assert_eq!(names, ["log", "report", "same", &*kept]);
        }
    }

    /// As of a process of the same number, in another container.
    #[test]
    fn what_stands_under_the_names_of_this_process_stays() {
        let place = Place::new("leftover");
        let number = std::process::id();
        let hidden = format!(".report.{number}");
        fs::write(place.0.join(&hidden), "precious").unwrap();
        std::os::unix::fs::symlink("nowhere", place.0.join(format!("{hidden}-2"))).unwrap();
        let mut outputs = open(&place, "report", "log").unwrap();
        outputs.begin().unwrap();
        report(&outputs).write(b"{}\n").unwrap();
        assert_eq!(place.read("report").as_deref(), Some("{}\n"));
        fs::remove_file(place.0.join("report")).unwrap();
        fs::write(place.0.join("report"), "another's").unwrap();
        let taken = format!("report.{number}");
        fs::create_dir(place.0.join(&taken)).unwrap();
        let said = report(&outputs).write(b"{}\n").unwrap_err().to_string();
        assert!(said.ends_with(&format!("{taken}-2")), "{said}");
        assert_eq!(place.read(&format!("{taken}-2")).as_deref(), Some("{}\n"));
        drop(outputs);
        assert_eq!(place.read(&hidden).as_deref(), Some("precious"));
        let mut names = place.names();
        names.sort();
        let (second, kept) = (format!("{hidden}-2"), format!("{taken}-2"));
        assert_eq!(names, [&*hidden, &second, "log", "report", &taken, &kept]);
    }

    #[test]
    fn a_report_beside_which_nothing_can_be_made_is_written_itself() {
        let place = Place::new("itself");
        let mut outputs = open(&place, "report", "log").unwrap();
        outputs.begin().unwrap();
        // All names that are tried.
        for number in 1..1_000 {
            let of = if number == 1 { String::new() } else { format!("-{number}") };
            fs::write(place.0.join(format!(".report.{}{of}", std::process::id())), "").unwrap();
        }
        report(&outputs).write(b"{}\n").unwrap();
        assert_eq!(place.read("report").as_deref(), Some("{}\n"));
        fs::rename(place.0.join("report"), place.0.join("old")).unwrap();
        let said = report(&outputs).write(b"{}\n").unwrap_err().to_string();
        assert!(said.starts_with("it was removed, and no file can be made beside it: "), "{said}");
    }

    #[test]
    fn a_file_that_was_removed_is_made_again() {
        let place = Place::new("again");
        std::os::unix::fs::symlink("real", place.0.join("report")).unwrap();
        let mut outputs = open(&place, "report", "log").unwrap();
        outputs.begin().unwrap();
        fs::remove_file(place.0.join("real")).unwrap();
        report(&outputs).write(b"{}\n").unwrap();
        assert_eq!(place.read("real").as_deref(), Some("{}\n"));
        assert!(place.0.join("report").is_symlink());
    }

    #[test]
    fn a_link_that_leads_elsewhere_by_now_takes_the_report_nowhere_else() {
        let place = Place::new("elsewhere");
        let link = place.0.join("report");
        std::os::unix::fs::symlink("real", &link).unwrap();
        let mut outputs = open(&place, "report", "log").unwrap();
        outputs.begin().unwrap();
        fs::write(place.0.join("other"), "precious").unwrap();
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("other", &link).unwrap();
        report(&outputs).write(b"{}\n").unwrap();
        assert_eq!(place.read("real").as_deref(), Some("{}\n"));
        assert_eq!(place.read("other").as_deref(), Some("precious"));
    }

    #[test]
    fn a_run_that_does_not_begin_removes_nothing_of_another() {
        let place = Place::new("refused");
        let first = open(&place, "report", "same").unwrap();
        fs::remove_file(place.0.join("same")).unwrap();
        let second = open(&place, "other", "same").unwrap();
        drop(first);
        assert!(place.0.join("same").exists());
        drop(second);
        assert_eq!(place.names(), Vec::<String>::new());
    }

    #[test]
    fn what_is_replaced_before_it_is_locked_is_not_what_is_written() {
        let place = Place::new("early");
        let [old, new] = ["old", "new"].map(|name| place.0.join(name));
        fs::write(&old, "old").unwrap();
        let early = Output::unlocked("--log", &old, &Inputs::default()).unwrap();
        fs::write(&new, "new").unwrap();
        fs::rename(&new, &old).unwrap();
        assert!(!early.lock("--log").unwrap());
        assert!(Output::open("--log", &old, &Inputs::default()).unwrap().is_at(&old));
    }

    #[test]
    fn a_look_at_the_lock_refuses_no_run() {
        let place = Place::new("look");
        let file = place.0.join("log");
        fs::write(&file, "old").unwrap();
        let look = File::open(&file).unwrap();
        look.try_lock_shared().unwrap();
        let opened = std::thread::spawn(move || Output::open("--log", &file, &Inputs::default()));
        std::thread::park_timeout(std::time::Duration::from_millis(5));
        drop(look);
        opened.join().unwrap().unwrap();
    }

    #[test]
    fn one_file_is_not_two_outputs() {
        let place = Place::new("twice");
        let refused = open(&place, "same", "same").unwrap_err();
        assert!(refused.to_string().contains("--report: "), "{refused}");
        assert_eq!(place.names(), Vec::<String>::new());
    }
}
