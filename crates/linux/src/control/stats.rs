//! The statistics block: what a link does, for whoever wants to look.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_sched::impair::Loss;
use punctual_sched::queue::QueueLimit;
use punctual_sched::{DropReason, Instant, LinkConfig, Probability, Rate, Snapshot};

use super::Side;
use super::layout::{DROP_WORDS, STATS, STATS_MAGIC, STATS_SIDES};
use super::sealed::{Sealed, Writers};
use super::seqlock::Seqlock;
use crate::sys::memory::Use;

/// The statistics block of a run; of this process, or of another and then to be read only.
#[derive(Clone, Debug)]
pub struct StatsBlock {
    memory: Arc<Sealed>,
}

/// Writes one direction's part; the only one who does.
#[derive(Debug)]
pub struct StatsWriter {
    block: StatsBlock,
    side: Side,
    turns: u64,
}

/// What is written.
#[derive(Clone, Copy, Debug)]
pub struct Figures<'a> {
    /// The event time.
    pub at: Instant,
    /// What is in force.
    pub config: &'a LinkConfig,
    /// Counters.
    pub snapshot: &'a Snapshot,
    /// Departures by lateness: early, below 50 us, 1 ms and 4 ms, and from there on.
    pub lateness: [u64; 5],
    /// Changes so far.
    pub changes: u64,
    /// When the last one was.
    pub changed_at: Instant,
    /// What was ignored of the control block.
    pub ignored: u64,
}

impl StatsBlock {
    /// A block that nobody else can write to.
    pub fn create() -> io::Result<Self> {
        let memory = Sealed::create("punctual-stats", STATS_MAGIC, Writers::Maker)?;
        Ok(Self { memory: Arc::new(memory) })
    }

    /// The block of another process, by the path `stats` in the run's directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { memory: Arc::new(Sealed::open(path, STATS_MAGIC, Use::Read)?) })
    }

    /// Where other processes of the same user open it while this one lives.
    pub fn path(&self) -> PathBuf {
        self.memory.path()
    }

    /// The end that writes; one for each side.
    pub fn writer(&self, side: Side) -> StatsWriter {
        StatsWriter { block: self.clone(), side, turns: 0 }
    }

    /// All words of one direction as of one moment, named as in [`STATS`], without the generation;
    /// `None` while they are being written. The last one is the first of `dropped`.
    pub fn read(&self, side: Side) -> Option<[u64; STATS.len() - 1]> {
        self.lock(side).read().map(|(_, values)| values)
    }

    fn lock(&self, side: Side) -> Seqlock<'_> {
        let first = STATS_SIDES[side.index()] / 8;
        let words = &self.memory.words()[first..first + STATS.len() - 1 + DROP_WORDS];
        Seqlock::new(&words[0], &words[1..])
    }
}

impl StatsWriter {
    /// Writes what is known after a turn.
    pub fn write(&mut self, figures: &Figures<'_>) {
        self.turns += 1;
        // Nobody else has it mapped for writing; if somebody got it all the same, the figures of
        // this turn are the price.
        let Ok(writing) = self.block.lock(self.side).begin() else { return };
        for (word, value) in words(figures, self.turns).into_iter().enumerate() {
            writing.store(word, value);
        }
        for (word, value) in figures.snapshot.dropped.iter().enumerate() {
            writing.store(FIXED + word, *value);
        }
        writing.publish();
    }
}

/// Everything but drops by reason, in the order of [`STATS`].
fn words(figures: &Figures<'_>, turns: u64) -> [u64; FIXED] {
    let Figures { at, config, snapshot, lateness, changes, changed_at, ignored } = figures;
    let QueueLimit { packets, bytes } = config.resolved_limit();
    let rate = if config.delivers() { Rate::UNLIMITED } else { config.rate };
    let loss = match config.loss {
        Loss::None => 0,
        Loss::Random { probability, correlation: Probability::ZERO } => probability.as_raw().into(),
        _ => u64::MAX,
    };
    let [early, lt_50us, lt_1ms, lt_4ms, ge_4ms] = *lateness;
    [
        at.as_nanos(),
        rate.as_bps(),
        config.delay.as_nanos(),
        config.jitter.as_nanos(),
        loss,
        packets,
        bytes,
        snapshot.packets_in,
        snapshot.duplicated,
        snapshot.packets_out,
        snapshot.queued,
        snapshot.dropped.iter().sum(),
        snapshot.marked,
        snapshot.corrupted,
        snapshot.reordered,
        snapshot.bytes_in,
        snapshot.bytes_duplicated,
        snapshot.bytes_out,
        snapshot.bytes_dropped,
        snapshot.backlog_packets,
        snapshot.backlog_bytes,
        snapshot.backlog_peak_bytes,
        snapshot.held_bytes,
        snapshot.held_peak_bytes,
        early,
        lt_50us,
        lt_1ms,
        lt_4ms,
        ge_4ms,
        *changes,
        changed_at.as_nanos(),
        *ignored,
        turns,
        0,
        0,
    ]
}

