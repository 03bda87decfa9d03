//! Words such as `rate=20mbit delay=30ms` into names and values, and what was meant where they
//! are written as another tool takes them: `delay 100ms 10ms`.

use super::{Parameter, hint, pasted};
use crate::config::LinkConfig;

/// Parts `a=1 b=2` into names and values; each name once. `config` is what is known of the link
/// already, for suggestions.
pub(super) fn read<'a>(
    text: &'a str,
    config: &LinkConfig,
) -> Result<Vec<(&'a str, &'a str)>, String> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        let Some((name, value)) = pair(word) else {
            let config = hint::chosen(text, config);
            return Err(problem(word, pairs.last(), words, &config));
        };
        if pairs.iter().any(|&(known, _)| known == name) {
            return Err(format!("parameter \"{name}\" is given twice"));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

fn pair(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    (!name.is_empty() && !value.is_empty() && !joined(value)).then_some((name, value))
}

/// Whether a value goes on with another parameter, as in `100mbit,delay=5ms`.
fn joined(value: &str) -> bool {
    let parts = value.split(',').skip(1).filter_map(|part| part.split_once('='));
    parts.map(|(name, _)| Parameter::find(name)).any(|found| found.is_some())
}

/// What is wrong with a word that is no pair, between the pair before it and the words after it.
fn problem<'a>(
    word: &'a str,
    before: Option<&(&'a str, &'a str)>,
    after: impl Iterator<Item = &'a str> + Clone,
    config: &LinkConfig,
) -> String {
    if let Some(write) = pasted::line(word, after.clone(), config) {
        let lacks =
            if Parameter::find(word).is_some() { "has no value" } else { "is no NAME=VALUE" };
        return format!("\"{word}\" {lacks}, write {write}");
    }
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    if !name.is_empty() && !value.is_empty() {
        return format!("\"{word}\" joins parameters with a comma, expected spaces between them");
    }
    if let Some(parameter) = Parameter::find(name) {
        let write = spaced(parameter, None, after.clone());
        return match write {
            Some(write) => format!("\"{word}\" has no value, write {write}"),
            None => format!("\"{word}\" has no value, expected {}", hint::usage(parameter, config)),
        };
    }
    if word.starts_with('=') {
        return format!("\"{word}\" has no name before \"=\"");
    }
    if word.contains('=') {
        return hint::unknown(name, value, config);
    }
    if let Some((name @ ("trace" | "distribution"), _)) = before {
        return format!(
            "\"{word}\" is no NAME=VALUE; a file's name with blanks in it can be given by --config: \
             {name} = \"...\""
        );
    }
    let follows = before.and_then(|&(name, value)| {
        spaced(Parameter::find(name)?, Some(value), core::iter::once(word).chain(after))
    });
    let meant = follows.map(|write| format!("write {write}"));
    match meant.or_else(|| hint::setting(word, config)) {
        Some(meant) => format!("\"{word}\" is no NAME=VALUE, {meant}"),
        None => format!("\"{word}\" is no NAME=VALUE such as delay=30ms"),
    }
}

/// How to write a parameter whose values are apart from its name or each other, if that gives
/// something that can be read.
fn spaced<'a>(
    parameter: &Parameter,
    first: Option<&'a str>,
    words: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let words = words.map(|word| word.strip_prefix('=').unwrap_or(word));
    // `slot distribution normal 1ms 1ms`: here the name of a parameter of its own.
    let slot = parameter.name == "slot";
    let words =
        words.enumerate().filter(|&(at, word)| !(slot && at == 0 && word == "distribution"));
    let words = words.map(|(_, word)| word);
    let words = words.take_while(|word| !word.contains('=') && Parameter::find(word).is_none());
    let least = 1 + usize::from(first.is_some());
    let values: Vec<_> = first.into_iter().chain(words).take(MOST_VALUES).collect();
    let fewer = (least..=values.len()).rev().map(|count| &values[..count]);
    fewer.flat_map(|values| candidates(parameter, values)).find(|text| readable(text))
}

/// Ways to write these values of a parameter.
pub(super) fn candidates(parameter: &Parameter, values: &[&str]) -> Vec<String> {
    let name = parameter.name;
    match values {
        [value] => vec![format!("{name}={value}")],
        [delay, jitter @ ..] if name == "delay" => {
            vec![format!("{name}={}", values.concat()), with_jitter(delay, &jitter.join(","))]
        }
        _ if parameter.takes.contains(',') => {
            vec![format!("{name}={}", listed(values)), format!("{name}={}", values.concat())]
        }
        _ => vec![format!("{name}={}", values.concat())],
    }
}

/// `25% gap 5` as `25%,gap=5`, and `gemodel p 1% r 10%` as `gemodel,1%,10%`.
fn listed(values: &[&str]) -> String {
    let named = |list: String, name| list.replace(&format!(",{name},"), &format!(",{name}="));
    let values = values.iter().filter(|value| !LABELS.contains(value)).copied();
    let list = values.collect::<Vec<_>>().join(",");
    ["gap", "packets", "bytes"].into_iter().fold(list, named)
}

/// `tc`'s delay of two and more values.
pub(super) fn with_jitter(delay: &str, jitter: &str) -> String {
    format!("delay={delay} jitter={jitter}")
}

/// Whether each word is a parameter with a value that it takes.
pub(super) fn readable(text: &str) -> bool {
    let mut config = LinkConfig::default();
    text.split_whitespace().all(|word| {
        word.split_once('=').is_some_and(|(name, value)| config.set(name, value).is_ok())
    })
}

/// What `tc` puts before the values of a loss model.
const LABELS: &[&str] = &["p", "r", "1-h", "1-k", "p13", "p31", "p32", "p23", "p14"];
/// Of one parameter, where they are apart: more than any takes.
const MOST_VALUES: usize = 20;
