//! `punctual man` and `punctual completions`: pages and shell completions from the definitions
//! of the command line, so that they cannot say anything else than `--help`.

use std::io::Write;

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsOptions, ManOptions};
use crate::failure::Failure;
use crate::output::print;

/// Prints the page of a command, or of the program, in roff.
pub fn run(options: &ManOptions) -> Result<u8, Failure> {
    print(page(options.name().as_deref())?)?;
    Ok(0)
}

/// Prints a completion script for a shell.
pub fn completions(options: &CompletionsOptions) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "punctual", &mut script);
    print(script)?;
    Ok(0)
}

fn page(name: Option<&str>) -> Result<Vec<u8>, Failure> {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let command = match name {
        None => program,
        Some(name) => found(&program, name)?,
    };
    render(command).map_err(Failure::from)
}

/// A page of the sections that `clap_mangen` knows, except that options in the synopsis have
/// their values, and what the help says after the options keeps its sections and lines.
fn render(command: clap::Command) -> std::io::Result<Vec<u8>> {
    let extra = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let (synopsis, options) = (synopsis(&command), command.get_arguments().next().is_some());
    let subcommands = command.get_subcommands().any(|command| !command.is_hide_set());
    let version = command.get_version().is_some();
    let title = title(&command);
    let man = clap_mangen::Man::new(command);
    let mut page = Vec::new();
    page.write_all(title.as_bytes())?;
    man.render_name_section(&mut page)?;
    page.write_all(synopsis.as_bytes())?;
    man.render_description_section(&mut page)?;
    if options {
        man.render_options_section(&mut page)?;
    }
    if subcommands {
        man.render_subcommands_section(&mut page)?;
    }
    page.write_all(sections(&extra).as_bytes())?;
    if version {
        man.render_version_section(&mut page)?;
    }
    Ok(page)
}

/// `.TH` with its five fields: title, section, date, source, manual. No date, so that a page is made
/// the same at any time.
fn title(command: &clap::Command) -> String {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    format!(".TH {name} 1 \"\" \"punctual {}\" \"punctual manual\"\n", env!("CARGO_PKG_VERSION"))
}

/// `SYNOPSIS` with the value of each option, never broken inside one.
fn synopsis(command: &clap::Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let words = command.get_arguments().filter(|arg| !arg.is_hide_set()).map(|arg| {
        let value = value(arg);
        let word = match (arg.get_long(), arg.get_short()) {
            (Some(long), _) => {
                let optional = arg.get_num_args().is_some_and(|values| values.min_values() == 0);
                match value.as_str() {
                    "" => format!("--{long}"),
                    value if optional => format!("--{long}[={value}]"),
                    value => format!("--{long} {value}"),
                }
            }
            (None, Some(short)) => format!("-{short}"),
            (None, None) if arg.is_last_set() => format!("-- {value}..."),
            (None, None) => value,
        };
        if arg.is_required_set() { word } else { format!("[{word}]") }
    });
    let command = command.has_subcommands().then(|| "COMMAND ...".to_owned());
    let words: Vec<_> = words.chain(command).map(|word| roff(&word).replace(' ', "\\ ")).collect();
    format!(".SH SYNOPSIS\n.nh\n.ad l\n\\fB{}\\fR {}\n.ad\n.hy\n", roff(name), words.join(" "))
}

/// `LINK`, or `eco|balanced|strict`; empty for a switch.
fn value(arg: &clap::Arg) -> String {
    if !arg.get_action().takes_values() {
        return String::new();
    }
    let possible = arg.get_possible_values();
    let words: Vec<_> = possible.iter().map(clap::builder::PossibleValue::get_name).collect();
    if arg.get_long().is_some() && (2..=MAX_WORDS).contains(&words.len()) {
        return words.join("|");
    }
    match arg.get_value_names() {
        Some(names) => names.join(" "),
        None => arg.get_id().as_str().to_uppercase(),
    }
}

/// Sections whose lines stay as they are. A line of capitals without indentation is the heading of
/// what follows; what comes before the first belongs to `LINK`.
fn sections(text: &str) -> String {
    let mut page = String::new();
    let mut open = false;
    for line in text.lines() {
        let heading = is_heading(line);
        if heading || !open {
            let title = if heading { line } else { "LINK" };
            let end = if open { ".fi\n" } else { "" };
            page.extend([end, ".SH \"", &roff(title), "\"\n.nf\n"]);
            open = true;
        }
        if !heading {
            page.extend([&*roff(line), "\n"]);
        }
    }
    if open { page + ".fi\n" } else { page }
}

fn is_heading(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_uppercase())
        && line.chars().all(|c| c.is_ascii_uppercase() || c == ' ')
}

/// Text in which roff sees nothing of its own.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

