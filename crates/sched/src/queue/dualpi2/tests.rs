use proptest::prelude::*;

use super::*;
use crate::queue::Queue;

/// Bytes of every packet here with its Ethernet header.
const LEN: u32 = 1_500;
const MS: u64 = 1_000_000;

/// A queue, what it dropped, and packets numbered from 0.
struct Bench {
    queue: Dualpi2,
    effects: Effects,
    next: u64,
    drops: Vec<(u64, DropReason)>,
}

impl Bench {
    fn new(options: &str) -> Self {
        Self::seeded(options, 1)
    }

    fn seeded(options: &str, seed: u64) -> Self {
        let queue = Dualpi2::new(&link(options), seed, Instant::ZERO);
        Self { queue, effects: Effects::default(), next: 0, drops: Vec::new() }
    }

    /// `count` packets of one kind at `at` ns.
    fn enqueue(&mut self, count: u64, ecn: Ecn, at: u64) -> &mut Self {
        for _ in 0..count {
            let entered = Instant::from_nanos(at);
            let packet = Packet { ecn, ..Packet::on_path(self.next, entered, LEN, 7) };
            self.next += 1;
            self.queue.enqueue(Queued { packet, entered, bytes: 1_514 }, &mut self.effects);
        }
        self.collect();
        self
    }

    /// The packet that leaves at `at` ns, and its mark.
    fn dequeue(&mut self, at: u64) -> Option<(u64, Mark)> {
        let served = self.queue.dequeue(Instant::from_nanos(at), &mut self.effects);
        self.collect();
        served.map(|served| (served.queued.packet.handle, served.mark))
    }

    /// All that leave at `at` ns.
    fn drain(&mut self, at: u64) -> Vec<(u64, Mark)> {
        core::iter::from_fn(|| self.dequeue(at)).collect()
    }

    fn statistics(&self, at: u64) -> Dualpi2Statistics {
        let now = Instant::from_nanos(at);
        let Statistics::Dualpi2(statistics) = self.queue.statistics_at(now) else {
            panic!("another discipline")
        };
        statistics
    }

    fn collect(&mut self) {
        let dropped = self.effects.take_drops();
        self.drops.extend(dropped.map(|dropped| (dropped.packet.handle, dropped.reason)));
    }
}

fn link(options: &str) -> LinkConfig {
    LinkConfig::parse(&format!("queue=dualpi2 rate=10mbit {options}"), "test").unwrap()
}

fn handles(left: &[(u64, Mark)]) -> Vec<u64> {
    left.iter().map(|(handle, _)| *handle).collect()
}

#[test]
fn the_ecn_field_chooses_the_queue() {
    for (options, low) in [("", [false, true, false, true]), ("any_ect", [false, true, true, true])]
    {
        let options = if options.is_empty() { "" } else { "dualpi2.classify=any_ect" };
        for (ecn, low) in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce].into_iter().zip(low) {
            let mut bench = Bench::new(options);
            bench.enqueue(1, ecn, 0);
            let statistics = bench.statistics(0);
            let counted = (statistics.packets_in_l == 1, statistics.packets_in_c == 1);
            assert_eq!(counted, (low, !low), "{options} {ecn:?}");
        }
    }
}

#[test]
fn the_l_queue_goes_first_and_the_classic_one_keeps_its_share() {
    let mut bench = Bench::new("");
    bench.enqueue(3, Ecn::NotEct, 0).enqueue(19, Ecn::Ect1, 0);
    let order = handles(&bench.drain(0));
    let mut expected: Vec<u64> = (3..12).collect();
    expected.push(0);
    expected.extend(12..21);
    expected.extend([1, 21, 2]);
    assert_eq!(order, expected, "nine of L for one of C while both wait");
    assert_eq!(bench.statistics(0).credit, -121_120, "reset once both are empty");
}

