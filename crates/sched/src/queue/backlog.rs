//! What a queue holds.

use super::Queued;

/// What a queue holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Wire packets.
    pub packets: u64,
    /// Bytes as the rate counts them.
    pub bytes: u64,
}

impl Backlog {
    /// One more.
    pub(crate) fn add(&mut self, queued: &Queued) {
        self.packets += u64::from(queued.packet.segments);
        self.bytes += queued.bytes;
    }

    /// One less.
    pub(crate) fn remove(&mut self, queued: &Queued) {
        self.packets -= u64::from(queued.packet.segments);
        self.bytes -= queued.bytes;
    }
}

/// The packets that wait, and the one handed out last, which counts in limits until it has been
/// served.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    pub(crate) waiting: Backlog,
    serving: Backlog,
}

impl Held {
    /// Both.
    #[inline]
    pub(crate) fn all(&self) -> Backlog {
        Backlog {
            packets: self.waiting.packets.saturating_add(self.serving.packets),
            bytes: self.waiting.bytes.saturating_add(self.serving.bytes),
        }
    }

    /// A packet that does not wait any more is handed out.
    #[inline]
    pub(crate) fn hand_out(&mut self, queued: &Queued) {
        self.serving = Backlog::default();
        self.serving.add(queued);
    }

    /// The packet handed out last has been served.
    #[inline]
    pub(crate) fn served(&mut self) {
        self.serving = Backlog::default();
    }
}
