use proptest::prelude::*;

use super::*;
use crate::config::Change;
use crate::packet::Packet;
use crate::{Link, Output, Rate};

fn config(words: &str) -> LinkConfig {
    LinkConfig::parse(&format!("queue=tbf framing=0 {words}"), "--up").unwrap()
}

fn link(words: &str) -> Link {
    Link::new(&config(words), 1, Instant::ZERO).unwrap()
}

fn send(link: &mut Link, count: u64, len: u32, at: u64) {
    for handle in 0..count {
        link.arrive(Packet::on_path(handle, Instant::from_nanos(at), len, 7));
    }
}

/// Runs until nothing more happens; departures in order.
fn departures(link: &mut Link) -> Vec<u64> {
    let mut dues = Vec::new();
    loop {
        while let Some(output) = link.poll() {
            if let Output::Depart { due, .. } = output {
                dues.push(due.as_nanos());
            }
        }
        let Some(deadline) = link.next_event() else { return dues };
        link.advance(deadline.at);
    }
}

fn rate(link: &mut Link, bps: u64, at: u64) {
    let change = Change { rate: Rate::from_bps(bps), ..Change::default() };
    link.change(&change, Instant::from_nanos(at)).unwrap();
}

fn dropped(link: &Link, reason: DropReason) -> u64 {
    link.snapshot().dropped[reason.index()]
}

#[test]
fn a_full_bucket_leaves_at_once_and_the_rest_at_the_rate() {
    let mut link = link("rate=200mbit burst=20480b limit=10mb");
    send(&mut link, 18, 1_514, 0);
    let mut expected = vec![0; 13];
    expected.extend([28_640, 89_200, 149_760, 210_320, 270_880]);
    assert_eq!(departures(&mut link), expected);
}

#[test]
fn the_limit_holds_as_many_bytes_as_tc_says() {
    let mut link = link("rate=200mbit burst=20480b limit=200kb");
    send(&mut link, 200, 1_514, 0);
    // 13 left at once, 135 of 1514 bytes fit 204800.
    assert_eq!(dropped(&link, DropReason::Limit), 200 - 13 - 135);
    assert_eq!(link.snapshot().backlog_bytes, 135 * 1_514);
    let last = departures(&mut link).pop().unwrap();
    assert!(last < 8_192_000, "{last}");
}

#[test]
fn a_limit_in_time_is_the_latency_of_tc_and_leaves_room_for_the_burst() {
    for (words, bytes) in [
        ("rate=8mbit burst=10kb limit=20ms", 20_000 + 10_240),
        ("rate=8mbit burst=10kb", 100_000 + 10_240),
        ("rate=8mbit burst=10kb limit=20ms peakrate=9mbit tbf.mtu=1514b", 22_500 + 1_514),
        ("rate=8mbit burst=10kb limit=20ms peakrate=80mbit tbf.mtu=1514b", 20_000 + 10_240),
        ("rate=80kbit burst=2kb", 16 * 1_500),
        ("rate=8mbit burst=10kb limit=4kb", 4_096),
    ] {
        assert_eq!(config(words).resolved_limit().bytes, bytes, "{words}");
    }
}

#[test]
fn a_peakrate_spaces_the_burst_and_the_rate_binds_when_it_is_used_up() {
    let mut link = link("rate=8mbit burst=4000b limit=1mb peakrate=16mbit tbf.mtu=1000b");
    send(&mut link, 7, 1_000, 0);
    // 1 B/us, and 2 B/us at the peak: the bucket of 4000 lasts for seven packets less 6 x 500 us.
    let dues = departures(&mut link);
    assert_eq!(dues, [0, 500_000, 1_000_000, 1_500_000, 2_000_000, 2_500_000, 3_000_000]);
    send(&mut link, 2, 1_000, 3_000_000);
    assert_eq!(departures(&mut link), [4_000_000, 5_000_000]);
}

#[test]
fn idle_time_fills_the_bucket_to_its_burst_and_no_further() {
    let mut link = link("rate=8mbit burst=3000b limit=1mb");
    send(&mut link, 4, 1_000, 0);
    assert_eq!(departures(&mut link), [0, 0, 0, 1_000_000]);
    send(&mut link, 5, 1_000, 3_600_000_000_000);
    let hour = 3_600_000_000_000;
    assert_eq!(departures(&mut link), [hour, hour, hour, hour + 1_000_000, hour + 2_000_000]);
}

#[test]
fn every_failed_attempt_counts_as_an_overlimit() {
    let mut link = link("rate=8mbit burst=1000b limit=1mb");
    send(&mut link, 3, 1_000, 0);
    // Two arrivals and then, after each departure, the next head; the last finds an empty queue.
    departures(&mut link);
    let mut text = Vec::new();
    text.extend(link.snapshot().discipline.counters());
    assert_eq!(text, [("overlimits", 3)]);
    assert_eq!(link.snapshot().discipline.to_string(), "");
}

