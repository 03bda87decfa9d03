use core::net::IpAddr;

use proptest::prelude::*;

use super::ramp::{Chance, Ramp};
use super::*;
use crate::classify::{Classified, FlowKey};
use crate::output::{DropReason, Mark};
use crate::packet::{Ecn, Packet};
use crate::{Change, Output};

/// A qdisc in virtual time: every wake-up at its time, or late by a fixed time.
struct Bench {
    jens: Jens,
    effects: Effects,
    now: Instant,
    late: Duration,
    left: Vec<(u64, u64, Mark)>,
    dropped: Vec<(u64, DropReason)>,
}

impl Bench {
    fn new(text: &str) -> Self {
        Self::starting(text, Instant::ZERO)
    }

    fn starting(text: &str, start: Instant) -> Self {
        let config = config(text);
        let jens = Jens::new(&config, 1, start).unwrap();
        let (left, dropped) = (Vec::new(), Vec::new());
        Self { jens, effects: Effects::default(), now: start, late: Duration::ZERO, left, dropped }
    }

    fn dequeue(&mut self) {
        while let Some(served) = self.jens.dequeue(self.now, &mut self.effects) {
            let handle = served.queued.packet.handle;
            self.left.push((handle, self.now.as_nanos(), served.mark));
        }
        self.collect();
        assert!(self.jens.wake().is_none_or(|wake| wake > self.now), "a wake-up is not ahead");
    }

    fn collect(&mut self) {
        let dropped = self.effects.take_drops().map(|drop| (drop.packet.handle, drop.reason));
        self.dropped.extend(dropped);
    }

    /// Wakes up as armed until `to`.
    fn run(&mut self, to: u64) {
        let to = Instant::from_nanos(to);
        while let Some(wake) = self.jens.wake()
            && wake + self.late <= to
        {
            self.now = wake + self.late;
            self.dequeue();
        }
        self.now = self.now.max(to);
    }

    fn send(&mut self, at: u64, packet: Packet, bytes: u64) {
        self.run(at);
        let packet = Packet { arrival: self.now, ..packet };
        self.jens.enqueue(Queued { packet, entered: self.now, bytes }, &mut self.effects);
        self.dequeue();
    }

    fn change(&mut self, at: u64, text: &str) {
        self.run(at);
        self.jens.configure(&config(text), self.now, &mut self.effects);
        self.collect();
    }

    fn times(&self) -> Vec<u64> {
        self.left.iter().map(|(_, at, _)| *at).collect()
    }

    fn handles(&self) -> Vec<u64> {
        self.left.iter().map(|(handle, ..)| *handle).collect()
    }

    fn records(&mut self) -> Vec<Record> {
        let recorder = self.jens.recorders().next().unwrap();
        recorder.flush();
        recorder.records().copied().collect()
    }

    fn statistics(&self) -> JensStatistics {
        match self.jens.statistics() {
            Statistics::Jens(statistics) => statistics,
            other => panic!("{other:?}"),
        }
    }
}

fn config(text: &str) -> LinkConfig {
    LinkConfig::parse(&format!("queue=jens {text}"), "--up").unwrap()
}

fn packet(handle: u64) -> Packet {
    Packet::on_path(handle, Instant::ZERO, 1500, 7)
}

/// Of FIFO 0, 1 or 2.
fn of_band(handle: u64, band: usize) -> Packet {
    Packet { dscp: [4, 0, 2][band], ..packet(handle) }
}

fn sojourns(records: &[Record]) -> Vec<Sojourn> {
    records
        .iter()
        .filter_map(|record| match record {
            Record::Sojourn(sojourn) => Some(*sojourn),
            Record::QueueSize(_) => None,
        })
        .collect()
}

fn sizes(records: &[Record]) -> Vec<QueueSize> {
    records
        .iter()
        .filter_map(|record| match record {
            Record::QueueSize(size) => Some(*size),
            Record::Sojourn(_) => None,
        })
        .collect()
}

const MS: u64 = 1_000_000;
/// 1514 bytes at 10 Mbit/s.
const FULL: u64 = 1_211_200;

#[test]
fn late_wake_ups_do_not_accumulate() {
    let mut bench = Bench::new("rate=10mbit jens.subbufs=4");
    bench.late = Duration::from_micros(300);
    for handle in 0..4 {
        bench.send(0, packet(handle), 1514);
    }
    bench.run(100 * MS);
    assert_eq!(bench.times(), [0, 1_511_200, 2_722_400, 3_933_600]);
    let sojourns = sojourns(&bench.records());
    let ideal: Vec<_> = sojourns.iter().map(|record| record.at.as_nanos()).collect();
    // The first record of the queue's size has the time 0.
    assert_eq!(ideal, [1, 1_211_200, 2_422_400, 3_633_600]);
    let units: Vec<_> = sojourns.iter().map(|record| record.sojourn).collect();
    assert_eq!(units, [1, 1_182, 2_365, 3_548], "lateness is no queue delay");
}

#[test]
fn rates_are_whole_nanoseconds_per_byte() {
    for (bps, per_byte, effective, tc) in [
        (128_000, 62_500, 128_000, 16_000),
        (512_000, 15_625, 512_000, 64_000),
        (10_000_000, 800, 10_000_000, 1_250_000),
        (15_000_000, 533, 15_009_380, 1_876_172),
        (3_000_000_000, 2, 4_000_000_000, 500_000_000),
        (5_000_000_000, 1, 8_000_000_000, 1_000_000_000),
        (1_000_000_000_000, 1, 8_000_000_000, 1_000_000_000),
        (8, 1_000_000_000, 8, 1),
    ] {
        let rate = Rate::from_bps(bps).unwrap();
        let pace = Pace::new(rate, 1).unwrap();
        assert_eq!(pace.nanos_per_byte(), per_byte, "{bps}");
        assert_eq!((pace.virtual_bps(), pace.real_bps()), (effective, effective), "{bps}");
        assert_eq!(pace.tc_bytes_per_second(), tc, "{bps}");
        assert_eq!(Pace::from_tc(rate, 1), Some(pace), "whole bytes per second");
    }
    let uneven = Rate::from_bps(1_500).unwrap();
    assert_eq!(Pace::new(uneven, 1).unwrap().nanos_per_byte(), 5_333_333);
    assert_eq!(Pace::from_tc(uneven, 1).unwrap().nanos_per_byte(), 5_347_593, "187 bytes/s");
    let slowest = Rate::from_bps(7).unwrap();
    assert_eq!(Pace::from_tc(slowest, 1), None, "the module divides by zero");
    assert_eq!(Pace::new(slowest, 1).unwrap().tc_bytes_per_second(), 1);
    assert_eq!(Pace::new(Rate::from_bps(1).unwrap(), 1).unwrap().real_bps(), 1);
}

