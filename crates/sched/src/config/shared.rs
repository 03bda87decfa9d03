//! Whether flows can be served apart from one another.

use super::{ConfigError, LinkConfig, QueueKind};
use crate::impair::{Correlated, Impair, Loss, Reorder};
use crate::units::{Probability, Rate};

/// What ties the packets of different flows together: a parameter, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Its dotted name.
    pub parameter: &'static str,
    /// Why, as the rest of a sentence about it.
    pub why: &'static str,
}

impl LinkConfig {
    /// The first parameter, if there is any, by which the fate of a packet depends on packets of other
    /// flows. Without one a link is as good as several with the same parameters among which flows are
    /// divided: each packet has its own delay, its own draws, and an order among its own flow only.
    ///
    /// Two things are taken for independent although one link has one of each: the memory of
    /// `hold`, which several links get in equal parts ([`Self::divided`]), and the wait by which
    /// `jitter` keeps order, which is then among fewer packets.
    pub fn shared(&self) -> Option<Shared> {
        // Without `..`: whoever adds a parameter has to say here what it shares. Those of a discipline
        // mean nothing without it, and `netem.*` nothing without `impair=netem`.
        let Self {
            rate,
            framing: _,
            overhead: _,
            burst,
            peakrate,
            nic,
            delay: _,
            jitter: _,
            jitter_correlation,
            distribution: _,
            reorder,
            slot,
            loss,
            loss_at: _,
            ecn: _,
            duplicate,
            corrupt,
            impair,
            netem: _,
            queue,
            dualpi2: _,
            codel: _,
            fq_codel: _,
            tbf: _,
            limit,
            derived_limit,
            gso: _,
            hold_limit: _,
            fq: _,
            jens: _,
            trace_options,
            trace,
        } = self;
        let draws = draws(*jitter_correlation, loss, (*duplicate, *corrupt), *reorder);
        [
            (
                trace.is_some() || trace_options.file.is_some(),
                "trace",
                "gives what it has to all flows",
            ),
            (*rate != Rate::UNLIMITED, "rate", "is one bottleneck for all flows"),
            (nic.is_some(), "nic", "is one bottleneck for all flows"),
            (burst.is_some(), "burst", "is one bucket of tokens for all flows"),
            (peakrate.is_some(), "peakrate", "is one bottleneck for all flows"),
            (*queue != QueueKind::Fifo, "queue", "is one discipline for all flows"),
            (limit.is_some() || derived_limit.is_some(), "limit", "is of one queue for all flows"),
            (*impair != Impair::Own, "impair", "is one stage for all flows"),
            (slot.is_some(), "slot", "counts the packets of all flows"),
        ]
        .into_iter()
        .chain(draws)
        .find_map(|(shared, parameter, why)| shared.then_some(Shared { parameter, why }))
    }

    /// Refuses parameters of a link that several serve side by side.
    pub fn check_divided(&self) -> Result<(), ConfigError> {
        let Some(Shared { parameter, why }) = self.shared() else { return Ok(()) };
        Err(ConfigError::new(
            parameter,
            format!(
                "it {why}, and several threads serve them here: start the run with it, or with --threads 2"
            ),
        ))
    }

    /// The parameters of each of `links` that together stand for one with these.
    #[must_use]
    pub fn divided(&self, links: u8) -> Self {
        let hold_limit = (self.hold_limit / u64::from(links.max(1))).max(1);
        Self { hold_limit, ..self.clone() }
    }
}

/// Draws that depend on those for packets before: whether, the parameter, and why that is shared.
fn draws(
    jitter: Probability,
    loss: &Loss,
    (duplicate, corrupt): (Correlated, Correlated),
    reorder: Reorder,
) -> [(bool, &'static str, &'static str); 5] {
    let correlated = |correlation: Probability| correlation != Probability::ZERO;
    [
        (correlated(jitter), "jitter", BEFORE),
        (!loss_is_independent(loss), "loss", BEFORE),
        (correlated(duplicate.correlation), "duplicate", BEFORE),
        (correlated(corrupt.correlation), "corrupt", BEFORE),
        (!reorder_is_independent(reorder), "reorder", BEFORE),
    ]
}

fn loss_is_independent(loss: &Loss) -> bool {
    match loss {
        Loss::None => true,
        Loss::Random { correlation, .. } => *correlation == Probability::ZERO,
        // States that every packet may change.
        Loss::GilbertElliott { .. } | Loss::FourState { .. } => false,
    }
}

fn reorder_is_independent(reorder: Reorder) -> bool {
    match reorder {
        Reorder::None | Reorder::Jitter => true,
        Reorder::Skip { correlation, gap, .. } => correlation == Probability::ZERO && gap <= 1,
    }
}

