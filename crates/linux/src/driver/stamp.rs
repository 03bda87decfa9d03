//! From the kernel's arrival stamp to the time at which a packet met the link.
//!
//! The hook rule writes the low 32 bits of `CLOCK_REALTIME` into the packet's mark. They wrap
//! every 4.29 s, the clock can be stepped, and a stopped process reads packets that have waited
//! for seconds: all of that is told apart here, and counted.

use punctual_sched::{Duration, Instant};

use crate::clock::Offset;

/// Turns stamps into arrival times, one batch of packets at a time.
#[derive(Debug)]
pub struct StampReader {
    last: Option<Reading>,
    now: Reading,
    stepped: bool,
    latest: Instant,
    injected: Vec<ClockStep>,
    counts: StampCounts,
}

/// Clocks read right after a batch of packets was.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// `CLOCK_MONOTONIC`.
    pub monotonic: Instant,
    /// `CLOCK_REALTIME` minus it.
    pub offset: Offset,
}

impl Reading {
    /// Reads the clocks.
    pub fn sample() -> Self {
        let offset = Offset::sample();
        Self { monotonic: crate::clock::monotonic(), offset }
    }
}

/// A step of the real-time clock to be imagined, for tests: the machine's clock is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// When, on the monotonic clock.
    pub at: Instant,
    /// By how many nanoseconds.
    pub by: i64,
}

/// What was unusual about stamps. Every packet counted here has an arrival time that is not its
/// stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampCounts {
    /// Older than the latest time given to the link (packets that met the hook on two
    /// processors); raised to that time.
    pub raised: u64,
    /// In the future; replaced by our clock.
    pub future: u64,
    /// More than 1 s older than the latest time given to the link, or ambiguous because that lies
    /// further back than the stamp's range; replaced by our clock.
    pub stale: u64,
    /// Steps of the real-time clock seen.
    pub clock_steps: u64,
    /// Read in the batch that saw a step, so that nothing tells on which side of it they were
    /// stamped; replaced by our clock.
    pub step_touched: u64,
}

impl StampReader {
    /// A reader for a link that starts at `start`.
    pub fn new(start: Instant, injected: Vec<ClockStep>) -> Self {
        let now = Reading { monotonic: start, offset: Offset { nanos: 0, uncertainty: 0 } };
        Self {
            last: None,
            now,
            stepped: false,
            latest: start,
            injected,
            counts: StampCounts::default(),
        }
    }

    /// A batch was read, and then these clocks.
    pub fn batch(&mut self, mut reading: Reading) {
        reading.offset.nanos += self.injected_by(reading.monotonic);
        self.last = (self.last.is_some() || self.now.offset.nanos != 0).then_some(self.now);
        self.now = reading;
        self.stepped = self.last.is_some_and(|last| is_step(last, reading));
        self.counts.clock_steps += u64::from(self.stepped);
    }

    /// The arrival time of a packet of this batch: its stamp where that can be believed, else
    /// the time of the read.
    ///
    /// `received` is `CLOCK_REALTIME` in microseconds as the packet came in (`NFQA_TIMESTAMP`),
    /// which tells the stamp's turns of 4.29 s apart. Where there is none, a packet that may have
    /// waited for longer than one turn is ambiguous.
    pub fn arrival(&mut self, stamp: u32, received: Option<u64>) -> Instant {
        if self.stepped {
            self.counts.step_touched += 1;
            return self.now.monotonic;
        }
        let age = match received {
            Some(micros) => self.age_from(micros, stamp),
            None => self.age_by_wrap(stamp),
        };
        match age {
            Some(age) if age < 0 => self.counts.future += 1,
            Some(age) if age.unsigned_abs() <= SECOND + self.gap() => {
                return self.now.monotonic - Duration::from_nanos(age.unsigned_abs());
            }
            _ => self.counts.stale += 1,
        }
        self.now.monotonic
    }

