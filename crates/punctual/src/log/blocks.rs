//! Records into blocks, blocks into a file.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::iter::repeat;

use punctual_sched::Instant;
use punctual_sched::trace::Trace;

use super::codec::Encoder;
use super::file::Meddling;
use super::frame::{FrameHead, Kind, MAGIC, VERSION};
use super::header::{DirectionHeader, Header};
use super::record::Record;
use super::trailer::{DirectionTrailer, EndRecord, Trailer};
use super::writer::LogError;
use super::{Direction, LaneId, course, frame};

/// Writes a log: the header at once, then records in any mixture of directions, then the trailer.
///
/// The first failure to write ends the log: it is cut back to its last whole block, and what
/// comes later is only counted. The file is always a prefix of what happened in each direction.
#[derive(Debug)]
pub struct BlockWriter<S: Sink> {
    sink: S,
    /// By direction and the lane's index.
    lanes: [Vec<Lane>; 2],
    /// Bytes up to the end of the last whole frame.
    written: u64,
    error: Option<io::Error>,
    /// Two places to cut the log at, [`ROOM`] or more bytes apart, the earlier first.
    cuts: [Cut; 2],
    /// A frame written in part could not be cut off: nothing may follow it.
    closed: bool,
}

/// Where a log goes.
pub trait Sink: Write {
    /// Makes `len` bytes all there is, so that a frame written in part disappears.
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

/// How a direction, or a lane of it, ended.
#[derive(Clone, Debug, Default)]
pub struct DirectionEnd {
    /// `None` when it broke off.
    pub end: Option<EndRecord>,
    /// Records that never reached the writer.
    pub unwritten: u64,
}

/// A direction with one lane ends as this does.
impl AsRef<[Self]> for DirectionEnd {
    fn as_ref(&self) -> &[Self] {
        std::slice::from_ref(self)
    }
}

/// What became of a log.
#[derive(Debug)]
pub struct LogSummary {
    /// Bytes in the file.
    pub bytes: u64,
    /// Records in the file, up and down.
    pub records: [u64; 2],
    /// Records that are not, up and down.
    pub unwritten: [u64; 2],
    /// Whether all of the run is in it.
    pub complete: bool,
    /// Why writing ended early.
    pub error: Option<io::Error>,
}

impl LogSummary {
    /// Why writing ended early, as the trailer tells it.
    pub fn cause(&self) -> Option<String> {
        self.error.as_ref().map(reason)
    }

    /// What was written is not there any more.
    fn lose_all(&mut self) {
        self.bytes = 0;
        for (records, unwritten) in self.records.iter_mut().zip(&mut self.unwritten) {
            *unwritten += std::mem::take(records);
        }
    }
}

/// The end of a frame, and the records written up to there.
#[derive(Clone, Debug, Default)]
struct Cut {
    bytes: u64,
    records: [Vec<u64>; 2],
}

#[derive(Debug, Default)]
struct Lane {
    encoder: Encoder,
    block: Vec<u8>,
    /// Records in `block`.
    count: u32,
    written: u64,
    unwritten: u64,
}

/// A block is written when it has this many bytes: few enough that a killed run loses little,
/// enough that head and system call do not count.
const BLOCK: usize = 64 << 10;

/// What a full disk makes the log give back at least, so that its trailer (some 900 bytes) finds
/// room.
const ROOM: u64 = 4096;

impl<S: Sink> BlockWriter<S> {
    /// Begins a log.
    pub fn start(sink: S, header: &Header) -> Result<Self, LogError> {
        let mut writer = Self {
            sink,
            lanes: header.for_lanes(|_| Lane::default()),
            written: 0,
            error: None,
            cuts: Default::default(),
            closed: false,
        };
        let mut front = MAGIC.to_vec();
        front.extend_from_slice(&VERSION.to_le_bytes());
        writer.sink.write_all(&front).map_err(LogError::Write)?;
        writer.written = front.len() as u64;
        writer.frame(Kind::Header, 0, &json(header)?);
        for direction in Direction::BOTH {
            let DirectionHeader { start_ns, trace, .. } = header.direction(direction);
            if trace.is_some() {
                writer.follow(direction, Instant::from_nanos(*start_ns), trace.as_ref());
            }
        }
        if let Some(error) = writer.error.take() {
            return Err(LogError::Write(error));
        }
        let cut = Cut { bytes: writer.written, records: header.for_lanes(|_| 0) };
        writer.cuts = [cut.clone(), cut];
        Ok(writer)
    }

