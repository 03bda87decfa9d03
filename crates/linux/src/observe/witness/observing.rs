//! The observing threads of a witness: a capture or a receiver, read until told to stop.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use punctual_sched::Duration;

use super::{ProbeSeen, Seen, Shared, WitnessError, dup, enter};
use crate::clock::{Offset, monotonic};
use crate::observe::{Capture, ObserveError, Probe, StampedUdp};
use crate::wait::sleep_until;

pub(super) type Observation = JoinHandle<Result<Seen, WitnessError>>;

/// What every observing thread needs to know.
pub(super) struct Observing<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) run: u64,
}

impl Observing<'_> {
    /// Starts a thread in `namespace` and waits until its observer is open. Returns the observer's
    /// address, too.
    pub(super) fn start<O: Observer>(
        &self,
        place: &'static str,
        namespace: BorrowedFd<'_>,
        open: impl FnOnce() -> Result<O, ObserveError> + Send + 'static,
    ) -> Result<(Observation, Option<SocketAddr>), WitnessError> {
        let namespace = dup(namespace, place)?;
        let (shared, run) = (Arc::clone(self.shared), self.run);
        let (ready, opened) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(format!("witness-{place}"))
            .spawn(move || {
                let observer = enter(&namespace, place).and_then(|()| Ok(open()?));
                match observer {
                    Ok(observer) => {
                        // Nobody listens any more only when the start has failed elsewhere.
                        let _ = ready.send(Ok(observer.address()));
                        observe(observer, run, &shared)
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                        Err(WitnessError::Thread(place))
                    }
                }
            })
            .map_err(|_| WitnessError::Thread(place))?;
        let address = opened.recv().map_err(|_| WitnessError::Thread(place))??;
        Ok((thread, address))
    }
}

/// The two kinds of observers, seen alike.
pub(super) trait Observer {
    fn collect(&mut self, run: u64, offset: Offset, seen: &mut Seen)
    -> Result<usize, ObserveError>;
    fn lost(&mut self) -> Result<u64, ObserveError>;
    fn address(&self) -> Option<SocketAddr>;
    /// Its probes are those that arrived at the end.
    const IS_RECEIVER: bool;
}

impl Observer for Capture {
    fn collect(
        &mut self,
        run: u64,
        offset: Offset,
        seen: &mut Seen,
    ) -> Result<usize, ObserveError> {
        self.receive(|packet| {
            seen.note(run, Probe::find_in_frame(packet.bytes), packet.stamp_ns, offset);
        })
    }

    fn lost(&mut self) -> Result<u64, ObserveError> {
        Self::lost(self)
    }

    fn address(&self) -> Option<SocketAddr> {
        None
    }

    const IS_RECEIVER: bool = false;
}

impl Observer for StampedUdp {
    fn collect(
        &mut self,
        run: u64,
        offset: Offset,
        seen: &mut Seen,
    ) -> Result<usize, ObserveError> {
        self.receive(|datagram| {
            seen.note(run, Probe::decode(datagram.payload), datagram.stamp_ns, offset);
        })
    }

    fn lost(&mut self) -> Result<u64, ObserveError> {
        Self::lost(self).map(u64::from)
    }

    fn address(&self) -> Option<SocketAddr> {
        self.local_addr().ok()
    }

    const IS_RECEIVER: bool = true;
}

impl Seen {
    fn note(&mut self, run: u64, probe: Option<Probe>, stamp_ns: Option<i64>, offset: Offset) {
        let Some(probe) = probe.filter(|probe| probe.run == run) else { return };
        match stamp_ns {
            Some(stamp_ns) => {
                let (seq, offset_ns) = (probe.seq, offset.nanos);
                self.probes.push(ProbeSeen { seq, stamp_ns, offset_ns });
            }
            None => self.unstamped += 1,
        }
    }
}

/// The body of an observing thread: reads now and then until told to stop, then until nothing is
/// left.
///
/// It sleeps instead of waiting for its descriptor. Waking a waiter happens inside the system call that
/// releases the packet: with waiters that call returned 12 to 19 us after the capture's stamp at the
/// median, without them 6 to 14 us, and the observer would be seen in what it observes. The stamps
/// are the kernel's, so nothing is lost by reading late.
fn observe<O: Observer>(mut observer: O, run: u64, shared: &Shared) -> Result<Seen, WitnessError> {
    let mut seen = Seen::default();
    loop {
        let last = shared.stop.load(Ordering::Relaxed);
        while observer.collect(run, Offset::sample(), &mut seen)? > 0 {}
        if O::IS_RECEIVER {
            shared.received.store(seen.probes.len() as u64, Ordering::Relaxed);
        }
        if last {
            seen.lost = observer.lost()?;
            return Ok(seen);
        }
        sleep_until(monotonic() + BETWEEN_READS);
    }
}

/// A second of 10,000 probes/s would fit the buffers; a clock step meets at most this many.
const BETWEEN_READS: Duration = Duration::from_millis(20);
