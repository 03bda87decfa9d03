//! The parameters of `fq`.

use crate::config::{ConfigError, Limit, LinkConfig};
use crate::time::Duration;
use crate::units::{Bytes, Rate};

/// The parameters `fq.*`: names, units, ranges and defaults of tc-fq(8), and `wake` and
/// `maxrate_zero`, where this discipline can differ from Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FqConfig {
    /// `flow_limit`: packets that one flow may have queued. Default 100.
    pub flow_limit: u32,
    /// `quantum`: bytes that a flow may send in its turn, 1 to 2^20. `None` = two full packets:
    /// 2 x (1500 + framing).
    pub quantum: Option<u32>,
    /// `initial_quantum`: bytes that a flow may send in its first turn, 0 to 2^31 - 1. `None` = ten
    /// full packets.
    pub initial_quantum: Option<u32>,
    /// `pacing`: whether rates of sockets and `maxrate` hold flows back. Default true.
    pub pacing: bool,
    /// `maxrate`: no flow is faster. Default unlimited.
    pub max_rate: Rate,
    /// `maxrate_zero`: what a `maxrate` of 0 means.
    pub max_rate_zero: MaxRateZero,
    /// `buckets`: a power of two, 1 to 2^18. Default 1024. See [`Fq`](super::Fq) on memory.
    pub buckets: u32,
    /// `orphan_mask`: packets without a socket share a flow when their hashes agree in these bits.
    /// Default 1023, which makes at most 1,024 flows.
    pub orphan_mask: u32,
    /// `low_rate_threshold`: flows up to this rate are paced packet by packet, faster ones quantum
    /// by quantum. Default 550 kbit/s.
    pub low_rate_threshold: Rate,
    /// `refill_delay`: a flow gets a new quantum when it comes back after more than this.
    /// Default 40 ms.
    pub refill_delay: Duration,
    /// `ce_threshold`: packets are marked that leave more than this after they could. `None` = off,
    /// the default.
    pub ce_threshold: Option<Duration>,
    /// `timer_slack`: with [`Wake::Slack`], how long after its time a flow is looked at. Default
    /// 10 us.
    pub timer_slack: Duration,
    /// `wake`: when a throttled flow is looked at again.
    pub wake: Wake,
    /// `horizon`: how far ahead a transmit time may lie. Default 10 s.
    pub horizon: Duration,
    /// `horizon_mode`: what happens to a packet beyond it.
    pub horizon_mode: HorizonMode,
    /// `priomap`: the band, 0 to 2, of packets of each priority. Default
    /// 1,2,2,2,1,2,0,0,1,1,1,1,1,1,1,1.
    pub priomap: [u8; 16],
    /// `weights`: bytes that each band may send in its turn, 16384 to 2^31 - 1. Default
    /// 589824,196608,65536.
    pub weights: [u32; 3],
}

/// When a throttled flow is looked at again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wake {
    /// At its time (default).
    #[default]
    Due,
    /// As Linux: `timer_slack` after its time, or with the first arrival from its time on.
    Slack,
}

/// What happens to a packet whose transmit time lies beyond the horizon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HorizonMode {
    /// It is dropped (default).
    #[default]
    Drop,
    /// It leaves at the horizon.
    Cap,
}

/// What a `maxrate` of 0 means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaxRateZero {
    /// An error (default).
    #[default]
    Refuse,
    /// As Linux: a flow may send one packet a second.
    Second,
}

impl Default for FqConfig {
    fn default() -> Self {
        Self {
            flow_limit: 100,
            quantum: None,
            initial_quantum: None,
            pacing: true,
            max_rate: Rate::UNLIMITED,
            max_rate_zero: MaxRateZero::default(),
            buckets: 1024,
            orphan_mask: 1023,
            low_rate_threshold: LOW_RATE_THRESHOLD,
            refill_delay: Duration::from_millis(40),
            ce_threshold: None,
            timer_slack: Duration::from_micros(10),
            wake: Wake::default(),
            horizon: Duration::from_secs(10),
            horizon_mode: HorizonMode::default(),
            priomap: [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1],
            weights: [9 << 16, 3 << 16, 1 << 16],
        }
    }
}

