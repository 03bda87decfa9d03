//! Loss, duplication and corruption at work.

use super::counts::ImpairmentCounts;
use super::events::Events;
use super::losses::Losses;
use super::{Correlated, Loss};
use crate::config::LinkConfig;
use crate::output::BitFlip;
use crate::packet::Packet;
use crate::random::{Component, Stream};

/// Decides packet by packet what is lost, comes twice, or has a bit flipped.
#[derive(Debug)]
pub(crate) struct Strikes {
    loss: Losses,
    ecn: bool,
    duplicate: (Correlated, Events),
    corrupt: (Correlated, Events),
    bit: Stream,
    counts: ImpairmentCounts,
}

/// What `loss` did to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Struck {
    Spared,
    /// Congestion experienced is written instead.
    Marked,
    Lost,
}

impl Strikes {
    pub(crate) fn new(config: &LinkConfig, seed: u64) -> Self {
        let stream = |component| Stream::new(seed, component);
        Self {
            loss: Losses::new(config.loss, stream(Component::Loss)),
            ecn: config.ecn,
            duplicate: (config.duplicate, Events::new(stream(Component::Duplicate))),
            corrupt: (config.corrupt, Events::new(stream(Component::Corrupt))),
            bit: stream(Component::Bit),
            counts: ImpairmentCounts::default(),
        }
    }

    /// New parameters for the packets to come. One that stays goes on where it is.
    pub(crate) fn configure(&mut self, config: &LinkConfig) {
        self.set_loss(config.loss);
        self.ecn = config.ecn;
        let pairs = [(&mut self.duplicate, config.duplicate), (&mut self.corrupt, config.corrupt)];
        for ((share, events), new) in pairs {
            if *share != new {
                *share = new;
                events.forget();
            }
        }
    }

    pub(crate) fn set_loss(&mut self, loss: Loss) {
        self.loss.set(loss);
    }

    /// Whether anything can happen to a packet at all.
    #[inline]
    pub(crate) fn possible(&self) -> bool {
        self.loss.possible()
            || self.duplicate.0 != Correlated::NEVER
            || self.corrupt.0 != Correlated::NEVER
    }

    /// What happens to the next packet. A packet that can be marked is, where `ecn` asks for it.
    #[inline]
    pub(crate) fn lose(&mut self, packet: &Packet) -> Struck {
        if !self.loss.possible() {
            return Struck::Spared;
        }
        let struck = self.loss.strikes();
        self.counts.loss.count(struck);
        match struck {
            false => Struck::Spared,
            true if self.ecn && packet.ecn.is_capable() => {
                self.counts.loss_marked += 1;
                Struck::Marked
            }
            true => Struck::Lost,
        }
    }

    /// Whether the next packet comes twice.
    #[inline]
    pub(crate) fn duplicate(&mut self) -> bool {
        let (share, events) = &mut self.duplicate;
        if *share == Correlated::NEVER {
            return false;
        }
        let twice = events.happens(*share);
        self.counts.duplicate.count(twice);
        twice
    }

    /// The bit that is flipped in the next packet, if one is. Every bit of the IP packet is as
    /// likely (of one above 512 MB, every bit of its first 512).
    #[inline]
    pub(crate) fn corrupt(&mut self, packet: &Packet) -> Option<BitFlip> {
        let (share, events) = &mut self.corrupt;
        if *share == Correlated::NEVER {
            return None;
        }
        let corrupted = events.happens(*share);
        self.counts.corrupt.count(corrupted);
        let last = (u64::from(packet.len) * 8).clamp(1, 1 << 32) - 1;
        let draw = |bit: &mut Stream| u32::try_from(bit.up_to(last)).unwrap_or(u32::MAX);
        corrupted.then(|| BitFlip(draw(&mut self.bit)))
    }

    /// All but `reorder` and `slots`, which the delay line counts.
    pub(crate) fn counts(&self) -> ImpairmentCounts {
        self.counts
    }
}
