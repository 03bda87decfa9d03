//! The two directions' links, from the file and the command line.

use std::fs;
use std::io::Read;
use std::path::Path;

use punctual_sched::LinkConfig;
use punctual_sched::config::QueueKind;
use punctual_sched::parameter::ConfigBuilder;
use punctual_sched::queue::jens::UserBy;

use super::inputs::Inputs;
use super::{tables, traces};
use crate::cli::RunOptions;
use crate::failure::Failure;
use crate::log::Direction;

/// Links from the command to the peer and back.
#[derive(Clone, Debug)]
pub(super) struct Links {
    /// From the command to the peer.
    pub up: LinkConfig,
    /// From the peer to the command.
    pub down: LinkConfig,
    /// What to beware of in the traces that they follow, each once.
    pub warnings: Vec<String>,
    /// The files that they are from.
    pub inputs: Inputs,
}

impl Links {
    /// Applies, each over the one before: the file's `[both]` and then the direction's own
    /// table, `--both`, `--up` or `--down`. `hold` is the memory in bytes for packets on their
    /// way where nobody asks for another.
    pub(super) fn from_options(options: &RunOptions, hold: u64) -> Result<Self, Failure> {
        let file = match &options.config {
            Some(path) => File::read(path)?,
            None => File::default(),
        };
        let mut inputs = Inputs::default();
        if let Some(path) = &options.config {
            inputs.note("--config", path);
        }
        let mut sources = Sources { options, file: &file, hold, warnings: Vec::new(), inputs };
        let up = sources.link(Direction::Up)?;
        let down = sources.link(Direction::Down)?;
        sources.inputs.note_stdin();
        Ok(Self { up, down, warnings: sources.warnings, inputs: sources.inputs })
    }
}

/// What the links are made from, and what was found on the way.
struct Sources<'a> {
    options: &'a RunOptions,
    file: &'a File,
    hold: u64,
    warnings: Vec<String>,
    inputs: Inputs,
}

impl Sources<'_> {
    fn link(&mut self, direction: Direction) -> Result<LinkConfig, Failure> {
        let (option, text, table) = match direction {
            Direction::Up => ("--up", &self.options.up, &self.file.up),
            Direction::Down => ("--down", &self.options.down, &self.file.down),
        };
        let mut builder = ConfigBuilder::default();
        builder.set("hold", &self.hold.to_string(), "default").map_err(Failure::usage)?;
        // Whose the trace is.
        let mut source = (None, String::new());
        let mut note_source = |builder: &ConfigBuilder, place: &dyn Fn() -> String| {
            let file = &builder.config().trace_options.file;
            if *file != source.0 {
                source = (file.clone(), place());
            }
        };
        for (place, name, value) in self.file.both.iter().chain(table) {
            let written = tables::value_of(name, value)
                .map_err(|error| Failure::usage(error.within(place)))?;
            builder.set(name, &written, place).map_err(Failure::usage)?;
            let place = || format!("--config: {place}");
            self.inputs.note_table(&place(), name, value);
            note_source(&builder, &place);
        }
        for (option, text) in [("--both", &self.options.both), (option, text)] {
            let Some(text) = text else { continue };
            let written =
                tables::words(text).map_err(|error| Failure::usage(error.within(option)))?;
            builder.words(&written, option).map_err(Failure::usage)?;
            for (name, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
                self.inputs.note_table(option, name, value);
            }
            note_source(&builder, &|| option.to_owned());
        }
        let warned = traces::follow(&mut builder, direction, option)?;
        // `-` is standard input.
        if let (Some(file), place) = (source.0.as_deref().filter(|file| *file != "-"), source.1) {
            self.inputs.note(format!("{place}: trace"), file);
        }
        for warning in warned {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        let config = builder.finish().map_err(Failure::usage)?;
        check_users(option, &config).map(|()| config)
    }
}

fn check_users(option: &str, config: &LinkConfig) -> Result<(), Failure> {
    let refused = |problem| Err(Failure::usage(format!("{option}: jens.user: {problem}")));
    users_by_mark(config).map_or(Ok(()), refused)
}