#[test]
fn only_packets_that_meet_a_long_enough_l_queue_see_the_step() {
    let mut bench = Bench::new("dualpi2.min_qlen_step=2p");
    bench.enqueue(4, Ecn::Ect1, 0);
    let left = bench.drain(5 * MS);
    assert_eq!(left, [(0, Mark::None), (1, Mark::None), (2, Mark::Ce), (3, Mark::Ce)]);
    assert_eq!(bench.statistics(5 * MS).step_marks, 2);
}

#[test]
fn the_step_compares_strictly_and_spares_the_classic_queue() {
    let mut bench = Bench::new("");
    bench.enqueue(1, Ecn::Ect1, 0).enqueue(1, Ecn::Ect0, 0);
    assert_eq!(bench.drain(MS), [(0, Mark::None), (1, Mark::None)]);
    bench.enqueue(1, Ecn::Ect1, MS).enqueue(1, Ecn::Ect0, MS);
    assert_eq!(bench.drain(2 * MS + 1), [(2, Mark::Ce), (3, Mark::None)]);
}

#[test]
fn the_limit_counts_both_queues_and_the_packet_in_service() {
    let mut bench = Bench::new("limit=3p");
    bench.enqueue(2, Ecn::NotEct, 0).enqueue(2, Ecn::Ect1, 0);
    assert_eq!(bench.drops, [(3, DropReason::Limit)]);
    assert_eq!(bench.dequeue(0), Some((2, Mark::None)));
    bench.enqueue(1, Ecn::Ect1, 0);
    assert_eq!(bench.drops.last(), Some(&(4, DropReason::Limit)), "one is in service");
    bench.queue.served();
    bench.enqueue(1, Ecn::Ect1, 0);
    assert_eq!((bench.drops.len(), bench.statistics(0).overlimits), (2, 2));
}

#[test]
fn memory_has_its_own_limit_twice_a_full_packet_each_by_default() {
    let mut bench = Bench::new("dualpi2.memlimit=5000");
    bench.enqueue(3, Ecn::NotEct, 0);
    assert_eq!(bench.drops, [(2, DropReason::MemoryLimit)]);
    assert_eq!(bench.statistics(0).memory_used, 2 * 2_304);
    assert_eq!(Bench::new("").statistics(0).memory_limit, 30_280_000, "as tc prints it");
    assert_eq!(Bench::new("limit=4000000000p").statistics(0).memory_limit, u32::MAX.into());
}

#[test]
fn nothing_is_signalled_below_two_full_packets() {
    // The packet to be decided on does not count: it has left the queue.
    for (waiting, passing) in [(2, 2), (3, 2)] {
        let mut bench = Bench::new("dualpi2.target=0ms");
        bench.enqueue(waiting, Ecn::NotEct, 0);
        // A probability of 1 after 17 minutes: everything that may be dropped is.
        let left = bench.drain(1_000_000 * MS);
        assert_eq!(bench.queue.controller.probability(), u32::MAX);
        assert_eq!(left.len(), passing, "{waiting}");
    }
}

#[test]
fn drops_and_marks_are_decided_at_enqueue_when_asked_to() {
    let mut bench = Bench::new("dualpi2.drop=enqueue dualpi2.target=0ms");
    bench.enqueue(3, Ecn::Ect0, 0);
    // Saturated after 20 s, before the heads change.
    bench.enqueue(1, Ecn::NotEct, 20_000 * MS);
    assert_eq!(bench.drops, [(3, DropReason::Congested)]);
    let left = bench.drain(20_000 * MS);
    assert_eq!(handles(&left), [0, 1, 2], "what is in leaves");
    // Overflow holds the probability at a half: L is marked always, and nothing is dropped.
    let mut bench = Bench::new("dualpi2.drop=enqueue dualpi2.overload=overflow");
    bench.enqueue(3, Ecn::Ect1, 0).enqueue(1_000, Ecn::Ect1, 20_000 * MS);
    assert_eq!(bench.drops, []);
    assert!(bench.statistics(20_000 * MS).ecn_mark >= 990, "{:?}", bench.statistics(0));
}

