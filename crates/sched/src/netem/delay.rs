//! When a packet is to be sent: latency, jitter and rate.

use super::config::NetemConfig;
use super::generator::{Correlated, Taus113};
use super::time::SendTime;
use crate::impair::Distribution;
use crate::random::Stream;

/// A packet's send time and how it came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// When the packet is due.
    pub(crate) send: SendTime,
    /// How much of its wait is latency, in ns: not the packets before it, not its own
    /// serialisation.
    pub(crate) latency: u64,
}

/// Draws delays.
#[derive(Clone, Debug)]
pub(crate) struct Delay {
    latency: i64,
    jitter: u32,
    distribution: Distribution,
    random: Correlated,
    rate: Serialiser,
}

impl Delay {
    pub(crate) fn new(config: &NetemConfig, memory: &mut Stream) -> Self {
        Self {
            latency: i64::try_from(config.latency.as_nanos()).unwrap_or(i64::MAX),
            jitter: config.jitter,
            distribution: config.distribution.clone(),
            random: Correlated::new(config.delay_correlation, memory),
            rate: Serialiser::new(config),
        }
    }

    /// Takes other values, for packets enqueued from now on.
    pub(crate) fn set(&mut self, config: &NetemConfig, memory: &mut Stream) {
        let mut random = self.random;
        random.set(config.delay_correlation, memory);
        *self = Self { random, ..Self::new(config, memory) };
    }

    /// When a packet of `bytes` that is enqueued at `now` is sent, `last` being the latest send
    /// time of those still held.
    ///
    /// With a rate a packet is serialised after `last`, and what it waits until then counts for
    /// its latency: an idle link adds latency and serialisation, a busy one serialisation only.
    pub(crate) fn schedule(
        &mut self,
        now: SendTime,
        bytes: u64,
        last: Option<SendTime>,
        generator: &mut Taus113,
    ) -> Schedule {
        let drawn = self.draw(generator);
        let Some(serialisation) = self.rate.time(bytes) else {
            return Schedule { send: now.after(drawn), latency: positive(drawn) };
        };
        let (base, latency) = match last {
            Some(last) => (last, drawn.saturating_sub(last.since(now)).max(0)),
            None => (now, drawn),
        };
        let send = base.after(latency.saturating_add(serialisation));
        Schedule { send, latency: positive(latency) }
    }

    fn draw(&mut self, generator: &mut Taus113) -> i64 {
        if self.jitter == 0 {
            return self.latency;
        }
        let drawn = self.random.draw(generator);
        spread(self.latency, self.jitter, self.distribution.entries(), drawn)
    }
}

/// The value that the random number `drawn` picks around `mu`: uniform in
/// `mu - sigma ..= mu + sigma - 1`, or by a table in 1/8192 of `sigma`, rounded half away from
/// zero. May be negative. `sigma` is not 0.
pub(crate) fn spread(mu: i64, sigma: u32, table: Option<&[i16]>, drawn: u32) -> i64 {
    let sigma = i64::from(sigma);
    let Some(table) = table else {
        return mu.saturating_add(i64::from(drawn) % (2 * sigma) - sigma);
    };
    let drawn = usize::try_from(drawn).unwrap_or(usize::MAX);
    let value = i64::from(table[drawn % table.len()]);
    let fine = sigma % SCALE * value;
    let rounded = (fine + if fine >= 0 { SCALE / 2 } else { -SCALE / 2 }) / SCALE;
    mu.saturating_add(rounded + sigma / SCALE * value)
}

fn positive(nanos: i64) -> u64 {
    u64::try_from(nanos).unwrap_or(0)
}

/// Serialisation times.
#[derive(Clone, Copy, Debug)]
struct Serialiser {
    /// Bytes per second; 0 = none.
    rate: u64,
    packet_overhead: i32,
    cell_size: u32,
    cell_overhead: i32,
}

impl Serialiser {
    fn new(config: &NetemConfig) -> Self {
        let NetemConfig { rate, packet_overhead, cell_size, cell_overhead, .. } = *config;
        Self { rate, packet_overhead, cell_size, cell_overhead }
    }

    /// How long the rate takes for a packet of `bytes`, in ns, rounded down; `None` without a
    /// rate. A length that overheads make negative counts as 0.
    fn time(&self, bytes: u64) -> Option<i64> {
        if self.rate == 0 {
            return None;
        }
        let mut length = (i128::from(bytes) + i128::from(self.packet_overhead)).max(0);
        if self.cell_size > 0 {
            let size = i128::from(self.cell_size);
            let cells = (length + size - 1) / size;
            length = (cells * (size + i128::from(self.cell_overhead))).max(0);
        }
        let nanos = length.saturating_mul(1_000_000_000) / i128::from(self.rate);
        Some(i64::try_from(nanos).unwrap_or(i64::MAX))
    }
}

