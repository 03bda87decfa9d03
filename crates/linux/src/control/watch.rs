//! The link's end of the control block: what is new in it, and whether it can be believed.

use std::sync::atomic::Ordering;

use punctual_sched::config::Limit;
use punctual_sched::impair::Loss;
use punctual_sched::{Change, ConfigError, Duration, Instant, Probability, Rate};

use super::block::{DEAD, SET_WORDS, SetValue};
use super::{ControlBlock, Side};
use crate::driver::Source;

/// Looks at one direction's words: two loads while nothing is new.
#[derive(Debug)]
pub struct Watch {
    block: ControlBlock,
    side: Side,
    /// What the rate word held at the last look.
    rate: u64,
    /// The last set's generation.
    generation: u64,
    /// An odd generation and since when it has been so; `None` once that was told.
    unfinished: Option<(u64, Option<Instant>)>,
}

/// What was found in the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Change(Change, Source),
    Ignored(Ignored),
}

/// Something in the control block that was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Where it stood.
    pub source: Source,
    /// The parameter that is the trouble; `set` where it is none alone.
    pub parameter: String,
    /// What its word held.
    pub value: u64,
    /// Why it was not done.
    pub reason: Reason,
}

/// Why something in the control block was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// No value of this parameter.
    #[error("out of range")]
    Range,
    /// The mask has bits that name nothing, or both limits.
    #[error("the mask names no values, unknown ones, or both limits")]
    Mask,
    /// The generation has been odd for a second.
    #[error("a writer has died in the midst of a set")]
    Unfinished,
    /// The link cannot be so.
    #[error(transparent)]
    Refused(ConfigError),
}

impl Watch {
    pub(super) fn new(block: ControlBlock, side: Side) -> Self {
        let rate = block.rate(side);
        let generation = block.set_lock(side).generation();
        Self { block, side, rate, generation, unfinished: None }
    }

    /// What is new at `now`: at most a set, then a rate.
    #[inline]
    pub(crate) fn look(&mut self, now: Instant) -> [Option<Found>; 2] {
        let rate = self.block.rate(self.side);
        let generation = self.block.set_lock(self.side).generation();
        if (rate, generation) == (self.rate, self.generation) {
            return [None, None];
        }
        [self.look_at_set(generation, now), self.look_at_rate(rate)]
    }

    /// Whether a [`look`](Self::look) may find anything.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        let generation = self.block.set_lock(self.side).generation();
        (self.block.rate(self.side), generation) != (self.rate, self.generation)
    }

    /// Writes the rate in force into the word, unless somebody has stored another since it was last
    /// looked at: that one will be seen.
    #[inline]
    pub(crate) fn settle(&mut self, in_force: Rate) {
        let rate = in_force.as_bps();
        if rate == self.rate {
            return;
        }
        let word = self.block.rate_word(self.side);
        let (seen, ours) = (self.rate.to_le(), rate.to_le());
        if word.compare_exchange(seen, ours, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.rate = rate;
        }
    }

    fn look_at_rate(&mut self, bps: u64) -> Option<Found> {
        if bps == self.rate {
            return None;
        }
        self.rate = bps;
        Some(match Rate::from_bps(bps) {
            Some(rate) => {
                Found::Change(Change { rate: Some(rate), ..Change::default() }, Source::Word)
            }
            None => ignored(Source::Word, "rate", bps, Reason::Range),
        })
    }

    fn look_at_set(&mut self, generation: u64, now: Instant) -> Option<Found> {
        if generation == self.generation {
            return None;
        }
        if generation % 2 == 1 {
            return self.look_at_unfinished(generation, now);
        }
        // While it is being written anew there is nothing to read; the next look will see it.
        let (generation, [mask, values @ ..]) =
            self.block.set_lock(self.side).read::<SET_WORDS>()?;
        self.generation = generation;
        self.unfinished = None;
        Some(match change(mask, values) {
            Ok(change) => Found::Change(change, Source::Set),
            Err((parameter, value, reason)) => ignored(Source::Set, parameter, value, reason),
        })
    }

    fn look_at_unfinished(&mut self, generation: u64, now: Instant) -> Option<Found> {
        match self.unfinished {
            Some((odd, None)) if odd == generation => None,
            Some((odd, Some(since))) if odd == generation => {
                if now.since(since) < DEAD {
                    return None;
                }
                self.unfinished = Some((generation, None));
                Some(ignored(Source::Set, "set", generation, Reason::Unfinished))
            }
            _ => {
                self.unfinished = Some((generation, Some(now)));
                None
            }
        }
    }
}

