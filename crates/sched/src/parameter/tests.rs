use proptest::prelude::*;

use super::*;
use crate::config::Change;
use crate::config::Limit;
use crate::impair::{Correlated, Distribution, Impair, Loss, Reorder, Slot, SlotGap, Table};
use crate::netem::NetemOptions;
use crate::queue::QueueLimit;
use crate::time::Duration;
use crate::units::Probability;

fn parse(text: &str) -> LinkConfig {
    LinkConfig::parse(text, "--both").unwrap()
}

#[test]
fn a_link_is_read_from_words() {
    let read = parse(
        "rate=20mbit  delay=30ms jitter=5ms loss=1 loss.at=before burst=15kb \
                      limit=200k overhead=-4 framing=38 peakrate=1gbit nic=unlimited hold=64mb",
    );
    let expected = LinkConfig {
        rate: Rate::from_bps(20_000_000).unwrap(),
        delay: Duration::from_millis(30),
        jitter: Duration::from_millis(5),
        loss: Loss::random(Probability::from_raw(42_949_673)),
        loss_at: LossAt::Before,
        burst: Some(15_360),
        limit: Some(Limit::Bytes(204_800)),
        overhead: -4,
        framing: 38,
        peakrate: Rate::from_bps(1_000_000_000),
        hold_limit: 64 << 20,
        ..LinkConfig::default()
    };
    assert_eq!(read, expected);
    assert_eq!(parse(""), LinkConfig::default());
}

#[test]
fn the_defaults_in_the_table_are_the_defaults() {
    for (parameter, (name, value)) in parameters().zip(LinkConfig::default().all_entries()) {
        assert_eq!((parameter.name, parameter.default), (name, value.as_str()));
        let mut config = LinkConfig::default();
        config.set(name, parameter.default).unwrap();
        assert_eq!(config, LinkConfig::default(), "{name}");
    }
}

#[test]
fn a_later_source_overrides_single_parameters() {
    let mut builder = ConfigBuilder::default();
    builder.words("rate=20mbit delay=30ms", "--both").unwrap();
    builder.set("delay", "10ms", "up").unwrap();
    assert_eq!(builder.finish().unwrap(), parse("rate=20mbit delay=10ms"));
}

