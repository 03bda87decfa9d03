//! What the machine grants a thread that wants to be on time.

use std::fs::{self, File, OpenOptions};
use std::io::Write;

use super::watchdog::{PolicyChange, Precision};
use crate::sys::schedule;
use crate::wait;

/// Scheduling policy got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_FIFO` at this priority.
    Fifo(u32),
    /// Ordinary, with this slice in nanoseconds (EEVDF, Linux 6.12).
    Slice(u64),
    /// Ordinary.
    Ordinary,
}

/// What was granted to a thread; given back on drop.
#[derive(Debug)]
pub struct Means {
    /// Scheduling policy.
    pub policy: Policy,
    /// Timer slack set to 1 ns.
    pub tight_timers: bool,
    /// Processors kept from idling through `/dev/cpu_dma_latency`, for as long as this lives.
    idle_hold: Option<File>,
    /// Processors that this process may use.
    pub processors: usize,
}

impl Means {
    /// Takes the best means that `precision` asks for and the machine grants to the calling
    /// thread. Nothing here can fail: what is not granted is told by the fields.
    pub fn take(precision: Precision) -> Self {
        let policy = match precision {
            Precision::Eco => Policy::Ordinary,
            // Polling at a real-time policy would have the kernel stop us for 50 ms in each
            // second: without the idle hold, strict polls at the ordinary one.
            Precision::Strict if !may_hold_idle() => short_slice(),
            Precision::Balanced | Precision::Strict => fifo().unwrap_or_else(short_slice),
        };
        let idle_hold = if precision == Precision::Strict { hold_idle() } else { None };
        Self {
            policy,
            tight_timers: wait::tighten_timers().is_ok(),
            idle_hold,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// Whether the processors are kept from idling.
    pub fn idle_held(&self) -> bool {
        self.idle_hold.is_some()
    }

    /// Whether the thread was granted a real-time policy.
    pub fn realtime(&self) -> bool {
        matches!(self.policy, Policy::Fifo(_))
    }

    /// Changes the calling thread's policy for a while; only for a thread that was granted a
    /// real-time one, which may always go back and forth.
    pub(super) fn change(change: PolicyChange) {
        let changed = match change {
            PolicyChange::Promote => schedule::set_fifo(PRIORITY),
            PolicyChange::Demote => schedule::set_ordinary(SLICE),
        };
        debug_assert!(changed.is_ok(), "granted before: {changed:?}");
    }
}

fn fifo() -> Option<Policy> {
    schedule::set_fifo(PRIORITY).ok().map(|()| Policy::Fifo(PRIORITY))
}

fn short_slice() -> Policy {
    match schedule::set_ordinary(SLICE) {
        Ok(()) if has_slices() => Policy::Slice(SLICE),
        _ => Policy::Ordinary,
    }
}

/// Slices are honoured from Linux 6.12 on; before, the call succeeds and does nothing.
fn has_slices() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (6, 12)
}

fn may_hold_idle() -> bool {
    OpenOptions::new().write(true).open(IDLE_DEVICE).is_ok()
}

/// The request lasts as long as the file is open (Documentation/power/pm_qos_interface).
fn hold_idle() -> Option<File> {
    let mut file = OpenOptions::new().write(true).open(IDLE_DEVICE).ok()?;
    file.write_all(&0_i32.to_ne_bytes()).ok()?;
    Some(file)
}

const IDLE_DEVICE: &str = "/dev/cpu_dma_latency";
/// Above most real-time tasks of a desktop, below the kernel's interrupt threads at 50 and more.
const PRIORITY: u32 = 49;
/// The shortest slice that EEVDF accepts: 0.1 ms.
const SLICE: u64 = 100_000;
