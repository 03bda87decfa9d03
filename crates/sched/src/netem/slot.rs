//! Slots: packets leave in groups, as from a modem that is polled.

use super::config::{NetemSlot, SlotSpacing};
use super::delay::spread;
use super::generator::Taus113;
use super::time::SendTime;
use crate::random::Stream;

/// The slot that is open or opens next.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    config: NetemSlot,
    next: SendTime,
    packets_left: i64,
    bytes_left: i64,
}

impl Slots {
    /// The first slot opens at `now`.
    pub(crate) fn new(config: NetemSlot, now: SendTime) -> Self {
        let mut slots = Self { config, next: now, packets_left: 0, bytes_left: 0 };
        slots.open(now);
        slots
    }

    pub(crate) fn config(&self) -> &NetemSlot {
        &self.config
    }

    /// When the slot opens.
    pub(crate) fn next(&self) -> SendTime {
        self.next
    }

    fn open(&mut self, at: SendTime) {
        self.next = at;
        self.packets_left = bound(self.config.packets);
        self.bytes_left = bound(self.config.bytes);
    }

    /// A packet of `bytes` has left at `now`. A slot that is used up gives way to the next.
    pub(crate) fn spend(&mut self, bytes: u64, now: SendTime, random: &mut Random<'_>) {
        self.packets_left -= 1;
        self.bytes_left = self.bytes_left.saturating_sub_unsigned(bytes);
        if self.packets_left <= 0 || self.bytes_left <= 0 {
            self.draw(now, random);
        }
    }

    /// The next slot, counted from `now`.
    pub(crate) fn draw(&mut self, now: SendTime, random: &mut Random<'_>) {
        let away = match &self.config.spacing {
            SlotSpacing::Uniform(least, most) => {
                let drawn = u128::from(random.uniform.up_to(u32::MAX.into()));
                let span = most.saturating_sub(*least).as_nanos();
                let share = u64::try_from((u128::from(span) * drawn) >> 32).unwrap_or(u64::MAX);
                signed(least.as_nanos().saturating_add(share))
            }
            SlotSpacing::Spread { distribution, delay, jitter } => {
                let (mean, drawn) = (signed(delay.as_nanos()), random.seeded.draw());
                spread(mean, *jitter, distribution.entries(), drawn)
            }
        };
        self.open(now.after(away));
    }
}

/// Where slots draw from: uniform spacings from a stream of ours, since under Linux the seed does
/// not reach them; those of a table from the seeded generator.
pub(crate) struct Random<'a> {
    pub(crate) uniform: &'a mut Stream,
    pub(crate) seeded: &'a mut Taus113,
}

/// What a slot lets through; 0 stands for the most that netem can count.
fn bound(limit: u32) -> i64 {
    if limit == 0 { i64::from(i32::MAX) } else { limit.into() }
}

fn signed(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impair::{Distribution, Table};
    use crate::random::Component;
    use crate::time::{Duration, Instant};

    fn uniform(least: u64, most: u64, packets: u32, bytes: u32) -> NetemSlot {
        let spacing = SlotSpacing::Uniform(Duration::from_nanos(least), Duration::from_nanos(most));
        NetemSlot { spacing, packets, bytes }
    }

    fn random<'a>(uniform: &'a mut Stream, seeded: &'a mut Taus113) -> Random<'a> {
        Random { uniform, seeded }
    }

    #[test]
    fn a_slot_closes_after_its_packets_or_its_bytes() {
        let (mut stream, mut seeded) = (Stream::new(1, Component::Slot), Taus113::new(1));
        let start = SendTime::at(Instant::ZERO);
        let mut slots = Slots::new(uniform(100, 100, 2, 0), start);
        slots.spend(1_000_000, start, &mut random(&mut stream, &mut seeded));
        assert_eq!(slots.next(), start, "the slot has room for another packet");
        slots.spend(1, start.after(7), &mut random(&mut stream, &mut seeded));
        assert_eq!(slots.next(), start.after(107));

        let mut slots = Slots::new(uniform(100, 100, 0, 1500), start);
        slots.spend(1499, start, &mut random(&mut stream, &mut seeded));
        assert_eq!(slots.next(), start);
        slots.spend(1500, start, &mut random(&mut stream, &mut seeded));
        assert_eq!(slots.next(), start.after(100), "the packet that exceeds it has left");
    }

    #[test]
    fn uniform_spacings_lie_between_their_bounds_and_draw_no_seeded_number() {
        let (mut stream, mut seeded) = (Stream::new(1, Component::Slot), Taus113::new(1));
        let start = SendTime::at(Instant::ZERO);
        let mut slots = Slots::new(uniform(1_000, 2_000, 1, 0), start);
        let mut sum = 0;
        for _ in 0..10_000 {
            slots.draw(start, &mut random(&mut stream, &mut seeded));
            let away = slots.next().since(start);
            assert!((1_000..2_000).contains(&away), "{away}");
            sum += away;
        }
        assert!((14_900_000..15_100_000).contains(&sum), "a mean of {}", sum / 10_000);
        assert_eq!(seeded, Taus113::new(1));
    }

    #[test]
    fn spacings_of_a_table_come_from_the_seeded_generator_and_may_be_negative() {
        let (mut stream, mut seeded) = (Stream::new(1, Component::Slot), Taus113::new(1));
        let start = SendTime::at(Instant::ZERO);
        let distribution = Distribution::Table(Table::new(&[-8192]).expect("a table"));
        let spacing =
            SlotSpacing::Spread { delay: Duration::from_nanos(10), jitter: 100, distribution };
        let mut slots = Slots::new(NetemSlot { spacing, packets: 1, bytes: 0 }, start);
        slots.draw(start, &mut random(&mut stream, &mut seeded));
        assert_eq!(slots.next(), start.after(-90));
        assert_ne!(seeded, Taus113::new(1));
    }
}
