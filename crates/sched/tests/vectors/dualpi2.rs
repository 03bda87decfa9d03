//! `dualpi2` below a bucket of 10 Mbit/s.

use punctual_sched::queue::{Discipline, Queue, Statistics};
use punctual_sched::{Instant, LinkConfig};

use crate::compare::{TOLERANCE, exactly};
use crate::device::{Run, Tbf, below_tbf};
use crate::distribution::by_distribution;
use crate::file::Vector;

#[test]
fn the_step_marks_the_packets_that_the_kernel_marked() {
    for (name, options) in
        [("dualpi2-step", ""), ("dualpi2-step-packets", "dualpi2.step_thresh=5p")]
    {
        let vector = Vector::read(name);
        let mut queue = queue(options, 1);
        let run = run(&mut queue, &vector);
        exactly(&vector, &run, TOLERANCE);
        assert_eq!(text_at_the_end(&queue, &vector), printed(&vector), "{name}");
    }
}

#[test]
fn coupled_and_classic_signals_are_distributed_as_the_kernels() {
    for name in ["dualpi2-classic", "dualpi2-l4s"] {
        let vector = Vector::read(name);
        by_distribution(&vector, |seed| run(&mut queue("", seed), &vector));
    }
}

/// The counters too, and the marks by the coupled probability apart from those by the step, which
/// the kernel counts once more.
#[test]
fn counters_are_distributed_as_the_kernels() {
    for name in ["dualpi2-classic", "dualpi2-l4s"] {
        let vector = Vector::read(name);
        let theirs = ["ecn_mark", "step_mark", "maxq"].map(|word| vector.counter(word));
        let mut ours: Vec<Vec<u64>> = vec![Vec::new(); 3];
        for seed in 0..1_000 {
            let mut queue = queue("", seed);
            run(&mut queue, &vector);
            let Statistics::Dualpi2(statistics) = queue.statistics() else {
                panic!("another discipline")
            };
            let counters = [statistics.ecn_mark, statistics.step_marks, statistics.maxq];
            ours.iter_mut().zip(counters).for_each(|(all, counter)| all.push(counter));
        }
        for (all, kernel) in ours.iter_mut().zip(theirs) {
            all.sort_unstable();
            let (low, high) = (all[5], all[994]);
            assert!((low..=high).contains(&kernel), "{name}: {kernel} is not {low} to {high}");
        }
    }
}

fn queue(options: &str, seed: u64) -> Queue {
    let config = LinkConfig::parse(&format!("queue=dualpi2 {options}"), "test").unwrap();
    Queue::new(&config, seed, Instant::ZERO).unwrap()
}

fn run(queue: &mut Queue, vector: &Vector) -> Run {
    below_tbf(queue, Tbf::new(10_000_000, 3_028), &vector.rows)
}

/// What the discipline says three seconds after the last packet.
fn text_at_the_end(queue: &Queue, vector: &Vector) -> Vec<String> {
    let last = vector.rows.iter().filter_map(|row| row.left).max().unwrap();
    let Statistics::Dualpi2(statistics) =
        queue.statistics_at(Instant::from_nanos(last + 3_000_000_000))
    else {
        panic!("another discipline")
    };
    statistics.to_string().lines().map(str::to_owned).collect()
}

/// What `tc` printed of it.
fn printed(vector: &Vector) -> Vec<String> {
    let lines = vector.after.iter().map(|line| line.trim().to_owned());
    lines.skip_while(|line| !line.starts_with("prob ")).collect()
}
