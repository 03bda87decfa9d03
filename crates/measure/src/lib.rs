//! Statistics, the report's schema and its verdict; nothing here reads a clock or a socket.
//!
//! Durations are signed 64-bit nanoseconds throughout: a negative delay is a finding (a clock
//! step, stamps of two clocks), never a zero and never a huge unsigned number.
//!
//! | module | holds |
//! | --- | --- |
//! | [`percentile`] | nearest rank in integers |
//! | [`histogram`] | counts of durations, within 0.1 %, mergeable |
//! | [`coarse`] | counts of durations, within 3 %, small |
//! | [`distribution`] | the eight figures of the report, exact or from a histogram |
//! | [`lateness`] | departures against their due times: buckets, average, tolerance |
//! | [`scalable`] | a scalable sender of UDP datagrams and its receiver |
//! | [`spacing`] | gaps and rate of a train of packets as received |
//! | [`report`] | the schema `punctual.report/1` and its ten lines of text |
//! | [`units`] | figures for people |
//! | [`verdict`] | whether a run can be believed, down to where, and why not |
//! | [`witness`] | independent observations set against the driver's own account |

#![forbid(unsafe_code)]

pub mod coarse;
pub mod distribution;
pub mod histogram;
pub mod lateness;
pub mod percentile;
pub mod report;
pub mod scalable;
pub mod spacing;
pub mod units;
pub mod verdict;
pub mod witness;

pub use coarse::CoarseHistogram;
pub use distribution::Distribution;
pub use histogram::Histogram;
pub use lateness::{Lateness, LatenessRecorder};
pub use report::Report;
pub use verdict::{Verdict, judge};

/// `later_ns - earlier_ns` of two readings of one clock, in ns: negative when they are the other
/// way round, saturating at the ends of `i64` (292 years).
pub fn difference_ns(later_ns: u64, earlier_ns: u64) -> i64 {
    let magnitude = i64::try_from(later_ns.abs_diff(earlier_ns)).unwrap_or(i64::MAX);
    if later_ns < earlier_ns { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::difference_ns;

    #[test]
    fn a_difference_keeps_its_sign() {
        assert_eq!(difference_ns(7, 10), -3);
        assert_eq!(difference_ns(10, 7), 3);
        assert_eq!(difference_ns(u64::MAX, 0), i64::MAX);
        assert_eq!(difference_ns(0, u64::MAX), -i64::MAX);
    }
}
