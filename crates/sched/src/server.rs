//! The bottleneck.

use crate::bucket::{Bucket, Saved};
use crate::config::LinkConfig;
use crate::time::Instant;
use crate::units::Rate;

/// The bottleneck: serves one packet at a time at `rate`, or from saved-up tokens at `peakrate`.
#[derive(Debug)]
pub(crate) struct Server {
    rate: Bucket,
    peak: Option<Bucket>,
    /// Of the packet in service; 0 while there is none.
    bytes: u64,
    started: Instant,
    ready: Option<Instant>,
    /// The packet in service is the last: the queue serves itself from then on.
    last: bool,
}

impl Server {
    pub(crate) fn new(config: &LinkConfig, start: Instant) -> Self {
        Self {
            rate: Bucket::new(config.rate, config.burst.unwrap_or(0), start),
            peak: config.peakrate.map(|rate| Bucket::new(rate, 0, start)),
            bytes: 0,
            started: start,
            ready: None,
            last: false,
        }
    }

    /// Whether a packet is through as soon as its service begins: there is no rate.
    pub(crate) fn is_instant(&self) -> bool {
        self.rate.is_unlimited() && self.peak.is_none()
    }

    pub(crate) fn ready(&self) -> Option<Instant> {
        self.ready
    }

    /// Service of a packet of `bytes` begins; returns when it will be through, `None` while paused.
    #[inline]
    pub(crate) fn begin(&mut self, bytes: u64, now: Instant) -> Option<Instant> {
        if self.is_instant() {
            self.started = now;
            return Some(now);
        }
        self.rate.begin(now);
        if let Some(peak) = &mut self.peak {
            peak.begin(now);
        }
        (self.bytes, self.started) = (bytes, now);
        self.ready = self.ready_for(bytes);
        self.ready
    }

    /// The packet in service, of `bytes`, leaves at `now`; returns when its service began.
    #[inline]
    pub(crate) fn end(&mut self, bytes: u64, now: Instant) -> Instant {
        self.rate.finish(bytes, now);
        if let Some(peak) = &mut self.peak {
            peak.finish(bytes, now);
        }
        (self.bytes, self.ready) = (0, None);
        self.started
    }

    pub(crate) fn set_rate(&mut self, rate: Rate, now: Instant) {
        let serving = (self.bytes > 0).then_some(self.bytes);
        self.rate.set_rate(rate, serving, now);
        self.ready = serving.and_then(|bytes| self.ready_for(bytes));
    }

    /// New rates and depth from `now` on. A `peakrate` that there was not counts for the packet in
    /// service as if it had been there since its service began.
    pub(crate) fn configure(&mut self, config: &LinkConfig, now: Instant) {
        let serving = (self.bytes > 0).then_some(self.bytes);
        self.rate.configure(config.rate, config.burst.unwrap_or(0), serving, now);
        let since = if serving.is_some() { self.started } else { now };
        self.peak = match (config.peakrate, self.peak.take()) {
            (Some(rate), Some(mut peak)) => {
                peak.set_rate(rate, serving, now);
                Some(peak)
            }
            (Some(rate), None) => Some(Bucket::new(rate, 0, since)),
            (None, _) => None,
        };
        self.ready = serving.and_then(|bytes| self.ready_for(bytes)).map(|ready| ready.max(now));
    }

    /// Serves at the rates of `config` from now on, with what another serialiser had saved up.
    pub(crate) fn take_over(&mut self, config: &LinkConfig, saved: Saved) {
        *self = Self::new(config, saved.from);
        self.rate.take_over(saved);
    }

    /// Gives way to a queue that serves itself, nothing being in service; what it has saved up.
    pub(crate) fn give_way(&mut self, now: Instant) -> Saved {
        let saved = self.rate.saved(now);
        let unlimited = LinkConfig::default();
        *self = Self::new(&unlimited, now);
        saved
    }

    /// Whether it gives way once the packet in service is through.
    pub(crate) fn is_last(&self) -> bool {
        self.last
    }

    pub(crate) fn set_last(&mut self, last: bool) {
        self.last = last;
    }

    fn ready_for(&self, bytes: u64) -> Option<Instant> {
        let by_rate = self.rate.ready(bytes)?;
        match &self.peak {
            Some(peak) => Some(by_rate.max(peak.ready(bytes)?)),
            None => Some(by_rate),
        }
    }
}
