//! What is run.

use punctual_sched::{Change, ConfigError, Duration, LinkConfig};

use crate::driver::Driver;
use crate::outcome::{Fate, Outcome};
use crate::source::Source;
use crate::wakes::Wakes;

/// A link, its senders, its driver. Virtual time begins at 0.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The link.
    pub link: LinkConfig,
    /// Who sends over it; a flow each.
    pub sources: Vec<Source>,
    /// Live changes, each at its time.
    pub changes: Vec<(Duration, Change)>,
    /// How late the driver wakes up.
    pub wakes: Wakes,
    /// Senders stop at this time; what the link still holds then is carried to its end.
    pub duration: Duration,
    /// Everything random follows from it.
    pub seed: u64,
}

impl Scenario {
    /// One second over `link`, a punctual driver, nobody sending.
    pub fn new(link: LinkConfig) -> Self {
        Self {
            link,
            sources: Vec::new(),
            changes: Vec::new(),
            wakes: Wakes::Punctual,
            duration: Duration::from_secs(1),
            seed: 1,
        }
    }

    /// Runs it to its end. Fails when the link's configuration, or a change, is refused.
    pub fn run(&self) -> Result<Outcome, ConfigError> {
        self.run_observed(|_| {})
    }

    /// Runs it and shows every packet's fate, in the order of decision.
    pub fn run_observed(&self, observe: impl FnMut(&Fate)) -> Result<Outcome, ConfigError> {
        Driver::new(self, observe)?.run()
    }
}
