//! netem's parameters, as netem takes them.

use crate::config::{ConfigError, LinkConfig};
use crate::time::Duration;

/// One netem. `Default` passes every packet at once.
///
/// Probabilities are thresholds on 32 random bits, `rint(p * (2^32 - 1))`: an event of
/// probability 0 never happens and draws nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetemConfig {
    /// Packets held, a burst counted as one. Default 1000.
    pub limit: u32,
    /// Added to every packet, up to 2^63 - 1 ns.
    pub latency: Duration,
    /// How far the delay strays: the half-width without a table, one sigma with one. In ns, up
    /// to [`NetemConfig::MAX_JITTER`].
    pub jitter: u32,
    /// Correlation of the delays.
    pub delay_correlation: u32,
    /// How delays are spread, in 1/8192 of `jitter`; `None` = uniform. 1 to 16384 entries.
    pub table: Option<&'static [i16]>,
    /// Loss model.
    pub loss: NetemLoss,
    /// A loss marks an ECN-capable packet instead of taking it.
    pub ecn: bool,
    /// A packet is sent twice.
    pub duplicate: NetemChance,
    /// A bit of a packet is flipped.
    pub corrupt: NetemChance,
    /// A packet is sent at once, before all others, when `gap` allows it.
    pub reorder: NetemChance,
    /// At least `gap - 1` packets are delayed between two that are sent at once; 0 delays all.
    pub gap: u32,
    /// Bytes per second; 0 = no rate.
    pub rate: u64,
    /// Bytes added to every packet before the rate counts it; may be negative.
    pub packet_overhead: i32,
    /// Payload of a link-layer cell in bytes; 0 = no cells.
    pub cell_size: u32,
    /// Bytes added to every cell; may be negative.
    pub cell_overhead: i32,
    /// Packets leave in slots. `None` = whenever they are due.
    pub slot: Option<NetemSlot>,
    /// Seed of the decisions; `None` = derived from the link's.
    pub seed: Option<u64>,
}

/// An event by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetemChance {
    /// Its probability.
    pub probability: u32,
    /// How much the decision leans to the one before.
    pub correlation: u32,
}

/// Which packets are lost. All values are probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetemLoss {
    /// Each by itself, or leaning to the one before.
    Random(NetemChance),
    /// A chain of four states: 1 sent in a gap, 2 sent in a burst, 3 lost in a burst, 4 lost in a
    /// gap. `p13` leads from 1 to 3, and so on; 4 leads back to 1.
    FourState {
        /// A burst begins.
        p13: u32,
        /// A burst ends.
        p31: u32,
        /// A packet gets through in a burst.
        p32: u32,
        /// The burst goes on after it.
        p23: u32,
        /// A packet is lost by itself.
        p14: u32,
    },
    /// Gilbert and Elliott's chain of a good and a bad state.
    GilbertElliott {
        /// Good to bad.
        p: u32,
        /// Bad to good.
        r: u32,
        /// A packet gets through in the bad state.
        h: u32,
        /// A packet is lost in the good state.
        one_minus_k: u32,
    },
}

/// When slots open, and what one lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetemSlot {
    /// Time from one slot to the next.
    pub spacing: SlotSpacing,
    /// Packets per slot; 0 = no bound.
    pub packets: u32,
    /// Bytes per slot as the rate counts them; 0 = no bound. The packet that exceeds it still
    /// leaves.
    pub bytes: u32,
}

/// Time from one slot to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotSpacing {
    /// Uniform between the two, the first at most the second.
    Uniform(Duration, Duration),
    /// By a table, as delays are.
    Table {
        /// Mean.
        delay: Duration,
        /// One sigma in ns, 1 to [`NetemConfig::MAX_JITTER`].
        jitter: u32,
        /// In 1/8192 of `jitter`, 1 to 16384 entries.
        table: &'static [i16],
    },
}

impl Default for NetemConfig {
    fn default() -> Self {
        Self {
            limit: 1_000,
            latency: Duration::ZERO,
            jitter: 0,
            delay_correlation: 0,
            table: None,
            loss: NetemLoss::Random(NetemChance::default()),
            ecn: false,
            duplicate: NetemChance::default(),
            corrupt: NetemChance::default(),
            reorder: NetemChance::default(),
            gap: 0,
            rate: 0,
            packet_overhead: 0,
            cell_size: 0,
            cell_overhead: 0,
            slot: None,
            seed: None,
        }
    }
}

impl NetemConfig {
    /// The greatest `jitter`: 2^31 - 1 ns, 2.1 s. netem cuts a longer one to it in silence.
    pub const MAX_JITTER: u32 = 0x7fff_ffff;

