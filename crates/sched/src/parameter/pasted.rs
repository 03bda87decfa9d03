//! A line of `tc`, as a whole: `fq_codel limit 10240p flows 1024 target 5ms`.

use super::{Parameter, QUEUES, TABLES, hint, pairs};
use crate::config::LinkConfig;

/// The line that begins with `word` as it is written here, where each of its words is known;
/// `config` is what is known of the link. `None` where one is not, or nothing but a single
/// parameter is there.
pub(super) fn line<'a>(
    word: &'a str,
    after: impl Iterator<Item = &'a str>,
    config: &LinkConfig,
) -> Option<String> {
    let words: Vec<_> = core::iter::once(word).chain(after).take(MOST_WORDS + 1).collect();
    if words.len() > MOST_WORDS {
        return None;
    }
    let (owner, words) = begin(&words, config)?;
    let mut line = match (owner.named, owner.name) {
        (false, _) => Vec::new(),
        (true, "netem") => vec!["impair=netem".to_owned()],
        (true, queue) => vec![format!("queue={queue}")],
    };
    let mut rest = words;
    while let Some((setting, tail)) = take(owner.name, rest) {
        line.push(setting);
        rest = tail;
    }
    let whole = line.join(" ");
    (rest.is_empty() && line.len() > 1 && pairs::readable(&whole)).then_some(whole)
}

/// Whose words they are.
struct Owner<'a> {
    name: &'a str,
    /// By the line, not by what is known of the link.
    named: bool,
}

/// The discipline, and the words about it: behind `tc qdisc add dev eth0 root` and
/// `qdisc NAME 8001: root refcnt 2`.
fn begin<'a, 'b>(words: &'b [&'a str], config: &LinkConfig) -> Option<(Owner<'a>, &'b [&'a str])> {
    let is_discipline =
        |word: &str| word == "netem" || QUEUES.iter().any(|(name, _)| *name == word);
    let (at, name) = match words.first()? {
        &("tc" | "sudo" | "qdisc" | "root") => {
            let at = words.iter().position(|word| is_discipline(word))?;
            (at, words[at])
        }
        word if is_discipline(word) => (0, *word),
        _ => {
            let own = QUEUES.iter().find(|(_, kind)| *kind == config.queue);
            let name = if hint::is_netem(config) { "netem" } else { own.map_or("", |own| own.0) };
            return Some((Owner { name, named: false }, words));
        }
    };
    let mut rest = &words[at + 1..];
    while let [word, tail @ ..] = rest {
        let skipped = match *word {
            "root" => 0,
            "refcnt" | "parent" | "handle" => 1,
            handle if handle.ends_with(':') => 0,
            _ => break,
        };
        rest = tail.get(skipped..).unwrap_or_default();
    }
    Some((Owner { name, named: true }, rest))
}

/// The first setting of `words`, as it is written here, and what follows it.
fn take<'a, 'b>(owner: &str, words: &'b [&'a str]) -> Option<(String, &'b [&'a str])> {
    let (word, after) = words.split_first()?;
    if word.contains('=') {
        return pairs::readable(word).then(|| ((*word).to_owned(), after));
    }
    if let Some(setting) = hint::flag(owner, word) {
        return Some((setting, after));
    }
    let parameter = parameter(owner, word)?;
    let after = match after {
        ["distribution", rest @ ..] if parameter.name == "slot" => rest,
        _ => after,
    };
    let next = after.iter().position(|word| {
        word.contains('=') || parameter_of(owner, word) || hint::flag(owner, word).is_some()
    });
    let most = next.unwrap_or(after.len());
    (1..=most).rev().find_map(|count| {
        let (values, rest) = after.split_at(count);
        let bare = match (parameter.name, values) {
            (name @ ("limit" | "netem.limit"), [value]) => vec![limit(owner, name, value)],
            _ => Vec::new(),
        };
        let ways = pairs::candidates(parameter, values).into_iter().chain(bare);
        let setting = ways.into_iter().find(|text| pairs::readable(text))?;
        Some((setting, rest))
    })
}

/// A limit without a unit, which counts packets, with tbf bytes.
fn limit(owner: &str, name: &str, value: &str) -> String {
    format!("{name}={value}{}", if owner == "tbf" { "b" } else { "p" })
}

fn parameter_of(owner: &str, word: &str) -> bool {
    // Inside a list, a word of its own elsewhere: `reorder 25% gap 5`, `slot ... packets 3`.
    !["gap", "packets", "bytes"].contains(&word) && parameter(owner, word).is_some()
}

/// The parameter that the discipline's own word means.
fn parameter(owner: &str, word: &str) -> Option<&'static Parameter> {
    let synonym = match (owner, word) {
        ("tbf", "latency") => "limit",
        ("tbf", "minburst") => "mtu",
        (_, "buffer" | "maxburst") => "burst",
        (_, word) => word,
    };
    let own = format!("{owner}.{synonym}");
    let link = TABLES.iter().filter(|table| table.name.is_empty()).flat_map(|table| table.rows);
    Parameter::find(&own).or_else(|| link.into_iter().find(|row| row.name == synonym))
}

/// More than any line of `tc` has.
const MOST_WORDS: usize = 80;
