//! What was meant by a command line that the parser refuses.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use punctual_sched::parameters;

use crate::cli::Cli;

/// What to write instead: of an argument of `punctual run` that is none (a link that was not quoted, a
/// link's parameter as an option, a command without `--` before it), of an option's value, of a word
/// too many or too few. `arguments` is the whole command line, the program's name included.
pub(crate) fn remedy(error: &clap::Error, arguments: &[String]) -> Option<String> {
    let run = arguments.get(1).is_some_and(|command| command == "run");
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let of_run = if run { of_run(error, arguments) } else { None };
            of_run.or_else(|| behind_equals(arguments)).or_else(|| {
                // The parser's own guess says more.
                let guessed = error.get(ContextKind::SuggestedArg).is_some();
                if guessed { None } else { usage(arguments) }
            })
        }
        ErrorKind::MissingRequiredArgument => usage(arguments),
        ErrorKind::InvalidSubcommand if error.get(ContextKind::SuggestedSubcommand).is_none() => {
            let below = called(arguments);
            let names = below.get_subcommands().filter(|below| !below.is_hide_set());
            let names: Vec<_> = names.map(clap::Command::get_name).collect();
            Some(format!("expected one of {}", names.join(", ")))
        }
        _ => None,
    }
}

/// The command line with a value that begins with `-` and a digit tied to the option before it, where
/// the parser took it for an option: so the value's own reader says what it has to be.
pub(crate) fn tied(error: &clap::Error, arguments: &[OsString]) -> Option<Vec<OsString>> {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(refused))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    let is_number = |word: &str| {
        word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_refused = |word: &str| is_number(word) && word.starts_with(refused.as_str());
    let at = arguments.iter().position(|word| word.to_str().is_some_and(is_refused))?;
    let before = arguments[..at].last()?.to_str()?;
    if !before.starts_with("--") || before == "--" || before.contains('=') {
        return None;
    }
    let mut tied = arguments.to_vec();
    let value = tied.remove(at);
    tied[at - 1].push("=");
    tied[at - 1].push(value);
    Some(tied)
}

/// An option whose value stands behind `=` only, with a value behind a blank.
fn behind_equals(arguments: &[String]) -> Option<String> {
    let command = called(arguments);
    let spaced = |pair: &[String]| {
        let option = pair[0].strip_prefix("--")?;
        let option = command.get_arguments().find(|arg| arg.get_long() == Some(option))?;
        let blank = option.is_require_equals_set() && !pair[1].starts_with('-');
        let takes = option.get_value_names()?.first().filter(|_| blank)?;
        Some(equals(option.get_long()?, takes))
    };
    arguments.windows(2).find_map(spaced)
}

/// How such an option is written.
pub(crate) fn equals(option: &str, takes: &str) -> String {
    format!("--{option} takes a value behind = only: --{option}={takes}")
}

/// How the command is called, and its first example.
fn usage(arguments: &[String]) -> Option<String> {
    let mut command = called(arguments);
    let usage = command.render_usage().to_string();
    let words: Vec<_> = usage.split_whitespace().skip(1).collect();
    let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let (_, examples) = help.split_once("EXAMPLES\n").unwrap_or_default();
    let example = examples.lines().map(str::trim).find(|line| line.starts_with("punctual "));
    let example = example.map(|line| line.split("  ").next().unwrap_or(line));
    let such = example.map_or_else(String::new, |example| format!(", such as: {example}"));
    (!words.is_empty()).then(|| format!("expected {}{such}", words.join(" ")))
}

/// The command that a line calls.
fn called(arguments: &[String]) -> clap::Command {
    let mut command = Cli::command();
    command.build();
    for word in arguments.iter().skip(1) {
        let Some(below) = command.find_subcommand(word) else { break };
        command = below.clone();
    }
    command
}

