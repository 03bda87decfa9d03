//! What CoDel can be told, and what is refused.

use super::law::{Arithmetic, Law};
use crate::config::{ConfigError, Limit, LinkConfig};
use crate::time::Duration;

/// Parameters of a CoDel controller, in `codel` and in each flow of `fq_codel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelConfig {
    /// `target`: wait that is no sign of a standing queue, 0 to [`CodelConfig::MAX_TIME`]. Default
    /// 5 ms.
    pub target: Duration,
    /// `interval`: how long the wait has to be above `target` before congestion is signalled, 1 us
    /// to [`CodelConfig::MAX_TIME`]. Default 100 ms.
    pub interval: Duration,
    /// `ecn`: mark packets that can be marked instead of dropping them. Default off in `codel`, on
    /// in `fq_codel`.
    pub ecn: bool,
    /// `ce_threshold`: mark every packet that waited longer, 0 to [`CodelConfig::MAX_TIME`].
    /// Default none.
    pub ce_threshold: Option<Duration>,
    /// `arithmetic`. Default that of the RFC.
    pub arithmetic: Arithmetic,
}

impl CodelConfig {
    /// The longest time that `tc` can say: 32 bits of microseconds.
    pub const MAX_TIME: Duration = Duration::from_micros(u32::MAX as u64);

    /// `limit` of `codel` when nobody names one, in packets.
    pub const DEFAULT_LIMIT: u32 = 1_000;

    /// The controllers' constants on `link`. A queue of no more than one full packet is good.
    pub(crate) fn law(&self, link: &LinkConfig) -> Law {
        Law::new(self.arithmetic, self.target, self.interval, self.ecn, link.full_packet())
            .with_ce_threshold(self.ce_threshold)
    }

    /// The sojourn from which packets are dropped or marked.
    pub(crate) fn threshold(&self) -> Duration {
        self.ce_threshold.map_or(self.target, |threshold| threshold.min(self.target))
    }

    /// Whether packets may be marked.
    pub const fn may_mark(&self) -> bool {
        self.ecn || self.ce_threshold.is_some()
    }

    /// Refuses what is out of range; `queue` is the discipline's name.
    pub(crate) fn validate(&self, queue: &str, link: &LinkConfig) -> Result<(), ConfigError> {
        let refuse =
            |name: &str, problem: String| Err(ConfigError::new(format!("{queue}.{name}"), problem));
        if self.interval < Duration::from_micros(1) {
            let interval = self.interval;
            return refuse("interval", format!("{interval} is no interval, expected 1us or more"));
        }
        for (name, time) in [
            ("target", Some(self.target)),
            ("interval", Some(self.interval)),
            ("ce_threshold", self.ce_threshold),
        ] {
            if let Some(time) = time.filter(|time| *time > Self::MAX_TIME) {
                return refuse(name, format!("{time} is more than {}", Self::MAX_TIME));
            }
        }
        match link.limit {
            Some(limit @ (Limit::Bytes(_) | Limit::Time(_))) => Err(ConfigError::new(
                "limit",
                format!("{limit}: {queue} counts packets, expected for example 1000p"),
            )),
            _ => Ok(()),
        }
    }
}

impl Default for CodelConfig {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn: false,
            ce_threshold: None,
            arithmetic: Arithmetic::default(),
        }
    }
}
