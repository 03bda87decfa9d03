//! Facts about the machine that a report names.

use std::fs;

use punctual_sched::Duration;
use rustix::time::{ClockId, clock_getres};

use crate::clock::monotonic;

/// What a report says about the host.
#[derive(Clone, Debug)]
pub struct Host {
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// The kernel's clock source; `None` when `/sys` is not there.
    pub clocksource: Option<String>,
    /// Median cost of one read of `CLOCK_MONOTONIC`, ns.
    pub clock_read: u64,
    /// Ticks per second, from the resolution of `CLOCK_MONOTONIC_COARSE`.
    pub hz: Option<u64>,
    /// Memory available now, bytes (`MemAvailable`).
    pub memory_available: Option<u64>,
}

impl Host {
    /// Looks at the machine; takes about 2 ms.
    pub fn look() -> Self {
        let clocksource = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        Self {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            clocksource: fs::read_to_string(clocksource).ok().map(|text| text.trim().to_owned()),
            clock_read: clock_read_cost(),
            hz: ticks_per_second(),
            memory_available: memory_available(),
        }
    }
}

/// Time stolen by the hypervisor since boot, over all processors (`/proc/stat`, 8th figure of
/// the first line, in ticks of 1/100 s).
pub fn steal() -> Option<Duration> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let ticks: u64 = text.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    Some(Duration::from_millis(ticks.saturating_mul(10)))
}

/// Median over 21 batches of 1000 reads, per read.
fn clock_read_cost() -> u64 {
    let mut batches: Vec<u64> = (0..21)
        .map(|_| {
            let start = monotonic();
            let mut last = start;
            for _ in 0..1000 {
                last = monotonic();
            }
            last.since(start).as_nanos() / 1000
        })
        .collect();
    batches.sort_unstable();
    batches[batches.len() / 2]
}

fn ticks_per_second() -> Option<u64> {
    let resolution = clock_getres(ClockId::MonotonicCoarse);
    let nanos = u64::try_from(resolution.tv_nsec).ok().filter(|nanos| *nanos > 0)?;
    Some((1_000_000_000 + nanos / 2) / nanos)
}

fn memory_available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}
