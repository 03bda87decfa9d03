//! Own impairments in virtual time: what they do, that shares come out as asked, and the traps
//! that users of netem know.
#![expect(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![expect(clippy::cast_precision_loss, reason = "statistics over fewer than 2^52 packets")]

use punctual_sched::impair::{Loss, Table};
use punctual_sched::{
    BitFlip, Change, DropReason, Duration, Ecn, Instant, Link, LinkConfig, Mark, Output, Packet,
};

/// What became of packets sent one by one.
struct Fates {
    outputs: Vec<Output>,
    link: Link,
}

const SEED: u64 = 20_240_229;

/// `count` packets of 1000 bytes, `gap_ns` apart, through `link`.
fn send(link: &str, count: u64, gap_ns: u64) -> Fates {
    send_config(&LinkConfig::parse(link, "--up").unwrap(), count, gap_ns)
}

fn send_config(config: &LinkConfig, count: u64, gap_ns: u64) -> Fates {
    let mut link = Link::new(config, SEED, Instant::ZERO).unwrap();
    let mut outputs = Vec::new();
    for handle in 0..count {
        let packet = Packet::on_path(handle, Instant::from_nanos(handle * gap_ns), 1000, 7);
        let ecn = if handle % 2 == 0 { Ecn::Ect0 } else { Ecn::NotEct };
        link.arrive(Packet { ecn, ..packet });
        outputs.extend(core::iter::from_fn(|| link.poll()));
    }
    while let Some(deadline) = link.next_event() {
        link.advance(deadline.at);
        outputs.extend(core::iter::from_fn(|| link.poll()));
    }
    Fates { outputs, link }
}

impl Fates {
    /// Of each packet in order of arrival, whether it was lost.
    fn lost(&self) -> Vec<bool> {
        let mut lost = vec![false; usize::try_from(self.link.snapshot().packets_in).unwrap()];
        for output in &self.outputs {
            if let Output::Drop { packet, reason: DropReason::Loss, .. } = output {
                lost[usize::try_from(packet.handle).unwrap()] = true;
            }
        }
        lost
    }

    /// Handle, copy, due time, delay of each departure.
    fn departures(&self) -> impl Iterator<Item = (u64, u8, u64, u64)> {
        self.outputs.iter().filter_map(|output| match *output {
            Output::Depart { packet, copy, due, .. } => {
                let delay = due.since(packet.arrival).as_nanos();
                Some((packet.handle, copy, due.as_nanos(), delay))
            }
            Output::Drop { .. } => None,
        })
    }

    fn order(&self) -> Vec<u64> {
        self.departures().map(|(handle, ..)| handle).collect()
    }

    fn delays(&self) -> Vec<u64> {
        self.departures().map(|(.., delay)| delay).collect()
    }
}

/// The interval that holds the count of `n` independent events of probability `p` 99.9 % of the
/// time: normal approximation (3.29 deviations), for n p (1 - p) well above 10. `spread` widens the
/// deviation where neighbours are correlated: sqrt((1 + rho) / (1 - rho)) for correlation rho^k.
fn assert_share(what: &str, events: usize, n: usize, p: f64, spread: f64) {
    let (n, events) = (n as f64, events as f64);
    let within = 3.29 * spread * (n * p * (1.0 - p)).sqrt();
    assert!((events - n * p).abs() <= within, "{what}: {events} of {n}, asked {p} +- {within}");
}

/// The correlation of neighbours.
fn correlation(events: &[bool]) -> f64 {
    let values: Vec<f64> = events.iter().map(|&event| f64::from(u8::from(event))).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let product = |(a, b): (&f64, &f64)| (a - mean) * (b - mean);
    let covariance = values.iter().zip(&values[1..]).map(product).sum::<f64>();
    covariance / values.iter().map(|x| (x - mean).powi(2)).sum::<f64>()
}

fn count(events: &[bool]) -> usize {
    events.iter().filter(|event| **event).count()
}

