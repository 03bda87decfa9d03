use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::config::{Change, Limit};
use crate::packet::{Ecn, Packet};
use crate::{Duration, Link, Output};

fn config(words: &str) -> LinkConfig {
    LinkConfig::parse(&format!("queue=codel framing=0 {words}"), "--up").unwrap()
}

fn packet(handle: u64, at: u64, ecn: Ecn) -> Packet {
    Packet { ecn, ..Packet::on_path(handle, Instant::from_nanos(at), 1_000, 7) }
}

/// Shows a controller packets that waited for `sojourn`, one every 100 us from 0 to `until`, with
/// `backlog` bytes behind each, and returns when each signal was sent.
fn signals(law: &Law, control: &mut Control, sojourn: u64, backlog: u64, until: u64) -> Vec<u64> {
    let mut all = Vec::new();
    for now in (0..until).step_by(100_000) {
        let now = now + 10_000_000;
        let entered = Instant::from_nanos(now - sojourn);
        let head = Head { entered, now: Instant::from_nanos(now), backlog, markable: true };
        if control.judge(law, &head) == Verdict::Mark {
            all.push(now - 10_000_000);
        }
    }
    all
}

fn law(words: &str) -> Law {
    let config = config(&format!("codel.ecn=on {words}"));
    config.codel.law(&config)
}

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;

#[test]
fn a_standing_queue_is_signalled_after_an_interval_and_then_ever_more_often() {
    let all = signals(&law(""), &mut Control::new(), 6 * MILLISECOND, 9_000, SECOND / 2);
    // 100 ms, and then 100 ms / sqrt(1), sqrt(2), ... from one signal's due time to the next.
    assert_eq!(
        all,
        [100_000_000, 200_000_000, 270_800_000, 328_500_000, 378_500_000, 423_200_000, 464_000_000]
    );
}

#[test]
fn the_first_signal_comes_as_soon_as_the_interval_has_passed_or_in_linux_after_it() {
    let law = |words| law(&format!("codel.interval=1ms codel.arithmetic={words}"));
    let mut judged = Vec::new();
    for law in [law("rfc"), law("linux")] {
        let mut control = Control::new();
        // 976 units of 1024 ns are an interval for Linux; both clocks say the same in the end.
        for now in [0, 976 * 1_024, MILLISECOND, 977 * 1_024] {
            let now = Instant::from_nanos(now + 10_240_000);
            let head = Head { entered: Instant::ZERO, now, backlog: 9_000, markable: false };
            judged.push(control.judge(&law, &head) == Verdict::Drop);
        }
    }
    assert_eq!(judged, [false, false, true, false, false, false, false, true]);
}

#[test]
fn waits_below_target_and_queues_of_one_packet_are_good() {
    for (sojourn, backlog, signalled) in [
        (5 * MILLISECOND - 1, 9_000, false),
        (5 * MILLISECOND, 9_000, true),
        (9 * MILLISECOND, 1_500, false),
        (9 * MILLISECOND, 1_501, true),
    ] {
        let all = signals(&law(""), &mut Control::new(), sojourn, backlog, SECOND);
        assert_eq!(!all.is_empty(), signalled, "{sojourn} {backlog}");
    }
}

#[test]
fn an_episode_soon_after_the_last_goes_on_at_its_rate() {
    // Seven signals less the one with which it began, or a new start after 16 intervals.
    for (pause, count) in [(1_000, 6), (1_700, 1)] {
        let law = law("");
        let mut control = Control::new();
        let first = signals(&law, &mut control, 6 * MILLISECOND, 9_000, SECOND / 2);
        assert_eq!((first.len(), control.count()), (7, 7));
        let judge = |control: &mut Control, now: u64, sojourn: u64| {
            let now = 10 * MILLISECOND + now;
            let entered = Instant::from_nanos(now - sojourn);
            let head =
                Head { entered, now: Instant::from_nanos(now), backlog: 9_000, markable: true };
            control.judge(&law, &head)
        };
        assert_eq!(judge(&mut control, SECOND / 2, 0), Verdict::Pass);
        let bad = SECOND / 2 + pause * MILLISECOND;
        assert_eq!(judge(&mut control, bad, 6 * MILLISECOND), Verdict::Pass);
        assert_eq!(judge(&mut control, bad + 100 * MILLISECOND, 6 * MILLISECOND), Verdict::Mark);
        assert_eq!((control.count(), control.last_count()), (count, count), "{pause}");
    }
}

