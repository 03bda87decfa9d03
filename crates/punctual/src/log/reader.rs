//! Reading a log, one record after the other.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use super::bytes::Bytes;
use super::codec::{DecodeError, Decoder};
use super::course::{self, Course};
use super::error::{Damage, ReadError};
use super::frame::{FrameHead, HEAD, Kind, MAGIC, VERSION};
use super::header::Header;
use super::record::Record;
use super::trailer::{DirectionTrailer, Trailer};
use super::{Direction, LaneId};

/// Reads a log. Holds one block (at most 1 MiB) at a time, and traces while they are followed: 16
/// to 48 bytes for each of their entries, at least 2 bytes of the log. Whatever the bytes are, it
/// neither panics nor holds more.
#[derive(Debug)]
pub struct LogReader<R> {
    input: R,
    /// Bytes read.
    offset: u64,
    header: Header,
    /// By direction and lane.
    decoders: [Vec<Decoder>; 2],
    /// Records read, likewise.
    records: [Vec<u64>; 2],
    block: Block,
    /// Traces of which the end has not been read, by direction.
    courses: [Option<Course>; 2],
    /// What a frame beside the blocks said.
    follow: Option<(LaneId, Record)>,
    ending: Option<Ending>,
}

/// What [`LogReader::read`] finds next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A record of a lane.
    Record(LaneId, Record),
    /// No more records.
    End(Ending),
}

/// How a log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With a trailer, which says whether the log is complete.
    Trailer(Box<Trailer>),
    /// Without, for one of the reasons in [`CutOff`](super::CutOff).
    CutOff,
}

#[derive(Debug, Default)]
struct Block {
    /// Where its frame begins.
    offset: u64,
    lane: Option<LaneId>,
    payload: Vec<u8>,
    /// Bytes of `payload` that are decoded.
    decoded: usize,
    /// Records not yet decoded.
    left: u32,
}

impl LogReader<BufReader<File>> {
    /// Opens a log.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let file =
            File::open(path).map_err(|error| ReadError::Open { path: path.to_owned(), error })?;
        Self::new(BufReader::new(file))
    }
}