#[test]
fn random_loss_comes_out_as_asked() {
    for percent in [0.1, 1.0, 30.0] {
        let fates = send(&format!("loss={percent}%"), 200_000, 1_000);
        assert_share("loss", count(&fates.lost()), 200_000, percent / 100.0, 1.0);
    }
}

/// Trap: with netem 1 % with 25 % correlation loses nothing, 10 % with 50 % loses 0.11 %.
#[test]
fn correlation_does_not_make_loss_vanish() {
    for (percent, rho) in [(1.0, 0.25), (10.0, 0.5), (20.0, 0.75)] {
        let fates = send(&format!("loss={percent}%,{}%", rho * 100.0), 400_000, 1_000);
        let lost = fates.lost();
        let spread = f64::sqrt((1.0 + rho) / (1.0 - rho));
        assert_share("loss", count(&lost), 400_000, percent / 100.0, spread);
        let found = correlation(&lost);
        assert!((found - rho).abs() < 0.05, "asked {rho}, found {found}");
    }
}

#[test]
fn correlated_duplicates_corruption_and_reordering_keep_their_shares() {
    let fates = send("delay=1ms duplicate=2%,60% corrupt=3%,40% reorder=5%,50%", 200_000, 1_000);
    let counts = fates.link.snapshot().impairments;
    for (what, share, p, rho) in [
        ("duplicate", counts.duplicate, 0.02, 0.6),
        ("corrupt", counts.corrupt, 0.03, 0.4),
        ("reorder", counts.reorder, 0.05, 0.5),
    ] {
        let number = |n: u64| usize::try_from(n).unwrap();
        let (events, n) = (number(share.events), number(share.opportunities));
        assert!(n >= 200_000, "{what}: {n}");
        assert_share(what, events, n, p, f64::sqrt((1.0 + rho) / (1.0 - rho)));
    }
}

#[test]
fn a_loss_model_loses_its_stationary_share() {
    // Fates whose correlation falls as 0.89^k or faster (1 - p - r of the second) deviate at most
    // sqrt(1.89 / 0.11) = 4.2 times as far as independent ones.
    for (text, spread) in [
        ("gemodel,1%", 1.0),
        ("gemodel,1%,10%", 4.2),
        ("gemodel,1%,10%,70%,0.1%", 4.2),
        ("state,1%", 1.0),
        ("state,3%,30%,50%,50%,1%", 4.2),
        ("state,2%,20%,10%,40%", 4.2),
    ] {
        let loss: Loss = text.parse().unwrap();
        let fates = send(&format!("loss={text}"), 400_000, 1_000);
        let expected = f64::from(loss.expected_ppm()) / 1e6;
        assert_share(text, count(&fates.lost()), 400_000, expected, spread);
    }
}

#[test]
fn gilbert_elliott_with_p_alone_is_independent_loss() {
    let lost = send("loss=gemodel,5%", 400_000, 1_000).lost();
    assert!(correlation(&lost).abs() < 3.29 / (lost.len() as f64).sqrt());
}

#[test]
fn bad_runs_of_gilbert_elliott_last_one_over_r_packets() {
    let lost = send("loss=gemodel,1%,10%", 400_000, 1_000).lost();
    let runs = lost.windows(2).filter(|pair| pair[0] && !pair[1]).count();
    let mean = count(&lost) as f64 / runs as f64;
    assert!((mean - 10.0).abs() < 1.0, "{mean}");
}

#[test]
fn a_first_packet_is_not_lost_in_the_bad_state() {
    // The state is good at the start and takes effect before it moves.
    let lost = send("loss=gemodel,100%,100%", 4, 1_000).lost();
    assert_eq!(lost, [false, true, false, true]);
    // The 4-state model moves first.
    let lost = send("loss=state,100%,100%", 4, 1_000).lost();
    assert_eq!(lost, [true, false, true, false]);
}

