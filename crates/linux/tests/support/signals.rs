//! Signals that the tests were started to ignore: under `nohup(1)`, or in the background of a script.
//! What a test starts would ignore them as well, and so would a test of them find.

use std::sync::Arc;

use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/// Handles each signal that this process was started to ignore, doing nothing: in what it executes
/// from now on, that signal has its default action again.
pub(crate) fn ignore_none() {
    let ignored = ignored(&std::fs::read_to_string("/proc/self/status").expect("it is Linux"));
    for signal in [SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2] {
        if ignored & 1 << (signal - 1) != 0 {
            signal_hook::flag::register(signal, Arc::default()).expect("it may be handled");
        }
    }
}

/// The ignored signals in what `/proc/PID/status` says: the lowest bit is signal 1.
pub(crate) fn ignored(status: &str) -> u64 {
    let (_, mask) = status.split_once("SigIgn:").expect("the kernel tells it");
    let mask = mask.split_whitespace().next().expect("it has a value");
    u64::from_str_radix(mask, 16).expect("it is a mask")
}
