//! Flows and whose turn it is.

use super::super::codel::Control;
use super::packets::List;

/// All flows there can be, and those with packets in two lists: those that have just begun to send
/// go before those that have been sending (RFC 8290, section 4).
#[derive(Debug)]
pub(super) struct Flows {
    buckets: Vec<Flow>,
    new: Chain,
    old: Chain,
}

/// One flow: a hash bucket.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) packets: List,
    pub(super) control: Control,
    /// Bytes that it may still send in this turn.
    pub(super) deficit: i32,
    /// The flow behind it in its list.
    next: u32,
    listed: bool,
}

const _: () = assert!(size_of::<Flow>() <= 64, "a flow fits one cache line");

/// Flows in order.
#[derive(Clone, Copy, Debug)]
struct Chain {
    head: u32,
    tail: u32,
    len: u32,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) flow: u32,
    new: bool,
}

impl Flows {
    pub(super) fn new(count: u32) -> Self {
        let flow = Flow {
            packets: List::EMPTY,
            control: Control::new(),
            deficit: 0,
            next: NONE,
            listed: false,
        };
        Self { buckets: vec![flow; count as usize], new: Chain::EMPTY, old: Chain::EMPTY }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.buckets.len()).unwrap_or(u32::MAX)
    }

    /// The flow that a hash of 32 bits falls into: the range is cut into equal parts.
    #[inline]
    pub(super) fn of(&self, hash: u32) -> u32 {
        let scaled = (u64::from(hash) * self.buckets.len() as u64) >> 32;
        u32::try_from(scaled).expect("less than the number of flows, which is at most 65536")
    }

    #[inline]
    pub(super) fn get(&self, flow: u32) -> &Flow {
        &self.buckets[flow as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, flow: u32) -> &mut Flow {
        &mut self.buckets[flow as usize]
    }

    /// A flow that has a packet now is among the new ones, unless it is listed already. Returns
    /// whether it was not.
    #[inline]
    pub(super) fn begin(&mut self, flow: u32, quantum: i32) -> bool {
        let entry = &mut self.buckets[flow as usize];
        if entry.listed {
            return false;
        }
        entry.listed = true;
        entry.deficit = quantum;
        self.new.push(&mut self.buckets, flow);
        true
    }

    /// The flow whose turn it is: the first of the new ones, else of the old ones.
    #[inline]
    pub(super) fn turn(&self) -> Option<Turn> {
        let new = self.new.head != NONE;
        let flow = if new { self.new.head } else { self.old.head };
        (flow != NONE).then_some(Turn { flow, new })
    }

    /// Its deficit is used up: it gets a quantum and goes behind the old ones.
    #[inline]
    pub(super) fn refill(&mut self, turn: Turn, quantum: i32) {
        let flow = self.get_mut(turn.flow);
        flow.deficit = flow.deficit.saturating_add(quantum);
        self.unlink(turn);
        self.old.push(&mut self.buckets, turn.flow);
    }

    /// It has no packets left. A new one passes through the old ones before it can be new again,
    /// so that they are served, too.
    #[inline]
    pub(super) fn end(&mut self, turn: Turn) {
        self.unlink(turn);
        if turn.new && self.old.len > 0 {
            self.old.push(&mut self.buckets, turn.flow);
        } else {
            self.get_mut(turn.flow).listed = false;
        }
    }

    /// How many flows are listed as new and as old.
    pub(super) const fn lengths(&self) -> (u32, u32) {
        (self.new.len, self.old.len)
    }

    #[inline]
    fn unlink(&mut self, turn: Turn) {
        let chain = if turn.new { &mut self.new } else { &mut self.old };
        chain.head = self.buckets[turn.flow as usize].next;
        chain.len -= 1;
    }
}

impl Chain {
    const EMPTY: Self = Self { head: NONE, tail: NONE, len: 0 };

    #[inline]
    fn push(&mut self, flows: &mut [Flow], flow: u32) {
        flows[flow as usize].next = NONE;
        if self.head == NONE {
            self.head = flow;
        } else {
            flows[self.tail as usize].next = flow;
        }
        self.tail = flow;
        self.len += 1;
    }
}

const NONE: u32 = u32::MAX;
