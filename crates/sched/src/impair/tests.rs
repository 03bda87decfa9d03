use super::*;
use crate::LinkConfig;
use crate::config::{Gso, LossAt};
use crate::time::Duration;
use crate::units::Probability;

fn percent(text: &str) -> Probability {
    text.parse().unwrap()
}

fn parse(text: &str) -> LinkConfig {
    LinkConfig::parse(text, "--both").unwrap()
}

#[test]
fn loss_is_read_in_the_words_and_order_of_tc() {
    let gemodel = |p, r, h, k| Loss::GilbertElliott {
        p: percent(p),
        r: percent(r),
        one_minus_h: percent(h),
        one_minus_k: percent(k),
    };
    let state = |p13, p31, p32, p23, p14| Loss::FourState {
        p13: percent(p13),
        p31: percent(p31),
        p32: percent(p32),
        p23: percent(p23),
        p14: percent(p14),
    };
    for (text, loss) in [
        ("0", Loss::None),
        ("0%", Loss::None),
        ("1%", Loss::random(percent("1%"))),
        ("random,1%", Loss::random(percent("1%"))),
        ("1%,25%", Loss::Random { probability: percent("1%"), correlation: percent("25%") }),
        ("gemodel,1%", gemodel("1%", "99%", "100%", "0%")),
        ("gemodel,1%,10%", gemodel("1%", "10%", "100%", "0%")),
        ("gemodel,1%,10%,70%,0.1%", gemodel("1%", "10%", "70%", "0.1%")),
        ("state,3%", state("3%", "97%", "0%", "100%", "0%")),
        ("state,3%,30%,50%,50%,1%", state("3%", "30%", "50%", "50%", "1%")),
    ] {
        assert_eq!(parse(&format!("loss={text}")).loss, loss, "{text}");
        assert_eq!(loss.to_string().parse(), Ok(loss), "{text}");
    }
    assert_eq!(parse("loss=state,3%").loss.to_string(), "state,3%,97%,0%,100%,0%");
}

#[test]
fn a_model_loses_in_the_long_run_what_its_chain_says() {
    for (text, ppm) in [
        ("0%", 0),
        ("1%", 10_000),
        ("100%,50%", 1_000_000),
        // Gilbert-Elliott: p / (p + r) bad.
        ("gemodel,1%", 10_000),
        ("gemodel,1%,9%", 100_000),
        ("gemodel,1%,9%,50%,10%", 140_000),
        ("gemodel,0%,5%,100%,7%", 70_000),
        ("gemodel,1%,0%", 1_000_000),
        // 4 states: P13 / (P13 + P31) of two.
        ("state,1%", 10_000),
        ("state,1%,9%", 100_000),
        ("state,100%,0%", 1_000_000),
        // 1 and 4 by turns, a third of them in 4.
        ("state,0%,0%,0%,100%,50%", 333_333),
        // Weights of 1 to 4: 0.3 * 0.5, 0.1 * 0.2, 0.1 * 0.5, 0.2 * 0.3 * 0.5.
        ("state,10%,30%,20%,50%,20%", 320_000),
        // A burst's end from which nothing leads back.
        ("state,1%,0%,50%,0%", 0),
        ("state,1%,50%,0%,0%", 19_608),
    ] {
        assert_eq!(text.parse::<Loss>().unwrap().expected_ppm(), ppm, "{text}");
    }
}

#[test]
fn every_impairment_is_read() {
    let config = parse(
        "delay=20ms jitter=5ms,25% distribution=paretonormal reorder=25%,50%,gap=5 \
         slot=800us,1ms,packets=4,bytes=6kb loss=1% loss.at=after ecn=on duplicate=1%,25% \
         corrupt=0.1% impair=own",
    );
    let expected = LinkConfig {
        delay: Duration::from_millis(20),
        jitter: Duration::from_millis(5),
        jitter_correlation: percent("25%"),
        distribution: Distribution::ParetoNormal,
        reorder: Reorder::Skip { probability: percent("25%"), correlation: percent("50%"), gap: 5 },
        slot: Some(Slot {
            gap: SlotGap::Uniform {
                min: Duration::from_micros(800),
                max: Duration::from_millis(1),
            },
            packets: 4,
            bytes: 6_144,
        }),
        loss: Loss::random(percent("1%")),
        loss_at: LossAt::After,
        ecn: true,
        duplicate: Correlated { probability: percent("1%"), correlation: percent("25%") },
        corrupt: Correlated::independent(percent("0.1%")),
        impair: Impair::Own,
        ..LinkConfig::default()
    };
    assert_eq!(config, expected);
    assert_eq!(config.resolved_gso(), Gso::Split);
}

