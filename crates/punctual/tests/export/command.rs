//! The built program: files, standard output, exit statuses.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::made::{arrival, dropped, log_of, one_of_each};
use crate::run::SCENARIOS;
use punctual::log::Direction;
use punctual_sched::DropReason;

/// A directory with a log in it, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(log: &[u8]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("punctual-export-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("run.log"), log).unwrap();
        Self(path)
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        command.arg("log").args(words.split(' ')).current_dir(&self.0).stdin(Stdio::null());
        command
    }

    fn ends(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// Succeeds; what it says on stderr.
    fn says(&self, words: &str) -> String {
        let ended = self.ends(words);
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(0), "{words}: {said}");
        said
    }

    /// Fails with this status; its one line.
    fn fails(&self, status: i32, words: &str) -> String {
        let ended = self.ends(words);
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(status), "{words}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        said.trim_end().to_owned()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.join(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_ending_names_the_format_and_an_option_does_too() {
    let place = Place::new(&SCENARIOS[1].log());
    for (words, name, begins) in [
        ("export run.log -o a.csv", "a.csv", "direction,packet,".as_bytes()),
        ("export run.log -o a.pcapng", "a.pcapng", &[0x0a, 0x0d, 0x0d, 0x0a]),
        ("export run.log --format csv -o a.dat", "a.dat", "direction,packet,".as_bytes()),
    ] {
        assert_eq!(place.says(words), "");
        assert!(place.read(name).starts_with(begins), "{words}");
    }
    if cfg!(feature = "parquet") {
        assert_eq!(place.says("export run.log -o a.PARQUET"), "");
        assert!(place.read("a.PARQUET").ends_with(b"PAR1"));
    }
    assert_eq!(
        place.fails(2, "export run.log -o a.xls"),
        "punctual: a.xls: no format has this ending, expected .csv, .parquet, .pcapng \
         or .jens, or --format"
    );
    assert!(place.fails(2, "export run.log -o -").contains("or --format"));
    assert!(place.fails(2, "export run.log -o a.jens").contains("queue=jens"));
    assert!(!place.names().contains(&"a.jens".to_owned()), "{:?}", place.names());
}

