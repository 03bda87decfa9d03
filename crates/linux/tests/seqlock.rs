//! The sequence lock of the control block in every order that the memory model permits (loom).

/// What the lock is built from, here as loom models it.
mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}
#[path = "../src/control/seqlock.rs"]
mod seqlock;

use loom::sync::Arc;
use loom::thread;

use atomic::AtomicU64;
use seqlock::Seqlock;

#[test]
fn a_reader_sees_all_values_of_one_writer_or_none() {
    loom::model(|| {
        let shared = Shared::new();
        let writer = shared.writes(1);
        check_in_turn(shared.lock().read());
        writer.join().unwrap();
        assert_eq!(shared.lock().read(), Some((2, [1, 1])));
    });
}

#[test]
fn a_reader_sees_one_of_two_sets_written_one_after_the_other() {
    loom::model(|| {
        let shared = Shared::new();
        let other = shared.clone();
        let writer = thread::spawn(move || {
            assert!(write(other.lock().begin().unwrap(), 1));
            assert!(write(other.lock().begin().unwrap(), 2));
        });
        check_in_turn(shared.lock().read());
        writer.join().unwrap();
        assert_eq!(shared.lock().read(), Some((4, [2, 2])));
    });
}

/// With at most three preemptions: all orders of three threads take twenty seconds.
#[test]
fn of_two_writers_at_once_one_gives_way_and_no_set_is_mixed() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Shared::new();
        let others: Vec<_> = [1, 2].map(|value| shared.writes(value)).into();
        check(shared.lock().read::<2>(), &[0, 1, 2]);
        let written = others.into_iter().map(|other| other.join().unwrap());
        let written: u64 = written.map(u64::from).sum();
        assert!(written >= 1);
        let (generation, [one, two]) = shared.lock().read().unwrap();
        assert_eq!((generation, one), (2 * written, two));
    });
}

#[test]
fn what_a_dead_writer_left_is_never_read_and_the_next_one_repairs_it() {
    loom::model(|| {
        let shared = Shared::new();
        let other = shared.clone();
        let dying = thread::spawn(move || other.lock().begin().unwrap().store(0, 9));
        check(shared.lock().read::<2>(), &[0]);
        dying.join().unwrap();
        assert_eq!(shared.lock().read::<2>(), None);
        let stuck = shared.lock().begin().unwrap_err();
        let repairing = shared.repairs(stuck);
        check(shared.lock().read::<2>(), &[3]);
        assert!(repairing.join().unwrap());
        assert_eq!(shared.lock().read(), Some((4, [3, 3])));
    });
}

#[test]
fn one_of_two_writers_repairs() {
    loom::model(|| {
        let shared = Shared::new();
        let _ = shared.lock().begin().unwrap();
        let repairing = [shared.repairs(1), shared.repairs(1)];
        let repaired = repairing.map(|repairing| u8::from(repairing.join().unwrap()));
        assert_eq!(repaired.iter().sum::<u8>(), 1);
        assert_eq!(shared.lock().read(), Some((4, [3, 3])));
    });
}

#[test]
fn a_writer_that_was_taken_for_dead_publishes_nothing() {
    loom::model(|| {
        let shared = Shared::new();
        let slow = shared.lock().begin().unwrap();
        assert!(write(shared.lock().take_over(1).unwrap(), 3));
        assert!(!slow.publish());
        assert_eq!(shared.lock().read(), Some((4, [3, 3])));
    });
}

#[derive(Clone)]
struct Shared(Arc<(AtomicU64, [AtomicU64; 2])>);

impl Shared {
    fn new() -> Self {
        Self(Arc::new((AtomicU64::new(0), [AtomicU64::new(0), AtomicU64::new(0)])))
    }

    fn lock(&self) -> Seqlock<'_> {
        Seqlock::new(&self.0.0, &self.0.1)
    }

    /// Writes if nobody else does.
    fn writes(&self, value: u64) -> thread::JoinHandle<bool> {
        let shared = self.clone();
        thread::spawn(move || shared.lock().begin().is_ok_and(|writing| write(writing, value)))
    }

    fn repairs(&self, stuck: u64) -> thread::JoinHandle<bool> {
        let shared = self.clone();
        thread::spawn(move || shared.lock().take_over(stuck).is_ok_and(|writing| write(writing, 3)))
    }
}

fn write(writing: seqlock::Writing<'_>, value: u64) -> bool {
    (0..2).for_each(|index| writing.store(index, value));
    writing.publish()
}

/// Nothing, or the values of the writer who wrote this generation.
fn check_in_turn(seen: Option<(u64, [u64; 2])>) {
    if let Some((generation, values)) = seen {
        assert_eq!(values, [generation / 2; 2]);
    }
}

/// Nothing, or one writer's values.
fn check(seen: Option<(u64, [u64; 2])>, values: &[u64]) {
    if let Some((generation, [one, two])) = seen {
        assert!(generation % 2 == 0 && one == two && values.contains(&one), "{one} and {two}");
    }
}
