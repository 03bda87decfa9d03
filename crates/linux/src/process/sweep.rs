//! Every process in one network namespace, from a `/proc` of the own PID namespace.

use std::collections::HashSet;
use std::fs;

use rustix::fs::Stat;

use crate::namespace::Network;
use crate::sys;

/// Sends `signal` to every process in `network`. SIGKILL also reaches those that start meanwhile;
/// of another signal they know nothing, for they may be what it is answered with.
pub(super) fn signal_all_in(network: &Network, signal: i32) {
    let mut told = HashSet::new();
    let looks = if signal == libc::SIGKILL { MOST_LOOKS } else { 1 };
    for _ in 0..looks {
        let fresh: Vec<i32> = processes_in(network).filter(|pid| told.insert(*pid)).collect();
        if fresh.is_empty() {
            return;
        }
        for pid in fresh {
            // It may have ended just now.
            let _ = sys::process::kill(pid, signal);
        }
    }
}

/// Whether a process is in `network`; one that has ended but is not reaped is in none.
pub(super) fn is_anybody_in(network: &Network) -> bool {
    processes_in(network).next().is_some()
}

fn processes_in(network: &Network) -> impl Iterator<Item = i32> {
    let identity = |stat: &Stat| (stat.st_dev, stat.st_ino);
    let wanted = rustix::fs::fstat(network).as_ref().map(identity).ok();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(move |pid| {
        let namespace = rustix::fs::stat(format!("/proc/{pid}/ns/net"));
        *pid > INIT && wanted.is_some() && namespace.as_ref().map(identity).ok() == wanted
    })
}

const INIT: i32 = 1;
/// Two find all that do not start others; what starts one for each look dies with the namespace.
const MOST_LOOKS: usize = 8;