    /// The arrival time of a packet of this batch that no rule has stamped: when it came in, to
    /// the microsecond, or when it was read.
    pub fn unstamped(&mut self, received: Option<u64>) -> Instant {
        let stamp = received.map(|micros| micros.wrapping_mul(1000) % WRAP);
        match stamp.and_then(|stamp| u32::try_from(stamp).ok()) {
            Some(stamp) => self.arrival(stamp, received),
            None => self.now.monotonic,
        }
    }

    /// Nanoseconds since the stamp was made, negative when it lies in the future: `received` and
    /// the time from there to the hook, which is negative for packets that carry a departure time
    /// (TCP's): of those the kernel says when it told us, a few microseconds after the hook.
    fn age_from(&self, micros: u64, stamp: u32) -> Option<i64> {
        let received = i64::try_from(micros).ok()?.checked_mul(1000)?;
        let to_hook = age(u64::from(stamp), u32::try_from(i64_low(received)).ok()?);
        let to_hook = i64::try_from(to_hook).ok()?;
        let to_hook = if to_hook > WRAP_SIGNED / 2 { to_hook - WRAP_SIGNED } else { to_hook };
        let hooked = received.checked_add(to_hook)?;
        let true_offset = self.now.offset.nanos - self.injected_by(self.now.monotonic);
        let now = i64::try_from(self.now.monotonic.as_nanos()).ok()?;
        let age = now.checked_add(true_offset)?.checked_sub(hooked)?;
        let at = self.now.monotonic - Duration::from_nanos(age.max(0).unsigned_abs());
        // As a kernel would have stamped it whose clock had been stepped.
        Some(age + self.injected_by(self.now.monotonic) - self.injected_by(at))
    }

    /// The same from the stamp alone; `None` when it is ambiguous.
    fn age_by_wrap(&self, stamp: u32) -> Option<i64> {
        let real = i64_low(self.now.offset.nanos) + low(self.now.monotonic.as_nanos());
        let age = age(real, self.injected_stamp(stamp));
        if age > WRAP - FUTURE {
            return Some(-1);
        }
        let ambiguous = age + WRAP <= SECOND + self.gap();
        i64::try_from(age).ok().filter(|_| !ambiguous)
    }

    /// Raises an arrival to the latest time given to the link, which it then is.
    pub fn in_order(&mut self, arrival: Instant) -> Instant {
        if arrival < self.latest {
            self.counts.raised += 1;
        }
        self.latest = self.latest.max(arrival);
        self.latest
    }

    /// The link was advanced to `to`.
    pub fn advanced(&mut self, to: Instant) {
        self.latest = self.latest.max(to);
    }

    /// The latest time given to the link.
    pub fn latest(&self) -> Instant {
        self.latest
    }

    /// When the batch at hand was read.
    pub fn read_at(&self) -> Instant {
        self.now.monotonic
    }

    /// What was unusual so far.
    pub fn counts(&self) -> StampCounts {
        self.counts
    }

    /// Nanoseconds from the latest time given to the link to this read. The queue is read in the
    /// order of arrival, so what is read now came after that: also in the midst of a backlog,
    /// where the read before says nothing about how long a packet has waited.
    fn gap(&self) -> u64 {
        self.now.monotonic.since(self.latest).as_nanos()
    }

    fn injected_by(&self, at: Instant) -> i64 {
        self.injected.iter().filter(|step| step.at <= at).map(|step| step.by).sum()
    }

    /// The stamp as a kernel would have made it whose clock had been stepped.
    fn injected_stamp(&self, stamp: u32) -> u32 {
        if self.injected.is_empty() {
            return stamp;
        }
        let true_offset = self.now.offset.nanos - self.injected_by(self.now.monotonic);
        let real = i64_low(true_offset) + low(self.now.monotonic.as_nanos());
        let hooked = self.now.monotonic - Duration::from_nanos(age(real, stamp));
        let by = i64_low(self.injected_by(hooked));
        u32::try_from((u64::from(stamp) + by) % WRAP).expect("reduced to 32 bits")
    }
}

/// Whether the real-time clock was set between two readings. 1 ms of room, and 1/1000 of the
/// time between them, which is twice what the kernel slews at most (adjtime(3): 500 ppm).
fn is_step(last: Reading, now: Reading) -> bool {
    let gap = now.monotonic.since(last.monotonic).as_nanos();
    let room = 1_000_000 + gap / 1000 + now.offset.uncertainty + last.offset.uncertainty;
    now.offset.nanos.abs_diff(last.offset.nanos) > room
}

