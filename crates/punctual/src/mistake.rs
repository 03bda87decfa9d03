//! What was meant by a command line that the parser refuses.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use punctual_sched::parameters;

/// How to write an argument of `punctual run` that is none: a link that was not quoted, a link's
/// parameter as an option, a command without `--` before it. `arguments` is the whole command
/// line, the program's name included.
pub(crate) fn remedy(error: &clap::Error, arguments: &[String]) -> Option<String> {
    let run = arguments.get(1).is_some_and(|command| command == "run");
    let (true, ErrorKind::UnknownArgument) = (run, error.kind()) else { return None };
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
        for (line, hint) in [("run --nett lab", "'--net'"), ("verify log stray", "'stray' found")] {
            let message = refused(&format!("punctual {line}"));
            assert!(message.ends_with(hint), "{message}");
        }
    }
}
