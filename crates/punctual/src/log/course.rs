//! Traces in a log: their entries in frames of bounded size, then that a link follows them.

use punctual_sched::trace::{
    Delivery, Opportunity, Schedule, ScheduleBuilder, Step, Trace, TraceStart,
};
use punctual_sched::{Duration, Instant, Probability, Rate};
use std::sync::Arc;

use super::bytes::{Bytes, put_difference, put_varint};
use super::codec::DecodeError;
use super::frame::Kind;
use super::{Direction, Record};

/// Writes what a direction's link follows from `at` on: `frame` takes the kind, the number of
/// entries or records, and the payload of each frame.
pub(super) fn put_follow(
    direction: Direction,
    at: Instant,
    trace: Option<&Trace>,
    frame: &mut impl FnMut(Kind, u32, &[u8]),
) {
    if let Some(trace) = trace {
        put_schedule(&trace.schedule, &mut |count, payload| {
            frame(Kind::Course(direction), count, payload);
        });
    }
    let mut payload = Vec::new();
    put_varint(&mut payload, at.as_nanos());
    let at_once = |trace: &Trace| trace.start == TraceStart::AtOnce;
    payload.push(
        flag(trace.is_some(), FOLLOWS)
            | flag(trace.is_some_and(at_once), AT_ONCE)
            | flag(trace.is_some_and(|trace| trace.repeat), REPEATS)
            | flag(trace.is_some_and(|trace| trace.per_packet.is_some()), PER_PACKET),
    );
    if let Some(trace) = trace {
        put_varint(&mut payload, trace.offset.as_nanos());
        if let Some(bytes) = trace.per_packet {
            put_varint(&mut payload, bytes.into());
        }
    }
    frame(Kind::Follow(direction), 1, &payload);
}

fn put_schedule(schedule: &Schedule, frame: &mut impl FnMut(u32, &[u8])) {
    let mut pieces = Pieces { payload: Vec::new(), count: 0, frame };
    let unit = unit(schedule);
    let head = &mut pieces.payload;
    let opportunity = schedule.opportunity();
    head.push(if opportunity.is_some() { DELIVERIES } else { STEPS });
    put_varint(head, unit);
    put_varint(head, schedule.span().as_nanos() / unit);
    if let Some(Opportunity { bytes, per_packet }) = opportunity {
        put_varint(head, bytes.into());
        put_varint(head, per_packet.into());
    }
    let mut last = Last::default();
    for delivery in schedule.deliveries() {
        let entry = pieces.entry();
        last.put_time(delivery.at, unit, entry);
        put_varint(entry, delivery.count.into());
    }
    for step in schedule.steps() {
        last.put_step(&step, unit, pieces.entry());
    }
    pieces.end();
}

/// The longest unit of time of which all times are multiples.
fn unit(schedule: &Schedule) -> u64 {
    let deliveries = schedule.deliveries().iter().map(|delivery| delivery.at);
    let times = deliveries.chain(schedule.steps().map(|step| step.at));
    times.fold(schedule.span().as_nanos(), |unit, at| common_divisor(unit, at.as_nanos()))
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Payloads that are full.
struct Pieces<'a, F> {
    payload: Vec<u8>,
    count: u32,
    frame: &'a mut F,
}

impl<F: FnMut(u32, &[u8])> Pieces<'_, F> {
    /// Where the next entry goes.
    fn entry(&mut self) -> &mut Vec<u8> {
        if self.payload.len() >= PIECE {
            self.end();
        }
        self.count += 1;
        &mut self.payload
    }

    fn end(&mut self) {
        if self.count > 0 {
            (self.frame)(self.count, &self.payload);
        }
        self.payload.clear();
        self.count = 0;
    }
}

/// Values of the entry before.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    /// In units.
    time: u64,
    rate: u64,
    delay: u64,
}

impl Last {
    fn put_time(&mut self, at: Duration, unit: u64, out: &mut Vec<u8>) {
        let time = at.as_nanos() / unit;
        put_varint(out, time - self.time);
        self.time = time;
    }

    fn put_step(&mut self, step: &Step, unit: u64, out: &mut Vec<u8>) {
        let Step { at, rate, delay, loss } = *step;
        out.push(
            flag(rate.is_some(), RATE) | flag(delay.is_some(), DELAY) | flag(loss.is_some(), LOSS),
        );
        self.put_time(at, unit, out);
        if let Some(rate) = rate {
            put_difference(out, self.rate, rate.as_bps());
            self.rate = rate.as_bps();
        }
        if let Some(delay) = delay {
            put_difference(out, self.delay, delay.as_nanos());
            self.delay = delay.as_nanos();
        }
        if let Some(loss) = loss {
            put_varint(out, loss.as_raw().into());
        }
    }
}

/// A trace that is being read, frame by frame.
#[derive(Debug)]
pub(super) struct Course {
    builder: ScheduleBuilder,
    unit: u64,
    deliveries: bool,
    last: Last,
}

