//! Parameters of the impairments and of the delay line's spread.

use super::validate::ensure;
use super::{LOSS_AT, Live, Parameter, hint, or, read, unless, word, written};
use crate::config::{ConfigError, LinkConfig, LossAt};
use crate::impair::{Distribution, Impair, Loss, Reorder, Slot, SlotGap};
use crate::netem::NetemConfig;
use crate::time::Duration;
use crate::units::Probability;

pub(super) const ROWS: &[Parameter] = &[
    Parameter {
        name: "jitter",
        takes: "TIME[,CORRELATION]",
        default: "0ms",
        help: "delay drawn around delay; order kept, so dense packets lean to the maximum",
        live: Live::Yes,
        set: set_jitter,
        get: jitter,
    },
    Parameter {
        name: "distribution",
        takes: "uniform|normal|pareto|paretonormal|FILE",
        default: "uniform",
        help: "how jitter spreads: within +- jitter, or by a table with jitter as deviation",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.distribution = v),
        get: |c| c.distribution.to_string(),
    },
    Parameter {
        name: "reorder",
        takes: "PERCENT[,CORRELATION][,gap=N]|jitter|none",
        default: "none",
        help: "share of packets that skip the delay; jitter: delays drawn may change the order",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.reorder = v),
        get: |c| c.reorder.to_string(),
    },
    Parameter {
        name: "slot",
        takes: "MIN[,MAX][,packets=N][,bytes=N]|DISTRIBUTION,DELAY,JITTER[,...]|none",
        default: "none",
        help: "let packets leave only in slots this far apart",
        live: Live::Yes,
        set: |c, v| unless("none", v, read).map(|v| c.slot = v),
        get: |c| or("none", c.slot.as_ref()),
    },
    Parameter {
        name: "loss",
        takes: "PERCENT[,CORRELATION]|gemodel,P[,R[,1-H[,1-K]]]|state,P13[,P31[,P32[,P23[,P14]]]]",
        default: "0%",
        help: "packets lost at random: independently, in bursts, by a model",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.loss = v),
        get: |c| c.loss.to_string(),
    },
    LOSS_AT_ROW,
    Parameter {
        name: "ecn",
        takes: "on|off",
        default: "off",
        help: "random loss marks ECN-capable packets instead of losing them",
        live: Live::Yes,
        set: |c, v| word(v, SWITCH).map(|v| c.ecn = v),
        get: |c| written(c.ecn, SWITCH),
    },
    Parameter {
        name: "duplicate",
        takes: "PERCENT[,CORRELATION]",
        default: "0%",
        help: "share of packets that come twice",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.duplicate = v),
        get: |c| c.duplicate.to_string(),
    },
    Parameter {
        name: "corrupt",
        takes: "PERCENT[,CORRELATION]",
        default: "0%",
        help: "share of packets with one flipped bit",
        live: Live::Yes,
        set: |c, v| read(v).map(|v| c.corrupt = v),
        get: |c| c.corrupt.to_string(),
    },
    Parameter {
        name: "impair",
        takes: "own|netem",
        default: "own",
        help: "whose rules the impairments follow; netem takes the queue's place as well",
        live: Live::No("netem takes the place of the queue"),
        set: |c, v| word(v, IMPAIR).map(|v| c.impair = v),
        get: |c| written(c.impair, IMPAIR),
    },
];

/// Apart from the others: `impair=netem` has no use for it.
pub(super) const LOSS_AT_ROW: Parameter = Parameter {
    name: "loss.at",
    takes: "before|after",
    default: "after",
    help: "lose before the queue (no capacity used) or after it",
    live: Live::Yes,
    set: |c, v| word(v, LOSS_AT).map(|v| c.loss_at = v),
    get: |c| written(c.loss_at, LOSS_AT),
};

impl LinkConfig {
    /// Ranges of the impairments.
    pub(super) fn check_impairments(&self) -> Result<(), ConfigError> {
        self.check_reorder()?;
        self.check_slot()?;
        match self.impair {
            Impair::Own => self.check_own(),
            Impair::Netem => self.check_netem(),
        }
    }

