//! The machine of a run: what it is, what it granted, what it lacks.

use serde::{Deserialize, Serialize};

/// The machine as found at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Kernel release, as `uname -r`.
    pub kernel: Option<String>,
    /// Processors this process may run on.
    pub cpus: Option<u32>,
    /// Current clocksource, as in `/sys/devices/system/clocksource/clocksource0`.
    pub clocksource: Option<String>,
    /// Cost of one reading of the monotonic clock, median.
    pub clock_read_ns: Option<i64>,
    /// Ticks per second of the kernel (`CONFIG_HZ`), from the resolution of the coarse clock.
    pub hz: Option<u32>,
    /// Scheduling and idle means granted.
    pub granted: Granted,
    /// What the kernel lacks or forbids, each in words with its remedy.
    pub lacks: Vec<String>,
}

/// Scheduling, idle and memory means that the machine granted; null where refused or not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// Scheduling policy of the driver's threads with its priority, as `fifo 50` or `other`.
    pub policy: Option<String>,
    /// Slice of the ordinary policy (EEVDF), where a shorter one was granted.
    pub slice_ns: Option<i64>,
    /// Timer slack of the driver's threads.
    pub timer_slack_ns: Option<i64>,
    /// Limit on idle states held through `/dev/cpu_dma_latency`.
    pub cpu_dma_latency_ns: Option<i64>,
    /// Whether memory is locked against paging.
    pub memory_locked: Option<bool>,
    /// Receive buffer of the NFQUEUE socket, as the kernel accounts it.
    pub receive_buffer_bytes: Option<u64>,
    /// What was asked for, likewise.
    #[serde(default)]
    pub receive_buffer_asked_bytes: Option<u64>,
    /// Length of the NFQUEUE.
    pub nfqueue_length_packets: Option<u64>,
    /// Memory the delay lines may hold.
    pub hold_limit_bytes: Option<u64>,
}
