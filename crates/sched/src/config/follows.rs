//! What following a trace means for the other parameters.

use super::{Gso, LinkConfig, QueueKind};
use crate::impair::{Impair, Loss};
use crate::time::Duration;
use crate::trace::{Trace, TraceOptions, Values};
use crate::units::Rate;

impl LinkConfig {
    /// The configuration of a link that follows another trace, asked for by these parameters, or
    /// none any more. Not checked.
    #[must_use]
    pub fn following(&self, trace: Option<(TraceOptions, Trace)>) -> Self {
        let (trace_options, trace) = match trace {
            Some((options, trace)) => (options, Some(trace)),
            None => (TraceOptions::default(), None),
        };
        Self { trace_options, trace, ..self.clone() }
    }

    /// The shortest propagation delay that it ever has, the trace's where that sets delays.
    pub fn least_delay(&self) -> Duration {
        let bounds = self.trace.as_ref().map(|trace| trace.schedule.bounds());
        bounds.and_then(|bounds| bounds.shortest).unwrap_or(self.delay)
    }

    /// The longest, which may be that before the trace's first step, or one that was set by hand.
    pub fn greatest_delay(&self) -> Duration {
        let bounds = self.trace.as_ref().map(|trace| trace.schedule.bounds());
        bounds.and_then(|bounds| bounds.longest).unwrap_or_default().max(self.delay)
    }

    /// Whether packets leave at a trace's single opportunities rather than at a rate.
    pub fn delivers(&self) -> bool {
        self.trace.as_ref().is_some_and(|trace| trace.schedule.opportunity().is_some())
    }

    /// Whether a trace decides how fast packets leave.
    pub(crate) fn is_paced_by_trace(&self) -> bool {
        self.trace.as_ref().is_some_and(|trace| trace.schedule.paces())
    }

    /// Whether a trace loses packets.
    pub(crate) fn is_lossy_by_trace(&self) -> bool {
        self.trace.as_ref().is_some_and(|trace| trace.schedule.bounds().loses())
    }

    /// The rate by which a limit in time becomes bytes: the trace's mean where it decides rates,
    /// else `rate`; `peakrate` where that is lower.
    pub(crate) fn limiting_rate(&self) -> Rate {
        let mean = self.trace.as_ref().and_then(|trace| trace.schedule.mean_rate());
        mean.unwrap_or(self.rate).min(self.peakrate.unwrap_or(Rate::UNLIMITED))
    }

    /// This configuration with the values with which its trace begins.
    #[must_use]
    pub(crate) fn begun(&self) -> Self {
        let mut begun = self.clone();
        begun.set_values(self.trace.as_ref().map_or_else(Values::default, Trace::first_values));
        begun
    }

    /// Takes over what steps set: the same as a live change of it.
    pub(crate) fn set_values(&mut self, values: Values) {
        let Values { rate, delay, loss } = values;
        self.rate = rate.unwrap_or(self.rate);
        self.delay = delay.unwrap_or(self.delay);
        self.loss = loss.map_or(self.loss, Loss::random);
    }

    /// Parameters that contradict single deliveries, with what is wrong with them.
    pub(crate) fn against_deliveries(&self) -> Option<(&'static str, &'static str)> {
        let serves = "serves at a rate of its own, but packets leave at the trace's opportunities";
        match self {
            Self { queue: QueueKind::Tbf | QueueKind::Jens, .. } => Some(("queue", serves)),
            Self { impair: Impair::Netem, .. } => Some(("impair", serves)),
            Self { burst: Some(_), .. } => Some(("burst", NO_TOKENS)),
            Self { peakrate: Some(_), .. } => Some(("peakrate", NO_TOKENS)),
            Self { nic: Some(_), .. } => Some(("nic", "is for links with a rate")),
            Self { gso: Gso::Keep, .. } => {
                Some(("gso", "keep would pass whole bursts where opportunities mean packets"))
            }
            _ => None,
        }
    }
}

const NO_TOKENS: &str = "saves up a rate, but packets leave at the trace's opportunities";