#[test]
fn a_dash_is_standard_output_and_who_stops_reading_is_no_failure() {
    let place = Place::new(&SCENARIOS[1].log());
    let ended = place.ends("export run.log --format csv -o -");
    place.says("export run.log -o same.csv");
    assert_eq!(ended.stdout, place.read("same.csv"));
    let mut child =
        place.command("export run.log --format csv -o -").stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// `export -` found no file called so, and `verify -` named one.
#[test]
fn standard_input_is_named_as_that() {
    let place = Place::new(b"PUNCTLOG no more");
    let told = "punctual: stdin: a log is read twice, which stdin cannot be: copy it into a file \
                (./- for one of that name)";
    assert_eq!(place.fails(2, "export - -o a.csv"), told);
    fs::write(place.0.join("-"), one_of_each()).unwrap();
    assert_eq!(place.fails(2, "export - -o a.csv"), told);
    place.says("export ./- -o a.csv");
    let from_input = |words: &[&str]| {
        let log = fs::File::open(place.0.join("run.log")).unwrap();
        let mut command = Command::new(program());
        let ended = command.args(words).current_dir(&place.0).stdin(log).output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{words:?}");
        String::from_utf8(ended.stderr).unwrap()
    };
    let [verify, info] = [from_input(&["verify", "-"]), from_input(&["log", "info", "-"])];
    assert!(verify.starts_with("punctual: stdin: "), "{verify}");
    assert_eq!(verify, info);
    let absent = "punctual: cannot open absent: No such file or directory (os error 2)";
    assert_eq!(place.fails(2, "info absent"), absent);
    assert_eq!(verified(&place, &["absent"]).1, format!("{absent}\n"));
}

#[test]
fn a_file_is_replaced_when_its_successor_is_whole_and_not_before() {
    let place = Place::new(&SCENARIOS[1].log());
    fs::write(place.0.join("out.csv"), "precious").unwrap();
    let mut damaged = place.read("run.log");
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(place.0.join("bad.log"), damaged).unwrap();
    let said = place.fails(2, "export bad.log -o out.csv");
    assert!(said.starts_with("punctual: bad.log: the log is damaged"), "{said}");
    assert_eq!(place.read("out.csv"), b"precious");
    assert_eq!(place.names(), ["bad.log", "out.csv", "run.log"]);
    std::os::unix::fs::symlink("out.csv", place.0.join("link.csv")).unwrap();
    place.says("export run.log -o link.csv");
    assert!(place.read("out.csv").starts_with(b"direction,"));
    assert!(fs::symlink_metadata(place.0.join("link.csv")).unwrap().is_symlink());
}

#[test]
fn a_log_is_not_replaced_by_its_own_export() {
    let place = Place::new(&one_of_each());
    let before = place.read("run.log");
    std::os::unix::fs::symlink("run.log", place.0.join("link.csv")).unwrap();
    for words in [
        "export run.log --format csv -o run.log",
        "export run.log -o link.csv",
        "export run.log -o a.csv --changes run.log",
    ] {
        let said = place.fails(2, words);
        assert!(said.ends_with("it would be replaced by its own export"), "{said}");
    }
    let said = place.fails(2, "export run.log -o a.csv --changes a.csv");
    assert!(said.ends_with("a.csv: packets and changes need two files"), "{said}");
    assert_eq!(place.read("run.log"), before);
    assert_eq!(place.names(), ["link.csv", "run.log"]);
}

/// As a run locks its log and its report.
#[test]
fn what_a_run_is_writing_is_not_replaced() {
    let place = Place::new(&one_of_each());
    fs::write(place.0.join("live.log"), "a run's").unwrap();
    let live = fs::File::open(place.0.join("live.log")).unwrap();
    live.try_lock().unwrap();
    for words in ["--format csv -o live.log", "-o a.csv --changes live.log"] {
        let said = place.fails(125, &format!("export run.log {words}"));
        assert!(said.ends_with("cannot write live.log: a run is writing it: name another file"));
    }
    assert_eq!(place.read("live.log"), b"a run's");
    assert_eq!(place.names(), ["live.log", "run.log"]);
    live.unlock().unwrap();
    place.says("export run.log --format csv -o live.log");
}

#[test]
fn a_full_disk_is_named_and_so_is_what_cannot_be_made() {
    let place = Place::new(&SCENARIOS[1].log());
    for format in ["csv", "pcapng", "parquet"] {
        if format == "parquet" && cfg!(not(feature = "parquet")) {
            continue;
        }
        assert_eq!(
            place.fails(125, &format!("export run.log --format {format} -o /dev/full")),
            "punctual: cannot write /dev/full: the disk is full"
        );
    }
    assert_eq!(
        place.fails(125, "export run.log -o a.csv --changes /dev/full"),
        "punctual: cannot write /dev/full: the disk is full"
    );
    let said = place.fails(125, "export run.log -o nowhere/a.csv");
    assert!(said.contains("cannot write nowhere/a.csv: No such file or directory"), "{said}");
    let said = place.fails(2, "export absent.log -o a.csv");
    assert!(said.contains("cannot open absent.log"), "{said}");
    assert!(place.fails(2, "export /dev/null -o a.csv").contains("a log is read twice"));
    let mut limited = Command::new("sh");
    let script = format!("ulimit -f 64; exec {} log export run.log -o a.csv", program());
    let ended = limited.args(["-c", &script]).current_dir(&place.0).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(125), "{said}");
    assert!(said.contains("larger than the limit for files (ulimit -f)"), "{said}");
    assert_eq!(place.names(), ["run.log"], "nothing is left behind");
}

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_punctual")
}

#[test]
fn what_the_export_lacks_is_said() {
    let whole = SCENARIOS[10].log();
    let place = Place::new(&whole);
    let said = place.says("export run.log -o a.csv");
    assert_eq!(
        said,
        "punctual: warning: run.log: 22 changes of parameters not in a.csv; --changes FILE \
         writes them\n"
            .replace("22", &(2 * SCENARIOS[10].changes.len()).to_string())
    );
    assert_eq!(place.says("export run.log -o a.pcapng"), "");
    assert_eq!(place.says("export run.log -o a.csv --changes changes.csv"), "");
    assert!(place.read("changes.csv").starts_with(b"at_ns,at_unix_ns,direction,parameter,value\n"));
    fs::write(place.0.join("cut.log"), &whole[..whole.len() / 2]).unwrap();
    let said = place.says("export cut.log -o cut.pcapng");
    assert!(
        said.contains("cut.log: not all of the run was exported: the log was cut off"),
        "{said}"
    );
}

/// `punctual verify` of a log: its exit status, and what it says.
fn verified(place: &Place, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(program());
    command.arg("verify").args(words).current_dir(&place.0).stdin(Stdio::null());
    let ended = command.output().unwrap();
    let said = [ended.stdout, ended.stderr].concat();
    (ended.status.code(), String::from_utf8(said).unwrap())
}

