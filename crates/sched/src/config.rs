//! The parameters of one direction of a link.

pub(crate) mod change;
mod follows;
mod implied;
mod shared;

pub(crate) use change::Setting;
pub use change::{Change, Settings};
pub use shared::Shared;

use crate::impair::{Correlated, Distribution, Impair, Loss, Reorder, Slot};
use crate::netem::NetemOptions;
use crate::packet::Packet;
use crate::queue::codel::CodelConfig;
use crate::queue::dualpi2::Lane;
use crate::queue::fq_codel::FqCodelConfig;
use crate::queue::jens::JensConfig;
use crate::queue::tbf::TbfConfig;
use crate::queue::{Dualpi2Config, FqConfig, QueueLimit};
use crate::time::Duration;
use crate::trace::{Trace, TraceOptions};
use crate::units::{Probability, Rate};
use crate::words::brief;

/// One direction of a link as it was asked for. `Default` is a perfect wire: no rate, no delay,
/// no loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// `rate`: bottleneck rate. [`Rate::UNLIMITED`] = no bottleneck, [`Rate::PAUSE`] = stopped.
    pub rate: Rate,
    /// `framing`: bytes added to each wire packet before the rate counts it. Default 14, the
    /// Ethernet header, so that figures agree with `tc`.
    pub framing: u32,
    /// `overhead`: more bytes per wire packet, on top of `framing`; may be negative as in `tc`'s
    /// size tables. A packet never counts as less than one byte.
    pub overhead: i32,
    /// `burst`: bytes that may leave at once after idling. `None` = pure serialisation.
    pub burst: Option<u32>,
    /// `peakrate`: rate at which saved-up `burst` may leave; above `rate`, needs `burst`.
    pub peakrate: Option<Rate>,
    /// `nic`: the sender's access rate, passed before the queue.
    pub nic: Option<Rate>,
    /// `delay`: propagation delay.
    pub delay: Duration,
    /// `jitter`: each packet's delay spreads around `delay` by this, see `distribution`; order is
    /// kept unless `reorder` says otherwise. At most `delay`.
    pub jitter: Duration,
    /// `jitter`'s second value: how much a packet's delay resembles that of the one before.
    pub jitter_correlation: Probability,
    /// `distribution`: how jitter spreads. Uniform: in `delay - jitter ..= delay + jitter`.
    pub distribution: Distribution,
    /// `reorder`: which packets may overtake.
    pub reorder: Reorder,
    /// `slot`: packets leave the delay line in slots only.
    pub slot: Option<Slot>,
    /// `loss`: which packets are lost at random.
    pub loss: Loss,
    /// `loss.at`: before the queue or after it.
    pub loss_at: LossAt,
    /// `ecn`: random loss marks ECN-capable packets instead of losing them.
    pub ecn: bool,
    /// `duplicate`: share of packets that come twice.
    pub duplicate: Correlated,
    /// `corrupt`: share of packets with a flipped bit.
    pub corrupt: Correlated,
    /// `impair`: whose rules loss, duplicates, corruption and the delay line follow.
    pub impair: Impair,
    /// `netem.*`: what only `impair=netem` has.
    pub netem: NetemOptions,
    /// `queue`: the discipline.
    pub queue: QueueKind,
    /// `dualpi2.*`.
    pub dualpi2: Dualpi2Config,
    /// `codel.*`: parameters of `queue=codel`.
    pub codel: CodelConfig,
    /// `fq_codel.*`: parameters of `queue=fq_codel`.
    pub fq_codel: FqCodelConfig,
    /// `tbf.*`: parameters of `queue=tbf`.
    pub tbf: TbfConfig,
    /// `limit`: what the queue holds. `None` = the default, see [`QueueKind::default_limit`], for
    /// `fifo` [`Limit::DEFAULT`].
    pub limit: Option<Limit>,
    /// The default `limit` once it has been derived. `None` = not yet: no parameter, but what a
    /// link in operation has come to.
    pub derived_limit: Option<DerivedLimit>,
    /// `gso`: whether bursts are cut into wire packets before the link sees them.
    pub gso: Gso,
    /// Bytes of memory that packets may hold from arrival to due time; resolved by the driver
    /// once and logged, so that a replay drops at the same packet.
    pub hold_limit: u64,
    /// `fq.*`: parameters of `queue=fq`.
    pub fq: FqConfig,
    /// `jens.*`: the parameters of [`QueueKind::Jens`].
    pub jens: JensConfig,
    /// `trace*` as written. Who reads files puts what is in them into `trace`.
    pub trace_options: TraceOptions,
    /// What the link follows; `None` = nothing. `rate`, `delay` and `loss` are then what its steps
    /// set.
    pub trace: Option<Trace>,
}

