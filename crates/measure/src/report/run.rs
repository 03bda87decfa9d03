//! What was run, for how long, with which outcome and at what cost.

use serde::{Deserialize, Serialize};

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Name by which `set`, `show` and `list` know it.
    pub name: String,
    /// Identity of this very run; also in its log.
    pub id: String,
    /// The whole command line.
    pub argv: Vec<String>,
    /// The command behind the link.
    pub command: Vec<String>,
    /// Start, in ns since 1970-01-01 UTC by the real-time clock.
    pub started_unix_ns: Option<i64>,
    /// From start to end by the monotonic clock.
    pub duration_ns: i64,
    /// Seed of every random decision.
    pub seed: u64,
    /// Exit status of the command, 128+n when a signal killed it; null while it runs.
    pub exit_status: Option<i32>,
    /// `lab` or `host`.
    pub net: String,
    /// `eco`, `balanced` or `strict`.
    pub precision: String,
    /// TCP congestion control of command and peer; null where the kernel does not say.
    #[serde(default)]
    pub congestion_control: Option<String>,
    /// `tcp_ecn` of both: 0 no ECN, 1 asks for it, 2 accepts it; null likewise.
    #[serde(default)]
    pub tcp_ecn: Option<u8>,
    /// The peer's command, where one was given.
    pub peer: Option<Peer>,
    /// The driver's threads.
    pub threads: Vec<Thread>,
    /// Processor time of the whole process, its command and peer not included.
    pub cpu_ns: Option<i64>,
    /// Time the hypervisor gave to others while our processors wanted to run, summed over them.
    pub steal_ns: Option<i64>,
    /// The log; null when none was asked for.
    pub log: Option<Log>,
}

impl Run {
    /// Processor time of the process as a share of one processor, in ppm; may exceed a million.
    pub fn cpu_ppm(&self) -> Option<u64> {
        share_ppm(self.cpu_ns?, self.duration_ns)
    }
}

/// The command at the far end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// As given, for `sh -c`.
    pub command: String,
    /// Its exit status, 128+n when a signal killed it; null when it was still running at the end.
    pub exit_status: Option<i32>,
    /// Whether it ended before the command did.
    pub ended_early: bool,
}

/// One of the driver's threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its name as `top -H` shows it.
    pub name: String,
    /// Processor time it used, polling included.
    pub cpu_ns: i64,
    /// Of that, time spent polling for a deadline with nothing to do.
    pub spin_ns: i64,
    /// Time it was ready to run and waited for a processor (`/proc/thread-self/schedstat`).
    pub run_queue_wait_ns: Option<i64>,
    /// Margin by which it woke before deadlines, learnt, at the end.
    pub margin_ns: Option<i64>,
}

impl Thread {
    /// Processor time without polling, as a share of `duration_ns`, in ppm.
    pub fn busy_ppm(&self, duration_ns: i64) -> Option<u64> {
        share_ppm(self.busy_ns(), duration_ns)
    }

    /// Processor time without polling, ns.
    pub fn busy_ns(&self) -> i64 {
        self.cpu_ns.saturating_sub(self.spin_ns)
    }

    /// Time waited for a processor, as a share of `duration_ns`, in ppm.
    pub fn wait_ppm(&self, duration_ns: i64) -> Option<u64> {
        share_ppm(self.run_queue_wait_ns?, duration_ns)
    }
}

/// The log of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// Where it was written.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Records that could not be written; the log cannot be verified beyond the first.
    pub lost_records: u64,
    /// Why writing ended early: `the disk was full`. Null when it did not: then records are lost
    /// because they came faster than they could be written.
    #[serde(default)]
    pub cause: Option<String>,
}

/// `part / whole` in ppm, rounded down; `None` without a positive whole, 0 for a negative part.
pub(crate) fn share_ppm(part: i64, whole: i64) -> Option<u64> {
    let whole = u128::try_from(whole).ok()?;
    let part = u128::try_from(part).unwrap_or(0);
    u64::try_from((part * 1_000_000).checked_div(whole)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_is_not_work() {
        let polling = Thread { cpu_ns: 1_000, spin_ns: 990, ..Thread::default() };
        assert_eq!(polling.busy_ppm(1_000), Some(10_000));
    }

    #[test]
    fn a_share_of_nothing_is_null() {
        assert_eq!((share_ppm(1, 0), share_ppm(1, -5)), (None, None));
        assert_eq!((share_ppm(-1, 10), share_ppm(15, 10)), (Some(0), Some(1_500_000)));
    }
}
