//! How a lane's link is changed while it runs.

use std::borrow::Cow;

use punctual_sched::config::Gso;
use punctual_sched::trace::{Trace, TraceOptions};
use punctual_sched::{Change, ConfigError, Instant};

use super::Lane;
use crate::control::{Found, Ignored};
use crate::driver::account::{Account, Source};
use crate::driver::remote::{Answer, Applied, Question, Request, Requests, Seen};

impl<A: Account> Lane<A> {
    /// Looks at the words of the control block, packets having been read from `read_from` on and not
    /// been handed over yet. Returns what is to be done after they have been: while anything is held
    /// they came first. An idle link is changed before the first of them, as it would have been had
    /// the driver been woken for the store.
    #[inline]
    pub(super) fn look(&mut self, read_from: Instant) -> Option<News> {
        let news = self.watch.as_mut()?.look(read_from);
        if news.iter().all(Option::is_none) {
            return None;
        }
        let Some(first) = self.arrivals.iter().map(|arrived| arrived.packet.arrival).min() else {
            return Some(news);
        };
        if !self.is_empty() {
            return Some(news);
        }
        self.carry_out(news, first.min(read_from).max(self.latest()));
        None
    }

    /// Does what was found in the control block, where that can be done.
    #[inline(never)]
    pub(super) fn carry_out(&mut self, news: News, at: Instant) {
        for found in news.into_iter().flatten() {
            let ignored = match found {
                Found::Change(change, source) => self.change_as_found(&change, at, source).err(),
                Found::Ignored(ignored) => Some(ignored),
            };
            if let Some(ignored) = ignored {
                self.account.ignored(at, &ignored);
            }
        }
    }

    /// Has the rate word say what is in force.
    #[inline]
    pub(super) fn settle(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.settle(self.link.rate());
        }
    }

    fn change_as_found(
        &mut self,
        change: &Change,
        at: Instant,
        source: Source,
    ) -> Result<(), Ignored> {
        // Thousands of times a second: no need to build both configurations for one number.
        let news = match source {
            Source::Word => change.rate != Some(self.link.rate()),
            Source::Set | Source::Remote => self.link.changes(change),
        };
        if !news {
            return Ok(());
        }
        self.check_follows(change)
            .and_then(|()| self.change(change, at, (None, source)))
            .map_err(|error| Ignored::refused(source, change, error))
    }

    /// Refuses what is found in a control block where others serve beside this lane.
    fn check_follows(&self, change: &Change) -> Result<(), ConfigError> {
        if !self.divided {
            return Ok(());
        }
        self.link.config().changed(change).check_divided()?;
        let place = change.entries().first().map_or("set", |(name, _)| *name);
        Err(ConfigError::new(
            place,
            "several threads serve this direction, and one of them alone would follow the block: \
             change it by the socket, as `punctual set` does",
        ))
    }

    /// Does what others ask for, at the latest time given to the link.
    pub(super) fn answer(&mut self) {
        let requests = self.requests.as_ref().map_or_else(Vec::new, Requests::take);
        for request in requests {
            let at = self.latest();
            let answer = match request.question() {
                Question::Change(change) => self.change_as_asked(change, &request),
                Question::Follow(trace) => self.follow_as_asked(trace.as_deref(), &request),
                Question::Snapshot => Ok(Answer::Seen(Box::new(Seen {
                    snapshot: self.link.snapshot(),
                    config: self.link.in_force(),
                    trace: self.link.trace_position(),
                    latest_due: self.link.latest_due(),
                    at,
                }))),
            };
            request.answer(answer.map_err(Into::into));
        }
    }

    fn change_as_asked(
        &mut self,
        change: &Change,
        request: &Request,
    ) -> Result<Answer, ConfigError> {
        let at = self.latest();
        let changed = self.link.changes(change);
        if changed {
            self.change(change, at, (Some(request.asked()), Source::Remote))?;
        } else {
            self.link.config().changed(change).validate()?;
        }
        Ok(Answer::Applied(Applied { at, changed }))
    }

    fn follow_as_asked(
        &mut self,
        trace: Option<&(TraceOptions, Trace)>,
        request: &Request,
    ) -> Result<Answer, ConfigError> {
        let at = self.latest();
        // To begin anew is news; to stop where nothing is followed is none.
        let changed = trace.is_some() || self.link.config().trace.is_some();
        if self.divided {
            self.link.config().following(trace.cloned()).check_divided()?;
        }
        if changed {
            self.link.follow_as(trace.cloned(), at)?;
            self.changed(at);
            self.account.followed(at, request.asked(), self.link.config());
        }
        Ok(Answer::Applied(Applied { at, changed }))
    }

    /// Changes the link at `at`, not before the latest time given to it.
    fn change(
        &mut self,
        change: &Change,
        at: Instant,
        (asked, source): (Option<Instant>, Source),
    ) -> Result<(), ConfigError> {
        if !change.others.is_empty() {
            self.link.config().changed(change).check_payloads(self.copies.is_some())?;
        }
        if self.divided {
            self.link.config().changed(change).check_divided()?;
        }
        let news = match source {
            Source::Word => Cow::Borrowed(change),
            Source::Set | Source::Remote => Cow::Owned(self.link.news(change, at)),
        };
        self.link.change(change, at)?;
        self.changed(at);
        self.account.changed(at, asked, &news, source);
        Ok(())
    }

    /// The link is another one since `at`.
    fn changed(&mut self, at: Instant) {
        self.cut_bursts();
        self.stamps.advanced(at);
        self.collect();
    }

    /// A link that has become slow, or tells packets apart, has bursts cut from now on. They stay
    /// cut: a link that changes to and fro would have bursts of both kinds under way.
    fn cut_bursts(&mut self) {
        if self.queue.keeps_bursts() && self.link.config().resolved_gso() == Gso::Split {
            // Fails only where the kernel is short of memory; the next change asks again.
            let _ = self.queue.set_gso(false);
        }
    }
}

/// What one look found: a set, then a rate.
pub(super) type News = [Option<Found>; 2];
