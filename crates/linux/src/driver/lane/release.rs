//! How a lane carries out what its link has decided.

use std::io;

use punctual_sched::{Duration, Instant, Output};

use super::Lane;
use crate::clock::monotonic;
use crate::driver::account::{Account, Released};
use crate::driver::copies::{self, Copies};
use crate::driver::verdict::{send_all, verdict};

impl<A: Account> Lane<A> {
    /// Tells the kernel, a bounded number of packets a call so that none waits for many others.
    pub(super) fn release(&mut self) -> io::Result<()> {
        if self.outputs.is_empty() {
            return Ok(());
        }
        let outputs = self.take_outputs();
        for chunk in outputs.chunks(VERDICTS_PER_CALL) {
            match self.copies.take() {
                None => self.release_by_verdict(chunk)?,
                Some(mut copies) => {
                    let released = self.release_copies(&mut copies, chunk);
                    self.copies = Some(copies);
                    released?;
                }
            }
        }
        self.outputs = outputs;
        self.outputs.clear();
        Ok(())
    }

    fn take_outputs(&mut self) -> Vec<Output> {
        let outputs = core::mem::take(&mut self.outputs);
        let Some(change) = self.injected_fates else { return outputs };
        let outputs = change(outputs);
        if let Some(copies) = &mut self.copies {
            copies::duplicates_of(&outputs).for_each(|handle| copies.duplicated(handle));
        }
        outputs
    }

    fn release_by_verdict(&mut self, chunk: &[Output]) -> io::Result<()> {
        self.verdicts.clear();
        self.verdicts.extend(chunk.iter().map(verdict));
        let called = monotonic();
        let hidden = hold_back(self.shift, called);
        send_all(&mut self.queue, &self.verdicts)?;
        self.account_for(chunk, called, monotonic() - hidden);
        Ok(())
    }

    /// The same where a fate may need the packet's bytes: verdicts share a call up to the next
    /// copy that is sent.
    fn release_copies(&mut self, copies: &mut Copies, chunk: &[Output]) -> io::Result<()> {
        let mut rest = chunk;
        while let Some((verdicts, copy)) = copies.plan(rest) {
            let (before, after) = rest.split_at(verdicts);
            self.give_verdicts(copies, before)?;
            let called = monotonic();
            let hidden = hold_back(self.shift, called);
            copies.send(&copy);
            self.account_for(&after[..1], called, monotonic() - hidden);
            rest = &after[1..];
        }
        self.give_verdicts(copies, rest)?;
        copies.finish();
        Ok(())
    }

    fn give_verdicts(&mut self, copies: &mut Copies, fates: &[Output]) -> io::Result<()> {
        let called = monotonic();
        let hidden = hold_back(self.shift, called);
        copies.give_verdicts(&mut self.queue)?;
        self.account_for(fates, called, monotonic() - hidden);
        Ok(())
    }

    fn account_for(&mut self, fates: &[Output], called: Instant, returned: Instant) {
        for output in fates {
            match output {
                Output::Depart { due, .. } => {
                    let released = Released { output, due: *due, called, returned };
                    self.account.released(&released);
                }
                Output::Drop { .. } => self.account.dropped(output),
            }
        }
    }
}

/// For tests of the witness: lets the injected shift pass, and says how much time that took.
fn hold_back(shift: u64, from: Instant) -> Duration {
    if shift == 0 {
        return Duration::ZERO;
    }
    let until = from + Duration::from_nanos(shift);
    while monotonic() < until {
        core::hint::spin_loop();
    }
    monotonic().since(from)
}

/// One verdict takes about a microsecond inside the call: a larger batch would make its first
/// packet's lateness look like its last one's.
pub(super) const VERDICTS_PER_CALL: usize = 32;
