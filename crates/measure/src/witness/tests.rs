use super::*;

const OFFSET: i64 = 1_700_000_000_000_000_000;
const DELAY: u64 = 10_000_000;
const BARE: u64 = 30_000;

/// What a faithful driver and its observers note of 200 probes, of which number 50 is dropped.
#[derive(Clone)]
struct Notes {
    sent: Vec<Sent>,
    before: Vec<Seen>,
    account: Vec<Account>,
    after: Vec<Seen>,
    received: Vec<Seen>,
    lost: [u64; 3],
    admitted: Admitted,
    until: Option<u64>,
}

impl Notes {
    fn faithful() -> Self {
        let (mut sent, mut before, mut account) = (Vec::new(), Vec::new(), Vec::new());
        let (mut after, mut received) = (Vec::new(), Vec::new());
        for seq in 0..200 {
            let sent_ns = 5_000_000_000 + seq * 20_000_000;
            let arrival_ns = sent_ns + 14_000;
            let due_ns = arrival_ns + DELAY;
            let released_ns = due_ns + 7_000;
            sent.push(Sent { seq, sent_ns });
            before.push(seen(seq, sent_ns + 10_000));
            if seq == 50 {
                account.push(Account { seq, arrival_ns, fate: Fate::Dropped });
                continue;
            }
            let called_ns = due_ns + 500;
            let fate = Fate::Released { due_ns, called_ns, released_ns };
            account.push(Account { seq, arrival_ns, fate });
            after.push(seen(seq, released_ns - 2_000));
            received.push(seen(seq, released_ns + 8_000));
        }
        let (lost, admitted, until) = ([0; 3], Admitted::default(), None);
        Self { sent, before, account, after, received, lost, admitted, until }
    }

    fn compare(&self) -> Findings {
        let evidence = Evidence {
            sent: &self.sent,
            before: &self.before,
            account: &self.account,
            after: &self.after,
            received: &self.received,
            lost_by_observers: self.lost,
            admitted: self.admitted,
            observed_until_ns: self.until,
        };
        compare(&evidence, &Bounds::with_bare_path(BARE))
    }

    fn without(change: impl FnOnce(&mut Self)) -> Vec<Disagreement> {
        let mut notes = Self::faithful();
        change(&mut notes);
        notes.compare().disagreements
    }
}

fn seen(seq: u64, monotonic_ns: u64) -> Seen {
    Seen { seq, stamp_ns: OFFSET + monotonic_ns.cast_signed(), offset_ns: OFFSET }
}

fn count(stage: Stage, probes: u64, first_seq: u64) -> Vec<Disagreement> {
    vec![Disagreement::Count { stage, probes, first_seq }]
}

#[test]
fn a_faithful_account_is_agreed_with() {
    let findings = Notes::faithful().compare();
    assert_eq!(findings.disagreements, []);
    let expected = Counts {
        sent: 200,
        before: 200,
        arrived: 200,
        departed: 199,
        dropped: 1,
        after: 199,
        received: 199,
        ..Counts::default()
    };
    assert_eq!(findings.counts, expected);
    assert_eq!(findings.arrival_error.p50_ns, Some(-4_000));
    assert_eq!(findings.release_error.p50_ns, Some(0));
    assert_eq!(findings.departure_error.p50_ns, Some(5_000));
    assert_eq!(findings.one_way_delay.p50_ns, Some(10_029_000));
    assert_eq!(findings.path_beyond_account.p50_ns, Some(22_000));
    let section = findings.section();
    assert!(section.ok);
    assert_eq!((section.sent, section.received, section.lost_unexplained), (200, 199, 0));
    assert_eq!(section.arrival_error, findings.arrival_error);
}

#[test]
fn departures_shifted_by_100_us_behind_the_accounts_back_are_found() {
    let disagreements = Notes::without(|notes| {
        for probe in notes.after.iter_mut().chain(&mut notes.received) {
            probe.stamp_ns += 100_000;
        }
    });
    let median =
        |difference, p50_ns, bound_ns| Disagreement::Median { difference, p50_ns, bound_ns };
    assert_eq!(
        disagreements,
        [median(Difference::Departure, 98_000, 20_000), median(Difference::Path, 122_000, 70_000),]
    );
    let text = disagreements[0].to_string();
    assert!(text.starts_with("capture after the gate minus driver's release: 98000 ns"), "{text}");
}

