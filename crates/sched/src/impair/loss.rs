//! `loss`: which packets a path loses.

use core::fmt;
use core::str::FromStr;

use super::list::{BadValue, List};
use crate::units::Probability;
use crate::words;

/// How packets are lost at random.
///
/// Written in `tc`'s words and order: `1%`, `1%,25%`, `gemodel,1%,10%,70%,0.1%`,
/// `state,3%,30%,50%,50%,1%`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// No packet is lost: `0%`.
    #[default]
    None,
    /// A share of packets: `1%` or `random,1%`, with a correlation `1%,25%`.
    Random {
        /// The share.
        probability: Probability,
        /// How much a packet's fate resembles that of the one before.
        correlation: Probability,
    },
    /// A path that is good or bad by turns: `gemodel,P[,R[,1-H[,1-K]]]` (Gilbert 1960, Elliott
    /// 1963). It begins good. A packet is lost by the state that it meets; the state may change
    /// with it.
    GilbertElliott {
        /// From good to bad, per packet.
        p: Probability,
        /// From bad to good, per packet; 100 % - `p` unless given.
        r: Probability,
        /// Loss when bad; 100 % unless given.
        one_minus_h: Probability,
        /// Loss when good; 0 % unless given.
        one_minus_k: Probability,
    },
    /// Four states: `state,P13[,P31[,P32[,P23[,P14]]]]` (Salsano, Ludovici, Ordine, Giannuzzi
    /// 2012). 1 received in a gap between bursts of loss, 2 received in a burst, 3 lost in a burst,
    /// 4 lost alone in a gap. It begins in 1; a packet meets the fate of the state moved to.
    FourState {
        /// A burst of loss begins.
        p13: Probability,
        /// A burst ends; 100 % - `p13` unless given.
        p31: Probability,
        /// A packet of a burst is received; 0 % unless given.
        p32: Probability,
        /// The burst goes on after one; 100 % unless given.
        p23: Probability,
        /// A packet in a gap is lost alone; 0 % unless given.
        p14: Probability,
    },
}

impl Loss {
    /// Independent loss of this share.
    pub const fn random(probability: Probability) -> Self {
        match probability {
            Probability::ZERO => Self::None,
            probability => Self::Random { probability, correlation: Probability::ZERO },
        }
    }

    /// The share of packets that is lost in the long run, in millionths, rounded to the nearest.
    ///
    /// Gilbert-Elliott: `p / (p + r) (1-h) + r / (p + r) (1-k)`. 4 states: with weights `P31 P23`,
    /// `P13 P32`, `P13 P23` and `P14 P31 P23` for states 1 to 4, those of 3 and 4 of all.
    pub fn expected_ppm(&self) -> u32 {
        let raw = |share: Probability| u128::from(share.as_raw());
        let one = raw(Probability::ONE);
        let (part, whole) = match *self {
            Self::None => (0, one),
            Self::Random { probability, .. } => (raw(probability), one),
            Self::GilbertElliott { p: Probability::ZERO, one_minus_k, .. } => {
                (raw(one_minus_k), one)
            }
            Self::GilbertElliott { p, r, one_minus_h, one_minus_k } => {
                let (p, r) = (raw(p), raw(r));
                (p * raw(one_minus_h) + r * raw(one_minus_k), (p + r) * one)
            }
            Self::FourState { p13: Probability::ZERO, p14, .. } => (raw(p14), one + raw(p14)),
            Self::FourState { p13, p31, p32, p23, p14 } => {
                let [p13, p31, p32, p14] = [p13, p31, p32, p14].map(raw);
                // State 2 is left for state 3 alone, and never entered while P32 is 0.
                let p23 = if p32 == 0 { one } else { raw(p23) };
                let lost = p13 * p23 * one + p14 * p31 * p23;
                (lost, lost + p31 * p23 * one + p13 * p32 * one)
            }
        };
        // Products of three shares: at most 4 * 2^96, and the part of a million below 2^118.
        let ppm = (part * 2_000_000 + whole) / (2 * whole);
        u32::try_from(ppm).unwrap_or(1_000_000)
    }

