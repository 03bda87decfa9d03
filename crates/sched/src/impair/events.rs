//! Random events that tend to repeat.

use super::Correlated;
use crate::random::Stream;
use crate::units::Probability;

/// A series of events of probability p in which neighbours have correlation rho.
///
/// With probability rho a packet meets the fate of the one before it, else it draws its own with
/// probability p: the first-order discrete autoregressive process DAR(1) of Jacobs and Lewis (J. R.
/// Statist. Soc. B 40, 1978). The share of events is p whatever rho is, the correlation at distance
/// k is rho^k, and a run of events has 1 / ((1 - rho)(1 - p)) packets in the mean.
///
/// Netem's smoothed numbers keep their threshold while their spread shrinks, so that rare events
/// vanish with correlation; these do not.
#[derive(Debug)]
pub(super) struct Events {
    random: Stream,
    last: Option<bool>,
}

impl Events {
    pub(super) fn new(random: Stream) -> Self {
        Self { random, last: None }
    }

    /// Whether the event happens to the next packet. Of 64 fresh bits the upper half decides a fate
    /// of its own as in [`Stream::happens`], the lower half whether it repeats the last one.
    pub(super) fn happens(&mut self, share: Correlated) -> bool {
        let Correlated { probability, correlation } = share;
        if correlation == Probability::ZERO {
            return self.random.happens(probability);
        }
        if let Probability::ZERO | Probability::ONE = probability {
            return probability == Probability::ONE;
        }
        let bits = self.random.bits();
        let own = bits >> 32 < u64::from(probability.as_raw());
        let repeats = bits & u64::from(u32::MAX) < u64::from(correlation.as_raw());
        let fate = self.last.filter(|_| repeats).unwrap_or(own);
        self.last = Some(fate);
        fate
    }

    /// The next packet draws its own fate.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }
}
