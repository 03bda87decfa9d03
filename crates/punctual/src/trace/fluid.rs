//! Single deliveries as rates.

use punctual_sched::trace::{Course, Delivery, Step, Timeline};
use punctual_sched::{Duration, Rate};

/// The window that a trace of whole milliseconds is turned into rates over, unless told.
pub const WINDOW: Duration = Duration::from_millis(10);

/// Rates that carry in each `window` what the opportunities of that time carry; steps stay as they
/// are.
///
/// An opportunity belongs to the window in which it ends: one at the end of a window to it, one at
/// 0 to the first. The last window ends with the timeline. Rates are whole bits per second, rounded
/// down; what that leaves over is added to the next window, so that the sum is exact to one bit/s
/// of the last window. What is beyond 10^12 bit/s is lost. Equal windows in a row are one step.
pub fn fluid(timeline: &Timeline, window: Duration) -> Timeline {
    let Course::Deliveries { at, opportunity } = &timeline.course else { return timeline.clone() };
    let span = timeline.span.as_nanos();
    let window = window.as_nanos().max(1);
    let bits = u128::from(opportunity.bytes) * 8;
    let mut flow = Flow::default();
    let mut rest = &at[..];
    let mut start = 0;
    while start < span {
        let end = start.saturating_add(window).min(span);
        let count = until(&mut rest, Duration::from_nanos(end));
        flow.window(start, end, u128::from(count) * bits);
        // Over a long outage at once: the windows of it are equal.
        let next = rest.first().map_or(span, |delivery| delivery.at.as_nanos());
        let skipped = next.saturating_sub(end).saturating_sub(1) / window * window;
        if skipped > 0 && flow.is_paused(window) {
            flow.window(end, end + skipped, 0);
        }
        start = flow.end;
    }
    Timeline { course: Course::Steps(flow.steps), span: timeline.span }
}

/// Opportunities up to `end`, which are taken off.
fn until(rest: &mut &[Delivery], end: Duration) -> u64 {
    let passed = rest.iter().take_while(|delivery| delivery.at <= end).count();
    let (taken, left) = rest.split_at(passed);
    *rest = left;
    taken.iter().map(|delivery| u64::from(delivery.count)).sum()
}

/// Rates of windows, one after the other.
#[derive(Default)]
struct Flow {
    steps: Vec<Step>,
    /// What the rates so far are behind, in bits times 10^9.
    behind: u128,
    end: u64,
}

impl Flow {
    fn window(&mut self, start: u64, end: u64, bits: u128) {
        let length = u128::from(end - start).max(1);
        let owed = bits.saturating_mul(1_000_000_000).saturating_add(self.behind);
        let most = u128::from(Rate::MAX.as_bps());
        let bps = (owed / length).min(most);
        self.behind = owed % length;
        self.end = end;
        let rate = u64::try_from(bps).ok().and_then(Rate::from_bps);
        if self.steps.last().is_none_or(|last| last.rate != rate) {
            self.steps.push(Step { at: Duration::from_nanos(start), rate, ..Step::default() });
        }
    }

    /// What is left over makes no rate of a window without opportunities.
    fn is_paused(&self, window: u64) -> bool {
        let paused = self.steps.last().is_some_and(|last| last.rate == Some(Rate::PAUSE));
        paused && self.behind < u128::from(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use punctual_sched::trace::Opportunity;

    fn timeline(at: &[(u64, u32)], span: u64, bytes: u32) -> Timeline {
        let millis = |&(at, count)| Delivery { at: Duration::from_millis(at), count };
        let at = at.iter().map(millis).collect();
        let opportunity = Opportunity { bytes, per_packet: 0 };
        Timeline {
            course: Course::Deliveries { at, opportunity },
            span: Duration::from_millis(span),
        }
    }

    fn rates(timeline: &Timeline) -> Vec<(u64, u64)> {
        let Course::Steps(steps) = &timeline.course else { panic!("{timeline:?}") };
        let rate = |step: &Step| step.rate.unwrap().as_bps();
        steps.iter().map(|step| (step.at.as_nanos() / 1_000_000, rate(step))).collect()
    }

    #[test]
    fn a_window_carries_what_its_opportunities_carry() {
        let trace = timeline(&[(1, 1), (2, 1), (10, 2), (11, 1), (35, 1)], 35, 1_250);
        let windows = rates(&fluid(&trace, Duration::from_millis(10)));
        assert_eq!(windows, [(0, 4_000_000), (10, 1_000_000), (20, 0), (30, 2_000_000)]);
    }

    #[test]
    fn an_outage_of_hours_is_one_step() {
        let trace = timeline(&[(1, 1), (36_000_000, 1)], 36_000_000, 1_504);
        let windows = rates(&fluid(&trace, Duration::from_millis(1)));
        assert_eq!(windows, [(0, 12_032_000), (1, 0), (35_999_999, 12_032_000)]);
    }

    proptest! {
        #[test]
        fn the_integral_of_the_rates_is_that_of_the_opportunities(
            gaps in prop::collection::vec((0_u64..50, 1_u32..20), 1..200),
            bytes in 1_u32..3_000,
            window in 1_000_000_u64..100_000_000,
        ) {
            let mut now = 0;
            let mut at: Vec<(u64, u32)> = Vec::new();
            for (gap, count) in gaps {
                now += gap + 1;
                at.push((now, count));
            }
            let trace = timeline(&at, now, bytes);
            let fluid = fluid(&trace, Duration::from_nanos(window));
            let Course::Steps(steps) = &fluid.course else { panic!() };
            let ends = steps.iter().skip(1).map(|step| step.at).chain([fluid.span]);
            let parts = steps.iter().zip(ends).map(|(step, end)| {
                let time = u128::from(end.as_nanos() - step.at.as_nanos());
                u128::from(step.rate.unwrap().as_bps()) * time
            });
            let sum: u128 = parts.sum();
            let bits: u128 = at.iter().map(|&(_, count)| u128::from(count)).sum::<u128>()
                * u128::from(bytes) * 8;
            let exact = bits * 1_000_000_000;
            // One bit/s over the last window at most.
            prop_assert!(sum <= exact && exact - sum <= u128::from(fluid.span.as_nanos()), "{sum} {exact}");
            prop_assert!(steps.windows(2).all(|pair| pair[0].at < pair[1].at));
        }
    }
}
