//! What `jens` is told.

use crate::classify::Classified;
use crate::config::{ConfigError, Limit, LinkConfig};
use crate::packet::{Ecn, Packet};
use crate::time::Duration;
use crate::units::Rate;

/// The parameters of `jens` beside the link's `rate` and `limit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JensConfig {
    /// `jens.markfree`: up to this queue delay nothing is marked. Default 4 ms, at most
    /// [`JensConfig::MAX_MARK`].
    pub mark_free: Duration,
    /// `jens.markfull`: from this queue delay on everything is marked; between the two the
    /// probability rises linearly. At or below `mark_free` it is a step at `mark_full`. Default
    /// 14 ms, at most [`JensConfig::MAX_MARK`].
    pub mark_full: Duration,
    /// `jens.extralatency`: how long after its arrival a packet becomes visible to the queue,
    /// frozen when it arrives. Default none, at most [`JensConfig::MAX_LATENCY`].
    pub extra_latency: Duration,
    /// `jens.qosmode`: how a packet's FIFO is chosen.
    pub qos_mode: QosMode,
    /// `jens.users`: 1 to [`JensConfig::MAX_USERS`] users, each with its own FIFOs, gate and marks.
    /// Default 1.
    pub users: u32,
    /// `jens.user`: what a user's number is read from.
    pub user_by: UserBy,
    /// `jens.vq`: the real rate is this many times `rate`, which the queue delay that decides
    /// marks goes by. 1 (default, no virtual queue) to [`JensConfig::MAX_FACTOR`].
    pub virtual_factor: u32,
    /// `jens.agebase`: what packets are too old against.
    pub age_base: AgeBase,
    /// `jens.handover=AT,DURATION,...`: planned times without service, in order of their start.
    pub handovers: Vec<Handover>,
    /// `jens.handover=DURATION`: a time without service from now on: from the start of the link,
    /// or in a live change from its instant, as often as a
    /// configuration that names it is applied: see [`JensConfig::settled`].
    pub handover_now: Option<Duration>,
    /// `jens.subbufs`: how many sub-buffers of 256 records each user's
    /// [`Recorder`](super::Recorder) keeps; 0 (default) records nothing, else
    /// [`JensConfig::MIN_SUB_BUFFERS`] to [`JensConfig::MAX_SUB_BUFFERS`].
    pub sub_buffers: u32,
}

/// How a packet's FIFO is chosen. FIFO 0 is served before 1, and 1 before 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QosMode {
    /// `0` (default): by the type of service (RFC 1349): FIFO 1; one lower with the bit for low
    /// delay, one higher with the bit for throughput.
    #[default]
    TypeOfService,
    /// `1`: all packets share FIFO 1.
    None,
    /// `2`: FIFO 0 for ECT(1) and CE (L4S, RFC 9331), FIFO 1 for the rest.
    Ecn,
}

impl QosMode {
    /// The FIFO that takes a packet, 0 to 2.
    pub fn fifo(self, packet: &Packet) -> usize {
        match self {
            Self::TypeOfService => {
                let bit = |bit| usize::from(packet.dscp & bit != 0);
                1 - bit(LOW_DELAY) + bit(THROUGHPUT)
            }
            Self::None => 1,
            Self::Ecn => usize::from(!matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce)),
        }
    }
}

/// What a packet's user number is read from. The value modulo the number of users is the number,
/// except that a mark that is none of the users' means user 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserBy {
    /// `mark` (default): the firewall mark.
    #[default]
    Mark,
    /// `source`: the source address as a number.
    Source,
    /// `destination`: the destination address as a number.
    Destination,
    /// `sport`: the source port.
    SourcePort,
    /// `dport`: the destination port.
    DestinationPort,
    /// `dscp`: the differentiated services code point.
    Dscp,
}

/// What a packet's arrival is compared with to tell its age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgeBase {
    /// `now` (default): the time of the check.
    #[default]
    Now,
    /// `virtual`: the end of the virtual queue where that is later, as the `pvqd` modules do.
    Virtual,
}

/// A time without service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handover {
    /// When it begins, counted from the start of the link.
    pub at: Duration,
    /// How long nothing is served: 1 us to [`JensConfig::MAX_HANDOVER`].
    pub duration: Duration,
}

impl Default for JensConfig {
    fn default() -> Self {
        Self {
            mark_free: Duration::from_millis(4),
            mark_full: Duration::from_millis(14),
            extra_latency: Duration::ZERO,
            qos_mode: QosMode::default(),
            users: 1,
            user_by: UserBy::default(),
            virtual_factor: 1,
            age_base: AgeBase::default(),
            handovers: Vec::new(),
            handover_now: None,
            sub_buffers: 0,
        }
    }
}

impl JensConfig {
    /// `limit` when nobody gives one: packets over all users and FIFOs.
    pub const DEFAULT_LIMIT: u32 = 10_240;
    /// 2^32 - 2 us: microseconds in 32 bits, of which `tc` takes the greatest for "not given".
    pub const MAX_MARK: Duration = Duration::from_micros(4_294_967_294);
    /// The greatest extra latency.
    pub const MAX_LATENCY: Duration = Duration::from_secs(2);
    /// The greatest number of users.
    pub const MAX_USERS: u32 = 256;
    /// The greatest factor of the virtual queue.
    pub const MAX_FACTOR: u32 = 100;
    /// 2^32 - 1 us: microseconds in 32 bits.
    pub const MAX_HANDOVER: Duration = Duration::from_micros(4_294_967_295);
    /// The smallest ring.
    pub const MIN_SUB_BUFFERS: u32 = 4;
    /// The greatest ring: 16 GiB of records.
    pub const MAX_SUB_BUFFERS: u32 = 0xf_ffff;
    /// The longest plan of handovers, in entries.
    pub const MAX_HANDOVERS: usize = 10_000;

