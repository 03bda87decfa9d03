//! What the control socket does for its clients: reads requests, changes and shows the links.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;

use punctual_measure::report;
use punctual_sched::trace::{Trace, TraceOptions};
use punctual_sched::{Change, ConfigError, Instant, LinkConfig};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::bell::Bell;
use super::connection::Answers;
use super::handed::{self, Reader, Reading};
use super::request::{Request, Setting, Verb, shown};
use crate::log::Direction;

/// The two links of a run, which are driven elsewhere.
pub(crate) trait Links {
    /// Changes one, all that `change` names at once; asked for at `asked`.
    fn change(
        &self,
        direction: Direction,
        change: &Change,
        asked: Instant,
    ) -> Result<Applied, Refused>;

    /// Has one follow a trace, with the parameters by which it was asked for, or none any more.
    fn follow(
        &self,
        direction: Direction,
        trace: Option<(TraceOptions, Trace)>,
        asked: Instant,
    ) -> Result<Applied, Refused>;

    /// Refuses parameters, valid ones, that this run cannot carry out.
    fn permits(&self, direction: Direction, config: &LinkConfig) -> Result<(), ConfigError>;

    /// The parameters in force in one.
    fn config(&self, direction: Direction) -> Result<LinkConfig, Refused>;

    /// All of one.
    fn show(&self, direction: Direction) -> Result<Shown, Refused>;
}

/// A change that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    /// From this event time on; where nothing changed, when that was seen.
    pub(crate) at: Instant,
    /// Whether a value is another one now.
    pub(crate) changed: bool,
}

/// Why a link was not changed or shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The configuration that would come of it cannot be.
    Config(ConfigError),
    /// The link does not answer, or is no more. In words.
    Link(String),
}

/// One direction as `show` has it: the report's names.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Shown {
    /// Every parameter in force.
    pub(crate) link: BTreeMap<String, String>,
    /// `split` or `keep`.
    pub(crate) gso: String,
    /// The discipline, its counters, and both as `tc` prints them.
    pub(crate) queue: report::Queue,
    /// In the queue and in service now.
    pub(crate) backlog: Backlog,
    /// Fates so far.
    pub(crate) packets: report::Packets,
    /// Their sizes.
    pub(crate) bytes: report::Bytes,
    /// What the impairments have done so far.
    pub(crate) impairments: report::Impairments,
    /// The trace that it follows.
    pub(crate) trace: Option<report::FollowedTrace>,
    /// Opportunities of traces with single deliveries so far.
    pub(crate) opportunities: Option<report::Opportunities>,
}

/// What waits in a queue.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Backlog {
    /// Wire packets.
    pub(crate) packets: u64,
    /// As the rate counts them.
    pub(crate) bytes: u64,
}

/// Which run it is.
#[derive(Clone, Debug)]
pub(crate) struct RunFacts {
    name: String,
    command: Vec<String>,
    started_unix_ns: i64,
    start: Instant,
}

impl RunFacts {
    /// The run of `command` that is called `name` and began `started_unix_ns` after 1970, at `start`
    /// by the monotonic clock.
    pub(crate) fn new(
        name: &str,
        command: &[OsString],
        started_unix_ns: i64,
        start: Instant,
    ) -> Self {
        let command = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Self { name: name.to_owned(), command, started_unix_ns, start }
    }
}

/// Answers requests about one run.
#[derive(Debug)]
pub(crate) struct Service<L> {
    run: RunFacts,
    links: L,
    reader: Reader,
    /// Parameters as they were last seen, up first. They can have changed since by another way than
    /// the socket; the link itself checks every change again.
    known: [Option<LinkConfig>; 2],
}

impl<L: Links> Service<L> {
    /// A service for the links of a run, which rings `bell` when a pending answer is over.
    pub(crate) fn new(run: RunFacts, links: L, bell: Bell) -> Self {
        Self { run, links, reader: Reader::new(bell), known: [None, None] }
    }