#[test]
fn drops_before_the_first_episode_do_not_make_it_the_second() {
    for words in ["codel.arithmetic=rfc", "codel.arithmetic=linux"] {
        let mut control = Control::new();
        control.add(64);
        let all = signals(&law(words), &mut control, 6 * MILLISECOND, 9_000, 150 * MILLISECOND);
        assert_eq!((all.len(), control.count()), (1, 1), "{words}");
        control.add(64);
        assert_eq!((control.count(), control.last_count()), (65, 1), "{words}");
    }
}

#[test]
fn a_long_wait_for_the_link_drops_several_at_once_and_then_lets_one_go() {
    let mut codel = Codel::new(&config(""));
    let mut effects = Effects::default();
    for handle in 0..100 {
        let packet = packet(handle, 0, Ecn::NotEct);
        codel.enqueue(Queued { packet, entered: Instant::ZERO, bytes: 1_000 }, &mut effects);
    }
    let mut handles = Vec::new();
    for now in [10, 110, 310] {
        let served = codel.dequeue(Instant::from_nanos(now * MILLISECOND), &mut effects).unwrap();
        handles.push(served.queued.packet.handle);
    }
    let drops: Vec<_> = effects.take_drops().collect();
    assert!(drops.iter().all(|drop| drop.reason == DropReason::Congested));
    let drops: Vec<_> = drops.iter().map(|drop| drop.packet.handle).collect();
    // The first signal at 110 ms; those of 210 and 280.7 ms are made up for at 310 ms.
    assert_eq!((handles, drops), (vec![0, 2, 5], vec![1, 3, 4]));
    assert_eq!(codel.backlog(), Backlog { packets: 94, bytes: 94_000 });
}

#[test]
fn only_packets_that_can_carry_a_mark_are_marked() {
    for (ecn, marked) in
        [(Ecn::NotEct, false), (Ecn::Ect0, true), (Ecn::Ect1, true), (Ecn::Ce, true)]
    {
        let mut link = Link::new(&config("codel.ecn=on rate=8mbit"), 1, Instant::ZERO).unwrap();
        for handle in 0..200 {
            link.arrive(packet(handle, 0, ecn));
        }
        let outputs = run_out(&mut link);
        let marks = outputs.iter().filter(|o| matches!(o, Output::Depart { mark: Mark::Ce, .. }));
        let drops = outputs
            .iter()
            .filter(|o| matches!(o, Output::Drop { reason: DropReason::Congested, .. }));
        let (marks, drops) = (marks.count(), drops.count());
        assert_eq!((marks > 0, drops > 0), (marked, !marked), "{ecn:?} {marks} {drops}");
    }
}

#[test]
fn the_ce_threshold_marks_every_packet_that_waited_longer_and_drops_none() {
    let mut link =
        Link::new(&config("codel.ce_threshold=3ms rate=8mbit"), 1, Instant::ZERO).unwrap();
    for handle in 0..10 {
        link.arrive(packet(handle, 0, if handle == 9 { Ecn::NotEct } else { Ecn::Ect1 }));
    }
    let marks: Vec<_> = run_out(&mut link)
        .iter()
        .map(|output| matches!(output, Output::Depart { mark: Mark::Ce, .. }))
        .collect();
    let expected = [false, false, false, false, true, true, true, true, true, false];
    assert_eq!(marks, expected);
}

#[test]
fn the_limit_counts_packets_the_one_in_service_included() {
    let mut link = Link::new(&config("limit=3p rate=8mbit"), 1, Instant::ZERO).unwrap();
    for handle in 0..5 {
        link.arrive(packet(handle, 0, Ecn::NotEct));
    }
    assert_eq!(link.snapshot().dropped[DropReason::Limit.index()], 2);
    let lower = Change { limit: Some(Limit::Packets(2)), ..Change::default() };
    link.change(&lower, Instant::from_nanos(1)).unwrap();
    assert_eq!(link.snapshot().dropped[DropReason::Limit.index()], 3);
    assert_eq!(run_out(&mut link).len(), 5);
    assert_eq!(config("").resolved_limit().packets, 1_000);
    assert_eq!(config("rate=1mbit").with_limit_resolved().limit, Some(Limit::Packets(1_000)));
}

