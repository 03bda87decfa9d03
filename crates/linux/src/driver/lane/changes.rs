//! How a lane's link is changed while it runs.

use punctual_sched::{Change, ConfigError, Instant};

use super::Lane;
use crate::driver::account::{Account, Source};
use crate::driver::remote::{Answer, Applied, Question, Request, Requests, Seen};

impl<A: Account> Lane<A> {
    /// Does what others ask for, at the latest time given to the link.
    pub(super) fn answer(&mut self) {
        let requests = self.requests.as_ref().map_or_else(Vec::new, Requests::take);
        for request in requests {
            let at = self.latest();
            let answer = match request.question() {
                Question::Change(change) => self.change_as_asked(change, &request),
                Question::Snapshot => Ok(Answer::Seen(Box::new(Seen {
                    snapshot: self.link.snapshot(),
                    config: self.link.config().clone(),
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
        let changed = self.link.config().changes(change);
        if changed {
            self.change(change, at, (Some(request.asked()), Source::Remote))?;
        } else {
            self.link.config().changed(change).validate()?;
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
        self.link.change(change, at)?;
        self.stamps.advanced(at);
        self.collect();
        self.account.changed(at, asked, change, source);
        Ok(())
    }
}