    fn carry_out(
        &mut self,
        verb: Verb,
        fds: Vec<OwnedFd>,
        asked: Instant,
    ) -> Result<Done, ConfigError> {
        if let Verb::Follow(directions, Some(options)) = verb {
            let reading = self.reader.begin(&options, fds)?;
            return Ok(Done::Later(Follow { id: None, directions, options, asked, reading }));
        }
        handed::none(&fds)?;
        let answer = match verb {
            Verb::Set(settings) => self.set(&settings, asked),
            Verb::Show(directions) => self.show(&directions),
            Verb::Follow(directions, _) => self.follow(&directions, None, asked),
        };
        answer.map(Done::Now)
    }

    /// Nothing is changed before all of it has been checked.
    fn set(&mut self, settings: &[Setting], asked: Instant) -> Result<Value, ConfigError> {
        let named = Direction::BOTH.map(|way| (way, Named::in_direction(settings, way)));
        let named: Vec<_> = named.into_iter().filter(|(_, named)| !named.0.is_empty()).collect();
        let (several, mut changes) = (named.len() > 1, Vec::new());
        for (way, named) in &named {
            // Of one direction the link checks all before it changes anything: it need not be asked
            // first what it is like, for the thousands of changes a second of those who want that.
            changes.push((*way, self.checked(*way, named, several)?, named));
        }
        let mut applied = Map::new();
        for (way, change, named) in changes {
            let entry = self
                .apply(way, &change, asked)
                .map_err(|refused| after(&applied, named.refused(way, refused)))?;
            applied.insert(way.name().to_owned(), entry);
        }
        Ok(self.acknowledged(&applied, asked))
    }

    /// Of several directions none follows what one of them cannot.
    fn follow(
        &mut self,
        directions: &[Direction],
        trace: Option<&(TraceOptions, Trace)>,
        asked: Instant,
    ) -> Result<Value, ConfigError> {
        let nothing = Named(Vec::new());
        for &way in directions.iter().filter(|_| directions.len() > 1) {
            let config = self.links.config(way).map_err(|refused| nothing.refused(way, refused))?;
            let config = config.following(trace.cloned());
            let checked = config.validate().and_then(|()| self.links.permits(way, &config));
            checked.map_err(|error| error.within(way.name()))?;
        }
        let mut applied = Map::new();
        for &way in directions {
            self.known[way.index()] = None;
            let followed = self.links.follow(way, trace.cloned(), asked);
            let refused = |refused| after(&applied, nothing.refused(way, refused));
            let entry = self.entry(followed.map_err(refused)?);
            applied.insert(way.name().to_owned(), entry);
        }
        Ok(self.acknowledged(&applied, asked))
    }

    fn apply(&mut self, way: Direction, change: &Change, asked: Instant) -> Result<Value, Refused> {
        let known = self.known[way.index()].take();
        let applied = self.links.change(way, change, asked)?;
        self.known[way.index()] = known.map(|config| config.changed(change));
        Ok(self.entry(applied))
    }

    fn acknowledged(&self, applied: &Map<String, Value>, asked: Instant) -> Value {
        let asked_ns = asked.signed_since(self.run.start);
        json!({ "ok": true, "asked_ns": asked_ns, "applied": applied })
    }

    fn entry(&self, Applied { at, changed }: Applied) -> Value {
        let at_ns = at.signed_since(self.run.start);
        json!({ "at_ns": at_ns, "monotonic_ns": at.as_nanos(), "changed": changed })
    }

    /// The change that the settings of one direction make of the link as it is known to be, or as it
    /// is.
    fn checked(
        &mut self,
        way: Direction,
        named: &Named<'_>,
        fresh: bool,
    ) -> Result<Change, ConfigError> {
        let known = self.known[way.index()].as_ref().filter(|_| !fresh);
        if let Some(Ok(change)) = known.map(|config| self.permitted(way, config, named)) {
            return Ok(change);
        }
        let config = self.links.config(way).map_err(|refused| named.refused(way, refused))?;
        let change = self.permitted(way, &config, named);
        self.known[way.index()] = Some(config);
        change.map_err(|error| named.refused(way, Refused::Config(error)))
    }

