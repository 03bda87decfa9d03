//! The records of `queue=jens`, made again by replaying the log.

use std::io::{Read, Seek, Write};
use std::net::IpAddr;

use punctual_sched::config::QueueKind;
use punctual_sched::queue::jens::{JensConfig, Record as JensRecord};
use punctual_sched::trace::Trace;
use punctual_sched::{Change, FlowKey, Instant, Link, LinkConfig};

use super::error::ExportError;
use super::pcapng::addresses;
use super::survey::Survey;
use super::watch::Watch;
use super::{Request, header_of, rewound};
use crate::log::{Arrival, Direction, Entry, Record};
use crate::verify::{Outcome, verify};

/// Writes the records of one direction and one user, and returns how many.
///
/// Their order, times and values are those that the run would have recorded with enough
/// `jens.subbufs`: records follow from what a log holds, and recording decides nothing.
pub(super) fn export<R: Read + Seek, W: Write>(
    input: &mut R,
    survey: &Survey,
    request: &Request,
    out: W,
    watch: &mut Watch,
) -> Result<u64, ExportError> {
    let direction = direction(survey, request)?;
    let config = config(survey, direction)?;
    let user = user(&config, request)?;
    if let Outcome::Different(difference) = verify(rewound(input, survey)?)? {
        return Err(ExportError::Refused(format!(
            "its records cannot be made again, because its replay is {difference}"
        )));
    }
    let mut log = rewound(input, survey)?;
    let mut replay = Replay::new(survey, direction, config, user, out)?;
    loop {
        match log.read()? {
            Entry::Record(of, record) if of.direction == direction => replay.record(&record)?,
            Entry::Record(..) => {}
            Entry::End(_) => break,
        }
        watch.read(log.bytes_read())?;
    }
    let end = survey.trailer.as_ref().and_then(|trailer| trailer.direction(direction).end.as_ref());
    replay.finish(end.filter(|_| survey.is_whole(direction)).map(|end| end.end_ns))
}

/// The direction asked for, or the only one with records.
fn direction(survey: &Survey, request: &Request) -> Result<Direction, ExportError> {
    let has = |direction| config(survey, direction).map(|config| config.queue == QueueKind::Jens);
    if let Some(direction) = request.direction {
        return if has(direction)? { Ok(direction) } else { Err(without(survey, direction)) };
    }
    match (has(Direction::Up)?, has(Direction::Down)?) {
        (true, true) => Err(ExportError::Refused(
            "both directions have records, and a file holds those of one: --direction up or down"
                .to_owned(),
        )),
        (true, false) => Ok(Direction::Up),
        (false, true) => Ok(Direction::Down),
        (false, false) => Err(without(survey, Direction::Up)),
    }
}

fn without(survey: &Survey, direction: Direction) -> ExportError {
    let found = header_of(&survey.header, direction).link.0.get("queue");
    ExportError::Refused(format!(
        "these records describe queue=jens, and the queue of direction {} is {}: export csv, \
         parquet or pcapng",
        direction.name(),
        found.map_or("fifo", String::as_str),
    ))
}

fn user(config: &LinkConfig, request: &Request) -> Result<usize, ExportError> {
    let users = config.jens.users;
    match request.user {
        Some(user) if user < users => Ok(usize::try_from(user).unwrap_or(usize::MAX)),
        Some(user) => Err(ExportError::Refused(format!(
            "there is no user {user}: jens.users is {users}, and they count from 0"
        ))),
        None if users == 1 => Ok(0),
        None => Err(ExportError::Refused(format!(
            "each of its {users} users has records of its own: --user 0 to {}",
            users - 1
        ))),
    }
}

/// The link of a direction, with a ring in which nothing is overwritten: it is emptied after each
/// record, and grows with what is in it.
fn config(survey: &Survey, direction: Direction) -> Result<LinkConfig, ExportError> {
    let header = header_of(&survey.header, direction);
    let mut config = header.config().map_err(|error| {
        let direction = direction.name();
        ExportError::Refused(format!("it cannot be replayed: direction {direction}: {error}"))
    })?;
    config.jens.sub_buffers = JensConfig::MAX_SUB_BUFFERS;
    Ok(config)
}

/// A link fed from a log for the records of its queue.
struct Replay<W> {
    link: Link,
    config: LinkConfig,
    now: Instant,
    user: usize,
    epoch_unix_ns: u64,
    out: W,
    bytes: Vec<u8>,
    arrivals: u64,
    written: u64,
}

