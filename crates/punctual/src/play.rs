//! `punctual play`: has a running link follow a trace.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::Context;
use clap::{Args, ValueEnum};
use punctual_linux::memfd::SealedMemfd;
use punctual_measure::units::visible;
use punctual_sched::LinkConfig;
use serde_json::{Map, Value, json};

use crate::control::{Client, RunPlace, runs};
use crate::failure::Failure;
use crate::log::Direction;
use crate::mistake::equals;
use crate::output::{print, shown};
use crate::show::Way;
use crate::trace::options::HintOptions;
use crate::trace::{self, Hints, Missing, Read};

/// `punctual play`
#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub struct PlayOptions {
    /// Name of the run (default: the one inside which this is, else the only one there is)
    #[arg(value_name = "RUN")]
    pub run: Option<OsString>,
    /// Trace file; `-` is stdin
    #[arg(value_name = "TRACE")]
    pub file: Option<OsString>,
    /// Which link follows it
    #[arg(long, value_enum, default_value = "both")]
    pub direction: Way,
    /// Follow none any more; the link keeps the values that it has
    #[arg(long, conflicts_with_all = ["start", "repeat", "offset", "scale", "mode", "format", "unit",
          "packet", "seed"])]
    pub stop: bool,
    /// When it begins: with the first packet that comes (default), or now
    #[arg(long, value_enum)]
    pub start: Option<Start>,
    /// Begin anew at the end: yes, no, or auto, as the format means it (default)
    #[arg(long = "loop", value_name = "yes|no|auto", num_args = 0..=1, require_equals = true,
          default_missing_value = "yes")]
    pub repeat: Option<String>,
    /// Begin at this time of the trace, modulo its length
    #[arg(long, value_name = "TIME")]
    pub offset: Option<String>,
    /// Rates, or numbers of opportunities, times this
    #[arg(long, value_name = "FACTOR")]
    pub scale: Option<String>,
    /// Single deliveries as they are, or as the rates that carry as much
    #[arg(long, value_name = "exact|fluid")]
    pub mode: Option<String>,
    /// What the file does not say by itself.
    #[command(flatten)]
    pub hints: HintOptions,
    /// Print the answer as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `--start`: the words of `trace.start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Start {
    /// With the first packet that comes
    #[value(alias = "packet")]
    First,
    /// At once
    Now,
}

/// Hands the trace over, and says from when on it is followed.
pub fn run(options: &PlayOptions) -> Result<u8, Failure> {
    let (name, file) = options.name_and_file()?;
    let parts = match file {
        Some(file) => options.parts(file).map_err(|error| options.or_a_run(file, error))?,
        None => vec![Part { direction: options.direction, settings: stop(), read: None }],
    };
    let run = runs::find(name).map_err(|error| options.or_a_loop(error))?;
    let mut client = runs::connect(&run)?;
    for warning in warnings(&parts) {
        let file = file.map(shown).unwrap_or_default();
        crate::warn(format_args!("{file}: {warning}"));
    }
    let mut answer = Value::Null;
    for part in &parts {
        let next = part.ask(&run, &mut client)?;
        match (answer["applied"].as_object_mut(), next["applied"].as_object()) {
            (Some(applied), Some(more)) => applied.extend(more.clone()),
            _ => answer = next,
        }
    }
    let text = if options.json { answer.to_string() } else { told(&answer, file) };
    print(text + "\n")?;
    Ok(0)
}

impl PlayOptions {
    /// A single word is the trace, or, where there is none, the run.
    fn name_and_file(&self) -> Result<(Option<&str>, Option<&OsStr>), Failure> {
        let words = (self.run.as_deref(), self.file.as_deref());
        let (name, file) = match words {
            (name, None) if self.stop => (name, None),
            (_, Some(_)) if self.stop => {
                return Err(Failure::usage("--stop: follows no trace, expected none with it"));
            }
            (Some(file), None) => (None, Some(file)),
            (None, _) => return Err(Failure::usage("no trace: expected a file, or --stop")),
            (name, file) => (name, file),
        };
        if name.is_some_and(|name| name.to_str().is_none()) {
            return Err(Failure::usage("the name of the run is no UTF-8"));
        }
        Ok((name.and_then(OsStr::to_str), file))
    }

