//! What the impairments were asked to do, and what they did.

use crate::difference_ns;
use crate::distribution::Distribution;
use serde::{Deserialize, Serialize};

/// Own impairments of one direction; null for those that were not asked for, and all null with
/// `impair=netem`, whose counters are its queue's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Impairments {
    /// Lost, or marked instead.
    pub loss: Option<Share>,
    /// Of these, marked instead of lost.
    pub loss_marked: Option<u64>,
    /// Came twice.
    pub duplicate: Option<Share>,
    /// Had a bit flipped.
    pub corrupt: Option<Share>,
    /// Skipped the delay, of those that the gap let.
    pub reorder: Option<Share>,
    /// Spread of the delay.
    pub jitter: Option<Jitter>,
    /// Slots in which packets left.
    pub slots: Option<u64>,
}

/// How many packets something happened to. A burst that was not cut is one packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Asked for, in millionths; of a loss model its stationary share.
    pub asked_ppm: u64,
    /// Events over opportunities, in millionths; null without an opportunity.
    pub realised_ppm: Option<u64>,
    /// Packets that it happened to.
    pub events: u64,
    /// Packets that it could have happened to.
    pub opportunities: u64,
}

impl Share {
    /// `events` of `opportunities`.
    pub fn new(asked_ppm: u64, events: u64, opportunities: u64) -> Self {
        let realised_ppm = (u128::from(events) * 2_000_000 + u128::from(opportunities))
            .checked_div(2 * u128::from(opportunities))
            .and_then(|ppm| u64::try_from(ppm).ok());
        Self { asked_ppm, realised_ppm, events, opportunities }
    }
}

/// Time in the delay line less `delay`, what waiting for order and slots adds included. Null
/// without a departure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jitter {
    /// Asked for: the bound of a uniform distribution, the deviation of a table.
    pub asked_ns: i64,
    /// The least.
    pub min_ns: Option<i64>,
    /// The mean.
    pub mean_ns: Option<i64>,
    /// The greatest.
    pub max_ns: Option<i64>,
}

impl Jitter {
    /// Of packets whose `propagation` was `delay_ns` but for jitter.
    pub fn new(asked_ns: u64, delay_ns: u64, propagation: &Distribution) -> Self {
        let delay = difference_ns(delay_ns, 0);
        let beyond = |span: Option<i64>| span.map(|span| span.saturating_sub(delay));
        Self {
            asked_ns: difference_ns(asked_ns, 0),
            min_ns: beyond(propagation.min_ns),
            mean_ns: beyond(propagation.mean_ns),
            max_ns: beyond(propagation.max_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_to_the_nearest_millionth() {
        for (events, opportunities, ppm) in [
            (0, 0, None),
            (0, 7, Some(0)),
            (1, 3, Some(333_333)),
            (2, 3, Some(666_667)),
            (u64::MAX, u64::MAX, Some(1_000_000)),
        ] {
            assert_eq!(Share::new(1, events, opportunities).realised_ppm, ppm, "{events}");
        }
    }

    #[test]
    fn jitter_is_what_the_delay_does_not_explain() {
        let propagation = Distribution {
            min_ns: Some(15),
            mean_ns: Some(21),
            max_ns: Some(30),
            ..Distribution::default()
        };
        let jitter = Jitter::new(5, 20, &propagation);
        assert_eq!(
            (jitter.asked_ns, jitter.min_ns, jitter.mean_ns, jitter.max_ns),
            (5, Some(-5), Some(1), Some(10))
        );
        assert_eq!(Jitter::new(5, 20, &Distribution::default()).max_ns, None);
    }
}
