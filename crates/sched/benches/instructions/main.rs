//! Instructions per packet, in and out, of every discipline and stage, counted by valgrind's
//! callgrind and held against the committed table `expected.txt`. Counts hardly scatter, so they
//! tell a slower scheduler from a busy machine.
//!
//! `cargo bench -p punctual-sched --bench instructions` compares all of them and fails if one is
//! above its line by more than the margin; `-- WORD` those whose name contains the word;
//! `-- update` writes the table anew, for a change that is meant to cost what it costs.

use std::process::{Command, ExitCode};

use punctual_sched::{Output, Packet};

#[path = "../../tests/support/workload.rs"]
mod workload;

mod table;

use table::{MARGIN_PERCENT, Table};
use workload::{DISCIPLINES, Rig, STAGES, Traffic};

fn main() -> ExitCode {
    // Cargo hands `--bench` on.
    let words: Vec<_> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["measure", name] => measure(name),
        ["update"] => update(),
        [] => compare(""),
        [word] => compare(word),
        _ => {
            eprintln!("expected nothing, update, or a part of a workload's name");
            ExitCode::from(2)
        }
    }
}

/// A link and what arrives at it.
struct Workload {
    name: String,
    words: String,
    flows: u32,
    load: u64,
}

fn workloads() -> impl Iterator<Item = Workload> {
    let disciplines = DISCIPLINES.iter().flat_map(|discipline| {
        LOADS.iter().map(|&(load_name, flows, load)| Workload {
            name: format!("{}.{load_name}", discipline.name),
            words: discipline.link("1gbit", discipline.words),
            flows,
            load,
        })
    });
    let stages = STAGES.iter().map(|&(name, words)| Workload {
        name: format!("stage.{name}"),
        words: words.to_owned(),
        flows: 100,
        load: 100,
    });
    disciplines.chain(stages)
}

fn compare(word: &str) -> ExitCode {
    if !has_valgrind() {
        println!("left out: valgrind is not in PATH, so no instructions were counted");
        return ExitCode::SUCCESS;
    }
    let expected = Table::read();
    let chosen: Vec<_> = workloads().filter(|workload| workload.name.contains(word)).collect();
    if !expected.is_of_this_compiler() {
        println!("the table is of {}, this is another compiler: shown only", expected.compiler);
    }
    println!("{:<24} {:>8} {:>8} {:>7}", "instructions per packet", "expected", "now", "change");
    let mut worse = 0;
    for workload in &chosen {
        let now = count(&workload.name);
        let (line, is_worse) = expected.judge(&workload.name, now);
        println!("{line}");
        worse += usize::from(is_worse);
    }
    println!("{} within {MARGIN_PERCENT} % of the table, {worse} above", chosen.len() - worse);
    if worse == 0 || !expected.is_of_this_compiler() {
        return ExitCode::SUCCESS;
    }
    println!("if the change is worth it: {UPDATE}");
    ExitCode::FAILURE
}

fn update() -> ExitCode {
    if !has_valgrind() {
        eprintln!("valgrind is not in PATH");
        return ExitCode::FAILURE;
    }
    let counts = workloads().map(|workload| {
        let now = count(&workload.name);
        println!("{:<24} {now:>8}", workload.name);
        (workload.name, now)
    });
    Table::write(counts.collect());
    ExitCode::SUCCESS
}

fn has_valgrind() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Runs this program again, under callgrind, for one workload.
fn count(name: &str) -> u64 {
    let program = std::env::current_exe().expect("a program knows its own path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*measured_packets*")
        .arg(program)
        .args(["measure", name])
        .output()
        .expect("valgrind was there a moment ago");
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let collected = collected.and_then(|(_, count)| count.trim().parse::<u64>().ok());
    match collected {
        Some(count) if output.status.success() && count > 0 => count / u64::from(MEASURED),
        _ => panic!("{name} under callgrind: {}\n{said}", output.status),
    }
}

/// What runs under callgrind.
fn measure(name: &str) -> ExitCode {
    let Some(workload) = workloads().find(|workload| workload.name == name) else {
        eprintln!("no workload is named {name}");
        return ExitCode::from(2);
    };
    let rate = workload::GIGABIT;
    let traffic =
        Traffic { load: workload.load, mixed: true, ..Traffic::full(workload.flows, rate) };
    let mut rig = Rig::new(&workload.words, traffic);
    for _ in 0..WARM_UP {
        rig.step(discard);
    }
    // Made before, so that only the scheduler counts.
    let packets: Vec<_> = (0..MEASURED).map(|_| rig.traffic.next()).collect();
    measured_packets(&mut rig, &packets);
    ExitCode::SUCCESS
}

#[inline(never)]
fn measured_packets(rig: &mut Rig, packets: &[Packet]) {
    for packet in packets {
        rig.pass(*packet, discard);
    }
}

fn discard(output: &Output) {
    std::hint::black_box(output);
}

/// Name, flows, percent of the rate: one flow that never waits, many that share, too much for it.
const LOADS: [(&str, u32, u64); 3] =
    [("light", 1, 50), ("steady", 1_000, 100), ("overload", 1_000, 150)];
/// Until queues and delay lines are full.
const WARM_UP: u32 = 20_000;
const MEASURED: u32 = 10_000;
const UPDATE: &str = "cargo bench -p punctual-sched --bench instructions -- update";
