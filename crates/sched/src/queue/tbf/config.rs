//! What tbf can be told, and what is refused.

use core::num::NonZero;

use super::rate_table::{LinkLayer, RateTable};
use crate::config::{ConfigError, Limit, LinkConfig};
use crate::time::Duration;
use crate::units::{Bytes, Rate};

/// Parameters of tbf that the link does not have already. Those of the link that are tbf's:
/// `rate`, `burst`, `peakrate`, `overhead`, `limit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TbfConfig {
    /// `tbf.mtu`: depth in bytes of the bucket that `peakrate` fills, 1 to 2^32 - 1. Needed with
    /// a `peakrate`, without one it says nothing. Default none.
    pub mtu: Option<u32>,
    /// `tbf.mpu`: bytes as which a smaller packet counts, overhead included, 0 to
    /// [`LinkConfig::MAX_OVERHEAD`]. Default 0.
    pub mpu: u32,
    /// `tbf.linklayer`: what a packet becomes on the line. Default Ethernet.
    pub link_layer: LinkLayer,
    /// `tbf.refill`: what a live change does to the buckets. Default: nothing.
    pub refill: Refill,
}

/// What a live change does to the token buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refill {
    /// They keep what they hold, counted in bytes, up to their new depth.
    #[default]
    Keep,
    /// They are full after every change, as in Linux: each change hands out a burst.
    Linux,
}

impl TbfConfig {
    /// The longest that a full bucket may take to fill as it is written: what `tc` can say, 32
    /// bits of 64 ns.
    pub const MAX_BURST_TIME: Duration = Duration::from_nanos((u32::MAX as u64) << 6);

    /// How long packets take at `rate` bytes per second.
    pub(in crate::queue) fn table(&self, rate: NonZero<u64>, overhead: i32) -> RateTable {
        RateTable::new(rate)
            .with_overhead(u32::try_from(overhead).unwrap_or(0))
            .with_mpu(self.mpu)
            .with_link_layer(self.link_layer)
    }

    /// The limit in bytes that lets a packet wait for `latency`, as `tc` computes it: what the
    /// rate carries meanwhile and the burst; with a peakrate what that carries and its bucket, if
    /// that is less. `None` without a rate.
    pub(crate) fn limit_of(&self, link: &LinkConfig, latency: Duration) -> Option<u64> {
        let carried = |rate: Rate, depth: Option<u32>| {
            let bytes = u128::from(bytes_per_second(rate)?.get()) * u128::from(latency.as_nanos())
                / 1_000_000_000;
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            Some(bytes.saturating_add(u64::from(depth.unwrap_or(0))))
        };
        let by_rate = carried(link.rate, link.burst)?;
        let by_peak = link.peakrate.and_then(|peak| carried(peak, self.mtu));
        Some(by_peak.map_or(by_rate, |peak| peak.min(by_rate)))
    }

    /// Refuses a link on which tbf cannot work.
    pub(crate) fn validate(&self, link: &LinkConfig) -> Result<(), ConfigError> {
        self.ensure_complete(link)?;
        self.ensure_ranges(link)?;
        match link.limit {
            Some(limit @ Limit::Packets(_)) => refuse(
                "limit",
                format!("{limit}: tbf counts bytes, expected for example 200kb or 100ms"),
            ),
            _ => Ok(()),
        }
    }

    /// Refuses what a link in operation may come to, but nobody writes on purpose.
    pub(crate) fn validate_as_written(&self, link: &LinkConfig) -> Result<(), ConfigError> {
        if link.rate == Rate::PAUSE {
            return refuse("rate", "0bit: tbf starts with a rate above 0".into());
        }
        self.ensure_countable(link, "burst", Some(link.rate), link.burst)?;
        self.ensure_countable(link, "tbf.mtu", link.peakrate, self.mtu)
    }

    fn ensure_countable(
        &self,
        link: &LinkConfig,
        name: &str,
        rate: Option<Rate>,
        depth: Option<u32>,
    ) -> Result<(), ConfigError> {
        let (Some(rate), Some(depth)) = (rate, depth) else { return Ok(()) };
        let Some(bytes_per_second) = bytes_per_second(rate) else { return Ok(()) };
        let time = self.table(bytes_per_second, link.overhead).time(u64::from(depth));
        if time.unsigned_abs() <= Self::MAX_BURST_TIME.as_nanos() {
            return Ok(());
        }
        let depth = Bytes(u64::from(depth));
        refuse(name, format!("{depth} take more than 274s at {rate}, expected less"))
    }

    /// Names everything that is missing at once.
    fn ensure_complete(&self, link: &LinkConfig) -> Result<(), ConfigError> {
        let wanted = [
            (link.rate == Rate::UNLIMITED, "rate=20mbit"),
            (link.burst.is_none(), "burst=20kb"),
            (link.peakrate.is_some() && self.mtu.is_none(), "tbf.mtu=1514b (for its peakrate)"),
        ];
        let missing: Vec<_> =
            wanted.iter().filter(|(missing, _)| *missing).map(|&(_, example)| example).collect();
        if missing.is_empty() {
            return Ok(());
        }
        refuse("queue", format!("tbf needs, for example, {}", missing.join(" and ")))
    }

    fn ensure_ranges(&self, link: &LinkConfig) -> Result<(), ConfigError> {
        let max = LinkConfig::MAX_OVERHEAD;
        if link.overhead < 0 {
            return refuse("overhead", format!("{}: with tbf expected 0 to {max}", link.overhead));
        }
        if self.mpu > max {
            return refuse("tbf.mpu", format!("{} is out of range, expected 0 to {max}", self.mpu));
        }
        if self.mtu == Some(0) {
            return refuse("tbf.mtu", "0b holds no packet, expected 1b or more, or none".into());
        }
        for (name, rate) in [("rate", Some(link.rate)), ("peakrate", link.peakrate)] {
            match rate {
                Some(rate) if rate != Rate::PAUSE && bytes_per_second(rate).is_none() => {
                    return refuse(
                        name,
                        format!("{rate} is less than a byte per second, expected 8bit or more"),
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whole bytes per second, as tbf knows a rate.
pub(in crate::queue) fn bytes_per_second(rate: Rate) -> Option<NonZero<u64>> {
    NonZero::new(rate.finite_bps()? / 8)
}

fn refuse(place: &str, problem: String) -> Result<(), ConfigError> {
    Err(ConfigError::new(place, problem))
}
