//! netem's parameters, as netem takes them.

use crate::config::{ConfigError, LinkConfig};
use crate::impair::{Correlated, Distribution, Loss, Reorder, Slot, SlotGap};
use crate::time::Duration;
use crate::units::Probability;

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
    /// How delays are spread by `jitter`.
    pub distribution: Distribution,
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotSpacing {
    /// Uniform between the two, the first at most the second.
    Uniform(Duration, Duration),
    /// Spread as delays are.
    Spread {
        /// How.
        distribution: Distribution,
        /// Mean.
        delay: Duration,
        /// One sigma in ns, 1 to [`NetemConfig::MAX_JITTER`].
        jitter: u32,
    },
}

/// `netem.*`: what netem has beside the parameters of every link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetemOptions {
    /// `netem.limit`: packets held.
    pub limit: u32,
    /// `netem.packet_overhead`: bytes added to every packet before the rate counts it.
    pub packet_overhead: i32,
    /// `netem.cell_size`: payload of a link-layer cell in bytes; 0 = no cells.
    pub cell_size: u32,
    /// `netem.cell_overhead`: bytes added to every cell.
    pub cell_overhead: i32,
    /// `netem.seed`: seed of the decisions; `None` = derived from the link's.
    pub seed: Option<u64>,
}

impl Default for NetemOptions {
    fn default() -> Self {
        Self { limit: 1_000, packet_overhead: 0, cell_size: 0, cell_overhead: 0, seed: None }
    }
}

impl Default for NetemConfig {
    fn default() -> Self {
        Self {
            limit: 1_000,
            latency: Duration::ZERO,
            jitter: 0,
            delay_correlation: 0,
            distribution: Distribution::Uniform,
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
        ensure(i64::try_from(self.latency.as_nanos()).is_ok(), "delay", || {
            format!("{} is more than 292 years", self.latency)
        })?;
        check_jitter("jitter", self.jitter)?;
        self.check_loss()?;
        self.check_slot()
    }

    /// Refuses what only a mistake in writing explains, though a live change may lead to it: what
    /// netem's own command line refuses.
    pub fn validate_as_written(&self) -> Result<(), ConfigError> {
        let (delayed, jittered) = (self.latency > Duration::ZERO, self.jitter > 0);
        let spread = self.distribution != Distribution::Uniform;
        ensure(!spread || (delayed && jittered), "distribution", || {
            "needs a delay and a jitter".into()
        })?;
        let reorders = self.reorder.probability > 0;
        ensure(reorders || self.gap == 0, "reorder", || "a gap needs more than 0%".into())?;
        ensure(delayed || !reorders, "reorder", || {
            "needs a delay: what is sent at once overtakes only what waits".into()
        })?;
        let lossless = self.loss == NetemLoss::Random(NetemChance::default());
        ensure(!self.ecn || !lossless, "ecn", || "needs a loss: it marks what loss takes".into())?;
        let overhead = self.cell_overhead == 0 || self.cell_size > 0;
        ensure(overhead, "netem.cell_overhead", || "needs a netem.cell_size".into())
    }

    fn check_loss(&self) -> Result<(), ConfigError> {
        let NetemLoss::FourState { p13, p31, p32, p14, .. } = self.loss else { return Ok(()) };
        let fits = |a: u32, b: u32| a.checked_add(b).is_some();
        ensure(fits(p13, p14), "loss", || OVERFULL.replace("{}", "P13 and P14"))?;
        ensure(fits(p31, p32), "loss", || OVERFULL.replace("{}", "P31 and P32"))
    }

    fn check_slot(&self) -> Result<(), ConfigError> {
        match self.slot.as_ref().map(|slot| &slot.spacing) {
            None => Ok(()),
            Some(SlotSpacing::Uniform(least, most)) => ensure(least <= most, "slot", || {
                format!("{least} to {most}: the first is more than the second")
            }),
            Some(SlotSpacing::Spread { jitter, .. }) => {
                ensure(*jitter > 0, "slot", || "a distribution needs a jitter above 0ms".into())?;
                check_jitter("slot", *jitter)
            }
        }
    }
}

impl From<&LinkConfig> for NetemConfig {
    /// The link's parameters as netem takes them. A rate is cut to whole bytes per second, as
    /// `tc` does; a jitter beyond 32 bits to 2^32 - 1 ns.
    fn from(config: &LinkConfig) -> Self {
        let (reorder, gap) = reordering(config.reorder);
        let NetemOptions { limit, packet_overhead, cell_size, cell_overhead, seed } = config.netem;
        Self {
            limit,
            latency: config.delay,
            jitter: nanos(config.jitter),
            delay_correlation: config.jitter_correlation.as_raw(),
            distribution: config.distribution.clone(),
            loss: config.loss.into(),
            ecn: config.ecn,
            duplicate: config.duplicate.into(),
            corrupt: config.corrupt.into(),
            reorder,
            gap,
            rate: config.rate.finite_bps().map_or(0, |bits| bits / 8),
            packet_overhead,
            cell_size,
            cell_overhead,
            slot: config.slot.as_ref().map(NetemSlot::from),
            seed,
        }
    }
}

fn reordering(reorder: Reorder) -> (NetemChance, u32) {
    match reorder {
        Reorder::None | Reorder::Jitter => (NetemChance::default(), 0),
        Reorder::Skip { probability, correlation, gap } => {
            (Correlated { probability, correlation }.into(), gap)
        }
    }
}

impl From<Correlated> for NetemChance {
    fn from(event: Correlated) -> Self {
        Self { probability: event.probability.as_raw(), correlation: event.correlation.as_raw() }
    }
}

impl From<Loss> for NetemLoss {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::None => Self::Random(NetemChance::default()),
            Loss::Random { probability, correlation } => {
                Self::Random(Correlated { probability, correlation }.into())
            }
            Loss::FourState { p13, p31, p32, p23, p14 } => {
                let [p13, p31, p32, p23, p14] = [p13, p31, p32, p23, p14].map(Probability::as_raw);
                Self::FourState { p13, p31, p32, p23, p14 }
            }
            Loss::GilbertElliott { p, r, one_minus_h, one_minus_k } => Self::GilbertElliott {
                p: p.as_raw(),
                r: r.as_raw(),
                h: one_minus_h.complement().as_raw(),
                one_minus_k: one_minus_k.as_raw(),
            },
        }
    }
}