#[test]
fn overload_drops_in_both_queues_or_overflows() {
    let survivors = |options: &str, ecn| {
        let mut bench = Bench::new(options);
        bench.enqueue(2_000, ecn, 0);
        let left = bench.drain(20_000 * MS);
        (left.len(), left.iter().filter(|(_, mark)| *mark == Mark::Ce).count())
    };
    // At a probability of 1 all but the last two are dropped, ECN-capable or not.
    for ecn in [Ecn::NotEct, Ecn::Ect0] {
        assert_eq!(survivors("", ecn), (2, 0), "{ecn:?}");
    }
    // The step marks those that the controller leaves.
    assert_eq!(survivors("", Ecn::Ect1), (2, 2));
    // At a half, a quarter of the classic packets is signalled; no L packet is lost.
    let (left, marked) = survivors("dualpi2.overload=overflow", Ecn::Ect0);
    assert_eq!(left, 2_000);
    assert!((420..580).contains(&marked), "{marked} of 2000 at a quarter");
    assert_eq!(survivors("dualpi2.overload=overflow", Ecn::Ect1), (2_000, 2_000));
}

#[test]
fn a_mark_by_both_means_counts_twice() {
    let mut bench = Bench::new("dualpi2.overload=overflow");
    bench.enqueue(10, Ecn::Ect1, 0);
    assert_eq!(bench.drain(20_000 * MS).len(), 10);
    let statistics = bench.statistics(20_000 * MS);
    assert_eq!((statistics.step_marks, statistics.ecn_mark), (10, 18), "the last two by the step");
}

#[test]
fn a_lower_limit_drops_classic_heads_first() {
    let mut bench = Bench::new("");
    bench.enqueue(2, Ecn::Ect1, 0).enqueue(2, Ecn::NotEct, 0);
    bench.queue.configure(&link("limit=1p"), Instant::from_nanos(MS), &mut bench.effects);
    bench.collect();
    let drops = [2, 3, 0].map(|handle| (handle, DropReason::Limit));
    assert_eq!(bench.drops, drops);
    assert_eq!(handles(&bench.drain(MS)), [1]);
}

#[test]
fn a_change_keeps_probability_and_credit() {
    let mut bench = Bench::new("");
    bench.enqueue(20, Ecn::NotEct, 0).enqueue(1, Ecn::Ect1, 0);
    bench.dequeue(100 * MS);
    let before = bench.statistics(100 * MS);
    assert!(before.probability > 0);
    assert_eq!(before.credit, -121_120 + 10 * 1_514);
    let link = link("dualpi2.classic_protection=50%");
    bench.queue.configure(&link, Instant::from_nanos(100 * MS), &mut bench.effects);
    let after = bench.statistics(100 * MS);
    assert_eq!((after.probability, after.credit), (before.probability, before.credit));
}

#[test]
fn statistics_tell_the_age_of_the_heads_now() {
    let mut bench = Bench::new("");
    bench.enqueue(1, Ecn::NotEct, MS).enqueue(1, Ecn::Ect1, 3 * MS);
    let statistics = bench.statistics(8 * MS);
    assert_eq!(statistics.delay_c, Duration::from_millis(7));
    assert_eq!(statistics.delay_l, Duration::from_millis(5));
    bench.drain(8 * MS);
    assert_eq!(bench.statistics(9 * MS).delay_c, Duration::ZERO);
}

#[test]
fn statistics_change_nothing() {
    let (mut asked, mut silent) = (Bench::new(""), Bench::new(""));
    for bench in [&mut asked, &mut silent] {
        bench.enqueue(400, Ecn::Ect1, 0);
    }
    for step in 0..400 {
        asked.statistics(step * MS);
        let (left, expected) = (asked.dequeue(step * MS), silent.dequeue(step * MS));
        assert_eq!(left, expected, "{step}");
    }
}

