//! What a line asks for.

use punctual_sched::trace::TraceOptions;
use punctual_sched::words::nearest;
use punctual_sched::{ConfigError, LinkConfig, parameters};
use serde_json::Value;

use super::json::Json;
use crate::log::Direction;

/// A line of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// To be sent back with the answer.
    pub(super) id: Option<Value>,
    /// What to do, or why not.
    pub(super) verb: Result<Verb, ConfigError>,
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// Parameters that are to change, all at once.
    Set(Vec<Setting>),
    /// What is in force and has happened, in these directions.
    Show(Vec<Direction>),
    /// A trace that came with it, or none any more, in these directions.
    Follow(Vec<Direction>, Option<Box<TraceOptions>>),
}

/// One parameter's new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Where it was written: `up.rate`.
    pub(crate) place: String,
    /// Which directions it names.
    pub(crate) directions: &'static [Direction],
    /// The parameter's own name: `rate`.
    pub(crate) name: String,
    /// Its value, in the words of the command line.
    pub(crate) value: String,
}

impl Request {
    /// Reads a line without its end.
    pub(super) fn parse(line: &[u8]) -> Self {
        let refused = |problem| Self { id: None, verb: Err(ConfigError::new("request", problem)) };
        let text = match std::str::from_utf8(line) {
            Ok(text) => text,
            Err(error) => {
                return refused(format!("byte {} is no UTF-8", error.valid_up_to() + 1));
            }
        };
        match serde_json::from_str(text) {
            Ok(Json::Object(entries)) => Self::of(entries),
            Ok(other) => refused(format!("{}, expected an object: {EXAMPLE}", other.kind())),
            Err(error) => {
                let lead = if error.is_data() { "" } else { "cannot be read as JSON: " };
                // What serde_json says of a line is in line 1.
                refused(format!("{lead}{error}").replace("line 1 column", "column"))
            }
        }
    }

    fn of(entries: Vec<(String, Json)>) -> Self {
        let (ids, verbs): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(key, _)| key == "id");
        let id = match ids.into_iter().next().map(|(_, value)| id(value)).transpose() {
            Ok(id) => id,
            Err(error) => return Self { id: None, verb: Err(error) },
        };
        Self { id, verb: one_verb(verbs) }
    }
}

fn id(value: Json) -> Result<Value, ConfigError> {
    match value {
        Json::Text(text) if text.len() <= LONGEST_ID => Ok(text.into()),
        Json::Integer(number) => {
            let narrow = i64::try_from(number).map(Value::from);
            Ok(narrow.or_else(|_| u64::try_from(number).map(Value::from)).unwrap_or_default())
        }
        Json::Text(_) => Err(ConfigError::new("id", format!("longer than {LONGEST_ID} bytes"))),
        other => {
            let problem = format!("{}, expected a text or a whole number", other.kind());
            Err(ConfigError::new("id", problem))
        }
    }
}

fn one_verb(verbs: Vec<(String, Json)>) -> Result<Verb, ConfigError> {
    let refused = |problem| Err(ConfigError::new("request", problem));
    let mut verbs = verbs.into_iter();
    let Some((key, value)) = verbs.next() else {
        return refused(format!("asks for nothing, expected {EXAMPLE}"));
    };
    if let Some((other, _)) = verbs.next() {
        let (key, other) = (shown(&key), shown(&other));
        return refused(format!("asks for \"{key}\" and \"{other}\", expected one of them"));
    }
    match (key.as_str(), value) {
        ("set", Json::Object(entries)) => set(entries),
        ("show", Json::Object(entries)) => show(entries),
        ("follow", Json::Object(entries)) => follow(entries),
        (known @ ("set" | "show" | "follow"), value) => {
            Err(ConfigError::new(known, format!("{}, expected an object", value.kind())))
        }
        (other, _) => {
            let hint = match nearest(other, VERBS) {
                Some(verb) => format!("did you mean \"{verb}\"?"),
                None => format!("expected one of {}", VERBS.join(", ")),
            };
            refused(format!("unknown request \"{}\", {hint}", shown(other)))
        }
    }
}

fn set(entries: Vec<(String, Json)>) -> Result<Verb, ConfigError> {
    if entries.is_empty() {
        return Err(ConfigError::new("set", "names no parameter, such as \"up.rate\":\"10mbit\""));
    }
    let setting = |(key, value): (String, Json)| {
        let value = value_of(&key, value)?;
        Setting::new(&key, value)
    };
    entries.into_iter().map(setting).collect::<Result<_, _>>().map(Verb::Set)
}