impl From<&Slot> for NetemSlot {
    fn from(slot: &Slot) -> Self {
        let spacing = match &slot.gap {
            SlotGap::Uniform { min, max } => SlotSpacing::Uniform(*min, *max),
            SlotGap::Spread { distribution, delay, jitter } => SlotSpacing::Spread {
                distribution: distribution.clone(),
                delay: *delay,
                jitter: nanos(*jitter),
            },
        };
        Self { spacing, packets: slot.packets, bytes: slot.bytes }
    }
}

fn nanos(span: Duration) -> u32 {
    u32::try_from(span.as_nanos()).unwrap_or(u32::MAX)
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
        format!("more than {}ns, to which netem cuts it", NetemConfig::MAX_JITTER)
    })
}

fn ensure(holds: bool, place: &str, problem: impl FnOnce() -> String) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::new(place, problem())) }
}

/// netem adds both in 32 bits: what is over 100 % wraps around to almost nothing.
const OVERFULL: &str = "{} are over 100% together, which netem wraps around";

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(config: &NetemConfig) -> String {
        config.validate().expect_err("an error").to_string()
    }

    fn refused_as_written(config: &NetemConfig) -> String {
        config.validate_as_written().expect_err("an error").to_string()
    }

    fn base() -> NetemConfig {
        NetemConfig { latency: Duration::from_millis(10), ..NetemConfig::default() }
    }

    #[test]
    fn the_default_limit_is_1000_packets() {
        assert_eq!(NetemConfig::default().limit, 1000);
        assert_eq!(NetemConfig::from(&LinkConfig::default()), NetemConfig::default());
        assert_eq!(NetemConfig::default().validate(), Ok(()));
    }

    #[test]
    fn what_netems_command_line_refuses_is_refused_as_written() {
        let no_delay = NetemConfig { reorder: chance(5), gap: 1, ..NetemConfig::default() };
        assert!(refused_as_written(&no_delay).starts_with("reorder: needs a delay"));
        let no_reorder = NetemConfig { gap: 5, ..base() };
        assert!(refused_as_written(&no_reorder).starts_with("reorder: a gap needs"));
        let no_loss = NetemConfig { ecn: true, ..base() };
        assert!(refused_as_written(&no_loss).starts_with("ecn: needs a loss"));
        let no_jitter = NetemConfig { distribution: Distribution::Normal, ..base() };
        assert_eq!(refused_as_written(&no_jitter), "distribution: needs a delay and a jitter");
        let no_cells = NetemConfig { cell_overhead: 5, ..base() };
        assert_eq!(refused_as_written(&no_cells), "netem.cell_overhead: needs a netem.cell_size");
    }

    #[test]
    fn what_netem_would_change_in_silence_is_refused() {
        let cut = NetemConfig { jitter: NetemConfig::MAX_JITTER + 1, ..base() };
        assert_eq!(refused(&cut), "jitter: more than 2147483647ns, to which netem cuts it");
        let half = 1 << 31;
        let wrapped = NetemLoss::FourState { p13: half, p31: 0, p32: 0, p23: 0, p14: half };
        let wrapped = NetemConfig { loss: wrapped, ..base() };
        assert_eq!(
            refused(&wrapped),
            "loss: P13 and P14 are over 100% together, which netem wraps around"
        );
        let distribution = Distribution::Normal;
        let still = SlotSpacing::Spread { delay: Duration::ZERO, jitter: 0, distribution };
        let still = NetemConfig { slot: Some(slot(still)), ..base() };
        assert!(refused(&still).starts_with("slot: a distribution needs a jitter"));
        let none = NetemConfig { limit: 0, ..base() };
        assert_eq!(refused(&none), "netem.limit: 0p holds no packet");
        let spacing = SlotSpacing::Uniform(Duration::from_millis(2), Duration::from_millis(1));
        let turned = NetemConfig { slot: Some(slot(spacing)), ..base() };
        assert_eq!(refused(&turned), "slot: 2ms to 1ms: the first is more than the second");
    }

    #[test]
    fn a_rate_is_cut_to_whole_bytes_per_second() {
        for (rate, bytes) in [("20mbit", 2_500_000), ("15bit", 1), ("unlimited", 0)] {
            let rate = rate.parse().expect("a rate");
            let config = LinkConfig { rate, ..LinkConfig::default() };
            assert_eq!(NetemConfig::from(&config).rate, bytes);
        }
    }

    fn chance(probability: u32) -> NetemChance {
        NetemChance { probability, correlation: 0 }
    }

    fn slot(spacing: SlotSpacing) -> NetemSlot {
        NetemSlot { spacing, packets: 0, bytes: 0 }
    }
}
