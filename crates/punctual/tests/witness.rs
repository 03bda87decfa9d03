//! The independent witness, on real packets through the lab and the driver.

#![expect(clippy::unwrap_used, reason = "these functions are tests, run by a runner of our own")]

#[path = "../../linux/tests/support/mod.rs"]
mod support;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::thread;

use punctual::witness::{ProbeLedger, compare, one_way_delay};
use punctual_linux::clock::monotonic;
use punctual_linux::driver::{Driver, Lane, Precision, Stop};
use punctual_linux::fault::Faults;
use punctual_linux::lab::links::{GATE_IN, GATE_OUT};
use punctual_linux::lab::{Lab, LabConfig};
use punctual_linux::namespace::{Network, user};
use punctual_linux::netfilter::nfqueue::{Queue, QueueConfig};
use punctual_linux::netfilter::nftables::{Family, Hook, HookConfig, HookRule, InstalledHooks};
use punctual_linux::netfilter::probe;
use punctual_linux::observe::{Witness, WitnessConfig, WitnessData, WitnessPlaces};
use punctual_linux::wait::sleep_until;
use punctual_measure::witness::{Bounds, Difference, Disagreement, Findings};
use punctual_sched::{Duration, Link, LinkConfig};

fn main() -> ExitCode {
    let tests = tests![
        the_witness_agrees_with_a_faithful_driver,
        the_witness_agrees_over_ipv6,
        the_witness_explains_every_loss_by_the_account,
        departures_shifted_by_100_us_behind_the_accounts_back_are_found,
    ];
    support::run(&tests, || {
        user::enter(&Faults::default()).map_err(|refusal| refusal.to_string())?;
        let network = Network::new().map_err(|error| error.to_string())?;
        let found = network.within(probe).map_err(|error| error.to_string())?;
        found.map(drop).map_err(|missing| missing.to_string())
    })
}

fn the_witness_agrees_with_a_faithful_driver() {
    let findings = witness("delay=5ms rate=20mbit", Family::Ip4, 0);
    assert_eq!(findings.disagreements, [], "{findings:#?}");
    assert_eq!((findings.counts.dropped, findings.counts.lost_unexplained), (0, 0));
    // Never early: the capture sees a packet after it was due.
    assert!(findings.departure_error.min_ns.unwrap() >= -1_000, "{findings:#?}");
    assert!(findings.one_way_delay.min_ns.unwrap() > 5_000_000, "{findings:#?}");
}

fn the_witness_agrees_over_ipv6() {
    if !kernel_has_ipv6() {
        println!("(no IPv6 on this kernel)");
        return;
    }
    let findings = witness("delay=5ms", Family::Ip6, 0);
    assert_eq!(findings.disagreements, [], "{findings:#?}");
}

fn the_witness_explains_every_loss_by_the_account() {
    let findings = witness("delay=2ms loss=20%", Family::Ip4, 0);
    assert_eq!(findings.disagreements, [], "{findings:#?}");
    let counts = findings.counts;
    assert!(counts.dropped > 0 && counts.lost_unexplained == 0, "{counts:?}");
    assert_eq!(counts.sent, counts.received + counts.dropped);
}

fn departures_shifted_by_100_us_behind_the_accounts_back_are_found() {
    let findings = witness("delay=5ms", Family::Ip4, 100_000);
    let departure = |disagreement: &Disagreement| match disagreement {
        Disagreement::Median { difference: Difference::Departure, p50_ns, .. } => Some(*p50_ns),
        _ => None,
    };
    let shift = findings.disagreements.iter().find_map(departure);
    assert!(shift.is_some_and(|shift| shift > 60_000), "{findings:#?}");
}

/// 200 probes a second for a second over the bare path, then over `link`, whose driver holds each
/// departure back by `shift_ns` without accounting for it.
fn witness(link: &str, family: Family, shift_ns: u64) -> Findings {
    let lab = Lab::build(&LabConfig::default()).unwrap();
    let bare = one_way_delay(&observe(&lab, family)).p50_ns.unwrap();
    let config = LinkConfig::parse(link, "up").unwrap();
    let (hooks, queue) = lab.gate().within(|| (install(), open())).unwrap();
    let start = monotonic();
    let link = Link::new(&config, 1, start).unwrap();
    let mut lane = Lane::new(queue, link, ProbeLedger::new(RUN), 1_500, start);
    lane.inject(start, Vec::new(), shift_ns);
    let stop = Stop::new().unwrap();
    let driver = Driver::new(vec![lane], Precision::Balanced, stop.clone());
    let (data, stopped) = thread::scope(|scope| {
        let driving = scope.spawn(|| driver.run().unwrap());
        let data = observe(&lab, family);
        stop.drain();
        (data, driving.join().unwrap())
    });
    drop(hooks);
    let ledger = stopped.lanes.into_iter().next().unwrap().into_account();
    let bounds = Bounds::with_bare_path(bare.unsigned_abs());
    let findings = compare(&data, &ledger, &bounds);
    println!(
        "bare path {bare} ns; arrival error {:?}, release error {:?}, path {:?} at the median",
        findings.arrival_error.p50_ns,
        findings.release_error.p50_ns,
        findings.path_beyond_account.p50_ns
    );
    findings
}

fn observe(lab: &Lab, family: Family) -> WitnessData {
    let peer = lab.addresses();
    let target: SocketAddr = match family {
        Family::Ip4 => (peer.peer4, 0).into(),
        Family::Ip6 => (peer.peer6.unwrap(), 0).into(),
    };
    let places = WitnessPlaces {
        sender: lab.inside().as_fd(),
        gate: lab.gate().as_fd(),
        receiver: lab.outside().as_fd(),
        device_before: GATE_IN,
        device_after: GATE_OUT,
    };
    let interval = Duration::from_millis(5);
    // Lost probes never come: the wait for them is this long.
    let linger = Duration::from_millis(100);
    let config = WitnessConfig { interval, linger, ..WitnessConfig::new(target, RUN) };
    let witness = Witness::start(&places, &config).unwrap();
    sleep_until(monotonic() + Duration::from_millis(1_050));
    let data = witness.stop().unwrap();
    assert!(data.sent.len() > 100, "only {} probes sent", data.sent.len());
    data
}

fn install() -> InstalledHooks {
    let rule = |family| HookRule {
        family,
        device: GATE_IN.to_owned(),
        queue: QUEUE,
        stamp_arrival: true,
        bypass: false,
    };
    let rules = vec![rule(Family::Ip4), rule(Family::Ip6)];
    let table = "punctual-witness".to_owned();
    InstalledHooks::install(&HookConfig { table, hook: Hook::Forward, priority: 0, rules }).unwrap()
}

fn open() -> Queue {
    let config = QueueConfig {
        number: QUEUE,
        copy_range: 128,
        max_len: 10_000,
        receive_buffer: 4 << 20,
        gso: false,
        fail_open: false,
    };
    Queue::open(&config).unwrap()
}

fn kernel_has_ipv6() -> bool {
    std::path::Path::new("/proc/net/if_inet6").exists()
}

const RUN: u64 = 0x7769_746e;
const QUEUE: u16 = 7;
