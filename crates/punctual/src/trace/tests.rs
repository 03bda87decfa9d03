use proptest::prelude::*;
use punctual_sched::trace::{Course, Delivery, Opportunity, Step, Timeline};
use punctual_sched::{Duration, Probability, Rate};

use super::*;

fn whole(text: &str, hints: &Hints) -> Result<Read, String> {
    read_from("FILE", text.as_bytes(), hints).map_err(|error| error.to_string())
}

fn good(text: &str) -> Read {
    whole(text, &both()).unwrap()
}

/// Why a file is refused, after its name.
fn bad(text: &str) -> String {
    let error = whole(text, &both()).map(|read| read.format).unwrap_err();
    error.strip_prefix("FILE:").unwrap().trim_start().to_owned()
}

fn of(format: Format) -> Hints {
    Hints { format: Some(format), ..both() }
}

fn both() -> Hints {
    Hints { direction: Some(Direction::Down), ..Hints::default() }
}

fn up() -> Hints {
    Hints { direction: Some(Direction::Up), ..Hints::default() }
}

/// Times in ms, rates in kbit/s.
fn rates(read: &Read) -> Vec<(u64, u64)> {
    let rate = |step: &Step| step.rate.unwrap().as_bps() / 1_000;
    steps(read).iter().map(|step| (step.at.as_nanos() / 1_000_000, rate(step))).collect()
}

/// Times in ms, delays in us, whether all is lost.
fn delays(read: &Read) -> Vec<(u64, Option<u64>, Option<bool>)> {
    let each = |step: &Step| {
        let delay = step.delay.map(|delay| delay.as_nanos() / 1_000);
        let lost = step.loss.map(|loss| loss == Probability::ONE);
        (step.at.as_nanos() / 1_000_000, delay, lost)
    };
    steps(read).iter().map(each).collect()
}

fn steps(read: &Read) -> &[Step] {
    let Course::Steps(steps) = &read.timeline.course else { panic!("{read:?}") };
    steps
}

/// Times in ms and counts.
fn deliveries(read: &Read) -> Vec<(u64, u32)> {
    let Course::Deliveries { at, .. } = &read.timeline.course else { panic!("{read:?}") };
    at.iter().map(|one| (one.at.as_nanos() / 1_000_000, one.count)).collect()
}

fn span(read: &Read) -> u64 {
    read.timeline.span.as_nanos() / 1_000_000
}

const UCC: &str = "Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,\
    SNR,CQI,RSSI,DL_bitrate,UL_bitrate,State,PINGAVG,PINGMIN,PINGMAX,PINGSTDEV,PINGLOSS,CELLHEX,\
    NODEHEX,LACHEX,RAWCELLID,NRxRSRP,NRxRSRQ\n";

fn ucc(rows: &[(&str, &str, &str)]) -> String {
    let row = |(at, down, up): &(&str, &str, &str)| {
        format!(
            "2019.12.16_13.40.{at},-8.394624,51.886140999999995,0,B,11,5G,-103,-15,1.0,15,-90,\
             {down},{up},D,-,-,-,-,-,B,A4DF,9CBA,10805003,-106.0,-11.0\n"
        )
    };
    UCC.to_owned() + &rows.iter().map(row).collect::<String>()
}

const NTRACE: &str = r#"{"version": 1, "description": "car", "entries": [
    {"entryNo": 1, "dateTime": "2020-10-09T08:23:00.478+02:00", "dlBw": 12608,
     "gpsCoordinates": {"latitude": 59.4, "longitude": 17.9, "accuracy": 84.2}},
    {"entryNo": 2, "dateTime": "2020-10-09T06:23:11.138Z", "dlBw": 7641, "ulBw": 500, "ulLatency": 20000}
]}"#;

const HSDPA: &str = "1289406399 549692 59.851754 10.781778 248069 1008\n\
                     1289406400 550700 59.851800 10.781800 126000 1008\n";
const GHENT: &str = "1453121790686 39287 51.0386528885778 3.73220785642186 2493100 1000\n";
const WETLINKS: &str = "site_name,timestamp_start,timestamp_end,server,ip_protocol,\
                        transport_protocol,download,upload\n";

