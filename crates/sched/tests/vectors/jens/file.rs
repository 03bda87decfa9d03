//! Reading the recordings of jens: more columns, other headers, the module's records.

use std::path::PathBuf;

use punctual_sched::config::{Limit, LinkConfig, QueueKind};
use punctual_sched::queue::Queued;
use punctual_sched::queue::jens::QosMode;
use punctual_sched::{Duration, Instant, Rate};

use crate::file::{Row, Vector};

/// One recording, its configuration and what was changed during it.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) vector: Vector,
    /// One for each row.
    marks: Vec<u32>,
    pub(crate) config: LinkConfig,
    /// In order of time.
    pub(crate) changes: Vec<(Instant, LinkConfig)>,
    /// The module's records, padding taken out, user after user.
    pub(crate) records: Vec<[u8; 64]>,
}

impl Recording {
    pub(crate) fn read(name: &'static str) -> Self {
        let text = std::fs::read_to_string(path(name, "txt")).unwrap();
        let records = std::fs::read(path(name, "rec")).unwrap();
        let (records, []) = records.as_chunks() else { panic!("{name}: a broken record") };
        let after = text.lines().filter_map(|line| line.strip_prefix("# after: "));
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let (marks, rows): (Vec<_>, Vec<_>) = lines.map(row).unzip();
        assert!(rows.len() >= 20, "{name} has only {} rows", rows.len());
        let header = text.lines().find_map(|line| {
            line.strip_prefix("# janz ").or_else(|| line.strip_prefix("# multijens "))
        });
        let mut config = LinkConfig { queue: QueueKind::Jens, ..LinkConfig::default() };
        config.jens.sub_buffers = 1024;
        set_all(&mut config, header.unwrap());
        let vector = Vector { name, after: after.map(str::to_owned).collect(), rows };
        let mut recording =
            Self { vector, marks, config, changes: Vec::new(), records: records.to_vec() };
        recording.read_changes(&text);
        recording
    }

    /// The rows as they reach the qdisc.
    pub(crate) fn arrivals(&self) -> Vec<Queued> {
        let rows = self.vector.rows.iter().zip(&self.marks);
        rows.map(|(row, &mark)| {
            let mut queued = row.queued();
            queued.packet.mark = mark;
            queued.entered = at(row.sent + SENDING);
            queued.packet.arrival = queued.entered;
            queued
        })
        .collect()
    }

    /// Nanoseconds from the module's clock to the time of the rows.
    pub(crate) fn time_of(&self, ts: u64) -> u64 {
        let first = self.records.iter().find(|record| record[8] == 9).unwrap();
        // The first packet meets an idle line: it leaves as it becomes visible.
        let visible =
            self.vector.rows[0].sent + SENDING + self.config.jens.extra_latency.as_nanos();
        ts + visible - (timestamp(first) - 1)
    }

    fn read_changes(&mut self, text: &str) {
        let mut config = self.config.clone();
        for line in text.lines() {
            let time = if let Some(rest) = line.strip_prefix("# control at ") {
                let (time, rest) = rest.split_once(" ns: ").unwrap();
                let (bps, _) = rest.split_once(" bit/s").unwrap();
                config.rate = Rate::from_bps(bps.parse().unwrap()).unwrap();
                time.parse().unwrap()
            } else if let Some(rest) = line.strip_prefix("# change at ") {
                let (time, _) = rest.split_once(" ns ").unwrap();
                let (_, assignment) = rest.rsplit_once(' ').unwrap();
                set_all(&mut config, assignment);
                let time: u64 = time.parse().unwrap();
                self.handover_time()
                    .filter(|_| assignment.contains("handover"))
                    .unwrap_or(time + CHANGE_TAKES)
            } else {
                continue;
            };
            self.changes.push((at(time), config.clone()));
            config.jens.handover_now = None;
        }
    }

    /// When the first handover began, as its record says.
    fn handover_time(&self) -> Option<u64> {
        let found = self.records.iter().find(|record| record[8] == 6 && record[9] & 1 == 1)?;
        Some(self.time_of(timestamp(found)))
    }
}

/// A row's time as event time: the epoch is early enough for ages to be told from the start.
pub(crate) fn at(nanos: u64) -> Instant {
    Instant::from_nanos(EPOCH + nanos)
}

/// The time that rows would call this.
pub(crate) fn row_time(at: Instant) -> u64 {
    at.as_nanos() - EPOCH
}

/// When the qdisc was made: 10 ms before time 0, and 14 us of starting to send. The records of age
/// checks tell it to 0.3 us, the same in all recordings.
pub(crate) const MADE: Instant = Instant::from_nanos(EPOCH - 10_014_000);

pub(crate) fn timestamp(record: &[u8; 64]) -> u64 {
    u64::from_le_bytes(record[..8].try_into().unwrap())
}

fn path(name: &str, extension: &str) -> PathBuf {
    let file = format!("{name}.{extension}");
    [env!("CARGO_MANIFEST_DIR"), "tests/vectors/data/jens", &file].iter().collect()
}

/// A row without its mark, which is the seventh column.
fn row(line: &str) -> (u32, Row) {
    let mut fields: Vec<&str> = line.split_whitespace().collect();
    let mark = fields.remove(6).parse().unwrap();
    (mark, Row::read(&fields.join(" ")))
}

fn set_all(config: &mut LinkConfig, text: &str) {
    let words = text.split_whitespace().take_while(|word| !word.starts_with('('));
    for (name, value) in words.map(|word| word.split_once('=').unwrap()) {
        let value: u64 = value.parse().unwrap();
        let small = u32::try_from(value).unwrap();
        match name {
            "rate" => config.rate = Rate::from_bps(value * 8).unwrap(),
            "limit" => config.limit = Some(Limit::Packets(small)),
            "handover" => config.jens.handover_now = Some(Duration::from_micros(value)),
            "markfree" => config.jens.mark_free = Duration::from_micros(value),
            "markfull" => config.jens.mark_full = Duration::from_micros(value),
            "extralatency" => config.jens.extra_latency = Duration::from_micros(value),
            "qosmode" => config.jens.qos_mode = QOS_MODES[small as usize],
            "uenum" => config.jens.users = small,
            _ => panic!("unknown word {name}"),
        }
    }
}

const QOS_MODES: [QosMode; 3] = [QosMode::TypeOfService, QosMode::None, QosMode::Ecn];
/// From `t_sent_ns` to the stamp of a packet that nothing delays.
const SENDING: u64 = 256;
const EPOCH: u64 = 1_000_000_000;
/// A change takes effect this long after it was asked for: as the handovers' records tell.
const CHANGE_TAKES: u64 = 170_496;