#[test]
fn a_packet_larger_than_the_burst_is_refused_at_once() {
    let mut link = link("rate=8mbit burst=1000b limit=1mb");
    send(&mut link, 1, 1_001, 0);
    send(&mut link, 1, 1_000, 0);
    assert_eq!(dropped(&link, DropReason::TooBig), 1);
    assert_eq!(departures(&mut link), [0]);
}

#[test]
fn the_bucket_of_the_peakrate_bounds_the_size_as_well() {
    let mut link = link("rate=8mbit burst=9000b limit=1mb peakrate=16mbit tbf.mtu=999b");
    send(&mut link, 1, 1_000, 0);
    assert_eq!(dropped(&link, DropReason::TooBig), 1);
}

#[test]
fn an_uncut_burst_is_paid_for_as_a_whole_if_it_fits_else_wire_packet_by_wire_packet() {
    let mut link = link("rate=8mbit burst=2000b limit=1mb gso=keep");
    let burst = |handle, len, segments| Packet {
        segments,
        ..Packet::on_path(handle, Instant::ZERO, len, 7)
    };
    // 3001 bytes in 3: 1001, 1000, 1000. One goes at once, the second lacks 1 byte.
    link.arrive(burst(0, 3_001, 3));
    link.arrive(burst(1, 2_000, 2));
    link.arrive(burst(2, 2_001, 1));
    assert_eq!(dropped(&link, DropReason::TooBig), 1);
    assert_eq!(link.snapshot().backlog_packets, 5);
    assert_eq!(departures(&mut link), [1_001_000, 3_001_000]);
    assert_eq!(link.snapshot().packets_out, 5);
}

#[test]
fn overhead_mpu_and_cells_count_in_the_bucket_and_not_in_the_limit() {
    let mut link = link("rate=8mbit burst=1000b limit=1000b overhead=24 tbf.mpu=84b");
    send(&mut link, 1, 976, 0);
    // The bucket held 1024: 24 are left. Small packets cost 84, others 24 more than they have.
    send(&mut link, 1, 50, 0);
    send(&mut link, 5, 200, 0);
    assert_eq!(dropped(&link, DropReason::Limit), 1);
    assert_eq!(departures(&mut link), [0, 60_000, 284_000, 508_000, 732_000, 956_000]);
    let mut atm = self::link("rate=8mbit burst=1000b limit=1mb tbf.linklayer=adsl");
    send(&mut atm, 3, 481, 0);
    // 21 cells of 53 hold 1000; a packet takes 11.
    assert_eq!(departures(&mut atm), [0, 53_000, 636_000]);
}

#[test]
fn a_new_rate_rescales_the_wait_and_hands_out_no_burst() {
    let mut kept = link("rate=8mbit burst=1000b limit=1mb");
    send(&mut kept, 3, 1_000, 0);
    // Half of the second packet is saved up; its other half comes at twice the rate.
    rate(&mut kept, 16_000_000, 500_000);
    assert_eq!(departures(&mut kept), [0, 750_000, 1_250_000]);
    let mut refilled = link("rate=8mbit burst=1000b limit=1mb tbf.refill=linux");
    send(&mut refilled, 3, 1_000, 0);
    rate(&mut refilled, 16_000_000, 500_000);
    assert_eq!(departures(&mut refilled), [0, 500_000, 1_000_000]);
}

#[test]
fn a_thousand_changes_of_rate_carry_no_more_than_none() {
    let mut link = link("rate=80mbit burst=10kb limit=10mb");
    send(&mut link, 1_000, 1_000, 0);
    for change in 1..=1_000 {
        rate(&mut link, 80_000_000 + change % 2 * 8, change * 10_000);
    }
    // 100 us each after the first ten; a change rounds down by less than a nanosecond.
    let dues = departures(&mut link);
    let exact = (1_000_000 - 10_240) * 100;
    let last = *dues.last().unwrap();
    assert!((exact..exact + 10_000).contains(&last), "{last}");
}

#[test]
fn a_rate_of_nothing_pauses_and_the_tokens_stay() {
    let mut link = link("rate=8mbit burst=2000b limit=1mb");
    send(&mut link, 4, 1_000, 0);
    rate(&mut link, 0, 400_000);
    assert_eq!(link.next_event(), None);
    rate(&mut link, 0, 500_000);
    rate(&mut link, 8_000_000, 10_000_000);
    assert_eq!(departures(&mut link), [0, 0, 10_600_000, 11_600_000]);
}