/// Trap: with netem sums above 100 % wrap around.
#[test]
fn impossible_four_state_sums_are_refused() {
    assert!(LinkConfig::parse("loss=state,60%,10%,0%,100%,41%", "--up").is_err());
    assert!(LinkConfig::parse("loss=state,60%,10%,0%,100%,40%", "--up").is_ok());
}

#[test]
fn ecn_marks_what_can_be_marked_and_loses_the_rest() {
    let fates = send("loss=20% ecn=on", 20_000, 1_000);
    let snapshot = fates.link.snapshot();
    let counts = snapshot.impairments;
    assert_eq!(counts.loss.opportunities, 20_000);
    assert_eq!(counts.loss_marked, snapshot.marked);
    let lost = snapshot.dropped[DropReason::Loss.index()];
    assert_eq!(lost + snapshot.marked, counts.loss.events);
    let number = |n: u64| usize::try_from(n).unwrap();
    assert_share("events", number(counts.loss.events), 20_000, 0.2, 1.0);
    assert_share("marks", number(snapshot.marked), 10_000, 0.2, 1.0);
    for output in &fates.outputs {
        match output {
            Output::Depart { packet, mark: Mark::Ce, .. } => assert_eq!(packet.ecn, Ecn::Ect0),
            Output::Depart { mark, .. } => assert_eq!(*mark, Mark::None),
            Output::Drop { packet, .. } => assert_eq!(packet.ecn, Ecn::NotEct),
        }
    }
}

#[test]
fn a_duplicate_has_a_number_a_delay_and_memory_of_its_own() {
    let fates = send("delay=20ms jitter=10ms reorder=jitter duplicate=100%", 500, 1_000_000);
    let snapshot = fates.link.snapshot();
    assert_eq!((snapshot.packets_in, snapshot.duplicated, snapshot.packets_out), (500, 500, 1000));
    // Two of 2,304 bytes for each packet of the last 10 to 30 ms.
    assert!(snapshot.held_peak_bytes >= 2 * 10 * 2_304, "{}", snapshot.held_peak_bytes);
    let mut first: Vec<_> = fates.departures().map(|(h, copy, due, _)| (h, copy, due)).collect();
    first.sort_unstable();
    let differ = first.chunks(2).filter(|pair| pair[0].2 != pair[1].2).count();
    assert!(first.chunks(2).all(|pair| (pair[0].1, pair[1].1) == (0, 1)));
    assert!(differ > 490, "{differ}");
}

#[test]
fn a_duplicate_that_memory_cannot_hold_is_the_emulators_own_loss() {
    let fates = send("delay=1s duplicate=100% hold=5000b", 2, 1_000);
    let snapshot = fates.link.snapshot();
    // Two packets are held: the first and its copy.
    assert_eq!((snapshot.packets_in, snapshot.duplicated, snapshot.packets_out), (2, 1, 2));
    assert_eq!(snapshot.dropped[DropReason::HoldFull.index()], 1);
    let fates = send("delay=1s duplicate=100% hold=2304b", 1, 1_000);
    let snapshot = fates.link.snapshot();
    assert_eq!((snapshot.packets_in, snapshot.duplicated, snapshot.packets_out), (1, 1, 1));
    assert_eq!(snapshot.dropped[DropReason::HoldFull.index()], 1);
    assert!(snapshot.held_peak_bytes <= 2304);
}

#[test]
fn each_duplicate_is_announced_before_its_fate() {
    let config = LinkConfig::parse("duplicate=100% hold=5000b delay=1ms", "--up").unwrap();
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    link.follow_copies();
    let mut copies = 0;
    for handle in 0..3 {
        link.arrive(Packet::on_path(handle, Instant::from_nanos(handle), 1000, 7));
        link.advance(Instant::from_nanos(handle + 1));
        let announced: Vec<_> = core::iter::from_fn(|| link.poll_duplicate()).collect();
        copies += announced.len();
        assert!(announced.iter().all(|&number| number == handle));
    }
    // The first fills the memory; nothing is made of those that are dropped on arrival.
    assert_eq!((copies, link.snapshot().duplicated), (1, 1));
}