#[test]
fn the_real_rate_of_a_virtual_queue_rounds_up_per_byte() {
    let pace = Pace::new(Rate::from_bps(15_000_000).unwrap(), 2).unwrap();
    assert_eq!(pace.nanos_per_byte(), 267);
    assert_eq!((pace.real_bps(), pace.virtual_bps()), (29_962_546, 14_981_273));
    assert_eq!(pace.virtual_time(10), Duration::from_nanos(5_340));
    let fastest = Pace::new(Rate::MAX, 5).unwrap();
    assert_eq!((fastest.nanos_per_byte(), fastest.virtual_bps()), (1, 1_600_000_000));
}

#[test]
fn the_chance_of_a_mark_rises_from_markfree_to_markfull() {
    let ramp = Ramp { free: Duration::from_millis(4), full: Duration::from_millis(14) };
    let share = |above| Chance::Share { above, range: 10_000_000 };
    for (delay, chance) in [
        (0, Chance::Never),
        (4_000_000, Chance::Never),
        (4_000_001, share(1)),
        (5_000_000, share(1_000_000)),
        (9_000_000, share(5_000_000)),
        (13_999_999, share(9_999_999)),
        (14_000_000, Chance::Always),
        (u64::MAX, Chance::Always),
    ] {
        assert_eq!(ramp.chance(Duration::from_nanos(delay)), chance, "{delay}");
    }
}

#[test]
fn a_wide_ramp_is_halved_until_it_fits_32_bits() {
    let ramp = Ramp { free: Duration::ZERO, full: Duration::from_secs(10) };
    let chance = ramp.chance(Duration::from_secs(5));
    assert_eq!(chance, Chance::Share { above: 1_250_000_000, range: 2_500_000_000 });
    assert_eq!(
        ramp.chance(Duration::from_nanos(1)),
        Chance::Share { above: 0, range: 2_500_000_000 }
    );
}

#[test]
fn markfull_at_or_below_markfree_is_a_step_at_markfull() {
    for free in [5, 9] {
        let ramp = Ramp { free: Duration::from_millis(free), full: Duration::from_millis(5) };
        assert_eq!(ramp.chance(Duration::from_nanos(4_999_999)), Chance::Never);
        assert_eq!(ramp.chance(Duration::from_millis(5)), Chance::Always);
    }
}

#[test]
fn half_of_the_packets_are_marked_half_way_up_the_ramp() {
    let ramp = Ramp { free: Duration::from_millis(4), full: Duration::from_millis(14) };
    let mut random = Stream::new(7, Component::Queue);
    let marked = (0..10_000).filter(|_| ramp.marks(Duration::from_millis(9), &mut random)).count();
    // 99.99 % of all seeds give 4,805 to 5,195.
    assert!((4_805..=5_195).contains(&marked), "{marked}");
}

#[test]
fn congestion_is_decided_for_packets_that_cannot_carry_a_mark() {
    let mut bench = Bench::new("rate=10mbit jens.markfree=1ms jens.markfull=1ms");
    for (handle, ecn) in [Ecn::Ect0, Ecn::Ect1, Ecn::NotEct, Ecn::Ce].into_iter().enumerate() {
        bench.send(0, Packet { ecn, ..packet(handle as u64) }, 1514);
    }
    bench.run(100 * MS);
    let marks: Vec<_> = bench.left.iter().map(|(.., mark)| *mark).collect();
    assert_eq!(marks, [Mark::None, Mark::Ce, Mark::Decided, Mark::Ce]);
    assert_eq!((bench.statistics().marked, bench.statistics().not_capable), (3, 1));
}

#[test]
fn the_fifo_follows_from_the_type_of_service_the_mode_and_ecn() {
    for (mode, order) in [("0", [1, 0, 3, 2]), ("1", [0, 1, 2, 3]), ("2", [3, 0, 1, 2])] {
        let mut bench = Bench::new(&format!("rate=10mbit jens.qosmode={mode}"));
        // The first leaves at once and closes the gate.
        bench.send(0, packet(9), 1514);
        let l4s = Packet { ecn: Ecn::Ect1, ..packet(3) };
        for sent in [of_band(0, 1), of_band(1, 0), of_band(2, 2), l4s] {
            bench.send(0, sent, 1514);
        }
        bench.run(100 * MS);
        assert_eq!(bench.handles()[1..], order, "mode {mode}");
    }
}

#[test]
fn both_bits_of_the_type_of_service_cancel_out() {
    let mut bench = Bench::new("rate=10mbit");
    bench.send(0, packet(9), 1514);
    bench.send(0, of_band(0, 1), 1514);
    bench.send(0, Packet { dscp: 6, ..packet(1) }, 1514);
    bench.run(10 * MS);
    assert_eq!(bench.handles(), [9, 0, 1]);
}

#[test]
fn the_watchdog_is_armed_for_the_gate_or_the_age_check_before_it() {
    let mut bench = Bench::new("rate=10kbit");
    bench.send(150 * MS, packet(0), 1514);
    assert_eq!(bench.jens.wake(), Some(Instant::from_nanos(200 * MS)), "the age check");
    bench.run(1_100 * MS);
    assert_eq!(bench.jens.wake(), Some(Instant::from_nanos(1_200 * MS)));
    bench.run(1_200 * MS);
    assert_eq!(bench.jens.wake(), Some(Instant::from_nanos(150 * MS + 1_211_200_000)), "the gate");
    bench.run(1_400 * MS);
    assert_eq!(bench.jens.wake(), None, "nothing is queued");
}