/// Steps of a table per sigma.
const SCALE: i64 = 8192;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Component;
    use crate::time::{Duration, Instant};

    const MILLI: i64 = 1_000_000;

    #[test]
    fn table_values_are_rounded_as_netem_rounds_them() {
        for (value, expected) in [
            (-32768, 20_000_000),
            (-5461, 86_667_480),
            (0, 100_000_000),
            (1, 100_002_441),
            (8192, 120_000_000),
            (28858, 170_454_102),
            (32767, 179_997_559),
        ] {
            let table = [value];
            assert_eq!(spread(100 * MILLI, 20_000_000, Some(&table), 7), expected, "{value}");
        }
    }

    #[test]
    fn a_table_entry_is_picked_by_the_remainder() {
        let table = [0, 8192];
        for (drawn, expected) in [(0, 100), (1, 110), (2, 100), (u32::MAX, 110)] {
            assert_eq!(spread(100, 10, Some(&table), drawn), expected);
        }
    }

    #[test]
    fn uniform_values_reach_from_minus_sigma_to_just_below_plus_sigma() {
        for (drawn, expected) in [
            (0, 80_000_000),
            (1, 80_000_001),
            (276_959_246, 116_959_246),
            (u32::MAX, 94_967_295),
            (39_999_999, 119_999_999),
        ] {
            assert_eq!(spread(100 * MILLI, 20_000_000, None, drawn), expected, "{drawn}");
        }
    }

    #[test]
    fn the_greatest_jitter_does_not_overflow() {
        let most = NetemConfig::MAX_JITTER;
        assert_eq!(spread(0, most, Some(&[i16::MIN]), 0), -4 * i64::from(most));
        assert_eq!(spread(i64::MAX, most, Some(&[i16::MAX]), 0), i64::MAX);
        assert_eq!(spread(0, most, None, 0), -i64::from(most));
    }

    fn serialiser(packet_overhead: i32, cell_size: u32, cell_overhead: i32) -> Serialiser {
        Serialiser { rate: 125_000, packet_overhead, cell_size, cell_overhead }
    }

    #[test]
    fn serialisation_counts_overhead_and_cells() {
        assert_eq!(serialiser(0, 0, 0).time(1514), Some(12_112_000));
        assert_eq!(serialiser(-14, 0, 0).time(1514), Some(12_000_000));
        assert_eq!(serialiser(20, 48, 5).time(1514), Some(13_568_000), "32 cells of 53 bytes");
        assert_eq!(serialiser(0, 48, 5).time(96), serialiser(0, 48, 5).time(49), "whole cells");
    }

    #[test]
    fn overheads_that_leave_nothing_take_no_time() {
        assert_eq!(serialiser(-2000, 0, 0).time(1514), Some(0));
        assert_eq!(serialiser(0, 48, -100).time(1514), Some(0));
        let slow = Serialiser {
            rate: 1,
            packet_overhead: i32::MAX,
            cell_size: 1,
            cell_overhead: i32::MAX,
        };
        assert_eq!(slow.time(u64::MAX), Some(i64::MAX));
    }

    fn delay(config: &NetemConfig) -> Delay {
        Delay::new(config, &mut Stream::new(1, Component::Netem))
    }

    #[test]
    fn a_rate_counts_the_wait_for_the_last_packet_as_latency() {
        let config = NetemConfig {
            latency: Duration::from_millis(5),
            rate: 1_250_000,
            ..NetemConfig::default()
        };
        let (mut delay, mut generator) = (delay(&config), Taus113::new(42));
        let now = SendTime::at(Instant::ZERO);
        let mut after = |last: Option<i64>| {
            let last = last.map(|nanos| now.after(nanos));
            let schedule = delay.schedule(now, 1000, last, &mut generator);
            (schedule.send.since(now), schedule.latency)
        };
        assert_eq!(after(None), (5_800_000, 5_000_000), "idle: latency and serialisation");
        assert_eq!(after(Some(2_000_000)), (5_800_000, 3_000_000), "partly absorbed");
        assert_eq!(after(Some(7_000_000)), (7_800_000, 0), "absorbed");
        assert_eq!(after(Some(-1_000_000)), (5_800_000, 6_000_000), "the last one is overdue");
    }

    #[test]
    fn without_a_rate_every_delay_is_drawn_by_itself() {
        let config = NetemConfig { latency: Duration::from_millis(5), ..NetemConfig::default() };
        let now = SendTime::at(Instant::ZERO);
        let last = Some(now.after(90 * MILLI));
        let schedule = delay(&config).schedule(now, 1000, last, &mut Taus113::new(42));
        assert_eq!(schedule, Schedule { send: now.after(5 * MILLI), latency: 5_000_000 });
    }

    #[test]
    fn without_jitter_nothing_is_drawn() {
        let mut generator = Taus113::new(42);
        delay(&NetemConfig::default()).draw(&mut generator);
        assert_eq!(generator, Taus113::new(42));
    }
}