impl Course {
    /// The first frame of one.
    pub(super) fn begin(count: u32, payload: &[u8]) -> Result<Self, DecodeError> {
        let mut bytes = Bytes::new(payload);
        let kind = bytes.byte()?;
        let unit = bytes.varint()?;
        let span = bytes.varint()?.checked_mul(unit).ok_or(DecodeError::Overflow)?;
        let span = Duration::from_nanos(span);
        let builder = match kind {
            STEPS => ScheduleBuilder::steps(span),
            DELIVERIES => {
                let (bytes, per_packet) =
                    (bytes.varint_as("bytes")?, bytes.varint_as("per_packet")?);
                ScheduleBuilder::deliveries(Opportunity { bytes, per_packet }, span)
            }
            other => return Err(DecodeError::Flags(other)),
        };
        let deliveries = kind == DELIVERIES;
        let mut course = Self { builder, unit, deliveries, last: Last::default() };
        course.entries(count, &mut bytes)?;
        Ok(course)
    }

    /// Another frame of it.
    pub(super) fn go_on(&mut self, count: u32, payload: &[u8]) -> Result<(), DecodeError> {
        self.entries(count, &mut Bytes::new(payload))
    }

    fn entries(&mut self, count: u32, bytes: &mut Bytes<'_>) -> Result<(), DecodeError> {
        for _ in 0..count {
            let entry = if self.deliveries {
                let at = self.time(bytes)?;
                let count = bytes.varint_as("count")?;
                self.builder.delivery(Delivery { at, count })
            } else {
                let step = self.step(bytes)?;
                self.builder.step(step)
            };
            entry.map_err(|_| DecodeError::Range("entry"))?;
        }
        if bytes.is_empty() { Ok(()) } else { Err(DecodeError::Range("count")) }
    }

    fn time(&mut self, bytes: &mut Bytes<'_>) -> Result<Duration, DecodeError> {
        let time = self.last.time.checked_add(bytes.varint()?).ok_or(DecodeError::Overflow)?;
        self.last.time = time;
        time.checked_mul(self.unit).map(Duration::from_nanos).ok_or(DecodeError::Overflow)
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) -> Result<Step, DecodeError> {
        let flags = bytes.byte()?;
        if flags == 0 || flags & !(RATE | DELAY | LOSS) != 0 {
            return Err(DecodeError::Flags(flags));
        }
        let mut step = Step { at: self.time(bytes)?, ..Step::default() };
        if flags & RATE != 0 {
            self.last.rate = bytes.difference(self.last.rate)?;
            let rate = Rate::from_bps(self.last.rate);
            step.rate = Some(rate.ok_or(DecodeError::Range("rate"))?);
        }
        if flags & DELAY != 0 {
            self.last.delay = bytes.difference(self.last.delay)?;
            step.delay = Some(Duration::from_nanos(self.last.delay));
        }
        if flags & LOSS != 0 {
            step.loss = Some(Probability::from_raw(bytes.varint_as("loss")?));
        }
        Ok(step)
    }
}

/// The record of a follow frame; `course` is what the frames before it hold.
pub(super) fn follow(course: Option<Course>, payload: &[u8]) -> Result<Record, DecodeError> {
    let mut bytes = Bytes::new(payload);
    let at = Instant::from_nanos(bytes.varint()?);
    let flags = bytes.byte()?;
    let known = FOLLOWS | AT_ONCE | REPEATS | PER_PACKET;
    let trace = match course {
        None if flags == 0 => None,
        Some(course) if flags & FOLLOWS != 0 && flags & !known == 0 => {
            let schedule = course.builder.finish().map_err(|_| DecodeError::Range("course"))?;
            let at_once = flags & AT_ONCE != 0;
            let offset = Duration::from_nanos(bytes.varint()?);
            let per_packet =
                if flags & PER_PACKET != 0 { Some(bytes.varint_as("per_packet")?) } else { None };
            Some(Box::new(Trace {
                schedule: Arc::new(schedule),
                start: if at_once { TraceStart::AtOnce } else { TraceStart::FirstPacket },
                repeat: flags & REPEATS != 0,
                offset,
                per_packet,
            }))
        }
        _ => return Err(DecodeError::Flags(flags)),
    };
    if bytes.is_empty() {
        Ok(Record::Follow { at, trace })
    } else {
        Err(DecodeError::Range("follow"))
    }
}

const fn flag(on: bool, flag: u8) -> u8 {
    if on { flag } else { 0 }
}

/// A frame is full with so many bytes, as a block.
const PIECE: usize = 64 << 10;

/// The first byte of a course.
const STEPS: u8 = 0;
const DELIVERIES: u8 = 1;

/// A step: what it sets.
const RATE: u8 = 0x01;
const DELAY: u8 = 0x02;
const LOSS: u8 = 0x04;

/// A follow frame.
const FOLLOWS: u8 = 0x01;
const AT_ONCE: u8 = 0x02;
const REPEATS: u8 = 0x04;
const PER_PACKET: u8 = 0x08;
