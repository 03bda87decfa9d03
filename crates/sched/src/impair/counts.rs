//! How often impairments struck.

/// What the impairments did, in packets (a burst that was kept is one).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImpairmentCounts {
    /// `loss`: lost, or marked instead.
    pub loss: Share,
    /// Of these, marked instead of lost (`ecn`).
    pub loss_marked: u64,
    /// `duplicate`.
    pub duplicate: Share,
    /// `corrupt`.
    pub corrupt: Share,
    /// `reorder`: skipped the delay, of those that the gap let.
    pub reorder: Share,
    /// `slot`: slots in which packets left.
    pub slots: u64,
}

impl ImpairmentCounts {
    /// Every counter with its name, for logs.
    pub const fn counters(&self) -> [(&'static str, u64); 10] {
        [
            ("loss.opportunities", self.loss.opportunities),
            ("loss.events", self.loss.events),
            ("loss.marked", self.loss_marked),
            ("duplicate.opportunities", self.duplicate.opportunities),
            ("duplicate.events", self.duplicate.events),
            ("corrupt.opportunities", self.corrupt.opportunities),
            ("corrupt.events", self.corrupt.events),
            ("reorder.opportunities", self.reorder.opportunities),
            ("reorder.events", self.reorder.events),
            ("slots", self.slots),
        ]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let Self { loss, loss_marked, duplicate, corrupt, reorder, slots } = other;
        self.loss.add(*loss);
        self.loss_marked += loss_marked;
        self.duplicate.add(*duplicate);
        self.corrupt.add(*corrupt);
        self.reorder.add(*reorder);
        self.slots += slots;
    }
}

/// Of the packets that an event could have struck, those that it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Packets that a draw decided on; none while the impairment is not asked for.
    pub opportunities: u64,
    /// Packets struck.
    pub events: u64,
}

impl Share {
    pub(crate) fn count(&mut self, event: bool) {
        self.opportunities += 1;
        self.events += u64::from(event);
    }

    fn add(&mut self, other: Self) {
        self.opportunities += other.opportunities;
        self.events += other.events;
    }
}
