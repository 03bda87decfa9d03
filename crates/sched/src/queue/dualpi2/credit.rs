//! Which of the two queues is served: weighted round robin by credit.

use super::config::Dualpi2Config;
use super::signal::Lane;

/// The L queue goes first while the credit is not positive. Serving it while the classic queue
/// waits earns the classic queue its weight for each byte, and the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// In percent of bytes; positive = the classic queue's turn.
    value: i64,
    /// The classic queue's weight in percent.
    classic: i64,
    /// What is left once both queues are empty.
    initial: i64,
}

impl Credit {
    /// Starts as if a full packet of `mtu` bytes had been served from each in proportion: with
    /// less than 50 % of protection the L queue goes first.
    pub fn new(config: &Dualpi2Config, mtu: u64) -> Self {
        let mut credit = Self { value: 0, classic: 0, initial: 0 };
        credit.configure(config, mtu);
        credit.reset();
        credit
    }

    /// New weights. The credit itself stays.
    pub fn configure(&mut self, config: &Dualpi2Config, mtu: u64) {
        self.classic = i64::from(config.classic_protection.min(WHOLE_PERCENT));
        let whole = i64::from(WHOLE_PERCENT);
        self.initial = bytes(mtu).saturating_mul(2 * self.classic - whole);
    }

    /// Whose turn it is; `None` when both are empty.
    pub fn turn(&self, classic_waits: bool, low_waits: bool) -> Option<Lane> {
        match (classic_waits, low_waits) {
            (false, false) => None,
            (false, true) => Some(Lane::Low),
            (true, false) => Some(Lane::Classic),
            (true, true) => Some(if self.value <= 0 { Lane::Low } else { Lane::Classic }),
        }
    }

    /// A packet of `len` bytes leaves `lane` while the other queue waits.
    pub fn pay(&mut self, lane: Lane, len: u64) {
        let change = match lane {
            Lane::Low => bytes(len).saturating_mul(self.classic),
            Lane::Classic => bytes(len).saturating_mul(self.classic - i64::from(WHOLE_PERCENT)),
        };
        self.value = self.value.saturating_add(change);
    }

    /// Both queues are empty.
    pub fn reset(&mut self) {
        self.value = self.initial;
    }

    /// The credit in percent of bytes.
    pub const fn value(&self) -> i64 {
        self.value
    }
}

fn bytes(len: u64) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

const WHOLE_PERCENT: u8 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn credit(classic_protection: u8) -> Credit {
        Credit::new(&Dualpi2Config { classic_protection, ..Dualpi2Config::default() }, 1_514)
    }

    /// The order in which packets of 1514 bytes leave two queues that always wait.
    fn order(classic_protection: u8, count: usize) -> String {
        let mut credit = credit(classic_protection);
        let mut order = String::new();
        for _ in 0..count {
            let lane = credit.turn(true, true).unwrap();
            credit.pay(lane, 1_514);
            order.push(if lane == Lane::Low { 'L' } else { 'C' });
        }
        order
    }

    #[test]
    fn the_classic_queue_gets_its_share_of_bytes() {
        assert_eq!(credit(10).value(), -121_120, "as tc prints it for an idle queue");
        assert_eq!(order(10, 20), "LLLLLLLLLCLLLLLLLLLC");
        assert_eq!(order(50, 6), "LCLCLC");
        assert_eq!(order(0, 5), "LLLLL");
        assert_eq!(order(100, 5), "CCCCC");
    }

    #[test]
    fn an_idle_queue_is_skipped_whatever_the_credit() {
        let credit = credit(10);
        assert_eq!(credit.turn(true, false), Some(Lane::Classic));
        assert_eq!(credit.turn(false, true), Some(Lane::Low));
        assert_eq!(credit.turn(false, false), None);
    }

    #[test]
    fn any_length_saturates() {
        let mut credit = credit(10);
        for lane in [Lane::Low, Lane::Classic] {
            credit.pay(lane, u64::MAX);
        }
        assert_eq!(credit.value(), -121_121);
    }
}
