//! Records as bytes. Each direction has one [`Encoder`] and one [`Decoder`]; both remember the
//! same few values of earlier records, and write only what differs.

use punctual_sched::{BitFlip, Change, DropReason, Duration, Ecn, Instant, Mark, Rate};

use super::bytes::{Bytes, put_difference, put_signed, put_varint};
use super::record::{Arrival, Departure, Dropped, Record};
use super::values::{limit, loss, others, put_limit, put_loss, put_others};

/// Turns records into bytes.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    last: Last,
}

/// Turns bytes into records.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    last: Last,
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The block ends inside a record.
    #[error("a record is cut off by the end of its block")]
    Short,
    /// An integer of more than 64 bits.
    #[error("an integer has more than 64 bits")]
    Overflow,
    /// A flag that this version does not know.
    #[error("a record has unknown flags: {0:#04x}")]
    Flags(u8),
    /// A value out of its range.
    #[error("the value of `{0}` is out of range")]
    Range(&'static str),
}

/// Values of earlier records that the next one is written against. All zero at the start.
#[derive(Clone, Debug, Default)]
struct Last {
    arrival: u64,
    len: u32,
    flow: u32,
    class: Class,
    departed: u64,
    due: u64,
    service: (u64, u64),
    propagation: u64,
    dropped: u64,
    dropped_at: u64,
    changed_at: u64,
}

/// What packets of one flow mostly share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Class {
    segments: u16,
    mark: u32,
    /// DSCP and ECN as in an IP header's byte.
    tos: u8,
}

/// The two low bits of a record's first byte; the others are flags.
const ARRIVAL: u8 = 0;
const DEPARTURE: u8 = 1;
const DROP: u8 = 2;
const CHANGE: u8 = 3;
const KIND: u8 = 0x03;

/// Arrival: as in the arrival before.
const SAME_LEN: u8 = 0x04;
const SAME_FLOW: u8 = 0x08;
const SAME_CLASS: u8 = 0x10;

/// Departure: bits 2 and 3 are the mark, or [`MORE`]: a byte follows with the mark in its low
/// bits and what is rare.
const MARK_SHIFT: u32 = 2;
const MORE: u8 = 3;
/// The byte of rare things: a number of the copy follows, a flipped bit follows.
const COPY: u8 = 0x04;
const CORRUPT: u8 = 0x08;
/// Drop: the number of the copy follows the reason.
const DROPPED_COPY: u8 = 0x04;
/// The packet after the one that departed last.
const IN_SEQUENCE: u8 = 0x10;
/// Serialisation and pacing as in the departure before.
const SAME_SERVICE: u8 = 0x20;
const SAME_PROPAGATION: u8 = 0x40;
const RELEASED: u8 = 0x80;

/// Change: which parameters follow.
const RATE: u8 = 0x04;
const DELAY: u8 = 0x08;
const JITTER: u8 = 0x10;
const LOSS: u8 = 0x20;
const LIMIT: u8 = 0x40;
/// Others follow, by name.
const OTHERS: u8 = 0x80;

impl Encoder {
    /// Appends `record` to `out`: at most 96 bytes, and for a change what the names and values of
    /// its parameters without a field of their own take. Not for [`Record::Follow`].
    pub fn encode(&mut self, record: &Record, out: &mut Vec<u8>) {
        match record {
            Record::Arrival(arrival) => self.arrival(arrival, out),
            Record::Change { at, change } => self.change(*at, change, out),
            Record::Departure(departure) => self.departure(departure, out),
            Record::Drop(drop) => self.drop(drop, out),
            // Has frames of its own.
            Record::Follow { .. } => {}
        }
    }

    fn arrival(&mut self, arrival: &Arrival, out: &mut Vec<u8>) {
        let Arrival { at, len, segments, flow, mark, dscp, ecn } = *arrival;
        let class = Class { segments, mark, tos: dscp << 2 | ecn as u8 };
        let last = &mut self.last;
        let (same_len, same_flow) = (len == last.len, flow == last.flow);
        let same_class = class == last.class;
        let flags =
            flag(same_len, SAME_LEN) | flag(same_flow, SAME_FLOW) | flag(same_class, SAME_CLASS);
        out.push(ARRIVAL | flags);
        put_difference(out, last.arrival, at.as_nanos());
        if !same_len {
            put_varint(out, len.into());
        }
        if !same_flow {
            // A hash: all values are as likely, and a varint would take five bytes.
            out.extend_from_slice(&flow.to_le_bytes());
        }
        if !same_class {
            put_varint(out, segments.into());
            put_varint(out, mark.into());
            out.push(class.tos);
        }
        *last = Last { arrival: at.as_nanos(), len, flow, class, ..*last };
    }

