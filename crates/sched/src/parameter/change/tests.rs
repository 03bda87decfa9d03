use super::*;
use crate::config::Limit;
use crate::parameter::parameters;
use crate::time::Duration;
use crate::units::Rate;

fn link(words: &str) -> LinkConfig {
    LinkConfig::parse(words, "up").unwrap()
}

fn parse(running: &str, change: &str) -> Result<Change, String> {
    let entries = change.split_whitespace().map(|word| word.split_once('=').unwrap());
    Change::parse(&link(running), entries).map_err(|error| error.to_string())
}

#[test]
fn what_has_a_field_goes_there_and_the_rest_is_kept_by_name() {
    let change = parse("rate=20mbit", "rate=10mbit delay=5ms queue=fq fq.quantum=3000").unwrap();
    assert_eq!(change.rate, Rate::from_bps(10_000_000));
    assert_eq!(change.delay, Some(Duration::from_millis(5)));
    let others: Vec<_> = change.others.iter().collect();
    assert_eq!(others, [("queue", "fq"), ("fq.quantum", "3000")]);
    assert_eq!(change.names().collect::<Vec<_>>(), ["rate", "delay", "queue", "fq.quantum"]);
}

#[test]
fn a_jitter_with_a_correlation_and_a_limit_of_auto_have_no_field() {
    let mut change = Change::from_words("jitter=1ms,25% limit=auto", "set").unwrap();
    assert_eq!((change.jitter, change.limit), (None, None));
    let others: Vec<_> = change.others.iter().collect();
    assert_eq!(others, [("jitter", "1ms,25%"), ("limit", "auto")]);
    change.set("jitter", "2ms").unwrap();
    change.set("limit", "7p").unwrap();
    assert!(change.others.is_empty());
    assert_eq!(change.jitter, Some(Duration::from_millis(2)));
    assert_eq!(change.limit, Some(Limit::Packets(7)));
    change.set("limit", "auto").unwrap();
    assert_eq!(change.limit, None);
}

