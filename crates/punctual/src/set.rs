//! `punctual set`: changes parameters of a running link.

use std::io::{BufRead, Read, stdin};

use clap::Args;
use punctual_sched::{ConfigError, LinkConfig};
use serde_json::{Map, Value, json};

use crate::control::{Client, RunPlace, Setting, runs};
use crate::failure::Failure;
use crate::output::print;
use crate::run::tables;

/// `punctual set`
#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub struct SetOptions {
    /// Name of the run (default: the one inside which this is, else the only one there is)
    pub name: Option<String>,
    /// Parameters with a direction before them, e.g. up.rate=10mbit both.loss=1%; `-` reads lines of
    /// them from standard input
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// With `-`: go on after a line that is refused
    #[arg(long)]
    pub force: bool,
    /// Print each answer as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Changes what is asked for, and says from when on it holds.
pub fn run(options: &SetOptions) -> Result<u8, Failure> {
    let (name, words) = options.name_and_words();
    if words.is_empty() {
        return Err(Failure::usage(format!("nothing to set: expected {EXAMPLE}")));
    }
    if words == ["-"] {
        let mut setter = Setter::connect(name, options.json)?;
        return from_lines(&mut setter, options.force, &mut stdin().lock());
    }
    let request = read(&words.join(" "))?;
    Setter::connect(name, options.json)?.set(&request)?;
    Ok(0)
}

impl SetOptions {
    /// A word that could be a parameter is none of a run: names have no `=`.
    fn name_and_words(&self) -> (Option<&str>, Vec<&str>) {
        let is_apart = self.settings.first().is_some_and(|next| next.starts_with('='));
        let is_name = |word: &&str| *word != "-" && !word.contains('=') && !is_apart;
        let mut words: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        let name = self.name.as_deref();
        if let Some(first) = name.filter(|word| !is_name(word)) {
            words.insert(0, first);
        }
        (name.filter(is_name), words)
    }
}

