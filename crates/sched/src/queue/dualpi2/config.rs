//! The parameters of `dualpi2`.

use crate::config::{ConfigError, Limit, LinkConfig};
use crate::time::Duration;
use crate::units::Gain;

/// The parameters of `dualpi2`, in tc-dualpi2(8)'s words. The defaults are those of Linux: for
/// round trips of up to 100 ms, 15 ms typical.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dualpi2Config {
    /// `dualpi2.target`: queueing delay of the classic queue to hold. 0 to 2^32 - 1 us.
    pub target: Duration,
    /// `dualpi2.tupdate`: from one update of the probability to the next. 1 us to 2^32 - 1 ns.
    pub tupdate: Duration,
    /// `dualpi2.alpha`: integral gain.
    pub alpha: Gain,
    /// `dualpi2.beta`: proportional gain.
    pub beta: Gain,
    /// `dualpi2.max_rtt`: the longest round trip to be stable for. When it is given, `target`,
    /// `tupdate`, `alpha` and `beta` follow from it, see [`Dualpi2Config::derive`].
    pub max_rtt: Option<Duration>,
    /// `dualpi2.typical_rtt`: the usual round trip; at most `max_rtt`.
    pub typical_rtt: Option<Duration>,
    /// `dualpi2.step_thresh`: above which L packets are always marked.
    pub step_thresh: StepThreshold,
    /// `dualpi2.min_qlen_step`: packets in the L queue below which an arriving packet is exempt
    /// from the step.
    pub min_qlen_step: u32,
    /// `dualpi2.coupling_factor`: marking probability of L4S traffic over the base probability.
    /// 1 to 255.
    pub coupling_factor: u8,
    /// `dualpi2.overload`: what happens once marks alone can no longer slow the L queue.
    pub overload: Overload,
    /// `dualpi2.drop`: where the controller's drops and marks are decided.
    pub drop: DropAt,
    /// `dualpi2.classic_protection`: the classic queue's share of service while both wait, in
    /// percent. 0 to 100.
    pub classic_protection: u8,
    /// `dualpi2.classify`: which ECN codepoints the L queue takes.
    pub classify: Classify,
    /// `dualpi2.memlimit`: memory of all queued packets in bytes of true size. `None` = twice a
    /// full packet for each of `limit`, at most 2^32 - 1.
    pub memlimit: Option<u32>,
}

/// When the L queue is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepThreshold {
    /// `1ms`: a packet that has waited longer than this is marked.
    Time(Duration),
    /// `5p`: a packet that leaves more than this many behind in the L queue is marked.
    Packets(u32),
}

/// What happens when the coupled marking probability has reached 1 (RFC 9332, section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overload {
    /// `drop`: both queues drop with the classic probability, whatever the ECN field says; delay
    /// is held.
    #[default]
    Drop,
    /// `overflow`: the probability stops there; nothing is dropped before `limit`.
    Overflow,
}

/// Where the controller's drops and marks are decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DropAt {
    /// When a packet leaves the queue.
    #[default]
    Dequeue,
    /// When it enters. The step is applied when it leaves all the same.
    Enqueue,
}

/// Which packets the L queue takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Classify {
    /// ECT(1) and CE (RFC 9331, section 5.1).
    #[default]
    L4sEct,
    /// Every ECN-capable packet, for DCTCP.
    AnyEct,
}

impl Default for Dualpi2Config {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(15),
            tupdate: Duration::from_millis(16),
            alpha: ALPHA,
            beta: BETA,
            max_rtt: None,
            typical_rtt: None,
            step_thresh: StepThreshold::Time(Duration::from_millis(1)),
            min_qlen_step: 0,
            coupling_factor: 2,
            overload: Overload::default(),
            drop: DropAt::default(),
            classic_protection: 10,
            classify: Classify::default(),
            memlimit: None,
        }
    }
}

impl Dualpi2Config {
    /// `limit` in packets when nobody gives one.
    pub const LIMIT: u32 = 10_000;

    /// Lets `target`, `tupdate`, `alpha` and `beta` follow from `max_rtt` and `typical_rtt` as
    /// RFC 9332, appendix A.1, has it; changes nothing when neither is given.
    ///
    /// `target` = typical, `tupdate` = the smaller of typical and a third of the maximum (at least
    /// 1 us), `alpha` = 0.1 `tupdate` / max^2, `beta` = 0.3 / max; one of the two that is missing
    /// is the other by a factor of 6, as for `tc`. Gains out of range are left as they are, and
    /// [`LinkConfig::validate`] refuses them.
    pub fn derive(&mut self) {
        let Some((maximum, typical)) = self.round_trips() else { return };
        self.target = typical;
        let third = Duration::from_nanos(maximum.as_nanos() / 3);
        self.tupdate = typical.min(third).max(TUPDATE_MIN);
        if let Some((alpha, beta)) = gains(maximum, self.tupdate) {
            (self.alpha, self.beta) = (alpha, beta);
        }
    }

