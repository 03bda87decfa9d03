//! The control block: what other programs ask of a link.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_sched::{Duration, Rate};

use super::Side;
use super::layout::{CONTROL, CONTROL_MAGIC, CONTROL_SIDES};
use super::sealed::{Sealed, Writers};
use super::seqlock::{Seqlock, Writing};
use super::watch::Watch;
use crate::clock::monotonic;
use crate::sys::memory::Use;
use crate::wait::sleep_until;

/// The control block of a run; of this process or of another.
#[derive(Clone, Debug)]
pub struct ControlBlock {
    memory: Arc<Sealed>,
}

/// What a set can name. The numbers are those of the words, and of the bits of the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum SetValue {
    /// `rate` in bit/s; 0 pauses, 2^64-1 is unlimited.
    Rate = 0,
    /// `delay` in ns.
    Delay = 1,
    /// `jitter` in ns.
    Jitter = 2,
    /// Random `loss`: the share times 2^32-1.
    Loss = 3,
    /// `limit` in packets.
    LimitPackets = 4,
    /// `limit` in bytes.
    LimitBytes = 5,
}

/// A set could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// Somebody else was always writing.
    #[error("other programs are writing sets all the time")]
    Busy,
    /// This thread was taken for dead in the midst of writing.
    #[error("the set took longer than 1 s to be written, and another program took over")]
    TakenOver,
}

impl ControlBlock {
    /// A block whose rates are those of up and down.
    pub fn create(rates: [Rate; 2]) -> io::Result<Self> {
        let memory = Sealed::create("punctual-control", CONTROL_MAGIC, Writers::All)?;
        let block = Self { memory: Arc::new(memory) };
        for (side, rate) in Side::BOTH.into_iter().zip(rates) {
            block.store_rate(side, rate.as_bps());
        }
        Ok(block)
    }

    /// The block of another process, by the path `control` in the run's directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let memory = Sealed::open(path, CONTROL_MAGIC, Use::Write)?;
        Ok(Self { memory: Arc::new(memory) })
    }

    /// Where other processes of the same user open it while this one lives.
    pub fn path(&self) -> PathBuf {
        self.memory.path()
    }

    /// Whoever made the block.
    pub fn pid(&self) -> u64 {
        self.memory.load(3)
    }

    /// The end that a lane holds.
    pub fn watch(&self, side: Side) -> Watch {
        Watch::new(self.clone(), side)
    }

    /// The rate in force, or one that the link has not seen yet.
    pub fn rate(&self, side: Side) -> u64 {
        u64::from_le(self.rate_word(side).load(Ordering::Relaxed))
    }

    /// Asks for a rate in bit/s: 0 pauses, 2^64-1 is unlimited.
    pub fn store_rate(&self, side: Side, bps: u64) {
        self.rate_word(side).store(bps.to_le(), Ordering::Relaxed);
    }

    /// Stores to the word that nobody reads: the control arm of a measurement.
    pub fn store_spare(&self, side: Side, value: u64) {
        self.word(side, SPARE).store(value.to_le(), Ordering::Relaxed);
    }

    /// Asks for several values at once: one event time, all of them or none.
    ///
    /// Waits for a writer who is in the midst of it, and takes over when that one has not moved for
    /// a second.
    pub fn set(&self, side: Side, values: &[(SetValue, u64)]) -> Result<(), SetError> {
        let writing = self.begin(side)?;
        let mask = values.iter().fold(0, |mask, (value, _)| mask | value.bit());
        writing.store(0, mask);
        for &(name, value) in values {
            writing.store(1 + name as usize, value);
        }
        if writing.publish() { Ok(()) } else { Err(SetError::TakenOver) }
    }

    fn begin(&self, side: Side) -> Result<Writing<'_>, SetError> {
        let lock = self.set_lock(side);
        let start = monotonic();
        let mut seen = (0, start);
        loop {
            let generation = match lock.begin() {
                Ok(writing) => return Ok(writing),
                Err(generation) => generation,
            };
            let now = monotonic();
            if generation != seen.0 {
                seen = (generation, now);
            }
            if generation % 2 == 1
                && now.since(seen.1) >= DEAD
                && let Ok(writing) = lock.take_over(generation)
            {
                return Ok(writing);
            }
            if now.since(start) >= BUSY {
                return Err(SetError::Busy);
            }
            sleep_until(now + RETRY);
        }
    }

    pub(super) fn rate_word(&self, side: Side) -> &AtomicU64 {
        self.word(side, RATE)
    }

    pub(super) fn set_lock(&self, side: Side) -> Seqlock<'_> {
        let first = start(side) + GENERATION;
        let words = &self.memory.words()[first..=first + SET_WORDS];
        Seqlock::new(&words[0], &words[1..])
    }

    fn word(&self, side: Side, word: usize) -> &AtomicU64 {
        &self.memory.words()[start(side) + word]
    }
}

