//! What the AQM tells a packet's sender: decisions apart from the queues.

use super::config::{Dualpi2Config, Overload, StepThreshold};
use crate::packet::Ecn;
use crate::time::Duration;

/// A decision on one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// It goes on as it is.
    Pass,
    /// Congestion is to be marked on it.
    Mark,
    /// It is dropped.
    Drop,
}

/// One of the two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The classic queue, C.
    Classic,
    /// The low-latency queue, L.
    Low,
}

/// How the base probability acts on the two queues (RFC 9332, appendix A.1 and A.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coupling {
    factor: u8,
    overload: Overload,
}

impl Coupling {
    /// The coupling of a valid configuration.
    pub fn new(config: &Dualpi2Config) -> Self {
        Self { factor: config.coupling_factor, overload: config.overload }
    }

    /// What the base probability `p` (in 2^32 - 1) means for a packet of `lane`. `draws` are
    /// uniform in 32 bits each.
    ///
    /// Classic: p squared, both draws fall below `p`; a mark where the packet can carry one. L: one
    /// draw falls below `p` times the factor. Once that product exceeds 1 there is overload: what
    /// would be marked in the classic queue is dropped, and L packets are dropped with the classic
    /// probability (unless `overflow`) and else marked.
    pub fn signal(&self, lane: Lane, ecn: Ecn, p: u32, draws: [u32; 2]) -> Signal {
        let coupled = u32::try_from(u64::from(p) * u64::from(self.factor)).ok();
        let squared = || draws.into_iter().all(|draw| falls_below(draw, p));
        match (lane, coupled) {
            (Lane::Classic, coupled) => match coupled {
                _ if !squared() => Signal::Pass,
                Some(_) => mark_or_drop(ecn),
                None => Signal::Drop,
            },
            (Lane::Low, Some(coupled)) if falls_below(draws[0], coupled) => mark_or_drop(ecn),
            (Lane::Low, Some(_)) => Signal::Pass,
            (Lane::Low, None) if self.overload == Overload::Drop && squared() => Signal::Drop,
            (Lane::Low, None) => Signal::Mark,
        }
    }
}

impl StepThreshold {
    /// What the step says to an L packet that waited `sojourn` and leaves `behind` packets in the
    /// L queue: both are compared strictly.
    pub fn signal(self, ecn: Ecn, sojourn: Duration, behind: u64) -> Signal {
        let above = match self {
            Self::Time(threshold) => sojourn > threshold,
            Self::Packets(threshold) => behind > u64::from(threshold),
        };
        if above { mark_or_drop(ecn) } else { Signal::Pass }
    }
}

fn mark_or_drop(ecn: Ecn) -> Signal {
    if ecn.is_capable() { Signal::Mark } else { Signal::Drop }
}

/// True with probability `p` in 2^32 - 1 for a uniform `draw`.
fn falls_below(draw: u32, p: u32) -> bool {
    draw < p || p == u32::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: u32 = 1 << 31;
    const NEVER: [u32; 2] = [u32::MAX; 2];

    fn coupling(overload: Overload) -> Coupling {
        Coupling { factor: 2, overload }
    }

    #[test]
    fn a_classic_signal_needs_both_draws_and_a_low_one_the_first() {
        let drop = coupling(Overload::Drop);
        let quarter = HALF / 2;
        for (lane, ecn, draws, signal) in [
            (Lane::Classic, Ecn::NotEct, [quarter - 1, quarter - 1], Signal::Drop),
            (Lane::Classic, Ecn::Ect0, [quarter - 1, quarter - 1], Signal::Mark),
            (Lane::Classic, Ecn::NotEct, [quarter - 1, quarter], Signal::Pass),
            (Lane::Classic, Ecn::NotEct, [quarter, 0], Signal::Pass),
            (Lane::Low, Ecn::Ect1, [HALF - 1, u32::MAX], Signal::Mark),
            (Lane::Low, Ecn::Ce, [HALF - 1, u32::MAX], Signal::Mark),
            (Lane::Low, Ecn::NotEct, [HALF - 1, u32::MAX], Signal::Drop),
            (Lane::Low, Ecn::Ect1, [HALF, 0], Signal::Pass),
        ] {
            assert_eq!(
                drop.signal(lane, ecn, quarter, draws),
                signal,
                "{lane:?} {ecn:?} {draws:?}"
            );
        }
    }

    #[test]
    fn a_probability_of_zero_never_and_of_one_always_signals() {
        let drop = coupling(Overload::Drop);
        for lane in [Lane::Classic, Lane::Low] {
            assert_eq!(drop.signal(lane, Ecn::Ect1, 0, [0, 0]), Signal::Pass);
            assert_eq!(drop.signal(lane, Ecn::Ect1, u32::MAX, NEVER), Signal::Drop);
        }
    }

    #[test]
    fn overload_begins_where_the_coupled_probability_passes_one() {
        for (overload, lane, p, draws, signal) in [
            (Overload::Drop, Lane::Low, HALF - 1, NEVER, Signal::Pass),
            (Overload::Drop, Lane::Low, HALF, NEVER, Signal::Mark),
            (Overload::Drop, Lane::Low, HALF, [0, 0], Signal::Drop),
            (Overload::Overflow, Lane::Low, HALF, [0, 0], Signal::Mark),
            (Overload::Drop, Lane::Classic, HALF - 1, [0, 0], Signal::Mark),
            (Overload::Drop, Lane::Classic, HALF, [0, 0], Signal::Drop),
            (Overload::Drop, Lane::Classic, HALF, NEVER, Signal::Pass),
        ] {
            let told = coupling(overload).signal(lane, Ecn::Ect0, p, draws);
            assert_eq!(told, signal, "{overload:?} {lane:?} {p} {draws:?}");
        }
    }

    #[test]
    fn the_step_marks_strictly_above_its_threshold() {
        let time = StepThreshold::Time(Duration::from_millis(1));
        let at = |nanos| time.signal(Ecn::Ect1, Duration::from_nanos(nanos), 99);
        assert_eq!((at(1_000_000), at(1_000_001)), (Signal::Pass, Signal::Mark));
        let behind =
            |packets, ecn| StepThreshold::Packets(5).signal(ecn, Duration::from_secs(9), packets);
        assert_eq!(behind(5, Ecn::Ect1), Signal::Pass);
        assert_eq!(behind(6, Ecn::Ce), Signal::Mark);
        assert_eq!(behind(6, Ecn::NotEct), Signal::Drop);
    }
}