#[test]
fn packets_to_come_are_waited_for_past_the_age_check() {
    let mut bench = Bench::new("rate=10mbit jens.extralatency=1s");
    bench.send(0, packet(0), 1514);
    assert_eq!(bench.jens.wake(), Some(Instant::from_nanos(1_000 * MS)));
    bench.send(100 * MS, of_band(1, 0), 1514);
    assert_eq!(bench.jens.wake(), Some(Instant::from_nanos(1_000 * MS)));
    bench.run(2_000 * MS);
    assert_eq!(bench.times(), [1_000 * MS, 1_100 * MS]);
}

#[test]
fn a_lower_extra_latency_overtakes_only_in_another_fifo() {
    let mut bench = Bench::new("rate=100mbit jens.extralatency=50ms");
    bench.send(0, packet(0), 1000);
    bench.change(10 * MS, "rate=100mbit jens.extralatency=5ms");
    bench.send(10 * MS, packet(1), 1000);
    bench.send(10 * MS, of_band(2, 2), 1000);
    bench.run(100 * MS);
    assert_eq!(bench.handles(), [2, 0, 1]);
    assert_eq!(bench.times(), [15 * MS, 50 * MS, 50 * MS + 80_000]);
}

#[test]
fn extra_latency_is_reported_as_latency_and_is_no_queue_delay() {
    let mut bench = Bench::new("rate=10mbit jens.extralatency=20ms jens.subbufs=4");
    bench.send(0, packet(0), 1514);
    bench.send(0, packet(1), 1514);
    bench.now = Instant::from_nanos(20 * MS);
    let served = bench.jens.dequeue(bench.now, &mut bench.effects).unwrap();
    assert_eq!(served.latency, Duration::from_millis(20));
    assert_eq!(served.pacing, Duration::ZERO);
    bench.dequeue();
    bench.run(100 * MS);
    let records = sojourns(&bench.records());
    assert_eq!((records[1].sojourn, records[1].delay), (1_182, 20_715));
}

#[test]
fn idling_and_drops_end_credit() {
    let mut bench = Bench::new("rate=10mbit limit=1p");
    bench.late = Duration::from_micros(300);
    bench.send(0, packet(0), 1514);
    bench.send(0, packet(1), 1514);
    // The head is dropped: the next leaves late and the gate counts from there.
    bench.send(0, packet(2), 1514);
    bench.send(FULL + 310_000, packet(3), 1514);
    bench.run(100 * MS);
    assert_eq!(bench.dropped, [(1, DropReason::Limit)]);
    assert_eq!(bench.times(), [0, FULL + 300_000, 2 * FULL + 600_000]);
}

#[test]
fn the_limit_drops_the_oldest_of_the_last_fifo_and_never_the_newcomer() {
    let mut bench = Bench::new("rate=10mbit limit=3p");
    bench.send(0, packet(100), 1514);
    for (handle, band) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 0), (5, 0), (6, 0), (7, 2)] {
        bench.send(0, of_band(handle, band), 1514);
    }
    let victims: Vec<_> = bench.dropped.iter().map(|(handle, _)| *handle).collect();
    assert_eq!(victims, [2, 3, 1, 0, 4]);
    assert_eq!((bench.statistics().overlimits, bench.statistics().limit_drops), (5, 5));
    bench.run(100 * MS);
    assert_eq!(bench.handles(), [100, 5, 6, 7]);
}

#[test]
fn a_limit_of_one_keeps_the_newest() {
    let mut bench = Bench::new("rate=10mbit limit=1p");
    for handle in 0..5 {
        bench.send(0, packet(handle), 1514);
    }
    bench.run(10 * MS);
    assert_eq!(bench.handles(), [0, 4]);
}

#[test]
fn a_lower_limit_drops_at_once_and_says_that_it_was_a_resize() {
    let mut bench = Bench::new("rate=10mbit limit=10p jens.subbufs=4");
    for handle in 0..6 {
        bench.send(0, of_band(handle, [1, 2][usize::from(handle > 3)]), 1514);
    }
    bench.change(MS, "rate=10mbit limit=2p jens.subbufs=4");
    let victims: Vec<_> = bench.dropped.iter().map(|(handle, _)| *handle).collect();
    assert_eq!(victims, [4, 5, 1]);
    assert_eq!(bench.statistics().overlimits, 0);
    let records = sojourns(&bench.records());
    assert!(records[1..].iter().all(|record| record.dropped));
    assert!(records[1..].iter().all(|record| record.sojourn == Sojourn::RESIZED));
}

#[test]
fn one_packet_is_dropped_for_an_old_one_and_not_always_the_old_one() {
    let mut bench = Bench::new("rate=10mbit jens.handover=190ms");
    bench.send(50 * MS, of_band(1, 1), 1514);
    bench.send(180 * MS, of_band(0, 0), 1514);
    bench.send(180 * MS, of_band(2, 2), 1514);
    bench.run(189 * MS);
    assert_eq!(bench.dropped, []);
    // A second handover keeps the gate closed over the check at 200 ms.
    bench.jens.hand_over(bench.now, Duration::from_millis(20));
    bench.run(300 * MS);
    assert_eq!(bench.dropped, [(0, DropReason::Age)], "the head of the first FIFO");
    assert_eq!(bench.handles(), [1, 2]);
}

#[test]
fn all_that_are_older_than_half_a_second_are_dropped() {
    let mut bench = Bench::new("rate=10mbit jens.handover=900ms");
    for handle in 0..10 {
        bench.send(90 * MS + handle, packet(handle), 1514);
    }
    for handle in 10..13 {
        bench.send(400 * MS + handle, packet(handle), 1514);
    }
    assert_eq!(bench.dropped.len(), 2, "one at 200 ms and one at 400 ms");
    bench.run(600 * MS);
    assert_eq!(bench.dropped.len(), 10, "all of the first ten, then older than 500 ms");
    bench.run(2_000 * MS);
    assert_eq!(bench.statistics().age_drops, 11);
    assert_eq!(bench.handles(), [11, 12]);
}

