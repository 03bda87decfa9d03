//! The bottleneck.

use crate::bucket::Bucket;
use crate::config::LinkConfig;
use crate::time::Instant;
use crate::units::Rate;

/// The bottleneck: serves one packet at a time at `rate`, or from saved-up tokens at `peakrate`.
#[derive(Debug)]
pub(crate) struct Server {
    rate: Bucket,
    peak: Option<Bucket>,
    serving: Option<Service>,
}

#[derive(Debug)]
struct Service {
    bytes: u64,
    started: Instant,
    ready: Option<Instant>,
}

impl Server {
    pub(crate) fn new(config: &LinkConfig, start: Instant) -> Self {
        Self {
            rate: Bucket::new(config.rate, config.burst.unwrap_or(0), start),
            peak: config.peakrate.map(|rate| Bucket::new(rate, 0, start)),
            serving: None,
        }
    }

    /// Whether a packet is through as soon as its service begins: there is no rate.
    pub(crate) fn is_instant(&self) -> bool {
        self.rate.is_unlimited() && self.peak.is_none()
    }

    pub(crate) fn ready(&self) -> Option<Instant> {
        self.serving.as_ref().and_then(|service| service.ready)
    }

    pub(crate) fn begin(&mut self, bytes: u64, now: Instant) {
        self.rate.begin(now);
        if let Some(peak) = &mut self.peak {
            peak.begin(now);
        }
        let ready = self.ready_for(bytes);
        self.serving = Some(Service { bytes, started: now, ready });
    }

    /// The packet in service, of `bytes`, leaves at `now`; returns when its service began.
    pub(crate) fn end(&mut self, bytes: u64, now: Instant) -> Instant {
        self.rate.finish(bytes, now);
        if let Some(peak) = &mut self.peak {
            peak.finish(bytes, now);
        }
        self.serving.take().map_or(now, |service| service.started)
    }

    pub(crate) fn set_rate(&mut self, rate: Rate, now: Instant) {
        let serving = self.serving.as_ref().map(|service| service.bytes);
        self.rate.set_rate(rate, serving, now);
        let ready = serving.and_then(|bytes| self.ready_for(bytes));
        if let Some(service) = &mut self.serving {
            service.ready = ready;
        }
    }

    fn ready_for(&self, bytes: u64) -> Option<Instant> {
        let by_rate = self.rate.ready(bytes)?;
        match &self.peak {
            Some(peak) => Some(by_rate.max(peak.ready(bytes)?)),
            None => Some(by_rate),
        }
    }
}