const BEFORE: &str = "follows the packets before, whosever they are";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DerivedLimit;
    use crate::{Instant, Link, Output, Packet, Snapshot};

    fn shared(words: &str) -> Option<&'static str> {
        let config = LinkConfig::parse(words, "--up").unwrap();
        config.shared().map(|shared| shared.parameter)
    }

    #[test]
    fn what_each_packet_has_for_itself_divides() {
        for words in [
            "",
            "delay=10ms",
            "delay=10ms jitter=3ms",
            "delay=10ms jitter=3ms distribution=pareto",
            "delay=10ms jitter=3ms reorder=jitter",
            "delay=10ms reorder=10%",
            "loss=1%",
            "loss=1% ecn=on",
            "loss=1% loss.at=before",
            "duplicate=1%",
            "corrupt=1%",
            "gso=keep",
            "gso=split",
            "hold=1mb",
            "framing=38 overhead=4",
            "rate=unlimited",
        ] {
            assert_eq!(shared(words), None, "{words}");
        }
    }

    #[test]
    fn what_flows_share_does_not_and_is_named() {
        for (words, parameter) in [
            ("rate=1gbit", "rate"),
            ("rate=0", "rate"),
            ("rate=1gbit burst=10k", "rate"),
            ("rate=1gbit burst=10k peakrate=2gbit", "rate"),
            ("nic=1gbit", "nic"),
            ("queue=fq", "queue"),
            ("queue=fq_codel delay=1ms", "queue"),
            ("queue=codel", "queue"),
            ("queue=dualpi2 rate=1mbit", "rate"),
            ("queue=tbf rate=1mbit burst=3k", "rate"),
            ("queue=jens rate=1mbit", "rate"),
            ("limit=100p", "limit"),
            ("limit=100k delay=1ms", "limit"),
            ("impair=netem delay=1ms", "impair"),
            ("slot=1ms", "slot"),
            ("slot=1ms,2ms,packets=3", "slot"),
            ("delay=10ms jitter=3ms,25%", "jitter"),
            ("loss=1%,25%", "loss"),
            ("loss=gemodel,1%,10%", "loss"),
            ("loss=state,1%,10%", "loss"),
            ("duplicate=1%,25%", "duplicate"),
            ("corrupt=1%,25%", "corrupt"),
            ("delay=10ms reorder=10%,50%", "reorder"),
            ("delay=10ms reorder=10%,gap=5", "reorder"),
        ] {
            assert_eq!(shared(words), Some(parameter), "{words}");
        }
    }

    const DERIVED: DerivedLimit = DerivedLimit { bytes: 1, provisional: false };

    #[test]
    fn buckets_and_traces_are_shared_by_themselves() {
        let named = |change: fn(&mut LinkConfig)| {
            let mut config = LinkConfig::default();
            change(&mut config);
            config.shared().map(|shared| shared.parameter)
        };
        assert_eq!(named(|config| config.burst = Some(3_000)), Some("burst"));
        assert_eq!(named(|config| config.peakrate = Some(Rate::PAUSE)), Some("peakrate"));
        assert_eq!(named(|config| config.derived_limit = Some(DERIVED)), Some("limit"));
        assert_eq!(named(|config| config.trace_options.file = Some("t".into())), Some("trace"));
    }

    #[test]
    fn a_refusal_names_parameter_reason_and_remedy() {
        let config = LinkConfig::parse("rate=1mbit", "--up").unwrap();
        let error = config.check_divided().unwrap_err();
        assert_eq!(error.place, "rate");
        let problem = "it is one bottleneck for all flows, and several threads serve them here: start \
                       the run with it, or with --threads 2";
        assert_eq!(error.problem, problem);
        LinkConfig::parse("delay=1ms", "--up").unwrap().check_divided().unwrap();
    }

    #[test]
    fn memory_is_divided_and_never_nothing() {
        let config = LinkConfig { hold_limit: 100, ..LinkConfig::default() };
        assert_eq!([1, 3, 200].map(|links| config.divided(links).hold_limit), [100, 33, 1]);
    }

    #[test]
    fn links_side_by_side_delay_as_one_does() {
        let config = LinkConfig::parse("delay=3ms", "--up").unwrap();
        let mut one = Link::new(&config, 1, Instant::ZERO).unwrap();
        let mut several = [1, 2].map(|seed| {
            let config = config.divided(2);
            Link::new(&config, seed, Instant::ZERO).unwrap()
        });
        for handle in 0..1_000 {
            let flow = u32::try_from(handle % 7).unwrap();
            let arrival = Instant::from_nanos(handle * 1_700);
            let packet = Packet::on_path(handle, arrival, 1_000, flow);
            one.arrive(packet);
            several[usize::from(flow > 3)].arrive(packet);
        }
        let departures = |link: &mut Link| {
            link.advance(Instant::from_nanos(1_000_000_000));
            core::iter::from_fn(|| link.poll())
                .map(|output| match output {
                    Output::Depart { packet, due, .. } => (due, packet.handle),
                    Output::Drop { .. } => panic!("{output:?}"),
                })
                .collect::<Vec<_>>()
        };
        let mut together = several.each_mut().map(departures).concat();
        together.sort_unstable();
        assert_eq!(departures(&mut one), together);
        let [mut sum, other] = several.map(|link| link.snapshot());
        sum.add(&other);
        let one = one.snapshot();
        assert!(sum.held_peak_bytes >= one.held_peak_bytes && sum.packets_out == 1_000);
        let without_peaks =
            |snapshot| Snapshot { held_peak_bytes: 0, backlog_peak_bytes: 0, ..snapshot };
        assert_eq!(without_peaks(sum), without_peaks(one));
    }
}
