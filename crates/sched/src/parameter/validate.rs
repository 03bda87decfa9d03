//! Ranges and contradictions.

use crate::config::{ConfigError, Gso, Limit, LinkConfig, QueueKind};
use crate::impair::{Correlated, Impair, Reorder};
use crate::time::Duration;
use crate::units::Rate;

impl LinkConfig {
    /// The longest `delay`: an hour. The memory for held packets ends long before.
    pub const MAX_DELAY: Duration = Duration::from_secs(3_600);

    /// Bounds of `framing` and of `overhead` to both sides, in bytes: the greatest IPv4 packet.
    pub const MAX_OVERHEAD: u32 = 65_535;

    /// Refuses values out of range and parameters with which no link can work. The error's place
    /// is the parameter to change. [`LinkConfig::parse`] and [`ConfigBuilder`] refuse more: what
    /// only a mistake in writing explains.
    ///
    /// [`ConfigBuilder`]: crate::ConfigBuilder
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.trace.is_none() && self.trace_options.file.is_none() {
            return self.check_values();
        }
        self.check_trace()?;
        self.begun().check_values()
    }

    /// The same for a link in operation, whose trace has set values of its own.
    pub(crate) fn validate_in_force(&self) -> Result<(), ConfigError> {
        self.validate()?;
        if self.trace.is_some() { self.check_values() } else { Ok(()) }
    }

    fn check_values(&self) -> Result<(), ConfigError> {
        self.check_overhead()?;
        self.check_rates()?;
        self.check_delay()?;
        self.check_limit()?;
        self.check_impairments()?;
        self.check_gso()?;
        self.check_queue()?;
        ensure(self.hold_limit > 0, "hold", || "0b holds no packet".into())
    }

    /// What makes no sense when it is written so, though a link in operation may come to it: a
    /// live change may lift the rate and leave burst and peakrate for later. Then the lower of rate
    /// and peakrate binds.
    pub(super) fn validate_as_written(&self) -> Result<(), ConfigError> {
        self.validate()?;
        self.check_trace_as_written()?;
        self.check_impairments_as_written()?;
        self.begun().check_queue_as_written()?;
        let unlimited = self.rate == Rate::UNLIMITED && !self.is_paced_by_trace();
        ensure(self.burst.is_none() || !unlimited, "burst", || "needs a rate".into())?;
        let Some(peak) = self.peakrate else { return Ok(()) };
        ensure(!unlimited, "peakrate", || "needs a rate and a burst".into())?;
        ensure(self.burst.is_some(), "peakrate", || "needs a burst".into())?;
        ensure(peak > self.rate || self.is_paced_by_trace(), "peakrate", || {
            format!("{peak} is not above the rate of {}", self.rate)
        })
    }

    fn check_overhead(&self) -> Result<(), ConfigError> {
        let max = Self::MAX_OVERHEAD;
        ensure(self.framing <= max, "framing", || {
            format!("{} is out of range, expected 0 to {max}", self.framing)
        })?;
        ensure(self.overhead.unsigned_abs() <= max, "overhead", || {
            format!("{} is out of range, expected -{max} to {max}", self.overhead)
        })
    }

    fn check_rates(&self) -> Result<(), ConfigError> {
        ensure(self.nic != Some(Rate::PAUSE), "nic", || {
            "0bit lets nothing in, expected 1bit to 1tbit or unlimited".into()
        })?;
        ensure(self.burst != Some(0), "burst", || {
            "0b is no burst, expected 1b or more, or none".into()
        })
    }

    fn check_delay(&self) -> Result<(), ConfigError> {
        let max = Self::MAX_DELAY;
        ensure(self.delay <= max, "delay", || format!("{} is more than {max}", self.delay))?;
        if self.impair == Impair::Netem {
            // Its delays may be negative, as tc's.
            return Ok(());
        }
        ensure(self.jitter <= self.delay, "jitter", || match self.delay {
            Duration::ZERO => format!("{} needs a delay of at least as much", self.jitter),
            delay => format!("{} is more than the delay of {delay}", self.jitter),
        })
    }

    fn check_limit(&self) -> Result<(), ConfigError> {
        let Some(limit) = self.limit else { return Ok(()) };
        let nothing = [Limit::Packets(0), Limit::Bytes(0), Limit::Time(Duration::ZERO)];
        ensure(!nothing.contains(&limit), "limit", || format!("{limit} holds no packet"))?;
        let derived = matches!(limit, Limit::Time(_));
        let rate = self.limiting_rate();
        ensure(!derived || rate.finite_bps().is_some(), "limit", || {
            format!("{limit} is what the rate carries in that time, but the rate is {rate}")
        })
    }

    fn check_queue(&self) -> Result<(), ConfigError> {
        match self.queue {
            QueueKind::Fifo => Ok(()),
            QueueKind::Dualpi2 => self.dualpi2.validate(self),
            QueueKind::Tbf => self.tbf.validate(self),
            QueueKind::Codel => self.codel.validate("codel", self),
            QueueKind::FqCodel => self.fq_codel.validate(self),
            QueueKind::Jens => self.jens.validate(self),
            QueueKind::Fq => self.fq.validate(self),
        }
    }

    fn check_queue_as_written(&self) -> Result<(), ConfigError> {
        match self.queue {
            QueueKind::Tbf => self.tbf.validate_as_written(self),
            _ => Ok(()),
        }
    }

    fn check_gso(&self) -> Result<(), ConfigError> {
        let (does, means) = match self {
            Self { loss, .. } if !loss.is_none() => ("lose", "loss"),
            _ if self.is_lossy_by_trace() => ("lose", "the trace"),
            Self { duplicate, .. } if *duplicate != Correlated::NEVER => ("duplicate", "duplicate"),
            Self { corrupt, .. } if *corrupt != Correlated::NEVER => ("corrupt", "corrupt"),
            Self { reorder, .. } if *reorder != Reorder::None => ("reorder", "reorder"),
            Self { queue, .. } if queue.decides_per_packet() => ("mark or drop", "the queue"),
            _ => return Ok(()),
        };
        ensure(self.gso != Gso::Keep, "gso", || {
            format!(
                "keep would {does} whole bursts where {means} means packets, \
                 expected split or auto"
            )
        })
    }
}

pub(super) fn ensure(
    holds: bool,
    name: &'static str,
    problem: impl FnOnce() -> String,
) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::new(name, problem())) }
}
