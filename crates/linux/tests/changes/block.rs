//! The control block beside a driver on real packets, written to by friends and enemies.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

use punctual_linux::clock::monotonic;
use punctual_linux::control::layout::{CONTROL, CONTROL_SIDES, SIZE};
use punctual_linux::control::{ControlBlock, Reason, SetValue, Side};
use punctual_linux::driver::{Precision, Source};
use punctual_linux::wait::sleep_until;
use punctual_sched::{Duration, Rate};

use crate::driven::{Driven, Left};
use crate::support::Test;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        a_store_while_idle_holds_for_the_next_packet,
        a_set_while_idle_is_one_change,
        a_paused_link_sees_a_store_within_the_bound,
        a_store_at_one_bit_per_second_ends_the_wait,
        a_change_by_another_way_is_written_back,
        an_idle_link_is_not_woken_to_look,
        a_look_is_no_timer,
        a_writer_that_dies_in_the_midst_of_a_set_stops_nobody,
        what_the_link_cannot_be_is_ignored_and_told,
        a_rate_that_the_queue_cannot_have_is_told_as_it_was_stored,
        random_bytes_all_over_the_block_lose_no_packet,
    ]
    .into()
}

fn a_store_while_idle_holds_for_the_next_packet() {
    let (driven, block) = start("rate=1mbit", Precision::Balanced);
    for mbit in [8, 2, 80] {
        pause_for(Duration::from_millis(20));
        block.store_rate(Side::Up, mbit * 1_000_000);
        driven.send(1, 1000);
        driven.receive();
    }
    let left = driven.drain();
    let served = left.ledger.departures().into_iter().map(|(arrival, due, _)| due.since(arrival));
    // 1,014 bytes as the rate counts them.
    let expected = [1_014_000, 4_056_000, 101_400].map(Duration::from_nanos);
    assert_eq!(served.collect::<Vec<_>>(), expected);
    let changes = left.ledger.changes();
    assert!(changes.iter().all(|(_, asked, _, source)| (*asked, *source) == (None, Source::Word)));
    let rates: Vec<_> = changes.iter().map(|(_, _, change, _)| change.rate.unwrap()).collect();
    assert_eq!(rates, [8, 2, 80].map(|mbit| Rate::from_bps(mbit * 1_000_000).unwrap()));
}

fn a_set_while_idle_is_one_change() {
    let (driven, block) = start("rate=1mbit", Precision::Balanced);
    let values = [(SetValue::Rate, 8_000_000), (SetValue::Delay, 7_000_000)];
    block.set(Side::Up, &values).unwrap();
    driven.send(1, 1000);
    driven.receive();
    let left = driven.drain();
    let [(arrival, due, _)] = left.ledger.departures()[..] else { panic!() };
    assert_eq!(due.since(arrival), Duration::from_nanos(1_014_000 + 7_000_000));
    let [(at, None, change, Source::Set)] = &left.ledger.changes()[..] else { panic!() };
    assert!(*at <= arrival && change.rate.is_some() && change.delay.is_some());
    assert_eq!(block.rate(Side::Up), 8_000_000);
}

fn a_paused_link_sees_a_store_within_the_bound() {
    for (precision, bound) in [(Precision::Balanced, 1), (Precision::Eco, 10)] {
        let (driven, block) = start("rate=0 limit=100p", precision);
        let mut reactions = Vec::new();
        for round in 1..22 {
            driven.send(1, 1000);
            let held = || driven.remote.snapshot().unwrap().snapshot;
            while held().packets_in < round {
                std::thread::yield_now();
            }
            // At another point of the bound each time.
            pause_for(Duration::from_micros(3000 + round * 470));
            assert_eq!(held().packets_out, round - 1);
            pause_for(Duration::from_micros(round * 470));
            let stored = monotonic();
            block.store_rate(Side::Up, 100_000_000);
            driven.receive();
            while held().packets_out < round {}
            block.store_rate(Side::Up, 0);
            reactions.push((stored, round));
        }
        let left = driven.drain();
        let departures = left.ledger.departures();
        assert_eq!(departures.len(), 21);
        let mut reactions: Vec<_> = reactions
            .iter()
            .zip(&departures)
            // 1,014 bytes at 100 Mbit/s.
            .map(|((stored, _), (_, due, _))| due.signed_since(*stored) - 81_120)
            .collect();
        reactions.sort_unstable();
        let median = reactions[10];
        assert!((0..=bound * 1_000_000).contains(&median), "{reactions:?}");
        assert!(left.stopped.wakes.control > 21);
    }
}

