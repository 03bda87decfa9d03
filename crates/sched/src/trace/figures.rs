//! What a schedule amounts to.

use super::Opportunity;
use super::schedule::{Laid, Schedule};
use super::tally::Tally;
use super::track::Entry;
use crate::checksum::Crc32;
use crate::time::Duration;
use crate::units::Rate;

impl Schedule {
    /// The rate at which it serves on average: what a round carries over the time it takes, in
    /// bit/s rounded down, at least 1 where it carries anything. Unlimited where a step is; `None`
    /// where it does not decide rates.
    pub fn mean_rate(&self) -> Option<Rate> {
        let nanobits = match &self.course {
            Laid::Steps(_) if !self.paces() => return None,
            Laid::Steps(tracks) if tracks.rates.has_unlimited() => return Some(Rate::UNLIMITED),
            Laid::Steps(tracks) => tracks.rates.of_round(),
            Laid::Deliveries { opportunity, tally, .. } => {
                bytes_of(tally, *opportunity).saturating_mul(NANOBITS_PER_BYTE)
            }
        };
        let least = u128::from(nanobits > 0);
        let mean = (nanobits / u128::from(self.span().as_nanos())).max(least);
        let mean = u64::try_from(mean).unwrap_or(u64::MAX).min(Rate::MAX.as_bps());
        Rate::from_bps(mean)
    }

    /// Bytes that one round carries, rounded down; unlimited rates add nothing.
    pub fn bytes_of_round(&self) -> u128 {
        match &self.course {
            Laid::Steps(tracks) => tracks.rates.of_round() / NANOBITS_PER_BYTE,
            Laid::Deliveries { opportunity, tally, .. } => bytes_of(tally, *opportunity),
        }
    }

    /// The CRC-32 of everything, entry by entry.
    pub(super) fn compute_checksum(&self) -> u32 {
        let mut crc = Crc32::new();
        crc.number(self.span().as_nanos());
        match &self.course {
            Laid::Steps(tracks) => {
                add_track(&mut crc, tracks.rates.track().entries(), Rate::as_bps);
                add_track(&mut crc, tracks.delays.entries(), Duration::as_nanos);
                add_track(&mut crc, tracks.losses.entries(), |loss| loss.as_raw().into());
            }
            Laid::Deliveries { at, opportunity, .. } => {
                crc.number(opportunity.bytes.into());
                crc.number(opportunity.per_packet.into());
                for delivery in at {
                    crc.number(delivery.at.as_nanos());
                    crc.number(delivery.count.into());
                }
            }
        }
        crc.finish()
    }
}

fn bytes_of(tally: &Tally, opportunity: Opportunity) -> u128 {
    u128::from(tally.total()) * u128::from(opportunity.bytes)
}

fn add_track<T: Copy>(crc: &mut Crc32, entries: &[Entry<T>], value: impl Fn(T) -> u64) {
    crc.number(entries.len().try_into().unwrap_or(u64::MAX));
    for Entry { at, value: entry } in entries {
        crc.number(Duration::as_nanos(*at));
        crc.number(value(*entry));
    }
}

const NANOBITS_PER_BYTE: u128 = 8_000_000_000;