#[test]
fn slots_may_spread_by_a_distribution() {
    let slot = parse("slot=normal,1ms,100us,bytes=3000").slot.unwrap();
    let (delay, jitter) = (Duration::from_millis(1), Duration::from_micros(100));
    let gap = SlotGap::Spread { distribution: Distribution::Normal, delay, jitter };
    assert_eq!(slot, Slot { gap, packets: 0, bytes: 3_000 });
    assert_eq!(parse("slot=1ms").slot.unwrap().to_string(), "1ms");
    assert_eq!(parse("slot=none").slot, None);
}

#[test]
fn a_table_is_written_exactly_and_named_briefly() {
    let table = Table::new(&[0, 1, -1, i16::MIN, i16::MAX]).unwrap();
    let distribution = Distribution::Table(table);
    assert_eq!(distribution.to_string(), "table:00000001ffff80007fff");
    assert_eq!(distribution.to_string().parse(), Ok(distribution.clone()));
    let config = LinkConfig {
        slot: Some(Slot {
            gap: SlotGap::Spread {
                distribution: distribution.clone(),
                delay: Duration::from_millis(1),
                jitter: Duration::from_millis(1),
            },
            packets: 0,
            bytes: 0,
        }),
        distribution,
        ..LinkConfig::default()
    };
    // CRC-32 as zlib computes it over 00 00 00 01 ff ff 80 00 7f ff.
    let brief = "table(5 entries, crc32 03a1330d)";
    let entry = |name| config.entries().into_iter().find(|(n, _)| *n == name).unwrap().1;
    assert_eq!(entry("distribution"), brief);
    assert_eq!(entry("slot"), format!("{brief},1ms,1ms"));
}

#[test]
fn bad_impairments_say_where_what_and_what_was_expected() {
    for (text, message) in BAD {
        let error = LinkConfig::parse(text, "--up").unwrap_err();
        assert_eq!(error.to_string(), format!("--up: {message}"), "{text}");
    }
}