fn a_store_at_one_bit_per_second_ends_the_wait() {
    let (driven, block) = start("rate=1 limit=50p", Precision::Balanced);
    driven.send(60, 1000);
    while driven.remote.snapshot().unwrap().snapshot.packets_in < 60 {}
    assert_eq!(driven.remote.snapshot().unwrap().snapshot.packets_out, 0);
    block.store_rate(Side::Up, u64::MAX);
    let arrived = 60 - driven.remote.snapshot().unwrap().snapshot.dropped.iter().sum::<u64>();
    // The one in service is beside the limit.
    assert!((50..=51).contains(&arrived), "{arrived}");
    (0..arrived).for_each(|_| driven.receive());
    assert_eq!(driven.drain().snapshot.packets_out, arrived);
}

fn a_change_by_another_way_is_written_back() {
    let (driven, block) = start("rate=1mbit", Precision::Balanced);
    let change = punctual_sched::Change { rate: Rate::from_bps(3_000_000), ..Default::default() };
    driven.remote.change(change).unwrap();
    let _ = driven.remote.snapshot().unwrap();
    assert_eq!((block.rate(Side::Up), block.rate(Side::Down)), (3_000_000, 7));
    block.store_rate(Side::Up, u64::MAX - 1);
    driven.send(1, 100);
    driven.receive();
    let _ = driven.remote.snapshot().unwrap();
    assert_eq!(block.rate(Side::Up), 3_000_000);
    let left = driven.drain();
    let [ignored] = left.ledger.ignored()[..] else { panic!("{:?}", left.ledger) };
    assert_eq!((ignored.value, &ignored.reason), (u64::MAX - 1, &Reason::Range));
    assert_eq!(left.ledger.changes().len(), 1);
}

fn an_idle_link_is_not_woken_to_look() {
    for link in ["rate=1mbit delay=10ms", "rate=0"] {
        let (driven, _block) = start(link, Precision::Balanced);
        pause_for(Duration::from_millis(400));
        let left = driven.end();
        assert!(left.stopped.wakes.turns < 20, "{link}: {:?}", left.stopped.wakes);
        assert_eq!(left.stopped.wakes.control, 0, "{link}");
    }
}

/// The margin is learnt from sleeps that ended for a deadline.
fn a_look_is_no_timer() {
    let (driven, _block) = start("delay=50ms", Precision::Balanced);
    for _ in 0..4 {
        driven.send(1, 100);
        driven.receive();
    }
    let wakes = driven.drain().stopped.wakes;
    // Each packet waited for 50 looks and one deadline.
    assert!((80..300).contains(&wakes.control), "{wakes:?}");
    assert!(wakes.timer <= 8, "{wakes:?}");
}

fn a_writer_that_dies_in_the_midst_of_a_set_stops_nobody() {
    let (driven, block) = start("rate=1mbit", Precision::Balanced);
    let outside = outside(&block);
    let begin = start_of("set_generation");
    outside.write_all_at(&1_u64.to_le_bytes(), begin).unwrap();
    outside.write_all_at(&9_u64.to_le_bytes(), start_of("set_rate")).unwrap();
    let died = monotonic();
    driven.send(1, 100);
    driven.receive();
    block.store_rate(Side::Up, 2_000_000);
    driven.send(1, 100);
    driven.receive();
    assert_eq!(block.rate(Side::Up), 2_000_000);
    block.set(Side::Up, &[(SetValue::Delay, 3_000_000)]).unwrap();
    assert!(monotonic().since(died) >= Duration::from_secs(1));
    driven.send(1, 100);
    driven.receive();
    let left = driven.drain();
    let delays: Vec<_> = left.ledger.departures().iter().map(|(_, _, s)| s.propagation).collect();
    assert_eq!(delays, [0, 0, 3].map(Duration::from_millis));
    let changes = left.ledger.changes();
    assert_eq!(
        changes.iter().map(|(_, _, _, source)| *source).collect::<Vec<_>>(),
        [Source::Word, Source::Set]
    );
    assert_eq!(changes[1].2.rate, None, "what the dead one stored is not named");
}

fn what_the_link_cannot_be_is_ignored_and_told() {
    let (driven, block) = start("delay=1ms", Precision::Balanced);
    block.set(Side::Up, &[(SetValue::Rate, 5), (SetValue::Jitter, 2_000_000)]).unwrap();
    driven.send(1, 100);
    driven.receive();
    let left = driven.drain();
    let [ignored] = left.ledger.ignored()[..] else { panic!("{:?}", left.ledger) };
    assert_eq!((ignored.parameter.as_str(), ignored.value), ("jitter", 2_000_000));
    assert!(ignored.reason.to_string().contains("more than the delay"), "{}", ignored.reason);
    assert!(left.ledger.changes().is_empty());
}

