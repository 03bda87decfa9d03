//! Logs altered by somebody who can make checksums.

use punctual::log::{
    BlockWriter, Direction, DirectionEnd, Ending, Entry, Header, LogReader, Record,
};

/// A log taken apart.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) header: Header,
    pub(crate) records: Vec<(Direction, Record)>,
    pub(crate) ends: [DirectionEnd; 2],
}

pub(crate) fn parts(log: &[u8]) -> Parts {
    let mut reader = LogReader::new(log).unwrap();
    let header = reader.header().clone();
    let mut records = Vec::new();
    loop {
        match reader.read().unwrap() {
            Entry::Record(lane, record) => records.push((lane.direction, record)),
            Entry::End(Ending::Trailer(trailer)) => {
                let ends = [trailer.up, trailer.down]
                    .map(|end| DirectionEnd { end: end.end, unwritten: end.unwritten });
                return Parts { header, records, ends };
            }
            Entry::End(Ending::CutOff) => panic!("cut off"),
        }
    }
}

impl Parts {
    pub(crate) fn log(self) -> Vec<u8> {
        let mut log = Vec::new();
        let mut writer = BlockWriter::start(&mut log, &self.header).unwrap();
        for (direction, record) in &self.records {
            writer.record(*direction, record);
        }
        writer.finish(&self.ends).unwrap();
        log
    }

    /// Where the records are that `is` picks.
    pub(crate) fn positions(&self, is: fn(&Record) -> bool) -> Vec<usize> {
        let picked = self.records.iter().enumerate().filter(|(_, (_, record))| is(record));
        picked.map(|(at, _)| at).collect()
    }
}