fn show(entries: Vec<(String, Json)>) -> Result<Verb, ConfigError> {
    let mut directions = Direction::BOTH.to_vec();
    for (key, value) in entries {
        let place = format!("show.{}", shown(&key));
        match (key.as_str(), value) {
            ("direction", Json::Text(name)) => {
                directions = directions_of(&name, &place)?;
            }
            ("direction", other) => {
                return Err(ConfigError::new(place, format!("{}, expected a text", other.kind())));
            }
            _ => return Err(ConfigError::new(place, "unknown, expected \"direction\"")),
        }
    }
    Ok(Verb::Show(directions))
}

/// The `trace` parameters of links, by their names.
fn follow(entries: Vec<(String, Json)>) -> Result<Verb, ConfigError> {
    let (mut directions, mut config) = (None, LinkConfig::default());
    let mut named = false;
    for (key, value) in entries {
        let place = format!("follow.{}", shown(&key));
        let value = value_of(&place, value)?;
        if value.len() > LONGEST_NAME {
            return Err(ConfigError::new(place, format!("longer than {LONGEST_NAME} bytes")));
        }
        if value.chars().any(char::is_control) {
            return Err(ConfigError::new(place, "has control characters in it"));
        }
        match key.as_str() {
            "direction" => directions = Some(directions_of(&value, &place)?),
            known if known == "trace" || known.starts_with("trace.") => {
                named |= known == "trace";
                let set = config.set(known, &value);
                set.map_err(|error| ConfigError { place, ..error })?;
            }
            _ => {
                let expected = "unknown, expected \"direction\", \"trace\", \"trace.start\", ...";
                return Err(ConfigError::new(place, expected));
            }
        }
    }
    let missing = |name: &str, expected: &str| {
        Err(ConfigError::new(format!("follow.{name}"), format!("is missing, expected {expected}")))
    };
    let Some(directions) = directions else {
        return missing("direction", "\"up\", \"down\" or \"both\"");
    };
    if !named {
        return missing("trace", "the name of a trace, or \"none\" to stop");
    }
    let options = config.trace_options;
    Ok(Verb::Follow(directions, options.file.is_some().then(|| Box::new(options))))
}

fn value_of(place: &str, value: Json) -> Result<String, ConfigError> {
    match value {
        Json::Text(text) => Ok(text),
        Json::Integer(number) => Ok(number.to_string()),
        other => {
            let problem = format!("{}, expected a text or a whole number", other.kind());
            Err(ConfigError::new(shown(place), problem))
        }
    }
}

fn directions_of(name: &str, place: &str) -> Result<Vec<Direction>, ConfigError> {
    let known = DIRECTIONS.iter().find(|(known, _)| *known == name);
    let unknown = || ConfigError::new(place, "expected \"up\", \"down\" or \"both\"");
    Ok(known.ok_or_else(unknown)?.1.to_vec())
}

impl Setting {
    /// `up.rate` or `both.loss.at`, with its value.
    pub(crate) fn new(key: &str, value: String) -> Result<Self, ConfigError> {
        let refused = |problem| Err(ConfigError::new(shown(key), problem));
        let (direction, name) = key.split_once('.').unwrap_or((key, ""));
        let Some((_, directions)) = DIRECTIONS.iter().find(|(known, _)| *known == direction) else {
            return refused(misdirected(key));
        };
        if name.is_empty() {
            return refused(format!("names no parameter, expected {direction}.rate or another"));
        }
        Ok(Self { place: key.to_owned(), directions, name: name.to_owned(), value })
    }
}

/// What was meant by a key without a direction, or with something like one.
fn misdirected(key: &str) -> String {
    let known = |name: &str| parameters().any(|parameter| parameter.name == name);
    let near = |name: &str| nearest(name, parameters().map(|parameter| parameter.name));
    let (word, name) = key.split_once('.').unwrap_or((key, ""));
    let way = nearest(word, DIRECTIONS.map(|(way, _)| way)).filter(|_| !known(key));
    let meant = if known(name) { Some(name) } else { near(name) };
    if let (Some(way), Some(name)) = (way, meant) {
        return format!("names no direction, did you mean \"{way}.{name}\"?");
    }
    let name = if known(key) { key } else { near(key).or(meant).unwrap_or("rate") };
    format!("names no direction, expected up.{name}, down.{name} or both.{name}")
}

