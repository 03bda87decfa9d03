//! What a configuration implies for those who carry it out.

use super::{ConfigError, Gso, LinkConfig, QueueKind};
use crate::classify::Classified;
use crate::impair::{Correlated, Distribution, Impair, Reorder, SlotGap};
use crate::queue::dualpi2::StepThreshold;
use crate::time::Duration;
use crate::trace::Trace;
use crate::units::Rate;

impl LinkConfig {
    /// Whether a packet's bytes may be called for when it departs: to flip a bit, or for a
    /// duplicate. The driver then keeps them.
    pub fn needs_payloads(&self) -> bool {
        self.duplicate != Correlated::NEVER || self.corrupt != Correlated::NEVER
    }

    /// Refuses a change of a running link that calls for the bytes of packets where they are not
    /// kept: whether they are is decided when the run starts.
    pub fn check_payloads(&self, kept: bool) -> Result<(), ConfigError> {
        if kept || !self.needs_payloads() {
            return Ok(());
        }
        let duplicates = self.duplicate != Correlated::NEVER;
        let place = if duplicates { "duplicate" } else { "corrupt" };
        let problem = "needs the bytes of packets, and this run does not keep them: \
                       start it with duplicate or corrupt above 0%";
        Err(ConfigError::new(place, problem))
    }

    /// Whether congestion may be marked.
    pub fn may_mark(&self) -> bool {
        let by_queue = match self.queue {
            QueueKind::Fifo | QueueKind::Tbf => false,
            QueueKind::Dualpi2 | QueueKind::Jens => true,
            QueueKind::Codel => self.codel.may_mark(),
            QueueKind::FqCodel => self.fq_codel.codel.may_mark(),
            QueueKind::Fq => self.fq.ce_threshold.is_some(),
        };
        by_queue || self.ecn
    }

    /// The time at which the discipline begins to signal congestion: a lateness in its order
    /// would be visible to senders. `None` for disciplines without one.
    pub fn aqm_threshold(&self) -> Option<Duration> {
        match self.queue {
            QueueKind::Fifo | QueueKind::Tbf => None,
            QueueKind::Fq => self.fq.ce_threshold,
            QueueKind::Codel => Some(self.codel.threshold()),
            QueueKind::FqCodel => Some(self.fq_codel.codel.threshold()),
            QueueKind::Dualpi2 => match self.dualpi2.step_thresh {
                StepThreshold::Time(step) => Some(step.min(self.dualpi2.target)),
                StepThreshold::Packets(_) => Some(self.dualpi2.target),
            },
            QueueKind::Jens => Some(self.jens.mark_free),
        }
    }

    /// How long a packet may be held beyond waiting for others: delay, of a trace the longest, the
    /// most that jitter and a slot add, the discipline's own latency and its longest time without
    /// service.
    pub fn greatest_latency(&self) -> Duration {
        let slot = self.slot.as_ref().map_or(Duration::ZERO, |slot| match &slot.gap {
            SlotGap::Uniform { max, .. } => *max,
            SlotGap::Spread { distribution, delay, jitter } => {
                *delay + greatest_spread(distribution, *jitter)
            }
        });
        let spread = greatest_spread(&self.distribution, self.jitter);
        self.greatest_delay() + spread + slot + self.queue_latency()
    }

    fn queue_latency(&self) -> Duration {
        let jens = &self.jens;
        if self.queue != QueueKind::Jens {
            return Duration::ZERO;
        }
        let planned = jens.handovers.iter().map(|handover| handover.duration);
        jens.extra_latency + planned.chain(jens.handover_now).max().unwrap_or_default()
    }

    /// Whether the discipline itself says when a packet leaves at the link's rate: then there is no
    /// serialiser behind it.
    pub fn serves_itself(&self) -> bool {
        self.impair == Impair::Netem || matches!(self.queue, QueueKind::Tbf | QueueKind::Jens)
    }