/// Trap: two netems in one tree multiplied packets; a copy of ours is never copied again.
#[test]
fn a_duplicate_is_not_duplicated() {
    let snapshot = send("duplicate=100%", 100, 1_000).link.snapshot();
    assert_eq!((snapshot.duplicated, snapshot.packets_out), (100, 200));
}

#[test]
fn corruption_flips_every_bit_of_the_packet_as_often() {
    let fates = send("corrupt=100%", 80_000, 1_000);
    let mut bytes = vec![0_u32; 1000];
    for output in &fates.outputs {
        let Output::Depart { corrupt: Some(BitFlip(bit)), .. } = output else { panic!() };
        bytes[usize::try_from(bit / 8).unwrap()] += 1;
    }
    assert_eq!(fates.link.snapshot().corrupted, 80_000);
    // 80 flips a byte, Poisson: outside 30..150 less than once in a million runs.
    assert!(bytes.iter().all(|&n| (30..150).contains(&n)));
}

/// Trap: with netem jitter reorders. Here it does when it is asked to.
#[test]
fn jitter_reorders_only_when_asked() {
    let link = "delay=20ms jitter=5ms";
    let kept = send(link, 5_000, 100_000);
    assert_eq!(kept.order(), (0..5_000).collect::<Vec<_>>());
    assert_eq!(kept.link.snapshot().reordered, 0);
    let free = send(&format!("{link} reorder=jitter"), 5_000, 100_000);
    let order = free.order();
    // RFC 4737: a packet is reordered when a later one has arrived before it.
    let mut furthest = 0;
    let mut reordered = 0;
    for &number in &order {
        reordered += u64::from(number < furthest);
        furthest = furthest.max(number);
    }
    assert!(reordered > 1_000);
    assert_eq!(free.link.snapshot().reordered, reordered);
    let mut sorted = order;
    sorted.sort_unstable();
    assert_eq!(sorted, (0..5_000).collect::<Vec<_>>());
    // The delays are those drawn: uniform in 15..=25 ms.
    let delays = free.delays();
    let mean = delays.iter().sum::<u64>() as f64 / 5_000.0;
    assert!(delays.iter().all(|delay| (15_000_000..=25_000_000).contains(delay)));
    // The mean of 5,000 has a deviation of 5 ms / sqrt(3) / sqrt(5000) = 41 us.
    assert!((mean - 20e6).abs() < 3.29 * 41e3, "{mean}");
}

/// Trap: with netem `rate` switches reordering by jitter off. Here the delay line follows the
/// server.
#[test]
fn jitter_reorders_behind_a_rate_as_well() {
    let fates = send("rate=100mbit delay=20ms jitter=5ms reorder=jitter", 2_000, 100_000);
    assert!(fates.link.snapshot().reordered > 500);
}

#[test]
fn reordered_packets_skip_the_delay_and_the_gap_counts_the_others() {
    let fates = send("delay=10ms reorder=100%,gap=5", 20, 1_000_000);
    let skipped: Vec<_> =
        fates.departures().filter(|(.., delay)| *delay == 0).map(|(handle, ..)| handle).collect();
    assert_eq!(skipped, [4, 9, 14, 19]);
    assert_eq!(fates.order()[..4], [4, 9, 0, 1]);
    let counts = fates.link.snapshot().impairments;
    assert_eq!((counts.reorder.events, counts.reorder.opportunities), (4, 4));
    // 4 overtook 0 to 3, 9 then 5 to 8, and so on: each of the others came after a later one.
    assert_eq!(fates.link.snapshot().reordered, 16);
}

