//! The program: command line, configuration, report. One file per subcommand.

// They panic when the stream cannot be written: `tell` does not, and what a command prints as its
// result goes through `output`, where an error is its failure.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod clean;
pub mod cli;
mod control;
pub mod demo;
pub mod export;
pub mod failure;
pub mod list;
pub mod log;
pub mod man;
mod mistake;
mod output;
pub mod play;
pub mod run;
pub mod runtime;
pub mod set;
pub mod show;
pub mod trace;
pub mod traffic;
pub mod verify;
pub mod witness;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use self::cli::{Cli, Command};
use self::failure::Failure;

/// Runs the program and returns its exit status.
pub fn main() -> ExitCode {
    if let Some(ended) = punctual_linux::process::init::dispatch() {
        return ended;
    }
    let arguments: Vec<_> = std::env::args_os().collect();
    let cli = match parsed(&arguments) {
        Ok(cli) => cli,
        Err(error) => return answer(&error, &arguments),
    };
    let result = match &cli.command {
        Command::Run(options) => run::run(options),
        Command::Verify(options) => verify::run(&options.log, options.json),
        Command::Log(command) => export::run(command),
        Command::Demo(options) => demo::run(options),
        Command::Set(options) => set::run(options),
        Command::Play(options) => play::run(options),
        Command::Show(options) => show::run(options),
        Command::List(options) => list::run(options),
        Command::Trace(command) => trace::run(command),
        Command::Clean(options) => clean::run(options),
        Command::Man(options) => man::run(options),
        Command::Completions(options) => man::completions(options),
        Command::Traffic(command) => traffic::run(command).map(|()| 0),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(failure) => report_failure(&failure),
    }
}

fn parsed(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let parsed = Cli::try_parse_from(arguments);
    let tied = parsed.as_ref().err().and_then(|error| mistake::tied(error, arguments));
    tied.map_or(parsed, Cli::try_parse_from)
}

/// Help and version as asked for; else what is wrong with the command line.
fn answer(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let written = error.print().and_then(|()| std::io::stdout().flush());
            match output::printed(written) {
                Ok(()) => ExitCode::SUCCESS,
                Err(failure) => report_failure(&failure),
            }
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
        _ => {
            let arguments = arguments.iter().map(|word| word.to_string_lossy().into_owned());
            report_failure(&Failure::command_line(error, &arguments.collect::<Vec<_>>()))
        }
    }
}

fn report_failure(failure: &Failure) -> ExitCode {
    tell(failure);
    ExitCode::from(failure.status())
}

/// Writes a message to standard error, at once, as one line of a bounded length that begins with the
/// program's name: what it echoes may be anything. Where that cannot be written (a closed pipe, a full
/// disk) there is nobody to tell, and the work goes on.
pub(crate) fn tell(message: impl Display) {
    tell_lines(&one_line(&format!("punctual: {message}")));
}

/// The same of what to beware of, where all goes on.
pub(crate) fn warn(message: impl Display) {
    tell(format_args!("warning: {message}"));
}

/// The same of text that may have several lines, all of it our own.
pub(crate) fn tell_lines(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// `message` with escapes for what would break the line or command the terminal, and long words cut:
/// those that are longer than the name of a file (`NAME_MAX`).
fn one_line(message: &str) -> String {
    punctual_sched::words::shortened(&punctual_measure::units::visible(message), 255)
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn a_message_is_one_line_whatever_it_echoes() {
        let shown = one_line("--both: \"a\nb\u{1b}[2J\" is no rate");
        assert_eq!(shown, "--both: \"a\\nb\\u{1b}[2J\" is no rate");
        let long = one_line(&format!("--cc: {} is unknown", "\u{7}".repeat(900_000)));
        assert!(long.len() < 100 && long.ends_with("... is unknown"), "{long}");
    }
}