    /// Whether a packet can be lost.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl FromStr for Loss {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.split_once(',') {
            Some(("random", rest)) => random(rest),
            Some(("gemodel", rest)) => gilbert_elliott(rest),
            Some(("state", rest)) => four_state(rest),
            _ if let Some(problem) = bad_model(text) => Err(problem),
            _ => Ok(match random(text)? {
                Self::Random { probability: Probability::ZERO, correlation: Probability::ZERO } => {
                    Self::None
                }
                loss => loss,
            }),
        }
    }
}

/// What is wrong with a text that begins with a model's name: it lacks the values, or it is another
/// tool's name for the model.
fn bad_model(text: &str) -> Option<BadValue> {
    let name = text.split_once(',').map_or(text, |(name, _)| name);
    let known = match name {
        "ge" | "gilbert" | "gilbert-elliott" | "gilbert_elliott" => Some("gemodel"),
        "markov" | "4state" | "4-state" => Some("state"),
        "bernoulli" | "uniform" => Some("random"),
        _ => words::nearest(name, MODELS.iter().map(|(model, _)| *model)),
    };
    if known.is_none() && name.starts_with(char::is_alphabetic) && name != text {
        return Some(BadValue(format!("unknown model \"{name}\", expected {TAKES}")));
    }
    let (known, takes) = MODELS.iter().find(|(model, _)| Some(*model) == known)?;
    Some(BadValue(if name == *known {
        format!("\"{text}\" lacks a value, expected {takes}")
    } else {
        format!("unknown model \"{name}\", did you mean {takes}?")
    }))
}

fn random(text: &str) -> Result<Loss, BadValue> {
    let mut list = List::new(text, TAKES);
    let loss = Loss::Random {
        probability: list.required()?,
        correlation: list.optional()?.unwrap_or_default(),
    };
    list.end()?;
    Ok(loss)
}

fn gilbert_elliott(text: &str) -> Result<Loss, BadValue> {
    let mut list = List::new(text, GEMODEL);
    let p: Probability = list.required()?;
    let loss = Loss::GilbertElliott {
        p,
        r: list.optional()?.unwrap_or_else(|| p.complement()),
        one_minus_h: list.optional()?.unwrap_or(Probability::ONE),
        one_minus_k: list.optional()?.unwrap_or(Probability::ZERO),
    };
    list.end()?;
    Ok(loss)
}

fn four_state(text: &str) -> Result<Loss, BadValue> {
    let mut list = List::new(text, STATE);
    let p13: Probability = list.required()?;
    let loss = Loss::FourState {
        p13,
        p31: list.optional()?.unwrap_or_else(|| p13.complement()),
        p32: list.optional()?.unwrap_or(Probability::ZERO),
        p23: list.optional()?.unwrap_or(Probability::ONE),
        p14: list.optional()?.unwrap_or(Probability::ZERO),
    };
    list.end()?;
    Ok(loss)
}

impl fmt::Display for Loss {
    /// Every value of a model, defaults included.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ZERO: Probability = Probability::ZERO;
        match *self {
            Self::None => ZERO.fmt(f),
            // `0%` alone is `None`.
            Self::Random { probability: ZERO, correlation: ZERO } => f.write_str("random,0%"),
            Self::Random { probability, correlation: ZERO } => probability.fmt(f),
            Self::Random { probability, correlation } => write!(f, "{probability},{correlation}"),
            Self::GilbertElliott { p, r, one_minus_h, one_minus_k } => {
                write!(f, "gemodel,{p},{r},{one_minus_h},{one_minus_k}")
            }
            Self::FourState { p13, p31, p32, p23, p14 } => {
                write!(f, "state,{p13},{p31},{p32},{p23},{p14}")
            }
        }
    }
}

/// What the parameter takes.
const GEMODEL: &str = "gemodel,P[,R[,1-H[,1-K]]]";
const STATE: &str = "state,P13[,P31[,P32[,P23[,P14]]]]";
const MODELS: &[(&str, &str)] =
    &[("random", "random,PERCENT[,CORRELATION]"), ("gemodel", GEMODEL), ("state", STATE)];
const TAKES: &str = "PERCENT[,CORRELATION], gemodel,P[,R[,1-H[,1-K]]] or \
                     state,P13[,P31[,P32[,P23[,P14]]]]";
