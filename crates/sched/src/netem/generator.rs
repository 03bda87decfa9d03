//! The random numbers of netem: taus113, and the smoothing that netem calls correlation.

use crate::random::Stream;

/// The four-component Tausworthe generator with period 2^113 (L'Ecuyer, "Tables of maximally
/// equidistributed combined LFSR generators", 1999), seeded as netem seeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taus113([u32; 4]);

impl Taus113 {
    /// Folds `seed` to 32 bits, which become all four components. A component that is too small
    /// would stay at zero, so its least value is added.
    pub(crate) fn new(seed: u64) -> Self {
        let folded = (seed >> 32) ^ (seed << 10) ^ seed;
        let low = u32::try_from(folded & u64::from(u32::MAX)).expect("the low 32 bits");
        Self(COMPONENTS.map(|part| if low < part.least { low + part.least } else { low }))
    }

    /// The next 32 bits.
    pub(crate) fn draw(&mut self) -> u32 {
        for (state, part) in self.0.iter_mut().zip(COMPONENTS) {
            let folded = ((*state << part.q) ^ *state) >> part.b;
            *state = ((*state & part.mask) << part.s) ^ folded;
        }
        self.0.iter().fold(0, |sum, state| sum ^ state)
    }
}

/// A generator whose numbers lean to the one before: each is the weighted mean of a fresh number
/// and its predecessor. Without correlation every number is fresh.
///
/// The mean pulls the numbers to the middle of their range, but a threshold keeps its place: a
/// rare event becomes rarer. Loss of 1 % with correlation 25 % is no loss at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Correlated {
    /// Weight of the predecessor, as share of 2^32 - 1.
    correlation: u32,
    last: u32,
}

impl Correlated {
    /// The first predecessor comes from `memory`: under Linux it is drawn from the kernel's own
    /// generator, which no seed reaches.
    pub(crate) fn new(correlation: u32, memory: &mut Stream) -> Self {
        Self { correlation, last: any_u32(memory) }
    }

    /// Takes a new correlation; the predecessor is drawn anew when it differs.
    pub(crate) fn set(&mut self, correlation: u32, memory: &mut Stream) {
        if correlation != self.correlation {
            *self = Self::new(correlation, memory);
        }
    }

    /// The next number. Draws one from `generator`.
    pub(crate) fn draw(&mut self, generator: &mut Taus113) -> u32 {
        let fresh = generator.draw();
        if self.correlation == 0 {
            return fresh;
        }
        let weight = u64::from(self.correlation) + 1;
        let sum = u64::from(fresh) * ((1 << 32) - weight) + u64::from(self.last) * weight;
        self.last = u32::try_from(sum >> 32).expect("a mean of two 32-bit numbers");
        self.last
    }
}

fn any_u32(stream: &mut Stream) -> u32 {
    u32::try_from(stream.up_to(u32::MAX.into())).expect("at most 2^32 - 1")
}

/// One component: `s' = ((s & mask) << s) ^ (((s << q) ^ s) >> b)`.
struct Component {
    q: u32,
    b: u32,
    mask: u32,
    s: u32,
    /// The least seed that fills the bits which `mask` keeps.
    least: u32,
}

const COMPONENTS: [Component; 4] = [
    Component { q: 6, b: 13, mask: 0xffff_fffe, s: 18, least: 2 },
    Component { q: 2, b: 27, mask: 0xffff_fff8, s: 2, least: 8 },
    Component { q: 13, b: 21, mask: 0xffff_fff0, s: 7, least: 16 },
    Component { q: 3, b: 12, mask: 0xffff_ff80, s: 13, least: 128 },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    fn first_five(seed: u64) -> [u32; 5] {
        let mut generator = Taus113::new(seed);
        core::array::from_fn(|_| generator.draw())
    }

    #[test]
    fn seed_1_gives_the_numbers_that_netem_draws_from_it() {
        let expected = [276_959_246, 18_909_696, 2_298_495_022, 9_442_690, 3_222_971_081];
        assert_eq!(first_five(1), expected);
    }

    #[test]
    fn seed_42_gives_the_numbers_that_netem_draws_from_it() {
        let expected = [3_053_367_555, 794_645_456, 722_109_529, 489_076_602, 564_259_759];
        assert_eq!(first_five(42), expected);
    }

    #[test]
    fn seeds_that_fold_to_nothing_still_draw() {
        // 0 folds to 0; 2^32 + 1 folds its halves onto each other.
        for seed in [0, u64::MAX, (1 << 32) | 1] {
            let drawn = first_five(seed);
            assert!(drawn.windows(2).all(|pair| pair[0] != pair[1]), "{seed}: {drawn:?}");
        }
    }

    #[test]
    fn without_correlation_the_numbers_are_the_generators_own() {
        let mut memory = Stream::new(7, random::Component::Netem);
        let (mut plain, mut drawn) = (Taus113::new(42), Taus113::new(42));
        let mut correlated = Correlated::new(0, &mut memory);
        for _ in 0..100 {
            assert_eq!(correlated.draw(&mut drawn), plain.draw());
        }
    }

    #[test]
    fn full_correlation_repeats_the_first_predecessor() {
        let mut memory = Stream::new(7, random::Component::Netem);
        let mut correlated = Correlated::new(u32::MAX, &mut memory);
        let last = correlated.last;
        let mut generator = Taus113::new(42);
        assert!((0..100).all(|_| correlated.draw(&mut generator) == last));
    }

    #[test]
    fn half_correlation_is_the_mean_of_fresh_and_last() {
        let mut correlated = Correlated { correlation: (1 << 31) - 1, last: 1000 };
        let fresh = Taus113::new(42).draw();
        let drawn = correlated.draw(&mut Taus113::new(42));
        assert_eq!(drawn, u32::midpoint(fresh, 1000));
    }

    #[test]
    fn equal_correlation_keeps_the_predecessor_and_another_draws_anew() {
        let mut memory = Stream::new(7, random::Component::Netem);
        let mut correlated = Correlated::new(5, &mut memory);
        let before = correlated;
        correlated.set(5, &mut memory);
        assert_eq!(correlated, before);
        correlated.set(6, &mut memory);
        assert_ne!(correlated.last, before.last);
    }
}
