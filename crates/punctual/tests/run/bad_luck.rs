//! The program is killed in the midst of traffic: nothing of it is left on the host.

use std::collections::BTreeSet;
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
        before.is_as_it_was();
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
        before.is_as_it_was();
        let again = Run::new("rate=5mbit").named(&ended.name).command(["true"]).finish();
        assert!(again.report().ok());
        assert!(!runtime_directory(&ended.name).exists());
    }
    before.is_as_it_was();
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

/// What a run could leave on the host: lines of devices, routes, queues, mounts and settings.
struct Host(BTreeSet<String>);

impl Host {
    fn look() -> Self {
        let mut lines = BTreeSet::new();
        for file in ["net/route", "net/netfilter/nfnetlink_queue", "self/mountinfo"] {
            let text = fs::read_to_string(Path::new("/proc").join(file)).unwrap_or_default();
            lines.extend(text.lines().map(|line| format!("{file}: {}", line.trim_end())));
        }
        // Destination, source, next hop and device, without counts of their use.
        let routes = fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default();
        let fields = routes.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.extend(fields.map(|route| format!("route {:?} {:?}", &route[..5], &route[9..])));
        let devices = fs::read_to_string("/proc/net/dev").unwrap_or_default();
        let names = devices.lines().filter_map(|line| line.split_once(':'));
        lines.extend(names.map(|(name, _)| format!("device {}", name.trim())));
        settings(Path::new("/proc/sys/net"), &mut lines);
        Self(lines)
    }

    fn is_as_it_was(&self) {
        let now = Self::look();
        let changed: Vec<_> = self.0.symmetric_difference(&now.0).collect();
        assert!(changed.is_empty(), "on the host, by a run or by somebody else: {changed:#?}");
    }
}

/// Every setting below `directory` that can be read.
fn settings(directory: &Path, lines: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            settings(&path, lines);
        } else if path.ends_with("nf_conntrack_count") {
            // No setting: the host's own traffic.
        } else if let Ok(value) = fs::read(&path) {
            lines.insert(format!("{} = {}", path.display(), value.escape_ascii()));
        }
    }
}