#[test]
fn round_trips_give_target_update_and_gains() {
    // RFC 9332, appendix A.1: 0.1 * 15 ms / (100 ms)^2 = 0.15 and 0.3 / 100 ms = 3 per second.
    let derived = |options: &str| {
        let config = link(options).dualpi2;
        let spans = [config.target, config.tupdate].map(|span| span.as_nanos() / 1_000);
        (spans, [config.alpha, config.beta].map(crate::units::Gain::as_raw))
    };
    let internet = ([15_000, 15_000], [38, 768]);
    assert_eq!(derived("dualpi2.max_rtt=100ms dualpi2.typical_rtt=15ms"), internet);
    for (longest, typical, fits) in [
        ("4.26s", false, true),
        ("4.28s", false, false),
        ("8.53s", true, true),
        ("8.54s", true, false),
    ] {
        let typical = if typical { "dualpi2.typical_rtt=3s" } else { "" };
        let words = format!("queue=dualpi2 dualpi2.max_rtt={longest} {typical}");
        assert_eq!(LinkConfig::parse(&words, "test").is_ok(), fits, "{words}");
    }
    let overridden = "dualpi2.alpha=9 dualpi2.max_rtt=100ms dualpi2.target=1ms";
    assert_eq!(derived(&format!("{overridden} dualpi2.typical_rtt=15ms dualpi2.beta=7")), internet);
    assert_eq!(derived("dualpi2.max_rtt=90ms"), ([15_000, 15_000], [47, 853]));
    assert_eq!(derived("dualpi2.typical_rtt=15ms"), ([15_000, 15_000], [47, 853]));
    let third = derived("dualpi2.max_rtt=60ms dualpi2.typical_rtt=50ms");
    assert_eq!(third, ([50_000, 20_000], [142, 1_280]));
}

#[test]
fn what_is_out_of_range_is_refused_and_named() {
    for (options, message) in REFUSED {
        let text = format!("queue=dualpi2 rate=10mbit {options}");
        let message = format!("--up: {message}");
        assert_eq!(LinkConfig::parse(&text, "--up").unwrap_err().to_string(), message);
    }
    let error = LinkConfig::parse("dualpi2.target=5ms", "--up").unwrap_err();
    assert_eq!(error.to_string(), "--up: dualpi2.target: needs queue=dualpi2");
}

#[test]
fn values_are_read_in_the_words_of_tc_and_print_back() {
    let given = "dualpi2.step_thresh=5pkt dualpi2.min_qlen_step=3 dualpi2.classic_protection=25 \
                 dualpi2.memlimit=1mb dualpi2.classify=any_ect dualpi2.overload=overflow \
                 dualpi2.drop=enqueue dualpi2.max_rtt=60ms dualpi2.coupling_factor=1";
    let read = link(given);
    let printed: Vec<_> = read.all_entries();
    let again = printed.iter().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(LinkConfig::from_entries(again, None).unwrap(), read);
    let value = |name| printed.iter().find(|(known, _)| *known == name).map(|(_, v)| v.as_str());
    assert_eq!(value("dualpi2.step_thresh"), Some("5p"));
    assert_eq!(value("dualpi2.min_qlen_step"), Some("3p"));
    assert_eq!(value("dualpi2.classic_protection"), Some("25%"));
    assert_eq!(value("dualpi2.memlimit"), Some("1mb"));
    assert_eq!(value("dualpi2.target"), Some("10ms"));
}

#[test]
fn without_a_limit_the_queue_holds_ten_thousand_packets_whatever_the_rate() {
    for rate in ["rate=1mbit", ""] {
        let config = LinkConfig::parse(&format!("queue=dualpi2 {rate}"), "test").unwrap();
        assert_eq!(config.with_limit_resolved().limit, Some(Limit::Packets(10_000)));
        assert_eq!(config.resolved_limit().packets, 10_000);
    }
}

#[test]
fn a_jump_of_centuries_is_a_few_steps() {
    let mut bench = Bench::new("dualpi2.tupdate=1us dualpi2.target=4294s dualpi2.alpha=0.004");
    bench.enqueue(3, Ecn::NotEct, 0);
    bench.dequeue(u64::MAX);
    assert_eq!(bench.queue.controller.probability(), u32::MAX);
    bench.drain(u64::MAX);
    bench.enqueue(3, Ecn::NotEct, u64::MAX);
    assert_eq!(handles(&bench.drain(u64::MAX)), [4, 5], "one is dropped at a probability of 1");
}