#[test]
fn departures_earlier_than_the_account_says_are_found() {
    let disagreements = Notes::without(|notes| {
        notes.after.iter_mut().for_each(|probe| probe.stamp_ns -= 50_000);
    });
    let (difference, p50_ns, bound_ns) = (Difference::Departure, -45_500, 20_000);
    assert_eq!(disagreements, [Disagreement::Median { difference, p50_ns, bound_ns }]);
}

#[test]
fn arrivals_stamped_late_are_found() {
    let disagreements = Notes::without(|notes| {
        notes.account.iter_mut().for_each(|account| account.arrival_ns += 40_000);
    });
    let (difference, p50_ns, bound_ns) = (Difference::Arrival, -44_000, 20_000);
    assert_eq!(disagreements, [Disagreement::Median { difference, p50_ns, bound_ns }]);
}

#[test]
fn a_probe_lost_at_any_stage_is_found_there() {
    let lost = Notes::without(|notes| {
        notes.before.remove(7);
        notes.account.remove(7);
        notes.after.remove(7);
        notes.received.remove(7);
    });
    assert_eq!(lost, count(Stage::SenderToGate, 1, 7));
    let lost = Notes::without(|notes| {
        notes.account.remove(7);
        notes.after.remove(7);
        notes.received.remove(7);
    });
    assert_eq!(lost, count(Stage::GateToAccount, 1, 7));
    let lost = Notes::without(|notes| {
        notes.after.remove(7);
        notes.received.remove(7);
    });
    assert_eq!(lost, count(Stage::AccountToGate, 1, 7));
    let lost = Notes::without(|notes| drop(notes.received.drain(7..9)));
    assert_eq!(lost, count(Stage::GateToReceiver, 2, 7));
    let text = lost[0].to_string();
    assert_eq!(
        text,
        "2 probes differ between the capture after the gate and the receiver, the first is number 7"
    );
}

#[test]
fn a_probe_called_dropped_that_left_all_the_same_is_found() {
    let disagreements = Notes::without(|notes| {
        notes.after.push(seen(50, 6_010_000_000));
        notes.received.push(seen(50, 6_010_010_000));
    });
    assert_eq!(disagreements, count(Stage::AccountToGate, 1, 50));
}

#[test]
fn a_lost_probe_is_unexplained_and_a_dropped_one_is_not() {
    let mut notes = Notes::faithful();
    notes.received.remove(7);
    assert_eq!(notes.compare().counts.lost_unexplained, 1);
}

#[test]
fn a_duplicate_in_the_account_is_expected_behind_the_gate() {
    let mut notes = Notes::faithful();
    notes.account.push(notes.account[3]);
    assert_eq!(notes.compare().disagreements, count(Stage::AccountToGate, 1, 3));
    notes.after.push(notes.after[3]);
    notes.received.push(notes.received[3]);
    let findings = notes.compare();
    assert_eq!(findings.disagreements, []);
    assert_eq!((findings.counts.duplicated, findings.counts.reordered), (1, 0));
}

#[test]
fn reordered_probes_are_counted_and_no_disagreement() {
    let mut notes = Notes::faithful();
    notes.received.swap(10, 11);
    let findings = notes.compare();
    assert_eq!((findings.counts.reordered, findings.disagreements), (1, vec![]));
}

#[test]
fn a_step_of_the_real_time_clock_is_no_disagreement() {
    const HOUR: i64 = 3_600_000_000_000;
    let mut notes = Notes::faithful();
    let unstepped = notes.compare();
    for list in [&mut notes.before, &mut notes.after, &mut notes.received] {
        for probe in list.iter_mut().skip(100) {
            probe.stamp_ns -= HOUR;
            probe.offset_ns -= HOUR;
        }
    }
    assert_eq!(notes.compare(), unstepped);
}