/// The same of `punctual run`.
fn of_run(error: &clap::Error, arguments: &[String]) -> Option<String> {
    let Some(ContextValue::String(refused)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let is_refused = |word: &String| word.split('=').next() == refused.split('=').next();
    let at = arguments.iter().position(|word| word == refused);
    let at = at.or_else(|| arguments.iter().position(is_refused))?;
    let (before, rest) = arguments.split_at(at);
    match refused.strip_prefix("--") {
        Some(_) => as_option(rest),
        None if refused.starts_with('-') => None,
        None => unquoted(before, rest).or_else(|| {
            let named = refused.split_once('=').is_some_and(|(name, _)| is_parameter(name));
            Some(if named {
                format!("{PLACES}: --both {}", quoted(&link_words(rest)))
            } else {
                format!("put -- before the command: -- {refused}")
            })
        }),
    }
}

/// `--delay 10ms` or `--delay=10ms`.
fn as_option(rest: &[String]) -> Option<String> {
    let option = rest.first()?.strip_prefix("--")?;
    let (name, value) = match option.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (option, rest.get(1).map(String::as_str).filter(|next| !next.starts_with('-'))),
    };
    let parameter = parameters().find(|parameter| parameter.name == name)?;
    let word = format!("{name}={}", value.unwrap_or(parameter.takes));
    Some(format!("{PLACES}: --both {}", quoted(&[&word])))
}

/// `--both delay=1ms rate=1mbit`, of which the first word only is the option's.
fn unquoted(before: &[String], rest: &[String]) -> Option<String> {
    let (first, earlier) = before.split_last()?;
    let (option, first) = match first.split_once('=') {
        Some((option, first)) if OPTIONS.contains(&option) => (option, first),
        _ => (earlier.last()?.as_str(), first.as_str()),
    };
    let more = link_words(rest);
    if !OPTIONS.contains(&option) || more.is_empty() {
        return None;
    }
    Some(format!("quote the link: {option} {}", quoted(&[&[first], &*more].concat())))
}

/// The words up to the first that cannot be a link's.
fn link_words(words: &[String]) -> Vec<&str> {
    let of_link = |word: &&str| {
        let number = word.starts_with(|c: char| c.is_ascii_digit());
        !word.starts_with('-') && (word.contains('=') || number || is_parameter(word))
    };
    words.iter().map(String::as_str).take_while(of_link).collect()
}

fn is_parameter(name: &str) -> bool {
    parameters().any(|parameter| parameter.name == name)
}

/// One argument for a shell.
fn quoted(words: &[&str]) -> String {
    let text = words.join(" ");
    let plain = |c: char| c.is_ascii_alphanumeric() || "=%._,+-:/".contains(c);
    if text.chars().all(plain) { text } else { format!("'{text}'") }
}