    /// What is left for the stages behind the queue: nothing with `impair=netem`, which does all of
    /// it; no bottleneck with a queue that is one, or where single deliveries are.
    #[must_use]
    pub(crate) fn behind_queue(&self) -> Self {
        match self.impair {
            Impair::Own if self.serves_itself() || self.delivers() => {
                Self { rate: Rate::UNLIMITED, burst: None, peakrate: None, ..self.clone() }
            }
            Impair::Own => self.clone(),
            Impair::Netem => {
                Self { framing: self.framing, overhead: self.overhead, ..Self::default() }
            }
        }
    }

    /// Bytes that the link adds to each wire packet before anything counts it; tbf counts its
    /// overhead itself, opportunities say what they count.
    pub(crate) fn added_bytes(&self) -> i64 {
        if let Some(Trace { per_packet: Some(bytes), .. }) = self.trace {
            return bytes.into();
        }
        let overhead = if self.queue == QueueKind::Tbf { 0 } else { self.overhead };
        i64::from(self.framing) + i64::from(overhead)
    }

    /// What a driver has to put into [`Packet::mark`](crate::Packet::mark) of a packet whose
    /// headers say `classified` and whose firewall mark, where one survives, is `mark` (else 0): so
    /// that a discipline with users finds the packet's.
    pub fn packet_mark(&self, classified: &Classified, mark: u32) -> u32 {
        if self.queue == QueueKind::Jens { self.jens.user(classified, mark) } else { mark }
    }

    /// How bursts cross in force: [`Gso::Split`] or [`Gso::Keep`].
    pub fn resolved_gso(&self) -> Gso {
        let decides_per_packet = self.tells_packets_apart()
            || self.jitter != Duration::ZERO
            || self.slot.is_some()
            || self.impair == Impair::Netem
            || self.is_paced_by_trace()
            || self.queue.decides_per_packet();
        let fast = |rate: Rate| rate.as_bps() > Self::KEEP_ABOVE_BPS;
        match self.gso {
            Gso::Auto if decides_per_packet => Gso::Split,
            Gso::Auto if fast(self.rate) && self.nic.is_none_or(fast) => Gso::Keep,
            Gso::Auto => Gso::Split,
            chosen => chosen,
        }
    }

    /// Whether packets of one burst can meet different fates behind the queue: lost, duplicated,
    /// corrupted, out of order.
    pub(crate) fn tells_packets_apart(&self) -> bool {
        !self.loss.is_none()
            || self.is_lossy_by_trace()
            || self.duplicate != Correlated::NEVER
            || self.corrupt != Correlated::NEVER
            || self.reorder != Reorder::None
    }

    /// Above this rate 64 KB pass in less than 100 us.
    const KEEP_ABOVE_BPS: u64 = 65_536 * 8 * 10_000;
}

/// The most that a spread adds to its mean: 2^15 / 8192 of it where a table says.
fn greatest_spread(distribution: &Distribution, jitter: Duration) -> Duration {
    let factor = if distribution.entries().is_some() { 4 } else { 1 };
    Duration::from_nanos(jitter.as_nanos().saturating_mul(factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_latency_is_all_that_holds_a_packet_by_itself() {
        for (link, ms) in [
            ("rate=1mbit", 0),
            ("delay=30ms jitter=10ms", 40),
            ("delay=30ms jitter=5ms distribution=pareto", 50),
            ("delay=30ms jitter=5ms impair=netem", 35),
            ("delay=1ms slot=10ms,20ms", 21),
            ("slot=normal,10ms,5ms", 30),
            ("rate=1mbit queue=jens jens.extralatency=2s delay=7ms", 2_007),
            ("rate=1mbit queue=jens jens.handover=1s,40ms,2s,30ms", 40),
        ] {
            let config = LinkConfig::parse(link, "--up").unwrap();
            assert_eq!(config.greatest_latency(), Duration::from_millis(ms), "{link}");
        }
    }
}
