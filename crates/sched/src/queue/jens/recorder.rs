//! A bounded ring of records.

use std::collections::VecDeque;

use super::record::Record;
use crate::classify::FlowKey;

/// The records of one user, in sub-buffers of [`Recorder::SUB_BUFFER`] records, of which the
/// oldest are overwritten when nobody reads them.
///
/// # Contract
///
/// The discipline writes. Whoever holds the link reads, as often as it likes: what was read is
/// gone. A sub-buffer can be read once it is full or flushed; a handover flushes, as does
/// [`Recorder::flush`] at the end of a run.
#[derive(Debug)]
pub struct Recorder {
    /// Complete sub-buffers, oldest first.
    complete: VecDeque<Vec<Record>>,
    current: Vec<Record>,
    /// Emptied sub-buffers, so that recording allocates only while the ring grows.
    spare: Vec<Vec<Record>>,
    /// Sub-buffers of the ring, the current one included.
    sub_buffers: usize,
    overwritten: u64,
}

impl Recorder {
    /// Records of one sub-buffer: 16 KiB.
    pub const SUB_BUFFER: usize = 256;

    /// An empty ring of `sub_buffers`, at least 2: one to write and one to read.
    pub fn new(sub_buffers: u32) -> Self {
        Self {
            complete: VecDeque::new(),
            current: Vec::new(),
            spare: Vec::new(),
            sub_buffers: usize::try_from(sub_buffers).unwrap_or(usize::MAX).max(2),
            overwritten: 0,
        }
    }

    /// Writes a record.
    pub(super) fn push(&mut self, record: Record) {
        if self.current.capacity() == 0 {
            self.current.reserve_exact(Self::SUB_BUFFER);
        }
        self.current.push(record);
        if self.current.len() == Self::SUB_BUFFER {
            self.flush();
        }
    }

    /// Makes what was written so far readable.
    pub fn flush(&mut self) {
        if self.current.is_empty() {
            return;
        }
        let next = self.spare.pop().unwrap_or_default();
        self.complete.push_back(core::mem::replace(&mut self.current, next));
        if self.complete.len() >= self.sub_buffers
            && let Some(oldest) = self.complete.pop_front()
        {
            self.overwritten += oldest.len() as u64;
            self.recycle(oldest);
        }
    }

    /// Appends the oldest complete sub-buffer to `bytes`: [`Recorder::SUB_BUFFER`] records of 64
    /// bytes in the machine's byte order, padding after the last. False when there is none.
    ///
    /// `ends` knows the addresses, protocol and ports of a packet by its handle.
    /// `realtime_offset` is what has to be added to the link's time to get nanoseconds since 1970.
    pub fn read(
        &mut self,
        bytes: &mut Vec<u8>,
        realtime_offset: u64,
        mut ends: impl FnMut(u64) -> Option<FlowKey>,
    ) -> bool {
        let Some(oldest) = self.complete.pop_front() else { return false };
        bytes.reserve(Self::SUB_BUFFER * Record::LEN);
        for record in &oldest {
            let ends = match record {
                Record::Sojourn(sojourn) => ends(sojourn.handle),
                Record::QueueSize(_) => None,
            };
            bytes.extend_from_slice(&record.encode(ends.as_ref(), realtime_offset));
        }
        for _ in oldest.len()..Self::SUB_BUFFER {
            bytes.extend_from_slice(&Record::padding());
        }
        self.recycle(oldest);
        true
    }

    /// The records of complete sub-buffers, oldest first.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.complete.iter().flatten()
    }

    /// Records that were overwritten before they were read. The module does not count them.
    pub const fn overwritten(&self) -> u64 {
        self.overwritten
    }

    fn recycle(&mut self, mut emptied: Vec<Record>) {
        emptied.clear();
        self.spare.push(emptied);
    }
}