    /// What makes no sense when it is written so.
    pub(super) fn check_impairments_as_written(&self) -> Result<(), ConfigError> {
        if self.impair == Impair::Netem {
            return NetemConfig::from(self).validate_as_written();
        }
        let (delay, jitter) = (self.delay > Duration::ZERO, self.jitter > Duration::ZERO);
        let correlated = self.jitter_correlation != Probability::ZERO;
        ensure(jitter || !correlated, "jitter", || "a correlation needs a jitter".into())?;
        let spread = self.distribution != Distribution::Uniform;
        ensure(jitter || !spread, "distribution", || "needs a jitter".into())?;
        match self.reorder {
            Reorder::None => {}
            Reorder::Jitter => ensure(jitter, "reorder", || "jitter needs a jitter".into())?,
            Reorder::Skip { .. } => ensure(delay, "reorder", || "needs a delay to skip".into())?,
        }
        ensure(!self.ecn || !self.loss.is_none(), "ecn", || {
            let marking = hint::marking(self.queue).map(|marking| format!("; {marking}"));
            format!("needs a loss{}", marking.unwrap_or_default())
        })
    }

    fn check_reorder(&self) -> Result<(), ConfigError> {
        let Reorder::Skip { probability, gap, .. } = self.reorder else { return Ok(()) };
        ensure(probability != Probability::ZERO, "reorder", || {
            "0% reorders nothing, expected more, or none".into()
        })?;
        ensure(gap > 0, "reorder", || "gap=0 is no distance, expected gap=1 or more".into())
    }

    fn check_slot(&self) -> Result<(), ConfigError> {
        let Some(Slot { gap, .. }) = &self.slot else { return Ok(()) };
        let (longest, what) = match gap {
            SlotGap::Uniform { min, max } => {
                ensure(min <= max, "slot", || format!("{min} is more than the longest of {max}"))?;
                (*max, "the longest")
            }
            SlotGap::Spread { delay, jitter, .. } => {
                ensure(*jitter > Duration::ZERO, "slot", || {
                    "a jitter of 0ms does not spread, expected more, or MIN,MAX".into()
                })?;
                (*delay.max(jitter), "the greatest")
            }
        };
        let most = Self::MAX_DELAY;
        ensure(longest > Duration::ZERO, "slot", || format!("{what} of 0ms is no slot"))?;
        ensure(longest <= most, "slot", || format!("{longest} is more than {most}"))
    }

    /// What own impairments cannot mean although netem gives it some meaning.
    fn check_own(&self) -> Result<(), ConfigError> {
        let correlation = |name, correlation: Probability| {
            ensure(correlation != Probability::ONE, name, || {
                "a correlation of 100% repeats the first packet's fate for ever, expected less"
                    .into()
            })
        };
        ensure(!self.ecn || self.loss_at == LossAt::After, "ecn", || {
            "marks behind the queue only, expected loss.at=after".into()
        })?;
        correlation("jitter", self.jitter_correlation)?;
        correlation("duplicate", self.duplicate.correlation)?;
        correlation("corrupt", self.corrupt.correlation)?;
        if let Reorder::Skip { correlation: c, .. } = self.reorder {
            correlation("reorder", c)?;
        }
        match self.loss {
            Loss::Random { correlation: c, .. } => correlation("loss", c),
            Loss::FourState { p13, p31, p32, p14, .. } => {
                exclusive(["P13", "P14"], [p13, p14])?;
                exclusive(["P31", "P32"], [p31, p32])
            }
            Loss::None | Loss::GilbertElliott { .. } => Ok(()),
        }
    }
}

/// Two ways out of one state: their probabilities cannot sum to more than 1.
fn exclusive(names: [&str; 2], shares: [Probability; 2]) -> Result<(), ConfigError> {
    let fits = shares[0].as_raw().checked_add(shares[1].as_raw()).is_some();
    ensure(fits, "loss", || {
        let ([a, b], [x, y]) = (names, shares);
        format!("{a} of {x} and {b} of {y} are more than 100% together")
    })
}

fn set_jitter(config: &mut LinkConfig, text: &str) -> Result<(), String> {
    let (jitter, correlation) = match text.split_once(',') {
        Some((jitter, correlation)) => (read(jitter)?, read(correlation)?),
        None => (read(text)?, Probability::ZERO),
    };
    (config.jitter, config.jitter_correlation) = (jitter, correlation);
    Ok(())
}

fn jitter(config: &LinkConfig) -> String {
    let jitter: Duration = config.jitter;
    match config.jitter_correlation {
        Probability::ZERO => jitter.to_string(),
        correlation => format!("{jitter},{correlation}"),
    }
}

const SWITCH: &[(&str, bool)] = &[("on", true), ("off", false)];
const IMPAIR: &[(&str, Impair)] = &[("own", Impair::Own), ("netem", Impair::Netem)];
