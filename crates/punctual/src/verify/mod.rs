//! `punctual verify LOG`: replays a run's log in virtual time and compares every fate.
//!
//! What a link decides is a function of configuration, seed, arrivals and changes, so a replay of
//! these must give every departure, drop and mark of the run at the same nanosecond. Departures
//! are compared with departures in their order and drops with drops; between the two the log's
//! order means nothing, because a departure is logged when it is released and a drop when it is
//! decided.

mod fate;
mod outcome;
mod replay;

use std::fs::File;
use std::io::{BufReader, Read, Seek, stdin};
use std::path::Path;

use punctual_sched::Snapshot;

pub use outcome::{Difference, Gap, Near, Outcome, Place};

use crate::failure::Failure;
use crate::log::{CutOff, Ending, Entry, Header, LaneId, LogReader, ReadError, Trailer};
use crate::output::print;
use replay::Replay;

/// Verifies the log at `path` and prints the result: one line or, for a difference, its
/// neighbourhood; with `json` one object.
///
/// Exit status 0: identical. 1: different, or the log is incomplete. 2: not readable as a log,
/// the error being on stderr (in JSON on stdout too).
pub fn run(path: &Path, json: bool) -> Result<u8, Failure> {
    let outcome = if path == Path::new("-") {
        LogReader::new(BufReader::new(stdin().lock())).and_then(verify)
    } else {
        verify_file(path)
    };
    let (text, code) = match &outcome {
        Ok(outcome) if json => (outcome.to_json().to_string(), outcome.code()),
        Ok(outcome) => (outcome.to_string(), outcome.code()),
        Err(error) => {
            crate::tell(error.told(path));
            if !json {
                return Ok(UNREADABLE);
            }
            (outcome::unreadable(error).to_string(), UNREADABLE)
        }
    };
    print(text + "\n")?;
    Ok(code)
}

/// The lock of a file tells why it has no end.
fn verify_file(path: &Path) -> Result<Outcome, ReadError> {
    let file =
        File::open(path).map_err(|error| ReadError::Open { path: path.to_owned(), error })?;
    let outcome = LogReader::new(BufReader::new(&file)).and_then(verify);
    match outcome {
        Ok(Outcome::Incomplete(gaps)) => {
            // Where the file ended, as it was read to its end.
            let read = (&file).stream_position().unwrap_or(u64::MAX);
            let cut_off = CutOff::of(&file, read);
            let gaps = gaps.into_iter().map(|gap| gap.of_cut_off(cut_off)).collect();
            Ok(Outcome::Incomplete(gaps))
        }
        Ok(outcome) => Ok(outcome),
        Err(error) => Err(CutOff::of_unread(&file, error)),
    }
}

/// Replays a log. Memory is bounded by the packets that the run held at one time.
pub fn verify<R: Read>(mut log: LogReader<R>) -> Result<Outcome, ReadError> {
    let mut replays = replays(log.header())?;
    loop {
        match log.read()? {
            Entry::Record(lane, record) => {
                let replay = &mut replays[lane.direction.index()][lane.at()];
                replay.record(&record);
                if replay.differs() {
                    return Ok(look_ahead(log, &mut replays, lane));
                }
            }
            Entry::End(Ending::Trailer(trailer)) => return Ok(end(&mut replays, Some(&trailer))),
            Entry::End(Ending::CutOff) => return Ok(end(&mut replays, None)),
        }
    }
}

/// Of every lane, by direction and index.
type Replays = [Vec<Replay>; 2];

fn replays(header: &Header) -> Result<Replays, ReadError> {
    let mut replays = [Vec::new(), Vec::new()];
    for lane in header.lane_ids() {
        let direction = lane.direction;
        let replay = Replay::new(lane, header.direction(direction))
            .map_err(|error| refused(direction.name(), &error))?;
        replays[direction.index()].push(replay);
    }
    Ok(replays)
}

/// Status of a file that is not readable as a log.
const UNREADABLE: u8 = 2;

/// How many more records are read to show what follows a difference.
const LOOK_AHEAD: usize = 4096;

/// Reads on after a difference until a few fates from both sides are there to be shown.
fn look_ahead<R: Read>(mut log: LogReader<R>, replays: &mut Replays, lane: LaneId) -> Outcome {
    let replay = &mut replays[lane.direction.index()][lane.at()];
    for _ in 0..LOOK_AHEAD {
        // Whatever ends the log, the difference found before is the answer.
        let Ok(Entry::Record(of, record)) = log.read() else { break };
        if of == lane {
            replay.record(&record);
            if replay.is_shown() {
                break;
            }
        }
    }
    replay.difference().map_or_else(|| end(replays, None), Outcome::Different)
}

/// Ends all replays and compares how they ended.
fn end(replays: &mut Replays, trailer: Option<&Trailer>) -> Outcome {
    let mut gaps = Vec::new();
    for replay in replays.iter_mut().flatten() {
        let logged = trailer.and_then(|trailer| trailer.lane(replay.lane()));
        let whole = logged.filter(|logged| logged.unwritten == 0);
        if let Some(logged) = whole.and_then(|logged| logged.end.as_ref()) {
            replay.finish(logged);
        } else {
            replay.finish_prefix();
            gaps.push(replay.gap(trailer));
        }
        if let Some(difference) = replay.difference() {
            return Outcome::Different(difference);
        }
    }
    if gaps.is_empty() && trailer.is_some_and(|trailer| !trailer.complete) {
        gaps.extend(replays.iter().flatten().map(|replay| replay.gap(trailer)));
    }
    if !gaps.is_empty() {
        return Outcome::Incomplete(gaps);
    }
    let ends: Vec<_> = replays.iter().flatten().map(Replay::snapshot).collect();
    let sum = |count: fn(&Snapshot) -> u64| ends.iter().map(count).sum();
    Outcome::Identical {
        packets: sum(|end| end.packets_in),
        drops: sum(|end| end.dropped.iter().sum()),
        marks: sum(|end| end.marked),
    }
}

fn refused(place: &str, error: &punctual_sched::ConfigError) -> ReadError {
    ReadError::Json { place: "header", problem: format!("direction {place}: {error}") }
}