/// As a run locks its log.
#[test]
fn a_log_that_a_run_is_writing_is_not_said_to_be_cut_off() {
    let whole = SCENARIOS[10].log();
    let place = Place::new(&whole[..whole.len() / 2]);
    let live = fs::File::open(place.0.join("run.log")).unwrap();
    live.try_lock().unwrap();
    let writing = "the run is still writing the log; read it again when the run has ended";
    let info = || String::from_utf8(place.ends("info run.log").stdout).unwrap();
    let lack = || {
        let json = place.ends("info run.log --json").stdout;
        serde_json::from_slice::<serde_json::Value>(&json).unwrap()["lack"].clone()
    };
    assert!(info().contains(&format!(" bytes, not complete: {writing}\n")), "{}", info());
    assert_eq!(lack(), writing);
    let said = place.says("export run.log -o a.pcapng");
    assert!(said.ends_with(&format!("not all of the run was exported: {writing}\n")), "{said}");
    let capture = place.read("a.pcapng");
    let noted = |text: &str| capture.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(noted(writing));
    let (status, said) = verified(&place, &["run.log"]);
    let expected = format!("; what came after was not written because {writing}");
    assert!(status == Some(1) && said.lines().all(|said| said.ends_with(&expected)), "{said}");
    let (status, said) = verified(&place, &["run.log", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((status, &json["outcome"]), (Some(1), &"incomplete".into()));
    assert_eq!(json["directions"][0]["cause"], writing);

    live.unlock().unwrap();
    let killed = "the run was killed, or the disk had no room left for the log's end, or its reader \
                  was gone or too slow, or this is a copy that was made while the run went on";
    assert_eq!(lack(), format!("the log was cut off: {killed}"));
    let (status, said) = verified(&place, &["run.log"]);
    assert!(status == Some(1) && said.trim_end().ends_with(killed), "{said}");
    // Its lock does not tell of what comes through a pipe.
    let piped = place.command("info -").stdin(live).output().unwrap();
    let said = String::from_utf8(piped.stdout).unwrap();
    assert!(said.contains("the log was cut off: the run was killed, goes on, or "), "{said}");
}

#[test]
fn a_log_that_a_run_has_not_begun_is_told_as_that() {
    let place = Place::new(b"");
    let live = fs::File::open(place.0.join("run.log")).unwrap();
    for (locked, expected) in [
        (true, "nothing is in the log yet: its run is starting, or waits for its peer"),
        (false, "the log is cut off after 0 bytes, within its header"),
    ] {
        let lock = if locked { live.try_lock().map_err(io::Error::from) } else { live.unlock() };
        lock.unwrap();
        for words in ["info run.log", "export run.log -o a.csv"] {
            let said = place.fails(2, words);
            assert!(said.contains(&format!("run.log: {expected}")), "{said}");
        }
        let (status, said) = verified(&place, &["run.log"]);
        assert!(status == Some(2) && said.contains(expected), "{said}");
    }
    assert_eq!(place.names(), ["run.log"]);
}

#[test]
fn a_signal_leaves_nothing_behind() {
    crate::signals::ignore_none();
    let mut records = Vec::new();
    for sequence in 1..400_000 {
        records.push((Direction::Up, arrival(1000 * sequence, 1, 1, 0)));
        records.push((Direction::Up, dropped(sequence, 0, DropReason::Loss)));
    }
    let place = Place::new(&log_of(&records));
    let mut child = place.command("export run.log -o a.csv").spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    while !place.names().iter().any(|name| name.starts_with(".a.csv.")) {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it could be stopped");
        std::thread::yield_now();
    }
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(place.names(), ["run.log"]);
}

#[test]
fn info_says_what_a_log_holds() {
    let log = SCENARIOS[2].log();
    let place = Place::new(&log);
    let ended = place.ends("info run.log");
    let text = String::from_utf8(ended.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    assert!(lines[0].starts_with("run      overload, written by punctual "), "{text}");
    assert!(lines[1].ends_with(" bytes, complete"), "{text}");
    assert!(lines[2].contains("rate=10mbit") && lines[2].contains("limit=20p"), "{text}");
    assert!(lines[3].trim_start().starts_with("2,000 in, "), "{text}");
    let json: serde_json::Value =
        serde_json::from_slice(&place.ends("info run.log --json").stdout).unwrap();
    assert_eq!(json["schema"], "punctual.log-info/1");
    assert_eq!((&json["complete"], &json["lack"]), (&true.into(), &serde_json::Value::Null));
    let up = &json["directions"]["up"];
    assert_eq!(up["arrivals"], 2000);
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let fates = number(&up["departures"]) + number(&up["dropped"]["limit"]);
    assert_eq!(fates + number(&up["without_fate"]), 2000);
    assert_eq!(number(&json["log_bytes"]), log.len() as u64);
    fs::write(place.0.join("cut.log"), &log[..log.len() / 2]).unwrap();
    let json = place.ends("info cut.log --json").stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["complete"], false);
    let piped = fs::File::open(place.0.join("run.log")).unwrap();
    let piped = place.command("info -").stdin(piped).output().unwrap();
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), text, "the same from stdin");
    assert!(place.fails(2, "info /dev/null").contains("cut off after 0 bytes"));
    fs::write(place.0.join("none.log"), "nothing").unwrap();
    assert!(place.fails(2, "info none.log").contains("not a log of punctual"));
    assert!(Path::new(program()).exists());
}
