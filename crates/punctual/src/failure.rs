//! How a command fails: bad usage, or the program itself.

use std::error::Error;
use std::{fmt, io};

use rustix::io::Errno;

use crate::mistake;

/// A command that did not do what it was asked to.
#[derive(Debug)]
pub enum Failure {
    /// The caller asked for what cannot be: exit status 2, nothing was started.
    Usage(String),
    /// A running link is not there, or refuses what it is asked: exit status 1. Which one, and why.
    Declined(String),
    /// punctual, or the machine, could not: exit status 125.
    Own(anyhow::Error),
    /// The machine lacks or forbids what real packets need: exit status 125. What, and the remedy.
    Refused(String),
    /// A signal came before there was a command to receive it: exit status 128 + its number.
    Interrupted(i32),
}

impl Failure {
    /// Bad usage, in one line.
    pub fn usage(problem: impl fmt::Display) -> Self {
        Self::Usage(problem.to_string())
    }

    /// What the parser of the command line says over several lines, in one: the usage and the
    /// pointer to the help left out. `arguments` is the whole command line: where it shows what
    /// was meant, that takes the place of the parser's guess.
    pub fn command_line(error: &clap::Error, arguments: &[String]) -> Self {
        let text = error.to_string();
        let remedy = mistake::remedy(error, arguments);
        let guess = if remedy.is_some() { "tip:" } else { "tip: to pass" };
        let left_out = ["Usage:", "For more information", guess];
        let lines = text.lines().map(str::trim).filter(|line| {
            !line.is_empty() && !left_out.iter().any(|start| line.starts_with(start))
        });
        let line = lines.collect::<Vec<_>>().join(" ").replace(" tip: ", "; ");
        let line = line.trim_start_matches("error: ");
        Self::Usage(remedy.map_or_else(|| line.to_owned(), |remedy| format!("{line}; {remedy}")))
    }

    /// The same at a place, such as a line of a file.
    #[must_use]
    pub fn at(self, place: &str) -> Self {
        match self {
            Self::Usage(problem) => Self::Usage(format!("{place}: {problem}")),
            Self::Declined(problem) => Self::Declined(format!("{place}: {problem}")),
            Self::Own(error) => Self::Own(error.context(place.to_owned())),
            other => other,
        }
    }

    /// How the message of [`Failure::Refused`] begins.
    pub const REFUSED: &str = "real packets cannot be had: ";

    /// The exit status.
    pub fn status(&self) -> u8 {
        match self {
            Self::Declined(_) => 1,
            Self::Usage(_) => 2,
            Self::Own(_) | Self::Refused(_) => 125,
            Self::Interrupted(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(problem) | Self::Declined(problem) => f.write_str(problem),
            Self::Refused(what) => write!(f, "{}{what}", Self::REFUSED),
            Self::Own(error) => {
                f.write_str(&chain(error))?;
                let starved = error.chain().any(is_starved);
                if starved {
                    f.write_str("; raise the limit of open files (ulimit -n)")
                } else {
                    Ok(())
                }
            }
            Self::Interrupted(signal) => write!(f, "stopped by signal {signal}"),
        }
    }
}

/// Whether the process or the machine was out of descriptors.
fn is_starved(cause: &(dyn Error + 'static)) -> bool {
    let code = cause.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
    let errno =
        cause.downcast_ref::<Errno>().copied().or_else(|| code.map(Errno::from_raw_os_error));
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

/// The error and its causes, without those that the one before has told already.
fn chain(error: &anyhow::Error) -> String {
    let causes = error.chain().map(ToString::to_string);
    causes
        .reduce(
            |told, cause| {
                if told.ends_with(&cause) { told } else { format!("{told}: {cause}") }
            },
        )
        .unwrap_or_default()
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Own(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot open the device: {0}")]
        struct Device(#[from] io::Error);
        let cause = || io::Error::from_raw_os_error(5);
        let failure = Failure::Own(anyhow::Error::new(Device(cause())).context("no run"));
        assert_eq!(failure.to_string(), format!("no run: cannot open the device: {}", cause()));
        let failure = Failure::Own(anyhow::Error::new(cause()).context("no run"));
        assert_eq!(failure.to_string(), format!("no run: {}", cause()));
    }

    #[test]
    fn who_is_out_of_descriptors_is_told_what_to_raise() {
        let remedy = "; raise the limit of open files (ulimit -n)";
        let system = anyhow::Error::new(io::Error::from_raw_os_error(24)).context("no run");
        assert!(Failure::Own(system).to_string().ends_with(remedy));
        let call = Failure::Own(Errno::NFILE.into()).to_string();
        assert_eq!(call.matches(remedy).count(), 1, "{call}");
    }
}
