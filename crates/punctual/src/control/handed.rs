//! Traces that clients hand over: canonical CSV in a sealed memfd.

use std::os::fd::OwnedFd;

use punctual_linux::memfd::SealedMemfd;
use punctual_sched::ConfigError;
use punctual_sched::trace::{Trace, TraceOptions};

use crate::trace::{Format, Hints, read_from, resolve};

/// The trace that came with a request, whose descriptors are `fds`: read and checked whole.
pub(super) fn trace(options: &TraceOptions, fds: Vec<OwnedFd>) -> Result<Trace, ConfigError> {
    let refuse = |problem: String| ConfigError::new(PLACE, problem);
    let came = fds.len();
    let mut fds = fds.into_iter();
    let (Some(fd), None) = (fds.next(), fds.next()) else {
        let came = if came == 0 { "no descriptor" } else { "more than one descriptor" };
        return Err(refuse(format!("{came} came with it, expected one, of a sealed memfd")));
    };
    let memfd = SealedMemfd::open(fd, LONGEST).map_err(|unfit| refuse(unfit.to_string()))?;
    let hints = Hints { format: Some(Format::Punctual), quiet: true, ..Hints::default() };
    let read = read_from("memfd", memfd, &hints).map_err(|error| refuse(error.to_string()))?;
    resolve(options, read).map_err(refuse)
}

/// Refuses descriptors where none belongs.
pub(super) fn none(fds: &[OwnedFd]) -> Result<(), ConfigError> {
    if fds.is_empty() {
        return Ok(());
    }
    let problem = "a descriptor came with it, expected one with a trace to follow only";
    Err(ConfigError::new("request", problem))
}

/// Bytes of a trace: some 20 million lines, which take seconds to read, and others wait for that.
const LONGEST: u64 = 512 << 20;
const PLACE: &str = "follow.trace";
