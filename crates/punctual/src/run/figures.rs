//! A direction's figures in the statistics block, whoever serves it.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use punctual_linux::control::{Figures, StatsWriter};
use punctual_sched::{Instant, Snapshot};

/// One lane's way to the figures of its direction.
#[derive(Debug)]
pub(super) struct LaneFigures(Way);

#[derive(Debug)]
enum Way {
    Alone(StatsWriter),
    Together { index: usize, shared: Arc<Mutex<Together>> },
}

/// The figures of several lanes, and the one place where their sum goes.
#[derive(Debug)]
struct Together {
    writer: StatsWriter,
    lanes: Vec<Own>,
}

/// What a lane said last.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    at: Instant,
    snapshot: Snapshot,
    lateness: [u64; 5],
    changes: u64,
    changed_at: Instant,
    ignored: u64,
}

impl LaneFigures {
    /// Ways for `lanes` lanes that share a writer.
    pub(super) fn new(writer: StatsWriter, lanes: u8) -> Vec<Self> {
        if lanes <= 1 {
            return vec![Self(Way::Alone(writer))];
        }
        let lanes = usize::from(lanes);
        let together = Together { writer, lanes: vec![Own::default(); lanes] };
        let shared = Arc::new(Mutex::new(together));
        let way = |index| Self(Way::Together { index, shared: Arc::clone(&shared) });
        (0..lanes).map(way).collect()
    }

    /// Shows what a lane has after a turn, together with what the others said last. Never waits:
    /// while another lane is writing, this one's figures wait for its next turn, at most a second.
    pub(super) fn write(&mut self, figures: &Figures<'_>) {
        match &mut self.0 {
            Way::Alone(writer) => writer.write(figures),
            Way::Together { index, shared } => {
                let mut together = match shared.try_lock() {
                    Ok(together) => together,
                    // Whatever was left half done is written anew now.
                    Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
                    Err(TryLockError::WouldBlock) => return,
                };
                together.write(*index, figures);
            }
        }
    }
}

impl Together {
    fn write(&mut self, index: usize, figures: &Figures<'_>) {
        let Figures { at, config, snapshot, lateness, changes, changed_at, ignored } = *figures;
        let own = Own { at, snapshot: *snapshot, lateness, changes, changed_at, ignored };
        self.lanes[index] = own;
        let sum = self.sum();
        self.writer.write(&Figures {
            at: sum.at,
            config,
            snapshot: &sum.snapshot,
            lateness: sum.lateness,
            changes: sum.changes,
            changed_at: sum.changed_at,
            ignored: sum.ignored,
        });
    }

    fn sum(&self) -> Own {
        let mut lanes = self.lanes.iter();
        let first = lanes.next().copied().unwrap_or_default();
        lanes.fold(first, |mut sum, lane| {
            sum.at = sum.at.max(lane.at);
            sum.snapshot.add(&lane.snapshot);
            sum.lateness.iter_mut().zip(lane.lateness).for_each(|(sum, more)| *sum += more);
            // All lanes make the same changes.
            sum.changes = sum.changes.max(lane.changes);
            sum.changed_at = sum.changed_at.max(lane.changed_at);
            sum.ignored += lane.ignored;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use punctual_linux::control::layout::STATS;
    use punctual_linux::control::{Side, StatsBlock};
    use punctual_sched::LinkConfig;

    use super::*;

    #[test]
    fn lanes_show_their_sum() {
        let block = StatsBlock::create().unwrap();
        let mut lanes = LaneFigures::new(block.writer(Side::Up), 2);
        let config = LinkConfig::default();
        let write = |lane: &mut LaneFigures, at, packets, changes| {
            let snapshot = Snapshot { packets_in: packets, ..Snapshot::default() };
            lane.write(&Figures {
                at: Instant::from_nanos(at),
                config: &config,
                snapshot: &snapshot,
                lateness: [0, packets, 0, 0, 0],
                changes,
                changed_at: Instant::from_nanos(changes),
                ignored: 1,
            });
        };
        write(&mut lanes[0], 50, 10, 2);
        write(&mut lanes[1], 40, 7, 1);
        write(&mut lanes[0], 60, 11, 2);
        let word = |name| STATS.iter().position(|field| field.name == name).unwrap() - 1;
        let values = block.read(Side::Up).unwrap();
        let read = |name| values[word(name)];
        assert_eq!((read("at_ns"), read("packets_in"), read("changes")), (60, 18, 2));
        assert_eq!((read("ignored"), lanes.len()), (2, 2));
    }
}