/// Nanoseconds from `stamp` to `real`, both on the 32-bit circle.
fn age(real: u64, stamp: u32) -> u64 {
    (real % WRAP + WRAP - u64::from(stamp)) % WRAP
}

fn low(nanos: u64) -> u64 {
    nanos % WRAP
}

fn i64_low(nanos: i64) -> u64 {
    nanos.rem_euclid(1 << 32).unsigned_abs()
}

const SECOND: u64 = 1_000_000_000;
/// The stamp's range: 2^32 ns.
const WRAP: u64 = 1 << 32;
const WRAP_SIGNED: i64 = 1 << 32;
/// Ages this close to the range are stamps from the future: 100 ms.
const FUTURE: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const REAL: i64 = 1_790_000_000_123_456_789;

    fn reading(monotonic: u64) -> Reading {
        Reading {
            monotonic: Instant::from_nanos(monotonic),
            offset: Offset { nanos: REAL, uncertainty: 50 },
        }
    }

    /// The stamp that a kernel makes at `monotonic`.
    fn stamp(monotonic: u64) -> u32 {
        u32::try_from((i64_low(REAL) + monotonic) % WRAP).unwrap()
    }

    fn reader(reads: &[u64]) -> StampReader {
        let mut reader = StampReader::new(Instant::ZERO, Vec::new());
        for read in reads {
            reader.advanced(reader.read_at());
            reader.batch(reading(*read));
        }
        reader
    }

    #[test]
    fn a_stamp_gives_the_time_at_the_hook_across_every_wrap() {
        for now in (1..40).map(|n| n * 700_000_000) {
            let mut reader = reader(&[now - 1_000_000, now]);
            assert_eq!(reader.arrival(stamp(now - 41_000), None).as_nanos(), now - 41_000);
            assert_eq!(reader.counts(), StampCounts::default());
        }
    }

    #[test]
    fn a_stamp_in_the_future_is_replaced_and_counted() {
        let mut reader = reader(&[5 * SECOND]);
        assert_eq!(reader.arrival(stamp(5 * SECOND + 1000), None).as_nanos(), 5 * SECOND);
        assert_eq!(reader.counts().future, 1);
    }

    #[test]
    fn a_stamp_older_than_a_second_and_the_gap_is_replaced_and_counted() {
        let mut reader = reader(&[8 * SECOND, 9 * SECOND]);
        let old = 9 * SECOND - 1_900_000_000;
        assert_eq!(reader.arrival(stamp(old), None).as_nanos(), old);
        assert_eq!(reader.arrival(stamp(9 * SECOND - 2_100_000_000), None).as_nanos(), 9 * SECOND);
        assert_eq!(reader.counts(), StampCounts { stale: 1, ..StampCounts::default() });
    }

    #[test]
    fn packets_that_waited_while_we_were_stopped_for_three_seconds_keep_their_times() {
        let mut reader = reader(&[SECOND, 4 * SECOND + 1000]);
        let stopped = SECOND + 20_000_000;
        assert_eq!(reader.arrival(stamp(stopped), None).as_nanos(), stopped);
        assert_eq!(reader.counts(), StampCounts::default());
    }

    #[test]
    fn a_backlog_keeps_its_times_to_the_last_packet() {
        let mut reader = reader(&[SECOND, 4 * SECOND]);
        for n in 1..300 {
            let stamped = SECOND + n * 10_000_000;
            let arrival = reader.arrival(stamp(stamped), None);
            assert_eq!(reader.in_order(arrival).as_nanos(), stamped);
            reader.batch(reading(4 * SECOND + n * 1000));
        }
        assert_eq!(reader.counts(), StampCounts::default());
    }

    #[test]
    fn the_time_of_receipt_tells_the_turns_of_the_stamp_apart() {
        for waited in [500, 700_000_000, 5 * SECOND, 40 * SECOND] {
            let now = 60 * SECOND;
            let mut reader = reader(&[now - waited - SECOND, now]);
            let hooked = now - waited;
            let received = (REAL.unsigned_abs() + hooked - 15_000) / 1000;
            assert_eq!(reader.arrival(stamp(hooked), Some(received)).as_nanos(), hooked);
            assert_eq!(reader.counts(), StampCounts::default(), "waited {waited}");
        }
    }

    #[test]
    fn a_time_told_after_the_hook_serves_as_well_as_one_before() {
        for told_after in [1_000, 8_000, 900_000] {
            let (hooked, now) = (59 * SECOND, 60 * SECOND);
            let mut reader = reader(&[now - 10 * SECOND, now]);
            let received = (REAL.unsigned_abs() + hooked + told_after) / 1000;
            assert_eq!(reader.arrival(stamp(hooked), Some(received)).as_nanos(), hooked);
            assert_eq!(reader.counts(), StampCounts::default(), "told {told_after} ns after");
        }
    }

    #[test]
    fn a_time_of_receipt_in_the_future_or_before_what_was_read_is_replaced_and_counted() {
        let mut reader = reader(&[8 * SECOND, 9 * SECOND]);
        for (hooked, future, stale) in [(9 * SECOND + 50, 1, 0), (4 * SECOND, 1, 1)] {
            let received = (REAL.unsigned_abs() + hooked) / 1000;
            assert_eq!(reader.arrival(stamp(hooked), Some(received)).as_nanos(), 9 * SECOND);
            assert_eq!((reader.counts().future, reader.counts().stale), (future, stale));
        }
    }

    #[test]
    fn a_stop_longer_than_the_stamps_range_is_ambiguous_and_says_so() {
        let mut reader = reader(&[SECOND, 11 * SECOND]);
        assert_eq!(reader.arrival(stamp(11 * SECOND - 500), None).as_nanos(), 11 * SECOND);
        assert_eq!(reader.counts().stale, 1);
    }

    #[test]
    fn a_step_of_the_clock_touches_the_batch_that_sees_it_and_no_other() {
        for by in [3600 * 1_000_000_000, -3600 * 1_000_000_000, 5_000_000] {
            let step = ClockStep { at: Instant::from_nanos(2 * SECOND), by };
            let mut reader = StampReader::new(Instant::ZERO, vec![step]);
            reader.batch(reading(2 * SECOND - 1000));
            assert_eq!(
                reader.arrival(stamp(2 * SECOND - 5000), None).as_nanos(),
                2 * SECOND - 5000
            );
            reader.batch(reading(2 * SECOND + 1000));
            assert_eq!(reader.arrival(stamp(2 * SECOND - 500), None).as_nanos(), 2 * SECOND + 1000);
            assert_eq!(reader.arrival(stamp(2 * SECOND + 500), None).as_nanos(), 2 * SECOND + 1000);
            reader.batch(reading(2 * SECOND + 9000));
            assert_eq!(
                reader.arrival(stamp(2 * SECOND + 8000), None).as_nanos(),
                2 * SECOND + 8000
            );
            let counts = reader.counts();
            assert_eq!((counts.clock_steps, counts.step_touched), (1, 2));
            assert_eq!((counts.future, counts.stale), (0, 0));
        }
    }

    #[test]
    fn slewing_and_a_slow_read_of_the_clock_are_no_steps() {
        let mut reader = StampReader::new(Instant::ZERO, Vec::new());
        reader.batch(reading(SECOND));
        let mut slewed = reading(2 * SECOND);
        slewed.offset = Offset { nanos: REAL + 500_000 + 3_000_000, uncertainty: 3_000_000 };
        reader.batch(slewed);
        assert_eq!(reader.counts().clock_steps, 0);
    }

    #[test]
    fn times_given_to_the_link_never_run_backwards() {
        let mut reader = reader(&[SECOND]);
        assert_eq!(reader.in_order(Instant::from_nanos(500)).as_nanos(), 500);
        reader.advanced(Instant::from_nanos(800));
        assert_eq!(reader.in_order(Instant::from_nanos(700)).as_nanos(), 800);
        assert_eq!(reader.counts().raised, 1);
    }
}