const BAD: &[(&str, &str)] = &[
    (
        "loss=1%,2%,3%",
        r#"loss: "1%,2%,3%" has too many values, expected PERCENT[,CORRELATION], gemodel,P[,R[,1-H[,1-K]]] or state,P13[,P31[,P32[,P23[,P14]]]]"#,
    ),
    ("loss=gemodel", r#"loss: "gemodel" lacks a value, expected gemodel,P[,R[,1-H[,1-K]]]"#),
    ("loss=state", r#"loss: "state" lacks a value, expected state,P13[,P31[,P32[,P23[,P14]]]]"#),
    ("loss=random", r#"loss: "random" lacks a value, expected random,PERCENT[,CORRELATION]"#),
    ("loss=ge,1%", r#"loss: unknown model "ge", did you mean gemodel,P[,R[,1-H[,1-K]]]?"#),
    ("loss=gmodel,1%", r#"loss: unknown model "gmodel", did you mean gemodel,P[,R[,1-H[,1-K]]]?"#),
    (
        "loss=burst,1%",
        r#"loss: unknown model "burst", expected PERCENT[,CORRELATION], gemodel,P[,R[,1-H[,1-K]]] or state,P13[,P31[,P32[,P23[,P14]]]]"#,
    ),
    (
        "loss=gemodel,1%,1%,1%,1%,1%",
        r#"loss: "1%,1%,1%,1%,1%" has too many values, expected gemodel,P[,R[,1-H[,1-K]]]"#,
    ),
    ("loss=state,", "loss: nothing given, expected a share such as 1%"),
    ("loss=state,101%", r#"loss: "101%" is more than 100%"#),
    (
        "loss=state,60%,10%,0%,100%,50%",
        "loss: P13 of 60% and P14 of 50% are more than 100% together",
    ),
    ("loss=state,6%,60%,50%", "loss: P31 of 60% and P32 of 50% are more than 100% together"),
    (
        "loss=1%,100%",
        "loss: a correlation of 100% repeats the first packet's fate for ever, expected less",
    ),
    (
        "duplicate=1%,1%,1%",
        r#"duplicate: "1%,1%,1%" has too many values, expected PERCENT[,CORRELATION]"#,
    ),
    (
        "corrupt=1%,100%",
        "corrupt: a correlation of 100% repeats the first packet's fate for ever, expected less",
    ),
    ("delay=1ms jitter=1ms,x", r#"jitter: "x" is no share, expected for example 1%"#),
    ("delay=1ms jitter=0ms,5%", "jitter: a correlation needs a jitter"),
    (
        "delay=1ms jitter=1ms distribution=norml",
        r#"distribution: unknown distribution "norml", did you mean "normal"?"#,
    ),
    (
        "delay=1ms jitter=1ms distribution=table:123",
        "distribution: a table in text is four hexadecimal digits for each value",
    ),
    ("delay=1ms jitter=1ms distribution=table:", "distribution: a table needs at least one value"),
    ("delay=1ms distribution=normal", "distribution: needs a jitter"),
    ("reorder=25%", "reorder: needs a delay to skip"),
    ("delay=1ms reorder=jitter", "reorder: jitter needs a jitter"),
    ("delay=1ms reorder=0%,gap=5", "reorder: 0% reorders nothing, expected more, or none"),
    ("delay=1ms reorder=1%,gap=0", "reorder: gap=0 is no distance, expected gap=1 or more"),
    ("delay=1ms reorder=1%,gap=x", r#"reorder: gap: "x" is no number of packets such as 5"#),
    (
        "delay=1ms reorder=1%,2%,3%",
        r#"reorder: "1%,2%,3%" has too many values, expected none, jitter or PERCENT[,CORRELATION][,gap=N]"#,
    ),
    ("slot=2ms,1ms", "slot: 2ms is more than the longest of 1ms"),
    ("slot=0ms", "slot: the longest of 0ms is no slot"),
    (
        "slot=2h",
        r#"slot: unknown unit "h" in "2h", expected one of s, sec, secs, ms, msec, msecs, us, usec, usecs, ns, nsec, nsecs"#,
    ),
    ("slot=3601s", "slot: 3601s is more than 3600s"),
    ("slot=1ms,packets=x", r#"slot: packets: "x" is no number of packets such as 4"#),
    (
        "slot=1ms,packets=1,packets=2",
        r#"slot: "1ms,packets=1,packets=2" has "packets=2" out of place, expected MIN[,MAX][,packets=N][,bytes=N], DISTRIBUTION,DELAY,JITTER[,packets=N][,bytes=N] or none"#,
    ),
    (
        "slot=normal,1ms",
        r#"slot: "normal,1ms" lacks a value, expected MIN[,MAX][,packets=N][,bytes=N], DISTRIBUTION,DELAY,JITTER[,packets=N][,bytes=N] or none"#,
    ),
    (
        "slot=distribution,normal,10ms,1ms",
        r#"slot: "distribution" is no distribution, write slot=normal,10ms,1ms"#,
    ),
    ("slot=normal,1ms,0ms", "slot: a jitter of 0ms does not spread, expected more, or MIN,MAX"),
    ("ecn=on", "ecn: needs a loss"),
    (
        "ecn=on queue=fq_codel",
        "ecn: needs a loss; fq_codel marks with fq_codel.ecn=on, its default",
    ),
    ("ecn=on queue=codel", "ecn: needs a loss; codel marks with codel.ecn=on"),
    ("ecn=on queue=fq", "ecn: needs a loss; fq marks with fq.ce_threshold=TIME"),
    ("ecn=on queue=dualpi2", "ecn: needs a loss; dualpi2 always marks"),
    ("ecn=on queue=jens rate=1mbit", "ecn: needs a loss; jens always marks"),
    ("ecn=on loss=1% loss.at=before", "ecn: marks behind the queue only, expected loss.at=after"),
    ("ecn=yes", r#"ecn: unknown word "yes", expected one of on, off"#),
    ("impair=netm", r#"impair: unknown word "netm", did you mean "netem"?"#),
    (
        "gso=keep duplicate=1%",
        "gso: keep would duplicate whole bursts where duplicate means packets, expected split or auto",
    ),
    (
        "gso=keep corrupt=1%",
        "gso: keep would corrupt whole bursts where corrupt means packets, expected split or auto",
    ),
    (
        "gso=keep delay=1ms jitter=1ms reorder=jitter",
        "gso: keep would reorder whole bursts where reorder means packets, expected split or auto",
    ),
];