#[test]
fn a_lower_limit_drops_from_the_tail() {
    let mut link = link("rate=8mbit burst=1000b limit=1mb");
    send(&mut link, 6, 1_000, 0);
    let change = Change::from_words("limit=2500b", "set").unwrap();
    link.change(&change, Instant::from_nanos(5)).unwrap();
    assert_eq!(dropped(&link, DropReason::Limit), 3);
    assert_eq!(departures(&mut link), [0, 1_000_000, 2_000_000]);
}

#[test]
fn a_smaller_burst_drops_nothing_that_was_taken_in_but_pays_for_it_in_parts() {
    let old = config("rate=8mbit burst=2000b limit=1mb");
    let mut tbf = Tbf::new(&old, Instant::ZERO);
    let mut effects = Effects::default();
    for (handle, bytes) in [(0, 1_900), (1, 1_900), (2, 100)] {
        let packet = Packet::on_path(handle, Instant::ZERO, 100, 7);
        tbf.enqueue(Queued { packet, entered: Instant::ZERO, bytes }, &mut effects);
    }
    assert!(tbf.dequeue(Instant::ZERO, &mut effects).is_some());
    let small = LinkConfig { burst: Some(1_000), ..old };
    tbf.configure(&small, Instant::ZERO, &mut effects);
    let mut left = Vec::new();
    while let Some(wake) = tbf.wake() {
        while let Some(served) = tbf.dequeue(wake, &mut effects) {
            left.push((served.queued.packet.handle, wake.as_nanos()));
        }
    }
    // 100 tokens were left, and a byte takes a microsecond.
    assert_eq!(left, [(1, 1_800_000), (2, 1_900_000)]);
    assert_eq!(effects.take_drops().count(), 0);
    assert_eq!(tbf.backlog(), Backlog::default());
    let packet = Packet::on_path(3, Instant::ZERO, 100, 7);
    let entered = Instant::from_nanos(2_000_000);
    tbf.enqueue(Queued { packet, entered, bytes: 1_001 }, &mut effects);
    let drops: Vec<_> =
        effects.take_drops().map(|drop| (drop.packet.handle, drop.reason)).collect();
    assert_eq!(drops, [(3, DropReason::TooBig)], "what comes now is refused");
}

#[test]
fn what_is_missing_or_cannot_be_is_named_at_once() {
    for (words, message) in [
        ("", "queue: tbf needs, for example, rate=20mbit and burst=20kb"),
        ("rate=1mbit", "queue: tbf needs, for example, burst=20kb"),
        ("burst=20kb", "queue: tbf needs, for example, rate=20mbit"),
        (
            "rate=1mbit peakrate=2mbit",
            "queue: tbf needs, for example, burst=20kb and tbf.mtu=1514b (for its peakrate)",
        ),
        ("rate=0 burst=20kb", "rate: 0bit: tbf starts with a rate above 0"),
        (
            "rate=7bit burst=20kb",
            "rate: 7bit is less than a byte per second, expected 8bit or more",
        ),
        ("rate=1mbit burst=0", "burst: 0b is no burst, expected 1b or more, or none"),
        ("rate=1kbit burst=1mb", "burst: 1mb take more than 274s at 1kbit, expected less"),
        (
            "rate=1mbit burst=20kb limit=1000p",
            "limit: 1000p: tbf counts bytes, expected for example 200kb or 100ms",
        ),
        ("rate=1mbit burst=20kb limit=0b", "limit: 0b holds no packet"),
        (
            "rate=2mbit burst=20kb peakrate=2mbit tbf.mtu=2000b",
            "peakrate: 2mbit is not above the rate of 2mbit",
        ),
        (
            "rate=1mbit burst=20kb tbf.mtu=0b",
            "tbf.mtu: 0b holds no packet, expected 1b or more, or none",
        ),
        (
            "rate=1mbit burst=20kb tbf.mpu=64kb",
            "tbf.mpu: 65536 is out of range, expected 0 to 65535",
        ),
        ("rate=1mbit burst=20kb overhead=-4", "overhead: -4: with tbf expected 0 to 65535"),
        (
            "rate=1mbit burst=20kb tbf.linklayer=atn",
            r#"tbf.linklayer: unknown word "atn", did you mean "atm"?"#,
        ),
    ] {
        let error = LinkConfig::parse(&format!("queue=tbf {words}"), "--up").unwrap_err();
        assert_eq!(error.to_string(), format!("--up: {message}"), "{words}");
    }
    let error = LinkConfig::parse("rate=1mbit tbf.mtu=2kb", "--up").unwrap_err();
    assert_eq!(error.to_string(), "--up: tbf.mtu: needs queue=tbf");
}