impl SetValue {
    /// All, in the order of their words.
    pub const ALL: [Self; 6] =
        [Self::Rate, Self::Delay, Self::Jitter, Self::Loss, Self::LimitPackets, Self::LimitBytes];

    /// Its bit in the mask.
    pub const fn bit(self) -> u64 {
        1 << self as usize
    }

    /// The parameter's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Delay => "delay",
            Self::Jitter => "jitter",
            Self::Loss => "loss",
            Self::LimitPackets | Self::LimitBytes => "limit",
        }
    }
}

/// The mask and the values.
pub(super) const SET_WORDS: usize = 1 + SetValue::ALL.len();

fn start(side: Side) -> usize {
    CONTROL_SIDES[side.index()] / 8
}

const RATE: usize = CONTROL[0].offset / 8;
const SPARE: usize = CONTROL[1].offset / 8;
const GENERATION: usize = CONTROL[2].offset / 8;
const _: () = assert!(CONTROL[9].offset / 8 == GENERATION + SET_WORDS);

/// A writer is done within nanoseconds: one who is not after this long is dead.
pub(super) const DEAD: Duration = Duration::from_secs(1);
/// Long enough to outlast a dead writer, and those who die after it.
const BUSY: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;

    use super::*;

    fn block() -> ControlBlock {
        ControlBlock::create([Rate::PAUSE, Rate::UNLIMITED]).unwrap()
    }

    #[test]
    fn another_opening_of_the_block_is_the_same_block() {
        let block = block();
        let other = ControlBlock::open(&block.path()).unwrap();
        assert_eq!(other.pid(), u64::from(std::process::id()));
        other.store_rate(Side::Up, 5_000_000);
        assert_eq!((block.rate(Side::Up), block.rate(Side::Down)), (5_000_000, u64::MAX));
        other.store_spare(Side::Up, 7);
        assert_eq!(block.rate(Side::Up), 5_000_000);
        other.set(Side::Down, &[(SetValue::Delay, 9), (SetValue::LimitBytes, 8)]).unwrap();
        let read = block.set_lock(Side::Down).read::<SET_WORDS>();
        assert_eq!(read, Some((2, [0b10_0010, 0, 9, 0, 0, 0, 8])));
    }

    #[test]
    fn nobody_can_resize_it_and_it_has_the_documented_bytes() {
        let block = block();
        let file = OpenOptions::new().read(true).write(true).open(block.path()).unwrap();
        assert!(file.set_len(100).is_err() && file.set_len(1 << 20).is_err());
        assert_eq!(file.metadata().unwrap().len(), 4096);
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"PNCTCTRL");
        file.read_exact_at(&mut bytes, 512).unwrap();
        assert_eq!(bytes, [0xff; 8]);
        file.write_all_at(&20_000_000_u64.to_le_bytes(), 256).unwrap();
        assert_eq!(block.rate(Side::Up), 20_000_000);
    }

    /// As `dd bs=8` does it. Two values that differ in every byte.
    #[test]
    fn a_write_of_eight_bytes_is_seen_whole() {
        let block = block();
        let file = OpenOptions::new().write(true).open(block.path()).unwrap();
        let values = [0x0102_0304_0506_0708, 0xf1f2_f3f4_f5f6_f7f8];
        block.store_rate(Side::Up, values[0]);
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                for write in 0..100_000 {
                    let value: u64 = values[write % 2];
                    file.write_all_at(&value.to_le_bytes(), 256).unwrap();
                }
            });
            let mut seen = [0_u64; 2];
            while !writing.is_finished() {
                let rate = block.rate(Side::Up);
                let value = values.iter().position(|&value| value == rate);
                seen[value.unwrap_or_else(|| panic!("torn: {rate:x}"))] += 1;
            }
            assert!(seen.iter().all(|&times| times > 0), "{seen:?}");
        });
    }

    #[test]
    fn what_is_no_block_is_not_opened() {
        let block = block();
        let file = OpenOptions::new().write(true).open(block.path()).unwrap();
        file.write_all_at(&2_u64.to_le_bytes(), 8).unwrap();
        assert!(ControlBlock::open(&block.path()).unwrap_err().to_string().contains("version 1"));
        let path = std::env::temp_dir().join(format!("punctual-block-{}", std::process::id()));
        std::fs::write(&path, [0; 8192]).unwrap();
        assert!(ControlBlock::open(&path).is_err(), "it could be truncated");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_set_takes_over_from_a_writer_that_has_been_dead_for_a_second() {
        let block = block();
        let _ = block.set_lock(Side::Up).begin().unwrap();
        let start = monotonic();
        block.set(Side::Up, &[(SetValue::Rate, 6)]).unwrap();
        assert!(monotonic().since(start) >= DEAD);
        let read = block.set_lock(Side::Up).read::<2>();
        assert_eq!(read, Some((4, [1, 6])));
    }
}