#[test]
fn values_out_of_range_are_refused() {
    for (words, message) in [
        ("codel.interval=0ms", "codel.interval: 0ms is no interval, expected 1us or more"),
        ("codel.interval=999ns", "codel.interval: 999ns is no interval, expected 1us or more"),
        ("codel.target=4295s", "codel.target: 4295s is more than 4294967295us"),
        ("codel.interval=4295s", "codel.interval: 4295s is more than 4294967295us"),
        ("codel.ce_threshold=4295s", "codel.ce_threshold: 4295s is more than 4294967295us"),
        ("codel.target=5", r#"codel.target: "5" has no unit, expected for example 30ms"#),
        ("codel.ecn=maybe", r#"codel.ecn: unknown word "maybe", expected one of on, off"#),
        ("limit=200kb", "limit: 200kb: codel counts packets, expected for example 1000p"),
        ("limit=0p", "limit: 0p holds no packet"),
        (
            "gso=keep",
            "gso: keep would mark or drop whole bursts where the queue means packets, expected split or auto",
        ),
    ] {
        let error = LinkConfig::parse(&format!("queue=codel {words}"), "--up").unwrap_err();
        assert_eq!(error.to_string(), format!("--up: {message}"), "{words}");
    }
    let error = LinkConfig::parse("codel.target=1ms", "--up").unwrap_err();
    assert_eq!(error.to_string(), "--up: codel.target: needs queue=codel");
}

#[test]
fn times_print_with_three_digits() {
    for (micros, text) in [
        (0, "0us"),
        (999, "999us"),
        (1_000, "1ms"),
        (5_050, "5.05ms"),
        (5_500, "5.5ms"),
        (55_249, "55.2ms"),
        (192_499, "192ms"),
        (4_294_967_295, "4295s"),
    ] {
        assert_eq!(Rounded(micros).to_string(), text);
    }
}

#[test]
fn a_codel_in_an_episode_shows_as_tc_shows_it() {
    let mut codel = Codel::new(&config("codel.ecn=on codel.ce_threshold=300ms"));
    let mut effects = Effects::default();
    for handle in 0..100 {
        let packet = packet(handle, 0, Ecn::Ect0);
        codel.enqueue(Queued { packet, entered: Instant::ZERO, bytes: 1_000 }, &mut effects);
    }
    for now in [10, 110, 310] {
        codel.dequeue(Instant::from_nanos(now * MILLISECOND), &mut effects);
    }
    assert_eq!(
        codel.statistics().to_string(),
        "count 2 lastcount 1 ldelay 310ms dropping drop_next 0us\n\
         maxpacket 1000 ecn_mark 2 drop_overlimit 0 ce_mark 1"
    );
    let names: Vec<_> = codel.statistics().counters().iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names.join(" "),
        "count lastcount ldelay dropping drop_next maxpacket ecn_mark drop_overlimit ce_mark"
    );
}

/// Drains a link.
fn run_out(link: &mut Link) -> Vec<Output> {
    let mut outputs: Vec<_> = core::iter::from_fn(|| link.poll()).collect();
    while let Some(deadline) = link.next_event() {
        link.advance(deadline.at);
        outputs.extend(core::iter::from_fn(|| link.poll()));
    }
    outputs
}

/// CoDel as RFC 8289, section 5, writes it down: two nested loops over its queue, with signals as
/// drops, and no state between packets of one dequeue.
#[derive(Default)]
struct Paper {
    queue: VecDeque<(u64, u64)>,
    target: u64,
    interval: u64,
    count: u64,
    last_count: u64,
    dropping: bool,
    first_above: u64,
    drop_next: u64,
}

impl Paper {
    fn spaced(&self, from: u64) -> u64 {
        let square = u128::from(self.interval).pow(2) / u128::from(self.count);
        from + u64::try_from(square.isqrt()).unwrap()
    }

    fn take(&mut self, now: u64) -> (Option<u64>, bool) {
        let Some((number, entered)) = self.queue.pop_front() else {
            self.first_above = 0;
            return (None, false);
        };
        let bytes = self.queue.len() as u64 * 1_000;
        if now - entered < self.target || bytes <= 1_500 {
            self.first_above = 0;
        } else if self.first_above == 0 {
            self.first_above = now + self.interval;
        } else if now >= self.first_above {
            return (Some(number), true);
        }
        (Some(number), false)
    }

    fn dequeue(&mut self, now: u64, dropped: &mut Vec<u64>) -> Option<u64> {
        let (mut number, mut ok) = self.take(now);
        if number.is_none() {
            self.dropping = false;
        } else if self.dropping {
            if !ok {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                dropped.extend(number);
                self.count += 1;
                (number, ok) = self.take(now);
                if ok {
                    self.drop_next = self.spaced(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok {
            dropped.extend(number);
            (number, _) = self.take(now);
            self.dropping = true;
            let signals = self.count - self.last_count;
            let recent = now.saturating_sub(self.drop_next) < 16 * self.interval;
            self.count = if signals > 1 && recent { signals } else { 1 };
            self.drop_next = self.spaced(now);
            self.last_count = self.count;
        }
        number
    }
}

proptest! {
    #[test]
    fn decisions_are_those_of_the_paper(
        steps in prop::collection::vec((0..4_u8, 0..30_000_000_u64), 1..800),
        (target, interval) in (0..10_000_000_u64, 1_000..60_000_000_u64),
    ) {
        let mut paper = Paper { target, interval, ..Paper::default() };
        let mut words = config("limit=100000p");
        words.codel.target = Duration::from_nanos(target);
        words.codel.interval = Duration::from_nanos(interval);
        let mut codel = Codel::new(&words);
        let (mut effects, mut now, mut number, mut theirs) = (Effects::default(), 1, 0, Vec::new());
        for (arrivals, gap) in steps {
            for _ in 0..arrivals {
                let entered = Instant::from_nanos(now);
                let packet = packet(number, now, Ecn::NotEct);
                codel.enqueue(Queued { packet, entered, bytes: 1_000 }, &mut effects);
                paper.queue.push_back((number, now));
                number += 1;
            }
            now += gap;
            let ours = codel.dequeue(Instant::from_nanos(now), &mut effects);
            let expected = paper.dequeue(now, &mut theirs);
            prop_assert_eq!(ours.map(|served| served.queued.packet.handle), expected);
        }
        let ours: Vec<_> = effects.take_drops().map(|drop| drop.packet.handle).collect();
        prop_assert_eq!(ours, theirs);
        prop_assert_eq!(codel.backlog().packets, paper.queue.len() as u64);
    }

    #[test]
    fn everything_taken_in_leaves_once_in_order_at_any_time_and_size(
        steps in prop::collection::vec((any::<u64>(), any::<u32>(), 0..4_u8), 1..60),
        linux in any::<bool>(), ecn in any::<bool>(),
    ) {
        let arithmetic = if linux { Arithmetic::Linux } else { Arithmetic::Rfc };
        let mut config = config("rate=100kbit limit=20p");
        config.codel = CodelConfig { ecn, arithmetic, ..config.codel };
        let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
        let (mut now, mut left, mut gone) = (0_u64, Vec::new(), 0);
        for (handle, (gap, len, ecn)) in (0..).zip(steps) {
            now = now.saturating_add(gap >> (handle * 7 % 64));
            let packet = Packet { len: len.max(1), ..packet(handle, now, Ecn::from_tos(ecn)) };
            link.arrive(packet);
        }
        link.advance(Instant::from_nanos(u64::MAX));
        while let Some(output) = link.poll() {
            match output {
                Output::Depart { packet, mark, .. } => {
                    prop_assert!(mark != Mark::Ce || packet.ecn.is_capable());
                    left.push(packet.handle);
                }
                Output::Drop { .. } => gone += 1,
            }
        }
        let snapshot = link.snapshot();
        prop_assert!(left.is_sorted());
        prop_assert_eq!(left.len() as u64 + gone + snapshot.queued, snapshot.packets_in);
    }
}