#[test]
fn exactly_100_and_500_ms_are_not_too_old() {
    for (at, dropped) in [(100 * MS, 0), (100 * MS - 1, 1)] {
        let mut bench = Bench::new("rate=10mbit jens.handover=390ms");
        bench.send(at, packet(0), 1514);
        bench.run(200 * MS);
        assert_eq!(bench.dropped.len(), dropped, "{at}");
    }
    // One each at 400 and 600 ms; or one each at 200 and 400 ms and then all.
    for (at, dropped) in [(100 * MS, 2), (100 * MS - 1, 5)] {
        let mut bench = Bench::new("rate=10mbit jens.handover=790ms");
        (0..5).for_each(|handle| bench.send(at, packet(handle), 1514));
        bench.run(600 * MS);
        assert_eq!(bench.dropped.len(), dropped, "{at}");
    }
}

#[test]
fn ages_near_the_epoch_do_not_wrap() {
    for start in [0, 1, 50 * MS] {
        let mut bench =
            Bench::starting("rate=10mbit jens.handover=240ms", Instant::from_nanos(start));
        bench.send(start + 199 * MS, packet(0), 1514);
        bench.run(1_000 * MS);
        assert_eq!(bench.dropped, [], "start {start}");
    }
}

#[test]
fn a_check_that_comes_late_is_not_made_up_for() {
    let mut bench = Bench::new("rate=1kbit");
    bench.send(5_000 * MS, packet(0), 1514);
    bench.send(5_001 * MS, packet(1), 1514);
    assert_eq!(bench.jens.wake(), Some(Instant::from_nanos(5_200 * MS)));
}

#[test]
fn a_packet_dropped_before_it_became_visible_says_so() {
    let mut bench = Bench::new("rate=10mbit limit=1p jens.extralatency=1s jens.subbufs=4");
    bench.send(0, packet(0), 1514);
    bench.send(0, packet(1), 1514);
    let records = sojourns(&bench.records());
    assert_eq!((records[0].handle, records[0].sojourn), (0, Sojourn::EARLY));
}

#[test]
fn a_handover_can_only_grow_longer() {
    let mut bench = Bench::new("rate=10mbit");
    bench.send(0, packet(0), 1514);
    bench.send(0, packet(1), 1514);
    bench.jens.hand_over(bench.now, Duration::from_millis(50));
    bench.jens.hand_over(bench.now, Duration::from_millis(20));
    bench.run(100 * MS);
    assert_eq!(bench.times(), [0, 50 * MS]);
    assert_eq!(bench.statistics().handovers, 2);
}

#[test]
fn planned_handovers_begin_at_their_time_after_the_start() {
    let text = "rate=10mbit jens.handover=10ms,20ms,50ms,1ms jens.subbufs=4";
    let start = 1_000 * MS;
    let mut bench = Bench::starting(text, Instant::from_nanos(start));
    bench.send(start + 9 * MS, packet(0), 1514);
    bench.send(start + 10 * MS, packet(1), 1514);
    bench.send(start + 50 * MS, packet(2), 1514);
    bench.run(start + 100 * MS);
    assert_eq!(bench.times(), [start + 9 * MS, start + 30 * MS, start + 51 * MS]);
    let begun: Vec<_> = sizes(&bench.records())
        .into_iter()
        .filter(|size| size.handover)
        .map(|size| size.at.as_nanos() - start)
        .collect();
    assert_eq!(begun, [10 * MS, 50 * MS]);
}

#[test]
fn a_live_change_takes_everything_at_once_and_names_a_handover_once() {
    let mut bench = Bench::new("rate=10mbit");
    for handle in 0..4 {
        bench.send(0, packet(handle), 1514);
    }
    bench.change(MS, "rate=20mbit limit=2p jens.handover=30ms jens.markfull=1ms jens.markfree=0ms");
    assert_eq!(bench.dropped, [(1, DropReason::Limit)]);
    bench.change(2 * MS, "rate=20mbit limit=2p jens.markfull=1ms jens.markfree=0ms");
    bench.run(100 * MS);
    assert_eq!(bench.times(), [0, 31 * MS, 31 * MS + FULL / 2]);
    assert_eq!(bench.left[1].2, Mark::Decided);
    assert_eq!(bench.statistics().handovers, 1);
}

#[test]
fn a_new_rate_leaves_the_gate_in_force() {
    let mut bench = Bench::new("rate=10mbit jens.subbufs=4");
    for handle in 0..3 {
        bench.send(0, packet(handle), 1514);
    }
    bench.change(MS / 2, "rate=1mbit");
    bench.run(100 * MS);
    assert_eq!(bench.times(), [0, FULL, FULL + 10 * FULL]);
    let rates: Vec<_> = sizes(&bench.records()).iter().map(|size| size.real_bps).collect();
    assert_eq!(rates, [10_000_000, 1_000_000]);
}

#[test]
fn a_paused_link_holds_packets_while_they_age_and_goes_on_at_once() {
    let mut bench = Bench::new("rate=0");
    bench.send(0, packet(0), 1514);
    bench.send(250 * MS, packet(1), 1514);
    bench.send(250 * MS, packet(2), 1514);
    bench.run(300 * MS);
    assert_eq!((bench.times(), bench.dropped.clone()), (vec![], vec![(0, DropReason::Age)]));
    bench.change(300 * MS, "rate=10mbit");
    assert_eq!(bench.jens.wake(), Some(bench.now));
    bench.dequeue();
    bench.run(310 * MS);
    assert_eq!(bench.times(), [300 * MS, 300 * MS + FULL]);
    bench.change(310 * MS, "rate=0");
    bench.run(400 * MS);
    assert_eq!(bench.jens.wake(), None, "an empty paused queue waits for nothing");
}

#[test]
fn a_virtual_queue_marks_by_the_rate_and_serves_faster() {
    let text = "rate=10mbit jens.vq=4 jens.markfree=3ms jens.markfull=3ms jens.subbufs=4";
    let mut bench = Bench::new(text);
    for handle in 0..4 {
        bench.send(0, packet(handle), 1514);
    }
    bench.run(100 * MS);
    assert_eq!(bench.times(), [0, FULL / 4, FULL / 2, FULL / 4 * 3]);
    let marks: Vec<_> = bench.left.iter().map(|(.., mark)| *mark).collect();
    assert_eq!(marks, [Mark::None, Mark::None, Mark::None, Mark::Decided], "from 3 x 1.2112 ms on");
    let records = bench.records();
    let ahead: Vec<_> = sojourns(&records).iter().map(|record| record.ahead).collect();
    assert_eq!(ahead, [0, 887, 1_774, 2_661]);
    assert_eq!(
        (sizes(&records)[0].virtual_bps, sizes(&records)[0].real_bps),
        (10_000_000, 40_000_000)
    );
}