fn a_rate_that_the_queue_cannot_have_is_told_as_it_was_stored() {
    let (driven, block) = start("rate=20mbit queue=jens", Precision::Balanced);
    block.store_rate(Side::Up, u64::MAX);
    driven.send(1, 100);
    driven.receive();
    let left = driven.drain();
    let [ignored] = left.ledger.ignored()[..] else { panic!("{:?}", left.ledger) };
    assert_eq!((ignored.parameter.as_str(), ignored.value), ("rate", u64::MAX));
    let told = ignored.reason.to_string();
    assert!(told.starts_with("queue: jens needs a rate"), "{told}");
}

fn random_bytes_all_over_the_block_lose_no_packet() {
    let (driven, block) = start("rate=20mbit limit=100p", Precision::Balanced);
    let outside = outside(&block);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    println!("seed {:#x}", random.0);
    let mut sent = 0;
    for write in 0..1_000_000 {
        scribble(&outside, &mut random);
        if write % 200 == 0 {
            driven.send(1, 200);
            sent += 1;
        }
    }
    // The link still does what it is told.
    let sane = [SetValue::Rate, SetValue::Delay, SetValue::Jitter, SetValue::Loss];
    let sane = sane.map(|name| (name, if name == SetValue::Rate { 5_000_000 } else { 0 }));
    block.set(Side::Up, &sane).unwrap();
    driven.send(1, 200);
    sent += 1;
    let patience = monotonic() + Duration::from_secs(10);
    let mut seen = driven.remote.snapshot().unwrap();
    while seen.snapshot.packets_in < sent && monotonic() < patience {
        seen = driven.remote.snapshot().unwrap();
    }
    assert_eq!(seen.config.rate, Rate::from_bps(5_000_000).unwrap());
    assert_eq!((seen.config.delay, seen.config.loss.is_none()), (Duration::ZERO, true));
    let Left { ledger, snapshot, counts, .. } = driven.end();
    let (changes, ignored) = (ledger.changes().len(), ledger.ignored().len());
    println!("{changes} changes, {ignored} ignored");
    assert!(changes > 0 && ignored > 1000, "{changes} changes, {ignored} ignored");
    assert_eq!(snapshot.packets_in + counts.receive_buffer, sent, "{counts:?}");
    let dropped: u64 = snapshot.dropped.iter().sum();
    assert_eq!(snapshot.packets_in, snapshot.packets_out + dropped + snapshot.queued);
    assert_eq!(ledger.fates(), [snapshot.packets_in, snapshot.packets_out, dropped]);
    assert_eq!(counts.flushed, 0);
}

/// As a program may that knows nothing of the block, or little and that wrong.
fn scribble(block: &File, random: &mut Random) {
    let draw = random.next();
    let size = u64::try_from(SIZE).unwrap();
    if !draw.is_multiple_of(4) {
        let length = usize::try_from(draw >> 8 & 15).unwrap() + 1;
        let bytes = [random.next().to_le_bytes(), random.next().to_le_bytes()].concat();
        let at = (draw >> 16) % (size - 16);
        block.write_all_at(&bytes[..length], at).unwrap();
        return;
    }
    // A word of the direction's own, with a value of any magnitude.
    let field = CONTROL[usize::try_from(draw >> 8 & 0xff).unwrap() % CONTROL.len()];
    let value = random.next() >> (draw >> 16 & 63);
    block.write_all_at(&value.to_le_bytes(), start_of(field.name)).unwrap();
}

/// xorshift64 (Marsaglia 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// A driven link whose lane follows the part of up; the word of down holds 7.
fn start(link: &str, precision: Precision) -> (Driven, ControlBlock) {
    let config = punctual_sched::LinkConfig::parse(link, "up").unwrap();
    let block = ControlBlock::create([config.rate, Rate::from_bps(7).unwrap()]).unwrap();
    let driven = Driven::start_with(link, precision, |lane| lane.follow(block.watch(Side::Up)));
    (driven, block)
}

/// The block as another program opens it.
fn outside(block: &ControlBlock) -> File {
    OpenOptions::new().read(true).write(true).open(block.path()).unwrap()
}

/// Where a word of up stands in the file.
fn start_of(name: &str) -> u64 {
    let field = CONTROL.iter().find(|field| field.name == name).unwrap();
    u64::try_from(CONTROL_SIDES[0] + field.offset).unwrap()
}

fn pause_for(span: Duration) {
    sleep_until(monotonic() + span);
}