    /// The next record of a lane, which must be one that the header names; a trace is of a
    /// direction that has one.
    pub fn record(&mut self, lane: impl Into<LaneId>, record: &Record) {
        let id: LaneId = lane.into();
        let lane = &mut self.lanes[id.direction.index()][id.at()];
        if self.error.is_some() {
            lane.unwritten += 1;
            return;
        }
        if let Record::Follow { at, trace } = record {
            self.flush_one(id);
            self.follow(id.direction, *at, trace.as_deref());
            let lane = &mut self.lanes[id.direction.index()][id.at()];
            match self.error {
                None => lane.written += 1,
                Some(_) => lane.unwritten += 1,
            }
            return;
        }
        lane.encoder.encode(record, &mut lane.block);
        lane.count += 1;
        if lane.block.len() >= BLOCK {
            self.flush_one(id);
        }
    }

    /// Writes the blocks begun.
    pub fn flush(&mut self) {
        for direction in Direction::BOTH {
            for index in (0..LaneId::MOST).take(self.lanes[direction.index()].len()) {
                self.flush_one(LaneId { direction, index });
            }
        }
    }

    /// Writes what is left and the trailer; of each direction, the ends of its lanes.
    pub fn finish(
        mut self,
        ends: &[impl AsRef<[DirectionEnd]>; 2],
    ) -> Result<LogSummary, LogError> {
        self.flush();
        let mut error = self.error.take();
        let mut trailer = self.trailer(error.as_ref(), ends);
        self.frame(Kind::Trailer, 0, &json(&trailer)?);
        if let Some(late) = self.error.take() {
            error = Some(error.unwrap_or(late));
            self.make_room();
            trailer = self.trailer(error.as_ref(), ends);
            self.frame(Kind::Trailer, 0, &json(&trailer)?);
        }
        let late = self.error.take().or_else(|| self.sink.flush().err());
        let complete = trailer.complete && late.is_none();
        let mut summary = LogSummary {
            bytes: self.written,
            records: [&trailer.up, &trailer.down]
                .map(|end| end.each().map(|lane| lane.records).sum()),
            unwritten: [trailer.up.all_unwritten(), trailer.down.all_unwritten()],
            complete,
            error: error.or(late),
        };
        if summary.error.as_ref().is_some_and(|error| Meddling::of(error).is_some()) {
            summary.lose_all();
        }
        Ok(summary)
    }

    fn trailer(
        &self,
        error: Option<&io::Error>,
        ends: &[impl AsRef<[DirectionEnd]>; 2],
    ) -> Trailer {
        let [up, down] = Direction::BOTH.map(|direction| {
            let lanes = self.lanes[direction.index()].iter();
            // A lane whose end nobody tells broke off.
            let ends = ends[direction.index()].as_ref().iter().map(Some).chain(repeat(None));
            let mut ends = lanes.zip(ends).map(|(lane, end)| lane.trailer(end));
            let first = ends.next().unwrap_or_else(|| Lane::default().trailer(None));
            DirectionTrailer { lanes: ends.collect(), ..first }
        });
        let whole = |end: &DirectionTrailer| end.unwritten == 0 && end.end.is_some();
        let complete = error.is_none() && up.each().chain(down.each()).all(whole);
        Trailer { complete, error: error.map(reason), up, down }
    }

