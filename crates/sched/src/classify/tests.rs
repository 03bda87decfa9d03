use proptest::prelude::*;

use super::*;

/// DNS query, 10.0.0.1:5000 > 10.0.0.2:53, DSCP EF, ECT(0).
const UDP4: &str = "45ba 0020 1234 4000 4011 0000 0a000001 0a000002 1388 0035 000c 0000 61626364";
/// TCP SYN with 20 bytes of options, 192.168.1.9:40000 > 192.168.1.1:443, IPv4 options of 4 bytes.
const TCP4: &str = "4600 0040 0001 0000 4006 0000 c0a80109 c0a80101 94040000 \
                    9c40 01bb 00000001 00000000 a002 ffff 0000 0000 \
                    020405b4 0402080a 00000001 00000000 01030307";
const PING4: &str = "4500 001c 0001 0000 4001 0000 0a000001 0a000002 0800 0000 0007 0001";
/// Time exceeded: no echo, so no identifier.
const EXCEEDED4: &str = "4500 001c 0001 0000 4001 0000 0a000001 0a000002 0b00 0000 1234 5678";
const FIRST4: &str = "4500 001c 0001 2000 4011 0000 0a000001 0a000002 1388 0035 000c 0000";
const LATER4: &str = "4500 001c 0001 00b9 4011 0000 0a000001 0a000002 ffff eeee dddd cccc";
const A6: &str = "fd000000000000000000000000000001 fd000000000000000000000000000002";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn read4(hex: &str) -> Classified {
    classify(&bytes(hex), ETHERTYPE_IPV4)
}

/// IPv6 with traffic class CS1 and CE, `next` header and what follows.
fn read6(next: &str, rest: &str) -> Classified {
    classify(&bytes(&format!("6230 0000 0020 {next} 40 {A6} {rest}")), ETHERTYPE_IPV6)
}

#[test]
fn ipv4_headers_are_read() {
    for (hex, kind, text, header_len) in [
        (UDP4, PayloadKind::Udp, "udp 10.0.0.1:5000 > 10.0.0.2:53", 28),
        (TCP4, PayloadKind::Tcp, "tcp 192.168.1.9:40000 > 192.168.1.1:443", 64),
        (PING4, PayloadKind::Icmp, "icmp 10.0.0.1 > 10.0.0.2 id 7", 28),
        (EXCEEDED4, PayloadKind::Icmp, "icmp 10.0.0.1 > 10.0.0.2", 28),
        (FIRST4, PayloadKind::Udp, "udp 10.0.0.1 > 10.0.0.2", 20),
        (LATER4, PayloadKind::Udp, "udp 10.0.0.1 > 10.0.0.2", 20),
    ] {
        let read = read4(hex);
        let found = (read.kind, read.key.to_string(), read.header_len);
        assert_eq!(found, (kind, text.to_owned(), header_len), "{hex}");
    }
}

#[test]
fn ipv6_extension_headers_are_skipped() {
    let udp = "1388 0035 0008 0000";
    let both = "udp [fd00::1]:5000 > [fd00::2]:53";
    let bare = "udp [fd00::1] > [fd00::2]";
    for (next, rest, kind, text, header_len) in [
        ("11", udp.to_owned(), PayloadKind::Udp, both, 48),
        ("00", format!("1100 0000 0000 0000 {udp}"), PayloadKind::Udp, both, 56),
        (
            "2b",
            format!("3c01 {} 1100 000000000000 {udp}", "00".repeat(14)),
            PayloadKind::Udp,
            both,
            72,
        ),
        ("33", format!("1104 {} {udp}", "00".repeat(22)), PayloadKind::Udp, both, 72),
        // An atomic fragment is a whole datagram.
        ("2c", format!("1100 0000 00000001 {udp}"), PayloadKind::Udp, both, 56),
        ("2c", format!("1100 0001 00000001 {udp}"), PayloadKind::Udp, bare, 48),
        ("2c", format!("1100 0b90 00000001 {udp}"), PayloadKind::Udp, bare, 48),
        ("32", udp.to_owned(), PayloadKind::Other, "esp [fd00::1] > [fd00::2]", 40),
        ("3b", udp.to_owned(), PayloadKind::Other, "protocol 59 [fd00::1] > [fd00::2]", 40),
        (
            "3a",
            "8000 0000 0007 0001".to_owned(),
            PayloadKind::Icmpv6,
            "icmpv6 [fd00::1] > [fd00::2] id 7",
            48,
        ),
        (
            "3a",
            "8700 0000 0007 0001".to_owned(),
            PayloadKind::Icmpv6,
            "icmpv6 [fd00::1] > [fd00::2]",
            48,
        ),
        ("84", udp.to_owned(), PayloadKind::Other, "sctp [fd00::1]:5000 > [fd00::2]:53", 40),
    ] {
        let read = read6(next, &rest);
        let found = (read.kind, read.key.to_string(), read.header_len);
        assert_eq!(found, (kind, text.to_owned(), header_len), "{next} {rest}");
    }
}

#[test]
fn class_and_congestion_fields_are_read() {
    let four = read4(UDP4);
    assert_eq!((four.dscp, four.ecn), (46, Ecn::Ect0));
    let six = read6("11", "");
    assert_eq!((six.dscp, six.ecn), (8, Ecn::Ce));
}