#[test]
fn packets_age_against_the_virtual_queue_when_asked() {
    for (base, dropped) in [("now", 0), ("virtual", 1)] {
        let text = format!("rate=1mbit jens.vq=100 jens.agebase={base}");
        let mut bench = Bench::new(&text);
        for handle in 0..50 {
            bench.send(190 * MS, packet(handle), 1514);
        }
        // After ten packets the virtual queue ends 121 ms later; 200 ms come before the rest.
        let paused = format!("rate=0 jens.vq=100 jens.agebase={base}");
        bench.change(191 * MS + MS / 5, &paused);
        bench.run(201 * MS);
        assert_eq!(bench.statistics().age_drops, dropped, "{base}");
    }
}

#[test]
fn users_are_found_by_mark_and_served_by_turns() {
    let mut bench = Bench::new("rate=10mbit jens.users=3");
    for handle in 0..8 {
        // Users 0, 1, 2, and 3 that is none and counts as 0.
        let mark = u32::try_from(handle % 4).unwrap();
        bench.send(0, Packet { mark, ..packet(handle) }, 1514);
    }
    bench.run(100 * MS);
    let of_user = |marks: &[u64]| -> Vec<u64> {
        let of = bench.left.iter().filter(|(handle, ..)| marks.contains(&(handle % 4)));
        of.map(|(_, at, _)| *at).collect()
    };
    assert_eq!(of_user(&[1]), [0, FULL], "each has a gate of its own");
    assert_eq!(of_user(&[2]), [0, FULL]);
    assert_eq!(of_user(&[0, 3]), [0, FULL, 2 * FULL, 3 * FULL]);
}

#[test]
fn users_share_the_limit_and_lose_by_turns() {
    let mut bench = Bench::new("rate=10mbit jens.users=3 limit=4p");
    for handle in 0..3 {
        let mark = u32::try_from(handle).unwrap();
        bench.send(0, Packet { mark, ..packet(100 + handle) }, 1514);
    }
    for handle in 0..8 {
        let mark = [0, 0, 1, 1, 0, 0, 0, 0][usize::try_from(handle).unwrap()];
        bench.send(0, Packet { mark, ..packet(handle) }, 1514);
    }
    // User 2 has nothing to lose. User 2 was served last, so user 0 loses first.
    let victims: Vec<_> = bench.dropped.iter().map(|(handle, _)| *handle).collect();
    assert_eq!(victims, [0, 2, 1, 3]);
    assert_eq!(bench.statistics().overlimits, 4);
}

#[test]
fn a_user_can_have_a_rate_of_its_own() {
    let mut bench = Bench::new("rate=10mbit jens.users=2");
    assert!(bench.jens.set_user_rate(1, Rate::from_bps(1_000_000).unwrap(), bench.now));
    assert!(!bench.jens.set_user_rate(2, Rate::from_bps(1_000_000).unwrap(), bench.now));
    assert!(!bench.jens.set_user_rate(0, Rate::UNLIMITED, bench.now));
    for handle in 0..4 {
        let mark = u32::try_from(handle % 2).unwrap();
        bench.send(0, Packet { mark, ..packet(handle) }, 1514);
    }
    bench.change(MS, "rate=10mbit jens.users=2 jens.qosmode=1");
    bench.run(100 * MS);
    assert_eq!(bench.times(), [0, 0, FULL, 10 * FULL], "another change leaves it alone");
}

#[test]
fn a_user_number_is_read_from_what_the_configuration_names() {
    let v4 = |last: u8| IpAddr::from([10, 0, 0, last]);
    let key = FlowKey {
        addresses: Some((v4(9), v4(22))),
        protocol: 17,
        source_port: 1_003,
        destination_port: 1_234,
    };
    let classified = Classified { key, dscp: 46, ..Classified::default() };
    let number = |by: &str, mark| {
        config(&format!("rate=1mbit jens.users=10 jens.user={by}")).packet_mark(&classified, mark)
    };
    // 10.0.0.9 is 167,772,169.
    assert_eq!((number("source", 5), number("destination", 5)), (9, 2));
    assert_eq!((number("sport", 5), number("dport", 5), number("dscp", 5)), (3, 4, 6));
    assert_eq!((number("mark", 5), number("mark", 11)), (5, 11), "the queue judges marks");
    let v6 = FlowKey { addresses: Some((IpAddr::from([0xffff; 8]), v4(1))), ..key };
    let by_source = config("rate=1mbit jens.users=256 jens.user=source");
    let classified = Classified { key: v6, ..Classified::default() };
    assert_eq!(by_source.packet_mark(&classified, 0), 255);
    assert_eq!(by_source.packet_mark(&Classified::default(), 7), 0, "no address");
    assert_eq!(LinkConfig::default().packet_mark(&classified, 7), 7);
}

#[test]
fn times_are_recorded_in_units_of_1024_ns() {
    let nanos = Duration::from_nanos;
    assert_eq!(
        (Sojourn::units(nanos(1_234_567)), Sojourn::units_up(nanos(1_234_567))),
        (1_205, 1_206)
    );
    assert_eq!((Sojourn::units(nanos(500)), Sojourn::units_up(nanos(500))), (1, 1));
    assert_eq!((Sojourn::units(Duration::ZERO), Sojourn::units_up(Duration::ZERO)), (1, 0));
    assert_eq!(Sojourn::units(nanos(u64::MAX)), 0xffff_fffd);
    assert_eq!(Sojourn::units_up(nanos(u64::MAX)), 0xffff_fffd);
    assert_eq!((Sojourn::units_ahead(nanos(0)), Sojourn::units_ahead(nanos(1))), (0, 1));
    assert_eq!(Sojourn::units_ahead(nanos(u64::MAX)), 0xff_ffff);
    assert_eq!(Sojourn::size(u64::MAX), 0x3fff_ffff);
}