    fn departure(&mut self, departure: &Departure, out: &mut Vec<u8>) {
        let last = &mut self.last;
        let service = (departure.serialisation.as_nanos(), departure.pacing.as_nanos());
        let stages = departure.queue.as_nanos().wrapping_add(service.0).wrapping_add(service.1);
        let propagation = departure.delay.as_nanos().wrapping_sub(stages);
        let due = departure.due.as_nanos();
        let next = last.departed.wrapping_add(1);
        let in_sequence = departure.sequence == next;
        let (same_service, same_propagation) =
            (service == last.service, propagation == last.propagation);
        let rare = flag(departure.copy != 0, COPY) | flag(departure.corrupt.is_some(), CORRUPT);
        let mark = departure.mark as u8;
        let flags = (if rare == 0 { mark } else { MORE }) << MARK_SHIFT
            | flag(in_sequence, IN_SEQUENCE)
            | flag(same_service, SAME_SERVICE)
            | flag(same_propagation, SAME_PROPAGATION)
            | flag(departure.lateness_ns.is_some(), RELEASED);
        out.push(DEPARTURE | flags);
        if rare != 0 {
            out.push(mark | rare);
            out.extend((departure.copy != 0).then_some(departure.copy));
            if let Some(BitFlip(bit)) = departure.corrupt {
                put_varint(out, bit.into());
            }
        }
        if !in_sequence {
            put_difference(out, next, departure.sequence);
        }
        put_difference(out, last.due, due);
        put_varint(out, departure.queue.as_nanos());
        if !same_service {
            put_varint(out, service.0);
            put_varint(out, service.1);
        }
        if !same_propagation {
            put_varint(out, propagation);
        }
        if let Some(lateness_ns) = departure.lateness_ns {
            put_signed(out, lateness_ns);
        }
        *last = Last { departed: departure.sequence, due, service, propagation, ..*last };
    }

    fn drop(&mut self, drop: &Dropped, out: &mut Vec<u8>) {
        let last = &mut self.last;
        out.extend_from_slice(&[DROP | flag(drop.copy != 0, DROPPED_COPY), drop.reason as u8]);
        out.extend((drop.copy != 0).then_some(drop.copy));
        put_difference(out, last.dropped, drop.sequence);
        put_difference(out, last.dropped_at, drop.at.as_nanos());
        put_varint(out, drop.delay.as_nanos());
        *last = Last { dropped: drop.sequence, dropped_at: drop.at.as_nanos(), ..*last };
    }

    fn change(&mut self, at: Instant, change: &Change, out: &mut Vec<u8>) {
        let Change { rate, delay, jitter, loss, limit, ref others } = *change;
        let flags = flag(rate.is_some(), RATE)
            | flag(delay.is_some(), DELAY)
            | flag(jitter.is_some(), JITTER)
            | flag(loss.is_some(), LOSS)
            | flag(limit.is_some(), LIMIT)
            | flag(!others.is_empty(), OTHERS);
        out.push(CHANGE | flags);
        put_difference(out, self.last.changed_at, at.as_nanos());
        let values =
            [rate.map(Rate::as_bps), delay.map(Duration::as_nanos), jitter.map(Duration::as_nanos)];
        for value in values.into_iter().flatten() {
            put_varint(out, value);
        }
        if let Some(loss) = loss {
            put_loss(loss, out);
        }
        if let Some(limit) = limit {
            put_limit(limit, out);
        }
        if !others.is_empty() {
            put_others(others, out);
        }
        self.last.changed_at = at.as_nanos();
    }
}

impl Decoder {
    /// The record at the front of `bytes`.
    pub fn decode(&mut self, bytes: &mut Bytes<'_>) -> Result<Record, DecodeError> {
        let tag = bytes.byte()?;
        match tag & KIND {
            ARRIVAL => self.arrival(tag, bytes).map(Record::Arrival),
            DEPARTURE => self.departure(tag, bytes).map(Record::Departure),
            DROP => self.drop(tag, bytes).map(Record::Drop),
            _ => self.change(tag, bytes),
        }
    }

    fn arrival(&mut self, tag: u8, bytes: &mut Bytes<'_>) -> Result<Arrival, DecodeError> {
        known(tag, SAME_LEN | SAME_FLOW | SAME_CLASS)?;
        let last = &mut self.last;
        last.arrival = bytes.difference(last.arrival)?;
        if tag & SAME_LEN == 0 {
            last.len = bytes.varint_as("len")?;
        }
        if tag & SAME_FLOW == 0 {
            last.flow = bytes.u32_le()?;
        }
        if tag & SAME_CLASS == 0 {
            let (segments, mark) = (bytes.varint_as("segments")?, bytes.varint_as("mark")?);
            last.class = Class { segments, mark, tos: bytes.byte()? };
        }
        let Class { segments, mark, tos } = last.class;
        if last.len == 0 {
            return Err(DecodeError::Range("len"));
        }
        if segments == 0 {
            return Err(DecodeError::Range("segments"));
        }
        Ok(Arrival {
            at: Instant::from_nanos(last.arrival),
            len: last.len,
            segments,
            flow: last.flow,
            mark,
            dscp: tos >> 2,
            ecn: Ecn::from_tos(tos),
        })
    }

