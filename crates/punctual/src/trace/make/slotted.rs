//! Deliveries in the slots of a radio link.

use clap::Args;
use punctual_sched::trace::{Course, Delivery, Opportunity, Timeline};
use punctual_sched::{Duration, Probability, Rate};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::super::build::MAX_ENTRIES;
use super::super::options::direction;
use super::Common;
use crate::cli::seed;
use crate::log::Direction;

/// `punctual trace make slotted`
#[derive(Args, Debug)]
pub struct SlottedOptions {
    /// Mean rate if all grants are given; a grant's bytes follow from it, rounded down
    #[arg(long, value_name = "RATE")]
    pub rate: Rate,
    /// Length of a slot: 1ms in LTE, 500us or 250us in 5G
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    pub slot: Duration,
    /// Slots by direction, over and over: D down, U up, S special (carries nothing)
    #[arg(long, value_name = "PATTERN", default_value = "D", value_parser = pattern)]
    pub pattern: Pattern,
    /// Which slots of the pattern are used: down or up
    #[arg(long, value_parser = direction, default_value = "down")]
    pub direction: Direction,
    /// A grant in every n-th slot of the direction
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub every: u32,
    /// Probability that a grant is given
    #[arg(long, value_name = "SHARE", default_value = "100%")]
    pub given: Probability,
    /// Seed of the grants that are given
    #[arg(long, default_value_t = 1, value_parser = seed)]
    pub seed: u64,
    /// What all kinds have.
    #[command(flatten)]
    pub common: Common,
}

/// `--pattern`
#[derive(Clone, Debug)]
pub struct Pattern(Vec<Option<Direction>>);

fn pattern(text: &str) -> Result<Pattern, String> {
    let slots = text.chars().map(|slot| match slot.to_ascii_uppercase() {
        'D' => Ok(Some(Direction::Down)),
        'U' => Ok(Some(Direction::Up)),
        'S' => Ok(None),
        other => Err(format!("{other:?} in a pattern, expected D, U or S")),
    });
    let slots: Vec<_> = slots.collect::<Result<_, _>>()?;
    match slots.len() {
        1..=LONGEST => Ok(Pattern(slots)),
        _ => Err(format!("expected a pattern of 1 to {LONGEST} slots")),
    }
}

impl SlottedOptions {
    pub(super) fn make(&self) -> Result<Timeline, String> {
        let slot = self.slot.as_nanos();
        let usable = self.pattern.0.iter().filter(|slot| **slot == Some(self.direction)).count();
        if slot == 0 || usable == 0 {
            return Err("expected a --slot above 0 and a --pattern with the direction".to_owned());
        }
        let opportunity = self.grant(usable)?;
        let slots = self.slots(usable)?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let mut at = Vec::new();
        let mut usable_slot = 0;
        for (number, of) in (1..=slots).zip(self.pattern.0.iter().cycle()) {
            if *of != Some(self.direction) {
                continue;
            }
            usable_slot += 1;
            let granted = usable_slot % u64::from(self.every) == 0;
            if granted && happens(self.given, &mut random) {
                at.push(Delivery { at: Duration::from_nanos(number * slot), count: 1 });
            }
        }
        if at.is_empty() {
            return Err("no grant is given in this time".to_owned());
        }
        let span = Duration::from_nanos(slots * slot);
        Ok(Timeline { course: Course::Deliveries { at, opportunity }, span })
    }

    /// The bytes of a grant.
    fn grant(&self, usable: usize) -> Result<Opportunity, String> {
        let rate = self.rate.finite_bps().ok_or("--rate must be above 0 and have a bound")?;
        let slots = self.pattern.0.len() as u128 * u128::from(self.every);
        let bits_e9 = u128::from(rate) * u128::from(self.slot.as_nanos()) * slots;
        let bytes = bits_e9 / (8_000_000_000 * usable as u128);
        match u32::try_from(bytes) {
            Ok(0) => Err("a grant would be less than a byte, expected a higher --rate".to_owned()),
            Ok(bytes) => Ok(Opportunity { bytes, per_packet: 0 }),
            Err(_) => Err("a grant would be more than 4 GiB, expected a lower --rate".to_owned()),
        }
    }

    /// Whole rounds that fit, at least one.
    fn slots(&self, usable: usize) -> Result<u64, String> {
        let length = self.pattern.0.len() as u64;
        let (usable, every) = (usable as u64, u64::from(self.every));
        let round = length * every / common_divisor(usable, every);
        let rounds = self.common.duration.as_nanos() / self.slot.as_nanos() / round;
        let slots = round.saturating_mul(rounds.max(1));
        let whole = slots.checked_mul(self.slot.as_nanos());
        if whole.is_none() || slots >= MAX_ENTRIES as u64 {
            return Err(format!("{slots} slots are too many, expected less than 2^25"));
        }
        Ok(slots)
    }
}

fn happens(p: Probability, random: &mut Xoshiro256PlusPlus) -> bool {
    p == Probability::ONE || random.next_u64() >> 32 < u64::from(p.as_raw())
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// Slots of a pattern: 10 ms of the shortest.
const LONGEST: usize = 640;
