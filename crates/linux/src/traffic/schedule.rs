//! When each packet of a paced flow is due, exactly.

use std::num::NonZeroU64;

use punctual_sched::{Duration, Instant};

/// How fast packets follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Packets per second.
    Packets(NonZeroU64),
    /// Bits per second of IP packets, headers counted.
    Bits(NonZeroU64),
    /// As fast as the socket takes them; it blocks when its send buffer is full.
    Unpaced,
}

/// The due times of packets 0, 1, 2, ...: `start` plus a rational interval, rounded down each time, so
/// that no error builds up.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    start: Instant,
    /// Nanoseconds for `per` packets.
    nanos: u128,
    per: u128,
}

impl Schedule {
    /// Packets of `ip_bytes` each from `start` on.
    pub fn new(pace: Pace, ip_bytes: u64, start: Instant) -> Self {
        let (nanos, per) = match pace {
            Pace::Packets(rate) => (1_000_000_000, u128::from(rate.get())),
            Pace::Bits(rate) => (u128::from(ip_bytes) * 8_000_000_000, u128::from(rate.get())),
            Pace::Unpaced => (0, 1),
        };
        Self { start, nanos, per }
    }

    /// When packet `seq` is due.
    pub fn due(&self, seq: u64) -> Instant {
        let nanos = u128::from(seq) * self.nanos / self.per;
        self.start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How many packets are due at or before `now`.
    pub fn due_by(&self, now: Instant) -> u64 {
        if now < self.start {
            return 0;
        }
        let elapsed = u128::from(now.since(self.start).as_nanos());
        // The largest seq with floor(seq * nanos / per) <= elapsed.
        let Some(last) = ((elapsed + 1) * self.per - 1).checked_div(self.nanos) else {
            return u64::MAX;
        };
        u64::try_from(last).unwrap_or(u64::MAX).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(500);

    fn packets(rate: u64) -> Schedule {
        Schedule::new(Pace::Packets(NonZeroU64::new(rate).unwrap()), 100, START)
    }

    #[test]
    fn a_third_of_a_second_never_drifts() {
        let schedule = packets(3);
        assert_eq!(schedule.due(0), START);
        assert_eq!(schedule.due(1).since(START).as_nanos(), 333_333_333);
        assert_eq!(schedule.due(3_000_000).since(START).as_nanos(), 1_000_000 * 1_000_000_000);
    }

    #[test]
    fn a_rate_in_bits_counts_ip_packets() {
        let pace = Pace::Bits(NonZeroU64::new(8_000).unwrap());
        let schedule = Schedule::new(pace, 100, START);
        assert_eq!(schedule.due(10).since(START).as_nanos(), 1_000_000_000);
    }

    #[test]
    fn the_count_due_and_the_due_time_agree_to_the_nanosecond() {
        for rate in [1, 3, 7, 999, 48_000, 1_000_003] {
            let schedule = packets(rate);
            for seq in [0, 1, 2, 3, 1_000, 999_983] {
                let due = schedule.due(seq);
                assert!(schedule.due_by(due) > seq, "rate {rate}, packet {seq}");
                let before = due - Duration::from_nanos(1);
                assert!(schedule.due_by(before) <= seq, "rate {rate}, packet {seq}");
            }
        }
    }

    #[test]
    fn an_unpaced_flow_is_always_due() {
        let schedule = Schedule::new(Pace::Unpaced, 100, START);
        assert_eq!(schedule.due(u64::MAX), START);
        assert_eq!(schedule.due_by(START), u64::MAX);
        assert_eq!(schedule.due_by(Instant::ZERO), 0);
    }
}
