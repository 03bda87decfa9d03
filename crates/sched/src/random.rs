//! Randomness: one seed, one independent stream per component.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::units::Probability;

/// A component's stream. Streams of one seed are 2^192 draws apart (the generator's long jump),
/// so that what one component draws never shifts what another sees.
#[derive(Clone, Debug)]
pub(crate) struct Stream(Xoshiro256PlusPlus);

/// The components that draw. The order is part of the log's meaning: append only.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Component {
    Loss = 0,
    Jitter = 1,
    Duplicate = 2,
    /// Which packets are corrupted.
    Corrupt = 3,
    /// Which of their bits.
    Bit = 4,
    Reorder = 5,
    Slot = 6,
    /// Marks and drops of a queue discipline.
    Queue = 7,
    /// What netem draws from the kernel at large.
    Netem = 8,
}

impl Stream {
    pub(crate) fn new(seed: u64, component: Component) -> Self {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..component as u8 {
            generator.long_jump();
        }
        Self(generator)
    }

    /// One event of probability `p`: true when 32 fresh bits fall below it. Draws nothing for
    /// a probability of 0.
    pub(crate) fn happens(&mut self, p: Probability) -> bool {
        match p.as_raw() {
            0 => false,
            u32::MAX => true,
            threshold => self.bits() >> 32 < u64::from(threshold),
        }
    }

    /// 64 fresh bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Two numbers, each uniform in 32 bits.
    pub(crate) fn pair(&mut self) -> [u32; 2] {
        let bits = self.0.next_u64();
        [bits, bits >> 32].map(|bits| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(u32::MAX))
    }

    /// Uniform in `0..=max`, see [`scaled`].
    pub(crate) fn up_to(&mut self, max: u64) -> u64 {
        scaled(self.bits(), max)
    }
}

/// 64 random bits as a number in `0..=max`, by multiplication (bias below 2^-64 of the range).
pub(crate) fn scaled(bits: u64, max: u64) -> u64 {
    let product = u128::from(bits) * (u128::from(max) + 1);
    u64::try_from(product >> 64).expect("the high half of a 64 x 65 bit product is <= max")
}