/// A packet that crosses namespaces loses its mark: here nobody's user can be read from it. What is
/// wrong with a link that would.
pub(super) fn users_by_mark(config: &LinkConfig) -> Option<&'static str> {
    let jens = config.queue == QueueKind::Jens && config.jens.users > 1;
    (jens && config.jens.user_by == UserBy::Mark).then_some(
        "mark, its default, tells no users apart here, as no mark survives up to this link; \
         expected source, destination, sport, dport or dscp",
    )
}

impl Links {
    /// The link of one direction.
    pub(super) fn of(&self, direction: Direction) -> &LinkConfig {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

/// Place (for errors), dotted name, value.
type Table = Vec<(String, String, String)>;

#[derive(Debug, Default)]
struct File {
    both: Table,
    up: Table,
    down: Table,
}

impl File {
    fn read(path: &Path) -> Result<Self, Failure> {
        let name = path.display();
        let mut text = String::new();
        fs::File::open(path)
            .and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text))
            .map_err(|error| Failure::usage(format!("--config: cannot read {name}: {error}")))?;
        if text.len() as u64 > LONGEST {
            return Err(Failure::usage(format!(
                "--config: {name} is larger than 1 MB: no file of link parameters"
            )));
        }
        let root: toml::Table = text
            .parse()
            .map_err(|error| Failure::usage(format!("{name}: {}", in_one_line(&text, &error))))?;
        let mut file = Self::default();
        for (key, value) in root {
            let table = match key.as_str() {
                "both" => &mut file.both,
                "up" => &mut file.up,
                "down" => &mut file.down,
                other => {
                    return Err(Failure::usage(format!(
                        "{name}: unknown table \"{other}\", expected [both], [up] or [down]"
                    )));
                }
            };
            let toml::Value::Table(values) = value else {
                return Err(Failure::usage(format!("{name}: \"{key}\" is not a table: [{key}]")));
            };
            flatten(&format!("{name}: {key}"), "", values, table)?;
        }
        Ok(file)
    }
}

/// `Display` draws the place over five lines.
fn in_one_line(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let number = before.matches('\n').count();
    let line = text.lines().nth(number).unwrap_or_default().trim();
    let cut = line.char_indices().nth(LONGEST_ECHO).map(|(at, _)| format!("{}...", &line[..at]));
    let shown = cut.as_deref().unwrap_or(line);
    let message = error.message().replace('\n', ", ");
    // TOML takes `loss.at` for an entry of a table `loss`, which there cannot be beside a value.
    let nested = text.lines().any(|line| {
        let line = line.trim_start();
        line.starts_with("loss.at") || line.starts_with('[') && line.contains(".loss]")
    });
    let remedy =
        if nested && line.contains("loss") { "; quote \"loss.at\" beside loss" } else { "" };
    format!("line {}: `{shown}`: {message}{remedy}", number + 1)
}

/// Dotted names from nested tables: `[up.loss] at = "before"` is `loss.at` of up.
fn flatten(
    place: &str,
    prefix: &str,
    values: toml::Table,
    into: &mut Table,
) -> Result<(), Failure> {
    for (key, value) in values {
        let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        let text = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(on) => on.to_string(),
            toml::Value::Float(number) if number.is_finite() => number.to_string(),
            toml::Value::Table(inner) => {
                flatten(place, &name, inner, into)?;
                continue;
            }
            other => {
                return Err(Failure::usage(format!(
                    "{place}.{name}: {} is no value here, expected text such as \"30ms\" or a number",
                    kind(&other)
                )));
            }
        };
        into.push((place.to_owned(), name, text));
    }
    Ok(())
}

/// What is no value, in words.
fn kind(value: &toml::Value) -> &'static str {
    match value {
        toml::Value::Array(_) => "an array",
        toml::Value::Datetime(_) => "a date",
        toml::Value::Float(_) => "a float that is not finite",
        toml::Value::Boolean(_)
        | toml::Value::Integer(_)
        | toml::Value::String(_)
        | toml::Value::Table(_) => "this",
    }
}