    /// The error about the trace, unless its word stands in the wrong place or, a single one, names a
    /// run and no file.
    fn or_a_run(&self, word: &OsStr, error: Failure) -> Failure {
        let first = self.run.as_deref().filter(|first| Path::new(first).is_file());
        if let (Some(_), Some(first), false) = (&self.file, first, Path::new(word).exists()) {
            let (run, file) = (word.display(), first.display());
            return Failure::usage(format!(
                "{error}; the run comes first: punctual play {run} {file}"
            ));
        }
        let is_run = || runs::all().iter().any(|run| *word == *run.name);
        if self.file.is_some() || Path::new(word).exists() || !is_run() {
            return error;
        }
        let run = word.display();
        Failure::usage(format!("{run} is a run, and what is it to play? {run} FILE, or --stop"))
    }

    /// The error about a run that is not there, unless its name was meant for `--loop`.
    fn or_a_loop(&self, error: Failure) -> Failure {
        let before = |word: &OsString| {
            let arguments: Vec<_> = std::env::args_os().collect();
            arguments.windows(2).any(|pair| pair[0] == "--loop" && pair[1] == *word)
        };
        match (&self.run, error) {
            (Some(word), Failure::Declined(problem)) if before(word) => {
                Failure::Usage(format!("{problem}; {}", equals("loop", "yes|no|auto")))
            }
            (_, error) => error,
        }
    }

    /// What to ask for: once, unless the file holds something else for each direction.
    fn parts(&self, file: &OsStr) -> Result<Vec<Part>, Failure> {
        let settings = self.settings()?;
        let part = |direction, read: Read| {
            let settings = settings.iter().cloned().chain(named(file, &read)).collect();
            Part { direction, settings, read: Some(read) }
        };
        let read = |direction| {
            let hints = Hints { direction, ..self.hints.hints() };
            trace::read(Path::new(file), &hints)
        };
        let found = match self.direction {
            Way::Up => read(Some(Direction::Up)),
            Way::Down => read(Some(Direction::Down)),
            Way::Both => read(None),
        };
        match found {
            Ok(found) => Ok(vec![part(self.direction, found)]),
            Err(error) if error.missing() == Some(Missing::Direction) && file != "-" => {
                let each = [(Way::Up, Direction::Up), (Way::Down, Direction::Down)];
                let each = each.map(|(way, direction)| Ok(part(way, read(Some(direction))?)));
                each.into_iter().collect::<Result<_, _>>().map_err(trace::options::unread)
            }
            Err(error) => Err(trace::options::unread(error)),
        }
    }

    /// Parameters of the link by their names; what is wrong with them is told as the option's.
    fn settings(&self) -> Result<Vec<(&'static str, String)>, Failure> {
        let start = self.start.map(|start| match start {
            Start::First => "first".to_owned(),
            Start::Now => "now".to_owned(),
        });
        let given = [
            ("trace.start", start),
            ("trace.loop", self.repeat.clone()),
            ("trace.offset", self.offset.clone()),
            ("trace.scale", self.scale.clone()),
            ("trace.mode", self.mode.clone()),
            ("trace.packet", Some(self.hints.packet.word().to_owned())),
            ("trace.unit", self.hints.unit.map(|unit| unit.word().to_owned())),
        ];
        let mut config = LinkConfig::default();
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let checked = given.map(|(name, value)| {
            config.set(name, &value).map_err(|error| {
                let option = name.trim_start_matches("trace.");
                Failure::usage(format!("--{option}: {}", error.problem))
            })?;
            Ok((name, value))
        });
        checked.collect()
    }
}