impl<W: Write> Replay<W> {
    fn new(
        survey: &Survey,
        direction: Direction,
        config: LinkConfig,
        user: usize,
        out: W,
    ) -> Result<Self, ExportError> {
        let header = header_of(&survey.header, direction);
        let now = Instant::from_nanos(header.start_ns);
        let link = Link::new(&config, header.seed, now)
            .map_err(|error| ExportError::Refused(format!("it cannot be replayed: {error}")))?;
        let epoch_unix_ns = survey.header.epoch.realtime_ns;
        let (bytes, arrivals, written) = (Vec::new(), 0, 0);
        Ok(Self { link, config, now, user, epoch_unix_ns, out, bytes, arrivals, written })
    }

    fn record(&mut self, record: &Record) -> Result<(), ExportError> {
        match record {
            Record::Arrival(arrival) => self.arrive(arrival),
            Record::Change { at, change } => self.change(change, *at)?,
            Record::Follow { at, trace } => self.follow(trace.as_deref(), *at)?,
            Record::Departure(_) | Record::Drop(_) => return Ok(()),
        }
        self.drain(false)
    }

    /// Replays to the end of a whole direction, and else to the last thing that it was given:
    /// what came next decided what followed.
    fn finish(mut self, end_ns: Option<u64>) -> Result<u64, ExportError> {
        if let Some(end_ns) = end_ns {
            self.link.advance(Instant::from_nanos(end_ns));
        }
        self.drain(true)?;
        self.out.flush()?;
        Ok(self.written)
    }

    fn arrive(&mut self, arrival: &Arrival) {
        self.arrivals += 1;
        self.now = self.now.max(arrival.at);
        // The handle is what a record's packet is found by, and all that is to be found is its flow.
        let handle = u64::from(arrival.flow);
        self.link.arrive(Arrival { at: self.now, ..*arrival }.packet(handle));
    }

    fn change(&mut self, change: &Change, at: Instant) -> Result<(), ExportError> {
        self.now = self.now.max(at);
        self.config = self.config.changed(change);
        if self.config.queue != QueueKind::Jens {
            // The queue goes, and its records with it.
            self.link.advance(self.now);
            self.drain(true)?;
        }
        self.link
            .change(change, self.now)
            .map(|_| ())
            .map_err(|error| ExportError::Refused(format!("it cannot be replayed: {error}")))
    }

    fn follow(&mut self, trace: Option<&Trace>, at: Instant) -> Result<(), ExportError> {
        self.now = self.now.max(at);
        let followed = self.link.follow(trace.cloned(), self.now);
        followed.map_err(|error| ExportError::Refused(format!("it cannot be replayed: {error}")))
    }

    /// Writes the sub-buffers that are complete; with `all` the one that is begun too.
    fn drain(&mut self, all: bool) -> Result<(), ExportError> {
        while self.link.poll().is_some() {}
        let Some(jens) = self.link.jens_mut() else { return Ok(()) };
        for (user, recorder) in jens.recorders().enumerate() {
            if all {
                recorder.flush();
            }
            if recorder.overwritten() > 0 {
                return Err(ExportError::Refused(
                    "more records at once than a ring of jens holds".to_owned(),
                ));
            }
            loop {
                self.bytes.clear();
                if !recorder.read(&mut self.bytes, self.epoch_unix_ns, ends) {
                    break;
                }
                if user == self.user {
                    self.out.write_all(&self.bytes)?;
                    let records = self.bytes.chunks_exact(JensRecord::LEN);
                    self.written += records.filter(|record| record[KIND] != PADDING).count() as u64;
                }
            }
        }
        Ok(())
    }
}

/// The stand-ins for a packet's addresses that captures have too.
fn ends(handle: u64) -> Option<FlowKey> {
    let (source, destination) = addresses(u32::try_from(handle).ok()?);
    Some(FlowKey {
        addresses: Some((IpAddr::V4(source), IpAddr::V4(destination))),
        protocol: EXPERIMENT,
        ..FlowKey::default()
    })
}

/// Where a record has its kind, and that of what fills a sub-buffer.
const KIND: usize = 8;
const PADDING: u8 = 4;
/// "Use for experimentation and testing" (RFC 3692, 2.1): no log has a packet's protocol.
const EXPERIMENT: u8 = 253;