/// Trap: with netem a reordered packet goes to the head of a queue of its own; behind a rate it
/// still waits for its turn at the server here.
#[test]
fn a_reordered_packet_waits_for_the_server() {
    let fates = send("rate=8mbit framing=0 delay=10ms reorder=100%,gap=3", 3, 0);
    let dues: Vec<_> = fates.departures().map(|(handle, _, due, _)| (handle, due)).collect();
    assert_eq!(dues, [(2, 3_000_000), (0, 11_000_000), (1, 12_000_000)]);
}

#[test]
fn a_table_gives_its_values_times_jitter() {
    let table = Table::new(&[-8192, 0, 1, 28_858]).unwrap();
    let config = LinkConfig {
        delay: Duration::from_millis(100),
        jitter: Duration::from_millis(20),
        distribution: punctual_sched::impair::Distribution::Table(table),
        ..LinkConfig::default()
    };
    let mut delays = send_config(&config, 1_000, 1_000_000_000).delays();
    delays.sort_unstable();
    delays.dedup();
    assert_eq!(delays, [80_000_000, 100_000_000, 100_002_441, 170_454_101]);
}

/// Trap: `delay 100ms 20ms` is +-20 ms when uniform; with a table 20 ms is the deviation.
#[test]
fn jitter_is_a_bound_when_uniform_and_a_deviation_in_a_table() {
    for (distribution, mean, deviation) in [
        ("uniform", 100.0, 20.0 / f64::sqrt(3.0)),
        ("normal", 100.0, 20.0),
        ("pareto", 100.0 - 0.0335 * 20.0, 0.8197 * 20.0),
        ("paretonormal", 100.0 - 0.0253 * 20.0, 0.8339 * 20.0),
    ] {
        let text = format!("delay=100ms jitter=20ms distribution={distribution}");
        let delays = send(&text, 40_000, 1_000_000_000).delays();
        let ms: Vec<_> = delays.iter().map(|&delay| delay as f64 / 1e6).collect();
        let found = ms.iter().sum::<f64>() / 40_000.0;
        let spread = (ms.iter().map(|x| (x - found).powi(2)).sum::<f64>() / 40_000.0).sqrt();
        assert!((found - mean).abs() < 3.29 * deviation / 200.0, "{distribution}: mean {found}");
        assert!((spread / deviation - 1.0).abs() < 0.03, "{distribution}: deviation {spread}");
    }
}

#[test]
fn correlated_jitter_keeps_its_distribution() {
    let delays = send("delay=100ms jitter=20ms,80% distribution=normal", 100_000, 1_000_000_000);
    let delays = delays.delays();
    let same = delays.windows(2).filter(|pair| pair[0] == pair[1]).count();
    // 80 % repeat, and 1 in 4096 draws the same again.
    assert_share("repeats", same, 99_999, 0.8 + 0.2 / 4096.0, 1.0);
    let below = delays.iter().filter(|delay| **delay < 80_000_000).count();
    assert_share("below one deviation", below, 100_000, 0.158_7, 3.0);
}

#[test]
fn a_delay_below_zero_is_none() {
    let fates = send("delay=1ms jitter=1ms distribution=normal", 10_000, 10_000_000);
    let delays = fates.delays();
    let zero = delays.iter().filter(|delay| **delay == 0).count();
    assert_share("at zero", zero, 10_000, 0.158_7, 1.0);
}