/// Characters of a line that is not understood.
const LONGEST_ECHO: usize = 60;
/// Of a file with parameters, bytes: a thousand times what one takes.
const LONGEST: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_sched::config::LossAt;
    use punctual_sched::{Duration, Rate};

    fn options(both: &str, up: &str) -> RunOptions {
        RunOptions { both: Some(both.to_owned()), up: Some(up.to_owned()), ..RunOptions::default() }
    }

    fn with_file(name: &str, text: &str) -> Result<Links, Failure> {
        let path =
            std::env::temp_dir().join(format!("punctual-{}-{name}.toml", std::process::id()));
        fs::write(&path, text).unwrap();
        let options = RunOptions { config: Some(path.clone()), ..options("rate=5mbit", "") };
        let links = Links::from_options(&options, 1 << 20);
        fs::remove_file(path).unwrap();
        links
    }

    fn rate(bps: u64) -> Rate {
        Rate::from_bps(bps).unwrap()
    }

    #[test]
    fn a_direction_overrides_both_parameter_by_parameter() {
        let links = Links::from_options(&options("rate=20mbit delay=30ms", "rate=1mbit"), 1 << 20);
        let links = links.unwrap();
        assert_eq!(links.up.rate, rate(1_000_000));
        assert_eq!(links.up.delay, Duration::from_millis(30));
        assert_eq!(links.down.rate, rate(20_000_000));
        assert_eq!(links.down.hold_limit, 1 << 20);
    }

    #[test]
    fn a_switch_in_a_file_may_be_true_or_false() {
        let links = with_file(
            "on",
            "[up]\nqueue=\"codel\"\ncodel.ecn=true\n\"loss.at\"=\"before\"\nloss=1\n",
        );
        assert!(links.unwrap().up.codel.ecn);
    }

    #[test]
    fn a_file_is_overridden_by_options_and_knows_nested_tables() {
        let text =
            "[both]\nrate = 1000000\ndelay = \"7ms\"\nloss = 0.5\n[up.loss]\nat = \"before\"\n";
        let links = with_file("good", text).unwrap();
        assert_eq!(links.down.loss.expected_ppm(), 5_000);
        assert_eq!(links.up.rate, rate(5_000_000));
        assert_eq!((links.up.loss_at, links.down.loss_at), (LossAt::Before, LossAt::After));
        assert_eq!(links.down.delay, Duration::from_millis(7));
    }

    #[test]
    fn a_bad_file_is_named_with_the_place() {
        for (text, expected) in [
            ("[side]\nrate=1\n", "unknown table \"side\""),
            ("[up]\ndelay=30\n", "up.delay"),
            ("[up]\nrate=1.5\n", "\"1.5\" is no whole number of 1bit"),
            ("[up]\nloss=nan\n", "up.loss: a float that is not finite is no value here"),
            ("[up]\nloss=[1]\n", "up.loss: an array is no value here"),
            ("[up.loss]\nat=\"before\"\n", "up.loss.at: needs loss=PERCENT"),
            ("rate=1\n", "unknown table \"rate\""),
            ("[up\n", "line 1: "),
            ("[up]\nloss = \"1%\"\nloss.at = \"before\"\n", "; quote \"loss.at\" beside loss"),
            ("[up]\nloss.at = \"before\"\nloss = \"1%\"\n", "; quote \"loss.at\" beside loss"),
            ("[up]\nloss = 1\n[up.loss]\nat = \"before\"\n", "; quote \"loss.at\" beside loss"),
            ("[up]\ndelay = [1]\n", "an array is no value here"),
            ("[up]\nqueue = \"codel\"\ncodel.ecn = 1\n", "expected one of on, off"),
            ("[up]\njens.users = 2\nqueue = \"jens\"\n", "tells no users apart here"),
        ] {
            let error = with_file("bad", text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