const OPTIONS: &[&str] = &["--both", "--up", "--down"];
const PLACES: &str = "link parameters go into --both, --up or --down";

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Parser;

    use crate::cli::Cli;
    use crate::failure::Failure;

    fn refused(line: &str) -> String {
        let arguments: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let error = Cli::try_parse_from(&arguments).expect_err(line);
        Failure::command_line(&error, &arguments).to_string()
    }

    #[test]
    fn a_link_that_was_not_quoted_is_written_with_quotes() {
        for (line, link) in [
            ("--both delay=1ms rate=1mbit -- true", "--both 'delay=1ms rate=1mbit'"),
            ("--both=delay=1ms rate=1mbit", "--both 'delay=1ms rate=1mbit'"),
            ("--up loss=1% 25% gap=5 true", "--up 'loss=1% 25% gap=5'"),
            ("--down delay 100ms -- true", "--down 'delay 100ms'"),
        ] {
            let message = refused(&format!("punctual run --net lab {line}"));
            let hint = format!("; quote the link: {link}");
            assert!(
                message.contains("unexpected argument") && message.ends_with(&hint),
                "{message}"
            );
        }
    }

    #[test]
    fn parameters_outside_of_a_link_are_told_where_they_go() {
        for (line, link) in [
            ("--delay 10ms", "delay=10ms"),
            ("--delay=10ms -- true", "delay=10ms"),
            ("--rate 5mbit --both delay=1ms", "rate=5mbit"),
            ("--fq.quantum", "'fq.quantum=BYTES|auto'"),
            ("rate=1mbit delay=2ms -- true", "'rate=1mbit delay=2ms'"),
        ] {
            let message = refused(&format!("punctual run --net lab {line}"));
            let hint = format!("; link parameters go into --both, --up or --down: --both {link}");
            assert!(message.ends_with(&hint), "{message}");
            assert!(!message.contains("similar"), "{message}");
        }
    }

    #[test]
    fn a_command_without_dashes_before_it_is_told_to_have_them() {
        for line in ["true", "--both delay=1ms true -x", "-q true rate=1mbit"] {
            let message = refused(&format!("punctual run --net lab {line}"));
            assert!(message.ends_with("; put -- before the command: -- true"), "{message}");
        }
    }

    #[test]
    fn other_mistakes_keep_the_parsers_own_hint() {
        for (line, hint) in [
            ("run --nett lab", "a similar argument exists: '--net'"),
            ("play --skale 2 x", "a similar argument exists: '--scale'"),
            ("trace chek", "a similar subcommand exists: 'check'"),
        ] {
            let message = refused(&format!("punctual {line}"));
            assert!(message.ends_with(hint), "{message}");
        }
    }

    #[test]
    fn words_too_many_or_too_few_are_told_what_is_expected() {
        for (line, told) in [
            ("verify log stray", "'stray' found; expected punctual verify [OPTIONS] <LOG>"),
            (
                "trace convert up ms",
                "'ms' found; expected punctual trace convert [OPTIONS] <FILE>, such as: punctual \
                 trace convert --direction down drive.csv -o drive.trace.csv",
            ),
            ("trace check", "<FILE>; expected punctual trace check [OPTIONS] <FILE>, such as: "),
            ("log export x", "such as: punctual log export run.log -o run.parquet"),
            ("show a b c", "'c' found; expected punctual show [OPTIONS] [NAME] [DIRECTION]"),
            ("trace make square", "; expected punctual trace make square [OPTIONS] --low <RATE> "),
            (
                "trace make triangle",
                "; expected one of constant, square, saw, sine, walk, markov, ",
            ),
            ("set --up 5", "such as: punctual set lab up.rate=10mbit down.loss=gemodel,"),
        ] {
            let message = refused(&format!("punctual {line}"));
            assert!(message.contains(told), "{message}");
        }
    }

    #[test]
    fn a_value_that_needs_an_equals_sign_is_told_so() {
        for (line, told) in [
            (
                "play --loop maybe lab FILE",
                "--loop takes a value behind = only: --loop=yes|no|auto",
            ),
            (
                "trace convert --fluid 20ms FILE",
                "--fluid takes a value behind = only: --fluid=TIME",
            ),
        ] {
            let message = refused(&format!("punctual {line}"));
            assert!(message.ends_with(&format!("found; {told}")), "{message}");
        }
    }

    #[test]
    fn a_negative_value_is_told_what_it_has_to_be() {
        let tied = |line: &str| {
            let arguments: Vec<_> = line.split(' ').map(OsString::from).collect();
            let error = Cli::try_parse_from(&arguments).expect_err(line);
            let tied = super::tied(&error, &arguments)?;
            Some(
                Cli::try_parse_from(tied).map_or_else(|error| error.to_string(), |_| String::new()),
            )
        };
        for (line, told) in [
            // Read by the command.
            ("play --scale -1 FILE", ""),
            ("play FILE --offset -1s", ""),
            ("trace make saw --low -1 --high 5 --period 1s", "\"-1\" is negative, expected a rate"),
            ("trace make constant --rate 1mbit --duration -5s", "is negative, expected a time"),
            ("trace check --seed -1 x", "expected a whole number from 0 to"),
        ] {
            let message = tied(&format!("punctual {line}")).expect("it is one");
            assert!(message.contains(told) && message.is_empty() == told.is_empty(), "{message}");
        }
        for line in ["show -1", "show --json -x", "run --net=lab -5"] {
            assert_eq!(tied(&format!("punctual {line}")).filter(String::is_empty), None);
        }
    }
}
