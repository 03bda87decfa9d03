use proptest::prelude::*;

use super::*;

fn rate(text: &str) -> Result<u64, String> {
    text.parse::<Rate>().map(Rate::as_bps).map_err(|e| e.to_string())
}

fn nanos(text: &str) -> Result<u64, String> {
    text.parse::<Duration>().map(Duration::as_nanos).map_err(|e| e.to_string())
}

fn size(text: &str) -> Result<u64, String> {
    text.parse::<Bytes>().map(|b| b.0).map_err(|e| e.to_string())
}

fn share(text: &str) -> Result<u32, String> {
    text.parse::<Probability>().map(Probability::as_raw).map_err(|e| e.to_string())
}

#[test]
fn rates_read_as_tc_reads_them() {
    for (text, bits) in [
        ("20mbit", 20_000_000),
        ("20Mbit", 20_000_000),
        ("2.5mbit", 2_500_000),
        (".5kbit", 500),
        ("5.kbit", 5_000),
        ("64000", 64_000),
        ("0", 0),
        ("0mbit", 0),
        ("1tbit", 1_000_000_000_000),
        ("64kibit", 65_536),
        ("1mbps", 8_000_000),
        ("1kibps", 8_192),
        ("33.3333333333mbit", 33_333_333),
        ("0.000000000001tbit", 1),
        ("00000000000000000000000020mbit", 20_000_000),
        ("1.00000000000000000000000000000000000000000000001kbit", 1_000),
        ("unlimited", u64::MAX),
        ("Unlimited", u64::MAX),
    ] {
        assert_eq!(rate(text), Ok(bits), "{text}");
    }
}