#[test]
fn a_live_change_may_not_take_the_rate_away() {
    let mut link = link("rate=8mbit burst=1000b");
    let change = Change::from_words("rate=unlimited", "set").unwrap();
    assert!(link.change(&change, Instant::ZERO).is_err());
}

#[test]
fn tbf_shows_as_tc_shows_it() {
    let config = config("rate=8mbit burst=1000b limit=3kb overhead=4");
    let mut link = Link::new(&config, 1, Instant::ZERO).unwrap();
    send(&mut link, 5, 996, 0);
    link.advance(Instant::from_nanos(1_000));
    let text = super::super::show(&config, &link.snapshot());
    let expected = "qdisc tbf root rate 8Mbit burst 1003b/1 mpu 0b lat 2.07ms overhead 4 linklayer ethernet\n \
                    Sent 996 bytes 1 pkt (dropped 1, overlimits 4 requeues 0)\n \
                    backlog 2988b 3p requeues 0";
    assert_eq!(text, expected);
}

proptest! {
    #[test]
    fn nothing_is_lost_twice_or_reordered_and_the_rate_is_kept(
        packets in prop::collection::vec((0..3_000_000_u64, 1..2_500_u32, 1..4_u16), 1..80),
        changes in prop::collection::vec((1..100_u64, 0..40_000_000_u64), 0..8),
    ) {
        let mut link = link("rate=8mbit burst=2000b limit=20kb gso=keep");
        let (mut now, mut departed, mut dropped) = (0, Vec::new(), 0);
        let mut budget = 2_000_i128 * 8_000_000_000;
        let (mut bps, mut since) = (8_000_000_i128, 0);
        for (index, (gap, len, segments)) in packets.iter().enumerate() {
            if let Some((_, new)) = changes.iter().find(|(at, _)| *at == index as u64) {
                let new = if *new < 8 { 0 } else { *new };
                rate(&mut link, new, now);
                budget += bps * i128::from(now - since);
                (bps, since) = (i128::from(new / 8 * 8), now);
            }
            now += gap;
            let packet = Packet::on_path(index as u64, Instant::from_nanos(now), *len, 7);
            link.arrive(Packet { segments: *segments, ..packet });
        }
        if bps < 8_000 {
            rate(&mut link, 8_000, now);
            budget += bps * i128::from(now - since);
            (bps, since) = (8_000, now);
        }
        let mut bits = 0_i128;
        loop {
            while let Some(output) = link.poll() {
                match output {
                    Output::Depart { packet, .. } => {
                        departed.push(packet.handle);
                        bits += i128::from(packet.len) * 8;
                    }
                    Output::Drop { .. } => dropped += 1,
                }
            }
            let Some(deadline) = link.next_event() else { break };
            link.advance(deadline.at);
            now = now.max(deadline.at.as_nanos());
        }
        prop_assert!(departed.is_sorted());
        prop_assert_eq!(departed.len() + dropped, packets.len());
        budget += bps * i128::from(now - since);
        // A packet's time is short by up to a nanosecond.
        let rounding = 40_000_000 * packets.len() as i128 * 4;
        prop_assert!(bits * 1_000_000_000 <= budget + rounding, "{bits} {budget}");
        prop_assert_eq!(link.snapshot().queued, 0);
    }

    #[test]
    fn any_time_and_size_is_survived(
        steps in prop::collection::vec((any::<u64>(), any::<u32>(), any::<u16>()), 1..20),
        bps in 8..=1_000_000_000_000_u64, burst in 1..=u32::MAX, overhead in 0..=65_535,
    ) {
        let peakrate = Rate::from_bps((bps + 1).min(1_000_000_000_000));
        let words = LinkConfig { rate: Rate::from_bps(bps).unwrap(), burst: Some(burst), peakrate, overhead, ..config("rate=8mbit burst=1kb peakrate=9mbit tbf.mtu=9kb tbf.linklayer=atm") };
        let mut link = Link::new(&words, 1, Instant::ZERO).unwrap();
        let mut now = 0_u64;
        for (index, (gap, len, segments)) in steps.iter().enumerate() {
            now = now.saturating_add(gap >> (index % 64));
            let packet = Packet::on_path(index as u64, Instant::from_nanos(now), (*len).max(1), 7);
            link.arrive(Packet { segments: (*segments).max(1), ..packet });
        }
        link.advance(Instant::from_nanos(u64::MAX));
        let snapshot = link.snapshot();
        let known = snapshot.packets_out + snapshot.queued + snapshot.dropped.iter().sum::<u64>();
        prop_assert_eq!(snapshot.packets_in, known);
    }
}