#[test]
fn a_record_has_64_bytes_in_the_modules_layout() {
    let sojourn = Sojourn {
        at: Instant::from_nanos(0x0102_0304_0506_0708),
        handle: 1,
        ecn: Ecn::Ect1,
        mark: true,
        dropped: true,
        band: 2,
        sojourn: 0x1112_1314,
        ahead: 0x0021_2223,
        delay: 0x3132_3334,
        bytes: 1514,
    };
    let ends = FlowKey {
        addresses: Some((IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]))),
        protocol: 6,
        source_port: 80,
        destination_port: 443,
    };
    let bytes = Record::Sojourn(sojourn).encode(Some(&ends), 0);
    assert_eq!(bytes[..8], 0x0102_0304_0506_0708_u64.to_ne_bytes());
    // ECT(1) in, valid, CE out, mark, drop.
    assert_eq!(bytes[8..10], [9, 1 | 1 << 2 | 3 << 3 | 1 << 6 | 1 << 7]);
    assert_eq!(bytes[10..12], 0x2300_u16.to_ne_bytes());
    assert_eq!(bytes[12..16], 0x1112_1314_u32.to_ne_bytes());
    assert_eq!(bytes[26..32], [0xff, 0xff, 10, 0, 0, 1]);
    assert_eq!(bytes[42..48], [0xff, 0xff, 10, 0, 0, 2]);
    assert_eq!(bytes[48..52], ((3_u32 << 30) + 1514).to_ne_bytes());
    assert_eq!(bytes[52..54], [4, 6]);
    assert_eq!(bytes[54..56], 80_u16.to_ne_bytes());
    assert_eq!(bytes[56..58], 443_u16.to_ne_bytes());
    assert_eq!(bytes[58..60], 0x2122_u16.to_ne_bytes());
    assert_eq!(bytes[60..], 0x3132_3334_u32.to_ne_bytes());
    let unknown = Record::Sojourn(sojourn).encode(None, 0);
    assert_eq!((unknown[9] & 4, &unknown[52..54]), (0, &[0, 59][..]));
}

#[test]
fn ports_are_those_of_tcp_and_udp_only() {
    let mut bench = Bench::new("rate=10mbit jens.subbufs=4");
    bench.send(0, packet(0), 1514);
    let records = bench.records();
    let ends = FlowKey {
        addresses: Some((IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]), IpAddr::from([0; 16]))),
        protocol: 58,
        source_port: 7,
        destination_port: 0,
    };
    let bytes = records[1].encode(Some(&ends), 0);
    assert_eq!((&bytes[52..58], &bytes[16..18]), (&[6, 58, 0, 0, 0, 0][..], &[0xfd, 0][..]));
}

#[test]
fn the_ring_keeps_the_newest_sub_buffers_and_pads_what_is_flushed() {
    let mut recorder = Recorder::new(4);
    let size = |at| {
        Record::QueueSize(QueueSize {
            at: Instant::from_nanos(at),
            handover: false,
            packets: 0,
            bytes: 0,
            virtual_bps: 1,
            real_bps: 1,
        })
    };
    (0..5 * 256 + 10).for_each(|at| recorder.push(size(at)));
    assert_eq!(recorder.overwritten(), 2 * 256);
    let mut bytes = Vec::new();
    let mut sub_buffers = 0;
    while recorder.read(&mut bytes, 5, |_| None) {
        sub_buffers += 1;
    }
    assert_eq!((sub_buffers, bytes.len()), (3, 3 * 256 * 64));
    assert_eq!(bytes[..8], 512_u64.to_ne_bytes(), "the oldest that is left");
    assert_eq!(bytes[24..32], 5_u64.to_ne_bytes(), "the clock's offset");
    bytes.clear();
    recorder.flush();
    recorder.flush();
    assert!(recorder.read(&mut bytes, 0, |_| None));
    assert!(!recorder.read(&mut bytes, 0, |_| None));
    let kinds: Vec<_> = bytes.chunks(64).map(|record| record[8]).collect();
    assert_eq!((&kinds[..10], &kinds[10..]), (&[6; 10][..], &[4; 246][..]));
}

#[test]
fn recording_changes_no_fate() {
    let run = |text: &str| {
        let mut bench = Bench::new(text);
        for handle in 0..500 {
            bench.send(handle * MS, Packet { ecn: Ecn::Ect0, ..packet(handle) }, 1514);
        }
        bench.run(5_000 * MS);
        assert_eq!(bench.jens.recorders().count(), usize::from(text.contains("subbufs")));
        (bench.left, bench.dropped)
    };
    assert_eq!(run("rate=10mbit"), run("rate=10mbit jens.subbufs=8"));
}

#[test]
fn a_jens_shows_as_tc_shows_one_and_its_own_counters_besides() {
    let config = config("rate=10mbit limit=2p jens.users=2");
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    for handle in 0..5 {
        link.arrive(packet(handle));
    }
    link.advance(Instant::from_nanos(FULL + 20 * MS));
    let shown = "qdisc jens root limit 2p rate 10Mbit markfree 4ms markfull 14ms extralatency 0ms \
                 qosmode 0 users 2 user mark vq 1 agebase now handover none subbufs 0\n \
                 Sent 4542 bytes 3 pkt (dropped 2, overlimits 2 requeues 0)\n \
                 backlog 0b 0p requeues 0\n  \
                 limit_drops 2 age_drops 0 marked 0 not_ecn_capable 0 handovers 0";
    assert_eq!(crate::queue::show(&config, &link.snapshot()), shown);
    assert_eq!(link.snapshot().discipline.counters()[0], ("overlimits", 2));
}

#[test]
fn times_and_sizes_at_the_end_of_their_ranges_do_no_harm() {
    let mut bench = Bench::new("rate=1bit jens.vq=1 jens.extralatency=2s jens.subbufs=4");
    bench.send(u64::MAX - 5, packet(0), u64::from(u32::MAX));
    bench.send(u64::MAX, packet(1), 1);
    bench.jens.hand_over(bench.now, JensConfig::MAX_HANDOVER);
    // The end of the range never comes: whoever asks there is told to ask again then.
    let _ = bench.jens.dequeue(Instant::from_nanos(u64::MAX), &mut bench.effects);
    assert!(bench.jens.wake().is_none());
    let mut slow = Bench::new("rate=1bit jens.vq=100");
    slow.send(0, packet(0), u64::from(u32::MAX));
    slow.send(0, packet(1), u64::from(u32::MAX));
    slow.run(10_000 * MS);
    assert_eq!((slow.left.len(), slow.dropped.len()), (1, 1));
}