    /// The change that the settings make of a link with `config`, if the run can carry it out.
    fn permitted(
        &self,
        way: Direction,
        config: &LinkConfig,
        named: &Named<'_>,
    ) -> Result<Change, ConfigError> {
        let change = named.change(config)?;
        self.links.permits(way, &config.changed(&change))?;
        Ok(change)
    }

    fn show(&self, directions: &[Direction]) -> Result<Value, ConfigError> {
        let mut shown = Map::new();
        for &direction in directions {
            let refused = |refused| Named(Vec::new()).refused(direction, refused);
            let link = self.links.show(direction).map_err(refused)?;
            let link = serde_json::to_value(link);
            shown.insert(direction.name().to_owned(), link.unwrap_or_default());
        }
        let RunFacts { name, command, started_unix_ns, start } = &self.run;
        let run = json!({
            "name": name,
            "pid": std::process::id(),
            "started_unix_ns": started_unix_ns,
            "elapsed_ns": punctual_linux::clock::monotonic().signed_since(*start),
            "command": command,
        });
        Ok(json!({ "ok": true, "run": run, "directions": shown }))
    }
}

/// What a request comes to.
enum Done {
    Now(Value),
    Later(Follow),
}

/// A request whose trace is being read.
#[derive(Debug)]
pub(crate) struct Follow {
    id: Option<Value>,
    directions: Vec<Direction>,
    options: Box<TraceOptions>,
    asked: Instant,
    reading: Reading,
}

impl<L: Links> Answers for Service<L> {
    type Pending = Follow;

    fn answer(
        &mut self,
        line: &[u8],
        fds: Vec<OwnedFd>,
        asked: Instant,
        out: &mut Vec<u8>,
    ) -> Option<Follow> {
        let Request { id, verb } = Request::parse(line);
        let answer = match verb.and_then(|verb| self.carry_out(verb, fds, asked)) {
            Ok(Done::Later(follow)) => return Some(Follow { id, ..follow }),
            Ok(Done::Now(answer)) => Ok(answer),
            Err(error) => Err(error),
        };
        write_with(id, answer, out);
        None
    }

    fn resume(&mut self, follow: Follow, out: &mut Vec<u8>) -> Option<Follow> {
        let Some(read) = follow.reading.outcome() else { return Some(follow) };
        let Follow { id, directions, options, asked, .. } = follow;
        let trace = read.map(|trace| (*options, trace));
        let answer = trace.and_then(|trace| self.follow(&directions, Some(&trace), asked));
        write_with(id, answer, out);
        None
    }

    fn refuse(&mut self, problem: &str, out: &mut Vec<u8>) {
        write(&refusal(&ConfigError::new("request", problem)), out);
    }
}

fn refusal(error: &ConfigError) -> Value {
    let problem = shown_problem(&error.problem);
    json!({ "ok": false, "error": { "place": shown(&error.place), "problem": problem } })
}

/// Messages repeat values, and a value can be a whole table.
fn shown_problem(problem: &str) -> String {
    if problem.chars().nth(LONGEST_PROBLEM).is_none() {
        return problem.to_owned();
    }
    let cut: String = problem.chars().take(LONGEST_PROBLEM).collect();
    cut + "..."
}

/// An answer or a refusal, with the request's `id`.
fn write_with(id: Option<Value>, answer: Result<Value, ConfigError>, out: &mut Vec<u8>) {
    let mut answer = answer.unwrap_or_else(|error| refusal(&error));
    if let (Some(id), Value::Object(answer)) = (id, &mut answer) {
        answer.insert("id".to_owned(), id);
    }
    write(&answer, out);
}

fn write(answer: &Value, out: &mut Vec<u8>) {
    // Written to memory, of texts and numbers only: cannot fail.
    let _ = serde_json::to_writer(&mut *out, answer);
    out.push(b'\n');
}