impl FqConfig {
    /// Packets that each band holds when no `limit` is given.
    pub const LIMIT: u32 = 10_000;
    /// The most that `quantum` may be.
    pub const MAX_QUANTUM: u32 = 1 << 20;
    /// The most that `initial_quantum` and a weight may be.
    pub const MAX_BYTES: u32 = i32::MAX as u32;
    /// The most that `buckets` may be.
    pub const MAX_BUCKETS: u32 = 1 << 18;
    /// The least that a weight may be.
    pub const MIN_WEIGHT: u32 = 16_384;

    /// The most that `refill_delay`, `ce_threshold` and `horizon` may be.
    pub const MAX_TIME: Duration = Duration::from_micros(u32::MAX as u64);
    /// The most that `timer_slack` may be.
    pub const MAX_TIMER_SLACK: Duration = Duration::from_nanos(u32::MAX as u64);

    /// `quantum` in force on a link with this `framing`.
    pub fn resolved_quantum(&self, framing: u32) -> u32 {
        self.quantum.unwrap_or_else(|| 2 * full_packet(framing))
    }

    /// `initial_quantum` in force on a link with this `framing`.
    pub fn resolved_initial_quantum(&self, framing: u32) -> u32 {
        self.initial_quantum.unwrap_or_else(|| 10 * full_packet(framing))
    }

    /// Refuses values out of range and a `limit` of `link` that is not in packets; the error's
    /// place is the parameter.
    pub fn validate(&self, link: &LinkConfig) -> Result<(), ConfigError> {
        if let Some(limit @ (Limit::Bytes(_) | Limit::Time(_))) = link.limit {
            let problem = format!("{limit}: fq counts packets, expected for example 10000p");
            return Err(ConfigError::new("limit", problem));
        }
        self.check_sizes()?;
        self.check_bands()?;
        self.check_times()?;
        ensure(self.buckets.is_power_of_two() && self.buckets <= Self::MAX_BUCKETS, || {
            let problem =
                format!("{} is no power of two from 1 to {}", self.buckets, Self::MAX_BUCKETS);
            ("fq.buckets", problem)
        })?;
        let zero = self.max_rate == Rate::PAUSE && self.max_rate_zero == MaxRateZero::Refuse;
        ensure(!zero, || {
            let problem = "0bit lets nothing out, where Linux sends each flow a packet a second; \
                           expected 1bit to 1tbit, unlimited, or fq.maxrate_zero=second as well";
            ("fq.maxrate", problem.into())
        })?;
        ensure(self.low_rate_threshold != Rate::UNLIMITED, || {
            ("fq.low_rate_threshold", "unlimited is no threshold, expected 0bit to 1tbit".into())
        })
    }

    fn check_sizes(&self) -> Result<(), ConfigError> {
        ensure(self.flow_limit > 0, || {
            ("fq.flow_limit", "0p lets no packet in, expected 1p or more".into())
        })?;
        for (name, bytes, range) in [
            ("fq.quantum", self.quantum, 1..=Self::MAX_QUANTUM),
            ("fq.initial_quantum", self.initial_quantum, 0..=Self::MAX_BYTES),
        ] {
            ensure(bytes.is_none_or(|bytes| range.contains(&bytes)), || {
                let said = Bytes(bytes.unwrap_or_default().into());
                let [least, most] = [range.start(), range.end()].map(|b| Bytes(u64::from(*b)));
                (name, format!("{said} is out of range, expected {least} to {most}"))
            })?;
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), ConfigError> {
        for (name, time, most) in [
            ("fq.refill_delay", self.refill_delay, Self::MAX_TIME),
            ("fq.ce_threshold", self.ce_threshold.unwrap_or_default(), Self::MAX_TIME),
            ("fq.horizon", self.horizon, Self::MAX_TIME),
            ("fq.timer_slack", self.timer_slack, Self::MAX_TIMER_SLACK),
        ] {
            ensure(time <= most, || (name, format!("{time} is more than {most}")))?;
        }
        Ok(())
    }

    fn check_bands(&self) -> Result<(), ConfigError> {
        if let Some(band) = self.priomap.iter().find(|band| usize::from(**band) >= BANDS) {
            let problem = format!("{band} is no band, expected 16 numbers from 0 to 2");
            return Err(ConfigError::new("fq.priomap", problem));
        }
        let range = Self::MIN_WEIGHT..=Self::MAX_BYTES;
        if let Some(weight) = self.weights.iter().find(|weight| !range.contains(weight)) {
            let (least, most) = (Self::MIN_WEIGHT, Self::MAX_BYTES);
            let problem = format!("{weight} is out of range, expected {least} to {most}");
            return Err(ConfigError::new("fq.weights", problem));
        }
        Ok(())
    }
}

/// What the state machine reads for each packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) limit: u64,
    pub(super) flow_limit: u32,
    pub(super) quantum: i32,
    pub(super) initial_quantum: i32,
    pub(super) pacing: bool,
    pub(super) max_rate: Rate,
    pub(super) buckets: u32,
    pub(super) orphan_mask: u32,
    pub(super) low_rate_threshold: Rate,
    pub(super) refill_delay: Duration,
    pub(super) ce_threshold: Option<Duration>,
    pub(super) wake_slack: Duration,
    pub(super) horizon: Duration,
    pub(super) horizon_mode: HorizonMode,
    pub(super) priomap: [u8; 16],
    pub(super) weights: [u32; 3],
}

