//! Scheduling claims as scenarios in virtual time.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod any;
mod delay;
mod disciplines;
mod fairness;
mod lateness;
mod queue;
mod rate;
mod trace;

use punctual_sched::{Duration, LinkConfig, Rate};
use punctual_sim::{Fate, Outcome, Scenario, Source, Traffic};

/// A scenario over the link of these words.
fn over(link: &str) -> Scenario {
    Scenario::new(LinkConfig::parse(link, "link").unwrap())
}

fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn constant(text: &str) -> Source {
    Source::new(Traffic::Constant(rate(text)))
}

/// Runs it and keeps every fate; checks what holds for every scenario.
fn fates(scenario: &Scenario) -> (Outcome, Vec<Fate>) {
    let mut fates = Vec::new();
    let outcome = scenario.run_observed(|fate| fates.push(*fate)).unwrap();
    let sent: u64 = outcome.flows.iter().map(|flow| flow.sent).sum();
    assert_eq!(outcome.link.packets_in, sent);
    assert_eq!(fates.len() as u64 + outcome.link.queued, sent, "every packet has one fate");
    (outcome, fates)
}