/// Both directions were checked; a store to the control block between that and now, or the link's
/// end, can have one changed and the other not.
fn after(applied: &Map<String, Value>, error: ConfigError) -> ConfigError {
    if applied.is_empty() {
        return error;
    }
    let done: Vec<_> = applied.keys().map(String::as_str).collect();
    let problem = format!("{} (the link {} was changed)", error.problem, done.join(", "));
    ConfigError { problem, ..error }
}

/// What the settings name in one direction: those of its own override those of both.
struct Named<'a>(Vec<&'a Setting>);

impl<'a> Named<'a> {
    fn in_direction(settings: &'a [Setting], direction: Direction) -> Self {
        let mine = settings.iter().filter(|setting| setting.directions.contains(&direction));
        let (own, both): (Vec<_>, Vec<_>) = mine.partition(|setting| setting.directions.len() == 1);
        let overridden = |both: &&Setting| own.iter().any(|own| own.name == both.name);
        let mut named: Vec<_> = both.into_iter().filter(|both| !overridden(both)).collect();
        named.extend(own);
        Self(named)
    }

    /// Checked against a link with `config`.
    fn change(&self, config: &LinkConfig) -> Result<Change, ConfigError> {
        Change::parse(config, self.0.iter().map(|s| (s.name.as_str(), s.value.as_str())))
    }

    /// The place as the client has written it. What it has not written, such as the queue that cannot
    /// have this rate, is named beside the only thing that it has, or the direction. A trace names no
    /// parameter, and is refused at the one that it does not go with.
    fn refused(&self, direction: Direction, refused: Refused) -> ConfigError {
        let error = match refused {
            Refused::Config(error) => error,
            Refused::Link(problem) => return ConfigError::new(direction.name(), problem),
        };
        let written = self.0.iter().find(|setting| setting.name == error.place);
        let place = match (written, &self.0[..]) {
            (Some(setting), _) => return ConfigError { place: setting.place.clone(), ..error },
            (None, []) => return error.within(direction.name()),
            (None, [setting]) => setting.place.clone(),
            (None, _) => direction.name().to_owned(),
        };
        ConfigError::new(place, error.to_string())
    }
}

