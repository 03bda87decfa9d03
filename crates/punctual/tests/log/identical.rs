use punctual::log::{Ending, Entry, LogReader, LogWriter, Record};
use punctual::verify::{Outcome, run, verify};
use punctual_sched::Mark;
use punctual_sched::config::LinkConfig;

use crate::rewrite::parts;
use crate::run::{SCENARIOS, Scenario, scenario};

#[test]
fn every_kind_of_run_replays_identically() {
    for run in SCENARIOS {
        let log = run.log();
        let records = parts(&log).records;
        let count = |is: fn(&Record) -> bool| records.iter().filter(|(_, r)| is(r)).count() as u64;
        let drops = count(|record| matches!(record, Record::Drop(_)));
        let marks = count(|record| matches!(record, Record::Departure(d) if d.mark == Mark::Ce));
        let outcome = verify(LogReader::new(&log[..]).unwrap()).unwrap();
        let expected = Outcome::Identical { packets: 2 * run.packets, drops, marks };
        assert_eq!(outcome, expected, "{}: {outcome}", run.name);
        assert_eq!(outcome.code(), 0);
        assert!(count(|record| matches!(record, Record::Departure(_))) > 0, "{}", run.name);
    }
}

#[test]
fn the_result_is_one_line() {
    let outcome = Outcome::Identical { packets: 10, drops: 2, marks: 1 };
    assert_eq!(outcome.to_string(), "identical: 10 packets, 2 drops, 1 marks");
}

#[test]
fn a_log_taken_apart_and_put_together_is_the_same_file() {
    for run in SCENARIOS {
        let log = run.log();
        assert_eq!(parts(&log).log(), log, "{}", run.name);
    }
}

#[test]
fn a_packet_costs_at_most_24_bytes() {
    let runs = [
        scenario("one way", "rate=20mbit delay=30ms", "rate=20mbit delay=30ms", &[], 600_000),
        scenario(
            "spread",
            "rate=20mbit delay=30ms jitter=9ms",
            "delay=9ms jitter=9ms",
            &[],
            450_000,
        ),
        scenario("drops", "rate=9mbit limit=20p loss=1%", "rate=10mbit limit=20p", &[], 600_000),
    ];
    for run in runs {
        let run = Scenario { packets: 20_000, ..run };
        let tenths = run.log().len() as u64 * 10 / (2 * run.packets);
        println!("{}: {}.{} bytes per packet", run.name, tenths / 10, tenths % 10);
        assert!(tenths <= 240, "{}: {tenths} tenths of a byte", run.name);
    }
}

#[test]
fn the_header_keeps_every_parameter() {
    let text = "rate=20mbit framing=38 overhead=-4 burst=9k peakrate=40mbit nic=1gbit delay=3ms \
                jitter=2ms loss=1% loss.at=before limit=70ms gso=split";
    let impaired = "delay=3ms jitter=2ms,10% distribution=table:0001ffff reorder=1%,2%,gap=3 \
                    slot=normal,1ms,1us,packets=3 loss=state,1%,2%,3%,4%,5% duplicate=1%,2% ecn=on";
    for text in [text, impaired, "", "rate=0 limit=5p gso=keep", "rate=1mbit limit=9k"] {
        let config = LinkConfig::parse(text, "test").unwrap();
        let run = Scenario { packets: 1, ..SCENARIOS[0] };
        let mut parts = parts(&run.log());
        parts.header.up.link = (&config).into();
        let log = parts.log();
        let reader = LogReader::new(&log[..]).unwrap();
        assert_eq!(LinkConfig::try_from(&reader.header().up.link).unwrap(), config, "{text}");
    }
}

#[test]
fn the_thread_writes_what_the_senders_were_told() {
    let run = SCENARIOS[10];
    let path = std::env::temp_dir().join(format!("punctual-log-{}", std::process::id()));
    let (writer, senders) = LogWriter::create(&path, &run.header(), LogWriter::RING).unwrap();
    let mut told = Vec::new();
    crate::run::send(&run, crate::run::single(senders), &mut told);
    let summary = writer.finish().unwrap();
    let log = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(summary.complete && summary.error.is_none(), "{summary:?}");
    assert_eq!(summary.bytes, log.len() as u64);
    let mut reader = LogReader::new(&log[..]).unwrap();
    let mut read = [Vec::new(), Vec::new()];
    let ending = loop {
        match reader.read().unwrap() {
            Entry::Record(lane, record) => read[lane.direction.index()].push(record),
            Entry::End(ending) => break ending,
        }
    };
    assert!(matches!(ending, Ending::Trailer(trailer) if trailer.complete));
    for (direction, record) in told {
        assert_eq!(read[direction.index()].remove(0), record);
    }
    assert_eq!(read, [Vec::new(), Vec::new()]);
    assert_eq!(verify(LogReader::new(&log[..]).unwrap()).unwrap().code(), 0);
}

#[test]
fn the_command_ends_with_the_status_of_what_it_found() {
    let path = std::env::temp_dir().join(format!("punctual-verify-{}", std::process::id()));
    let log = SCENARIOS[0].log();
    for (contents, status) in [(&log[..], 0), (&log[..log.len() - 1], 1), (&log[1..], 2)] {
        std::fs::write(&path, contents).unwrap();
        for json in [false, true] {
            assert_eq!(run(&path, json).unwrap(), status);
        }
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(run(&path, true).unwrap(), 2);
}