/// One file of each format, and what it is recognised as.
fn samples() -> Vec<(Format, String)> {
    use Format::*;
    let text = |format: Format, text: &str| (format, text.to_owned());
    vec![
        text(Punctual, "# punctual trace, version 1\ntime_ns,rate_bps\n0,1000\n5,2000\n"),
        text(Punctual, "time,rate,loss\n0s,20mbit,1%\n2s,5mbit,\n"),
        text(Punctual, "time_ns,opportunities\n1000000,2\n"),
        text(Mahimahi, "7\n8\n8\n8\n8\n8\n14\n"),
        text(Mahimahi, "1\n"),
        text(Mahimahi, "100"),
        text(
            MahimahiLog,
            "# mahimahi mm-link (downlink) [x]\n142 + 80\n142 # 1504\n144 - 80 2\n150 # 1504\n",
        ),
        text(NetemTrace, r#"{"StaticBwConfig": {"bw": "12Mbps", "duration": "1s"}}"#),
        text(NetemTrace, "[RepeatedBwPatternConfig]\ncount = 0\n"),
        text(Theaterq, "200000,10000000,30000000,0,100\n"),
        text(Theaterq, "KEEP,LATENCY,RATE,LOSS,LIMIT\n200000,10000000,-1,0,100\n"),
        text(TheaterqExtended, "200000,10000000,0,30000000,0,100,0,0,0,0\n"),
        text(
            Fau,
            "at,delay,stddev,min_link_cap,max_link_cap,queue_capacity,hops,dropratio,route\n0,10000,0.00,30000000.00,100000000.00,100,3,0.00,1\n",
        ),
        text(Pairs, "0 65.0\n1 66.0\n"),
        text(Pairs, "0.0 5537\n1.0 5000"),
        text(Pairs, "1.0\t48\n2.0\t50"),
        text(Pairs, "0,65.0\n1,66.0"),
        text(Hsdpa, HSDPA),
        text(Ghent, GHENT),
        text(Fcc, "1234,2016-09-01 00:01:02,t,1.2.3.4,1,2,125000,8\n"),
        (Ucc, ucc(&[("04", "72", "20")])),
        text(
            Starlink,
            "time,throughput,speed,latitude,longtitu,area_type\n2023-04-12 10:40:20 CDT,147,62.98560906,45.4786111,-93.2375609,rural\n",
        ),
        text(LensIrtt, "1705744800626565141,120.126123,72.439368,47.68675\n"),
        text(
            LensIrtt,
            "timestamp,rtt,uplink,downlink\n1705744800626565141,120.126123,72.439368,47.68675\n",
        ),
        text(LensPing, "timestamp,rtt\n1705744800.533641,91.8\n"),
        (WetlinksIperf, WETLINKS.to_owned() + "a,1,2,s,4,tcp,1,2\n"),
        text(
            WetlinksPing,
            "site_name,timestamp_start,timestamp_end,server,packet_loss,packets_send,ping_avg,ping_worst,ping_best,ping_stddev\n",
        ),
        text(
            Errant,
            "time,operator,country,technology,quality,download,upload,rtt\n0,telia,norway,3g,good,5000,1000,80\n",
        ),
        text(Ntrace, NTRACE),
        text(Cellreplay, "0 23 0 1 1 2\n500 25 0 3\n1000 24 1\n"),
    ]
}

#[test]
fn each_sample_is_recognised_as_itself_and_as_nothing_else() {
    for (format, text) in samples() {
        assert_eq!(sniff::recognise(text.as_bytes(), true), Ok(format), "{text}");
        let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        assert_eq!(sniff::recognise(windows.as_bytes(), true), Ok(format), "{windows}");
    }
}

#[test]
fn names_of_formats_and_units_are_read_and_mistakes_are_told() {
    for (format, _) in samples() {
        assert_eq!(format.name().parse(), Ok(format));
    }
    let error = |text: &str| text.parse::<Format>().unwrap_err();
    assert_eq!(error("mahimai"), "\"mahimai\" is no format, did you mean \"mahimahi\"?");
    assert!(error("csv").starts_with("\"csv\" is no format, expected one of punctual, "));
    assert_eq!("Mbit".parse(), Ok(Unit::Mbit));
}

#[test]
fn what_may_be_two_formats_is_refused_and_both_are_named() {
    let text = "1705744800.533641,91.8\n1705744801.533641,92.8\n";
    let error = read_from("f", text.as_bytes(), &Hints::default()).unwrap_err();
    assert_eq!(error.missing(), Some(Missing::Format));
    assert_eq!(error.to_string(), "f: may be lens-ping or pairs, expected the format to be named");
    let mixed = r#"{"entries": [], "StaticBwConfig": {}}"#;
    assert!(bad(mixed).starts_with("may be netem-trace or ntrace"), "{}", bad(mixed));
}

#[test]
fn what_is_no_trace_is_refused() {
    for (text, message) in [
        ("", "is empty, expected a trace"),
        ("\n \n\t\n", "holds blank lines only, expected a trace"),
        (
            "hello world\n",
            "has no known format, expected one that `punctual trace check --help` lists",
        ),
        (
            "telia,norway,3g,good,5,-\n",
            "has no known format, expected one that `punctual trace check --help` lists",
        ),
        (
            "a,b,c,d,e\n1,2,3,4,5\n",
            "has no known format, expected one that `punctual trace check --help` lists",
        ),
        (
            "{\"a\": 1}",
            "has no known format, expected one that `punctual trace check --help` lists",
        ),
        ("7\n\0\n", "2: holds bytes that are no text, expected a trace in text"),
    ] {
        assert_eq!(bad(text), message, "{text:?}");
    }
}

#[test]
fn a_packet_delivery_trace_is_read_exactly_and_begins_anew_after_its_last_time() {
    let read = good("7\n8\n8\n8\n8\n8\n14\n");
    assert_eq!(deliveries(&read), [(7, 1), (8, 5), (14, 1)]);
    assert_eq!((span(&read), read.loops_by_nature), (14, true));
    let opportunity = |hints: &Hints| match whole("1\n", hints).unwrap().timeline.course {
        Course::Deliveries { opportunity, .. } => opportunity,
        Course::Steps(_) => panic!("steps"),
    };
    assert_eq!(opportunity(&both()), Opportunity::MAHIMAHI);
    let packet = Hints { packet: Some(Opportunity::IP), ..both() };
    assert_eq!(opportunity(&packet), Opportunity::IP);
    assert_eq!(deliveries(&good("0\n0\n5\n")), [(0, 2), (5, 1)]);
    assert_eq!(deliveries(&good("1\r\n1\r\n2\r\n")), [(1, 2), (2, 1)]);
}

#[test]
fn mahimahi_samples_have_the_rates_that_its_users_know() {
    for (text, bps) in [("1", 12_032_000), ("1\n1\n1\n1\n1", 60_160_000), ("100", 120_320)] {
        assert_eq!(Summary::of(&good(text).timeline).mean_bps, Some(bps), "{text}");
    }
}

#[test]
fn bad_packet_delivery_traces_are_refused_with_the_line() {
    let rates = "; a column of rates is mahimahi-rate (kbit per ms) or fcc-rates (bytes/s)";
    for (text, message) in [
        ("8\n7\n", format!("2: goes back in time by 1ms, expected times in order{rates}")),
        ("8\n\n9\n", "2: is blank, expected a time in ms".to_owned()),
        ("8\n9\n\n", "3: is blank, expected a time in ms".to_owned()),
        (
            "0\n0\n",
            "2: the last time is 0 ms, expected one above 0: the trace begins anew there"
                .to_owned(),
        ),
        ("-5\n", "1: \"-5\" is negative, expected a time in ms".to_owned()),
        ("5\nNaN\n", "2: \"NaN\" is no number, expected a time in ms".to_owned()),
        ("5\nseven\n", "2: \"seven\" is no number, expected a time in ms".to_owned()),
        ("5\n7 8\n", "2: \"7 8\" is no number, expected a time in ms; two columns are pairs (seconds and throughput)".to_owned()),
        ("5\n7.5\n", format!("2: \"7.5\" is not whole, expected a time in ms{rates}")),
        (
            "5\n99999999999999999999\n",
            "2: \"99999999999999999999\" is too large, expected a time in ms".to_owned(),
        ),
        (
            "5\n18446744073709551\n",
            "2: \"18446744073709551\" is too large, expected a time in ms".to_owned(),
        ),
    ] {
        assert_eq!(bad(text), message, "{text:?}");
    }
    let empty = whole("", &of(Format::Mahimahi)).unwrap_err();
    assert_eq!(empty, "FILE: is empty, expected a time in ms in each line");
}

#[test]
fn a_column_of_one_number_is_read_as_times_with_a_warning() {
    assert_eq!(good("12\n12\n12\n").warnings.len(), 1);
    assert_eq!(good("12\n").warnings, [""; 0]);
}

#[test]
fn rate_input_is_read_only_when_it_is_named() {
    let read = whole("12\n12\n0\n7.5\n", &of(Format::MahimahiRate)).unwrap();
    assert_eq!(rates(&read), [(0, 12_000), (1, 12_000), (2, 0), (3, 7_500)]);
    assert_eq!((span(&read), read.loops_by_nature), (4, true));
    let blank = whole("12\n\n", &of(Format::MahimahiRate)).unwrap_err();
    assert_eq!(blank, "FILE:2: \"\" is no number, expected kbit per ms in each line");
}

#[test]
fn a_log_of_mahimahi_gives_back_its_opportunities() {
    let text = "# mahimahi mm-link (uplink) [x]\n# base timestamp: 100\n\
                142 + 80\n142 # 1504\n144 - 80 2\n144 # 1504\n144 # 1504\n150 d 1 80\n";
    assert_eq!(deliveries(&good(text)), [(42, 1), (44, 2)]);
    let wrong = bad(&(text.to_owned() + "x # 1\n"));
    assert_eq!(wrong, "9: \"x\" is no number, expected a time in ms");
}

#[test]
fn pairs_need_a_unit_and_hold_until_the_next() {
    let text = "10.0 5\n10.5 2.5\n12 0\n";
    let error = read_from("f", text.as_bytes(), &Hints::default()).unwrap_err();
    assert_eq!(error.missing(), Some(Missing::Unit));
    for (unit, first) in [
        (Unit::Mbit, 5_000_000),
        (Unit::Kbit, 5_000),
        (Unit::Bit, 5),
        (Unit::Mbyte, 40_000_000),
        (Unit::Kbyte, 40_000),
        (Unit::Byte, 40),
    ] {
        let read = whole(text, &Hints { unit: Some(unit), ..Hints::default() }).unwrap();
        assert_eq!(steps(&read)[0].rate.unwrap().as_bps(), first, "{unit:?}");
    }
    let mbit = Hints { unit: Some(Unit::Mbit), ..Hints::default() };
    let read = whole(text, &mbit).unwrap();
    assert_eq!(rates(&read), [(0, 5_000), (500, 2_500), (2_000, 0)]);
    assert_eq!(span(&read), 3_500);
    for (text, message) in [
        ("0 5", "FILE: all lines have the same time, expected at least two times"),
        ("1 5\n0 5", "FILE:2: goes back in time by 1s, expected times in order"),
        ("0 5\n1 -5", "FILE:2: \"-5\" is negative, expected a rate"),
        ("0 5\n1 nan", "FILE:2: \"nan\" is no number, expected a rate"),
        ("0 5\n1 1e300", "FILE:2: \"1e300\" is too large, expected a rate"),
        ("0 5\n1 2000000", "FILE:2: \"2000000\" is more than 1tbit, expected a rate"),
        (
            "0 5\n1 2 3",
            "FILE:2: expected two numbers: a time in seconds and a rate; one column of times in ms is mahimahi",
        ),
    ] {
        assert_eq!(
            whole(text, &Hints { format: Some(Format::Pairs), ..mbit.clone() }).unwrap_err(),
            message
        );
    }
    let unit = Hints { unit: Some(Unit::Mbit), ..Hints::default() };
    let error = whole("7\n", &unit).unwrap_err();
    assert_eq!(error, "FILE: a unit was given, but mahimahi has its own; a unit is for pairs");
}

#[test]
fn theaterq_entries_hold_as_long_as_they_are_kept() {
    let read =
        good("KEEP,LATENCY,RATE,LOSS,LIMIT\n200000,10000000,30000000,0,100\n1,0,-1,4294967295,0\n");
    let expected = [
        Step {
            at: Duration::ZERO,
            rate: Rate::from_bps(30_000_000),
            delay: Some(Duration::from_millis(10)),
            loss: Some(Probability::ZERO),
        },
        Step {
            at: Duration::from_millis(200),
            rate: Some(Rate::UNLIMITED),
            delay: Some(Duration::ZERO),
            loss: Some(Probability::ONE),
        },
    ];
    assert_eq!(steps(&read), expected);
    assert_eq!(read.timeline.span.as_nanos(), 200_001_000);
    assert_eq!(read.warnings, ["not carried: LIMIT; give the link what it shall have of them"]);
    let read = good("5,1,7,8000,0,0,1,2,3\n");
    assert_eq!(read.format, Format::TheaterqExtended);
    assert!(read.warnings[0].starts_with("not carried: JITTER, DUP_PROB, DUP_DELAY, ROUTE_ID;"));
    for (text, message) in [
        ("0,1,2,3,4", "1: KEEP is 0, expected microseconds above 0"),
        ("1,1,2,3,4\n1,1,2,4294967296,4", "2: LOSS is more than 4294967295, which is 100 %"),
        ("1,1,2,3,4\n1,1,2,3", "2: 4 columns, expected 5: KEEP,LATENCY,RATE,LOSS,LIMIT"),
        ("1,1,2,3,4\n-1,1,2,3,4", "2: KEEP is negative, expected microseconds above 0"),
        ("1,1,2,3,4\n1,1,-2,3,4", "2: \"-2\" is negative, expected RATE in bit/s or -1"),
        ("18446744073709551,1,2,3,4\n2000,1,2,3,4", "2: the times add up to more than 584 years"),
    ] {
        assert_eq!(bad(text), message, "{text}");
    }
}

#[test]
fn satellite_paths_give_rate_delay_and_loss() {
    let read = good(
        "at,delay,stddev,min_link_cap,max_link_cap,queue_capacity,hops,dropratio,route\n\
         0,10000,0.00,30000000.00,100000000.00,100,3,0.50,1\n1000000,20000,1,1000,1,1,1,0,1\n",
    );
    assert_eq!(read.format, Format::Fau);
    assert_eq!(rates(&read), [(0, 30_000), (1_000, 1)]);
    assert_eq!(delays(&read), [(0, Some(10_000), Some(false)), (1_000, Some(20_000), Some(false))]);
    assert_eq!(steps(&read)[0].loss, Some(Probability::from_raw(1 << 31)));
    assert_eq!(read.warnings, ["stddev is not carried; give the link a jitter"]);
}

#[test]
fn bytes_over_milliseconds_are_the_rate_before_the_line() {
    let read = good(HSDPA);
    assert_eq!(rates(&read), [(0, 1_968), (1_008, 1_000)]);
    assert_eq!((span(&read), read.warnings.len()), (2_016, 0));
    assert_eq!(rates(&good(GHENT)), [(0, 19_944)]);
    assert_eq!(span(&good(GHENT)), 1_000);
    let gap = HSDPA.to_owned() + "1289406500 650700 59.851800 10.781800 126000 1000\n";
    assert_eq!(good(&gap).warnings, ["its intervals add up to 3016ms, its times to 102016ms"]);
    for (line, message) in [
        (
            "1 2 3 4 5\n",
            "3: 5 columns, expected 6: time, ms since the start, latitude, longitude, bytes, ms",
        ),
        ("1 560000 59.8 10.7 5 0\n", "3: 5 bytes in 0 ms, expected a time above 0"),
        (
            "1 560000 59.8 10.7 -5 9\n",
            "3: \"-5\" is negative, expected bytes since the line before",
        ),
        ("1 1 59.8 10.7 5 9\n", "3: goes back in time by 550699ms, expected times in order"),
        (
            "1 560000 59.8 10.7 99999999999999999 1\n",
            "3: \"99999999999999999 bytes in 1ms\" is more than 1tbit, expected bytes and \
             milliseconds",
        ),
    ] {
        assert_eq!(bad(&(HSDPA.to_owned() + line)), message);
    }
}

#[test]
fn five_second_rates_of_one_unit_and_target_are_read() {
    let line = "1234,2016-09-01 00:01:02,t,1.2.3.4,1,2,125000,8\n";
    let read = good(&(line.to_owned() + "1234,2016-09-01 00:01:07,t,1.2.3.4,1,2,250000,8\n"));
    assert_eq!((rates(&read), span(&read)), (vec![(0, 1_000), (5_000, 2_000)], 10_000));
    let other = bad(&(line.to_owned() + "99,2016-09-01 00:01:07,t,1.2.3.4,1,2,250000,8\n"));
    assert_eq!(other, "2: another unit or target, expected the lines of one");
    let cooked = whole("125000\n250000.5\n", &of(Format::FccRates)).unwrap();
    assert_eq!(rates(&cooked), [(0, 1_000), (5_000, 2_000)]);
}

#[test]
fn repeated_seconds_are_shared_and_missing_rates_keep_the_value_before() {
    let text = ucc(&[
        ("04", "-", "-"),
        ("05", "72", "20"),
        ("07", "100", "-"),
        ("07", "200", "30"),
        ("08", "-", "40"),
        ("09", "-", "50"),
    ]);
    let read = good(&text);
    assert_eq!(rates(&read), [(0, 72), (2_000, 100), (2_500, 200)]);
    assert_eq!(span(&read), 5_000);
    assert_eq!(read.warnings, ["3 lines have no value; the value before holds"]);
    let read = whole(&text, &up()).unwrap();
    assert_eq!(rates(&read), [(0, 20), (2_500, 30), (3_000, 40), (4_000, 50)]);
    let error = read_from("f", text.as_bytes(), &Hints::default()).unwrap_err();
    assert_eq!(error.missing(), Some(Missing::Direction));
    let back = bad(&ucc(&[("05", "1", "1"), ("04", "1", "1")]));
    assert_eq!(back, "3: goes back in time by 1s, expected times in order");
    assert_eq!(bad(&ucc(&[("04", "-", "-")])), "holds no value, expected times and values");
    assert_eq!(
        bad(&ucc(&[("xx", "1", "-")])),
        "2: \"2019.12.16_13.40.xx\" is no number, expected a date with time, or seconds"
    );
    assert_eq!(
        bad(&(UCC.to_owned() + "2019.12.16_13.40.04,1\n")),
        "2: ends before column 13 (DL_bitrate)"
    );
}

#[test]
fn a_change_of_zone_within_a_file_is_refused() {
    let text =
        "time,throughput,speed\n2023-11-05 01:59:59 CDT,147,1\n2023-11-05 01:00:00 CST,10,1\n";
    assert_eq!(bad(text), "3: zone \"CST\", expected \"CDT\" as before");
    let read = good(&text.replace("01:00:00 CST", "02:00:01 CDT"));
    assert_eq!((rates(&read), span(&read)), (vec![(0, 147_000), (2_000, 10_000)], 4_000));
}

#[test]
fn lost_probes_lose_all_until_the_next_one() {
    let text = "timestamp,rtt,uplink,downlink\n\
                1705744800626565141,120.1,72.4,47.7\n\
                1705744800636565141,-1,-1,0\n\
                1705744800646565141,-1,0,-1\n\
                1705744800656565141,100,60,40\n";
    let read = whole(text, &up()).unwrap();
    let up =
        [(0, Some(72_400), Some(false)), (10, None, Some(true)), (30, Some(60_000), Some(false))];
    assert_eq!((delays(&read), span(&read)), (up.to_vec(), 40));
    let down =
        [(0, Some(47_700), Some(false)), (20, None, Some(true)), (30, Some(40_000), Some(false))];
    assert_eq!(delays(&good(text)), down);
    let read = good("timestamp,rtt\n1705744800.5,91.8\n1705744801.5,-1\n");
    assert_eq!(delays(&read), [(0, Some(45_900), Some(false)), (1_000, None, Some(true))]);
    let negative = bad(&text.replace("100,60,40", "100,60,-2"));
    assert_eq!(negative, "5: \"-2\" is negative, expected a one-way delay in ms, or -1");
}

#[test]
fn wetlinks_gives_rates_from_iperf_and_delays_and_losses_from_ping() {
    let text = WETLINKS.to_owned()
        + "a,1700000000,1700000030,s,4,tcp,100000000,10000000\na,2023-11-14 22:18:20,x,s,4,tcp,50000000,\n";
    let read = good(&text);
    assert_eq!(rates(&read), [(0, 100_000), (300_000, 50_000)]);
    assert_eq!(
        bad(&text.replace("\na,2023", "\nb,2023")),
        "3: another site, expected the lines of one"
    );
    let ping = "site_name,timestamp_start,timestamp_end,server,packet_loss,packets_send,ping_avg\n\
                a,0,1,s,5,10,80.5\na,60,61,s,0,10,90\n";
    let read = good(ping);
    assert_eq!(
        delays(&read),
        [(0, Some(40_250), Some(false)), (60_000, Some(45_000), Some(false))]
    );
    // The same as the words of a link.
    for (counts, words) in [("5,10", "50%"), ("3,10", "30%"), ("1,3", "33.33333333%")] {
        let read = good(&ping.replace("5,10", counts));
        assert_eq!(steps(&read)[0].loss, words.parse().ok(), "{counts}");
    }
    assert_eq!(
        bad(&ping.replace("s,5,10", "s,11,10")),
        "2: 11 of 10 packets lost, expected at most all"
    );
}

#[test]
fn errant_ntrace_and_cellreplay_are_read() {
    let read = good(
        "time,operator,country,technology,quality,download,upload,rtt\n0,telia,norway,3g,good,5000,1000,80\n5,telia,norway,3g,bad,500,100,200\n",
    );
    assert_eq!(rates(&read), [(0, 5_000), (5_000, 500)]);
    assert_eq!(delays(&read)[1], (5_000, Some(100_000), None));
    let read = good(NTRACE);
    assert_eq!((rates(&read), span(&read)), (vec![(0, 12_608), (10_660, 7_641)], 21_320));
    assert_eq!(
        whole(NTRACE, &up()).unwrap_err(),
        "FILE: all lines have the same time, expected at least two times"
    );
    let read = good("0 23 0 1 1 2\n500 25 0 3\n1000 24 1\n");
    assert_eq!(delays(&read)[1], (500, Some(25_000), None));
    assert_eq!(
        bad("0 23 0 1 1 2\n500 25 0 3\n"),
        "2 lines, expected at least 3 (read as cellreplay)"
    );
}

#[test]
fn bad_ntrace_files_are_refused() {
    for (from, to, message) in [
        ("\"version\": 1", "\"version\": 2", "is version 2, expected 1"),
        (
            "\"entryNo\": 2",
            "\"entryNo\": 1",
            "entry 1: not after the one before it, expected ascending numbers and times",
        ),
        ("2020-10-09T06:23:11.138Z", "yesterday", "4: \"yesterday\" is no date, expected ISO 8601"),
        ("\"dlBw\": 7641", "\"dlBw\": -1", "4: invalid value: integer `-1`, expected u64"),
        ("\"dlBw\": 7641", "\"dlBw\": 18446744073709551615", "entry 2: more than 1tbit"),
        ("]}", "]", "5: EOF while parsing an object"),
    ] {
        assert_eq!(bad(&NTRACE.replace(from, to)), message);
    }
}

#[test]
fn netem_trace_configurations_are_unrolled() {
    let read = good(
        r#"{"RepeatedBwPatternConfig": {"pattern": [
            {"TraceBwConfig": {"pattern": [["25ms", ["10Mbps", "20Mbps"]], ["2ms", ["11Mbps", "23Mbps"]]]}},
            {"SawtoothBwConfig": {"bottom": "10Mbps", "top": "20Mbps", "step": "1ms", "interval": "10ms",
             "duty_ratio": 0.5, "duration": "8ms"}}], "count": 0}}"#,
    );
    let expected = [
        (0, 10_000),
        (25, 20_000),
        (50, 11_000),
        (52, 23_000),
        (54, 10_000),
        (55, 12_000),
        (56, 14_000),
        (57, 16_000),
        (58, 18_000),
        (59, 20_000),
        (60, 18_000),
        (61, 16_000),
    ];
    assert_eq!(rates(&read), expected);
    assert_eq!((span(&read), read.loops_by_nature), (62, true));
    let read = good(
        r#"{"RepeatedBwPatternConfig":{"pattern":[{"StaticBwConfig":{"bw":{"gbps":0,"bps":12000000},
            "duration":{"secs":1,"nanos":0}}},{"StaticBwConfig":{"bw":{"gbps":1,"bps":5}}}],"count":2}}"#,
    );
    assert_eq!(
        rates(&read),
        [(0, 12_000), (1_000, 1_000_000), (2_000, 12_000), (3_000, 1_000_000)]
    );
    assert!(!read.loops_by_nature);
    let toml = "[RepeatedBwPatternConfig]\ncount = 3\n[[RepeatedBwPatternConfig.pattern]]\n\
                StaticBwConfig = { bw = \"4Mbps\", duration = \"1s\" }\n\
                [[RepeatedBwPatternConfig.pattern]]\nStaticBwConfig = { bw = \"2Mbps\", duration = \"500ms\" }\n";
    assert_eq!((rates(&good(toml)).len(), span(&good(toml))), (6, 4_500));
}

