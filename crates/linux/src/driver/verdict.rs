//! What the kernel is told of a packet's fate, and what it answers.

use std::io;

use punctual_sched::{Mark, Output};

use crate::netfilter::nfqueue::{Queue, Received, Verdict};
use crate::netfilter::nftables::CE_MARK;

pub(super) fn verdict(output: &Output) -> Verdict<'static> {
    let (packet, accept, mark) = match output {
        Output::Depart { packet, mark, .. } => (packet, true, kernel_mark(*mark)),
        Output::Drop { packet, .. } => (packet, false, 0),
    };
    Verdict { id: packet_id(packet.handle), accept, mark: Some(mark), payload: None }
}

/// The mark carried the arrival stamp; the receiver's side shall not see it.
pub(super) fn kernel_mark(mark: Mark) -> u32 {
    match mark {
        Mark::Ce => CE_MARK,
        Mark::None | Mark::Decided => 0,
    }
}

/// The kernel's id of a packet that was handed to the link.
pub(super) fn packet_id(handle: u64) -> u32 {
    u32::try_from(handle & 0xffff_ffff).expect("32 bits are left")
}

pub(super) fn send_all(queue: &mut Queue, verdicts: &[Verdict<'_>]) -> io::Result<()> {
    let mut sent = 0;
    while sent < verdicts.len() {
        sent += queue.send(&verdicts[sent..])?;
    }
    Ok(())
}

/// A verdict that was refused because the kernel no longer holds the packet.
pub(super) fn is_flushed(received: Received<'_>) -> bool {
    matches!(received, Received::Refused { error: libc::ENOENT, .. })
}
