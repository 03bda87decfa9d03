//! Times in which nothing passes.

use punctual_sched::Duration;

/// A time in which nothing passes: rate 0, loss of all, or no delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outage {
    /// When it begins.
    pub at: Duration,
    /// How long it lasts.
    pub time: Duration,
}

/// Outages of [`LISTED`] and more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outages {
    /// How many there are.
    pub count: u64,
    /// How long they last together.
    pub time: Duration,
    /// The [`MOST_LISTED`] longest, in the order of their times.
    pub longest: Vec<Outage>,
}

/// From which length on outages are counted: TCP's first retransmission timeout (RFC 6298).
pub const LISTED: Duration = Duration::from_secs(1);

/// How many outages are kept one by one.
pub const MOST_LISTED: usize = 100;

/// Finds the outages among times that follow one another.
#[derive(Default)]
pub(super) struct Search {
    longest: Outage,
    /// That at the very beginning.
    start: Duration,
    current: Outage,
    outages: Outages,
    begun: bool,
}

impl Search {
    /// A time, and whether nothing passes in it.
    pub(super) fn add(&mut self, at: Duration, nothing: bool, time: Duration) {
        if !nothing {
            self.close();
            self.begun = true;
            return;
        }
        if self.current.time == Duration::ZERO {
            self.current.at = at;
        }
        self.current.time = self.current.time + time;
    }

    /// Something passes at an instant.
    pub(super) fn passes(&mut self) {
        self.add(Duration::ZERO, false, Duration::ZERO);
    }

    fn close(&mut self) {
        let found = std::mem::take(&mut self.current);
        if !self.begun {
            self.start = found.time;
        }
        if found.time > self.longest.time {
            self.longest = found;
        }
        if found.time >= LISTED {
            self.outages.add(found);
        }
    }

    /// The longest, that at the beginning, and all that are long.
    pub(super) fn finish(mut self) -> (Option<Outage>, Duration, Outages) {
        self.close();
        self.outages.cut();
        self.outages.longest.sort_by_key(|outage| outage.at);
        let longest = (self.longest.time > Duration::ZERO).then_some(self.longest);
        (longest, self.start, self.outages)
    }
}

impl Outages {
    fn add(&mut self, found: Outage) {
        self.count += 1;
        self.time = self.time + found.time;
        self.longest.push(found);
        if self.longest.len() >= 2 * MOST_LISTED {
            self.cut();
        }
    }

    /// Leaves the longest; of equal ones the earlier.
    fn cut(&mut self) {
        self.longest.sort_by_key(|outage| (std::cmp::Reverse(outage.time), outage.at));
        self.longest.truncate(MOST_LISTED);
    }

    /// So many of the longest, in the order of their times.
    pub(super) fn first(&self, count: usize) -> Vec<Outage> {
        let mut some = self.clone();
        some.cut();
        some.longest.truncate(count);
        some.longest.sort_by_key(|outage| outage.at);
        some.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_outages_all_are_counted_and_the_longest_are_kept_in_their_order() {
        let mut search = Search::default();
        let mut now = Duration::ZERO;
        for number in 0..1_000_u64 {
            let time = Duration::from_secs(1 + number * 7 % 1_000);
            search.add(now, true, time);
            search.passes();
            now = now + time;
        }
        let (longest, start, outages) = search.finish();
        assert_eq!(longest.map(|outage| outage.time), Some(Duration::from_secs(1_000)));
        assert_eq!(
            (start, outages.count, outages.time),
            (LISTED, 1_000, Duration::from_secs(500_500))
        );
        assert_eq!(outages.longest.len(), MOST_LISTED);
        assert!(outages.longest.iter().all(|outage| outage.time > Duration::from_secs(900)));
        assert!(outages.longest.is_sorted_by_key(|outage| outage.at));
        let first: Vec<_> = outages.first(2).iter().map(|outage| outage.time).collect();
        assert_eq!(first, [Duration::from_secs(999), Duration::from_secs(1_000)]);
    }
}