    /// Refuses values out of range, and parameters of the `link` that jens cannot follow.
    pub fn validate(&self, link: &LinkConfig) -> Result<(), ConfigError> {
        check_link(link)?;
        self.check_ranges()
    }

    /// The same once it has been applied: a handover that began then is over for a later change.
    #[must_use]
    pub fn settled(&self) -> Self {
        Self { handover_now: None, ..self.clone() }
    }

    fn check_ranges(&self) -> Result<(), ConfigError> {
        at_most("jens.markfree", self.mark_free, Self::MAX_MARK)?;
        at_most("jens.markfull", self.mark_full, Self::MAX_MARK)?;
        at_most("jens.extralatency", self.extra_latency, Self::MAX_LATENCY)?;
        within("jens.users", self.users, 1, Self::MAX_USERS)?;
        within("jens.vq", self.virtual_factor, 1, Self::MAX_FACTOR)?;
        if self.sub_buffers != 0 {
            let (min, max) = (Self::MIN_SUB_BUFFERS, Self::MAX_SUB_BUFFERS);
            within("jens.subbufs", self.sub_buffers, min, max)?;
        }
        if let AgeBase::Virtual = self.age_base
            && self.virtual_factor == 1
        {
            return Err(ConfigError::new("jens.agebase", "virtual needs jens.vq above 1"));
        }
        self.check_handovers()
    }

    fn check_handovers(&self) -> Result<(), ConfigError> {
        const PLACE: &str = "jens.handover";
        if self.handovers.len() > Self::MAX_HANDOVERS {
            let problem = format!("more than {} handovers", Self::MAX_HANDOVERS);
            return Err(ConfigError::new(PLACE, problem));
        }
        let planned = self.handovers.iter().map(|handover| handover.duration);
        for duration in planned.chain(self.handover_now) {
            if duration < Duration::from_micros(1) {
                return Err(ConfigError::new(PLACE, format!("{duration} is less than 1us")));
            }
            at_most(PLACE, duration, Self::MAX_HANDOVER)?;
        }
        match self.handovers.windows(2).find(|pair| pair[1].at < pair[0].at) {
            Some(pair) => {
                let problem = format!("{} comes after {}", pair[1].at, pair[0].at);
                Err(ConfigError::new(PLACE, format!("{problem}, expected them in order")))
            }
            None => Ok(()),
        }
    }

    /// What a driver has to put into [`Packet::mark`](crate::Packet::mark) so that the packet
    /// reaches its user: `mark` itself when users go by marks, else the value that
    /// [`user_by`](Self::user_by) names, modulo the number of users. A value that the packet does
    /// not have counts as 0; of a fragment only the first part has ports.
    pub fn user(&self, classified: &Classified, mark: u32) -> u32 {
        let address = |source: bool| {
            classified.key.addresses.map_or(0, |(from, to)| match if source { from } else { to } {
                core::net::IpAddr::V4(address) => u128::from(address.to_bits()),
                core::net::IpAddr::V6(address) => address.to_bits(),
            })
        };
        let value = match self.user_by {
            UserBy::Mark => return mark,
            UserBy::Source => address(true),
            UserBy::Destination => address(false),
            UserBy::SourcePort => classified.key.source_port.into(),
            UserBy::DestinationPort => classified.key.destination_port.into(),
            UserBy::Dscp => classified.dscp.into(),
        };
        // Below the number of users, which fits 32 bits.
        u32::try_from(value % u128::from(self.users.max(1))).unwrap_or(0)
    }
}

fn check_link(link: &LinkConfig) -> Result<(), ConfigError> {
    let refuse = |name, problem: &str| Err(ConfigError::new(name, problem));
    match link.limit {
        _ if link.rate == Rate::UNLIMITED => {
            refuse("queue", "jens needs a rate to pace by, expected for example rate=20mbit")
        }
        _ if link.burst.is_some() => refuse("burst", "jens paces every packet and has none"),
        _ if link.peakrate.is_some() => refuse("peakrate", "jens paces every packet and has none"),
        None | Some(Limit::Packets(_)) => Ok(()),
        Some(limit) => {
            refuse("limit", &format!("{limit}: jens counts packets, expected for example 10240p"))
        }
    }
}

fn at_most(name: &'static str, value: Duration, max: Duration) -> Result<(), ConfigError> {
    if value > max {
        return Err(ConfigError::new(name, format!("{value} is more than {max}")));
    }
    Ok(())
}

fn within(name: &'static str, value: u32, min: u32, max: u32) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(name, format!("{value} is out of range, expected {min} to {max}")))
}

/// The bits of the type of service (RFC 1349) where the DSCP has them: 0x10 and 0x08 of the byte.
const LOW_DELAY: u8 = 0x10 >> 2;
const THROUGHPUT: u8 = 0x08 >> 2;
