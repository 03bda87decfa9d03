//! `netem.*`: what `impair=netem` has beside the parameters of every link.

use super::validate::ensure;
use super::{Live, Parameter, integer, narrow, or, unless};
use crate::config::{ConfigError, Limit, LinkConfig, QueueKind};
use crate::impair::{Reorder, SlotGap};
use crate::netem::NetemConfig;
use crate::time::Duration;
use crate::units::{Bytes, Rate, UnitError};

pub(super) const ROWS: &[Parameter] = &[
    Parameter {
        name: "netem.limit",
        takes: "PACKETS",
        default: "1000p",
        help: "packets held; rate x delay / packet size is the least that a path needs",
        live: Live::Yes,
        set: |c, v| packets(v).map(|v| c.netem.limit = v),
        get: |c| Limit::Packets(c.netem.limit).to_string(),
    },
    Parameter {
        name: "netem.packet_overhead",
        takes: "BYTES",
        default: "0",
        help: "bytes added to each packet before the rate counts it; may be negative",
        live: Live::Yes,
        set: |c, v| integer(v).map(|v| c.netem.packet_overhead = v),
        get: |c| c.netem.packet_overhead.to_string(),
    },
    Parameter {
        name: "netem.cell_size",
        takes: "BYTES",
        default: "0b",
        help: "payload of a link-layer cell; 0 = no cells",
        live: Live::Yes,
        set: |c, v| narrow(v).map(|v| c.netem.cell_size = v),
        get: |c| Bytes(c.netem.cell_size.into()).to_string(),
    },
    Parameter {
        name: "netem.cell_overhead",
        takes: "BYTES",
        default: "0",
        help: "bytes added to each cell; may be negative",
        live: Live::Yes,
        set: |c, v| integer(v).map(|v| c.netem.cell_overhead = v),
        get: |c| c.netem.cell_overhead.to_string(),
    },
    Parameter {
        name: "netem.seed",
        takes: "NUMBER|auto",
        default: "auto",
        help: "seed of the decisions, as tc's; auto: derived from the link's",
        live: Live::Yes,
        set: |c, v| unless("auto", v, seed).map(|v| c.netem.seed = v),
        get: |c| or("auto", c.netem.seed),
    },
];

impl LinkConfig {
    /// Ranges of `impair=netem`, and what its place in the link excludes.
    pub(super) fn check_netem(&self) -> Result<(), ConfigError> {
        let fifo = self.queue == QueueKind::Fifo;
        ensure(fifo, "queue", || "impair=netem is the queue itself, expected fifo".into())?;
        ensure(self.limit.is_none(), "limit", || {
            "impair=netem is the queue itself, expected netem.limit".into()
        })?;
        let serialiser = "impair=netem serialises every packet, expected none";
        ensure(self.burst.is_none(), "burst", || serialiser.into())?;
        ensure(self.peakrate.is_none(), "peakrate", || serialiser.into())?;
        ensure(self.rate >= LEAST_RATE, "rate", || {
            format!(
                "netem gives a packet its send time when it arrives and cannot do so at {}, \
                 expected {LEAST_RATE} to {} or unlimited",
                self.rate,
                Rate::MAX
            )
        })?;
        ensure(self.reorder != Reorder::Jitter, "reorder", || {
            "netem's jitter reorders by itself unless a rate is set, expected none or PERCENT"
                .into()
        })?;
        check_jitter("jitter", self.jitter)?;
        if let Some(SlotGap::Spread { jitter, .. }) = self.slot.as_ref().map(|slot| &slot.gap) {
            check_jitter("slot", *jitter)?;
        }
        NetemConfig::from(self).validate()
    }
}

fn check_jitter(place: &'static str, jitter: Duration) -> Result<(), ConfigError> {
    let most = Duration::from_nanos(NetemConfig::MAX_JITTER.into());
    ensure(jitter <= most, place, || {
        format!("a jitter of {jitter} is more than {most}, to which netem cuts it")
    })
}

fn packets(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(Limit::Packets(packets)) => Ok(packets),
        Ok(Limit::Bytes(_) | Limit::Time(_)) | Err(UnitError::UnknownUnit { .. }) => {
            Err(format!("{text}: netem counts packets, expected for example 1000p"))
        }
        Err(UnitError::MissingUnit { text, .. }) => {
            Err(UnitError::MissingUnit { text, example: "1000p" }.to_string())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("\"{text}\" is no whole number from 0 to 2^64 - 1, nor auto"))
}

