//! The program is killed in the midst of traffic: nothing of it is left on the host.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::harness::{Run, runtime_directory};
use crate::support::Test;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        nothing_survives_the_commands_end,
        nothing_survives_twenty_kills,
        a_stale_directory_is_removed_by_the_next_start,
    ]
    .into()
}

/// Leaves its session, ignores what asks it to end, and keeps its parent's output open.
const SURVIVOR: &str = "setsid sh -c 'trap \"\" HUP INT TERM; sleep 1000 & wait; sleep 1000' &";

fn nothing_survives_the_commands_end() {
    let before = Host::look();
    for (end, status) in [("exit 5", 5), ("kill -KILL $$", 137)] {
        let run = Run::new("").options(["--peer", &format!("{SURVIVOR} exec sleep 1000")]);
        // Waits for the end of whoever has the run's output.
        run.sh(&format!("{SURVIVOR} {end}")).finish().report_after(status);
        assert_eq!(Host::look(), before);
    }
}

fn nothing_survives_twenty_kills() {
    let before = Host::look();
    for _ in 0..20 {
        let running = Run::new("rate=5mbit delay=10ms")
            .peer(&format!(
                "{SURVIVOR} \"$P\" traffic udp-receive 0.0.0.0:5001 --count 50 > \"$T/received\" \
                 && echo flowing; exec sleep 1000"
            ))
            .sh(&format!(
                "{SURVIVOR} trap '' TERM; \"$P\" traffic udp-send \"$PUNCTUAL_PEER:5001\" \
                 --packets 1000 --duration 60s; wait"
            ))
            .start();
        running.stderr.says("flowing");
        running.signal(Signal::KILL);
        // Every process of the run had its outputs: waiting for their end is waiting for all.
        let ended = running.wait();
        assert_eq!(ended.status, 137, "{}", ended.stderr);
        assert_eq!(Host::look(), before);
        let again = Run::new("rate=5mbit").named(&ended.name).command(["true"]).finish();
        assert!(again.report().ok());
        assert!(!runtime_directory(&ended.name).exists());
    }
    assert_eq!(Host::look(), before);
}

fn a_stale_directory_is_removed_by_the_next_start() {
    let run = Run::new("").sh("echo ready; exec sleep 1000");
    let directory = runtime_directory(run.name());
    let running = run.start();
    running.stdout.says("ready");
    assert!(directory.join("lock").exists(), "a running link has a directory");
    running.signal(Signal::KILL);
    running.wait();
    Run::new("").command(["true"]).finish().report();
    assert!(!directory.exists(), "the next start leaves {}", directory.display());
}

/// What a run could leave on the host.
#[derive(Debug, PartialEq, Eq)]
struct Host {
    devices: Vec<String>,
    routes: [String; 2],
    queues: String,
    mounts: String,
    sysctls: BTreeMap<String, Vec<u8>>,
}

impl Host {
    fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let names = |line: &str| Some(line.split_once(':')?.0.trim().to_owned());
        let mut sysctls = BTreeMap::new();
        read_all(Path::new("/proc/sys/net"), &mut sysctls);
        Self {
            devices: read("/proc/net/dev").lines().filter_map(names).collect(),
            routes: [read("/proc/net/route"), read("/proc/net/ipv6_route")],
            queues: read("/proc/net/netfilter/nfnetlink_queue"),
            mounts: read("/proc/self/mountinfo"),
            sysctls,
        }
    }
}

/// Every setting below `directory` that can be read.
fn read_all(directory: &Path, into: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_all(&path, into);
        } else if let Ok(value) = fs::read(&path) {
            into.insert(path.display().to_string(), value);
        }
    }
}
