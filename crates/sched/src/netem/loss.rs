//! Which packets are lost: at random, or by a chain of states (Salsano, Ludovici, Ordine,
//! "Definition of a general and intuitive loss model for packet networks", 2009).

use super::config::{NetemConfig, NetemLoss};
use super::generator::{Correlated, Taus113};
use crate::random::Stream;

/// A loss model and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    model: NetemLoss,
    state: State,
    random: Correlated,
}

/// Where a chain stands after a packet. Gilbert and Elliott's good state is the gap, their bad one
/// the burst, whatever became of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// 1: sent, in a gap between bursts. Both chains start here.
    SentInGap,
    /// 2: sent, in a burst.
    SentInBurst,
    /// 3: lost, in a burst.
    LostInBurst,
    /// 4: lost by itself, in a gap.
    LostInGap,
}

impl Loss {
    pub(crate) fn new(config: &NetemConfig, memory: &mut Stream) -> Self {
        let model = config.loss;
        Self {
            model,
            state: State::SentInGap,
            random: Correlated::new(model.correlation(), memory),
        }
    }

    /// Takes another model, from its start; the same one goes on where it stands.
    pub(crate) fn set(&mut self, model: NetemLoss, memory: &mut Stream) {
        self.random.set(model.correlation(), memory);
        if core::mem::discriminant(&model) != core::mem::discriminant(&self.model) {
            self.state = State::SentInGap;
        }
        self.model = model;
    }