/// One request.
struct Part {
    direction: Way,
    settings: Vec<(&'static str, String)>,
    /// What the memfd is to hold.
    read: Option<Read>,
}

impl Part {
    fn ask(&self, run: &RunPlace, client: &mut Client) -> Result<Value, Failure> {
        let entries = self.settings.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
        let mut entries: Map<String, Value> = entries.collect();
        entries.insert("direction".to_owned(), self.direction.word().into());
        let request = json!({ "follow": entries });
        let memfd = self.read.as_ref().map(|read| {
            SealedMemfd::write("punctual-trace", |mut out| {
                trace::write(&mut out, &read.timeline, read.loops_by_nature)
            })
        });
        let memfd = memfd.transpose().context("cannot put the trace into memory")?;
        let answer = match &memfd {
            Some(trace) => client.ask_with(&request, trace),
            None => client.ask(&request),
        };
        let answer = answer.map_err(|error| run.failed(&error))?;
        if answer["ok"] == true { Ok(answer) } else { Err(run.declined(&answer)) }
    }
}

fn stop() -> Vec<(&'static str, String)> {
    vec![("trace", "none".to_owned())]
}

/// The trace as reports name it.
fn named(file: &OsStr, read: &Read) -> [(&'static str, String); 2] {
    let name = match shown(file) {
        // A word of the parameter.
        word if word == "none" || word == "off" => format!("./{word}"),
        name => name,
    };
    [("trace", name), ("trace.format", read.format.name())]
}

/// Each once.
fn warnings(parts: &[Part]) -> Vec<String> {
    let reads = parts.iter().filter_map(|part| part.read.as_ref());
    let mut seen = BTreeSet::new();
    reads.flat_map(trace::warnings).filter(|warning| seen.insert(warning.clone())).collect()
}

/// `up follows cell.up from 3.021456789 s, down as it was`
fn told(answer: &Value, file: Option<&OsStr>) -> String {
    let directions = ["up", "down"].into_iter().filter_map(|name| {
        let applied = answer["applied"].get(name)?;
        if applied["changed"] == false {
            return Some(format!("{name} followed none"));
        }
        let nanos = applied["at_ns"].as_i64()?.unsigned_abs();
        let at = format!("{}.{:09} s", nanos / 1_000_000_000, nanos % 1_000_000_000);
        Some(match file {
            Some(file) => format!("{name} follows {} from {at} on", shown(file)),
            None => format!("{name} follows none from {at} on"),
        })
    });
    visible(&directions.collect::<Vec<_>>().join(", "))
}

const HELP: &str = "\
A trace says what a link does over time: its rate, its delay, its loss, any
subset, or the opportunities of Mahimahi's packet traces. What its steps set takes
the place of what is in force, at their own times; all else stays. Formats and
what to know of them: punctual trace check --help.

While a trace is followed, punctual set lasts until the next step. A trace that
the link cannot follow, such as single deliveries beside queue=tbf, is refused
by name and changes nothing. With --direction both and a file that holds both
directions each link follows its own.

EXAMPLES
  punctual play lab --direction down --start now Verizon-LTE-short.down
  punctual play lab --unit mbit --loop --scale 0.5 cooked.txt
  punctual trace make sine --low 1mbit --high 9mbit --period 10s | punctual play -
  punctual play lab --stop

EXIT STATUS
  0 it is followed; 1 the run refuses it, or is not there; 2 bad usage, or a file
  that is no trace";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: PlayOptions,
    }

    fn options(words: &[&str]) -> PlayOptions {
        Line::try_parse_from([&["play"], words].concat()).unwrap().options
    }