#[test]
fn netem_trace_delays_and_losses_are_carried() {
    let read = good(
        r#"{"RepeatedDelayPatternConfig": {"pattern": [{"StaticDelayConfig": {"delay": "10ms", "duration": "1s"}},
            {"StaticDelayConfig": {"delay": "1s 20us"}}], "count": 1}}"#,
    );
    assert_eq!(delays(&read), [(0, Some(10_000), None), (1_000, Some(1_000_020), None)]);
    let read = good(r#"{"StaticLossConfig": {"loss": [0.5], "duration": "2s"}}"#);
    assert_eq!(steps(&read)[0].loss, Some(Probability::from_raw(1 << 31)));
    let message = bad(r#"{"StaticLossConfig": {"loss": [0.1, 0.2]}}"#);
    assert!(
        message.starts_with("StaticLossConfig with a loss that depends on earlier losses"),
        "{message}"
    );
}

#[test]
fn normal_distributions_are_drawn_from_the_seed_within_their_bounds() {
    let text = r#"{"NormalizedBwConfig": {"mean": "12Mbps", "std_dev": "1Mbps", "duration": "10s",
        "step": "10ms", "seed": 7, "lower_bound": "10Mbps", "upper_bound": "14Mbps"}}"#;
    let read = good(text);
    let values = rates(&read);
    assert!(values.iter().all(|(_, kbit)| (10_000..=14_000).contains(kbit)), "{values:?}");
    let mean = Summary::of(&read.timeline).mean_bps.unwrap();
    assert!((11_850_000..12_150_000).contains(&mean), "{mean}");
    assert_eq!(good(text), read);
    assert_eq!(read.warnings.len(), 1);
    let other = whole(text, &Hints { seed: Some(8), ..both() }).unwrap();
    assert_ne!(other.timeline, read.timeline);
}

