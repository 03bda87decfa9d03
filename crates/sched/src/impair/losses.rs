//! The loss models at work.

use super::events::Events;
use super::{Correlated, Loss};
use crate::random::Stream;
use crate::units::Probability;

/// Decides packet by packet what a [`Loss`] takes.
#[derive(Debug)]
pub(super) struct Losses {
    model: Loss,
    /// Of independent and correlated loss.
    events: Events,
    /// Of the models with states.
    random: Stream,
    /// Gilbert-Elliott.
    bad: bool,
    four: State,
}

/// The states of the 4-state model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    ReceivedInGap,
    ReceivedInBurst,
    LostInBurst,
    LostInGap,
}

impl Losses {
    pub(super) fn new(model: Loss, random: Stream) -> Self {
        let events = Events::new(random.clone());
        Self { model, events, random, bad: false, four: State::ReceivedInGap }
    }

    /// Another model begins at its start; the same one goes on.
    pub(super) fn set(&mut self, model: Loss) {
        if model != self.model {
            self.events.forget();
            (self.model, self.bad, self.four) = (model, false, State::ReceivedInGap);
        }
    }

    /// Whether a packet can be lost at all.
    pub(super) fn possible(&self) -> bool {
        !self.model.is_none()
    }

    /// Whether the next packet is lost.
    pub(super) fn strikes(&mut self) -> bool {
        match self.model {
            Loss::None => false,
            Loss::Random { probability, correlation } => {
                self.events.happens(Correlated { probability, correlation })
            }
            Loss::GilbertElliott { p, r, one_minus_h, one_minus_k } => {
                let (leave, lose) = if self.bad { (r, one_minus_h) } else { (p, one_minus_k) };
                let moves = self.random.happens(leave);
                self.bad ^= moves;
                self.random.happens(lose)
            }
            Loss::FourState { .. } => self.four_state(),
        }
    }

    fn four_state(&mut self) -> bool {
        let Loss::FourState { p13, p31, p32, p23, p14 } = self.model else { return false };
        // One draw per packet, also in a state that leaves none to chance.
        let draw = self.random.bits() >> 32;
        let below = |shares: &[Probability]| {
            let sum: u64 = shares.iter().map(|share| u64::from(share.as_raw())).sum();
            sum >= u64::from(u32::MAX) || draw < sum
        };
        self.four = match self.four {
            State::ReceivedInGap if below(&[p14]) => State::LostInGap,
            State::ReceivedInGap if below(&[p14, p13]) => State::LostInBurst,
            State::ReceivedInBurst if below(&[p23]) => State::LostInBurst,
            State::LostInBurst if below(&[p32]) => State::ReceivedInBurst,
            State::LostInBurst if below(&[p32, p31]) => State::ReceivedInGap,
            State::LostInGap => State::ReceivedInGap,
            state => state,
        };
        matches!(self.four, State::LostInBurst | State::LostInGap)
    }
}