    #[test]
    fn what_both_directions_are_warned_of_is_told_once() {
        let name = format!("punctual-play-warnings-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let log = "0 0 59.8 10.7 120000 1000\n1 1000 59.8 10.7 248069 1000\n";
        std::fs::write(&path, log).unwrap();
        let hints = Hints { format: Some("hsdpa".parse().unwrap()), ..Hints::default() };
        let part = |direction| {
            let read = trace::read(&path, &hints).unwrap();
            Part { direction, settings: Vec::new(), read: Some(read) }
        };
        let told = warnings(&[part(Way::Up), part(Way::Down)]);
        assert_eq!(told.len(), 2, "{told:?}");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_single_word_is_the_trace_or_the_run_that_is_to_stop() {
        for (words, name, file) in [
            (&["cell.up"][..], None, Some("cell.up")),
            (&["lab", "cell.up"], Some("lab"), Some("cell.up")),
            (&["-"], None, Some("-")),
            (&["--stop"], None, None),
            (&["lab", "--stop"], Some("lab"), None),
        ] {
            let options = options(words);
            let (found, path) = options.name_and_file().unwrap();
            assert_eq!((found, path.and_then(OsStr::to_str)), (name, file), "{words:?}");
        }
        for words in [&[][..], &["lab", "cell.up", "--stop"]] {
            assert_eq!(options(words).name_and_file().unwrap_err().status(), 2, "{words:?}");
        }
        assert!(Line::try_parse_from(["play", "--stop", "--scale", "2"]).is_err());
    }

    #[test]
    fn options_are_the_parameters_of_links() {
        let words = "x --loop --offset 3s --scale=0.5 --start packet --unit mbit";
        let words: Vec<_> = words.split(' ').collect();
        let settings = options(&words).settings().unwrap();
        let expected = [
            ("trace.start", "first"),
            ("trace.loop", "yes"),
            ("trace.offset", "3s"),
            ("trace.scale", "0.5"),
            ("trace.packet", "1504"),
            ("trace.unit", "mbit"),
        ];
        assert_eq!(settings, expected.map(|(name, value)| (name, value.to_owned())));
        assert_eq!(options(&["--start=first", "x"]).start, Some(Start::First));
        assert_eq!(options(&["--loop", "x"]).file, None, "a value needs its =");
        for (words, told) in [
            (&["x", "--loop=maybe"][..], "--loop: unknown word \"maybe\", expected one of"),
            (&["x", "--offset", "3"], "--offset: \"3\" has no unit"),
            (&["x", "--scale", "0"], "--scale: \"0\" is less than"),
            (&["x", "--mode", "fluent"], "--mode: unknown word \"fluent\", expected one of"),
        ] {
            let failure = options(words).settings().unwrap_err().to_string();
            assert!(failure.starts_with(told), "{failure}");
        }
    }

    #[test]
    fn a_file_that_holds_both_directions_is_read_for_each() {
        let path = std::env::temp_dir().join(format!("punctual-{}-play", std::process::id()));
        let header = "timestamp,rtt,uplink,downlink\n";
        let lines = "1705744800526626141,120.1,72.4,47.6\n1705744800626626141,120.1,70.4,49.6\n";
        std::fs::write(&path, format!("{header}{lines}")).unwrap();
        let file = path.to_str().unwrap();
        let ways = |words: &[&str]| {
            let options = options(words);
            let parts = options.parts(path.as_os_str()).unwrap();
            parts.iter().map(|part| part.direction).collect::<Vec<_>>()
        };
        assert_eq!(ways(&[file]), [Way::Up, Way::Down]);
        assert_eq!(ways(&[file, "--direction", "down"]), [Way::Down]);
        std::fs::write(&path, "7\n8\n").unwrap();
        assert_eq!(ways(&[file]), [Way::Both]);
        std::fs::remove_file(&path).unwrap();
        let missing = options(&[file]).parts(path.as_os_str()).err().unwrap();
        assert_eq!(missing.status(), 2);
    }

    #[test]
    fn an_answer_is_told_in_one_line() {
        let answer = json!({ "ok": true, "applied": {
            "up": { "at_ns": 3_021_456_789_i64, "changed": true },
            "down": { "at_ns": 3_021_456_790_i64, "changed": true },
        }});
        let line = "up follows cell from 3.021456789 s on, down follows cell from 3.021456790 s on";
        assert_eq!(told(&answer, Some("cell".as_ref())), line);
        let answer = json!({ "applied": {
            "up": { "at_ns": 5, "changed": true }, "down": { "at_ns": 6, "changed": false },
        }});
        assert_eq!(
            told(&answer, None),
            "up follows none from 0.000000005 s on, down followed none"
        );
    }
}
