//! What fq_codel can be told, and what is refused.

use core::fmt;
use core::str::FromStr;

use super::super::codel::CodelConfig;
use crate::config::{ConfigError, LinkConfig};
use crate::units::Bytes;

/// Parameters of fq_codel; `limit` is the link's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodelConfig {
    /// `fq_codel.flows`: hash buckets, 1 to [`FqCodelConfig::MAX_FLOWS`], fixed at the start.
    /// Default 1024.
    pub flows: u32,
    /// `fq_codel.quantum`: bytes that a flow sends in its turn, [`FqCodelConfig::MIN_QUANTUM`] to
    /// [`FqCodelConfig::MAX_QUANTUM`]. Default: a full packet as the rate counts it.
    pub quantum: Option<u32>,
    /// `fq_codel.memory_limit`: bytes of true size that packets may hold, 1 to
    /// [`FqCodelConfig::MAX_MEMORY`]. Default 32 MiB.
    pub memory_limit: u32,
    /// `fq_codel.drop_batch`: packets that are dropped at once when there is no room, 1 to
    /// 2^32 - 1. Default 64.
    pub drop_batch: u32,
    /// `fq_codel.ce_threshold_selector`: the packets that ce_threshold is for. Default all.
    pub selector: Selector,
    /// The controller of each flow; `ecn` is on by default.
    pub codel: CodelConfig,
}

/// Packets whose DS field (type of service, traffic class: DSCP and ECN) has these bits. Written
/// `VALUE/MASK`, in decimal or, after `0x`, in hexadecimal, as in tc-fq_codel(8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// What the bits of the mask are.
    pub value: u8,
    /// The bits that count; none: every packet is selected.
    pub mask: u8,
}

impl FqCodelConfig {
    /// The most hash buckets.
    pub const MAX_FLOWS: u32 = 65_536;
    /// The smallest quantum.
    pub const MIN_QUANTUM: u32 = 256;
    /// The greatest quantum.
    pub const MAX_QUANTUM: u32 = 1 << 20;
    /// The greatest memory limit.
    pub const MAX_MEMORY: u32 = 1 << 31;
    /// `limit` when nobody names one, in packets.
    pub const DEFAULT_LIMIT: u32 = 10_240;

    /// The quantum in force on `link`.
    pub fn resolved_quantum(&self, link: &LinkConfig) -> u32 {
        self.quantum.unwrap_or_else(|| {
            let packet = u32::try_from(link.full_packet()).unwrap_or(Self::MAX_QUANTUM);
            packet.clamp(Self::MIN_QUANTUM, Self::MAX_QUANTUM)
        })
    }

    /// Refuses what is out of range.
    pub(crate) fn validate(&self, link: &LinkConfig) -> Result<(), ConfigError> {
        let count = |value: u32| value.to_string();
        let bytes = |value: u32| Bytes(value.into()).to_string();
        in_range("flows", self.flows, (1, Self::MAX_FLOWS), count)?;
        in_range("memory_limit", self.memory_limit, (1, Self::MAX_MEMORY), bytes)?;
        in_range("drop_batch", self.drop_batch, (1, u32::MAX), count)?;
        let quantum = self.quantum.unwrap_or(Self::MIN_QUANTUM);
        in_range("quantum", quantum, (Self::MIN_QUANTUM, Self::MAX_QUANTUM), bytes)?;
        self.codel.validate("fq_codel", link)
    }
}

impl Default for FqCodelConfig {
    fn default() -> Self {
        Self {
            flows: 1_024,
            quantum: None,
            memory_limit: 32 << 20,
            drop_batch: 64,
            selector: Selector::default(),
            codel: CodelConfig { ecn: true, ..CodelConfig::default() },
        }
    }
}

impl Selector {
    /// Whether a packet with this DS field is selected.
    #[inline]
    pub const fn selects(self, ds_field: u8) -> bool {
        ds_field & self.mask == self.value & self.mask
    }
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is no VALUE/MASK of 8 bits such as 0x01/0x03");
        let byte = |text: &str| {
            let read = match text.strip_prefix("0x") {
                Some(digits) => u8::from_str_radix(digits, 16),
                None => text.parse(),
            };
            read.map_err(|_| wrong())
        };
        let (value, mask) = text.split_once('/').ok_or_else(wrong)?;
        let selector = Self { value: byte(value)?, mask: byte(mask)? };
        if selector.value & !selector.mask != 0 {
            return Err(format!("\"{text}\" selects nothing: the value has bits outside the mask"));
        }
        Ok(selector)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#04x}/{:#04x}", self.value, self.mask)
    }
}

fn in_range(
    name: &str,
    value: u32,
    (least, most): (u32, u32),
    written: fn(u32) -> String,
) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let (value, least, most) = (written(value), written(least), written(most));
    let problem = format!("{value} is out of range, expected {least} to {most}");
    Err(ConfigError::new(format!("fq_codel.{name}"), problem))
}