type Trouble = (&'static str, u64, Reason);

/// What a set asks for.
fn change(mask: u64, values: [u64; SET_WORDS - 1]) -> Result<Change, Trouble> {
    let known = SetValue::ALL.iter().fold(0, |known, value| known | value.bit());
    let limits = SetValue::LimitPackets.bit() | SetValue::LimitBytes.bit();
    if mask == 0 || mask & !known != 0 || mask & limits == limits {
        return Err(("set", mask, Reason::Mask));
    }
    let mut change = Change::default();
    for name in SetValue::ALL.into_iter().filter(|name| mask & name.bit() != 0) {
        let value = values[name as usize];
        let out_of_range = || (name.name(), value, Reason::Range);
        let small = || u32::try_from(value).map_err(|_| out_of_range());
        match name {
            SetValue::Rate => {
                change.rate = Some(Rate::from_bps(value).ok_or_else(out_of_range)?);
            }
            SetValue::Delay => change.delay = Some(Duration::from_nanos(value)),
            SetValue::Jitter => change.jitter = Some(Duration::from_nanos(value)),
            SetValue::Loss => change.loss = Some(random_loss(Probability::from_raw(small()?))),
            SetValue::LimitPackets => change.limit = Some(Limit::Packets(small()?)),
            SetValue::LimitBytes => change.limit = Some(Limit::Bytes(value)),
        }
    }
    Ok(change)
}

fn random_loss(probability: Probability) -> Loss {
    if probability == Probability::ZERO {
        return Loss::None;
    }
    Loss::Random { probability, correlation: Probability::ZERO }
}

fn ignored(source: Source, parameter: &str, value: u64, reason: Reason) -> Found {
    Found::Ignored(Ignored { source, parameter: parameter.to_owned(), value, reason })
}

impl Ignored {
    /// A change that the link has refused: named is what was stored, whatever parameter the refusal
    /// is of.
    pub(crate) fn refused(source: Source, change: &Change, error: ConfigError) -> Self {
        let stored = stored(change);
        let named = stored.iter().find(|(name, _)| name.name() == error.place);
        let (parameter, value) = match (named, &stored[..]) {
            (Some((name, value)), _) | (None, [(name, value)]) => (name.name(), *value),
            _ => ("set", stored.iter().map(|(name, _)| name.bit()).sum()),
        };
        Self { source, parameter: parameter.to_owned(), value, reason: Reason::Refused(error) }
    }
}

/// The words that a change was read from.
fn stored(change: &Change) -> Vec<(SetValue, u64)> {
    let Change { rate, delay, jitter, loss, limit, others: _ } = *change;
    let loss = loss.map(|loss| match loss {
        Loss::Random { probability, .. } => probability.as_raw().into(),
        _ => 0,
    });
    let (packets, bytes) = match limit {
        Some(Limit::Packets(packets)) => (Some(packets.into()), None),
        Some(Limit::Bytes(bytes)) => (None, Some(bytes)),
        // No word names a time.
        Some(Limit::Time(_)) | None => (None, None),
    };
    [
        (SetValue::Rate, rate.map(Rate::as_bps)),
        (SetValue::Delay, delay.map(Duration::as_nanos)),
        (SetValue::Jitter, jitter.map(Duration::as_nanos)),
        (SetValue::Loss, loss),
        (SetValue::LimitPackets, packets),
        (SetValue::LimitBytes, bytes),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn watched() -> (ControlBlock, Watch) {
        let block = ControlBlock::create([Rate::from_bps(20_000_000).unwrap(); 2]).unwrap();
        let watch = block.watch(Side::Up);
        (block, watch)
    }

    fn parse(words: &str) -> Change {
        Change::from_words(words, "set").unwrap()
    }

    #[test]
    fn a_store_is_seen_once_and_the_other_directions_not_at_all() {
        let (block, mut watch) = watched();
        assert_eq!(watch.look(at(1)), [None, None]);
        block.store_rate(Side::Down, 1);
        block.store_spare(Side::Up, 1);
        assert_eq!(watch.look(at(1)), [None, None]);
        block.store_rate(Side::Up, 19_000_000);
        let change = Found::Change(parse("rate=19mbit"), Source::Word);
        assert_eq!(watch.look(at(1)), [None, Some(change)]);
        assert_eq!(watch.look(at(1)), [None, None]);
    }

    #[test]
    fn rates_out_of_range_are_ignored_once_each_and_taken_back() {
        let (block, mut watch) = watched();
        let in_force = Rate::from_bps(20_000_000).unwrap();
        for bad in [1_000_000_000_001, u64::MAX - 1, 1 << 63] {
            for _ in 0..2 {
                block.store_rate(Side::Up, bad);
                let [None, Some(Found::Ignored(ignored))] = watch.look(at(1)) else { panic!() };
                assert_eq!((ignored.parameter.as_str(), ignored.value), ("rate", bad));
                watch.settle(in_force);
                assert_eq!(block.rate(Side::Up), 20_000_000);
            }
        }
        for good in [0, 1, 1_000_000_000_000, u64::MAX] {
            block.store_rate(Side::Up, good);
            let [None, Some(Found::Change(change, _))] = watch.look(at(1)) else { panic!() };
            assert_eq!(change.rate.unwrap().as_bps(), good);
        }
    }

    #[test]
    fn the_rate_in_force_is_written_back_but_never_over_a_newer_store() {
        let (block, mut watch) = watched();
        watch.settle(Rate::PAUSE);
        assert_eq!((block.rate(Side::Up), watch.look(at(1))), (0, [None, None]));
        block.store_rate(Side::Up, 5);
        watch.settle(Rate::UNLIMITED);
        assert_eq!(block.rate(Side::Up), 5);
        assert_eq!(watch.look(at(1))[1], Some(Found::Change(parse("rate=5"), Source::Word)));
    }

    #[test]
    fn a_set_is_one_change_of_what_its_mask_names() {
        let (block, mut watch) = watched();
        let values = [(SetValue::Rate, 0), (SetValue::Delay, 5_000_000), (SetValue::Loss, 1 << 31)];
        block.set(Side::Up, &values).unwrap();
        let change = parse("rate=0 delay=5ms loss=50.000000012%");
        assert_eq!(watch.look(at(1)), [Some(Found::Change(change, Source::Set)), None]);
        block.set(Side::Up, &[(SetValue::LimitPackets, 9), (SetValue::Jitter, 0)]).unwrap();
        let change = parse("limit=9p jitter=0ms");
        assert_eq!(watch.look(at(1)), [Some(Found::Change(change, Source::Set)), None]);
    }

    #[test]
    fn a_set_with_a_value_out_of_range_is_ignored_as_a_whole() {
        let (block, mut watch) = watched();
        for (set, parameter) in [
            (&[(SetValue::Rate, 5), (SetValue::Loss, 1 << 32)][..], "loss"),
            (&[(SetValue::Rate, u64::MAX - 1), (SetValue::Delay, 1)], "rate"),
            (&[(SetValue::LimitPackets, 1 << 40)], "limit"),
            (&[(SetValue::LimitPackets, 1), (SetValue::LimitBytes, 1)], "set"),
            (&[], "set"),
        ] {
            block.set(Side::Up, set).unwrap();
            let [Some(Found::Ignored(ignored)), None] = watch.look(at(1)) else { panic!() };
            assert_eq!((ignored.parameter.as_str(), ignored.source), (parameter, Source::Set));
        }
    }

    #[test]
    fn what_is_refused_is_named_as_it_was_stored() {
        let (block, mut watch) = watched();
        for (set, place, parameter, value) in [
            (&[(SetValue::Rate, u64::MAX)][..], "queue", "rate", u64::MAX),
            (&[(SetValue::Loss, 9)], "impair", "loss", 9),
            (&[(SetValue::Rate, 5), (SetValue::Jitter, 7)], "jitter", "jitter", 7),
            (&[(SetValue::LimitPackets, 3)], "limit", "limit", 3),
            (&[(SetValue::LimitBytes, 3)], "queue", "limit", 3),
            (&[(SetValue::Rate, 0), (SetValue::Loss, 0)], "queue", "set", 0b1001),
        ] {
            block.set(Side::Up, set).unwrap();
            let [Some(Found::Change(change, source)), None] = watch.look(at(1)) else { panic!() };
            let error = ConfigError::new(place, "cannot be");
            let ignored = Ignored::refused(source, &change, error.clone());
            assert_eq!((ignored.parameter.as_str(), ignored.value), (parameter, value), "{place}");
            assert_eq!(ignored.reason, Reason::Refused(error));
        }
    }

    #[test]
    fn a_set_that_is_never_finished_is_told_once_and_holds_nothing_up() {
        let (block, mut watch) = watched();
        let _ = block.set_lock(Side::Up).begin().unwrap();
        assert_eq!(watch.look(at(1)), [None, None]);
        block.store_rate(Side::Up, 6);
        assert_eq!(watch.look(at(1))[1], Some(Found::Change(parse("rate=6"), Source::Word)));
        let [Some(Found::Ignored(ignored)), None] = watch.look(at(2)) else { panic!() };
        assert_eq!(ignored.reason, Reason::Unfinished);
        assert_eq!(watch.look(at(9)), [None, None]);
        block.set(Side::Up, &[(SetValue::Rate, 7)]).unwrap();
        let change = Found::Change(parse("rate=7"), Source::Set);
        assert_eq!(watch.look(at(9)), [Some(change), None]);
    }
}