impl Settings {
    /// Of a valid configuration.
    pub(super) fn new(link: &LinkConfig) -> Self {
        let config = &link.fq;
        let signed = |bytes: u32| i32::try_from(bytes).unwrap_or(i32::MAX);
        Self {
            limit: link.resolved_limit().packets,
            flow_limit: config.flow_limit,
            quantum: signed(config.resolved_quantum(link.framing)),
            initial_quantum: signed(config.resolved_initial_quantum(link.framing)),
            pacing: config.pacing,
            max_rate: config.max_rate,
            buckets: config.buckets,
            orphan_mask: config.orphan_mask,
            low_rate_threshold: config.low_rate_threshold,
            refill_delay: config.refill_delay,
            ce_threshold: config.ce_threshold,
            wake_slack: match config.wake {
                Wake::Due => Duration::ZERO,
                Wake::Slack => config.timer_slack,
            },
            horizon: config.horizon,
            horizon_mode: config.horizon_mode,
            priomap: config.priomap,
            weights: config.weights,
        }
    }
}

/// A packet of 1500 bytes as tc counts it.
fn full_packet(framing: u32) -> u32 {
    framing.saturating_add(1_500)
}

fn ensure(holds: bool, error: impl FnOnce() -> (&'static str, String)) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    let (place, problem) = error();
    Err(ConfigError::new(place, problem))
}

/// Bands.
pub(super) const BANDS: usize = 3;

const LOW_RATE_THRESHOLD: Rate = match Rate::from_bps(550_000) {
    Some(rate) => rate,
    None => Rate::PAUSE,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::QueueLimit;

    #[test]
    fn sizes_not_named_follow_the_framing_and_the_limit_is_in_packets() {
        let config = LinkConfig::parse("queue=fq", "up").unwrap();
        let settings = Settings::new(&config);
        assert_eq!((settings.quantum, settings.initial_quantum), (3_028, 15_140));
        assert_eq!(settings.limit, 10_000);
        assert_eq!(config.resolved_limit(), QueueLimit { packets: 10_000, ..QueueLimit::NONE });
        assert_eq!(config.with_limit_resolved().limit, Some(Limit::Packets(10_000)));
        let config = LinkConfig::parse("queue=fq framing=38 limit=5p rate=1mbit", "up").unwrap();
        let settings = Settings::new(&config);
        assert_eq!((settings.quantum, settings.limit), (3_076, 5));
    }

    #[test]
    fn values_print_as_they_are_read() {
        let text = "queue=fq fq.flow_limit=50 fq.buckets=1000 fq.orphan_mask=0xff \
                    fq.weights=16384,16384,2147483647 fq.quantum=2000 fq.ce_threshold=3ms";
        let config = LinkConfig::parse(text, "up").unwrap();
        let entries = config.entries();
        for (name, value) in [
            ("fq.flow_limit", "50p"),
            ("fq.buckets", "1024"),
            ("fq.orphan_mask", "255"),
            ("fq.weights", "16384,16384,2147483647"),
            ("fq.quantum", "2000b"),
            ("fq.initial_quantum", "auto"),
            ("fq.ce_threshold", "3ms"),
            ("fq.maxrate", "unlimited"),
        ] {
            assert!(entries.contains(&(name, value.to_owned())), "{name} {entries:?}");
        }
        let entries = config.all_entries();
        let read = LinkConfig::from_entries(entries.iter().map(|(n, v)| (*n, v.as_str())), None);
        assert_eq!(read, Ok(config));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_range() {
        for (words, message) in BAD {
            let text = format!("queue=fq {words}");
            let error = LinkConfig::parse(&text, "--up").unwrap_err().to_string();
            assert_eq!(error, format!("--up: {message}"), "{words}");
        }
        let error = LinkConfig::parse("fq.quantum=3000", "--up").unwrap_err().to_string();
        assert_eq!(error, "--up: fq.quantum: needs queue=fq");
    }

    const BAD: &[(&str, &str)] = &[
        ("limit=200kb", "limit: 200kb: fq counts packets, expected for example 10000p"),
        ("rate=1mbit limit=100ms", "limit: 100ms: fq counts packets, expected for example 10000p"),
        ("fq.quantum=0", "fq.quantum: 0b is out of range, expected 1b to 1mb"),
        ("fq.quantum=1048577", "fq.quantum: 1048577b is out of range, expected 1b to 1mb"),
        (
            "fq.initial_quantum=2gb",
            "fq.initial_quantum: 2gb is out of range, expected 0b to 2147483647b",
        ),
        ("fq.flow_limit=0", "fq.flow_limit: 0p lets no packet in, expected 1p or more"),
        (
            "fq.flow_limit=200kb",
            "fq.flow_limit: \"200kb\" is no number of packets from 1p to 4294967295p, such as 100p",
        ),
        (
            "fq.maxrate=0",
            "fq.maxrate: 0bit lets nothing out, where Linux sends each flow a packet a second; \
             expected 1bit to 1tbit, unlimited, or fq.maxrate_zero=second as well",
        ),
        ("fq.buckets=0", "fq.buckets: \"0\" is no number of buckets from 1 to 262144"),
        ("fq.buckets=262145", "fq.buckets: \"262145\" is no number of buckets from 1 to 262144"),
        ("fq.orphan_mask=-1", "fq.orphan_mask: \"-1\" is no whole number from 0 to 4294967295"),
        ("fq.priomap=1,2", "fq.priomap: \"1,2\" is no list of 16 bands"),
        (
            "fq.priomap=0,1,2,3,0,0,0,0,0,0,0,0,0,0,0,0",
            "fq.priomap: 3 is no band, expected 16 numbers from 0 to 2",
        ),
        ("fq.weights=16384,16384", "fq.weights: \"16384,16384\" is no list of 3 bytes"),
        (
            "fq.weights=16383,16384,16384",
            "fq.weights: 16383 is out of range, expected 16384 to 2147483647",
        ),
        (
            "fq.low_rate_threshold=unlimited",
            "fq.low_rate_threshold: unlimited is no threshold, expected 0bit to 1tbit",
        ),
        ("fq.horizon=4295s", "fq.horizon: 4295s is more than 4294967295us"),
        ("fq.refill_delay=4295s", "fq.refill_delay: 4295s is more than 4294967295us"),
        ("fq.ce_threshold=4295s", "fq.ce_threshold: 4295s is more than 4294967295us"),
        ("fq.timer_slack=5s", "fq.timer_slack: 5s is more than 4294967295ns"),
        ("fq.wake=slak", "fq.wake: unknown word \"slak\", did you mean \"slack\"?"),
        ("fq.pacing=yes", "fq.pacing: unknown word \"yes\", expected one of on, off"),
        ("fq.horizon_mode=ca", "fq.horizon_mode: unknown word \"ca\", did you mean \"cap\"?"),
    ];
}
