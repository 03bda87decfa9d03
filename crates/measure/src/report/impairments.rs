//! What the impairments were asked to do, and what they did.

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

/// Time in the delay line less the `delay` in force as the packet entered it, what waiting for
/// order adds included and waiting for slots not; of the packets that entered it while there was
/// jitter. Null without one.
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
}