    fn departure(&mut self, tag: u8, bytes: &mut Bytes<'_>) -> Result<Departure, DecodeError> {
        let rare = match tag >> MARK_SHIFT & 3 {
            MORE => bytes.byte()?,
            mark => mark,
        };
        let mark = match rare & 3 {
            0 => Mark::None,
            1 => Mark::Decided,
            2 => Mark::Ce,
            _ => return Err(DecodeError::Flags(rare)),
        };
        if rare & !(COPY | CORRUPT | 3) != 0 {
            return Err(DecodeError::Flags(rare));
        }
        let copy = if rare & COPY == 0 { 0 } else { bytes.byte()? };
        let corrupt =
            if rare & CORRUPT == 0 { None } else { Some(BitFlip(bytes.varint_as("corrupt")?)) };
        let last = &mut self.last;
        let next = last.departed.wrapping_add(1);
        last.departed = if tag & IN_SEQUENCE == 0 { bytes.difference(next)? } else { next };
        last.due = bytes.difference(last.due)?;
        let queue = bytes.varint()?;
        if tag & SAME_SERVICE == 0 {
            last.service = (bytes.varint()?, bytes.varint()?);
        }
        if tag & SAME_PROPAGATION == 0 {
            last.propagation = bytes.varint()?;
        }
        let lateness_ns = if tag & RELEASED == 0 { None } else { Some(bytes.signed()?) };
        let (serialisation, pacing) = last.service;
        let delay =
            [serialisation, pacing, last.propagation].into_iter().fold(queue, u64::wrapping_add);
        Ok(Departure {
            sequence: last.departed,
            copy,
            corrupt,
            due: Instant::from_nanos(last.due),
            delay: Duration::from_nanos(delay),
            queue: Duration::from_nanos(queue),
            serialisation: Duration::from_nanos(serialisation),
            pacing: Duration::from_nanos(pacing),
            mark,
            lateness_ns,
        })
    }

    fn drop(&mut self, tag: u8, bytes: &mut Bytes<'_>) -> Result<Dropped, DecodeError> {
        known(tag, DROPPED_COPY)?;
        let reason = usize::from(bytes.byte()?);
        let reason = *DropReason::ALL.get(reason).ok_or(DecodeError::Range("reason"))?;
        let copy = if tag & DROPPED_COPY == 0 { 0 } else { bytes.byte()? };
        let last = &mut self.last;
        last.dropped = bytes.difference(last.dropped)?;
        last.dropped_at = bytes.difference(last.dropped_at)?;
        let delay = Duration::from_nanos(bytes.varint()?);
        let (sequence, at) = (last.dropped, Instant::from_nanos(last.dropped_at));
        Ok(Dropped { sequence, copy, reason, at, delay })
    }

    fn change(&mut self, tag: u8, bytes: &mut Bytes<'_>) -> Result<Record, DecodeError> {
        known(tag, RATE | DELAY | JITTER | LOSS | LIMIT | OTHERS)?;
        self.last.changed_at = bytes.difference(self.last.changed_at)?;
        let mut change = Change::default();
        if tag & RATE != 0 {
            let rate = Rate::from_bps(bytes.varint()?);
            change.rate = Some(rate.ok_or(DecodeError::Range("rate"))?);
        }
        if tag & DELAY != 0 {
            change.delay = Some(Duration::from_nanos(bytes.varint()?));
        }
        if tag & JITTER != 0 {
            change.jitter = Some(Duration::from_nanos(bytes.varint()?));
        }
        if tag & LOSS != 0 {
            change.loss = Some(loss(bytes)?);
        }
        if tag & LIMIT != 0 {
            change.limit = Some(limit(bytes)?);
        }
        if tag & OTHERS != 0 {
            others(bytes, &mut change)?;
        }
        Ok(Record::Change { at: Instant::from_nanos(self.last.changed_at), change })
    }
}

const fn flag(on: bool, flag: u8) -> u8 {
    if on { flag } else { 0 }
}

/// Refuses flags that this version does not write, so that a newer log is never half understood.
fn known(tag: u8, flags: u8) -> Result<(), DecodeError> {
    if tag & !(KIND | flags) == 0 { Ok(()) } else { Err(DecodeError::Flags(tag)) }
}
