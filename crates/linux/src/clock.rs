//! The one reader of clocks.
//!
//! The driver's epoch is that of `CLOCK_MONOTONIC`. The kernel stamps packets by `CLOCK_REALTIME`;
//! [`Offset`] leads from one to the other.

use punctual_sched::Instant;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// `CLOCK_MONOTONIC` now: never set, never stepped.
pub fn monotonic() -> Instant {
    Instant::from_nanos(u64::try_from(nanos(clock_gettime(ClockId::Monotonic))).unwrap_or(0))
}

/// `CLOCK_REALTIME` now in nanoseconds since 1970; may be stepped either way at any moment.
pub fn realtime() -> i64 {
    nanos(clock_gettime(ClockId::Realtime))
}

/// Processor time that the calling thread has used, ns.
pub fn thread_cpu() -> u64 {
    u64::try_from(nanos(clock_gettime(ClockId::ThreadCPUTime))).unwrap_or(0)
}

/// Processor time that all threads of this process have used, ns.
pub fn process_cpu() -> u64 {
    u64::try_from(nanos(clock_gettime(ClockId::ProcessCPUTime))).unwrap_or(0)
}

/// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The difference in nanoseconds.
    pub nanos: i64,
    /// The true difference lies within plus or minus this many nanoseconds.
    pub uncertainty: u64,
}

impl Offset {
    /// Reads monotonic, real, monotonic up to four times and keeps the tightest pair.
    ///
    /// A preemption between the two reads would put its whole length into every stamp converted
    /// with the result.
    pub fn sample() -> Self {
        let mut best = Self::sample_once();
        for _ in 0..3 {
            // 200 ns: three reads of a vDSO clock at 50 to 70 ns each, measured on a virtual machine.
            if best.uncertainty <= 200 {
                break;
            }
            let next = Self::sample_once();
            if next.uncertainty < best.uncertainty {
                best = next;
            }
        }
        best
    }

    /// The point on the monotonic clock at which the real-time clock showed `realtime`; the epoch
    /// when that lies before it.
    pub fn to_monotonic(self, realtime: i64) -> Instant {
        let monotonic = i128::from(realtime) - i128::from(self.nanos);
        Instant::from_nanos(u64::try_from(monotonic.max(0)).unwrap_or(u64::MAX))
    }

    fn sample_once() -> Self {
        let before = nanos(clock_gettime(ClockId::Monotonic));
        let real = realtime();
        let after = nanos(clock_gettime(ClockId::Monotonic));
        let half = (after - before) / 2;
        Self { nanos: real - before - half, uncertainty: half.unsigned_abs() + 1 }
    }
}

fn nanos(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_leads_from_a_real_time_stamp_to_the_monotonic_clock() {
        let before = monotonic();
        let stamp = realtime();
        let after = monotonic();
        let offset = Offset::sample();
        let converted = offset.to_monotonic(stamp).as_nanos();
        // 1 ms of room: the real-time clock is slewed, and a step in between is not ours to catch.
        assert!(converted + 1_000_000 > before.as_nanos(), "{converted} before {before:?}");
        assert!(converted < after.as_nanos() + 1_000_000, "{converted} after {after:?}");
    }

    #[test]
    fn stamps_from_before_the_epoch_saturate() {
        let offset = Offset { nanos: 1_000, uncertainty: 0 };
        assert_eq!(offset.to_monotonic(400), Instant::ZERO);
        assert_eq!(offset.to_monotonic(1_400), Instant::from_nanos(400));
    }
}