    /// The longest and the typical round trip.
    fn round_trips(&self) -> Option<(Duration, Duration)> {
        let sixth = |maximum: Duration| Duration::from_nanos(maximum.as_nanos() / TYPICAL_TO_MAX);
        let six_fold =
            |typical: Duration| Duration::from_nanos(typical.as_nanos() * TYPICAL_TO_MAX);
        match (self.max_rtt, self.typical_rtt) {
            (None, None) => None,
            (Some(maximum), None) => Some((maximum, sixth(maximum).max(TUPDATE_MIN))),
            // In range: `check_round_trips` bounds a typical round trip.
            (None, Some(typical)) => Some((six_fold(typical.min(TIME_MAX)), typical)),
            (Some(maximum), Some(typical)) => Some((maximum, typical)),
        }
    }

    /// Refuses what is out of range; `limit` is the link's.
    pub(crate) fn validate(&self, link: &LinkConfig) -> Result<(), ConfigError> {
        self.check_round_trips()?;
        self.check_times()?;
        if self.coupling_factor == 0 {
            return refuse("coupling_factor", "0 does not couple, expected 1 to 255");
        }
        if self.classic_protection > 100 {
            let problem =
                format!("{}% is out of range, expected 0% to 100%", self.classic_protection);
            return refuse("classic_protection", &problem);
        }
        if self.memlimit == Some(0) {
            return refuse("memlimit", "0b holds no packet");
        }
        match link.limit {
            None | Some(Limit::Packets(_)) => Ok(()),
            Some(limit) => Err(ConfigError::new(
                "limit",
                format!("{limit}: dualpi2 counts packets, expected for example 10000p"),
            )),
        }
    }

    fn check_times(&self) -> Result<(), ConfigError> {
        if self.target > TIME_MAX {
            return refuse("target", &format!("{} is more than {TIME_MAX}", self.target));
        }
        if !(TUPDATE_MIN..=TUPDATE_MAX).contains(&self.tupdate) {
            let expected = format!("expected {TUPDATE_MIN} to {TUPDATE_MAX}");
            return refuse("tupdate", &format!("{} is out of range, {expected}", self.tupdate));
        }
        match self.step_thresh {
            StepThreshold::Time(time) if time > TIME_MAX => {
                refuse("step_thresh", &format!("{time} is more than {TIME_MAX}"))
            }
            _ => Ok(()),
        }
    }

    fn check_round_trips(&self) -> Result<(), ConfigError> {
        let Some((maximum, typical)) = self.round_trips() else { return Ok(()) };
        let name = if self.max_rtt.is_some() { "max_rtt" } else { "typical_rtt" };
        if typical > maximum {
            let problem = format!("{typical} is more than the max_rtt of {maximum}");
            return refuse("typical_rtt", &problem);
        }
        if typical < TUPDATE_MIN || maximum > TIME_MAX {
            let given = if self.max_rtt.is_some() { maximum } else { typical };
            let expected = format!("expected {TUPDATE_MIN} to {TIME_MAX}");
            return refuse(name, &format!("{given} is out of range, {expected}"));
        }
        let third = Duration::from_nanos(maximum.as_nanos() / 3);
        match gains(maximum, typical.min(third).max(TUPDATE_MIN)) {
            Some(_) => Ok(()),
            None => refuse(name, "asks for gains below 1/256, expected shorter round trips"),
        }
    }
}

/// Integral and proportional gain for round trips of up to `maximum` and an update every
/// `tupdate` (RFC 9332, appendix A.1), rounded down as by `tc`. `None` out of range.
fn gains(maximum: Duration, tupdate: Duration) -> Option<(Gain, Gain)> {
    let (maximum, tupdate) = (u128::from(maximum.as_nanos()), u128::from(tupdate.as_nanos()));
    // 0.1 and 0.3, in steps of 1/256, per second instead of per nanosecond.
    let alpha = (tupdate * 25_600_000_000).checked_div(maximum * maximum)?;
    let beta = 76_800_000_000_u128.checked_div(maximum)?;
    let gain = |raw: u128| Gain::from_raw(u32::try_from(raw).ok()?);
    Some((gain(alpha)?, gain(beta)?))
}

fn refuse(name: &str, problem: &str) -> Result<(), ConfigError> {
    Err(ConfigError::new(format!("dualpi2.{name}"), problem))
}

/// Linux' defaults, about 0.16 and 3.2 per second.
const ALPHA: Gain = gain(41);
const BETA: Gain = gain(819);

const fn gain(raw: u32) -> Gain {
    match Gain::from_raw(raw) {
        Some(gain) => gain,
        None => panic!("a constant gain is in range"),
    }
}

/// `tc`'s relation of the longest round trip to the typical one.
const TYPICAL_TO_MAX: u64 = 6;
/// Times travel as microseconds in 32 bits.
const TIME_MAX: Duration = Duration::from_micros(u32::MAX as u64);
const TUPDATE_MIN: Duration = Duration::from_micros(1);
/// Linux counts this one in nanoseconds in 32 bits.
const TUPDATE_MAX: Duration = Duration::from_nanos(u32::MAX as u64);
