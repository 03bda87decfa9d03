//! The report's section of the impairments: what was asked for beside what came out.

use punctual_measure::difference_ns;
use punctual_measure::report::{Impairments, Jitter, Share};
use punctual_sched::impair::{Correlated, Impair, Reorder, Share as Counts};
use punctual_sched::{Duration, LinkConfig, Probability, Snapshot};

/// Of a direction.
pub(super) fn impairments(config: &LinkConfig, snapshot: &Snapshot) -> Impairments {
    if config.impair == Impair::Netem {
        return Impairments::default();
    }
    let counts = &snapshot.impairments;
    let asked = |share: Correlated| share != Correlated::NEVER;
    let of = |share: Correlated, counts| with(ppm(share.probability), counts);
    // A live change may have taken a loss away, or brought one.
    let lossy = !config.loss.is_none() || counts.loss.opportunities > 0;
    let spread = config.jitter != Duration::ZERO || counts.jitter.packets > 0;
    Impairments {
        loss: lossy.then(|| with(config.loss.expected_ppm(), counts.loss)),
        loss_marked: config.ecn.then_some(counts.loss_marked),
        duplicate: asked(config.duplicate).then(|| of(config.duplicate, counts.duplicate)),
        corrupt: asked(config.corrupt).then(|| of(config.corrupt, counts.corrupt)),
        reorder: match config.reorder {
            Reorder::Skip { probability, .. } => Some(with(ppm(probability), counts.reorder)),
            Reorder::None | Reorder::Jitter => None,
        },
        jitter: spread.then(|| Jitter {
            asked_ns: difference_ns(config.jitter.as_nanos(), 0),
            min_ns: counts.jitter.least_ns(),
            mean_ns: counts.jitter.mean_ns(),
            max_ns: counts.jitter.greatest_ns(),
        }),
        slots: config.slot.is_some().then_some(counts.slots),
    }
}

fn with(asked_ppm: u32, counts: Counts) -> Share {
    Share::new(asked_ppm.into(), counts.events, counts.opportunities)
}

/// In millionths, rounded to the nearest.
fn ppm(share: Probability) -> u32 {
    punctual_sched::impair::Loss::random(share).expected_ppm()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_sched::{Instant, Link, Packet};

    fn reported(text: &str) -> Impairments {
        let config = LinkConfig::parse(text, "--up").unwrap();
        let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
        for handle in 0..100 {
            link.arrive(Packet::on_path(handle, Instant::from_nanos(handle), 1000, 7));
        }
        link.advance(Instant::from_nanos(1_000_000_000));
        impairments(&config, &link.snapshot())
    }

    #[test]
    fn what_was_not_asked_for_has_no_section() {
        assert_eq!(reported("delay=1ms"), Impairments::default());
        assert_eq!(reported("delay=1ms loss=1% impair=netem"), Impairments::default());
    }

    #[test]
    fn what_was_asked_for_is_beside_what_came_out() {
        let found = reported(
            "delay=1ms jitter=1us loss=gemodel,0%,1%,1%,0.5% ecn=on duplicate=100% corrupt=100% \
             reorder=100%,gap=4 slot=1us,packets=1",
        );
        let duplicate = found.duplicate.unwrap();
        assert_eq!((duplicate.asked_ppm, duplicate.realised_ppm), (1_000_000, Some(1_000_000)));
        let loss = found.loss.unwrap();
        assert_eq!((loss.asked_ppm, loss.opportunities, found.loss_marked), (5_000, 100, Some(0)));
        let left = 100 - loss.events;
        assert_eq!((duplicate.events, found.corrupt.unwrap().events), (left, 2 * left));
        let reorder = found.reorder.unwrap();
        assert_eq!((reorder.events, reorder.opportunities), (2 * left / 4, 2 * left / 4));
        assert_eq!(found.jitter.unwrap().asked_ns, 1_000);
        assert_eq!(found.slots, Some(2 * left));
    }
}