/// Characters: more than any message has that repeats no long value.
const LONGEST_PROBLEM: usize = 600;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Direction::{Down, Up};
    use punctual_sched::{Duration, Link, Packet, Rate, Snapshot};
    use std::cell::{Cell, RefCell};

    /// Two links in virtual time.
    struct Virtual {
        links: RefCell<[Link; 2]>,
        now: Cell<Instant>,
        /// Changes carried out.
        applied: Cell<u32>,
        /// The direction that does not answer.
        lost: Cell<Option<Direction>>,
    }

    impl Virtual {
        fn check(&self, direction: Direction) -> Result<(), Refused> {
            let gone = || Refused::Link("the link has ended".to_owned());
            if self.lost.get() == Some(direction) { Err(gone()) } else { Ok(()) }
        }

        fn snapshot(&self, direction: Direction) -> Snapshot {
            self.links.borrow()[direction.index()].snapshot()
        }
    }

    impl Links for Virtual {
        fn change(
            &self,
            direction: Direction,
            change: &Change,
            _asked: Instant,
        ) -> Result<Applied, Refused> {
            self.check(direction)?;
            let link = &mut self.links.borrow_mut()[direction.index()];
            self.now.set(self.now.get() + Duration::from_nanos(10));
            let changed = link.config().changes(change);
            if changed {
                link.change(change, self.now.get()).map_err(Refused::Config)?;
                self.applied.set(self.applied.get() + 1);
            }
            Ok(Applied { at: self.now.get(), changed })
        }

        fn follow(
            &self,
            direction: Direction,
            trace: Option<(TraceOptions, Trace)>,
            _asked: Instant,
        ) -> Result<Applied, Refused> {
            self.check(direction)?;
            let link = &mut self.links.borrow_mut()[direction.index()];
            self.now.set(self.now.get() + Duration::from_nanos(10));
            let changed = trace.is_some() || link.config().trace.is_some();
            link.follow_as(trace, self.now.get()).map_err(Refused::Config)?;
            self.applied.set(self.applied.get() + u32::from(changed));
            Ok(Applied { at: self.now.get(), changed })
        }

        fn permits(&self, _: Direction, config: &LinkConfig) -> Result<(), ConfigError> {
            let refused = || Err(ConfigError::new("corrupt", "no bytes are kept"));
            if config.needs_payloads() { refused() } else { Ok(()) }
        }

        fn config(&self, direction: Direction) -> Result<LinkConfig, Refused> {
            self.check(direction)?;
            Ok(self.links.borrow()[direction.index()].config().clone())
        }

        fn show(&self, direction: Direction) -> Result<Shown, Refused> {
            let (config, snapshot) = (self.config(direction)?, self.snapshot(direction));
            let link = config.entries().into_iter().map(|(name, value)| (name.to_owned(), value));
            Ok(Shown {
                link: link.collect(),
                gso: "split".to_owned(),
                queue: report::Queue::default(),
                backlog: Backlog {
                    packets: snapshot.backlog_packets,
                    bytes: snapshot.backlog_bytes,
                },
                packets: report::Packets { arrived: snapshot.packets_in, ..Default::default() },
                bytes: report::Bytes::default(),
                impairments: report::Impairments::default(),
                trace: None,
                opportunities: None,
            })
        }
    }

    /// Of a run that began at 1000 ns.
    fn service(link: &str) -> Service<Virtual> {
        let start = Instant::from_nanos(1_000);
        let config = LinkConfig::parse(link, "test").unwrap();
        let links = [1, 2].map(|seed| Link::new(&config, seed, start).unwrap());
        let links = Virtual {
            links: RefCell::new(links),
            now: Cell::new(start),
            applied: Cell::default(),
            lost: Cell::default(),
        };
        let facts = RunFacts::new("lab", &["sh", "-c", "true"].map(OsString::from), 7, start);
        Service::new(facts, links, Bell::new().unwrap())
    }

    fn ask(service: &mut Service<Virtual>, line: &str) -> Value {
        ask_with(service, line, Vec::new())
    }

    fn ask_with(service: &mut Service<Virtual>, line: &str, fds: Vec<OwnedFd>) -> Value {
        let mut out = Vec::new();
        let asked = Instant::from_nanos(1_004);
        let mut pending = service.answer(line.as_bytes(), fds, asked, &mut out);
        while let Some(follow) = pending {
            pending = service.resume(follow, &mut out);
        }
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.find('\n'), Some(text.len() - 1), "one line an answer");
        serde_json::from_str(&text).unwrap()
    }

    fn config(service: &Service<Virtual>, direction: Direction) -> LinkConfig {
        service.links.config(direction).unwrap()
    }

    #[test]
    fn what_is_named_changes_and_is_acknowledged_with_its_time() {
        let mut service = service("rate=20mbit delay=30ms");
        let answer = ask(&mut service, r#"{"set":{"up.rate":"10mbit","both.loss":"1%"},"id":9}"#);
        let expected = json!({ "ok": true, "id": 9, "asked_ns": 4, "applied": {
            "up": { "at_ns": 10, "monotonic_ns": 1_010, "changed": true },
            "down": { "at_ns": 20, "monotonic_ns": 1_020, "changed": true },
        }});
        assert_eq!(answer, expected);
        assert_eq!(config(&service, Up).rate, Rate::from_bps(10_000_000).unwrap());
        assert_eq!(config(&service, Down).rate, Rate::from_bps(20_000_000).unwrap());
        assert_eq!(config(&service, Up).loss, config(&service, Down).loss);
        assert!(!config(&service, Up).loss.is_none());
    }

    /// Setting one parameter resets the others (docker-tc#1).
    #[test]
    fn a_change_of_one_parameter_leaves_all_others_and_the_counters() {
        let mut service = service("rate=8mbit delay=30ms loss=0.5% limit=9p");
        let before = config(&service, Up);
        for handle in 0..20 {
            let arrival = Instant::from_nanos(1_000);
            service.links.links.borrow_mut()[0].arrive(Packet::on_path(handle, arrival, 986, 1));
        }
        let counted = service.links.snapshot(Up);
        assert_eq!(ask(&mut service, r#"{"set":{"up.delay":"5ms"}}"#)["ok"], true);
        let after = config(&service, Up);
        assert_eq!(after, LinkConfig { delay: Duration::from_millis(5), ..before });
        assert_eq!(service.links.snapshot(Up), counted);
    }

    /// The second rule of the same kind: \"File exists\" (pumba#168).
    #[test]
    fn the_same_change_twice_is_no_change_and_says_so() {
        let mut service = service("rate=20mbit");
        let line = r#"{"set":{"both.rate":"10mbit","both.delay":"3ms"}}"#;
        assert_eq!(ask(&mut service, line)["applied"]["up"]["changed"], true);
        let again = ask(&mut service, line);
        assert_eq!(again["ok"], true);
        for direction in ["up", "down"] {
            assert_eq!(again["applied"][direction]["changed"], false);
        }
        assert_eq!(service.links.applied.get(), 2);
        let number = ask(&mut service, r#"{"set":{"up.rate":10000000}}"#);
        assert_eq!(
            number["applied"],
            json!({ "up": { "at_ns": 50, "monotonic_ns": 1_050, "changed": false } })
        );
    }

    #[test]
    fn one_direction_overrides_both_in_whatever_order() {
        for line in [
            r#"{"set":{"both.rate":"1mbit","up.rate":"2mbit"}}"#,
            r#"{"set":{"up.rate":"2mbit","both.rate":"1mbit"}}"#,
        ] {
            let mut service = service("");
            assert_eq!(ask(&mut service, line)["ok"], true);
            assert_eq!(config(&service, Up).rate, Rate::from_bps(2_000_000).unwrap());
            assert_eq!(config(&service, Down).rate, Rate::from_bps(1_000_000).unwrap());
        }
    }

    #[test]
    fn nothing_changes_when_anything_of_a_change_is_refused() {
        for (line, place, problem) in [
            (
                r#"{"set":{"up.rate":"1mbit","down.dealy":"1ms"}}"#,
                "down.dealy",
                "unknown parameter",
            ),
            (r#"{"set":{"up.rate":"1mbit","up.delay":"1"}}"#, "up.delay", "no unit"),
            (r#"{"set":{"both.rate":"1mbit","down.jitter":"2s"}}"#, "down.jitter", "delay"),
            (r#"{"set":{"both.rate":"1mbit","both.delay":"1"}}"#, "both.delay", "no unit"),
            (
                r#"{"set":{"up.rate":"1mbit","up.hold":"1mb"}}"#,
                "up.hold",
                "is fixed when the run starts",
            ),
            (
                r#"{"set":{"both.queue":"jens","both.rate":"unlimited"}}"#,
                "both.queue",
                "jens needs a rate",
            ),
            (
                r#"{"set":{"both.rate":"1mbit","down.corrupt":"1%"}}"#,
                "down.corrupt",
                "no bytes are",
            ),
        ] {
            let mut service = service("rate=20mbit delay=1s");
            let before = Direction::BOTH.map(|direction| config(&service, direction));
            let answer = ask(&mut service, line);
            assert_eq!((&answer["ok"], &answer["error"]["place"]), (&false.into(), &place.into()));
            let told = answer["error"]["problem"].as_str().unwrap();
            assert!(told.contains(problem), "{line}: {told}");
            assert_eq!(service.links.applied.get(), 0, "{line}");
            assert_eq!(Direction::BOTH.map(|direction| config(&service, direction)), before);
        }
    }

    #[test]
    fn what_the_client_has_not_written_is_told_beside_what_it_has() {
        for (set, place) in [
            (r#"{"up.rate":"unlimited"}"#, "up.rate"),
            (r#"{"both.rate":"unlimited"}"#, "both.rate"),
            (r#"{"up.rate":"unlimited","up.delay":"1ms"}"#, "up"),
        ] {
            let mut service = service("rate=20mbit queue=jens");
            let error = &ask(&mut service, &format!(r#"{{"set":{set}}}"#))["error"];
            assert_eq!(error["place"], place);
            let told = error["problem"].as_str().unwrap();
            assert!(told.starts_with("queue: jens needs a rate"), "{told}");
        }
    }

    /// By the control block, which the service does not see.
    #[test]
    fn what_another_way_has_changed_is_what_a_change_is_checked_against() {
        let mut service = service("rate=20mbit delay=30ms");
        assert_eq!(ask(&mut service, r#"{"set":{"up.jitter":"20ms"}}"#)["ok"], true);
        let elsewhere = |way: Direction, words: &str| {
            let change = Change::from_words(words, "test").unwrap();
            service.links.change(way, &change, Instant::ZERO).unwrap();
        };
        elsewhere(Up, "jitter=0ms");
        elsewhere(Up, "delay=40ms");
        assert_eq!(ask(&mut service, r#"{"set":{"up.jitter":"35ms"}}"#)["ok"], true);
        let change = Change::from_words("jitter=1ms delay=2ms", "test").unwrap();
        service.links.change(Up, &change, Instant::ZERO).unwrap();
        let answer = ask(&mut service, r#"{"set":{"up.jitter":"30ms"}}"#);
        assert_eq!(answer["error"]["place"], "up.jitter", "{answer}");
        let answer = ask(&mut service, r#"{"set":{"both.jitter":"25ms"}}"#);
        assert_eq!(
            (&answer["ok"], &answer["error"]["place"]),
            (&false.into(), &"both.jitter".into())
        );
        assert_eq!(config(&service, Down).jitter, Duration::ZERO);
    }

    #[test]
    fn a_link_that_has_ended_is_told_as_that() {
        let mut service = service("rate=20mbit");
        service.links.lost.set(Some(Down));
        let answer = ask(&mut service, r#"{"set":{"both.rate":"1mbit"},"id":"a"}"#);
        let error = json!({ "place": "down", "problem": "the link has ended" });
        assert_eq!(answer, json!({ "ok": false, "error": error, "id": "a" }));
        assert_eq!(service.links.applied.get(), 0);
        assert_eq!(ask(&mut service, r#"{"set":{"up.rate":"1mbit"}}"#)["ok"], true);
        assert_eq!(ask(&mut service, r#"{"show":{}}"#)["ok"], false);
        assert_eq!(ask(&mut service, r#"{"show":{"direction":"up"}}"#)["ok"], true);
    }

    fn memfd(text: &str) -> Vec<OwnedFd> {
        let write = |out: &mut dyn std::io::Write| out.write_all(text.as_bytes());
        vec![punctual_linux::memfd::SealedMemfd::write("test", write).unwrap()]
    }

    #[test]
    fn a_trace_that_is_handed_over_is_followed_until_it_is_stopped() {
        let mut service = service("rate=20mbit delay=30ms");
        let steps = "# span=9s\ntime,rate\n0s,1mbit\n1s,2mbit\n";
        let line = r#"{"follow":{"direction":"up","trace":"t","trace.scale":"2"},"id":1}"#;
        let answer = ask_with(&mut service, line, memfd(steps));
        let expected = json!({ "ok": true, "id": 1, "asked_ns": 4, "applied": {
            "up": { "at_ns": 10, "monotonic_ns": 1_010, "changed": true },
        }});
        assert_eq!(answer, expected);
        let up = config(&service, Up);
        assert_eq!(up.rate, Rate::from_bps(2_000_000).unwrap());
        assert!(up.trace_brief().starts_with("t (9s, mean "), "{}", up.trace_brief());
        let stop = r#"{"follow":{"direction":"both","trace":"none"}}"#;
        let answer = ask(&mut service, stop);
        assert_eq!(answer["applied"]["up"]["changed"], true);
        assert_eq!(answer["applied"]["down"]["changed"], false);
        assert_eq!(config(&service, Up).trace_brief(), "none");
        assert_eq!(service.links.applied.get(), 2);
    }

    #[test]
    fn a_link_is_changed_and_shown_while_a_trace_is_read_for_it() {
        let mut service = service("rate=20mbit delay=30ms");
        let line = br#"{"follow":{"direction":"both","trace":"t"},"id":"late"}"#;
        let (fds, mut out) = (memfd("time,delay\n0s,5ms\n1s,6ms\n"), Vec::new());
        let follow = service.answer(line, fds, Instant::from_nanos(1_001), &mut out).unwrap();
        assert_eq!(out, b"");
        assert_eq!(ask(&mut service, r#"{"set":{"down.jitter":"20ms"}}"#)["ok"], true);
        assert_eq!(ask(&mut service, r#"{"show":{}}"#)["directions"]["up"]["trace"], Value::Null);
        let mut pending = Some(follow);
        while let Some(follow) = pending {
            pending = service.resume(follow, &mut out);
        }
        // It is checked against what holds when it was read.
        let answer: Value = serde_json::from_slice(&out).unwrap();
        let told = (&answer["error"]["place"], &answer["id"]);
        assert_eq!(told, (&"down.jitter".into(), &"late".into()), "{answer}");
        assert_eq!(config(&service, Up).trace, None);
    }

    #[test]
    fn no_link_follows_what_one_of_them_cannot() {
        let mut service = service("rate=20mbit delay=30ms");
        assert_eq!(ask(&mut service, r#"{"set":{"down.jitter":"20ms"}}"#)["ok"], true);
        let delays = "# span=9s\ntime,delay\n0s,5ms\n";
        let line = r#"{"follow":{"direction":"both","trace":"t"}}"#;
        let answer = ask_with(&mut service, line, memfd(delays));
        assert_eq!(answer["error"]["place"], "down.jitter", "{answer}");
        assert_eq!(service.links.applied.get(), 1);
        assert_eq!(config(&service, Up).trace, None);
        let one = r#"{"follow":{"direction":"down","trace":"t"}}"#;
        assert_eq!(ask_with(&mut service, one, memfd(delays))["error"]["place"], "down.jitter");
        let stray = ask_with(&mut service, r#"{"show":{}}"#, memfd(delays));
        assert_eq!(stray["error"]["place"], "request", "{stray}");
        service.links.lost.set(Some(Down));
        assert_eq!(ask_with(&mut service, line, memfd(delays))["error"]["place"], "down");
        assert_eq!(config(&service, Up).trace, None);
    }

    #[test]
    fn a_long_value_is_not_repeated_whole() {
        let mut service = service("");
        let value = "9".repeat(100_000);
        let answer = ask(&mut service, &format!("{{\"set\":{{\"up.rate\":\"{value}\"}}}}"));
        assert_eq!(answer["error"]["place"], "up.rate");
        assert!(answer.to_string().len() < 1_000);
    }

    #[test]
    fn what_is_in_force_and_has_happened_is_shown() {
        let mut service = service("rate=20mbit delay=30ms");
        service.links.links.borrow_mut()[0].arrive(Packet::on_path(
            1,
            Instant::from_nanos(1_000),
            986,
            1,
        ));
        let answer = ask(&mut service, r#"{"show":{}}"#);
        assert_eq!(answer["run"]["name"], "lab");
        assert_eq!(answer["run"]["command"], json!(["sh", "-c", "true"]));
        assert_eq!(answer["run"]["started_unix_ns"], 7);
        let [up, down] = ["up", "down"].map(|name| &answer["directions"][name]);
        assert_eq!((&up["link"]["rate"], &up["packets"]["in"]), (&"20mbit".into(), &1.into()));
        assert_eq!((&down["packets"]["in"], &up["backlog"]["packets"]), (&0.into(), &1.into()));
    }
}