    /// Gives up the last blocks in favour of the trailer: better a log that lacks a little more
    /// and says what than one without an end.
    fn make_room(&mut self) {
        let cut = self.cuts[0].clone();
        if self.sink.cut(cut.bytes).is_err() {
            self.closed = true;
            return;
        }
        self.written = cut.bytes;
        let records = cut.records.into_iter().flatten();
        for (lane, records) in self.lanes.iter_mut().flatten().zip(records) {
            lane.unwritten += lane.written - records;
            lane.written = records;
        }
    }

    fn flush_one(&mut self, id: LaneId) {
        let lane = &mut self.lanes[id.direction.index()][id.at()];
        let count = std::mem::take(&mut lane.count);
        let mut block = std::mem::take(&mut lane.block);
        if count > 0 && self.error.is_none() {
            self.frame(Kind::Block(id), count, &block);
        }
        let lane = &mut self.lanes[id.direction.index()][id.at()];
        match self.error {
            None => lane.written += u64::from(count),
            Some(_) => lane.unwritten += u64::from(count),
        }
        block.clear();
        lane.block = block;
        if self.written - self.cuts[1].bytes >= ROOM {
            let written = |lanes: &Vec<Lane>| lanes.iter().map(|lane| lane.written).collect();
            let cut = Cut { bytes: self.written, records: self.lanes.each_ref().map(written) };
            self.cuts.rotate_left(1);
            self.cuts[1] = cut;
        }
    }

    /// The frames of a trace and of what is done with it.
    fn follow(&mut self, direction: Direction, at: Instant, trace: Option<&Trace>) {
        course::put_follow(direction, at, trace, &mut |kind, count, payload| {
            if self.error.is_none() {
                self.frame(kind, count, payload);
            }
        });
    }

    fn frame(&mut self, kind: Kind, count: u32, payload: &[u8]) {
        let result = match FrameHead::new(kind, count, payload) {
            _ if self.closed => Err(io::ErrorKind::BrokenPipe.into()),
            Some(head) => {
                self.sink.write_all(&head.to_bytes()).and_then(|()| self.sink.write_all(payload))
            }
            None => Err(io::Error::other("a frame would be longer than 1 MiB")),
        };
        match result {
            Ok(()) => self.written += (frame::HEAD + payload.len()) as u64,
            Err(error) => {
                // A pipe cannot be cut; a reader takes a frame without its end for the end.
                self.closed |= self.sink.cut(self.written).is_err();
                self.error = Some(error);
            }
        }
    }
}

impl Lane {
    fn trailer(&self, end: Option<&DirectionEnd>) -> DirectionTrailer {
        DirectionTrailer {
            records: self.written,
            unwritten: self.unwritten + end.map_or(0, |end| end.unwritten),
            end: end.and_then(|end| end.end.clone()),
            lanes: Vec::new(),
        }
    }
}

impl Sink for File {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)?;
        self.seek(SeekFrom::Start(len)).map(drop)
    }
}

impl<S: Sink> Sink for &mut S {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        (**self).cut(len)
    }
}

impl Sink for Vec<u8> {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        Ok(())
    }
}

fn json(value: &impl serde::Serialize) -> Result<Vec<u8>, LogError> {
    serde_json::to_vec(value).map_err(|error| LogError::Write(error.into()))
}

/// The end of a sentence that begins "not written because".
fn reason(error: &io::Error) -> String {
    if let Some(meddling) = Meddling::of(error) {
        return meddling.to_string();
    }
    match error.kind() {
        io::ErrorKind::StorageFull => "the disk was full".to_owned(),
        // EFBIG: also the limit of a file system.
        io::ErrorKind::FileTooLarge => "files may not be larger (ulimit -f)".to_owned(),
        io::ErrorKind::BrokenPipe => "the reader was gone".to_owned(),
        io::ErrorKind::TimedOut => "the reader did not read on".to_owned(),
        io::ErrorKind::QuotaExceeded => "the disk quota was used up".to_owned(),
        _ => format!("writing failed ({error})"),
    }
}