#[test]
fn observers_that_lost_probes_prove_nothing() {
    let mut notes = Notes::faithful();
    notes.lost = [0, 2, 1];
    // Seen by the receiver though not by the capture, and the other way round.
    drop(notes.after.drain(7..9));
    notes.received.remove(20);
    let findings = notes.compare();
    assert_eq!(findings.disagreements, []);
    assert_eq!(findings.untold, [Untold::ObserversLost { probes: 3 }]);
    assert!(!findings.agrees());
    notes.after.remove(30);
    let disagreements = notes.compare().disagreements;
    assert_eq!(disagreements[..1], count(Stage::AccountToGate, 3, 7), "one more than they lost");
}

#[test]
fn no_evidence_is_no_agreement_and_no_contradiction() {
    let findings = compare(&Evidence::default(), &Bounds::with_bare_path(BARE));
    assert_eq!((findings.disagreements.len(), findings.untold.len()), (0, 3));
    let section = findings.section();
    assert!(!findings.agrees() && !section.ok);
    assert!(section.untold[1].ends_with("not one probe has both"), "{:?}", section.untold);
}

#[test]
fn probes_still_held_at_the_end_are_explained() {
    let mut notes = Notes::faithful();
    for account in &mut notes.account[150..] {
        account.fate = Fate::Held;
    }
    // Number 50 was dropped: what lies behind it in these lists has one number more.
    notes.after.truncate(149);
    notes.received.truncate(149);
    let findings = notes.compare();
    assert_eq!((findings.disagreements, findings.untold), (vec![], vec![]));
    assert_eq!((findings.counts.received, findings.counts.lost_unexplained), (149, 0));
    notes.after.push(seen(199, 9_000_000_000));
    let disagreements = notes.compare().disagreements;
    assert_eq!(disagreements[..1], count(Stage::AccountToGate, 1, 199), "held, and yet it left");
}

#[test]
fn where_nothing_arrives_the_witness_cannot_tell() {
    let mut notes = Notes::faithful();
    notes.after.clear();
    notes.received.clear();
    for fate in [Fate::Held, Fate::Dropped] {
        notes.account.iter_mut().for_each(|account| account.fate = fate);
        let findings = notes.compare();
        assert_eq!(findings.disagreements, []);
        assert_eq!(findings.untold.len(), 2, "departure and path: {:?}", findings.untold);
        assert_eq!(findings.counts.lost_unexplained, 0);
    }
}

#[test]
fn what_left_after_the_observers_had_gone_need_not_have_been_seen() {
    let mut notes = Notes::faithful();
    // Number 190 is released at 8.81 s.
    notes.until = Some(8_800_000_000);
    notes.after.truncate(192);
    notes.received.truncate(190);
    let findings = notes.compare();
    assert_eq!(findings.disagreements, []);
    assert_eq!(findings.counts.lost_unexplained, 0);
    notes.after.truncate(180);
    notes.received.truncate(180);
    assert_eq!(notes.compare().disagreements, count(Stage::AccountToGate, 6, 181));
}

#[test]
fn losses_that_the_report_admits_are_no_contradiction() {
    let mut notes = Notes::faithful();
    drop(notes.account.drain(10..13));
    drop(notes.after.drain(10..14));
    drop(notes.received.drain(10..15));
    let found: Vec<_> = notes.compare().disagreements;
    assert_eq!(found.len(), 3, "{found:?}");
    notes.admitted =
        Admitted { before_gate: 0, before_account: 3, after_account: 1, behind_gate: 1 };
    let findings = notes.compare();
    assert_eq!(findings.disagreements, []);
    assert_eq!(findings.counts.lost_unexplained, 0);
    // More than admitted.
    notes.account.retain(|account| account.seq != 20);
    notes.after.retain(|probe| probe.seq != 20);
    notes.received.retain(|probe| probe.seq != 20);
    assert_eq!(notes.compare().disagreements, count(Stage::GateToAccount, 4, 10));
}