/// Of what a client wrote, as much as an answer repeats.
pub(super) fn shown(text: &str) -> String {
    if text.chars().nth(MOST_SHOWN).is_none() {
        return text.to_owned();
    }
    text.chars().take(MOST_SHOWN).chain("...".chars()).collect()
}

const DIRECTIONS: [(&str, &[Direction]); 3] =
    [("up", &[Direction::Up]), ("down", &[Direction::Down]), ("both", &Direction::BOTH)];
const VERBS: [&str; 3] = ["set", "show", "follow"];
const EXAMPLE: &str = "{\"set\":{\"up.rate\":\"10mbit\"}} or {\"show\":{}}";
/// Bytes of a file's name and of any other value of a trace: `PATH_MAX`.
const LONGEST_NAME: usize = 4_096;
/// Bytes of an id: more than any counter or UUID has.
const LONGEST_ID: usize = 256;
/// Characters.
const MOST_SHOWN: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        Request::parse(line.as_bytes()).verb.unwrap_err().to_string()
    }

    #[test]
    fn a_request_has_one_verb_and_maybe_an_id() {
        let request =
            Request::parse(br#"{"set":{"up.rate":"10mbit","both.loss.at":"after"},"id":7}"#);
        assert_eq!(request.id, Some(7.into()));
        let Ok(Verb::Set(settings)) = request.verb else { panic!("{request:?}") };
        let read: Vec<_> = settings.iter().map(|s| (s.directions, &*s.name, &*s.value)).collect();
        let up: &[Direction] = &[Direction::Up];
        assert_eq!(read, [(up, "rate", "10mbit"), (&Direction::BOTH, "loss.at", "after")]);
        let shown = Request::parse(br#" { "show" : {"direction":"down"} } "#);
        assert_eq!(shown, Request { id: None, verb: Ok(Verb::Show(vec![Direction::Down])) });
        let number = Request::parse(br#"{"set":{"up.rate":10000000},"id":"x"}"#);
        let Ok(Verb::Set(settings)) = number.verb else { panic!("{number:?}") };
        assert_eq!((number.id, &*settings[0].value), (Some("x".into()), "10000000"));
    }

    #[test]
    fn a_trace_to_follow_is_named_with_the_parameters_of_links() {
        let verb = |line: &str| Request::parse(line.as_bytes()).verb.unwrap();
        let line = r#"{"follow":{"direction":"up","trace":"a b","trace.loop":"yes",
            "trace.offset":"3s"}}"#;
        let Verb::Follow(directions, Some(options)) = verb(line) else { panic!() };
        assert_eq!(directions, [Direction::Up]);
        let expected = TraceOptions {
            file: Some("a b".into()),
            repeat: Some(true),
            offset: punctual_sched::Duration::from_secs(3),
            ..TraceOptions::default()
        };
        assert_eq!(*options, expected);
        let stop = verb(r#"{"follow":{"trace":"none","direction":"both"}}"#);
        assert_eq!(stop, Verb::Follow(Direction::BOTH.to_vec(), None));
    }

    #[test]
    fn what_is_no_request_is_told_with_its_place() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let deep_object = r#"{"set":"#.repeat(30_000);
        let wide = (0..2_000).map(|n| format!("\"k{n}\":1,")).collect::<Vec<_>>().concat();
        let wide = format!("{{{wide}\"k\":1}}");
        for (line, problem) in [
            ("x", "request: cannot be read as JSON: expected value at column 1"),
            ("{", "request: cannot be read as JSON: EOF while parsing an object at column 1"),
            ("{}", "request: asks for nothing, expected {\"set\""),
            ("[]", "request: a list, expected an object: {\"set\""),
            ("7", "request: a number, expected an object"),
            ("\"set\"", "request: a text, expected an object"),
            ("null", "request: null, expected an object"),
            ("{} {}", "request: cannot be read as JSON: trailing characters at column 4"),
            (r#"{"set":{}}"#, "set: names no parameter"),
            (r#"{"set":[]}"#, "set: a list, expected an object"),
            (r#"{"sett":{}}"#, "request: unknown request \"sett\", did you mean \"set\"?"),
            (r#"{"x":{}}"#, "request: unknown request \"x\", expected one of set, show, follow"),
            (r#"{"set":{"up.rate":"1"},"show":{}}"#, "request: asks for \"set\" and \"show\""),
            (r#"{"set":{"up.rate":1.5}}"#, "up.rate: a fraction, expected a text or a whole"),
            (r#"{"set":{"up.rate":null}}"#, "up.rate: null, expected a text"),
            (r#"{"set":{"up.rate":{"a":1}}}"#, "up.rate: an object, expected a text"),
            (r#"{"set":{"rate":"1"}}"#, "rate: names no direction, expected up.rate, down.rate or"),
            (r#"{"set":{"up":"1"}}"#, "up: names no parameter, expected up.rate"),
            (r#"{"set":{"up.rate":1,"up.rate":2}}"#, "request: the key \"up.rate\" is there twice"),
            (r#"{"show":{"direction":"left"}}"#, "show.direction: expected \"up\""),
            (r#"{"show":{"direction":1}}"#, "show.direction: a number, expected a text"),
            (r#"{"show":{"way":1}}"#, "show.way: unknown, expected \"direction\""),
            (r#"{"follow":{}}"#, "follow.direction: is missing, expected \"up\""),
            (r#"{"follow":{"direction":"up"}}"#, "follow.trace: is missing, expected the name"),
            (
                r#"{"follow":{"direction":"up","trace":"a\u001b[31m"}}"#,
                "follow.trace: has control characters in it",
            ),
            (r#"{"follow":{"direction":"left"}}"#, "follow.direction: expected \"up\""),
            (r#"{"follow":{"trace":[]}}"#, "follow.trace: a list, expected a text"),
            (r#"{"follow":{"trace":""}}"#, "follow.trace: nothing given"),
            (r#"{"follow":{"trace.loop":"x"}}"#, "follow.trace.loop: unknown word \"x\""),
            (r#"{"follow":{"trace.lop":"x"}}"#, "follow.trace.lop: unknown parameter"),
            (r#"{"follow":{"rate":1}}"#, "follow.rate: unknown, expected \"direction\""),
            (r#"{"follow":7}"#, "follow: a number, expected an object"),
            (r#"{"show":{},"id":[]}"#, "id: a list, expected a text or a whole number"),
            (r#"{"show":{},"id":1.5}"#, "id: a fraction"),
            (r#"{"show":{},"id":-9223372036854775809}"#, "id: a number out of range"),
            (r#"{"set":{"up.rate":18446744073709551616}}"#, "up.rate: a number out of range"),
            (r#"{"show":{},"id":1e999}"#, "request: cannot be read as JSON: number out of range"),
            (&deep, "request: a list, expected an object"),
            (&deep_object, "request: cannot be read as JSON: recursion limit exceeded at column"),
            (&wide, "request: an object of more than 1000 keys"),
        ] {
            let told = refused(line);
            assert!(told.starts_with(problem), "{:?}: {told:?}", shown(line));
            assert!(told.len() < 300, "{told}");
        }
        let binary = Request::parse(b"{\"set\":{\"up.rate\":\"\xff\x00\"}}").verb.unwrap_err();
        assert_eq!(binary.to_string(), "request: byte 20 is no UTF-8");
    }

    #[test]
    fn a_key_with_something_like_a_direction_is_told_the_one_that_was_meant() {
        for (key, told) in [
            ("uq.rate", "did you mean \"up.rate\"?"),
            ("UP.rate", "did you mean \"up.rate\"?"),
            ("Down.loss.at", "did you mean \"down.loss.at\"?"),
            ("bot.raet", "did you mean \"both.rate\"?"),
            ("left.rate", "expected up.rate, down.rate or both.rate"),
            ("loss.at", "expected up.loss.at, down.loss.at or both.loss.at"),
            ("fq.quantom", "expected up.fq.quantum, down.fq.quantum or both.fq.quantum"),
            ("wrong", "expected up.rate, down.rate or both.rate"),
        ] {
            let error = Setting::new(key, "1".to_owned()).unwrap_err();
            let problem = format!("names no direction, {told}");
            assert_eq!((&*error.place, error.problem), (key, problem));
        }
    }

    #[test]
    fn an_id_is_sent_back_also_with_a_refusal() {
        for (line, id) in [
            (r#"{"id":18446744073709551615,"set":{}}"#, Value::from(u64::MAX)),
            (r#"{"id":-9223372036854775808}"#, Value::from(i64::MIN)),
            (r#"{"x":1,"id":"a b"}"#, "a b".into()),
        ] {
            let request = Request::parse(line.as_bytes());
            assert!(request.verb.is_err());
            assert_eq!(request.id, Some(id));
        }
    }
}