/// Where random loss strikes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossAt {
    /// Before the queue, as netem does: a lost packet uses no capacity.
    Before,
    /// After the queue (default), as radio loss does: a lost packet has used capacity.
    #[default]
    After,
}

/// The queue disciplines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueKind {
    /// First in, first out, tail drop at `limit`.
    #[default]
    Fifo,
    /// Two coupled queues for L4S and classic traffic (RFC 9332).
    Dualpi2,
    /// Token bucket filter.
    Tbf,
    /// Fifo with an AQM that bounds waits (RFC 8289).
    Codel,
    /// Flows in turn, each with CoDel (RFC 8290).
    FqCodel,
    /// Fair queueing with pacing for each flow.
    Fq,
    /// Strict priority, pacing, extra latency and a marking ramp.
    Jens,
}

impl QueueKind {
    /// `limit` in packets when nobody gives one, for disciplines that count packets.
    pub const fn default_limit(self) -> Option<u32> {
        match self {
            Self::Fifo | Self::Tbf => None,
            Self::Dualpi2 => Some(Dualpi2Config::LIMIT),
            Self::Codel => Some(CodelConfig::DEFAULT_LIMIT),
            Self::FqCodel => Some(FqCodelConfig::DEFAULT_LIMIT),
            Self::Fq => Some(FqConfig::LIMIT),
            Self::Jens => Some(JensConfig::DEFAULT_LIMIT),
        }
    }

    /// Whether the discipline decides about single packets, so that a burst must be cut first.
    pub const fn decides_per_packet(self) -> bool {
        matches!(self, Self::Dualpi2 | Self::Codel | Self::FqCodel | Self::Fq | Self::Jens)
    }
}

/// What a queue holds before it drops at its tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `1000p`: packets (wire segments).
    Packets(u32),
    /// `200k`: bytes as the rate counts them, framing and overhead included.
    Bytes(u64),
    /// `100ms`: bytes that the configured rate carries in this time, derived once; at least one
    /// full packet.
    Time(Duration),
}

/// What a default `limit` in bytes has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DerivedLimit {
    /// Bytes, as [`Limit::Bytes`] counts them.
    pub bytes: u64,
    /// Whether it was derived during a pause, for want of a rate: the first rate may raise it.
    pub provisional: bool,
}

impl Limit {
    /// With a rate and no `limit`: what the rate carries in this time, but at least
    /// [`Limit::DEFAULT_PACKETS`] full packets.
    pub const DEFAULT: Duration = Duration::from_millis(100);
    /// See [`Limit::DEFAULT`]. Full packet: 1500 bytes, framing and overhead.
    pub const DEFAULT_PACKETS: u32 = 16;
}

/// How bursts that the sender's kernel has not cut yet (GSO) cross the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gso {
    /// Cut into wire packets first: exact.
    Split,
    /// A burst is one packet: fast.
    Keep,
    /// `Keep` when no per-packet decision is configured and there is no rate, or 64 KB pass in
    /// less than 100 us.
    #[default]
    Auto,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            rate: Rate::UNLIMITED,
            framing: 14,
            overhead: 0,
            burst: None,
            peakrate: None,
            nic: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            jitter_correlation: Probability::ZERO,
            distribution: Distribution::default(),
            reorder: Reorder::default(),
            slot: None,
            loss: Loss::default(),
            loss_at: LossAt::default(),
            ecn: false,
            duplicate: Correlated::NEVER,
            corrupt: Correlated::NEVER,
            impair: Impair::default(),
            netem: NetemOptions::default(),
            queue: QueueKind::default(),
            dualpi2: Dualpi2Config::default(),
            codel: CodelConfig::default(),
            fq_codel: FqCodelConfig::default(),
            tbf: TbfConfig::default(),
            limit: None,
            derived_limit: None,
            gso: Gso::default(),
            hold_limit: Self::HOLD_LIMIT,
            fq: FqConfig::default(),
            jens: JensConfig::default(),
            trace_options: TraceOptions::default(),
            trace: None,
        }
    }
}

impl LinkConfig {
    /// Memory for held packets when the driver names no other: `256mb`.
    pub const HOLD_LIMIT: u64 = 256 << 20;