#[test]
fn the_default_gains_are_those_of_linux() {
    let gains = Gains::new(&Dualpi2Config::default());
    let mut controller = Controller::new(&gains, Instant::ZERO);
    // 1 ms of error and 16 ms of growth: (1e6 * 44 + 16e6 * 879) / 64.
    controller.advance(&gains, Instant::from_nanos(16 * MS), Some(Instant::ZERO));
    assert_eq!(controller.probability(), 220_437_500);
    // 17 ms: the error counts 44 each.
    controller.advance(&gains, Instant::from_nanos(32 * MS), Some(Instant::ZERO));
    assert_eq!(controller.probability(), 220_437_500 + 231_437_500);
    // Empty: 15 ms below the target, and the fall from 32 ms.
    controller.advance(&gains, Instant::from_nanos(48 * MS), None);
    assert_eq!(controller.probability(), 2_062_500);
    controller.advance(&gains, Instant::from_nanos(64 * MS), None);
    assert_eq!(controller.probability(), 0);
}

/// One update after the other, as a timer would make them.
fn one_by_one(
    gains: &Gains,
    start: Controller,
    now: u64,
    oldest: Option<u64>,
    tupdate: u64,
) -> Controller {
    let mut controller = start;
    for at in (1..=now / tupdate).map(|count| count * tupdate) {
        controller.advance(gains, Instant::from_nanos(at), oldest.map(Instant::from_nanos));
    }
    controller
}

proptest! {
    #[test]
    fn many_updates_at_once_are_those_updates(
        (alpha, beta) in (1..100_000_u32, 1..100_000_u32),
        (target, tupdate) in (0..40_000_u64, 1..20_000_u64),
        (queued_for, empty_for) in (1..4_000_u64, 0..4_000_u64),
        overflow in any::<bool>(),
    ) {
        let gain = |raw| crate::units::Gain::from_raw(raw).unwrap();
        let gains = Gains::new(&Dualpi2Config {
            alpha: gain(alpha),
            beta: gain(beta),
            target: Duration::from_micros(target),
            tupdate: Duration::from_micros(tupdate),
            overload: if overflow { Overload::Overflow } else { Overload::Drop },
            ..Dualpi2Config::default()
        });
        let tupdate = tupdate * 1_000;
        let (filled, emptied) = (queued_for * tupdate, (queued_for + empty_for) * tupdate);
        let mut at_once = Controller::new(&gains, Instant::ZERO);
        at_once.advance(&gains, Instant::from_nanos(filled), Some(Instant::ZERO));
        let each = one_by_one(&gains, Controller::new(&gains, Instant::ZERO), filled, Some(0), tupdate);
        prop_assert_eq!(at_once, each);
        at_once.advance(&gains, Instant::from_nanos(emptied), None);
        let each = one_by_one(&gains, each, emptied, None, tupdate);
        prop_assert_eq!(at_once, each);
    }

    #[test]
    fn every_packet_leaves_or_is_dropped_once_and_in_order(
        seed in any::<u64>(),
        calls in prop::collection::vec((0..5_u8, 0..4_u8, 1..=u32::MAX, any::<u64>()), 1..300),
        spread in 0..40_u32,
        options in prop::sample::select(vec![
            "", "dualpi2.drop=enqueue", "dualpi2.overload=overflow limit=20p", "dualpi2.classify=any_ect",
        ]),
    ) {
        let mut queue = Queue::new(&link(options), seed, Instant::ZERO).unwrap();
        let (mut effects, mut now, mut sent) = (Effects::default(), 0_u64, 0_u64);
        let mut fates = std::collections::BTreeMap::new();
        let mut last = [None, None];
        for (what, tos, len, wait) in calls {
            now = now.saturating_add(wait >> (63 - spread));
            let entered = Instant::from_nanos(now);
            if what < 3 {
                let packet = Packet { ecn: Ecn::from_tos(tos), ..Packet::on_path(sent, entered, len, 1) };
                queue.enqueue(Queued { packet, entered, bytes: u64::from(len) + 14 }, &mut effects);
                sent += 1;
            } else if let Some(served) = queue.dequeue(entered, &mut effects) {
                let packet = served.queued.packet;
                prop_assert!(served.mark != Mark::Ce || packet.ecn.is_capable());
                let lane = usize::from(matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce));
                prop_assert!(options.contains("any_ect") || last[lane] < Some(packet.handle));
                last[lane] = Some(packet.handle);
                prop_assert!(fates.insert(packet.handle, "left").is_none());
            }
            for dropped in effects.take_drops() {
                prop_assert!(fates.insert(dropped.packet.handle, "dropped").is_none());
            }
            prop_assert_eq!(sent, fates.len() as u64 + queue.backlog().packets);
        }
    }
}

