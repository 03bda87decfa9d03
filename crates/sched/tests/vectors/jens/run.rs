//! Calling jens as Linux does, changes included.

use std::collections::{BTreeMap, VecDeque};

use punctual_sched::output::Mark;
use punctual_sched::queue::jens::{Jens, JensStatistics};
use punctual_sched::queue::{Backlog, Discipline, Effects, Statistics};
use punctual_sched::{Duration, FlowKey, Instant};

use super::file::{MADE, Recording, at, row_time, timestamp};
use crate::device::{Left, Run};

/// What became of the packets, and what was told about them.
pub(crate) struct Outcome {
    pub(crate) run: Run,
    pub(crate) statistics: JensStatistics,
    /// The common lines that `tc -s qdisc show` prints for it. The module counts no drops there.
    pub(crate) shown: String,
    pub(crate) records: Vec<[u8; 64]>,
}

/// Sends the recording's packets through a jens of ours.
pub(crate) fn run(recording: &Recording, seed: u64) -> Outcome {
    let mut jens = Jens::new(&recording.config, seed, MADE).unwrap();
    let mut effects = Effects::default();
    let mut arrivals: VecDeque<_> = recording.arrivals().into();
    let mut changes: VecDeque<_> = recording.changes.iter().cloned().collect();
    let mut run = Run::default();
    loop {
        let arrival = arrivals.front().map(|queued| queued.entered);
        let change = changes.front().map(|(at, _)| *at);
        let Some(now) = [arrival, change, jens.wake()].into_iter().flatten().min() else { break };
        if change == Some(now) {
            let (_, config) = changes.pop_front().unwrap();
            jens.configure(&config, now, &mut effects);
            collect(&mut run, &mut effects);
            continue;
        }
        if arrival == Some(now) {
            jens.enqueue(arrivals.pop_front().unwrap(), &mut effects);
        }
        while let Some(served) = jens.dequeue(now, &mut effects) {
            let (id, ce) = (served.queued.packet.handle, served.mark == Mark::Ce);
            run.left.push(Left { id, at: row_time(now), ce });
        }
        collect(&mut run, &mut effects);
        assert!(jens.wake().is_none_or(|wake| wake > now), "asked again at {now:?}");
    }
    let Statistics::Jens(statistics) = jens.statistics() else { panic!("not those of jens") };
    let sizes: BTreeMap<_, _> = recording.vector.rows.iter().map(|row| (row.id, row.len)).collect();
    let bytes: u32 = run.left.iter().map(|left| sizes[&left.id]).sum();
    let Backlog { packets, bytes: backlog } = jens.backlog();
    let shown = format!(
        "Sent {bytes} bytes {} pkt (dropped 0, overlimits {} requeues 0)\n\
         backlog {backlog}b {packets}p requeues 0",
        run.left.len(),
        statistics.overlimits,
    );
    Outcome { run, statistics, shown, records: records(recording, &mut jens) }
}

fn collect(run: &mut Run, effects: &mut Effects) {
    let dropped = effects.take_drops().map(|dropped| (dropped.packet.handle, dropped.reason));
    run.dropped.extend(dropped);
}

/// Reads the recorders, flushed by a handover as in the recording.
fn records(recording: &Recording, jens: &mut Jens) -> Vec<[u8; 64]> {
    let last = recording.time_of(timestamp(recording.records.last().unwrap()));
    jens.hand_over(at(last), Duration::from_micros(1));
    let rows: BTreeMap<_, _> = recording.vector.rows.iter().map(|row| (row.id, row)).collect();
    let ends = |handle: u64| {
        let row = rows.get(&handle)?;
        Some(FlowKey {
            addresses: Some(([10, 0, 0, 1].into(), [10, 0, 0, 2].into())),
            protocol: 17,
            source_port: u16::try_from(1000 + row.flow).ok()?,
            destination_port: 7777,
        })
    };
    let mut bytes = Vec::new();
    for recorder in jens.recorders() {
        while recorder.read(&mut bytes, 0, ends) {}
        assert_eq!(recorder.overwritten(), 0);
    }
    let (records, []) = bytes.as_chunks() else { panic!("a broken record") };
    records.iter().copied().filter(|record| record[8] != 4).collect()
}

/// The time of one of our records as rows count it.
pub(crate) fn when(record: &[u8; 64]) -> u64 {
    row_time(Instant::from_nanos(timestamp(record)))
}