#[test]
fn times_need_a_unit() {
    for (text, value) in [
        ("30ms", 30_000_000),
        ("0.1ms", 100_000),
        ("1.5s", 1_500_000_000),
        ("2secs", 2_000_000_000),
        ("7usec", 7_000),
        ("9NS", 9),
        ("0ms", 0),
        ("0.30000000000000004ms", 300_000),
    ] {
        assert_eq!(nanos(text), Ok(value), "{text}");
    }
    let fraction = r#""1.9ns" is no whole number of 1ns, the smallest time"#;
    assert_eq!(nanos("1.9ns").unwrap_err(), fraction);
    assert_eq!(nanos("30").unwrap_err(), r#""30" has no unit, expected for example 30ms"#);
    assert_eq!(nanos("0").unwrap_err(), r#""0" has no unit, expected for example 30ms"#);
}

#[test]
fn sizes_count_1024() {
    for (text, bytes) in [
        ("1514", 1514),
        ("20kb", 20_480),
        ("200k", 204_800),
        ("1.5KB", 1_536),
        ("1.1kb", 1_126),
        ("1m", 1_048_576),
        ("1gb", 1 << 30),
        ("8kbit", 1_024),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(size(text), Ok(bytes), "{text}");
    }
}

#[test]
fn shares_round_to_the_nearest_threshold() {
    for (text, raw) in [
        ("0", 0),
        ("0%", 0),
        ("1%", 42_949_673),
        ("1", 42_949_673),
        ("0.5%", 21_474_836),
        ("50%", 2_147_483_648),
        ("100%", u32::MAX),
        ("100.000", u32::MAX),
        ("0.00000002%", 1),
    ] {
        assert_eq!(share(text), Ok(raw), "{text}");
    }
}

#[test]
fn limits_are_packets_bytes_or_time() {
    for (text, limit) in [
        ("1000p", Limit::Packets(1000)),
        ("1P", Limit::Packets(1)),
        ("200k", Limit::Bytes(204_800)),
        ("15b", Limit::Bytes(15)),
        ("100ms", Limit::Time(Duration::from_millis(100))),
        ("1.5sec", Limit::Time(Duration::from_millis(1_500))),
    ] {
        assert_eq!(text.parse(), Ok(limit), "{text}");
    }
}

#[test]
fn bad_values_say_what_was_expected() {
    let limit = |text: &str| text.parse::<Limit>().map_err(|e| e.to_string());
    for (error, message) in [
        (rate("").unwrap_err(), "nothing given, expected a rate such as 20mbit"),
        (
            rate("20mbits").unwrap_err(),
            r#"unknown unit "mbits" in "20mbits", did you mean "mbit"?"#,
        ),
        (rate("-5mbit").unwrap_err(), r#""-5mbit" is negative, expected a rate such as 20mbit"#),
        (rate("fast").unwrap_err(), r#""fast" is no rate, expected for example 20mbit"#),
        (rate("unlimted").unwrap_err(), r#""unlimted" is no rate, did you mean "unlimited"?"#),
        (rate("1.2.3mbit").unwrap_err(), r#""1.2.3mbit" is no rate, expected for example 20mbit"#),
        (rate(".").unwrap_err(), r#""." is no rate, expected for example 20mbit"#),
        (rate("1.1tbit").unwrap_err(), r#""1.1tbit" is more than 1tbit"#),
        (
            rate("99999999999999999999999999999999999999999999").unwrap_err(),
            r#""99999999999999999999999999999999999999999999" is more than 1tbit"#,
        ),
        (rate("0.3bit").unwrap_err(), r#""0.3bit" is less than 1bit, the smallest rate"#),
        (nanos("0.2ns").unwrap_err(), r#""0.2ns" is less than 1ns, the smallest time"#),
        (nanos("30mss").unwrap_err(), r#"unknown unit "mss" in "30mss", did you mean "ms"?"#),
        (
            nanos("30 parsecs").unwrap_err(),
            r#"unknown unit " parsecs" in "30 parsecs", expected one of s, sec, secs, ms, msec, msecs, us, usec, usecs, ns, nsec, nsecs"#,
        ),
        (
            nanos("1e3ms").unwrap_err(),
            r#"unknown unit "e3ms" in "1e3ms", expected one of s, sec, secs, ms, msec, msecs, us, usec, usecs, ns, nsec, nsecs"#,
        ),
        (
            nanos("600000000000s").unwrap_err(),
            r#""600000000000s" is more than 18446744073709551615ns"#,
        ),
        (
            size("18446744073709551616").unwrap_err(),
            r#""18446744073709551616" is more than 18446744073709551615b"#,
        ),
        (share("100.1%").unwrap_err(), r#""100.1%" is more than 100%"#),
        (share("100.00000000001%").unwrap_err(), r#""100.00000000001%" is more than 100%"#),
        (share("1e-9").unwrap_err(), r#"unknown unit "e-9" in "1e-9", expected one of %"#),
        (
            share("0.00000001%").unwrap_err(),
            r#""0.00000001%" is less than 1 in 2^32, the smallest share"#,
        ),
        (
            limit("1000").unwrap_err(),
            r#""1000" has no unit, expected for example 1000p, 200kb or 100ms"#,
        ),
        (limit("1.5p").unwrap_err(), r#""1.5p" is no whole number of packets"#),
        (limit("5000000000p").unwrap_err(), r#""5000000000p" is more than 4294967295p"#),
    ] {
        assert_eq!(error, message);
    }
}

#[test]
fn values_print_in_the_largest_unit_that_divides_them() {
    for (value, text) in [
        (Rate(20_000_000).to_string(), "20mbit"),
        (Rate(2_500_000).to_string(), "2500kbit"),
        (Rate(0).to_string(), "0bit"),
        (Rate(1_001).to_string(), "1001bit"),
        (Rate::UNLIMITED.to_string(), "unlimited"),
        (Bytes(204_800).to_string(), "200kb"),
        (Bytes(1_514).to_string(), "1514b"),
        (Bytes(0).to_string(), "0b"),
        (Probability(42_949_673).to_string(), "1%"),
        (Probability(21_474_836).to_string(), "0.5%"),
        (Probability(0).to_string(), "0%"),
        (Probability(1).to_string(), "0.00000002%"),
        (Probability(u32::MAX).to_string(), "100%"),
        (Limit::Packets(7).to_string(), "7p"),
    ] {
        assert_eq!(value, text);
    }
}

proptest! {
    #[test]
    fn rates_print_as_they_read(bits in prop_oneof![0..=Rate::MAX.0, Just(u64::MAX)]) {
        prop_assert_eq!(Rate(bits).to_string().parse(), Ok(Rate(bits)));
    }

    #[test]
    fn sizes_and_times_print_as_they_read(value: u64) {
        prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
        let time = Duration::from_nanos(value);
        prop_assert_eq!(time.to_string().parse(), Ok(time));
    }

    #[test]
    fn shares_print_as_they_read(raw: u32) {
        prop_assert_eq!(Probability(raw).to_string().parse(), Ok(Probability(raw)));
    }

    #[test]
    fn arbitrary_text_is_refused_in_words_or_read(text in "\\PC{0,12}|[0-9.]{0,50}[a-z%]{0,5}") {
        let bound = Rate::MAX.0;
        if let Ok(rate) = text.parse::<Rate>() {
            prop_assert!(rate.0 <= bound || rate == Rate::UNLIMITED);
        }
        let _ = (text.parse::<Duration>(), text.parse::<Bytes>());
        let _ = (text.parse::<Limit>(), text.parse::<Probability>());
    }
}