/// Below a byte per second netem sees no rate at all.
const LEAST_RATE: Rate = match Rate::from_bps(8) {
    Some(rate) => rate,
    None => Rate::MAX,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Change;
    use crate::{Instant, Link};

    #[test]
    fn netems_parameters_are_read_and_shown() {
        let words = "impair=netem delay=1ms jitter=2ms rate=1mbit netem.limit=8334p \
                     netem.packet_overhead=-14 netem.cell_size=48 netem.cell_overhead=5 \
                     netem.seed=18446744073709551615";
        let config = LinkConfig::parse(words, "up").expect("a valid link");
        let entries = config.entries();
        for (name, value) in [
            ("netem.limit", "8334p"),
            ("netem.packet_overhead", "-14"),
            ("netem.cell_size", "48b"),
            ("netem.cell_overhead", "5"),
            ("netem.seed", "18446744073709551615"),
            ("limit", "auto"),
        ] {
            assert!(entries.contains(&(name, value.to_owned())), "{name}={value}: {entries:?}");
        }
        let own = LinkConfig::default().entries();
        assert!(own.iter().all(|(name, _)| !name.starts_with("netem.")));
    }

    #[test]
    fn what_netem_cannot_do_is_refused() {
        for (words, message) in [
            ("limit=1000p", "limit: impair=netem is the queue itself, expected netem.limit"),
            ("rate=1mbit burst=15kb", "burst: impair=netem serialises every packet, expected none"),
            (
                "rate=0",
                "rate: netem gives a packet its send time when it arrives and cannot do so at \
                 0bit, expected 8bit to 1tbit or unlimited",
            ),
            (
                "rate=7bit",
                "rate: netem gives a packet its send time when it arrives and cannot do so at \
                 7bit, expected 8bit to 1tbit or unlimited",
            ),
            (
                "delay=1ms jitter=1ms reorder=jitter",
                "reorder: netem's jitter reorders by itself unless a rate is set, expected none or \
                 PERCENT",
            ),
            (
                "delay=9s jitter=3s",
                "jitter: a jitter of 3s is more than 2147483647ns, to which netem cuts it",
            ),
            (
                "slot=normal,1ms,3s",
                "slot: a jitter of 3s is more than 2147483647ns, to which netem cuts it",
            ),
            (
                "loss=state,60%,100%,0%,100%,60%",
                "loss: P13 and P14 are over 100% together, which netem wraps around",
            ),
            (
                "loss=state,1%,50%,50%",
                "loss: P31 and P32 are over 100% together, which netem wraps around",
            ),
            ("distribution=normal", "distribution: needs a delay and a jitter"),
            (
                "reorder=5%",
                "reorder: needs a delay: what is sent at once overtakes only what waits",
            ),
            ("ecn=on", "ecn: needs a loss: it marks what loss takes"),
            ("netem.cell_overhead=5", "netem.cell_overhead: needs a netem.cell_size"),
            ("netem.limit=0p", "netem.limit: 0p holds no packet"),
            (
                "netem.limit=200kb",
                "netem.limit: 200kb: netem counts packets, expected for example 1000p",
            ),
            ("netem.limit=1000", "netem.limit: \"1000\" has no unit, expected for example 1000p"),
            ("delay=100", "delay: \"100\" has no unit, expected for example 30ms"),
            ("netem.seed=x", "netem.seed: \"x\" is no whole number from 0 to 2^64 - 1, nor auto"),
        ] {
            let error = LinkConfig::parse(&format!("impair=netem {words}"), "--up");
            assert_eq!(error.expect_err(words).to_string(), format!("--up: {message}"), "{words}");
        }
        let error = LinkConfig::parse("netem.limit=5p", "--up").expect_err("needs netem");
        assert_eq!(error.to_string(), "--up: netem.limit: needs impair=netem");
    }

    #[test]
    fn where_netem_loses_cannot_be_chosen() {
        for at in ["before", "after"] {
            let words = format!("loss=1% loss.at={at} impair=netem");
            assert_eq!(
                LinkConfig::parse(&words, "--up").expect_err("netem decides").to_string(),
                "--up: loss.at: netem loses before it holds, expected none with impair=netem"
            );
        }
    }

    #[test]
    fn what_netem_can_do_is_accepted() {
        for words in [
            "",
            "delay=1ms jitter=5ms",
            "delay=1ms jitter=1ms,100% loss=1%,100%",
            "nic=1gbit rate=8bit",
            "loss=state,50%,50%,49.9%,100%,49.9%",
            "slot=normal,1ms,2s",
        ] {
            LinkConfig::parse(&format!("impair=netem {words}"), "--up").expect(words);
        }
    }

    #[test]
    fn a_live_change_that_netem_cannot_follow_changes_nothing() {
        let config = LinkConfig::parse("impair=netem delay=10ms rate=1mbit", "up").expect("valid");
        let mut link = Link::new(&config, 1, Instant::ZERO).expect("valid");
        for words in ["rate=0", "limit=5p", "rate=10mbit jitter=3s"] {
            let change = Change::from_words(words, "up").expect("a change");
            link.change(&change, Instant::ZERO).expect_err(words);
        }
        let change =
            Change::from_words("delay=0ms rate=unlimited loss=100%", "up").expect("a change");
        link.change(&change, Instant::ZERO).expect("what netem follows");
        link.arrive(crate::Packet::on_path(0, Instant::ZERO, 100, 1));
        assert_eq!(link.snapshot().dropped.iter().sum::<u64>(), 1);
    }
}
