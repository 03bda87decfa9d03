//! Which runs there are, and which one is meant.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::client::{AskError, Client};
use super::others::{self, OtherRun};
use crate::failure::Failure;
use crate::runtime;

/// A run that lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunPlace {
    /// Its name.
    pub(crate) name: String,
    /// Its directory.
    pub(crate) directory: PathBuf,
}

/// Every run of this user that lives, by name; what could not be looked at is told.
pub(crate) fn all() -> Vec<RunPlace> {
    let mut runs = Vec::new();
    for base in runtime::bases() {
        match runtime::running(&base) {
            Ok(directories) => runs.extend(directories.into_iter().filter_map(RunPlace::at)),
            Err(problem) => crate::warn(format_args!("{problem:#}")),
        }
    }
    // The same name in two places: the first place is looked at first.
    runs.sort_by(|a, b| a.name.cmp(&b.name));
    runs.dedup_by(|later, first| later.name == first.name);
    runs
}

/// The run that is called `name`; without a name the one inside which this process is, else the only
/// one that there is.
pub(crate) fn find(name: Option<&str>) -> Result<RunPlace, Failure> {
    if let Some(name) = name {
        runtime::check_name(name)
            .map_err(|_| Failure::usage(format!("\"{name}\" is no name of a run")))?;
    }
    if let Some(around) = around()
        && name.is_none_or(|name| name == around.name)
    {
        return Ok(around);
    }
    let runs = all();
    match name {
        Some(name) => {
            let found = runs.iter().find(|run| run.name == name).cloned();
            found.ok_or_else(|| missing(name, &runs))
        }
        None => only(&runs),
    }
}

/// Connects to a run; why that cannot be is told with its name.
pub(crate) fn connect(run: &RunPlace) -> Result<Client, Failure> {
    Client::connect(&run.directory).map_err(|error| run.failed(&error))
}

impl RunPlace {
    fn at(directory: PathBuf) -> Option<Self> {
        let name = directory.file_name()?.to_str()?.to_owned();
        Some(Self { name, directory })
    }

    /// What a run that was not reached is told as.
    pub(crate) fn failed(&self, error: &AskError) -> Failure {
        Failure::Declined(format!("{}: {error}", self.name))
    }

    /// What a run that says no is told as, with the place that it names.
    pub(crate) fn declined(&self, answer: &Value) -> Failure {
        let word = |name: &str| answer["error"][name].as_str().unwrap_or_default();
        Failure::Declined(format!("{}: {}: {}", self.name, word("place"), word("problem")))
    }
}

/// The run inside which this process is: found also where the user has another name, or another
/// environment, than the run was started with.
fn around() -> Option<RunPlace> {
    let name = std::env::var("PUNCTUAL_NAME").ok()?;
    let socket = PathBuf::from(std::env::var_os("PUNCTUAL_SOCKET")?);
    let directory = socket.parent().filter(|directory| directory.is_absolute())?;
    (directory.file_name()? == name.as_str())
        .then(|| RunPlace { name, directory: directory.into() })
}

fn only(runs: &[RunPlace]) -> Result<RunPlace, Failure> {
    match runs {
        [run] => Ok(run.clone()),
        [] => Err(Failure::Declined(none())),
        several => {
            let problem = format!("which run? running: {}", names(several));
            Err(Failure::usage(problem))
        }
    }
}

fn missing(name: &str, runs: &[RunPlace]) -> Failure {
    let left = runtime::bases().iter().any(|base| base.join(name).is_dir());
    if left {
        return Failure::Declined(format!(
            "the run \"{name}\" is gone: it was killed, and its directory is left (`punctual clean` \
             removes it)"
        ));
    }
    let others = match runs {
        [] => "none is running".to_owned(),
        runs => format!("running: {}", names(runs)),
    };
    let theirs = others::all().into_iter().filter(|run| run.name == name).collect::<Vec<_>>();
    let beyond = beyond(&theirs, Some(name));
    Failure::Declined(format!("no run \"{name}\" is there; {others}{beyond}"))
}

/// That there is no run.
pub(crate) fn none() -> String {
    format!("no run is there{}", beyond(&others::all(), None))
}

/// What root is told beside its own runs.
pub(crate) fn of_others() -> Option<String> {
    let theirs = others::all();
    (!theirs.is_empty()).then(|| format!("there is {}", others::told(&theirs)))
}

/// What there is, or may be, that is not the caller's: `theirs` for root.
fn beyond(theirs: &[OtherRun], name: Option<&str>) -> String {
    if theirs.is_empty() {
        out_of_reach(name).to_owned()
    } else {
        format!("; there is {}", others::told(theirs))
    }
}

fn names(runs: &[RunPlace]) -> String {
    runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Root's runs are not shown to others: where there may be some, that is told.
fn out_of_reach(name: Option<&str>) -> &'static str {
    let roots = Path::new(ROOTS);
    let place = name.map_or_else(|| roots.join("."), |name| roots.join(name));
    match fs::metadata(place) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            "; one that was started with sudo is root's, and reached with sudo"
        }
        _ => "",
    }
}

const ROOTS: &str = "/run/punctual";