/// The subcommand of this name, called as `man` looks it up: `punctual-run`. A command of a
/// command has both names: `trace-check`.
fn found(program: &clap::Command, name: &str) -> Result<clap::Command, Failure> {
    let command = within(program, name).cloned();
    command.map(|command| command.display_name(format!("punctual-{name}"))).ok_or_else(|| {
        let names: Vec<_> = offered(program).map(clap::Command::get_name).collect();
        Failure::usage(format!(
            "no command {name:?}, expected one of {} or none for the overview",
            names.join(", ")
        ))
    })
}

fn within<'a>(program: &'a clap::Command, name: &str) -> Option<&'a clap::Command> {
    offered(program).find_map(|command| match name.strip_prefix(command.get_name())? {
        "" => Some(command),
        rest => within(command, rest.strip_prefix('-')?),
    })
}

fn offered(program: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    program.get_subcommands().filter(|command| !command.is_hide_set())
}

/// A value of more words than this is told by its name.
const MAX_WORDS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: Option<&str>) -> String {
        String::from_utf8(page(name).unwrap()).unwrap()
    }

    #[test]
    fn every_offered_command_has_a_page_that_names_its_options() {
        has_pages(&Cli::command(), "");
        let page = text(Some("log"));
        assert!(page.contains("punctual\\-log\\-export(1)"), "{page}");
        let page = text(Some("trace-make-slotted"));
        assert!(page.contains("\\fBpunctual trace make slotted\\fR"), "{page}");
    }

    fn has_pages(program: &clap::Command, before: &str) {
        for command in offered(program) {
            let name = format!("{before}{}", command.get_name());
            let page = text(Some(&name));
            let version = env!("CARGO_PKG_VERSION");
            let rest = format!("1 \"\" \"punctual {version}\" \"punctual manual\"\n");
            let title = format!(".TH punctual-{name} {rest}");
            assert!(page.contains(&title), "{title}: {page}");
            for long in command.get_arguments().filter_map(clap::Arg::get_long) {
                assert!(page.contains(&long.replace('-', "\\-")), "{title} lacks --{long}");
            }
            has_pages(command, &format!("{name}-"));
        }
    }

    #[test]
    fn what_help_says_after_the_options_keeps_its_sections_and_lines() {
        let page = text(Some("run"));
        for section in ["LINK", "ALL PARAMETERS OF A LINK", "WHEN CMD ENDS", "EXIT STATUS"] {
            assert!(page.contains(&format!(".SH \"{section}\"\n.nf\n")), "{section}: {page}");
        }
        assert!(!page.contains("EXTRA"), "{page}");
        assert_eq!(page.matches("\n.nf\n").count(), page.matches("\n.fi\n").count());
        let example = "      \\-\\-up rate=20mbit \\-\\-down rate=100mbit \\-\\- sh \\-c \
                       \\(aqiperf3 \\-c $PUNCTUAL_PEER\\(aq\n";
        assert!(page.contains(example), "{page}");
    }

    #[test]
    fn the_synopsis_has_the_values_of_options() {
        let page = text(Some("run"));
        for words in [
            "[\\-\\-both\\ LINK]",
            "[\\-\\-peer\\-port\\ PORT]",
            "[\\-\\-precision\\ eco|balanced|strict]",
            "[\\-\\-quiet]",
            "[\\-\\-\\ CMD...]",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        // A value that may be left out is written with its =.
        let page = text(Some("play"));
        assert!(page.contains("[\\-\\-loop[=yes|no|auto]]"), "{page}");
    }

    #[test]
    fn a_command_of_a_command_is_named_in_one_word_or_in_two() {
        let name = |words: &[&str]| {
            let command = words.iter().map(ToString::to_string).collect();
            ManOptions { command }.name()
        };
        assert_eq!(name(&["trace", "make"]).as_deref(), Some("trace-make"));
        assert_eq!(name(&["trace-make"]).as_deref(), Some("trace-make"));
        assert_eq!(name(&[]), None);
    }

    #[test]
    fn roff_sees_no_request_in_a_line_of_text() {
        assert_eq!(roff(".x 'a' \\-b"), "\\&.x \\(aqa\\(aq \\e\\-b");
    }

    #[test]
    fn the_overview_lists_the_commands_that_are_offered_and_no_others() {
        let page = text(None);
        assert!(page.contains("punctual\\-run(1)"), "{page}");
        assert!(!page.contains("traffic"), "{page}");
    }

    #[test]
    fn an_unknown_command_is_bad_usage_and_the_known_ones_are_named() {
        for name in ["rnu", "traffic", "trace-", "trace-chekc", "run-x"] {
            let failure = page(Some(name)).unwrap_err();
            assert_eq!(failure.status(), 2);
            for known in ["run, ", "verify, ", "clean, ", "man, ", "completions or none"] {
                assert!(failure.to_string().contains(known), "{failure}");
            }
        }
    }
}