fn departures(link: &mut Link) -> Vec<(u64, u64, crate::Stages)> {
    let outputs = core::iter::from_fn(|| link.poll());
    let departures = outputs.filter_map(|output| match output {
        Output::Depart { packet, due, stages, .. } => Some((packet.handle, due.as_nanos(), stages)),
        Output::Drop { .. } => None,
    });
    departures.collect()
}

#[test]
fn a_packet_leaves_the_link_when_it_is_dequeued() {
    let config = config("rate=10mbit delay=1ms jens.extralatency=20ms");
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    link.arrive(packet(0));
    link.arrive(packet(1));
    link.advance(Instant::from_nanos(100 * MS));
    let [first, second] = departures(&mut link)[..] else { panic!("not two") };
    assert_eq!((first.1, second.1), (21 * MS, 21 * MS + FULL), "no second serialiser");
    assert_eq!(second.2.propagation, Duration::from_millis(21));
    assert_eq!(second.2.queue, Duration::from_nanos(FULL));
    assert_eq!((second.2.serialisation, second.2.pacing), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn a_live_change_of_the_link_reaches_the_queue_or_changes_nothing() {
    let config = config("rate=0 jens.handover=1ms");
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    for handle in 0..3 {
        link.arrive(packet(handle));
    }
    link.advance(Instant::from_nanos(10 * MS));
    assert_eq!(departures(&mut link), []);
    let at = Instant::from_nanos(20 * MS);
    let unlimited = Change { rate: Some(Rate::UNLIMITED), ..Change::default() };
    let error = link.change(&unlimited, at).unwrap_err().to_string();
    assert_eq!(error, "queue: jens needs a rate to pace by, expected for example rate=20mbit");
    let faster = Change { rate: Rate::from_bps(10_000_000), ..Change::default() };
    link.change(&faster, at).unwrap();
    link.advance(Instant::from_nanos(100 * MS));
    let times: Vec<_> = departures(&mut link).iter().map(|(_, due, _)| *due).collect();
    assert_eq!(times, [20 * MS, 20 * MS + FULL, 20 * MS + 2 * FULL]);
    let Statistics::Jens(statistics) = link.snapshot().discipline else { panic!("not jens") };
    assert_eq!(statistics.handovers, 1, "the handover of the start is not begun again");
}

#[test]
fn records_are_read_through_the_link() {
    let mut link = Link::new(&config("rate=10mbit jens.subbufs=4"), 1, Instant::ZERO).unwrap();
    link.arrive(packet(7));
    let jens = link.jens_mut().unwrap();
    jens.recorders().for_each(Recorder::flush);
    let mut asked = Vec::new();
    let mut bytes = Vec::new();
    let recorder = jens.recorders().next().unwrap();
    assert!(recorder.read(&mut bytes, 0, |handle| {
        asked.push(handle);
        None
    }));
    assert_eq!((asked, bytes.len()), (vec![7], 256 * Record::LEN));
}

#[test]
fn bad_parameters_are_refused_with_what_was_expected() {
    for (text, message) in BAD {
        let error = LinkConfig::parse(text, "--up").unwrap_err().to_string();
        assert_eq!(error, format!("--up: {message}"), "{text}");
    }
}

const BAD: &[(&str, &str)] = &[
    ("rate=1mbit jens.users=2", "jens.users: needs queue=jens"),
    ("queue=jens", "queue: jens needs a rate to pace by, expected for example rate=20mbit"),
    (
        "queue=jens rate=1mbit impair=netem",
        "queue: impair=netem is the queue itself, expected fifo",
    ),
    ("queue=jens rate=1mbit burst=15kb", "burst: jens paces every packet and has none"),
    ("queue=jens rate=1mbit limit=0p", "limit: 0p holds no packet"),
    (
        "queue=jens rate=1mbit limit=200kb",
        "limit: 200kb: jens counts packets, expected for example 10240p",
    ),
    (
        "queue=jens rate=1mbit limit=100ms",
        "limit: 100ms: jens counts packets, expected for example 10240p",
    ),
    (
        "queue=jens rate=1mbit gso=keep",
        "gso: keep would mark or drop whole bursts where the queue means packets, expected split or auto",
    ),
    ("queue=jens rate=1mbit jens.extralatency=3s", "jens.extralatency: 3s is more than 2s"),
    (
        "queue=jens rate=1mbit jens.markfree=4294967295us",
        "jens.markfree: 4294967295us is more than 4294967294us",
    ),
    (
        "queue=jens rate=1mbit jens.markfull=2h",
        "jens.markfull: unknown unit \"h\" in \"2h\", expected one of s, sec, secs, ms, msec, msecs, us, usec, usecs, ns, nsec, nsecs",
    ),
    (
        "queue=jens rate=1mbit jens.qosmode=3",
        "jens.qosmode: unknown word \"3\", expected one of 0, 1, 2",
    ),
    ("queue=jens rate=1mbit jens.users=0", "jens.users: 0 is out of range, expected 1 to 256"),
    ("queue=jens rate=1mbit jens.users=257", "jens.users: 257 is out of range, expected 1 to 256"),
    ("queue=jens rate=1mbit jens.users=many", "jens.users: \"many\" is no whole number such as 4"),
    ("queue=jens rate=1mbit jens.vq=0", "jens.vq: 0 is out of range, expected 1 to 100"),
    ("queue=jens rate=1mbit jens.agebase=virtual", "jens.agebase: virtual needs jens.vq above 1"),
    (
        "queue=jens rate=1mbit jens.subbufs=3",
        "jens.subbufs: 3 is out of range, expected 4 to 1048575",
    ),
    ("queue=jens rate=1mbit jens.handover=0ms", "jens.handover: 0ms is less than 1us"),
    (
        "queue=jens rate=1mbit jens.handover=1s,4295s",
        "jens.handover: 4295s is more than 4294967295us",
    ),
    (
        "queue=jens rate=1mbit jens.handover=1s,5ms,2s",
        "jens.handover: \"1s,5ms,2s\" has a time without a duration, expected AT,DURATION,...",
    ),
    (
        "queue=jens rate=1mbit jens.handover=2s,5ms,1s,5ms",
        "jens.handover: 1s comes after 2s, expected them in order",
    ),
    (
        "queue=jens rate=1mbit jens.user=port",
        "jens.user: unknown word \"port\", did you mean \"sport\"?",
    ),
    (
        "queue=jens rate=1mbit jens.mark=1ms",
        "unknown parameter \"jens.mark\", expected one of jens.markfree, jens.markfull, jens.extralatency, jens.qosmode, jens.users, jens.user, jens.vq, jens.agebase, jens.handover, jens.subbufs",
    ),
];

#[test]
fn parameters_print_as_they_are_read() {
    for text in [
        "jens.handover=200ms",
        "jens.handover=1s,200ms,5s,100ms",
        "jens.markfree=1ms jens.markfull=1ms jens.extralatency=20ms jens.qosmode=2",
        "jens.users=256 jens.user=dscp jens.vq=4 jens.agebase=virtual jens.subbufs=1024",
    ] {
        let read = config(&format!("rate=1mbit {text}"));
        let entries = read.entries();
        for word in text.split(' ') {
            let (name, value) = word.split_once('=').unwrap();
            assert!(entries.contains(&(name, value.to_owned())), "{word}");
        }
        let pairs = entries.iter().map(|(name, value)| (*name, value.as_str()));
        assert_eq!(LinkConfig::from_entries(pairs, None), Ok(read));
    }
}

#[test]
fn an_unnamed_limit_is_10240_packets_and_bursts_are_split() {
    let config = config("rate=8gbit");
    assert_eq!(config.with_limit_resolved().limit, Some(Limit::Packets(10_240)));
    assert_eq!(config.resolved_gso(), crate::config::Gso::Split);
    assert!(config.may_mark() && config.serves_itself());
}

fn arrivals() -> impl Strategy<Value = Vec<(u64, u8, u8, u32, u64)>> {
    let arrival = (0..3_000_000_u64, 0..64_u8, 0..4_u8, 0..5_u32, 40..20_000_u64);
    proptest::collection::vec(arrival, 1..150)
}

fn settings() -> impl Strategy<Value = String> {
    let rates = prop_oneof![Just("1mbit"), Just("10mbit"), Just("200mbit"), Just("8gbit")];
    (rates, 1..40_u32, 1..4_u32, 0..3_u8, 0..30_u64, 1..3_u32, 0..200_u64).prop_map(
        |(rate, limit, users, mode, latency, factor, handover)| {
            format!(
                "rate={rate} limit={limit}p jens.users={users} jens.qosmode={mode} \
                 jens.extralatency={latency}ms jens.vq={factor} jens.handover=20ms,{}ms",
                handover + 1
            )
        },
    )
}

proptest! {
    #[test]
    fn every_packet_leaves_once_or_is_dropped_once(
        text in settings(), arrivals in arrivals(), change in proptest::option::of(settings()),
    ) {
        let mut bench = Bench::new(&text);
        let mut at = 0;
        for (handle, &(gap, dscp, ecn, mark, bytes)) in arrivals.iter().enumerate() {
            at += gap;
            if handle == 50 && let Some(change) = &change {
                bench.change(at, change);
            }
            let packet = Packet { dscp, ecn: Ecn::from_tos(ecn), mark, ..packet(handle as u64) };
            bench.send(at, packet, bytes);
            let accounted = bench.left.len() + bench.dropped.len();
            prop_assert_eq!(bench.jens.backlog().packets, (handle + 1 - accounted) as u64);
        }
        bench.run(u64::MAX / 2);
        let mut all: Vec<_> = bench.handles();
        all.extend(bench.dropped.iter().map(|(handle, _)| *handle));
        all.sort_unstable();
        prop_assert_eq!(all, (0..arrivals.len() as u64).collect::<Vec<_>>());
        prop_assert_eq!(bench.jens.backlog(), Backlog::default());
        prop_assert_eq!(bench.jens.wake(), None);
    }

    #[test]
    fn a_fifo_keeps_its_order_and_a_user_its_rate(text in settings(), arrivals in arrivals()) {
        let mut bench = Bench::new(&text);
        let config = config(&text);
        let mut at = 0;
        for (handle, &(gap, dscp, ecn, mark, bytes)) in arrivals.iter().enumerate() {
            at += gap;
            let packet = Packet { dscp, ecn: Ecn::from_tos(ecn), mark, ..packet(handle as u64) };
            bench.send(at, packet, bytes);
        }
        bench.run(u64::MAX / 2);
        let pace = Pace::new(config.rate, config.jens.virtual_factor).unwrap();
        let mut gates = [0_u64; 4];
        let mut last = std::collections::BTreeMap::new();
        for &(handle, at, _) in &bench.left {
            let (_, dscp, ecn, mark, bytes) = arrivals[usize::try_from(handle).unwrap()];
            let user = if mark < config.jens.users { mark } else { 0 };
            prop_assert!(at >= gates[user as usize], "packet {} left before its gate", handle);
            gates[user as usize] = at + pace.time(bytes).as_nanos();
            let before = last.insert((user, dscp, ecn), handle);
            prop_assert!(before.is_none_or(|before| before < handle));
        }
    }

    #[test]
    fn how_often_the_link_is_advanced_makes_no_difference(
        text in settings(), arrivals in arrivals(), step in 1_000..5_000_000_usize,
    ) {
        let config = config(&text);
        let outputs = |step: usize| {
            let mut link = Link::new(&config, 9, Instant::ZERO).unwrap();
            let mut at = 0;
            for (handle, &(gap, dscp, ecn, mark, bytes)) in arrivals.iter().enumerate() {
                for between in (at..at + gap).step_by(step) {
                    link.advance(Instant::from_nanos(between));
                }
                at += gap;
                let ecn = Ecn::from_tos(ecn);
                let arrival = Instant::from_nanos(at);
                let len = u32::try_from(bytes).unwrap();
                link.arrive(Packet { arrival, len, mark, dscp, ecn, ..packet(handle as u64) });
            }
            link.advance(Instant::from_nanos(u64::MAX / 2));
            prop_assert_eq!(link.snapshot().queued, 0);
            Ok(core::iter::from_fn(|| link.poll()).collect::<Vec<_>>())
        };
        prop_assert_eq!(outputs(usize::MAX)?, outputs(step)?);
    }
}
