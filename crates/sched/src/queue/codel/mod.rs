//! `codel`: a fifo that signals congestion when its packets wait for long (RFC 8289).

use core::fmt;

use super::{Backlog, Discipline, Effects, Held, Moving, Queued, Served, Statistics};
use crate::config::LinkConfig;
use crate::output::{DropReason, Mark};
use crate::ring::Ring;
use crate::time::Instant;

mod config;
mod control;
mod law;
#[cfg(test)]
mod tests;

pub use config::CodelConfig;
pub use control::{Control, Head, Verdict};
pub use law::{Arithmetic, Law};

/// A fifo of packets with one CoDel controller at its head.
#[derive(Debug)]
pub struct Codel {
    packets: Ring<Queued>,
    /// Packets that it holds at most.
    limit: u64,
    law: Law,
    control: Control,
    held: Held,
    counters: CodelStatistics,
    /// How long the packet judged last had waited, in the law's unit.
    sojourn: u64,
    /// The last dequeue.
    asked: Instant,
}

/// Counters of codel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodelStatistics {
    /// Signals sent in this episode and those just before it.
    pub count: u64,
    /// `count` at the beginning of this episode.
    pub lastcount: u64,
    /// How long the packet judged last had waited, in microseconds.
    pub ldelay: u64,
    /// Whether an episode of signals is going on.
    pub dropping: bool,
    /// From now to the next signal, in microseconds; 0 when it is overdue, or outside an episode.
    pub drop_next: u64,
    /// Bytes of the largest packet judged.
    pub maxpacket: u64,
    /// Packets marked by the controller.
    pub ecn_mark: u64,
    /// Packets dropped for want of room.
    pub drop_overlimit: u64,
    /// Packets marked because they had waited for longer than ce_threshold.
    pub ce_mark: u64,
}

impl CodelStatistics {
    /// Under the names that `tc -s -j qdisc` gives them.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("count", self.count),
            ("lastcount", self.lastcount),
            ("ldelay", self.ldelay),
            ("dropping", u64::from(self.dropping)),
            ("drop_next", self.drop_next),
            ("maxpacket", self.maxpacket),
            ("ecn_mark", self.ecn_mark),
            ("drop_overlimit", self.drop_overlimit),
            ("ce_mark", self.ce_mark),
        ]
    }
}

/// The lines that `tc -s qdisc` prints.
impl fmt::Display for CodelStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dropping = if self.dropping { " dropping" } else { "" };
        let (ldelay, drop_next) = (Rounded(self.ldelay), Rounded(self.drop_next));
        writeln!(
            f,
            "count {} lastcount {} ldelay {ldelay}{dropping} drop_next {drop_next}",
            self.count, self.lastcount
        )?;
        write!(
            f,
            "maxpacket {} ecn_mark {} drop_overlimit {}",
            self.maxpacket, self.ecn_mark, self.drop_overlimit
        )?;
        if self.ce_mark > 0 { write!(f, " ce_mark {}", self.ce_mark) } else { Ok(()) }
    }
}

impl Codel {
    /// An empty queue. `config` is valid.
    pub fn new(config: &LinkConfig) -> Self {
        Self {
            packets: Ring::new(),
            limit: config.resolved_limit().packets,
            law: config.codel.law(config),
            control: Control::new(),
            held: Held::default(),
            counters: CodelStatistics::default(),
            sojourn: 0,
            asked: Instant::ZERO,
        }
    }

    /// What the controller makes of `queued`, which has just been taken from the head.
    #[inline]
    fn judge(&mut self, queued: &Queued, now: Instant) -> Verdict {
        let head = Head {
            entered: queued.entered,
            now,
            backlog: self.held.waiting.bytes,
            markable: queued.packet.ecn.is_capable(),
        };
        self.sojourn = self.law.sojourn(queued.entered, now);
        self.counters.maxpacket = self.counters.maxpacket.max(queued.bytes);
        self.control.judge(&self.law, &head)
    }