    /// Whether the next packet is lost. Draws nothing for no loss, one number for random loss and
    /// four states, two for Gilbert-Elliott.
    pub(crate) fn strikes(&mut self, generator: &mut Taus113) -> bool {
        match self.model {
            NetemLoss::Random(chance) => chance.strikes(&mut self.random, generator),
            NetemLoss::FourState { p13, p31, p32, p23, p14 } => {
                let drawn = generator.draw();
                self.state = match self.state {
                    State::SentInGap if drawn < p14 => State::LostInGap,
                    State::SentInGap if drawn < p13.wrapping_add(p14) => State::LostInBurst,
                    State::SentInBurst if drawn < p23 => State::LostInBurst,
                    State::LostInBurst if drawn < p32 => State::SentInBurst,
                    State::LostInBurst if drawn < p31.wrapping_add(p32) => State::SentInGap,
                    State::LostInGap => State::SentInGap,
                    stays => stays,
                };
                matches!(self.state, State::LostInGap | State::LostInBurst)
            }
            NetemLoss::GilbertElliott { p, r, h, one_minus_k } => {
                let (moves, loses) = (generator.draw(), generator.draw());
                let good = self.state == State::SentInGap;
                let (lost, leaves) =
                    if good { (loses < one_minus_k, moves < p) } else { (loses > h, moves < r) };
                // The probabilities are those of the state before the move.
                if leaves {
                    self.state = if good { State::LostInBurst } else { State::SentInGap };
                }
                lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::NetemChance;
    use super::*;
    use crate::random::Component;

    fn loss(model: NetemLoss) -> Loss {
        let config = NetemConfig { loss: model, ..NetemConfig::default() };
        Loss::new(&config, &mut Stream::new(1, Component::Netem))
    }

    fn lost(model: NetemLoss, packets: u32) -> u32 {
        let (mut loss, mut generator) = (loss(model), Taus113::new(42));
        (0..packets).map(|_| u32::from(loss.strikes(&mut generator))).sum()
    }

    fn percent(share: f64) -> u32 {
        let share: crate::Probability = share.to_string().parse().expect("a percentage");
        share.as_raw()
    }

    fn random(probability: f64, correlation: f64) -> NetemLoss {
        let correlation = percent(correlation);
        NetemLoss::Random(NetemChance { probability: percent(probability), correlation })
    }

    #[test]
    fn no_loss_draws_nothing() {
        let (mut loss, mut generator) = (loss(random(0.0, 0.0)), Taus113::new(42));
        assert!(!loss.strikes(&mut generator));
        assert_eq!(generator, Taus113::new(42));
    }

    #[test]
    fn full_loss_loses_every_packet() {
        assert_eq!(lost(random(100.0, 0.0), 1000), 1000);
    }

    #[test]
    fn random_loss_keeps_its_share() {
        let lost = lost(random(10.0, 0.0), 100_000);
        assert!((9_700..10_300).contains(&lost), "{lost} of 100000");
    }

    #[test]
    fn correlation_makes_small_loss_vanish_as_it_does_under_linux() {
        // The smoothed numbers hardly ever fall below a small threshold.
        let rare = lost(random(1.0, 25.0), 100_000);
        assert!(rare < 10, "1 % with 25 %: {rare} of 100000, not 1000");
        for (share, correlation, expected) in [(10.0, 25.0, 1_770), (10.0, 50.0, 110)] {
            let lost = lost(random(share, correlation), 100_000);
            let bounds = expected * 85 / 100..expected * 115 / 100 + 40;
            assert!(bounds.contains(&lost), "{share} % with {correlation} %: {lost} of 100000");
        }
    }

    #[test]
    fn gilbert_elliott_loses_its_stationary_share() {
        let model = NetemLoss::GilbertElliott {
            p: percent(2.0),
            r: percent(20.0),
            h: percent(30.0),
            one_minus_k: percent(0.5),
        };
        // p/(p+r) x (1-h) + r/(p+r) x (1-k) = 0.0909 x 0.7 + 0.9091 x 0.005 = 6.82 %.
        let lost = lost(model, 200_000);
        assert!((13_000..14_300).contains(&lost), "{lost} of 200000");
    }

    #[test]
    fn gilbert_elliott_with_p_alone_loses_independently() {
        let p = percent(10.0);
        let model = NetemLoss::GilbertElliott { p, r: u32::MAX - p, h: 0, one_minus_k: 0 };
        let lost = lost(model, 100_000);
        assert!((9_700..10_300).contains(&lost), "{lost} of 100000");
    }

    #[test]
    fn gilbert_elliott_uses_the_probabilities_of_the_state_before_the_move() {
        // Moves at every packet, loses in the bad state only: every second packet, the first not.
        let model = NetemLoss::GilbertElliott { p: u32::MAX, r: u32::MAX, h: 0, one_minus_k: 0 };
        let (mut loss, mut generator) = (loss(model), Taus113::new(42));
        let fates: Vec<bool> = (0..6).map(|_| loss.strikes(&mut generator)).collect();
        assert_eq!(fates, [false, true, false, true, false, true]);
    }

    #[test]
    fn a_loss_in_a_gap_is_always_alone() {
        let model = NetemLoss::FourState { p13: 0, p31: u32::MAX, p32: 0, p23: 0, p14: u32::MAX };
        let (mut loss, mut generator) = (loss(model), Taus113::new(42));
        let fates: Vec<bool> = (0..6).map(|_| loss.strikes(&mut generator)).collect();
        assert_eq!(fates, [true, false, true, false, true, false]);
    }

    #[test]
    fn four_states_without_a_way_out_stay_in_the_burst() {
        let model = NetemLoss::FourState { p13: u32::MAX, p31: 0, p32: 0, p23: 0, p14: 0 };
        assert_eq!(lost(model, 1000), 1000);
    }

    #[test]
    fn four_states_with_good_packets_in_a_burst_alternate() {
        // In a burst every loss is followed by a packet sent, and that by a loss.
        let full = u32::MAX;
        let model = NetemLoss::FourState { p13: full, p31: 0, p32: full, p23: full, p14: 0 };
        let (mut loss, mut generator) = (loss(model), Taus113::new(42));
        let fates: Vec<bool> = (0..6).map(|_| loss.strikes(&mut generator)).collect();
        assert_eq!(fates, [true, false, true, false, true, false]);
    }

    #[test]
    fn the_same_model_goes_on_where_it_stands_and_another_starts_anew() {
        let bad = NetemLoss::GilbertElliott { p: u32::MAX, r: 0, h: 0, one_minus_k: 0 };
        let (mut loss, mut generator) = (loss(bad), Taus113::new(42));
        let mut memory = Stream::new(1, Component::Netem);
        assert!(!loss.strikes(&mut generator), "the first packet moves it to the bad state");
        loss.set(bad, &mut memory);
        assert!(loss.strikes(&mut generator));
        loss.set(random(0.0, 0.0), &mut memory);
        loss.set(bad, &mut memory);
        assert!(!loss.strikes(&mut generator));
    }
}