#[test]
fn a_contradiction_between_sources_names_the_one_to_change() {
    let mut builder = ConfigBuilder::default();
    builder.words("delay=30ms jitter=20ms", "--both").unwrap();
    builder.set("delay", "10ms", "up").unwrap();
    let message = builder.finish().unwrap_err().to_string();
    assert_eq!(message, "--both: jitter: 20ms is more than the delay of 10ms (with up.delay=10ms)");
    let mut builder = ConfigBuilder::default();
    let message = builder.set("delay", "10", "up").unwrap_err().to_string();
    assert_eq!(message, r#"up.delay: "10" has no unit, expected for example 30ms"#);
}

#[test]
fn a_parameter_of_a_discipline_that_was_not_chosen_is_refused_unless_overridden() {
    const TABLE: &[super::Table] = &[super::Table {
        name: "gso",
        rows: &[Parameter {
            name: "delay",
            takes: "TIME",
            default: "0ms",
            help: "",
            live: Live::Yes,
            set: |_, _| Ok(()),
            get: |_| String::new(),
        }],
        needs: "gso=keep",
        applies: |config| config.gso == Gso::Keep,
    }];
    let check = |sources: &[(&str, &str)]| {
        let mut builder = ConfigBuilder::default();
        for (text, place) in sources {
            builder.words(text, place).unwrap();
        }
        builder.check_applicable(TABLE).map_err(|error| error.to_string())
    };
    assert_eq!(check(&[("gso=keep delay=1ms", "--both")]), Ok(()));
    assert_eq!(check(&[("delay=1ms", "--both")]), Err("delay: needs gso=keep".to_owned()));
    assert_eq!(check(&[("delay=1ms gso=keep", "--both"), ("gso=split", "--up")]), Ok(()));
    let own = check(&[("gso=keep", "--both"), ("gso=split delay=1ms", "--up")]);
    assert_eq!(own, Err("delay: needs gso=keep".to_owned()));
}

#[test]
fn a_refused_value_changes_nothing() {
    let mut config = parse("rate=20mbit");
    assert!(config.set("rate", "20mbits").is_err());
    assert!(config.set("loss", "101").is_err());
    assert_eq!(config, parse("rate=20mbit"));
}

#[test]
fn bad_links_say_where_what_and_the_nearest_word() {
    for (text, message) in BAD_LINKS {
        let error = LinkConfig::parse(text, "--both").unwrap_err();
        assert_eq!(error.to_string(), *message, "{text}");
    }
}

#[test]
fn live_changes_are_read_in_the_same_words() {
    let change = Change::from_words("rate=10mbit delay=5ms", "set").unwrap();
    let expected = Change {
        rate: Rate::from_bps(10_000_000),
        delay: Some(Duration::from_millis(5)),
        ..Change::default()
    };
    assert_eq!(change, expected);
    for (text, message) in [
        (
            "hold=15kb",
            "up.hold: is fixed when the run starts: it is sized by the memory that there was then",
        ),
        ("rat=1", r#"up: unknown parameter "rat", did you mean "rate"?"#),
    ] {
        assert_eq!(Change::from_words(text, "up").unwrap_err().to_string(), message);
    }
}

#[test]
fn a_live_change_may_lift_the_rate_over_burst_and_peakrate() {
    let running = parse("rate=10mbit burst=15kb peakrate=20mbit delay=5ms jitter=2ms");
    for (text, expected) in [
        ("rate=30mbit", Ok(())),
        ("rate=unlimited", Ok(())),
        ("delay=1ms", Err("jitter: 2ms is more than the delay of 1ms".to_owned())),
    ] {
        let changed = running.changed(&Change::from_words(text, "set").unwrap());
        assert_eq!(changed.validate().map_err(|error| error.to_string()), expected, "{text}");
    }
}

#[test]
fn the_limit_in_force_is_what_the_rate_carries_or_sixteen_packets() {
    let bytes = |bytes| QueueLimit { bytes, ..QueueLimit::NONE };
    for (text, limit) in [
        ("rate=20mbit", bytes(250_000)),
        ("rate=1mbit", bytes(16 * 1_514)),
        ("rate=1mbit overhead=24", bytes(16 * 1_538)),
        ("rate=0", bytes(16 * 1_514)),
        ("rate=1mbit limit=8ms", bytes(1_514)),
        ("rate=1mbit limit=80ms", bytes(10_000)),
        ("rate=1mbit limit=1000p", QueueLimit { packets: 1_000, ..QueueLimit::NONE }),
        ("rate=1mbit limit=9b", bytes(9)),
        ("limit=9b", bytes(9)),
        ("rate=1tbit limit=2000000s", bytes(250_000_000_000_000_000)),
        ("delay=10ms", QueueLimit::NONE),
    ] {
        assert_eq!(parse(text).resolved_limit(), limit, "{text}");
    }
}

#[test]
fn bursts_are_kept_only_where_nothing_tells_their_packets_apart() {
    for (text, gso) in [
        ("", Gso::Keep),
        ("delay=10ms", Gso::Keep),
        ("delay=10ms jitter=1ms", Gso::Split),
        ("delay=10ms jitter=1ms gso=keep", Gso::Keep),
        ("loss=1%", Gso::Split),
        ("rate=5gbit", Gso::Split),
        ("rate=6gbit", Gso::Keep),
        ("rate=6gbit nic=1gbit", Gso::Split),
        ("rate=0", Gso::Split),
        ("rate=1mbit gso=keep", Gso::Keep),
        ("gso=split", Gso::Split),
        ("duplicate=1%", Gso::Split),
        ("corrupt=1%", Gso::Split),
        ("delay=1ms reorder=1%", Gso::Split),
        ("delay=1ms slot=1ms", Gso::Split),
    ] {
        assert_eq!(parse(text).resolved_gso(), gso, "{text}");
    }
}

fn rates() -> impl Strategy<Value = Option<Rate>> {
    prop_oneof![Just(None), (1..=1_000_000_000_000_u64).prop_map(Rate::from_bps)]
}

fn limits() -> impl Strategy<Value = Option<Limit>> {
    prop_oneof![
        Just(None),
        any::<u32>().prop_map(|n| Some(Limit::Packets(n))),
        any::<u64>().prop_map(|n| Some(Limit::Bytes(n))),
        any::<u64>().prop_map(|n| Some(Limit::Time(Duration::from_nanos(n)))),
    ]
}

fn shares() -> impl Strategy<Value = Probability> {
    prop_oneof![Just(0), Just(u32::MAX), any::<u32>()].prop_map(Probability::from_raw)
}

fn correlated() -> impl Strategy<Value = Correlated> {
    (shares(), shares())
        .prop_map(|(probability, correlation)| Correlated { probability, correlation })
}

fn losses() -> impl Strategy<Value = Loss> {
    let five = (shares(), shares(), shares(), shares(), shares());
    (0..4, five).prop_map(|(kind, (p13, p31, p32, p23, p14))| match kind {
        0 => Loss::None,
        1 => Loss::Random { probability: p13, correlation: p31 },
        2 => Loss::GilbertElliott { p: p13, r: p31, one_minus_h: p32, one_minus_k: p23 },
        _ => Loss::FourState { p13, p31, p32, p23, p14 },
    })
}

fn distributions() -> impl Strategy<Value = Distribution> {
    let tables = proptest::collection::vec(any::<i16>(), 1..20);
    prop_oneof![
        (0..4_usize).prop_map(|n| Distribution::WORDS[n].parse().unwrap()),
        tables.prop_map(|entries| Distribution::Table(Table::new(&entries).unwrap())),
    ]
}

fn reorders() -> impl Strategy<Value = Reorder> {
    prop_oneof![
        Just(Reorder::None),
        Just(Reorder::Jitter),
        (1..=u32::MAX, shares(), any::<u32>()).prop_map(|(probability, correlation, gap)| {
            Reorder::Skip { probability: Probability::from_raw(probability), correlation, gap }
        }),
    ]
}

fn slots() -> impl Strategy<Value = Option<Slot>> {
    let span = || any::<u64>().prop_map(Duration::from_nanos);
    let gaps = prop_oneof![
        (span(), span()).prop_map(|(min, max)| SlotGap::Uniform { min, max }),
        (distributions(), span(), span()).prop_map(|(distribution, delay, jitter)| {
            SlotGap::Spread { distribution, delay, jitter }
        }),
    ];
    let slots = (gaps, any::<u32>(), any::<u32>()).prop_map(|(gap, packets, bytes)| Slot {
        gap,
        packets,
        bytes,
    });
    proptest::option::of(slots)
}

fn netem_options() -> impl Strategy<Value = NetemOptions> {
    any::<(u32, i32, u32, i32, Option<u64>)>().prop_map(
        |(limit, packet_overhead, cell_size, cell_overhead, seed)| NetemOptions {
            limit,
            packet_overhead,
            cell_size,
            cell_overhead,
            seed,
        },
    )
}

prop_compose! {
    fn configs()(
        (rate, peakrate, nic) in (rates(), rates(), rates()),
        (burst, framing, overhead, hold_limit) in any::<(Option<u32>, u32, i32, u64)>(),
        (delay, jitter, jitter_correlation) in (any::<u64>(), any::<u64>(), shares()),
        (distribution, reorder, slot) in (distributions(), reorders(), slots()),
        (loss, duplicate, corrupt) in (losses(), correlated(), correlated()),
        ecn in any::<bool>(),
        limit in limits(),
        (netem, options) in (any::<bool>(), netem_options()),
        (before, gso) in (any::<bool>(), 0..3_usize),
    ) -> LinkConfig {
        LinkConfig {
            rate: rate.unwrap_or(Rate::UNLIMITED),
            loss_at: if before { LossAt::Before } else { LossAt::After },
            queue: QueueKind::Fifo,
            gso: GSO[gso].1,
            delay: Duration::from_nanos(delay),
            jitter: Duration::from_nanos(jitter),
            impair: if netem { Impair::Netem } else { Impair::Own },
            netem: options,
            jitter_correlation, distribution, reorder, slot, loss, ecn, duplicate, corrupt,
            framing, overhead, burst, peakrate, nic, limit, hold_limit,
            ..LinkConfig::default()
        }
    }
}

const BAD_LINKS: &[(&str, &str)] = &[
    ("dealy=30ms", r#"--both: unknown parameter "dealy", did you mean "delay"?"#),
    ("bandwidth=1mbit", r#"--both: unknown parameter "bandwidth", did you mean "rate"?"#),
    (
        "colour=1",
        r#"--both: unknown parameter "colour", expected one of rate, framing, overhead, burst, peakrate, nic, delay, queue, limit, trace, gso, hold, jitter, distribution, reorder, slot, loss, loss.at, ecn, duplicate, corrupt, impair"#,
    ),
    ("backpressure=on", r#"--both: parameter "backpressure" is not available in this version"#),
    ("trace=x", r#"--both: trace: "x" has not been read"#),
    ("trace.loop=yes", "--both: trace.loop: needs trace=FILE"),
    (
        "trace=x trace.loop=1",
        r#"--both: trace.loop: unknown word "1", expected one of yes, no, auto"#,
    ),
    (
        "trace=x trace.scale=0",
        r#"--both: trace.scale: "0" is less than 0.000001, the smallest factor"#,
    ),
    (
        "trace=x trace.packet=1514",
        r#"--both: trace.packet: unknown word "1514", did you mean "1504"?"#,
    ),
    (
        "queue=tbf tbf.refilling=no",
        r#"--both: unknown parameter "tbf.refilling", expected one of tbf.mtu, tbf.mpu, tbf.linklayer, tbf.refill"#,
    ),
    ("rate", r#"--both: "rate" has no value, expected rate=RATE"#),
    ("rate=", r#"--both: "rate=" has no value, expected rate=RATE"#),
    ("rte=", r#"--both: unknown parameter "rte", did you mean "rate"?"#),
    ("=5", r#"--both: "=5" has no name before "=""#),
    ("20mbit", r#"--both: "20mbit" is no NAME=VALUE such as delay=30ms"#),
    ("rate=1mbit rate=2mbit", r#"--both: parameter "rate" is given twice"#),
    ("rate=20mbits", r#"--both: rate: unknown unit "mbits" in "20mbits", did you mean "mbit"?"#),
    ("rate=-1mbit", r#"--both: rate: "-1mbit" is negative, expected a rate such as 20mbit"#),
    ("rate=2tbit", r#"--both: rate: "2tbit" is more than 1tbit"#),
    ("rate=fast", r#"--both: rate: "fast" is no rate, expected for example 20mbit"#),
    ("delay=30", r#"--both: delay: "30" has no unit, expected for example 30ms"#),
    (
        "delay=2h",
        r#"--both: delay: unknown unit "h" in "2h", expected one of s, sec, secs, ms, msec, msecs, us, usec, usecs, ns, nsec, nsecs"#,
    ),
    ("delay=3601s", "--both: delay: 3601s is more than 3600s"),
    ("jitter=1ms", "--both: jitter: 1ms needs a delay of at least as much"),
    ("loss=101%", r#"--both: loss: "101%" is more than 100%"#),
    ("loss=many", r#"--both: loss: "many" is no share, expected for example 1%"#),
    ("loss.at=befor", r#"--both: loss.at: unknown word "befor", did you mean "before"?"#),
    ("loss.at=never", r#"--both: loss.at: unknown word "never", expected one of before, after"#),
    ("queue=lifo", r#"--both: queue: unknown word "lifo", did you mean "fifo"?"#),
    (
        "limit=1000",
        r#"--both: limit: "1000" has no unit, expected for example 1000p, 200kb or 100ms"#,
    ),
    (
        "limit=100ms",
        "--both: limit: 100ms is what the rate carries in that time, but the rate is unlimited",
    ),
    (
        "rate=0 limit=100ms",
        "--both: limit: 100ms is what the rate carries in that time, but the rate is 0bit",
    ),
    ("rate=1mbit limit=0p", "--both: limit: 0p holds no packet"),
    ("burst=15kb", "--both: burst: needs a rate"),
    ("rate=1mbit burst=0", "--both: burst: 0b is no burst, expected 1b or more, or none"),
    ("rate=1mbit burst=4gb", r#"--both: burst: "4gb" is more than 4294967295b"#),
    ("peakrate=1mbit", "--both: peakrate: needs a rate and a burst"),
    ("rate=1mbit peakrate=2mbit", "--both: peakrate: needs a burst"),
    (
        "rate=2mbit burst=15kb peakrate=2mbit",
        "--both: peakrate: 2mbit is not above the rate of 2mbit",
    ),
    ("nic=0", "--both: nic: 0bit lets nothing in, expected 1bit to 1tbit or unlimited"),
    ("overhead=1.5", r#"--both: overhead: "1.5" is no whole number of bytes such as -4"#),
    ("overhead=-70000", "--both: overhead: -70000 is out of range, expected -65535 to 65535"),
    ("framing=64kb", "--both: framing: 65536 is out of range, expected 0 to 65535"),
    ("gso=yes", r#"--both: gso: unknown word "yes", expected one of split, keep, auto"#),
    (
        "gso=keep loss=1%",
        "--both: gso: keep would lose whole bursts where loss means packets, expected split or auto",
    ),
    ("hold=0", "--both: hold: 0b holds no packet"),
];

#[test]
fn words_of_other_tools_are_told_what_they_are_here() {
    let mut wrong = Vec::new();
    for (text, expected) in FOREIGN {
        let error = LinkConfig::parse(text, "--both").unwrap_err().to_string();
        if !error.starts_with("--both: ") || !error.ends_with(expected) || error.contains('\n') {
            wrong.push((text, error));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Links, and how the message ends.
const FOREIGN: &[(&str, &str)] = &[
    ("latency=50ms", r#"did you mean "delay"?"#),
    ("latency=50ms queue=tbf", r#"did you mean "limit=50ms"?"#),
    ("queue=tbf rate=1mbit burst=15kb latency 50ms", r#"did you mean "limit=TIME"?"#),
    ("tbf.latency=50ms", r#"did you mean "limit=50ms"?"#),
    ("rtt=50ms", r#"did you mean "delay", half of it in each direction?"#),
    ("gap=5", r#"did you mean "reorder=PERCENT,gap=5"?"#),
    ("buffer=15kb", r#"did you mean "burst"?"#),
    ("maxburst=15kb", r#"did you mean "burst"?"#),
    ("mtu=1500", r#"did you mean "tbf.mtu" with queue=tbf?"#),
    ("queue=tbf mpu=64", r#"did you mean "tbf.mpu"?"#),
    ("linklayer=atm queue=tbf", r#"did you mean "tbf.linklayer"?"#),
    ("queue=fq_codel noecn", r#"did you mean "fq_codel.ecn=off"?"#),
    (
        "queue=fq_codel ecn=off",
        r#"ecn: is of a loss and there is none, did you mean "fq_codel.ecn=off"?"#,
    ),
    ("ecn=off queue=jens rate=1mbit", "but jens always marks"),
    ("codel.noecn", r#"did you mean "codel.ecn=off"?"#),
    ("fq_codel.noecn", r#"did you mean "fq_codel.ecn=off"?"#),
    ("fq.horizon_drop", r#"did you mean "fq.horizon_mode=drop"?"#),
    ("slot=1ms,2ms packets=3", r#"did you mean "slot=1ms,2ms,packets=3"?"#),
    ("slot=1ms bytes=3000", r#"did you mean "slot=1ms,bytes=3000"?"#),
    ("bytes=3000 slot=1ms,2ms", r#"did you mean "slot=1ms,2ms,bytes=3000"?"#),
    ("delay=9ms slot distribution normal 1ms 2ms packets 3", "write slot=normal,1ms,2ms,packets=3"),
    ("minburst=1500", r#"did you mean "tbf.mtu" with queue=tbf?"#),
    ("queue=tbf minburst=1500", r#"did you mean "tbf.mtu"?"#),
    ("loss=gemodel p 1% r 10%", "write loss=gemodel,1%,10%"),
    ("loss gemodel p 1% r 10% 1-h 70% 1-k 0.1%", "write loss=gemodel,1%,10%,70%,0.1%"),
    ("loss=state p13 1% p31 10%", "write loss=state,1%,10%"),
    ("queue=noqueue", "without a rate: leave out rate, queue and limit"),
    ("queue=pfifo limit=100p", r#"did you mean "fifo" with limit=100p?"#),
    ("limit=30kb queue=bfifo", r#"did you mean "fifo" with limit=30kb?"#),
    (
        "fq_codel limit 10240p flows 1024 target 5ms",
        "write queue=fq_codel limit=10240p fq_codel.flows=1024 fq_codel.target=5ms",
    ),
    (
        "qdisc fq_codel 8001: root refcnt 2 limit 10240p flows 1024 quantum 1514 target 5ms \
         interval 100ms memory_limit 32Mb ecn drop_batch 64",
        "write queue=fq_codel limit=10240p fq_codel.flows=1024 fq_codel.quantum=1514 \
         fq_codel.target=5ms fq_codel.interval=100ms fq_codel.memory_limit=32Mb fq_codel.ecn=on \
         fq_codel.drop_batch=64",
    ),
    (
        "tc qdisc add dev eth0 root netem delay 100ms 10ms loss 1% limit 50",
        "write impair=netem delay=100ms jitter=10ms loss=1% netem.limit=50p",
    ),
    (
        "tbf rate 1mbit burst 15kb latency 50ms minburst 1540",
        "write queue=tbf rate=1mbit burst=15kb limit=50ms tbf.mtu=1540",
    ),
    ("queue=codel limit 100 noecn", "write limit=100p codel.ecn=off"),
    ("queue=fq noecn=1", r#"did you mean "fq.ce_threshold=off"?"#),
    ("queue=jens noecn", "but jens always marks"),
    ("noecn", "expected codel.ecn=off or fq_codel.ecn=off"),
    ("impair=netem noecn", r#"did you mean "ecn=off"?"#),
    ("ecn queue=codel", "write codel.ecn=on queue=codel"),
    ("ecn", "expected ecn=on|off"),
    ("queue=fq nopacing", r#"did you mean "fq.pacing=off"?"#),
    ("queue=pfifo", r#"did you mean "fifo" with limit=1000p?"#),
    ("queue=pfifo_fast", r#"did you mean "fifo" with limit=1000p?"#),
    ("queue=bfifo", r#"did you mean "fifo" with limit=200kb?"#),
    ("queue=netem", r#""netem" is no queue here, expected impair=netem"#),
    ("netem delay 100ms", "write impair=netem delay=100ms"),
    ("fq_codel", "write queue=fq_codel"),
    (
        "queue=htb",
        "is not available, expected one of fifo, tbf, fq, codel, fq_codel, dualpi2, jens",
    ),
    (
        "queue=sfq",
        "is not available, expected one of fifo, tbf, fq, codel, fq_codel, dualpi2, jens",
    ),
    (
        "queue=CAKE",
        "is not available, expected one of fifo, tbf, fq, codel, fq_codel, dualpi2, jens",
    ),
    ("queue=fqcodel", r#"did you mean "fq_codel"?"#),
    ("fq.limit=100", r#"expected limit=PACKETS|BYTES|TIME|auto without "fq.""#),
    ("codel.limit=1000p", r#"expected limit=PACKETS|BYTES|TIME|auto without "codel.""#),
    ("tbf.rate=1mbit", r#"expected rate=RATE without "tbf.""#),
    ("tbf.burst=15kb", r#"expected burst=BYTES|none without "tbf.""#),
    ("tbf.buffer=15kb", r#"did you mean "burst"?"#),
    ("fifo.limit=10p", r#"expected limit=PACKETS|BYTES|TIME|auto without "fifo.""#),
    ("netem.delay=1ms", r#"expected delay=TIME without "netem.""#),
    ("netem.gap=5", r#"did you mean "reorder=PERCENT,gap=5"?"#),
    ("netem.ecn=on", r#"expected ecn=on|off without "netem.""#),
    ("fq.ecn=on", "fq marks with fq.ce_threshold=TIME"),
    ("dualpi2.ecn=on", "dualpi2 always marks"),
    ("jens.rate=1mbit", r#"expected rate=RATE without "jens.""#),
    ("queue=fq_codel target=5ms", r#"did you mean "fq_codel.target"?"#),
    ("target=5ms queue=codel", r#"did you mean "codel.target"?"#),
    ("target=5ms", "expected one of codel.target, fq_codel.target, dualpi2.target"),
    ("queue=fq target=5ms", "expected one of codel.target, fq_codel.target, dualpi2.target"),
    ("flow_limit=100", r#"did you mean "fq.flow_limit" with queue=fq?"#),
    ("impair=netem seed=3", r#"did you mean "netem.seed"?"#),
    ("seed=3", "expected netem.seed with impair=netem; that of the run is --seed"),
    ("queue=fq_codel limit=1000", r#""1000" has no unit, expected for example 10240p"#),
    ("limit=1000 queue=codel", r#""1000" has no unit, expected for example 1000p"#),
    ("limit=1000 queue=tbf", r#""1000" has no unit, expected for example 200kb or 100ms"#),
    ("limit=1000 queue=fifo", r#""1000" has no unit, expected for example 1000p, 200kb or 100ms"#),
    ("limit=1000z queue=fq", r#"unknown unit "z" in "1000z", expected for example 10000p"#),
    ("impair=netem netem.limit=1000", r#""1000" has no unit, expected for example 1000p"#),
    ("impair=netem netem.limit=1000x", "1000x: netem counts packets, expected for example 1000p"),
    ("delay 100ms", r#""delay" has no value, write delay=100ms"#),
    ("delay = 100ms", r#""delay" has no value, write delay=100ms"#),
    ("rate =1mbit", r#""rate" has no value, write rate=1mbit"#),
    ("rate= 1mbit", r#""rate=" has no value, write rate=1mbit"#),
    ("rate 1 mbit delay 5ms", "write rate=1mbit delay=5ms"),
    ("rate=1 mbit", "write rate=1mbit"),
    ("delay 100ms 10ms", "write delay=100ms jitter=10ms"),
    ("delay 100ms 10ms 25% loss 1%", "write delay=100ms jitter=10ms,25% loss=1%"),
    ("delay=100ms 10ms", r#""10ms" is no NAME=VALUE, write delay=100ms jitter=10ms"#),
    ("delay=10ms,2ms", r#""10ms,2ms" is more than one time, write delay=10ms jitter=2ms"#),
    ("delay=10ms,2ms,25%", "write delay=10ms jitter=2ms,25%"),
    ("loss 1% 25%", r#""loss" has no value, write loss=1%,25%"#),
    ("loss=1% 25%", r#""25%" is no NAME=VALUE, write loss=1%,25%"#),
    ("loss gemodel 1% 10%", "write loss=gemodel,1%,10%"),
    ("reorder 25% 50% gap=5", "write reorder=25%,50%"),
    ("delay=1ms reorder 25% 50% gap 5", "write reorder=25%,50%,gap=5"),
    ("slot 1ms 2ms packets 4 bytes 6000", "write slot=1ms,2ms,packets=4,bytes=6000"),
    ("delay soon", r#""delay" has no value, expected delay=TIME"#),
    (
        "trace=my cell.down",
        r#""cell.down" is no NAME=VALUE; a file's name with blanks in it can be given by --config: trace = "...""#,
    ),
    ("rate=1mbit 5", r#""5" is no NAME=VALUE such as delay=30ms"#),
];

#[test]
fn packets_have_the_same_units_everywhere() {
    for unit in ["p", "P", "pkt", "pkts", "packet", "packets"] {
        let text = format!(
            "limit=5{unit} dualpi2.step_thresh=5{unit} dualpi2.min_qlen_step=5{unit} queue=dualpi2"
        );
        let config = parse(&text);
        assert_eq!(config.limit, Some(Limit::Packets(5)), "{unit}");
        let entries = config.entries();
        for name in ["dualpi2.step_thresh", "dualpi2.min_qlen_step"] {
            assert!(entries.contains(&(name, "5p".to_owned())), "{name} {unit}");
        }
        assert_eq!(parse(&format!("queue=fq fq.flow_limit=5{unit}")).fq.flow_limit, 5);
        let netem = parse(&format!("impair=netem netem.limit=5{unit}"));
        assert_eq!(netem.netem.limit, 5);
    }
}

#[test]
fn a_contradiction_names_the_later_source_and_no_other() {
    for (sources, expected) in [
        (
            &[("delay=30ms jitter=20ms", "--both"), ("delay=10ms rate=1mbit", "--down")][..],
            "--both: jitter: 20ms is more than the delay of 10ms (with --down: delay=10ms)",
        ),
        (
            &[("delay=30ms", "--both"), ("jitter=40ms", "--down")],
            "--down: jitter: 40ms is more than the delay of 30ms",
        ),
        (
            &[("jitter=4ms", "--both"), ("rate=1mbit", "--down")],
            "--both: jitter: 4ms needs a delay of at least as much",
        ),
        (
            &[("rate=1mbit burst=15kb", "f.toml: both"), ("rate=unlimited", "--up")],
            "f.toml: both.burst: needs a rate (with --up: rate=unlimited)",
        ),
        (
            &[("limit=200kb", "--both"), ("queue=fq rate=1mbit", "--up")],
            "--both: limit: 200kb: fq counts packets, expected for example 10000p \
             (with --up: queue=fq)",
        ),
        (
            &[("fq.quantum=3000", "--both"), ("rate=1mbit", "--up")],
            "--both: fq.quantum: needs queue=fq",
        ),
        (
            &[("loss=1% gso=split", "--both"), ("gso=keep", "--up"), ("loss=2%", "set")],
            "--up: gso: keep would lose whole bursts where loss means packets, \
             expected split or auto",
        ),
    ] {
        let mut builder = ConfigBuilder::default();
        for (text, place) in sources {
            builder.words(text, place).unwrap();
        }
        assert_eq!(builder.finish().unwrap_err().to_string(), expected);
    }
    let mut builder = ConfigBuilder::default();
    builder.words("loss=1% loss.at=before", "--both").unwrap();
    builder.words("impair=netem", "--up").unwrap();
    builder.finish().expect("what --both says of loss.at is overridden");
}

proptest! {
    #[test]
    fn entries_read_back_as_the_same_configuration(config in configs()) {
        let mut read = LinkConfig::default();
        for (name, value) in config.all_entries() {
            read.set(name, &value).unwrap();
        }
        prop_assert_eq!(&read, &config);
        let entries = config.all_entries();
        let whole = LinkConfig::from_entries(entries.iter().map(|(n, v)| (*n, v.as_str())), None);
        prop_assert_eq!(whole, config.validate().map(|()| config.clone()));
        let _ = (config.resolved_limit(), config.resolved_gso());
    }

    #[test]
    fn arbitrary_words_never_panic(text in "[a-z.= 0-9%]{0,40}|\\PC{0,30}") {
        let _ = LinkConfig::parse(&text, "--up");
    }
}

#[test]
fn parameters_joined_by_a_comma_are_told_to_be_separated_by_spaces() {
    let error = LinkConfig::parse("rate=100mbit,delay=5ms", "--both").unwrap_err().to_string();
    assert!(
        error.ends_with("joins parameters with a comma, expected spaces between them"),
        "{error}"
    );
}
