//! `punctual man` and `punctual completions`: pages and shell completions from the definitions
//! of the command line, so that they cannot say anything else than `--help`.

use std::io::{Write, stdout};

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsOptions, ManOptions};
use crate::failure::Failure;

/// Prints the page of a command, or of the program, in roff.
pub fn run(options: &ManOptions) -> Result<u8, Failure> {
    print(&page(options.command.as_deref())?)
}

/// Prints a completion script for a shell.
pub fn completions(options: &CompletionsOptions) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "punctual", &mut script);
    print(&script)
}

fn page(name: Option<&str>) -> Result<Vec<u8>, Failure> {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let command = match name {
        None => program,
        Some(name) => found(&program, name)?,
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}

/// The subcommand of this name, called as `man` looks it up: `punctual-run`.
fn found(program: &clap::Command, name: &str) -> Result<clap::Command, Failure> {
    let offered = || program.get_subcommands().filter(|command| !command.is_hide_set());
    let command = offered().find(|command| command.get_name() == name).cloned();
    command.map(|command| command.display_name(format!("punctual-{name}"))).ok_or_else(|| {
        let names: Vec<_> = offered().map(clap::Command::get_name).collect();
        Failure::usage(format!(
            "man: no command {name:?}, expected one of {} or none for the overview",
            names.join(", ")
        ))
    })
}

fn print(text: &[u8]) -> Result<u8, Failure> {
    match stdout().write_all(text) {
        // `punctual man | head` is no failure.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(0),
        written => Ok(written.map(|()| 0)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: Option<&str>) -> String {
        String::from_utf8(page(name).unwrap()).unwrap()
    }

    #[test]
    fn every_offered_command_has_a_page_that_names_its_options() {
        for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            let page = text(Some(command.get_name()));
            let title = format!(".TH punctual-{} 1", command.get_name());
            assert!(page.contains(&title), "{title}: {page}");
            for long in command.get_arguments().filter_map(clap::Arg::get_long) {
                assert!(page.contains(&long.replace('-', "\\-")), "{title} lacks --{long}");
            }
        }
    }

    #[test]
    fn the_overview_lists_the_commands_that_are_offered_and_no_others() {
        let page = text(None);
        assert!(page.contains("punctual\\-run(1)"), "{page}");
        assert!(!page.contains("traffic"), "{page}");
    }

    #[test]
    fn an_unknown_command_is_bad_usage_and_the_known_ones_are_named() {
        for name in ["rnu", "traffic"] {
            let failure = page(Some(name)).unwrap_err();
            assert_eq!(failure.status(), 2);
            assert!(
                failure.to_string().contains("run, verify, demo, clean, man, completions"),
                "{failure}"
            );
        }
    }
}