impl<R: Read> LogReader<R> {
    /// Reads the front of a log.
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut source = Source { input, offset: 0 };
        let mut front = [0; 12];
        let got = source.fill(&mut front)?;
        let (magic, version) = front.split_at(MAGIC.len());
        // An empty one, too.
        let begun = MAGIC.starts_with(&magic[..got.min(magic.len())]);
        if got < front.len() && begun {
            return Err(ReadError::CutOff { length: source.offset });
        }
        if got < front.len() || magic != MAGIC {
            return Err(ReadError::NotALog);
        }
        let version = u32::from_le_bytes([version[0], version[1], version[2], version[3]]);
        if version != VERSION {
            return Err(ReadError::Version(version));
        }
        let mut payload = Vec::new();
        let at = source.offset;
        let header: Header = match source.frame(&mut payload)? {
            Some(FrameHead { kind: Kind::Header, .. }) => parse("header", &payload)?,
            Some(_) => return Err(damaged(at, Damage::Place)),
            None => return Err(ReadError::CutOff { length: source.offset }),
        };
        if let Some(problem) = header.lanes_problem() {
            return Err(ReadError::Json { place: "header", problem });
        }
        let mut log = Self {
            input: source.input,
            offset: source.offset,
            decoders: header.for_lanes(|_| Decoder::default()),
            records: header.for_lanes(|_| 0),
            header,
            block: Block::default(),
            courses: [None, None],
            follow: None,
            ending: None,
        };
        log.read_traces()?;
        Ok(log)
    }

    /// The traces that the header promises.
    fn read_traces(&mut self) -> Result<(), ReadError> {
        for direction in Direction::BOTH {
            let header = self.header.direction(direction);
            let (follows, start) = (header.follows, header.start_ns);
            while follows && self.follow.is_none() {
                let at = self.offset;
                self.next_frame()?;
                // Nothing can be replayed of what is cut off here.
                if self.ending.is_some() || self.block.left > 0 {
                    return Err(damaged(at, Damage::Place));
                }
            }
            match self.follow.take() {
                None => {}
                Some((of, Record::Follow { at, trace: Some(trace) }))
                    if of.direction == direction && at.as_nanos() == start =>
                {
                    self.header.direction_mut(direction).trace = Some(*trace);
                }
                Some(_) => return Err(damaged(self.offset, Damage::Place)),
            }
        }
        Ok(())
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes of the log that were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.offset
    }

    /// The next record. After the end, the end again.
    pub fn read(&mut self) -> Result<Entry, ReadError> {
        loop {
            if let Some(ending) = &self.ending {
                return Ok(Entry::End(ending.clone()));
            }
            if let Some((lane, record)) = self.take()? {
                self.records[lane.direction.index()][lane.at()] += 1;
                return Ok(Entry::Record(lane, record));
            }
            self.next_frame()?;
        }
    }

    fn take(&mut self) -> Result<Option<(LaneId, Record)>, ReadError> {
        match self.follow.take() {
            Some(follow) => Ok(Some(follow)),
            None => self.decode(),
        }
    }

    /// The next record of the block at hand; `None` when it is used up.
    fn decode(&mut self) -> Result<Option<(LaneId, Record)>, ReadError> {
        let block = &mut self.block;
        let Some(lane) = block.lane.filter(|_| block.left > 0) else { return Ok(None) };
        let mut bytes = Bytes::new(&block.payload[block.decoded..]);
        let record = self.decoders[lane.direction.index()][lane.at()].decode(&mut bytes);
        let record = record.map_err(|error| damaged(block.offset, Damage::Record(error)))?;
        block.decoded = block.payload.len() - bytes.len();
        block.left -= 1;
        if block.left == 0 && !bytes.is_empty() {
            return Err(damaged(block.offset, Damage::Surplus));
        }
        Ok(Some((lane, record)))
    }

    fn next_frame(&mut self) -> Result<(), ReadError> {
        let at = self.offset;
        let mut source = Source { input: &mut self.input, offset: at };
        let head = source.frame(&mut self.block.payload)?;
        self.offset = source.offset;
        match head {
            None => self.ending = Some(Ending::CutOff),
            // A trace is one for all lanes.
            Some(FrameHead { kind: Kind::Course(direction) | Kind::Follow(direction), .. })
                if self.decoders[direction.index()].len() > 1 =>
            {
                return Err(damaged(at, Damage::Place));
            }
            Some(FrameHead { kind: Kind::Course(direction), count, .. }) => {
                self.course(direction, count)
                    .map_err(|error| damaged(at, Damage::Record(error)))?;
            }
            Some(FrameHead { kind: Kind::Follow(direction), count, .. }) => {
                let course = self.courses[direction.index()].take();
                let follow = course::follow(course, &self.block.payload);
                let follow = follow.map_err(|error| damaged(at, Damage::Record(error)))?;
                if count != 1 {
                    return Err(damaged(at, Damage::Place));
                }
                self.follow = Some((direction.into(), follow));
            }
            Some(FrameHead { kind: Kind::Block(lane), count, .. }) => {
                let way = lane.direction.index();
                let known = lane.at() < self.decoders[way].len();
                if count == 0 || !known || self.courses[way].is_some() {
                    return Err(damaged(at, Damage::Place));
                }
                self.block.offset = at;
                self.block.lane = Some(lane);
                self.block.decoded = 0;
                self.block.left = count;
            }
            Some(FrameHead { kind: Kind::Trailer, .. }) => self.end(at)?,
            Some(FrameHead { kind: Kind::Header, .. }) => {
                return Err(damaged(at, Damage::Place));
            }
        }
        Ok(())
    }

    /// Another part of a trace, kept until it is whole.
    fn course(&mut self, direction: Direction, count: u32) -> Result<(), DecodeError> {
        let payload = &self.block.payload;
        match &mut self.courses[direction.index()] {
            Some(course) => course.go_on(count, payload)?,
            none => *none = Some(Course::begin(count, payload)?),
        }
        Ok(())
    }

    fn end(&mut self, at: u64) -> Result<(), ReadError> {
        let trailer: Trailer = parse("trailer", &self.block.payload)?;
        let records = |end: &DirectionTrailer| end.each().map(|lane| lane.records).collect();
        let counted: [Vec<u64>; 2] = [records(&trailer.up), records(&trailer.down)];
        if counted != self.records {
            return Err(damaged(at, Damage::Count));
        }
        if trailer.contradicts_itself() {
            return Err(damaged(at, Damage::Contradiction));
        }
        let mut source = Source { input: &mut self.input, offset: self.offset };
        if source.fill(&mut [0])? > 0 {
            return Err(damaged(self.offset, Damage::Place));
        }
        self.ending = Some(Ending::Trailer(Box::new(trailer)));
        Ok(())
    }
}

/// Bytes and how many there were.
struct Source<R> {
    input: R,
    offset: u64,
}

impl<R: Read> Source<R> {
    /// The next frame, its checksum verified; `None` where the file ends before the frame does.
    fn frame(&mut self, payload: &mut Vec<u8>) -> Result<Option<FrameHead>, ReadError> {
        let at = self.offset;
        let mut head = [0; HEAD];
        if self.fill(&mut head)? < HEAD {
            return Ok(None);
        }
        let head = FrameHead::from_bytes(head).ok_or_else(|| damaged(at, Damage::Head))?;
        payload.clear();
        // Grows with what there is, not with what a forged length claims.
        let got = (&mut self.input).take(head.len.into()).read_to_end(payload);
        let got = got.map_err(|error| ReadError::Read { offset: self.offset, error })?;
        self.offset += got as u64;
        if got as u64 != u64::from(head.len) {
            return Ok(None);
        }
        if head.checksum(payload) != head.crc {
            return Err(damaged(at, Damage::Checksum));
        }
        Ok(Some(head))
    }

    /// Fills `buffer` as far as there is something.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError::Read { offset: self.offset, error }),
            }
        }
        self.offset += filled as u64;
        Ok(filled)
    }
}

fn parse<T: serde::de::DeserializeOwned>(
    place: &'static str,
    payload: &[u8],
) -> Result<T, ReadError> {
    serde_json::from_slice(payload)
        .map_err(|error| ReadError::Json { place, problem: error.to_string() })
}

fn damaged(offset: u64, problem: Damage) -> ReadError {
    ReadError::Damaged { offset, problem }
}
