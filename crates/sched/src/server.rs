//! The bottleneck.

use crate::bucket::{Bucket, Saved};
use crate::config::LinkConfig;
use crate::time::Instant;
use crate::trace::Follower;
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
        self.rate.set_rate(rate, self.bytes > 0, now);
        self.ready = if self.bytes > 0 { self.ready_for(self.bytes) } else { None };
    }

    /// Rates were followed, see [`Bucket::follow`]. When the packet in service is through stays as
    /// it was found.
    pub(crate) fn follow(&mut self, first: Instant, carried: u128, rate: Rate, now: Instant) {
        self.rate.follow(first, carried, rate, self.bytes > 0, now);
    }

    /// Finds when the packet in service is through with the steps that come.
    pub(crate) fn plan(&mut self, follower: &Follower) {
        if self.bytes > 0 {
            self.ready = self.ready_with(follower);
        }
    }

    /// Whether the packet in service is paid for at `now` by what has been followed.
    pub(crate) fn is_paid(&self, now: Instant) -> bool {
        self.rate.ready(self.bytes).is_some_and(|ready| ready <= now)
    }

    /// The packet in service is not served here any more: of its bytes so many are still to be
    /// sent, rounded up.
    pub(crate) fn hand_over(&mut self, now: Instant) -> u64 {
        let (bytes, rate) = (self.bytes, self.rate.rate());
        (self.bytes, self.ready) = (0, None);
        if bytes == 0 || rate == Rate::UNLIMITED {
            return 0;
        }
        self.rate.set_rate(rate, true, now);
        let missing = self.rate.missing(bytes).div_ceil(8_000_000_000);
        let left = u64::try_from(missing).unwrap_or(bytes).min(bytes);
        self.rate.give_back(bytes - left);
        left
    }

    /// A packet of `bytes`, whose service began elsewhere, goes on with so many of them left.
    pub(crate) fn resume(&mut self, bytes: u64, left: u64, now: Instant) {
        let started = self.started;
        self.begin(bytes, now);
        self.started = started;
        if !self.is_instant() {
            self.rate.gain(bytes.saturating_sub(left));
            self.ready = self.ready_for(bytes);
        }
    }

    /// When the packet in service is through: when its bits are earned, or the rate is unlimited,
    /// but not before the peak rate lets it go.
    fn ready_with(&self, follower: &Follower) -> Option<Instant> {
        let Some(next) = follower.next_rate() else { return self.ready_for(self.bytes) };
        let (at, rate) = (self.rate.at(), self.rate.rate());
        let from = match &self.peak {
            Some(peak) => peak.ready(self.bytes)?.max(at),
            None => at,
        };
        let missing = self.rate.missing(self.bytes);
        let until_next = match rate {
            Rate::UNLIMITED => 0,
            rate => u128::from(rate.as_bps()) * u128::from(next.since(at).as_nanos()),
        };
        if from > next {
            let earned = until_next + follower.carried(next, from);
            let ready = earned >= missing || follower.is_unlimited_before(from);
            return if ready { Some(from) } else { follower.reach(from, missing - earned) };
        }
        if until_next >= missing || rate == Rate::UNLIMITED {
            return self.rate.ready(self.bytes).map(|ready| ready.max(from));
        }
        follower.reach(next, missing - until_next)
    }

    /// New rates and depth from `now` on. A `peakrate` that there was not counts for the packet in
    /// service as if it had been there since its service began.
    pub(crate) fn configure(&mut self, config: &LinkConfig, now: Instant) {
        let serving = (self.bytes > 0).then_some(self.bytes);
        self.rate.configure(config.rate, config.burst.unwrap_or(0), serving, now);
        let since = if serving.is_some() { self.started } else { now };
        self.peak = match (config.peakrate, self.peak.take()) {
            (Some(rate), Some(mut peak)) => {
                peak.set_rate(rate, serving.is_some(), now);
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