    /// Refuses what netem refuses, and what it takes but turns into something else.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ensure(self.limit > 0, "netem.limit", || "0p holds no packet".into())?;
        self.check_delay()?;
        self.check_loss()?;
        self.check_reorder()?;
        self.check_slot()
    }

    fn check_delay(&self) -> Result<(), ConfigError> {
        ensure(i64::try_from(self.latency.as_nanos()).is_ok(), "delay", || {
            format!("{} is more than 292 years", self.latency)
        })?;
        check_jitter("jitter", self.jitter)?;
        let Some(table) = self.table else { return Ok(()) };
        check_table("distribution", table)?;
        let delayed = self.latency > Duration::ZERO && self.jitter > 0;
        ensure(delayed, "distribution", || "needs a delay and a jitter".into())
    }

    fn check_loss(&self) -> Result<(), ConfigError> {
        let fits = |a: u32, b: u32| a.checked_add(b).is_some();
        let lossless = self.loss == NetemLoss::Random(NetemChance::default());
        ensure(!self.ecn || !lossless, "ecn", || {
            "needs a loss: it marks what loss chooses".into()
        })?;
        let NetemLoss::FourState { p13, p31, p32, p14, .. } = self.loss else { return Ok(()) };
        ensure(fits(p13, p14), "loss", || OVERFULL.replace("{}", "p13 and p14"))?;
        ensure(fits(p31, p32), "loss", || OVERFULL.replace("{}", "p31 and p32"))
    }

    fn check_reorder(&self) -> Result<(), ConfigError> {
        let reorders = self.reorder.probability > 0;
        ensure(self.gap == 0 || reorders, "reorder", || {
            "a gap needs a probability above 0%".into()
        })?;
        ensure(!reorders || self.latency > Duration::ZERO, "reorder", || {
            "needs a delay: what is sent at once overtakes only what waits".into()
        })
    }

    fn check_slot(&self) -> Result<(), ConfigError> {
        match self.slot.map(|slot| slot.spacing) {
            None => Ok(()),
            Some(SlotSpacing::Uniform(least, most)) => ensure(least <= most, "slot", || {
                format!("{least} to {most}: the first is more than the second")
            }),
            Some(SlotSpacing::Table { jitter, table, .. }) => {
                ensure(jitter > 0, "slot", || "a distribution needs a jitter above 0ms".into())?;
                check_jitter("slot", jitter)?;
                check_table("slot", table)
            }
        }
    }
}

impl From<&LinkConfig> for NetemConfig {
    fn from(config: &LinkConfig) -> Self {
        Self { latency: config.delay, ..Self::default() }
    }
}

impl NetemLoss {
    /// Correlation of a loss that has one.
    pub(crate) const fn correlation(&self) -> u32 {
        match self {
            Self::Random(chance) => chance.correlation,
            Self::FourState { .. } | Self::GilbertElliott { .. } => 0,
        }
    }
}

fn check_jitter(place: &str, jitter: u32) -> Result<(), ConfigError> {
    ensure(jitter <= NetemConfig::MAX_JITTER, place, || {
        format!("{jitter}ns is more than {}ns, to which netem cuts it", NetemConfig::MAX_JITTER)
    })
}

fn check_table(place: &str, table: &[i16]) -> Result<(), ConfigError> {
    ensure((1..=MAX_TABLE).contains(&table.len()), place, || {
        format!("a table of {} entries, expected 1 to {MAX_TABLE}", table.len())
    })
}

fn ensure(holds: bool, place: &str, problem: impl FnOnce() -> String) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::new(place, problem())) }
}

/// Entries of a table at most, as netem takes them.
const MAX_TABLE: usize = 16_384;

/// netem adds both in 32 bits: what is over 100 % wraps around to almost nothing.
const OVERFULL: &str = "{} are over 100% together, which netem wraps around";

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(config: &NetemConfig) -> String {
        config.validate().expect_err("an error").to_string()
    }

    fn base() -> NetemConfig {
        NetemConfig { latency: Duration::from_millis(10), ..NetemConfig::default() }
    }

    #[test]
    fn the_default_limit_is_1000_packets() {
        assert_eq!(NetemConfig::default().limit, 1000);
        assert_eq!(NetemConfig::default().validate(), Ok(()));
    }

    #[test]
    fn what_netem_refuses_is_refused() {
        let no_delay = NetemConfig { reorder: chance(5), gap: 1, ..NetemConfig::default() };
        assert!(refused(&no_delay).starts_with("reorder: needs a delay"));
        let no_reorder = NetemConfig { gap: 5, ..base() };
        assert!(refused(&no_reorder).starts_with("reorder: a gap needs"));
        let no_loss = NetemConfig { ecn: true, ..base() };
        assert!(refused(&no_loss).starts_with("ecn: needs a loss"));
        let no_jitter = NetemConfig { table: Some(&[0, 1]), ..base() };
        assert!(refused(&no_jitter).starts_with("distribution: needs a delay and a jitter"));
        let empty = NetemConfig { table: Some(&[]), jitter: 5, ..base() };
        assert!(refused(&empty).starts_with("distribution: a table of 0 entries"));
        let spacing = SlotSpacing::Uniform(Duration::from_millis(2), Duration::from_millis(1));
        let turned = NetemConfig { slot: Some(slot(spacing)), ..base() };
        assert_eq!(refused(&turned), "slot: 2ms to 1ms: the first is more than the second");
    }

    #[test]
    fn what_netem_would_change_in_silence_is_refused() {
        let cut = NetemConfig { jitter: NetemConfig::MAX_JITTER + 1, ..base() };
        assert_eq!(
            refused(&cut),
            "jitter: 2147483648ns is more than 2147483647ns, to which netem cuts it"
        );
        let half = 1 << 31;
        let wrapped = NetemLoss::FourState { p13: half, p31: 0, p32: 0, p23: 0, p14: half };
        let wrapped = NetemConfig { loss: wrapped, ..base() };
        assert_eq!(
            refused(&wrapped),
            "loss: p13 and p14 are over 100% together, which netem wraps around"
        );
        let still = SlotSpacing::Table { delay: Duration::ZERO, jitter: 0, table: &[1] };
        let still = NetemConfig { slot: Some(slot(still)), ..base() };
        assert!(refused(&still).starts_with("slot: a distribution needs a jitter"));
        let none = NetemConfig { limit: 0, ..base() };
        assert_eq!(refused(&none), "netem.limit: 0p holds no packet");
    }

    fn chance(probability: u32) -> NetemChance {
        NetemChance { probability, correlation: 0 }
    }

    fn slot(spacing: SlotSpacing) -> NetemSlot {
        NetemSlot { spacing, packets: 0, bytes: 0 }
    }
}