#[test]
fn slots_are_apart_and_carry_no_more_than_they_may() {
    let fates = send("delay=1ms slot=2ms,3ms,packets=4", 1_000, 300_000);
    let mut slots: Vec<(u64, usize)> = Vec::new();
    for (_, _, due, _) in fates.departures() {
        match slots.last_mut() {
            Some((at, packets)) if *at == due => *packets += 1,
            _ => slots.push((due, 1)),
        }
    }
    assert!(slots.iter().all(|(_, packets)| *packets <= 4));
    let gaps = slots.windows(2).map(|pair| pair[1].0 - pair[0].0);
    assert!(gaps.clone().all(|gap| (2_000_000..=3_000_000).contains(&gap)));
    assert!(gaps.clone().min() < Some(2_050_000) && gaps.max() > Some(2_950_000));
    assert_eq!(fates.link.snapshot().impairments.slots, slots.len() as u64);
    assert_eq!(fates.order(), (0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_slot_takes_bytes_until_they_are_used_up() {
    // 1014 bytes each: the third uses up 2500.
    let fates = send("slot=1ms,bytes=2500", 9, 0);
    let dues: Vec<_> = fates.departures().map(|(_, _, due, _)| due).collect();
    let expected = [0, 0, 0, 1_000_000, 1_000_000, 1_000_000, 2_000_000, 2_000_000, 2_000_000];
    assert_eq!(dues, expected);
}

/// Trap: with netem every packet waits at least one slot after its own time, however idle.
#[test]
fn a_slot_opens_at_once_after_a_pause() {
    let fates = send("delay=5ms slot=2ms", 3, 1_000_000_000);
    assert_eq!(fates.delays(), [5_000_000; 3]);
}

/// Trap: `change` of netem forgets what is not repeated.
#[test]
fn a_change_forgets_nothing_that_it_does_not_name() {
    let config = LinkConfig::parse("delay=5ms loss=100% duplicate=100%", "--up").unwrap();
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    let change = Change { delay: Some(Duration::from_millis(1)), ..Change::default() };
    link.change(&change, Instant::ZERO).unwrap();
    link.arrive(Packet::on_path(0, Instant::ZERO, 100, 7));
    link.advance(Instant::from_nanos(1));
    assert!(matches!(link.poll(), Some(Output::Drop { reason: DropReason::Loss, .. })));
    let change = Change { loss: Some(Loss::None), ..Change::default() };
    link.change(&change, Instant::from_nanos(2)).unwrap();
    link.arrive(Packet::on_path(1, Instant::from_nanos(2), 100, 7));
    link.advance(Instant::from_nanos(1_000_002));
    let copies: Vec<_> = core::iter::from_fn(|| link.poll()).collect();
    assert_eq!(copies.len(), 2);
}

/// Trap: netem's seed covers less than expected, and one draw more shifts all others. Each
/// impairment draws from its own stream.
#[test]
fn one_impairment_more_does_not_shift_the_others() {
    let alone = send("loss=10%", 5_000, 1_000);
    let with = send("loss=10% delay=10ms jitter=5ms corrupt=50%,20% duplicate=10%", 5_000, 1_000);
    assert_eq!(alone.lost(), with.lost());
}

/// Trap: loss, duplicates and corruption of netem act on whole bursts.
#[test]
fn bursts_are_cut_where_packets_meet_fates_of_their_own() {
    for text in ["loss=1%", "duplicate=1%", "corrupt=1%", "delay=1ms reorder=1%"] {
        let config = LinkConfig::parse(text, "--up").unwrap();
        assert_eq!(config.resolved_gso(), punctual_sched::config::Gso::Split, "{text}");
        assert!(LinkConfig::parse(&format!("{text} gso=keep"), "--up").is_err(), "{text}");
    }
}

/// Trap: bare numbers are nanoseconds to netem and microseconds to other qdiscs.
#[test]
fn times_without_a_unit_are_refused() {
    for text in ["delay=100", "delay=1ms jitter=100", "slot=100"] {
        let error = LinkConfig::parse(text, "--up").unwrap_err().to_string();
        assert!(error.contains("has no unit"), "{error}");
    }
}

/// Trap: netem's default limit of 1000 packets loses on a fast long path.
#[test]
fn a_long_fast_path_loses_nothing_by_default() {
    // 1 Gbit/s for 100 ms: 8,334 full packets on the way.
    let snapshot = send("delay=100ms", 20_000, 8_000).link.snapshot();
    assert_eq!(snapshot.packets_out, 20_000);
}