    /// The packet with what was decided and what the ce_threshold says besides.
    #[inline]
    fn leave(&mut self, served: &mut Served, queued: &Queued, verdict: Verdict) {
        let late = self.law.above_ce_threshold(self.sojourn) && queued.packet.ecn.is_capable();
        self.counters.ecn_mark += u64::from(verdict == Verdict::Mark);
        self.counters.ce_mark += u64::from(late);
        self.held.hand_out(queued);
        served.set_untouched(queued);
        served.mark = if late || verdict == Verdict::Mark { Mark::Ce } else { Mark::None };
    }
}

impl Discipline for Codel {
    fn enqueue(&mut self, queued: Queued, effects: &mut Effects) {
        let mut then = self.held;
        then.waiting.add(&queued);
        if then.all().packets > self.limit {
            self.counters.drop_overlimit += u64::from(queued.packet.segments);
            effects.drop(&queued.packet, DropReason::Limit);
            return;
        }
        self.held = then;
        self.packets.push_back(queued);
    }

    #[inline]
    fn dequeue_into(&mut self, served: &mut Served, now: Instant, effects: &mut Effects) -> bool {
        self.served();
        self.asked = now;
        while let Some(&queued) = self.packets.front() {
            self.packets.pop_front();
            self.held.waiting.remove(&queued);
            let verdict = self.judge(&queued, now);
            if verdict != Verdict::Drop {
                self.leave(served, &queued, verdict);
                return true;
            }
            effects.drop(&queued.packet, DropReason::Congested);
        }
        self.control.empty(&self.law);
        false
    }

    fn wake(&self) -> Option<Instant> {
        None
    }

    fn served(&mut self) {
        self.held.served();
    }

    fn backlog(&self) -> Backlog {
        self.held.waiting
    }

    /// The controller goes on with its new parameters. A lower limit drops from the tail.
    fn configure(&mut self, config: &LinkConfig, now: Instant, effects: &mut Effects) {
        let before = core::mem::replace(&mut self.limit, config.resolved_limit().packets);
        self.law = config.codel.law(config);
        if self.limit < before {
            self.shrink(now, effects);
        }
    }

    fn statistics(&self) -> Statistics {
        self.statistics_at(self.asked)
    }

    fn statistics_at(&self, now: Instant) -> Statistics {
        let next = self.control.next_signal(&self.law, now);
        Statistics::Codel(CodelStatistics {
            count: self.control.count().into(),
            lastcount: self.control.last_count().into(),
            ldelay: self.law.micros(self.sojourn),
            dropping: next.is_some(),
            drop_next: self.law.micros(next.unwrap_or(0)),
            ..self.counters
        })
    }
}

impl Moving for Codel {
    fn adopt(&mut self, queued: Queued, _now: Instant) {
        self.held.waiting.add(&queued);
        self.packets.push_back(queued);
    }

    fn adopt_served(&mut self, queued: &Queued) {
        self.held.hand_out(queued);
    }

    fn surrender(&mut self, packets: &mut Vec<Queued>) {
        packets.extend(self.packets.drain());
        self.held.waiting = Backlog::default();
    }

    fn shrink(&mut self, _now: Instant, effects: &mut Effects) {
        while self.held.all().packets > self.limit
            && let Some(last) = self.packets.back()
        {
            self.held.waiting.remove(last);
            effects.drop(&last.packet, DropReason::Limit);
            self.packets.pop_back();
        }
    }
}

/// Microseconds with three digits, as `tc` prints times: `55.2ms`.
struct Rounded(u64);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..1_000 => return write!(f, "{}us", self.0),
            1_000..1_000_000 => (1_000, "ms"),
            _ => (1_000_000, "s"),
        };
        let decimals = match self.0 / unit {
            0..10 => 2,
            10..100 => 1,
            _ => 0,
        };
        let scale = 10_u64.pow(decimals);
        let scaled = self.0.saturating_mul(scale).saturating_add(unit / 2) / unit;
        let (whole, rest) = (scaled / scale, scaled % scale);
        if rest == 0 {
            return write!(f, "{whole}{name}");
        }
        let rest = format!("{rest:0width$}", width = decimals as usize);
        write!(f, "{whole}.{}{name}", rest.trim_end_matches('0'))
    }
}