const REFUSED: &[(&str, &str)] = &[
    ("dualpi2.target=4294968s", "dualpi2.target: 4294968s is more than 4294967295us"),
    (
        "dualpi2.tupdate=999ns",
        "dualpi2.tupdate: 999ns is out of range, expected 1us to 4294967295ns",
    ),
    ("dualpi2.tupdate=5s", "dualpi2.tupdate: 5s is out of range, expected 1us to 4294967295ns"),
    ("dualpi2.alpha=0", "dualpi2.alpha: \"0\" is less than 1/256, the smallest gain"),
    ("dualpi2.beta=20000000", "dualpi2.beta: \"20000000\" is more than 8388607"),
    (
        "dualpi2.step_thresh=1kb",
        "dualpi2.step_thresh: \"1kb\" is no time or packets, expected for example 1ms or 5p",
    ),
    ("dualpi2.step_thresh=5000s", "dualpi2.step_thresh: 5000s is more than 4294967295us"),
    (
        "dualpi2.min_qlen_step=1ms",
        "dualpi2.min_qlen_step: \"1ms\" is no number of packets, expected for example 5p",
    ),
    ("dualpi2.coupling_factor=0", "dualpi2.coupling_factor: 0 does not couple, expected 1 to 255"),
    (
        "dualpi2.coupling_factor=256",
        "dualpi2.coupling_factor: \"256\" is no whole number, expected 1 to 255",
    ),
    (
        "dualpi2.classic_protection=101%",
        "dualpi2.classic_protection: 101% is out of range, expected 0% to 100%",
    ),
    (
        "dualpi2.classic_protection=1.5%",
        "dualpi2.classic_protection: \"1.5%\" is no whole percent, expected 0% to 100%",
    ),
    ("dualpi2.memlimit=0", "dualpi2.memlimit: 0b holds no packet"),
    ("dualpi2.memlimit=4gb", "dualpi2.memlimit: \"4gb\" is more than 4294967295b"),
    (
        "dualpi2.overload=panic",
        "dualpi2.overload: unknown word \"panic\", expected one of drop, overflow",
    ),
    (
        "dualpi2.typical_rtt=20ms dualpi2.max_rtt=10ms",
        "dualpi2.typical_rtt: 20ms is more than the max_rtt of 10ms",
    ),
    (
        "dualpi2.max_rtt=100s",
        "dualpi2.max_rtt: asks for gains below 1/256, expected shorter round trips",
    ),
    (
        "dualpi2.max_rtt=10000s",
        "dualpi2.max_rtt: 10000s is out of range, expected 1us to 4294967295us",
    ),
    (
        "dualpi2.typical_rtt=100ns",
        "dualpi2.typical_rtt: 100ns is out of range, expected 1us to 4294967295us",
    ),
    ("limit=200kb", "limit: 200kb: dualpi2 counts packets, expected for example 10000p"),
    ("limit=100ms", "limit: 100ms: dualpi2 counts packets, expected for example 10000p"),
    (
        "gso=keep",
        "gso: keep would mark or drop whole bursts where the queue means packets, expected split or auto",
    ),
];