/// Words before those of `dropped`, the generation not counted.
const FIXED: usize = STATS.len() - 2;
const _: () = assert!(DropReason::ALL.len() <= DROP_WORDS);

#[cfg(test)]
mod tests {
    use punctual_sched::Duration;
    use punctual_sched::trace::{
        Course, Delivery, Opportunity, Schedule, Timeline, Trace, TraceOptions,
    };

    use super::*;

    fn figures<'a>(config: &'a LinkConfig, snapshot: &'a Snapshot) -> Figures<'a> {
        Figures {
            at: Instant::from_nanos(77),
            config,
            snapshot,
            lateness: [0, 5, 4, 3, 2],
            changes: 6,
            changed_at: Instant::from_nanos(70),
            ignored: 8,
        }
    }

    fn word(read: &[u64], name: &str) -> u64 {
        let index = STATS.iter().position(|field| field.name == name).unwrap();
        assert_eq!(STATS[index].offset, index * 8);
        read[index - 1]
    }

    #[test]
    fn defaults_that_are_in_force_are_shown_and_rates_that_are_not_are_not() {
        let block = StatsBlock::create().unwrap();
        let shown = |config: &LinkConfig| {
            block.writer(Side::Up).write(&figures(config, &Snapshot::default()));
            let read = block.read(Side::Up).unwrap();
            ["rate", "limit_packets", "limit_bytes"].map(|name| word(&read, name))
        };
        let parse = |words| LinkConfig::parse(words, "up").unwrap();
        let link = parse("rate=20mbit");
        assert_eq!(shown(&link), [20_000_000, u64::MAX, 250_000]);
        let queue = parse("rate=20mbit queue=fq_codel");
        assert_eq!(shown(&queue), [20_000_000, 10_240, u64::MAX]);
        assert_eq!(shown(&parse("delay=5ms")), [u64::MAX; 3]);
        let deliveries = Course::Deliveries {
            at: vec![Delivery { at: Duration::from_millis(1), count: 1 }],
            opportunity: Opportunity { bytes: 1_504, per_packet: 4 },
        };
        let timeline = Timeline { course: deliveries, span: Duration::from_millis(1) };
        let trace = Trace::new(Arc::new(Schedule::new(timeline).unwrap()));
        let following = link.following(Some((TraceOptions::default(), trace)));
        assert_eq!(shown(&following)[0], u64::MAX, "it is not in force");
    }

    #[test]
    fn every_figure_is_read_by_others_where_the_layout_says() {
        let block = StatsBlock::create().unwrap();
        let config = LinkConfig::parse("rate=20mbit delay=5ms loss=50% limit=9p", "up").unwrap();
        let mut snapshot =
            Snapshot { packets_in: 10, packets_out: 3, queued: 2, ..Snapshot::default() };
        snapshot.dropped[0] = 5;
        block.writer(Side::Down).write(&figures(&config, &snapshot));
        let other = StatsBlock::open(&block.path()).unwrap();
        assert_eq!(other.read(Side::Up), Some([0; STATS.len() - 1]));
        let read = other.read(Side::Down).unwrap();
        for (name, value) in [
            ("at_ns", 77),
            ("rate", 20_000_000),
            ("delay_ns", 5_000_000),
            ("loss", 1 << 31),
            ("limit_packets", 9),
            ("limit_bytes", u64::MAX),
            ("packets_in", 10),
            ("packets_out", 3),
            ("packets_queued", 2),
            ("packets_dropped", 5),
            ("late_lt_50us", 5),
            ("late_ge_4ms", 2),
            ("changes", 6),
            ("changed_at_ns", 70),
            ("ignored", 8),
            ("turns", 1),
            ("dropped", 5),
        ] {
            assert_eq!(word(&read, name), value, "{name}");
        }
    }

    #[test]
    fn nobody_else_can_write_to_it() {
        let block = StatsBlock::create().unwrap();
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).open(block.path()).unwrap();
        assert!(std::os::unix::fs::FileExt::write_at(&file, &[1], 0).is_err());
        assert!(Sealed::open(&block.path(), STATS_MAGIC, Use::Write).is_err());
    }

    #[test]
    fn a_reader_beside_the_writer_never_sees_two_turns_mixed() {
        let block = StatsBlock::create().unwrap();
        let other = StatsBlock::open(&block.path()).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        let config = LinkConfig::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut writer = block.writer(Side::Up);
                for n in 0..200_000 {
                    let snapshot =
                        Snapshot { packets_in: n, bytes_dropped: n, ..Snapshot::default() };
                    writer.write(&figures(&config, &snapshot));
                }
                done.store(true, std::sync::atomic::Ordering::Release);
            });
            let mut reads = 0_u64;
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                if let Some(read) = other.read(Side::Up) {
                    reads += 1;
                    assert_eq!(word(&read, "packets_in"), word(&read, "bytes_dropped"));
                }
            }
            assert!(reads > 0);
        });
    }
}