#[test]
fn netem_trace_models_without_a_place_are_refused_by_name_and_line() {
    for name in [
        "StaticDelayPerPacketConfig",
        "StaticDuplicateConfig",
        "StaticRwndConfig",
        "TraceLightPdoConfig",
    ] {
        let expected =
            format!("2: {name} is not carried, expected models of bandwidth, delay or loss");
        assert_eq!(bad(&format!("{{\n\"{name}\": {{}}}}")), expected);
    }
    for (text, message) in [
        (
            r#"{"RepeatedBwPatternConfig": {"pattern": [{"FooConfig": {}}]}}"#,
            "1: FooConfig is unknown, expected models of bandwidth, delay or loss",
        ),
        (
            "{\"StaticBwConfig\":\n{\"bw\": \"12MB\"}}",
            "2: invalid value: string \"12MB\", expected a bandwidth such as 12Mbps",
        ),
        (
            "{\"StaticBwConfig\": {\"duration\": \"-1s\"}}",
            "1: invalid value: string \"-1s\", expected a time such as 100ms",
        ),
        (r#"{"StaticBwConfig": {"bw": "2Tbps"}}"#, "2000000000000 bit/s, expected at most 1tbit"),
        (
            r#"{"StaticBwConfig": {"duration": "0s"}}"#,
            "is empty, expected values and how long they hold",
        ),
        (
            r#"{"RepeatedBwPatternConfig": {"pattern": [{"StaticBwConfig": {}}, {"RepeatedBwPatternConfig": {"pattern": [{"StaticBwConfig": {}}], "count": 0}}], "count": 1}}"#,
            "a pattern with count 0 inside of another never ends, expected it outermost",
        ),
        (
            r#"{"RepeatedBwPatternConfig": {"pattern": [{"StaticBwConfig": {}}], "count": 1000000000000}}"#,
            "more than 33554432 entries, expected a trace that fits in memory",
        ),
        (r#"{"SawtoothBwConfig": {"bottom": "20Mbps"}}"#, "SawtoothBwConfig: bottom is above top"),
        (r#"{"NormalizedBwConfig": {"step": "0s"}}"#, "a step of 0, expected one above"),
        (
            "{\"StaticBwConfig\": {}, \"x\": 1}",
            "1: \"x\" beside StaticBwConfig, expected one model",
        ),
    ] {
        assert_eq!(bad(text), message, "{text}");
    }
    let bytes = [b"{\"StaticBwConfig\":\n{}", &[0xff][..], b"}"].concat();
    let error = read_from("f", &bytes[..], &of(Format::NetemTrace)).unwrap_err();
    assert_eq!(error.to_string(), "f:2: holds bytes that are no text, expected JSON or TOML");
    let deep = "{\"RepeatedBwPatternConfig\":{\"pattern\":[".repeat(10_000);
    assert_eq!(bad(&deep), "1: recursion limit exceeded");
}

#[test]
fn own_files_can_be_written_by_hand() {
    let read = good(
        "# a comment\n\n# span=10s repeat=yes\ntime,rate,delay\n0s,20mbit,30ms\n# and on\n1.5s,0,\n3s,unlimited,40ms\n",
    );
    assert_eq!((span(&read), read.loops_by_nature), (10_000, true));
    assert_eq!(
        steps(&read)[1],
        Step { at: Duration::from_millis(1_500), rate: Some(Rate::PAUSE), ..Step::default() }
    );
    let natural = good("time_ns,rate_bps\n0,1\n2000000,2\n");
    assert_eq!((span(&natural), natural.loops_by_nature), (4, false));
    let deliveries = good("# opportunity_bytes=60000\ntime_ns,opportunities\n5,1\n5,2\n9,1\n");
    let Course::Deliveries { at, opportunity } = deliveries.timeline.course else { panic!() };
    assert_eq!(at[0], Delivery { at: Duration::from_nanos(5), count: 3 });
    assert_eq!(opportunity, Opportunity { bytes: 60_000, per_packet: 0 });
}

#[test]
fn bad_own_files_are_refused_with_the_line() {
    for (text, message) in [
        ("time_ns,rate_bps\n", "holds no entries, expected lines after the header"),
        (
            "time_ns,rate_bps\n0,1\n",
            "all entries are at 0, so that nothing says how long it lasts, expected a later one or a \
             line \"# span=10s\"",
        ),
        ("# span=0s\ntime_ns,rate_bps\n0,1\n", "the span 0ms is over before the last entry at 0ms"),
        (
            "time,rat\n0,1\n",
            "1: unknown column \"rat\", expected time_ns, time, rate_bps, rate, delay_ns, delay, loss, \
             opportunities",
        ),
        (
            "# span_ns=5\ntime_ns,rate_bps\n0,1\n9,1\n",
            "the span 5ns is over before the last entry at 9ns",
        ),
        ("time_ns,rate_bps\n5,1\n4,1\n", "3: goes back in time by 1ns, expected times in order"),
        ("time_ns,rate_bps\n5,1,2\n", "2: 3 columns, expected 2 as in the header"),
        ("time_ns,rate_bps\n5,-1\n", "2: \"-1\" is negative, expected bits per second"),
        ("time,rate\n5,1\n", "2: \"5\" has no unit, expected for example 30ms"),
        ("time,loss\n5s,101%\n", "2: \"101%\" is more than 100%"),
        ("time_ns,opportunities\n5,0\n", "2: 0 opportunities, expected at least 1"),
        (
            "time_ns,opportunities\n5,4294967296\n",
            "2: 4294967296 is too large, expected up to 4294967295",
        ),
        (
            "time_ns,rate_bps,opportunities\n5,1,1\n",
            "column rate_bps cannot stand beside opportunities",
        ),
        ("time_ns,rate_bps\n5,\n", "holds no value, expected one in some line"),
        (
            "# opportunity_bytes=0\ntime_ns,opportunities\n5,1\n",
            "1: opportunities of 0 bytes carry nothing",
        ),
        ("# repeat=maybe\ntime_ns,rate_bps\n5,1\n", "1: repeat=maybe, expected yes or no"),
    ] {
        assert_eq!(bad(text), message, "{text}");
    }
    let header = whole("time_ns,rates\n0,1\n", &of(Format::Punctual)).unwrap_err();
    assert!(
        header.starts_with("FILE:1: unknown column \"rates\", expected time_ns, time,"),
        "{header}"
    );
    assert_eq!(
        whole("rate_bps\n0\n", &of(Format::Punctual)).unwrap_err(),
        "FILE:1: no column for the time, expected time_ns or time"
    );
}

#[test]
fn a_line_without_end_is_refused_after_64_kib() {
    let endless = |byte: u8| std::io::repeat(byte);
    let error = |source| read_from("f", source, &Hints::default()).unwrap_err().to_string();
    assert_eq!(error(endless(0)), "f:1: holds bytes that are no text, expected a trace in text");
    assert_eq!(error(endless(0xff)), "f:1: holds bytes that are no text, expected a trace in text");
    let error = |source, format| read_from("f", source, &of(format)).unwrap_err().to_string();
    assert_eq!(
        error(endless(b'1'), Format::Mahimahi),
        "f:1: is longer than 65536 bytes, expected lines of numbers"
    );
    assert_eq!(
        error(endless(b' '), Format::NetemTrace),
        "f: is larger than 256 MiB, too large for JSON or TOML"
    );
}

#[test]
fn summaries_have_the_figures_of_a_round() {
    let summary = Summary::of(&good("7\n8\n8\n8\n8\n8\n500\n").timeline);
    assert_eq!((summary.opportunities, summary.entries), (7, 3));
    assert_eq!(summary.mean_bps, Some(7 * 1_504 * 8 * 2));
    assert_eq!(summary.peak_bps, Some(6 * 1_504 * 8 * 10));
    let outage = Outage { at: Duration::from_millis(8), time: Duration::from_millis(492) };
    assert_eq!(summary.outage, Some(outage));
    assert_eq!(summary.smallest_step, Some(Duration::from_millis(1)));
    let text = "time,rate\n0s,10mbit\n1s,unlimited\n3s,20mbit\n4s,20mbit\n";
    let summary = Summary::of(&good(text).timeline);
    assert_eq!(summary.mean_bps, Some(16_666_666));
    assert_eq!(summary.unlimited, Duration::from_secs(2));
    let text = "# span=10s\ntime,rate,delay,loss\n0s,8mbit,10ms,0%\n2s,0,,\n3s,,,100%\n4s,4mbit,30ms,50%\n";
    let summary = Summary::of(&good(text).timeline);
    assert_eq!(summary.mean_bps, Some(4_000_000));
    assert_eq!(summary.peak_bps, Some(8_000_000));
    let outage = Outage { at: Duration::from_secs(2), time: Duration::from_secs(2) };
    assert_eq!(summary.outage, Some(outage));
    assert_eq!(summary.delay, Some([10, 22, 30].map(Duration::from_millis)));
    assert_eq!(summary.loss.unwrap()[1], Probability::ONE);
}

fn written(timeline: &Timeline, repeat: bool) -> String {
    let mut out = Vec::new();
    write(&mut out, timeline, repeat).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn every_sample_survives_conversion() {
    for (format, text) in samples() {
        let hints = Hints { unit: (format == Format::Pairs).then_some(Unit::Kbit), ..both() };
        let Ok(read) = whole(&text, &hints) else { continue };
        let text = written(&read.timeline, read.loops_by_nature);
        let again = good(&text);
        assert_eq!(again.format, Format::Punctual, "{text}");
        assert_eq!(
            (&again.timeline, again.loops_by_nature),
            (&read.timeline, read.loops_by_nature)
        );
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let rate = prop_oneof![0..=Rate::MAX.as_bps(), Just(u64::MAX), Just(0)];
    let rate = prop::option::of(rate.prop_map(|bps| Rate::from_bps(bps).unwrap()));
    let delay = prop::option::of(any::<u64>().prop_map(Duration::from_nanos));
    let loss = prop::option::of(any::<u32>().prop_map(Probability::from_raw));
    let at = prop_oneof![0_u64..3, 0_u64..u64::MAX >> 8];
    (at, rate, delay, loss).prop_map(|(at, rate, delay, loss)| Step {
        at: Duration::from_nanos(at),
        rate,
        delay,
        loss,
    })
}

fn any_steps() -> impl Strategy<Value = Timeline> {
    (prop::collection::vec(any_step(), 1..50), 1_u64..u64::MAX >> 8).prop_map(
        |(mut steps, beyond)| {
            steps.sort_by_key(|step| step.at);
            // What sets nothing at all is refused.
            steps[0].loss = steps[0].loss.or(Some(Probability::ZERO));
            let span = steps.last().unwrap().at + Duration::from_nanos(beyond);
            Timeline { course: Course::Steps(steps), span }
        },
    )
}

fn any_deliveries() -> impl Strategy<Value = Timeline> {
    let deliveries = prop::collection::btree_map(any::<u64>(), 1..=u32::MAX, 1..50);
    (deliveries, 1..=u32::MAX, any::<u32>(), any::<u64>()).prop_map(
        |(at, bytes, per_packet, beyond)| {
            let last = *at.keys().last().unwrap();
            let at =
                at.into_iter().map(|(at, count)| Delivery { at: Duration::from_nanos(at), count });
            let opportunity = Opportunity { bytes, per_packet };
            let span = Duration::from_nanos(last.saturating_add(beyond).max(1));
            Timeline { course: Course::Deliveries { at: at.collect(), opportunity }, span }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_reads_back_the_same(
        timeline in prop_oneof![any_steps(), any_deliveries()],
        repeat: bool,
    ) {
        let text = written(&timeline, repeat);
        let read = good(&text);
        prop_assert_eq!((read.timeline, read.loops_by_nature), (timeline, repeat), "{}", text);
    }

    #[test]
    fn bytes_of_any_kind_are_an_answer_in_one_line(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        answers(&bytes);
    }

    #[test]
    fn text_like_a_trace_is_an_answer_in_one_line(text in "[-0-9.,eN# \"\\n:_TZ{}\\[\\]a-c]{0,200}") {
        answers(text.as_bytes());
    }

    #[test]
    fn samples_with_a_hole_are_an_answer_in_one_line(
        index in 0_usize..30,
        at in any::<prop::sample::Index>(),
        cut in 0_usize..20,
        put in "[-0-9.,eN\\n\" ]{0,5}",
    ) {
        let samples = samples();
        let mut bytes = samples[index % samples.len()].1.clone().into_bytes();
        let at = at.index(bytes.len());
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, put.bytes());
        answers(&bytes);
    }
}

/// Reads as recognised and as every format: a timeline that holds what its type says, or one line.
fn answers(bytes: &[u8]) {
    use clap::ValueEnum;
    let formats = Format::value_variants().iter().map(|format| Some(*format));
    for format in formats.chain([None]) {
        let unit = format.is_none_or(|format| format == Format::Pairs).then_some(Unit::Mbit);
        match read_from("f", bytes, &Hints { format, unit, ..both() }) {
            Ok(read) => {
                check(&read.timeline);
                check(&fluid(&read.timeline, WINDOW));
                let _ = Summary::of(&read.timeline);
            }
            Err(error) => {
                let line = error.to_string();
                assert!(
                    line.starts_with("f:") && !line.contains('\n') && line.len() < 400,
                    "{line}"
                );
            }
        }
    }
}

fn check(timeline: &Timeline) {
    assert!(timeline.span > Duration::ZERO);
    let (ordered, last) = match &timeline.course {
        Course::Steps(steps) => {
            (steps.is_sorted_by_key(|step| step.at), steps.last().map(|step| step.at))
        }
        Course::Deliveries { at, .. } => {
            assert!(at.iter().all(|one| one.count > 0));
            (at.is_sorted_by(|a, b| a.at < b.at), at.last().map(|one| one.at))
        }
    };
    assert!(ordered && last.is_some_and(|last| last <= timeline.span), "{timeline:?}");
}
