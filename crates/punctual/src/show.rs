//! `punctual show`: what is in force in a running link and has happened so far.

use clap::{Args, ValueEnum};
use punctual_measure::units::{cut, duration, visible};
use punctual_sched::parameters;
use serde_json::{Value, json};

use crate::control::runs;
use crate::failure::Failure;
use crate::output::print;

/// `punctual show`
#[derive(Args, Debug)]
pub struct ShowOptions {
    /// Name of the run (default: the one inside which this is, else the only one there is)
    pub name: Option<String>,
    /// Direction to show (default: both)
    #[arg(value_enum)]
    pub direction: Option<Way>,
    /// Print one JSON object, with the names of the report
    #[arg(long)]
    pub json: bool,
}

/// Which links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// From the command to the peer.
    Up,
    /// From the peer to the command.
    Down,
    /// The two of them.
    Both,
}

impl Way {
    /// As the control socket takes it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Both => "both",
        }
    }
}

/// Prints it.
pub fn run(options: &ShowOptions) -> Result<u8, Failure> {
    let (name, direction) = options.name_and_direction();
    let run = runs::find(name)?;
    let direction = direction.unwrap_or(Way::Both).word();
    let request = json!({ "show": { "direction": direction } });
    let answer = runs::connect(&run)?.ask(&request).map_err(|error| run.failed(&error))?;
    if answer["ok"] != true {
        return Err(run.declined(&answer));
    }
    let text = if options.json { format!("{answer}\n") } else { shown(&answer) };
    print(text)?;
    Ok(0)
}

impl ShowOptions {
    /// A single word that is a direction is none of a run.
    fn name_and_direction(&self) -> (Option<&str>, Option<Way>) {
        let name = self.name.as_deref();
        match name.and_then(|name| Way::from_str(name, false).ok()) {
            Some(way) if self.direction.is_none() => (None, Some(way)),
            _ => (name, self.direction),
        }
    }
}

fn shown(answer: &Value) -> String {
    let mut lines = vec![heading(&answer["run"])];
    for name in ["up", "down"] {
        let Some(direction) = answer["directions"].get(name) else { continue };
        let queue = direction["queue"]["text"].as_array().into_iter().flatten();
        let queue = queue.filter_map(Value::as_str);
        lines.extend(queue.enumerate().map(|(number, line)| match number {
            0 => format!("{name}: {line}"),
            _ => line.to_owned(),
        }));
        lines.extend(trace(direction));
        lines.extend(wrapped(" link", &link(direction)));
    }
    lines.iter().map(|line| visible(line) + "\n").collect()
}

/// What is followed, where in it the link is, and what became of its opportunities.
fn trace(direction: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let trace = &direction["trace"];
    if let Some(text) = trace["text"].as_str() {
        let nanos = |name: &str| duration(trace[name].as_i64().unwrap_or(0));
        let (at, span) = (nanos("at_ns"), nanos("span_ns"));
        let place = match trace["state"].as_str() {
            Some("waiting") => format!("waits for the first packet at {at}"),
            Some("ended") => "has ended".to_owned(),
            _ if trace["repeats"] == true => {
                format!("at {at} of {span} in round {}", trace["rounds"].as_u64().unwrap_or(0) + 1)
            }
            _ => format!("at {at} of {span}"),
        };
        lines.push(format!(" trace {text}: {place}"));
    }
    let opportunities = &direction["opportunities"];
    if let Some((used, wasted)) =
        opportunities["used"].as_u64().zip(opportunities["wasted"].as_u64())
    {
        lines.push(format!(" opportunities {used} used, {wasted} wasted"));
    }
    lines
}

/// `lab: pid 4242, 12.3 s: sh -c ...`, in one line
pub(crate) fn heading(run: &Value) -> String {
    let words = run["command"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let command: Vec<_> = words.collect();
    let age = duration(run["elapsed_ns"].as_i64().unwrap_or(0));
    let name = run["name"].as_str().unwrap_or_default();
    cut(&visible(&format!("{name}: pid {}, {age}: {}", run["pid"], command.join(" "))), COLUMNS)
}

/// Every parameter in force, as `run` and `set` take them, in the order of the help.
fn link(direction: &Value) -> Vec<String> {
    let entries = direction["link"].as_object().into_iter().flatten();
    words(entries.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))))
}

/// `NAME=VALUE` each, in the order of the help.
pub(crate) fn words<'a>(entries: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_key(|(name, _)| {
        // What this version does not know comes last.
        parameters().position(|parameter| parameter.name == *name).unwrap_or(usize::MAX)
    });
    entries.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// Words in lines of at most [`COLUMNS`], the first after `lead`.
fn wrapped(lead: &str, words: &[String]) -> Vec<String> {
    let mut lines = vec![lead.to_owned()];
    for word in words {
        let last = lines.last_mut().expect("there is one from the start");
        if last.chars().count() + 1 + word.chars().count() > COLUMNS && last.trim() != "" {
            lines.push(format!("  {word}"));
        } else {
            last.push(' ');
            last.push_str(word);
        }
    }
    lines
}

const COLUMNS: usize = 100;