#[test]
fn all_fragments_of_a_datagram_are_one_flow() {
    let (first, later) = (read4(FIRST4), read4(LATER4));
    assert!(first.fragment && later.fragment);
    assert_eq!((first.key, first.flow), (later.key, later.flow));
    // The first one carries the destination options that only it can have.
    let first = read6("2c", "3c00 0001 00000001 1100 0000 0000 0000 1388 0035 0008 0000");
    let later = read6("2c", "3c00 0b90 00000001 ffff ffff ffff");
    assert!(first.fragment && later.fragment);
    assert_eq!((first.key, first.flow), (later.key, later.flow));
    assert!(!read4(UDP4).fragment, "don't fragment is no fragment");
}

#[test]
fn truncated_and_lying_headers_keep_what_is_known() {
    let whole = bytes(UDP4);
    for len in 0..28 {
        let read = classify(&whole[..len], ETHERTYPE_IPV4);
        assert_eq!(read.kind, PayloadKind::Other, "{len} bytes");
        assert_eq!(read.dscp, if len < 2 { 0 } else { 46 }, "{len} bytes");
        assert_eq!(read.key.addresses.is_some(), len >= 20, "{len} bytes");
        assert_eq!(read.key.destination_port, if len < 24 { 0 } else { 53 }, "{len} bytes");
    }
    for (hex, text) in [
        ("44ba 0020 1234 4000 4011 0000 0a000001 0a000002 1388 0035 000c 0000", "other"),
        ("65ba 0020 1234 4000 4011 0000 0a000001 0a000002 1388 0035 000c 0000", "other"),
        ("4fba 0020 1234 4000 4011 0000 0a000001 0a000002 1388", "udp 10.0.0.1 > 10.0.0.2"),
        // A TCP data offset of 4 words.
        (
            "4500 0028 0000 4000 4006 0000 0a000001 0a000002 1388 0035 00000001 00000000 4002 ffff",
            "tcp 10.0.0.1:5000 > 10.0.0.2:53",
        ),
    ] {
        let read = read4(hex);
        assert_eq!((read.kind, read.key.to_string().as_str()), (PayloadKind::Other, text), "{hex}");
    }
    let beyond = read6("00", "11ff 0000 0000 0000 1388 0035 0008 0000");
    assert_eq!((beyond.kind, beyond.key.source_port), (PayloadKind::Other, 0));
    assert_eq!(
        classify(&whole, 0x0806),
        Classified { flow: classify(&[], 0).flow, ..Classified::default() }
    );
}

#[test]
fn the_flow_hash_is_the_same_on_every_machine() {
    assert_eq!(read4(UDP4).flow, 467_966_378);
    assert_eq!(read6("11", "1388 0035 0008 0000").flow, 2_459_998_044);
}

#[test]
fn neighbouring_flows_spread_over_the_whole_hash() {
    let mut buckets = [0_u32; 256];
    for port in 0..25_600_u16 {
        let key = FlowKey { source_port: port, destination_port: 53, ..read4(UDP4).key };
        buckets[(key.hash32() & 255) as usize] += 1;
    }
    // Poisson with mean 100: 6 standard deviations to both sides.
    assert!(buckets.iter().all(|n| (40..=160).contains(n)), "{buckets:?}");
}

#[test]
fn each_further_segment_of_a_burst_repeats_the_headers() {
    let (tcp, udp, none) = (read4(TCP4), read4(UDP4), Classified::default());
    for (total, classified, mtu, expected) in [
        (1_500, tcp, 1_500, (1_500, 1)),
        (1_501, tcp, 1_500, (1_565, 2)),
        (64 + 10 * 1_436, tcp, 1_500, (10 * 1_500, 10)),
        (28 + 3 * 1_472 + 1, udp, 1_500, (28 * 4 + 3 * 1_472 + 1, 4)),
        (9_000, none, 1_500, (9_000, 1)),
        (9_000, udp, 28, (9_000, 1)),
        (9_000, udp, 0, (9_000, 1)),
        (10, udp, 5, (10, 1)),
        (u32::MAX, udp, 29, (u32::MAX, u16::MAX)),
    ] {
        assert_eq!(wire_length(total, &classified, mtu), expected, "{total} {mtu}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic_or_break_the_bounds(
        mut head in proptest::collection::vec(any::<u8>(), 0..200),
        version in prop_oneof![Just(0x45_u8), Just(0x4f), Just(0x60), any::<u8>()],
        next in prop_oneof![Just(0_u8), Just(6), Just(17), Just(43), Just(44), Just(51), Just(60)],
        ethertype in prop_oneof![Just(ETHERTYPE_IPV4), Just(ETHERTYPE_IPV6), any::<u16>()],
        (total, mtu) in any::<(u32, u32)>(),
    ) {
        if let Some(first) = head.first_mut() { *first = version; }
        if let Some(protocol) = head.get_mut(6) { *protocol = next; }
        let read = classify(&head, ethertype);
        prop_assert!(read.dscp < 64);
        prop_assert!(usize::from(read.header_len) <= HEAD_LEN + 60);
        prop_assert_eq!(read, classify(&head[..head.len().min(HEAD_LEN)], ethertype));
        let (len, segments) = wire_length(total, &read, mtu);
        prop_assert!(len >= total && segments >= 1);
        let _ = read.key.to_string();
    }
}