    /// What the queue holds in force: `limit` as given, a time turned into bytes, at least those of
    /// one full packet (a queue that can hold none is a dead link); else the discipline's own
    /// default, for `fifo` what the
    /// rate carries in [`Limit::DEFAULT`], at least [`Limit::DEFAULT_PACKETS`] full packets. No
    /// bound when there is neither rate nor limit, and with `impair=netem`, which has a limit of
    /// its own. With tbf a time leaves room for the burst.
    pub fn resolved_limit(&self) -> QueueLimit {
        if self.impair == Impair::Netem {
            return QueueLimit::NONE;
        }
        let bytes = |bytes| QueueLimit { bytes, ..QueueLimit::NONE };
        match self.limit {
            Some(Limit::Packets(packets)) => {
                QueueLimit { packets: u64::from(packets), ..QueueLimit::NONE }
            }
            Some(Limit::Bytes(limit)) => bytes(limit),
            Some(Limit::Time(time)) => self
                .carried(time)
                .map_or(QueueLimit::NONE, |carried| bytes(carried.max(self.full_packet()))),
            None if let Some(packets) = self.queue.default_limit() => {
                QueueLimit { packets: packets.into(), ..QueueLimit::NONE }
            }
            None => self
                .derived_limit
                .or_else(|| self.derive_limit())
                .map_or(QueueLimit::NONE, |derived| bytes(derived.bytes)),
        }
    }

    /// This configuration with `limit` as what is in force, in packets or bytes, so that a later
    /// change of rate does not derive it anew. Stays `None` while there is no rate to queue for.
    #[must_use]
    pub fn with_limit_resolved(&self) -> Self {
        let limit = match (self.limit, self.resolved_limit()) {
            (Some(Limit::Packets(packets)), _) => Some(Limit::Packets(packets)),
            (None, _) if let Some(packets) = self.queue.default_limit() => {
                Some(Limit::Packets(packets))
            }
            (_, QueueLimit::NONE) => None,
            (_, limit) => Some(Limit::Bytes(limit.bytes)),
        };
        Self { limit, ..self.clone() }
    }

    /// The queues that the discipline keeps apart, by name: dualpi2's L and C, the FIFOs of jens;
    /// none where it has one, or one for each flow.
    pub fn queues(&self) -> &'static [&'static str] {
        match self.queue {
            _ if self.impair == Impair::Netem => &[],
            QueueKind::Dualpi2 => &["L", "C"],
            QueueKind::Jens => &["fifo0", "fifo1", "fifo2"],
            _ => &[],
        }
    }

    /// Which of [`Self::queues`] takes a packet; 0 where there are none.
    pub fn queue_of(&self, packet: &Packet) -> usize {
        match self.queue {
            QueueKind::Dualpi2 => match self.dualpi2.classify.lane(packet.ecn) {
                Lane::Low => 0,
                Lane::Classic => 1,
            },
            QueueKind::Jens => self.jens.qos_mode.fifo(packet),
            _ => 0,
        }
    }

    /// The default limit of a queue without one of its own. `None` where nothing queues: no rate
    /// binds.
    fn derive_limit(&self) -> Option<DerivedLimit> {
        let rate = self.limiting_rate();
        if rate == Rate::UNLIMITED {
            return None;
        }
        let least = u64::from(Limit::DEFAULT_PACKETS) * self.full_packet();
        let bytes = self.carried(Limit::DEFAULT).unwrap_or(0).max(least);
        Some(DerivedLimit { bytes, provisional: rate == Rate::PAUSE })
    }

    /// A packet of 1500 bytes as the rate counts it.
    pub(crate) fn full_packet(&self) -> u64 {
        let bytes = 1_500 + self.added_bytes();
        u64::try_from(bytes).unwrap_or(0).max(1)
    }

    /// Bytes that the rate carries in `time`, rounded down but at least one. `None` when the rate
    /// is pause or unlimited.
    fn carried(&self, time: Duration) -> Option<u64> {
        let rate = self.limiting_rate();
        if self.queue == QueueKind::Tbf {
            return self.tbf.limit_of(&Self { rate, ..self.clone() }, time);
        }
        let bits = u128::from(rate.finite_bps()?) * u128::from(time.as_nanos());
        let bytes = bits / (8 * 1_000_000_000);
        Some(u64::try_from(bytes).unwrap_or(u64::MAX).max(1))
    }
}

/// A configuration that cannot be: which parameter, what it said, what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ConfigError {
    /// The parameter's dotted name, or the word that is none.
    pub place: String,
    /// What is wrong and what was expected, with the nearest known word where there is one.
    pub problem: String,
}

impl ConfigError {
    /// An error at parameter `place`. Long words, which can only be the user's, are cut.
    pub fn new(place: impl Into<String>, problem: impl Into<String>) -> Self {
        let [place, problem] = [place.into(), problem.into()].map(|text| brief(&text));
        Self { place, problem }
    }
}