#[test]
fn what_cannot_be_changed_is_refused_by_name_with_the_reason() {
    for (running, change, message) in [
        (
            "",
            "gso=split",
            "gso: is fixed when the run starts: bursts are cut from the first packet on or not at all",
        ),
        (
            "",
            "hold=1mb",
            "hold: is fixed when the run starts: it is sized by the memory that there was then",
        ),
        (
            "",
            "impair=netem",
            "impair: is fixed when the run starts: netem takes the place of the queue",
        ),
        (
            "queue=fq_codel",
            "fq_codel.flows=7",
            "fq_codel.flows: is fixed while the queue stays: packets of one flow would wait in two",
        ),
        ("", "fq.quantum=3000", "fq.quantum: needs queue=fq"),
        ("", "netem.limit=5p", "netem.limit: needs impair=netem"),
        ("queue=fq", "queue=codel fq.quantum=3000", "fq.quantum: needs queue=fq"),
        ("rate=1mbit", "rat=1", r#"rat: unknown parameter "rat", did you mean "rate"?"#),
        ("", "rate=fast", r#"rate: "fast" is no rate, expected for example 20mbit"#),
        ("", "rate=1mbit rate=2mbit", "rate: is given twice"),
        ("", "jitter=2ms", "jitter: 2ms needs a delay of at least as much"),
        ("", "ecn=on", "ecn: needs a loss"),
        (
            "rate=10mbit",
            "burst=20kb peakrate=5mbit",
            "peakrate: 5mbit is not above the rate of 10mbit",
        ),
        ("rate=10mbit", "queue=tbf", "queue: tbf needs, for example, burst=20kb"),
        (
            "rate=10mbit limit=20kb",
            "queue=codel",
            "limit: 20kb: codel counts packets, expected for example 1000p",
        ),
        ("rate=10mbit burst=20kb", "queue=jens", "burst: jens paces every packet and has none"),
        ("impair=netem", "loss.at=before", "loss.at: needs impair=own"),
        ("impair=netem", "queue=fq", "queue: impair=netem is the queue itself, expected fifo"),
    ] {
        assert_eq!(parse(running, change).expect_err(change), message, "{running}: {change}");
    }
}

#[test]
fn a_change_may_leave_without_meaning_what_it_does_not_name() {
    for (running, change) in [
        ("rate=10mbit burst=15kb peakrate=20mbit", "rate=30mbit"),
        ("rate=10mbit burst=15kb", "rate=unlimited"),
        ("delay=5ms jitter=2ms distribution=normal", "jitter=0ms"),
        ("loss=1% ecn=on", "loss=0%"),
        ("rate=10mbit queue=tbf burst=20kb", "rate=0"),
        ("rate=10mbit", "queue=fq_codel fq_codel.flows=7"),
    ] {
        parse(running, change).expect(change);
    }
}

#[test]
fn a_default_limit_is_that_of_the_queue_and_one_that_was_given_stays() {
    let running = link("rate=20mbit");
    let change = Change::from_words("queue=codel", "set").unwrap();
    assert_eq!(running.changed(&change).resolved_limit().packets, 1_000);
    let back = Change::from_words("queue=fifo rate=10mbit", "set").unwrap();
    assert_eq!(running.changed(&change).changed(&back).resolved_limit().bytes, 125_000);
    let slower = Change::from_words("rate=10mbit", "set").unwrap();
    assert_eq!(running.changed(&slower).resolved_limit().bytes, 250_000);
    let anew = Change::from_words("rate=10mbit limit=auto", "set").unwrap();
    assert_eq!(running.changed(&anew).resolved_limit().bytes, 125_000);
    let given = link("rate=20mbit limit=30p").changed(&change);
    assert_eq!(given.resolved_limit().packets, 30);
}

#[test]
fn the_same_values_again_are_no_change() {
    let running = link("rate=20mbit delay=5ms queue=fq fq.quantum=3000 limit=100p");
    for (words, changes) in [
        ("rate=20mbit delay=5ms", false),
        ("rate=20mbit delay=6ms", true),
        ("limit=100p queue=fq fq.quantum=3000b", false),
        ("fq.quantum=3001b", true),
        ("jitter=0ms,0%", false),
    ] {
        let change = Change::from_words(words, "set").unwrap();
        assert_eq!(running.changes(&change), changes, "{words}");
    }
    let running = link("rate=20mbit limit=100ms");
    for (words, changes) in [("limit=100ms", false), ("limit=250000b", false), ("limit=99ms", true)]
    {
        let settled = running.changed(&Change::default());
        let change = Change::from_words(words, "set").unwrap();
        assert_eq!(settled.changes(&change), changes, "{words}");
    }
    let running = link("rate=20mbit queue=jens jens.handover=5ms");
    let again = Change::from_words("jens.handover=5ms", "set").unwrap();
    assert!(running.changed(&Change::default()).changes(&again), "it begins once more");
}

#[test]
fn reports_name_a_table_by_its_size() {
    let table = format!("table:{}", "0001".repeat(1000));
    let mut change = Change::from_words("rate=1mbit", "set").unwrap();
    change.set("distribution", &table).unwrap();
    let entries = change.entries();
    assert_eq!(entries[0], ("rate", "1mbit".to_owned()));
    assert!(entries[1].1.starts_with("table(1000 entries, crc32 "), "{entries:?}");
}

#[test]
fn the_values_of_a_change_have_a_greatest_length() {
    let plan = vec!["0ms,1ms"; 80_000].join(",");
    let error = Change::default().set("jens.handover", &plan).unwrap_err();
    assert_eq!(error.to_string(), "jens.handover: the change is longer than 524288 bytes");
}

#[test]
fn every_parameter_but_a_few_can_change() {
    let fixed: Vec<_> =
        parameters().filter(|row| row.live != Live::Yes).map(|row| row.name).collect();
    assert_eq!(
        fixed,
        [
            "trace",
            "gso",
            "hold",
            "impair",
            "trace.start",
            "trace.loop",
            "trace.offset",
            "trace.scale",
            "trace.mode",
            "trace.packet",
            "trace.format",
            "trace.unit",
            "trace.direction",
            "fq.orphan_mask",
            "codel.arithmetic",
            "fq_codel.flows",
            "fq_codel.arithmetic",
            "jens.users",
            "jens.user",
            "jens.subbufs",
        ]
    );
}
