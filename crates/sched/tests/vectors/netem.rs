//! netem with its seed.

use punctual_sched::netem::{Netem, NetemChance, NetemConfig, NetemLoss};
use punctual_sched::queue::{Discipline, Queue};
use punctual_sched::{Duration, Instant, Probability};

use crate::compare::{TOLERANCE, exactly};
use crate::device::{Run, root};
use crate::file::Vector;

fn run(vector: &Vector, config: &NetemConfig, seed: u64) -> (Run, Queue) {
    let mut queue = Queue::Netem(Box::new(Netem::new(config, seed, Instant::ZERO).unwrap()));
    (root(&mut queue, &vector.rows), queue)
}

fn p(percent: &str) -> u32 {
    percent.parse::<Probability>().unwrap().as_raw()
}

fn c(percent: &str) -> NetemChance {
    NetemChance { probability: p(percent), correlation: 0 }
}

fn seeded() -> NetemConfig {
    NetemConfig { seed: Some(42), ..NetemConfig::default() }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn try_all() {
    let d = NetemConfig::default();
    for (name, config) in [
        (
            "netem-all",
            NetemConfig {
                latency: ms(5),
                jitter: 1_000_000,
                loss: NetemLoss::Random(c("3%")),
                duplicate: c("2%"),
                reorder: c("10%"),
                gap: 1,
                rate: 2_500_000,
                ..seeded()
            },
        ),
        ("netem-delay", NetemConfig { latency: ms(10), ..d.clone() }),
        ("netem-delayrate", NetemConfig { latency: ms(5), rate: 1_250_000, ..d.clone() }),
        ("netem-duplicate", NetemConfig { duplicate: c("10%"), ..seeded() }),
        (
            "netem-gemodel",
            NetemConfig {
                loss: NetemLoss::GilbertElliott {
                    p: p("2%"),
                    r: p("20%"),
                    h: u32::MAX - p("70%"),
                    one_minus_k: p("0.5%"),
                },
                ..seeded()
            },
        ),
        ("netem-jitter", NetemConfig { latency: ms(10), jitter: 2_000_000, ..seeded() }),
        ("netem-limit", NetemConfig { latency: ms(20), limit: 100, ..d.clone() }),
        ("netem-loss", NetemConfig { loss: NetemLoss::Random(c("10%")), ..seeded() }),
        ("netem-rate", NetemConfig { rate: 1_250_000, ..d.clone() }),
        (
            "netem-ratecell",
            NetemConfig {
                rate: 125_000,
                packet_overhead: 20,
                cell_size: 48,
                cell_overhead: 5,
                ..d.clone()
            },
        ),
        (
            "netem-reorder-gap",
            NetemConfig { latency: ms(10), reorder: c("100%"), gap: 5, ..d.clone() },
        ),
        ("netem-reorder", NetemConfig { latency: ms(10), reorder: c("25%"), gap: 1, ..seeded() }),
        (
            "netem-state",
            NetemConfig {
                loss: NetemLoss::FourState {
                    p13: p("3%"),
                    p31: p("30%"),
                    p32: p("50%"),
                    p23: p("50%"),
                    p14: p("1%"),
                },
                ..seeded()
            },
        ),
    ] {
        let vector = Vector::read(name);
        let (run, queue) = run(&vector, &config, 1);
        exactly(&vector, &run, TOLERANCE);
        let theirs = vector.after.last().unwrap();
        assert_eq!(&queue.statistics().to_string(), theirs, "{name}");
    }
}
