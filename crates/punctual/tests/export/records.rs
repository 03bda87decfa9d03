//! Records of jens made again: those that the run would have recorded.

use std::collections::HashMap;

use punctual::export::{ExportError, Format, Request, addresses};
use punctual::log::{Direction, LogReader, Record};
use punctual::verify::{Outcome, verify};
use punctual_sched::{FlowKey, Instant, Link, LinkConfig};

use crate::made::{exported, request};
use crate::rewrite::parts;
use crate::run::{START, Scenario, scenario};

const RUN: Scenario = scenario(
    "jens",
    "rate=20mbit queue=jens jens.markfree=1ms jens.markfull=4ms limit=60p delay=2ms \
     jens.handover=200ms,50ms,400ms,700ms",
    "rate=20mbit",
    &[(300, "rate=10mbit"), (700, "rate=30mbit limit=5p"), (800, "rate=0"), (820, "rate=20mbit")],
    450_000,
);

/// What the run's own recorder has: fed with the same, read at the end.
fn recorded(scenario: &Scenario, user: usize) -> Vec<u8> {
    let config = format!("{} jens.subbufs=4096", scenario.up);
    let config = LinkConfig::parse(&config, "test").unwrap();
    let mut link = Link::new(&config, 7, START).unwrap();
    let (mut flows, mut arrivals) = (HashMap::new(), 0);
    let ends = scenario.drive(&mut |direction, record| match record {
        Record::Arrival(arrival) if direction == Direction::Up => {
            arrivals += 1;
            flows.insert(arrivals, arrival.flow);
            link.arrive(arrival.packet(arrivals));
        }
        Record::Change { at, change } if direction == Direction::Up => {
            link.change(&change, at).unwrap();
        }
        _ => {}
    });
    link.advance(Instant::from_nanos(ends[0].end.as_ref().unwrap().end_ns));
    let ends = |handle| {
        let (source, destination) = addresses(flows[&handle]);
        let addresses = Some((source.into(), destination.into()));
        Some(FlowKey { addresses, protocol: 253, ..FlowKey::default() })
    };
    let mut bytes = Vec::new();
    let recorder = link.jens_mut().unwrap().recorders().nth(user).unwrap();
    recorder.flush();
    while recorder.read(&mut bytes, 0, ends) {}
    assert_eq!(recorder.overwritten(), 0);
    bytes
}

fn kinds(bytes: &[u8]) -> HashMap<u8, u64> {
    let mut kinds = HashMap::new();
    for record in bytes.chunks_exact(64) {
        *kinds.entry(record[8]).or_insert(0) += 1;
    }
    kinds
}

#[test]
fn the_records_of_a_run_are_made_again_byte_by_byte() {
    let log = RUN.log();
    assert!(matches!(verify(LogReader::new(&*log).unwrap()), Ok(Outcome::Identical { .. })));
    let (bytes, summary) = exported(&log, &request(Format::Jens)).unwrap();
    assert!(bytes == recorded(&RUN, 0), "the records differ");
    let kinds = kinds(&bytes);
    // Every packet, the size of the queue now and then, and what fills the sub-buffers.
    assert_eq!(kinds[&9], 2000);
    assert!(kinds[&6] > 4 && kinds.contains_key(&4), "{kinds:?}");
    assert_eq!(summary.rows, kinds[&9] + kinds[&6]);
    // Drops by age, drops at the limit, marks and sojourns all come about.
    let flags = |mask: u8| bytes.chunks_exact(64).filter(|r| r[8] == 9 && r[9] & mask != 0).count();
    assert!(flags(1 << 7) > 50 && flags(1 << 6) > 50, "{} {}", flags(1 << 7), flags(1 << 6));
}

#[test]
fn each_user_of_several_has_records_of_its_own() {
    let run = Scenario {
        up: "rate=20mbit queue=jens jens.users=2 jens.user=dscp limit=60p",
        ..scenario("users", "", "", &[], 450_000)
    };
    let log = run.log();
    let both = [0, 1].map(|user| {
        let request = Request { user: Some(user), ..request(Format::Jens) };
        exported(&log, &request).unwrap().0
    });
    assert!(both[0] == recorded(&run, 0) && both[1] == recorded(&run, 1));
    for (user, expected) in [
        (None, "each of its 2 users has records of its own: --user 0 to 1"),
        (Some(2), "there is no user 2: jens.users is 2, and they count from 0"),
    ] {
        let refused = exported(&log, &Request { user, ..request(Format::Jens) });
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }
}

#[test]
fn other_queues_have_no_such_records() {
    let run = scenario("none", "rate=20mbit queue=fq", "", &[], 450_000);
    let error = exported(&run.log(), &request(Format::Jens)).unwrap_err().to_string();
    assert!(error.contains("the queue of direction up is fq: export csv"), "{error}");
    let down = Request { direction: Some(Direction::Down), ..request(Format::Jens) };
    let error = exported(&RUN.log(), &down).unwrap_err().to_string();
    assert!(error.contains("the queue of direction down is fifo"), "{error}");
    let both = Scenario { down: RUN.up, ..RUN };
    let error = exported(&both.log(), &request(Format::Jens)).unwrap_err().to_string();
    assert!(error.ends_with("--direction up or down"), "{error}");
}

#[test]
fn a_log_that_does_not_replay_gives_no_records() {
    let mut parts = parts(&RUN.log());
    let arrivals = parts.positions(|record| matches!(record, Record::Arrival(_)));
    let Record::Arrival(arrival) = &mut parts.records[arrivals[100]].1 else { panic!() };
    arrival.len += 1;
    let refused = exported(&parts.log(), &request(Format::Jens));
    let Err(ExportError::Refused(text)) = refused else { panic!("{refused:?}") };
    assert!(text.contains("different: direction up, packet"), "{text}");
}

/// The records, without what fills sub-buffers.
fn told(log: &[u8]) -> Vec<Vec<u8>> {
    let bytes = exported(log, &request(Format::Jens)).unwrap().0;
    let records = bytes.chunks_exact(64).filter(|record| record[8] != 4);
    records.map(<[u8]>::to_vec).collect()
}

#[test]
fn records_end_where_another_queue_takes_over() {
    const JENS: Scenario = scenario("jens", "rate=20mbit queue=jens limit=60p", "", &[], 450_000);
    const ELSE: Scenario = Scenario { changes: &[(400, "queue=fifo")], ..JENS };
    let (all, until) = (told(&JENS.log()), told(&ELSE.log()));
    assert!(until.len() > 200 && until.len() < all.len() / 2, "{}", until.len());
    assert!(all.starts_with(&until));
}

#[test]
fn a_log_that_was_cut_off_gives_the_records_up_to_there() {
    let log = Scenario { packets: 10_000, ..RUN }.log();
    let (whole, cut) = (told(&log), told(&log[..log.len() / 2]));
    assert!(cut.len() > 200 && whole.starts_with(&cut), "{} of {}", cut.len(), whole.len());
}