/// One change a line, each answered before the next is read; blank lines and those that begin with
/// `#` are passed over, as in `tc -batch`.
fn from_lines(setter: &mut Setter, force: bool, input: &mut dyn BufRead) -> Result<u8, Failure> {
    let mut status = 0;
    for number in 1.. {
        let mut line = Vec::new();
        let read = input.take(LONGEST_LINE).read_until(b'\n', &mut line);
        if read.map_err(|error| anyhow::anyhow!("cannot read standard input: {error}"))? == 0 {
            break;
        }
        let done = match std::str::from_utf8(&line).map(str::trim) {
            Ok("") => continue,
            Ok(text) if text.starts_with('#') => continue,
            Ok(text) => self::read(text).and_then(|request| setter.set(&request)),
            Err(_) => Err(Failure::usage("no UTF-8")),
        };
        match done.map_err(|failure| failure.at(&format!("line {number}"))) {
            Ok(()) => {}
            Err(failure) if force && !setter.lost => {
                crate::tell(&failure);
                status = if status == 0 { failure.status() } else { status };
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(status)
}

/// Words into a request. What is wrong with the words themselves is found here, and a run need not
/// be there for it.
fn read(text: &str) -> Result<Value, Failure> {
    let mut entries = Map::new();
    let words: Vec<_> = text.split_whitespace().collect();
    if let Some(meant) = words.windows(2).enumerate().find_map(|(at, _)| apart(&words[at..])) {
        let problem = format!("{meant}: write it without blanks around the \"=\"");
        return Err(Failure::usage(problem));
    }
    for word in words {
        let setting = setting(word).map_err(Failure::usage)?;
        if entries.contains_key(&setting.place) {
            return Err(Failure::usage(format!("{}: given twice", setting.place)));
        }
        entries.insert(setting.place, setting.value.into());
    }
    Ok(json!({ "set": entries }))
}

/// `up.rate=1mbit`, where words begin with it in two pieces or three.
fn apart(words: &[&str]) -> Option<String> {
    let (key, rest) = words.split_first()?;
    let (key, rest) = match key.strip_suffix('=') {
        Some(key) => (key, rest.first()?.trim_start_matches('=')),
        None if key.contains('=') => return None,
        None => match *rest {
            ["=", value, ..] => (*key, value),
            [value, ..] => (*key, value.strip_prefix('=')?),
            [] => return None,
        },
    };
    (!key.is_empty() && !rest.is_empty() && !rest.contains('=')).then(|| format!("{key}={rest}"))
}

fn setting(word: &str) -> Result<Setting, ConfigError> {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    let setting = Setting::new(key, value.to_owned())?;
    if value.is_empty() {
        return Err(ConfigError::new(key, format!("has no value, expected {EXAMPLE}")));
    }
    let placed = |error: ConfigError| ConfigError { place: key.to_owned(), ..error };
    let value = tables::value_of(&setting.name, value).map_err(placed)?;
    LinkConfig::default().set(&setting.name, &value).map_err(placed)?;
    Ok(Setting { value, ..setting })
}

/// A connection to the run that is to change.
struct Setter {
    run: RunPlace,
    client: Client,
    json: bool,
    /// The run does not answer any more.
    lost: bool,
}

impl Setter {
    fn connect(name: Option<&str>, json: bool) -> Result<Self, Failure> {
        let run = runs::find(name)?;
        let client = runs::connect(&run)?;
        Ok(Self { run, client, json, lost: false })
    }

    fn set(&mut self, request: &Value) -> Result<(), Failure> {
        let answer = self.client.ask(request).map_err(|error| {
            self.lost = true;
            self.run.failed(&error)
        })?;
        // At once, so that whoever waits for the answer to a line has it.
        if self.json {
            print(format!("{answer}\n"))?;
        }
        if answer["ok"] != true {
            return Err(self.run.declined(&answer));
        }
        if self.json { Ok(()) } else { print(applied(&answer) + "\n") }
    }
}

/// `up changed at 3.021456789 s, down as it was`
fn applied(answer: &Value) -> String {
    let directions = ["up", "down"].into_iter().filter_map(|name| {
        let applied = answer["applied"].get(name)?;
        if applied["changed"] == false {
            return Some(format!("{name} as it was"));
        }
        let nanos = applied["at_ns"].as_i64()?.unsigned_abs();
        let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        Some(format!("{name} changed at {seconds}.{rest:09} s"))
    });
    directions.collect::<Vec<_>>().join(", ")
}

const EXAMPLE: &str = "DIRECTION.PARAMETER=VALUE such as up.rate=10mbit";
/// Bytes: as the run takes.
const LONGEST_LINE: u64 = 640 << 10;

const HELP: &str = "\
PARAMETERS
  A key is DIRECTION.PARAMETER. DIRECTION is up, down or both; up and down
  override both. Parameters are those of `punctual run --both`; some can only be
  given at the start, and are refused by name. All that one command names
  changes at once, or nothing does. What is in force already is no change.

EXAMPLES
  punctual set lab up.rate=10mbit down.loss=gemodel,1%,10%,70%,0.1%
  punctual set both.rate=0                 the only run there is, or the one around it
  seq 1 100 | sed 's/.*/up.rate=&mbit/' | punctual set lab -

EXIT STATUS
  0 it holds; 1 the run refuses it, or is not there; 2 bad usage";

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> SetOptions {
        let mut words = words.iter().map(|word| (*word).to_owned());
        SetOptions { name: words.next(), settings: words.collect(), force: false, json: false }
    }

    #[test]
    fn the_name_may_be_left_out() {
        for (words, name, rest) in [
            (&["lab", "up.rate=1mbit"][..], Some("lab"), &["up.rate=1mbit"][..]),
            (&["up.rate=1mbit", "down.loss=1"], None, &["up.rate=1mbit", "down.loss=1"]),
            (&["-"], None, &["-"]),
            (&["lab", "-"], Some("lab"), &["-"]),
            (&["lab"], Some("lab"), &[]),
            (&["up.rate", "=", "1mbit"], None, &["up.rate", "=", "1mbit"]),
        ] {
            assert_eq!(options(words).name_and_words(), (name, rest.to_vec()));
        }
    }

    #[test]
    fn words_become_a_request_and_bad_ones_are_told_with_their_place() {
        let request = read("up.rate=10mbit  both.loss=gemodel,1%,10%,70%,0.1%").unwrap();
        let loss = "gemodel,1%,10%,70%,0.1%";
        assert_eq!(request, json!({ "set": { "up.rate": "10mbit", "both.loss": loss } }));
        for (words, problem) in [
            ("rate=1mbit", "rate: names no direction, expected up.rate, down.rate or both.rate"),
            ("up.dealy=1ms", "up.dealy: unknown parameter \"dealy\", did you mean \"delay\"?"),
            ("up.delay=1", "up.delay: \"1\" has no unit"),
            ("up.rate=1mbit up.rate=2mbit", "up.rate: given twice"),
            ("up.rate", "up.rate: has no value"),
            ("up.rate=", "up.rate: has no value"),
            ("=1", ": names no direction"),
            ("up.rate = 3mbit", "up.rate=3mbit: write it without blanks around the \"=\""),
            ("up.loss=1 up.rate =3mbit", "up.rate=3mbit: write it without blanks"),
            ("up.rate= 3mbit down.rate=1", "up.rate=3mbit: write it without blanks"),
            ("up.rate= down.rate=1", "up.rate: has no value"),
            ("3mbit", "3mbit: names no direction, expected up.rate, down.rate or both.rate"),
            ("up.distribution=/nowhere/at/all", "up.distribution: cannot read"),
        ] {
            let failure = read(words).unwrap_err();
            assert!(failure.to_string().starts_with(problem), "{failure}");
            assert_eq!(failure.status(), 2);
        }
    }

    #[test]
    fn an_answer_is_told_in_one_line() {
        let answer = json!({ "ok": true, "applied": {
            "down": { "at_ns": 5, "changed": false },
            "up": { "at_ns": 3_021_456_789_i64, "changed": true },
        }});
        assert_eq!(applied(&answer), "up changed at 3.021456789 s, down as it was");
    }
}
