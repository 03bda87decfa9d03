//! Changes while traffic flows: 15 Mbit/s on a link of 20 whose rate alternates between 19 and 21,
//! by each way of changing it, against the same writer that changes nothing. How soon a store is
//! followed by the first packet at its rate, and how much a link carries whose rate changes.

mod arm;
mod course;
mod writer;

use anyhow::{Result, ensure};
use punctual_sched::Duration;

use crate::figures::{Table, median};
use crate::stage::{Load, PORT, Stage, Way, traffic};
use arm::Arm;
use course::Course;
use writer::{Kind, RATES, Writer};

/// Lateness with and without changes, in pairs.
pub(crate) fn measure(stage: &Stage, pairs: usize, seconds: u64) -> Result<()> {
    println!("\nchanges: strict, 15 of 20 Mbit/s, {seconds} s each; 19 and 21 Mbit/s in turn");
    let mut tables: Vec<(Kind, Vec<(Arm, Arm)>)> = Kind::ALL.map(|kind| (kind, Vec::new())).into();
    for pair in 0..pairs {
        for (kind, rows) in &mut tables {
            let arm = |live| steady(stage, *kind, live, seconds);
            let (control, live) = if pair % 2 == 0 {
                let control = arm(false)?;
                (control, arm(true)?)
            } else {
                let live = arm(true)?;
                (arm(false)?, live)
            };
            println!("{:>16} {}", kind.name(), control.line("control"));
            println!("{:>16} {}", "", live.line("changes"));
            rows.push((control, live));
        }
    }
    println!();
    for (kind, rows) in &tables {
        summarise(kind.name(), rows);
    }
    Ok(())
}

/// Medians over the pairs, and whether a bucket got worse by more than a tenth and 0.1 points.
fn summarise(name: &str, rows: &[(Arm, Arm)]) {
    let middle = |of: &dyn Fn(&(Arm, Arm)) -> f64| median(rows.iter().map(of).collect());
    print!("{name:>16} medians: ");
    for (bucket, name) in ["<50us", "<1ms", "<4ms", ">=4ms"].iter().enumerate() {
        let control = middle(&|row| row.0.buckets[bucket]);
        let changed = middle(&|row| row.1.buckets[bucket]);
        // Fewer is worse in the first bucket, more is in the others.
        let worse = if bucket == 0 { control - changed } else { changed - control };
        let word = if worse > control / 10.0 + 0.1 { "  WORSE" } else { "" };
        print!("{name} {control:.3} -> {changed:.3} %{word}; ");
    }
    let (control, changed) = (middle(&|row| row.0.p50_us), middle(&|row| row.1.p50_us));
    println!("p50 {control:.1} -> {changed:.1} us");
}

/// 15 of 20 Mbit/s: the writer changes the rate, or does the same without changing anything.
fn steady(stage: &Stage, kind: Kind, live: bool, seconds: u64) -> Result<Arm> {
    let load = load("--rate 15mbit", seconds);
    let way = Way::Logged { precision: "strict", both: "rate=20mbit" };
    let start = |run: &_| Writer::start(stage, run, kind, live, kind.period());
    let (outcome, asked) = stage.run_beside(&way, &load, start)?;
    stage.verify()?;
    Arm::of(&outcome, asked.len())
}

/// From a store to its event time, and to the first packet that was served at its rate alone.
pub(crate) fn first_packet(stage: &Stage, pairs: usize) -> Result<()> {
    let title =
        "first packet: 25 Mbit/s of 1400 bytes offered, a store every 20 ms, 10 s; us from store";
    let columns = ["stores", "seen p50", "seen p99", "due p50", "due p99", "left p50", "left p99"];
    let mut table = Table::begin(title, &columns);
    for _ in 0..pairs {
        let (times, course) = saturated(stage, Kind::Stores, "--rate 25mbit", "limit=20p")?;
        let seen = course.after(&times, Course::changed);
        let due = course.after(&times, Course::due_after_change);
        let left = course.after(&times, Course::left_after_change);
        let part = |list: &[f64], part: usize| list.get(list.len() * part / 100).copied();
        let mut row = vec![count(seen.len())];
        for list in [&seen, &due, &left] {
            row.extend([50, 99].map(|which| part(list, which).unwrap_or(f64::NAN)));
        }
        table.row(&row);
    }
    table.end();
    Ok(())
}

/// A link that has five times too much to carry carries the integral of its rate.
pub(crate) fn overload(stage: &Stage, pairs: usize) -> Result<()> {
    let title = "overload: 100 Mbit/s offered, 50 changes a second, 10 s";
    let columns =
        ["changes", "carried Mbit", "integral Mbit", "off by %", "windows over", "by release"];
    let mut table = Table::begin(title, &columns);
    for _ in 0..pairs {
        let (_, course) = saturated(stage, Kind::Socket, "--rate 100mbit", "limit=100p")?;
        let (carried, integral) = course.carried_and_integral();
        ensure!(integral > 0.0, "nothing was carried");
        let [by_due, by_release] = [false, true].map(|release| {
            count(course.windows_over(Duration::from_millis(10), RATES[1], release))
        });
        let off = 100.0 * (carried / integral - 1.0);
        table.row(&[
            count(course.changes()),
            carried / 1e6,
            integral / 1e6,
            off,
            by_due,
            by_release,
        ]);
    }
    table.end();
    Ok(())
}

/// When changes were asked for, and what came of them: up, for 10 s, 50 a second.
fn saturated(
    stage: &Stage,
    kind: Kind,
    offered: &str,
    limit: &str,
) -> Result<(Vec<punctual_sched::Instant>, Course)> {
    let both = format!("rate=20mbit {limit}");
    let way = Way::Logged { precision: "strict", both: &both };
    let start = |run: &_| Writer::start(stage, run, kind, true, Duration::from_millis(20));
    let (_, times) = stage.run_beside(&way, &load(offered, 10), start)?;
    stage.verify()?;
    Ok((times, Course::read(&stage.log())?))
}

fn load(offered: &str, seconds: u64) -> Load {
    Load {
        peer: format!("udp-receive 0.0.0.0:{PORT} --idle 1s --duration {}s", seconds + 10),
        command: traffic(&format!(
            "udp-send $PUNCTUAL_PEER:{PORT} {offered} --duration {seconds}s"
        )),
        until_peer_ends: true,
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of some thousands")]
fn count(number: usize) -> f64 {
    number as f64
}
