//! tbf's parameters as `tc` shows them.

use core::num::NonZero;

use super::figures::{micros, rate, size};
use super::parameters::when;
use crate::config::LinkConfig;
use crate::queue::tbf::{LinkLayer, Refill, bytes_per_second};
use crate::time::Duration;
use crate::units::Rate;

pub(super) fn parameters(config: &LinkConfig) -> Vec<String> {
    let tbf = &config.tbf;
    let link_layer = match tbf.link_layer {
        LinkLayer::Ethernet => "ethernet",
        LinkLayer::Atm => "atm",
    };
    let mpu = size(tbf.mpu.into());
    let bucket = Bucket::new(config, config.rate, config.burst);
    let peak = config.peakrate.map(|peak| Bucket::new(config, peak, tbf.mtu));
    let latency = bucket.latency(config).max(peak.as_ref().and_then(|peak| peak.latency(config)));
    vec![
        format!("rate {}", rate(config.rate)),
        format!("burst {}/1 mpu {mpu}", size(bucket.bytes)),
        peak.map_or_else(String::new, |peak| {
            format!("peakrate {} mtu {}/1 mpu {mpu}", rate(peak.rate), size(peak.bytes))
        }),
        latency.map_or_else(String::new, |latency| format!("lat {}", micros(latency))),
        when(config.overhead > 0, format!("overhead {}", config.overhead)),
        format!("linklayer {link_layer}"),
        when(tbf.refill == Refill::Linux, "refill linux"),
    ]
}

/// A bucket as `tc` reads it back: the kernel tells how long a full one takes in whole ticks of
/// 64 ns, overhead and cells included, and `tc` what the rate carries meanwhile.
struct Bucket {
    rate: Rate,
    bytes: u64,
    fills_in: Duration,
}

impl Bucket {
    fn new(config: &LinkConfig, rate: Rate, depth: Option<u32>) -> Self {
        let depth = u64::from(depth.unwrap_or(0));
        let Some(per_second) = bytes_per_second(rate) else {
            return Self { rate, bytes: depth, fills_in: Duration::ZERO };
        };
        let time = config.tbf.table(per_second, config.overhead).time(depth).unsigned_abs();
        let fills_in = Duration::from_nanos(time / TICK * TICK);
        Self { rate, bytes: carried(per_second, fills_in), fills_in }
    }

    /// How long a packet waits that the limit just lets in and that finds the bucket empty; `None`
    /// for a limit below the bucket, and while the rate is 0.
    fn latency(&self, config: &LinkConfig) -> Option<Duration> {
        let per_second = u128::from(bytes_per_second(self.rate)?.get());
        let limit = u128::from(config.resolved_limit().bytes);
        let drained = u64::try_from(limit * 1_000_000_000 / per_second).unwrap_or(u64::MAX);
        drained.checked_sub(self.fills_in.as_nanos()).map(Duration::from_nanos)
    }
}

fn carried(per_second: NonZero<u64>, time: Duration) -> u64 {
    let bytes = u128::from(per_second.get()) * u128::from(time.as_nanos()) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Nanoseconds in which Linux's traffic control and `tc` tell each other times.
const TICK: u64 = 64;
